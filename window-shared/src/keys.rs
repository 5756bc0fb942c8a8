//! The keys of an operator: which slices hold them, and which no slice does.

use state_codec::{KeyBatch, KeyIndex, Slot};

/// In `holders`: the key is on a list of unheld ones.
const LISTED: u32 = 1 << 31;

/// An index of keys that forgets one when no slice has held it for two firings: a key that each window has is
/// not forgotten and found again with each.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) index: KeyIndex,
    /// By slot: how many slices hold the key.
    holders: Vec<u32>,
    /// Keys that no slice held at the firing before, and since.
    unheld_before: Vec<Slot>,
    unheld: Vec<Slot>,
    new: Vec<Slot>,
    forgotten: u64,
}

impl Keys {
    /// One slot per key, as [`KeyIndex::resolve`].
    pub(crate) fn resolve(&mut self, keys: &KeyBatch, slots: &mut Vec<Slot>) {
        self.index.resolve(keys, slots, &mut self.new);
        self.holders.resize(self.index.slot_bound(), 0);
        for &slot in &self.new {
            self.holders[slot.index()] = LISTED;
        }
        self.unheld.extend_from_slice(&self.new);
    }

    /// Forgets the keys that the last resolving brought. Nothing holds them yet.
    pub(crate) fn forget_new(&mut self) {
        self.unheld.truncate(self.unheld.len() - self.new.len());
        for &slot in &self.new {
            self.holders[slot.index()] = 0;
            self.index.remove(slot);
        }
        self.forgotten += self.new.len() as u64;
        self.new.clear();
    }

    #[inline]
    pub(crate) fn hold(&mut self, slot: Slot) {
        self.holders[slot.index()] += 1;
    }

    /// By slot, to hold many keys at once: see [`hold`](Self::hold).
    pub(crate) fn holders(&mut self) -> &mut [u32] {
        &mut self.holders
    }

    /// Releases the keys whose slot is true in `held`.
    pub(crate) fn release_all(&mut self, held: &[bool]) {
        for (slot, (holders, &held)) in self.holders.iter_mut().zip(held).enumerate() {
            // Which slots are held is not for a branch to guess.
            *holders -= u32::from(held);
            if held & (*holders == 0) {
                *holders = LISTED;
                self.unheld.push(Slot(slot as u32));
            }
        }
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        let holders = &mut self.holders[slot.index()];
        *holders -= 1;
        if *holders == 0 {
            *holders = LISTED;
            self.unheld.push(slot);
        }
    }

    /// Forgets the keys that nothing has held since before the last call.
    pub(crate) fn sweep(&mut self) {
        for slot in std::mem::take(&mut self.unheld_before) {
            let holders = &mut self.holders[slot.index()];
            if *holders == LISTED {
                *holders = 0;
                self.forgotten += 1;
                self.index.remove(slot);
            } else {
                *holders &= !LISTED;
            }
        }
        self.unheld_before = std::mem::take(&mut self.unheld);
    }

    /// Gives back what is allocated beyond what is held. Costs a pass over the keys.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.index.shrink_to_fit();
        self.holders.truncate(self.index.slot_bound());
        self.holders.shrink_to_fit();
        self.unheld.shrink_to_fit();
        self.unheld_before.shrink_to_fit();
        self.new = Vec::new();
    }

    /// Forgets all keys: nothing holds any.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            forgotten: self.forgotten + 1,
            ..Self::default()
        };
    }

    /// A number that grows whenever a key is forgotten: as long as it is the same, a slot means the same key.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.index.allocated_bytes()
            + self.holders.capacity() * size_of::<u32>()
            + (self.unheld.capacity() + self.unheld_before.capacity() + self.new.capacity())
                * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(keys: &mut Keys, row: &[u8]) -> Slot {
        let mut slots = Vec::new();
        keys.resolve(&KeyBatch::from_rows([row]).unwrap(), &mut slots);
        slots[0]
    }

    #[test]
    fn a_key_is_forgotten_at_the_second_sweep_without_holders() {
        let mut keys = Keys::default();
        let a = resolve(&mut keys, b"a");
        keys.hold(a);
        keys.sweep();
        keys.sweep();
        assert_eq!(keys.index.len(), 1);
        keys.release(a);
        keys.sweep();
        assert_eq!(keys.index.len(), 1);
        assert_eq!(resolve(&mut keys, b"a"), a);
        keys.sweep();
        assert_eq!(keys.index.len(), 0);
    }

    #[test]
    fn a_key_held_again_stays() {
        let mut keys = Keys::default();
        let a = resolve(&mut keys, b"a");
        for _ in 0..3 {
            keys.hold(a);
            keys.release(a);
            keys.hold(a);
            keys.sweep();
            keys.release(a);
            keys.hold(a);
            keys.sweep();
            keys.sweep();
            keys.release(a);
        }
        assert_eq!(keys.index.len(), 1);
        keys.sweep();
        keys.sweep();
        assert!(keys.index.is_empty());
    }

    #[test]
    fn what_a_refused_batch_brought_is_forgotten() {
        let mut keys = Keys::default();
        resolve(&mut keys, b"a");
        keys.forget_new();
        assert!(keys.index.is_empty());
        keys.sweep();
        keys.sweep();
    }
}
