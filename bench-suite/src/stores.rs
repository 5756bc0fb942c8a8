//! The stores under test, by name.

use std::fmt;
use std::io;

use keygroup::GroupCount;
use serde::Deserialize;
use state_mem::MemBackend;
use state_rocks::{RocksBackend, RocksError};
use tempfile::TempDir;

/// Groups of every store here: Flink's default for a small job.
pub const GROUPS: u32 = 128;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// `state-mem`.
    Memory,
    /// `state-rocks`.
    #[serde(rename = "rocksdb")]
    Rocks,
}

impl Store {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Rocks];
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Memory => "memory",
            Self::Rocks => "RocksDB",
        })
    }
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A directory for it could not be made.
    #[error("cannot make a directory for a store")]
    Directory(#[source] io::Error),
    /// RocksDB refused.
    #[error(transparent)]
    Rocks(#[from] RocksError),
}

/// The [`GROUPS`] of every store.
#[must_use]
pub fn groups() -> GroupCount {
    GroupCount::new(GROUPS).expect("128 groups are within 1 to 32768")
}

/// Opens stores in memory.
#[must_use]
pub fn memory() -> MemBackend {
    MemBackend::new(groups())
}

/// Opens RocksDB stores with their default options in a directory of their own, which goes when the
/// first part of the result is dropped.
///
/// # Errors
///
/// [`StoreError`] where the directory cannot be made or used.
pub fn rocks() -> Result<(TempDir, RocksBackend), StoreError> {
    let directory = TempDir::with_prefix("weir-").map_err(StoreError::Directory)?;
    let backend = RocksBackend::new(directory.path(), groups());
    Ok((directory, backend))
}
