//! The rows of a cell, and what its windows hold of them by an obvious count.

use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use calendar_tz::Zone;
use window_shared::{EventTime, WindowSpec};

use crate::seed::Seed;
use crate::trial::window::{List, WindowCell};

type Failure = Box<dyn Error + Send + Sync>;

/// Values of the BIGINT column are below.
const VALUES: usize = 7;

/// Batches with the watermarks that follow them.
pub(crate) struct Input {
    pub(crate) spec: WindowSpec,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) watermarks: Vec<i64>,
    /// The key of each row, by number.
    pub(crate) keys: Vec<u32>,
}

impl Input {
    /// Rows of a second of event time.
    pub(crate) const ROWS_PER_SECOND: usize = 8_192;

    /// Noon of 2013-06-28 UTC, which is an hour that starts a window of each shape in each zone of the cells.
    pub(crate) const START_MS: i64 = 1_372_420_800_000;

    /// When a row happened.
    pub(crate) fn time_ms(row: usize) -> i64 {
        Self::START_MS + (row * 1_000 / Self::ROWS_PER_SECOND) as i64
    }

    /// The BIGINT of the rows of a key.
    pub(crate) fn value(key: u32) -> i64 {
        (key as usize % VALUES) as i64
    }

    pub(crate) fn new(cell: &WindowCell) -> Result<Self, Failure> {
        let schema = schema(cell);
        let time = EventTime::timestamp_ltz(2, Zone::named(cell.zone.id())?);
        let windows = cell.shape.windows();
        let spec = WindowSpec::new(schema.clone(), &[0], time, windows, &cell.list.aggregates())?;
        // Of one name for all shapes and zones: they compare.
        let mut seed = Seed::of_name("windows");
        let keys: Vec<u32> = (0..cell.rows())
            .map(|_| seed.below(cell.keys as u64) as u32)
            .collect();
        let mut batches = Vec::new();
        let mut watermarks = Vec::new();
        for (number, keys) in keys.chunks(cell.batch_rows).enumerate() {
            let first = number * cell.batch_rows;
            let times = (first..first + keys.len()).map(Input::time_ms);
            let times = TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC");
            let values = keys.iter().map(|&key| Input::value(key));
            let columns: Vec<ArrayRef> = vec![
                key_column(cell, keys),
                Arc::new(Int64Array::from_iter_values(values)),
                Arc::new(times),
            ];
            batches.push(RecordBatch::try_new(schema.clone(), columns)?);
            watermarks.push(Input::time_ms(first + keys.len() - 1) - 1);
        }
        Ok(Self {
            spec,
            batches,
            watermarks,
            keys,
        })
    }

    /// Rows of the windows that fire, and the sum over them of the first aggregate.
    pub(crate) fn expected(&self, cell: &WindowCell) -> Result<(u64, i64), Failure> {
        let windows = cell.shape.windows();
        let slice_ms = windows.slice_ms();
        let first_end = windows.slice_end(Input::START_MS)?;
        let mut slices: Vec<Vec<i64>> = Vec::new();
        for (row, &key) in self.keys.iter().enumerate() {
            let slice = ((windows.slice_end(Input::time_ms(row))? - first_end) / slice_ms) as usize;
            if slices.len() <= slice {
                slices.resize_with(slice + 1, || vec![0; cell.keys]);
            }
            slices[slice][key as usize] += 1;
        }
        let last_ms = self.watermarks.last().copied().unwrap_or(i64::MIN);
        let (mut rows, mut sum) = (0, 0);
        let mut end = first_end;
        while end - 1 <= last_ms {
            let ends = windows.first_slice_end(end)?..=end;
            let mut counts = vec![0; cell.keys];
            for slice in ends.step_by(slice_ms as usize) {
                let index = usize::try_from((slice - first_end) / slice_ms).ok();
                let before = slice < first_end;
                if let Some(slice) = index.filter(|_| !before).and_then(|i| slices.get(i)) {
                    counts
                        .iter_mut()
                        .zip(slice)
                        .for_each(|(all, of)| *all += of);
                }
            }
            rows += counts.iter().filter(|&&count| count > 0).count() as u64;
            sum += match cell.list {
                List::Sum => (0..)
                    .zip(&counts)
                    .map(|(key, count)| Input::value(key) * count)
                    .sum(),
                List::Count | List::Mixed => counts.iter().sum::<i64>(),
            };
            end += slice_ms;
        }
        Ok((rows, sum))
    }
}

fn schema(cell: &WindowCell) -> SchemaRef {
    let key = match cell.key_bytes {
        WindowCell::BIGINT_BYTES => DataType::Int64,
        _ => DataType::Utf8,
    };
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("key", key, false),
        Field::new("value", DataType::Int64, false),
        Field::new("ts", time, false),
    ]))
}

fn key_column(cell: &WindowCell, keys: &[u32]) -> ArrayRef {
    let width = cell.key_bytes;
    if width == WindowCell::BIGINT_BYTES {
        let keys = keys.iter().map(|&key| i64::from(key));
        return Arc::new(Int64Array::from_iter_values(keys));
    }
    let keys = keys.iter().map(|key| format!("{key:0width$}"));
    Arc::new(StringArray::from_iter_values(keys))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::Input;
    use crate::trial::window::{List, Shape, WindowCell};

    #[test]
    fn the_expected_answer_is_that_of_a_row_by_row_count() {
        for shape in Shape::ALL {
            for list in [List::Count, List::Sum] {
                let cell = WindowCell {
                    shape,
                    list,
                    keys: 5,
                    key_bytes: 256,
                    ..WindowCell::plain()
                };
                let mut input = Input::new(&cell).expect("an input");
                // A minute's first seconds are enough.
                input.keys.truncate(16_384);
                input.watermarks = vec![Input::time_ms(16_384) + 8_000];
                let mut counts: HashMap<(i64, u32), i64> = HashMap::new();
                let windows = shape.windows();
                for (row, &key) in input.keys.iter().enumerate() {
                    let slice = windows.slice_end(Input::time_ms(row)).expect("in range");
                    for end in windows.window_ends(slice).expect("in range") {
                        if end - 1 <= input.watermarks[0] {
                            let of_row = if list == List::Sum {
                                Input::value(key)
                            } else {
                                1
                            };
                            *counts.entry((end, key)).or_default() += of_row;
                        }
                    }
                }
                let expected = (counts.len() as u64, counts.values().sum());
                assert_eq!(
                    input.expected(&cell).expect("in range"),
                    expected,
                    "{shape}"
                );
            }
        }
    }
}
