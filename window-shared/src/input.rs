//! A batch, checked, and its rows by the slices that they fall into.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, SchemaRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use calendar_tz::{Conversion, Validity};

use crate::aggregate::Plan;
use crate::error::BatchError;
use crate::spec::{NullTime, Source, WindowSpec};

/// Rows of a batch that fall into one slice, in their order; `None` if all rows of the batch do.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) slice_end: i64,
    pub(crate) rows: Option<Vec<u32>>,
}

/// The rows of a batch by slice.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub(crate) groups: Vec<Group>,
    /// Rows without a time, which are dropped.
    pub(crate) null_times: u64,
}

/// Whether a batch has the columns of the specification. Names and metadata do not matter.
pub(crate) fn check(schema: &SchemaRef, batch: &RecordBatch) -> Result<(), BatchError> {
    let rows = batch.num_rows();
    // The greatest number stands for none.
    if u32::try_from(rows).is_err() {
        return Err(BatchError::TooManyRows { rows });
    }
    if Arc::ptr_eq(batch.schema_ref(), schema) {
        return Ok(());
    }
    let (expected, found) = (schema.fields(), batch.schema_ref().fields());
    if expected.len() != found.len() {
        return Err(BatchError::ColumnCount {
            expected: expected.len(),
            found: found.len(),
        });
    }
    let pairs = expected.iter().zip(found).enumerate();
    for (index, (expected, found)) in pairs {
        if expected.data_type() != found.data_type() {
            return Err(BatchError::Column {
                index,
                name: expected.name().clone(),
                expected: Box::new(expected.data_type().clone()),
                found: Box::new(found.data_type().clone()),
            });
        }
    }
    Ok(())
}

/// The rows of a batch by slice, in the order in which the slices occur.
pub(crate) fn sort(spec: &WindowSpec, batch: &RecordBatch) -> Result<Sorted, BatchError> {
    match spec.time.source {
        Source::Column(column) => {
            let (mut times, nulls) = milliseconds(batch.column(column));
            let null_times = check_nulls(spec, nulls.as_ref())?;
            let zone = spec.time.zone.as_ref();
            // By a clock without an offset local times are instants.
            if let Some(zone) = zone.filter(|zone| zone.only_offset_ms() != Some(0)) {
                let validity = nulls
                    .as_ref()
                    .map_or(Validity::All, |nulls| Validity::Bits {
                        bits: nulls.buffer().as_slice(),
                        first_bit: nulls.offset(),
                    });
                let mut local = vec![0; times.len()];
                zone.convert(Conversion::ToLocal, &times, validity, &mut local)
                    .map_err(|error| match error {
                        calendar_tz::BatchError::Range { row, error } => {
                            BatchError::Zone { row, source: error }
                        }
                        other => unreachable!("a column is as long as itself: {other}"),
                    })?;
                times = local.into();
            }
            let slice_ms = spec.windows.slice_ms();
            let groups = group(&times, nulls.as_ref(), |row| {
                let end = spec.windows.slice_end(times[row]);
                let end = end.map_err(|source| BatchError::TimeRange { row, source })?;
                Ok((end - slice_ms, end))
            })?;
            Ok(Sorted { groups, null_times })
        }
        Source::Attached { start, end } => {
            let (starts, start_nulls) = milliseconds(batch.column(start));
            let (ends, end_nulls) = milliseconds(batch.column(end));
            let nulls = NullBuffer::union(start_nulls.as_ref(), end_nulls.as_ref());
            let null_times = check_nulls(spec, nulls.as_ref())?;
            let slice_ms = spec.windows.slice_ms();
            let mut last = None;
            for row in 0..ends.len() {
                let (start_ms, end_ms) = (starts[row], ends[row]);
                let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                if is_null || last == Some((start_ms, end_ms)) {
                    continue;
                }
                let slice_end = end_ms.checked_sub(1).map(|it| spec.windows.slice_end(it));
                let is_window = slice_end == Some(Ok(end_ms))
                    && spec.windows.window_start(end_ms) == Ok(start_ms);
                if !is_window {
                    return Err(BatchError::NoSuchWindow {
                        row,
                        start_ms,
                        end_ms,
                    });
                }
                last = Some((start_ms, end_ms));
            }
            // The last milliseconds of the windows, each in the slice that ends with its window.
            let lasts: Vec<i64> = ends.iter().map(|end| end.wrapping_sub(1)).collect();
            let groups = group(&lasts, nulls.as_ref(), |row| {
                Ok((ends[row] - slice_ms, ends[row]))
            })?;
            Ok(Sorted { groups, null_times })
        }
    }
}

fn check_nulls(spec: &WindowSpec, nulls: Option<&NullBuffer>) -> Result<u64, BatchError> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return Ok(0);
    };
    match spec.null_time {
        NullTime::Drop => Ok(nulls.null_count() as u64),
        NullTime::Error => {
            let row = (0..nulls.len()).find(|&row| nulls.is_null(row));
            let row = row.expect("there are NULLs");
            Err(BatchError::NullTime { row })
        }
    }
}

/// The rows by spans. `span` gives the span from its first time to behind its last that a row's time is in,
/// which is asked only when that of the row before is another.
pub(crate) fn group(
    times: &[i64],
    nulls: Option<&NullBuffer>,
    mut span: impl FnMut(usize) -> Result<(i64, i64), BatchError>,
) -> Result<Vec<Group>, BatchError> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let mut groups: Vec<Group> = Vec::new();
    if times.is_empty() {
        return Ok(groups);
    }
    if nulls.is_none() {
        let (start, end) = span(0)?;
        // Without a branch a row, which is worth it since most batches fall into one slice.
        let inside = |&time: &i64| (time >= start) & (time < end);
        if times.iter().fold(true, |all, time| all & inside(time)) {
            let slice_end = end;
            let rows = None;
            return Ok(vec![Group { slice_end, rows }]);
        }
    }
    let (mut start, mut end, mut current) = (0, 0, 0);
    for (row, &time) in times.iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            continue;
        }
        if !(start..end).contains(&time) {
            (start, end) = span(row)?;
            // The slices of a batch are few, and a time is mostly in one of the latest.
            let known = groups.iter().rposition(|group| group.slice_end == end);
            current = known.unwrap_or_else(|| {
                groups.push(Group {
                    slice_end: end,
                    rows: Some(Vec::new()),
                });
                groups.len() - 1
            });
        }
        let rows = groups[current].rows.as_mut();
        rows.expect("groups of a part of the rows list them")
            .push(row as u32);
    }
    Ok(groups)
}

/// A timestamp column in whole milliseconds, earlier ones where there are parts of one.
fn milliseconds(column: &ArrayRef) -> (ScalarBuffer<i64>, Option<NullBuffer>) {
    let nulls = column.nulls().cloned();
    let DataType::Timestamp(unit, _) = column.data_type() else {
        unreachable!("the specification has checked that times are timestamps")
    };
    let times = match unit {
        TimeUnit::Millisecond => {
            let column = column.as_primitive::<TimestampMillisecondType>();
            column.values().clone()
        }
        TimeUnit::Second => {
            let column = column.as_primitive::<TimestampSecondType>();
            let times = column.values().iter();
            // What does not fit is beyond every window all the same.
            times.map(|&time| time.saturating_mul(1_000)).collect()
        }
        TimeUnit::Microsecond => {
            let column = column.as_primitive::<TimestampMicrosecondType>();
            let times = column.values().iter();
            times.map(|&time| time.div_euclid(1_000)).collect()
        }
        TimeUnit::Nanosecond => {
            let column = column.as_primitive::<TimestampNanosecondType>();
            let times = column.values().iter();
            times.map(|&time| time.div_euclid(1_000_000)).collect()
        }
    };
    (times, nulls)
}

/// The argument column of an aggregate, with the values of a dictionary in their places.
pub(crate) fn argument(
    plan: &Plan,
    batch: &RecordBatch,
) -> Result<Option<ArrayRef>, arrow::error::ArrowError> {
    let Some(argument) = &plan.argument else {
        return Ok(None);
    };
    let column = batch.column(argument.column);
    match &argument.decoded {
        Some(decoded) => cast(column, decoded).map(Some),
        None => Ok(Some(Arc::clone(column))),
    }
}

/// Of `rows`, those for which the filter of an aggregate is true; with their places.
pub(crate) fn filter(
    filter: &ArrayRef,
    rows: Option<&[u32]>,
    places: &[u32],
    kept_rows: &mut Vec<u32>,
    kept_places: &mut Vec<u32>,
) {
    let filter = filter.as_boolean();
    kept_rows.clear();
    kept_places.clear();
    for (i, &place) in places.iter().enumerate() {
        let row = rows.map_or(i, |rows| rows[i] as usize);
        if filter.is_valid(row) && filter.value(row) {
            kept_rows.push(row as u32);
            kept_places.push(place);
        }
    }
}
