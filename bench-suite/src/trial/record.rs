//! Raw trials as JSON lines: one that describes the run, then one per timed sample, count or problem. What
//! is reported can be derived from them. What only warms up is not a sample, and an engine with a wrong
//! answer has none.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::trial::TrialError;
use crate::trial::engine::EngineKind;
use crate::trial::measures::Measures;
use crate::trial::outcome::{Outcome, Problem, store_name};

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line: under what conditions all others came to be.
    Run(Run),
    /// One sample.
    Sample {
        /// The cell and what was timed.
        #[serde(flatten)]
        of: Of,
        /// Number of the sample, from 0, in the order in which they were taken.
        sample: usize,
        /// Rows that arrived; of windows, those that came out as well.
        rows: u64,
        /// What that took.
        nanos: u64,
    },
    /// What was counted in a pass of its own.
    Measured {
        /// The cell and what was counted.
        #[serde(flatten)]
        of: Of,
        /// The counts.
        #[serde(flatten)]
        measures: Measures,
    },
    /// An answer that is wrong, and so has no time.
    Wrong {
        /// The cell and what answered.
        #[serde(flatten)]
        of: Of,
        /// How.
        problem: String,
    },
    /// What cannot be asked, and so has no time.
    Unsupported {
        /// The cell and what was to be timed.
        #[serde(flatten)]
        of: Of,
        /// Why.
        reason: String,
    },
}

/// An engine in a cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Of {
    /// The workload, without its store.
    pub workload: String,
    /// The store, or a dash.
    pub store: String,
    /// The engine.
    pub engine: EngineKind,
}

impl Line {
    /// The lines of an outcome.
    #[must_use]
    pub fn of_outcome(outcome: &Outcome) -> Vec<Self> {
        let of = Of {
            workload: outcome.workload.clone(),
            store: store_name(outcome.store),
            engine: outcome.engine,
        };
        let mut lines: Vec<Self> = match &outcome.result {
            Ok(samples) => (0..)
                .zip(&samples.0)
                .map(|(number, sample)| Self::Sample {
                    of: of.clone(),
                    sample: number,
                    rows: sample.rows,
                    nanos: sample.nanos,
                })
                .collect(),
            Err(Problem::Wrong(problem)) => vec![Self::Wrong {
                of: of.clone(),
                problem: problem.clone(),
            }],
            Err(Problem::Unsupported(reason)) => vec![Self::Unsupported {
                of: of.clone(),
                reason: reason.clone(),
            }],
        };
        lines.extend(
            outcome
                .measures
                .map(|measures| Self::Measured { of, measures }),
        );
        lines
    }
}

/// The conditions of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Commit of the source, if it is known.
    pub commit: Option<String>,
    /// Model of the processor, if it is known.
    pub cpu: Option<String>,
    /// Threads that the machine runs at a time.
    pub threads: usize,
    /// Version of the compiler, if it is known.
    pub compiler: Option<String>,
    /// Build profile.
    pub profile: String,
    /// Arguments of the program, as they were given.
    pub arguments: Vec<String>,
    /// Suites of which trials were taken.
    pub suites: Vec<String>,
    /// What the names of the trials hold.
    pub filters: Vec<String>,
    /// How many trials that selects.
    pub trials: usize,
    /// Samples of each engine in each trial.
    pub samples: usize,
    /// What each trial may take.
    pub seconds_per_cell: f64,
    /// When the run began, in seconds since 1970-01-01T00:00:00Z.
    pub started_epoch_seconds: i64,
}

/// The lines of a file of raw trials.
///
/// # Errors
///
/// [`TrialError::Read`] if it cannot be read, or a line is none of these.
pub fn read(path: &Path) -> Result<Vec<Line>, TrialError> {
    let failed = |line: usize, problem: String| TrialError::Read {
        path: path.to_owned(),
        line,
        problem,
    };
    let text = fs::read_to_string(path).map_err(|error| failed(0, error.to_string()))?;
    let lines = text.lines().enumerate().map(|(i, line)| {
        serde_json::from_str(line).map_err(|error| failed(i + 1, error.to_string()))
    });
    let lines = lines.collect::<Result<Vec<Line>, _>>()?;
    match lines.first() {
        Some(Line::Run(_)) => Ok(lines),
        _ => Err(failed(1, "not the conditions of a run".to_owned())),
    }
}

/// A file of raw trials.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Record {
    /// Makes the file, and the directories above it.
    ///
    /// # Errors
    ///
    /// [`TrialError::Record`] where that cannot be done.
    pub fn create(path: &Path) -> Result<Self, TrialError> {
        let failed = |source| TrialError::Record {
            path: path.to_owned(),
            source,
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let file = BufWriter::new(File::create(path).map_err(failed)?);
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Appends a line and gives it to the operating system: a run that is broken off keeps
    /// the trials that it has finished. Nothing is known of the one that it was in.
    ///
    /// # Errors
    ///
    /// [`TrialError::Record`] where that cannot be done.
    pub fn write(&mut self, line: &Line) -> Result<(), TrialError> {
        let text = serde_json::to_string(line).expect("strings and numbers are always JSON");
        writeln!(self.file, "{text}")
            .and_then(|()| self.file.flush())
            .map_err(|source| TrialError::Record {
                path: self.path.clone(),
                source,
            })
    }
}

/// The model of this machine's processor, where Linux says it.
#[must_use]
pub fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Line, Measures, Of, Record, Run, read};
    use crate::trial::engine::EngineKind;

    fn lines() -> Vec<Line> {
        let of = Of {
            workload: "flights/top-1".to_owned(),
            store: "memory".to_owned(),
            engine: EngineKind::Top1,
        };
        vec![
            Line::Run(Run {
                commit: Some("abc".to_owned()),
                cpu: None,
                threads: 2,
                compiler: Some("rustc 1.95.0".to_owned()),
                profile: "release".to_owned(),
                arguments: vec!["--suite".to_owned(), "flights".to_owned()],
                suites: vec!["flights".to_owned()],
                filters: Vec::new(),
                trials: 2,
                samples: 5,
                seconds_per_cell: 2.5,
                started_epoch_seconds: 1_709_210_096,
            }),
            Line::Sample {
                of: of.clone(),
                sample: 0,
                rows: 336_776,
                nanos: 20_000_000,
            },
            Line::Measured {
                of: of.clone(),
                measures: Measures {
                    rows: 336_776,
                    allocations: Some(12),
                    ..Measures::default()
                },
            },
            Line::Unsupported {
                of,
                reason: "a test".to_owned(),
            },
        ]
    }

    #[test]
    fn a_record_is_one_json_object_a_line_and_reads_as_it_was_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep").join("trials.jsonl");
        let mut record = Record::create(&path).expect("a file");
        for line in lines() {
            record.write(&line).expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        insta::assert_snapshot!(text, @r#"
        {"line":"run","commit":"abc","cpu":null,"threads":2,"compiler":"rustc 1.95.0","profile":"release","arguments":["--suite","flights"],"suites":["flights"],"filters":[],"trials":2,"samples":5,"seconds_per_cell":2.5,"started_epoch_seconds":1709210096}
        {"line":"sample","workload":"flights/top-1","store":"memory","engine":"top-1","sample":0,"rows":336776,"nanos":20000000}
        {"line":"measured","workload":"flights/top-1","store":"memory","engine":"top-1","rows":336776,"allocations":12}
        {"line":"unsupported","workload":"flights/top-1","store":"memory","engine":"top-1","reason":"a test"}
        "#);
        assert_eq!(read(&path).expect("a record"), lines());
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let refusal = |text: &str| {
            let path = directory.path().join("bad.jsonl");
            std::fs::write(&path, text).expect("written");
            let error = read(&path).expect_err("no record").to_string();
            error.replace(&directory.path().display().to_string(), "DIR")
        };
        let run = serde_json::to_string(&lines()[0]).expect("JSON");
        assert!(
            refusal(&format!("{run}\n{{\"line\":\"tale\"}}"))
                .starts_with("DIR/bad.jsonl:2: unknown variant `tale`")
        );
        assert!(
            refusal(&format!("{run}\nMedian: 5")).starts_with("DIR/bad.jsonl:2: expected value")
        );
        assert_eq!(refusal(""), "DIR/bad.jsonl:1: not the conditions of a run");
        let missing = read(Path::new("no/such/file"))
            .expect_err("no file")
            .to_string();
        assert!(
            missing.starts_with("no/such/file: No such file"),
            "{missing}"
        );
    }
}
