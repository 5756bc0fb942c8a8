//! What the state of a Top-1 costs beside ranking: the clean cache and write-back of RocksDB, the pause of a
//! memory checkpoint, bytes per winner, and rates over a state that does not fit its budget.
//!
//! ```sh
//! cargo run --release -p bench-suite --example state [-- quick]
//! ```
//!
//! Ratios are of medians of rounds in which the engines alternate.

#![allow(clippy::print_stdout, reason = "a report is what it is for")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use keygroup::GroupCount;
use rank_top1::{OrderBy, RankSpec, Ranker};
use state_codec::checkpoint::CheckpointDir;
use state_codec::{MemoryPool, StateBackend};
use state_mem::MemBackend;
use state_rocks::{RocksBackend, RocksOptions, WritePolicy};
use tempfile::TempDir;

type Outcome<T> = Result<T, Box<dyn Error>>;

const BATCH_ROWS: usize = 4096;
const ROUNDS: usize = 7;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("sort", DataType::Int64, false),
        Field::new("payload", DataType::Utf8, false),
    ]))
}

fn spec() -> Outcome<RankSpec> {
    let spec = RankSpec::builder(schema())
        .partition_by(["key"])
        .order_by([OrderBy::asc("sort")]);
    Ok(spec.build()?)
}

/// Numbers in a mixed order, each below `bound` once before one comes twice (a bound that is odd or not).
fn mixed(number: u64, bound: u64) -> i64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % bound) as i64
}

fn batch(keys: impl Iterator<Item = i64>, sort: i64, payload_bytes: usize) -> Outcome<RecordBatch> {
    let keys: Int64Array = keys.collect::<Vec<_>>().into();
    let rows = keys.len();
    let sorts = Int64Array::from_value(sort, rows);
    let payload = "p".repeat(payload_bytes);
    let payloads = StringArray::from_iter_values((0..rows).map(|_| &payload));
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(sorts), Arc::new(payloads)];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

/// Batches that have each of `keys` keys once.
fn pass(keys: usize, sort: i64, payload_bytes: usize) -> Outcome<Vec<RecordBatch>> {
    let starts = (0..keys).step_by(BATCH_ROWS);
    starts
        .map(|start| {
            let numbers = start..(start + BATCH_ROWS).min(keys);
            let step = 40_503; // odd, so that it passes every key of a power of two
            let keys = numbers.map(|number| (number * step % keys) as i64);
            batch(keys, sort, payload_bytes)
        })
        .collect()
}

fn push_all<B: StateBackend>(ranker: &mut Ranker<B>, batches: &[RecordBatch]) -> Outcome<Duration>
where
    B::Error: 'static,
{
    let start = Instant::now();
    for batch in batches {
        std::hint::black_box(ranker.push(batch)?);
    }
    Ok(start.elapsed())
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn per_row(duration: Duration, rows: usize) -> f64 {
    duration.as_nanos() as f64 / rows as f64
}

fn rocks(options: RocksOptions) -> Outcome<(TempDir, RocksBackend)> {
    let dir = TempDir::with_prefix("weir-")?;
    let backend = RocksBackend::new(dir.path(), GroupCount::new(128)?).with_options(options);
    Ok((dir, backend))
}

fn rejected(keys: usize, payload_bytes: usize) -> Outcome<()> {
    let memory = MemBackend::default();
    let (_dir, cached) = rocks(RocksOptions::default())?;
    let (_dir, uncached) = rocks(RocksOptions {
        cache_bytes: 0,
        ..RocksOptions::default()
    })?;
    let mut memory = Ranker::open(spec()?, &memory, "state")?;
    let mut cached = Ranker::open(spec()?, &cached, "state")?;
    let mut uncached = Ranker::open(spec()?, &uncached, "state")?;
    let (winners, losers) = (pass(keys, 1, payload_bytes)?, pass(keys, 2, payload_bytes)?);
    push_all(&mut memory, &winners)?;
    push_all(&mut cached, &winners)?;
    push_all(&mut uncached, &winners)?;
    push_all(&mut cached, &losers)?; // reads the winners
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        samples[0].push(per_row(push_all(&mut memory, &losers)?, keys));
        samples[1].push(per_row(push_all(&mut cached, &losers)?, keys));
        samples[2].push(per_row(push_all(&mut uncached, &losers)?, keys));
    }
    let [memory, cached, uncached] = samples.map(median);
    println!(
        "rejected, {keys} keys, {payload_bytes}-byte payload: memory {memory:.1} ns/row, RocksDB with \
         a fitting cache {cached:.1} = {:.2}x, without {uncached:.0}",
        cached / memory
    );
    Ok(())
}

fn improving(keys: usize) -> Outcome<()> {
    let (_dir, through) = rocks(RocksOptions::default())?;
    let (_dir, back) = rocks(RocksOptions {
        write_policy: WritePolicy::Back {
            limit_bytes: 64 << 20,
        },
        ..RocksOptions::default()
    })?;
    let mut through = Ranker::open(spec()?, &through, "state")?;
    let mut back = Ranker::open(spec()?, &back, "state")?;
    for sort in [1_000, 999] {
        push_all(&mut through, &pass(keys, sort, 8)?)?;
        push_all(&mut back, &pass(keys, sort, 8)?)?;
    }
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let better = pass(keys, 900 - round as i64, 8)?;
        samples[0].push(per_row(push_all(&mut through, &better)?, keys));
        samples[1].push(per_row(push_all(&mut back, &better)?, keys));
    }
    let [a, b] = samples.map(median);
    let writes = [through.metrics().store.writes, back.metrics().store.writes];
    println!(
        "improving, {keys} keys: write-through {a:.0} ns/row, write-back {b:.0} = {:.1}x faster; values \
         written {} and {}",
        a / b,
        writes[0],
        writes[1]
    );
    Ok(())
}

fn resident_bytes() -> Outcome<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = statm.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok(pages * 4096)
}

fn memory_of(keys: usize) -> Outcome<()> {
    let before = resident_bytes()?;
    let backend = MemBackend::default();
    let mut ranker = Ranker::open(spec()?, &backend, "state")?;
    for start in (0..keys).step_by(BATCH_ROWS) {
        let numbers = start..(start + BATCH_ROWS).min(keys);
        ranker.push(&batch(numbers.map(|number| number as i64), 1, 8)?)?;
    }
    let process = (resident_bytes()? - before) as f64 / keys as f64;
    let charged = ranker.charged_bytes() as f64 / keys as f64;
    let mut pauses = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let view = ranker.freeze()?;
        pauses.push(start.elapsed().as_secs_f64() * 1e3);
        drop(view);
    }
    println!(
        "memory, {keys} winners: {process:.0} bytes each by the process, {charged:.0} as charged; a freeze \
         takes {:.2} ms",
        median(pauses)
    );
    let mut view = ranker.freeze()?;
    let better: Vec<i64> = (0..BATCH_ROWS)
        .map(|i| mixed(i as u64, keys as u64))
        .collect();
    let better = |sort| batch(better.iter().copied(), sort, 8);
    let shared = push_all(&mut ranker, &[better(0)?])?;
    let own = push_all(&mut ranker, &[better(-1)?])?;
    println!(
        "  the first batch of improvements after it {:.2} ms, the next {:.2} ms",
        shared.as_secs_f64() * 1e3,
        own.as_secs_f64() * 1e3
    );
    let dir = TempDir::with_prefix("weir-")?;
    let saved = CheckpointDir::open(dir.path())?;
    let start = Instant::now();
    let manifest = view.write(&saved, 1, backend.groups().all())?;
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    println!(
        "  written as a canonical checkpoint in {:.2} s: {:.0} bytes each",
        start.elapsed().as_secs_f64(),
        bytes as f64 / keys as f64
    );
    Ok(())
}

fn disk_of(keys: usize) -> Outcome<()> {
    let (_dir, backend) = rocks(RocksOptions::default())?;
    let mut ranker = Ranker::open(spec()?, &backend, "state")?;
    for start in (0..keys).step_by(BATCH_ROWS) {
        let numbers = start..(start + BATCH_ROWS).min(keys);
        ranker.push(&batch(numbers.map(|number| number as i64), 1, 8)?)?;
    }
    let dir = TempDir::with_prefix("weir-")?;
    let saved = CheckpointDir::open(dir.path())?;
    let all = backend.groups().all();
    let start = Instant::now();
    let manifest = ranker.checkpoint(&backend, &saved, 1, all)?;
    let first = start.elapsed();
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    ranker.push(&batch(0..1000, 0, 8)?)?;
    let start = Instant::now();
    ranker.checkpoint(&backend, &saved, 2, all)?;
    println!(
        "RocksDB, {keys} winners: {:.0} bytes each on disk; native checkpoint {:.2} s, the next one, of \
         1,000 changes, {:.3} s",
        bytes as f64 / keys as f64,
        first.as_secs_f64(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Rows over many keys with a budget that a small part of them fits.
fn flat(rows: usize, keys: u64) -> Outcome<()> {
    let (_dir, backend) = rocks(RocksOptions::default())?;
    let pool = MemoryPool::new(128 << 20);
    let backend = backend.with_pool(pool.clone());
    let mut ranker = Ranker::open(spec()?, &backend, "state")?;
    let (mut done, mut spent, mut slices) = (0, Duration::ZERO, Vec::new());
    let mut most_bytes = 0;
    while done < rows {
        let numbers = done..done + BATCH_ROWS;
        let keys = numbers.map(|number| mixed(number as u64 ^ 0x5a5a, keys));
        let batch = batch(keys, -(done as i64), 8)?;
        spent += push_all(&mut ranker, &[batch])?;
        done += BATCH_ROWS;
        most_bytes = most_bytes.max(pool.used_bytes());
        if done / (rows / 10) > slices.len() {
            slices.push(per_row(spent, rows / 10));
            spent = Duration::ZERO;
        }
    }
    let shown: Vec<String> = slices.iter().map(|slice| format!("{slice:.0}")).collect();
    let worst = slices.iter().copied().fold(0.0, f64::max);
    println!(
        "RocksDB, {rows} rows over {keys} keys, budget 128 MiB, at most {} MiB used: ns/row by tenths {} ; \
         worst against first {:.2}x",
        most_bytes >> 20,
        shown.join(" "),
        worst / slices[0]
    );
    Ok(())
}

fn main() -> Outcome<()> {
    let quick = std::env::args().any(|argument| argument == "quick");
    let keys = if quick { 100_000 } else { 1_000_000 };
    if std::env::args().any(|argument| argument == "flat") {
        return flat(10 * keys, 5 * keys as u64);
    }
    memory_of(keys)?; // first, while the allocator holds nothing that was freed
    for payload_bytes in [8, 256] {
        rejected(1 << 16, payload_bytes)?;
    }
    improving(1 << 16)?;
    disk_of(keys)?;
    flat(10 * keys, 5 * keys as u64)
}
