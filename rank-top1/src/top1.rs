//! The ranker of the constant range 1..1: one winner per partition.
//!
//! A batch is encoded and resolved as a whole, then *admitted*: each row is compared with its
//! partition's winner through a shared reference. A row that loses there loses for good, since
//! winners only improve; it has cost a probe and a comparison. The survivors are walked in order.
//! Until the batch has been walked its winners are row numbers; only those that it leaves behind are
//! encoded.
//!
//! **Invariant:** nothing in the store changes before all that can be refused has succeeded: the
//! encoding, the memory claim and the assembly of the output. A refused batch leaves the bundle of
//! the batches before it as it was.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::interleave;
use state_codec::{EncodeError, KeyedState, Reservation, Select, Slot, SortKey, SortKeys};

use crate::base::Base;
use crate::bundle::Changes;
use crate::changelog::{Changelog, RowKind};
use crate::error::RankError;
use crate::input::Input;
use crate::kept::Kept;
use crate::ranked::Winner;
use crate::spec::{Emit, RankSpec, Ties};

/// The winner that a bundle has found for a partition so far.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    prefix: u128,
    place: Place,
    /// When it was accepted.
    write_ms: i64,
}

/// Where a candidate's row and the rest of its sort key are.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the batch that is being walked, in this row.
    Batch(u32),
    /// Among the rows that the bundle keeps, under this number.
    Kept(u32),
}

/// What immediate mode emits for a batch, as it is found.
#[derive(Debug, Default)]
struct Log {
    kinds: Vec<RowKind>,
    /// (0, row of the batch) or (1, which of `retracted`).
    sources: Vec<(usize, usize)>,
    /// Whose stored winners are emitted as `-U`.
    retracted: Vec<Slot>,
}

impl Log {
    fn push(&mut self, kind: RowKind, source: (usize, usize)) {
        self.kinds.push(kind);
        self.sources.push(source);
    }

    /// `-U` of the winner that is in state.
    fn retract_stored(&mut self, slot: Slot) {
        self.push(RowKind::UpdateBefore, (1, self.retracted.len()));
        self.retracted.push(slot);
    }

    fn clear(&mut self) {
        self.kinds.clear();
        self.sources.clear();
        self.retracted.clear();
    }

    fn allocated_bytes(&self) -> usize {
        self.kinds.capacity()
            + self.sources.capacity() * size_of::<(usize, usize)>()
            + self.retracted.capacity() * size_of::<Slot>()
    }
}

#[derive(Debug)]
pub(crate) struct Top1<S> {
    pub(crate) base: Base<S>,
    input: Input,
    slots: Vec<Slot>,
    survivors: Vec<u32>,
    candidates: Changes<Candidate>,
    /// The candidates that the batch being walked has brought, with what they took the place of.
    overtaken: Vec<(usize, Option<Candidate>)>,
    /// The rows of those candidates.
    leaders: Vec<u32>,
    kept: Kept,
    log: Log,
}

impl<S: KeyedState<Winner>> Top1<S> {
    pub(crate) fn new(spec: RankSpec, state: S, reservation: Reservation) -> Self {
        Self {
            base: Base::new(spec, state, reservation),
            input: Input::default(),
            slots: Vec::new(),
            survivors: Vec::new(),
            candidates: Changes::default(),
            overtaken: Vec::new(),
            leaders: Vec::new(),
            kept: Kept::default(),
            log: Log::default(),
        }
    }

    pub(crate) fn push(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<Option<Changelog>, RankError<S::Error>> {
        self.base.check(batch)?;
        let pushed = self.push_checked(batch);
        self.input.clear();
        self.base.batch_pushed(batch, &pushed);
        self.settle();
        pushed
    }

    fn push_checked(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<Option<Changelog>, RankError<S::Error>> {
        self.input.encode(&self.base.spec, batch)?;
        self.base
            .state
            .resolve(&self.input.keys, &mut self.slots)
            .map_err(RankError::State)?;
        self.admit();
        let accepted = self.walk();
        match self.base.spec.emit {
            Emit::Immediate => {
                let encoded = self.keep_leaders(batch).map_err(RankError::from);
                let closed = encoded.and_then(|()| self.close(batch.columns()));
                if closed.is_ok() || self.base.unwritten.is_some() {
                    self.base.metrics.accepted += accepted;
                } else {
                    self.forget_bundle();
                    self.base.state.abandon_bundle();
                }
                closed
            }
            Emit::MiniBatch => {
                let encoded = self.keep_leaders(batch).map_err(RankError::from);
                if let Err(refused) = encoded.and_then(|()| self.reserve_bundle()) {
                    self.undo_walk();
                    if !self.base.in_bundle {
                        self.forget_bundle();
                        self.base.state.abandon_bundle();
                    }
                    return Err(refused);
                }
                self.base.in_bundle = true;
                self.drop_overtaken();
                self.base.metrics.accepted += accepted;
                Ok(None)
            }
        }
    }

    pub(crate) fn flush(&mut self) -> Result<Option<Changelog>, RankError<S::Error>> {
        let flushed = self.close(&[]);
        self.settle();
        flushed
    }

    pub(crate) fn abandon(&mut self) {
        if self.base.unwritten.is_none() {
            self.forget_bundle();
            self.base.state.abandon_bundle();
            self.settle();
        }
    }

    /// Settles the bundle, unless that was done and only the write is missing, and writes it.
    fn close(&mut self, columns: &[ArrayRef]) -> Result<Option<Changelog>, RankError<S::Error>> {
        if self.base.unwritten.is_none() && !self.candidates.is_empty() {
            let changelog = match self.base.spec.emit {
                Emit::Immediate => self.assemble_log(columns)?,
                Emit::MiniBatch => self.assemble_net_changes()?,
            };
            self.base
                .state
                .claim(self.growth_bytes())
                .map_err(RankError::State)?;
            self.commit();
            self.base.unwritten = Some(changelog);
        }
        self.base.state.end_bundle().map_err(RankError::Write)?;
        self.forget_bundle();
        Ok(self.base.bundle_closed())
    }

    /// Collects the rows that beat their partition's winner as it is in state.
    fn admit(&mut self) {
        let (state, order) = (&self.base.state, &self.base.spec.order);
        let survivors = &mut self.survivors;
        survivors.clear();
        if order.prefix_decides() {
            let keys = &self.input.sort_keys;
            match self.base.spec.ties {
                Ties::KeepFirst => admit_prefixes(state, &self.slots, keys, survivors, u128::lt),
                Ties::KeepLast => admit_prefixes(state, &self.slots, keys, survivors, u128::le),
            }
        } else {
            let admit_all = !self.base.spec.losers_stay_losers();
            for (row, &slot) in self.slots.iter().enumerate() {
                let key = self.input.sort_keys.get(row);
                let beats =
                    |winner: &Winner| beats(&self.base.spec, key, winner.sort_key(&self.base.spec));
                if admit_all || state.get(slot).is_none_or(beats) {
                    survivors.push(row as u32);
                }
            }
        }
    }

    /// Finds the winner among the survivors of each partition, in arrival order. Returns how many rows
    /// took the lead, for however long.
    fn walk(&mut self) -> u64 {
        let now_ms = self.base.clock.now_ms();
        let mut accepted = 0;
        let Self {
            base: Base { spec, state, .. },
            input,
            slots,
            survivors,
            candidates,
            overtaken,
            kept,
            log,
            ..
        } = self;
        let immediate = spec.emit == Emit::Immediate;
        let recheck = !spec.losers_stay_losers();
        for &row in survivors.iter() {
            let slot = slots[row as usize];
            let key = input.sort_keys.get(row as usize);
            let candidate = Candidate {
                prefix: key.prefix,
                place: Place::Batch(row),
                write_ms: now_ms,
            };
            let Some(position) = candidates.position(slot) else {
                let stored = state.get(slot);
                if let Some(winner) = stored
                    && recheck
                    && !beats(spec, key, winner.sort_key(spec))
                {
                    continue;
                }
                if immediate && stored.is_some() {
                    if spec.update_before {
                        log.retract_stored(slot);
                    }
                    log.push(RowKind::UpdateAfter, (0, row as usize));
                } else if immediate {
                    log.push(RowKind::Insert, (0, row as usize));
                }
                overtaken.push((candidates.push(slot, candidate), None));
                accepted += 1;
                continue;
            };
            let incumbent = &mut candidates.as_mut_slice()[position];
            let incumbent_key = match incumbent.place {
                Place::Batch(row) => input.sort_keys.get(row as usize),
                Place::Kept(number) => SortKey {
                    prefix: incumbent.prefix,
                    rest: kept.rest(number),
                },
            };
            if !beats(spec, key, incumbent_key) {
                continue;
            }
            match incumbent.place {
                Place::Kept(_) => overtaken.push((position, Some(*incumbent))),
                // A bundle of immediate mode is one batch.
                Place::Batch(before) if immediate => {
                    if spec.update_before {
                        log.push(RowKind::UpdateBefore, (0, before as usize));
                    }
                    log.push(RowKind::UpdateAfter, (0, row as usize));
                }
                Place::Batch(_) => {}
            }
            *incumbent = candidate;
            accepted += 1;
        }
        accepted
    }

    /// Encodes the rows that lead at the end of the walk. On error they are still in the batch.
    fn keep_leaders(&mut self, batch: &RecordBatch) -> Result<(), EncodeError> {
        if self.overtaken.is_empty() {
            return Ok(());
        }
        let candidates = self.candidates.as_mut_slice();
        self.leaders.clear();
        for (position, _) in &self.overtaken {
            let Place::Batch(row) = candidates[*position].place else {
                unreachable!("a candidate that the walk has brought is in its batch");
            };
            self.leaders.push(row);
        }
        let select = Select::Indices(&self.leaders);
        self.base
            .spec
            .layout
            .encode_into(batch.columns(), select, &mut self.kept.rows)?;
        for (&row, (position, _)) in self.leaders.iter().zip(&self.overtaken) {
            let number = self.kept.len() as u32;
            let key = self.input.sort_keys.get(row as usize);
            self.kept.push_rest(key.rest);
            candidates[*position].place = Place::Kept(number);
        }
        Ok(())
    }

    /// Notes what the batch has touched, and charges what the mini-batch has come to keep.
    fn reserve_bundle(&mut self) -> Result<(), RankError<S::Error>> {
        let touched = self.candidates.touch(&self.slots);
        self.base
            .reservation
            .try_resize(self.held_bytes())
            .inspect_err(|_| self.candidates.untouch(touched))?;
        Ok(())
    }

    /// What is allocated here.
    fn held_bytes(&self) -> usize {
        self.input.allocated_bytes()
            + self.candidates.allocated_bytes()
            + self.overtaken.capacity() * size_of::<(usize, Option<Candidate>)>()
            + (self.slots.capacity() + self.survivors.capacity() + self.leaders.capacity())
                * size_of::<u32>()
            + self.kept.allocated_bytes()
            + self.log.allocated_bytes()
    }

    /// Charges what is held from one call to the next. Buffers that the budget has no room for are given
    /// back.
    fn settle(&mut self) {
        if self.base.charge(self.held_bytes()) {
            return;
        }
        self.input = Input::default();
        self.slots = Vec::new();
        self.survivors = Vec::new();
        self.leaders = Vec::new();
        self.overtaken = Vec::new();
        self.candidates.shrink_to_fit();
        if self.base.unwritten.is_none() && !self.base.in_bundle {
            self.kept = Kept::default();
            self.log = Log::default();
        }
        self.base.charge_rest(self.held_bytes());
    }

    /// Puts back what the walk has changed.
    fn undo_walk(&mut self) {
        for (position, before) in self.overtaken.drain(..).rev() {
            if let Place::Kept(number) = self.candidates.as_slice()[position].place {
                self.kept.lose(number);
            }
            match before {
                Some(candidate) => self.candidates.as_mut_slice()[position] = candidate,
                None => self.candidates.pop(),
            }
        }
    }

    /// Drops the rows that have lost, once they are most that is kept.
    fn drop_overtaken(&mut self) {
        for (_, before) in self.overtaken.drain(..) {
            if let Some(Place::Kept(number)) = before.map(|candidate| candidate.place) {
                self.kept.lose(number);
            }
        }
        let candidates = self.candidates.as_mut_slice().iter_mut();
        let numbers = candidates.filter_map(|candidate| match &mut candidate.place {
            Place::Kept(number) => Some(number),
            Place::Batch(_) => None,
        });
        self.kept.compact(numbers);
    }

    /// The logged changes of a batch: those of the input are taken from `columns`, only stored winners
    /// that go are decoded.
    fn assemble_log(&self, columns: &[ArrayRef]) -> Result<Changelog, RankError<S::Error>> {
        let stored = self.log.retracted.iter();
        let stored: Vec<&[u8]> = stored.map(|&slot| self.stored_row(slot)).collect();
        let stored = self.base.spec.layout.decode(&stored)?;
        let mut output = Vec::with_capacity(columns.len() + 1);
        for (new, old) in columns.iter().zip(&stored) {
            let column = interleave(&[new, old], &self.log.sources).map_err(RankError::Output)?;
            output.push(column);
        }
        self.changelog(output, self.log.kinds.clone())
    }

    /// What a mini-batch has changed, in the order in which the partitions were first touched.
    fn assemble_net_changes(&self) -> Result<Changelog, RankError<S::Error>> {
        let candidates: Vec<(Slot, &[u8])> = self
            .candidates
            .iter()
            .map(|(slot, candidate)| (slot, self.kept.row(kept_number(candidate))))
            .collect();
        let mut kinds = Vec::with_capacity(2 * candidates.len());
        let mut rows: Vec<&[u8]> = Vec::with_capacity(2 * candidates.len());
        for position in self.candidates.in_touch_order() {
            let (slot, row) = candidates[position];
            let kind = if self.base.state.get(slot).is_none() {
                RowKind::Insert
            } else {
                if self.base.spec.update_before {
                    kinds.push(RowKind::UpdateBefore);
                    rows.push(self.stored_row(slot));
                }
                RowKind::UpdateAfter
            };
            kinds.push(kind);
            rows.push(row);
        }
        self.changelog(self.base.spec.layout.decode(&rows)?, kinds)
    }

    fn stored_row(&self, slot: Slot) -> &[u8] {
        let winner = self.base.state.get(slot);
        let winner = winner.expect("a winner that is retracted is in state");
        winner.row(&self.base.spec)
    }

    fn changelog(
        &self,
        mut columns: Vec<ArrayRef>,
        kinds: Vec<RowKind>,
    ) -> Result<Changelog, RankError<S::Error>> {
        if self.base.spec.output_rank {
            columns.push(Arc::new(Int64Array::from_value(1, kinds.len())));
        }
        let batch = RecordBatch::try_new(self.base.spec.output_schema.clone(), columns);
        Ok(Changelog::new(batch.map_err(RankError::Output)?, kinds))
    }

    /// Bytes by which the candidates are larger than the winners that they replace, at most.
    fn growth_bytes(&self) -> usize {
        let candidates = self.candidates.iter();
        candidates
            .map(|(slot, candidate)| {
                let (row, key) = row_and_key(&self.kept, candidate);
                let old = self.base.state.get(slot).map_or(0, Winner::heap_bytes);
                Winner::bytes_needed(&self.base.spec, row, key).saturating_sub(old)
            })
            .sum()
    }

    fn commit(&mut self) {
        let spec = &self.base.spec;
        for (slot, candidate) in self.candidates.iter() {
            let (row, key) = row_and_key(&self.kept, candidate);
            let write_ms = candidate.write_ms;
            match self.base.state.get_mut(slot) {
                Some(winner) => winner.replace(spec, row, key, write_ms),
                None => self
                    .base
                    .state
                    .put(slot, Winner::new(spec, row, key, write_ms)),
            }
        }
    }

    fn forget_bundle(&mut self) {
        self.candidates.clear();
        self.overtaken.clear();
        self.kept.clear();
        self.log.clear();
        self.base.in_bundle = false;
    }
}

/// The number of a candidate between batches.
fn kept_number(candidate: &Candidate) -> u32 {
    match candidate.place {
        Place::Kept(number) => number,
        Place::Batch(_) => unreachable!("a batch that was walked has its leaders kept"),
    }
}

fn row_and_key<'a>(kept: &'a Kept, candidate: &Candidate) -> (&'a [u8], SortKey<'a>) {
    let number = kept_number(candidate);
    let key = SortKey {
        prefix: candidate.prefix,
        rest: kept.rest(number),
    };
    (kept.row(number), key)
}

/// Collects the rows whose prefix beats their partition's winner. They are pushed behind a branch:
/// rows that win cost far more than one mispredicted, and rows that lose write nothing.
fn admit_prefixes<S: KeyedState<Winner>>(
    state: &S,
    slots: &[Slot],
    keys: &SortKeys,
    survivors: &mut Vec<u32>,
    wins: impl Fn(&u128, &u128) -> bool,
) {
    keys.for_each_prefix(|row, prefix| {
        let winner = state.get(slots[row]);
        if winner.is_none_or(|winner| wins(&prefix, &winner.prefix())) {
            survivors.push(row as u32);
        }
    });
}

/// Whether a row that arrives takes the place of the incumbent.
#[inline]
fn beats(spec: &RankSpec, arriving: SortKey<'_>, incumbent: SortKey<'_>) -> bool {
    match spec.order.compare(arriving, incumbent) {
        Ordering::Less => true,
        Ordering::Equal => spec.ties == Ties::KeepLast,
        Ordering::Greater => false,
    }
}
