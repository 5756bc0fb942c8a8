//! The rows of a cell.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use rank_top1::{Emit, OrderBy, RankSpec, SpecError};

use crate::seed::{Seed, scramble};
use crate::trial::cell::{Arrival, Cell, Emission};

/// Different payload columns; batches take them in turn, so that long workloads fit in memory.
const PAYLOADS: usize = 8;
/// Different batches of rejected rows; they can be replayed, for they change nothing.
const REJECTED_BATCHES: usize = 32;
/// The sort value of the winners that reject what arrives.
const REJECTING: i64 = 1 << 40;

/// The rows that give every key a winner, and the rows that arrive then. Seeded: the same on every
/// machine.
#[derive(Clone, Debug)]
pub struct Workload {
    cell: Cell,
    priming: Vec<RecordBatch>,
    arriving: Vec<RecordBatch>,
}

impl Workload {
    /// At least `batches` arriving batches of [`Cell::BATCH_ROWS`] rows.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] never, unless the columns do not fit their schema.
    pub fn new(cell: Cell, batches: usize) -> Result<Self, ArrowError> {
        let mut seed = Seed::of_name(&cell.to_string());
        let payloads: Vec<ArrayRef> = (0..PAYLOADS)
            .map(|_| payloads(cell.payload_bytes, &mut seed))
            .collect();
        let primed_sort = if cell.arrival == Arrival::Rejected {
            REJECTING
        } else {
            0
        };
        let priming = (0..cell.keys.div_ceil(Cell::BATCH_ROWS))
            .map(|batch| {
                let first = batch * Cell::BATCH_ROWS;
                let last = cell.keys.min(first + Cell::BATCH_ROWS);
                let keys: Int64Array = (first..last).map(key).collect();
                let sorts = Int64Array::from_value(primed_sort, last - first);
                batch_of(keys, sorts, &payloads[batch % PAYLOADS])
            })
            .collect::<Result<_, _>>()?;
        let different = if cell.arrival == Arrival::Rejected {
            REJECTED_BATCHES.min(batches)
        } else {
            batches
        };
        let arriving = (0..different)
            .map(|batch| {
                let numbers = batch * Cell::BATCH_ROWS..(batch + 1) * Cell::BATCH_ROWS;
                let keys: Int64Array = numbers
                    .clone()
                    .map(|number| match cell.arrival {
                        Arrival::Rejected | Arrival::Improving => {
                            key(seed.below(cell.keys as u64) as usize)
                        }
                        Arrival::Fresh => key(cell.keys + number),
                    })
                    .collect();
                let sorts: Int64Array = numbers
                    .map(|number| match cell.arrival {
                        Arrival::Rejected => seed.below(REJECTING as u64) as i64,
                        Arrival::Improving | Arrival::Fresh => 1 + number as i64,
                    })
                    .collect();
                batch_of(keys, sorts, &payloads[batch % PAYLOADS])
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            cell,
            priming,
            arriving,
        })
    }

    /// The cell.
    #[must_use]
    pub fn cell(&self) -> Cell {
        self.cell
    }

    /// The rows that give every key a winner.
    #[must_use]
    pub fn priming(&self) -> &[RecordBatch] {
        &self.priming
    }

    /// The arriving batch `number`; the batches start again after the last.
    #[must_use]
    pub fn arriving(&self, number: usize) -> &RecordBatch {
        &self.arriving[number % self.arriving.len()]
    }

    /// How many arriving batches differ.
    #[must_use]
    pub fn different_batches(&self) -> usize {
        self.arriving.len()
    }

    /// Changes that the first `batches` arriving batches cause, in whole bundles.
    #[must_use]
    pub fn expected_changes(&self, batches: usize) -> u64 {
        let rows = (batches * Cell::BATCH_ROWS) as u64;
        match (self.cell.arrival, self.cell.emission) {
            (Arrival::Rejected, _) => 0,
            (Arrival::Fresh, _) => rows,
            (Arrival::Improving, Emission::Immediate) => 2 * rows,
            (Arrival::Improving, Emission::MiniBatch) => {
                let changed_keys = (0..batches).step_by(Cell::BUNDLE_BATCHES).map(|first| {
                    let bundle = first..batches.min(first + Cell::BUNDLE_BATCHES);
                    let keys: HashSet<i64> = bundle
                        .flat_map(|batch| keys_of(self.arriving(batch)).to_vec())
                        .collect();
                    keys.len() as u64
                });
                2 * changed_keys.sum::<u64>()
            }
        }
    }

    /// The ranking of the cell.
    ///
    /// # Errors
    ///
    /// [`SpecError`] never, unless the columns cannot be ranked any more.
    pub fn spec(&self) -> Result<RankSpec, SpecError> {
        RankSpec::builder(schema())
            .partition_by(["k"])
            .order_by([OrderBy::desc("v")])
            .emit(match self.cell.emission {
                Emission::Immediate => Emit::Immediate,
                Emission::MiniBatch => Emit::MiniBatch,
            })
            .build()
    }
}

/// Partition key, sort value and payload.
#[must_use]
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
        Field::new("p", DataType::Binary, true),
    ]))
}

/// The keys of a batch.
#[must_use]
pub fn keys_of(batch: &RecordBatch) -> &[i64] {
    batch.column(0).as_primitive::<Int64Type>().values()
}

/// The sort values of a batch.
#[must_use]
pub fn sorts_of(batch: &RecordBatch) -> &[i64] {
    batch.column(1).as_primitive::<Int64Type>().values()
}

/// The payloads of a batch.
#[must_use]
pub fn payloads_of(batch: &RecordBatch) -> &BinaryArray {
    batch.column(2).as_binary()
}

/// Key number `number`: scattered, so that neighbours are not neighbours in a store.
fn key(number: usize) -> i64 {
    scramble(number as u64) as i64
}

fn payloads(bytes: usize, seed: &mut Seed) -> ArrayRef {
    let payload = |_| {
        let words = (0..bytes.div_ceil(8)).flat_map(|_| seed.next_u64().to_le_bytes());
        words.take(bytes).collect::<Vec<u8>>()
    };
    let payloads: Vec<Vec<u8>> = (0..Cell::BATCH_ROWS).map(payload).collect();
    Arc::new(BinaryArray::from_iter_values(payloads))
}

fn batch_of(
    keys: Int64Array,
    sorts: Int64Array,
    payloads: &ArrayRef,
) -> Result<RecordBatch, ArrowError> {
    use arrow::array::Array as _;
    let payloads = payloads.slice(0, keys.len());
    RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(sorts), payloads])
}

/// Boxes an error of making a workload.
pub(crate) fn boxed(error: impl Error + Send + Sync + 'static) -> Box<dyn Error + Send + Sync> {
    Box::new(error)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Workload, keys_of, sorts_of};
    use crate::stores::Store;
    use crate::trial::cell::{Arrival, Cell, Emission};

    fn workload(arrival: Arrival, emission: Emission) -> Workload {
        let cell = Cell {
            store: Store::Memory,
            keys: 5_000,
            payload_bytes: 8,
            arrival,
            emission,
        };
        Workload::new(cell, 8).expect("a workload")
    }

    /// Changes that an obvious model sees: rows that better their key, or keys that a bundle does.
    fn modelled_changes(workload: &Workload) -> u64 {
        let mut winners: HashMap<i64, i64> = HashMap::new();
        for batch in workload.priming() {
            winners.extend(
                keys_of(batch)
                    .iter()
                    .copied()
                    .zip(sorts_of(batch).iter().copied()),
            );
        }
        let mut changes = 0;
        for first in (0..8).step_by(workload.cell().bundle_batches()) {
            let before = winners.clone();
            for number in first..first + workload.cell().bundle_batches() {
                let batch = workload.arriving(number);
                for (&key, &sort) in keys_of(batch).iter().zip(sorts_of(batch)) {
                    let winner = winners.get(&key).copied();
                    if winner.is_none_or(|winner| sort > winner) {
                        winners.insert(key, sort);
                        if workload.cell().emission == Emission::Immediate {
                            changes += if winner.is_some() { 2 } else { 1 };
                        }
                    }
                }
            }
            if workload.cell().emission == Emission::MiniBatch {
                for (key, winner) in &winners {
                    changes += match before.get(key) {
                        None => 1,
                        Some(old) if old != winner => 2,
                        Some(_) => 0,
                    };
                }
            }
        }
        changes
    }

    #[test]
    fn the_expected_changes_are_those_of_a_model() {
        for arrival in [Arrival::Rejected, Arrival::Improving, Arrival::Fresh] {
            for emission in [Emission::Immediate, Emission::MiniBatch] {
                let workload = workload(arrival, emission);
                assert_eq!(
                    workload.expected_changes(8),
                    modelled_changes(&workload),
                    "{arrival} {emission}"
                );
            }
        }
    }

    #[test]
    fn a_workload_is_the_same_every_time() {
        let [a, b] = [(), ()].map(|()| workload(Arrival::Improving, Emission::Immediate));
        assert_eq!(a.priming(), b.priming());
        assert_eq!(a.arriving(3), b.arriving(3));
    }
}
