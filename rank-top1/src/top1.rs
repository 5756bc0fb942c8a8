//! The ranker of the constant range 1..1: one winner per partition.
//!
//! A batch is encoded and resolved as a whole, then *admitted*: each row is compared with its
//! partition's winner through a shared reference. A row that loses there loses for good, since
//! winners only improve; it has cost a probe and a comparison. The survivors are walked in order.
//! Winners of the bundle stay row numbers of its batches; only those that the bundle leaves behind
//! are encoded.
//!
//! **Invariant:** nothing in the store changes before all that can be refused has succeeded: the
//! encoding, the memory claim and the assembly of the output.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{interleave, interleave_record_batch, take_record_batch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use state_codec::{KeyedState, Rows, Select, Slot, SortKey, SortKeys};

use crate::bundle::Changes;
use crate::changelog::{Changelog, RowKind};
use crate::error::RankError;
use crate::input::{self, Input};
use crate::ranked::Winner;
use crate::spec::{Emit, RankSpec, Ties};

/// Rows of a mini-batch that have lost since and are not worth a compaction.
const STALE_ROWS_TOLERATED: usize = 8192;

/// The winner that a bundle has found for a partition so far.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Its batch among those of the bundle, and its row there.
    batch: u32,
    row: u32,
    prefix: u128,
    /// Where the rest of its sort key stands in `Top1::rests`.
    rest: (usize, usize),
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
}

#[derive(Debug)]
pub(crate) struct Top1<S> {
    spec: RankSpec,
    state: S,
    input: Input,
    slots: Vec<Slot>,
    survivors: Vec<u32>,
    candidates: Changes<Candidate>,
    /// The batches that hold the candidates.
    batches: Vec<RecordBatch>,
    rests: Vec<u8>,
    log: Log,
    payload: Rows,
    /// Changes whose state a failed write has left unwritten.
    unwritten: Option<Changelog>,
}

impl<S: KeyedState<Winner>> Top1<S> {
    pub(crate) fn new(spec: RankSpec, state: S) -> Self {
        Self {
            spec,
            state,
            input: Input::default(),
            slots: Vec::new(),
            survivors: Vec::new(),
            candidates: Changes::default(),
            batches: Vec::new(),
            rests: Vec::new(),
            log: Log::default(),
            payload: Rows::new(),
            unwritten: None,
        }
    }

    pub(crate) fn spec(&self) -> &RankSpec {
        &self.spec
    }

    pub(crate) fn state(&self) -> &S {
        &self.state
    }

    pub(crate) fn push(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<Option<Changelog>, RankError<S::Error>> {
        if self.unwritten.is_some() {
            return Err(RankError::Unwritten);
        }
        input::check(&self.spec, batch)?;
        let pushed = self.push_checked(batch);
        self.input.clear();
        pushed
    }

    fn push_checked(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<Option<Changelog>, RankError<S::Error>> {
        self.input.encode(&self.spec, batch)?;
        self.state
            .resolve(&self.input.keys, &mut self.slots)
            .map_err(RankError::State)?;
        self.admit();
        match self.spec.emit {
            Emit::Immediate => {
                if !self.survivors.is_empty() {
                    self.walk(0);
                    self.batches.push(batch.clone());
                }
                let closed = self.flush();
                if closed.is_err() && self.unwritten.is_none() {
                    self.forget_bundle();
                    self.state.abandon_bundle();
                }
                closed
            }
            Emit::MiniBatch => {
                self.candidates.touch(&self.slots);
                if !self.survivors.is_empty() {
                    self.walk(self.batches.len());
                    self.keep_candidates_of(batch);
                }
                Ok(None)
            }
        }
    }

    pub(crate) fn flush(&mut self) -> Result<Option<Changelog>, RankError<S::Error>> {
        if self.unwritten.is_none() && !self.candidates.is_empty() {
            self.unwritten = Some(self.settle()?);
        }
        self.state.end_bundle().map_err(RankError::Write)?;
        self.forget_bundle();
        Ok(self.unwritten.take())
    }

    /// Collects the rows that beat their partition's winner as it is in state.
    fn admit(&mut self) {
        let (state, order) = (&self.state, &self.spec.order);
        let survivors = &mut self.survivors;
        survivors.clear();
        if order.prefix_decides() {
            let keys = &self.input.sort_keys;
            match self.spec.ties {
                Ties::KeepFirst => admit_prefixes(state, &self.slots, keys, survivors, u128::lt),
                Ties::KeepLast => admit_prefixes(state, &self.slots, keys, survivors, u128::le),
            }
        } else {
            let admit_all = !self.spec.losers_stay_losers();
            for (row, &slot) in self.slots.iter().enumerate() {
                let key = self.input.sort_keys.get(row);
                let beats = |winner: &Winner| beats(&self.spec, key, winner.sort_key(order));
                if admit_all || state.get(slot).is_none_or(beats) {
                    survivors.push(row as u32);
                }
            }
        }
    }

    /// Finds the winner among the survivors of each partition, in arrival order.
    fn walk(&mut self, batch: usize) {
        let Self {
            spec,
            state,
            input,
            slots,
            survivors,
            candidates,
            rests,
            log,
            ..
        } = self;
        let immediate = spec.emit == Emit::Immediate;
        let recheck = !spec.losers_stay_losers();
        for &row in survivors.iter() {
            let slot = slots[row as usize];
            let key = input.sort_keys.get(row as usize);
            let known = candidates.position(slot);
            match known {
                Some(position) => {
                    let incumbent = candidates.as_slice()[position];
                    let (start, end) = incumbent.rest;
                    let incumbent_key = SortKey {
                        prefix: incumbent.prefix,
                        rest: &rests[start..end],
                    };
                    if !beats(spec, key, incumbent_key) {
                        continue;
                    }
                    if immediate {
                        if spec.update_before {
                            log.push(RowKind::UpdateBefore, (0, incumbent.row as usize));
                        }
                        log.push(RowKind::UpdateAfter, (0, row as usize));
                    }
                }
                None => {
                    let stored = state.get(slot);
                    if let Some(winner) = stored
                        && recheck
                        && !beats(spec, key, winner.sort_key(&spec.order))
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
                }
            }
            let rest = (rests.len(), rests.len() + key.rest.len());
            rests.extend_from_slice(key.rest);
            let candidate = Candidate {
                batch: batch as u32,
                row,
                prefix: key.prefix,
                rest,
            };
            match known {
                Some(position) => candidates.as_mut_slice()[position] = candidate,
                None => {
                    candidates.push(slot, candidate);
                }
            }
        }
    }

    /// Keeps of a mini-batch's new batch the rows that lead now, and drops the others.
    fn keep_candidates_of(&mut self, batch: &RecordBatch) {
        let number = self.batches.len() as u32;
        let mut leading: Vec<(usize, u32)> = Vec::new();
        for &row in &self.survivors {
            if let Some(position) = self.candidates.position(self.slots[row as usize]) {
                let candidate = self.candidates.as_slice()[position];
                if candidate.batch == number && candidate.row == row {
                    leading.push((position, row));
                }
            }
        }
        if leading.is_empty() {
            return;
        }
        let rows = UInt32Array::from_iter_values(leading.iter().map(|&(_, row)| row));
        // A batch that leads in each of its rows, or that cannot be thinned out, is kept as it is.
        if leading.len() < batch.num_rows()
            && let Ok(thinned) = take_record_batch(batch, &rows)
        {
            for (row, &(position, _)) in leading.iter().enumerate() {
                self.candidates.as_mut_slice()[position].row = row as u32;
            }
            self.batches.push(without_foreign_views(thinned));
        } else {
            self.batches.push(batch.clone());
        }
        self.drop_stale_rows();
    }

    /// Copies the leading rows of the bundle together once most that is kept has lost.
    fn drop_stale_rows(&mut self) {
        let kept: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        let leading = self.candidates.as_slice().len();
        if kept <= 2 * leading + STALE_ROWS_TOLERATED {
            return;
        }
        let Ok(together) = self.gather() else {
            return;
        };
        let old_rests = std::mem::take(&mut self.rests);
        for (row, candidate) in self.candidates.as_mut_slice().iter_mut().enumerate() {
            let (start, end) = candidate.rest;
            candidate.rest = (self.rests.len(), self.rests.len() + end - start);
            self.rests.extend_from_slice(&old_rests[start..end]);
            (candidate.batch, candidate.row) = (0, row as u32);
        }
        self.batches = vec![together];
    }

    /// The candidates' rows as one batch, in the order in which their partitions first changed.
    fn gather(&self) -> Result<RecordBatch, ArrowError> {
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let candidates = self.candidates.as_slice().iter();
        let rows: Vec<_> = candidates
            .map(|c| (c.batch as usize, c.row as usize))
            .collect();
        interleave_record_batch(&batches, &rows)
    }

    /// Puts the candidates into state and returns what that changes. On error nothing has changed.
    fn settle(&mut self) -> Result<Changelog, RankError<S::Error>> {
        self.payload.clear();
        let gathered;
        let columns = match self.spec.emit {
            Emit::Immediate => {
                let candidates = self.candidates.as_slice().iter();
                let rows: Vec<u32> = candidates.map(|candidate| candidate.row).collect();
                let columns = self.batches[0].columns();
                self.spec
                    .layout
                    .encode_into(columns, Select::Indices(&rows), &mut self.payload)?;
                columns
            }
            Emit::MiniBatch => {
                gathered = self.gather().map_err(RankError::Output)?;
                let columns = gathered.columns();
                self.spec
                    .layout
                    .encode_into(columns, Select::All, &mut self.payload)?;
                self.log_net_changes();
                columns
            }
        };
        let changelog = self.assemble(columns);
        if self.spec.emit == Emit::MiniBatch {
            self.log.clear();
        }
        let changelog = changelog?;
        self.state
            .claim(self.growth_bytes())
            .map_err(RankError::State)?;
        self.commit();
        Ok(changelog)
    }

    /// Logs what a mini-batch has changed, sources being the candidates' positions.
    fn log_net_changes(&mut self) {
        let slots: Vec<Slot> = self.candidates.iter().map(|(slot, _)| slot).collect();
        for position in self.candidates.in_touch_order() {
            if self.state.get(slots[position]).is_none() {
                self.log.push(RowKind::Insert, (0, position));
                continue;
            }
            if self.spec.update_before {
                self.log.retract_stored(slots[position]);
            }
            self.log.push(RowKind::UpdateAfter, (0, position));
        }
    }

    /// The logged changes: those of the input are taken from `columns`, only stored winners that go
    /// are decoded.
    fn assemble(&self, columns: &[ArrayRef]) -> Result<Changelog, RankError<S::Error>> {
        let order = &self.spec.order;
        let stored = |&slot: &Slot| {
            self.state
                .get(slot)
                .expect("a winner that is retracted is in state")
                .row(order)
        };
        let stored: Vec<&[u8]> = self.log.retracted.iter().map(stored).collect();
        let stored = self.spec.layout.decode(&stored)?;
        let mut output = Vec::with_capacity(columns.len() + 1);
        for (new, old) in columns.iter().zip(&stored) {
            let column = interleave(&[new, old], &self.log.sources).map_err(RankError::Output)?;
            output.push(column);
        }
        if self.spec.output_rank {
            output.push(std::sync::Arc::new(arrow::array::Int64Array::from_value(
                1,
                self.log.kinds.len(),
            )));
        }
        let batch = RecordBatch::try_new(self.spec.output_schema.clone(), output);
        Ok(Changelog::new(
            batch.map_err(RankError::Output)?,
            self.log.kinds.clone(),
        ))
    }

    /// Bytes by which the candidates are larger than the winners that they replace, at most.
    fn growth_bytes(&self) -> usize {
        let candidates = self.candidates.iter().zip(self.payload.iter());
        candidates
            .map(|((slot, candidate), row)| {
                let key = candidate_key(candidate, &self.rests);
                let old = self.state.get(slot).map_or(0, Winner::heap_bytes);
                Winner::bytes_needed(&self.spec.order, row, key).saturating_sub(old)
            })
            .sum()
    }

    fn commit(&mut self) {
        let order = &self.spec.order;
        for ((slot, candidate), row) in self.candidates.iter().zip(self.payload.iter()) {
            let key = candidate_key(candidate, &self.rests);
            match self.state.get_mut(slot) {
                Some(winner) => winner.replace(order, row, key),
                None => self.state.put(slot, Winner::new(order, row, key)),
            }
        }
    }

    fn forget_bundle(&mut self) {
        self.candidates.clear();
        self.batches.clear();
        self.rests.clear();
        self.log.clear();
        self.payload.clear();
    }
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

fn candidate_key<'a>(candidate: &Candidate, rests: &'a [u8]) -> SortKey<'a> {
    let (start, end) = candidate.rest;
    SortKey {
        prefix: candidate.prefix,
        rest: &rests[start..end],
    }
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

/// A batch that was taken from another shares the buffers that its string views point into, all of
/// them; this copies what the views show.
fn without_foreign_views(batch: RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => std::sync::Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => std::sync::Arc::new(column.as_binary_view().gc()),
            _ => column.clone(),
        }
    });
    RecordBatch::try_new(batch.schema(), columns.collect())
        .expect("columns of the same types and lengths make a batch of the same schema")
}
