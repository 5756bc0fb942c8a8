//! Slices: entries by slice, group and key, held beside a sorted map, and what becomes of removed ones.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use keygroup::{GroupCount, GroupRange, KeyGroup, Parallelism, range_of};
use state_codec::checkpoint::{CheckpointDir, CheckpointRef, NativeSliceBackend};
use state_codec::{SliceBackend, SliceScan, SlicedState, StateBackend, StateCodec};
use state_rocks::{RocksBackend, RocksError, RocksOptions, RocksSlices};

type Model = BTreeMap<(i64, u16, Vec<u8>), Vec<u8>>;

fn groups() -> GroupCount {
    GroupCount::new(8).unwrap()
}

fn backend(dir: &Path) -> RocksBackend {
    let options = RocksOptions {
        write_buffer_bytes: 64 << 10,
        write_batch_bytes: 1 << 10,
        ..RocksOptions::default()
    };
    RocksBackend::new(dir, groups()).with_options(options)
}

fn open(backend: &RocksBackend, name: &str) -> RocksSlices {
    backend
        .open_slices(name)
        .unwrap()
        .expect("RocksDB keeps slices")
}

fn group(number: u16) -> KeyGroup {
    groups().group(number.into()).unwrap()
}

/// What a state or a view has of some groups.
fn scanned<E: std::fmt::Debug>(
    slices: &[i64],
    range: GroupRange,
    mut scan: impl FnMut(i64, GroupRange, state_codec::Visit<'_>) -> Result<(), E>,
) -> Model {
    let mut found = Model::new();
    for &slice in slices {
        scan(slice, range, &mut |group, row, value| {
            let key = (slice, group.get(), row.to_vec());
            assert!(
                found.last_key_value().is_none_or(|(last, _)| *last < key),
                "in order"
            );
            found.insert(key, value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    found
}

fn all_of(state: &mut RocksSlices) -> Model {
    let slices = state.slices().unwrap();
    scanned(&slices, groups().all(), |slice, range, visit| {
        state.scan(slice, range, visit)
    })
}

fn put(
    state: &mut RocksSlices,
    model: &mut Model,
    slice: i64,
    keys: std::ops::Range<u32>,
    value: u64,
) {
    let mut entries = Model::new();
    for key in keys {
        let row = format!("key {key}").into_bytes();
        let value = format!("{value} of {key}").into_bytes();
        entries.insert((slice, (key % 8) as u16, row), value);
    }
    for ((slice, of_group, row), value) in &entries {
        state.put(*slice, group(*of_group), row, value).unwrap();
    }
    state.flush().unwrap();
    model.extend(entries);
}

/// A generator of numbers, the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

#[test]
fn a_state_is_a_sorted_map_through_any_sequence_of_writes_removals_and_openings() {
    let dir = tempfile::tempdir().unwrap();
    let backend = backend(dir.path());
    let mut state = open(&backend, "slices");
    let mut model = Model::new();
    let mut draw = Draw(7);
    for step in 0..600 {
        let slice = draw.below(12) as i64 * 10 - 60;
        match draw.below(10) {
            0..=4 => {
                let first = draw.below(40) as u32;
                put(&mut state, &mut model, slice, first..first + 30, step);
            }
            5 | 6 => {
                state.expire(slice).unwrap();
                model.retain(|key, _| key.0 != slice);
            }
            7 => {
                drop(state);
                state = open(&backend, "slices");
            }
            8 => {
                let rows: Vec<Vec<u8>> = (0..80)
                    .map(|key| format!("key {key}").into_bytes())
                    .collect();
                let of_group = draw.below(8) as u16;
                let mut asked: Vec<(KeyGroup, &[u8])> = rows
                    .iter()
                    .map(|row| (group(of_group), row.as_slice()))
                    .collect();
                asked.sort();
                let mut found = Model::new();
                state
                    .read(slice, &asked, &mut |i, value| {
                        found.insert((slice, of_group, asked[i].1.to_vec()), value.to_vec());
                    })
                    .unwrap();
                let expected = model
                    .iter()
                    .filter(|(key, _)| key.0 == slice && key.1 == of_group);
                let expected: Model = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
                assert_eq!(found, expected);
            }
            _ => {
                let range = GroupRange::new(2, 5).unwrap();
                let slices = state.slices().unwrap();
                let found = scanned(&slices, range, |slice, range, visit| {
                    state.scan(slice, range, visit)
                });
                let mut expected = model.clone();
                expected.retain(|key, _| (2..=5).contains(&key.1));
                assert_eq!(found, expected);
            }
        }
        assert_eq!(all_of(&mut state), model, "after step {step}");
    }
}

#[test]
fn a_view_has_what_was_there_then() {
    let dir = tempfile::tempdir().unwrap();
    let backend = backend(dir.path());
    let mut state = open(&backend, "slices");
    let mut model = Model::new();
    put(&mut state, &mut model, -10, 0..50, 1);
    put(&mut state, &mut model, 10, 0..50, 2);
    state.expire(-10).unwrap();
    let mut view = state.freeze().unwrap();
    let mut later = Model::new();
    put(&mut state, &mut later, 10, 20..70, 3);
    put(&mut state, &mut later, 20, 0..5, 4);
    drop(state);
    model.retain(|key, _| key.0 == 10);
    let found = scanned(&[-10, 10, 20], groups().all(), |slice, range, visit| {
        view.scan(slice, range, visit)
    });
    assert_eq!(found, model);
}

#[test]
fn a_scan_breaks_where_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let backend = backend(dir.path());
    let mut state = open(&backend, "slices");
    put(&mut state, &mut Model::new(), 0, 0..50, 1);
    let mut seen = 0;
    state
        .scan(0, groups().all(), &mut |_, _, _| {
            seen += 1;
            if seen == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert_eq!(seen, 3);
}

/// Elsewhere a seek took a thousand times as long behind a hundred thousand deletions.
#[test]
fn a_scan_reads_no_entry_of_a_hundred_thousand_removed_slices() {
    let dir = tempfile::tempdir().unwrap();
    let backend = RocksBackend::new(dir.path(), groups());
    let mut state = open(&backend, "slices");
    for slice in 0..100_000 {
        state.put(slice, group(3), b"key", b"value").unwrap();
        if slice > 0 {
            state.expire(slice - 1).unwrap();
        }
    }
    state.flush().unwrap();
    let before = state.metrics();
    let found = all_of(&mut state);
    let after = state.metrics();
    assert_eq!(found.len(), 1);
    assert_eq!(after.hydrated - before.hydrated, 1);
    assert_eq!(after.expired, 99_999);
    drop(state);
    assert_eq!(open(&backend, "slices").slices().unwrap(), [99_999]);
}

#[test]
fn native_checkpoints_are_rescaled_by_key_groups() {
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("saved");
    let backend = backend(&dir.path().join("state"));
    let mut model = Model::new();
    let mut state = open(&backend, "one");
    for slice in [-20, -10, 0, 10] {
        put(&mut state, &mut model, slice, 0..200, 5);
    }
    state.expire(-10).unwrap();
    model.retain(|key, _| key.0 != -10);
    let all = groups().all();
    let checkpoints = CheckpointDir::open(&saved).unwrap();
    let manifest = backend
        .checkpoint_slices(&mut state, &checkpoints, 1, all, "test", -5)
        .unwrap();
    assert_eq!(manifest.watermark_ms, Some(-5));
    drop(state);

    // To three, each with its groups alone, and back to one.
    let three = Parallelism::new(3).unwrap();
    let part = |id| CheckpointRef {
        dir: saved.clone(),
        id,
    };
    let mut parts = Vec::new();
    for index in 0..3 {
        let range = range_of(index, groups(), three).unwrap();
        let name = format!("of-three-{index}");
        let manifests = backend
            .restore_slices(&name, &[part(1)], range, "test")
            .unwrap();
        assert_eq!(manifests.len(), 1);
        let mut state = open(&backend, &name);
        let mut expected = model.clone();
        expected.retain(|key, _| range.contains(group(key.1)));
        assert_eq!(all_of(&mut state), expected, "worker {index}");
        let id = 10 + u64::from(index);
        backend
            .checkpoint_slices(
                &mut state,
                &checkpoints,
                id,
                range,
                "test",
                i64::from(index),
            )
            .unwrap();
        parts.push(part(id));
    }
    let manifests = backend
        .restore_slices("again", &parts, all, "test")
        .unwrap();
    let watermarks: Vec<Option<i64>> = manifests.iter().map(|it| it.watermark_ms).collect();
    assert_eq!(watermarks, [Some(0), Some(1), Some(2)]);
    assert_eq!(all_of(&mut open(&backend, "again")), model);

    // Neither another operator's nor a store that is there.
    let error = backend
        .restore_slices("other", &parts, all, "another")
        .unwrap_err();
    assert!(matches!(error, RocksError::Checkpoint(_)), "{error}");
    let error = backend
        .restore_slices("again", &parts, all, "test")
        .unwrap_err();
    assert!(matches!(error, RocksError::Exists { .. }), "{error}");
}

#[derive(Clone)]
struct Bytes;

impl StateCodec<Vec<u8>> for Bytes {
    fn encode_into(&self, value: &Vec<u8>, out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, state_codec::DecodeError> {
        Ok(bytes.to_vec())
    }

    fn heap_bytes(&self, value: &Vec<u8>) -> usize {
        value.capacity()
    }
}

#[test]
fn slices_and_keyed_values_are_not_taken_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let backend = backend(dir.path());
    drop(open(&backend, "slices"));
    drop(backend.open("values", Bytes).unwrap());
    let Err(error) = backend.open("slices", Bytes) else {
        panic!("they are slices");
    };
    assert!(matches!(error, RocksError::Layout { .. }), "{error}");
    let error = backend.open_slices("values").expect_err("they are values");
    assert!(matches!(error, RocksError::Layout { .. }), "{error}");
}

#[test]
fn a_flipped_byte_in_a_file_is_an_error_and_not_a_short_scan() {
    let dir = tempfile::tempdir().unwrap();
    let backend = backend(dir.path());
    let mut state = open(&backend, "slices");
    let mut model = Model::new();
    put(&mut state, &mut model, 5, 0..2_000, 1);
    drop(state);
    let tables: Vec<_> = fs::read_dir(dir.path().join("slices"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "sst"))
        .collect();
    assert!(!tables.is_empty());
    for table in tables {
        let mut bytes = fs::read(&table).unwrap();
        bytes[100] ^= 0x10;
        fs::write(&table, bytes).unwrap();
    }
    // Where the damage is found depends on what opening reads.
    let scanned = match backend.open_slices("slices") {
        Ok(state) => {
            let mut state = state.expect("RocksDB keeps slices");
            state.scan(5, groups().all(), &mut |_, _, _| ControlFlow::Continue(()))
        }
        Err(error) => Err(error),
    };
    assert!(
        matches!(scanned, Err(RocksError::Engine { .. })),
        "{scanned:?}"
    );
}

#[test]
fn a_database_is_its_entries_by_slice_and_a_record_of_the_layout() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(&backend(dir.path()), "slices");
    state.put(-1, group(7), b"k", b"before").unwrap();
    state.put(1_000, group(0), b"", b"").unwrap();
    state.put(1_000, group(2), b"row", b"value").unwrap();
    drop(state);

    let options = rocksdb::Options::default();
    let path = dir.path().join("slices");
    let db = rocksdb::DB::open_for_read_only(&options, path, false).unwrap();
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
    };
    let entries: Vec<String> = db
        .iterator(rocksdb::IteratorMode::Start)
        .map(|entry| entry.unwrap())
        .map(|(key, value)| format!("{} {}", hex(&key), hex(&value)))
        .collect();
    assert_eq!(
        entries,
        [
            "007fffffffffffffff00076b 6265666f7265",
            "0080000000000003e80000 ",
            "0080000000000003e80002726f77 76616c7565",
            "ffff57454952 57454952020008",
        ]
    );
}
