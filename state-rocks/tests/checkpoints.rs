//! Native checkpoints: what they share, what they survive, and what a restore makes of them.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use keygroup::{GroupCount, GroupRange, Parallelism, range_of};
use state_codec::checkpoint::{CheckpointDir, CheckpointError, CheckpointRef, NativeBackend};
use state_codec::{KeyedState, Snapshot, SnapshotView, StateBackend};
use state_rocks::{RocksBackend, RocksError, RocksOptions};
use support::{Bytes, State, count, groups, resolve, store};

const FINGERPRINT: &str = "bytes";

fn backend(dir: &Path) -> RocksBackend {
    let options = RocksOptions {
        write_buffer_bytes: 256 << 10,
        ..RocksOptions::default()
    };
    RocksBackend::new(dir, groups()).with_options(options)
}

fn open(backend: &RocksBackend, name: &str) -> State {
    backend.open(name, Bytes).unwrap()
}

fn save(backend: &RocksBackend, state: &mut State, dir: &CheckpointDir, id: u64) {
    let all = groups().all();
    let manifest = backend
        .checkpoint(state, dir, id, all, FINGERPRINT)
        .unwrap();
    assert_eq!((manifest.id, manifest.groups), (id, all));
}

fn part(dir: &Path, id: u64) -> CheckpointRef {
    let dir = dir.to_owned();
    CheckpointRef { dir, id }
}

fn entries(state: &mut State) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries = BTreeMap::new();
    let mut view = state.freeze().unwrap();
    view.scan(groups().all(), &mut |_, key, value: &Vec<u8>| {
        let before = entries.insert(key.to_vec(), value.clone());
        assert!(before.is_none(), "a key is there once");
        ControlFlow::Continue(())
    })
    .unwrap();
    entries
}

fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_restored_store_has_what_was_saved_and_not_what_came_after() {
    let temp = tempfile::tempdir().unwrap();
    let saved = temp.path().join("saved");
    let dir = CheckpointDir::open(&saved).unwrap();
    let backend = backend(&temp.path().join("stores"));
    let mut state = open(&backend, "a");
    store(&mut state, 0..1000, 100);
    let expected = entries(&mut state);
    save(&backend, &mut state, &dir, 1);
    store(&mut state, 500..2000, 50);
    drop(state);

    let all = groups().all();
    let parts = [part(&saved, 1)];
    backend.restore("b", &parts, all, FINGERPRINT).unwrap();
    let mut state = open(&backend, "b");
    assert_eq!(entries(&mut state), expected);
    store(&mut state, 3000..3010, 10); // and it goes on
    assert_eq!(count(&mut state).unwrap(), 1010);
    let again = backend.restore("b", &parts, all, FINGERPRINT).unwrap_err();
    assert!(matches!(again, RocksError::Exists { .. }), "{again:?}");
    let none: [CheckpointRef; 0] = [];
    backend.restore("c", &none, all, FINGERPRINT).unwrap();
    assert_eq!(count(&mut open(&backend, "c")).unwrap(), 0);
    assert_eq!(files(&temp.path().join("stores")), ["a", "b", "c"]);
}

#[test]
fn unchanged_files_are_named_again() {
    let temp = tempfile::tempdir().unwrap();
    let saved = temp.path().join("saved");
    let dir = CheckpointDir::open(&saved).unwrap();
    let backend = backend(&temp.path().join("stores"));
    let mut state = open(&backend, "a");
    store(&mut state, 0..1000, 100);
    save(&backend, &mut state, &dir, 1);
    store(&mut state, 100_000..100_010, 100);
    save(&backend, &mut state, &dir, 2);
    let tables = |id| -> BTreeMap<String, [u8; 32]> {
        let manifest = dir.manifest(id).unwrap();
        let files = manifest.files.into_iter();
        let tables = files.filter(|file| file.name.ends_with(".sst"));
        tables.map(|file| (file.name, file.sha256)).collect()
    };
    let (first, second) = (tables(1), tables(2));
    assert_eq!((first.len(), second.len()), (1, 2));
    assert!(
        first
            .iter()
            .all(|(name, sha256)| second.get(name) == Some(sha256))
    );

    // Each checkpoint can go without the other.
    let expected = entries(&mut state);
    drop(state);
    dir.discard(1).unwrap();
    let all = groups().all();
    backend
        .restore("b", &[part(&saved, 2)], all, FINGERPRINT)
        .unwrap();
    assert_eq!(entries(&mut open(&backend, "b")), expected);
    dir.discard(2).unwrap();
    assert_eq!(files(&saved.join("files")), [""; 0]);
}

#[test]
fn a_number_that_is_used_again_has_the_content_of_the_second_time() {
    let temp = tempfile::tempdir().unwrap();
    let saved = temp.path().join("saved");
    let dir = CheckpointDir::open(&saved).unwrap();
    let backend = backend(&temp.path().join("stores"));
    let all = groups().all();
    let mut state = open(&backend, "a");
    store(&mut state, 0..1000, 10);
    save(&backend, &mut state, &dir, 9);
    store(&mut state, 1000..2000, 10);
    save(&backend, &mut state, &dir, 10);
    drop(state);

    // The job fails and goes back to 9; other rows come, in files of the same names and sizes.
    backend
        .restore("b", &[part(&saved, 9)], all, FINGERPRINT)
        .unwrap();
    let mut state = open(&backend, "b");
    store(&mut state, 5000..6000, 10);
    let expected = entries(&mut state);
    save(&backend, &mut state, &dir, 10);
    drop(state);
    backend
        .restore("c", &[part(&saved, 10)], all, FINGERPRINT)
        .unwrap();
    assert_eq!(entries(&mut open(&backend, "c")), expected);
}

/// The checkpoints of some workers, and what each is about.
type Saved = Vec<(PathBuf, GroupRange)>;
/// Keys and values.
type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Stores of so many workers, made of those of others.
fn rescale(root: &Path, step: usize, from: &Saved, workers: u32) -> (Saved, u64, Entries) {
    let parallelism = Parallelism::new(workers).unwrap();
    let parts: Vec<CheckpointRef> = from.iter().map(|(dir, _)| part(dir, 1)).collect();
    let mut to = Vec::new();
    let mut all = BTreeMap::new();
    let mut table_bytes = 0;
    for worker in 0..workers {
        let range = range_of(worker, groups(), parallelism).unwrap();
        let backend = backend(&root.join(format!("{step}-{worker}")));
        backend
            .restore("store", &parts, range, FINGERPRINT)
            .unwrap();
        let mut state = open(&backend, "store");
        for (key, value) in entries(&mut state) {
            assert!(range.contains(keygroup::group_of(&key, groups())));
            assert!(all.insert(key, value).is_none(), "a key is at one worker");
        }
        let saved = root.join(format!("saved-{step}-{worker}"));
        let dir = CheckpointDir::open(&saved).unwrap();
        let manifest = backend
            .checkpoint(&mut state, &dir, 1, range, FINGERPRINT)
            .unwrap();
        let tables = manifest.files.iter();
        let tables = tables.filter(|file| file.name.ends_with(".sst"));
        table_bytes += tables.map(|file| file.bytes).sum::<u64>();
        to.push((saved, range));
    }
    (to, table_bytes, all)
}

#[test]
fn every_plan_of_workers_keeps_each_key_once_and_gives_disk_back() {
    for plan in [&[2, 1][..], &[3, 2, 4, 1], &[2, 3, 1]] {
        let temp = tempfile::tempdir().unwrap();
        let backend = backend(&temp.path().join("first"));
        let mut state = open(&backend, "store");
        for start in (0..10_000).step_by(1000) {
            store(&mut state, start..start + 1000, 60);
        }
        let expected = entries(&mut state);
        let saved = temp.path().join("saved");
        let dir = CheckpointDir::open(&saved).unwrap();
        save(&backend, &mut state, &dir, 1);
        state.compact().unwrap();
        let least = backend
            .checkpoint(&mut state, &dir, 2, groups().all(), FINGERPRINT)
            .unwrap();
        let least: u64 = least.files.iter().map(|file| file.bytes).sum();
        let mut from = vec![(saved, groups().all())];
        for (step, &workers) in plan.iter().enumerate() {
            let (to, table_bytes, all) = rescale(temp.path(), step, &from, workers);
            assert_eq!(all, expected, "{plan:?}, step {step}");
            assert!(
                table_bytes < least + least / 2 + u64::from(workers) * 2000,
                "{plan:?}, step {step}: {table_bytes} bytes of {least}"
            );
            from = to;
        }
    }
}

#[test]
fn checkpoints_that_do_not_fit_are_refused_before_a_store_is_made() {
    let temp = tempfile::tempdir().unwrap();
    let saved = temp.path().join("saved");
    let dir = CheckpointDir::open(&saved).unwrap();
    let stores = temp.path().join("stores");
    let backend = backend(&stores);
    let mut state = open(&backend, "a");
    store(&mut state, 0..100, 100);
    let all = groups().all();
    save(&backend, &mut state, &dir, 1);
    let half = GroupRange::new(0, 63).unwrap();
    backend
        .checkpoint(&mut state, &dir, 2, half, FINGERPRINT)
        .unwrap();
    drop(state);

    let refused = |parts: &[CheckpointRef], fingerprint: &str| {
        let error = backend.restore("b", parts, all, fingerprint).unwrap_err();
        assert_eq!(files(&stores), ["a"]);
        error
    };
    let checkpoint = |error: RocksError| match error {
        RocksError::Checkpoint(error) => *error,
        other => panic!("{other:?}"),
    };
    let whole = part(&saved, 1);
    let error = checkpoint(refused(from_ref(&whole), "other"));
    assert!(
        matches!(error, CheckpointError::Fingerprint { .. }),
        "{error:?}"
    );
    let error = checkpoint(refused(&[part(&saved, 3)], FINGERPRINT));
    assert!(
        matches!(error, CheckpointError::MissingManifest { .. }),
        "{error:?}"
    );
    let error = refused(&[whole.clone(), part(&saved, 2)], FINGERPRINT);
    assert!(matches!(error, RocksError::Cover(_)), "{error:?}");
    let error = refused(&[part(&saved, 2)], FINGERPRINT);
    assert!(matches!(error, RocksError::Cover(_)), "{error:?}");
    let other_count = RocksBackend::new(&stores, GroupCount::new(64).unwrap());
    let error = other_count
        .restore("b", from_ref(&whole), half, FINGERPRINT)
        .unwrap_err();
    let error = checkpoint(error);
    assert!(
        matches!(error, CheckpointError::GroupCount { .. }),
        "{error:?}"
    );

    let manifest = dir.manifest(1).unwrap();
    let table = manifest
        .files
        .iter()
        .find(|file| file.name.ends_with(".sst"))
        .unwrap();
    let path = table.path_in(&saved);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap(); // the store's own files are links to the same
    let mut flipped = bytes.clone();
    flipped[40] ^= 1;
    fs::write(&path, &flipped).unwrap();
    let error = checkpoint(refused(from_ref(&whole), FINGERPRINT));
    assert!(
        matches!(error, CheckpointError::Checksum { .. }),
        "{error:?}"
    );
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let error = checkpoint(refused(from_ref(&whole), FINGERPRINT));
    assert!(
        matches!(error, CheckpointError::Truncated { .. }),
        "{error:?}"
    );
    fs::remove_file(&path).unwrap();
    let error = checkpoint(refused(from_ref(&whole), FINGERPRINT));
    assert!(
        matches!(error, CheckpointError::MissingFile { .. }),
        "{error:?}"
    );
    fs::write(&path, &bytes).unwrap();
    backend.restore("b", &[whole], all, FINGERPRINT).unwrap();
    assert_eq!(count(&mut open(&backend, "b")).unwrap(), 100);
}

#[test]
fn what_a_killed_process_left_beside_a_store_goes_when_it_is_opened() {
    let temp = tempfile::tempdir().unwrap();
    let backend = backend(temp.path());
    let mut state = open(&backend, "a");
    store(&mut state, 0..10, 10);
    let view = state.freeze().unwrap();
    assert_eq!(files(temp.path()).len(), 2);
    std::mem::forget(view); // as a killed process does
    drop(state);
    for left in [
        ".a=checkpoint",
        ".a=restore",
        ".a=restore-part",
        ".ab=view1",
        ".other",
    ] {
        fs::create_dir(temp.path().join(left)).unwrap();
    }
    let mut state = open(&backend, "a");
    assert_eq!(files(temp.path()), [".ab=view1", ".other", "a"]);
    let slot = resolve(&mut state, [1]).unwrap()[0];
    assert_eq!(state.get(slot).map(Vec::len), Some(10));
}
