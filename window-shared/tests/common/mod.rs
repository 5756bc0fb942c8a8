//! Streams of rows as text, through an operator, to the results of windows as text.

#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use keygroup::GroupCount;
use state_codec::{SliceBackend, SlicedState};
use state_mem::MemBackend;
use window_shared::{Aggregate, EventTime, Function, WindowOperator, WindowSpec, Windows};

/// An operator over memory.
pub(crate) type MemOperator = WindowOperator<<MemBackend as SliceBackend>::Slices>;

pub(crate) fn groups() -> GroupCount {
    GroupCount::new(16).unwrap()
}

/// A directory in memory where there is one: thousands of checkpoints are synced.
pub(crate) fn scratch() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// `(k, v, ts)`, of which the time is in milliseconds of wall clocks.
pub(crate) fn schema() -> SchemaRef {
    timed(None)
}

/// The same with instants.
pub(crate) fn schema_ltz() -> SchemaRef {
    timed(Some("UTC"))
}

fn timed(zone: Option<&str>) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Millisecond, zone.map(Into::into));
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
        Field::new("ts", time, true),
    ]))
}

/// `COUNT(*)`, `COUNT(v)` and `SUM(v)`.
pub(crate) fn counts() -> [Aggregate; 3] {
    [
        Aggregate::count_rows("rows"),
        Aggregate::new("values", Function::Count, 1),
        Aggregate::new("sum", Function::Sum, 1),
    ]
}

/// [`counts`] by `k` and windows.
pub(crate) fn spec(windows: Windows) -> WindowSpec {
    WindowSpec::new(schema(), &[0], EventTime::timestamp(2), windows, &counts()).unwrap()
}

pub(crate) fn open(spec: WindowSpec) -> MemOperator {
    WindowOperator::open(spec, &MemBackend::new(groups()), "test").unwrap()
}

/// `"a 7 1000; null null 2000"` as a batch of a schema as [`schema`].
pub(crate) fn batch_of(schema: &SchemaRef, rows: &str) -> RecordBatch {
    let rows: Vec<Vec<&str>> = rows
        .split(';')
        .map(|row| row.split_whitespace().collect())
        .filter(|row: &Vec<&str>| !row.is_empty())
        .collect();
    let number = |row: &Vec<&str>, column: usize| match row[column] {
        "null" => None,
        number => Some(number.parse::<i64>().unwrap()),
    };
    let texts = rows.iter().map(|row| (row[0] != "null").then_some(row[0]));
    let values = rows.iter().map(|row| number(row, 1));
    let times = rows.iter().map(|row| number(row, 2));
    let times = TimestampMillisecondArray::from_iter(times);
    let times = times.with_data_type(schema.field(2).data_type().clone());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter(texts)),
        Arc::new(Int64Array::from_iter(values)),
        Arc::new(times),
    ];
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

pub(crate) fn batch(rows: &str) -> RecordBatch {
    batch_of(&schema(), rows)
}

/// A value as text. Decimals are without their point; floats tell zeros of both signs apart.
pub(crate) fn cell(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    macro_rules! primitive {
        ($type:ty) => {
            column.as_primitive::<$type>().value(row)
        };
    }
    match column.data_type() {
        DataType::Int8 => primitive!(Int8Type).to_string(),
        DataType::Int16 => primitive!(Int16Type).to_string(),
        DataType::Int32 => primitive!(Int32Type).to_string(),
        DataType::Int64 => primitive!(Int64Type).to_string(),
        DataType::Float32 => format!("{:?}", f64::from(primitive!(Float32Type))),
        DataType::Float64 => format!("{:?}", primitive!(Float64Type)),
        DataType::Decimal128(..) => primitive!(Decimal128Type).to_string(),
        DataType::Date32 => primitive!(Date32Type).to_string(),
        DataType::Timestamp(TimeUnit::Second, _) => primitive!(TimestampSecondType).to_string(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            primitive!(TimestampMillisecondType).to_string()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive!(TimestampMicrosecondType).to_string()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            primitive!(TimestampNanosecondType).to_string()
        }
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).to_owned(),
        DataType::Utf8View => column.as_string_view().value(row).to_owned(),
        DataType::Binary => format!("{:?}", column.as_binary::<i32>().value(row)),
        DataType::Dictionary(..) => {
            let column = column.as_any_dictionary();
            let key = column.normalized_keys()[row];
            cell(column.values().as_ref(), key)
        }
        other => unreachable!("no test has results of {other}"),
    }
}

/// The rows of a batch as text, sorted.
pub(crate) fn lines(batch: &RecordBatch) -> Vec<String> {
    let line = |row: usize| {
        let cells = batch.columns().iter().map(|column| cell(column, row));
        cells.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = (0..batch.num_rows()).map(line).collect();
    lines.sort();
    lines
}

/// The results of windows as text without `window_time`: `"a 0 1000 1 1 7"` a line, sorted within a window.
pub(crate) fn text(results: &[RecordBatch]) -> String {
    let lines = results.iter().flat_map(|batch| {
        let time = batch.schema().index_of("window_time").unwrap();
        let columns: Vec<usize> = (0..batch.num_columns()).filter(|&i| i != time).collect();
        lines(&batch.project(&columns).unwrap())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether the account of an operator is right.
pub(crate) fn audit<S: SlicedState>(operator: &WindowOperator<S>) {
    assert_eq!(operator.charged_bytes(), operator.recounted_bytes());
    let held = operator.metrics().held_bytes;
    assert_eq!(operator.charged_bytes() as u64, held);
}

/// A generator of everything else from one seed (splitmix64).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// From `first` to `last`, both included.
    pub(crate) fn between(&mut self, first: i64, last: i64) -> i64 {
        let count = (last - first + 1) as u64;
        first + (self.bits() % count) as i64
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
