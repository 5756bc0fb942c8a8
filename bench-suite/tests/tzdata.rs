//! The differences between the recorded version of the tz database and the bundled one, against
//! the list that explains them.

use std::collections::{BTreeMap, BTreeSet};

use bench_suite::tzdata::{self, Effect, Since};
use calendar_tz::{Database, Zone};

const DAY_MS: i64 = 86_400_000;
/// Both versions repeat every 400 years long before.
const LAST_MS: i64 = 700 * 366 * DAY_MS;
/// A difference later than this comes again for ever.
const FOR_EVER_MS: i64 = 600 * 366 * DAY_MS;

/// Days of the first and last instant of each stretch in which the offsets differ.
fn differences(old: &Zone, new: &Zone) -> Vec<(i64, i64)> {
    let mut stretches: Vec<(i64, i64)> = Vec::new();
    let mut at = i64::MIN;
    while at < LAST_MS {
        let changes = [old.next_transition(at), new.next_transition(at)];
        let next = changes.iter().flatten().map(|change| change.instant_ms);
        let end = next.min().unwrap_or(i64::MAX);
        let offset = |zone: &Zone| zone.fixed_offset_over(at, end - 1);
        if offset(old) != offset(new) {
            let last = (end - 1).min(LAST_MS);
            stretches.push((at.div_euclid(DAY_MS), last.div_euclid(DAY_MS)));
        }
        at = end;
    }
    stretches
}

/// What the list says of each zone.
fn by_zone(list: &[Since]) -> BTreeMap<&str, Vec<&Since>> {
    let mut by_zone: BTreeMap<&str, Vec<&Since>> = BTreeMap::new();
    for since in list {
        for zone in &since.zones {
            by_zone.entry(zone).or_default().push(since);
        }
    }
    by_zone
}

#[test]
fn every_difference_is_listed_and_every_entry_is_one() {
    let (old, new) = (tzdata::recorded().expect("readable"), Database::bundled());
    assert_eq!(old.version(), Some("2025a"));
    let list = tzdata::since_recorded().expect("well formed");
    let listed = by_zone(&list);
    let mut problems = Vec::new();
    // Days that differ, by entry; every zone of an entry must have one.
    let mut seen: Vec<(i64, i64)> = vec![(i64::MAX, i64::MIN); list.len()];
    let names: BTreeSet<&str> = old.names().into_iter().chain(new.names()).collect();
    for name in names {
        let entries = listed.get(name).map_or(&[][..], Vec::as_slice);
        let is_new = entries.iter().any(|since| since.effect == Effect::New);
        let (Ok(old), Ok(new)) = (old.entry(name), new.entry(name)) else {
            if old.entry(name).is_ok() || !is_new {
                problems.push(format!("{name} is in one version alone"));
            }
            continue;
        };
        let rule_ends = entries.iter().any(|since| since.effect == Effect::RuleEnds);
        if (old.has_daylight_rule() != new.has_daylight_rule()) != rule_ends {
            problems.push(format!("{name}: its daylight rule"));
        }
        let mut touched = vec![false; entries.len()];
        for (first, last) in differences(&old, &new) {
            let explains = |since: &&Since| {
                since.first_day <= first && since.last_day.is_none_or(|day| last <= day)
            };
            let Some(entry) = entries.iter().position(explains) else {
                problems.push(format!("{name}: {} to {}", date(first), date(last)));
                continue;
            };
            touched[entry] = true;
            let number = list
                .iter()
                .position(|since| std::ptr::eq(since, entries[entry]))
                .expect("the entry is of the list");
            seen[number] = (seen[number].0.min(first), seen[number].1.max(last));
        }
        for (since, touched) in entries.iter().zip(touched) {
            if !touched && since.effect != Effect::New {
                problems.push(format!("{name}: nothing of {}", since.change));
            }
        }
    }
    for (since, (first, last)) in list.iter().zip(seen) {
        let last = (last < FOR_EVER_MS / DAY_MS).then_some(last);
        if since.effect != Effect::New && (since.first_day, since.last_day) != (first, last) {
            let last = last.map_or_else(|| "ever".to_owned(), date);
            problems.push(format!("{}: is {} to {last}", since.change, date(first)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn no_entry_is_of_the_recorded_version_or_older() {
    for since in tzdata::since_recorded().expect("well formed") {
        assert!(
            since.version.as_str() > tzdata::RECORDED_VERSION,
            "{since:?}"
        );
        let bundled = Database::bundled();
        assert!(
            Some(since.version.as_str()) <= bundled.version(),
            "{since:?}"
        );
    }
}

fn date(day: i64) -> String {
    chrono::DateTime::from_timestamp(day * 86_400, 0)
        .map_or_else(|| format!("day {day}"), |at| at.date_naive().to_string())
}
