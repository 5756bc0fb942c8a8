//! Writing values: database keys in order, in bounded batches.

use std::path::Path;

use keygroup::GroupCount;
use rocksdb::{DB, WriteBatch, WriteOptions};
use state_codec::{KeyIndex, Slot, StoreMetrics};

use crate::error::{Operation, RocksError};
use crate::layout;

/// What a write batch holds besides its entries, and besides the key and value of each entry: a
/// sequence number and a count; a tag and two lengths.
const BATCH_BYTES: usize = 12;
const BATCH_ENTRY_BYTES: usize = 1 + 5 + 5;

pub(crate) fn write_options() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

pub(crate) fn write(
    db: &DB,
    path: &Path,
    batch: Batch,
    metrics: &mut StoreMetrics,
) -> Result<(), RocksError> {
    if batch.entries.is_empty() {
        return Ok(());
    }
    db.write_opt(batch.entries, &write_options())
        .map_err(|source| RocksError::engine(Operation::Write, path, source))?;
    metrics.write_batches += 1;
    metrics.writes += batch.values;
    metrics.written_bytes += batch.value_bytes;
    metrics.deletes += batch.deletes;
    Ok(())
}

/// The writes of a run of the listed keys.
pub(crate) struct Batch {
    entries: WriteBatch,
    /// Where in the list the run starts.
    pub(crate) first: usize,
    /// No less than the size of `entries`.
    bytes: usize,
    values: u64,
    value_bytes: u64,
    deletes: u64,
}

impl Batch {
    pub(crate) fn starting_at(first: usize) -> Self {
        Self {
            entries: WriteBatch::new(),
            first,
            bytes: BATCH_BYTES,
            values: 0,
            value_bytes: 0,
            deletes: 0,
        }
    }

    /// Whether an entry of so many bytes of key and value fits beside the others.
    pub(crate) fn has_room(&self, entry_bytes: usize, limit_bytes: usize) -> bool {
        self.bytes + entry_bytes + BATCH_ENTRY_BYTES <= limit_bytes
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.entries.put(key, value);
        self.bytes += BATCH_ENTRY_BYTES + key.len() + value.len();
        self.values += 1;
        self.value_bytes += (key.len() + value.len()) as u64;
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
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
pub(crate) struct DbKeys {
    pub(crate) arena: Vec<u8>,
    pub(crate) sorted: Vec<DbKey>,
}

pub(crate) struct DbKey {
    start: usize,
    len: u32,
    pub(crate) slot: Slot,
}

impl DbKey {
    pub(crate) fn bytes<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.start..self.start + self.len as usize]
    }
}

impl DbKeys {
    pub(crate) fn set(
        &mut self,
        index: &KeyIndex,
        slots: impl Iterator<Item = Slot>,
        groups: GroupCount,
    ) {
        self.clear();
        for slot in slots {
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
    pub(crate) fn reserve(&mut self, keys: usize, bytes: usize) {
        self.sorted.reserve(keys.saturating_sub(self.sorted.len()));
        self.arena.reserve(bytes.saturating_sub(self.arena.len()));
    }

    /// Gives back what is allocated beyond room for so many keys of so many bytes.
    pub(crate) fn shrink_to(&mut self, keys: usize, bytes: usize) {
        self.sorted.shrink_to(keys);
        self.arena.shrink_to(bytes);
    }

    pub(crate) fn clear(&mut self) {
        self.arena.clear();
        self.sorted.clear();
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.arena.capacity() + self.sorted.capacity() * size_of::<DbKey>()
    }
}
