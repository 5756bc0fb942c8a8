//! A store: a database, the values that the running bundle works on, and those that are kept between
//! bundles.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use keygroup::GroupCount;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{Cache, DB, ReadOptions};
use state_codec::{
    KeyBatch, KeyIndex, KeyedState, Reservation, Slot, Snapshot, StateCodec, StateValue,
    StoreMetrics,
};

use crate::db::{self, Expiry, entries};
use crate::error::{Operation, RocksError};
use crate::layout::{self, Layout};
use crate::options::{RocksOptions, WritePolicy};
use crate::view::{RocksView, Scratch, VIEW};
use crate::write::{Batch, DbKeys, write};

/// How many keys one call of RocksDB reads at most. It pins what it finds until its values are
/// decoded, so this bounds the second copy; a batch of the usual 8,192 rows is one call.
const KEYS_PER_READ: usize = 8192;

/// The keyed values of one operator, in RocksDB. Opened by a [`RocksBackend`](crate::RocksBackend).
///
/// During a bundle the values of the keys that it resolved are in memory, one copy of each. The end
/// of the bundle writes those that changed. It keeps those that it had read from the database, up to
/// [`RocksOptions::cache_bytes`]: the *clean cache*. Resolving such a key again is one probe, as in
/// memory. The oldest value goes first; nothing is written for that. Keys that were new are forgotten,
/// and are kept once they have been read again. With
/// [`WritePolicy::Back`] changed values wait in memory, too.
///
/// The working set is charged to the memory pool while it grows: its keys and loaded values when they
/// are resolved, what the end of the bundle needs to sort its keys, and what the operator claims. What is kept between
/// bundles has a reservation of its own, `"NAME cache"`. If the pool refuses that, the cache is emptied
/// and switched off, and values are read whenever they are needed; changed values that wait are written.
/// Empty buffers are kept up to [`RocksOptions::kept_buffer_bytes`], and given back where the pool refuses them. RocksDB's
/// own memory is bounded by the options and not charged, nor are the one
/// [write batch](RocksOptions::write_batch_bytes) and the one encoded value that exist at a time.
///
/// Expired values are not given out; RocksDB drops them when it compacts the files that they are in.
pub struct RocksState<V, C: StateCodec<V>> {
    pub(crate) db: DB,
    pub(crate) path: PathBuf,
    groups: GroupCount,
    codec: C,
    options: RocksOptions,
    block_cache: Cache,

    /// Whether values expire.
    expires: bool,
    now_ms: i64,
    /// The same, for RocksDB's threads.
    shared_now_ms: Arc<AtomicI64>,

    index: KeyIndex,
    values: Vec<Option<V>>,
    /// By slot, as `values`.
    marks: Vec<Mark>,
    /// The slots that the bundle brought.
    fresh: Vec<Slot>,
    /// Every slot that the bundle changed, once.
    changed: Vec<Slot>,
    /// Every slot whose value is not written.
    dirty: Vec<Slot>,
    /// Slots from before that the bundle has resolved, once; only where values expire.
    seen: Vec<Slot>,
    /// Whether some slot that the bundle brought was read.
    loaded_some: bool,

    cache: CleanCache,
    /// Heap bytes of all values that are kept from earlier bundles and not changed in this one.
    kept_heap_bytes: usize,
    /// Those of them that are not written.
    dirty_heap_bytes: usize,

    /// The slots that the last batch brought; a buffer of `resolve`.
    new: Vec<Slot>,
    db_keys: DbKeys,
    /// What `db_keys` must have room for at the end of the bundle, if all of it became dirty.
    bundle_keys: usize,
    bundle_key_bytes: usize,
    value_bytes: Vec<u8>,

    reservation: Reservation,
    metrics: StoreMetrics,
    pub(crate) checkpointed: crate::native::Checkpointed,
}

/// What is known of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The database has a value.
    stored: bool,
    /// The value was read from the database, and not put by the operator.
    loaded: bool,
    /// The value is not written.
    dirty: bool,
    /// The bundle changed the value.
    changed: bool,
    /// It is from an earlier bundle.
    kept: bool,
    /// It is in the clean cache.
    cached: bool,
    /// It is in `seen`.
    seen: bool,
}

/// Which values are kept because they were read, oldest first.
struct CleanCache {
    limit_bytes: usize,
    slots: VecDeque<Slot>,
    /// Bytes of their keys.
    key_bytes: usize,
    /// For all that is kept between bundles.
    reservation: Reservation,
}

impl CleanCache {
    fn is_on(&self) -> bool {
        self.limit_bytes > 0
    }

    fn allocated_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

/// What a store is opened with.
pub(crate) struct Setup {
    pub(crate) path: PathBuf,
    pub(crate) groups: GroupCount,
    pub(crate) options: RocksOptions,
    pub(crate) block_cache: Cache,
    pub(crate) reservation: Reservation,
}

impl<V, C: StateCodec<V>> RocksState<V, C> {
    /// Bytes of a slot: its value, what is known of it, its key's places, its place in the cache.
    const SLOT_BYTES: usize =
        size_of::<Option<V>>() + size_of::<Mark>() + size_of::<Slot>() + INDEX_SLOT_BYTES;

    pub(crate) fn open(setup: Setup, codec: C) -> Result<Self, RocksError> {
        let Setup {
            path,
            groups,
            options,
            block_cache,
            reservation,
        } = setup;
        fs::create_dir_all(&path).map_err(|source| RocksError::Directory {
            path: path.clone(),
            source,
        })?;
        // RocksDB tells stores that are open in this process by the text of their paths, so that one
        // directory by two names would be two of them.
        let path =
            fs::canonicalize(&path).map_err(|source| RocksError::Directory { path, source })?;
        let shared_now_ms = Arc::new(AtomicI64::new(i64::MIN));
        let expiry = codec.stored_expiry().map(|of_stored| Expiry {
            of_stored,
            now_ms: Arc::clone(&shared_now_ms),
        });
        let db = db::open(
            &path,
            Layout::Keyed,
            groups,
            &options,
            &block_cache,
            expiry.as_ref(),
        )?;
        Scratch::remove_left_over(&path)?;
        let cache_name = format!("{} cache", reservation.name());
        Ok(Self {
            db,
            path,
            groups,
            codec,
            block_cache,
            expires: expiry.is_some(),
            now_ms: i64::MIN,
            shared_now_ms,
            index: KeyIndex::default(),
            values: Vec::new(),
            marks: Vec::new(),
            fresh: Vec::new(),
            changed: Vec::new(),
            dirty: Vec::new(),
            seen: Vec::new(),
            loaded_some: false,
            cache: CleanCache {
                limit_bytes: options.cache_bytes,
                slots: VecDeque::new(),
                key_bytes: 0,
                reservation: reservation.pool().reserve(&cache_name),
            },
            options,
            kept_heap_bytes: 0,
            dirty_heap_bytes: 0,
            new: Vec::new(),
            db_keys: DbKeys::default(),
            bundle_keys: 0,
            bundle_key_bytes: 0,
            value_bytes: Vec::new(),
            reservation,
            metrics: StoreMetrics::default(),
            checkpointed: crate::native::Checkpointed::default(),
        })
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the values that [`WritePolicy::Back`] has let wait, between bundles.
    ///
    /// # Errors
    ///
    /// [`RocksError::Engine`] where RocksDB cannot write. What was not written still waits.
    ///
    /// # Panics
    ///
    /// If the bundle has changed a value.
    pub fn write_back(&mut self) -> Result<(), RocksError> {
        assert!(
            self.changed.is_empty(),
            "values are written back between bundles"
        );
        self.write_dirty()?;
        self.close_bundle();
        Ok(())
    }

    /// Has RocksDB merge all files, which drops what was deleted and what has expired. RocksDB does that on
    /// its own as files are written; this is for a store that is not written to any more.
    ///
    /// # Errors
    ///
    /// [`RocksError::Engine`] where RocksDB cannot write.
    pub fn compact(&mut self) -> Result<(), RocksError> {
        self.write_back()?;
        self.db
            .flush()
            .map_err(|source| RocksError::engine(Operation::Write, &self.path, source))?;
        self.db
            .compact_range_cf(entries(&self.db), None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    /// Writes what waits and forgets what is kept: nothing but the database has the values then.
    pub(crate) fn write_all(&mut self) -> Result<(), RocksError> {
        self.write_back()?;
        self.forget_all();
        self.settle_buffers();
        Ok(())
    }

    /// What is allocated by slot, but for the values' own heap bytes.
    fn slot_bytes(&self) -> usize {
        self.index.allocated_bytes()
            + self.values.capacity() * size_of::<Option<V>>()
            + self.marks.capacity() * size_of::<Mark>()
            + self.cache.allocated_bytes()
    }

    /// What is allocated for the lists of a bundle.
    fn list_bytes(&self) -> usize {
        let lists = [
            &self.fresh,
            &self.changed,
            &self.dirty,
            &self.seen,
            &self.new,
        ];
        let slots: usize = lists.iter().map(|list| list.capacity()).sum();
        slots * size_of::<Slot>() + self.db_keys.allocated_bytes() + self.value_bytes.capacity()
    }

    /// What is allocated for all but the values' own heap bytes.
    fn buffer_bytes(&self) -> usize {
        self.slot_bytes() + self.list_bytes()
    }

    /// Reads the values of the keys that the last batch brought, and charges the pool for both.
    fn load_new(&mut self, buffer_bytes_before: usize) -> Result<(), RocksError> {
        let bound = self.index.slot_bound();
        if bound > self.values.len() {
            self.values.resize_with(bound, || None);
            self.marks.resize(bound, Mark::default());
        }
        self.db_keys
            .set(&self.index, self.new.iter().copied(), self.groups);
        // What the end of the bundle needs to write them is charged here, where it can be refused.
        let bundle_keys = self.bundle_keys + self.new.len();
        let bundle_key_bytes = self.bundle_key_bytes + self.db_keys.arena.len();
        let dirty_keys = bundle_keys + self.dirty.len();
        self.db_keys.reserve(dirty_keys, bundle_key_bytes);
        self.dirty.reserve(bundle_keys);
        self.changed
            .reserve(bundle_keys.saturating_sub(self.changed.len()));
        self.fresh.reserve(self.new.len());
        let growth = self.buffer_bytes().saturating_sub(buffer_bytes_before);
        self.reservation.try_grow(growth)?;

        let options = ReadOptions::default();
        let mut runs = self.db_keys.sorted.chunks(KEYS_PER_READ);
        runs.try_for_each(|run| {
            let keys = run.iter().map(|key| key.bytes(&self.db_keys.arena));
            let found = self
                .db
                .batched_multi_get_cf_opt(&entries(&self.db), keys, true, &options);
            self.metrics.reads += run.len() as u64;
            let mut heap_bytes = 0;
            for (key, found) in run.iter().zip(found) {
                let found = found
                    .map_err(|source| RocksError::engine(Operation::Read, &self.path, source))?;
                let Some(bytes) = found else { continue };
                self.metrics.hydrated += 1;
                self.metrics.read_bytes += bytes.len() as u64;
                let mark = &mut self.marks[key.slot.index()];
                mark.stored = true;
                let key_bytes = key.bytes(&self.db_keys.arena);
                let value = db::decode(&self.codec, &self.path, key_bytes, &bytes)?;
                if self.expires && self.codec.expires_at_ms(&value) <= self.now_ms {
                    self.metrics.expired += 1;
                    continue;
                }
                mark.loaded = true;
                self.loaded_some = true;
                heap_bytes += self.codec.heap_bytes(&value);
                self.values[key.slot.index()] = Some(value);
            }
            Ok::<(), RocksError>(self.reservation.try_grow(heap_bytes)?)
        })?;
        self.fresh.extend_from_slice(&self.new);
        (self.bundle_keys, self.bundle_key_bytes) = (bundle_keys, bundle_key_bytes);
        Ok(())
    }

    /// Takes the values that are gone by now from kept slots that the bundle resolves for the first time.
    fn expire_kept(&mut self, slots: &[Slot]) {
        for &slot in slots {
            let mark = &mut self.marks[slot.index()];
            if !mark.kept || mark.seen {
                continue;
            }
            mark.seen = true;
            self.seen.push(slot);
            let place = &mut self.values[slot.index()];
            let expired = |value: &V| self.codec.expires_at_ms(value) <= self.now_ms;
            if !mark.changed && place.as_ref().is_some_and(expired) {
                let heap_bytes = place
                    .take()
                    .map_or(0, |value| self.codec.heap_bytes(&value));
                self.kept_heap_bytes -= heap_bytes;
                if mark.dirty {
                    self.dirty_heap_bytes -= heap_bytes;
                }
                self.metrics.expired += 1;
            }
        }
    }

    /// Forgets the keys that the last batch brought, and gives back what they made the buffers grow
    /// by.
    fn refuse_new(&mut self, buffer_bytes_before: usize, charged_before: usize) {
        for slot in self.new.drain(..) {
            self.index.remove(slot);
            self.values[slot.index()] = None;
            self.marks[slot.index()] = Mark::default();
        }
        self.shrink_slots();
        self.new = Vec::new();
        self.fresh.shrink_to_fit();
        // Room for the keys of the batches before stays, and stays charged: writing them needs it.
        self.changed.shrink_to(self.bundle_keys);
        self.dirty.shrink_to(self.dirty.len() + self.bundle_keys);
        self.db_keys.clear();
        self.db_keys
            .shrink_to(self.bundle_keys + self.dirty.len(), self.bundle_key_bytes);
        let freed = buffer_bytes_before.saturating_sub(self.buffer_bytes());
        let restored = self
            .reservation
            .try_resize(charged_before.saturating_sub(freed));
        restored.expect("a pool never refuses to take bytes back");
    }

    #[inline]
    fn touch(&mut self, slot: Slot) {
        let mark = &mut self.marks[slot.index()];
        if !mark.changed {
            mark.changed = true;
            self.changed.push(slot);
            if mark.kept {
                self.leave_account(slot);
            }
            let mark = &mut self.marks[slot.index()];
            if !mark.dirty {
                mark.dirty = true;
                self.dirty.push(slot);
            }
        }
    }

    /// A kept value is about to change or to go.
    fn leave_account(&mut self, slot: Slot) {
        let value = self.values[slot.index()].as_ref();
        let heap_bytes = value.map_or(0, |value| self.codec.heap_bytes(value));
        self.kept_heap_bytes -= heap_bytes;
        if self.marks[slot.index()].dirty {
            self.dirty_heap_bytes -= heap_bytes;
        }
    }

    /// A value has become one that is kept.
    fn enter_account(&mut self, slot: Slot) {
        let value = self.values[slot.index()].as_ref();
        let heap_bytes = value.map_or(0, |value| self.codec.heap_bytes(value));
        self.kept_heap_bytes += heap_bytes;
        if self.marks[slot.index()].dirty {
            self.dirty_heap_bytes += heap_bytes;
        }
    }

    /// Bytes of the values that are not written, this bundle's included.
    fn dirty_bytes(&self) -> usize {
        let changed = self.changed.iter().map(|slot| {
            let value = self.values[slot.index()].as_ref();
            value.map_or(0, |value| self.codec.heap_bytes(value))
        });
        let keys = self.dirty.iter().map(|&slot| self.index.key_bytes(slot));
        self.dirty.len() * Self::SLOT_BYTES
            + self.dirty_heap_bytes
            + changed.sum::<usize>()
            + keys.sum::<usize>()
    }

    /// Writes what is dirty in the order of the database. What was written is clean, whether or not all of
    /// it was; the slots stay listed until it is.
    fn write_dirty(&mut self) -> Result<(), RocksError> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        let unwritten = self.dirty.iter().copied();
        let unwritten = unwritten.filter(|slot| self.marks[slot.index()].dirty);
        self.db_keys.set(&self.index, unwritten, self.groups);
        self.write_listed()?;
        let mut dirty = std::mem::take(&mut self.dirty);
        for slot in dirty.drain(..) {
            self.keep_written(slot);
        }
        self.dirty = dirty;
        Ok(())
    }

    fn write_listed(&mut self) -> Result<(), RocksError> {
        let mut batch = Batch::default();
        for i in 0..self.db_keys.sorted.len() {
            let slot = self.db_keys.sorted[i].slot;
            let value = self.values[slot.index()].as_ref();
            let is_value = value.is_some();
            self.value_bytes.clear();
            if let Some(value) = value {
                self.codec.encode_into(value, &mut self.value_bytes);
            }
            let key_bytes = self.db_keys.sorted[i].bytes(&self.db_keys.arena);
            let entry_bytes = key_bytes.len() + self.value_bytes.len();
            if !batch.has_room(entry_bytes, self.options.write_batch_bytes) {
                let full = std::mem::replace(&mut batch, Batch::starting_at(i));
                self.write_batch(full, i)?;
            }
            let key_bytes = self.db_keys.sorted[i].bytes(&self.db_keys.arena);
            if is_value {
                batch.put(key_bytes, &self.value_bytes);
            } else if self.marks[slot.index()].stored {
                batch.delete(key_bytes);
            }
        }
        self.write_batch(batch, self.db_keys.sorted.len())
    }

    /// Writes a batch, and notes that the listed keys from its first to `end` are clean.
    fn write_batch(&mut self, batch: Batch, end: usize) -> Result<(), RocksError> {
        let first = batch.first;
        write(&self.db, &self.path, batch, &mut self.metrics)?;
        for key in &self.db_keys.sorted[first..end] {
            let value = self.values[key.slot.index()].as_ref();
            let mark = &mut self.marks[key.slot.index()];
            mark.stored = value.is_some();
            mark.dirty = false;
            if mark.kept && !mark.changed {
                self.dirty_heap_bytes -= value.map_or(0, |value| self.codec.heap_bytes(value));
            }
        }
        Ok(())
    }

    /// What becomes of a slot from an earlier bundle whose value had to wait and is written now.
    fn keep_written(&mut self, slot: Slot) {
        let mark = self.marks[slot.index()];
        if !mark.kept || mark.cached {
            return;
        }
        if mark.loaded && self.cache.is_on() {
            self.admit(slot);
        } else {
            if !mark.changed {
                self.leave_account(slot);
            }
            self.forget(slot);
        }
    }

    /// Takes a slot into the clean cache.
    fn admit(&mut self, slot: Slot) {
        self.marks[slot.index()].cached = true;
        self.cache.slots.push_back(slot);
        self.cache.key_bytes += self.index.key_bytes(slot);
    }

    fn forget(&mut self, slot: Slot) {
        self.index.remove(slot);
        self.values[slot.index()] = None;
        self.marks[slot.index()] = Mark::default();
    }

    /// Forgets the bundle's slots but for those that are kept, and settles the account. `false` if values
    /// wait to be written for which the memory pool has no room.
    fn close_bundle(&mut self) -> bool {
        for slot in self.seen.drain(..) {
            self.marks[slot.index()].seen = false;
        }
        let keep_some = self.loaded_some && self.cache.is_on();
        if self.cache.slots.is_empty() && self.dirty.is_empty() && !keep_some {
            self.forget_all();
            self.settle_buffers();
            return true;
        }
        let mut fresh = std::mem::take(&mut self.fresh);
        for slot in fresh.drain(..) {
            let mark = self.marks[slot.index()];
            let cached = mark.loaded && self.cache.is_on();
            if cached {
                self.admit(slot);
            }
            if cached || mark.dirty {
                self.marks[slot.index()].kept = true;
                if !mark.changed {
                    self.enter_account(slot);
                }
            } else {
                self.forget(slot);
            }
        }
        self.fresh = fresh;
        let mut changed = std::mem::take(&mut self.changed);
        for slot in changed.drain(..) {
            let mark = &mut self.marks[slot.index()];
            mark.changed = false;
            if mark.kept {
                self.enter_account(slot);
            }
        }
        self.changed = changed;
        self.evict();
        self.loaded_some = false;
        self.new.clear();
        self.db_keys.clear();
        (self.bundle_keys, self.bundle_key_bytes) = (0, 0);
        self.value_bytes.clear();
        self.settle_kept()
    }

    /// Gives up the oldest values until the rest is within the limit. Values that wait to be written stay,
    /// and count towards the limit of those.
    fn evict(&mut self) {
        for _ in 0..self.cache.slots.len() {
            let bytes = self.cache.slots.len() * Self::SLOT_BYTES
                + self.cache.key_bytes
                + (self.kept_heap_bytes - self.dirty_heap_bytes);
            if bytes <= self.cache.limit_bytes {
                return;
            }
            let Some(slot) = self.cache.slots.pop_front() else {
                return;
            };
            if self.marks[slot.index()].dirty {
                self.cache.slots.push_back(slot);
                continue;
            }
            self.cache.key_bytes -= self.index.key_bytes(slot);
            self.leave_account(slot);
            self.forget(slot);
            self.metrics.cache_evictions += 1;
        }
    }

    /// Settles for what is kept between bundles: without a cache if the pool has no room for it. `false` if
    /// it has none for what waits to be written either.
    fn settle_kept(&mut self) -> bool {
        if self.list_bytes() > self.options.kept_buffer_bytes {
            self.drop_lists();
        }
        let list_bytes = self.list_bytes().min(self.reservation.bytes());
        let lists = self.reservation.try_resize(list_bytes);
        lists.expect("a pool never refuses to take bytes back");
        if self.charge_kept() {
            return true;
        }
        self.metrics.cache_refusals += 1;
        self.cache.limit_bytes = 0;
        self.evict();
        if self.dirty.is_empty() {
            self.forget_all();
            self.settle_buffers();
            return true;
        }
        self.charge_kept()
    }

    fn charge_kept(&mut self) -> bool {
        // A large bundle may leave tables much larger than what is in them.
        let limit_bytes = self
            .cache
            .limit_bytes
            .saturating_add(self.back_limit_bytes())
            .saturating_add(self.options.kept_buffer_bytes);
        if self.slot_bytes() > limit_bytes {
            self.shrink_slots();
        }
        let kept_bytes = self.slot_bytes() + self.kept_heap_bytes;
        self.cache.reservation.try_resize(kept_bytes).is_ok()
    }

    /// Gives back what is allocated by slot beyond the slots that stand for keys.
    fn shrink_slots(&mut self) {
        self.index.shrink_to_fit();
        let bound = self.index.slot_bound();
        self.values.truncate(bound);
        self.values.shrink_to_fit();
        self.marks.truncate(bound);
        self.marks.shrink_to_fit();
    }

    fn back_limit_bytes(&self) -> usize {
        match self.options.write_policy {
            WritePolicy::Through => 0,
            WritePolicy::Back { limit_bytes } => limit_bytes,
        }
    }

    /// Forgets every slot, none of which is dirty, and keeps what is allocated.
    fn forget_all(&mut self) {
        self.index.clear();
        self.values.clear();
        self.marks.clear();
        self.fresh.clear();
        self.changed.clear();
        self.dirty.clear();
        self.seen.clear();
        self.loaded_some = false;
        self.cache.slots.clear();
        self.cache.key_bytes = 0;
        (self.kept_heap_bytes, self.dirty_heap_bytes) = (0, 0);
        self.new.clear();
        self.db_keys.clear();
        (self.bundle_keys, self.bundle_key_bytes) = (0, 0);
        self.value_bytes.clear();
    }

    /// Settles for buffers with nothing in them, or gives them back.
    fn settle_buffers(&mut self) {
        let emptied = self.cache.reservation.try_resize(0);
        emptied.expect("a pool never refuses to take bytes back");
        let bytes = self.buffer_bytes();
        if bytes > self.options.kept_buffer_bytes || self.reservation.try_resize(bytes).is_err() {
            self.index = KeyIndex::default();
            self.values = Vec::new();
            self.marks = Vec::new();
            self.cache.slots = VecDeque::new();
            self.drop_lists();
            let settled = self.reservation.try_resize(0);
            settled.expect("nothing is allocated, and nothing is asked for");
        }
    }

    /// Gives back the lists, but for that of what is not written.
    fn drop_lists(&mut self) {
        self.fresh = Vec::new();
        self.changed = Vec::new();
        self.dirty.shrink_to_fit();
        self.seen = Vec::new();
        self.new = Vec::new();
        self.db_keys = DbKeys::default();
        self.value_bytes = Vec::new();
    }
}

/// What a key index takes by slot: 16 bytes of its columns, and an entry of a table that is three quarters
/// full.
const INDEX_SLOT_BYTES: usize = 16 + 23;

/// Writes what waits. Nobody learns whether that succeeded: see [`RocksState::write_back`].
impl<V, C: StateCodec<V>> Drop for RocksState<V, C> {
    fn drop(&mut self) {
        // A bundle that was not ended has not happened.
        if self.changed.is_empty() {
            let _ = self.write_dirty();
        }
    }
}

impl<V, C: StateCodec<V>> fmt::Debug for RocksState<V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksState")
            .field("path", &self.path)
            .field("groups", &self.groups)
            .field("keys", &self.index.len())
            .field("cached", &self.cache.slots.len())
            .field("dirty", &self.dirty.len())
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

impl<V: StateValue, C: StateCodec<V>> KeyedState<V> for RocksState<V, C> {
    type Error = RocksError;

    fn advance_clock(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.shared_now_ms.store(self.now_ms, Ordering::Relaxed);
    }

    /// Costs one probe per row, and one sorted read of the keys that are not in memory.
    fn resolve(&mut self, keys: &KeyBatch, slots: &mut Vec<Slot>) -> Result<(), RocksError> {
        let buffer_bytes_before = self.buffer_bytes();
        let charged_before = self.reservation.bytes();
        self.index.resolve(keys, slots, &mut self.new);
        if !self.new.is_empty() {
            self.load_new(buffer_bytes_before).inspect_err(|_| {
                slots.clear();
                self.refuse_new(buffer_bytes_before, charged_before);
            })?;
        }
        self.metrics.probes += keys.len() as u64;
        self.metrics.cache_hits += (keys.len() - self.new.len()) as u64;
        self.metrics.cache_misses += self.new.len() as u64;
        if self.expires {
            self.expire_kept(slots);
        }
        Ok(())
    }

    #[inline]
    fn get(&self, slot: Slot) -> Option<&V> {
        self.values[slot.index()].as_ref()
    }

    #[inline]
    fn get_mut(&mut self, slot: Slot) -> Option<&mut V> {
        self.touch(slot);
        self.values[slot.index()].as_mut()
    }

    #[inline]
    fn put(&mut self, slot: Slot, value: V) {
        self.touch(slot);
        self.values[slot.index()] = Some(value);
    }

    #[inline]
    fn remove(&mut self, slot: Slot) -> Option<V> {
        self.touch(slot);
        self.values[slot.index()].take()
    }

    fn claim(&mut self, additional: usize) -> Result<(), RocksError> {
        Ok(self.reservation.try_grow(additional)?)
    }

    /// Encodes each dirty value once and writes them in the order of the database, in batches of at
    /// most [`RocksOptions::write_batch_bytes`]. If one fails, another call goes on with it. With
    /// [`WritePolicy::Back`] that happens once too much waits.
    fn end_bundle(&mut self) -> Result<(), RocksError> {
        let waits = match self.options.write_policy {
            WritePolicy::Through => false,
            WritePolicy::Back { limit_bytes } => self.dirty_bytes() <= limit_bytes,
        };
        if !waits {
            self.write_dirty()?;
        }
        if !self.close_bundle() {
            self.write_dirty()?;
            self.close_bundle();
        }
        self.metrics.bundles += 1;
        Ok(())
    }

    fn abandon_bundle(&mut self) {
        assert!(
            self.changed.is_empty(),
            "a bundle with dirty values is ended and not abandoned"
        );
        self.close_bundle();
    }

    fn charged_bytes(&self) -> usize {
        self.reservation.bytes() + self.cache.reservation.bytes()
    }

    fn metrics(&self) -> StoreMetrics {
        self.metrics
    }
}

impl<V: StateValue, C: StateCodec<V>> Snapshot<V> for RocksState<V, C> {
    type Error = RocksError;
    type View = RocksView<C>;

    /// Flushes RocksDB's write buffer to a file, links the files into a directory beside the store, and
    /// opens them for reading: the cost depends on the write buffer, not on the state.
    ///
    /// # Panics
    ///
    /// If the bundle has changed a value.
    fn freeze(&mut self) -> Result<RocksView<C>, RocksError> {
        static VIEWS: AtomicU64 = AtomicU64::new(0);
        self.write_all()?;
        let number = VIEWS.fetch_add(1, Ordering::Relaxed);
        let dir = Scratch::new(&self.path, &format!("{VIEW}{number}"))?;
        let linked = Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(dir.path()));
        linked.map_err(|source| RocksError::engine(Operation::Freeze, &self.path, source))?;
        let db = db::open_read_only(
            dir.path(),
            Layout::Keyed,
            self.groups,
            &self.options,
            &self.block_cache,
        )?;
        Ok(RocksView {
            db,
            dir,
            groups: self.groups,
            codec: self.codec.clone(),
            expires: self.expires,
            now_ms: self.now_ms,
        })
    }

    fn is_empty(&mut self) -> Result<bool, RocksError> {
        self.write_back()?;
        let [start, end] = layout::bounds(self.groups.all());
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(end);
        let mut first = self.db.raw_iterator_opt(options);
        first.seek(start);
        let empty = !first.valid();
        first
            .status()
            .map_err(|source| RocksError::engine(Operation::Scan, &self.path, source))?;
        Ok(empty)
    }

    /// # Panics
    ///
    /// If the bundle has changed a value.
    fn clear(&mut self) -> Result<(), RocksError> {
        assert!(
            self.changed.is_empty(),
            "a store is cleared between bundles"
        );
        db::remove(&self.db, &self.path, &[layout::bounds(self.groups.all())])?;
        self.forget_all();
        self.settle_buffers();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use keygroup::GroupCount;
    use state_codec::{DecodeError, KeyBatch, KeyedState, StateBackend, StateCodec};

    use super::RocksState;
    use crate::{RocksBackend, RocksOptions};

    #[derive(Clone)]
    struct Bytes;

    impl StateCodec<Vec<u8>> for Bytes {
        fn encode_into(&self, value: &Vec<u8>, out: &mut Vec<u8>) {
            out.extend_from_slice(value);
        }

        fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
            Ok(bytes.to_vec())
        }

        fn heap_bytes(&self, value: &Vec<u8>) -> usize {
            value.capacity()
        }
    }

    fn property(state: &RocksState<Vec<u8>, Bytes>, name: &str) -> u64 {
        let value = state.db.property_int_value(name).unwrap();
        value.unwrap_or_else(|| panic!("RocksDB knows {name}"))
    }

    #[test]
    fn a_store_with_little_in_it_takes_little() {
        let dir = tempfile::tempdir().unwrap();
        let backend = RocksBackend::new(dir.path(), GroupCount::new(128).unwrap());
        let stores: Vec<RocksState<Vec<u8>, Bytes>> = (0..16)
            .map(|i| {
                let mut state = backend.open(&format!("store-{i}"), Bytes).unwrap();
                let keys = KeyBatch::from_rows([[0; 16].as_slice()]).unwrap();
                let mut slots = Vec::new();
                state.resolve(&keys, &mut slots).unwrap();
                state.put(slots[0], vec![1; 1024]);
                state.end_bundle().unwrap();
                state
            })
            .collect();
        let write_buffers: u64 = stores
            .iter()
            .map(|state| property(state, "rocksdb.cur-size-all-mem-tables"))
            .sum();
        let block = RocksOptions::default().effective_arena_block_bytes() as u64;
        assert!(write_buffers < 16 * block, "{write_buffers} bytes");
        for state in &stores {
            assert_eq!(property(state, "rocksdb.num-immutable-mem-table"), 0);
            assert_eq!(property(state, "rocksdb.estimate-num-keys"), 2);
            assert_eq!(property(state, "rocksdb.live-sst-files-size"), 0);
        }
    }
}
