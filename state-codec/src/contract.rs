//! The battery that every store must pass: the contracts of [`KeyedState`], [`Snapshot`] and
//! [`StateBackend`], each held beside a slow model.
//!
//! A store runs it with one call from a test:
//!
//! ```ignore
//! #[test]
//! fn the_contract_holds() {
//!     let groups = GroupCount::new(128).unwrap();
//!     state_codec::contract::run(groups, |pool| MyBackend::new(groups, pool));
//! }
//! ```
//!
//! Its random sequences are the same in every run.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field};
use keygroup::{GroupCount, GroupRange, group_of, hash_of};

use crate::key::{KeyBatch, KeyEncoder};
use crate::key_index::Slot;
use crate::memory::MemoryPool;
use crate::row::DecodeError;
use crate::state::{
    KeyedState, NEVER, Snapshot, SnapshotView, StateBackend, StateCodec, StoredExpiry,
};

/// The values of the battery.
type Bytes = Vec<u8>;

/// Runs every check, each over backends of its own. `open` makes one that holds nothing, divides its
/// keys into `groups`, and charges the pool.
///
/// # Panics
///
/// If the store breaks its contract; the message says which part.
pub fn run<B: StateBackend>(groups: GroupCount, mut open: impl FnMut(MemoryPool) -> B) {
    let mut fresh = || Bench::new(groups, MemoryPool::unlimited(), &mut open);

    equal_keys_have_equal_slots(fresh());
    slots_come_in_the_callers_order(fresh());
    a_batch_without_rows_is_a_batch(fresh());
    columns_and_rows_make_the_same_keys(fresh());
    equal_hashes_stay_two_keys(fresh());
    values_survive_the_bundle(fresh());
    a_look_is_no_write(fresh());
    a_change_in_place_is_kept(fresh());
    a_removed_value_is_gone(fresh());
    a_value_put_and_removed_leaves_nothing(fresh());
    an_empty_value_is_a_value(fresh());
    keys_without_values_are_forgotten(fresh());
    an_abandoned_bundle_leaves_nothing(fresh());
    a_dirty_bundle_is_not_abandoned(fresh());
    a_claim_is_given_back(fresh());
    a_scan_is_in_order_and_within_its_groups(fresh());
    a_scan_stops_when_told(fresh());
    a_view_is_of_one_moment(fresh());
    a_cleared_store_is_empty(fresh());
    a_store_counts_what_it_does(fresh());
    names_are_checked_and_taken_once(fresh());
    a_dropped_store_gives_back_its_memory(fresh());

    a_refused_claim_changes_nothing(&mut |pool| Bench::new(groups, pool, &mut open));
    a_refused_batch_changes_nothing(&mut |pool| Bench::new(groups, pool, &mut open));

    let mut expiring = || Bench::expiring(groups, MemoryPool::unlimited(), &mut open);
    a_value_expires_at_the_first_touch_of_a_bundle(expiring());
    an_expiry_writes_nothing(expiring());
    the_clock_never_goes_back(expiring());
    a_value_may_live_for_a_century(expiring());
    a_view_leaves_out_what_has_expired(expiring());

    for seed in 0..24 {
        let bench = Bench::new(groups, MemoryPool::unlimited(), &mut open);
        random_operations_are_those_of_a_map(bench, seed);
        let bench = Bench::expiring(groups, MemoryPool::unlimited(), &mut open);
        random_expiries_are_those_of_a_map(bench, seed);
    }
}

/// A backend, its pool, and one store of it.
struct Bench<B: StateBackend> {
    state: B::State<Bytes, CountingCodec>,
    encoded: Arc<AtomicUsize>,
    pool: MemoryPool,
    groups: GroupCount,
    backend: B,
}

impl<B: StateBackend> Bench<B> {
    fn new(groups: GroupCount, pool: MemoryPool, open: &mut impl FnMut(MemoryPool) -> B) -> Self {
        Self::of_codec(groups, pool, open, CountingCodec::default())
    }

    /// Values begin with the time at which they expire.
    fn expiring(
        groups: GroupCount,
        pool: MemoryPool,
        open: &mut impl FnMut(MemoryPool) -> B,
    ) -> Self {
        let codec = CountingCodec {
            expires: true,
            ..CountingCodec::default()
        };
        Self::of_codec(groups, pool, open, codec)
    }

    fn of_codec(
        groups: GroupCount,
        pool: MemoryPool,
        open: &mut impl FnMut(MemoryPool) -> B,
        codec: CountingCodec,
    ) -> Self {
        let backend = open(pool.clone());
        let encoded = Arc::clone(&codec.encoded);
        let state = ok(backend.open("battery", codec));
        Self {
            state,
            encoded,
            pool,
            groups,
            backend,
        }
    }

    fn resolve(&mut self, keys: &KeyBatch) -> Vec<Slot> {
        let mut slots = vec![Slot(u32::MAX)]; // stale content is replaced
        ok(self.state.resolve(keys, &mut slots));
        assert_eq!(slots.len(), keys.len(), "resolve gives one slot per key");
        slots
    }

    /// Puts the values in a bundle of their own.
    fn store(&mut self, entries: &[(Bytes, Bytes)]) {
        let slots = self.resolve(&batch(entries.iter().map(|(key, _)| key)));
        for (slot, (_, value)) in slots.into_iter().zip(entries) {
            self.state.put(slot, value.clone());
        }
        self.end();
    }

    fn end(&mut self) {
        ok(self.state.end_bundle());
        self.assert_settled("after end_bundle");
    }

    fn abandon(&mut self) {
        self.state.abandon_bundle();
        self.assert_settled("after abandon_bundle");
    }

    /// The store is the pool's only holder, so the two must agree.
    fn assert_settled(&self, when: &str) {
        assert_eq!(
            self.state.charged_bytes(),
            self.pool.used_bytes(),
            "charged_bytes is what the pool counts, {when}"
        );
    }

    fn scan(&mut self, groups: GroupRange) -> Vec<Entry> {
        scan(&mut ok(self.state.freeze()), groups)
    }

    /// Asserts that the store holds just what the model does, in the order of a snapshot.
    fn assert_holds(&mut self, model: &BTreeMap<Bytes, Bytes>) {
        self.assert_holds_within(model, self.groups.all());
    }

    fn assert_holds_within(&mut self, model: &BTreeMap<Bytes, Bytes>, range: GroupRange) {
        let mut expected: Vec<(u16, Bytes, Bytes)> = model
            .iter()
            .map(|(key, value)| (group_of(key, self.groups), key, value))
            .filter(|&(group, ..)| range.contains(group))
            .map(|(group, key, value)| (group.get(), key.clone(), value.clone()))
            .collect();
        expected.sort();
        assert_eq!(
            self.scan(range),
            expected,
            "a scan shows each live key of groups {range} once, by group and key row"
        );
    }

    fn encoded(&self) -> usize {
        self.encoded.load(Ordering::Relaxed)
    }
}

/// Group, key row and value.
type Entry = (u16, Bytes, Bytes);

fn scan<W: SnapshotView<Bytes>>(view: &mut W, groups: GroupRange) -> Vec<Entry> {
    let mut entries = Vec::new();
    ok(view.scan(groups, &mut |group, key, value| {
        entries.push((group.get(), key.to_vec(), value.clone()));
        ControlFlow::Continue(())
    }));
    entries
}

/// Values as they are. Counts those that it encodes. If they expire, they begin with the time.
#[derive(Clone, Debug, Default)]
struct CountingCodec {
    encoded: Arc<AtomicUsize>,
    expires: bool,
}

/// A value that expires at this time.
fn until(expires_at_ms: i64, content: &[u8]) -> Bytes {
    [&expires_at_ms.to_le_bytes(), content].concat()
}

fn expiry_of(value: &[u8]) -> i64 {
    let time = value.first_chunk();
    time.map_or(NEVER, |time| i64::from_le_bytes(*time))
}

impl StateCodec<Bytes> for CountingCodec {
    fn encode_into(&self, value: &Bytes, out: &mut Vec<u8>) {
        self.encoded.fetch_add(1, Ordering::Relaxed);
        out.extend_from_slice(value);
    }

    fn decode(&self, bytes: &[u8]) -> Result<Bytes, DecodeError> {
        Ok(bytes.to_vec())
    }

    fn heap_bytes(&self, value: &Bytes) -> usize {
        value.capacity()
    }

    fn expires_at_ms(&self, value: &Bytes) -> i64 {
        if self.expires {
            expiry_of(value)
        } else {
            NEVER
        }
    }

    fn stored_expiry(&self) -> Option<StoredExpiry> {
        self.expires.then(|| Arc::new(expiry_of) as StoredExpiry)
    }
}

fn ok<T, E: Error>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("nothing here may fail: {error} ({error:?})"))
}

fn batch<'a>(rows: impl IntoIterator<Item = &'a Bytes>) -> KeyBatch {
    ok(KeyBatch::from_rows(rows.into_iter().map(Vec::as_slice)))
}

/// The key row of one BIGINT.
fn number(value: u64) -> Bytes {
    [[0; 8], value.to_le_bytes()].concat()
}

/// A key row of one string of 16 bytes, the last 8 of which tell `value`.
fn text(value: u64) -> Bytes {
    let offset_and_length = 16 << 32 | 16_u64;
    [
        [0; 8],
        offset_and_length.to_le_bytes(),
        *b"the key ",
        value.to_be_bytes(),
    ]
    .concat()
}

/// One key row of each shape: no column, NULL, numbers, strings.
fn shapes() -> Vec<Bytes> {
    let null = [[0, 1, 0, 0, 0, 0, 0, 0], [0; 8]].concat();
    vec![
        vec![0; 8],
        null,
        number(0),
        number(1),
        number(u64::MAX),
        text(0),
        text(1),
    ]
}

/// Numbered keys of both widths, with values of several lengths.
fn entries(count: u64) -> Vec<(Bytes, Bytes)> {
    (0..count)
        .map(|i| {
            let key = if i % 3 == 0 { text(i) } else { number(i) };
            (key, vec![i as u8; i as usize % 50])
        })
        .collect()
}

fn equal_keys_have_equal_slots<B: StateBackend>(mut bench: Bench<B>) {
    let keys = shapes();
    let first = bench.resolve(&batch(&keys));
    for (i, a) in first.iter().enumerate() {
        for b in &first[i + 1..] {
            assert_ne!(a, b, "unequal keys have unequal slots");
        }
    }
    let again = bench.resolve(&batch(&keys));
    assert_eq!(
        again, first,
        "equal keys have equal slots in every batch of a bundle"
    );
    bench
        .state
        .put(first[2], b"put by the first batch".to_vec());
    let more: Vec<Bytes> = (100..600).map(number).collect();
    bench.resolve(&batch(&more));
    let again = bench.resolve(&batch(&keys));
    assert_eq!(again, first, "a slot means its key until the bundle ends");
    assert_eq!(
        bench.state.get(again[2]).map(Vec::as_slice),
        Some(b"put by the first batch".as_slice()),
        "a later batch sees what an earlier one put"
    );
    bench.end();
}

fn slots_come_in_the_callers_order<B: StateBackend>(mut bench: Bench<B>) {
    let stored: Vec<(Bytes, Bytes)> = [9_u64, 2, 700, 4]
        .map(|i| (number(i), i.to_be_bytes().to_vec()))
        .into();
    bench.store(&stored);
    // Hits and misses, some of them twice, in no order that a store would choose.
    let asked = [700_u64, 1, 2, 700, 9, 1, 5, 4, 2];
    let rows: Vec<Bytes> = asked.map(number).into();
    let slots = bench.resolve(&batch(&rows));
    for (i, (&slot, key)) in slots.iter().zip(asked).enumerate() {
        let expected = stored.iter().find(|(row, _)| *row == number(key));
        assert_eq!(
            bench.state.get(slot),
            expected.map(|(_, value)| value),
            "row {i} of the batch has the value of its own key"
        );
    }
    bench.abandon();
}

fn a_batch_without_rows_is_a_batch<B: StateBackend>(mut bench: Bench<B>) {
    assert_eq!(bench.resolve(&KeyBatch::default()), []);
    bench.end();
    bench.end(); // and a bundle without a batch is a bundle
    bench.abandon();
    bench.assert_holds(&BTreeMap::new());
}

fn columns_and_rows_make_the_same_keys<B: StateBackend>(mut bench: Bench<B>) {
    let field = Arc::new(Field::new("k", DataType::Int64, true));
    let encoder = ok(KeyEncoder::new(&[field], &[0]));
    let columns: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![Some(-5), None, Some(7)]))];
    let mut keys = KeyBatch::default();
    ok(encoder.encode(&columns, 3, &mut keys));
    let rows: Vec<Bytes> = (0..keys.len())
        .map(|i| {
            let mut row = Vec::new();
            keys.write_key_row(i, &mut row);
            row
        })
        .collect();

    let slots = bench.resolve(&keys);
    for (&slot, row) in slots.iter().zip(&rows) {
        bench.state.put(slot, row.clone());
    }
    assert_eq!(
        bench.resolve(&batch(&rows)),
        slots,
        "a key is its bytes, whichever way they came"
    );
    bench.end();
    for keys in [keys, batch(&rows)] {
        let slots = bench.resolve(&keys);
        for (&slot, row) in slots.iter().zip(&rows) {
            assert_eq!(bench.state.get(slot), Some(row));
        }
        bench.abandon();
    }
    bench.assert_holds(&rows.iter().map(|row| (row.clone(), row.clone())).collect());
}

fn equal_hashes_stay_two_keys<B: StateBackend>(mut bench: Bench<B>) {
    // These two have the same 32-bit routing hash too, and so the same group.
    let twins = [
        number(9_124_313_005_297_711_320),
        number(586_718_649_975_902_948),
    ];
    assert_eq!(hash_of(&twins[0]), hash_of(&twins[1]));
    let mut rows = shapes();
    rows.extend(twins.clone());
    rows.extend([text(0), twins[1].clone()]);
    let distinct = rows.len() - 2;
    let mut keys = batch(&rows);
    keys.set_hashes(&vec![7; rows.len()]);

    let slots = bench.resolve(&keys);
    assert_eq!(slots[distinct], slots[5]);
    assert_eq!(slots[distinct + 1], slots[distinct - 1]);
    for (&slot, row) in slots.iter().zip(&rows) {
        bench.state.put(slot, row.clone());
    }
    bench.end();
    let slots = bench.resolve(&keys);
    for (&slot, row) in slots.iter().zip(&rows) {
        assert_eq!(
            bench.state.get(slot),
            Some(row),
            "keys are told apart by their bytes, never by a hash"
        );
    }
    bench.abandon();
    bench.assert_holds(&rows.iter().map(|row| (row.clone(), row.clone())).collect());
}

fn values_survive_the_bundle<B: StateBackend>(mut bench: Bench<B>) {
    let entries = entries(1000);
    bench.store(&entries);
    let mut model: BTreeMap<Bytes, Bytes> = entries.iter().cloned().collect();
    bench.assert_holds(&model);
    // Every other one is replaced, in the opposite order.
    let replaced: Vec<(Bytes, Bytes)> = entries
        .iter()
        .rev()
        .step_by(2)
        .map(|(key, _)| (key.clone(), b"replaced".to_vec()))
        .collect();
    bench.store(&replaced);
    model.extend(replaced);
    bench.assert_holds(&model);
}

fn a_look_is_no_write<B: StateBackend>(mut bench: Bench<B>) {
    let entries = entries(100);
    bench.store(&entries);
    let encoded = bench.encoded();
    for _ in 0..3 {
        let slots = bench.resolve(&batch(entries.iter().map(|(key, _)| key)));
        for (&slot, (_, value)) in slots.iter().zip(&entries) {
            assert_eq!(bench.state.get(slot), Some(value));
        }
        bench.end();
    }
    assert_eq!(
        bench.encoded(),
        encoded,
        "a bundle without a dirty value encodes nothing"
    );
    bench.resolve(&batch(entries.iter().map(|(key, _)| key)));
    bench.abandon(); // would panic if a look had made a value dirty
    bench.assert_holds(&entries.into_iter().collect());
}

fn a_change_in_place_is_kept<B: StateBackend>(mut bench: Bench<B>) {
    bench.store(&[(number(1), b"one".to_vec()), (number(2), b"two".to_vec())]);
    let slots = bench.resolve(&batch(&[number(1), number(3)]));
    let value = bench.state.get_mut(slots[0]).expect("key 1 has a value");
    value.extend_from_slice(&[b'!'; 1000]);
    assert_eq!(bench.state.get_mut(slots[1]), None);
    bench.end();
    let changed = [b"one".as_slice(), &[b'!'; 1000]].concat();
    bench.assert_holds(&BTreeMap::from([
        (number(1), changed),
        (number(2), b"two".to_vec()),
    ]));
}

fn a_removed_value_is_gone<B: StateBackend>(mut bench: Bench<B>) {
    bench.store(&[(text(1), b"one".to_vec()), (text(2), b"two".to_vec())]);
    let slots = bench.resolve(&batch(&[text(1), text(9)]));
    assert_eq!(bench.state.remove(slots[0]), Some(b"one".to_vec()));
    assert_eq!(bench.state.remove(slots[0]), None);
    assert_eq!(bench.state.remove(slots[1]), None);
    assert_eq!(bench.state.get(slots[0]), None);
    bench.end();
    bench.assert_holds(&BTreeMap::from([(text(2), b"two".to_vec())]));

    let slots = bench.resolve(&batch(&[text(1), text(2)]));
    assert_eq!(bench.state.get(slots[0]), None);
    assert_eq!(bench.state.remove(slots[1]), Some(b"two".to_vec()));
    bench.state.put(slots[1], b"again".to_vec());
    bench.end();
    bench.assert_holds(&BTreeMap::from([(text(2), b"again".to_vec())]));
}

fn a_value_put_and_removed_leaves_nothing<B: StateBackend>(mut bench: Bench<B>) {
    let slots = bench.resolve(&batch(&[number(1)]));
    bench.state.put(slots[0], b"brief".to_vec());
    assert_eq!(bench.state.remove(slots[0]), Some(b"brief".to_vec()));
    bench.end();
    assert_eq!(bench.encoded(), 0, "there was nothing to encode");
    bench.assert_holds(&BTreeMap::new());
}

fn an_empty_value_is_a_value<B: StateBackend>(mut bench: Bench<B>) {
    bench.store(&[(number(1), Vec::new())]);
    let slots = bench.resolve(&batch(&[number(1), number(2)]));
    assert_eq!(bench.state.get(slots[0]), Some(&Vec::new()));
    assert_eq!(bench.state.get(slots[1]), None);
    bench.abandon();
    bench.assert_holds(&BTreeMap::from([(number(1), Vec::new())]));
}

fn keys_without_values_are_forgotten<B: StateBackend>(mut bench: Bench<B>) {
    bench.store(&[(number(0), b"stays".to_vec())]);
    let mut after_first_round = 0;
    for round in 0..40 {
        let fresh: Vec<Bytes> = (1..500).map(|i| text(1000 * round + i)).collect();
        let slots = bench.resolve(&batch(&fresh));
        if round % 2 == 0 {
            bench.abandon();
        } else {
            bench.state.remove(slots[0]);
            bench.end();
        }
        match round {
            0 => after_first_round = bench.state.charged_bytes(),
            _ => assert!(
                bench.state.charged_bytes() <= 4 * after_first_round,
                "keys without values do not pile up: {} bytes after one round, {} after {round}",
                after_first_round,
                bench.state.charged_bytes(),
            ),
        }
    }
    bench.assert_holds(&BTreeMap::from([(number(0), b"stays".to_vec())]));
}

fn an_abandoned_bundle_leaves_nothing<B: StateBackend>(mut bench: Bench<B>) {
    bench.store(&[(number(1), b"one".to_vec())]);
    let encoded = bench.encoded();
    bench.resolve(&batch(&[number(1), number(2), text(3)]));
    bench.resolve(&batch(&[number(4)]));
    bench.abandon();
    assert_eq!(bench.encoded(), encoded, "nothing was written");
    bench.assert_holds(&BTreeMap::from([(number(1), b"one".to_vec())]));
    bench.store(&[(number(2), b"two".to_vec())]);
    bench.assert_holds(&BTreeMap::from([
        (number(1), b"one".to_vec()),
        (number(2), b"two".to_vec()),
    ]));
}

fn a_dirty_bundle_is_not_abandoned<B: StateBackend>(mut bench: Bench<B>) {
    let slots = bench.resolve(&batch(&[number(1)]));
    bench.state.put(slots[0], b"dirty".to_vec());
    let abandoned = catch_unwind(AssertUnwindSafe(|| bench.state.abandon_bundle()));
    assert!(
        abandoned.is_err(),
        "abandoning a dirty bundle panics instead of losing a write"
    );
}

fn a_claim_is_given_back<B: StateBackend>(mut bench: Bench<B>) {
    const CLAIM: usize = 1 << 30;
    bench.store(&entries(10));
    for write in [false, true] {
        let before = bench.state.charged_bytes();
        let slots = bench.resolve(&batch(&[number(1)]));
        ok(bench.state.claim(CLAIM));
        assert!(bench.state.charged_bytes() >= before.max(CLAIM));
        assert_eq!(bench.state.charged_bytes(), bench.pool.used_bytes());
        if write {
            bench
                .state
                .put(slots[0], b"much smaller than claimed".to_vec());
            bench.end();
        } else {
            bench.abandon();
        }
        assert!(
            bench.state.charged_bytes() < CLAIM,
            "the end of a bundle gives back what was claimed and not used"
        );
    }
}

fn a_scan_is_in_order_and_within_its_groups<B: StateBackend>(mut bench: Bench<B>) {
    let mut entries = entries(500);
    entries.extend(shapes().into_iter().map(|key| (key.clone(), key)));
    bench.store(&entries);
    let model = entries.into_iter().collect();
    let last = bench.groups.all().end().get();
    for (start, end) in [
        (0, last),
        (0, 0),
        (last, last),
        (last / 3, last / 2),
        (last / 2, 32_767),
    ] {
        let range = GroupRange::new(start, end).expect("both are groups, and in order");
        bench.assert_holds_within(&model, range);
    }
    bench.assert_settled("after scans");
}

fn a_scan_stops_when_told<B: StateBackend>(mut bench: Bench<B>) {
    bench.store(&entries(500));
    let all = bench.scan(bench.groups.all());
    let mut seen = 0;
    let mut view = ok(bench.state.freeze());
    ok(view.scan(bench.groups.all(), &mut |group, key, _| {
        assert_eq!((group.get(), key), (all[seen].0, all[seen].1.as_slice()));
        seen += 1;
        if seen == 7 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }));
    assert_eq!(seen, 7, "a scan stops at the first break");
}

fn a_view_is_of_one_moment<B: StateBackend>(mut bench: Bench<B>) {
    let all = bench.groups.all();
    bench.store(&entries(500));
    let before = bench.scan(all);
    let charged = bench.state.charged_bytes();
    let mut view = ok(bench.state.freeze());

    let changed: Vec<(Bytes, Bytes)> = entries(800)
        .into_iter()
        .step_by(3)
        .map(|(key, value)| (key, [value.as_slice(), b"changed"].concat()))
        .collect();
    let (mut in_view, view) = std::thread::scope(|scope| {
        let reader = scope.spawn(move || (scan(&mut view, all), view));
        let slots = ok_slots(&mut bench, &changed);
        let gone = bench.resolve(&batch(&[number(1), number(4)]));
        for (slot, (_, value)) in slots.into_iter().zip(&changed) {
            bench.state.put(slot, value.clone());
        }
        for slot in gone {
            bench.state.remove(slot);
        }
        ok(bench.state.end_bundle());
        match reader.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    assert_eq!(
        in_view, before,
        "what changes after a freeze is not in the view"
    );
    let mut second = ok(bench.state.freeze());
    let mut view = view;
    in_view = scan(&mut view, all);
    assert_eq!(
        in_view, before,
        "a view can be read again, beside a second one"
    );
    let mut model: BTreeMap<Bytes, Bytes> = entries(500).into_iter().collect();
    model.extend(changed);
    model.remove(&number(1));
    model.remove(&number(4));
    let now = scan(&mut second, all);
    assert_eq!(now.len(), model.len());
    assert!(
        now.iter()
            .all(|(_, key, value)| model.get(key) == Some(value))
    );

    drop((view, second));
    for key in model
        .keys()
        .filter(|key| !before.iter().any(|(_, k, _)| k == *key))
    {
        let slot = bench.resolve(&batch([key]))[0];
        bench.state.remove(slot);
    }
    bench.end();
    assert!(
        bench.state.charged_bytes() <= 2 * charged,
        "what a view held is given back: {} after {charged}",
        bench.state.charged_bytes()
    );
}

fn ok_slots<B: StateBackend>(bench: &mut Bench<B>, entries: &[(Bytes, Bytes)]) -> Vec<Slot> {
    bench.resolve(&batch(entries.iter().map(|(key, _)| key)))
}

fn a_cleared_store_is_empty<B: StateBackend>(mut bench: Bench<B>) {
    assert!(ok(bench.state.is_empty()), "a new store is empty");
    bench.store(&entries(2000));
    assert!(!ok(bench.state.is_empty()));
    let full = bench.state.charged_bytes();
    ok(bench.state.clear());
    bench.assert_settled("after clear");
    assert!(bench.state.charged_bytes() <= full);
    assert!(ok(bench.state.is_empty()), "a cleared store is empty");
    assert_eq!(bench.scan(bench.groups.all()), []);
    bench.store(&entries(3));
    bench.assert_holds(&entries(3).into_iter().collect());
}

fn a_store_counts_what_it_does<B: StateBackend>(mut bench: Bench<B>) {
    let before = bench.state.metrics();
    bench.store(&entries(50));
    bench.resolve(&batch([&number(1), &number(1), &number(999)]));
    bench.end();
    let after = bench.state.metrics();
    assert_eq!(after.probes - before.probes, 53, "one probe per row");
    assert_eq!(after.bundles - before.bundles, 2);
    assert_eq!(after.expired, 0);
}

fn a_value_expires_at_the_first_touch_of_a_bundle<B: StateBackend>(mut bench: Bench<B>) {
    bench.state.advance_clock(0);
    bench.store(&[
        (number(1), until(1_000, b"one")),
        (number(2), until(2_000, b"two")),
        (text(3), until(NEVER, b"for ever")),
    ]);
    let keys = batch(&[number(1), number(2), text(3)]);

    bench.state.advance_clock(999);
    let slots = bench.resolve(&keys);
    let all = [
        Some(until(1_000, b"one")),
        Some(until(2_000, b"two")),
        Some(until(NEVER, b"for ever")),
    ];
    let held = |bench: &Bench<B>, slots: &[Slot]| -> Vec<Option<Bytes>> {
        let held = slots.iter().map(|&slot| bench.state.get(slot).cloned());
        held.collect()
    };
    assert_eq!(held(&bench, &slots), all);
    bench.state.advance_clock(5_000);
    let again = bench.resolve(&keys);
    assert_eq!(again, slots);
    assert_eq!(
        held(&bench, &again),
        all,
        "what a bundle found stays to its end"
    );
    bench.abandon();

    let slots = bench.resolve(&keys);
    let left = [None, None, all[2].clone()];
    assert_eq!(
        held(&bench, &slots),
        left,
        "it is gone when the next bundle asks"
    );
    bench.state.put(slots[0], until(5_001, b"new"));
    bench.end();
    bench.state.advance_clock(5_001);
    let slots = bench.resolve(&keys);
    assert_eq!(held(&bench, &slots), left, "at the time itself it is gone");
    assert!(bench.state.metrics().expired >= 3);
    bench.end();
}

fn an_expiry_writes_nothing<B: StateBackend>(mut bench: Bench<B>) {
    bench.state.advance_clock(0);
    bench.store(&[(number(1), until(1_000, b"one"))]);
    let _written = bench.scan(bench.groups.all());
    let before = (bench.encoded(), bench.state.metrics());
    bench.state.advance_clock(1_000);
    let slots = bench.resolve(&batch(&[number(1)]));
    assert_eq!(bench.state.get(slots[0]), None);
    bench.abandon(); // an expiry is no change
    let slots = bench.resolve(&batch(&[number(1)]));
    assert_eq!(bench.state.get(slots[0]), None);
    bench.end();
    let metrics = bench.state.metrics();
    assert_eq!(bench.encoded(), before.0, "an expiry encodes nothing");
    assert_eq!(metrics.written_bytes, before.1.written_bytes);
    assert_eq!(metrics.deletes, before.1.deletes);
}

fn the_clock_never_goes_back<B: StateBackend>(mut bench: Bench<B>) {
    bench.state.advance_clock(10_000);
    bench.state.advance_clock(-5);
    bench.store(&[
        (number(1), until(10_000, b"late")),
        (number(2), until(10_001, b"")),
    ]);
    let slots = bench.resolve(&batch(&[number(1), number(2)]));
    assert_eq!(
        bench.state.get(slots[0]),
        None,
        "the clock stays at the latest time"
    );
    assert_eq!(bench.state.get(slots[1]), Some(&until(10_001, b"")));
    bench.abandon();
}

fn a_value_may_live_for_a_century<B: StateBackend>(mut bench: Bench<B>) {
    const CENTURY_MS: i64 = 100 * 366 * 24 * 3_600_000;
    bench.state.advance_clock(0);
    bench.store(&[(number(1), until(CENTURY_MS, b"old"))]);
    bench.state.advance_clock(CENTURY_MS - 1);
    let slots = bench.resolve(&batch(&[number(1)]));
    assert_eq!(bench.state.get(slots[0]), Some(&until(CENTURY_MS, b"old")));
    bench.abandon();
}

fn a_view_leaves_out_what_has_expired<B: StateBackend>(mut bench: Bench<B>) {
    bench.state.advance_clock(0);
    bench.store(&[
        (number(1), until(1_000, b"one")),
        (number(2), until(2_000, b"two")),
    ]);
    bench.state.advance_clock(1_000);
    let seen = bench.scan(bench.groups.all());
    let values: Vec<Bytes> = seen.into_iter().map(|(_, _, value)| value).collect();
    assert_eq!(values, [until(2_000, b"two")]);
}

/// The model forgets a value when a bundle first touches its key too late.
fn random_expiries_are_those_of_a_map<B: StateBackend>(mut bench: Bench<B>, seed: u64) {
    let mut random = SplitMix64(seed ^ 0x7717);
    let universe: Vec<Bytes> = (0..30).map(number).chain((0..30).map(text)).collect();
    let mut model: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    let mut slots: BTreeMap<Bytes, Slot> = BTreeMap::new(); // of this bundle
    let (mut now_ms, mut dirty) = (0, false);
    bench.state.advance_clock(now_ms);
    for _ in 0..400 {
        match random.below(8) {
            0..3 => {
                let count = random.below(20);
                let rows: Vec<Bytes> = (0..count)
                    .map(|_| universe[random.below(universe.len())].clone())
                    .collect();
                for (slot, key) in bench.resolve(&batch(&rows)).into_iter().zip(rows) {
                    let gone = |value: &Bytes| expiry_of(value) <= now_ms;
                    if !slots.contains_key(&key) && model.get(&key).is_some_and(gone) {
                        model.remove(&key);
                    }
                    assert_eq!(bench.state.get(slot), model.get(&key), "seed {seed}");
                    slots.insert(key, slot);
                }
            }
            3 => {
                for (key, &slot) in &slots {
                    if random.below(2) == 0 {
                        let value = until(now_ms + random.below(500) as i64, &random.bytes());
                        bench.state.put(slot, value.clone());
                        model.insert(key.clone(), value);
                        dirty = true;
                    }
                }
            }
            4 => {
                now_ms += random.below(200) as i64;
                bench.state.advance_clock(now_ms);
            }
            5 if slots.is_empty() => {
                model.retain(|_, value| expiry_of(value) > now_ms);
                bench.assert_holds(&model);
            }
            _ => {
                if !dirty && random.below(2) == 0 {
                    bench.abandon();
                } else {
                    bench.end();
                }
                slots.clear();
                dirty = false;
            }
        }
    }
}

fn names_are_checked_and_taken_once<B: StateBackend>(bench: Bench<B>) {
    for name in ["", ".", "..", "a/b", "a b", "ü", "a\0"] {
        let refused = bench
            .backend
            .open::<Bytes, _>(name, CountingCodec::default());
        assert!(refused.is_err(), "{name:?} is no name for a store");
    }
    let again = bench
        .backend
        .open::<Bytes, _>("battery", CountingCodec::default());
    assert!(again.is_err(), "a store that is open is not opened again");
    let mut other: B::State<Bytes, _> =
        ok(bench.backend.open("Other-1_a", CountingCodec::default()));
    let mut slots = Vec::new();
    ok(other.resolve(&batch(&[number(1)]), &mut slots));
    other.put(slots[0], b"of the other".to_vec());
    ok(other.end_bundle());
    let mut bench = bench;
    let seen = bench.scan(bench.groups.all());
    assert_eq!(seen, [], "stores of two names share nothing");
}

fn a_dropped_store_gives_back_its_memory<B: StateBackend>(mut bench: Bench<B>) {
    bench.store(&entries(100));
    let Bench {
        state,
        pool,
        backend,
        ..
    } = bench;
    drop(state);
    assert_eq!(pool.used_bytes(), 0);
    let _again = ok(backend.open::<Bytes, _>("battery", CountingCodec::default()));
}

fn a_refused_claim_changes_nothing<B: StateBackend>(open: &mut impl FnMut(MemoryPool) -> Bench<B>) {
    const LIMIT: usize = 1 << 20;
    let mut bench = open(MemoryPool::new(LIMIT));
    bench.store(&[(number(1), b"one".to_vec())]);
    let slots = bench.resolve(&batch(&[number(1), number(2)]));
    let charged = bench.state.charged_bytes();
    assert!(bench.state.claim(LIMIT).is_err());
    assert_eq!(bench.state.charged_bytes(), charged);
    assert_eq!(bench.pool.used_bytes(), charged);
    assert_eq!(bench.state.get(slots[0]), Some(&b"one".to_vec()));

    ok(bench.state.claim(LIMIT / 4)); // a smaller one still fits
    bench.state.put(slots[1], vec![2; 1000]);
    bench.end();
    bench.assert_holds(&BTreeMap::from([
        (number(1), b"one".to_vec()),
        (number(2), vec![2; 1000]),
    ]));
}

fn a_refused_batch_changes_nothing<B: StateBackend>(open: &mut impl FnMut(MemoryPool) -> Bench<B>) {
    const LIMIT: usize = 64 << 20;
    const ROOM: usize = 64 << 10;
    let stored = entries(50);
    let large: Vec<Bytes> = (1000..21_000).map(text).collect();
    let large = batch(&large);
    let small = batch(&[number(1), number(777)]);

    for abandon in [true, false] {
        let mut bench = open(MemoryPool::new(LIMIT));
        bench.store(&stored);
        let mut model: BTreeMap<Bytes, Bytes> = stored.iter().cloned().collect();
        let before = bench.resolve(&small);
        // Another holder leaves only a little room, which is not enough for the large batch.
        let charged = bench.state.charged_bytes();
        let mut other = bench.pool.reserve("another holder");
        ok(other.try_resize(LIMIT - charged - ROOM));

        for _ in 0..3 {
            let mut slots = Vec::new();
            let refused = bench.state.resolve(&large, &mut slots);
            assert!(
                refused.is_err(),
                "{} keys do not fit into {ROOM} bytes",
                large.len()
            );
            assert!(
                bench.state.charged_bytes() <= charged,
                "a refused batch is charged for nothing"
            );
            assert_eq!(
                bench.state.charged_bytes() + other.bytes(),
                bench.pool.used_bytes()
            );
            let again = bench.resolve(&small);
            assert_eq!(again, before, "a refused batch moves no slot");
            assert_eq!(bench.state.get(again[0]), model.get(&number(1)));
            assert_eq!(bench.state.get(again[1]), None);
        }

        if abandon {
            bench.state.abandon_bundle();
        } else {
            bench.state.put(before[1], b"goes on".to_vec());
            ok(bench.state.end_bundle());
            model.insert(number(777), b"goes on".to_vec());
        }
        assert_eq!(
            bench.state.charged_bytes() + other.bytes(),
            bench.pool.used_bytes()
        );
        bench.assert_holds(&model);

        // Once there is room the same batch goes through.
        drop(other);
        let slots = bench.resolve(&large);
        for &slot in &slots {
            assert_eq!(bench.state.get(slot), None);
        }
        bench.state.put(slots[0], b"retried".to_vec());
        bench.end();
        model.insert(text(1000), b"retried".to_vec());
        bench.assert_holds(&model);
    }
}

/// The model of a bundle: what the map will be, and what is known of the slots.
fn random_operations_are_those_of_a_map<B: StateBackend>(mut bench: Bench<B>, seed: u64) {
    let mut random = SplitMix64(seed);
    let mut universe = shapes();
    universe.extend((10..40).map(number));
    universe.extend((10..30).map(text));
    let mut model: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    let mut slots: BTreeMap<Bytes, Slot> = BTreeMap::new(); // of this bundle
    let mut dirty = false;

    for _ in 0..400 {
        let resolved = |random: &mut SplitMix64| {
            let nth = random.below(slots.len().max(1));
            slots
                .iter()
                .nth(nth)
                .map(|(key, &slot)| (key.clone(), slot))
        };
        match random.below(16) {
            0..4 => {
                let count = random.below(30);
                let rows: Vec<Bytes> = (0..count)
                    .map(|_| universe[random.below(universe.len())].clone())
                    .collect();
                for (slot, key) in bench.resolve(&batch(&rows)).into_iter().zip(rows) {
                    assert_eq!(bench.state.get(slot), model.get(&key), "seed {seed}");
                    let known = *slots.entry(key).or_insert(slot);
                    assert_eq!(known, slot, "seed {seed}");
                }
            }
            4..7 => {
                if let Some((key, slot)) = resolved(&mut random) {
                    assert_eq!(bench.state.get(slot), model.get(&key), "seed {seed}");
                }
            }
            7..10 => {
                if let Some((key, slot)) = resolved(&mut random) {
                    let value = random.bytes();
                    bench.state.put(slot, value.clone());
                    model.insert(key, value);
                    dirty = true;
                }
            }
            10 => {
                if let Some((key, slot)) = resolved(&mut random) {
                    assert_eq!(bench.state.remove(slot), model.remove(&key), "seed {seed}");
                    dirty = true;
                }
            }
            11 => {
                if let Some((key, slot)) = resolved(&mut random) {
                    let (changed, expected) = (bench.state.get_mut(slot), model.get_mut(&key));
                    assert_eq!(changed, expected, "seed {seed}");
                    if let (Some(changed), Some(expected)) = (changed, expected) {
                        changed.push(1);
                        expected.push(1);
                    }
                    dirty = true;
                }
            }
            12 => ok(bench.state.claim(random.below(10_000))),
            13 if slots.is_empty() && random.below(4) == 0 => {
                ok(bench.state.clear());
                model.clear();
            }
            14 if slots.is_empty() => {
                let last = usize::from(bench.groups.all().end().get());
                let (a, b) = (random.below(last + 1) as u16, random.below(last + 1) as u16);
                let range = GroupRange::new(a.min(b), a.max(b)).expect("they are in order");
                bench.assert_holds_within(&model, range);
            }
            _ => {
                if !dirty && random.below(2) == 0 {
                    bench.abandon();
                } else {
                    bench.end();
                }
                slots.clear();
                dirty = false;
            }
        }
    }
    bench.end();
    bench.assert_holds(&model);
}

/// A generator of numbers that need not be good, only the same in every run.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self) -> Bytes {
        let len = self.below(40);
        (0..len).map(|_| self.next() as u8).collect()
    }
}
