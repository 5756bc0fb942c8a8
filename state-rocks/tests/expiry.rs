//! Values that expire: what is given out, and what RocksDB drops on its own.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use state_codec::{
    DecodeError, KeyBatch, KeyedState, NEVER, Snapshot, StateBackend, StateCodec, StoredExpiry,
};
use state_rocks::{RocksBackend, RocksOptions, RocksState};
use support::{groups, key};

/// Values that begin with the time at which they expire.
#[derive(Clone)]
struct Deadline;

fn deadline(value: &[u8]) -> i64 {
    let time = value.first_chunk();
    time.map_or(NEVER, |time| i64::from_le_bytes(*time))
}

impl StateCodec<Vec<u8>> for Deadline {
    fn encode_into(&self, value: &Vec<u8>, out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        Ok(bytes.to_vec())
    }

    fn heap_bytes(&self, value: &Vec<u8>) -> usize {
        value.capacity()
    }

    fn expires_at_ms(&self, value: &Vec<u8>) -> i64 {
        deadline(value)
    }

    fn stored_expiry(&self) -> Option<StoredExpiry> {
        Some(Arc::new(deadline))
    }
}

type State = RocksState<Vec<u8>, Deadline>;

fn open(dir: &Path) -> State {
    let options = RocksOptions {
        write_buffer_bytes: 1 << 20,
        ..RocksOptions::default()
    };
    let backend = RocksBackend::new(dir, groups()).with_options(options);
    backend.open("store", Deadline).unwrap()
}

fn put(state: &mut State, keys: std::ops::Range<u64>, expires_at_ms: i64) {
    let rows: Vec<Vec<u8>> = keys.clone().map(key).collect();
    let batch = KeyBatch::from_rows(rows.iter().map(Vec::as_slice)).unwrap();
    let mut slots = Vec::new();
    state.resolve(&batch, &mut slots).unwrap();
    for (slot, number) in slots.into_iter().zip(keys) {
        let mut value = expires_at_ms.to_le_bytes().to_vec();
        // Not to be compressed away.
        value.extend((0..8).flat_map(|i| (number ^ i).wrapping_mul(0x9e37_79b9).to_le_bytes()));
        state.put(slot, value);
    }
    state.end_bundle().unwrap();
}

fn table_bytes(dir: &Path) -> u64 {
    let files = fs::read_dir(dir.join("store")).unwrap();
    let files = files.map(|file| file.unwrap());
    let tables = files.filter(|file| file.path().extension().is_some_and(|e| e == "sst"));
    tables.map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn a_compaction_drops_what_has_expired_and_the_disk_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path());
    state.advance_clock(0);
    for start in (0..100_000).step_by(10_000) {
        put(&mut state, start..start + 10_000, 1_000);
    }
    put(&mut state, 100_000..100_100, NEVER);
    state.compact().unwrap();
    let full = table_bytes(dir.path());
    assert!(full > 5 << 20, "{full} bytes");
    state.advance_clock(999);
    state.compact().unwrap();
    assert!(table_bytes(dir.path()) > full * 9 / 10);
    state.advance_clock(1_000);
    state.compact().unwrap();
    let left = table_bytes(dir.path());
    assert!(left < full / 10, "{left} of {full} bytes");
    assert!(!state.is_empty().unwrap(), "100 values never expire");
    drop(state);
    let mut state = open(dir.path()); // with its layout record, which the filter leaves
    assert!(!state.is_empty().unwrap());
}

#[test]
fn a_value_that_has_expired_in_the_cache_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path());
    state.advance_clock(0);
    put(&mut state, 0..10, 1_000);
    let rows: Vec<Vec<u8>> = (0..10).map(key).collect();
    let keys = KeyBatch::from_rows(rows.iter().map(Vec::as_slice)).unwrap();
    let mut slots = Vec::new();
    for (now_ms, live) in [(1, true), (999, true), (1_000, false), (1_001, false)] {
        state.advance_clock(now_ms);
        state.resolve(&keys, &mut slots).unwrap();
        let reads = state.metrics().reads;
        assert_eq!(reads, 20, "the keys are read once, and then cached");
        assert!(slots.iter().all(|&slot| state.get(slot).is_some() == live));
        state.end_bundle().unwrap();
    }
    assert_eq!(state.metrics().expired, 10);
    assert_eq!(state.metrics().writes, 10);
    put(&mut state, 3..4, 5_000);
    state.resolve(&keys, &mut slots).unwrap();
    let live: Vec<bool> = slots
        .iter()
        .map(|&slot| state.get(slot).is_some())
        .collect();
    assert_eq!(live.iter().filter(|live| **live).count(), 1);
    assert!(live[3]);
}
