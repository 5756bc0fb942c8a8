//! The distinct values of a column, for COUNT, SUM and AVG of them.

use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use state_codec::DecodeError;

use super::count::Count;
use super::sum::{
    Avg, DecimalAverage, DecimalSum, DecimalSum0, FloatAverage, FloatSum, FloatSum0, IntegerSum,
    Sum, Sum0, average_type, sum_type,
};
use super::values::{Booleans, Bytes, Fixed, FromValue, Values};
use super::{Accumulator, Accumulators, Age, Sharing, columns_of, take_bytes};
use crate::aggregate::Function;

/// The distinct values, and in a running window in how many of its slices each is. The aggregate `A` is made
/// of them when it is asked for, in an order that is the same everywhere.
#[derive(Debug)]
struct Distinct<V: Values, A> {
    slices_of: HashMap<V::Key, u32, FixedState>,
    /// Of the keys.
    heap_bytes: usize,
    aggregate: PhantomData<fn() -> A>,
}

impl<V: Values, A> Clone for Distinct<V, A> {
    fn clone(&self) -> Self {
        Self {
            slices_of: self.slices_of.clone(),
            ..*self
        }
    }
}

impl<V: Values, A> Default for Distinct<V, A> {
    fn default() -> Self {
        Self {
            slices_of: HashMap::with_hasher(FixedState::with_seed(0)),
            heap_bytes: 0,
            aggregate: PhantomData,
        }
    }
}

impl<V: Values, A> Distinct<V, A> {
    fn insert(&mut self, key: V::Key) -> &mut u32 {
        let heap_bytes = &mut self.heap_bytes;
        let heap = V::key_heap_bytes(&key);
        self.slices_of.entry(key).or_insert_with(|| {
            *heap_bytes += heap;
            1
        })
    }

    fn sorted(&self) -> Vec<&V::Key> {
        let mut keys: Vec<&V::Key> = self.slices_of.keys().collect();
        keys.sort_unstable();
        keys
    }
}

impl<V, A> Accumulator for Distinct<V, A>
where
    V: Values,
    A: Accumulator + FromValue<V::Value>,
{
    type Column<'a> = V::Column<'a>;
    const SHARING: Sharing = Sharing::Undo;

    fn column(input: &dyn Array) -> V::Column<'_> {
        V::column(input)
    }

    fn add(&mut self, column: &V::Column<'_>, row: usize) {
        self.insert(V::key(V::get(column, row)));
    }

    fn merge(&mut self, other: &Self, _: Age) {
        for key in other.slices_of.keys() {
            self.insert(key.clone());
        }
    }

    fn include(&mut self, slice: &Self) {
        for key in slice.slices_of.keys() {
            match self.slices_of.get_mut(key) {
                Some(slices) => *slices += 1,
                None => _ = self.insert(key.clone()),
            }
        }
    }

    fn exclude(&mut self, slice: &Self) {
        for key in slice.slices_of.keys() {
            let slices = self.slices_of.get_mut(key);
            let slices = slices.expect("a running window has the values of its slices");
            *slices -= 1;
            if *slices == 0 {
                self.slices_of.remove(key);
                self.heap_bytes -= V::key_heap_bytes(key);
            }
        }
        // A set that was large once does not stay so.
        if self.slices_of.capacity() > 64 && self.slices_of.len() * 8 < self.slices_of.capacity() {
            self.slices_of.shrink_to_fit();
        }
    }

    /// ```text
    /// 0        4
    /// | values | each as its type is written, rising
    ///   u32
    /// ```
    fn encode_into(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.slices_of.len());
        let count = count.expect("fewer than 2^32 values fit into memory");
        out.extend_from_slice(&count.to_le_bytes());
        for key in self.sorted() {
            V::encode_into(V::as_ref(&V::of_key(key)), out);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let count = u32::from_le_bytes(take_bytes(bytes, "distinct values")?);
        let mut distinct = Self::default();
        let mut last: Option<V::Key> = None;
        for _ in 0..count {
            let key = V::key(V::as_ref(&V::decode(bytes)?));
            if last.as_ref().is_some_and(|last| *last >= key) {
                let reason = "they are different and rise";
                return Err(DecodeError::malformed("distinct values", 4, reason));
            }
            distinct.insert(key.clone());
            last = Some(key);
        }
        Ok(distinct)
    }

    fn heap_bytes(&self) -> usize {
        self.slices_of.allocation_size() + self.heap_bytes
    }

    fn heap_growth(input: &dyn Array) -> Option<usize> {
        // A table that doubles has up to four places for each value that it needs.
        let entry = size_of::<(V::Key, u32)>() + 1;
        Some(V::all_heap_bytes(input) + 4 * entry * input.len())
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        argument: &DataType,
        result: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let aggregates: Vec<A> = all
            .map(|distinct| {
                let mut aggregate = A::default();
                for key in distinct.sorted() {
                    aggregate.add_value(V::of_key(key));
                }
                aggregate
            })
            .collect();
        A::finish(aggregates.iter(), argument, result)
    }
}

/// Columns of COUNT, SUM, `$SUM0` or AVG over the distinct values of an argument of this type; `None` if there
/// is no such thing.
pub(crate) fn distinct(function: Function, argument: &DataType) -> Option<Box<dyn Accumulators>> {
    fn count<V: Values>(argument: &DataType) -> Box<dyn Accumulators>
    where
        Count: FromValue<V::Value>,
    {
        columns_of::<Distinct<V, Count>>(argument.clone(), DataType::Int64)
    }
    use arrow::datatypes::*;
    if function == Function::Count {
        macro_rules! fixed {
            ($($type:ty)*) => {{
                $(if arrow::array::PrimitiveArray::<$type>::is_compatible(argument) {
                    return Some(count::<Fixed<$type>>(argument));
                })*
            }};
        }
        fixed!(Int8Type Int16Type Int32Type Int64Type Float32Type Float64Type Date32Type);
        fixed!(TimestampSecondType TimestampMillisecondType TimestampMicrosecondType);
        fixed!(TimestampNanosecondType Time32SecondType Time32MillisecondType);
        fixed!(Time64MicrosecondType Time64NanosecondType Decimal128Type);
        return match argument {
            DataType::Boolean => Some(count::<Booleans>(argument)),
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Some(count::<Bytes>(argument)),
            _ => None,
        };
    }
    let result = match function {
        Function::Avg => average_type(argument)?,
        _ => sum_type(argument)?,
    };
    let argument = argument.clone();
    macro_rules! of {
        ($type:ty, $sum:ty, $sum0:ty, $average:ty) => {
            match function {
                Function::Sum => columns_of::<Distinct<Fixed<$type>, $sum>>(argument, result),
                Function::Sum0 => columns_of::<Distinct<Fixed<$type>, $sum0>>(argument, result),
                Function::Avg => columns_of::<Distinct<Fixed<$type>, $average>>(argument, result),
                _ => return None,
            }
        };
    }
    macro_rules! integers {
        ($type:ty) => {
            of!($type, IntegerSum<$type, Sum>, IntegerSum<$type, Sum0>, IntegerSum<$type, Avg>)
        };
    }
    macro_rules! floats {
        ($type:ty) => {
            of!(
                $type,
                FloatSum<$type>,
                FloatSum0<$type>,
                FloatAverage<$type>
            )
        };
    }
    Some(match argument {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::Float32 => floats!(Float32Type),
        DataType::Float64 => floats!(Float64Type),
        _ => of!(Decimal128Type, DecimalSum, DecimalSum0, DecimalAverage),
    })
}
