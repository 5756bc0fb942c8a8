//! Rows with a time to live: when they go, what is stored of it, and what a restore makes of it.

mod common;

use std::time::Duration;

use common::{batch, open, run, spec, text};
use keygroup::GroupCount;
use rank_top1::{Emit, RankError, RankRange, Ranker, RestoreError};
use state_codec::checkpoint::{CheckpointDir, CheckpointError, CheckpointRef, CoverError};
use state_codec::{MemoryPool, StateBackend};
use state_mem::MemBackend;
use state_rocks::RocksBackend;

const SECOND: Duration = Duration::from_secs(1);

fn push_at<B: StateBackend>(ranker: &mut Ranker<B>, now_ms: i64, rows: &str) -> String {
    ranker.advance_clock(now_ms);
    text(ranker.push(&batch(rows)).unwrap())
}

fn groups() -> GroupCount {
    GroupCount::new(128).unwrap()
}

#[test]
fn an_expired_winner_is_gone_without_a_change_and_the_next_row_is_an_insert() {
    for general in [false, true] {
        let spec = spec().ttl(10 * SECOND).build().unwrap();
        let mut ranker = open(general, spec, &MemBackend::default(), "test").unwrap();
        assert_eq!(push_at(&mut ranker, 0, "k 5 a"), "+I k 5 a");
        assert_eq!(push_at(&mut ranker, 9_999, "k 9 x; k 5 y"), "");
        assert_eq!(push_at(&mut ranker, 10_000, "k 9 b"), "+I k 9 b");
        assert_eq!(push_at(&mut ranker, 15_000, "k 3 c"), "-U k 9 b\n+U k 3 c");
        assert_eq!(push_at(&mut ranker, 24_999, "k 4 x"), "");
        assert_eq!(
            push_at(&mut ranker, 20_000, "k 4 x"),
            "",
            "the clock never goes back"
        );
        assert_eq!(push_at(&mut ranker, 25_000, "k 4 d"), "+I k 4 d");
        assert_eq!(ranker.metrics().store.expired, 2);
        assert_eq!(ranker.metrics().rejected, 4);
    }
}

#[test]
fn a_time_to_live_needs_a_clock_and_may_be_a_century() {
    let century = Duration::from_secs(100 * 366 * 24 * 3600);
    for general in [false, true] {
        let spec = spec().ttl(century).build().unwrap();
        assert_eq!(spec.ttl(), Some(century));
        let mut ranker = open(general, spec, &MemBackend::default(), "test").unwrap();
        let unset = ranker.push(&batch("k 5 a")).unwrap_err();
        assert!(matches!(unset, RankError::ClockUnset(_)), "{unset:?}");
        assert_eq!(push_at(&mut ranker, 1, "k 5 a"), "+I k 5 a");
        let end = 1 + century.as_millis() as i64;
        assert_eq!(push_at(&mut ranker, end - 1, "k 6 x"), "");
        assert_eq!(push_at(&mut ranker, end, "k 6 b"), "+I k 6 b");
    }
    let part = spec().ttl(Duration::from_nanos(1)).build().unwrap();
    assert_eq!(part.ttl(), Some(Duration::from_millis(1)));
    assert_eq!(spec().ttl(Duration::ZERO).build().unwrap().ttl(), None);
}

#[test]
fn a_mini_batch_decides_at_the_first_touch() {
    for general in [false, true] {
        let spec = spec().ttl(SECOND).emit(Emit::MiniBatch).build().unwrap();
        let mut ranker = open(general, spec, &MemBackend::default(), "test").unwrap();
        push_at(&mut ranker, 0, "a 5 a1; b 5 b1");
        run(&mut ranker, &[]);
        // a is touched while it lives, b when it does not live any more.
        push_at(&mut ranker, 999, "a 7 x");
        push_at(&mut ranker, 1_500, "a 4 a2; b 9 b2");
        assert_eq!(
            text(ranker.flush().unwrap()),
            "-U a 5 a1\n+U a 4 a2\n+I b 9 b2"
        );
        // What was accepted at 1,500 lives from then on, and not from the flush.
        ranker.advance_clock(2_499);
        assert_eq!(run(&mut ranker, &["a 8 x; b 9 x"]), "");
        ranker.advance_clock(2_500);
        assert_eq!(
            run(&mut ranker, &["a 8 a3; b 9 b3"]),
            "+I a 8 a3\n+I b 9 b3"
        );
    }
}

#[test]
fn rows_of_a_range_expire_one_by_one() {
    let spec = spec()
        .range(RankRange::at_most(2).unwrap())
        .output_rank("rank")
        .ttl(SECOND)
        .build()
        .unwrap();
    let mut ranker = Ranker::open(spec, &MemBackend::default(), "test").unwrap();
    assert_eq!(push_at(&mut ranker, 0, "k 1 a"), "+I k 1 a 1");
    assert_eq!(push_at(&mut ranker, 600, "k 2 b"), "+I k 2 b 2");
    // a is gone silently; b is first, and a new row is second.
    assert_eq!(push_at(&mut ranker, 1_000, "k 3 c"), "+I k 3 c 2");
    assert_eq!(
        push_at(&mut ranker, 1_600, "k 1 d"),
        "-U k 3 c 1\n+U k 1 d 1\n+I k 3 c 2"
    );
}

#[test]
fn a_restore_makes_no_difference_to_the_life_of_a_row() {
    let temp = tempfile::tempdir().unwrap();
    let dir = CheckpointDir::open(temp.path()).unwrap();
    let all = groups().all();
    let spec = spec().ttl(SECOND).build().unwrap();
    let rocks = RocksBackend::new(temp.path().join("stores"), groups());
    let memory = MemBackend::default();
    let mut ranker = Ranker::open(spec.clone(), &rocks, "first").unwrap();
    push_at(&mut ranker, 0, "a 5 a1; b 5 b1");
    push_at(&mut ranker, 500, "b 4 b2");
    ranker.advance_clock(900);
    ranker.freeze().unwrap().write(&dir, 1, all).unwrap();
    ranker.checkpoint(&rocks, &dir, 2, all).unwrap();
    drop(ranker);
    let part = |id| {
        let dir = temp.path().to_owned();
        [CheckpointRef { dir, id }]
    };
    let check = |pushed: [String; 2]| {
        assert_eq!(pushed, ["+I a 9 a2", "-U b 4 b2\n+U b 3 b3"]);
    };
    let mut ranker = Ranker::restore(spec.clone(), &memory, "second", &part(1), all).unwrap();
    check([
        push_at(&mut ranker, 1_000, "a 9 a2; b 9 x"),
        push_at(&mut ranker, 1_499, "b 3 b3"),
    ]);
    let mut ranker = Ranker::restore_native(spec.clone(), &rocks, "third", &part(2), all).unwrap();
    check([
        push_at(&mut ranker, 1_000, "a 9 a2; b 9 x"),
        push_at(&mut ranker, 1_499, "b 3 b3"),
    ]);
}

#[test]
fn stored_bytes_say_when_a_row_was_accepted_and_either_version_is_read() {
    for general in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let backend = RocksBackend::new(temp.path(), groups());
        let timed = spec().ttl(SECOND).build().unwrap();
        let untimed = spec().build().unwrap();

        let mut ranker = open(general, timed.clone(), &backend, "test").unwrap();
        push_at(&mut ranker, 0x0102_0304, "key 7 payload");
        drop(ranker);
        let options = rocksdb::Options::default();
        let path = temp.path().join("test");
        let db = rocksdb::DB::open_for_read_only(&options, &path, false).unwrap();
        let (_, value) = db
            .iterator(rocksdb::IteratorMode::Start)
            .next()
            .unwrap()
            .unwrap();
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        // Version, length of the row, time, then the row: header, "key", 7, "payload".
        assert_eq!(
            hex,
            "02\
             20000000\
             0403020100000000\
             0000000000000000\
             6b65790000000083\
             0700000000000000\
             7061796c6f616487"
        );
        drop(db);

        // Without a time to live the time is read and forgotten ...
        let mut ranker = open(!general, untimed, &backend, "test").unwrap();
        assert_eq!(
            run(&mut ranker, &["key 6 b"]),
            "-U key 7 payload\n+U key 6 b"
        );
        drop(ranker);
        // ... and with one again, a row of unknown time lives until a better one comes.
        let mut ranker = open(general, timed, &backend, "test").unwrap();
        assert_eq!(push_at(&mut ranker, i64::MAX - 10_000, "key 6 x"), "");
        let end = i64::MAX - 9_000;
        assert_eq!(
            push_at(&mut ranker, end - 1, "key 5 c"),
            "-U key 6 b\n+U key 5 c"
        );
        assert_eq!(push_at(&mut ranker, end + 999, "key 9 d"), "+I key 9 d");
    }
}

#[test]
fn idle_partitions_are_reclaimed_and_their_bytes_given_back() {
    let pool = MemoryPool::unlimited();
    let backend = MemBackend::default().with_pool(pool.clone());
    let spec = spec().ttl(SECOND).build().unwrap();
    let mut ranker = Ranker::open(spec, &backend, "test").unwrap();
    push_at(&mut ranker, 0, "one 5 a");
    let one = pool.used_bytes();
    for start in (0..100_000).step_by(1000) {
        let rows: Vec<String> = (start..start + 1000)
            .map(|i| format!("key-{i} 5 a"))
            .collect();
        push_at(&mut ranker, 0, &rows.join(";"));
    }
    let full = pool.used_bytes();
    for now_ms in (600..60_600).step_by(600) {
        push_at(&mut ranker, now_ms, &"one 6 x;".repeat(1000));
    }
    let left = pool.used_bytes();
    // The one key that comes expires too, every other time.
    assert_eq!(ranker.metrics().store.expired, 100_000 + 50);
    assert!(
        full > 10 << 20 && left < one + full / 10,
        "{one}, {full}, {left}"
    );
}

#[test]
fn checkpoints_that_do_not_make_the_state_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = CheckpointDir::open(temp.path()).unwrap();
    let (memory, all) = (MemBackend::default(), groups().all());
    let spec = spec().build().unwrap();
    let mut ranker = Ranker::open(spec.clone(), &memory, "first").unwrap();
    run(&mut ranker, &["a 5 a1; b 5 b1; null 1 n"]);
    let half = keygroup::GroupRange::new(0, 63).unwrap();
    for (id, groups) in [(1, all), (2, half)] {
        ranker.freeze().unwrap().write(&dir, id, groups).unwrap();
    }
    let part = |id| {
        let dir = temp.path().to_owned();
        CheckpointRef { dir, id }
    };
    let refused = |parts: &[CheckpointRef]| {
        Ranker::restore(spec.clone(), &memory, "second", parts, all).unwrap_err()
    };
    let error = refused(&[part(1), part(2)]);
    let overlap = RestoreError::Cover(CoverError::Overlap { groups: half });
    assert!(
        matches!(&error, RankError::Restore(found) if *found == overlap),
        "{error:?}"
    );
    let error = refused(&[part(2)]);
    assert_eq!(
        error.to_string(),
        "none of the checkpoints is about key group 64"
    );
    let error = refused(&[part(3)]);
    assert!(
        matches!(&error, RankError::Checkpoint(error)
            if matches!(**error, CheckpointError::MissingManifest { id: 3, .. })),
        "{error:?}"
    );
    let other = common::spec()
        .range(RankRange::at_most(2).unwrap())
        .build()
        .unwrap();
    let error = Ranker::restore(other, &memory, "second", &[part(1)], all).unwrap_err();
    assert!(
        matches!(&error, RankError::Checkpoint(error)
            if matches!(**error, CheckpointError::Fingerprint { .. })),
        "{error:?}"
    );
    let mut second = Ranker::restore(spec.clone(), &memory, "second", &[part(1)], all).unwrap();
    assert_eq!(
        run(&mut second, &["a 4 a2; null 0 n2; b 9 x"]),
        "-U a 5 a1\n+U a 4 a2\n-U null 1 n\n+U null 0 n2"
    );
    drop(ranker);

    let rocks = RocksBackend::new(temp.path().join("stores"), groups());
    let mut held = Ranker::open(spec.clone(), &rocks, "held").unwrap();
    run(&mut held, &["a 5 a1"]);
    drop(held);
    let error = Ranker::restore(spec.clone(), &rocks, "held", &[part(1)], all).unwrap_err();
    assert_eq!(error.to_string(), r#"the store "held" is not empty"#);

    // A budget that the state does not fit leaves an empty state, and the checkpoint as it was.
    let pool = MemoryPool::new(9 << 10);
    let small = MemBackend::default().with_pool(pool.clone());
    let error = Ranker::restore(spec.clone(), &small, "small", &[part(1)], all).unwrap_err();
    assert!(error.denied().is_some(), "{error:?}");
    assert_eq!(pool.used_bytes(), 0);

    let mini = common::spec().emit(Emit::MiniBatch).build().unwrap();
    let mut mini = Ranker::open(mini, &memory, "mini").unwrap();
    mini.push(&batch("a 1 a")).unwrap();
    let error = mini.freeze().unwrap_err();
    assert!(matches!(error, RankError::OpenBundle), "{error:?}");
    mini.flush().unwrap();
    mini.freeze().unwrap();
}
