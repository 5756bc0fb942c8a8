//! COUNT.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use state_codec::DecodeError;

use super::values::FromValue;
use super::{Accumulator, Age, Sharing, take_bytes};

/// How many rows there were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count(i64);

impl Accumulator for Count {
    type Column<'a> = ();
    const SHARING: Sharing = Sharing::Undo;

    fn column(_: &dyn Array) {}

    #[inline]
    fn add(&mut self, _: &(), _: usize) {
        self.0 += 1;
    }

    #[inline]
    fn merge(&mut self, other: &Self, _: Age) {
        self.0 += other.0;
    }

    #[inline]
    fn exclude(&mut self, slice: &Self) {
        self.0 -= slice.0;
    }

    /// ```text
    /// 0      8
    /// | rows |
    ///   i64
    /// ```
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let rows = i64::from_le_bytes(take_bytes(bytes, "count")?);
        // Beyond half of the range the sum of two might overflow; no stream gets there.
        if !(0..=i64::MAX / 2).contains(&rows) {
            return Err(DecodeError::malformed("count", 0, "it is a number of rows"));
        }
        Ok(Self(rows))
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(Int64Array::from_iter_values(
            all.map(|count| count.0),
        )))
    }
}

impl<T> FromValue<T> for Count {
    fn add_value(&mut self, _: T) {
        self.0 += 1;
    }
}
