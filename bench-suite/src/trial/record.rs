//! Raw trials as JSON lines: one that describes the run, then one per timed sample or wrong answer. What
//! is reported can be derived from them. What only warms up is not a sample, and an engine with a wrong
//! answer has none.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::trial::TrialError;
use crate::trial::engine::EngineKind;

/// A line.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line<'a> {
    /// The first line: under what conditions all others came to be.
    Run(&'a Run),
    /// One sample.
    Sample {
        /// The workload, without its store.
        workload: &'a str,
        /// The store.
        store: &'a str,
        /// What was timed.
        engine: EngineKind,
        /// Number of the sample, from 0, in the order in which they were taken.
        sample: usize,
        /// Rows that arrived.
        rows: u64,
        /// What that took.
        nanos: u64,
    },
    /// An answer that is wrong, and so has no time.
    Wrong {
        /// The workload, without its store.
        workload: &'a str,
        /// The store.
        store: &'a str,
        /// What answered.
        engine: EngineKind,
        /// How.
        problem: &'a str,
    },
}

/// The conditions of a run.
#[derive(Clone, Debug, Serialize)]
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
    pub profile: &'static str,
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
    pub fn write(&mut self, line: &Line<'_>) -> Result<(), TrialError> {
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
    use super::{Line, Record, Run};
    use crate::trial::engine::EngineKind;

    #[test]
    fn a_record_is_one_json_object_a_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep").join("trials.jsonl");
        let mut record = Record::create(&path).expect("a file");
        let run = Run {
            commit: Some("abc".to_owned()),
            cpu: None,
            threads: 2,
            compiler: Some("rustc 1.95.0".to_owned()),
            profile: "release",
            arguments: vec!["--suite".to_owned(), "flights".to_owned()],
            suites: vec!["flights".to_owned()],
            filters: Vec::new(),
            trials: 2,
            samples: 5,
            seconds_per_cell: 2.5,
            started_epoch_seconds: 1_709_210_096,
        };
        record.write(&Line::Run(&run)).expect("written");
        let sample = Line::Sample {
            workload: "flights",
            store: "memory",
            engine: EngineKind::Top1,
            sample: 0,
            rows: 336_776,
            nanos: 20_000_000,
        };
        record.write(&sample).expect("written");
        let text = std::fs::read_to_string(&path).expect("readable");
        insta::assert_snapshot!(text, @r#"
        {"line":"run","commit":"abc","cpu":null,"threads":2,"compiler":"rustc 1.95.0","profile":"release","arguments":["--suite","flights"],"suites":["flights"],"filters":[],"trials":2,"samples":5,"seconds_per_cell":2.5,"started_epoch_seconds":1709210096}
        {"line":"sample","workload":"flights","store":"memory","engine":"top-1","sample":0,"rows":336776,"nanos":20000000}
        "#);
    }
}
