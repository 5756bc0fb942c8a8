//! The least that any ranker must do over a store, without doing any ranking.
//!
//! - Memory: every row hashes its key, as the stores do, and probes a bare hash table for its slot; of a text it
//!   keeps the 16 bytes that all keys have. A fresh row is appended under a new slot. Of the improving rows, the
//!   last of each key in a bundle is copied into its slot; which ones these are was found before the clock
//!   started.
//! - RocksDB: the distinct keys of each batch, which were sorted before the clock started, are read
//!   with one multi-get; improving and fresh rows are then written with one write batch per bundle,
//!   in key order. A value is the encoded row; the stores write 5 bytes more, a version and the
//!   row's length.
//!
//! A floor emits nothing and has no answer.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::hint::black_box;

use arrow::array::{AsArray, BinaryArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use keygroup::group_of;
use rank_top1::Changelog;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType,
    DEFAULT_COLUMN_FAMILY_NAME, Options, WriteBatch, WriteOptions,
};
use state_codec::{RowForm, RowLayout, Rows, Select};
use state_rocks::RocksOptions;
use tempfile::TempDir;

use crate::stores::{StoreError, groups};
use crate::trial::TrialError;
use crate::trial::cell::{Arrival, Cell};
use crate::trial::engine::Engine;
use crate::trial::suite::Trial;
use crate::trial::workload::{KeyedBatch, Workload, boxed, key_columns, schema};

/// A key column, or two, as a floor reads them.
pub(crate) trait FloorKey: 'static {
    /// The columns of a batch.
    type Columns<'a>: Copy;
    /// A key that is kept.
    type Kept: Hash + Copy + PartialEq;

    fn columns(batch: &RecordBatch) -> Self::Columns<'_>;
    fn at(columns: Self::Columns<'_>, row: usize) -> Self::Kept;
}

/// One BIGINT.
pub(crate) struct Word;

impl FloorKey for Word {
    type Columns<'a> = &'a [i64];
    type Kept = u64;

    fn columns(batch: &RecordBatch) -> &[i64] {
        batch.column(0).as_primitive::<Int64Type>().values()
    }

    #[inline]
    fn at(columns: &[i64], row: usize) -> u64 {
        columns[row] as u64
    }
}

/// One string, of which 16 bytes are kept.
pub(crate) struct Text;

impl FloorKey for Text {
    type Columns<'a> = &'a StringArray;
    type Kept = u128;

    fn columns(batch: &RecordBatch) -> &StringArray {
        batch.column(0).as_string()
    }

    #[inline]
    fn at(columns: &StringArray, row: usize) -> u128 {
        let bytes = columns.value(row).as_bytes().try_into();
        u128::from_le_bytes(bytes.expect("keys have 16 bytes"))
    }
}

/// A BIGINT and a string.
pub(crate) struct WordAndText;

impl FloorKey for WordAndText {
    type Columns<'a> = (&'a [i64], &'a StringArray);
    type Kept = (u64, u128);

    fn columns(batch: &RecordBatch) -> Self::Columns<'_> {
        (Word::columns(batch), batch.column(1).as_string())
    }

    #[inline]
    fn at(columns: Self::Columns<'_>, row: usize) -> Self::Kept {
        (Word::at(columns.0, row), Text::at(columns.1, row))
    }
}

/// The floor in memory.
pub(crate) struct ProbeFloor<K: FloorKey> {
    hasher: FixedState,
    /// Key and slot.
    table: HashTable<(K::Kept, u32)>,
    /// The row of each slot: sort value and payload.
    rows: Vec<u8>,
    row_bytes: usize,
    slots_seen: u64,
    /// Of each different arriving batch, the rows that are copied, ascending.
    copies: Vec<Vec<u32>>,
}

impl<K: FloorKey> ProbeFloor<K> {
    pub(crate) fn new(workload: &Workload) -> Self {
        Self {
            hasher: FixedState::with_seed(0),
            table: HashTable::new(),
            rows: Vec::new(),
            row_bytes: size_of::<i64>() + workload.cell().payload_bytes,
            slots_seen: 0,
            copies: last_rows(workload),
        }
    }

    /// Probes every row and copies those that are last in their bundle.
    fn probe_all(&mut self, batch: &RecordBatch, copies: &[u32]) {
        let (sorts, payloads) = sorts_and_payloads(batch);
        let columns = K::columns(batch);
        let mut copies = copies.iter().peekable();
        for (row, sort) in sorts.iter().enumerate() {
            let key = K::at(columns, row);
            let found = self
                .table
                .find(self.hasher.hash_one(key), |entry| entry.0 == key);
            let slot = found.expect("a row that is not fresh has a primed key").1;
            self.slots_seen += u64::from(slot);
            if copies.next_if(|&&copy| copy as usize == row).is_some() {
                let at = slot as usize * self.row_bytes;
                let kept = &mut self.rows[at..at + self.row_bytes];
                kept[..8].copy_from_slice(&sort.to_le_bytes());
                let payload = payloads.value(row);
                kept[8..8 + payload.len()].copy_from_slice(payload);
            }
        }
    }

    fn append_all(&mut self, batch: &RecordBatch) {
        let (sorts, payloads) = sorts_and_payloads(batch);
        let columns = K::columns(batch);
        for (row, sort) in sorts.iter().enumerate() {
            let key = K::at(columns, row);
            let hash = self.hasher.hash_one(key);
            if self.table.find(hash, |entry| entry.0 == key).is_none() {
                let slot = self.table.len() as u32;
                let hasher = &self.hasher;
                self.table
                    .insert_unique(hash, (key, slot), |entry| hasher.hash_one(entry.0));
                self.rows.extend_from_slice(&sort.to_le_bytes());
                self.rows.extend_from_slice(payloads.value(row));
                // NULLs have no bytes, but a place.
                self.rows.resize((slot as usize + 1) * self.row_bytes, 0);
            }
        }
    }
}

/// The first sort column and the payloads.
fn sorts_and_payloads(batch: &RecordBatch) -> (&[i64], &BinaryArray) {
    let payloads = batch.column(batch.num_columns() - 1).as_binary();
    let sorts = batch.column_by_name("v").expect("there is a sort column");
    (sorts.as_primitive::<Int64Type>().values(), payloads)
}

/// Of each different arriving batch, the improving rows after which none of their key comes in the bundle.
fn last_rows(workload: &Workload) -> Vec<Vec<u32>> {
    let batches = workload.different_batches();
    let mut last = vec![Vec::new(); batches];
    for first in (0..batches).step_by(workload.cell().bundle_batches()) {
        let end = batches.min(first + workload.cell().bundle_batches());
        let mut seen = HashSet::new();
        for number in (first..end).rev() {
            let rows = workload.arriving(number);
            let improving = rows.improving.iter().rev();
            last[number] = improving
                .copied()
                .filter(|&row| seen.insert(rows.keys[row as usize]))
                .collect();
            last[number].reverse();
        }
    }
    last
}

impl<K: FloorKey> Engine for ProbeFloor<K> {
    fn prime(&mut self, workload: &Workload) -> Result<(), TrialError> {
        // Memory is given back, as it is where a store is dropped.
        self.table = HashTable::new();
        self.rows = Vec::new();
        for rows in workload.priming() {
            self.append_all(&rows.batch);
        }
        Ok(())
    }

    fn arrive(
        &mut self,
        workload: &Workload,
        number: usize,
        rows: &KeyedBatch,
        _ends_bundle: bool,
        _out: &mut Vec<Changelog>,
    ) -> Result<(), TrialError> {
        let batch = &rows.batch;
        if workload.cell().arrival == Arrival::Fresh {
            self.append_all(batch);
        } else {
            let copies = std::mem::take(&mut self.copies);
            self.probe_all(batch, &copies[number % copies.len()]);
            self.copies = copies;
        }
        black_box(self.slots_seen);
        Ok(())
    }
}

/// The floor in RocksDB.
pub(crate) struct RocksFloor {
    // Dropped in this order: the database goes before its directory.
    database: Option<DB>,
    _directory: Option<TempDir>,
    priming: Vec<Entries>,
    /// Of each different arriving batch.
    steps: Vec<Step>,
    bytes_seen: usize,
}

/// Keys and values in key order.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

struct Step {
    /// In order.
    reads: Vec<Vec<u8>>,
    /// What a bundle writes if it ends with this batch.
    writes: Entries,
}

impl RocksFloor {
    pub(crate) fn new(workload: &Workload) -> Result<Self, TrialError> {
        Self::steps(workload).map_err(|source| TrialError::Workload {
            cell: Trial::AppendTop1(workload.cell()).to_string(),
            source,
        })
    }

    fn steps(workload: &Workload) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let cell = workload.cell();
        let encoder = EntryEncoder::new(&cell)?;
        let priming = workload.priming().iter().map(|batch| {
            let entries = encoder.encode(&batch.batch)?;
            let entries: BTreeMap<_, _> = entries.into_iter().collect();
            Ok::<Entries, Box<dyn std::error::Error + Send + Sync>>(entries.into_iter().collect())
        });
        let priming = priming.collect::<Result<_, _>>()?;
        let mut steps = Vec::new();
        // Read once in a bundle; the last improving row of a key is its best.
        let mut read: HashSet<Vec<u8>> = HashSet::new();
        let mut bundle: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for number in 0..workload.different_batches() {
            let rows = workload.arriving(number);
            let entries = encoder.encode(&rows.batch)?;
            let new = entries.iter().filter(|(key, _)| read.insert(key.clone()));
            let mut reads: Vec<Vec<u8>> = new.map(|(key, _)| key.clone()).collect();
            reads.sort_unstable();
            if cell.arrival == Arrival::Fresh {
                bundle.extend(entries);
            } else {
                let improving = rows.improving.iter();
                bundle.extend(improving.map(|&row| entries[row as usize].clone()));
            }
            let mut writes = Entries::new();
            if (number + 1).is_multiple_of(cell.bundle_batches()) {
                read.clear();
                writes.extend(std::mem::take(&mut bundle));
            }
            steps.push(Step { reads, writes });
        }
        Ok(Self {
            database: None,
            _directory: None,
            priming,
            steps,
            bytes_seen: 0,
        })
    }

    /// Set up as the stores under test are by default, in what costs time.
    fn open(directory: &TempDir) -> Result<DB, rocksdb::Error> {
        let defaults = RocksOptions::default();
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(defaults.block_cache_bytes));
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_pin_top_level_index_and_filter(true);
        table.set_bloom_filter(defaults.bloom_bits_per_key, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(defaults.write_buffer_bytes);
        options.set_max_write_buffer_number(defaults.write_buffers.into());
        options.set_arena_block_size(defaults.effective_arena_block_bytes());
        options.set_allow_concurrent_memtable_write(false);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_bottommost_compression_type(DBCompressionType::Lz4);
        let path = directory.path().join("floor");
        let family = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.clone());
        DB::open_cf_descriptors(&options, path, [family])
    }
}

fn write(database: &DB, entries: &Entries) -> Result<(), rocksdb::Error> {
    let mut batch = WriteBatch::default();
    for (key, value) in entries {
        batch.put(key, value);
    }
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    database.write_opt(batch, &options)
}

impl Engine for RocksFloor {
    fn prime(&mut self, workload: &Workload) -> Result<(), TrialError> {
        let cell = || Trial::AppendTop1(workload.cell()).to_string();
        let failed = |source| TrialError::Floor {
            cell: cell(),
            source,
        };
        self.database = None;
        let directory =
            TempDir::with_prefix("weir-floor-").map_err(|source| TrialError::Store {
                cell: cell(),
                source: Box::new(StoreError::Directory(source)),
            })?;
        let database = Self::open(&directory).map_err(failed)?;
        for entries in &self.priming {
            write(&database, entries).map_err(failed)?;
        }
        self.database = Some(database);
        self._directory = Some(directory);
        Ok(())
    }

    fn arrive(
        &mut self,
        workload: &Workload,
        number: usize,
        _rows: &KeyedBatch,
        _ends_bundle: bool,
        _out: &mut Vec<Changelog>,
    ) -> Result<(), TrialError> {
        let failed = |source| TrialError::Floor {
            cell: Trial::AppendTop1(workload.cell()).to_string(),
            source,
        };
        let database = self
            .database
            .as_ref()
            .expect("an engine is primed before rows arrive");
        let step = &self.steps[number % self.steps.len()];
        let values = database.batched_multi_get_cf(
            database
                .cf_handle(DEFAULT_COLUMN_FAMILY_NAME)
                .expect("every database has a default family"),
            &step.reads,
            true,
        );
        for value in values {
            self.bytes_seen += value.map_err(failed)?.map_or(0, |bytes| bytes.len());
        }
        if !step.writes.is_empty() {
            write(database, &step.writes).map_err(failed)?;
        }
        black_box(self.bytes_seen);
        Ok(())
    }
}

/// Makes what a store keeps of a row: group and key row, and the whole row.
struct EntryEncoder {
    keys: RowLayout,
    rows: RowLayout,
    key_columns: usize,
}

impl EntryEncoder {
    fn new(cell: &Cell) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let schema = schema(cell);
        let fields = schema.fields();
        let key_columns = key_columns(cell);
        Ok(Self {
            keys: RowLayout::new(&fields[..key_columns], RowForm::Key).map_err(boxed)?,
            rows: RowLayout::new(fields, RowForm::Payload).map_err(boxed)?,
            key_columns,
        })
    }

    fn encode(
        &self,
        batch: &RecordBatch,
    ) -> Result<Entries, Box<dyn std::error::Error + Send + Sync>> {
        let mut keys = Rows::new();
        self.keys
            .encode_into(&batch.columns()[..self.key_columns], Select::All, &mut keys)
            .map_err(boxed)?;
        let mut rows = Rows::new();
        self.rows
            .encode_into(batch.columns(), Select::All, &mut rows)
            .map_err(boxed)?;
        let entries = keys.iter().zip(rows.iter()).map(|(key_row, row)| {
            let group = group_of(key_row, groups());
            let key = [group.to_be_bytes().as_slice(), key_row].concat();
            (key, row.to_vec())
        });
        Ok(entries.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{FloorKey, ProbeFloor, Word, sorts_and_payloads};
    use crate::stores::Store;
    use crate::trial::cell::{Arrival, Cell, Emission};
    use crate::trial::engine::Engine;
    use crate::trial::workload::Workload;

    #[test]
    fn the_floor_in_memory_copies_once_per_key_and_bundle_and_keeps_every_winner() {
        for (emission, bundle) in [(Emission::Immediate, 1), (Emission::MiniBatch, 4)] {
            let cell = Cell {
                keys: 64,
                emission,
                ..Cell::plain(Store::Memory, Arrival::Improving)
            };
            let workload = Workload::new(cell, 8).expect("a workload");
            let mut floor = ProbeFloor::<Word>::new(&workload);
            // Each of the 64 keys is in every batch of 4,096 rows.
            let copies: usize = floor.copies.iter().map(Vec::len).sum();
            assert_eq!(copies, 64 * 8 / bundle, "{emission}");

            floor.prime(&workload).expect("no store fails");
            let mut winners: HashMap<u64, Vec<u8>> = HashMap::new();
            for number in 0..8 {
                let rows = workload.arriving(number);
                floor
                    .arrive(&workload, number, rows, true, &mut Vec::new())
                    .expect("no store fails");
                let batch = &rows.batch;
                let (sorts, payloads) = sorts_and_payloads(batch);
                for (row, sort) in sorts.iter().enumerate() {
                    let kept = [&sort.to_le_bytes()[..], payloads.value(row)].concat();
                    winners.insert(Word::at(Word::columns(batch), row), kept);
                }
            }
            assert_eq!(floor.table.len(), 64);
            for (key, slot) in &floor.table {
                let row = &floor.rows[*slot as usize * 16..][..16];
                assert_eq!(row, winners[key]);
            }
        }
    }
}
