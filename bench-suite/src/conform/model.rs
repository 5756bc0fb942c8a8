//! An obvious Top-N in the total order of floats, in which NaN is greatest and zeros of both signs
//! tie, and whose rows may expire: what a ranker has to answer where it departs from Flink by a decision.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DynComparator, Int64Array, RecordBatch, UInt32Array, make_comparator,
};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use arrow::error::ArrowError;
use rank_top1::RowKind;

use crate::conform::changelog::Changes;
use crate::golden::format::RankLine;

/// Why a recorded changelog may differ from the product's, and what the product's has to be then.
pub(crate) struct Excuse {
    /// Number in `golden/DECISIONS.md`.
    pub(crate) decision: u8,
    /// What the total order of floats gives.
    pub(crate) answer: Changes,
}

impl Excuse {
    /// The excuse of a job whose range is not 1..1, if it has a partition in whose order columns a
    /// NaN stands (decision 2) or, with ranks, zeros of both signs (3).
    ///
    /// All other partitions must be recorded as the total order has them, and every row that is
    /// recorded of the excused ones must have arrived; there is no excuse otherwise.
    pub(crate) fn find(
        line: &RankLine,
        columns: &[ArrayRef],
        recorded: &Changes,
    ) -> Result<Option<Self>, ArrowError> {
        if line.rank_range == [1, 1] {
            return Ok(None);
        }
        let Some(model) = Model::new(line, columns, None)? else {
            return Ok(None);
        };
        let decisions: Vec<Option<u8>> = (0..line.input.len())
            .map(|row| model.decision_of(model.partitions[row]))
            .collect();
        // A NaN is the first reason where both are there.
        let Some(decision) = decisions.iter().copied().flatten().min() else {
            return Ok(None);
        };
        let (answer, sources) = model.answer(recorded.schema())?;

        let mut plain = Vec::new();
        for change in 0..recorded.len() {
            let same = |row: &usize, of: &[usize]| {
                of.iter().all(|&column| {
                    recorded.column(column).slice(change, 1) == columns[column].slice(*row, 1)
                })
            };
            let mut rows = 0..line.input.len();
            let Some(row) = rows.find(|row| same(row, &model.partition_by)) else {
                return Ok(None);
            };
            let all: Vec<usize> = (0..columns.len()).collect();
            if decisions[row].is_none() {
                plain.push(change);
            } else if !(0..line.input.len()).any(|row| same(&row, &all)) {
                return Ok(None);
            }
        }
        let modelled = (0..sources.len()).filter(|&change| decisions[sources[change]].is_none());
        let modelled: Vec<usize> = modelled.collect();
        let agrees = recorded
            .select(&plain)?
            .difference(&answer.select(&modelled)?);
        Ok(agrees.is_none().then_some(Self { decision, answer }))
    }
}

/// How long rows live, and when each arrives.
pub(crate) struct Lifetimes {
    pub(crate) ttl_ms: i64,
    pub(crate) arrivals_ms: Vec<i64>,
}

/// A job whose order columns are all among the input's.
pub(crate) struct Model<'a> {
    line: &'a RankLine,
    columns: &'a [ArrayRef],
    /// Numbers of the partition columns.
    partition_by: Vec<usize>,
    /// Numbers of the order columns.
    order_by: Vec<usize>,
    /// Comparison of two input rows by each term of the order.
    terms: Vec<DynComparator>,
    /// The first row of each row's partition.
    partitions: Vec<usize>,
    lifetimes: Option<Lifetimes>,
}

/// A row that is held.
#[derive(Clone, Copy, PartialEq)]
struct Held {
    row: usize,
    write_ms: i64,
}

impl<'a> Model<'a> {
    pub(crate) fn new(
        line: &'a RankLine,
        columns: &'a [ArrayRef],
        lifetimes: Option<Lifetimes>,
    ) -> Result<Option<Self>, ArrowError> {
        let number = |name: &String| line.columns.iter().position(|column| column == name);
        let partition_by: Option<Vec<usize>> = line.partition_by.iter().map(number).collect();
        let order_by: Option<Vec<usize>> =
            line.order_by.iter().map(|term| number(&term.col)).collect();
        let (Some(partition_by), Some(order_by)) = (partition_by, order_by) else {
            return Ok(None);
        };
        let mut terms = Vec::new();
        for (term, &column) in line.order_by.iter().zip(&order_by) {
            let options = SortOptions {
                descending: !term.asc,
                nulls_first: term.nulls_first.unwrap_or(term.asc),
            };
            let plain = with_plain_floats(&columns[column]);
            terms.push(make_comparator(&plain, &plain, options)?);
        }
        let same_partition = |a: usize, b: usize| {
            let mut columns = partition_by.iter().map(|&column| &columns[column]);
            columns.all(|column| column.slice(a, 1) == column.slice(b, 1))
        };
        let partitions = (0..line.input.len())
            .map(|row| {
                (0..row)
                    .find(|&first| same_partition(first, row))
                    .unwrap_or(row)
            })
            .collect();
        Ok(Some(Self {
            line,
            columns,
            partition_by,
            order_by,
            terms,
            partitions,
            lifetimes,
        }))
    }

    /// Whether changes are told rank by rank: the form of wide ranges with ranks, and of Top-1.
    fn is_ranked(&self) -> bool {
        self.line.output_rank || self.line.rank_range != [1, self.line.rank_range[1].max(2)]
    }

    /// The decision that lets the answer for a partition differ from Flink's.
    fn decision_of(&self, partition: usize) -> Option<u8> {
        let mut decision = None;
        for &column in &self.order_by {
            let rows = (0..self.partitions.len()).filter(|&row| self.partitions[row] == partition);
            let floats = rows.filter_map(|row| float_at(&self.columns[column], row));
            let floats: Vec<f64> = floats.collect();
            let has_zero = |negative: bool| {
                let mut zeros = floats.iter().filter(|float| **float == 0.0);
                zeros.any(|zero| zero.is_sign_negative() == negative)
            };
            if floats.iter().any(|float| float.is_nan()) {
                return Some(2);
            }
            if self.is_ranked() && has_zero(true) && has_zero(false) {
                decision = Some(3);
            }
        }
        decision
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        self.terms
            .iter()
            .map(|term| term(a, b))
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// What of a partition is still there when a row arrives.
    fn live(&self, held: &[Held], row: usize) -> Vec<Held> {
        let Some(Lifetimes {
            ttl_ms,
            arrivals_ms,
        }) = &self.lifetimes
        else {
            return held.to_vec();
        };
        let live = |held: &&Held| held.write_ms + ttl_ms > arrivals_ms[row];
        held.iter().filter(live).copied().collect()
    }

    /// The changes in the columns of `schema`, and the input row that each shows.
    pub(crate) fn answer(&self, schema: SchemaRef) -> Result<(Changes, Vec<usize>), ArrowError> {
        let [start, end] = self.line.rank_range.map(|rank| rank as usize);
        let mut kept: Vec<Vec<Held>> = vec![Vec::new(); self.partitions.len()];
        let mut changes: Vec<(RowKind, usize, usize)> = Vec::new();
        for (row, &partition) in self.partitions.iter().enumerate() {
            let before = self.live(&kept[partition], row);
            let mut after = before.clone();
            let place = after
                .iter()
                .position(|held| self.compare(row, held.row).is_lt());
            let place = place.unwrap_or(after.len());
            if place >= end {
                continue;
            }
            let lifetimes = self.lifetimes.as_ref();
            let write_ms = lifetimes.map_or(0, |lifetimes| lifetimes.arrivals_ms[row]);
            after.insert(place, Held { row, write_ms });
            let gone = (after.len() > end).then(|| after.remove(end).row);
            // Rows that tie are one entry of Flink's state: it is written as a whole when a row comes to
            // it, and without ranks also when one goes.
            let written = [Some(row), gone.filter(|_| !self.is_ranked())];
            for held in &mut after {
                let ties = |row: usize| self.compare(row, held.row).is_eq();
                if written.into_iter().flatten().any(ties) {
                    held.write_ms = write_ms;
                }
            }
            let rows = |list: &[Held]| list.iter().map(|held| held.row).collect::<Vec<_>>();
            kept[partition].clone_from(&after);
            let (before, after) = (rows(&before), rows(&after));
            if !self.is_ranked() {
                changes.extend(gone.map(|gone| (RowKind::Delete, gone, 0)));
                changes.push((RowKind::Insert, row, 0));
                continue;
            }
            for rank in start..=after.len() {
                let new = after[rank - 1];
                match before.get(rank - 1) {
                    None => changes.push((RowKind::Insert, new, rank)),
                    Some(&old) if old != new => {
                        if self.line.update_before {
                            changes.push((RowKind::UpdateBefore, old, rank));
                        }
                        changes.push((RowKind::UpdateAfter, new, rank));
                    }
                    Some(_) => {}
                }
            }
        }
        let sources: Vec<usize> = changes.iter().map(|&(_, row, _)| row).collect();
        let indices: UInt32Array = sources.iter().map(|&row| row as u32).collect();
        let mut columns = self
            .columns
            .iter()
            .map(|column| take(column, &indices, None))
            .collect::<Result<Vec<_>, _>>()?;
        if self.line.output_rank {
            let ranks: Int64Array = changes.iter().map(|&(_, _, rank)| rank as i64).collect();
            columns.push(Arc::new(ranks));
        }
        let kinds = changes.into_iter().map(|(kind, _, _)| kind).collect();
        let rows = RecordBatch::try_new(schema, columns)?;
        Ok((Changes::new(kinds, rows), sources))
    }
}

fn float_at(column: &ArrayRef, row: usize) -> Option<f64> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Float32 => Some(column.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Some(column.as_primitive::<Float64Type>().value(row)),
        _ => None,
    }
}

/// Floats with one zero and one NaN, whose order by bits is then the total order that is meant.
fn with_plain_floats(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let floats = column.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Float32Type>(|float| {
                if float.is_nan() {
                    f32::NAN
                } else {
                    float + 0.0
                }
            }))
        }
        DataType::Float64 => {
            let floats = column.as_primitive::<Float64Type>();
            Arc::new(floats.unary::<_, Float64Type>(|float| {
                if float.is_nan() {
                    f64::NAN
                } else {
                    float + 0.0
                }
            }))
        }
        _ => column.clone(),
    }
}
