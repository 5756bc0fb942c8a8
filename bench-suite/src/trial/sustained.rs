//! Engines at full speed for seconds on end.

use std::fmt;
use std::time::{Duration, Instant};

use crate::trial::TrialError;
use crate::trial::cell::Cell;
use crate::trial::engine::{EngineKind, engine};
use crate::trial::outcome::{Outcome, Problem, Sample, Samples};
use crate::trial::suite::Trial;
use crate::trial::workload::{Workload, boxed};

/// Batches that differ.
const BATCHES: usize = 64;

/// A cell of append-only Top-1, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SustainedCell {
    /// The rows and their store.
    pub cell: Cell,
    /// Seconds before the clock starts.
    pub warm_up_seconds: u16,
    /// Seconds that count.
    pub measured_seconds: u16,
    /// Separate runs, each from a state of its own; engines take turns.
    pub runs: u16,
}

/// The workload, without its store.
impl fmt::Display for SustainedCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = self.cell.to_string();
        let rows = cell.strip_prefix("append_top1/").unwrap_or(&cell);
        write!(f, "sustained/{rows}/{}-s", self.measured_seconds)
    }
}

/// Runs one cell: a sample for each run. Making the next batch is outside of the clock.
pub(crate) fn run_cell(sustained: SustainedCell) -> Result<Vec<Outcome>, TrialError> {
    let cell = sustained.cell;
    let workload = Workload::new(cell, BATCHES).map_err(|error| TrialError::Workload {
        cell: Trial::Sustained(sustained).to_string(),
        source: boxed(error),
    })?;
    let mut results = EngineKind::ALL.map(|kind| (kind, Ok(Samples::default())));
    for _ in 0..sustained.runs {
        for (kind, result) in &mut results {
            let Ok(samples) = result else { continue };
            let ran = run(sustained, *kind, &workload)?;
            if *kind != EngineKind::Floor && ran.changes != ran.expected {
                let (changes, expected) = (ran.changes, ran.expected);
                *result = Err(Problem::Wrong(format!(
                    "{changes} changes where {expected} are right"
                )));
                continue;
            }
            samples.0.push(ran.sample);
        }
    }
    let outcomes = results.into_iter().map(|(engine, result)| Outcome {
        workload: sustained.to_string(),
        store: Some(cell.store),
        engine,
        result,
        measures: None,
    });
    Ok(outcomes.collect())
}

struct Ran {
    sample: Sample,
    changes: u64,
    expected: u64,
}

fn run(sustained: SustainedCell, kind: EngineKind, workload: &Workload) -> Result<Ran, TrialError> {
    let cell = sustained.cell;
    let mut engine = engine(kind, workload)?;
    engine.prime(workload)?;
    let warm_up = Duration::from_secs(sustained.warm_up_seconds.into());
    let measured = Duration::from_secs(sustained.measured_seconds.into());
    let mut emitted = Vec::new();
    let mut ran = Ran {
        sample: Sample { rows: 0, nanos: 0 },
        changes: 0,
        expected: 0,
    };
    let (mut warm, mut spent) = (Duration::ZERO, Duration::ZERO);
    let mut number = 0;
    while spent < measured {
        let rows = workload
            .rising(number)
            .map_err(|error| TrialError::Workload {
                cell: Trial::Sustained(sustained).to_string(),
                source: boxed(error),
            })?;
        let start = Instant::now();
        engine.arrive(workload, number, &rows, true, &mut emitted)?;
        let time = start.elapsed();
        let changes: usize = emitted.drain(..).map(|changes| changes.len()).sum();
        ran.changes += changes as u64;
        ran.expected += 2 * rows.improving.len() as u64;
        number += 1;
        if warm < warm_up {
            warm += time;
        } else {
            spent += time;
            ran.sample.rows += cell.batch_rows as u64;
        }
    }
    ran.sample.nanos = spent.as_nanos() as u64;
    Ok(ran)
}

#[cfg(test)]
mod tests {
    use super::{SustainedCell, run_cell};
    use crate::stores::Store;
    use crate::trial::cell::{Arrival, Cell};

    #[test]
    fn a_run_of_a_second_has_right_answers_when_batches_come_again() {
        let sustained = SustainedCell {
            cell: Cell {
                keys: 64,
                batch_rows: 256,
                ..Cell::plain(Store::Memory, Arrival::Mixed)
            },
            warm_up_seconds: 0,
            measured_seconds: 1,
            runs: 1,
        };
        for outcome in run_cell(sustained).expect("runs") {
            let samples = outcome.result.expect("a right answer");
            assert_eq!(samples.0.len(), 1);
            assert!(samples.0[0].rows > 256 * 2 * super::BATCHES as u64);
        }
    }
}
