//! What can go wrong after the specification was accepted.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use calendar_tz::RangeError;
use keygroup::KeyGroup;
use state_codec::checkpoint::{CheckpointError, CoverError};
use state_codec::{DecodeError, EncodeError, MemoryDenied, StoreError};

use crate::windows::TimeRangeError;

/// Why a call was refused. Unless it says otherwise nothing has changed, and the call can be made again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError<E: std::error::Error + 'static> {
    /// The batch is not one of the specification's.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A key of the batch cannot be written as bytes.
    #[error("encoding a key")]
    Encode(#[from] EncodeError),
    /// Accumulators or keys cannot be read: the state, a checkpoint or a batch of partials holds bytes that no
    /// operator of this specification wrote.
    #[error("decoding accumulators")]
    Decode(#[from] DecodeError),
    /// Results do not fit into columns of their types. The windows that fired are not lost: the next
    /// watermark tries again.
    #[error("assembling the results of windows")]
    Output(#[source] ArrowError),
    /// The state failed to open, read or write, or its memory budget refused.
    #[error("state")]
    State(#[source] E),
    /// The memory budget refused what a batch would have added, or what is left when a window has fired; that
    /// window is not lost, and the next watermark returns it.
    #[error(transparent)]
    Denied(#[from] MemoryDenied),
    /// A write to the state failed in the middle of merging the slices of a window of CUMULATE. What the state
    /// holds now is of no use: open another and restore the last checkpoint.
    #[error(
        "a write failed in the middle of a merge: the state must be restored from a checkpoint"
    )]
    Broken,
    /// The timer or `window_time` of a window does not fit in 64 bits.
    #[error(transparent)]
    Time(#[from] RangeError),
    /// A checkpoint cannot be written or read.
    #[error(transparent)]
    Checkpoint(Box<CheckpointError>),
    /// Checkpoints do not fit together, or not to the state.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl<E: StoreError> WindowError<E> {
    /// The refusal of the memory budget, if that is what went wrong: the call can be made again once there
    /// is room.
    pub fn denied(&self) -> Option<&MemoryDenied> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::State(error) => error.denied(),
            _ => None,
        }
    }
}

impl<E: std::error::Error + 'static> From<CheckpointError> for WindowError<E> {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

/// Why state cannot be made of checkpoints that are whole, each on its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The operator has state, which a restore would mix with the saved one.
    #[error("the operator {name:?} is not empty")]
    NotEmpty {
        /// The name of its state.
        name: String,
    },
    /// The checkpoints are not about the key groups that are asked for, or about some of them twice.
    #[error(transparent)]
    Cover(#[from] CoverError),
    /// A checkpoint says nothing of its watermark.
    #[error("checkpoint {id} has no watermark")]
    NoWatermark {
        /// The number of the checkpoint.
        id: u64,
    },
    /// A row is not of the section's group.
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
    /// A column of another type.
    #[error("column {index} of the batch is {found}, in the specification {name:?} is {expected}")]
    Column {
        /// Which column, from 0.
        index: usize,
        /// Its name in the specification.
        name: String,
        /// Its type in the specification.
        expected: Box<DataType>,
        /// Its type in the batch.
        found: Box<DataType>,
    },
    /// More rows than can be numbered.
    #[error("the batch has {rows} rows, but at most 2^32 - 1 can be taken at once")]
    TooManyRows {
        /// How many.
        rows: usize,
    },
    /// A row whose time is NULL, where that is an error.
    #[error("row {row}: its time is NULL")]
    NullTime {
        /// Which row, from 0.
        row: usize,
    },
    /// A row whose time has no windows within 64 bits.
    #[error("row {row}")]
    TimeRange {
        /// Which row, from 0.
        row: usize,
        /// Its time.
        source: TimeRangeError,
    },
    /// A row whose instant is no local time within 64 bits.
    #[error("row {row}")]
    Zone {
        /// Which row, from 0.
        row: usize,
        /// Its time.
        source: RangeError,
    },
    /// A row whose attached window is none of the specification's.
    #[error("row {row}: the specification has no window from {start_ms} to {end_ms} ms")]
    NoSuchWindow {
        /// Which row, from 0.
        row: usize,
        /// Its window's start, local.
        start_ms: i64,
        /// Its window's end, local.
        end_ms: i64,
    },
    /// A partial aggregate of a slice that the specification does not have.
    #[error("row {row}: the specification has no slice that ends at {end_ms} ms")]
    NoSuchSlice {
        /// Which row, from 0.
        row: usize,
        /// Its slice's end, local.
        end_ms: i64,
    },
}
