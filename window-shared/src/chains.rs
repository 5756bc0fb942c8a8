//! The order in which windows fire.
//!
//! By the clock of a zone windows need not fire in the order of their ends: where the clock goes back, or where
//! Flink takes the change of a clock for one of an hour, the timers of some windows are not after those of
//! windows that end earlier. But between the few local times at which a change can begin or end to matter,
//! timers rise with ends.

use calendar_tz::RangeError;

use crate::spec::WindowSpec;

/// Further than this no offset moves a local time, nor Flink's rule a timer.
const REACH_MS: i64 = 20 * HOUR_MS;

/// How far ahead Flink's timers look for a change of the clock.
const HOUR_MS: i64 = 3_600_000;

impl WindowSpec {
    /// The windows that end at `first`, `first + slice_ms`, … `last`, as spans (first and last end) over which
    /// timers rise, in order of their ends. All in one span, unless the clock changes about then.
    pub(crate) fn chains(&self, first: i64, last: i64) -> impl Iterator<Item = (i64, i64)> + use<> {
        let slice_ms = self.windows.slice_ms();
        let mut starts = self.breaks(first, last);
        starts.push(first);
        starts.sort_unstable();
        starts.dedup();
        let ends: Vec<i64> = starts.iter().skip(1).map(|next| next - slice_ms).collect();
        let chains = starts.into_iter().zip(ends.into_iter().chain([last]));
        chains.filter(|(first, last)| first <= last)
    }

    /// The ends, of those after `first`, at which timers may start over.
    fn breaks(&self, first: i64, last: i64) -> Vec<i64> {
        let mut breaks = Vec::new();
        let Some(zone) = &self.time.zone else {
            return breaks;
        };
        let since = first.saturating_sub(REACH_MS);
        let until = last.saturating_add(REACH_MS);
        if first >= last || zone.fixed_offset_over(since, until).is_some() {
            return breaks;
        }
        let slice_ms = self.windows.slice_ms();
        let mut change = zone.next_transition(since.saturating_sub(1));
        while let Some(at) = change.filter(|at| at.instant_ms <= until) {
            for offset_ms in [at.offset_before_ms, at.offset_after_ms] {
                for ahead_ms in [0, HOUR_MS] {
                    // The last millisecond of a window decides.
                    let local_ms = at.instant_ms.saturating_add(offset_ms - ahead_ms);
                    let slices = local_ms.saturating_sub(first).div_euclid(slice_ms) + 1;
                    let end = first.saturating_add(slices.saturating_mul(slice_ms));
                    if first < end && end <= last {
                        breaks.push(end);
                    }
                }
            }
            change = zone.next_transition(at.instant_ms);
        }
        breaks
    }

    /// The first window of a chain that has a timer, and then an end, after `passed`.
    pub(crate) fn first_after(
        &self,
        (first, last): (i64, i64),
        passed: (i64, i64),
    ) -> Result<Option<i64>, RangeError> {
        let slice_ms = self.windows.slice_ms();
        let (mut low, mut high) = (0, (last - first) / slice_ms + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let end = first + middle * slice_ms;
            if (self.time.timer_ms(end)?, end) > passed {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let end = first.checked_add(low * slice_ms);
        Ok(end.filter(|&end| end <= last))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
    use calendar_tz::{Policy, Zone};

    use super::*;
    use crate::{EventTime, Windows};

    fn spec(zone: Zone, policy: Policy, slice_ms: i64) -> WindowSpec {
        let instants = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let schema = Arc::new(Schema::new(vec![Field::new("ts", instants, false)]));
        let time = EventTime::timestamp_ltz(0, zone).with_policy(policy);
        let windows = Windows::hop(slice_ms, 48 * slice_ms).unwrap();
        WindowSpec::new(schema, &[], time, windows, &[]).unwrap()
    }

    /// Timers rise within each chain, over every change of the clock of many zones, and chains are few.
    #[test]
    fn timers_rise_within_chains() {
        let zones = [
            "America/New_York",
            "America/Sao_Paulo",
            "Australia/Lord_Howe",
            "Pacific/Apia",
            "Pacific/Kwajalein",
            "Asia/Manila",
            "Europe/Dublin",
            "Africa/Casablanca",
            "Antarctica/Troll",
            "Asia/Pyongyang",
        ];
        let mut split = 0;
        for zone in zones.map(|id| Zone::named(id).unwrap()) {
            let mut change = zone.next_transition(-4_000_000_000_000);
            for _ in 0..300 {
                let Some(at) = change else { break };
                for policy in [Policy::Flink, Policy::Exact] {
                    for slice_ms in [600_000, 1_234_567, 3_600_000] {
                        let spec = spec(zone.clone(), policy, slice_ms);
                        let first = at.instant_ms + at.offset_before_ms - 40 * slice_ms;
                        let first = first - first.rem_euclid(slice_ms);
                        let last = first + 90 * slice_ms;
                        let chains: Vec<_> = spec.chains(first, last).collect();
                        assert!(chains.len() <= 13, "{zone} {at:?}: {chains:?}");
                        split += usize::from(chains.len() > 1);
                        let mut expected = first;
                        for (chain_first, chain_last) in chains {
                            assert_eq!(chain_first, expected, "{zone} {at:?}");
                            expected = chain_last + slice_ms;
                            let ends = (chain_first..=chain_last).step_by(slice_ms as usize);
                            let timers: Vec<i64> =
                                ends.map(|end| spec.time.timer_ms(end).unwrap()).collect();
                            assert!(timers.is_sorted(), "{zone} {policy:?} {at:?} {slice_ms}");
                        }
                        assert_eq!(expected, last + slice_ms);
                    }
                }
                change = zone.next_transition(at.instant_ms);
            }
        }
        assert!(split > 1_000, "{split}");
    }

    #[test]
    fn without_changes_there_is_one_chain() {
        let spec = spec(Zone::utc(), Policy::Flink, 1_000);
        let chains: Vec<_> = spec.chains(5_000, 9_000).collect();
        assert_eq!(chains, [(5_000, 9_000)]);
        assert_eq!(spec.chains(5_000, 4_000).count(), 0);
        let passed = (6_999, i64::MAX);
        assert_eq!(spec.first_after((5_000, 9_000), passed), Ok(Some(8_000)));
        assert_eq!(spec.first_after((5_000, 7_000), passed), Ok(None));
    }
}
