//! The values of a store at one moment.

use std::ops::ControlFlow;
use std::sync::Arc;

use keygroup::{GroupCount, GroupRange, KeyGroup, group_of};
use state_codec::{KeyRows, Reservation, Slot, SnapshotView};

use crate::error::MemError;
use crate::slab::Slab;

/// The values of a [`MemState`](crate::MemState) at one moment, which it may go on from.
///
/// It holds a copy of the keys, which it charges to the memory pool, and shares the values. What the store
/// copies in order to change a value that is shared is charged by the store, for as long as there is a view.
pub struct MemView<V> {
    pub(crate) keys: KeyRows,
    pub(crate) values: Slab<V>,
    /// By slot, where values expire.
    pub(crate) expiries_ms: Vec<i64>,
    pub(crate) now_ms: i64,
    pub(crate) groups: GroupCount,
    pub(crate) _reservation: Reservation,
    /// Tells the store that there is a view.
    pub(crate) _alive: Arc<()>,
}

impl<V> MemView<V> {
    fn is_live(&self, slot: Slot) -> bool {
        let expiry_ms = self.expiries_ms.get(slot.index());
        self.values.get(slot).is_some() && expiry_ms.is_none_or(|&at_ms| at_ms > self.now_ms)
    }
}

impl<V> std::fmt::Debug for MemView<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemView")
            .field("keys", &self.keys.slots().count())
            .field("now_ms", &self.now_ms)
            .finish_non_exhaustive()
    }
}

impl<V> SnapshotView<V> for MemView<V> {
    type Error = MemError;

    /// Sorts a list of the keys, 8 bytes each, which is not charged: `O(n log n)` for `n` keys.
    fn scan(
        &mut self,
        groups: GroupRange,
        visit: &mut dyn FnMut(KeyGroup, &[u8], &V) -> ControlFlow<()>,
    ) -> Result<(), MemError> {
        let mut row = Vec::new();
        let mut entries: Vec<(KeyGroup, Slot)> = Vec::new();
        for slot in self.keys.slots().filter(|&slot| self.is_live(slot)) {
            row.clear();
            self.keys.write_key_row(slot, &mut row);
            let group = group_of(&row, self.groups);
            if groups.contains(group) {
                entries.push((group, slot));
            }
        }
        entries.sort_unstable_by(|(group_a, a), (group_b, b)| {
            group_a.cmp(group_b).then_with(|| self.keys.compare(*a, *b))
        });
        for (group, slot) in entries {
            row.clear();
            self.keys.write_key_row(slot, &mut row);
            let value = self.values.get(slot).expect("a live slot has a value");
            if visit(group, &row, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}
