//! What the tests of the store share: values that are bytes, and keys that are numbers.
#![allow(dead_code, reason = "no test file uses all of it")]

use std::ops::ControlFlow;
use std::path::Path;

use keygroup::GroupCount;
use state_codec::{
    DecodeError, KeyBatch, KeyedState, Slot, Snapshot, SnapshotView, StateBackend, StateCodec,
};
use state_rocks::{RocksBackend, RocksError, RocksOptions, RocksState};

/// Values that are bytes as they are, none of which begins with 0xff.
#[derive(Clone, Debug)]
pub(crate) struct Bytes;

impl StateCodec<Vec<u8>> for Bytes {
    fn encode_into(&self, value: &Vec<u8>, out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
        match bytes.first() {
            Some(0xff) => Err(DecodeError::malformed(
                "value",
                0,
                "no value begins with ff",
            )),
            _ => Ok(bytes.to_vec()),
        }
    }

    fn heap_bytes(&self, value: &Vec<u8>) -> usize {
        value.capacity()
    }
}

pub(crate) type State = RocksState<Vec<u8>, Bytes>;

pub(crate) fn groups() -> GroupCount {
    GroupCount::new(128).unwrap()
}

pub(crate) fn open(dir: &Path) -> Result<State, RocksError> {
    open_with(dir, plain())
}

/// The default options, but for the cache: each bundle reads what it needs.
pub(crate) fn plain() -> RocksOptions {
    RocksOptions {
        cache_bytes: 0,
        ..RocksOptions::default()
    }
}

pub(crate) fn open_with(dir: &Path, options: RocksOptions) -> Result<State, RocksError> {
    RocksBackend::new(dir, groups())
        .with_options(options)
        .open("store", Bytes)
}

/// The key row of one BIGINT.
pub(crate) fn key(number: u64) -> Vec<u8> {
    [[0; 8], number.to_le_bytes()].concat()
}

pub(crate) fn resolve(
    state: &mut State,
    keys: impl IntoIterator<Item = u64>,
) -> Result<Vec<Slot>, RocksError> {
    let rows: Vec<Vec<u8>> = keys.into_iter().map(key).collect();
    let keys = KeyBatch::from_rows(rows.iter().map(Vec::as_slice)).unwrap();
    let mut slots = Vec::new();
    state.resolve(&keys, &mut slots)?;
    Ok(slots)
}

/// Puts `len` bytes for each key, in a bundle of their own.
pub(crate) fn store(state: &mut State, keys: impl IntoIterator<Item = u64>, len: usize) {
    for slot in resolve(state, keys).unwrap() {
        state.put(slot, vec![slot.0 as u8 & 0x7f; len]);
    }
    state.end_bundle().unwrap();
}

/// How many entries a scan shows.
pub(crate) fn count(state: &mut State) -> Result<usize, RocksError> {
    let mut entries = 0;
    state
        .freeze()?
        .scan(groups().all(), &mut |_, _, _: &Vec<u8>| {
            entries += 1;
            ControlFlow::Continue(())
        })?;
    Ok(entries)
}
