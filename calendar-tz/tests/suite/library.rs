//! Every zone of the bundled database beside the source library's own answers.

use crate::model::{DAY, HOUR, Model, PERIOD, at};
use calendar_tz::{Database, Policy, Zone};

/// The table of New York goes to 2409, so this is beyond every table's end and once more around.
fn last() -> i64 {
    at("2950-01-01T00:00:00")
}

fn zones() -> Vec<(String, Zone, Model)> {
    let database = Database::bundled();
    let names = database.names().into_iter().map(str::to_owned);
    names
        .map(|name| {
            let zone = database.entry(&name).expect("readable");
            let model = Model::bundled(&name);
            (name, zone, model)
        })
        .collect()
}

#[test]
fn transitions_are_those_of_the_library_s_iterator() {
    let first = at("-009000-01-01T00:00:00");
    let mut zones_with_changes = 0;
    for (name, zone, model) in zones() {
        let changes = model.changes(first, last());
        let mut before = first;
        let mut offset = model.offset(first);
        for (instant, new_offset) in &changes {
            let change = zone.next_transition(before).expect(&name);
            assert_eq!(change.instant_ms, *instant, "{name}");
            assert_eq!(change.offset_before_ms, offset, "{name} at {instant}");
            assert_eq!(change.offset_after_ms, *new_offset, "{name} at {instant}");
            assert_eq!(
                zone.previous_transition(instant + 1),
                Some(change),
                "{name}"
            );
            assert_eq!(
                zone.fixed_offset_over(before, instant - 1),
                Some(offset),
                "{name}"
            );
            assert_eq!(zone.fixed_offset_over(before, *instant), None, "{name}");
            (before, offset) = (*instant, *new_offset);
        }
        match zone.next_transition(before) {
            Some(change) => assert!(change.instant_ms > last(), "{name}"),
            None => assert_eq!(
                zone.fixed_offset_over(before, i64::MAX),
                Some(offset),
                "{name}"
            ),
        }
        let begin = changes.first().map_or(i64::MAX, |(instant, _)| *instant);
        assert_eq!(zone.previous_transition(begin), None, "{name}");
        zones_with_changes += usize::from(!changes.is_empty());
    }
    assert!(zones_with_changes > 540, "{zones_with_changes}");
}

#[test]
fn both_sides_of_every_transition_convert_as_in_the_library() {
    let first = at("-009000-01-01T00:00:00");
    for (name, zone, model) in zones() {
        let mut offset = model.offset(first);
        for (instant, new_offset) in model.changes(first, last()) {
            for instant in [instant - 1, instant, instant + 1] {
                assert_eq!(
                    zone.to_local(instant).ok(),
                    model.local(instant),
                    "{name} {instant}"
                );
            }
            // Both ends of the gap or overlap, and the middle.
            let (start, end) = (instant + offset, instant + new_offset);
            let around = [start, end, (start + end) / 2, start - HOUR];
            for local in around
                .iter()
                .flat_map(|local| [local - 1, *local, local + 1])
            {
                let case = format!("{name} {local}");
                assert_eq!(zone.to_instant(local).ok(), model.instant(local), "{case}");
                for policy in [Policy::Exact, Policy::Flink] {
                    let timer = zone.timer(local, policy).ok();
                    assert_eq!(timer, model.timer(local, policy), "{policy:?} {case}");
                }
            }
            offset = new_offset;
        }
    }
}

#[test]
fn gaps_resolve_once_round_trips_close_and_exact_timers_never_decrease() {
    for (name, zone, model) in zones() {
        let first = at("-009000-01-01T00:00:00");
        for (instant, new_offset) in model.changes(first, at("2100-01-01T00:00:00")) {
            let change = zone.previous_transition(instant + 1).expect(&name);
            let low = instant + change.offset_before_ms.min(new_offset) - 2 * HOUR;
            let high = instant + change.offset_before_ms.max(new_offset) + 2 * HOUR;
            let step = ((high - low) / 97).max(1);
            let mut timer_before = i64::MIN;
            for local in (low..high).step_by(usize::try_from(step).expect("positive")) {
                let resolved = zone.to_instant(local).expect("in range");
                let shown = zone.to_local(resolved).expect("in range");
                assert_eq!(zone.to_instant(shown), Ok(resolved), "{name} {local}");
                let is_skipped = shown != local;
                let timer = zone.timer(local, Policy::Exact).expect("in range");
                assert!(timer >= timer_before, "{name} {local}");
                timer_before = timer;
                // Nothing after the timer reads as this time or an earlier one.
                assert!(
                    zone.to_local(timer).expect("in range") <= local,
                    "{name} {local}"
                );
                assert!(
                    zone.to_local(timer + 1).expect("in range") > local,
                    "{name} {local}"
                );
                assert_eq!(
                    is_skipped,
                    zone.to_local(timer) != Ok(local),
                    "{name} {local}"
                );
            }
        }
    }
}

#[test]
fn the_rule_goes_on_for_ever() {
    let zone = Zone::named("America/Boise").expect("bundled");
    let summer = -6 * HOUR;
    for instant in [at("2038-04-01T00:00:00Z"), at("2060-07-01T00:00:00Z")] {
        assert_eq!(zone.to_local(instant), Ok(instant + summer));
        for periods in [1, 2, 3, 1_000, 700_000] {
            let later = instant + periods * PERIOD;
            assert_eq!(zone.to_local(later), Ok(later + summer), "{periods}");
        }
    }
    let change = zone
        .next_transition(i64::MAX - 400 * DAY)
        .expect("one a year");
    assert_eq!(
        (change.offset_after_ms - change.offset_before_ms).abs(),
        HOUR
    );
}
