//! The least that any ranker must do over a store, without doing any ranking.
//!
//! - Memory: every row hashes its key, as the stores do, and probes a bare hash table for its slot.
//!   A fresh row is appended under a new slot. Of the improving rows, the last of each key in a
//!   bundle is copied into its slot; which ones these are was found before the clock started.
//! - RocksDB: the distinct keys of each batch, which were sorted before the clock started, are read
//!   with one multi-get; improving and fresh rows are then written with one write batch per bundle,
//!   in key order. A value is the encoded row; the stores write 5 bytes more, a version and the
//!   row's length.
//!
//! A floor emits nothing and has no answer.

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;
use std::hint::black_box;

use arrow::array::RecordBatch;
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
use crate::trial::cell::{Arrival, Trial};
use crate::trial::engine::Engine;
use crate::trial::workload::{Workload, boxed, keys_of, payloads_of, schema, sorts_of};

/// The floor in memory.
pub(crate) struct ProbeFloor {
    hasher: FixedState,
    /// Key and slot.
    table: HashTable<(u64, u32)>,
    /// The row of each slot: sort value and payload.
    rows: Vec<u8>,
    row_bytes: usize,
    slots_seen: u64,
    /// Of each different arriving batch, the rows that are copied, ascending.
    copies: Vec<Vec<usize>>,
}

impl ProbeFloor {
    pub(crate) fn new(workload: &Workload) -> Self {
        Self {
            hasher: FixedState::with_seed(0),
            table: HashTable::new(),
            rows: Vec::new(),
            row_bytes: size_of::<i64>() + workload.cell().payload_bytes,
            slots_seen: 0,
            copies: match workload.cell().arrival {
                Arrival::Improving => last_rows(workload),
                Arrival::Rejected | Arrival::Fresh => Vec::new(),
            },
        }
    }

    fn probe_all(&mut self, batch: &RecordBatch) {
        for &key in keys_of(batch) {
            let key = key as u64;
            let found = self
                .table
                .find(self.hasher.hash_one(key), |entry| entry.0 == key);
            self.slots_seen += found.map_or(0, |entry| u64::from(entry.1));
        }
    }

    /// Probes every row and copies those of batch `number` that last in their bundle.
    fn copy_last(&mut self, batch: &RecordBatch, number: usize) {
        let payloads = payloads_of(batch);
        let mut copies = self.copies[number % self.copies.len()].iter().peekable();
        for (i, (&key, &sort)) in keys_of(batch).iter().zip(sorts_of(batch)).enumerate() {
            let key = key as u64;
            let found = self
                .table
                .find(self.hasher.hash_one(key), |entry| entry.0 == key);
            let slot = found.expect("an improving row has a primed key").1;
            self.slots_seen += u64::from(slot);
            if copies.next_if_eq(&&i).is_none() {
                continue;
            }
            let slot = slot as usize;
            let row = &mut self.rows[slot * self.row_bytes..][..self.row_bytes];
            row[..8].copy_from_slice(&sort.to_le_bytes());
            row[8..].copy_from_slice(payloads.value(i));
        }
    }

    fn append_all(&mut self, batch: &RecordBatch) {
        let payloads = payloads_of(batch);
        for (i, (&key, &sort)) in keys_of(batch).iter().zip(sorts_of(batch)).enumerate() {
            let key = key as u64;
            let hash = self.hasher.hash_one(key);
            if self.table.find(hash, |entry| entry.0 == key).is_none() {
                let slot = self.table.len() as u32;
                let hasher = &self.hasher;
                self.table
                    .insert_unique(hash, (key, slot), |entry| hasher.hash_one(entry.0));
                self.rows.extend_from_slice(&sort.to_le_bytes());
                self.rows.extend_from_slice(payloads.value(i));
            }
        }
    }
}

/// Of each different arriving batch, the rows after which no row of their key comes in the bundle.
fn last_rows(workload: &Workload) -> Vec<Vec<usize>> {
    let batches = workload.different_batches();
    let mut last = vec![Vec::new(); batches];
    for first in (0..batches).step_by(workload.cell().bundle_batches()) {
        let end = batches.min(first + workload.cell().bundle_batches());
        let mut seen = HashSet::new();
        for number in (first..end).rev() {
            let keys = keys_of(workload.arriving(number)).iter().enumerate();
            let rows = keys.rev().filter(|(_, key)| seen.insert(**key));
            last[number] = rows.map(|(row, _)| row).collect();
            last[number].reverse();
        }
    }
    last
}

impl Engine for ProbeFloor {
    fn prime(&mut self, workload: &Workload) -> Result<(), TrialError> {
        // Memory is given back, as it is where a store is dropped.
        self.table = HashTable::new();
        self.rows = Vec::new();
        for batch in workload.priming() {
            self.append_all(batch);
        }
        Ok(())
    }

    fn arrive(
        &mut self,
        workload: &Workload,
        number: usize,
        _ends_bundle: bool,
        _out: &mut Vec<Changelog>,
    ) -> Result<(), TrialError> {
        let batch = workload.arriving(number);
        match workload.cell().arrival {
            Arrival::Rejected => self.probe_all(batch),
            Arrival::Improving => self.copy_last(batch, number),
            Arrival::Fresh => self.append_all(batch),
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
        let encoder = EntryEncoder::new()?;
        let priming = workload.priming().iter().map(|batch| {
            let entries: BTreeMap<_, _> = encoder.encode(batch)?.into_iter().collect();
            Ok::<Entries, Box<dyn std::error::Error + Send + Sync>>(entries.into_iter().collect())
        });
        let priming = priming.collect::<Result<_, _>>()?;
        let mut steps = Vec::new();
        // Read once in a bundle; the last row of a key is its best, if rows improve.
        let mut bundle: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for number in 0..workload.different_batches() {
            let mut batch: BTreeMap<_, _> = encoder
                .encode(workload.arriving(number))?
                .into_iter()
                .collect();
            let new = batch.keys().filter(|key| !bundle.contains_key(*key));
            let reads = new.cloned().collect();
            bundle.append(&mut batch);
            let mut writes = Entries::new();
            if (number + 1).is_multiple_of(cell.bundle_batches()) {
                let entries = std::mem::take(&mut bundle);
                if cell.arrival != Arrival::Rejected {
                    writes = entries.into_iter().collect();
                }
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
}

impl EntryEncoder {
    fn new() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let schema = schema();
        let fields = schema.fields();
        Ok(Self {
            keys: RowLayout::new(&fields[..1], RowForm::Key).map_err(boxed)?,
            rows: RowLayout::new(fields, RowForm::Payload).map_err(boxed)?,
        })
    }

    fn encode(
        &self,
        batch: &RecordBatch,
    ) -> Result<Entries, Box<dyn std::error::Error + Send + Sync>> {
        let mut keys = Rows::new();
        self.keys
            .encode_into(&batch.columns()[..1], Select::All, &mut keys)
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

    use super::ProbeFloor;
    use crate::stores::Store;
    use crate::trial::cell::{Arrival, Cell, Emission};
    use crate::trial::engine::Engine;
    use crate::trial::workload::{Workload, keys_of, payloads_of, sorts_of};

    #[test]
    fn the_floor_in_memory_copies_once_per_key_and_bundle_and_keeps_every_winner() {
        for (emission, bundle) in [(Emission::Immediate, 1), (Emission::MiniBatch, 4)] {
            let cell = Cell {
                store: Store::Memory,
                keys: 64,
                payload_bytes: 8,
                arrival: Arrival::Improving,
                emission,
            };
            let workload = Workload::new(cell, 8).expect("a workload");
            let mut floor = ProbeFloor::new(&workload);
            // Each of the 64 keys is in every batch of 4,096 rows.
            let copies: usize = floor.copies.iter().map(Vec::len).sum();
            assert_eq!(copies, 64 * 8 / bundle, "{emission}");

            floor.prime(&workload).expect("no store fails");
            let mut winners: HashMap<u64, (i64, Vec<u8>)> = HashMap::new();
            for number in 0..8 {
                floor
                    .arrive(&workload, number, true, &mut Vec::new())
                    .expect("no store fails");
                let batch = workload.arriving(number);
                for (i, &key) in keys_of(batch).iter().enumerate() {
                    let row = (sorts_of(batch)[i], payloads_of(batch).value(i).to_vec());
                    winners.insert(key as u64, row);
                }
            }
            assert_eq!(floor.table.len(), 64);
            for (key, slot) in &floor.table {
                let row = &floor.rows[*slot as usize * 16..][..16];
                let (sort, payload) = &winners[key];
                assert_eq!(row, [&sort.to_le_bytes()[..], &payload[..]].concat());
            }
        }
    }
}
