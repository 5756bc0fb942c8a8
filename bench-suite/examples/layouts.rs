//! Two ways to keep slices in RocksDB, bare: by slice, without timers, as `state-rocks` does it; and by key with a
//! timer row per key and window, as stream processors usually do. Prints what firing a hopping window costs per
//! key of its result, reading, merging, cleaning up and noting what fires next.

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rocksdb::{BlockBasedOptions, Cache, DB, Options, ReadOptions, WriteBatch, WriteOptions};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Slices of a window: HOP of 10 s every 2 s.
const SLICES: u64 = 5;
/// Windows that fire.
const FIRED: u64 = 30;

fn open(path: &std::path::Path) -> Outcome<DB> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(64 << 20));
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    Ok(DB::open_cf(&options, path, ["default"])?)
}

fn unlogged() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

fn key(parts: &[u64]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_be_bytes()).collect()
}

fn scan(db: &DB, start: &[u8], end: Vec<u8>, mut visit: impl FnMut(&[u8], &[u8])) -> Outcome<()> {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(end);
    let mut entry = db.raw_iterator_opt(options);
    entry.seek(start);
    while let Some((key, value)) = entry.item() {
        visit(key, value);
        entry.next();
    }
    entry.status()?;
    Ok(())
}

fn count(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("a count has 8 bytes"))
}

/// Keys of a slice, in the order of their bytes: all of them, mixed so that they lie apart.
fn keys(count: u64) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..count)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    keys.sort_unstable();
    keys
}

/// By slice and key.
fn by_slice(keys: &[u64]) -> Outcome<(Duration, u64)> {
    let directory = tempfile::tempdir()?;
    let db = open(directory.path())?;
    let (mut spent, mut rows) = (Duration::ZERO, 0);
    for slice in 0..FIRED + SLICES {
        let mut batch = WriteBatch::new();
        for &each in keys {
            batch.put(key(&[slice, each]), 1_u64.to_le_bytes());
        }
        db.write_opt(batch, &unlogged())?;
        let Some(oldest) = (slice + 1).checked_sub(SLICES) else {
            continue;
        };
        let start = Instant::now();
        let mut window: HashMap<u64, u64> = HashMap::with_capacity(keys.len());
        for each in oldest..=slice {
            scan(&db, &key(&[each]), key(&[each + 1]), |key, value| {
                let key = u64::from_be_bytes(key[8..].try_into().expect("a key has 8 bytes"));
                *window.entry(key).or_default() += count(value);
            })?;
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(key(&[oldest]), key(&[oldest + 1]));
        db.write_opt(batch, &unlogged())?;
        rows += window.len() as u64;
        assert!(window.values().all(|&rows| rows == SLICES));
        black_box(window);
        spent += start.elapsed();
    }
    Ok((spent, rows))
}

/// By key and slice, in front of which stands 0, with rows of 1, window and key.
fn by_timer(keys: &[u64]) -> Outcome<(Duration, u64)> {
    let directory = tempfile::tempdir()?;
    let db = open(directory.path())?;
    let (mut spent, mut rows) = (Duration::ZERO, 0);
    for slice in 0..FIRED + SLICES {
        let mut batch = WriteBatch::new();
        for &each in keys {
            batch.put(key(&[0, each, slice]), 1_u64.to_le_bytes());
        }
        if slice + 1 == SLICES {
            for &each in keys {
                batch.put(key(&[1, slice, each]), []);
            }
        }
        db.write_opt(batch, &unlogged())?;
        let Some(oldest) = (slice + 1).checked_sub(SLICES) else {
            continue;
        };
        let start = Instant::now();
        let mut due = Vec::new();
        scan(&db, &key(&[1, slice]), key(&[1, slice + 1]), |key, _| {
            due.push(u64::from_be_bytes(
                key[16..].try_into().expect("a key has 8 bytes"),
            ));
        })?;
        let mut window = Vec::with_capacity(due.len());
        for run in due.chunks(8192 / SLICES as usize) {
            let wanted: Vec<Vec<u8>> = run
                .iter()
                .flat_map(|&each| (oldest..=slice).map(move |slice| key(&[0, each, slice])))
                .collect();
            let cf = db
                .cf_handle("default")
                .ok_or("there is a default column family")?;
            let found = db.batched_multi_get_cf(&cf, &wanted, true);
            let counts = found
                .into_iter()
                .map(|value| Ok(value?.map_or(0, |value| count(&value))))
                .collect::<Result<Vec<u64>, rocksdb::Error>>()?;
            window.extend(
                counts
                    .chunks(SLICES as usize)
                    .map(|of_key| of_key.iter().sum::<u64>()),
            );
        }
        let mut batch = WriteBatch::new();
        for &each in &due {
            batch.delete(key(&[1, slice, each]));
            batch.put(key(&[1, slice + 1, each]), []);
            batch.delete(key(&[0, each, oldest]));
        }
        db.write_opt(batch, &unlogged())?;
        rows += window.len() as u64;
        assert!(window.iter().all(|&rows| rows == SLICES));
        black_box(window);
        spent += start.elapsed();
    }
    Ok((spent, rows))
}

fn main() -> Outcome<()> {
    for many in [1_000, 20_000, 100_000] {
        let keys = keys(many);
        let (slice, slice_rows) = by_slice(&keys)?;
        let (timer, timer_rows) = by_timer(&keys)?;
        assert_eq!(slice_rows, timer_rows);
        let per_row = |spent: Duration| spent.as_nanos() as f64 / slice_rows as f64;
        println!(
            "{many} keys, {FIRED} windows of {SLICES} slices: by slice {:.0} ns per key, by timer {:.0} = {:.1}x",
            per_row(slice),
            per_row(timer),
            per_row(timer) / per_row(slice)
        );
    }
    Ok(())
}
