//! The operator: rows and watermarks in, the results of windows out.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use keygroup::GroupCount;
use state_codec::{KeyBatch, MemoryDenied, Reservation, SliceBackend, SlicedState, Slot};

use crate::accumulate::{Age, Place};
use crate::error::WindowError;
use crate::events;
use crate::input::{self, Group};
use crate::keys::Keys;
use crate::metrics::{Counters, WindowMetrics};
use crate::output::{self, KeyColumns};
use crate::slice::{Pairs, Slice};
use crate::sliding::{Slices, Sliding};
use crate::spec::{Source, WindowSpec};
use crate::timers::Timers;

/// Aggregates rows by key and window, and returns the results of windows when a watermark says that they
/// are complete.
///
/// A row is added to one slice, whatever number of windows overlap there. A window fires with the first
/// watermark that is not before its last millisecond; late rows count in those of their windows that have not
/// fired, and are dropped and counted when all have. A window that has no rows does not fire, but for those of
/// CUMULATE: once a key has a row, every later step up to the max size has a result for it.
///
/// ```
/// use arrow::array::{AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
/// use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit, TimestampMillisecondType};
/// use keygroup::GroupCount;
/// use state_mem::MemBackend;
/// use std::sync::Arc;
/// use window_shared::{Aggregate, EventTime, WindowOperator, WindowSpec, Windows};
///
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("key", DataType::Int64, false),
///     Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
/// ]));
/// let spec = WindowSpec::new(
///     schema.clone(),
///     &[0],
///     EventTime::timestamp(1),
///     Windows::hop(1_000, 5_000)?, // every second the last five
///     &[Aggregate::count_rows("rows")],
/// )?;
/// let backend = MemBackend::new(GroupCount::new(128)?);
/// let mut operator = WindowOperator::open(spec, &backend, "hop")?;
///
/// // Six rows, one per second: each is in five windows.
/// let keys = Int64Array::from(vec![7; 6]);
/// let times = TimestampMillisecondArray::from(vec![0, 1_000, 2_000, 3_000, 4_000, 5_000]);
/// let batch = RecordBatch::try_new(schema, vec![Arc::new(keys), Arc::new(times)])?;
/// operator.push(&batch)?;
/// let mut counted = Vec::new();
/// for window in operator.finish()? {
///     let ends = window["window_end"].as_primitive::<TimestampMillisecondType>();
///     let rows = window["rows"].as_primitive::<Int64Type>();
///     counted.push((ends.value(0), rows.value(0)));
/// }
/// assert_eq!(
///     counted,
///     [
///         (1_000, 1), (2_000, 2), (3_000, 3), (4_000, 4), (5_000, 5),
///         (6_000, 5), (7_000, 4), (8_000, 3), (9_000, 2), (10_000, 1),
///     ]
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WindowOperator<S: SlicedState> {
    pub(crate) spec: WindowSpec,
    pub(crate) name: String,
    pub(crate) group_count: GroupCount,
    pub(crate) shape: Shape,
    pub(crate) keys: Keys,
    pub(crate) slices: Slices,
    sliding: Sliding,
    pub(crate) timers: Timers,
    pub(crate) watermark_ms: i64,
    /// Timer and end of the window up to which all have fired, by timer and end: the last one of a call that
    /// is not through, else every one that the watermark makes due.
    passed: (i64, i64),
    /// A window whose results are kept, but whose slices are not dropped yet.
    closing: Option<i64>,
    /// Results that are not handed out yet.
    fired: Vec<RecordBatch>,
    /// For all that the operator holds.
    pub(crate) reservation: Reservation,
    /// What the slices in memory allocate, kept up with each change.
    pub(crate) slice_bytes: usize,
    pub(crate) counters: Counters,
    pub(crate) spill: Option<Spill<S>>,
    scratch: Scratch,
    key_columns: KeyColumns,
    /// How many keys the slice had that was dropped last.
    last_dropped_keys: usize,
}

/// Where slices go that have no room in memory.
#[derive(Debug)]
pub(crate) struct Spill<S> {
    pub(crate) state: S,
    /// Slices of which the state has entries.
    pub(crate) stored: BTreeSet<i64>,
    /// Slices of which it has entries that are not in memory.
    pub(crate) partly: BTreeSet<i64>,
    /// Bytes of slices and keys above which all are written.
    pub(crate) limit_bytes: usize,
    /// Slices that were merged into others in memory, and are still in the state.
    pub(crate) merged: Vec<i64>,
    /// A write failed halfway through a merge that cannot be done again.
    pub(crate) is_broken: bool,
}

impl<S: SlicedState> Spill<S> {
    fn new(mut state: S) -> Result<Self, S::Error> {
        let stored: BTreeSet<i64> = state.slices()?.into_iter().collect();
        Ok(Self {
            state,
            partly: stored.clone(),
            stored,
            limit_bytes: RESIDENT_BYTES,
            merged: Vec::new(),
            is_broken: false,
        })
    }
}

/// What is added to slices.
pub(crate) enum Added<'a> {
    /// Rows, and of each aggregate the argument.
    Rows {
        batch: &'a RecordBatch,
        arguments: &'a [Option<ArrayRef>],
    },
    /// Accumulators, at the place of their rows.
    Partials(&'a Slice),
}

impl Added<'_> {
    fn argument(&self, index: usize) -> Option<&ArrayRef> {
        match self {
            Self::Rows { arguments, .. } => arguments[index].as_ref(),
            Self::Partials(_) => None,
        }
    }

    /// Bytes beside those of empty accumulators.
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Rows { .. } => 0,
            Self::Partials(slice) => slice.allocated_bytes(),
        }
    }
}

/// How windows are made of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A slice is a window.
    Single,
    /// A window is the last slices.
    Sliding,
    /// A window is the slices since its start, which are merged into the first.
    Growing,
}

#[derive(Debug, Default)]
struct Scratch {
    keys: KeyBatch,
    slots: Vec<Slot>,
    places: Vec<Place>,
    touched: Vec<Slot>,
    rows: Vec<u32>,
    filtered: Vec<Place>,
    pairs: Pairs,
}

impl Scratch {
    fn allocated_bytes(&self) -> usize {
        self.keys.allocated_bytes()
            + (self.slots.capacity() + self.touched.capacity()) * size_of::<Slot>()
            + (self.places.capacity() + self.rows.capacity() + self.filtered.capacity())
                * size_of::<u32>()
            + self.pairs.allocated_bytes()
    }
}

/// Bytes of slices and keys that stay in memory beside a state that can take them.
pub(crate) const RESIDENT_BYTES: usize = 8 << 20;

/// Rows of a batch with the end of the slice that they go to.
pub(crate) type Targeted = (i64, Group);

/// A slice has a place for every key if one in so many is likely to come.
const DIRECT_PART: usize = 4;

/// Bytes of buffers that are kept from one batch to the next.
const KEPT_BUFFER_BYTES: usize = 1 << 20;

/// Replaces `places` by those of the keys in `slots`, which get some where they have none, and are held then. With
/// `note_created` also collects which did.
fn place(
    slice: &mut Slice,
    slots: impl ExactSizeIterator<Item = Slot> + Clone,
    keys: &mut Keys,
    note_created: bool,
    places: &mut Vec<Place>,
    created: &mut Vec<Place>,
) {
    if !note_created && slice.add_direct(slots.clone(), keys.holders()) {
        places.extend(slots.map(|slot| slot.0));
        return;
    }
    places.reserve(slots.len());
    slice.places(slots, places, |place, slot| {
        keys.hold(slot);
        if note_created {
            created.push(place);
        }
    });
}

impl<S: SlicedState> WindowOperator<S> {
    /// An operator with the state called `name`, with what that holds already if it was closed before.
    /// Windows that it holds fire with the next watermark; see [`restore`](Self::restore) for saved state.
    ///
    /// # Errors
    ///
    /// [`WindowError::State`] if the state cannot be opened, [`WindowError::Denied`] if there is no room for an
    /// empty operator.
    pub fn open<B>(spec: WindowSpec, backend: &B, name: &str) -> Result<Self, WindowError<S::Error>>
    where
        B: SliceBackend<Slices = S, Error = S::Error>,
    {
        let state = backend.open_slices(name).map_err(WindowError::State)?;
        let operator = Self::with_state(
            spec,
            name,
            backend.groups(),
            backend.pool().reserve(name),
            state,
        )?;
        events::opened(name, &operator.spec);
        Ok(operator)
    }

    pub(crate) fn with_state(
        spec: WindowSpec,
        name: &str,
        group_count: GroupCount,
        reservation: Reservation,
        state: Option<S>,
    ) -> Result<Self, WindowError<S::Error>> {
        let spill = state
            .map(Spill::new)
            .transpose()
            .map_err(WindowError::State)?;
        let shape = match spec.time.source {
            Source::Attached { .. } => Shape::Single,
            Source::Column(_) if spec.windows.is_cumulate() => Shape::Growing,
            Source::Column(_) if spec.windows.slice_ms() < spec.windows.size_ms() => Shape::Sliding,
            Source::Column(_) => Shape::Single,
        };
        let mut operator = Self {
            shape,
            name: name.to_owned(),
            group_count,
            keys: Keys::default(),
            slices: Slices::new(),
            sliding: Sliding::new(&spec.plans),
            timers: Timers::default(),
            watermark_ms: i64::MIN,
            passed: (i64::MIN, i64::MIN),
            closing: None,
            fired: Vec::new(),
            reservation,
            slice_bytes: 0,
            counters: Counters::default(),
            spill,
            scratch: Scratch::default(),
            key_columns: KeyColumns::default(),
            last_dropped_keys: 0,
            spec,
        };
        operator.schedule_all()?;
        operator.settle()?;
        Ok(operator)
    }

    /// The same with another limit for what stays in memory beside a state that can take it: 8 MiB by default.
    /// Above it, or where the memory budget refuses, all is written and forgotten. Nothing changes for a
    /// state in memory.
    #[must_use]
    pub fn with_resident_bytes(mut self, limit_bytes: usize) -> Self {
        if let Some(spill) = &mut self.spill {
            spill.limit_bytes = limit_bytes;
        }
        self
    }

    /// What it computes.
    pub fn spec(&self) -> &WindowSpec {
        &self.spec
    }

    /// The last watermark; [`i64::MIN`] before the first.
    pub fn watermark_ms(&self) -> i64 {
        self.watermark_ms
    }

    /// Adds the rows of a batch to their slices. Costs a probe and an addition per row and aggregate, however
    /// many windows overlap.
    ///
    /// # Errors
    ///
    /// [`WindowError`] if the batch is not one of the specification's, has a row without windows, or there is
    /// no room for it: nothing has changed then.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), WindowError<S::Error>> {
        let pushed = self.push_batch(batch);
        events::refusals(pushed)
    }

    fn push_batch(&mut self, batch: &RecordBatch) -> Result<(), WindowError<S::Error>> {
        input::check(&self.spec.schema, batch)?;
        self.keep_limit()?;
        let sorted = input::sort(&self.spec, batch)?;
        let (groups, late) = self.open_groups(sorted.groups, batch.num_rows())?;
        if !groups.is_empty() {
            let arguments = self
                .spec
                .plans
                .iter()
                .map(|plan| input::argument(plan, batch).map_err(WindowError::Output))
                .collect::<Result<Vec<_>, _>>()?;
            let mut keys = std::mem::take(&mut self.scratch.keys);
            let encoded = self
                .spec
                .keys
                .encode(batch.columns(), batch.num_rows(), &mut keys);
            let added = match encoded {
                Ok(()) => {
                    let arguments = &arguments;
                    self.add(&Added::Rows { batch, arguments }, &keys, &groups)
                }
                Err(error) => Err(error.into()),
            };
            keys.clear();
            self.scratch.keys = keys;
            self.after_batch();
            added?;
        }
        self.counters.rows_in += batch.num_rows() as u64;
        self.counters.late += late;
        self.counters.null_times += sorted.null_times;
        Ok(())
    }

    /// The groups of rows that have open windows, with the slices that they go to; and how many rows have
    /// none.
    pub(crate) fn open_groups(
        &self,
        groups: Vec<Group>,
        all_rows: usize,
    ) -> Result<(Vec<Targeted>, u64), WindowError<S::Error>> {
        let mut late = 0;
        let mut open = Vec::with_capacity(groups.len());
        for group in groups {
            let rows = group.rows.as_ref().map_or(all_rows, Vec::len);
            match self.open_target(group.slice_end)? {
                Some(target) => open.push((target, group)),
                None => late += rows as u64,
            }
        }
        Ok((open, late))
    }

    /// Where the rows of a slice go: nowhere if all its windows have fired. Where a growing window has fired
    /// without them they go to what was merged of it.
    pub(crate) fn open_target(&self, slice_end: i64) -> Result<Option<i64>, WindowError<S::Error>> {
        let Some(open) = self.first_open(slice_end)? else {
            return Ok(None);
        };
        if self.shape != Shape::Growing || open == slice_end {
            return Ok(Some(slice_end));
        }
        let first = self.first_slice_end(slice_end);
        // A window before it that a change of the clock delays must not have its rows.
        let is_merged = self.have_passed(first, slice_end, (self.watermark_ms, i64::MAX))?;
        Ok(Some(if is_merged { first } else { slice_end }))
    }

    pub(crate) fn first_slice_end(&self, end_ms: i64) -> i64 {
        let first = self.spec.windows.first_slice_end(end_ms);
        first.expect("the bounds of a slice's windows were checked")
    }

    pub(crate) fn last_window_end(&self, slice_end: i64) -> i64 {
        match self.shape {
            Shape::Single => slice_end,
            _ => {
                let last = self.spec.windows.last_window_end(slice_end);
                last.expect("the bounds of a slice's windows were checked")
            }
        }
    }

    /// The first window of a slice that has not fired.
    fn first_open(&self, slice_end: i64) -> Result<Option<i64>, WindowError<S::Error>> {
        let last = self.last_window_end(slice_end);
        if self.spec.time.timer_ms(slice_end)? > self.watermark_ms {
            return Ok(Some(slice_end));
        }
        let mut open = self.open_chains(slice_end, last)?;
        Ok(open.next())
    }

    /// Of each chain of the windows from `first` to `last`, the first that has not fired.
    fn open_chains(
        &self,
        first: i64,
        last: i64,
    ) -> Result<impl Iterator<Item = i64> + use<S>, WindowError<S::Error>> {
        let passed = (self.watermark_ms, i64::MAX);
        let chains = self.spec.chains(first, last);
        let open = chains.map(|chain| self.spec.first_after(chain, passed));
        let open = open.collect::<Result<Vec<Option<i64>>, _>>()?;
        Ok(open.into_iter().flatten())
    }

    /// Whether all windows from `first` to before `end_ms` have fired at `passed`, rows or none.
    fn have_passed(
        &self,
        first: i64,
        end_ms: i64,
        passed: (i64, i64),
    ) -> Result<bool, WindowError<S::Error>> {
        let before = end_ms - self.spec.windows.slice_ms();
        for (_, last) in self.spec.chains(first, before) {
            if (self.spec.time.timer_ms(last)?, last) > passed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether all windows of the start of the one that ends at `end_ms` that end before are to fire before. If
    /// not, which a change of the clock can do, they must not have its rows.
    pub(crate) fn fires_in_order(&self, end_ms: i64) -> Result<bool, WindowError<S::Error>> {
        let timer_ms = self.spec.time.timer_ms(end_ms)?;
        self.have_passed(self.first_slice_end(end_ms), end_ms, (timer_ms, end_ms))
    }

    pub(crate) fn add(
        &mut self,
        added: &Added<'_>,
        keys: &KeyBatch,
        groups: &[Targeted],
    ) -> Result<(), WindowError<S::Error>> {
        let mut slots = std::mem::take(&mut self.scratch.slots);
        let prepared = self.prepare(added, keys, groups, &mut slots);
        if prepared.is_ok() {
            for (target, group) in groups {
                let rows = group.rows.as_deref();
                self.add_group(added, *target, rows, &slots);
            }
        }
        self.scratch.slots = slots;
        prepared
    }

    /// All that can fail before a batch is added.
    fn prepare(
        &mut self,
        added: &Added<'_>,
        keys: &KeyBatch,
        groups: &[Targeted],
        slots: &mut Vec<Slot>,
    ) -> Result<(), WindowError<S::Error>> {
        self.make_room(added, keys, groups, slots)?;
        let prepared = self.hydrate(groups, slots).and_then(|()| {
            let targets = groups.iter().map(|&(target, _)| target);
            targets
                .into_iter()
                .try_for_each(|target| self.schedule_new(target))
        });
        if prepared.is_err() {
            self.keys.forget_new();
        }
        prepared
    }

    /// Resolves the keys of a batch and reserves what adding it may take, after writing what is in memory to
    /// the state if that must be.
    fn make_room(
        &mut self,
        added: &Added<'_>,
        keys: &KeyBatch,
        groups: &[Targeted],
        slots: &mut Vec<Slot>,
    ) -> Result<(), WindowError<S::Error>> {
        self.keys.resolve(keys, slots);
        if self.reserve(added, groups, slots).is_ok() {
            return Ok(());
        }
        // What is only kept to be faster goes first.
        self.sliding.clear();
        self.key_columns.clear();
        let Err(denied) = self.reserve(added, groups, slots) else {
            return Ok(());
        };
        self.keys.forget_new();
        if self.spill.is_none() || self.slices.is_empty() {
            return Err(denied.into());
        }
        self.spill_all()?;
        self.keys.resolve(keys, slots);
        self.reserve(added, groups, slots).map_err(|denied| {
            self.keys.forget_new();
            denied.into()
        })
    }

    fn reserve(
        &mut self,
        added: &Added<'_>,
        groups: &[Targeted],
        slots: &[Slot],
    ) -> Result<(), MemoryDenied> {
        let slot_bound = self.keys.index.slot_bound();
        let empty = self.new_slice();
        let mut growth = added.heap_bytes();
        // Each row is added to one slice, whichever that is.
        let arguments = (0..empty.columns.len()).filter_map(|index| {
            let argument = added.argument(index)?;
            Some(empty.columns[index].heap_growth(argument))
        });
        let heap: usize = arguments.sum();
        let mut is_included = false;
        growth += heap;
        for (target, group) in groups {
            let rows = group.rows.as_ref().map_or(slots.len(), Vec::len);
            let mut more = rows.min(self.keys.index.len());
            let slice = self.slices.get(target);
            if let Some(shared) = slice.filter(|slice| Arc::strong_count(slice) > 1) {
                growth += shared.allocated_bytes();
            }
            let slice = slice.map_or(&empty, |slice| slice.as_ref());
            if slice.is_direct() {
                more = slot_bound.saturating_sub(slice.bound());
            }
            let mut of_slice = slice.growth_bytes(more, slot_bound) + size_of::<Slice>();
            for column in &slice.columns {
                of_slice += column.growth_bytes(more);
            }
            growth += of_slice;
            if self.sliding.is_included(*target) {
                // The running window takes the same in.
                is_included = true;
                growth += of_slice;
            }
        }
        if is_included {
            growth += heap;
        }
        self.reservation.try_resize(self.tracked_bytes() + growth)
    }

    fn add_group(&mut self, added: &Added<'_>, target: i64, rows: Option<&[u32]>, slots: &[Slot]) {
        let mut places = std::mem::take(&mut self.scratch.places);
        let mut slice = match self.slices.contains_key(&target) {
            true => self.take_slice(target),
            false => Arc::new(self.new_slice()),
        };
        let keys = &mut self.keys;
        let owned = Arc::make_mut(&mut slice);
        owned.reserve_slots(keys.index.slot_bound());
        places.clear();
        let included = self.sliding.is_included(target);
        let mut created = Vec::new();
        match rows {
            None => place(
                owned,
                slots.iter().copied(),
                keys,
                included,
                &mut places,
                &mut created,
            ),
            Some(rows) => {
                let slots = rows.iter().map(|&row| slots[row as usize]);
                place(owned, slots, keys, included, &mut places, &mut created);
            }
        }
        owned.grow_columns();
        let (mut touched, mut touched_slots) = (Vec::new(), Vec::new());
        if included {
            touched.clone_from(&places);
            touched.sort_unstable();
            touched.dedup();
            touched_slots = touched.iter().map(|&place| owned.slot(place)).collect();
            // What the window has already of the keys that change.
            created.sort_unstable();
            let is_old = |place: &Place| created.binary_search(place).is_err();
            let old: Vec<Place> = touched.iter().copied().filter(is_old).collect();
            let old_slots: Vec<Slot> = old.iter().map(|&place| owned.slot(place)).collect();
            self.sliding.before_change(owned, &old, &old_slots);
        }
        match added {
            Added::Rows { batch, arguments } => {
                let scratch = &mut self.scratch;
                let columns = self.spec.plans.iter().zip(&mut owned.columns);
                for ((plan, column), argument) in columns.zip(*arguments) {
                    let Some(filter) = plan.filter else {
                        column.add(argument.as_ref(), rows, &places);
                        continue;
                    };
                    let (kept, at) = (&mut scratch.rows, &mut scratch.filtered);
                    input::filter(batch.column(filter), rows, &places, kept, at);
                    column.add(argument.as_ref(), Some(kept), at);
                }
            }
            Added::Partials(partials) => {
                let all: Vec<Place> = match rows {
                    Some(rows) => rows.to_vec(),
                    None => (0..places.len() as Place).collect(),
                };
                for (column, of_partials) in owned.columns.iter_mut().zip(&partials.columns) {
                    column.merge(&places, of_partials.as_ref(), &all, Age::Later);
                }
                self.counters.merges += (places.len() * owned.columns.len()) as u64;
            }
        }
        if self.spill.is_some() {
            owned.set_unwritten(&places);
        }
        self.scratch.places = places;
        self.put_slice(target, slice);
        if included {
            let slice = Arc::clone(&self.slices[&target]);
            self.sliding
                .after_change(&self.slices, &slice, &touched, &touched_slots);
        }
    }

    /// A slice without rows. If the newest one has most of the keys, it is made for as many; if there is none, for
    /// all that there are.
    fn new_slice(&self) -> Slice {
        let slice = Slice::new(&self.spec.plans);
        let keys = self.keys.index.slot_bound();
        let newest = self.slices.last_key_value().map(|(_, slice)| slice.len());
        let likely = newest.unwrap_or(self.last_dropped_keys);
        if likely * DIRECT_PART >= keys {
            slice.direct()
        } else {
            slice
        }
    }

    /// A slice to change, or a new one; its bytes are not counted until it is put back.
    pub(crate) fn take_slice(&mut self, end_ms: i64) -> Arc<Slice> {
        match self.slices.remove(&end_ms) {
            Some(slice) => {
                self.slice_bytes -= slice.allocated_bytes();
                slice
            }
            None => Arc::new(Slice::new(&self.spec.plans)),
        }
    }

    pub(crate) fn put_slice(&mut self, end_ms: i64, slice: Arc<Slice>) {
        self.slice_bytes += slice.allocated_bytes();
        self.slices.insert(end_ms, slice);
    }

    /// Forgets a slice in memory.
    pub(crate) fn drop_slice(&mut self, end_ms: i64) {
        if self.sliding.is_included(end_ms) {
            self.sliding.exclude(&self.slices, end_ms);
        }
        if let Some(slice) = self.slices.remove(&end_ms) {
            self.last_dropped_keys = slice.len();
            self.slice_bytes -= slice.allocated_bytes();
            match slice.present() {
                Some(present) => self.keys.release_all(present),
                None => slice.for_each(|_, slot| self.keys.release(slot)),
            }
        }
    }

    /// Forgets the shared window and all slices and keys in memory.
    pub(crate) fn forget_resident(&mut self) {
        self.sliding.clear();
        self.key_columns.clear();
        self.slices.clear();
        self.slice_bytes = 0;
        self.keys.clear();
    }

    /// Writes to the state what is beyond the limit, and settles the account after a batch, taken or not.
    pub(crate) fn after_batch(&mut self) {
        if self.scratch.allocated_bytes() > KEPT_BUFFER_BYTES {
            self.scratch = Scratch::default();
        }
        // The batch is taken, so a failure to write is for the next one to report, which tries first.
        let _ = self.keep_limit();
        if self.settle().is_err() {
            // Of a batch that was refused room is left for its keys and in its buffers.
            self.sliding.clear();
            self.key_columns.clear();
            self.scratch = Scratch::default();
            self.keys.shrink_to_fit();
            let _ = self.settle();
        }
    }

    /// Writes all to the state if more is in memory than may stay there.
    pub(crate) fn keep_limit(&mut self) -> Result<(), WindowError<S::Error>> {
        let limit = self
            .spill
            .as_ref()
            .map_or(usize::MAX, |spill| spill.limit_bytes);
        if self.slice_bytes + self.keys.allocated_bytes() > limit {
            self.spill_all()?;
            self.settle()?;
        }
        Ok(())
    }

    /// Bytes that the operator holds.
    fn tracked_bytes(&self) -> usize {
        self.slice_bytes
            + self.keys.allocated_bytes()
            + self.sliding.allocated_bytes()
            + self.timers.allocated_bytes()
            + self.scratch.allocated_bytes()
            + self.key_columns.allocated_bytes()
    }

    /// Charges what is held.
    pub(crate) fn settle(&mut self) -> Result<(), WindowError<S::Error>> {
        Ok(self.reservation.try_resize(self.tracked_bytes())?)
    }

    /// Bytes charged to the memory budget now.
    pub fn charged_bytes(&self) -> usize {
        self.reservation.bytes()
    }

    /// What [`charged_bytes`](Self::charged_bytes) should be, counted over from all that is held. Costs a pass
    /// over everything: for tests and audits.
    pub fn recounted_bytes(&self) -> usize {
        let slices = self.slices.values().map(|slice| slice.recounted_bytes());
        slices.sum::<usize>()
            + self.keys.allocated_bytes()
            + self.sliding.recounted_bytes()
            + self.timers.allocated_bytes()
            + self.scratch.allocated_bytes()
            + self.key_columns.allocated_bytes()
    }

    /// What has been done so far.
    pub fn metrics(&self) -> WindowMetrics {
        let Counters {
            rows_in,
            late,
            null_times,
            rows_out,
            fired,
            merges,
            spills,
        } = self.counters;
        WindowMetrics {
            rows_in,
            late,
            null_times,
            rows_out,
            fired,
            merges: merges + self.sliding.merges,
            spills,
            held_bytes: self.reservation.bytes() as u64,
            store: self
                .spill
                .as_ref()
                .map(|spill| spill.state.metrics())
                .unwrap_or_default(),
        }
    }

    /// Moves the watermark to `watermark_ms`, after which no row with a time up to it is expected, and returns
    /// the results of the windows that it completes, one batch a window, ordered by when they were to fire. It
    /// is of the clock of the time column: instants for TIMESTAMP_LTZ. One that does not rise does nothing.
    ///
    /// Costs, per window, what its slices that closed and its results cost, however many slices overlap: see
    /// [`Sharing`](crate::Sharing).
    ///
    /// # Errors
    ///
    /// [`WindowError`] if the state fails, results cannot be assembled or the budget refuses. Windows that had
    /// fired by then are kept, and returned by the next call, which goes on where this one stopped; the
    /// watermark has moved.
    pub fn advance_watermark(
        &mut self,
        watermark_ms: i64,
    ) -> Result<Vec<RecordBatch>, WindowError<S::Error>> {
        self.watermark_ms = self.watermark_ms.max(watermark_ms);
        let fired = self.fire_due();
        events::refusals(fired)?;
        let fired = std::mem::take(&mut self.fired);
        let rows: usize = fired.iter().map(RecordBatch::num_rows).sum();
        self.counters.rows_out += rows as u64;
        Ok(fired)
    }

    /// The end of the input: fires every window that has rows. What comes later is late.
    ///
    /// # Errors
    ///
    /// As [`advance_watermark`](Self::advance_watermark).
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>, WindowError<S::Error>> {
        self.advance_watermark(i64::MAX)
    }

    fn fire_due(&mut self) -> Result<(), WindowError<S::Error>> {
        self.finish_closing()?;
        while let Some((timer_ms, end_ms)) = self.timers.due(self.watermark_ms) {
            let results = self.fire(end_ms)?;
            self.counters.fired += u64::from(!results.is_empty());
            self.fired.extend(results);
            self.timers.remove(timer_ms, end_ms);
            self.passed = self.passed.max((timer_ms, end_ms));
            self.closing = Some(end_ms);
            self.finish_closing()?;
        }
        self.passed = (self.watermark_ms, i64::MAX);
        if self.slices.is_empty() && !self.timers.any_in(..) {
            self.forget_resident();
        }
        self.settle()
    }

    /// Ends the firing of a window whose results are kept already.
    fn finish_closing(&mut self) -> Result<(), WindowError<S::Error>> {
        if let Some(end_ms) = self.closing {
            let next = self.schedule_next(end_ms)?;
            self.drop_closed(end_ms, next)?;
            self.keys.sweep();
            self.closing = None;
        }
        self.expire_merged()?;
        self.settle_or_shrink()
    }

    /// Settles after a window has fired; what windows share is given up if there is no room for it.
    fn settle_or_shrink(&mut self) -> Result<(), WindowError<S::Error>> {
        if self.settle().is_err() {
            self.sliding.clear();
            self.key_columns.clear();
            self.settle()?;
        }
        Ok(())
    }

    /// The results of a window: one batch, none if it has no rows, or several if they are read in parts.
    fn fire(&mut self, end_ms: i64) -> Result<Vec<RecordBatch>, WindowError<S::Error>> {
        if self.is_partly_stored(end_ms) {
            return self.fire_stored(end_ms);
        }
        match self.shape {
            Shape::Single => {
                let Some(slice) = self.slices.get(&end_ms) else {
                    return Ok(Vec::new());
                };
                self.slice_results(end_ms, &Arc::clone(slice))
            }
            Shape::Sliding => {
                let first = self.first_slice_end(end_ms);
                self.sliding.move_to(&self.slices, first, end_ms);
                let mut slots = Vec::new();
                let window = self.sliding.window(&self.slices, &mut slots);
                if slots.is_empty() {
                    return Ok(Vec::new());
                }
                let keys = self.key_columns.get(&self.spec, &self.keys, &slots)?;
                let rows = slots.len();
                let result =
                    output::results(&self.spec, end_ms, rows, keys, |index| window.column(index))?;
                Ok(vec![result])
            }
            Shape::Growing => {
                let first = self.first_slice_end(end_ms);
                if !self.fires_in_order(end_ms)? {
                    let mut whole = Slice::new(&self.spec.plans);
                    let mut pairs = std::mem::take(&mut self.scratch.pairs);
                    for slice in self.slices.range(first..=end_ms).map(|(_, slice)| slice) {
                        self.counters.merges += (slice.len() * slice.columns.len()) as u64;
                        whole.merge(slice, Age::Later, &mut pairs, |_| ());
                    }
                    self.scratch.pairs = pairs;
                    return self.slice_results(end_ms, &whole);
                }
                self.grow(first, end_ms);
                let Some(slice) = self.slices.get(&first) else {
                    return Ok(Vec::new());
                };
                self.slice_results(end_ms, &Arc::clone(slice))
            }
        }
    }

    /// Merges the slices behind the first of a growing window into it.
    fn grow(&mut self, first: i64, end_ms: i64) {
        let later: Vec<i64> = self
            .slices
            .range((Bound::Excluded(first), Bound::Included(end_ms)))
            .map(|(&end, _)| end)
            .collect();
        for end in later {
            self.note_merged(end);
            if !self.slices.contains_key(&first) {
                // The slice becomes the first, as it is.
                let mut slice = self.take_slice(end);
                if self.spill.is_some() {
                    Arc::make_mut(&mut slice).set_all_unwritten();
                }
                self.put_slice(first, slice);
                continue;
            }
            let mut whole = self.take_slice(first);
            let slice = self.take_slice(end);
            let owned = Arc::make_mut(&mut whole);
            let keys = &mut self.keys;
            let pairs = &mut self.scratch.pairs;
            owned.merge(&slice, Age::Later, pairs, |slot| keys.hold(slot));
            self.counters.merges += (slice.len() * slice.columns.len()) as u64;
            if self.spill.is_some() {
                owned.set_unwritten(&pairs.into);
            }
            slice.for_each(|_, slot| self.keys.release(slot));
            self.put_slice(first, whole);
        }
    }

    fn slice_results(
        &mut self,
        end_ms: i64,
        slice: &Slice,
    ) -> Result<Vec<RecordBatch>, WindowError<S::Error>> {
        if slice.is_empty() {
            return Ok(Vec::new());
        }
        let (places, slots): (Vec<Place>, Vec<Slot>) = slice.entries().into_iter().unzip();
        let keys = self.key_columns.get(&self.spec, &self.keys, &slots)?;
        let column = |index: usize| (slice.columns[index].as_ref(), places.as_slice());
        Ok(vec![output::results(
            &self.spec,
            end_ms,
            slots.len(),
            keys,
            column,
        )?])
    }

    /// Starts at a watermark that a checkpoint had.
    pub(crate) fn set_watermark(&mut self, watermark_ms: i64) {
        self.watermark_ms = watermark_ms;
        self.passed = (watermark_ms, i64::MAX);
    }

    /// Notes the windows of slices that are there without.
    pub(crate) fn schedule_all(&mut self) -> Result<(), WindowError<S::Error>> {
        let mut ends: BTreeSet<i64> = self.slices.keys().copied().collect();
        if let Some(spill) = &self.spill {
            ends.extend(&spill.stored);
        }
        for end in ends {
            if !self.schedule(end)? {
                self.close(end)?;
            }
        }
        Ok(())
    }

    /// Notes the first windows of a slice that is about to be new.
    pub(crate) fn schedule_new(&mut self, slice_end: i64) -> Result<(), WindowError<S::Error>> {
        if !self.has_slice(slice_end) {
            self.schedule(slice_end)?;
        }
        Ok(())
    }

    /// Notes, of each chain of the windows of a slice, the first that has not fired. Returns whether there is one.
    fn schedule(&mut self, slice_end: i64) -> Result<bool, WindowError<S::Error>> {
        let mut has_open = false;
        for end_ms in self.open_chains(slice_end, self.last_window_end(slice_end))? {
            let timer_ms = self.spec.time.timer_ms(end_ms)?;
            self.timers.insert(timer_ms, end_ms);
            has_open = true;
        }
        Ok(has_open)
    }

    /// Notes the window that follows one that fired, if it has slices in common with it, and
    /// returns its end.
    fn schedule_next(&mut self, end_ms: i64) -> Result<Option<i64>, WindowError<S::Error>> {
        let slice_ms = self.spec.windows.slice_ms();
        let next = end_ms + slice_ms;
        let last = match self.shape {
            Shape::Single => return Ok(None),
            Shape::Growing => self.last_window_end(end_ms),
            Shape::Sliding => {
                let first = self.first_slice_end(end_ms);
                let Some(newest) = self.newest_slice(first + 1, end_ms) else {
                    return Ok(None);
                };
                self.last_window_end(newest)
            }
        };
        if next > last {
            return Ok(None);
        }
        let timer_ms = self.spec.time.timer_ms(next)?;
        if (timer_ms, next) <= self.passed {
            // It is of another chain, which is ahead.
            return Ok(None);
        }
        self.timers.insert(timer_ms, next);
        Ok(Some(next))
    }

    /// Drops what no window needs any more, now that the one that ends at `end_ms` has fired and the one at `next`
    /// is the next.
    fn drop_closed(&mut self, end_ms: i64, next: Option<i64>) -> Result<(), WindowError<S::Error>> {
        let slices = match self.shape {
            Shape::Single => return self.close(end_ms),
            Shape::Sliding => {
                let needed = next.map_or(end_ms + 1, |next| self.first_slice_end(next));
                self.slices_up_to(needed - 1)
            }
            Shape::Growing if next.is_some() => return Ok(()),
            Shape::Growing => {
                self.slices_between(self.first_slice_end(end_ms), self.last_window_end(end_ms))
            }
        };
        for end in slices {
            // Windows that a change of the clock delays.
            let first = match self.shape {
                Shape::Growing => self.first_slice_end(end),
                _ => end,
            };
            if !self.timers.any_in(first..=self.last_window_end(end)) {
                self.close(end)?;
            }
        }
        Ok(())
    }
}
