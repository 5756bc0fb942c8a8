//! What a bundle reads and writes, by the store's own count.

mod support;

use state_codec::{KeyedState, MemoryPool, StateBackend};
use state_rocks::{RocksBackend, RocksError, RocksOptions};
use support::{Bytes, State, count, groups, open, open_with, plain, resolve, store};

/// Keys read, values found, values written, their bytes, deletes, write batches.
fn counts(state: &State) -> [u64; 6] {
    let metrics = state.metrics();
    [
        metrics.reads,
        metrics.hydrated,
        metrics.writes,
        metrics.written_bytes,
        metrics.deletes,
        metrics.write_batches,
    ]
}

#[test]
fn a_bundle_writes_what_changed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path()).unwrap();
    store(&mut state, 0..10, 100);
    assert_eq!(counts(&state), [10, 0, 10, 10 * (18 + 100), 0, 1]);

    // Rejected: every key twice, all looked at.
    for slot in resolve(&mut state, (0..10).chain(0..10)).unwrap() {
        assert!(state.get(slot).is_some());
    }
    state.end_bundle().unwrap();
    assert_eq!(counts(&state), [20, 10, 10, 10 * (18 + 100), 0, 1]);
    assert_eq!(state.metrics().read_bytes, 10 * 100);

    // One value changes three times, one goes, one comes and goes.
    let slots = resolve(&mut state, [3, 4, 99]).unwrap();
    for value in [b"a", b"b", b"c"] {
        state.put(slots[0], value.to_vec());
    }
    state.remove(slots[1]);
    state.put(slots[2], b"brief".to_vec());
    state.remove(slots[2]);
    state.end_bundle().unwrap();
    let bytes = 10 * (18 + 100) + 18 + 1;
    assert_eq!(counts(&state), [23, 12, 11, bytes, 1, 2]);
    assert_eq!(state.metrics().probes, 10 + 20 + 3);
    assert_eq!(count(&mut state).unwrap(), 9);
}

#[test]
fn the_end_of_a_bundle_asks_for_no_more_than_was_charged_before() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::unlimited();
    let backend = RocksBackend::new(dir.path(), groups())
        .with_options(plain())
        .with_pool(pool.clone());
    let mut state = backend.open("store", Bytes).unwrap();
    for number in 0..20_000 {
        let slots = resolve(&mut state, [number]).unwrap();
        state.put(slots[0], Vec::new());
    }
    let charged = pool.used_bytes();
    state.end_bundle().unwrap();
    assert!(
        pool.used_bytes() <= charged + 64,
        "{} after {charged}: more than the buffer of one value",
        pool.used_bytes()
    );
    assert_eq!(count(&mut state).unwrap(), 20_000);
}

#[test]
fn a_refused_batch_leaves_the_end_of_the_bundle_charged() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::new(2 << 20);
    let backend = RocksBackend::new(dir.path(), groups())
        .with_options(plain())
        .with_pool(pool.clone());
    let mut state = backend.open("store", Bytes).unwrap();
    for number in 0..5000 {
        let slots = resolve(&mut state, [number]).unwrap();
        state.put(slots[0], Vec::new());
    }
    let before = pool.used_bytes();
    for _ in 0..3 {
        let denied = resolve(&mut state, 5000..50_000).unwrap_err();
        assert!(matches!(denied, RocksError::Denied(_)), "{denied:?}");
        assert!(pool.used_bytes() <= before);
    }
    let charged = pool.used_bytes();
    state.end_bundle().unwrap();
    assert!(
        (1..=charged + 64).contains(&pool.used_bytes()),
        "{} after {charged}: not the buffers that were charged, or more than them and one value's",
        pool.used_bytes()
    );
    assert_eq!(count(&mut state).unwrap(), 5000);
}

#[test]
fn a_flush_is_split_at_the_bytes_of_a_write_batch() {
    let dir = tempfile::tempdir().unwrap();
    let options = RocksOptions {
        write_batch_bytes: 64 << 10,
        ..plain()
    };
    let mut state = open_with(dir.path(), options).unwrap();
    store(&mut state, 0..200, 10_000);
    // 6 × (18 + 10,000 + 11) + 12 fit into 65,536 bytes, and 7 do not.
    assert_eq!(state.metrics().write_batches, 200_u64.div_ceil(6));
    assert_eq!(state.metrics().writes, 200);
    assert_eq!(count(&mut state).unwrap(), 200);

    // A value larger than a batch has one to itself.
    store(&mut state, 200..203, 100_000);
    assert_eq!(state.metrics().write_batches, 200_u64.div_ceil(6) + 3);
    assert_eq!(count(&mut state).unwrap(), 203);
}

#[test]
fn a_batch_larger_than_one_read_is_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path()).unwrap();
    store(&mut state, 0..20_000, 8);
    for slot in resolve(&mut state, (0..20_000).rev()).unwrap() {
        assert_eq!(state.get(slot).map(Vec::len), Some(8));
    }
    assert_eq!(state.metrics().hydrated, 20_000);
}

#[test]
fn values_survive_closing_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = open(dir.path()).unwrap();
    store(&mut state, 0..1000, 50);
    drop(state);
    let mut state = open(dir.path()).unwrap();
    assert_eq!(count(&mut state).unwrap(), 1000);
    let slots = resolve(&mut state, [999, 1000]).unwrap();
    assert_eq!(state.get(slots[0]).map(Vec::len), Some(50));
    assert_eq!(state.get(slots[1]), None);
}

#[test]
fn a_bundle_leaves_no_more_than_the_kept_buffers() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::unlimited();
    let options = RocksOptions {
        kept_buffer_bytes: 1 << 20,
        ..plain()
    };
    let backend = RocksBackend::new(dir.path(), groups())
        .with_pool(pool.clone())
        .with_options(options);
    let mut state = backend.open("store", Bytes).unwrap();

    store(&mut state, 0..1000, 1000);
    let kept = state.charged_bytes();
    assert!((1..=1 << 20).contains(&kept), "{kept} bytes");
    store(&mut state, 0..1000, 1000);
    assert_eq!(state.charged_bytes(), kept); // the same bundle needs no more

    store(&mut state, 0..100_000, 10);
    assert_eq!(state.charged_bytes(), 0);
    assert_eq!(pool.used_bytes(), 0);
}

#[test]
fn a_store_that_is_refused_its_buffers_gives_them_back() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::new(1 << 20);
    let backend = RocksBackend::new(dir.path(), groups())
        .with_options(plain())
        .with_pool(pool.clone());
    let mut state = backend.open("store", Bytes).unwrap();
    let slots = resolve(&mut state, [1]).unwrap();
    let mut other = pool.reserve("other");
    other.try_resize((1 << 20) - pool.used_bytes()).unwrap();
    state.put(slots[0], vec![1; 100_000]); // and the buffer that it is encoded in is not paid for
    state.end_bundle().unwrap();
    assert_eq!(state.charged_bytes(), 0);
    assert_eq!(count(&mut state).unwrap(), 1);
}

#[test]
fn loaded_values_are_charged_before_they_are_given_out() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::new(1 << 20);
    let backend = RocksBackend::new(dir.path(), groups())
        .with_options(plain())
        .with_pool(pool.clone());
    let mut state = backend.open("store", Bytes).unwrap();
    for key in 0..20 {
        store(&mut state, [key], 100_000);
    }
    let charged = state.charged_bytes();
    let denied = resolve(&mut state, 0..20).unwrap_err();
    assert!(matches!(denied, RocksError::Denied(_)), "{denied:?}");
    assert!(state.charged_bytes() <= charged);
    let slots = resolve(&mut state, 0..5).unwrap();
    assert!(state.charged_bytes() >= 500_000);
    assert_eq!(state.get(slots[4]).map(Vec::len), Some(100_000));
    state.end_bundle().unwrap();
    assert!(state.charged_bytes() < 200_000, "the values are gone");
}

#[test]
fn dirty_values_outlive_a_failed_write() {
    let dir = tempfile::tempdir().unwrap();
    let options = RocksOptions {
        write_buffer_bytes: 64 << 10,
        write_batch_bytes: 64 << 10,
        ..plain()
    };
    let mut state = open_with(dir.path(), options).unwrap();
    store(&mut state, 0..10, 10);
    std::fs::remove_dir_all(dir.path().join("store")).unwrap();

    let slots = resolve(&mut state, 1000..1200).unwrap();
    for &slot in &slots {
        state.put(slot, vec![7; 10_000]);
    }
    for _ in 0..2 {
        let error = state.end_bundle().unwrap_err();
        assert!(matches!(error, RocksError::Engine { .. }), "{error:?}");
        let message = error.to_string();
        assert!(
            message.starts_with("cannot write the store in /"),
            "{message}"
        );
        for &slot in &slots {
            assert_eq!(state.get(slot), Some(&vec![7; 10_000]));
        }
    }
    let written = state.metrics().writes;
    assert!(written < 200, "{written} values were written to no file");
}

#[test]
fn a_batch_is_refused_after_a_failed_write_as_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let pool = MemoryPool::new(4 << 20);
    let options = RocksOptions {
        write_buffer_bytes: 64 << 10,
        write_batch_bytes: 64 << 10,
        ..plain()
    };
    let backend = RocksBackend::new(dir.path(), groups())
        .with_pool(pool.clone())
        .with_options(options);
    let mut state = backend.open("store", Bytes).unwrap();
    std::fs::remove_dir_all(dir.path().join("store")).unwrap();

    let slots = resolve(&mut state, 0..200).unwrap();
    for &slot in &slots {
        state.put(slot, vec![7; 10_000]); // nobody claimed them, nor the buffer of one
    }
    for _ in 0..2 {
        state.end_bundle().unwrap_err();
        let charged = state.charged_bytes();
        let denied = resolve(&mut state, 1000..100_000).unwrap_err();
        assert!(matches!(denied, RocksError::Denied(_)), "{denied:?}");
        assert!(state.charged_bytes() <= charged);
        assert_eq!(state.charged_bytes(), pool.used_bytes());
        for &slot in &slots {
            assert_eq!(state.get(slot), Some(&vec![7; 10_000]));
        }
    }
}
