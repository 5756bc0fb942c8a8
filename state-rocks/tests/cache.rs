//! What is kept between bundles: clean values that were read, and changed ones that wait.

mod support;

use state_codec::{KeyedState, MemoryPool, Snapshot, StateBackend};
use state_rocks::{RocksBackend, RocksOptions, WritePolicy};
use support::{Bytes, State, count, groups, open_with, resolve, store};

fn with_cache(bytes: usize) -> RocksOptions {
    RocksOptions {
        cache_bytes: bytes,
        ..RocksOptions::default()
    }
}

fn waiting(limit_bytes: usize) -> RocksOptions {
    RocksOptions {
        write_policy: WritePolicy::Back { limit_bytes },
        ..RocksOptions::default()
    }
}

/// Looks at the keys in a bundle of their own, and returns how many were read.
fn look(state: &mut State, keys: impl IntoIterator<Item = u64>) -> u64 {
    let before = state.metrics().reads;
    for slot in resolve(state, keys).unwrap() {
        assert!(state.get(slot).is_some());
    }
    state.end_bundle().unwrap();
    state.metrics().reads - before
}

#[test]
fn a_value_that_was_read_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open_with(dir.path(), with_cache(1 << 20)).unwrap();
    store(&mut state, 0..100, 10);
    assert_eq!(look(&mut state, 0..100), 100, "new keys bypass the cache");
    assert_eq!(look(&mut state, 0..100), 0, "keys that were read stay");
    let metrics = state.metrics();
    assert_eq!((metrics.cache_hits, metrics.cache_misses), (100, 200));
    assert_eq!((metrics.writes, metrics.write_batches), (100, 1));

    // A changed value is written, and stays as it is now.
    store(&mut state, [5], 33);
    let slot = resolve(&mut state, [5]).unwrap()[0];
    assert_eq!(state.get(slot).map(Vec::len), Some(33));
    state.abandon_bundle();
    assert_eq!(state.metrics().writes, 101);
    assert_eq!(look(&mut state, 0..100), 0);
    drop(state);

    let mut state = open_with(dir.path(), with_cache(1 << 20)).unwrap();
    assert_eq!(look(&mut state, [5]), 1, "a store is opened cold");
}

#[test]
fn the_oldest_values_go_first_and_nothing_is_written_for_that() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open_with(dir.path(), with_cache(20 << 10)).unwrap();
    store(&mut state, 0..100, 1000);
    look(&mut state, 0..10);
    look(&mut state, 10..18);
    // About 1,070 bytes an entry: 19 fit.
    assert_eq!(state.metrics().cache_evictions, 0);
    assert_eq!(look(&mut state, 0..18), 0);
    look(&mut state, 18..23);
    assert_eq!(state.metrics().cache_evictions, 4);
    assert_eq!(look(&mut state, 4..23), 0, "the first four went");
    assert_eq!(look(&mut state, 0..4), 4);
    assert_eq!(state.metrics().writes, 100);
    assert!(state.charged_bytes() < (20 << 10) + (24 << 10));
}

#[test]
fn what_is_kept_is_charged_to_the_cache_and_given_back_after_an_eviction() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::unlimited();
    let backend = RocksBackend::new(dir.path(), groups())
        .with_options(with_cache(50 << 10))
        .with_pool(pool.clone());
    let mut state = backend.open("store", Bytes).unwrap();
    let held = |name: &str| {
        let holders = pool.holders();
        let holder = holders.iter().find(|holder| &*holder.name == name);
        holder.expect("each store has both").bytes
    };
    store(&mut state, 0..200, 1000);
    assert_eq!(held("store cache"), 0);
    look(&mut state, 0..40);
    let full = held("store cache");
    assert!((40_000..60_000).contains(&full), "{full}");
    store(&mut state, 0..40, 10); // the same entries, smaller
    let small = held("store cache");
    assert_eq!(full - small, 40 * 990);
    look(&mut state, 100..150);
    assert!(held("store cache") <= 70_000);
    assert_eq!(state.charged_bytes(), pool.used_bytes());
    let _view = state.freeze().unwrap();
    assert_eq!(held("store cache"), 0, "a view empties the cache");
    assert_eq!(look(&mut state, 100..150), 50);
}

#[test]
fn a_refused_cache_is_switched_off_and_all_else_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::new(1 << 20);
    let backend = RocksBackend::new(dir.path(), groups())
        .with_options(with_cache(1 << 20))
        .with_pool(pool.clone());
    let mut state = backend.open("store", Bytes).unwrap();
    store(&mut state, 0..100, 1000);
    assert_eq!(look(&mut state, 0..10), 10);
    assert_eq!(look(&mut state, 0..10), 0);
    // While the values are in the working set another holder takes the rest.
    let mut other = pool.reserve("other");
    let slots = resolve(&mut state, 10..60).unwrap();
    other.try_resize((1 << 20) - pool.used_bytes()).unwrap();
    assert_eq!(state.get(slots[0]).map(Vec::len), Some(1000));
    state.put(slots[0], vec![1; 1000]);
    for slot in &slots[1..] {
        state.put(*slot, vec![2; 9000]); // which nobody claimed
    }
    state.end_bundle().unwrap();
    let metrics = state.metrics();
    assert_eq!(metrics.cache_refusals, 1);
    assert_eq!(metrics.writes, 150);
    drop(other);
    assert_eq!(look(&mut state, 0..10), 10);
    assert_eq!(look(&mut state, 0..10), 10, "it stays off");
    assert_eq!(state.charged_bytes(), pool.used_bytes());
    assert_eq!(count(&mut state).unwrap(), 100);
}

#[test]
fn replaying_rejected_input_writes_nothing_whatever_is_kept() {
    for options in [
        with_cache(0),
        with_cache(5000),
        with_cache(1 << 20),
        waiting(1 << 20),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut state = open_with(dir.path(), options).unwrap();
        store(&mut state, 0..100, 100);
        state.write_back().unwrap();
        let written = state.metrics();
        for _ in 0..50 {
            look(&mut state, 0..100);
        }
        let now = state.metrics();
        assert_eq!(
            (now.writes, now.written_bytes, now.write_batches),
            (written.writes, written.written_bytes, written.write_batches)
        );
    }
}

#[test]
fn a_value_that_waits_is_written_once_however_often_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open_with(dir.path(), waiting(1 << 20)).unwrap();
    for round in 0..50 {
        store(&mut state, 0..100, round);
    }
    assert_eq!(state.metrics().writes, 0);
    assert_eq!(state.metrics().reads, 100);
    state.write_back().unwrap();
    assert_eq!(state.metrics().writes, 100);
    state.write_back().unwrap();
    assert_eq!(state.metrics().writes, 100);

    // A value that came and went while it waited was never there.
    store(&mut state, [777], 5);
    let slot = resolve(&mut state, [777]).unwrap()[0];
    state.remove(slot);
    state.end_bundle().unwrap();
    state.write_back().unwrap();
    assert_eq!((state.metrics().writes, state.metrics().deletes), (100, 0));
    assert_eq!(count(&mut state).unwrap(), 100);
}

#[test]
fn what_waits_is_bounded_and_charged_and_written_when_the_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::unlimited();
    let backend = RocksBackend::new(dir.path(), groups())
        .with_options(waiting(100 << 10))
        .with_pool(pool.clone());
    let mut state = backend.open("store", Bytes).unwrap();
    for start in (0..1050).step_by(10) {
        store(&mut state, start..start + 10, 1000);
        assert!(
            state.charged_bytes() < 160 << 10,
            "{}",
            state.charged_bytes()
        );
        assert_eq!(state.charged_bytes(), pool.used_bytes());
    }
    let written = state.metrics().writes;
    assert!((900..1050).contains(&written), "{written} of 1050");
    let waiting = (1050 - written) * 1000;
    assert!(
        state.charged_bytes() as u64 >= waiting,
        "{} of {waiting}",
        state.charged_bytes()
    );
    drop(state);
    let mut state = backend.open("store", Bytes).unwrap();
    assert_eq!(count(&mut state).unwrap(), 1050);
}

#[test]
fn what_waits_is_written_at_once_where_the_pool_refuses_it() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::new(256 << 10);
    let backend = RocksBackend::new(dir.path(), groups())
        .with_options(waiting(100 << 20))
        .with_pool(pool.clone());
    let mut state = backend.open("store", Bytes).unwrap();
    for start in (0..1000).step_by(10) {
        store(&mut state, start..start + 10, 1000);
        assert!(state.charged_bytes() <= pool.limit_bytes());
    }
    assert!(state.metrics().writes > 500, "{}", state.metrics().writes);
    assert_eq!(count(&mut state).unwrap(), 1000);
}

#[test]
fn a_bundle_that_was_not_ended_is_not_written_by_closing_the_store() {
    for options in [waiting(1 << 20), with_cache(1 << 20)] {
        let dir = tempfile::tempdir().unwrap();
        let mut state = open_with(dir.path(), options.clone()).unwrap();
        store(&mut state, 0..10, 10);
        state.write_back().unwrap();
        let slots = resolve(&mut state, 0..20).unwrap();
        for slot in slots {
            state.put(slot, vec![9; 99]);
        }
        drop(state);
        let mut state = open_with(dir.path(), options).unwrap();
        assert_eq!(count(&mut state).unwrap(), 10);
        let slot = resolve(&mut state, [3]).unwrap()[0];
        assert_eq!(state.get(slot).map(Vec::len), Some(10));
    }
}
