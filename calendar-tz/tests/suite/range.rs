//! Random zones and times, near and far, up to the ends of 64 bits.

use calendar_tz::{Conversion, Cursor, Database, END_OF_TIME, Policy, RangeError, Zone};
use proptest::prelude::*;

use crate::model::{DAY, Model};

pub(crate) const CONVERSIONS: [Conversion; 4] = [
    Conversion::ToLocal,
    Conversion::ToInstant,
    Conversion::Timer(Policy::Flink),
    Conversion::Timer(Policy::Exact),
];

pub(crate) fn name() -> impl Strategy<Value = String> {
    let names: Vec<String> = Database::bundled()
        .names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    prop::sample::select(names)
}

/// Years -200,000 to 200,000.
const FAR: i64 = 200_000 * 365 * DAY;

/// Times of every kind: of our century, far, anywhere, and next to the ends.
pub(crate) fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -200 * 365 * DAY..200 * 365 * DAY,
        4 => -FAR..FAR,
        1 => any::<i64>(),
        1 => (0..4 * DAY).prop_map(|near| i64::MAX - near),
        1 => (0..4 * DAY).prop_map(|near| i64::MIN + near),
        1 => (-3..3_i64).prop_map(|near| (1 << 62) + near),
        1 => (-3..3_i64).prop_map(|near| -(1 << 62) + near),
    ]
}

pub(crate) fn scalar(zone: &Zone, conversion: Conversion, value: i64) -> Result<i64, RangeError> {
    match conversion {
        Conversion::ToLocal => zone.to_local(value),
        Conversion::ToInstant => zone.to_instant(value),
        Conversion::Timer(policy) => zone.timer(value, policy),
    }
}

fn modelled(model: &Model, conversion: Conversion, value: i64) -> Option<i64> {
    match conversion {
        Conversion::ToLocal => model.local(value),
        Conversion::ToInstant => model.instant(value),
        Conversion::Timer(policy) => model.timer(value, policy),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_time_converts_as_in_the_library(name in name(), times in prop::collection::vec(time(), 16)) {
        let zone = Database::bundled().entry(&name).expect("bundled");
        let model = Model::bundled(&name);
        for conversion in CONVERSIONS {
            let mut cursor: Cursor<'_> = zone.cursor(conversion);
            for time in &times {
                let result = scalar(&zone, conversion, *time);
                prop_assert_eq!(result.ok(), modelled(&model, conversion, *time), "{} {:?} {}", name, conversion, time);
                prop_assert_eq!(cursor.convert(*time), result);
            }
        }
    }

    #[test]
    fn an_instant_comes_back_or_comes_earlier(name in name(), time in time()) {
        let zone = Database::bundled().entry(&name).expect("bundled");
        if let Ok(local) = zone.to_local(time) {
            let first = zone.to_instant(local).expect("it has an instant");
            prop_assert!(first <= time);
            prop_assert_eq!(zone.to_local(first), Ok(local));
            // The last instant that reads so is where the timer fires.
            prop_assert!(zone.timer(local, Policy::Exact).expect("it has one") >= time);
        }
    }

    #[test]
    fn exact_timers_never_decrease(name in name(), time in time(), step in 0..200 * DAY) {
        let zone = Database::bundled().entry(&name).expect("bundled");
        let later = time.saturating_add(step);
        let timers = (zone.timer(time, Policy::Exact), zone.timer(later, Policy::Exact));
        if let (Ok(first), Ok(second)) = timers {
            prop_assert!(first <= second);
        }
    }

    #[test]
    fn queries_answer_at_every_time(name in name(), a in time(), b in time()) {
        let zone = Database::bundled().entry(&name).expect("bundled");
        if let Some(change) = zone.next_transition(a) {
            prop_assert!(change.instant_ms > a);
            prop_assert_ne!(change.offset_before_ms, change.offset_after_ms);
            prop_assert_eq!(zone.fixed_offset_over(a, change.instant_ms - 1), Some(change.offset_before_ms));
        } else {
            prop_assert_eq!(zone.fixed_offset_over(a, i64::MAX).is_some(), true);
        }
        if let Some(change) = zone.previous_transition(a) {
            prop_assert!(change.instant_ms < a);
        }
        if let Some(offset) = zone.fixed_offset_over(a.min(b), a.max(b)) {
            for time in [a, b].into_iter().filter(|time| *time != END_OF_TIME) {
                prop_assert_eq!(zone.to_local(time).ok(), time.checked_add(offset));
            }
        }
        if let Ok(day) = zone.local_day_ms(a) {
            prop_assert!((0..=2 * DAY).contains(&day));
        }
        prop_assert!(zone.elapsed_ms(a, a.saturating_add(40 * DAY)) >= 0);
    }
}

#[test]
fn the_ends_of_64_bits_convert_or_are_refused() {
    let shanghai = Zone::named("GMT+08:00").expect("an offset");
    let hours = 8 * 3_600_000;
    assert_eq!(shanghai.to_local(i64::MIN), Ok(i64::MIN + hours));
    assert_eq!(shanghai.to_instant(i64::MAX - 1), Ok(i64::MAX - 1 - hours));
    assert_eq!(shanghai.to_local(i64::MAX - hours), Ok(i64::MAX));
    let error = shanghai.to_local(i64::MAX - 1).unwrap_err();
    assert_eq!(
        (error.value_ms(), error.conversion()),
        (i64::MAX - 1, Conversion::ToLocal)
    );
    insta::assert_snapshot!(error, @"instant 9223372036854775806 ms has no local time within 64 bits");
    let error = shanghai.timer(i64::MIN, Policy::Flink).unwrap_err();
    insta::assert_snapshot!(error, @"local time -9223372036854775808 ms has no timer within 64 bits");
    // Flink's formula looks an hour ahead, which does not fit in zones with a daylight rule.
    let new_york = Zone::named("America/New_York").expect("bundled");
    let near = new_york.to_local(i64::MAX - 1).expect("west of UTC");
    assert!(new_york.to_instant(near).is_ok());
    assert!(new_york.timer(near, Policy::Flink).is_err());
    assert!(new_york.timer(near, Policy::Exact).is_ok());
}

#[test]
fn the_end_of_time_is_given_back() {
    for name in Database::bundled().names() {
        let zone = Database::bundled().entry(name).expect("bundled");
        for conversion in CONVERSIONS {
            assert_eq!(
                scalar(&zone, conversion, END_OF_TIME),
                Ok(END_OF_TIME),
                "{name}"
            );
        }
    }
}
