//! A record by cell.

use std::path::Path;

use crate::trial::TrialError;
use crate::trial::engine::EngineKind;
use crate::trial::measures::Measures;
use crate::trial::outcome::{Problem, Sample, Samples};
use crate::trial::record::{self, Line, Of, Run};

/// Recorded trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Trials {
    /// The conditions of the run.
    pub run: Run,
    /// In the order in which they were recorded.
    pub cells: Vec<Cell>,
}

/// A workload over a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The workload, without its store.
    pub workload: String,
    /// The store, or a dash.
    pub store: String,
    /// Its engines, in the order in which they were recorded.
    pub engines: Vec<Engine>,
}

/// What is recorded of an engine in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Which.
    pub kind: EngineKind,
    /// Its timings.
    pub samples: Samples,
    /// What was counted of it.
    pub measures: Option<Measures>,
    /// Why it has no timings.
    pub problem: Option<Problem>,
}

impl Engine {
    /// Nanoseconds per row of the median sample, if there is one.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let median = self.samples.median_nanos_per_row();
        median.is_finite().then_some(median)
    }
}

impl Cell {
    /// The engine of a kind.
    #[must_use]
    pub fn engine(&self, kind: EngineKind) -> Option<&Engine> {
        self.engines.iter().find(|engine| engine.kind == kind)
    }

    /// Nanoseconds per row of the floor.
    #[must_use]
    pub fn floor(&self) -> Option<f64> {
        self.engine(EngineKind::Floor)?.median()
    }

    /// The suite that the workload is of: what its name begins with.
    #[must_use]
    pub fn suite(&self) -> &str {
        self.workload.split('/').next().unwrap_or_default()
    }
}

impl Trials {
    /// Reads a file of raw trials.
    ///
    /// # Errors
    ///
    /// [`TrialError::Read`] if it is none.
    pub fn read(path: &Path) -> Result<Self, TrialError> {
        let trials = Self::of_lines(record::read(path)?);
        trials.ok_or_else(|| TrialError::Read {
            path: path.to_owned(),
            line: 1,
            problem: "not the conditions of a run".to_owned(),
        })
    }

    /// The lines of a record by cell; nothing if there are no conditions among them.
    #[must_use]
    pub fn of_lines(lines: Vec<Line>) -> Option<Self> {
        let mut run = None;
        let mut cells: Vec<Cell> = Vec::new();
        for line in lines {
            match line {
                Line::Run(conditions) => run = Some(conditions),
                Line::Sample {
                    of, rows, nanos, ..
                } => engine_of(&mut cells, of)
                    .samples
                    .0
                    .push(Sample { rows, nanos }),
                Line::Measured { of, measures } => {
                    engine_of(&mut cells, of).measures = Some(measures);
                }
                Line::Wrong { of, problem } => {
                    engine_of(&mut cells, of).problem = Some(Problem::Wrong(problem));
                }
                Line::Unsupported { of, reason } => {
                    engine_of(&mut cells, of).problem = Some(Problem::Unsupported(reason));
                }
            }
        }
        Some(Self { run: run?, cells })
    }

    /// The cell of a workload and a store.
    #[must_use]
    pub fn cell(&self, workload: &str, store: &str) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.workload == workload && cell.store == store)
    }
}

fn engine_of(cells: &mut Vec<Cell>, of: Of) -> &mut Engine {
    let known = cells
        .iter()
        .position(|cell| cell.workload == of.workload && cell.store == of.store);
    let cell = known.unwrap_or_else(|| {
        cells.push(Cell {
            workload: of.workload,
            store: of.store,
            engines: Vec::new(),
        });
        cells.len() - 1
    });
    let engines = &mut cells[cell].engines;
    let known = engines.iter().position(|engine| engine.kind == of.engine);
    let engine = known.unwrap_or_else(|| {
        engines.push(Engine {
            kind: of.engine,
            samples: Samples::default(),
            measures: None,
            problem: None,
        });
        engines.len() - 1
    });
    &mut engines[engine]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Engine, EngineKind, Line, Measures, Of, Problem, Run, Samples, Trials};

    /// A record of two cells, of which one has a wrong answer and an engine that there is not.
    pub(crate) fn lines() -> Vec<Line> {
        let of = |store: &str, engine| Of {
            workload: "append_top1/rejected/64-keys/8-bytes/immediate".to_owned(),
            store: store.to_owned(),
            engine,
        };
        let samples = |engine, nanos: [u64; 5]| {
            (0..).zip(nanos).map(move |(sample, nanos)| Line::Sample {
                of: of("memory", engine),
                sample,
                rows: 1_000_000,
                nanos,
            })
        };
        let mut lines = vec![Line::Run(Run {
            commit: Some("0123456789abcdef".to_owned()),
            cpu: Some("A processor <1>".to_owned()),
            threads: 2,
            compiler: Some("rustc 1.95.0".to_owned()),
            profile: "release".to_owned(),
            arguments: Vec::new(),
            suites: vec!["append_top1".to_owned()],
            filters: Vec::new(),
            trials: 2,
            samples: 5,
            seconds_per_cell: 1.5,
            started_epoch_seconds: 1_709_210_096,
        })];
        let top1 = [3_000_000, 3_200_000, 3_100_000, 3_300_000, 3_050_000];
        lines.extend(samples(EngineKind::Top1, top1));
        lines.push(Line::Measured {
            of: of("memory", EngineKind::Top1),
            measures: Measures {
                rows: 65_536,
                allocations: Some(16),
                held_bytes: Some(24_000),
                state_writes: Some(0),
                ..Measures::default()
            },
        });
        lines.extend(samples(EngineKind::Floor, [1_000_000; 5]));
        lines.push(Line::Wrong {
            of: of("RocksDB", EngineKind::Top1),
            problem: "3 changes, where 4 are right".to_owned(),
        });
        lines.push(Line::Unsupported {
            of: of("RocksDB", EngineKind::Library),
            reason: "it ranks nothing".to_owned(),
        });
        lines
    }

    #[test]
    fn lines_are_put_together_by_cell_and_engine() {
        let trials = Trials::of_lines(lines()).expect("there are conditions");
        assert_eq!(trials.cells.len(), 2);
        let memory = &trials.cells[0];
        assert_eq!(memory.suite(), "append_top1");
        assert_eq!(memory.floor(), Some(1.0));
        let top1 = memory.engine(EngineKind::Top1).expect("it was timed");
        assert_eq!(top1.median(), Some(3.1));
        assert_eq!(top1.measures.expect("counted").allocations, Some(16));
        let wrong = Engine {
            kind: EngineKind::Top1,
            samples: Samples::default(),
            measures: None,
            problem: Some(Problem::Wrong("3 changes, where 4 are right".to_owned())),
        };
        assert_eq!(trials.cells[1].engines[0], wrong);
        assert_eq!(Trials::of_lines(Vec::new()), None);
    }
}
