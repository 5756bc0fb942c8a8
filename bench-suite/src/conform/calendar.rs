//! Conversions between instants and local time, triggers and zone ids. Every line is held against
//! the version of the tz database that the recorded Flink had, and against the one that
//! `calendar-tz` bundles, where a difference must be among those that a newer version explains.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use calendar_tz::{Database, Policy, TriggerError, Zone, ZoneError};

use crate::conform::report::Verdict;
use crate::golden::format::{CalendarLine, FiredLine, NextTriggerLine, TriggersLine, ZonesLine};
use crate::tzdata::{self, Effect, Since};

/// A conversion.
pub(crate) fn conversion(line: &CalendarLine) -> Verdict {
    check(&line.zone, line.uses_dst, |zone| {
        let (at, answers) = match (line.epoch_ms, line.local_ms) {
            (Some(epoch), None) => (
                epoch,
                vec![(
                    "local time",
                    line.to_utc_ms,
                    line.error_to_utc_ms.as_ref(),
                    zone.to_local(epoch).ok(),
                )],
            ),
            (None, Some(local)) => (
                local,
                vec![
                    (
                        "instant",
                        line.to_epoch_ms,
                        line.error_to_epoch_ms.as_ref(),
                        zone.to_instant(local).ok(),
                    ),
                    (
                        "timer",
                        line.to_epoch_ms_for_timer,
                        line.error_to_epoch_ms_for_timer.as_ref(),
                        zone.timer(local, Policy::Flink).ok(),
                    ),
                ],
            ),
            _ => return Answer::malformed("one of epoch_ms and local_ms belongs here"),
        };
        for (what, recorded, error, got) in answers {
            if recorded.is_some() == error.is_some() {
                return Answer::malformed("a value or an error belongs here");
            }
            if recorded != got {
                return Answer::of(at, what, &recorded, &got);
            }
        }
        Answer::Equal
    })
}

/// A trigger, or whether a window has fired.
pub(crate) fn trigger(line: &TriggersLine) -> Verdict {
    match line {
        TriggersLine::Fired(line) => fired(line),
        TriggersLine::Next(line) => next_trigger(line),
    }
}

fn fired(line: &FiredLine) -> Verdict {
    check(&line.zone, line.uses_dst, |zone| {
        let end = line.window_end_ms;
        let mut decided = false;
        for (progress, recorded) in &line.progress_fired {
            let Ok(recorded) = recorded.read() else {
                return Answer::malformed("neither a truth value nor an error");
            };
            let got = zone.has_fired(end, *progress, Policy::Flink).ok();
            if got == recorded {
                continue;
            }
            // Flink wraps the end of all windows to the end of time.
            let wrapped = zone.timer(end.wrapping_sub(1), Policy::Flink);
            let model = wrapped.ok().map(|timer| *progress >= timer);
            if got.is_none() && end == i64::MIN && model == recorded {
                decided = true;
            } else {
                return Answer::of(end, &format!("fired at {progress}"), &recorded, &got);
            }
        }
        if decided {
            Answer::ByDecision
        } else {
            Answer::Equal
        }
    })
}

fn next_trigger(line: &NextTriggerLine) -> Verdict {
    check(&line.zone, line.uses_dst, |zone| {
        let (watermark, interval) = (line.watermark_ms, line.interval_ms);
        if line.next_trigger_ms.is_some() == line.error_next_trigger_ms.is_some() {
            return Answer::malformed("a value or an error belongs here");
        }
        let got = zone.next_trigger(watermark, interval, Policy::Flink);
        if got.ok() == line.next_trigger_ms {
            return Answer::Equal;
        }
        let is_range = matches!(
            got,
            Err(TriggerError::Range(_) | TriggerError::Watermark { .. })
        );
        if is_range && wrapped_trigger(zone, watermark, interval) == line.next_trigger_ms {
            return Answer::ByDecision;
        }
        Answer::of(watermark, "next trigger", &line.next_trigger_ms, &got.ok())
    })
}

/// What the formula gives if every addition wraps; `None` where a conversion fails.
fn wrapped_trigger(zone: &Zone, watermark: i64, interval: i64) -> Option<i64> {
    let last_before_end = |time: i64| {
        time.wrapping_sub(time.rem_euclid(interval))
            .wrapping_add(interval - 1)
    };
    let trigger = if zone.has_daylight_rule() {
        let last = last_before_end(zone.to_local(watermark).ok()?);
        zone.timer(last, Policy::Flink).ok()?
    } else {
        last_before_end(watermark)
    };
    Some(if trigger > watermark {
        trigger
    } else {
        trigger.wrapping_add(interval)
    })
}

/// A zone id.
pub(crate) fn zone_id(line: &ZonesLine) -> Verdict {
    let answer = |database: &Database| -> Result<[Option<bool>; 4], ZoneError> {
        let known = |zone: Result<Zone, ZoneError>| match zone {
            Ok(zone) => Ok(Some(zone)),
            Err(ZoneError::Unknown { .. } | ZoneError::NotForSession { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let zone = known(database.zone(&line.zone))?;
        let session = known(database.session_zone(&line.zone))?;
        Ok([
            Some(zone.is_some()),
            Some(session.is_some()),
            zone.as_ref().map(Zone::has_daylight_rule),
            zone.map(|zone| zone.only_offset_ms().is_some()),
        ])
    };
    let recorded = [
        Some(line.zone_id_of_ok),
        Some(line.accepted_by_table_local_time_zone),
        line.uses_dst,
        line.fixed_offset,
    ];
    for (database, explained) in [
        (&DATABASES.recorded, false),
        (
            &DATABASES.bundled,
            DATABASES.explain(&line.zone, |since| since.effect == Effect::RuleEnds),
        ),
    ] {
        let mut got = match answer(database) {
            Ok(got) => got,
            Err(error) => return Verdict::Failed(format!("{:?}: {error}", line.zone)),
        };
        if explained {
            got[2] = line.uses_dst;
        }
        if got != recorded {
            return Verdict::Failed(format!(
                "{:?}, tz database {}: known, accepted, daylight rule, one offset\n\
                 expected {recorded:?}\ngot      {got:?}",
                line.zone,
                database.version().unwrap_or("without a version"),
            ));
        }
    }
    Verdict::Passed
}

/// What comes of a line and a zone.
enum Answer {
    Equal,
    /// Flink wraps where a range error is right.
    ByDecision,
    /// Another value; for which time, and how.
    Different(i64, String),
    Malformed(&'static str),
}

impl Answer {
    fn malformed(how: &'static str) -> Self {
        Self::Malformed(how)
    }

    fn of<T: std::fmt::Debug>(at: i64, what: &str, recorded: &Option<T>, got: &Option<T>) -> Self {
        let shown = |value: &Option<T>| match value {
            Some(value) => format!("{value:?}"),
            None => "an error".to_owned(),
        };
        let how = format!(
            "{what}\nexpected {}\ngot      {}",
            shown(recorded),
            shown(got)
        );
        Self::Different(at, how)
    }
}

fn check(id: &str, uses_dst: bool, answer: impl Fn(&Zone) -> Answer) -> Verdict {
    let recorded = match DATABASES.zone(Which::Recorded, id) {
        Ok(zone) => zone,
        Err(error) => return Verdict::Failed(error),
    };
    if recorded.has_daylight_rule() != uses_dst {
        return Verdict::Failed(format!("{id}: the recorded flag of its rule is {uses_dst}"));
    }
    let verdict = match answer(&recorded) {
        Answer::Equal => Verdict::Passed,
        Answer::ByDecision => Verdict::Divergent(14),
        Answer::Different(_, how) => return Verdict::Failed(format!("{id}: {how}")),
        Answer::Malformed(how) => return Verdict::Failed(how.to_owned()),
    };
    let bundled = match DATABASES.zone(Which::Bundled, id) {
        Ok(zone) => zone,
        Err(error) => return Verdict::Failed(error),
    };
    if let Answer::Different(at, how) = answer(&bundled) {
        let explains = |since: &Since| since.touches(at) || since.effect == Effect::RuleEnds;
        if !DATABASES.explain(id, explains) {
            return Verdict::Failed(format!(
                "{id}, tz database {}: {how}",
                bundled.data_version().unwrap_or("without a version")
            ));
        }
    }
    verdict
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    Recorded,
    Bundled,
}

/// Both versions, and the zones that have been asked for.
struct Databases {
    recorded: Database,
    bundled: Database,
    since: Vec<Since>,
    zones: Mutex<HashMap<(Which, String), Zone>>,
}

/// A zone of the version that the recorded Flink had.
pub(crate) fn recorded_zone(id: &str) -> Result<Zone, String> {
    DATABASES.zone(Which::Recorded, id)
}

/// The zones of that version.
pub(crate) fn recorded_database() -> &'static Database {
    &DATABASES.recorded
}

static DATABASES: LazyLock<Databases> = LazyLock::new(|| Databases {
    recorded: tzdata::recorded().expect("the repository holds tz database 2025a"),
    bundled: Database::bundled(),
    since: tzdata::since_recorded().expect("the repository's list of differences is well formed"),
    zones: Mutex::default(),
});

impl Databases {
    fn zone(&self, which: Which, id: &str) -> Result<Zone, String> {
        let mut zones = self
            .zones
            .lock()
            .map_err(|_| "another line panicked".to_owned())?;
        let key = (which, id.to_owned());
        if let Some(zone) = zones.get(&key) {
            return Ok(zone.clone());
        }
        let database = match which {
            Which::Recorded => &self.recorded,
            Which::Bundled => &self.bundled,
        };
        let zone = database.zone(id).map_err(|error| error.to_string())?;
        zones.insert(key, zone.clone());
        Ok(zone)
    }

    fn explain(&self, id: &str, explains: impl Fn(&Since) -> bool) -> bool {
        self.since
            .iter()
            .any(|since| since.zones.iter().any(|zone| zone == id) && explains(since))
    }
}
