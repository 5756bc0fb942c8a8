//! Which windows a row counts in, and when they fire.

mod common;

use common::{audit, batch, counts, groups, open, schema, scratch, spec, text};
use keygroup::{GroupRange, Parallelism, range_of};
use state_codec::MemoryPool;
use state_codec::checkpoint::{CheckpointDir, CheckpointRef};
use state_mem::MemBackend;
use state_rocks::RocksBackend;
use window_shared::{
    BatchError, EventTime, LocalAggregate, NullTime, WindowError, WindowOperator, WindowSpec,
    Windows,
};

/// What fires at `watermark_ms`, of an operator over memory to which each of the batches was pushed.
fn results(windows: Windows, rows: &str, watermark_ms: i64) -> String {
    let mut operator = open(spec(windows));
    for rows in rows.split(";;") {
        operator.push(&batch(rows)).unwrap();
    }
    let results = text(&operator.advance_watermark(watermark_ms).unwrap());
    audit(&operator);
    results
}

fn all(windows: Windows, rows: &str) -> String {
    results(windows, rows, i64::MAX)
}

/// A negative remainder moved a row before 1970 into the window behind its own.
#[test]
fn rows_before_1970_count_in_the_window_that_holds_them() {
    let tumble = Windows::tumble(10_000).unwrap();
    assert_eq!(all(tumble, "a 7 -1"), "a -10000 0 1 1 7");
    let moved = tumble.with_offset(3_000).unwrap();
    assert_eq!(all(moved, "a 7 -7001"), "a -17000 -7000 1 1 7");
    let back = tumble.with_offset(-3_000).unwrap();
    assert_eq!(
        all(back, "a 7 -3001; a 8 -3000"),
        "a -13000 -3000 1 1 7\na -3000 7000 1 1 8"
    );
}

/// The loop over hopping windows stopped where a start went below zero.
#[test]
fn hopping_windows_that_start_before_1970_have_their_rows() {
    let hop = Windows::hop(2_000, 10_000).unwrap();
    let expected: Vec<String> = [-8_000, -6_000, -4_000, -2_000, 0]
        .map(|start| format!("a {start} {} 1 1 7", start + 10_000))
        .into();
    assert_eq!(all(hop, "a 7 1000"), expected.join("\n"));
}

/// A slide that does not divide the size lost rows; here it is refused, with both values.
#[test]
fn sizes_that_do_not_divide_are_refused_with_both_values() {
    let hop = Windows::hop(700, 1_600).unwrap_err().to_string();
    assert!(hop.contains("1600") && hop.contains("700"), "{hop}");
    let cumulate = Windows::cumulate(180_000, 600_000).unwrap_err().to_string();
    assert!(
        cumulate.contains("600000") && cumulate.contains("180000"),
        "{cumulate}"
    );
}

/// A row near the end of a window went to one window too many.
#[test]
fn a_row_counts_in_as_many_windows_as_overlap() {
    let hop = Windows::hop(5_000, 10_000).unwrap();
    assert_eq!(all(hop, "a 1 9999"), "a 0 10000 1 1 1\na 5000 15000 1 1 1");
    assert_eq!(
        all(hop, "a 1 10000"),
        "a 5000 15000 1 1 1\na 10000 20000 1 1 1"
    );
}

/// Users took a hopping window for one that has each row once.
#[test]
fn each_of_six_rows_counts_in_five_windows() {
    let hop = Windows::hop(1_000, 5_000).unwrap();
    let rows: Vec<String> = (0..6).map(|second| format!("a 1 {second}000")).collect();
    let expected = [1, 2, 3, 4, 5, 5, 4, 3, 2, 1].iter().zip(-4..);
    let expected: Vec<String> = expected
        .map(|(count, start)| {
            let (start, end) = (start * 1_000, (start + 5) * 1_000);
            format!("a {start} {end} {count} {count} {count}")
        })
        .collect();
    assert_eq!(all(hop, &rows.join(";")), expected.join("\n"));
    assert_eq!(
        all(hop, &rows.join(";;")),
        expected.join("\n"),
        "row by row"
    );
}

/// The planner dropped the offset of a window.
#[test]
fn days_can_start_at_six() {
    let day = Windows::tumble(86_400_000).unwrap();
    let moved = day.with_offset(6 * 3_600_000).unwrap();
    // 2024-01-01T01:30:02
    let expected = "a 1704002400000 1704088800000 1 1 7";
    assert_eq!(all(moved, "a 7 1704072602000"), expected);
}

/// Months of delay were taken for so many milliseconds; here an engine gives the watermark itself.
#[test]
fn a_watermark_a_month_behind_keeps_both_days_open() {
    let mut operator = open(spec(Windows::tumble(86_400_000).unwrap()));
    operator.push(&batch("a 1 1706745600000")).unwrap(); // 2024-02-01
    let january = operator.advance_watermark(1_704_067_200_000).unwrap();
    assert_eq!(text(&january), "");
    operator.push(&batch("a 1 1705708800000")).unwrap(); // 2024-01-20
    assert_eq!(
        text(&operator.finish().unwrap()),
        "a 1705708800000 1705795200000 1 1 1\na 1706745600000 1706832000000 1 1 1"
    );
}

/// A late row whose slice was cleaned was dropped although a window of it was open.
#[test]
fn a_late_row_counts_in_the_windows_that_have_not_fired() {
    let mut operator = open(spec(Windows::hop(5_000, 10_000).unwrap()));
    assert_eq!(text(&operator.advance_watermark(5_000).unwrap()), "");
    operator.push(&batch("a 1 4000")).unwrap();
    assert_eq!(text(&operator.finish().unwrap()), "a 0 10000 1 1 1");
    assert_eq!(operator.metrics().late, 0);
}

/// The same in a window that cumulates: the steps that fired do not fire again, those to come have the row.
#[test]
fn a_late_row_counts_in_the_later_steps_alone() {
    let mut operator = open(spec(Windows::cumulate(1_000, 3_000).unwrap()));
    operator.push(&batch("a 1 100")).unwrap();
    assert_eq!(
        text(&operator.advance_watermark(999).unwrap()),
        "a 0 1000 1 1 1"
    );
    operator.push(&batch("a 2 200; b 5 300; b 6 1100")).unwrap();
    assert_eq!(
        text(&operator.advance_watermark(1_999).unwrap()),
        "a 0 2000 2 2 3\nb 0 2000 2 2 11"
    );
    assert_eq!(
        text(&operator.finish().unwrap()),
        "a 0 3000 2 2 3\nb 0 3000 2 2 11"
    );
}

/// A window that cumulates told nothing of a step without rows, or of steps before the first row.
#[test]
fn every_step_after_the_first_row_has_a_result() {
    let cumulate = Windows::cumulate(1_000, 4_000).unwrap();
    assert_eq!(
        all(cumulate, "a 1 1500"),
        "a 0 2000 1 1 1\na 0 3000 1 1 1\na 0 4000 1 1 1"
    );
}

/// One row of a closed window ended the loop over a batch.
#[test]
fn rows_behind_a_late_one_in_a_batch_count() {
    let mut operator = open(spec(Windows::tumble(10_000).unwrap()));
    operator.advance_watermark(19_999).unwrap();
    operator
        .push(&batch("a 1 5000; a 2 21000; a 3 22000"))
        .unwrap();
    assert_eq!(operator.metrics().late, 1);
    assert_eq!(text(&operator.finish().unwrap()), "a 20000 30000 2 2 5");
}

/// Late rows were aggregated on an entry point without the filter.
#[test]
fn late_rows_are_dropped_and_counted_however_they_come() {
    let spec = spec(Windows::tumble(10_000).unwrap());
    let mut operator = open(spec.clone());
    operator.advance_watermark(200_000).unwrap();
    operator.push(&batch("a 1 50000")).unwrap();
    assert_eq!(operator.metrics().late, 1);
    let mut local = LocalAggregate::new(spec, "local", &MemoryPool::unlimited()).unwrap();
    local.push(&batch("a 1 50000")).unwrap();
    let partials = local.flush().unwrap().unwrap();
    operator.push_partials(&partials).unwrap();
    assert_eq!(operator.metrics().late, 2);
    assert_eq!(text(&operator.finish().unwrap()), "");
}

/// After a restore late rows were let in again, or rows in time dropped.
#[test]
fn what_is_late_after_a_restore_is_what_was_late_before() {
    let root = scratch();
    let dir = CheckpointDir::open(root.path()).unwrap();
    let spec = spec(Windows::hop(5_000, 10_000).unwrap());
    let mut operator = open(spec.clone());
    operator.push(&batch("b 1 9000")).unwrap();
    assert_eq!(
        text(&operator.advance_watermark(15_000).unwrap()),
        "b 0 10000 1 1 1\nb 5000 15000 1 1 1"
    );
    let all = groups().all();
    operator.freeze().unwrap().write(all, &dir, 1).unwrap();
    let parts = [CheckpointRef {
        dir: root.path().to_owned(),
        id: 1,
    }];
    let backend = MemBackend::new(groups());
    let mut restored = WindowOperator::restore(spec, &backend, "again", &parts, all).unwrap();
    assert_eq!(restored.watermark_ms(), 15_000);
    restored
        .push(&batch("a 1 4000; a 2 14000; a 3 16000"))
        .unwrap();
    assert_eq!(restored.metrics().late, 1);
    assert_eq!(
        text(&restored.finish().unwrap()),
        "a 10000 20000 2 2 5\na 15000 25000 1 1 3"
    );
}

/// A row at the watermark was off by one.
#[test]
fn a_window_fires_at_its_last_millisecond() {
    let mut operator = open(spec(Windows::tumble(10_000).unwrap()));
    assert_eq!(text(&operator.advance_watermark(9_998).unwrap()), "");
    operator.push(&batch("a 1 9999")).unwrap();
    assert_eq!(operator.metrics().late, 0);
    assert_eq!(text(&operator.advance_watermark(9_998).unwrap()), "");
    assert_eq!(
        text(&operator.advance_watermark(9_999).unwrap()),
        "a 0 10000 1 1 1"
    );
    operator.push(&batch("a 1 9999")).unwrap();
    assert_eq!(operator.metrics().late, 1);
    assert_eq!(text(&operator.finish().unwrap()), "");
}

/// A watermark without any slices failed.
#[test]
fn a_watermark_of_nothing_is_nothing() {
    for windows in [
        Windows::tumble(10_000).unwrap(),
        Windows::hop(5_000, 10_000).unwrap(),
        Windows::cumulate(5_000, 10_000).unwrap(),
    ] {
        let mut operator = open(spec(windows));
        assert_eq!(text(&operator.advance_watermark(1_000_000).unwrap()), "");
        operator.push(&batch("a 1 1000000")).unwrap();
        assert_ne!(text(&operator.advance_watermark(2_000_000).unwrap()), "");
        assert_eq!(text(&operator.advance_watermark(3_000_000).unwrap()), "");
        assert_eq!(operator.metrics().rows_in, 1);
        audit(&operator);
    }
}

/// The end of the input moved the pointer to the next window beyond the last.
#[test]
fn the_end_of_the_input_fires_each_window_once() {
    let mut operator = open(spec(Windows::hop(5_000, 10_000).unwrap()));
    operator.push(&batch("a 1 7000")).unwrap();
    assert_eq!(
        text(&operator.finish().unwrap()),
        "a 0 10000 1 1 1\na 5000 15000 1 1 1"
    );
    assert_eq!(text(&operator.finish().unwrap()), "");
    assert_eq!(text(&operator.advance_watermark(i64::MAX).unwrap()), "");
    assert_eq!(text(&operator.advance_watermark(20_000).unwrap()), "");
    assert_eq!(operator.watermark_ms(), i64::MAX);
    assert_eq!(operator.metrics().fired, 2);
}

/// A window with no rows was emitted, or one with NULL values alone was not.
#[test]
fn windows_exist_by_their_rows_and_not_by_values() {
    let tumble = Windows::tumble(10_000).unwrap();
    assert_eq!(
        all(tumble, "a null 1000; b 3 31000"),
        "a 0 10000 1 0 null\nb 30000 40000 1 1 3"
    );
    let hop = Windows::hop(10_000, 20_000).unwrap();
    assert_eq!(
        all(hop, "a null 1000; a 3 51000"),
        "a -10000 10000 1 0 null\na 0 20000 1 0 null\na 40000 60000 1 1 3\na 50000 70000 1 1 3"
    );
}

/// A watermark was made of a time that was none.
#[test]
fn rows_move_no_watermark_and_null_times_are_dropped_or_refused() {
    let strict = spec(Windows::tumble(10_000).unwrap());
    let rows = batch("a 1 null; a 2 253370764800000; a 3 1000");
    let mut operator = open(strict.clone().with_null_time(NullTime::Drop));
    operator.push(&rows).unwrap();
    assert_eq!(operator.watermark_ms(), i64::MIN);
    assert_eq!(operator.metrics().null_times, 1);
    assert_eq!(operator.metrics().late, 0);
    assert_eq!(
        text(&operator.finish().unwrap()),
        "a 0 10000 1 1 3\na 253370764800000 253370764810000 1 1 2"
    );
    let mut operator = open(strict);
    let refused = operator.push(&rows);
    let is_null = matches!(
        refused,
        Err(WindowError::Batch(BatchError::NullTime { row: 0 }))
    );
    assert!(is_null, "{refused:?}");
    assert_eq!(operator.metrics().rows_in, 0);
    assert_eq!(text(&operator.finish().unwrap()), "");
}

/// Rows of one time that came in two batches were released twice or lost.
#[test]
fn rows_of_one_time_in_two_batches_count_once_each() {
    let tumble = Windows::tumble(10_000).unwrap();
    let expected = "a 0 10000 3 3 7";
    assert_eq!(
        results(tumble, "a 1 9999; a 2 9999;; a 4 9999", 9_999),
        expected
    );
}

/// Watermarks were compared by their bytes, in which -5 is above 100.
#[test]
fn the_watermark_of_several_checkpoints_is_the_least() {
    let root = scratch();
    let spec = spec(Windows::tumble(10).unwrap());
    let watermarks = [-5, 3, 100];
    let of_three = Parallelism::new(3).unwrap();
    let ranges: Vec<GroupRange> = (0..3)
        .map(|worker| range_of(worker, groups(), of_three).unwrap())
        .collect();
    let mut canonical = Vec::new();
    let mut native = Vec::new();
    let backend = RocksBackend::new(root.path().join("stores"), groups());
    for (worker, (watermark_ms, range)) in watermarks.into_iter().zip(&ranges).enumerate() {
        let name = format!("worker-{worker}");
        let mut operator = WindowOperator::open(spec.clone(), &backend, &name).unwrap();
        operator.advance_watermark(watermark_ms).unwrap();
        let (path, id) = (root.path().join(&name), 7);
        let dir = CheckpointDir::open(&path).unwrap();
        operator.freeze().unwrap().write(*range, &dir, id).unwrap();
        canonical.push(CheckpointRef { dir: path, id });
        let path = root.path().join(format!("native-{worker}"));
        let dir = CheckpointDir::open(&path).unwrap();
        operator.checkpoint(&backend, &dir, id, *range).unwrap();
        native.push(CheckpointRef { dir: path, id });
    }
    let all = groups().all();
    let memory = MemBackend::new(groups());
    let mut restored =
        WindowOperator::restore(spec.clone(), &memory, "all", &canonical, all).unwrap();
    assert_eq!(restored.watermark_ms(), -5);
    restored.push(&batch("a 1 -4; a 2 -16")).unwrap();
    assert_eq!(restored.metrics().late, 1);
    assert_eq!(text(&restored.finish().unwrap()), "a -10 0 1 1 1");
    let restored = WindowOperator::restore_native(spec, &backend, "all", &native, all).unwrap();
    assert_eq!(restored.watermark_ms(), -5);
}

/// A restore failed for a range of key groups without any state.
#[test]
fn state_of_few_key_groups_is_restored_to_every_range() {
    let root = scratch();
    let dir = CheckpointDir::open(root.path()).unwrap();
    let spec = spec(Windows::hop(10, 20).unwrap());
    let mut operator = open(spec.clone());
    operator.push(&batch("a 1 5; b 2 5")).unwrap();
    let all = groups().all();
    let saved = operator.freeze().unwrap().write(all, &dir, 1).unwrap();
    assert!(saved.sections.len() <= 2, "of sixteen groups");
    let parts = [CheckpointRef {
        dir: root.path().to_owned(),
        id: 1,
    }];
    let stores = RocksBackend::new(root.path().join("stores"), groups());
    let memory = MemBackend::new(groups());
    let mut lines = Vec::new();
    for group in 0..16 {
        let range = GroupRange::new(group, group).unwrap();
        let name = format!("group-{group}");
        let mut restored =
            WindowOperator::restore(spec.clone(), &memory, &name, &parts, range).unwrap();
        let of_memory = text(&restored.finish().unwrap());
        let mut restored =
            WindowOperator::restore(spec.clone(), &stores, &name, &parts, range).unwrap();
        assert_eq!(text(&restored.finish().unwrap()), of_memory);
        lines.extend(of_memory.lines().map(str::to_owned));
    }
    lines.sort();
    assert_eq!(
        lines,
        [
            "a -10 10 1 1 1",
            "a 0 20 1 1 1",
            "b -10 10 1 1 2",
            "b 0 20 1 1 2"
        ]
    );
}

/// A hash was taken for a key: of many keys in one key group some are found by the same bits.
#[test]
fn keys_are_told_apart_by_themselves() {
    let root = scratch();
    let stores = RocksBackend::new(root.path().join("stores"), groups());
    let spec = spec(Windows::tumble(10).unwrap());
    let rows: Vec<String> = (0..3_000).map(|key| format!("k{key} {key} 5")).collect();
    let rows = batch(&rows.join(";"));
    let mut expected: Vec<String> = (0..3_000)
        .map(|key| format!("k{key} 0 10 2 2 {}", 2 * key))
        .collect();
    expected.sort();
    let mut memory = open(spec.clone());
    memory.push(&rows).unwrap();
    memory.push(&rows).unwrap();
    assert_eq!(text(&memory.finish().unwrap()), expected.join("\n"));
    let mut stored = WindowOperator::open(spec, &stores, "stored")
        .unwrap()
        .with_resident_bytes(0);
    stored.push(&rows).unwrap();
    stored.push(&rows).unwrap();
    let mut found: Vec<String> = stored
        .finish()
        .unwrap()
        .iter()
        .flat_map(|batch| {
            text(std::slice::from_ref(batch))
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    found.sort();
    assert_eq!(found, expected);
}

/// Cleaning up below a watermark removed the live state of the NULL key.
#[test]
fn the_null_key_is_a_key() {
    let root = scratch();
    let stores = RocksBackend::new(root.path().join("stores"), groups());
    let hop = spec(Windows::hop(10, 20).unwrap());
    let mut operator = WindowOperator::open(hop, &stores, "hop")
        .unwrap()
        .with_resident_bytes(0);
    operator.push(&batch("null 1 5; a 2 5; null 4 25")).unwrap();
    assert_eq!(
        text(&operator.advance_watermark(9).unwrap()),
        "a -10 10 1 1 2\nnull -10 10 1 1 1"
    );
    assert_eq!(
        text(&operator.advance_watermark(19).unwrap()),
        "a 0 20 1 1 2\nnull 0 20 1 1 1"
    );
    operator.push(&batch("null 8 15")).unwrap();
    assert_eq!(
        text(&operator.finish().unwrap()),
        "null 10 30 2 2 12\nnull 20 40 1 1 4"
    );
}

/// What a constructor allocated was charged to nobody.
#[test]
fn an_operator_without_rows_is_charged() {
    let spec = spec(Windows::hop(10, 20).unwrap());
    let operator = open(spec.clone());
    audit(&operator);
    assert!(operator.charged_bytes() > 0);
    let none = MemBackend::new(groups()).with_pool(MemoryPool::new(0));
    let refused = WindowOperator::open(spec, &none, "none");
    assert!(refused.unwrap_err().denied().is_some());
}

/// A refusal left half a batch behind, or could not be tried again.
#[test]
fn a_refused_batch_changes_nothing_and_can_come_again() {
    let pool = MemoryPool::new(1 << 20);
    let backend = MemBackend::new(groups()).with_pool(pool.clone());
    let spec = spec(Windows::hop(10, 20).unwrap());
    let mut operator = WindowOperator::open(spec, &backend, "hop").unwrap();
    operator.push(&batch("a 1 5")).unwrap();
    let mut other = pool.reserve("other");
    other
        .try_resize(pool.limit_bytes() - pool.used_bytes())
        .unwrap();
    let before = operator.charged_bytes();
    let rows: Vec<String> = (0..1_000).map(|key| format!("k{key} 1 15")).collect();
    let rows = batch(&rows.join(";"));
    let refused = operator.push(&rows).unwrap_err();
    assert!(refused.denied().is_some(), "{refused:?}");
    assert_eq!(operator.metrics().rows_in, 1);
    audit(&operator);
    assert_eq!(
        text(&operator.advance_watermark(9).unwrap()),
        "a -10 10 1 1 1"
    );
    drop(other);
    assert!(before > 0);
    operator.push(&rows).unwrap();
    assert_eq!(
        operator
            .finish()
            .unwrap()
            .iter()
            .map(|it| it.num_rows())
            .sum::<usize>(),
        2_001
    );
    audit(&operator);
}

/// Windows without keys or aggregates are windows all the same.
#[test]
fn windows_without_keys_or_aggregates_fire() {
    let time = || EventTime::timestamp(2);
    let hop = Windows::hop(10, 20).unwrap();
    let spec = WindowSpec::new(schema(), &[], time(), hop, &counts()).unwrap();
    let mut operator = open(spec);
    operator.push(&batch("a 1 5; b 2 15")).unwrap();
    assert_eq!(
        text(&operator.finish().unwrap()),
        "-10 10 1 1 1\n0 20 2 2 3\n10 30 1 1 2"
    );
    let spec = WindowSpec::new(schema(), &[0], time(), hop, &[]).unwrap();
    let mut operator = open(spec);
    operator.push(&batch("a 1 5; b 2 15; b 3 16")).unwrap();
    assert_eq!(
        text(&operator.finish().unwrap()),
        "a -10 10\na 0 20\nb 0 20\nb 10 30"
    );
}
