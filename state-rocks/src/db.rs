//! The database of a store: opening it, reading its values, walking over them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use keygroup::{GroupCount, GroupRange, KeyGroup};
use rocksdb::compaction_filter::Decision;
use rocksdb::{
    Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME, ErrorKind,
    Options, ReadOptions, WriteBatch,
};
use state_codec::{StateCodec, StoredExpiry};

use crate::error::{Operation, RocksError};
use crate::layout::{self, Layout};
use crate::options::RocksOptions;
use crate::write::write_options;

/// What a database needs to know to drop expired values on its own.
#[derive(Clone)]
pub(crate) struct Expiry {
    pub(crate) of_stored: StoredExpiry,
    /// The store's clock, for RocksDB's threads.
    pub(crate) now_ms: Arc<AtomicI64>,
}

/// Opens or makes the database in the directory `path`, which exists.
pub(crate) fn open(
    path: &Path,
    layout: Layout,
    groups: GroupCount,
    options: &RocksOptions,
    block_cache: &Cache,
    expiry: Option<&Expiry>,
) -> Result<DB, RocksError> {
    let engine = engine_options(options, block_cache, expiry);
    let only = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, engine.clone());
    let db = DB::open_cf_descriptors(&engine, path, [only])
        .map_err(|source| open_error(path, source))?;
    check_record(&db, path, layout, groups)?;
    Ok(db)
}

/// Opens the database in the directory `path`, which nothing writes to.
pub(crate) fn open_read_only(
    path: &Path,
    layout: Layout,
    groups: GroupCount,
    options: &RocksOptions,
    block_cache: &Cache,
) -> Result<DB, RocksError> {
    let engine = engine_options(options, block_cache, None);
    let names = [(DEFAULT_COLUMN_FAMILY_NAME, engine.clone())];
    let db = DB::open_cf_with_opts_for_read_only(&engine, path, names, false)
        .map_err(|source| open_error(path, source))?;
    let open = |source| RocksError::engine(Operation::Open, path, source);
    match db.get_pinned(layout::RECORD_KEY).map_err(open)? {
        Some(record) => check_stored_groups(&record, path, layout, groups)?,
        None => {
            let path = path.to_owned();
            return Err(RocksError::NotAStore { path });
        }
    }
    Ok(db)
}

fn engine_options(options: &RocksOptions, block_cache: &Cache, expiry: Option<&Expiry>) -> Options {
    let mut engine = options.to_engine(block_cache);
    if let Some(Expiry { of_stored, now_ms }) = expiry.cloned() {
        engine.set_compaction_filter("weir-expiry", move |_level, key: &[u8], value: &[u8]| {
            let is_record = key == layout::RECORD_KEY;
            if !is_record && of_stored(value) <= now_ms.load(Ordering::Relaxed) {
                Decision::Remove
            } else {
                Decision::Keep
            }
        });
    }
    engine
}

/// Calls `visit` with the key and value of each entry from `start` to before `end`, until it breaks. Leaves
/// the block cache as it is.
pub(crate) fn walk(
    db: &DB,
    path: &Path,
    [start, end]: [impl AsRef<[u8]>; 2],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, RocksError>,
) -> Result<(), RocksError> {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(end.as_ref());
    options.fill_cache(false);
    let mut entry = db.raw_iterator_opt(options);
    entry.seek(start);
    while let Some((key, value)) = entry.item() {
        if visit(key, value)?.is_break() {
            return Ok(());
        }
        entry.next();
    }
    // An iterator that failed ends as one that is through does.
    entry
        .status()
        .map_err(|source| RocksError::engine(Operation::Scan, path, source))
}

/// The slices that a database has entries of, rising: one seek each.
pub(crate) fn slices(db: &DB, path: &Path, groups: GroupCount) -> Result<Vec<i64>, RocksError> {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound([1].as_slice());
    let mut entry = db.raw_iterator_opt(options);
    entry.seek_to_first();
    let mut slices = Vec::new();
    while let Some(key) = entry.key() {
        let (slice, ..) = split_slice_key(key, path, groups)?;
        slices.push(slice);
        entry.seek(layout::behind_slice(slice));
    }
    entry
        .status()
        .map_err(|source| RocksError::engine(Operation::Scan, path, source))?;
    Ok(slices)
}

/// Where in a database the entries of `groups` are.
pub(crate) fn ranges(
    db: &DB,
    path: &Path,
    layout: Layout,
    group_count: GroupCount,
    groups: GroupRange,
) -> Result<Vec<[Vec<u8>; 2]>, RocksError> {
    Ok(match layout {
        Layout::Keyed => vec![layout::bounds(groups).map(|bound| bound.to_vec())],
        Layout::Sliced => slices(db, path, group_count)?
            .into_iter()
            .map(|slice| layout::slice_bounds(slice, groups).map(|bound| bound.to_vec()))
            .collect(),
    })
}

/// The group and key row of a database key.
pub(crate) fn split_key<'a>(
    key: &'a [u8],
    path: &Path,
    groups: GroupCount,
) -> Result<(KeyGroup, &'a [u8]), RocksError> {
    layout::split_key(key, groups).ok_or_else(|| RocksError::Key {
        path: path.to_owned(),
        key: key.to_owned(),
    })
}

/// The slice, group and key row of a database key.
pub(crate) fn split_slice_key<'a>(
    key: &'a [u8],
    path: &Path,
    groups: GroupCount,
) -> Result<(i64, KeyGroup, &'a [u8]), RocksError> {
    layout::split_slice_key(key, groups).ok_or_else(|| RocksError::Key {
        path: path.to_owned(),
        key: key.to_owned(),
    })
}

/// Removes every entry of these ranges and gives their disk back.
pub(crate) fn remove(
    db: &DB,
    path: &Path,
    ranges: &[[impl AsRef<[u8]>; 2]],
) -> Result<(), RocksError> {
    let failed = |source| RocksError::engine(Operation::Write, path, source);
    for [start, end] in ranges {
        // Whole files first: they go without being read.
        db.delete_file_in_range_cf(entries(db), start, end)
            .map_err(failed)?;
        db.delete_range_cf_opt(entries(db), start, end, &write_options())
            .map_err(failed)?;
    }
    if let (Some([start, _]), Some([_, end])) = (ranges.first(), ranges.last()) {
        db.compact_range_cf(entries(db), Some(start), Some(end));
    }
    Ok(())
}

/// The one column family of a database.
pub(crate) fn entries(db: &DB) -> &ColumnFamily {
    db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME)
        .expect("the default column family was opened by name")
}

pub(crate) fn decode<V, C: StateCodec<V>>(
    codec: &C,
    path: &Path,
    key: &[u8],
    bytes: &[u8],
) -> Result<V, RocksError> {
    codec.decode(bytes).map_err(|source| RocksError::Decode {
        path: path.to_owned(),
        key: key.to_owned(),
        source: source.into(),
    })
}

fn open_error(path: &Path, source: rocksdb::Error) -> RocksError {
    // RocksDB has no error of its own for this. What it says tells this process from another.
    let held = ["lock hold by current process", "While lock file"];
    let is_held = held.iter().any(|text| source.as_ref().contains(text));
    if source.kind() == ErrorKind::IOError && is_held {
        return RocksError::OpenAlready {
            path: path.to_owned(),
            source: source.into(),
        };
    }
    RocksError::engine(Operation::Open, path, source)
}

/// Holds the layout record against `groups`, or writes it if the database is new.
fn check_record(
    db: &DB,
    path: &Path,
    layout: Layout,
    groups: GroupCount,
) -> Result<(), RocksError> {
    let open = |source| RocksError::engine(Operation::Open, path, source);
    if let Some(record) = db.get_pinned(layout::RECORD_KEY).map_err(open)? {
        return check_stored_groups(&record, path, layout, groups);
    }
    // The record is not there: an entry before it or behind it is not ours.
    let mut whole = ReadOptions::default();
    whole.set_iterate_upper_bound(layout::END.to_vec());
    let mut first = db.raw_iterator_opt(whole);
    first.seek_to_first();
    if first.valid() {
        return Err(RocksError::NotAStore {
            path: path.to_owned(),
        });
    }
    first.status().map_err(open)?;
    let mut batch = WriteBatch::new();
    batch.put(layout::RECORD_KEY, layout::record(layout, groups));
    db.write_opt(batch, &write_options()).map_err(open)
}

fn check_stored_groups(
    record: &[u8],
    path: &Path,
    layout: Layout,
    groups: GroupCount,
) -> Result<(), RocksError> {
    let stored = layout::read_record(layout, record).map_err(|source| RocksError::Layout {
        path: path.to_owned(),
        source: source.into(),
    })?;
    if stored != groups {
        return Err(RocksError::OtherGroupCount {
            path: path.to_owned(),
            stored,
            given: groups,
        });
    }
    Ok(())
}
