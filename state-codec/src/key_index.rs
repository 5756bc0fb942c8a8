//! Key → slot, for the stores.
//!
//! Keys that are one word stand in the table itself, and so do short texts; longer ones stand in an arena that the
//! table points into. Of rows 32 bits of each hash are kept, so that their table grows without hashing them
//! again; the hash of a word is made again, in less time than it would be read.

use std::cmp::Ordering;

use hashbrown::HashTable;

use crate::key::{Key, KeyBatch, Short, hash_row, hash_short, hash_word};

/// A small integer that stands for one key of a store, for a bundle or for longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The slot as an index into a slab.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct WordEntry {
    word: u64,
    slot: u32,
}

/// The row of a short text is in the arena as well, which finding it does not touch.
#[derive(Clone, Copy, Debug)]
struct ShortEntry {
    short: Short,
    slot: u32,
}

#[derive(Clone, Copy, Debug)]
struct RowEntry {
    slot: u32,
    hash: u32,
}

/// What `lengths` says of a slot whose key is not a row in the arena.
const WORD: u32 = u32::MAX;
const NULL: u32 = u32::MAX - 1;
const FREE: u32 = u32::MAX - 2;
/// No slot: the end of the list of free ones.
const NO_SLOT: u32 = u32::MAX;

/// Arena bytes of removed keys that are not worth a compaction.
const GARBAGE_BYTES_TOLERATED: usize = 4096;

/// The keys of a store, each with a slot. Slots of removed keys are given out again, so that a slab
/// by slot stays as small as the most keys ever held at once.
///
/// ```
/// # use state_codec::{KeyBatch, KeyIndex, Slot};
/// let mut index = KeyIndex::default();
/// let (mut slots, mut new) = (Vec::new(), Vec::new());
/// let keys = KeyBatch::from_rows([b"one".as_slice(), b"two", b"one"])?;
/// index.resolve(&keys, &mut slots, &mut new);
/// assert_eq!(slots, [Slot(0), Slot(1), Slot(0)]);
/// assert_eq!(new, [Slot(0), Slot(1)]);
/// # Ok::<(), state_codec::EncodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyIndex {
    words: HashTable<WordEntry>,
    shorts: HashTable<ShortEntry>,
    rows: HashTable<RowEntry>,
    null: Option<Slot>,
    /// By slot: the word, or where in the arena the row starts.
    starts: Vec<u64>,
    /// By slot: the row's length in the arena, or one of [`WORD`], [`NULL`], [`FREE`].
    lengths: Vec<u32>,
    /// By slot: the hash of a row, to find its entry again; nothing for others.
    hashes: Vec<u32>,
    arena: Vec<u8>,
    garbage_bytes: usize,
    /// The free slot that is given out next, and how many there are. Each one's `starts` has the
    /// next, so that forgetting a key allocates nothing.
    first_free: u32,
    free_slots: usize,
}

impl Default for KeyIndex {
    fn default() -> Self {
        Self {
            words: HashTable::new(),
            shorts: HashTable::new(),
            rows: HashTable::new(),
            null: None,
            starts: Vec::new(),
            lengths: Vec::new(),
            hashes: Vec::new(),
            arena: Vec::new(),
            garbage_bytes: 0,
            first_free: NO_SLOT,
            free_slots: 0,
        }
    }
}

impl KeyIndex {
    /// Replaces `slots` by one slot per key of `keys`. Unknown keys get slots, which replace the
    /// content of `new` in the order of first occurrence.
    ///
    /// Costs one probe per row.
    ///
    /// # Panics
    ///
    /// Beyond 2^32 − 1 keys.
    pub fn resolve(&mut self, keys: &KeyBatch, slots: &mut Vec<Slot>, new: &mut Vec<Slot>) {
        slots.clear();
        new.clear();
        slots.reserve(keys.len());
        if let Some(words) = keys.as_words() {
            slots.extend(words.iter().map(|&word| self.word_slot(word, new)));
            return;
        }
        if let Some(shorts) = keys.as_shorts() {
            slots.extend(shorts.map(|short| self.short_slot(short, new)));
            return;
        }
        for i in 0..keys.len() {
            slots.push(match (keys.key(i), keys.given_hash(i)) {
                (Key::Word(word), None) => self.word_slot(word, new),
                // A word whose hash is not ours is a row like others.
                (Key::Word(word), Some(hash)) => self.row_slot(&Key::word_row(word), hash, new),
                (Key::Short(short), None) => self.short_slot(short, new),
                (Key::Short(short), Some(hash)) => {
                    let (row, length) = short.row();
                    self.row_slot(&row[..length], hash, new)
                }
                (Key::Row(row), given) => {
                    self.row_slot(row, given.unwrap_or_else(|| hash_row(row)), new)
                }
                (Key::Null, _) => self.null_slot(new),
            });
        }
    }

    /// How many keys are held.
    pub fn len(&self) -> usize {
        self.starts.len() - self.free_slots
    }

    /// Whether no key is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more than the greatest slot given out since the last [`clear`](Self::clear).
    pub fn slot_bound(&self) -> usize {
        self.starts.len()
    }

    /// Every slot that stands for a key, in rising order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let live = |(slot, &length): (usize, &u32)| (length != FREE).then_some(Slot(slot as u32));
        self.lengths.iter().enumerate().filter_map(live)
    }

    /// Appends the row of a slot's key to `out`.
    ///
    /// # Panics
    ///
    /// If the slot stands for no key.
    pub fn write_key_row(&self, slot: Slot, out: &mut Vec<u8>) {
        self.key(slot).write_row(out);
    }

    /// Bytes that a slot's key takes besides its place in the tables: none for a word.
    pub fn key_bytes(&self, slot: Slot) -> usize {
        match self.lengths[slot.index()] {
            WORD | NULL | FREE => 0,
            length => length as usize,
        }
    }

    /// Forgets the key of `slot`, whose number a later key may get. Amortised constant cost.
    ///
    /// # Panics
    ///
    /// If the slot stands for no key.
    pub fn remove(&mut self, slot: Slot) {
        match self.key(slot) {
            Key::Null => self.null = None,
            Key::Word(word) => {
                let hash = hash_word(word);
                let entry = self.words.find_entry(hash, |entry| entry.slot == slot.0);
                entry
                    .expect("a word's slot is in the table of words")
                    .remove();
            }
            Key::Row(_) | Key::Short(_) => {
                if !self.remove_short(slot) {
                    let hash = spread(self.hashes[slot.index()]);
                    let entry = self.rows.find_entry(hash, |entry| entry.slot == slot.0);
                    entry
                        .expect("a row's slot is in the table of rows")
                        .remove();
                }
                self.garbage_bytes += self.lengths[slot.index()] as usize;
            }
        }
        self.set_free(slot);
        if self.garbage_bytes > GARBAGE_BYTES_TOLERATED.max(self.arena.len() / 2) {
            self.compact_arena();
        }
    }

    /// Forgets every key and keeps what is allocated.
    pub fn clear(&mut self) {
        self.words.clear();
        self.shorts.clear();
        self.rows.clear();
        self.null = None;
        self.starts.clear();
        self.lengths.clear();
        self.hashes.clear();
        self.arena.clear();
        self.garbage_bytes = 0;
        (self.first_free, self.free_slots) = (NO_SLOT, 0);
    }

    /// Gives back what is allocated beyond the keys held, and the slots behind the greatest one that
    /// stands for a key. The slots of keys stay as they are. Costs a pass over the keys.
    pub fn shrink_to_fit(&mut self) {
        let last = self.lengths.iter().rposition(|&length| length != FREE);
        let bound = last.map_or(0, |last| last + 1);
        self.starts.truncate(bound);
        self.lengths.truncate(bound);
        self.hashes.truncate(bound);
        (self.first_free, self.free_slots) = (NO_SLOT, 0);
        for slot in (0..bound).rev() {
            if self.lengths[slot] == FREE {
                self.set_free(Slot(slot as u32));
            }
        }
        self.compact_arena();
        self.words.shrink_to_fit(|entry| hash_word(entry.word));
        self.shorts.shrink_to_fit(|entry| hash_short(entry.short));
        self.rows.shrink_to_fit(|entry| spread(entry.hash));
        self.starts.shrink_to_fit();
        self.lengths.shrink_to_fit();
        self.hashes.shrink_to_fit();
    }

    /// Gives the keys the slots from 0 on without a gap, in the order of the slots that they had, and
    /// gives back what is allocated beyond. Calls `moved` with each key's old and new slot, by rising slots.
    /// Costs a pass over all slots.
    pub fn renumber(&mut self, mut moved: impl FnMut(Slot, Slot)) {
        let mut numbers = vec![NO_SLOT; self.starts.len()];
        let mut next = 0;
        for (old, number) in numbers.iter_mut().enumerate() {
            if self.lengths[old] == FREE {
                continue;
            }
            let new = next as usize;
            self.starts[new] = self.starts[old];
            self.lengths[new] = self.lengths[old];
            self.hashes[new] = self.hashes[old];
            moved(Slot(old as u32), Slot(next));
            *number = next;
            next += 1;
        }
        let number = |slot: u32| numbers[slot as usize];
        self.words
            .iter_mut()
            .for_each(|entry| entry.slot = number(entry.slot));
        self.shorts
            .iter_mut()
            .for_each(|entry| entry.slot = number(entry.slot));
        self.rows
            .iter_mut()
            .for_each(|entry| entry.slot = number(entry.slot));
        self.null = self.null.map(|slot| Slot(number(slot.0)));
        self.lengths[next as usize..].fill(FREE);
        self.shrink_to_fit();
    }

    /// A copy of the keys by slot, without the tables that find them.
    pub fn to_key_rows(&self) -> KeyRows {
        KeyRows {
            starts: self.starts.clone(),
            lengths: self.lengths.clone(),
            arena: self.arena.clone(),
        }
    }

    /// What [`to_key_rows`](Self::to_key_rows) would allocate.
    pub fn key_rows_bytes(&self) -> usize {
        self.starts.len() * size_of::<u64>()
            + self.lengths.len() * size_of::<u32>()
            + self.arena.len()
    }

    /// Bytes allocated, by capacity.
    pub fn allocated_bytes(&self) -> usize {
        self.words.allocation_size()
            + self.shorts.allocation_size()
            + self.rows.allocation_size()
            + self.arena.capacity()
            + self.starts.capacity() * size_of::<u64>()
            + self.lengths.capacity() * size_of::<u32>()
            + self.hashes.capacity() * size_of::<u32>()
    }

    #[inline]
    fn word_slot(&mut self, word: u64, new: &mut Vec<Slot>) -> Slot {
        let hash = hash_word(word);
        match self.words.find(hash, |entry| entry.word == word) {
            Some(entry) => Slot(entry.slot),
            None => self.insert_word(word, hash, new),
        }
    }

    #[cold]
    fn insert_word(&mut self, word: u64, hash: u64, new: &mut Vec<Slot>) -> Slot {
        let slot = self.give_slot(word, WORD, 0);
        let entry = WordEntry { word, slot: slot.0 };
        self.words
            .insert_unique(hash, entry, |entry| hash_word(entry.word));
        new.push(slot);
        slot
    }

    #[inline]
    fn short_slot(&mut self, short: Short, new: &mut Vec<Slot>) -> Slot {
        let hash = hash_short(short);
        match self.shorts.find(hash, |entry| entry.short == short) {
            Some(entry) => Slot(entry.slot),
            None => self.insert_short(short, hash, new),
        }
    }

    #[cold]
    fn insert_short(&mut self, short: Short, hash: u64, new: &mut Vec<Slot>) -> Slot {
        let (row, length) = short.row();
        let start = self.arena.len() as u64;
        self.arena.extend_from_slice(&row[..length]);
        let slot = self.give_slot(start, length as u32, 0);
        let entry = ShortEntry {
            short,
            slot: slot.0,
        };
        self.shorts
            .insert_unique(hash, entry, |entry| hash_short(entry.short));
        new.push(slot);
        slot
    }

    /// Takes a slot out of the table of short texts, if it is there: those that came with hashes of the caller's are
    /// rows.
    fn remove_short(&mut self, slot: Slot) -> bool {
        let Key::Short(short) = Key::of_row(self.row(slot)) else {
            return false;
        };
        let is_it = |entry: &ShortEntry| entry.slot == slot.0;
        let entry = self.shorts.find_entry(hash_short(short), is_it);
        entry.map(|entry| entry.remove()).is_ok()
    }

    fn row_slot(&mut self, row: &[u8], hash: u64, new: &mut Vec<Slot>) -> Slot {
        let hash = shorten(hash);
        let same = |entry: &RowEntry| entry.hash == hash && self.row(Slot(entry.slot)) == row;
        if let Some(entry) = self.rows.find(spread(hash), same) {
            return Slot(entry.slot);
        }
        let length = u32::try_from(row.len())
            .ok()
            .filter(|&length| length < FREE);
        let start = self.arena.len() as u64;
        self.arena.extend_from_slice(row);
        let slot = self.give_slot(
            start,
            length.expect("a row is at most 2^31 bytes long"),
            hash,
        );
        let entry = RowEntry { slot: slot.0, hash };
        self.rows
            .insert_unique(spread(hash), entry, |entry| spread(entry.hash));
        new.push(slot);
        slot
    }

    fn null_slot(&mut self, new: &mut Vec<Slot>) -> Slot {
        if let Some(slot) = self.null {
            return slot;
        }
        let slot = self.give_slot(0, NULL, 0);
        self.null = Some(slot);
        new.push(slot);
        slot
    }

    fn give_slot(&mut self, start: u64, length: u32, hash: u32) -> Slot {
        if self.first_free != NO_SLOT {
            let slot = Slot(self.first_free);
            self.first_free = self.starts[slot.index()] as u32;
            self.free_slots -= 1;
            self.starts[slot.index()] = start;
            self.lengths[slot.index()] = length;
            self.hashes[slot.index()] = hash;
            return slot;
        }
        let slot = u32::try_from(self.starts.len())
            .ok()
            .filter(|&slot| slot != NO_SLOT);
        let slot = slot.expect("fewer than 2^32 - 1 keys are held at once");
        self.starts.push(start);
        self.lengths.push(length);
        self.hashes.push(hash);
        Slot(slot)
    }

    fn set_free(&mut self, slot: Slot) {
        self.lengths[slot.index()] = FREE;
        self.starts[slot.index()] = self.first_free.into();
        self.first_free = slot.0;
        self.free_slots += 1;
    }

    #[inline]
    pub(crate) fn key(&self, slot: Slot) -> Key<'_> {
        key(&self.starts, &self.lengths, &self.arena, slot)
    }

    fn row(&self, slot: Slot) -> &[u8] {
        let start = self.starts[slot.index()] as usize;
        &self.arena[start..start + self.lengths[slot.index()] as usize]
    }

    fn compact_arena(&mut self) {
        let mut compact = Vec::with_capacity(self.arena.len() - self.garbage_bytes);
        for slot in 0..self.lengths.len() {
            if !matches!(self.lengths[slot], WORD | NULL | FREE) {
                let start = compact.len() as u64;
                compact.extend_from_slice(self.row(Slot(slot as u32)));
                self.starts[slot] = start;
            }
        }
        self.arena = compact;
        self.garbage_bytes = 0;
    }
}

fn key<'a>(starts: &[u64], lengths: &[u32], arena: &'a [u8], slot: Slot) -> Key<'a> {
    let start = starts[slot.index()];
    match lengths[slot.index()] {
        WORD => Key::Word(start),
        NULL => Key::Null,
        FREE => panic!("slot {} stands for no key", slot.0),
        length => Key::Row(&arena[start as usize..start as usize + length as usize]),
    }
}

/// The keys of a [`KeyIndex`] at one moment, by slot.
#[derive(Clone, Debug)]
pub struct KeyRows {
    starts: Vec<u64>,
    lengths: Vec<u32>,
    arena: Vec<u8>,
}

impl KeyRows {
    /// Every slot that stands for a key, in rising order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let live = |(slot, &length): (usize, &u32)| (length != FREE).then_some(Slot(slot as u32));
        self.lengths.iter().enumerate().filter_map(live)
    }

    /// Appends the row of a slot's key to `out`.
    ///
    /// # Panics
    ///
    /// If the slot stands for no key.
    pub fn write_key_row(&self, slot: Slot, out: &mut Vec<u8>) {
        self.key(slot).write_row(out);
    }

    /// How the key rows of two slots compare, as bytes.
    ///
    /// # Panics
    ///
    /// If a slot stands for no key.
    pub fn compare(&self, a: Slot, b: Slot) -> Ordering {
        self.key(a).compare_rows(self.key(b))
    }

    fn key(&self, slot: Slot) -> Key<'_> {
        key(&self.starts, &self.lengths, &self.arena, slot)
    }
}

/// The half of a hash that the table keeps. The high half of a folded product is as good as the low
/// one; mixing both in keeps a caller's own hashes apart whichever half they differ in.
#[inline]
fn shorten(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

/// The table takes the bucket from the low bits and the tag from the top seven, so both ends must
/// carry something.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash) | u64::from(hash) << 32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn resolve(index: &mut KeyIndex, rows: &[&[u8]]) -> (Vec<u32>, Vec<u32>) {
        let keys = KeyBatch::from_rows(rows.iter().copied()).unwrap();
        let (mut slots, mut new) = (Vec::new(), Vec::new());
        index.resolve(&keys, &mut slots, &mut new);
        let numbers = |slots: Vec<Slot>| slots.into_iter().map(|slot| slot.0).collect();
        (numbers(slots), numbers(new))
    }

    fn key_row(index: &KeyIndex, slot: u32) -> Vec<u8> {
        let mut row = Vec::new();
        index.write_key_row(Slot(slot), &mut row);
        row
    }

    #[test]
    fn equal_hashes_of_unequal_keys_stay_two_keys() {
        let word = |word: u8| [0, 0, 0, 0, 0, 0, 0, 0, word, 0, 0, 0, 0, 0, 0, 0];
        let rows: [&[u8]; 5] = [b"one", &word(1), b"two", &word(2), b"one"];
        let mut keys = KeyBatch::from_rows(rows).unwrap();
        keys.set_hashes(&[42; 5]);
        let mut index = KeyIndex::default();
        let (mut slots, mut new) = (Vec::new(), Vec::new());
        index.resolve(&keys, &mut slots, &mut new);
        assert_eq!(slots, [Slot(0), Slot(1), Slot(2), Slot(3), Slot(0)]);
        index.remove(Slot(1));
        index.resolve(&keys, &mut slots, &mut new);
        assert_eq!(new, [Slot(1)]);
        assert_eq!(key_row(&index, 3), word(2));
    }

    #[test]
    fn a_removed_keys_slot_goes_to_the_next_new_key() {
        let mut index = KeyIndex::default();
        resolve(&mut index, &[b"a", b"b", b"c"]);
        index.remove(Slot(1));
        assert_eq!((index.len(), index.slot_bound()), (2, 3));
        assert_eq!(resolve(&mut index, &[b"d", b"b"]), (vec![1, 3], vec![1, 3]));
    }

    #[test]
    fn the_arena_gives_back_what_removed_keys_held() {
        let mut index = KeyIndex::default();
        let long = [7u8; 1000];
        let rows: Vec<Vec<u8>> = (0..100u8).map(|i| [&long[..], &[i]].concat()).collect();
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        resolve(&mut index, &rows);
        for slot in 0..90 {
            index.remove(Slot(slot));
        }
        assert!(
            index.arena.capacity() <= 50 * 1001,
            "{}",
            index.arena.capacity()
        );
        assert_eq!(key_row(&index, 95), rows[95]);
        assert_eq!(resolve(&mut index, &rows[90..]).1, [0_u32; 0]);
    }

    #[test]
    fn renumbered_keys_stand_without_gaps_and_are_found() {
        let word = |word: u8| [0, 0, 0, 0, 0, 0, 0, 0, word, 0, 0, 0, 0, 0, 0, 0];
        let null = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let rows: [&[u8]; 6] = [b"a", &word(1), b"c", &null, &word(2), b"f"];
        let mut index = KeyIndex::default();
        resolve(&mut index, &rows);
        for slot in [0, 1, 2] {
            index.remove(Slot(slot));
        }
        let mut moves = Vec::new();
        index.renumber(|old, new| moves.push((old.0, new.0)));
        assert_eq!(moves, [(3, 0), (4, 1), (5, 2)]);
        assert_eq!((index.len(), index.slot_bound()), (3, 3));
        let (slots, new) = resolve(&mut index, &[&null, &word(2), b"f", b"a"]);
        assert_eq!((slots, new), (vec![0, 1, 2, 3], vec![3]));
        let copy = index.to_key_rows();
        assert_eq!(copy.slots().collect::<Vec<_>>(), [0, 1, 2, 3].map(Slot));
        let mut row = Vec::new();
        copy.write_key_row(Slot(2), &mut row);
        assert_eq!(row, b"f");
    }

    #[test]
    fn keys_compare_as_their_rows_do() {
        let word = |low: u8, high: u8| [0, 0, 0, 0, 0, 0, 0, 0, low, 0, 0, 0, 0, 0, 0, high];
        let null = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let rows: [&[u8]; 8] = [
            b"",
            &[0; 8],
            &word(1, 0),
            &word(0, 1),
            &word(2, 9),
            &null,
            &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            b"longer than sixteen bytes",
        ];
        let mut index = KeyIndex::default();
        resolve(&mut index, &rows);
        let keys = index.to_key_rows();
        for a in 0..rows.len() {
            for b in 0..rows.len() {
                let (slot_a, slot_b) = (Slot(a as u32), Slot(b as u32));
                assert_eq!(
                    keys.compare(slot_a, slot_b),
                    rows[a].cmp(rows[b]),
                    "{a} {b}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn an_index_is_a_map_from_rows_to_slots(
            steps in prop::collection::vec(
                (prop::collection::vec((0u8..40, 0usize..6), 0..30), any::<u16>()), 1..20)
        ) {
            let mut index = KeyIndex::default();
            let mut model: HashMap<Vec<u8>, u32> = HashMap::new();
            for (keys, remove) in steps {
                let rows: Vec<Vec<u8>> = keys.iter().map(|&(k, form)| match form {
                    0 => vec![k; 3],
                    1 => vec![k; 16],
                    2 => [vec![0; 8], vec![k; 8]].concat(),
                    3 => [&[0; 8][..], &[8 + k % 9, 0, 0, 0, 16, 0, 0, 0], &[k; 8]].concat(),
                    4 => [&[0; 8][..], &[16, 0, 0, 0, 16, 0, 0, 0], &[k; 16]].concat(),
                    _ => [vec![0, 1, 0, 0, 0, 0, 0, 0], vec![k % 2; 8]].concat(),
                }).collect();
                let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
                let (slots, new) = resolve(&mut index, &rows);
                let mut expected_new = Vec::new();
                for (row, slot) in rows.iter().zip(slots) {
                    let known = *model.entry(row.to_vec()).or_insert_with(|| {
                        expected_new.push(slot);
                        slot
                    });
                    prop_assert_eq!(known, slot);
                }
                prop_assert_eq!(new, expected_new);
                let mut live: Vec<u32> = model.values().copied().collect();
                live.sort_unstable();
                prop_assert_eq!(&live, &index.slots().map(|s| s.0).collect::<Vec<_>>());
                for (row, &slot) in &model {
                    prop_assert_eq!(&key_row(&index, slot), row);
                }
                if let Some(&slot) = live.get(remove as usize % live.len().max(1)) {
                    index.remove(Slot(slot));
                    model.retain(|_, s| *s != slot);
                }
            }
        }
    }
}
