//! What shared windows cost per row, against the least that any such operator must do.
//!
//! ```sh
//! cargo run --release -p bench-suite --example windows [-- FILTER]
//! ```
//!
//! Each figure is the median of rounds in which the operators alternate with the floor: a bare hash probe and an
//! addition per input row, and per output row a key and a count appended to builders. Costs are per input row and
//! output row together. Every answer is checked against counts by an obvious loop.

#![allow(clippy::print_stdout, reason = "a report is what it is for")]

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{
    ArrayRef, AsArray, Int64Array, Int64Builder, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use calendar_tz::Zone;
use foldhash::fast::FixedState;
use state_codec::SliceBackend;
use window_shared::{Aggregate, EventTime, Function, WindowOperator, WindowSpec, Windows};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 7;
/// Rows of a second of event time.
const ROWS_PER_SECOND: usize = 8_192;

#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    windows: fn() -> Windows,
}

const SHAPES: [Shape; 5] = [
    Shape {
        name: "tumble 10 s",
        windows: || Windows::tumble(10_000).expect("a size"),
    },
    Shape {
        name: "hop 10 s / 2 s",
        windows: || Windows::hop(2_000, 10_000).expect("sizes that divide"),
    },
    Shape {
        name: "hop 30 s / 2 s",
        windows: || Windows::hop(2_000, 30_000).expect("sizes that divide"),
    },
    Shape {
        name: "hop 60 s / 1 s",
        windows: || Windows::hop(1_000, 60_000).expect("sizes that divide"),
    },
    Shape {
        name: "cumulate 2 s / 10 s",
        windows: || Windows::cumulate(2_000, 10_000).expect("sizes that divide"),
    },
];

#[derive(Clone, Copy, PartialEq)]
enum List {
    Count,
    Sum,
    Mixed,
}

impl List {
    fn aggregates(self) -> Vec<Aggregate> {
        let value = |name, function| Aggregate::new(name, function, 1);
        match self {
            Self::Count => vec![Aggregate::count_rows("rows")],
            Self::Sum => vec![value("rows", Function::Sum)],
            Self::Mixed => vec![
                Aggregate::count_rows("rows"),
                value("sum", Function::Sum),
                value("min", Function::Min),
                value("max", Function::Max),
                value("avg", Function::Avg),
                value("distinct", Function::Count).distinct(),
            ],
        }
    }
}

fn schema(key: DataType, zoned: bool) -> SchemaRef {
    let zone = zoned.then(|| "UTC".into());
    Arc::new(Schema::new(vec![
        Field::new("key", key, false),
        Field::new("value", DataType::Int64, false),
        Field::new(
            "ts",
            DataType::Timestamp(TimeUnit::Millisecond, zone),
            false,
        ),
    ]))
}

struct Input {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    keys: Vec<Vec<u64>>,
    watermarks: Vec<i64>,
}

/// Summer of 2013, two days before a month's end.
const START_MS: i64 = 1_372_420_800_000;

fn input(
    rows: usize,
    keys: u64,
    key_bytes: usize,
    batch_rows: usize,
    zoned: bool,
) -> Outcome<Input> {
    let key_type = if key_bytes == 8 {
        DataType::Int64
    } else {
        DataType::Utf8
    };
    let schema = schema(key_type, zoned);
    let mut input = Input {
        schema: schema.clone(),
        batches: Vec::new(),
        keys: Vec::new(),
        watermarks: Vec::new(),
    };
    let mut state = 7_u64;
    let mut row = 0;
    while row < rows {
        let numbers: Vec<u64> = (0..batch_rows)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) % keys
            })
            .collect();
        let column: ArrayRef = if key_bytes == 8 {
            Arc::new(
                numbers
                    .iter()
                    .map(|&key| key as i64)
                    .collect::<Int64Array>(),
            )
        } else {
            let texts = numbers.iter().map(|key| format!("{key:0key_bytes$}"));
            Arc::new(StringArray::from_iter_values(texts))
        };
        let values: Int64Array = numbers.iter().map(|&key| (key % 7) as i64).collect();
        let time = |i: usize| START_MS + ((row + i) * 1_000 / ROWS_PER_SECOND) as i64;
        let times: TimestampMillisecondArray = (0..batch_rows).map(|i| Some(time(i))).collect();
        let times = if zoned {
            times.with_timezone("UTC")
        } else {
            times
        };
        input.batches.push(RecordBatch::try_new(
            schema.clone(),
            vec![column, Arc::new(values), Arc::new(times)],
        )?);
        input.watermarks.push(time(batch_rows - 1) - 1);
        input.keys.push(numbers);
        row += batch_rows;
    }
    Ok(input)
}

/// The time of a run, the rows that came out, and the sum over them of the first aggregate.
struct Ran {
    spent: Duration,
    rows_out: u64,
    sum: i64,
    merges: u64,
}

fn run<B: SliceBackend>(
    input: &Input,
    spec: &WindowSpec,
    backend: &B,
    resident_bytes: Option<usize>,
) -> Outcome<Ran> {
    let mut operator = WindowOperator::open(spec.clone(), backend, "windows")?;
    if let Some(bytes) = resident_bytes {
        operator = operator.with_resident_bytes(bytes);
    }
    let (mut rows_out, mut sum) = (0, 0);
    let mut spent = Duration::ZERO;
    for (batch, &watermark) in input.batches.iter().zip(&input.watermarks) {
        let start = Instant::now();
        operator.push(batch)?;
        let fired = operator.advance_watermark(watermark)?;
        spent += start.elapsed();
        for window in &fired {
            rows_out += window.num_rows() as u64;
            sum += arrow::compute::sum(window["rows"].as_primitive::<Int64Type>()).unwrap_or(0);
        }
    }
    let merges = operator.metrics().merges;
    Ok(Ran {
        spent,
        rows_out,
        sum,
        merges,
    })
}

/// A probe and an addition per row in, two values appended per row out.
fn floor(input: &Input, rows_out: u64) -> Duration {
    let mut table: hashbrown::HashMap<u64, i64, FixedState> =
        hashbrown::HashMap::with_hasher(FixedState::with_seed(0));
    let start = Instant::now();
    for keys in &input.keys {
        for &key in keys {
            *table.entry(key).or_insert(0) += 1;
        }
    }
    let entries: Vec<(u64, i64)> = table.iter().map(|(&key, &count)| (key, count)).collect();
    let mut left = rows_out as usize;
    while left > 0 {
        let now = left.min(entries.len());
        let mut keys = Int64Builder::with_capacity(now);
        let mut counts = Int64Builder::with_capacity(now);
        for &(key, count) in &entries[..now] {
            keys.append_value(key as i64);
            counts.append_value(count);
        }
        black_box((keys.finish(), counts.finish()));
        left -= now;
    }
    start.elapsed()
}

/// Rows and sum of counts that the windows have which fire.
fn expected(input: &Input, windows: &Windows, list: List) -> Outcome<(u64, i64)> {
    let mut counts: HashMap<(i64, u64), i64> = HashMap::new();
    let mut row = 0;
    let last = *input.watermarks.last().ok_or("there are batches")?;
    for keys in &input.keys {
        for &key in keys {
            let time = START_MS + (row * 1_000 / ROWS_PER_SECOND) as i64;
            let of_row = if list == List::Sum {
                (key % 7) as i64
            } else {
                1
            };
            for end in windows.window_ends(windows.slice_end(time)?)? {
                if end - 1 <= last {
                    *counts.entry((end, key)).or_insert(0) += of_row;
                }
            }
            row += 1;
        }
    }
    // A row counts in every later step of a cumulating window, so its key has a row there.
    Ok((counts.len() as u64, counts.values().sum()))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

struct Cell {
    shape: Shape,
    list: List,
    keys: u64,
    key_bytes: usize,
    batch_rows: usize,
    zone: Option<&'static str>,
    rows: usize,
}

fn measure(cell: &Cell, filter: &str) -> Outcome<()> {
    let list = match cell.list {
        List::Count => "count",
        List::Sum => "sum",
        List::Mixed => "mixed",
    };
    let name = format!(
        "{}, {list}, {} keys of {} bytes, {} rows a batch, {}",
        cell.shape.name,
        cell.keys,
        cell.key_bytes,
        cell.batch_rows,
        cell.zone.unwrap_or("wall clock")
    );
    if !name.contains(filter) {
        return Ok(());
    }
    let input = input(
        cell.rows,
        cell.keys,
        cell.key_bytes,
        cell.batch_rows,
        cell.zone.is_some(),
    )?;
    let windows = (cell.shape.windows)();
    let time = match cell.zone {
        Some(zone) => EventTime::timestamp_ltz(2, Zone::named(zone)?),
        None => EventTime::timestamp(2),
    };
    let aggregates = cell.list.aggregates();
    let spec = WindowSpec::new(input.schema.clone(), &[0], time, windows, &aggregates)?;
    let (rows, sum) = expected(&input, &windows, cell.list)?;
    let mut samples = [const { Vec::new() }; 4];
    let mut shown = (0, 0);
    for round in 0..ROUNDS {
        let memory = run(&input, &spec, &bench_suite::stores::memory(), None)?;
        if round == 0 {
            assert_eq!((memory.rows_out, memory.sum), (rows, sum), "{name}");
        }
        let (_directory, backend) = bench_suite::stores::rocks()?;
        let rocks = run(&input, &spec, &backend, None)?;
        assert_eq!(
            (rocks.rows_out, rocks.sum),
            (memory.rows_out, memory.sum),
            "{name}"
        );
        let units = (cell.rows as u64 + memory.rows_out) as f64;
        let per_unit = |spent: Duration| spent.as_nanos() as f64 / units;
        samples[0].push(per_unit(memory.spent));
        samples[1].push(per_unit(floor(&input, memory.rows_out)));
        samples[2].push(per_unit(rocks.spent));
        if cell.key_bytes > 8 && round < 3 {
            let (_directory, backend) = bench_suite::stores::rocks()?;
            let through = run(&input, &spec, &backend, Some(0))?;
            assert_eq!(through.sum, memory.sum, "{name}");
            samples[3].push(per_unit(through.spent));
        }
        shown = (memory.rows_out, memory.merges);
    }
    let [memory, floor, rocks, through] = samples.map(|samples| {
        if samples.is_empty() {
            f64::NAN
        } else {
            median(samples)
        }
    });
    println!(
        "{name}: memory {memory:.2} ns = {:.2}x floor {floor:.2}; RocksDB {rocks:.2} = {:.2}x memory; \
         {}; {} rows out, {:.2} merges a unit",
        memory / floor,
        rocks / memory,
        if through.is_nan() {
            "not written".to_owned()
        } else {
            format!(
                "write-through {through:.1} = {:.2}x RocksDB",
                through / rocks
            )
        },
        shown.0,
        shown.1 as f64 / (cell.rows as f64 + shown.0 as f64),
    );
    Ok(())
}

fn main() -> Outcome<()> {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let base = |shape, list, keys| Cell {
        shape,
        list,
        keys,
        key_bytes: 8,
        batch_rows: 8_192,
        zone: None,
        rows: 1 << 20,
    };
    for shape in SHAPES {
        for keys in [64, 4_096] {
            measure(&base(shape, List::Count, keys), &filter)?;
        }
        measure(&base(shape, List::Sum, 4_096), &filter)?;
        measure(&base(shape, List::Mixed, 4_096), &filter)?;
    }
    for keys in [8, 65_536] {
        measure(&base(SHAPES[1], List::Count, keys), &filter)?;
    }
    for zone in ["UTC", "GMT+08:00", "America/New_York"] {
        let cell = Cell {
            zone: Some(zone),
            ..base(SHAPES[1], List::Count, 4_096)
        };
        measure(&cell, &filter)?;
    }
    let cell = Cell {
        batch_rows: 1_024,
        ..base(SHAPES[1], List::Count, 4_096)
    };
    measure(&cell, &filter)?;
    for shape in [SHAPES[0], SHAPES[1]] {
        let cell = Cell {
            key_bytes: 256,
            rows: 1 << 18,
            ..base(shape, List::Count, 8_192)
        };
        measure(&cell, &filter)?;
    }
    Ok(())
}
