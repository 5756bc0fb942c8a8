//! Slices in a database: see [`SlicedState`].

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use keygroup::{GroupCount, GroupRange, KeyGroup};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{Cache, DB, ReadOptions, WriteBatch};
use state_codec::{
    SliceBackend, SliceScan, SlicedState, StateBackend, StoreMetrics, Visit, is_store_name,
};

use crate::backend::RocksBackend;
use crate::db::{self, entries};
use crate::error::{Operation, RocksError};
use crate::layout::{self, Layout};
use crate::native::Checkpointed;
use crate::options::RocksOptions;
use crate::view::{Scratch, VIEW};
use crate::write::{Batch, write, write_options};

/// How many keys one call of RocksDB reads at most.
const KEYS_PER_READ: usize = 8192;

/// How many expired slices wait to be removed. Reads never walk over them, so they cost disk alone; and the
/// ranges of neighbours are removed as one, which keeps the list of removed ranges short that RocksDB
/// searches with each read.
const EXPIRED_AT_ONCE: usize = 64;

/// Bytes by slice, key group and key row, in RocksDB. Opened by a [`RocksBackend`].
///
/// A slice is one range of the database. It is scanned with a bound at its end, so that what was removed behind
/// it is never walked over, and removed as a range, whatever is in it.
pub struct RocksSlices {
    pub(crate) db: DB,
    pub(crate) path: PathBuf,
    groups: GroupCount,
    options: RocksOptions,
    block_cache: Cache,
    /// Slices that have entries, or may have.
    live: BTreeSet<i64>,
    /// Slices that are still to be removed.
    expired: BTreeSet<i64>,
    batch: Batch,
    key: Vec<u8>,
    metrics: StoreMetrics,
    pub(crate) checkpointed: Checkpointed,
}

impl fmt::Debug for RocksSlices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksSlices")
            .field("path", &self.path)
            .field("live", &self.live)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

impl RocksSlices {
    /// Writes what was put, and removes what has expired.
    pub(crate) fn write_all(&mut self) -> Result<(), RocksError> {
        self.flush()?;
        self.remove_expired()
    }

    fn remove_expired(&mut self) -> Result<(), RocksError> {
        let mut removed = WriteBatch::new();
        let mut expired = self.expired.iter().copied().peekable();
        while let Some(first) = expired.next() {
            let mut last = first;
            // Up to the next live slice there is nothing else.
            while let Some(&next) = expired.peek()
                && self.live.range(last..next).next().is_none()
            {
                last = next;
                expired.next();
            }
            let [start, _] = layout::slice_bounds(first, self.groups.all());
            removed.delete_range_cf(
                entries(&self.db),
                start.to_vec(),
                layout::behind_slice(last),
            );
        }
        self.db
            .write_opt(removed, &write_options())
            .map_err(|source| RocksError::engine(Operation::Write, &self.path, source))?;
        self.expired.clear();
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), RocksError> {
        let batch = std::mem::take(&mut self.batch);
        write(&self.db, &self.path, batch, &mut self.metrics)
    }
}

impl Drop for RocksSlices {
    /// What cannot be removed now comes again when the store is opened.
    fn drop(&mut self) {
        let _ = self.write_all();
    }
}

impl SlicedState for RocksSlices {
    type Error = RocksError;
    type View = RocksSlicesView;

    fn put(
        &mut self,
        slice: i64,
        group: KeyGroup,
        key_row: &[u8],
        value: &[u8],
    ) -> Result<(), RocksError> {
        if self.expired.contains(&slice) {
            self.remove_expired()?;
        }
        self.live.insert(slice);
        self.key.clear();
        layout::write_slice_key(slice, group, key_row, &mut self.key);
        let bytes = self.key.len() + value.len();
        if !self.batch.has_room(bytes, self.options.write_batch_bytes) {
            self.write_batch()?;
        }
        self.batch.put(&self.key, value);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RocksError> {
        self.write_batch()
    }

    fn read(
        &mut self,
        slice: i64,
        keys: &[(KeyGroup, &[u8])],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), RocksError> {
        if !self.live.contains(&slice) {
            // What is left of one that has expired is still there.
            return Ok(());
        }
        let options = ReadOptions::default();
        let mut first = 0;
        for run in keys.chunks(KEYS_PER_READ) {
            let mut arena = Vec::new();
            let mut ends = Vec::with_capacity(run.len());
            for &(group, row) in run {
                layout::write_slice_key(slice, group, row, &mut arena);
                ends.push(arena.len());
            }
            let mut start = 0;
            let db_keys: Vec<&[u8]> = ends
                .iter()
                .map(|&end| &arena[std::mem::replace(&mut start, end)..end])
                .collect();
            let values =
                self.db
                    .batched_multi_get_cf_opt(&entries(&self.db), db_keys, true, &options);
            self.metrics.reads += run.len() as u64;
            for (i, value) in values.into_iter().enumerate() {
                let value = value
                    .map_err(|source| RocksError::engine(Operation::Read, &self.path, source))?;
                if let Some(value) = value {
                    self.metrics.hydrated += 1;
                    self.metrics.read_bytes += value.len() as u64;
                    found(first + i, &value);
                }
            }
            first += run.len();
        }
        Ok(())
    }

    fn scan(&mut self, slice: i64, groups: GroupRange, visit: Visit<'_>) -> Result<(), RocksError> {
        if !self.live.contains(&slice) {
            return Ok(());
        }
        let metrics = &mut self.metrics;
        scan(
            &self.db,
            &self.path,
            self.groups,
            slice,
            groups,
            &mut |group, row, value| {
                metrics.hydrated += 1;
                metrics.read_bytes += (row.len() + value.len()) as u64;
                visit(group, row, value)
            },
        )
    }

    fn slices(&mut self) -> Result<Vec<i64>, RocksError> {
        Ok(self.live.iter().copied().collect())
    }

    fn expire(&mut self, slice: i64) -> Result<(), RocksError> {
        if self.live.contains(&slice) {
            // What was put and not flushed would come behind its removal.
            self.flush()?;
            self.live.remove(&slice);
            self.expired.insert(slice);
            self.metrics.expired += 1;
        }
        if self.expired.len() >= EXPIRED_AT_ONCE {
            self.remove_expired()?;
        }
        Ok(())
    }

    fn freeze(&mut self) -> Result<RocksSlicesView, RocksError> {
        static VIEWS: AtomicU64 = AtomicU64::new(0);
        self.write_all()?;
        let number = VIEWS.fetch_add(1, Ordering::Relaxed);
        let dir = Scratch::new(&self.path, &format!("{VIEW}-slices{number}"))?;
        let linked = Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(dir.path()));
        linked.map_err(|source| RocksError::engine(Operation::Freeze, &self.path, source))?;
        let db = db::open_read_only(
            dir.path(),
            Layout::Sliced,
            self.groups,
            &self.options,
            &self.block_cache,
        )?;
        Ok(RocksSlicesView {
            db,
            dir,
            groups: self.groups,
        })
    }

    fn metrics(&self) -> StoreMetrics {
        self.metrics
    }
}

fn scan(
    db: &DB,
    path: &std::path::Path,
    group_count: GroupCount,
    slice: i64,
    groups: GroupRange,
    visit: Visit<'_>,
) -> Result<(), RocksError> {
    let Some(groups) = groups.intersect(group_count.all()) else {
        return Ok(());
    };
    db::walk(
        db,
        path,
        layout::slice_bounds(slice, groups),
        |key, value| {
            let (_, group, row) = db::split_slice_key(key, path, group_count)?;
            Ok(visit(group, row, value))
        },
    )
}

/// The slices of a [`RocksSlices`] at one moment: its files of then, linked into a directory beside it, which
/// goes when the view is dropped.
pub struct RocksSlicesView {
    // In the order in which they are to be dropped.
    db: DB,
    dir: Scratch,
    groups: GroupCount,
}

impl fmt::Debug for RocksSlicesView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksSlicesView")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl SliceScan for RocksSlicesView {
    type Error = RocksError;

    fn scan(&mut self, slice: i64, groups: GroupRange, visit: Visit<'_>) -> Result<(), RocksError> {
        scan(&self.db, self.dir.path(), self.groups, slice, groups, visit)
    }
}

impl SliceBackend for RocksBackend {
    type Slices = RocksSlices;

    /// Opens or makes the database in `DIR/name`.
    fn open_slices(&self, name: &str) -> Result<Option<RocksSlices>, RocksError> {
        if !is_store_name(name) {
            return Err(RocksError::InvalidName { name: name.into() });
        }
        let path = self.dir.join(name);
        fs::create_dir_all(&path).map_err(RocksError::directory(&path))?;
        let groups = self.groups();
        let db = db::open(
            &path,
            Layout::Sliced,
            groups,
            &self.options,
            &self.block_cache,
            None,
        )?;
        Scratch::remove_left_over(&path)?;
        let live = db::slices(&db, &path, groups)?.into_iter().collect();
        Ok(Some(RocksSlices {
            db,
            path,
            groups,
            options: self.options.clone(),
            block_cache: self.block_cache.clone(),
            live,
            expired: BTreeSet::new(),
            batch: Batch::default(),
            key: Vec::new(),
            metrics: StoreMetrics::default(),
            checkpointed: Checkpointed::default(),
        }))
    }
}
