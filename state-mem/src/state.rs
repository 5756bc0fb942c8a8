//! A store: an index of keys and a slab of values by slot.

use std::fmt;

use keygroup::{GroupCount, GroupRange, KeyGroup, group_of};
use state_codec::{
    KeyBatch, KeyIndex, KeyedState, MemoryDenied, Reservation, Slot, Snapshot, StateCodec,
};

use crate::backend::Opened;
use crate::error::MemError;

/// How many slots the lists of a bundle keep room for between bundles: 4 KiB each, which a store
/// charges when it is opened. A list that grew beyond is cut back, so that what a store retains
/// depends on its keys and values alone, and not on its largest bundle.
const LISTED_SLOTS_KEPT: usize = 1024;

/// What the running bundle did to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Nothing, or no key has the slot.
    Clean,
    /// It brought the key, which has no value yet.
    Fresh,
    /// It changed the value.
    Dirty,
}

/// The keyed values of one operator, in memory. Opened by a [`MemBackend`](crate::MemBackend).
///
/// A slot costs its key, `size_of::<Option<V>>()`, one byte, and what [`StateCodec::heap_bytes`] says
/// of the value. The codec encodes and decodes nothing here.
///
/// The memory pool is asked for room when keys are new and when values are claimed, and the account
/// is settled at the end of a bundle: then what is charged is exactly what is allocated. Values that
/// grew by more than was claimed are in memory already when the pool is asked for the difference.
/// If it refuses, [`end_bundle`](KeyedState::end_bundle) fails with [`MemError::Denied`], the values
/// stay, and less is charged than retained until a call of it succeeds. An operator that claims what
/// it puts does not get there.
pub struct MemState<V, C> {
    codec: C,
    groups: GroupCount,
    index: KeyIndex,
    values: Vec<Option<V>>,
    /// By slot, as `values`.
    marks: Vec<Mark>,
    /// Every slot whose mark is not clean, once.
    touched: Vec<Slot>,
    /// The slots that the last batch brought; a buffer of `resolve`.
    new: Vec<Slot>,
    /// What the values in clean slots weigh beyond the slab. A value leaves the sum when it becomes
    /// dirty, and comes back with what it weighs then.
    clean_heap_bytes: usize,
    reservation: Reservation,
    opened: Opened,
}

impl<V, C: StateCodec<V>> MemState<V, C> {
    pub(crate) fn new(
        opened: Opened,
        groups: GroupCount,
        reservation: Reservation,
        codec: C,
    ) -> Result<Self, MemError> {
        let mut state = Self {
            codec,
            groups,
            index: KeyIndex::default(),
            values: Vec::new(),
            marks: Vec::new(),
            touched: Vec::with_capacity(LISTED_SLOTS_KEPT),
            new: Vec::with_capacity(LISTED_SLOTS_KEPT),
            clean_heap_bytes: 0,
            reservation,
            opened,
        };
        state.settle()?;
        Ok(state)
    }

    /// How many keys have a value, between bundles.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no key has a value, between bundles.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// What is allocated for all but the values' own heap bytes.
    fn table_bytes(&self) -> usize {
        self.index.allocated_bytes()
            + self.values.capacity() * size_of::<Option<V>>()
            + self.marks.capacity() * size_of::<Mark>()
            + (self.touched.capacity() + self.new.capacity()) * size_of::<Slot>()
    }

    fn settle(&mut self) -> Result<(), MemoryDenied> {
        self.reservation
            .try_resize(self.table_bytes() + self.clean_heap_bytes)
    }

    /// Makes room by slot for the keys that the last batch brought, and charges it.
    fn admit_new(&mut self, table_bytes_before: usize) -> Result<(), MemoryDenied> {
        let bound = self.index.slot_bound();
        if bound > self.values.len() {
            self.values.resize_with(bound, || None);
            self.marks.resize(bound, Mark::Clean);
        }
        self.touched.reserve(self.new.len());
        let growth = self.table_bytes().saturating_sub(table_bytes_before);
        self.reservation.try_grow(growth)?;
        for &slot in &self.new {
            self.marks[slot.index()] = Mark::Fresh;
        }
        self.touched.extend_from_slice(&self.new);
        Ok(())
    }

    /// Forgets the keys that the last batch brought, and gives back what they made the tables grow by.
    fn refuse_new(&mut self, table_bytes_before: usize) {
        for slot in self.new.drain(..) {
            self.index.remove(slot);
        }
        self.index.shrink_to_fit();
        self.values.truncate(self.index.slot_bound());
        self.values.shrink_to_fit();
        self.marks.truncate(self.index.slot_bound());
        self.marks.shrink_to_fit();
        self.cut_lists();
        let freed = table_bytes_before.saturating_sub(self.table_bytes());
        self.shrink_charge(self.reservation.bytes().saturating_sub(freed));
    }

    fn cut_lists(&mut self) {
        self.new.clear();
        self.touched.shrink_to(LISTED_SLOTS_KEPT);
        self.new.shrink_to(LISTED_SLOTS_KEPT);
    }

    fn shrink_charge(&mut self, bytes: usize) {
        let bytes = bytes.min(self.reservation.bytes());
        let shrunk = self.reservation.try_resize(bytes);
        shrunk.expect("a pool never refuses to take bytes back");
    }

    fn touch(&mut self, slot: Slot) {
        let mark = &mut self.marks[slot.index()];
        if *mark == Mark::Clean {
            self.touched.push(slot);
            if let Some(value) = &self.values[slot.index()] {
                self.clean_heap_bytes -= self.codec.heap_bytes(value);
            }
        }
        *mark = Mark::Dirty;
    }

    fn has_dirty(&self) -> bool {
        let dirty = |slot: &Slot| self.marks[slot.index()] == Mark::Dirty;
        self.touched.iter().any(dirty)
    }

    /// Makes every slot clean, and forgets the keys without a value.
    fn close_bundle(&mut self) {
        for slot in self.touched.drain(..) {
            self.marks[slot.index()] = Mark::Clean;
            match &self.values[slot.index()] {
                Some(value) => self.clean_heap_bytes += self.codec.heap_bytes(value),
                None => self.index.remove(slot),
            }
        }
        self.cut_lists();
    }
}

impl<V, C> fmt::Debug for MemState<V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemState")
            .field("name", &self.opened)
            .field("groups", &self.groups)
            .field("keys", &self.index.len())
            .field("touched", &self.touched.len())
            .field("charged_bytes", &self.reservation.bytes())
            .finish_non_exhaustive()
    }
}

impl<V, C: StateCodec<V>> KeyedState<V> for MemState<V, C> {
    type Error = MemError;

    fn resolve(&mut self, keys: &KeyBatch, slots: &mut Vec<Slot>) -> Result<(), MemError> {
        let table_bytes_before = self.table_bytes();
        self.index.resolve(keys, slots, &mut self.new);
        if self.new.is_empty() {
            return Ok(());
        }
        self.admit_new(table_bytes_before).map_err(|denied| {
            slots.clear();
            self.refuse_new(table_bytes_before);
            denied.into()
        })
    }

    #[inline]
    fn get(&self, slot: Slot) -> Option<&V> {
        self.values[slot.index()].as_ref()
    }

    #[inline]
    fn get_mut(&mut self, slot: Slot) -> Option<&mut V> {
        self.touch(slot);
        self.values[slot.index()].as_mut()
    }

    #[inline]
    fn put(&mut self, slot: Slot, value: V) {
        self.touch(slot);
        self.values[slot.index()] = Some(value);
    }

    #[inline]
    fn remove(&mut self, slot: Slot) -> Option<V> {
        self.touch(slot);
        self.values[slot.index()].take()
    }

    fn claim(&mut self, additional: usize) -> Result<(), MemError> {
        Ok(self.reservation.try_grow(additional)?)
    }

    /// Costs what the bundle touched, and nothing per key of the store.
    fn end_bundle(&mut self) -> Result<(), MemError> {
        self.close_bundle();
        Ok(self.settle()?)
    }

    fn abandon_bundle(&mut self) {
        assert!(
            !self.has_dirty(),
            "a bundle with dirty values is ended and not abandoned"
        );
        self.close_bundle();
        self.shrink_charge(self.table_bytes() + self.clean_heap_bytes);
    }

    fn charged_bytes(&self) -> usize {
        self.reservation.bytes()
    }
}

impl<V, C: StateCodec<V>> Snapshot<V> for MemState<V, C> {
    type Error = MemError;

    /// Sorts a list of the keys, which is not charged: `O(n log n)` for `n` keys, and their bytes once
    /// more in memory.
    ///
    /// # Panics
    ///
    /// If a value is dirty.
    fn scan(
        &mut self,
        groups: GroupRange,
        visit: &mut dyn FnMut(KeyGroup, &[u8], &V),
    ) -> Result<(), MemError> {
        assert!(!self.has_dirty(), "a scan is between bundles");
        let mut rows = Vec::new();
        let mut entries = Vec::new();
        for slot in self.index.slots() {
            let Some(value) = &self.values[slot.index()] else {
                continue;
            };
            let start = rows.len();
            self.index.write_key_row(slot, &mut rows);
            let group = group_of(&rows[start..], self.groups);
            if groups.contains(group) {
                entries.push((group, start..rows.len(), value));
            } else {
                rows.truncate(start);
            }
        }
        entries.sort_unstable_by(|(group_a, row_a, _), (group_b, row_b, _)| {
            group_a
                .cmp(group_b)
                .then_with(|| rows[row_a.clone()].cmp(&rows[row_b.clone()]))
        });
        for (group, row, value) in entries {
            visit(group, &rows[row], value);
        }
        Ok(())
    }

    /// # Panics
    ///
    /// If a bundle is open.
    fn load(&mut self, key_row: &[u8], value: V) -> Result<(), MemError> {
        assert!(self.touched.is_empty(), "a load is between bundles");
        let keys = KeyBatch::from_rows([key_row])?;
        let mut slots = Vec::with_capacity(1);
        self.resolve(&keys, &mut slots)?;
        if let Err(denied) = self.claim(self.codec.heap_bytes(&value)) {
            self.abandon_bundle();
            return Err(denied);
        }
        self.put(slots[0], value);
        self.end_bundle()
    }
}

#[cfg(test)]
mod tests {
    use keygroup::GroupCount;
    use state_codec::{
        DecodeError, KeyBatch, KeyedState, MemoryPool, Slot, Snapshot, StateBackend, StateCodec,
    };

    use super::MemState;
    use crate::{MemBackend, MemError};

    struct Text;

    impl StateCodec<String> for Text {
        fn encode_into(&self, value: &String, out: &mut Vec<u8>) {
            out.extend_from_slice(value.as_bytes());
        }

        fn decode(&self, bytes: &[u8]) -> Result<String, DecodeError> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }

        fn heap_bytes(&self, value: &String) -> usize {
            value.capacity()
        }
    }

    fn backend(pool: &MemoryPool) -> MemBackend {
        MemBackend::new(GroupCount::new(128).unwrap()).with_pool(pool.clone())
    }

    fn open(pool: &MemoryPool) -> MemState<String, Text> {
        backend(pool).open("store", Text).unwrap()
    }

    fn key(number: u64) -> Vec<u8> {
        [[0; 8], number.to_le_bytes()].concat()
    }

    fn resolve(
        state: &mut MemState<String, Text>,
        keys: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<Slot>, MemError> {
        let rows: Vec<Vec<u8>> = keys.into_iter().map(key).collect();
        let keys = KeyBatch::from_rows(rows.iter().map(Vec::as_slice)).unwrap();
        let mut slots = Vec::new();
        state.resolve(&keys, &mut slots)?;
        Ok(slots)
    }

    /// Counts again what the store should have charged, from nothing but what it holds.
    fn recount(state: &MemState<String, Text>) -> usize {
        state.index.allocated_bytes()
            + state.values.capacity() * size_of::<Option<String>>()
            + state.marks.capacity()
            + (state.touched.capacity() + state.new.capacity()) * 4
            + state
                .values
                .iter()
                .flatten()
                .map(String::capacity)
                .sum::<usize>()
    }

    #[test]
    fn the_charge_after_each_bundle_is_a_recount() {
        let pool = MemoryPool::unlimited();
        let mut state = open(&pool);
        assert_eq!(state.charged_bytes(), recount(&state)); // what an empty store allocates counts too
        assert_eq!(state.charged_bytes(), 2 * 4 * 1024);
        for round in 0..60_u64 {
            let slots = resolve(&mut state, (0..100).map(|i| (i * round) % 173)).unwrap();
            for (i, slot) in slots.into_iter().enumerate() {
                match (i as u64 + round) % 5 {
                    0 => state.put(slot, "x".repeat(i * 7)),
                    1 => drop(state.remove(slot)),
                    2 => {
                        if let Some(value) = state.get_mut(slot) {
                            value.push_str("grows");
                            value.shrink_to_fit();
                        }
                    }
                    _ => drop(state.get(slot)),
                }
            }
            state.end_bundle().unwrap();
            assert_eq!(state.charged_bytes(), recount(&state), "round {round}");
            assert_eq!(state.charged_bytes(), pool.used_bytes(), "round {round}");
            assert_eq!(state.len(), state.values.iter().flatten().count());
        }
        assert!(!state.is_empty());
    }

    #[test]
    fn a_large_bundle_leaves_no_large_lists() {
        let mut state = open(&MemoryPool::unlimited());
        resolve(&mut state, 0..100_000).unwrap();
        state.abandon_bundle();
        assert_eq!(state.touched.capacity(), 1024);
        assert_eq!(state.new.capacity(), 1024);
    }

    #[test]
    fn growth_that_nobody_claimed_is_refused_after_it_happened_and_kept() {
        let pool = MemoryPool::new(100_000);
        let mut state = open(&pool);
        let mut other = pool.reserve("other");
        let slots = resolve(&mut state, [1]).unwrap();
        other.try_resize(90_000).unwrap();
        state.put(slots[0], "v".repeat(50_000));
        let charged = state.charged_bytes();
        let denied = state.end_bundle().unwrap_err();
        assert!(matches!(denied, MemError::Denied(_)), "{denied:?}");
        assert_eq!(state.charged_bytes(), charged);

        drop(other);
        state.end_bundle().unwrap();
        assert_eq!(state.charged_bytes(), recount(&state));
        let slots = resolve(&mut state, [1]).unwrap();
        assert_eq!(state.get(slots[0]).map(String::len), Some(50_000));
    }

    #[test]
    fn a_refused_batch_gives_back_what_it_made_the_tables_grow_by() {
        let pool = MemoryPool::new(64 << 10);
        let mut state = open(&pool);
        let slots = resolve(&mut state, 0..100).unwrap();
        for slot in slots {
            state.put(slot, String::new());
        }
        state.end_bundle().unwrap();
        let charged = state.charged_bytes();
        for _ in 0..3 {
            let denied = resolve(&mut state, 0..10_000).unwrap_err();
            assert!(matches!(denied, MemError::Denied(_)), "{denied:?}");
            assert_eq!((state.len(), state.index.slot_bound()), (100, 100));
            assert_eq!(state.charged_bytes(), recount(&state));
            assert!(state.charged_bytes() <= charged);
        }
    }

    #[test]
    fn a_load_without_room_changes_nothing() {
        let pool = MemoryPool::new(64 << 10);
        let mut state = open(&pool);
        state.load(&key(1), "one".into()).unwrap();
        let charged = state.charged_bytes();
        let denied = state.load(&key(2), "2".repeat(1 << 20)).unwrap_err();
        assert!(matches!(denied, MemError::Denied(_)), "{denied:?}");
        assert_eq!((state.len(), state.charged_bytes()), (1, charged));
    }

    #[test]
    fn a_store_that_the_pool_has_no_room_for_is_not_opened() {
        let pool = MemoryPool::new(100);
        let backend = backend(&pool);
        let refused = backend.open("store", Text).unwrap_err();
        assert!(matches!(refused, MemError::Denied(_)), "{refused:?}");
        assert_eq!(pool.used_bytes(), 0);
    }

    #[test]
    fn a_refused_name_is_in_the_message() {
        let backend = backend(&MemoryPool::unlimited());
        assert_eq!(
            backend.open("a/b", Text).unwrap_err().to_string(),
            r#""a/b" is no name for a store: 1 to 128 ASCII letters, digits, '-' and '_' are"#
        );
        let _open = backend.open("store", Text).unwrap();
        assert_eq!(
            backend.clone().open("store", Text).unwrap_err().to_string(),
            r#"store "store" is open already"#
        );
    }

    #[test]
    #[should_panic(expected = "a scan is between bundles")]
    fn a_scan_within_a_bundle_is_a_fault_of_the_caller() {
        let mut state = open(&MemoryPool::unlimited());
        let slots = resolve(&mut state, [1]).unwrap();
        state.put(slots[0], "dirty".into());
        let groups = GroupCount::new(128).unwrap().all();
        state.scan(groups, &mut |_, _, _| ()).unwrap();
    }
}
