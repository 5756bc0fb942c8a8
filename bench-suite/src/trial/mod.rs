//! Trials: workloads through the rankers and through their floors, alternately, with checked answers.

pub mod calendar; // conversions of local time
pub mod cell; // which workload, over which store
pub mod engine; // what is timed: both rankers and the floors
pub mod floor; // the least that any ranker must do
pub mod outcome; // samples, and the table that shows them
pub mod record; // raw trials as JSON lines
pub mod run; // how samples are taken
pub mod window; // shared windows
pub mod workload; // the rows of a cell

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
    /// A selection without a cell.
    #[error("no cell has all of {filters:?} in its name; the cells are:\n{}", .known.join("\n"))]
    NothingSelected {
        /// What was asked for.
        filters: Vec<String>,
        /// The cells of the suites that were asked for.
        known: Vec<String>,
    },
}
