//! A store: a database, and the values that the running bundle works on.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use keygroup::{GroupCount, GroupRange, KeyGroup};
use rocksdb::{
    Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME, ErrorKind,
    ReadOptions, WriteBatch, WriteOptions,
};
use state_codec::{
    KeyBatch, KeyIndex, KeyedState, MemoryDenied, Reservation, Slot, Snapshot, StateCodec,
};

use crate::error::{Operation, RocksError};
use crate::layout;
use crate::options::RocksOptions;

/// How many keys one call of RocksDB reads at most. It pins what it finds until its values are
/// decoded, so this bounds the second copy; a batch of the usual 8,192 rows is one call.
const KEYS_PER_READ: usize = 8192;

/// What a write batch holds besides its entries, and besides the key and value of each entry: a
/// sequence number and a count; a tag and two lengths.
const BATCH_BYTES: usize = 12;
const BATCH_ENTRY_BYTES: usize = 1 + 5 + 5;

/// The keyed values of one operator, in RocksDB. Opened by a [`RocksBackend`](crate::RocksBackend).
///
/// During a bundle the values of the keys that it resolved are in memory, one copy of each. The end
/// of the bundle writes those that changed and forgets all of them; it keeps only empty buffers, up to
/// [`RocksOptions::kept_buffer_bytes`]. These are charged to the memory pool, as is the working set
/// while it grows: its keys and loaded values when they are resolved, and what the operator claims.
/// The account can always be settled, for a store that is refused its empty buffers gives them back.
/// What the end of the bundle needs to sort its keys is charged when they are resolved. RocksDB's own
/// memory is bounded by the options and not charged, nor are the one
/// [write batch](RocksOptions::write_batch_bytes) and the one encoded value that exist at a time.
pub struct RocksState<V, C> {
    db: DB,
    path: PathBuf,
    groups: GroupCount,
    codec: C,
    write_batch_bytes: usize,
    kept_buffer_bytes: usize,

    index: KeyIndex,
    values: Vec<Option<V>>,
    /// By slot, as `values`.
    marks: Vec<Mark>,
    /// Every slot whose mark is dirty, once.
    dirty: Vec<Slot>,

    /// The slots that the last batch brought; a buffer of `resolve`.
    new: Vec<Slot>,
    db_keys: DbKeys,
    /// What `db_keys` must have room for at the end of the bundle, if all of it became dirty.
    bundle_keys: usize,
    bundle_key_bytes: usize,
    value_bytes: Vec<u8>,

    reservation: Reservation,
    stats: StoreStats,
}

/// What is known of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The database has a value.
    stored: bool,
    /// The bundle changed the value, and it is not written yet.
    dirty: bool,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Keys that were looked up in the database.
    pub gets: u64,
    /// Those of them that it had a value for.
    pub hits: u64,
    /// Values that were written.
    pub written_values: u64,
    /// Bytes of their keys and values in the database.
    pub written_bytes: u64,
    /// Values that were deleted.
    pub deletes: u64,
    /// Write batches, the first of a new database not counted.
    pub write_batches: u64,
}

impl<V, C: StateCodec<V>> RocksState<V, C> {
    pub(crate) fn open(
        path: PathBuf,
        groups: GroupCount,
        reservation: Reservation,
        options: &RocksOptions,
        block_cache: &Cache,
        codec: C,
    ) -> Result<Self, RocksError> {
        fs::create_dir_all(&path).map_err(|source| RocksError::Directory {
            path: path.clone(),
            source,
        })?;
        // RocksDB tells stores that are open in this process by the text of their paths, so that one
        // directory by two names would be two of them.
        let path =
            fs::canonicalize(&path).map_err(|source| RocksError::Directory { path, source })?;
        let engine = options.to_engine(block_cache);
        let only = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, engine.clone());
        let db = DB::open_cf_descriptors(&engine, &path, [only])
            .map_err(|source| open_error(&path, source))?;
        check_record(&db, &path, groups)?;
        Ok(Self {
            db,
            path,
            groups,
            codec,
            write_batch_bytes: options.write_batch_bytes,
            kept_buffer_bytes: options.kept_buffer_bytes,
            index: KeyIndex::default(),
            values: Vec::new(),
            marks: Vec::new(),
            dirty: Vec::new(),
            new: Vec::new(),
            db_keys: DbKeys::default(),
            bundle_keys: 0,
            bundle_key_bytes: 0,
            value_bytes: Vec::new(),
            reservation,
            stats: StoreStats::default(),
        })
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the store has done since it was opened.
    pub fn stats(&self) -> StoreStats {
        self.stats
    }

    /// What is allocated for all but the values' own heap bytes.
    fn buffer_bytes(&self) -> usize {
        self.index.allocated_bytes()
            + self.values.capacity() * size_of::<Option<V>>()
            + self.marks.capacity() * size_of::<Mark>()
            + (self.dirty.capacity() + self.new.capacity()) * size_of::<Slot>()
            + self.db_keys.allocated_bytes()
            + self.value_bytes.capacity()
    }

    /// Reads the values of the keys that the last batch brought, and charges the pool for both.
    fn load_new(&mut self, buffer_bytes_before: usize) -> Result<(), RocksError> {
        let bound = self.index.slot_bound();
        if bound > self.values.len() {
            self.values.resize_with(bound, || None);
            self.marks.resize(bound, Mark::default());
        }
        self.db_keys.set(&self.index, &self.new, self.groups);
        // What the end of the bundle needs to write them is charged here, where it can be refused.
        let bundle_keys = self.bundle_keys + self.new.len();
        let bundle_key_bytes = self.bundle_key_bytes + self.db_keys.arena.len();
        self.db_keys.reserve(bundle_keys, bundle_key_bytes);
        self.dirty.reserve(bundle_keys - self.dirty.len());
        let growth = self.buffer_bytes().saturating_sub(buffer_bytes_before);
        self.reservation.try_grow(growth)?;

        let options = ReadOptions::default();
        let mut runs = self.db_keys.sorted.chunks(KEYS_PER_READ);
        runs.try_for_each(|run| {
            let keys = run.iter().map(|key| key.bytes(&self.db_keys.arena));
            let found = self
                .db
                .batched_multi_get_cf_opt(&entries(&self.db), keys, true, &options);
            self.stats.gets += run.len() as u64;
            let mut heap_bytes = 0;
            for (key, found) in run.iter().zip(found) {
                let found = found
                    .map_err(|source| RocksError::engine(Operation::Read, &self.path, source))?;
                let Some(bytes) = found else { continue };
                self.stats.hits += 1;
                let key_bytes = key.bytes(&self.db_keys.arena);
                let value = decode(&self.codec, &self.path, key_bytes, &bytes)?;
                heap_bytes += self.codec.heap_bytes(&value);
                self.values[key.slot.index()] = Some(value);
                self.marks[key.slot.index()].stored = true;
            }
            Ok::<(), RocksError>(self.reservation.try_grow(heap_bytes)?)
        })?;
        (self.bundle_keys, self.bundle_key_bytes) = (bundle_keys, bundle_key_bytes);
        Ok(())
    }

    /// Forgets the keys that the last batch brought, and gives back what they made the buffers grow
    /// by.
    fn refuse_new(&mut self, buffer_bytes_before: usize, charged_before: usize) {
        for slot in self.new.drain(..) {
            self.index.remove(slot);
            self.values[slot.index()] = None;
            self.marks[slot.index()] = Mark::default();
        }
        self.index.shrink_to_fit();
        self.values.truncate(self.index.slot_bound());
        self.values.shrink_to_fit();
        self.marks.truncate(self.index.slot_bound());
        self.marks.shrink_to_fit();
        self.new = Vec::new();
        // Room for the keys of the batches before stays, and stays charged: writing them needs it.
        self.dirty.shrink_to(self.bundle_keys);
        self.db_keys.clear();
        self.db_keys
            .shrink_to(self.bundle_keys, self.bundle_key_bytes);
        let freed = buffer_bytes_before.saturating_sub(self.buffer_bytes());
        let restored = self
            .reservation
            .try_resize(charged_before.saturating_sub(freed));
        restored.expect("a pool never refuses to take bytes back");
    }

    fn touch(&mut self, slot: Slot) {
        let mark = &mut self.marks[slot.index()];
        if !mark.dirty {
            mark.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Writes what is dirty in the order of the database. What was written is clean, whether or not
    /// all of it was.
    fn write_dirty(&mut self) -> Result<(), RocksError> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        self.db_keys.set(&self.index, &self.dirty, self.groups);
        let written = self.write_listed();
        self.dirty.retain(|slot| self.marks[slot.index()].dirty);
        written
    }

    fn write_listed(&mut self) -> Result<(), RocksError> {
        let mut batch = Batch::default();
        for (i, key) in self.db_keys.sorted.iter().enumerate() {
            let key_bytes = key.bytes(&self.db_keys.arena);
            self.value_bytes.clear();
            let value = self.values[key.slot.index()].as_ref();
            if let Some(value) = value {
                self.codec.encode_into(value, &mut self.value_bytes);
            }
            let entry_bytes = key_bytes.len() + self.value_bytes.len();
            if batch.bytes + entry_bytes + BATCH_ENTRY_BYTES > self.write_batch_bytes {
                let end_batch = std::mem::replace(&mut batch, Batch::starting_at(i));
                let listed = &self.db_keys.sorted[end_batch.first..i];
                write(&self.db, &self.path, end_batch, &mut self.stats)?;
                clean(&mut self.marks, &self.values, listed);
            }
            match value {
                Some(_) => batch.put(key_bytes, &self.value_bytes),
                None if self.marks[key.slot.index()].stored => batch.delete(key_bytes),
                None => {} // neither stored nor to be
            }
        }
        let listed = &self.db_keys.sorted[batch.first..];
        write(&self.db, &self.path, batch, &mut self.stats)?;
        clean(&mut self.marks, &self.values, listed);
        Ok(())
    }

    /// Forgets the working set, and settles for the buffers that stay.
    fn close_bundle(&mut self) {
        self.index.clear();
        self.values.clear();
        self.marks.clear();
        self.dirty.clear();
        self.new.clear();
        self.db_keys.clear();
        (self.bundle_keys, self.bundle_key_bytes) = (0, 0);
        self.value_bytes.clear();
        if self.buffer_bytes() > self.kept_buffer_bytes || self.settle().is_err() {
            self.index = KeyIndex::default();
            self.values = Vec::new();
            self.marks = Vec::new();
            self.dirty = Vec::new();
            self.new = Vec::new();
            self.db_keys = DbKeys::default();
            self.value_bytes = Vec::new();
            self.settle()
                .expect("nothing is allocated, and nothing is asked for");
        }
    }

    fn settle(&mut self) -> Result<(), MemoryDenied> {
        self.reservation.try_resize(self.buffer_bytes())
    }
}

impl<V, C> fmt::Debug for RocksState<V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksState")
            .field("path", &self.path)
            .field("groups", &self.groups)
            .field("keys_in_bundle", &self.index.len())
            .field("dirty", &self.dirty.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<V, C: StateCodec<V>> KeyedState<V> for RocksState<V, C> {
    type Error = RocksError;

    /// Costs one probe per row, and one sorted read of the keys that the bundle does not have yet.
    fn resolve(&mut self, keys: &KeyBatch, slots: &mut Vec<Slot>) -> Result<(), RocksError> {
        let buffer_bytes_before = self.buffer_bytes();
        let charged_before = self.reservation.bytes();
        self.index.resolve(keys, slots, &mut self.new);
        if self.new.is_empty() {
            return Ok(());
        }
        self.load_new(buffer_bytes_before).inspect_err(|_| {
            slots.clear();
            self.refuse_new(buffer_bytes_before, charged_before);
        })
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
    /// most [`RocksOptions::write_batch_bytes`]. If one fails, another call goes on with it.
    fn end_bundle(&mut self) -> Result<(), RocksError> {
        self.write_dirty()?;
        self.close_bundle();
        Ok(())
    }

    fn abandon_bundle(&mut self) {
        assert!(
            self.dirty.is_empty(),
            "a bundle with dirty values is ended and not abandoned"
        );
        self.close_bundle();
    }

    fn charged_bytes(&self) -> usize {
        self.reservation.bytes()
    }
}

impl<V, C: StateCodec<V>> Snapshot<V> for RocksState<V, C> {
    type Error = RocksError;

    /// One pass over the range, which leaves the block cache as it is; one value in memory at a time.
    ///
    /// # Panics
    ///
    /// If a value is dirty.
    fn scan(
        &mut self,
        groups: GroupRange,
        visit: &mut dyn FnMut(KeyGroup, &[u8], &V),
    ) -> Result<(), RocksError> {
        assert!(self.dirty.is_empty(), "a scan is between bundles");
        let Some(groups) = groups.intersect(self.groups.all()) else {
            return Ok(());
        };
        let [start, end] = layout::bounds(groups);
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(end);
        options.fill_cache(false);
        let mut entry = self.db.raw_iterator_opt(options);
        entry.seek(start);
        while let Some((key, bytes)) = entry.item() {
            let Some((group, row)) = layout::split_key(key, self.groups) else {
                return Err(RocksError::Key {
                    path: self.path.clone(),
                    key: key.to_owned(),
                });
            };
            let value = decode(&self.codec, &self.path, key, bytes)?;
            visit(group, row, &value);
            entry.next();
        }
        // An iterator that failed ends as one that is through does.
        entry
            .status()
            .map_err(|source| RocksError::engine(Operation::Scan, &self.path, source))
    }

    /// # Panics
    ///
    /// If a bundle is open.
    fn load(&mut self, key_row: &[u8], value: V) -> Result<(), RocksError> {
        assert!(self.index.is_empty(), "a load is between bundles");
        let keys = KeyBatch::from_rows([key_row])?;
        let mut slots = Vec::with_capacity(1);
        self.resolve(&keys, &mut slots)?;
        if let Err(denied) = self.claim(self.codec.heap_bytes(&value)) {
            self.abandon_bundle();
            return Err(denied);
        }
        self.put(slots[0], value);
        self.end_bundle()
    }
}

/// The one column family of a database.
fn entries(db: &DB) -> &ColumnFamily {
    db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME)
        .expect("the default column family was opened by name")
}

fn decode<V, C: StateCodec<V>>(
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
fn check_record(db: &DB, path: &Path, groups: GroupCount) -> Result<(), RocksError> {
    let open = |source| RocksError::engine(Operation::Open, path, source);
    if let Some(record) = db.get_pinned(layout::RECORD_KEY).map_err(open)? {
        let stored = layout::read_record(&record).map_err(|source| RocksError::Layout {
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
        return Ok(());
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
    batch.put(layout::RECORD_KEY, layout::record(groups));
    db.write_opt(batch, &write_options()).map_err(open)
}

fn write_options() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

fn write(db: &DB, path: &Path, batch: Batch, stats: &mut StoreStats) -> Result<(), RocksError> {
    if batch.entries.is_empty() {
        return Ok(());
    }
    db.write_opt(batch.entries, &write_options())
        .map_err(|source| RocksError::engine(Operation::Write, path, source))?;
    stats.write_batches += 1;
    stats.written_values += batch.values;
    stats.written_bytes += batch.value_bytes;
    stats.deletes += batch.deletes;
    Ok(())
}

/// Marks the slots of what was written.
fn clean<V>(marks: &mut [Mark], values: &[Option<V>], written: &[DbKey]) {
    for key in written {
        marks[key.slot.index()] = Mark {
            stored: values[key.slot.index()].is_some(),
            dirty: false,
        };
    }
}

/// The writes of a run of the listed keys.
struct Batch {
    entries: WriteBatch,
    /// Where in the list the run starts.
    first: usize,
    /// No less than the size of `entries`.
    bytes: usize,
    values: u64,
    value_bytes: u64,
    deletes: u64,
}

impl Batch {
    fn starting_at(first: usize) -> Self {
        Self {
            entries: WriteBatch::new(),
            first,
            bytes: BATCH_BYTES,
            values: 0,
            value_bytes: 0,
            deletes: 0,
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.entries.put(key, value);
        self.bytes += BATCH_ENTRY_BYTES + key.len() + value.len();
        self.values += 1;
        self.value_bytes += (key.len() + value.len()) as u64;
    }

    fn delete(&mut self, key: &[u8]) {
        self.entries.delete(key);
        self.bytes += BATCH_ENTRY_BYTES + key.len();
        self.deletes += 1;
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

/// Database keys of slots, in the order of the database.
#[derive(Default)]
struct DbKeys {
    arena: Vec<u8>,
    sorted: Vec<DbKey>,
}

struct DbKey {
    start: usize,
    len: u32,
    slot: Slot,
}

impl DbKey {
    fn bytes<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.start..self.start + self.len as usize]
    }
}

impl DbKeys {
    fn set(&mut self, index: &KeyIndex, slots: &[Slot], groups: GroupCount) {
        self.clear();
        self.sorted.reserve(slots.len());
        for &slot in slots {
            let start = self.arena.len();
            layout::write_key(groups, &mut self.arena, |out| {
                index.write_key_row(slot, out)
            });
            let len = u32::try_from(self.arena.len() - start);
            let len = len.expect("a key row is at most 2^31 bytes long");
            self.sorted.push(DbKey { start, len, slot });
        }
        let arena = &self.arena;
        self.sorted
            .sort_unstable_by(|a, b| a.bytes(arena).cmp(b.bytes(arena)));
    }

    /// Makes room for so many keys of so many bytes.
    fn reserve(&mut self, keys: usize, bytes: usize) {
        self.sorted.reserve(keys.saturating_sub(self.sorted.len()));
        self.arena.reserve(bytes.saturating_sub(self.arena.len()));
    }

    /// Gives back what is allocated beyond room for so many keys of so many bytes.
    fn shrink_to(&mut self, keys: usize, bytes: usize) {
        self.sorted.shrink_to(keys);
        self.arena.shrink_to(bytes);
    }

    fn clear(&mut self) {
        self.arena.clear();
        self.sorted.clear();
    }

    fn allocated_bytes(&self) -> usize {
        self.arena.capacity() + self.sorted.capacity() * size_of::<DbKey>()
    }
}

#[cfg(test)]
mod tests {
    use keygroup::GroupCount;
    use state_codec::{DecodeError, KeyBatch, KeyedState, StateBackend, StateCodec};

    use super::RocksState;
    use crate::{RocksBackend, RocksOptions};

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
