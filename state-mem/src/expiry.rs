//! When values expire, and the sweep that reclaims those that nobody asks for again.

use state_codec::{NEVER, Slot};

/// Slots that the end of a bundle looks at besides one for each of its rows: the sweep gets through any
/// state, and faster than rows come.
const SWEPT_PER_BUNDLE: usize = 64;

/// By slot, for stores whose values expire.
#[derive(Debug, Default)]
pub(crate) struct Expiries {
    /// When the value expires; [`NEVER`] without a value.
    at_ms: Vec<i64>,
    /// The bundle in which the key was last resolved. The first time decides for the whole bundle.
    seen: Vec<u32>,
    bundle: u32,
    rows_in_bundle: usize,
    /// Where the sweep goes on.
    cursor: usize,
}

impl Expiries {
    pub(crate) fn new() -> Self {
        Self {
            bundle: 1, // no slot was seen in it
            ..Self::default()
        }
    }

    pub(crate) fn grow(&mut self, slots: usize) {
        if slots > self.at_ms.len() {
            self.at_ms.resize(slots, NEVER);
            self.seen.resize(slots, 0);
        }
    }

    pub(crate) fn shrink(&mut self, slots: usize) {
        self.at_ms.truncate(slots);
        self.at_ms.shrink_to_fit();
        self.seen.truncate(slots);
        self.seen.shrink_to_fit();
    }

    pub(crate) fn set(&mut self, slot: Slot, at_ms: i64) {
        self.at_ms[slot.index()] = at_ms;
    }

    /// Calls `expired` with each of `slots` that the bundle resolves for the first time and whose value is
    /// gone by now.
    pub(crate) fn touch(&mut self, slots: &[Slot], now_ms: i64, mut expired: impl FnMut(Slot)) {
        self.rows_in_bundle += slots.len();
        for &slot in slots {
            let i = slot.index();
            if self.seen[i] != self.bundle {
                self.seen[i] = self.bundle;
                if self.at_ms[i] <= now_ms {
                    self.at_ms[i] = NEVER;
                    expired(slot);
                }
            }
        }
    }

    pub(crate) fn end_bundle(&mut self) {
        self.bundle = match self.bundle.checked_add(1) {
            Some(bundle) => bundle,
            None => {
                self.seen.fill(0);
                1
            }
        };
    }

    /// Goes on with the sweep: as many slots as the bundle had rows, and a few more. Calls `expired` with
    /// those whose value is gone by now.
    pub(crate) fn sweep(&mut self, now_ms: i64, mut expired: impl FnMut(Slot)) {
        let slots = self.at_ms.len();
        let steps = std::mem::take(&mut self.rows_in_bundle) + SWEPT_PER_BUNDLE;
        for _ in 0..steps.min(slots) {
            if self.cursor >= slots {
                self.cursor = 0;
            }
            if self.at_ms[self.cursor] <= now_ms {
                self.at_ms[self.cursor] = NEVER;
                expired(Slot(self.cursor as u32));
            }
            self.cursor += 1;
        }
    }

    /// Moves what is known of a slot to a lower one.
    pub(crate) fn renumber(&mut self, old: Slot, new: Slot) {
        self.at_ms[new.index()] = self.at_ms[old.index()];
        self.seen[new.index()] = self.seen[old.index()];
    }

    pub(crate) fn at_ms(&self) -> &[i64] {
        &self.at_ms
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.at_ms.capacity() * size_of::<i64>() + self.seen.capacity() * size_of::<u32>()
    }
}
