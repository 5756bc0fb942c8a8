//! What an aggregate keeps for a key and a slice, and the columns that such things are kept in.

mod column; // accumulators by place
mod count; // COUNT
mod distinct; // the distinct values of a column
mod extreme; // MIN and MAX
mod sum; // SUM and AVG
mod values; // typed looks at columns

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use state_codec::DecodeError;

pub(crate) use self::column::{Accumulators, Place, columns_of};
pub(crate) use self::count::Count;
pub(crate) use self::distinct::distinct;
pub(crate) use self::extreme::extreme;
pub(crate) use self::sum::{Empty, average, average_type, sum, sum_type};

/// How the accumulators of overlapping windows are made of those of their slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// A running accumulator takes each slice in once, by [`include`](Accumulator::include), and out once, by
    /// [`exclude`](Accumulator::exclude), which gives exactly what it was without. Two merges a slice, however
    /// many windows it is part of.
    Undo,
    /// Merging is associative: two stacks of partial merges serve, about three merges a slice.
    Associative,
    /// The result depends on how merges are nested, as a sum of floating-point numbers does: each window is
    /// merged of its slices, newest first, as Flink does it.
    InOrder,
}

/// Whether what is merged into an accumulator is of rows before or behind its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Of an older slice: what is kept comes first where order decides.
    Older,
    /// Of a newer slice: it comes first.
    Newer,
    /// Of later rows of the same slice, or of the next slice of a cumulating window: it comes last.
    Later,
}

/// What an aggregate keeps for one key and slice: the seam for aggregates of one's own.
///
/// ```
/// use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
/// use arrow::datatypes::{DataType, Int64Type};
/// use arrow::error::ArrowError;
/// use state_codec::DecodeError;
/// use std::sync::Arc;
/// use window_shared::{Accumulator, Age, Sharing, take_bytes};
///
/// /// Which bits occurred.
/// #[derive(Clone, Debug, Default)]
/// struct BitOr(i64);
///
/// impl Accumulator for BitOr {
///     type Column<'a> = &'a Int64Array;
///     const SHARING: Sharing = Sharing::Associative;
///
///     fn column(input: &dyn Array) -> &Int64Array {
///         input.as_primitive::<Int64Type>()
///     }
///     fn add(&mut self, column: &&Int64Array, row: usize) {
///         self.0 |= column.value(row);
///     }
///     fn merge(&mut self, other: &Self, _: Age) {
///         self.0 |= other.0;
///     }
///     fn encode_into(&self, out: &mut Vec<u8>) {
///         out.extend_from_slice(&self.0.to_le_bytes());
///     }
///     fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
///         Ok(Self(i64::from_le_bytes(take_bytes(bytes, "bits")?)))
///     }
///     fn finish<'a>(
///         all: impl ExactSizeIterator<Item = &'a Self>,
///         _: &DataType,
///         _: &DataType,
///     ) -> Result<ArrayRef, ArrowError> {
///         Ok(Arc::new(all.map(|bits| bits.0).collect::<Int64Array>()))
///     }
/// }
/// ```
///
/// # For implementers
///
/// - The default is the accumulator of no rows, and merging with it changes nothing.
/// - Rows in which the argument is NULL are never added.
/// - [`decode`](Self::decode) inverts [`encode_into`](Self::encode_into), and takes off the front what it read;
///   bytes that cannot have been written are an error, never a panic.
pub trait Accumulator: Clone + Debug + Default + Send + Sync + 'static {
    /// A typed look at the argument column.
    type Column<'a>;

    /// How windows share it.
    const SHARING: Sharing;

    /// The look at an argument column, which is of the type that the aggregate was made for.
    fn column(input: &dyn Array) -> Self::Column<'_>;

    /// Adds a row, in which the argument is not NULL.
    fn add(&mut self, column: &Self::Column<'_>, row: usize);

    /// Adds what another accumulator has, which stays as it is.
    fn merge(&mut self, other: &Self, age: Age);

    /// Takes a slice into a running window; only with [`Sharing::Undo`].
    fn include(&mut self, slice: &Self) {
        self.merge(slice, Age::Newer);
    }

    /// Takes a slice out of a running window that includes it; only with [`Sharing::Undo`].
    fn exclude(&mut self, _slice: &Self) {
        unreachable!("only what can be undone is excluded")
    }

    /// Appends its bytes to `out`.
    fn encode_into(&self, out: &mut Vec<u8>);

    /// The accumulator whose bytes are in front of `bytes`.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if there is none.
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError>;

    /// Bytes that it holds beyond its own size, by capacity.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// No fewer than the bytes by which [`heap_bytes`](Self::heap_bytes) grows when all rows of `input` are
    /// added; [`None`] if it never holds any.
    fn heap_growth(_input: &dyn Array) -> Option<usize> {
        None
    }

    /// The column of the results, of type `result`, for an argument of type `argument`.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] where they do not fit into one column.
    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        argument: &DataType,
        result: &DataType,
    ) -> Result<ArrayRef, ArrowError>;
}

/// Takes `N` bytes off the front of `bytes`.
///
/// # Errors
///
/// [`DecodeError`] if there are fewer; it names `field`.
pub fn take_bytes<const N: usize>(
    bytes: &mut &[u8],
    field: &'static str,
) -> Result<[u8; N], DecodeError> {
    match bytes.split_first_chunk() {
        Some((taken, rest)) => {
            *bytes = rest;
            Ok(*taken)
        }
        None => Err(DecodeError::truncated(field, 0, N - bytes.len())),
    }
}

/// Takes so many bytes as the four bytes in front of them say off the front of `bytes`.
fn take_run<'a>(bytes: &mut &'a [u8], field: &'static str) -> Result<&'a [u8], DecodeError> {
    let len = u32::from_le_bytes(take_bytes(bytes, field)?) as usize;
    if len > bytes.len() {
        return Err(DecodeError::truncated(field, 4, len - bytes.len()));
    }
    let (run, rest) = bytes.split_at(len);
    *bytes = rest;
    Ok(run)
}

fn put_run(run: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(run.len()).expect("a value of an array is at most 2^31 bytes long");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(run);
}
