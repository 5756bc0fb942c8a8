//! The results of a window as a record batch.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMillisecondArray,
};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use state_codec::{DecodeError, Slot};

use crate::accumulate::{Accumulators, Place};
use crate::error::WindowError;
use crate::keys::Keys;
use crate::spec::WindowSpec;

/// The key columns of windows, kept as long as the next window has the same keys in the same order: windows that
/// overlap mostly do.
#[derive(Debug, Default)]
pub(crate) struct KeyColumns {
    slots: Vec<Slot>,
    columns: Vec<ArrayRef>,
    /// That of the keys.
    forgotten: u64,
}

impl KeyColumns {
    /// The columns of these keys.
    pub(crate) fn get(
        &mut self,
        spec: &WindowSpec,
        keys: &Keys,
        slots: &[Slot],
    ) -> Result<Vec<ArrayRef>, DecodeError> {
        if self.forgotten != keys.forgotten() || self.slots != slots {
            self.columns = spec.keys.decode(&keys.index, slots)?;
            self.slots.clear();
            self.slots.extend_from_slice(slots);
            self.forgotten = keys.forgotten();
        }
        Ok(self.columns.clone())
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        let columns = self.columns.iter();
        self.slots.capacity() * size_of::<Slot>()
            + columns
                .map(|column| column.get_array_memory_size())
                .sum::<usize>()
    }
}

/// The results of the window that ends at `end_ms`: `rows` of them, with these keys, and of each aggregate
/// what is at its places.
pub(crate) fn results<'a, E: std::error::Error + 'static>(
    spec: &WindowSpec,
    end_ms: i64,
    rows: usize,
    keys: Vec<ArrayRef>,
    column: impl Fn(usize) -> (&'a dyn Accumulators, &'a [Place]),
) -> Result<RecordBatch, WindowError<E>> {
    let start_ms = spec.windows.window_start(end_ms);
    let start_ms = start_ms.expect("the bounds of a slice's windows were checked");
    let time_ms = spec.time.window_time_ms(end_ms)?;
    let repeated = |time_ms| TimestampMillisecondArray::from_value(time_ms, rows);
    let mut columns = keys;
    columns.push(Arc::new(repeated(start_ms)));
    columns.push(Arc::new(repeated(end_ms)));
    columns.push(match &spec.time.zone {
        Some(_) => Arc::new(repeated(time_ms).with_timezone("UTC")),
        None => Arc::new(repeated(time_ms)),
    });
    for index in 0..spec.plans.len() {
        let (accumulators, places) = column(index);
        columns.push(accumulators.finish(places).map_err(WindowError::Output)?);
    }
    batch(&spec.output, columns, rows).map_err(WindowError::Output)
}

fn batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Partial aggregates as a record batch: keys, slices, and the bytes of accumulators.
pub(crate) fn partials(
    schema: &SchemaRef,
    keys: Vec<ArrayRef>,
    slice_ends: Vec<i64>,
    accumulators: ArrayRef,
) -> Result<RecordBatch, ArrowError> {
    let rows = slice_ends.len();
    let mut columns = keys;
    columns.push(Arc::new(Int64Array::from(slice_ends)));
    columns.push(accumulators);
    batch(schema, columns, rows)
}
