//! What a store takes from the system, and gives back.

#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::sync::{Mutex, PoisonError};

use state_codec::KeyedState;
use state_rocks::RocksOptions;
use support::{count, open_with, store};

/// The tests look at the memory of the whole process, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn opening_and_closing_again_and_again_leaves_nothing_behind() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let round = |i: u64| {
        let options = RocksOptions {
            block_cache_bytes: MIB,
            write_buffer_bytes: MIB,
            ..RocksOptions::default()
        };
        let mut state = open_with(dir.path(), options).unwrap();
        store(&mut state, [i % 50], 100);
        assert_eq!(count(&mut state).unwrap() as u64, 50.min(i + 1));
    };
    (0..100).for_each(round);
    let (warm, files) = (resident_bytes(), open_files());
    (100..1000).for_each(round);
    let grown = resident_bytes().saturating_sub(warm);
    // 900 leaked iterators, caches or option sets would be more.
    assert!(grown < 4 * MIB, "{grown} bytes more after 900 rounds more");
    assert_eq!(open_files(), files);
}

#[test]
fn a_write_batch_is_gone_after_its_write() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let options = RocksOptions {
        block_cache_bytes: MIB,
        write_buffer_bytes: 4 * MIB,
        cache_bytes: 0,
        ..RocksOptions::default()
    };
    let mut state = open_with(dir.path(), options).unwrap();
    let commit = |state: &mut _| store(state, 0..100, 100_000);
    for _ in 0..5 {
        commit(&mut state);
    }
    let (warm, base) = (resident_bytes(), state.charged_bytes());
    // The buffers that stay are those of 100 keys and one value.
    assert!(base < 200_000, "{base} bytes charged between bundles");
    for _ in 0..30 {
        commit(&mut state);
        assert_eq!(state.charged_bytes(), base);
        let grown = resident_bytes().saturating_sub(warm);
        // Two of the 10 MB batches would be more; what varies are the two write buffers.
        assert!(grown < 20 * MIB, "{grown} bytes more");
    }
}
