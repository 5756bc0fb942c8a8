//! Accumulators by place: what a slice has a column of for each aggregate.

use std::any::Any;
use std::fmt::Debug;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use state_codec::DecodeError;

use super::{Accumulator, Age, Sharing};

/// Where in the columns of a slice a key is.
pub(crate) type Place = u32;

/// The accumulators of one aggregate of one slice, by place. Work is done on many at a time, so that it is
/// looked up once what kind they are.
///
/// This is what [`columns_of`] makes of an [`Accumulator`]; there is no other implementation.
pub(crate) trait Accumulators: Any + Debug + Send + Sync {
    /// As a value that may be downcast.
    fn as_any(&self) -> &dyn Any;
    /// How windows share them.
    fn sharing(&self) -> Sharing;
    /// A column of the same kind without accumulators.
    fn new_empty(&self) -> Box<dyn Accumulators>;
    /// A copy.
    fn clone_box(&self) -> Box<dyn Accumulators>;
    /// Appends accumulators of no rows until there are `len`.
    fn grow(&mut self, len: usize);
    /// Makes those at `places` what they are without rows.
    fn reset(&mut self, places: &[Place]);
    /// Adds row `rows[i]` of `input` to place `places[i]`, row `i` where no rows are given. Rows that are
    /// NULL in `input` are passed over. Without input each row counts.
    fn add(&mut self, input: Option<&ArrayRef>, rows: Option<&[u32]>, places: &[Place]);
    /// Merges place `from[i]` of `other` into place `into[i]`.
    fn merge(&mut self, into: &[Place], other: &dyn Accumulators, from: &[Place], age: Age);
    /// Takes place `from[i]` of a slice into place `into[i]` of a running window.
    fn include(&mut self, into: &[Place], slice: &dyn Accumulators, from: &[Place]);
    /// Takes each place of a slice into the same place of a running window. It costs less than with a list of
    /// places, and accumulators without rows change nothing.
    fn include_all(&mut self, slice: &dyn Accumulators);
    /// Takes it out again.
    fn exclude_all(&mut self, slice: &dyn Accumulators);
    /// Takes it out again.
    fn exclude(&mut self, into: &[Place], slice: &dyn Accumulators, from: &[Place]);
    /// Appends the bytes of one to `out`.
    fn encode_into(&self, place: Place, out: &mut Vec<u8>);
    /// Sets one to what the bytes in front of `bytes` say.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if they say nothing.
    fn decode(&mut self, place: Place, bytes: &mut &[u8]) -> Result<(), DecodeError>;
    /// The column of the results of `places`.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] where they do not fit into one column.
    fn finish(&self, places: &[Place]) -> Result<ArrayRef, ArrowError>;
    /// Bytes allocated, by capacity: kept up with each change, never counted over.
    fn allocated_bytes(&self) -> usize;
    /// The same, counted over.
    fn recounted_bytes(&self) -> usize;
    /// No fewer than the bytes that `more` accumulators add without what their rows do.
    fn growth_bytes(&self, more: usize) -> usize;
    /// No fewer than the bytes that the rows of `input` add, to however many columns. Costs a look at each row.
    fn heap_growth(&self, input: &ArrayRef) -> usize;
}

/// Columns of `A` for an argument of type `argument` and results of type `result`.
pub(crate) fn columns_of<A: Accumulator>(
    argument: DataType,
    result: DataType,
) -> Box<dyn Accumulators> {
    Box::new(Column::<A> {
        values: Vec::new(),
        heap_bytes: 0,
        argument,
        result,
    })
}

#[derive(Debug)]
struct Column<A> {
    values: Vec<A>,
    /// The sum over `values`.
    heap_bytes: usize,
    argument: DataType,
    result: DataType,
}

impl<A: Accumulator> Column<A> {
    fn of(other: &dyn Accumulators) -> &Self {
        let other = other.as_any().downcast_ref();
        other.expect("columns of one aggregate are of one kind")
    }

    /// Changes one, and keeps the account of its heap.
    #[inline]
    fn change(&mut self, place: Place, change: impl FnOnce(&mut A)) {
        let value = &mut self.values[place as usize];
        // Both are constants for accumulators without a heap.
        let before = value.heap_bytes();
        change(value);
        self.heap_bytes = self.heap_bytes + value.heap_bytes() - before;
    }
}

impl<A: Accumulator> Accumulators for Column<A> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn sharing(&self) -> Sharing {
        A::SHARING
    }

    fn new_empty(&self) -> Box<dyn Accumulators> {
        columns_of::<A>(self.argument.clone(), self.result.clone())
    }

    fn clone_box(&self) -> Box<dyn Accumulators> {
        // A copy of an accumulator need not have its capacity.
        let values = self.values.clone();
        Box::new(Self {
            heap_bytes: values.iter().map(A::heap_bytes).sum(),
            values,
            argument: self.argument.clone(),
            result: self.result.clone(),
        })
    }

    fn grow(&mut self, len: usize) {
        if len > self.values.len() {
            self.values.resize_with(len, A::default);
        }
    }

    fn reset(&mut self, places: &[Place]) {
        for &place in places {
            self.change(place, |value| *value = A::default());
        }
    }

    fn add(&mut self, input: Option<&ArrayRef>, rows: Option<&[u32]>, places: &[Place]) {
        let Some(input) = input else {
            // Only COUNT(*) has no argument, and it looks at no column.
            let none = arrow::array::NullArray::new(0);
            let column = A::column(&none);
            for &place in places {
                self.change(place, |value| value.add(&column, 0));
            }
            return;
        };
        let column = A::column(input.as_ref());
        let nulls = input.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        match (rows, nulls) {
            (None, None) => {
                for (row, &place) in places.iter().enumerate() {
                    self.change(place, |value| value.add(&column, row));
                }
            }
            (Some(rows), None) => {
                for (&row, &place) in rows.iter().zip(places) {
                    self.change(place, |value| value.add(&column, row as usize));
                }
            }
            (rows, Some(nulls)) => {
                for (i, &place) in places.iter().enumerate() {
                    let row = rows.map_or(i, |rows| rows[i] as usize);
                    if nulls.is_valid(row) {
                        self.change(place, |value| value.add(&column, row));
                    }
                }
            }
        }
    }

    fn merge(&mut self, into: &[Place], other: &dyn Accumulators, from: &[Place], age: Age) {
        let other = Self::of(other);
        for (&into, &from) in into.iter().zip(from) {
            self.change(into, |value| value.merge(&other.values[from as usize], age));
        }
    }

    fn include(&mut self, into: &[Place], slice: &dyn Accumulators, from: &[Place]) {
        let slice = Self::of(slice);
        for (&into, &from) in into.iter().zip(from) {
            self.change(into, |value| value.include(&slice.values[from as usize]));
        }
    }

    fn include_all(&mut self, slice: &dyn Accumulators) {
        let mut heap_bytes = self.heap_bytes;
        for (value, of_slice) in self.values.iter_mut().zip(&Self::of(slice).values) {
            // Both are constants for accumulators without a heap.
            heap_bytes -= value.heap_bytes();
            value.include(of_slice);
            heap_bytes += value.heap_bytes();
        }
        self.heap_bytes = heap_bytes;
    }

    fn exclude_all(&mut self, slice: &dyn Accumulators) {
        let mut heap_bytes = self.heap_bytes;
        for (value, of_slice) in self.values.iter_mut().zip(&Self::of(slice).values) {
            heap_bytes -= value.heap_bytes();
            value.exclude(of_slice);
            heap_bytes += value.heap_bytes();
        }
        self.heap_bytes = heap_bytes;
    }

    fn exclude(&mut self, into: &[Place], slice: &dyn Accumulators, from: &[Place]) {
        let slice = Self::of(slice);
        for (&into, &from) in into.iter().zip(from) {
            self.change(into, |value| value.exclude(&slice.values[from as usize]));
        }
    }

    fn encode_into(&self, place: Place, out: &mut Vec<u8>) {
        self.values[place as usize].encode_into(out);
    }

    fn decode(&mut self, place: Place, bytes: &mut &[u8]) -> Result<(), DecodeError> {
        let decoded = A::decode(bytes)?;
        self.change(place, |value| *value = decoded);
        Ok(())
    }

    fn finish(&self, places: &[Place]) -> Result<ArrayRef, ArrowError> {
        let values = places.iter().map(|&place| &self.values[place as usize]);
        A::finish(values, &self.argument, &self.result)
    }

    fn allocated_bytes(&self) -> usize {
        self.values.capacity() * size_of::<A>() + self.heap_bytes
    }

    fn recounted_bytes(&self) -> usize {
        let heap: usize = self.values.iter().map(A::heap_bytes).sum();
        self.values.capacity() * size_of::<A>() + heap
    }

    fn growth_bytes(&self, more: usize) -> usize {
        let (len, capacity) = (self.values.len(), self.values.capacity());
        let grown = if len + more > capacity {
            (len + more).max(2 * capacity).max(4)
        } else {
            capacity
        };
        (grown - capacity) * size_of::<A>()
    }

    fn heap_growth(&self, input: &ArrayRef) -> usize {
        A::heap_growth(input.as_ref()).unwrap_or(0)
    }
}
