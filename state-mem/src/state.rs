//! A store: an index of keys and a slab of values by slot.

use std::fmt;
use std::sync::Arc;

use keygroup::GroupCount;
use state_codec::{
    KeyBatch, KeyIndex, KeyedState, MemoryDenied, Reservation, Slot, Snapshot, StateCodec,
    StateValue, StoreMetrics,
};

use crate::backend::Opened;
use crate::error::MemError;
use crate::expiry::Expiries;
use crate::slab::Slab;
use crate::view::MemView;

/// How many slots the lists of a bundle keep room for between bundles: 4 KiB each, which a store
/// charges when it is opened. A list that grew beyond is cut back, so that what a store retains
/// depends on its keys and values alone, and not on its largest bundle.
const LISTED_SLOTS_KEPT: usize = 1024;

/// What the running bundle did to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Nothing, or no key has the slot.
    Clean,
    /// It brought the key, which has no value yet, or found its value expired.
    Fresh,
    /// It changed the value.
    Dirty,
}

/// Slots below which it is not worth to move values together.
const SPARSE_SLOTS: usize = 1024;

/// The keyed values of one operator, in memory. Opened by a [`MemBackend`](crate::MemBackend).
///
/// A slot costs its key, `size_of::<Option<V>>()`, one byte, twelve more where values expire, and what
/// [`StateCodec::heap_bytes`] says of the value. The codec encodes and decodes nothing here.
///
/// The memory pool is asked for room when keys are new and when values are claimed, and the account
/// is settled at the end of a bundle: then what is charged is exactly what is allocated. Values that
/// grew by more than was claimed are in memory already when the pool is asked for the difference, as is
/// what had to be copied because a [view](MemView) shares it.
/// If it refuses, [`end_bundle`](KeyedState::end_bundle) fails with [`MemError::Denied`], the values
/// stay, and less is charged than retained until a call of it succeeds. An operator that claims what
/// it puts gets there only beside a view.
///
/// Values that expired and are not asked for again are swept: the end of each bundle looks at as many
/// slots as the bundle had rows and a few more, and so does
/// [`advance_clock`](KeyedState::advance_clock) between bundles. When fewer than a quarter of the slots have a key left,
/// the others are moved together and their memory is given back; that takes a pass over the slots, which
/// is paid for by the many removals before, as the growth of a table is by insertions.
pub struct MemState<V, C> {
    codec: C,
    groups: GroupCount,
    index: KeyIndex,
    values: Slab<V>,
    /// By slot, as `values`.
    marks: Vec<Mark>,
    /// Only where values expire.
    expiries: Option<Expiries>,
    now_ms: i64,
    /// Every slot whose mark is not clean, once.
    touched: Vec<Slot>,
    /// The slots that the last batch brought; a buffer of `resolve`.
    new: Vec<Slot>,
    /// Slots stand for keys that a caller has resolved.
    in_bundle: bool,
    /// What the values in clean slots weigh beyond the slab. A value leaves the sum when it becomes
    /// dirty, and comes back with what it weighs then.
    clean_heap_bytes: usize,
    /// Shared with each view.
    views: Arc<()>,
    /// What was copied because a view shares it.
    copied_bytes: usize,
    reservation: Reservation,
    metrics: StoreMetrics,
    opened: Opened,
}

impl<V: StateValue, C: StateCodec<V>> MemState<V, C> {
    pub(crate) fn new(
        opened: Opened,
        groups: GroupCount,
        reservation: Reservation,
        codec: C,
    ) -> Result<Self, MemError> {
        let mut state = Self {
            groups,
            index: KeyIndex::default(),
            values: Slab::default(),
            marks: Vec::new(),
            expiries: codec.stored_expiry().map(|_| Expiries::new()),
            codec,
            now_ms: i64::MIN,
            touched: Vec::with_capacity(LISTED_SLOTS_KEPT),
            new: Vec::with_capacity(LISTED_SLOTS_KEPT),
            in_bundle: false,
            clean_heap_bytes: 0,
            views: Arc::new(()),
            copied_bytes: 0,
            reservation,
            metrics: StoreMetrics::default(),
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
            + self.values.allocated_bytes()
            + self.marks.capacity() * size_of::<Mark>()
            + (self.touched.capacity() + self.new.capacity()) * size_of::<Slot>()
            + self.expiries.as_ref().map_or(0, Expiries::allocated_bytes)
    }

    fn settle(&mut self) -> Result<(), MemoryDenied> {
        if Arc::strong_count(&self.views) == 1 {
            self.copied_bytes = 0;
        }
        self.reservation
            .try_resize(self.table_bytes() + self.clean_heap_bytes + self.copied_bytes)
    }

    /// Makes room by slot for the keys that the last batch brought, and charges it.
    fn admit_new(&mut self, table_bytes_before: usize) -> Result<(), MemoryDenied> {
        let bound = self.index.slot_bound();
        self.values.grow(bound);
        if bound > self.marks.len() {
            self.marks.resize(bound, Mark::Clean);
        }
        if let Some(expiries) = &mut self.expiries {
            expiries.grow(bound);
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

    /// Takes the values that are gone by now from slots that the bundle resolves for the first time.
    fn expire_resolved(&mut self, slots: &[Slot]) {
        let Some(mut expiries) = self.expiries.take() else {
            return;
        };
        expiries.touch(slots, self.now_ms, |slot| {
            self.take_clean(slot);
            self.marks[slot.index()] = Mark::Fresh;
            self.touched.push(slot);
        });
        self.expiries = Some(expiries);
    }

    /// Goes on with the sweep, and moves values together if few are left.
    fn reclaim(&mut self) {
        let Some(mut expiries) = self.expiries.take() else {
            return;
        };
        expiries.sweep(self.now_ms, |slot| {
            self.take_clean(slot);
            self.index.remove(slot);
        });
        self.expiries = Some(expiries);
        if self.index.slot_bound() > SPARSE_SLOTS && self.index.len() * 4 < self.index.slot_bound()
        {
            self.move_together();
        }
    }

    fn take_clean(&mut self, slot: Slot) {
        let value = self
            .place(slot)
            .take()
            .expect("a value that expires is there");
        self.clean_heap_bytes -= self.codec.heap_bytes(&value);
        self.metrics.expired += 1;
    }

    /// Every slot is clean.
    fn move_together(&mut self) {
        let mut values = Slab::default();
        values.grow(self.index.len());
        let (old_values, codec, copied) = (&mut self.values, &self.codec, &mut self.copied_bytes);
        let mut expiries = self.expiries.as_mut();
        self.index.renumber(|old, new| {
            let heap_bytes = |value: &V| codec.heap_bytes(value);
            let value = old_values.get_mut(old, copied, heap_bytes).take();
            *values.get_mut(new, &mut 0, heap_bytes) = value;
            if let Some(expiries) = &mut expiries {
                expiries.renumber(old, new);
            }
        });
        self.values = values;
        self.shrink_columns();
    }

    /// Gives back what the columns have beyond the slots of the index.
    fn shrink_columns(&mut self) {
        let bound = self.index.slot_bound();
        self.values.shrink(bound);
        self.marks.truncate(bound);
        self.marks.shrink_to_fit();
        if let Some(expiries) = &mut self.expiries {
            expiries.shrink(bound);
        }
    }

    fn place(&mut self, slot: Slot) -> &mut Option<V> {
        let heap_bytes = |value: &V| self.codec.heap_bytes(value);
        self.values
            .get_mut(slot, &mut self.copied_bytes, heap_bytes)
    }

    /// Forgets the keys that the last batch brought, and gives back what they made the tables grow by.
    fn refuse_new(&mut self, table_bytes_before: usize) {
        for slot in self.new.drain(..) {
            self.index.remove(slot);
        }
        self.index.shrink_to_fit();
        self.shrink_columns();
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
            if let Some(value) = self.values.get(slot) {
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
            let Some(value) = self.values.get(slot) else {
                self.index.remove(slot);
                continue;
            };
            self.clean_heap_bytes += self.codec.heap_bytes(value);
            if let Some(expiries) = &mut self.expiries {
                expiries.set(slot, self.codec.expires_at_ms(value));
            }
        }
        if let Some(expiries) = &mut self.expiries {
            expiries.end_bundle();
        }
        self.in_bundle = false;
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

impl<V: StateValue, C: StateCodec<V>> KeyedState<V> for MemState<V, C> {
    type Error = MemError;

    fn advance_clock(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
        if !self.in_bundle {
            self.reclaim();
            // What was reclaimed is given back; a copy for a view waits for the end of a bundle.
            let bytes = self.table_bytes() + self.clean_heap_bytes + self.copied_bytes;
            self.shrink_charge(bytes);
        }
    }

    fn resolve(&mut self, keys: &KeyBatch, slots: &mut Vec<Slot>) -> Result<(), MemError> {
        let table_bytes_before = self.table_bytes();
        self.index.resolve(keys, slots, &mut self.new);
        if !self.new.is_empty() {
            self.admit_new(table_bytes_before).inspect_err(|_| {
                slots.clear();
                self.refuse_new(table_bytes_before);
            })?;
        }
        self.in_bundle = true;
        self.metrics.probes += keys.len() as u64;
        self.expire_resolved(slots);
        Ok(())
    }

    #[inline]
    fn get(&self, slot: Slot) -> Option<&V> {
        self.values.get(slot)
    }

    #[inline]
    fn get_mut(&mut self, slot: Slot) -> Option<&mut V> {
        self.touch(slot);
        self.place(slot).as_mut()
    }

    #[inline]
    fn put(&mut self, slot: Slot, value: V) {
        self.touch(slot);
        *self.place(slot) = Some(value);
    }

    #[inline]
    fn remove(&mut self, slot: Slot) -> Option<V> {
        self.touch(slot);
        self.place(slot).take()
    }

    fn claim(&mut self, additional: usize) -> Result<(), MemError> {
        Ok(self.reservation.try_grow(additional)?)
    }

    /// Costs what the bundle touched, and a sweep over about as many slots as it had rows.
    fn end_bundle(&mut self) -> Result<(), MemError> {
        self.close_bundle();
        self.reclaim();
        self.settle()?;
        self.metrics.bundles += 1;
        Ok(())
    }

    fn abandon_bundle(&mut self) {
        assert!(
            !self.has_dirty(),
            "a bundle with dirty values is ended and not abandoned"
        );
        self.close_bundle();
        self.shrink_charge(self.table_bytes() + self.clean_heap_bytes + self.copied_bytes);
    }

    fn charged_bytes(&self) -> usize {
        self.reservation.bytes()
    }

    fn metrics(&self) -> StoreMetrics {
        self.metrics
    }
}

impl<V: StateValue, C: StateCodec<V>> Snapshot<V> for MemState<V, C> {
    type Error = MemError;
    type View = MemView<V>;

    /// Copies the keys, as memory, and a pointer for each 128 values. Values are copied when they change
    /// for the first time after it, 128 at a time.
    ///
    /// # Panics
    ///
    /// If a value is dirty.
    fn freeze(&mut self) -> Result<MemView<V>, MemError> {
        assert!(!self.has_dirty(), "a view is taken between bundles");
        let expiries_ms = self.expiries.as_ref().map_or(&[][..], Expiries::at_ms);
        let mut reservation = self
            .reservation
            .pool()
            .reserve(&format!("{} view", self.reservation.name()));
        reservation.try_resize(
            self.index.key_rows_bytes() + self.values.share_bytes() + size_of_val(expiries_ms),
        )?;
        Ok(MemView {
            keys: self.index.to_key_rows(),
            values: self.values.share(),
            expiries_ms: expiries_ms.to_vec(),
            now_ms: self.now_ms,
            groups: self.groups,
            _reservation: reservation,
            _alive: Arc::clone(&self.views),
        })
    }

    fn is_empty(&mut self) -> Result<bool, MemError> {
        Ok(self.index.is_empty())
    }

    /// # Panics
    ///
    /// If a value is dirty.
    fn clear(&mut self) -> Result<(), MemError> {
        assert!(!self.has_dirty(), "a store is cleared between bundles");
        self.close_bundle();
        self.index = KeyIndex::default();
        self.values = Slab::default();
        self.marks = Vec::new();
        self.expiries = self.expiries.as_ref().map(|_| Expiries::new());
        self.clean_heap_bytes = 0;
        Ok(self.settle()?)
    }
}

#[cfg(test)]
mod tests {
    use keygroup::GroupCount;
    use state_codec::{
        DecodeError, KeyBatch, KeyedState, MemoryPool, NEVER, Slot, Snapshot, StateBackend,
        StateCodec, StoredExpiry,
    };

    use super::MemState;
    use crate::{MemBackend, MemError};

    #[derive(Clone)]
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
        let values = state
            .index
            .slots()
            .filter_map(|slot| state.values.get(slot));
        state.index.allocated_bytes()
            + state.values.allocated_bytes()
            + state.marks.capacity()
            + (state.touched.capacity() + state.new.capacity()) * 4
            + values.map(String::capacity).sum::<usize>()
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
            let values = state
                .index
                .slots()
                .filter(|&slot| state.get(slot).is_some());
            assert_eq!(state.len(), values.count());
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
        other.try_resize(85_000).unwrap();
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

    /// Numbers that are the times at which they expire.
    #[derive(Clone)]
    struct Deadline;

    impl StateCodec<i64> for Deadline {
        fn encode_into(&self, _: &i64, _: &mut Vec<u8>) {
            unreachable!("memory encodes nothing");
        }

        fn decode(&self, _: &[u8]) -> Result<i64, DecodeError> {
            unreachable!("memory decodes nothing");
        }

        fn heap_bytes(&self, _: &i64) -> usize {
            0
        }

        fn expires_at_ms(&self, value: &i64) -> i64 {
            *value
        }

        fn stored_expiry(&self) -> Option<StoredExpiry> {
            Some(std::sync::Arc::new(|_| NEVER))
        }
    }

    /// 100,000 keys that come once, then rows of one other key while a minute passes.
    fn idle_keys_are_swept(rows_per_batch: usize) {
        let pool = MemoryPool::unlimited();
        let mut state: MemState<i64, Deadline> = backend(&pool).open("store", Deadline).unwrap();
        let empty = state.charged_bytes();
        state.advance_clock(0);
        let push = |state: &mut MemState<i64, Deadline>, now_ms: i64, keys: Vec<u64>| {
            state.advance_clock(now_ms);
            let rows: Vec<Vec<u8>> = keys.into_iter().map(key).collect();
            let keys = KeyBatch::from_rows(rows.iter().map(Vec::as_slice)).unwrap();
            let mut slots = Vec::new();
            state.resolve(&keys, &mut slots).unwrap();
            for slot in slots {
                state.put(slot, now_ms + 1_000);
            }
            state.end_bundle().unwrap();
        };
        for start in (0..100_000).step_by(1000) {
            push(&mut state, 0, (start..start + 1000).collect());
        }
        let full = state.charged_bytes();
        assert!(full > 4 << 20, "{full} bytes");
        let batches = 100_000 / rows_per_batch;
        for batch in 1..=batches {
            let now_ms = 60_000 * batch as i64 / batches as i64;
            push(&mut state, now_ms, vec![u64::MAX; rows_per_batch]);
        }
        assert_eq!(state.len(), 1);
        // Where the batches are a second apart, so does the one key that comes.
        let own = if 60_000 / batches >= 1_000 {
            batches - 1
        } else {
            0
        };
        assert_eq!(state.metrics().expired, 100_000 + own as u64);
        let left = state.charged_bytes();
        assert!(left < empty + (128 << 10), "{left} bytes of {full}");
        assert_eq!(left, pool.used_bytes());
    }

    #[test]
    fn keys_that_nobody_asks_for_again_are_swept() {
        idle_keys_are_swept(1);
        idle_keys_are_swept(100);
        idle_keys_are_swept(5000);
    }

    #[test]
    fn a_clock_without_rows_sweeps_too() {
        let pool = MemoryPool::unlimited();
        let mut state: MemState<i64, Deadline> = backend(&pool).open("store", Deadline).unwrap();
        let rows: Vec<Vec<u8>> = (0..10_000).map(key).collect();
        let keys = KeyBatch::from_rows(rows.iter().map(Vec::as_slice)).unwrap();
        let mut slots = Vec::new();
        state.resolve(&keys, &mut slots).unwrap();
        for slot in slots {
            state.put(slot, 1_000);
        }
        state.end_bundle().unwrap();
        for tick in 0..200 {
            state.advance_clock(1_000 + tick);
        }
        assert_eq!(state.len(), 0);
        assert_eq!(state.charged_bytes(), pool.used_bytes());
    }

    #[test]
    fn what_a_view_makes_the_store_copy_is_charged_while_there_is_a_view() {
        let pool = MemoryPool::unlimited();
        let mut state = open(&pool);
        for slot in resolve(&mut state, 0..1000).unwrap() {
            state.put(slot, "x".repeat(100));
        }
        state.end_bundle().unwrap();
        let before = state.charged_bytes();
        let view = state.freeze().unwrap();
        assert!(pool.used_bytes() >= before + 1000 * 12, "the view's keys");
        let slot = resolve(&mut state, [5]).unwrap()[0];
        state.get_mut(slot).unwrap().push('y');
        state.end_bundle().unwrap();
        let chunk = 128 * (size_of::<Option<String>>() + 100) + 16;
        let copied = state.charged_bytes() - recount(&state);
        assert_eq!(copied, chunk);
        drop(view);
        let slot = resolve(&mut state, [5]).unwrap()[0];
        state.get_mut(slot).unwrap().shrink_to_fit();
        state.end_bundle().unwrap();
        assert_eq!(state.charged_bytes(), recount(&state));
        assert_eq!(state.charged_bytes(), pool.used_bytes());
    }

    #[test]
    fn a_view_that_the_pool_has_no_room_for_is_not_taken() {
        let pool = MemoryPool::new(256 << 10);
        let mut state = open(&pool);
        for slot in resolve(&mut state, 0..1000).unwrap() {
            state.put(slot, "x".repeat(8));
        }
        state.end_bundle().unwrap();
        let mut other = pool.reserve("other");
        other
            .try_resize(pool.limit_bytes() - pool.used_bytes() - 1000)
            .unwrap();
        let used = pool.used_bytes();
        let denied = state.freeze().unwrap_err();
        assert!(matches!(denied, MemError::Denied(_)), "{denied:?}");
        assert_eq!(pool.used_bytes(), used);
    }

    #[test]
    #[should_panic(expected = "a view is taken between bundles")]
    fn a_view_within_a_bundle_is_a_fault_of_the_caller() {
        let mut state = open(&MemoryPool::unlimited());
        let slots = resolve(&mut state, [1]).unwrap();
        state.put(slots[0], "dirty".into());
        let _view = state.freeze();
    }
}
