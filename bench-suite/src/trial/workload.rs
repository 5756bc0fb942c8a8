//! The rows of a cell.

use std::borrow::Cow;
use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use rank_top1::{Emit, OrderBy, RankSpec, SpecError};

use crate::seed::{Seed, scramble};
use crate::trial::cell::{Arrival, Cell, Emission, KeyForm, OrderForm, Spread};

/// Different payload columns; batches take them in turn, so that long workloads fit in memory.
const PAYLOADS: usize = 8;
/// Different batches of rejected rows; they can be replayed, for they change nothing.
const REJECTED_BATCHES: usize = 32;
/// The sort value of the winners that reject what arrives.
const REJECTING: i64 = 1 << 40;
/// One row in so many is better, where arrivals are mixed.
const MIXED_PART: u64 = 10;
/// One value in so many is NULL, where they are nullable.
const NULL_PART: u64 = 8;

/// A batch with what a floor or a check would otherwise have to find out of its rows.
#[derive(Clone, Debug)]
pub struct KeyedBatch {
    /// The rows: key columns, sort columns, payload.
    pub batch: RecordBatch,
    /// The number of each row's key.
    pub keys: Vec<u32>,
    /// The rows that take the place of a winner, ascending.
    pub improving: Vec<u32>,
}

/// The rows that give every key a winner, and the rows that arrive then. Seeded: the same on every
/// machine.
#[derive(Clone, Debug)]
pub struct Workload {
    cell: Cell,
    priming: Vec<KeyedBatch>,
    arriving: Vec<KeyedBatch>,
}

impl Workload {
    /// At least `batches` arriving batches.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] never, unless the columns do not fit their schema.
    pub fn new(cell: Cell, batches: usize) -> Result<Self, ArrowError> {
        let mut seed = Seed::of_name(&cell.to_string());
        let payloads: Vec<ArrayRef> = (0..PAYLOADS).map(|_| payloads(&cell, &mut seed)).collect();
        let primed_sort = match cell.arrival {
            Arrival::Rejected | Arrival::Mixed => REJECTING,
            Arrival::Improving | Arrival::Fresh => 0,
        };
        let priming = (0..cell.keys.div_ceil(cell.batch_rows))
            .map(|batch| {
                let first = batch * cell.batch_rows;
                let last = cell.keys.min(first + cell.batch_rows);
                let keys = (first..last).map(|key| key as u32).collect::<Vec<_>>();
                let sorts = vec![Some(primed_sort); keys.len()];
                let batch = batch_of(&cell, &keys, &sorts, &payloads[batch % PAYLOADS])?;
                Ok::<_, ArrowError>(KeyedBatch {
                    batch,
                    keys,
                    improving: Vec::new(),
                })
            })
            .collect::<Result<_, _>>()?;
        let different = match cell.arrival {
            Arrival::Rejected => REJECTED_BATCHES.min(batches),
            _ => batches,
        };
        let arriving = (0..different)
            .map(|batch| {
                let first = batch * cell.batch_rows;
                let keys = keys_of_batch(&cell, first, &mut seed);
                let (sorts, improving) = sorts_of_batch(&cell, first, &mut seed);
                let batch = batch_of(&cell, &keys, &sorts, &payloads[batch % PAYLOADS])?;
                Ok::<_, ArrowError>(KeyedBatch {
                    batch,
                    keys,
                    improving,
                })
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
    pub fn priming(&self) -> &[KeyedBatch] {
        &self.priming
    }

    /// The arriving batch `number`; the batches start again after the last.
    #[must_use]
    pub fn arriving(&self, number: usize) -> &KeyedBatch {
        &self.arriving[number % self.arriving.len()]
    }

    /// The arriving batch `number`; when batches start again, the rows that are better are better still.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] never, unless the columns do not fit their schema.
    pub fn rising(&self, number: usize) -> Result<Cow<'_, KeyedBatch>, ArrowError> {
        let rows = self.arriving(number);
        let round = number / self.arriving.len();
        if round == 0 || rows.improving.is_empty() {
            return Ok(Cow::Borrowed(rows));
        }
        // More than what the sort values of a round span.
        let rise = (round * (self.arriving.len() + 1) * self.cell.batch_rows) as i64;
        let sorts = rows.batch.schema().index_of("v")?;
        let column = rows.batch.column(sorts).as_primitive::<Int64Type>();
        let mut values = column.values().to_vec();
        for &row in &rows.improving {
            values[row as usize] += rise;
        }
        let mut columns = rows.batch.columns().to_vec();
        columns[sorts] = Arc::new(Int64Array::new(values.into(), column.nulls().cloned()));
        Ok(Cow::Owned(KeyedBatch {
            batch: RecordBatch::try_new(rows.batch.schema(), columns)?,
            ..rows.clone()
        }))
    }

    /// How many arriving batches differ.
    #[must_use]
    pub fn different_batches(&self) -> usize {
        self.arriving.len()
    }

    /// Changes that the first `batches` arriving batches cause, in whole bundles.
    #[must_use]
    pub fn expected_changes(&self, batches: usize) -> u64 {
        if self.cell.arrival == Arrival::Fresh {
            return (batches * self.cell.batch_rows) as u64;
        }
        let bundles = (0..batches)
            .step_by(self.cell.bundle_batches())
            .map(|first| {
                let bundle = first..batches.min(first + self.cell.bundle_batches());
                let rows = bundle.map(|number| self.arriving(number));
                match self.cell.emission {
                    Emission::Immediate => rows.map(|rows| rows.improving.len()).sum::<usize>(),
                    Emission::MiniBatch => {
                        let keys = rows.flat_map(|rows| {
                            rows.improving.iter().map(|&row| rows.keys[row as usize])
                        });
                        keys.collect::<HashSet<u32>>().len()
                    }
                }
            });
        2 * bundles.sum::<usize>() as u64
    }

    /// The ranking of the cell.
    ///
    /// # Errors
    ///
    /// [`SpecError`] never, unless the columns cannot be ranked any more.
    pub fn spec(&self) -> Result<RankSpec, SpecError> {
        let keys: &[&str] = match self.cell.key {
            KeyForm::Bigint => &["k"],
            KeyForm::Text => &["t"],
            KeyForm::Composite => &["k", "t"],
        };
        let order = match self.cell.order {
            OrderForm::Single => vec![OrderBy::desc("v")],
            OrderForm::Double => vec![OrderBy::desc("v"), OrderBy::asc("w")],
        };
        let builder = RankSpec::builder(schema(&self.cell))
            .partition_by(keys.iter().copied())
            .order_by(order)
            .emit(match self.cell.emission {
                Emission::Immediate => Emit::Immediate,
                Emission::MiniBatch => Emit::MiniBatch,
            });
        if self.cell.rank {
            builder.output_rank("rank").build()
        } else {
            builder.build()
        }
    }
}

/// Numbers of the keys of the batch that begins with row `first`.
fn keys_of_batch(cell: &Cell, first: usize, seed: &mut Seed) -> Vec<u32> {
    let rows = first..first + cell.batch_rows;
    match (cell.arrival, cell.spread) {
        (Arrival::Fresh, _) => rows.map(|row| (cell.keys + row) as u32).collect(),
        (_, Spread::Repeated) => rows.map(|_| seed.below(cell.keys as u64) as u32).collect(),
        (_, Spread::OncePerBatch) => {
            // Steps that have no divisor in common with the number of keys pass every key before one again.
            let step = (0..)
                .map(|i| cell.keys / 3 * 2 + 1 + i)
                .find(|&step| greatest_common_divisor(step, cell.keys) == 1)
                .expect("the next prime number is such a step");
            let start = seed.below(cell.keys as u64) as usize;
            (0..cell.batch_rows)
                .map(|row| ((start + row * step) % cell.keys) as u32)
                .collect()
        }
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// Sort values of the batch that begins with row `first`, and which rows are better than the winner.
fn sorts_of_batch(cell: &Cell, first: usize, seed: &mut Seed) -> (Vec<Option<i64>>, Vec<u32>) {
    let mut improving = Vec::new();
    let sorts = (0..cell.batch_rows).map(|row| {
        let better = match cell.arrival {
            Arrival::Rejected => false,
            Arrival::Improving | Arrival::Fresh => true,
            Arrival::Mixed => seed.below(MIXED_PART) == 0,
        };
        if !better {
            let is_null = cell.nullable && seed.below(NULL_PART) == 0;
            return (!is_null).then(|| seed.below(REJECTING as u64) as i64);
        }
        if cell.arrival != Arrival::Fresh {
            improving.push(row as u32);
        }
        let rising = 1 + (first + row) as i64;
        Some(match cell.arrival {
            Arrival::Mixed => REJECTING + rising,
            _ => rising,
        })
    });
    let sorts = sorts.collect();
    (sorts, improving)
}

/// Key columns, sort columns and payload.
#[must_use]
pub fn schema(cell: &Cell) -> SchemaRef {
    let mut fields = Vec::new();
    if cell.key != KeyForm::Text {
        fields.push(Field::new("k", DataType::Int64, true));
    }
    if cell.key != KeyForm::Bigint {
        fields.push(Field::new("t", DataType::Utf8, true));
    }
    fields.push(Field::new("v", DataType::Int64, true));
    if cell.order == OrderForm::Double {
        fields.push(Field::new("w", DataType::Int64, true));
    }
    fields.push(Field::new("p", DataType::Binary, true));
    Arc::new(Schema::new(fields))
}

/// Columns of the key.
pub(crate) fn key_columns(cell: &Cell) -> usize {
    match cell.key {
        KeyForm::Bigint | KeyForm::Text => 1,
        KeyForm::Composite => 2,
    }
}

/// Key number `number`: scattered, so that neighbours are not neighbours in a store.
fn key(number: u32) -> i64 {
    scramble(number.into()) as i64
}

fn payloads(cell: &Cell, seed: &mut Seed) -> ArrayRef {
    let payloads = (0..cell.batch_rows).map(|_| {
        let is_null = cell.nullable && seed.below(NULL_PART) == 0;
        let words = (0..cell.payload_bytes.div_ceil(8)).flat_map(|_| seed.next_u64().to_le_bytes());
        let payload = words.take(cell.payload_bytes).collect::<Vec<u8>>();
        (!is_null).then_some(payload)
    });
    Arc::new(BinaryArray::from_iter(payloads))
}

fn batch_of(
    cell: &Cell,
    keys: &[u32],
    sorts: &[Option<i64>],
    payloads: &ArrayRef,
) -> Result<RecordBatch, ArrowError> {
    let mut columns: Vec<ArrayRef> = Vec::new();
    if cell.key != KeyForm::Text {
        let keys = keys.iter().map(|&number| key(number));
        columns.push(Arc::new(Int64Array::from_iter_values(keys)));
    }
    if cell.key != KeyForm::Bigint {
        let keys = keys.iter().map(|&number| format!("{:016x}", key(number)));
        columns.push(Arc::new(StringArray::from_iter_values(keys)));
    }
    match cell.order {
        OrderForm::Single => columns.push(Arc::new(sorts.iter().copied().collect::<Int64Array>())),
        OrderForm::Double => {
            // What the first column leaves equal the second one decides.
            let first = sorts.iter().map(|sort| sort.map(|sort| sort >> 8));
            let second = sorts.iter().map(|sort| sort.map(|sort| 255 - (sort & 255)));
            columns.push(Arc::new(first.collect::<Int64Array>()));
            columns.push(Arc::new(second.collect::<Int64Array>()));
        }
    }
    columns.push(payloads.slice(0, keys.len()));
    RecordBatch::try_new(schema(cell), columns)
}

/// Boxes an error of making a workload.
pub(crate) fn boxed(error: impl Error + Send + Sync + 'static) -> Box<dyn Error + Send + Sync> {
    Box::new(error)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::{Array, AsArray, Int64Type, Workload};
    use crate::stores::Store;
    use crate::trial::cell::{Arrival, Cell, Emission, KeyForm, OrderForm, Spread};

    const ARRIVALS: [Arrival; 4] = [
        Arrival::Rejected,
        Arrival::Improving,
        Arrival::Fresh,
        Arrival::Mixed,
    ];

    fn workload(arrival: Arrival, emission: Emission) -> Workload {
        let cell = Cell {
            keys: 5_000,
            emission,
            nullable: true,
            ..Cell::plain(Store::Memory, arrival)
        };
        Workload::new(cell, 8).expect("a workload")
    }

    /// Changes that an obvious model sees: rows that better their key, or keys that a bundle does.
    fn modelled_changes(workload: &Workload) -> u64 {
        let rows_of = |rows: &super::KeyedBatch| {
            let keys = rows.batch.column(0).as_primitive::<Int64Type>().clone();
            let sorts = rows.batch.column(1).as_primitive::<Int64Type>().clone();
            (0..keys.len())
                .map(|row| {
                    (
                        keys.value(row),
                        sorts.is_valid(row).then(|| sorts.value(row)),
                    )
                })
                .collect::<Vec<_>>()
        };
        let mut winners: HashMap<i64, Option<i64>> = HashMap::new();
        for rows in workload.priming() {
            winners.extend(rows_of(rows));
        }
        let mut changes = 0;
        for first in (0..8).step_by(workload.cell().bundle_batches()) {
            let before = winners.clone();
            for number in first..first + workload.cell().bundle_batches() {
                for (key, sort) in rows_of(workload.arriving(number)) {
                    let winner = winners.get(&key).copied();
                    // NULL is the least, and so is None.
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
        for arrival in ARRIVALS {
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
        let [a, b] = [(), ()].map(|()| workload(Arrival::Mixed, Emission::Immediate));
        assert_eq!(a.priming()[0].batch, b.priming()[0].batch);
        assert_eq!(a.arriving(3).batch, b.arriving(3).batch);
    }

    #[test]
    fn each_row_of_a_batch_can_have_a_key_of_its_own() {
        for keys in [4_096, 65_536, 1_000_000] {
            let cell = Cell {
                keys,
                spread: Spread::OncePerBatch,
                ..Cell::plain(Store::Memory, Arrival::Improving)
            };
            let workload = Workload::new(cell, 2).expect("a workload");
            for number in 0..2 {
                let of_batch: HashSet<&u32> = workload.arriving(number).keys.iter().collect();
                assert_eq!(of_batch.len(), cell.batch_rows);
            }
        }
    }

    #[test]
    fn keys_and_orders_have_columns_of_their_own() {
        for (key, order, columns) in [
            (KeyForm::Bigint, OrderForm::Single, "k v p"),
            (KeyForm::Text, OrderForm::Double, "t v w p"),
            (KeyForm::Composite, OrderForm::Single, "k t v p"),
        ] {
            let cell = Cell {
                key,
                order,
                ..Cell::plain(Store::Memory, Arrival::Rejected)
            };
            let workload = Workload::new(cell, 1).expect("a workload");
            let schema = workload.arriving(0).batch.schema();
            let names: Vec<&str> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            assert_eq!(names.join(" "), columns);
            workload.spec().expect("it can be ranked");
        }
    }
}
