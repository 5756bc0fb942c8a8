//! Whether windows that fire over RocksDB cost more where a hundred thousand slices were deleted before: deletion
//! markers that a scan has to walk across would show.
//!
//! ```sh
//! cargo run --release -p bench-suite --example expired_slices
//! ```

#![allow(clippy::print_stdout, reason = "a report is what it is for")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use state_codec::SlicedState;
use window_shared::{Aggregate, EventTime, WindowOperator, WindowSpec, Windows};

type Outcome<T> = Result<T, Box<dyn Error>>;

const EXPIRED: i64 = 100_000;
const KEYS: i64 = 1_000;
const FIRINGS: i64 = 201;

fn spec() -> Outcome<WindowSpec> {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let schema = Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("ts", time, false),
    ]);
    Ok(WindowSpec::new(
        Arc::new(schema),
        &[0],
        EventTime::timestamp(1),
        Windows::tumble(1)?,
        &[Aggregate::count_rows("rows")],
    )?)
}

fn rows(spec: &WindowSpec, rows: impl Iterator<Item = (i64, i64)>) -> Outcome<RecordBatch> {
    let (keys, times): (Vec<i64>, Vec<i64>) = rows.unzip();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys)),
        Arc::new(TimestampMillisecondArray::from(times)),
    ];
    Ok(RecordBatch::try_new(spec.schema().clone(), columns)?)
}

/// One window of all keys: the time of its firing alone.
fn fire<S: SlicedState>(operator: &mut WindowOperator<S>, at: i64) -> Outcome<Duration>
where
    S::Error: 'static,
{
    let batch = rows(operator.spec(), (0..KEYS).map(|key| (key, at)))?;
    operator.push(&batch)?;
    let start = Instant::now();
    let fired = operator.advance_watermark(at)?;
    let spent = start.elapsed();
    assert_eq!(fired[0].num_rows() as i64, KEYS);
    Ok(spent)
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn main() -> Outcome<()> {
    let spec = spec()?;
    let (_clean_directory, clean_stores) = bench_suite::stores::rocks()?;
    let mut clean =
        WindowOperator::open(spec.clone(), &clean_stores, "clean")?.with_resident_bytes(0);
    let (_used_directory, used_stores) = bench_suite::stores::rocks()?;
    let mut used = WindowOperator::open(spec, &used_stores, "used")?.with_resident_bytes(0);
    for first in (0..EXPIRED).step_by(1_000) {
        let batch = rows(
            used.spec(),
            (first..first + 1_000).map(|at| (at % KEYS, at)),
        )?;
        used.push(&batch)?;
    }
    let start = Instant::now();
    let fired = used.advance_watermark(EXPIRED)?;
    assert_eq!(fired.len() as i64, EXPIRED);
    println!(
        "{EXPIRED} slices of a row fired and deleted in {:?}",
        start.elapsed()
    );
    let mut samples = [Vec::new(), Vec::new()];
    for at in EXPIRED + 1..EXPIRED + 1 + FIRINGS {
        samples[0].push(fire(&mut clean, at)?);
        samples[1].push(fire(&mut used, at)?);
    }
    let first = [samples[0][0], samples[1][0]];
    let [clean, used] = samples.map(median);
    println!(
        "the next firing: {:?} beside {:?} in a clean store; median of {FIRINGS}: {used:?} beside {clean:?} = {:.2}x",
        first[1],
        first[0],
        used.as_secs_f64() / clean.as_secs_f64()
    );
    Ok(())
}
