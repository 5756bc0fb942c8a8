//! How long stretches of local time last, against a count of the instants.

use calendar_tz::Zone;
use proptest::prelude::*;

use crate::model::{DAY, HOUR, PERIOD, at};

/// Minutes of instants that read as a time of the stretch, one by one.
fn counted(zone: &Zone, from: i64, to: i64) -> i64 {
    let minute = 60_000;
    let instants = (from - 2 * DAY..to + 2 * DAY).step_by(60_000);
    let read = instants.filter(|instant| {
        let local = zone.to_local(*instant).expect("in range");
        from <= local && local < to
    });
    i64::try_from(read.count()).expect("few") * minute
}

#[test]
fn days_last_as_long_as_their_instants() {
    for (zone, day, hours) in [
        ("America/New_York", "2013-03-10T12:00:00", 23),
        ("America/New_York", "2013-11-03T00:00:00", 25),
        ("America/New_York", "2013-07-04T23:59:59.999", 24),
        ("America/Sao_Paulo", "2018-02-17T00:00:00", 25),
        ("America/Sao_Paulo", "2018-11-04T05:00:00", 23),
        ("Antarctica/Troll", "2021-03-28T00:00:00", 22),
        ("Antarctica/Troll", "2021-10-31T00:00:00", 26),
        ("Pacific/Apia", "2011-12-29T00:00:00", 24),
        ("Pacific/Apia", "2011-12-30T00:00:00", 0),
        ("Pacific/Kwajalein", "1993-08-21T00:00:00", 0),
        ("America/Havana", "2021-11-07T00:00:00", 25),
        ("America/New_York", "2413-03-10T00:00:00", 23),
    ] {
        let zone = Zone::named(zone).expect("bundled");
        assert_eq!(zone.local_day_ms(at(day)), Ok(hours * HOUR), "{zone} {day}");
    }
}

#[test]
fn a_change_at_midnight_counts_for_the_day_that_is_shown() {
    // St. John's went back at one minute past midnight: 59 minutes of the 30th came again.
    let zone = Zone::named("America/St_Johns").expect("bundled");
    assert_eq!(
        zone.local_day_ms(at("2010-11-06T00:00:00")),
        Ok(24 * HOUR + 59 * 60_000)
    );
    assert_eq!(
        zone.local_day_ms(at("2010-11-07T00:00:00")),
        Ok(24 * HOUR + 60_000)
    );
}

#[test]
fn a_day_at_the_end_of_64_bits_is_refused() {
    let zone = Zone::utc();
    assert!(zone.local_day_ms(i64::MAX).is_err());
    assert!(zone.local_day_ms(i64::MIN).is_err());
    assert_eq!(zone.local_day_ms(i64::MIN + DAY), Ok(DAY));
    assert_eq!(zone.elapsed_ms(i64::MIN, i64::MAX), i64::MAX);
    assert_eq!(zone.elapsed_ms(5, 5), 0);
    assert_eq!(zone.elapsed_ms(5, 4), 0);
}

#[test]
fn long_stretches_cost_no_more_than_a_period() {
    let zone = Zone::named("America/New_York").expect("bundled");
    assert_eq!(zone.elapsed_ms(i64::MIN, i64::MAX), i64::MAX);
    // A million years, from winter to winter and from winter to summer.
    let (from, years) = (at("2013-01-10T00:00:00"), 2_500 * PERIOD);
    assert_eq!(zone.elapsed_ms(from, from + years), years);
    assert_eq!(
        zone.elapsed_ms(from, from + years + 150 * DAY),
        years + 150 * DAY - HOUR
    );
    // Before 1883-11-18 the clock was a little slow of it.
    let day = at("1883-11-18T00:00:00");
    assert_eq!(zone.elapsed_ms(day, day + DAY), DAY + 238_000);
    assert_eq!(
        zone.elapsed_ms(i64::MIN / 2, from),
        from - i64::MIN / 2 + 238_000
    );
}

#[test]
fn an_offset_is_fixed_between_changes_alone() {
    let zone = Zone::named("America/New_York").expect("bundled");
    let (start, end) = (at("2013-03-10T07:00:00Z"), at("2013-11-03T06:00:00Z"));
    assert_eq!(zone.fixed_offset_over(start, end - 1), Some(-4 * HOUR));
    assert_eq!(zone.fixed_offset_over(start, end), None);
    assert_eq!(zone.fixed_offset_over(start - 1, end - 1), None);
    assert_eq!(zone.fixed_offset_over(start, start), Some(-4 * HOUR));
    assert_eq!(zone.fixed_offset_over(end, start), None);
    let utc = Zone::utc();
    assert_eq!(utc.fixed_offset_over(i64::MIN, i64::MAX), Some(0));
    assert_eq!(
        (
            utc.next_transition(i64::MIN),
            utc.previous_transition(i64::MAX)
        ),
        (None, None)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_stretch_lasts_as_long_as_its_instants(
        zone in prop::sample::select(vec![
            "Australia/Lord_Howe", "America/Havana", "America/St_Johns", "Pacific/Apia", "Africa/Casablanca",
        ]),
        start in at("2005-01-01T00:00:00") / 60_000..at("2012-01-10T00:00:00") / 60_000,
        minutes in 0..3_000_i64,
    ) {
        let zone = Zone::named(zone).expect("bundled");
        let (from, to) = (start * 60_000, (start + minutes) * 60_000);
        prop_assert_eq!(zone.elapsed_ms(from, to), counted(&zone, from, to));
    }
}
