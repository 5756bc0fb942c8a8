//! Accumulators of the keys of a slice, by place.

use hashbrown::HashTable;
use state_codec::Slot;

use crate::accumulate::{Accumulators, Age, Place};
use crate::aggregate::Plans;

/// No place, or no slot.
const NONE: u32 = u32::MAX;

/// How many slots a table by slot may have for each key in it, and how many it always may.
const DENSE_SLOTS_PER_KEY: usize = 8;
const DENSE_SLOTS: usize = 1024;

/// Where the keys of a slice are in its columns.
#[derive(Clone, Debug)]
enum Places {
    /// At their slots, if the slice has them: for slices that have most keys.
    Direct(Vec<bool>),
    /// Where a table by slot says.
    Dense(Vec<Place>),
    /// Where a hash table says: for slices that have few of many keys.
    Sparse(HashTable<(u32, Place)>),
}

fn hash(slot: u32) -> u64 {
    // Slots are dense numbers: an odd factor spreads them over both ends of the hash.
    u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Places {
    #[inline]
    fn get(&self, slot: Slot) -> Option<Place> {
        match self {
            Self::Direct(present) => {
                let present = present.get(slot.index()).copied().unwrap_or(false);
                present.then_some(slot.0)
            }
            Self::Dense(places) => {
                let place = places.get(slot.index()).copied().unwrap_or(NONE);
                (place != NONE).then_some(place)
            }
            Self::Sparse(places) => {
                let found = places.find(hash(slot.0), |entry| entry.0 == slot.0);
                found.map(|entry| entry.1)
            }
        }
    }

    /// Notes the place of a slot that has none, as that of the last of `keys` keys.
    fn insert(&mut self, slot: Slot, place: Place, keys: usize) {
        if let Self::Dense(places) = self {
            let needed = slot.index() + 1;
            if needed > places.len() && needed > DENSE_SLOTS.max(keys * DENSE_SLOTS_PER_KEY) {
                let listed = places.iter().enumerate();
                let entries: Vec<(u32, Place)> = listed
                    .filter(|&(_, &place)| place != NONE)
                    .map(|(slot, &place)| (slot as u32, place))
                    .collect();
                let mut table = HashTable::with_capacity(entries.len() + 1);
                for entry in entries {
                    table.insert_unique(hash(entry.0), entry, |entry| hash(entry.0));
                }
                *self = Self::Sparse(table);
            } else if needed > places.len() {
                places.resize(needed, NONE);
            }
        }
        match self {
            Self::Direct(_) => unreachable!("a slot is its own place"),
            Self::Dense(places) => places[slot.index()] = place,
            Self::Sparse(places) => {
                places.insert_unique(hash(slot.0), (slot.0, place), |entry| hash(entry.0));
            }
        }
    }

    fn remove(&mut self, slot: Slot) {
        match self {
            Self::Direct(present) => present[slot.index()] = false,
            Self::Dense(places) => places[slot.index()] = NONE,
            Self::Sparse(places) => {
                let found = places.find_entry(hash(slot.0), |entry| entry.0 == slot.0);
                found.expect("a key of a slice has a place").remove();
            }
        }
    }

    fn allocated_bytes(&self) -> usize {
        match self {
            Self::Direct(present) => present.capacity(),
            Self::Dense(places) => places.capacity() * size_of::<Place>(),
            Self::Sparse(places) => places.allocation_size(),
        }
    }

    /// No fewer than the bytes that `more` slots below `slot_bound` add.
    fn growth_bytes(&self, more: usize, slot_bound: usize) -> usize {
        match self {
            Self::Direct(present) => {
                let most = (2 * present.capacity()).max(slot_bound).max(8);
                most.saturating_sub(present.capacity())
            }
            Self::Dense(places) => {
                let most = (2 * places.capacity()).max(slot_bound).max(4);
                most.saturating_sub(places.capacity()) * size_of::<Place>() + sparse_bytes(more)
            }
            Self::Sparse(places) => sparse_bytes(places.len() + more),
        }
    }
}

fn sparse_bytes(keys: usize) -> usize {
    // Tables double at seven eighths of their places.
    (keys * 16 / 7 + 16).next_power_of_two() * (size_of::<(u32, Place)>() + 1)
}

/// The accumulators of one slice, or of a window.
#[derive(Debug)]
pub(crate) struct Slice {
    places: Places,
    /// How many places there are.
    bound: usize,
    /// How many keys.
    len: usize,
    /// By place: the slot of its key, or `NONE` for a place that is free; nothing where slots are places.
    slots: Vec<u32>,
    free: Vec<Place>,
    /// Those of the aggregates that are kept here; the others have no accumulators.
    pub(crate) columns: Vec<Box<dyn Accumulators>>,
    kept: Kept,
    /// By place: whether it differs from what the state has. Empty where there is no state.
    unwritten: Vec<bool>,
}

/// Which aggregates are kept.
pub(crate) type Kept = fn(&dyn Accumulators) -> bool;

impl Clone for Slice {
    fn clone(&self) -> Self {
        Self {
            places: self.places.clone(),
            bound: self.bound,
            len: self.len,
            slots: self.slots.clone(),
            free: self.free.clone(),
            columns: self
                .columns
                .iter()
                .map(|column| column.clone_box())
                .collect(),
            kept: self.kept,
            unwritten: self.unwritten.clone(),
        }
    }
}

impl Slice {
    pub(crate) fn new(plans: &Plans) -> Self {
        Self::keeping(plans, |_| true)
    }

    /// One that has places for all slots, for most of the keys.
    pub(crate) fn direct(self) -> Self {
        debug_assert!(self.is_empty(), "places of keys do not move");
        Self {
            places: Places::Direct(Vec::new()),
            ..self
        }
    }

    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.places, Places::Direct(_))
    }

    /// How many places there are: all are below this.
    pub(crate) fn bound(&self) -> usize {
        self.bound
    }

    /// One that keeps some aggregates alone.
    pub(crate) fn keeping(plans: &Plans, kept: Kept) -> Self {
        Self {
            places: Places::Dense(Vec::new()),
            bound: 0,
            len: 0,
            slots: Vec::new(),
            free: Vec::new(),
            columns: plans.iter().map(|plan| plan.empty.new_empty()).collect(),
            kept,
            unwritten: Vec::new(),
        }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn place(&self, slot: Slot) -> Option<Place> {
        self.places.get(slot)
    }

    /// The place of a key, which gets one without rows if it has none. Calls `created` then.
    #[inline]
    pub(crate) fn place_or_create(&mut self, slot: Slot, created: impl FnOnce(Place)) -> Place {
        match self.places.get(slot) {
            Some(place) => place,
            None => {
                let place = self.create(slot);
                created(place);
                place
            }
        }
    }

    /// Appends the places of the keys in `slots` to `places`; keys that have none get one. Calls `created` then.
    pub(crate) fn places(
        &mut self,
        slots: impl Iterator<Item = Slot>,
        places: &mut Vec<Place>,
        mut created: impl FnMut(Place, Slot),
    ) {
        for slot in slots {
            places.push(self.place_or_create(slot, |place| created(place, slot)));
        }
    }

    /// Adds the keys in `slots` where slots are places, and to the `holders` of those that are new; `false` if they are
    /// not. Whether a key is new is not for a branch to guess, so it costs the same.
    pub(crate) fn add_direct(
        &mut self,
        slots: impl Iterator<Item = Slot>,
        holders: &mut [u32],
    ) -> bool {
        let Places::Direct(present) = &mut self.places else {
            return false;
        };
        let mut added = 0;
        for slot in slots {
            let present = &mut present[slot.index()];
            let is_new = u32::from(!*present);
            *present = true;
            holders[slot.index()] += is_new;
            added += is_new;
        }
        self.len += added as usize;
        true
    }

    /// Adds keys at these places, which are their slots here too.
    pub(crate) fn add_present(&mut self, more: &[bool]) {
        let Places::Direct(present) = &mut self.places else {
            unreachable!("slots are places");
        };
        let mut added = 0;
        for (present, &more) in present.iter_mut().zip(more) {
            added += usize::from(more & !*present);
            *present |= more;
        }
        self.len += added;
    }

    /// By place, whether there is a key, if slots are places.
    pub(crate) fn present(&self) -> Option<&[bool]> {
        match &self.places {
            Places::Direct(present) => Some(present),
            _ => None,
        }
    }

    #[cold]
    fn create(&mut self, slot: Slot) -> Place {
        self.len += 1;
        if let Places::Direct(present) = &mut self.places {
            if slot.index() >= present.len() {
                present.resize(slot.index() + 1, false);
                self.bound = present.len();
            }
            present[slot.index()] = true;
            return slot.0;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(NONE);
            self.bound = self.slots.len();
            Place::try_from(self.slots.len() - 1).expect("there are fewer than 2^32 keys")
        });
        self.slots[place as usize] = slot.0;
        self.places.insert(slot, place, self.len);
        place
    }

    /// Makes room for keys of slots below `slot_bound`, if they are to have their places there.
    pub(crate) fn reserve_slots(&mut self, slot_bound: usize) {
        if let Places::Direct(present) = &mut self.places
            && slot_bound > present.len()
        {
            present.resize(slot_bound, false);
            self.bound = slot_bound;
        }
    }

    /// The key of a place that is not free.
    pub(crate) fn slot(&self, place: Place) -> Slot {
        match self.places {
            Places::Direct(_) => Slot(place),
            _ => Slot(self.slots[place as usize]),
        }
    }

    /// Gives places that were created their accumulators.
    pub(crate) fn grow_columns(&mut self) {
        let len = self.bound;
        for column in &mut self.columns {
            if (self.kept)(column.as_ref()) {
                column.grow(len);
            }
        }
    }

    /// Notes that what is at these places has changed.
    pub(crate) fn set_unwritten(&mut self, places: &[Place]) {
        self.unwritten.resize(self.bound, false);
        for &place in places {
            self.unwritten[place as usize] = true;
        }
    }

    pub(crate) fn set_all_unwritten(&mut self) {
        self.unwritten.clear();
        self.unwritten.resize(self.bound, true);
    }

    pub(crate) fn set_all_written(&mut self) {
        self.unwritten.fill(false);
    }

    pub(crate) fn is_unwritten(&self, place: Place) -> bool {
        self.unwritten.get(place as usize).copied().unwrap_or(false)
    }

    /// Calls `each` with each key's place and slot, by place.
    #[inline]
    pub(crate) fn for_each(&self, mut each: impl FnMut(Place, Slot)) {
        match &self.places {
            Places::Direct(present) => {
                for (slot, &present) in present.iter().enumerate() {
                    if present {
                        each(slot as Place, Slot(slot as u32));
                    }
                }
            }
            _ => {
                for (place, &slot) in self.slots.iter().enumerate() {
                    if slot != NONE {
                        each(place as Place, Slot(slot));
                    }
                }
            }
        }
    }

    /// Each key's place and slot, by place.
    pub(crate) fn entries(&self) -> Vec<(Place, Slot)> {
        let mut entries = Vec::with_capacity(self.len);
        self.for_each(|place, slot| entries.push((place, slot)));
        entries
    }

    /// Forgets keys and what they had.
    pub(crate) fn remove(&mut self, places: &[Place]) {
        self.len -= places.len();
        for &place in places {
            self.places.remove(self.slot(place));
            if !self.is_direct() {
                self.slots[place as usize] = NONE;
                self.free.push(place);
            }
        }
        for column in &mut self.columns {
            if (self.kept)(column.as_ref()) {
                column.reset(places);
            }
        }
    }

    /// Merges all of `other` into this, which gets the keys that it lacks; calls `created` with their slots.
    /// Fills `into` and `from` with the places.
    pub(crate) fn merge(
        &mut self,
        other: &Self,
        age: Age,
        pairs: &mut Pairs,
        mut created: impl FnMut(Slot),
    ) {
        self.pair(other, pairs, |_, slot| created(slot));
        for (column, others) in self.columns.iter_mut().zip(&other.columns) {
            if (self.kept)(column.as_ref()) {
                column.merge(&pairs.into, others.as_ref(), &pairs.from, age);
            }
        }
    }

    /// Fills `pairs` with where the keys of `other` are here, where they get a place if they have none.
    pub(crate) fn pair(
        &mut self,
        other: &Self,
        pairs: &mut Pairs,
        mut created: impl FnMut(Place, Slot),
    ) {
        pairs.clear();
        pairs.into.reserve(other.len);
        pairs.from.reserve(other.len);
        other.for_each(|from, slot| {
            let into = self.place_or_create(slot, |place| created(place, slot));
            pairs.into.push(into);
            pairs.from.push(from);
        });
        self.grow_columns();
    }

    /// Bytes allocated, by capacity: as the columns keep the account.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| column.allocated_bytes());
        self.table_bytes() + columns.sum::<usize>()
    }

    /// The same, counted over.
    pub(crate) fn recounted_bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| column.recounted_bytes());
        self.table_bytes() + columns.sum::<usize>()
    }

    fn table_bytes(&self) -> usize {
        self.places.allocated_bytes()
            + self.slots.capacity() * size_of::<u32>()
            + self.free.capacity() * size_of::<Place>()
            + self.unwritten.capacity()
            + self.columns.capacity() * size_of::<Box<dyn Accumulators>>()
            + size_of::<Self>()
    }

    /// No fewer than the bytes that `more` keys add, all of slots below `slot_bound`, besides what the columns
    /// know themselves.
    pub(crate) fn growth_bytes(&self, more: usize, slot_bound: usize) -> usize {
        let doubled = 2 * (self.slots.capacity() + more).max(slot_bound).max(8);
        let by_place = (doubled - self.slots.capacity()) * (size_of::<u32>() + size_of::<bool>());
        by_place + self.places.growth_bytes(more, slot_bound)
    }
}

/// Where keys are in two slices: buffers that are used again.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) into: Vec<Place>,
    pub(crate) from: Vec<Place>,
}

impl Pairs {
    pub(crate) fn clear(&mut self) {
        self.into.clear();
        self.from.clear();
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        (self.into.capacity() + self.from.capacity()) * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_with_few_of_many_keys_is_small() {
        let plans: Plans = Vec::new().into();
        let mut slice = Slice::new(&plans);
        for slot in [5, 1_000_000, 2_000_000, 3_000_000] {
            slice.place_or_create(Slot(slot), |_| ());
        }
        assert_eq!(slice.place(Slot(1_000_000)), Some(1));
        assert_eq!(slice.place(Slot(5)), Some(0));
        assert_eq!(slice.place(Slot(6)), None);
        assert!(
            slice.allocated_bytes() < 1_000,
            "{}",
            slice.allocated_bytes()
        );
    }

    #[test]
    fn a_slice_of_most_keys_has_them_at_their_slots() {
        let plans: Plans = Vec::new().into();
        let mut slice = Slice::new(&plans).direct();
        let mut created = Vec::new();
        for slot in [2, 0, 2] {
            let place = slice.place_or_create(Slot(slot), |place| created.push(place));
            assert_eq!(place, slot);
        }
        assert_eq!((created, slice.len(), slice.bound()), (vec![2, 0], 2, 3));
        assert_eq!(slice.entries(), [(0, Slot(0)), (2, Slot(2))]);
        slice.remove(&[0]);
        assert_eq!(slice.place(Slot(0)), None);
        assert_eq!(slice.entries(), [(2, Slot(2))]);
    }

    #[test]
    fn places_of_removed_keys_are_given_out_again() {
        let plans: Plans = Vec::new().into();
        let mut slice = Slice::new(&plans);
        for slot in 0..3 {
            slice.place_or_create(Slot(slot), |_| ());
        }
        slice.remove(&[1]);
        assert_eq!(slice.place(Slot(1)), None);
        assert_eq!(slice.place_or_create(Slot(9), |_| ()), 1);
        assert_eq!(slice.entries(), [(0, Slot(0)), (1, Slot(9)), (2, Slot(2))]);
    }
}
