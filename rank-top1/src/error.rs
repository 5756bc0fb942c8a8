//! What can go wrong after the specification was accepted.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use state_codec::{DecodeError, EncodeError};

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

impl<E: std::error::Error + 'static> From<BatchError> for RankError<E> {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}
