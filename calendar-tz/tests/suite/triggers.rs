//! Which windows have fired, and when the next one can.

use std::error::Error as _;

use calendar_tz::{END_OF_TIME, Policy, TriggerError, Zone};
use proptest::prelude::*;

use crate::model::{DAY, HOUR, at};

#[test]
fn a_window_fires_with_its_last_millisecond() {
    let zone = Zone::named("America/New_York").expect("bundled");
    let end = at("2024-01-02T00:00:00");
    for policy in [Policy::Flink, Policy::Exact] {
        assert_eq!(zone.has_fired(end, end + 5 * HOUR - 2, policy), Ok(false));
        assert_eq!(zone.has_fired(end, end + 5 * HOUR - 1, policy), Ok(true));
        assert_eq!(zone.has_fired(END_OF_TIME, END_OF_TIME, policy), Ok(false));
        assert_eq!(zone.has_fired(end, END_OF_TIME, policy), Ok(true));
        assert!(zone.has_fired(i64::MIN, 0, policy).is_err());
    }
}

#[test]
fn intervals_and_ranges_are_checked() {
    let zone = Zone::utc();
    for interval_ms in [0, -1, i64::MIN] {
        // The interval of the first instant of all began earlier; that of the next one ends before 1970.
        assert!(
            zone.next_trigger(i64::MIN, i64::MAX, Policy::Flink)
                .is_err()
        );
        assert_eq!(zone.next_trigger(i64::MIN, i64::MAX, Policy::Exact), Ok(-1));
        let error = zone
            .next_trigger(0, interval_ms, Policy::Flink)
            .unwrap_err();
        assert_eq!(error, TriggerError::Interval { interval_ms });
        assert!(error.source().is_none());
    }
    for policy in [Policy::Flink, Policy::Exact] {
        assert_eq!(zone.next_trigger(END_OF_TIME, 1, policy), Ok(END_OF_TIME));
        assert!(zone.next_trigger(END_OF_TIME - 1, 60_000, policy).is_err());
        assert_eq!(zone.next_trigger(0, i64::MAX, policy), Ok(i64::MAX - 1));
    }
    // The interval of the first instant of all began earlier; that of the next one ends before 1970.
    assert!(
        zone.next_trigger(i64::MIN, i64::MAX, Policy::Flink)
            .is_err()
    );
    assert_eq!(zone.next_trigger(i64::MIN, i64::MAX, Policy::Exact), Ok(-1));
    let error = zone
        .next_trigger(END_OF_TIME - 1, 60_000, Policy::Flink)
        .unwrap_err();
    insta::assert_snapshot!(error, @"no trigger after watermark 9223372036854775806 ms within 64 bits");
}

/// The least timer after the watermark, by trying the windows around it one after another.
fn least_timer(zone: &Zone, watermark: i64, interval: i64) -> i64 {
    let local = zone.to_local(watermark).expect("in range");
    let first = (local - 3 * DAY).div_euclid(interval) * interval;
    let ends = (first..local + 4 * DAY + 2 * interval)
        .step_by(usize::try_from(interval).expect("positive"));
    let timers = ends.map(|end| zone.timer(end - 1, Policy::Exact).expect("in range"));
    timers
        .filter(|timer| *timer > watermark)
        .min()
        .expect("one comes")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_exact_trigger_is_the_least_timer(
        (zone, around) in prop::sample::select(vec![
            ("America/New_York", "2021-11-07T06:00:00Z"),
            ("America/New_York", "2021-03-14T07:00:00Z"),
            ("Australia/Lord_Howe", "2021-04-03T15:00:00Z"),
            ("Pacific/Apia", "2011-12-30T10:00:00Z"),
            ("Pacific/Kwajalein", "1993-08-21T12:00:00Z"),
            ("Asia/Manila", "1867-10-18T15:00:00Z"),
            ("America/Juneau", "1867-10-19T00:00:00Z"),
            ("Asia/Kolkata", "2024-01-01T00:00:00Z"),
        ]),
        minutes in -3_000..3_000_i64,
        millisecond in -1..2_i64,
        interval in prop::sample::select(vec![10 * 60_000, 30 * 60_000, HOUR, 7 * HOUR, DAY]),
    ) {
        let zone = Zone::named(zone).expect("bundled");
        let watermark = at(around) + minutes * 60_000 + millisecond;
        let trigger = zone.next_trigger(watermark, interval, Policy::Exact);
        prop_assert_eq!(trigger, Ok(least_timer(&zone, watermark, interval)));
    }
}
