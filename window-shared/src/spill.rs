//! Slices in a state that is not memory: those that had no room, and those of checkpoints.
//!
//! What is in memory of a slice is whole accumulators: a key that the state has is read when a row of it comes,
//! so that the order of additions is the same as if nothing had ever been written. A slice of which all
//! keys are in memory fires from there, whether or not the state has it as well.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use arrow::array::RecordBatch;
use keygroup::{GroupRange, KeyGroup, group_of};
use state_codec::{DecodeError, KeyBatch, Reservation, SlicedState, Slot};

use crate::accumulate::{Age, Place};
use crate::error::WindowError;
use crate::keys::Keys;
use crate::operator::{Shape, Spill, Targeted, WindowOperator};
use crate::output;
use crate::slice::{Pairs, Slice};

/// Keys that are resolved at a time when a slice is read.
const READ_KEYS: usize = 1024;

/// Key rows with their groups and places, in the order of the state.
#[derive(Default)]
pub(crate) struct SortedKeys {
    arena: Vec<u8>,
    keys: Vec<(KeyGroup, usize, usize, Place)>,
}

impl SortedKeys {
    pub(crate) fn push(
        &mut self,
        place: Place,
        groups: keygroup::GroupCount,
        write_row: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.arena.len();
        write_row(&mut self.arena);
        let group = group_of(&self.arena[start..], groups);
        self.keys.push((group, start, self.arena.len(), place));
    }

    pub(crate) fn sort(&mut self) {
        let arena = &self.arena;
        self.keys
            .sort_unstable_by(|a, b| (a.0, &arena[a.1..a.2]).cmp(&(b.0, &arena[b.1..b.2])));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (KeyGroup, &[u8], Place)> {
        let keys = self.keys.iter();
        keys.map(|&(group, start, end, place)| (group, &self.arena[start..end], place))
    }
}

/// Appends the accumulators of a place to `out`.
pub(crate) fn encode(slice: &Slice, place: Place, out: &mut Vec<u8>) {
    for column in &slice.columns {
        column.encode_into(place, out);
    }
}

/// Sets those of a place to what the bytes say, all of them.
pub(crate) fn decode(slice: &mut Slice, place: Place, bytes: &[u8]) -> Result<(), DecodeError> {
    let mut rest = bytes;
    for column in &mut slice.columns {
        column.decode(place, &mut rest)?;
    }
    if rest.is_empty() {
        return Ok(());
    }
    let at = bytes.len() - rest.len();
    Err(DecodeError::malformed("accumulators", at, "they end there"))
}

impl<S: SlicedState> WindowOperator<S> {
    /// The state, if there is one and it can be used.
    pub(crate) fn spill(&mut self) -> Result<Option<&mut Spill<S>>, WindowError<S::Error>> {
        match &mut self.spill {
            Some(spill) if spill.is_broken => Err(WindowError::Broken),
            spill => Ok(spill.as_mut()),
        }
    }

    /// Whether a slice is in memory or in the state.
    pub(crate) fn has_slice(&self, end_ms: i64) -> bool {
        let stored = self.spill.as_ref().map(|spill| &spill.stored);
        self.slices.contains_key(&end_ms) || stored.is_some_and(|it| it.contains(&end_ms))
    }

    /// The slices in memory or in the state that end in this range, rising.
    fn slices_in(&self, ends: impl RangeBounds<i64> + Clone) -> Vec<i64> {
        let mut found: Vec<i64> = self
            .slices
            .range(ends.clone())
            .map(|(&end, _)| end)
            .collect();
        if let Some(spill) = &self.spill
            && !spill.stored.is_empty()
        {
            found.extend(spill.stored.range(ends));
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    pub(crate) fn slices_up_to(&self, end_ms: i64) -> Vec<i64> {
        self.slices_in(..=end_ms)
    }

    pub(crate) fn slices_between(&self, first: i64, last: i64) -> Vec<i64> {
        self.slices_in(first..=last)
    }

    pub(crate) fn newest_slice(&self, first: i64, last: i64) -> Option<i64> {
        if first > last {
            return None;
        }
        let in_memory = self.slices.range(first..=last).next_back();
        let spill = self.spill.as_ref();
        let stored = spill.and_then(|spill| spill.stored.range(first..=last).next_back());
        in_memory.map(|(&end, _)| end).max(stored.copied())
    }

    /// Whether a window has slices of which a part is in the state alone.
    pub(crate) fn is_partly_stored(&self, end_ms: i64) -> bool {
        let first = match self.shape {
            Shape::Single => end_ms,
            _ => self.first_slice_end(end_ms),
        };
        let range = (Bound::Included(first), Bound::Included(end_ms));
        let spill = self.spill.as_ref();
        spill.is_some_and(|spill| spill.partly.range(range).next().is_some())
    }

    /// Reads what the state has of the keys of a batch that are not in memory.
    pub(crate) fn hydrate(
        &mut self,
        groups: &[Targeted],
        slots: &[Slot],
    ) -> Result<(), WindowError<S::Error>> {
        let Some(spill) = self.spill()? else {
            return Ok(());
        };
        if spill.partly.is_empty() {
            return Ok(());
        }
        let partly: Vec<(i64, Vec<Slot>)> = groups
            .iter()
            .filter(|(target, _)| spill.partly.contains(target))
            .map(|(target, group)| {
                let mut wanted: Vec<Slot> = match &group.rows {
                    None => slots.to_vec(),
                    Some(rows) => rows.iter().map(|&row| slots[row as usize]).collect(),
                };
                wanted.sort_unstable();
                wanted.dedup();
                (*target, wanted)
            })
            .collect();
        for (end_ms, mut wanted) in partly {
            if let Some(slice) = self.slices.get(&end_ms) {
                wanted.retain(|&slot| slice.place(slot).is_none());
            }
            let mut keys = SortedKeys::default();
            for &slot in &wanted {
                // Here it is the slot that goes with the key.
                keys.push(slot.0, self.group_count, |out| {
                    self.keys.index.write_key_row(slot, out);
                });
            }
            keys.sort();
            let asked: Vec<(KeyGroup, &[u8])> =
                keys.iter().map(|(group, row, _)| (group, row)).collect();
            let found_slots: Vec<Slot> = keys.iter().map(|(_, _, slot)| Slot(slot)).collect();
            let mut found: Vec<(Slot, Vec<u8>)> = Vec::new();
            let spill = self.spill.as_mut().expect("slices are stored there");
            spill
                .state
                .read(end_ms, &asked, &mut |i, bytes| {
                    found.push((found_slots[i], bytes.to_vec()));
                })
                .map_err(WindowError::State)?;
            if found.is_empty() {
                continue;
            }
            let mut slice = self.take_slice(end_ms);
            let owned = Arc::make_mut(&mut slice);
            let mut decoded = Ok(());
            for (slot, bytes) in found {
                let place = owned.place_or_create(slot, |_| ());
                owned.grow_columns();
                decoded = decode(owned, place, &bytes);
                if decoded.is_err() {
                    owned.remove(&[place]);
                    break;
                }
                self.keys.hold(slot);
            }
            owned.set_unwritten(&[]);
            self.put_slice(end_ms, slice);
            decoded?;
        }
        Ok(())
    }

    /// Writes what the state does not have yet. Everything stays in memory.
    pub(crate) fn write_all(&mut self) -> Result<(), WindowError<S::Error>> {
        self.expire_merged()?;
        let group_count = self.group_count;
        let Some(spill) = (match &mut self.spill {
            Some(spill) if spill.is_broken => return Err(WindowError::Broken),
            spill => spill.as_mut(),
        }) else {
            return Ok(());
        };
        let mut value = Vec::new();
        for (&end_ms, slice) in &self.slices {
            let mut keys = SortedKeys::default();
            for (place, slot) in slice
                .entries()
                .into_iter()
                .filter(|&(place, _)| slice.is_unwritten(place))
            {
                keys.push(place, group_count, |out| {
                    self.keys.index.write_key_row(slot, out);
                });
            }
            keys.sort();
            for (group, row, place) in keys.iter() {
                value.clear();
                encode(slice, place, &mut value);
                let put = spill.state.put(end_ms, group, row, &value);
                put.map_err(WindowError::State)?;
            }
        }
        spill.state.flush().map_err(WindowError::State)?;
        spill.stored.extend(self.slices.keys());
        for slice in self.slices.values_mut() {
            // A view that shares the slice looks at no such note.
            match Arc::get_mut(slice) {
                Some(slice) => slice.set_all_written(),
                None => Arc::make_mut(slice).set_all_written(),
            }
        }
        Ok(())
    }

    /// Writes what the state does not have yet, and forgets all that is in memory.
    pub(crate) fn spill_all(&mut self) -> Result<(), WindowError<S::Error>> {
        self.write_all()?;
        if let Some(spill) = &mut self.spill {
            spill.partly.extend(self.slices.keys());
            self.counters.spills += 1;
            self.forget_resident();
        }
        Ok(())
    }

    /// Notes that a slice in memory was merged into another.
    pub(crate) fn note_merged(&mut self, end_ms: i64) {
        if let Some(spill) = &mut self.spill
            && spill.stored.contains(&end_ms)
        {
            spill.merged.push(end_ms);
        }
    }

    /// Removes slices from the state that were merged into others.
    pub(crate) fn expire_merged(&mut self) -> Result<(), WindowError<S::Error>> {
        let Some(spill) = &mut self.spill else {
            return Ok(());
        };
        while let Some(&end_ms) = spill.merged.last() {
            spill.state.expire(end_ms).map_err(WindowError::State)?;
            spill.stored.remove(&end_ms);
            spill.partly.remove(&end_ms);
            spill.merged.pop();
        }
        Ok(())
    }

    /// Removes a slice that no window needs any more.
    pub(crate) fn close(&mut self, end_ms: i64) -> Result<(), WindowError<S::Error>> {
        if let Some(spill) = &mut self.spill
            && spill.stored.contains(&end_ms)
        {
            spill.state.expire(end_ms).map_err(WindowError::State)?;
            spill.stored.remove(&end_ms);
            spill.partly.remove(&end_ms);
        }
        self.drop_slice(end_ms);
        Ok(())
    }

    /// The results of a window of which slices are in the state. All groups at once if there is room for a
    /// window, else in parts.
    pub(crate) fn fire_stored(
        &mut self,
        end_ms: i64,
    ) -> Result<Vec<RecordBatch>, WindowError<S::Error>> {
        self.spill()?;
        let ends = match self.shape {
            Shape::Single => vec![end_ms],
            // The newest first, as windows of memory are merged.
            Shape::Sliding => {
                let mut ends = self.slices_between(self.first_slice_end(end_ms), end_ms);
                ends.reverse();
                ends
            }
            Shape::Growing => self.slices_between(self.first_slice_end(end_ms), end_ms),
        };
        let mut charge = self.reservation.pool().reserve(&self.name);
        let mut results = Vec::new();
        let mut parts = vec![self.group_count.all()];
        while let Some(groups) = parts.pop() {
            // Once a part of a growing window is merged the others must be: the last resort is one group of it,
            // whatever the budget says.
            let began = self.spill.as_ref().is_some_and(|spill| spill.is_broken);
            let is_group = groups.start() == groups.end();
            let charged = (!(began && is_group)).then_some(&mut charge);
            match self.fire_part(end_ms, &ends, groups, charged) {
                Ok(result) => results.extend(result),
                Err(error) => {
                    let (first, last) = (groups.start().get(), groups.end().get());
                    if error.denied().is_none() || first == last {
                        return Err(error);
                    }
                    let middle = first + (last - first) / 2;
                    let range = |first, last| {
                        GroupRange::new(first, last).expect("both are groups, in order")
                    };
                    // The last one is taken next.
                    parts.push(range(middle + 1, last));
                    parts.push(range(first, middle));
                }
            }
        }
        if self.shape == Shape::Growing && self.fires_in_order(end_ms)? {
            let first = self.first_slice_end(end_ms);
            for &end in &ends {
                if end != first {
                    self.close(end)?;
                }
            }
            self.drop_slice(first);
            let spill = self.spill.as_mut().expect("slices are stored there");
            spill.stored.insert(first);
            spill.partly.insert(first);
            spill.is_broken = false;
        }
        Ok(results)
    }

    fn fire_part(
        &mut self,
        end_ms: i64,
        ends: &[i64],
        groups: GroupRange,
        mut charge: Option<&mut Reservation>,
    ) -> Result<Option<RecordBatch>, WindowError<S::Error>> {
        let mut keys = Keys::default();
        let mut pairs = Pairs::default();
        let mut whole: Option<Slice> = None;
        let mut changed: Vec<bool> = Vec::new();
        let age = match self.shape {
            Shape::Growing => Age::Later,
            _ => Age::Older,
        };
        let first = match self.shape {
            Shape::Growing => self.first_slice_end(end_ms),
            _ => end_ms,
        };
        if let Some(charge) = &mut charge {
            charge.try_resize(0)?;
        }
        for &end in ends {
            let (part, overridden) = self.read_part(end, groups, &mut keys)?;
            let part_changed: Vec<Place> = if end == first {
                overridden
            } else {
                part.entries().into_iter().map(|(place, _)| place).collect()
            };
            let held = part.allocated_bytes()
                + keys.allocated_bytes()
                + 2 * whole.as_ref().map_or(0, Slice::allocated_bytes);
            if let Some(charge) = &mut charge {
                charge.try_resize(held)?;
            }
            match &mut whole {
                None => {
                    changed = vec![false; part.bound()];
                    for place in part_changed {
                        changed[place as usize] = true;
                    }
                    whole = Some(part);
                }
                Some(whole) => {
                    whole.merge(&part, age, &mut pairs, |_| ());
                    self.counters.merges += (part.len() * part.columns.len()) as u64;
                    changed.resize(whole.bound(), false);
                    for &place in &pairs.into {
                        changed[place as usize] = true;
                    }
                }
            }
        }
        let Some(whole) = whole.filter(|whole| !whole.is_empty()) else {
            return Ok(None);
        };
        let (places, slots): (Vec<Place>, Vec<Slot>) = whole.entries().into_iter().unzip();
        let columns = self.spec.keys.decode(&keys.index, &slots)?;
        let column = |index: usize| (whole.columns[index].as_ref(), places.as_slice());
        let result = output::results(&self.spec, end_ms, slots.len(), columns, column)?;
        if self.shape == Shape::Growing && self.fires_in_order(end_ms)? {
            self.write_grown(first, &whole, &keys, &changed)?;
        }
        Ok(Some(result))
    }

    /// Writes what merging has changed of the first slice of a growing window.
    fn write_grown(
        &mut self,
        first: i64,
        whole: &Slice,
        keys: &Keys,
        changed: &[bool],
    ) -> Result<(), WindowError<S::Error>> {
        let mut sorted = SortedKeys::default();
        for (place, slot) in whole
            .entries()
            .into_iter()
            .filter(|&(place, _)| changed[place as usize])
        {
            sorted.push(place, self.group_count, |out| {
                keys.index.write_key_row(slot, out)
            });
        }
        sorted.sort();
        let spill = self.spill.as_mut().expect("slices are stored there");
        // From here on a part of the groups is merged, which must not be merged again.
        spill.is_broken = true;
        let mut value = Vec::new();
        for (group, row, place) in sorted.iter() {
            value.clear();
            encode(whole, place, &mut value);
            let put = spill.state.put(first, group, row, &value);
            put.map_err(WindowError::State)?;
        }
        spill.state.flush().map_err(WindowError::State)
    }

    /// What a slice has of some groups, in memory and in the state, with the slots of `keys`; and which places
    /// are from memory.
    fn read_part(
        &mut self,
        end_ms: i64,
        groups: GroupRange,
        keys: &mut Keys,
    ) -> Result<(Slice, Vec<Place>), WindowError<S::Error>> {
        let mut part = Slice::new(&self.spec.plans);
        let mut slots = Vec::new();
        let mut rows: Vec<u8> = Vec::new();
        let mut values: Vec<u8> = Vec::new();
        let mut bounds: Vec<(usize, usize)> = Vec::new();
        let spill = self.spill.as_mut().expect("slices are stored there");
        if spill.stored.contains(&end_ms) {
            let mut failed: Option<WindowError<S::Error>> = None;
            let mut load = |rows: &mut Vec<u8>,
                            values: &mut Vec<u8>,
                            bounds: &mut Vec<(usize, usize)>|
             -> Result<(), WindowError<S::Error>> {
                let mut starts = (0, 0);
                let mut entries = Vec::with_capacity(bounds.len());
                for &(row_end, value_end) in bounds.iter() {
                    let row = &rows[starts.0..row_end];
                    let value = &values[starts.1..value_end];
                    entries.push((row, value));
                    starts = (row_end, value_end);
                }
                let batch = KeyBatch::from_rows(entries.iter().map(|entry| entry.0))?;
                keys.resolve(&batch, &mut slots);
                let places: Vec<Place> = slots
                    .iter()
                    .map(|&slot| part.place_or_create(slot, |_| ()))
                    .collect();
                part.grow_columns();
                for (place, (_, value)) in places.into_iter().zip(entries) {
                    decode(&mut part, place, value)?;
                }
                rows.clear();
                values.clear();
                bounds.clear();
                Ok(())
            };
            let scanned = spill.state.scan(end_ms, groups, &mut |_, row, value| {
                rows.extend_from_slice(row);
                values.extend_from_slice(value);
                bounds.push((rows.len(), values.len()));
                if bounds.len() < READ_KEYS {
                    return std::ops::ControlFlow::Continue(());
                }
                match load(&mut rows, &mut values, &mut bounds) {
                    Ok(()) => std::ops::ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        std::ops::ControlFlow::Break(())
                    }
                }
            });
            scanned.map_err(WindowError::State)?;
            if let Some(error) = failed {
                return Err(error);
            }
            load(&mut rows, &mut values, &mut bounds)?;
        }
        let mut overridden = Vec::new();
        if let Some(slice) = self.slices.get(&end_ms) {
            let mut row_ends = Vec::new();
            let mut from = Vec::new();
            rows.clear();
            for (place, slot) in slice.entries() {
                let start = rows.len();
                self.keys.index.write_key_row(slot, &mut rows);
                if groups.contains(group_of(&rows[start..], self.group_count)) {
                    row_ends.push(rows.len());
                    from.push(place);
                } else {
                    rows.truncate(start);
                }
            }
            let mut start = 0;
            let batch = KeyBatch::from_rows(
                row_ends
                    .iter()
                    .map(|&end| &rows[std::mem::replace(&mut start, end)..end]),
            )?;
            let mut slots = Vec::new();
            keys.resolve(&batch, &mut slots);
            overridden.extend(slots.iter().map(|&slot| part.place_or_create(slot, |_| ())));
            part.grow_columns();
            for (column, of_slice) in part.columns.iter_mut().zip(&slice.columns) {
                column.reset(&overridden);
                column.merge(&overridden, of_slice.as_ref(), &from, Age::Later);
            }
        }
        Ok((part, overridden))
    }
}
