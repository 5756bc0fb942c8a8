//! What can go wrong after the specification was accepted.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use keygroup::KeyGroup;
use state_codec::checkpoint::{CheckpointError, CoverError};
use state_codec::{DecodeError, EncodeError, MemoryDenied, StoreError};

/// Why a batch or a flush was refused. Unless it says otherwise nothing has changed: neither the
/// state nor the bundle, and the call can be made again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankError<E: std::error::Error + 'static> {
    /// The batch is not one of the specification's.
    #[error(transparent)]
    Batch(BatchError),
    /// A row of the batch cannot be written as bytes.
    #[error("encoding a row")]
    Encode(#[from] EncodeError),
    /// A retained row cannot be read: the store holds bytes that no ranker of this specification
    /// wrote.
    #[error("decoding a retained row")]
    Decode(#[from] DecodeError),
    /// The changes do not fit into columns of the declared types, such as a dictionary whose keys
    /// are too narrow for the values of one batch of changes.
    #[error("assembling the changes")]
    Output(#[source] ArrowError),
    /// The store failed to open or read, or the memory budget refused.
    #[error("state")]
    State(#[source] E),
    /// The store failed to write what a bundle changed. The changes are held back, and further
    /// batches are refused, until [`flush`](crate::Ranker::flush) succeeds and returns them.
    #[error("writing the bundle's changes; a flush tries again")]
    Write(#[source] E),
    /// A write failed before: see [`RankError::Write`].
    #[error("a bundle waits to be written: flush before the next batch")]
    Unwritten,
    /// The memory budget refused what the batch would have added to the mini-batch.
    #[error(transparent)]
    Denied(#[from] MemoryDenied),
    /// Rows expire, and no time was given.
    #[error(transparent)]
    ClockUnset(#[from] ClockUnset),
    /// State is saved between bundles.
    #[error("a mini-batch is open: flush it before its state is saved")]
    OpenBundle,
    /// A checkpoint cannot be written or read.
    #[error(transparent)]
    Checkpoint(Box<CheckpointError>),
    /// Checkpoints do not fit together, or not to the state.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl<E: StoreError> RankError<E> {
    /// The refusal of the memory budget, if that is what went wrong: nothing has changed, and the call can
    /// be made again once there is room, of which a [`flush`](crate::Ranker::flush) may make some.
    pub fn denied(&self) -> Option<&MemoryDenied> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::State(error) | Self::Write(error) => error.denied(),
            _ => None,
        }
    }
}

/// Rows expire, and no time was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rows have a time to live, but the clock was never set: advance it before the first batch")]
pub struct ClockUnset;

/// Why state cannot be made of checkpoints that are whole, each on its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The store has state, which a restore would mix with the saved one.
    #[error("the store {name:?} is not empty")]
    NotEmpty {
        /// The name of the store.
        name: String,
    },
    /// The checkpoints are not about the key groups that are asked for, or about some of them twice.
    #[error(transparent)]
    Cover(#[from] CoverError),
    /// A row is not of the section's group, has no rank that could follow, or is there twice.
    #[error("row {row} of the section of key group {}: {reason}", group.get())]
    Row {
        /// The section's group.
        group: KeyGroup,
        /// Which row, from 0.
        row: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// How a batch differs from what the specification says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// Another number of columns.
    #[error("the batch has {found} columns, the specification {expected}")]
    ColumnCount {
        /// Columns of the specification's schema.
        expected: usize,
        /// Columns of the batch.
        found: usize,
    },
    /// A column of another name or type.
    #[error(
        "column {index} of the batch is {found:?} {found_type}, in the specification it is \
         {expected:?} {expected_type}"
    )]
    Column {
        /// Which column, from 0.
        index: usize,
        /// Its name in the specification.
        expected: String,
        /// Its type in the specification.
        expected_type: Box<DataType>,
        /// Its name in the batch.
        found: String,
        /// Its type in the batch.
        found_type: Box<DataType>,
    },
    /// A NULL in a column that the specification declares without.
    #[error("column {column:?} is declared not null and holds {nulls} nulls")]
    Null {
        /// The column.
        column: String,
        /// How many.
        nulls: usize,
    },
    /// The rank end of a partition's first row is no rank.
    #[error("rank end column {column:?} is {found:?} in row {row}, but a rank end is at least 1")]
    RankEnd {
        /// The column.
        column: String,
        /// The row of the batch.
        row: usize,
        /// What it holds.
        found: Option<i64>,
    },
    /// More rows than a row index can count.
    #[error("the batch has {rows} rows, more than 2^32 - 1")]
    TooManyRows {
        /// How many.
        rows: usize,
    },
}

impl<E: std::error::Error + 'static> From<CheckpointError> for RankError<E> {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

impl<E: std::error::Error + 'static> From<BatchError> for RankError<E> {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}
