//! MIN and MAX.

use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use state_codec::DecodeError;

use super::values::{Booleans, Bytes, Fixed, Values};
use super::{Accumulator, Accumulators, Age, Sharing, columns_of, take_bytes};

/// MIN or MAX.
pub(crate) trait Side: Debug + Send + Sync + 'static {
    /// Whether `new` takes the place of `old`: only if it is strictly better.
    fn beats<V: Values>(new: V::Ref<'_>, old: V::Ref<'_>) -> bool;
}

#[derive(Debug)]
pub(crate) struct Least;

#[derive(Debug)]
pub(crate) struct Greatest;

impl Side for Least {
    #[inline]
    fn beats<V: Values>(new: V::Ref<'_>, old: V::Ref<'_>) -> bool {
        V::is_less(new, old)
    }
}

impl Side for Greatest {
    #[inline]
    fn beats<V: Values>(new: V::Ref<'_>, old: V::Ref<'_>) -> bool {
        V::is_less(old, new)
    }
}

/// The best value so far. As in Flink the first of equal values stays, which shows in zeros of both signs,
/// and NaN is never better nor worse: a NaN that comes first stays for ever.
///
/// That rule alone is not associative: of the slices (1), (NaN) and (0), the last two together are NaN,
/// and with the first 1. So it is noted whether NaN came first, and the best of what came in other slices
/// is kept beside.
#[derive(Debug)]
struct Extreme<V: Values, S> {
    best: Option<V::Value>,
    nan_first: bool,
    side: PhantomData<S>,
}

impl<V: Values, S> Clone for Extreme<V, S> {
    fn clone(&self) -> Self {
        Self {
            best: self.best.clone(),
            ..*self
        }
    }
}

impl<V: Values, S> Default for Extreme<V, S> {
    fn default() -> Self {
        Self {
            best: None,
            nan_first: false,
            side: PhantomData,
        }
    }
}

impl<V: Values, S: Side> Extreme<V, S> {
    #[inline]
    fn offer(&mut self, value: V::Ref<'_>) {
        let better = match &self.best {
            None => true,
            Some(best) => S::beats::<V>(value, V::as_ref(best)),
        };
        if better {
            self.best = Some(V::to_value(value));
        }
    }

    fn is_empty(&self) -> bool {
        self.best.is_none() && !self.nan_first
    }
}

impl<V: Values, S: Side> Accumulator for Extreme<V, S> {
    type Column<'a> = V::Column<'a>;
    const SHARING: Sharing = Sharing::Associative;

    fn column(input: &dyn Array) -> V::Column<'_> {
        V::column(input)
    }

    #[inline]
    fn add(&mut self, column: &V::Column<'_>, row: usize) {
        let value = V::get(column, row);
        if V::is_nan(value) {
            self.nan_first |= self.best.is_none();
        } else if !self.nan_first {
            self.offer(value);
        }
    }

    #[inline]
    fn merge(&mut self, other: &Self, age: Age) {
        if age == Age::Newer {
            let mut newer = other.clone();
            newer.merge(self, Age::Older);
            *self = newer;
            return;
        }
        if self.is_empty() {
            self.nan_first = other.nan_first;
        }
        if let Some(best) = &other.best {
            self.offer(V::as_ref(best));
        }
    }

    /// ```text
    /// 0        1
    /// | flags | best, as its type is written, if there is one
    ///   u8: 1 there is a best value, 2 NaN came first
    /// ```
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.best.is_some()) | u8::from(self.nan_first) << 1);
        if let Some(best) = &self.best {
            V::encode_into(V::as_ref(best), out);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let [flags] = take_bytes(bytes, "extreme")?;
        if flags > 3 {
            return Err(DecodeError::malformed(
                "extreme",
                0,
                "its flags are below 4",
            ));
        }
        Ok(Self {
            best: (flags & 1 != 0).then(|| V::decode(bytes)).transpose()?,
            nan_first: flags & 2 != 0,
            side: PhantomData,
        })
    }

    fn heap_bytes(&self) -> usize {
        self.best.as_ref().map_or(0, V::heap_bytes)
    }

    fn heap_growth(input: &dyn Array) -> Option<usize> {
        Some(V::all_heap_bytes(input))
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        result: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let nan = V::nan();
        let nan = nan.as_ref();
        V::array(
            &mut all.map(|extreme| {
                let best = if extreme.nan_first {
                    nan
                } else {
                    extreme.best.as_ref()
                };
                best.map(V::as_ref)
            }),
            result,
        )
    }
}

/// Columns of MIN (`least`) or MAX over an argument of this type; `None` if it has no order.
pub(crate) fn extreme(argument: &DataType, least: bool) -> Option<Box<dyn Accumulators>> {
    fn of<V: Values>(argument: &DataType, least: bool) -> Box<dyn Accumulators> {
        let (argument, result) = (argument.clone(), argument.clone());
        if least {
            columns_of::<Extreme<V, Least>>(argument, result)
        } else {
            columns_of::<Extreme<V, Greatest>>(argument, result)
        }
    }
    macro_rules! fixed {
        ($($type:ty)*) => {{
            $(if argument_is::<$type>(argument) {
                return Some(of::<Fixed<$type>>(argument, least));
            })*
        }};
    }
    use arrow::datatypes::*;
    fixed!(Int8Type Int16Type Int32Type Int64Type Float32Type Float64Type Date32Type);
    fixed!(TimestampSecondType TimestampMillisecondType TimestampMicrosecondType);
    fixed!(TimestampNanosecondType Time32SecondType Time32MillisecondType);
    fixed!(Time64MicrosecondType Time64NanosecondType Decimal128Type);
    match argument {
        DataType::Boolean => Some(of::<Booleans>(argument, least)),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Some(of::<Bytes>(argument, least)),
        _ => None,
    }
}

/// Whether columns of this type have values of `T`, whatever their zone, precision and scale.
fn argument_is<T: arrow::datatypes::ArrowPrimitiveType>(argument: &DataType) -> bool {
    arrow::array::PrimitiveArray::<T>::is_compatible(argument)
}
