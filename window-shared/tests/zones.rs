//! Windows by clocks that change.

mod common;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use arrow::datatypes::TimestampMillisecondType;
use calendar_tz::{Policy, Zone};
use common::{MemOperator, audit, batch_of, counts, open, schema_ltz};
use window_shared::{EventTime, WindowSpec, Windows};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

fn millis(text: &str) -> i64 {
    string_to_timestamp_nanos(text).unwrap() / 1_000_000
}

fn operator(zone: &str, policy: Policy, windows: Windows) -> MemOperator {
    let time = EventTime::timestamp_ltz(2, Zone::named(zone).unwrap()).with_policy(policy);
    open(WindowSpec::new(schema_ltz(), &[0], time, windows, &counts()).unwrap())
}

fn push(operator: &mut MemOperator, instants: &[&str]) {
    let rows = instants.iter().map(|text| format!("a 1 {}", millis(text)));
    let rows = rows.collect::<Vec<_>>().join(";");
    operator.push(&batch_of(&schema_ltz(), &rows)).unwrap();
}

/// The windows of the key as `start end rows`, by the clock of the zone.
fn shown(results: &[RecordBatch]) -> Vec<String> {
    let bound = |batch: &RecordBatch, name: &str, row: usize| {
        let bound = batch[name].as_primitive::<TimestampMillisecondType>();
        let bound = bound.value_as_datetime(row).unwrap();
        bound.format("%Y-%m-%dT%H:%M").to_string()
    };
    let lines = results.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(move |row| {
            let (start, end) = (
                bound(batch, "window_start", row),
                bound(batch, "window_end", row),
            );
            let rows = batch["rows"].as_primitive::<arrow::datatypes::Int64Type>();
            format!("{start} {end} {}", rows.value(row))
        })
    });
    lines.collect()
}

fn advance(operator: &mut MemOperator, watermark: &str) -> Vec<String> {
    let fired = shown(&operator.advance_watermark(millis(watermark)).unwrap());
    audit(operator);
    fired
}

fn finish(operator: &mut MemOperator) -> Vec<String> {
    let fired = shown(&operator.finish().unwrap());
    audit(operator);
    fired
}

/// In zones that have no daylight saving time today the windows of a day that has 25 hours were closed an hour
/// early, and rows were lost. Flink does so, and its policy; by the exact one none is.
#[test]
fn a_day_of_25_hours_stays_open_for_all_of_them() {
    let zone = "America/Sao_Paulo";
    let day = Windows::tumble(24 * HOUR_MS).unwrap();
    let seventeenth = ["2018-02-17T00:00 2018-02-18T00:00 2"];

    let mut exact = operator(zone, Policy::Exact, day);
    push(&mut exact, &["2018-02-17T12:00:00Z"]);
    assert!(advance(&mut exact, "2018-02-18T02:00:00Z").is_empty());
    push(&mut exact, &["2018-02-18T02:30:00Z"]);
    assert!(advance(&mut exact, "2018-02-18T02:59:59.998Z").is_empty());
    assert_eq!(advance(&mut exact, "2018-02-18T02:59:59.999Z"), seventeenth);
    assert_eq!(exact.metrics().late, 0);

    let mut flink = operator(zone, Policy::Flink, day);
    push(&mut flink, &["2018-02-17T12:00:00Z"]);
    assert_eq!(
        advance(&mut flink, "2018-02-18T02:00:00Z"),
        ["2018-02-17T00:00 2018-02-18T00:00 1"]
    );
    push(&mut flink, &["2018-02-18T02:30:00Z"]);
    assert!(advance(&mut flink, "2018-02-18T03:00:00Z").is_empty());
    assert_eq!(flink.metrics().late, 1);
}

/// A change of half an hour was taken for one of an hour.
#[test]
fn clocks_that_change_by_half_an_hour() {
    let zone = "Australia/Lord_Howe";
    let half_hours = Windows::tumble(30 * MINUTE_MS).unwrap();
    // Back from 02:00 to 01:30 at 15:00Z: 01:30 to 02:00 is there twice.
    let autumn = [
        "2021-04-03T14:15:00Z",
        "2021-04-03T14:45:00Z",
        "2021-04-03T15:15:00Z",
        "2021-04-03T15:45:00Z",
    ];
    // From 02:00 to 02:30 at 15:30Z.
    let spring = [
        "2021-10-02T15:15:00Z",
        "2021-10-02T15:45:00Z",
        "2021-10-02T16:15:00Z",
    ];
    for policy in [Policy::Flink, Policy::Exact] {
        let mut by_row = operator(zone, policy, half_hours);
        let mut fired = Vec::new();
        for row in autumn {
            push(&mut by_row, &[row]);
            fired.extend(advance(&mut by_row, row));
        }
        fired.extend(finish(&mut by_row));
        if policy == Policy::Exact {
            let expected = [
                "2021-04-04T01:00 2021-04-04T01:30 1",
                "2021-04-04T01:30 2021-04-04T02:00 2",
                "2021-04-04T02:00 2021-04-04T02:30 1",
            ];
            assert_eq!(fired, expected);
            assert_eq!(by_row.metrics().late, 0);
        }
        let mut by_row = operator(zone, policy, half_hours);
        let mut fired = Vec::new();
        for row in spring {
            push(&mut by_row, &[row]);
            fired.extend(advance(&mut by_row, row));
        }
        fired.extend(finish(&mut by_row));
        let expected = [
            "2021-10-03T01:30 2021-10-03T02:00 1",
            "2021-10-03T02:30 2021-10-03T03:00 1",
            "2021-10-03T03:00 2021-10-03T03:30 1",
        ];
        assert_eq!(fired, expected, "{policy:?}");
    }
    // The repeated half hour is open until it has passed for the second time.
    let mut exact = operator(zone, Policy::Exact, half_hours);
    push(&mut exact, &[autumn[1], autumn[2]]);
    assert!(advance(&mut exact, "2021-04-03T15:29:59.998Z").is_empty());
    assert_eq!(
        advance(&mut exact, "2021-04-03T15:29:59.999Z"),
        ["2021-04-04T01:30 2021-04-04T02:00 2"]
    );
}

/// A change of two hours lost rows or made windows of a negative length.
#[test]
fn clocks_that_change_by_two_hours() {
    let hours = Windows::tumble(HOUR_MS).unwrap();
    for policy in [Policy::Flink, Policy::Exact] {
        let mut spring = operator("Antarctica/Troll", policy, hours);
        push(
            &mut spring,
            &["2021-03-28T00:30:00Z", "2021-03-28T01:30:00Z"],
        );
        let fired = advance(&mut spring, "2021-03-28T03:00:00Z");
        let expected = [
            "2021-03-28T00:00 2021-03-28T01:00 1",
            "2021-03-28T03:00 2021-03-28T04:00 1",
        ];
        assert_eq!(fired, expected, "{policy:?}");
        // Back from 03:00 to 01:00 at 01:00Z.
        let mut autumn = operator("Antarctica/Troll", policy, hours);
        let rows = [
            "2021-10-30T23:30:00Z",
            "2021-10-31T00:30:00Z",
            "2021-10-31T01:30:00Z",
            "2021-10-31T02:30:00Z",
            "2021-10-31T03:30:00Z",
        ];
        push(&mut autumn, &rows);
        let mut fired = finish(&mut autumn);
        fired.sort();
        let expected = [
            "2021-10-31T01:00 2021-10-31T02:00 2",
            "2021-10-31T02:00 2021-10-31T03:00 2",
            "2021-10-31T03:00 2021-10-31T04:00 1",
        ];
        assert_eq!(fired, expected, "{policy:?}");
    }
    // With a watermark behind each row nothing is late by the exact policy.
    let mut exact = operator("Antarctica/Troll", Policy::Exact, hours);
    for row in [
        "2021-10-30T23:30:00Z",
        "2021-10-31T00:30:00Z",
        "2021-10-31T01:30:00Z",
    ] {
        push(&mut exact, &[row]);
        assert!(advance(&mut exact, row).is_empty(), "{row}");
    }
    assert_eq!(exact.metrics().late, 0);
}

/// In spring a window had no length, in autumn one had two hours under one name. By local time the hour that is
/// shown twice is one window; over a clock without changes it is two.
#[test]
fn the_hour_that_is_shown_twice_is_one_window() {
    let hours = Windows::tumble(HOUR_MS).unwrap();
    let rows = [
        "2026-03-08T06:30:00Z",
        "2026-03-08T07:30:00Z",
        "2026-11-01T05:30:00Z",
        "2026-11-01T06:30:00Z",
    ];
    for policy in [Policy::Flink, Policy::Exact] {
        let mut local = operator("America/New_York", policy, hours);
        let mut fired = Vec::new();
        for row in rows {
            push(&mut local, &[row]);
            fired.extend(advance(&mut local, row));
        }
        fired.extend(finish(&mut local));
        let expected = [
            "2026-03-08T01:00 2026-03-08T02:00 1",
            "2026-03-08T03:00 2026-03-08T04:00 1",
            "2026-11-01T01:00 2026-11-01T02:00 2",
        ];
        assert_eq!(fired, expected, "{policy:?}");
    }
    let mut instants = operator("UTC", Policy::Flink, hours);
    push(&mut instants, &rows);
    assert_eq!(finish(&mut instants).len(), 4);
}

/// Bounds were instants where they are of the zone's clock, or the time was of the clock where it is an instant.
#[test]
fn bounds_are_of_the_clock_and_the_time_is_an_instant() {
    let mut operator = operator("GMT+08:00", Policy::Flink, Windows::tumble(10_000).unwrap());
    push(&mut operator, &["1970-01-01T00:00:00Z"]);
    let fired = operator.advance_watermark(9_999).unwrap();
    let window = &fired[0];
    let value = |name: &str| {
        window[name]
            .as_primitive::<TimestampMillisecondType>()
            .value(0)
    };
    assert_eq!(value("window_start"), 8 * HOUR_MS);
    assert_eq!(value("window_end"), 8 * HOUR_MS + 10_000);
    assert_eq!(value("window_time"), 9_999);
    let types: Vec<String> = ["window_start", "window_end", "window_time"]
        .map(|name| window[name].data_type().to_string())
        .into();
    assert_eq!(
        types,
        ["Timestamp(ms)", "Timestamp(ms)", "Timestamp(ms, \"UTC\")"]
    );
}

/// Overlapping windows around a change fired in another order than that of their ends, and an earlier one had
/// the rows of a later one.
#[test]
fn windows_that_cumulate_over_a_change_have_the_rows_before_their_end() {
    let steps = Windows::cumulate(HOUR_MS, 4 * HOUR_MS).unwrap();
    // 01:30 before the change, 01:30 after it and 02:30, of 2026-11-01 in New York.
    let rows = [
        "2026-11-01T05:30:00Z",
        "2026-11-01T06:30:00Z",
        "2026-11-01T07:30:00Z",
    ];
    for policy in [Policy::Flink, Policy::Exact] {
        let mut operator = operator("America/New_York", policy, steps);
        let mut fired = Vec::new();
        for row in rows {
            push(&mut operator, &[row]);
            fired.extend(advance(&mut operator, row));
        }
        fired.extend(finish(&mut operator));
        let expected = [
            "2026-11-01T00:00 2026-11-01T02:00 2",
            "2026-11-01T00:00 2026-11-01T03:00 3",
            "2026-11-01T00:00 2026-11-01T04:00 3",
        ];
        assert_eq!(fired, expected, "{policy:?}");
    }
}
