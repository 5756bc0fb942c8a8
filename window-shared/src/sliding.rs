//! The window that slides: what hopping windows have in common is kept from one to the next.
//!
//! Three ways, by what an aggregate allows (see [`Sharing`]). One that can be undone runs: each slice goes in
//! once and comes out once. One whose merges are associative has two stacks: in front, for each slice from
//! which a window may still start, the merge of it and all newer ones of then; behind them the merge of what
//! came since. A window is the top of the front and the back. When the front is used up, all slices move
//! there. What is left is merged of the slices of each window, newest first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use state_codec::Slot;

use crate::accumulate::{Accumulators, Age, Place, Sharing};
use crate::aggregate::Plans;
use crate::slice::{Pairs, Slice};

/// The slices that are in memory, by their ends.
pub(crate) type Slices = BTreeMap<i64, Arc<Slice>>;

fn runs(column: &dyn Accumulators) -> bool {
    column.sharing() == Sharing::Undo
}

fn stacks(column: &dyn Accumulators) -> bool {
    column.sharing() == Sharing::Associative
}

/// What the windows of HOP share.
#[derive(Debug)]
pub(crate) struct Sliding {
    plans: Plans,
    has_stacks: bool,
    /// The keys of the included slices, and the aggregates that run.
    running: Slice,
    /// By place of `running`: in how many of the included slices the key is.
    slices_with: Vec<u32>,
    included: BTreeSet<i64>,
    /// By the slice that is the oldest in it, oldest last.
    front: Vec<(i64, Slice)>,
    back: Slice,
    /// The slices merged into `back`, rising.
    in_back: Vec<i64>,
    pairs: Pairs,
    gone: Vec<Place>,
    /// Merges of accumulators.
    pub(crate) merges: u64,
}

impl Sliding {
    pub(crate) fn new(plans: &Plans) -> Self {
        Self {
            has_stacks: plans.iter().any(|plan| stacks(plan.empty.as_ref())),
            running: Slice::keeping(plans, runs),
            slices_with: Vec::new(),
            included: BTreeSet::new(),
            front: Vec::new(),
            back: Slice::keeping(plans, stacks),
            in_back: Vec::new(),
            pairs: Pairs::default(),
            gone: Vec::new(),
            merges: 0,
            plans: Arc::clone(plans),
        }
    }

    /// Forgets what is shared: the next window is made of its slices.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            merges: self.merges,
            ..Self::new(&self.plans)
        };
    }

    pub(crate) fn is_included(&self, slice_end: i64) -> bool {
        self.included.contains(&slice_end)
    }

    /// Makes the shared window that of the slices from `first` to `last`.
    pub(crate) fn move_to(&mut self, slices: &Slices, first: i64, last: i64) {
        let outside: Vec<i64> = self
            .included
            .iter()
            .copied()
            .filter(|end| !(first..=last).contains(end))
            .collect();
        for end in outside {
            self.exclude(slices, end);
        }
        for (&end, slice) in slices.range(first..=last) {
            if !self.included.contains(&end) {
                self.include(slices, end, slice);
            }
        }
    }

    fn include(&mut self, slices: &Slices, end: i64, slice: &Slice) {
        if slice.is_direct() && !self.running.is_direct() {
            // Once, when slices begin to have most of the keys: the window is made anew with places at slots.
            self.running = Slice::keeping(&self.plans, runs).direct();
            self.slices_with.clear();
            for &end in &self.included.clone() {
                self.include_running(&slices[&end]);
            }
        }
        self.include_running(slice);
        let is_newest = self.included.last().is_none_or(|&last| last < end);
        self.included.insert(end);
        if !self.has_stacks {
            return;
        }
        if !is_newest {
            // Out of order: the stacks start over.
            self.restack(slices);
        } else {
            self.merges += slice.len() as u64;
            self.back.merge(slice, Age::Newer, &mut self.pairs, |_| ());
            self.in_back.push(end);
        }
    }

    fn include_running(&mut self, slice: &Slice) {
        self.running.reserve_slots(slice.bound());
        if self.running.is_direct()
            && let Some(present) = slice.present()
        {
            self.running.add_present(present);
            self.running.grow_columns();
            self.slices_with.resize(self.running.bound(), 0);
            for (slices_with, &present) in self.slices_with.iter_mut().zip(present) {
                *slices_with += u32::from(present);
            }
            for (column, of_slice) in self.running.columns.iter_mut().zip(&slice.columns) {
                if runs(column.as_ref()) {
                    self.merges += slice.len() as u64;
                    column.include_all(of_slice.as_ref());
                }
            }
            return;
        }
        self.running.pair(slice, &mut self.pairs, |_, _| ());
        self.slices_with.resize(self.running.bound(), 0);
        self.include_pairs(slice);
    }

    fn include_pairs(&mut self, slice: &Slice) {
        let Pairs { into, from } = &self.pairs;
        for &place in into {
            self.slices_with[place as usize] += 1;
        }
        for (column, of_slice) in self.running.columns.iter_mut().zip(&slice.columns) {
            if runs(column.as_ref()) {
                self.merges += into.len() as u64;
                column.include(into, of_slice.as_ref(), from);
            }
        }
    }

    /// Takes an included slice out.
    pub(crate) fn exclude(&mut self, slices: &Slices, end: i64) {
        let slice = &slices[&end];
        self.included.remove(&end);
        self.exclude_running(slice);
        if !self.has_stacks {
            return;
        }
        if self.front.is_empty() && self.in_back.first() == Some(&end) {
            // All that is left moves to the front.
            self.restack(slices);
        } else if self.front.last().is_some_and(|(oldest, _)| *oldest == end) {
            self.front.pop();
        } else {
            self.restack(slices);
        }
    }

    fn exclude_running(&mut self, slice: &Slice) {
        if self.running.is_direct()
            && let Some(present) = slice.present()
        {
            for (column, of_slice) in self.running.columns.iter_mut().zip(&slice.columns) {
                if runs(column.as_ref()) {
                    self.merges += slice.len() as u64;
                    column.exclude_all(of_slice.as_ref());
                }
            }
            self.gone.clear();
            for (place, (slices_with, &present)) in
                self.slices_with.iter_mut().zip(present).enumerate()
            {
                *slices_with -= u32::from(present);
                if present && *slices_with == 0 {
                    self.gone.push(place as Place);
                }
            }
            self.running.remove(&self.gone);
            return;
        }
        self.pairs.clear();
        slice.for_each(|from, slot| {
            let into = self.running.place(slot);
            self.pairs
                .into
                .push(into.expect("the key of an included slice runs"));
            self.pairs.from.push(from);
        });
        self.exclude_pairs(slice);
    }

    fn exclude_pairs(&mut self, slice: &Slice) {
        let Pairs { into, from } = &self.pairs;
        for (column, of_slice) in self.running.columns.iter_mut().zip(&slice.columns) {
            if runs(column.as_ref()) {
                self.merges += into.len() as u64;
                column.exclude(into, of_slice.as_ref(), from);
            }
        }
        self.gone.clear();
        for &place in into {
            let slices_with = &mut self.slices_with[place as usize];
            *slices_with -= 1;
            if *slices_with == 0 {
                self.gone.push(place);
            }
        }
        self.running.remove(&self.gone);
    }

    /// Moves all included slices to the front.
    fn restack(&mut self, slices: &Slices) {
        self.front.clear();
        self.back = Slice::keeping(&self.plans, stacks);
        self.in_back.clear();
        let mut newer: Option<Slice> = None;
        for &end in self.included.iter().rev() {
            let slice = &slices[&end];
            let mut merged = newer.unwrap_or_else(|| Slice::keeping(&self.plans, stacks));
            merged.merge(slice, Age::Older, &mut self.pairs, |_| ());
            self.merges += slice.len() as u64;
            newer = Some(merged.clone());
            self.front.push((end, merged));
        }
    }

    /// Before a change of an included slice at `places`: takes what they have out.
    pub(crate) fn before_change(&mut self, slice: &Slice, places: &[Place], slots: &[Slot]) {
        self.pair_places(places, slots);
        self.exclude_pairs(slice);
    }

    /// Behind it: takes what they have now in.
    pub(crate) fn after_change(
        &mut self,
        slices: &Slices,
        slice: &Slice,
        places: &[Place],
        slots: &[Slot],
    ) {
        self.pair_places(places, slots);
        self.running.grow_columns();
        self.slices_with.resize(self.running.bound(), 0);
        self.include_pairs(slice);
        if self.has_stacks {
            self.restack(slices);
        }
    }

    fn pair_places(&mut self, places: &[Place], slots: &[Slot]) {
        self.pairs.clear();
        for (&from, &slot) in places.iter().zip(slots) {
            let into = self.running.place_or_create(slot, |_| ());
            self.pairs.into.push(into);
            self.pairs.from.push(from);
        }
    }

    /// The keys of the shared window, and a slice with its accumulators, which are at `places`.
    pub(crate) fn window(&mut self, slices: &Slices, slots: &mut Vec<Slot>) -> Window<'_> {
        slots.clear();
        let mut running_places = Vec::with_capacity(self.running.len());
        slots.reserve(self.running.len());
        self.running.for_each(|place, slot| {
            running_places.push(place);
            slots.push(slot);
        });
        let mut others: Vec<Option<Box<dyn Accumulators>>> = Vec::new();
        let places: Vec<Place> = (0..slots.len() as Place).collect();
        for (index, plan) in self.plans.iter().enumerate() {
            let mut column = plan.empty.new_empty();
            let parts: Vec<&Slice> = match column.sharing() {
                Sharing::Undo => {
                    others.push(None);
                    continue;
                }
                // Newest first.
                Sharing::Associative => {
                    let front = self.front.last().map(|(_, merged)| merged);
                    [Some(&self.back), front].into_iter().flatten().collect()
                }
                Sharing::InOrder => {
                    let newest_first = self.included.iter().rev();
                    newest_first.map(|end| slices[end].as_ref()).collect()
                }
            };
            column.grow(slots.len());
            for part in parts {
                self.pairs.clear();
                for (&slot, &into) in slots.iter().zip(&places) {
                    if let Some(from) = part.place(slot) {
                        self.pairs.into.push(into);
                        self.pairs.from.push(from);
                    }
                }
                self.merges += self.pairs.into.len() as u64;
                let Pairs { into, from } = &self.pairs;
                column.merge(into, part.columns[index].as_ref(), from, Age::Older);
            }
            others.push(Some(column));
        }
        Window {
            running: &self.running,
            running_places,
            others,
            places,
        }
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.bytes(Slice::allocated_bytes)
    }

    pub(crate) fn recounted_bytes(&self) -> usize {
        self.bytes(Slice::recounted_bytes)
    }

    fn bytes(&self, of: impl Fn(&Slice) -> usize) -> usize {
        let front: usize = self.front.iter().map(|(_, merged)| of(merged)).sum();
        of(&self.running)
            + of(&self.back)
            + front
            + self.slices_with.capacity() * size_of::<u32>()
            + self.pairs.allocated_bytes()
            + self.gone.capacity() * size_of::<Place>()
    }
}

/// The shared window at one moment.
pub(crate) struct Window<'a> {
    running: &'a Slice,
    running_places: Vec<Place>,
    others: Vec<Option<Box<dyn Accumulators>>>,
    places: Vec<Place>,
}

impl Window<'_> {
    /// The column of an aggregate, and where in it the keys of the window are.
    pub(crate) fn column(&self, index: usize) -> (&dyn Accumulators, &[Place]) {
        match &self.others[index] {
            Some(column) => (column.as_ref(), &self.places),
            None => (self.running.columns[index].as_ref(), &self.running_places),
        }
    }
}
