//! What goes wrong with a store and its directory, each a typed error that says what and where.

mod support;

use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use keygroup::GroupCount;
use state_codec::{KeyedState, Snapshot, SnapshotView, StateBackend};
use state_rocks::{Operation, RocksBackend, RocksError};
use support::{Bytes, count, groups, key, open, resolve, store};

/// Where the test that opens a store twice tells its second process the directory.
const DIR_OF_SECOND_PROCESS: &str = "STATE_ROCKS_TEST_DIR";

fn raw(dir: &Path) -> rocksdb::DB {
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    rocksdb::DB::open(&options, dir.join("store")).unwrap()
}

#[test]
fn a_store_that_is_open_is_not_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path()).unwrap();
    let again = open(dir.path()).unwrap_err();
    assert!(matches!(again, RocksError::OpenAlready { .. }), "{again:?}");
    assert_eq!(
        again.to_string(),
        format!(
            "the store in {}/store is open already",
            dir.path().display()
        )
    );
    assert!(again.source().is_some());
    store(&mut state, [1], 1); // the first goes on
    assert_eq!(count(&mut state).unwrap(), 1);
    drop(state);
    assert_eq!(count(&mut open(dir.path()).unwrap()).unwrap(), 1);
}

#[test]
fn a_store_that_another_process_has_open_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let _state = open(dir.path()).unwrap();
    let second = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "the_second_process"])
        .env(DIR_OF_SECOND_PROCESS, dir.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&second.stdout);
    assert!(second.status.success(), "{output}");
    assert!(output.contains("1 passed"), "{output}");
}

#[test]
#[ignore = "is run by a_store_that_another_process_has_open_is_not_opened"]
fn the_second_process() {
    let dir = PathBuf::from(std::env::var_os(DIR_OF_SECOND_PROCESS).unwrap());
    let refused = open(&dir).unwrap_err();
    assert!(
        matches!(refused, RocksError::OpenAlready { .. }),
        "{refused:?}"
    );
}

#[test]
fn one_directory_by_two_names_is_one_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path()).unwrap();
    fs::create_dir(dir.path().join("x")).unwrap();
    let link = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(dir.path(), link.path().join("link")).unwrap();
    for other_name in [dir.path().join("x/.."), link.path().join("link")] {
        let refused = open(&other_name).unwrap_err();
        assert!(
            matches!(refused, RocksError::OpenAlready { .. }),
            "{refused:?}"
        );
    }
    store(&mut state, 0..10, 1);
    assert_eq!(count(&mut state).unwrap(), 10);
}

#[test]
fn a_name_that_is_no_directory_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let backend = RocksBackend::new(dir.path(), groups());
    let refused = backend.open("../store", Bytes).unwrap_err();
    assert!(
        matches!(refused, RocksError::InvalidName { .. }),
        "{refused:?}"
    );
    assert_eq!(
        refused.to_string(),
        r#""../store" is no name for a store: 1 to 128 ASCII letters, digits, '-' and '_' are"#
    );
    for name in ["", "ü", &"n".repeat(129)] {
        let refused = backend.open(name, Bytes).unwrap_err();
        assert!(
            matches!(&refused, RocksError::InvalidName { name: given } if given == name),
            "{refused:?}"
        );
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    backend.open(&"n".repeat(128), Bytes).unwrap();
}

#[test]
fn a_directory_that_cannot_be_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "no directory").unwrap();
    let refused = open(&file).unwrap_err();
    assert!(
        matches!(refused, RocksError::Directory { .. }),
        "{refused:?}"
    );
    assert_eq!(
        refused.to_string(),
        format!("cannot use {}/store", file.display())
    );
    assert!(refused.source().is_some());
}

#[test]
fn a_directory_that_rocksdb_cannot_open_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    fs::write(dir.path().join("store/CURRENT"), "MANIFEST-999999\n").unwrap();
    let refused = open(dir.path()).unwrap_err();
    let RocksError::Engine {
        operation, path, ..
    } = &refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(*operation, Operation::Open);
    assert_eq!(*path, dir.path().join("store"));
    assert!(refused.source().is_some());
}

#[test]
fn another_max_parallelism_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let other = RocksBackend::new(dir.path(), GroupCount::MAX);
    let refused = other.open("store", Bytes).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "the store in {}/store has 128 key groups, but 32768 were asked for",
            dir.path().display()
        )
    );
    drop(open(dir.path()).unwrap());
}

#[test]
fn a_database_of_something_else_is_refused_and_left_alone() {
    for key in [b"some".as_slice(), b"\xff\xffWEIRD", b"\xff\xff\xff\xff"] {
        let dir = tempfile::tempdir().unwrap();
        let db = raw(dir.path());
        db.put(key, b"thing").unwrap();
        drop(db);
        let refused = open(dir.path()).unwrap_err();
        assert!(
            matches!(refused, RocksError::NotAStore { .. }),
            "{refused:?}"
        );
        let db = raw(dir.path());
        assert_eq!(db.iterator(rocksdb::IteratorMode::Start).count(), 1);
    }
}

#[test]
fn a_layout_of_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = raw(dir.path());
    db.put(b"\xff\xffWEIR", b"WEIR\x02\x00\x80").unwrap();
    drop(db);
    let refused = open(dir.path()).unwrap_err();
    assert!(matches!(refused, RocksError::Layout { .. }), "{refused:?}");
    assert!(refused.source().is_some());
}

#[test]
fn a_value_that_cannot_be_decoded_is_named_by_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path()).unwrap();
    store(&mut state, [1, 42], 5);
    drop(state);
    let db = raw(dir.path());
    let in_db = [&[0, 69], &key(42)[..]].concat();
    assert!(db.get(&in_db).unwrap().is_some());
    db.put(&in_db, b"\xffnonsense").unwrap();
    drop(db);

    let mut state = open(dir.path()).unwrap();
    let expected = format!(
        "cannot decode the value of key 004500000000000000002a00000000000000 of the store in {}/store",
        dir.path().display()
    );
    let error = resolve(&mut state, [1, 42]).unwrap_err();
    assert!(matches!(error, RocksError::Decode { .. }), "{error:?}");
    assert_eq!(error.to_string(), expected);
    let scanned = count(&mut state).unwrap_err();
    assert!(matches!(scanned, RocksError::Decode { .. }), "{scanned:?}");

    // The batch left nothing behind, and other keys can be worked on.
    let slots = resolve(&mut state, [1]).unwrap();
    assert_eq!(state.get(slots[0]).map(Vec::len), Some(5));
    state.end_bundle().unwrap();
}

#[test]
fn a_key_without_a_group_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let groups = GroupCount::new(512).unwrap();
    let backend = RocksBackend::new(dir.path(), groups);
    drop(backend.open("store", Bytes).unwrap());
    let db = raw(dir.path());
    db.put([1], b"value").unwrap(); // between those of groups 255 and 256
    drop(db);
    let mut state = backend.open("store", Bytes).unwrap();
    let mut view = state.freeze().unwrap();
    let error = view
        .scan(groups.all(), &mut |_, _, _: &Vec<u8>| {
            ControlFlow::Continue(())
        })
        .unwrap_err();
    assert!(
        matches!(&error, RocksError::Key { key, .. } if key == &[1]),
        "{error:?}"
    );
}

#[test]
fn a_flipped_byte_in_a_file_is_an_error_and_not_a_short_scan() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path()).unwrap();
    store(&mut state, 0..1000, 100);
    drop(state); // writes the file
    let files: Vec<PathBuf> = fs::read_dir(dir.path().join("store"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .collect();
    let [file] = &files[..] else {
        panic!("one bundle makes one file: {files:?}");
    };
    let whole = fs::read(file).unwrap();

    let mut refused_by_scan = 0;
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        fs::write(file, &flipped).unwrap();
        let scanned = open(dir.path()).and_then(|mut state| count(&mut state));
        match scanned {
            // Not every byte of a file is read: some are statistics of it.
            Ok(entries) => assert_eq!(entries, 1000, "byte {at} of {}", whole.len()),
            Err(RocksError::Engine { operation, .. }) => {
                refused_by_scan += usize::from(operation == Operation::Scan);
            }
            Err(error) => panic!("byte {at}: {error:?}"),
        }
    }
    assert!(
        refused_by_scan > 10,
        "the blocks of values are most of the file"
    );

    // Reading the keys of a batch fails too, and leaves nothing behind.
    let mut flipped = whole.clone();
    flipped[100] ^= 0x10;
    fs::write(file, &flipped).unwrap();
    let mut state = open(dir.path()).unwrap();
    let error = resolve(&mut state, 0..1000).unwrap_err();
    assert!(
        matches!(
            error,
            RocksError::Engine {
                operation: Operation::Read,
                ..
            }
        ),
        "{error:?}"
    );
    state.abandon_bundle();
    drop(state);
    fs::write(file, &whole).unwrap();
    assert_eq!(count(&mut open(dir.path()).unwrap()).unwrap(), 1000);
}
