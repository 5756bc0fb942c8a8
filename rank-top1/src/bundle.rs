//! Which partitions a bundle touched, in which order, and which of them it changed.

use state_codec::Slot;

/// No change of this bundle stands at a slot.
const UNCHANGED: u32 = u32::MAX;

/// How many slots may wait unsorted before repeated ones are dropped, beyond the partitions known.
const WAITING_SLOTS_TOLERATED: usize = 1 << 16;

/// The changes `C` of a bundle, one for each changed partition.
///
/// Invariant: a rejected row costs nothing here but, in mini-batch mode, the copy of its slot.
#[derive(Debug)]
pub(crate) struct Changes<C> {
    changes: Vec<C>,
    /// By slot: which change, or [`UNCHANGED`].
    positions: Vec<u32>,
    slots: Vec<Slot>,
    /// The slots of all rows so far, in order; repeated ones may be missing after their first.
    touched: Vec<Slot>,
    touched_limit: usize,
}

impl<C> Default for Changes<C> {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            positions: Vec::new(),
            slots: Vec::new(),
            touched: Vec::new(),
            touched_limit: WAITING_SLOTS_TOLERATED,
        }
    }
}

impl<C> Changes<C> {
    /// Notes that these partitions were touched, in this order. What it returns is for
    /// [`untouch`](Self::untouch).
    pub(crate) fn touch(&mut self, slots: &[Slot]) -> usize {
        self.forget_repeated();
        let before = self.touched.len();
        self.touched.extend_from_slice(slots);
        before
    }

    /// Takes the last touch back.
    pub(crate) fn untouch(&mut self, before: usize) {
        self.touched.truncate(before);
    }

    fn forget_repeated(&mut self) {
        if self.touched.len() > self.touched_limit {
            let bound = self
                .touched
                .iter()
                .map(|slot| slot.index() + 1)
                .max()
                .unwrap_or(0);
            let mut seen = vec![false; bound];
            self.touched
                .retain(|slot| !std::mem::replace(&mut seen[slot.index()], true));
            self.touched_limit = WAITING_SLOTS_TOLERATED.max(2 * self.touched.len());
        }
    }

    /// Gives back what is allocated beyond what the bundle holds.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.changes.shrink_to_fit();
        if self.changes.is_empty() {
            self.positions = Vec::new();
        }
        self.slots.shrink_to_fit();
        self.touched.shrink_to_fit();
    }

    /// The change at a slot.
    pub(crate) fn position(&self, slot: Slot) -> Option<usize> {
        let position = *self.positions.get(slot.index())?;
        (position != UNCHANGED).then_some(position as usize)
    }

    /// Adds the change of a slot that had none.
    pub(crate) fn push(&mut self, slot: Slot, change: C) -> usize {
        let position = self.changes.len();
        if slot.index() >= self.positions.len() {
            self.positions.resize(slot.index() + 1, UNCHANGED);
        }
        self.positions[slot.index()] = position as u32;
        self.slots.push(slot);
        self.changes.push(change);
        position
    }

    /// Takes the newest change back.
    pub(crate) fn pop(&mut self) {
        let slot = self.slots.pop().expect("there is a change to take back");
        self.positions[slot.index()] = UNCHANGED;
        self.changes.pop();
    }

    /// The changes, in the order in which the partitions were first changed.
    pub(crate) fn as_slice(&self) -> &[C] {
        &self.changes
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [C] {
        &mut self.changes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Each slot with its change, in the order of [`as_slice`](Self::as_slice).
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (Slot, &C)> {
        self.slots.iter().copied().zip(&self.changes)
    }

    /// The positions of the changes, in the order in which their partitions were first touched,
    /// whether or not the row that touched them first was the one that changed them.
    pub(crate) fn in_touch_order(&self) -> Vec<usize> {
        let mut pending = vec![true; self.changes.len()];
        let mut order = Vec::with_capacity(self.changes.len());
        for &slot in &self.touched {
            if let Some(position) = self.position(slot)
                && std::mem::take(&mut pending[position])
            {
                order.push(position);
                if order.len() == self.changes.len() {
                    break;
                }
            }
        }
        assert_eq!(
            order.len(),
            self.changes.len(),
            "every changed partition was touched"
        );
        order
    }

    /// The partitions that were touched, in order; repeated ones may be missing after their first.
    pub(crate) fn touched(&self) -> &[Slot] {
        &self.touched
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.changes.capacity() * size_of::<C>()
            + self.positions.capacity() * size_of::<u32>()
            + (self.slots.capacity() + self.touched.capacity()) * size_of::<Slot>()
    }

    /// Forgets the bundle. Costs what it changed, not what is held.
    pub(crate) fn clear(&mut self) {
        for slot in self.slots.drain(..) {
            self.positions[slot.index()] = UNCHANGED;
        }
        self.changes.clear();
        self.touched.clear();
        self.touched_limit = WAITING_SLOTS_TOLERATED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_come_in_the_order_of_their_first_touch() {
        let mut changes = Changes::default();
        let slots = [3, 1, 2].map(Slot);
        changes.touch(&slots);
        changes.push(Slot(2), "two");
        changes.push(Slot(3), "three");
        assert_eq!(changes.in_touch_order(), [1, 0]);
        changes.clear();
        assert_eq!(changes.position(Slot(2)), None);
    }

    #[test]
    fn rejected_rows_of_a_long_bundle_do_not_pile_up() {
        let mut changes = Changes::<()>::default();
        let slots: Vec<Slot> = (0..100).map(Slot).collect();
        for _ in 0..10_000 {
            changes.touch(&slots);
        }
        assert!(changes.touched.len() <= WAITING_SLOTS_TOLERATED + slots.len());
        assert_eq!(changes.touched[..100], slots);
    }
}
