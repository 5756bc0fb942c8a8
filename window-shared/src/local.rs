//! The first of two phases: rows are aggregated where they arise, and partial aggregates go to the operator.

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, RecordBatch};
use arrow::datatypes::Int64Type;
use keygroup::GroupCount;
use state_codec::{KeyBatch, MemoryDenied, MemoryPool, NoSlices, SlicedState};

use crate::error::{BatchError, WindowError};
use crate::input::{self, Group};
use crate::operator::{Added, Targeted, WindowOperator};
use crate::output;
use crate::slice::Slice;
use crate::spec::WindowSpec;
use crate::spill;

/// Aggregates rows by key and slice before they are sent to the [`WindowOperator`] that owns their keys, so
/// that a key and slice is sent once per watermark and not once per row.
///
/// It knows no watermark and drops nothing: an engine calls [`flush`](Self::flush) before it passes a watermark
/// on, so that what is late is so only for the operator, as without two phases. Floating-point sums are added
/// in another order than without, so their last digits can differ.
///
/// ```
/// # use arrow::array::{AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
/// # use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
/// # use keygroup::GroupCount;
/// # use state_codec::MemoryPool;
/// # use state_mem::MemBackend;
/// # use std::sync::Arc;
/// # use window_shared::{Aggregate, EventTime, LocalAggregate, WindowOperator, WindowSpec, Windows};
/// # let schema = Arc::new(Schema::new(vec![
/// #     Field::new("key", DataType::Int64, false),
/// #     Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
/// # ]));
/// # let spec = WindowSpec::new(schema.clone(), &[0], EventTime::timestamp(1), Windows::tumble(1_000)?,
/// #     &[Aggregate::count_rows("rows")])?;
/// # let keys = Int64Array::from(vec![7; 6]);
/// # let times = TimestampMillisecondArray::from(vec![0, 100, 200, 300, 400, 500]);
/// # let batch = RecordBatch::try_new(schema, vec![Arc::new(keys), Arc::new(times)])?;
/// let mut local = LocalAggregate::new(spec.clone(), "local", &MemoryPool::unlimited())?;
/// local.push(&batch)?; // six rows of one key
/// let partials = local.flush()?.expect("there are rows");
/// assert_eq!(partials.num_rows(), 1);
///
/// let backend = MemBackend::new(GroupCount::new(128)?);
/// let mut operator = WindowOperator::open(spec, &backend, "tumble")?;
/// operator.push_partials(&partials)?;
/// let results = operator.advance_watermark(999)?;
/// assert_eq!(results[0]["rows"].as_primitive::<Int64Type>().value(0), 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LocalAggregate {
    /// Never given a watermark.
    rows: WindowOperator<NoSlices<MemoryDenied>>,
}

impl LocalAggregate {
    /// An aggregation of this specification's rows, which takes what it holds from `pool` under `name`.
    ///
    /// # Errors
    ///
    /// [`WindowError::Denied`] if there is no room for an empty one.
    pub fn new(
        spec: WindowSpec,
        name: &str,
        pool: &MemoryPool,
    ) -> Result<Self, WindowError<MemoryDenied>> {
        // Nothing here is divided by groups.
        let groups = GroupCount::new(1).expect("1 is a number of groups");
        let rows = WindowOperator::with_state(spec, name, groups, pool.reserve(name), None)?;
        Ok(Self { rows })
    }

    /// Adds the rows of a batch.
    ///
    /// # Errors
    ///
    /// As [`WindowOperator::push`]. Where the budget refuses, a [`flush`](Self::flush) makes room.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), WindowError<MemoryDenied>> {
        self.rows.push(batch)
    }

    /// Takes what has been aggregated, as
    /// [`partials_schema`](WindowSpec::partials_schema) has it; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// [`WindowError::Output`] if the keys do not fit into columns of their types; then nothing has changed.
    pub fn flush(&mut self) -> Result<Option<RecordBatch>, WindowError<MemoryDenied>> {
        let partials = self.rows.resident_partials()?;
        self.rows.timers.clear();
        self.rows.forget_resident();
        self.rows.settle()?;
        Ok(partials)
    }

    /// Bytes charged to the memory budget now.
    pub fn charged_bytes(&self) -> usize {
        self.rows.charged_bytes()
    }
}

impl<S: SlicedState> WindowOperator<S> {
    /// All that is in memory.
    fn resident_partials(&self) -> Result<Option<RecordBatch>, WindowError<S::Error>> {
        let mut slots = Vec::new();
        let mut slice_ends = Vec::new();
        let mut accumulators = BinaryBuilder::new();
        let mut value = Vec::new();
        for (&end, slice) in &self.slices {
            for (place, slot) in slice.entries() {
                slots.push(slot);
                slice_ends.push(end);
                value.clear();
                spill::encode(slice, place, &mut value);
                accumulators.append_value(&value);
            }
        }
        if slots.is_empty() {
            return Ok(None);
        }
        let keys = self.spec.keys.decode(&self.keys.index, &slots)?;
        let accumulators: ArrayRef = std::sync::Arc::new(accumulators.finish());
        output::partials(&self.spec.partials, keys, slice_ends, accumulators)
            .map(Some)
            .map_err(WindowError::Output)
    }

    /// Adds partial aggregates of a [`LocalAggregate`] of the same specification. They are late as rows are.
    /// Each is counted as one row.
    ///
    /// # Errors
    ///
    /// [`WindowError`] if the batch is not one of partials, or there is no room for it: nothing has changed
    /// then.
    pub fn push_partials(&mut self, batch: &RecordBatch) -> Result<(), WindowError<S::Error>> {
        input::check(&self.spec.partials, batch)?;
        self.keep_limit()?;
        let groups = self.partial_groups(batch)?;
        let (groups, late) = self.open_groups(groups, batch.num_rows())?;
        self.add_partials(batch, &groups)?;
        self.counters.rows_in += batch.num_rows() as u64;
        self.counters.late += late;
        Ok(())
    }

    pub(crate) fn partial_groups(&self, batch: &RecordBatch) -> Result<Vec<Group>, BatchError> {
        let column = batch.column(self.spec.group_by.len());
        let column = column.as_primitive::<Int64Type>();
        let windows = &self.spec.windows;
        input::group(column.values(), column.nulls(), |row| {
            let end = column.value(row);
            let slice_end = end.checked_sub(1).map(|last| windows.slice_end(last));
            if slice_end != Some(Ok(end)) {
                return Err(BatchError::NoSuchSlice { row, end_ms: end });
            }
            Ok((end, end + 1))
        })
        .map(|groups| {
            let groups = groups.into_iter();
            groups
                .map(|group| Group {
                    slice_end: group.slice_end - 1,
                    ..group
                })
                .collect()
        })
    }

    pub(crate) fn add_partials(
        &mut self,
        batch: &RecordBatch,
        groups: &[Targeted],
    ) -> Result<(), WindowError<S::Error>> {
        if groups.is_empty() {
            return Ok(());
        }
        let rows = batch.num_rows();
        let columns = batch.columns();
        let accumulators = columns[columns.len() - 1].as_binary::<i32>();
        let mut partials = Slice::new(&self.spec.plans);
        for column in &mut partials.columns {
            column.grow(rows);
        }
        for row in 0..rows {
            spill::decode(&mut partials, row as u32, accumulators.value(row))?;
        }
        let mut keys = KeyBatch::default();
        self.spec.partial_keys.encode(columns, rows, &mut keys)?;
        let added = self.add(&Added::Partials(&partials), &keys, groups);
        self.after_batch();
        added
    }
}
