//! What work costs, counted exactly: merges, state reads and writes, allocations.

mod common;

use std::fmt::Write as _;
use std::sync::Arc;

use allocation_counter::measure;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use common::{groups, open, scratch, text};
use state_codec::SlicedState;
use state_rocks::RocksBackend;
use window_shared::{Aggregate, EventTime, Function, WindowOperator, WindowSpec, Windows};

const KEYS: usize = 50;

fn schema(key: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", key, false),
        Field::new("value", DataType::Int64, false),
        Field::new(
            "ts",
            DataType::Timestamp(TimeUnit::Millisecond, None),
            false,
        ),
    ]))
}

/// `rows` rows of all keys in turn, from `since_ms` on over `span_ms`.
fn batch(key: &DataType, rows: usize, since_ms: i64, span_ms: i64) -> RecordBatch {
    let numbers = || (0..rows).map(|row| (row % KEYS) as i64);
    let keys: ArrayRef = match key {
        DataType::Int64 => Arc::new(Int64Array::from_iter_values(numbers())),
        _ => Arc::new(StringArray::from_iter_values(
            numbers().map(|key| format!("key number {key:04}")),
        )),
    };
    let times = (0..rows as i64).map(|row| since_ms + row * span_ms / rows as i64);
    let columns: Vec<ArrayRef> = vec![
        keys,
        Arc::new(Int64Array::from_iter_values(numbers())),
        Arc::new(TimestampMillisecondArray::from_iter_values(times)),
    ];
    RecordBatch::try_new(schema(key.clone()), columns).unwrap()
}

fn shapes() -> [(&'static str, Windows); 5] {
    [
        ("tumble 10 s", Windows::tumble(10_000).unwrap()),
        ("hop 10 s / 2 s", Windows::hop(2_000, 10_000).unwrap()),
        ("hop 30 s / 2 s", Windows::hop(2_000, 30_000).unwrap()),
        ("hop 60 s / 1 s", Windows::hop(1_000, 60_000).unwrap()),
        (
            "cumulate 2 s / 10 s",
            Windows::cumulate(2_000, 10_000).unwrap(),
        ),
    ]
}

fn spec(key: DataType, windows: Windows, aggregates: &[Aggregate]) -> WindowSpec {
    let time = EventTime::timestamp(2);
    WindowSpec::new(schema(key), &[0], time, windows, aggregates).unwrap()
}

fn value(function: Function) -> Aggregate {
    Aggregate::new(function.to_string(), function, 1)
}

/// Three minutes, a batch of all keys and a watermark a second. Returns the rows that came out.
fn three_minutes<S: SlicedState>(operator: &mut WindowOperator<S>) -> u64
where
    S::Error: std::fmt::Debug,
{
    for second in 0..180 {
        operator
            .push(&batch(&DataType::Int64, 4 * KEYS, second * 1_000, 1_000))
            .unwrap();
        operator.advance_watermark(second * 1_000 + 999).unwrap();
    }
    operator.metrics().rows_out
}

/// Merges per row that comes out, of COUNT(*), SUM, AVG, MIN, MAX and COUNT DISTINCT alone: what can be undone goes
/// into the running window and out of it, the rest through two stacks. How many slices overlap makes no difference.
#[test]
fn merges_do_not_depend_on_how_many_slices_overlap() {
    let mut counts = String::new();
    for (name, windows) in shapes() {
        write!(counts, "{name:20}").unwrap();
        for aggregate in [
            Aggregate::count_rows("rows"),
            value(Function::Sum),
            value(Function::Avg),
            value(Function::Min),
            value(Function::Max),
            value(Function::Count).distinct(),
        ] {
            let mut operator = open(spec(DataType::Int64, windows, &[aggregate]));
            let rows = three_minutes(&mut operator);
            let merges = operator.metrics().merges as f64 / rows as f64;
            write!(counts, " {merges:.2}").unwrap();
        }
        counts.push('\n');
    }
    insta::assert_snapshot!(counts, @"
    tumble 10 s          0.00 0.00 0.00 0.00 0.00 0.00
    hop 10 s / 2 s       1.97 1.97 1.97 3.56 3.56 1.97
    hop 30 s / 2 s       1.86 1.86 1.86 3.71 3.71 1.86
    hop 60 s / 1 s       1.68 1.68 1.68 3.64 3.64 1.68
    cumulate 2 s / 10 s  0.80 0.80 0.80 0.80 0.80 0.80
    ");
}

/// What goes to and from RocksDB: nothing at all where slices stay resident until they close.
#[test]
fn state_reads_and_writes_are_counted() {
    let mut counts = String::new();
    for (name, windows) in shapes() {
        for (resident, bytes) in [("resident", 8 << 20), ("written", 0)] {
            let root = scratch();
            let stores = RocksBackend::new(root.path(), groups());
            let spec = spec(
                DataType::Int64,
                windows,
                &[Aggregate::count_rows("rows"), value(Function::Max)],
            );
            let mut operator = WindowOperator::open(spec, &stores, "counted")
                .unwrap()
                .with_resident_bytes(bytes);
            let rows = three_minutes(&mut operator);
            let store = operator.metrics().store;
            writeln!(
                counts,
                "{name:20} {resident:8} {rows:5} rows out: {} reads of {} bytes, {} writes of {} bytes in {} batches",
                store.reads, store.read_bytes, store.writes, store.written_bytes, store.write_batches
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(counts, @"
    tumble 10 s          resident   900 rows out: 0 reads of 0 bytes, 0 writes of 0 bytes in 0 batches
    tumble 10 s          written    900 rows out: 8100 reads of 167400 bytes, 9000 writes of 396000 bytes in 180 batches
    hop 10 s / 2 s       resident  4500 rows out: 0 reads of 0 bytes, 0 writes of 0 bytes in 0 batches
    hop 10 s / 2 s       written   4500 rows out: 4500 reads of 802500 bytes, 9000 writes of 396000 bytes in 180 batches
    hop 30 s / 2 s       resident  4500 rows out: 0 reads of 0 bytes, 0 writes of 0 bytes in 0 batches
    hop 30 s / 2 s       written   4500 rows out: 4500 reads of 2130750 bytes, 9000 writes of 396000 bytes in 180 batches
    hop 60 s / 1 s       resident  9000 rows out: 0 reads of 0 bytes, 0 writes of 0 bytes in 0 batches
    hop 60 s / 1 s       written   9000 rows out: 0 reads of 14899500 bytes, 9000 writes of 396000 bytes in 180 batches
    cumulate 2 s / 10 s  resident  4500 rows out: 0 reads of 0 bytes, 0 writes of 0 bytes in 0 batches
    cumulate 2 s / 10 s  written   4500 rows out: 4500 reads of 343800 bytes, 12600 writes of 554400 bytes in 252 batches
    ");
}

/// A watermark over written slices reads those of the windows that close, and leaves the others alone.
#[test]
fn a_watermark_reads_what_closes() {
    let root = scratch();
    let stores = RocksBackend::new(root.path(), groups());
    let spec = spec(
        DataType::Int64,
        Windows::tumble(1_000).unwrap(),
        &[Aggregate::count_rows("rows")],
    );
    let mut operator = WindowOperator::open(spec, &stores, "closing")
        .unwrap()
        .with_resident_bytes(0);
    operator
        .push(&batch(&DataType::Int64, 10 * KEYS, 0, 10_000))
        .unwrap();
    let before = operator.metrics().store;
    assert_eq!(before.writes, 10 * KEYS as u64);
    let fired = operator.advance_watermark(1_999).unwrap();
    assert_eq!(text(&fired).lines().count(), 2 * KEYS);
    let after = operator.metrics().store;
    // Of each key its row and its count, with what the layout puts around them.
    assert_eq!(after.read_bytes - before.read_bytes, 2 * KEYS as u64 * 24);
    assert_eq!(after.reads, before.reads, "a scan, and no look-up of keys");
    assert_eq!(after.writes, before.writes);
    assert_eq!(after.deletes, 0, "slices go by ranges");
}

/// Allocations of a batch of keys that are there, once buffers have grown.
fn allocations(key: &DataType, windows: Windows, rows: usize) -> u64 {
    let aggregates = [
        Aggregate::count_rows("rows"),
        value(Function::Sum),
        value(Function::Min),
        value(Function::Avg),
    ];
    let mut operator = open(spec(key.clone(), windows, &aggregates));
    let batch = batch(key, rows, 0, 1_000);
    for _ in 0..3 {
        operator.push(&batch).unwrap();
    }
    measure(|| operator.push(&batch).unwrap()).count_total
}

/// Rows allocate nothing: a batch costs what it costs, whatever its size.
#[test]
fn rows_allocate_nothing() {
    for key in [DataType::Int64, DataType::Utf8] {
        for (name, windows) in shapes() {
            let few = allocations(&key, windows, 1_024);
            let many = allocations(&key, windows, 8_192);
            assert_eq!(few, many, "{name}, {key}");
            assert!(few <= 20, "{few} allocations a batch: {name}, {key}");
        }
    }
}
