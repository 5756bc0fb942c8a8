//! Trials: workloads through the rankers and through their floors, alternately, with checked answers.

pub mod calendar; // conversions of local time
pub mod cell; // the rows of append-only Top-1, over which store
pub mod engine; // what is timed: both rankers and the floors
pub mod floor; // the least that any ranker must do
mod matrix; // which trials there are, as data
pub mod measures; // exact counts of a pass
pub mod outcome; // samples, and the table that shows them
#[cfg(feature = "peers")]
mod peers; // what a user could pick instead
pub mod record; // raw trials as JSON lines
pub mod run; // how samples are taken
pub mod suite; // trials by suite and profile
pub mod sustained; // engines for seconds on end
pub mod window; // shared windows
pub mod workload; // the rows of a cell of append-only Top-1
pub mod zone; // the zones of trials

use std::error::Error;
use std::io;
use std::path::PathBuf;

use arrow::error::ArrowError;

use crate::flights::FlightsError;
use crate::stores::StoreError;

/// Why trials could not go on. A wrong answer is none of these: it is an outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// A store could not be opened.
    #[error("{cell}: no store")]
    Store {
        /// The cell and its store.
        cell: String,
        /// The cause.
        #[source]
        source: Box<StoreError>,
    },
    /// A ranker failed.
    #[error("{cell}: {engine} failed")]
    Rank {
        /// The cell and its store.
        cell: String,
        /// The implementation.
        engine: engine::EngineKind,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The bare RocksDB of a floor failed.
    #[error("{cell}: the floor's RocksDB failed")]
    Floor {
        /// The cell and its store.
        cell: String,
        /// The cause.
        #[source]
        source: rocksdb::Error,
    },
    /// A batch of the workload could not be made.
    #[error("{cell}: cannot make the workload")]
    Workload {
        /// The cell and its store.
        cell: String,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The flights or their changelog could not be read.
    #[error(transparent)]
    Flights(#[from] FlightsError),
    /// Emitted changes could not be put together.
    #[error("assembling the emitted changes")]
    Changes(#[from] ArrowError),
    /// The raw trials could not be kept.
    #[error("cannot write {}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file of raw trials could not be read.
    #[error("{}{}: {problem}", path.display(), at(*line))]
    Read {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 for the file as a whole.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A selection without a trial.
    #[error("{}", nothing(filters, near, known))]
    NothingSelected {
        /// What was asked for.
        filters: Vec<String>,
        /// What may have been meant by those that no name holds.
        near: Vec<String>,
        /// The trials of the suites that were asked for.
        known: Vec<String>,
    },
    /// A list of workloads that is not well formed.
    #[error("{file}: {problem}")]
    Matrix {
        /// The file.
        file: String,
        /// What is wrong with it, and where.
        problem: String,
    },
}

fn at(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!(":{line}"),
    }
}

fn nothing(filters: &[String], near: &[String], known: &[String]) -> String {
    if known.is_empty() {
        return "no trial of these suites is of this profile; `--profile full` has all".to_owned();
    }
    let near = match near {
        [] => ".".to_owned(),
        near => format!(", did you mean {}?", near.join(", ")),
    };
    let known = known.join("\n");
    format!("no trial has all of {filters:?} in its name{near} The trials are:\n{known}")
}
