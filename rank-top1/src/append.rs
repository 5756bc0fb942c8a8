//! The general ranker over inserts: any range of ranks, with a constant end or one per partition.
//!
//! A partition keeps its rows from rank 1 to the end of the range in order. A bundle works on
//! copies of the lists that it changes, whose rows are shared with the originals, and puts them back
//! when it closes.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int8Type, Int16Type, Int32Type, Int64Type};
use state_codec::{KeyedState, Reservation, Rows, Select, Slot, SortKey};

use crate::base::Base;
use crate::bundle::Changes;
use crate::changelog::{Changelog, RowKind};
use crate::error::{BatchError, RankError};
use crate::input::Input;
use crate::ranked::{RankedRow, RankedRows};
use crate::spec::{Emit, RankEnd, RankSpec, Ties};

/// A partition that a bundle has changed.
#[derive(Debug)]
struct Change {
    /// Its rows when the bundle began.
    before: RankedRows,
    after: RankedRows,
}

/// What is emitted, in order.
#[derive(Debug, Default)]
struct Log {
    kinds: Vec<RowKind>,
    rows: Vec<RankedRow>,
    ranks: Vec<i64>,
}

impl Log {
    fn push(&mut self, kind: RowKind, row: &RankedRow, rank: u64) {
        self.kinds.push(kind);
        self.rows.push(row.clone());
        self.ranks
            .push(i64::try_from(rank).expect("a partition keeps fewer than 2^63 rows"));
    }

    fn clear(&mut self) {
        self.kinds.clear();
        self.rows.clear();
        self.ranks.clear();
    }

    /// What is allocated, but for the rows that others share.
    fn allocated_bytes(&self) -> usize {
        self.kinds.capacity()
            + self.rows.capacity() * size_of::<RankedRow>()
            + self.ranks.capacity() * size_of::<i64>()
    }
}

/// When the partitions of a running mini-batch were first touched, by slot. Kept only where rows expire,
/// for that decides which of them the mini-batch finds.
#[derive(Debug, Default)]
struct FirstTouch {
    times_ms: Vec<i64>,
}

impl FirstTouch {
    /// No row came at this time: the clock would be unset.
    const UNTOUCHED: i64 = i64::MIN;

    fn touch(&mut self, slots: &[Slot], now_ms: i64) {
        for slot in slots {
            if slot.index() >= self.times_ms.len() {
                self.times_ms.resize(slot.index() + 1, Self::UNTOUCHED);
            }
            let time_ms = &mut self.times_ms[slot.index()];
            if *time_ms == Self::UNTOUCHED {
                *time_ms = now_ms;
            }
        }
    }

    fn time_ms(&self, slot: Slot) -> Option<i64> {
        let time_ms = self.times_ms.get(slot.index()).copied();
        time_ms.filter(|&time_ms| time_ms != Self::UNTOUCHED)
    }

    fn clear(&mut self, touched: &[Slot]) {
        for slot in touched {
            if let Some(time_ms) = self.times_ms.get_mut(slot.index()) {
                *time_ms = Self::UNTOUCHED;
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct AppendRanker<S> {
    pub(crate) base: Base<S>,
    first_touch: FirstTouch,
    input: Input,
    slots: Vec<Slot>,
    /// Rows that no partition has refused as it is in state, and their payload.
    admitted: Vec<u32>,
    payload: Rows,
    /// By row of the batch, if the rank end is a column.
    rank_ends: Option<Int64Array>,
    changes: Changes<Change>,
    /// Heap bytes of the lists in `changes`, those that others share included.
    change_bytes: usize,
    log: Log,
}

impl<S: KeyedState<RankedRows>> AppendRanker<S> {
    pub(crate) fn new(spec: RankSpec, state: S, reservation: Reservation) -> Self {
        Self {
            base: Base::new(spec, state, reservation),
            first_touch: FirstTouch::default(),
            input: Input::default(),
            slots: Vec::new(),
            admitted: Vec::new(),
            payload: Rows::new(),
            rank_ends: None,
            changes: Changes::default(),
            change_bytes: 0,
            log: Log::default(),
        }
    }

    pub(crate) fn push(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<Option<Changelog>, RankError<S::Error>> {
        self.base.check(batch)?;
        let pushed = self.push_checked(batch);
        self.base.batch_pushed(batch, &pushed);
        self.input.clear();
        self.rank_ends = None;
        self.settle_account();
        pushed
    }

    fn push_checked(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<Option<Changelog>, RankError<S::Error>> {
        self.input.encode(&self.base.spec, batch)?;
        self.rank_ends = self
            .base
            .spec
            .rank_end_column
            .map(|column| widened(batch.column(column)));
        self.base
            .state
            .resolve(&self.input.keys, &mut self.slots)
            .map_err(RankError::State)?;
        let admitted = self.admit(batch);
        if self.base.spec.emit == Emit::MiniBatch {
            if let Err(refused) = admitted.and_then(|()| self.reserve_bundle()) {
                if !self.base.in_bundle {
                    self.forget_bundle();
                    self.base.state.abandon_bundle();
                }
                return Err(refused);
            }
            self.base.in_bundle = true;
            self.base.metrics.accepted += self.walk();
            self.base.metrics.rank_end_mismatches += self.mismatches();
            return Ok(None);
        }
        let (mut accepted, mut mismatches) = (0, 0);
        let closed = admitted.and_then(|()| {
            accepted = self.walk();
            mismatches = self.mismatches();
            self.close()
        });
        if closed.is_ok() || self.base.unwritten.is_some() {
            self.base.metrics.accepted += accepted;
            self.base.metrics.rank_end_mismatches += mismatches;
        } else {
            self.forget_bundle();
            self.base.state.abandon_bundle();
        }
        closed
    }

    pub(crate) fn flush(&mut self) -> Result<Option<Changelog>, RankError<S::Error>> {
        let flushed = self.close();
        self.settle_account();
        flushed
    }

    fn close(&mut self) -> Result<Option<Changelog>, RankError<S::Error>> {
        if self.base.unwritten.is_none() && !self.changes.is_empty() {
            self.base.unwritten = self.settle()?;
        }
        self.base.state.end_bundle().map_err(RankError::Write)?;
        self.forget_bundle();
        Ok(self.base.bundle_closed())
    }

    pub(crate) fn abandon(&mut self) {
        if self.base.unwritten.is_none() {
            self.forget_bundle();
            self.base.state.abandon_bundle();
            self.settle_account();
        }
    }

    /// Notes what the batch touches, and charges for all that its admitted rows may add to the mini-batch.
    fn reserve_bundle(&mut self) -> Result<(), RankError<S::Error>> {
        let mut growth_bytes = 0;
        let mut new = HashSet::new();
        for (&row, bytes) in self.admitted.iter().zip(self.payload.iter()) {
            let slot = self.slots[row as usize];
            let key = self.input.sort_keys.get(row as usize);
            // A list may double to take a row, and both its copies may leave their inline place.
            growth_bytes += RankedRow::bytes_needed(bytes, key) + 4 * size_of::<RankedRow>();
            if self.changes.position(slot).is_none() && new.insert(slot) {
                let stored = self.base.state.get(slot).map_or(0, RankedRows::heap_bytes);
                growth_bytes += 2 * stored + 2 * size_of::<Change>();
            }
        }
        let touched = self.changes.touch(&self.slots);
        let held_bytes = self.held_bytes();
        self.base
            .reservation
            .try_resize(held_bytes + growth_bytes)
            .inspect_err(|_| self.changes.untouch(touched))?;
        if self.base.spec.ttl_ms.is_some() {
            self.first_touch
                .touch(&self.slots, self.base.clock.now_ms());
        }
        Ok(())
    }

    /// What is allocated here.
    fn held_bytes(&self) -> usize {
        self.input.allocated_bytes()
            + self.payload.allocated_bytes()
            + (self.slots.capacity() + self.admitted.capacity()) * size_of::<u32>()
            + self.changes.allocated_bytes()
            + self.change_bytes
            + self.first_touch.times_ms.capacity() * size_of::<i64>()
            + self.log.allocated_bytes()
    }

    /// Charges what is held from one call to the next. Buffers that the budget has no room for are given
    /// back.
    fn settle_account(&mut self) {
        if self.base.charge(self.held_bytes()) {
            return;
        }
        self.input = Input::default();
        self.slots = Vec::new();
        self.admitted = Vec::new();
        self.payload = Rows::new();
        self.changes.shrink_to_fit();
        if self.base.unwritten.is_none() && !self.base.in_bundle {
            self.first_touch = FirstTouch::default();
            self.log = Log::default();
        }
        self.base.charge_rest(self.held_bytes());
    }

    /// When the partition was first touched in this bundle: now, unless a batch before did.
    fn touched_ms(&self, slot: Slot) -> i64 {
        let before = self.first_touch.time_ms(slot);
        before.unwrap_or(self.base.clock.now_ms())
    }

    /// Collects and encodes the rows that their partition, as it is in state, would keep. Fails
    /// before anything has changed.
    fn admit(&mut self, batch: &RecordBatch) -> Result<(), RankError<S::Error>> {
        self.check_rank_ends()?;
        let all = !self.base.spec.losers_stay_losers();
        self.admitted.clear();
        for (row, &slot) in self.slots.iter().enumerate() {
            let key = self.input.sort_keys.get(row);
            if all
                || self
                    .base
                    .state
                    .get(slot)
                    .is_none_or(|kept| accepts(&self.base.spec, kept, key, self.touched_ms(slot)))
            {
                self.admitted.push(row as u32);
            }
        }
        self.payload.clear();
        if self.admitted.is_empty() {
            return Ok(());
        }
        let select = Select::Indices(&self.admitted);
        Ok(self
            .base
            .spec
            .layout
            .encode_into(batch.columns(), select, &mut self.payload)?)
    }

    /// What a partition keeps at this point of the bundle.
    fn kept(&self, slot: Slot) -> Option<&RankedRows> {
        match self.changes.position(slot) {
            Some(position) => Some(&self.changes.as_slice()[position].after),
            None => self.base.state.get(slot),
        }
    }

    /// The first row of a new partition has to bring a rank end.
    fn check_rank_ends(&self) -> Result<(), BatchError> {
        let (Some(rank_ends), Some(column)) = (&self.rank_ends, self.base.spec.rank_end_column)
        else {
            return Ok(());
        };
        let mut new = HashSet::new();
        for (row, &slot) in self.slots.iter().enumerate() {
            if self.kept(slot).is_none() && new.insert(slot) && rank_end(rank_ends, row).is_none() {
                return Err(BatchError::RankEnd {
                    column: self.base.spec.schema.field(column).name().clone(),
                    row,
                    found: rank_ends.is_valid(row).then(|| rank_ends.value(row)),
                });
            }
        }
        Ok(())
    }

    /// Rows of the batch whose rank end is not that of their partition.
    fn mismatches(&self) -> u64 {
        let Some(rank_ends) = &self.rank_ends else {
            return 0;
        };
        let differs = |(row, &slot): (usize, &Slot)| {
            self.kept(slot)
                .is_some_and(|kept| rank_end(rank_ends, row) != Some(kept.rank_end))
        };
        self.slots
            .iter()
            .enumerate()
            .filter(|&row| differs(row))
            .count() as u64
    }

    /// Takes the admitted rows into the lists of their partitions, in arrival order. Returns how many
    /// were taken.
    fn walk(&mut self) -> u64 {
        let now_ms = self.base.clock.now_ms();
        let mut accepted = 0;
        let Self {
            base: Base { spec, state, .. },
            input,
            slots,
            admitted,
            payload,
            changes,
            change_bytes,
            first_touch,
            log,
            rank_ends,
            ..
        } = self;
        for (&row, bytes) in admitted.iter().zip(payload.iter()) {
            let slot = slots[row as usize];
            let key = input.sort_keys.get(row as usize);
            let position = match changes.position(slot) {
                Some(position) => position,
                None => {
                    let touched_ms = first_touch.time_ms(slot).unwrap_or(now_ms);
                    let live = |kept: &RankedRows| RankedRows {
                        rank_end: kept.rank_end,
                        rows: kept.live(spec, touched_ms).cloned().collect(),
                    };
                    let before = state.get(slot).map(live).unwrap_or_else(|| RankedRows {
                        rank_end: match (&spec.range.end, rank_ends.as_ref()) {
                            (RankEnd::Constant(end), _) => end.get(),
                            (RankEnd::Column(_), Some(ends)) => rank_end(ends, row as usize)
                                .expect("the first row of a new partition was checked"),
                            (RankEnd::Column(_), None) => unreachable!("it is read with the batch"),
                        },
                        ..RankedRows::default()
                    });
                    if !accepts(spec, &before, key, touched_ms) {
                        continue;
                    }
                    let after = before.clone();
                    *change_bytes += before.heap_bytes() + after.heap_bytes();
                    changes.push(slot, Change { before, after })
                }
            };
            let kept = &mut changes.as_mut_slice()[position].after;
            // What had expired is not in the list any more, and what expires since stays.
            if accepts(spec, kept, key, i64::MIN) {
                *change_bytes -= kept.heap_bytes();
                let row = RankedRow::new(bytes, key, spec.write_ms(now_ms));
                insert(spec, kept, row, log);
                *change_bytes += kept.heap_bytes();
                accepted += 1;
            }
        }
        accepted
    }

    /// Puts the changed lists into state and returns what they change. On error nothing has changed.
    fn settle(&mut self) -> Result<Option<Changelog>, RankError<S::Error>> {
        if self.base.spec.emit == Emit::MiniBatch {
            self.log.clear();
            for position in self.changes.in_touch_order() {
                let Change { before, after } = &self.changes.as_slice()[position];
                log_net_change(&self.base.spec, before, after, &mut self.log);
            }
        }
        let changelog = self.assemble()?;
        let growth = self
            .changes
            .as_slice()
            .iter()
            .map(|Change { before, after }| after.heap_bytes().saturating_sub(before.heap_bytes()));
        self.base
            .state
            .claim(growth.sum())
            .map_err(RankError::State)?;
        for (slot, change) in self.changes.iter() {
            self.base.state.put(slot, change.after.clone());
        }
        Ok(changelog)
    }

    fn assemble(&self) -> Result<Option<Changelog>, RankError<S::Error>> {
        if self.log.kinds.is_empty() {
            return Ok(None);
        }
        let rows: Vec<&[u8]> = self.log.rows.iter().map(RankedRow::row).collect();
        let mut columns = self.base.spec.layout.decode(&rows)?;
        if self.base.spec.output_rank {
            columns.push(Arc::new(Int64Array::from(self.log.ranks.clone())));
        }
        let batch = RecordBatch::try_new(self.base.spec.output_schema.clone(), columns);
        let batch = batch.map_err(RankError::Output)?;
        Ok(Some(Changelog::new(batch, self.log.kinds.clone())))
    }

    fn forget_bundle(&mut self) {
        self.first_touch.clear(self.changes.touched());
        self.changes.clear();
        self.change_bytes = 0;
        self.log.clear();
        self.base.in_bundle = false;
    }
}

/// The rank end that a row brings, if it is one.
fn rank_end(rank_ends: &Int64Array, row: usize) -> Option<u64> {
    let value = rank_ends.is_valid(row).then(|| rank_ends.value(row))?;
    u64::try_from(value).ok().filter(|&end| end > 0)
}

fn widened(column: &ArrayRef) -> Int64Array {
    match column.data_type() {
        DataType::Int8 => column.as_primitive::<Int8Type>().unary(i64::from),
        DataType::Int16 => column.as_primitive::<Int16Type>().unary(i64::from),
        DataType::Int32 => column.as_primitive::<Int32Type>().unary(i64::from),
        _ => column.as_primitive::<Int64Type>().clone(),
    }
}

fn rank_end_of(spec: &RankSpec, kept: &RankedRows) -> u64 {
    match spec.range.end {
        RankEnd::Constant(end) => end.get(),
        RankEnd::Column(_) => kept.rank_end,
    }
}

/// Whether a row that arrives stands before one that is kept.
fn precedes(spec: &RankSpec, arriving: SortKey<'_>, kept: &RankedRow) -> bool {
    match spec.order.compare(arriving, kept.sort_key()) {
        Ordering::Less => true,
        Ordering::Equal => spec.ties == Ties::KeepLast,
        Ordering::Greater => false,
    }
}

/// Whether a partition takes a row, by its rows that had not expired at `touched_ms`.
fn accepts(spec: &RankSpec, kept: &RankedRows, key: SortKey<'_>, touched_ms: i64) -> bool {
    let held = if spec.ttl_ms.is_none() {
        kept.rows.len()
    } else {
        kept.live(spec, touched_ms).count()
    };
    let full = held as u64 >= rank_end_of(spec, kept);
    let worst = || kept.live(spec, touched_ms).next_back();
    !full || worst().is_none_or(|worst| precedes(spec, key, worst))
}

/// Whether a change of rank is emitted as an update of that rank. Otherwise only which rows are in
/// the range matters, and rows come and go as `+I` and `-D`. As in Flink's two forms; 1..1 with a
/// constant end is the one that its Top-1 has.
fn updates_ranks(spec: &RankSpec) -> bool {
    spec.output_rank || spec.range.start > 1 || spec.is_top_1()
}

/// Inserts an accepted row behind its equals and logs what an immediate ranker emits.
fn insert(spec: &RankSpec, kept: &mut RankedRows, row: RankedRow, log: &mut Log) {
    let index = kept
        .rows
        .partition_point(|kept| !precedes(spec, row.sort_key(), kept));
    let end = rank_end_of(spec, kept);
    let evicted = if kept.rows.len() as u64 >= end {
        kept.rows.pop()
    } else {
        None
    };
    if spec.ttl_ms.is_some() {
        let now_ms = row.write_ms;
        refresh(spec, &mut kept.rows[..index], row.sort_key(), now_ms);
        if let Some(evicted) = evicted.as_ref().filter(|_| !updates_ranks(spec)) {
            refresh(spec, &mut kept.rows, evicted.sort_key(), now_ms);
        }
    }
    kept.rows.insert(index, row);
    if spec.emit == Emit::MiniBatch {
        return;
    }
    if !updates_ranks(spec) {
        if let Some(evicted) = evicted {
            log.push(RowKind::Delete, &evicted, end);
        }
        log.push(RowKind::Insert, &kept.rows[index], index as u64 + 1);
        return;
    }
    // Each row from the inserted one on has taken the place of the row that is now behind it.
    let displaced = kept.rows[index + 1..]
        .iter()
        .chain(&evicted)
        .map(Some)
        .chain([None]);
    for ((place, row), displaced) in kept.rows.iter().enumerate().skip(index).zip(displaced) {
        log_rank(spec, displaced, row, place as u64 + 1, log);
    }
}

/// Renews the last of `rows` as far as they tie with `key`: Flink keeps rows that tie in one entry of its
/// state, which it writes as a whole.
fn refresh(spec: &RankSpec, rows: &mut [RankedRow], key: SortKey<'_>, now_ms: i64) {
    let ties = |row: &&mut RankedRow| spec.order.compare(row.sort_key(), key) == Ordering::Equal;
    for row in rows.iter_mut().rev().take_while(ties) {
        row.write_ms = now_ms;
    }
}

/// Logs that `after` stands at `rank` where `before` stood, if that rank is in the range.
fn log_rank(
    spec: &RankSpec,
    before: Option<&RankedRow>,
    after: &RankedRow,
    rank: u64,
    log: &mut Log,
) {
    if rank < spec.range.start {
        return;
    }
    match before {
        None => log.push(RowKind::Insert, after, rank),
        Some(before) => {
            if spec.update_before {
                log.push(RowKind::UpdateBefore, before, rank);
            }
            log.push(RowKind::UpdateAfter, after, rank);
        }
    }
}

/// Logs what a mini-batch emits for a partition: rank by rank, or rows that went and rows that came.
fn log_net_change(spec: &RankSpec, before: &RankedRows, after: &RankedRows, log: &mut Log) {
    if updates_ranks(spec) {
        for (place, row) in after.rows.iter().enumerate() {
            let old = before.rows.get(place);
            if old.is_none_or(|old| !old.is(row)) {
                log_rank(spec, old, row, place as u64 + 1, log);
            }
        }
        return;
    }
    let absent_from = |rows: &RankedRows, row: &RankedRow| !rows.rows.iter().any(|r| r.is(row));
    for (place, row) in before.rows.iter().enumerate() {
        if absent_from(after, row) {
            log.push(RowKind::Delete, row, place as u64 + 1);
        }
    }
    for (place, row) in after.rows.iter().enumerate() {
        if absent_from(before, row) {
            log.push(RowKind::Insert, row, place as u64 + 1);
        }
    }
}
