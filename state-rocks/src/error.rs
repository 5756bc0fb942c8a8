//! Why a store failed.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use keygroup::GroupCount;
use state_codec::checkpoint::{CheckpointError, CoverError};
use state_codec::{DecodeError, MemoryDenied, StoreError};

/// Why a store in RocksDB was not opened, or could not be read or written. What RocksDB itself says
/// is the [`source`](Error::source).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RocksError {
    /// The name is not as [`is_store_name`](state_codec::is_store_name) wants it.
    #[error("{name:?} is no name for a store: 1 to 128 ASCII letters, digits, '-' and '_' are")]
    InvalidName {
        /// The name that was given.
        name: String,
    },
    /// A directory, or a file in it, cannot be made, read or removed.
    #[error("cannot use {}", path.display())]
    Directory {
        /// The directory or file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The store is open, in this process or another.
    #[error("the store in {} is open already", path.display())]
    OpenAlready {
        /// The directory of the store.
        path: PathBuf,
        /// What RocksDB says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// RocksDB failed.
    #[error("cannot {operation} the store in {}", path.display())]
    Engine {
        /// What was being done.
        operation: Operation,
        /// The directory of the store.
        path: PathBuf,
        /// What RocksDB says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// There is a database, but no store of this crate wrote it.
    #[error("the database in {} is no store: it has no layout record", path.display())]
    NotAStore {
        /// The directory of the database.
        path: PathBuf,
    },
    /// The layout record of a store says nothing that this version can read.
    #[error("the layout record of the store in {} cannot be read", path.display())]
    Layout {
        /// The directory of the store.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<DecodeError>,
    },
    /// The store was written with another max parallelism, which decided the group of every key.
    #[error(
        "the store in {} has {} key groups, but {} were asked for",
        path.display(),
        stored.get(),
        given.get()
    )]
    OtherGroupCount {
        /// The directory of the store.
        path: PathBuf,
        /// The count that it was written with.
        stored: GroupCount,
        /// The count of the backend.
        given: GroupCount,
    },
    /// A key that no store can have written.
    #[error("the store in {} has the impossible key {}", path.display(), Hex(key))]
    Key {
        /// The directory of the store.
        path: PathBuf,
        /// The key in the database: group and key row.
        key: Vec<u8>,
    },
    /// The bytes of a value are not those of a value.
    #[error("cannot decode the value of key {} of the store in {}", Hex(key), path.display())]
    Decode {
        /// The directory of the store.
        path: PathBuf,
        /// The key in the database: group and key row.
        key: Vec<u8>,
        /// What is wrong with the bytes.
        source: Box<DecodeError>,
    },
    /// A store that is to be restored exists.
    #[error("cannot restore the store in {}: it exists", path.display())]
    Exists {
        /// The directory of the store.
        path: PathBuf,
    },
    /// A checkpoint cannot be written or read.
    #[error(transparent)]
    Checkpoint(Box<CheckpointError>),
    /// Checkpoints do not make a state together.
    #[error(transparent)]
    Cover(#[from] CoverError),
    /// The memory pool has no room.
    #[error(transparent)]
    Denied(#[from] MemoryDenied),
}

impl StoreError for RocksError {
    fn denied(&self) -> Option<&MemoryDenied> {
        match self {
            Self::Denied(denied) => Some(denied),
            _ => None,
        }
    }
}

impl From<CheckpointError> for RocksError {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

impl RocksError {
    /// For what the system says of a file or directory.
    pub(crate) fn directory(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |source| Self::Directory {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn engine(operation: Operation, path: &Path, source: rocksdb::Error) -> Self {
        let path = path.to_owned();
        let source = source.into();
        Self::Engine {
            operation,
            path,
            source,
        }
    }
}

/// What a store was doing with its database when that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Opening it.
    Open,
    /// Reading the values of a batch's keys.
    Read,
    /// Writing what a bundle changed.
    Write,
    /// Walking over all entries.
    Scan,
    /// Linking its files elsewhere.
    Freeze,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Scan => "scan",
            Self::Freeze => "freeze",
        })
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
