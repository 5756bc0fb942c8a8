//! Checkpoints of an operator: its partial aggregates as a table, or its state's own files.
//!
//! A section of a canonical checkpoint has the columns of [`WindowSpec::partials_schema`], ordered by slice and
//! key row. The watermark is in the manifest.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::BinaryBuilder;
use keygroup::{GroupCount, GroupRange, KeyGroup, group_of};
use state_codec::checkpoint::{
    CheckpointDir, CheckpointRef, Manifest, NativeSliceBackend, SectionReader, SectionWriter, cover,
};
use state_codec::{KeyBatch, KeyRows, Reservation, SliceBackend, SliceScan, SlicedState};

use crate::error::{RestoreError, WindowError};
use crate::events;
use crate::operator::WindowOperator;
use crate::output;
use crate::sliding::Slices;
use crate::spec::WindowSpec;
use crate::spill::{self, SortedKeys};

/// Rows and bytes that one record batch of a section has at most, unless a row is larger.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 1 << 20;

/// The partial aggregates of an operator at one moment, and its watermark then. It may be written on another
/// thread while the operator goes on. In memory it shares the slices, and a slice that the operator changes in
/// the meantime is copied; all of them are charged to the budget once more as long as it lives.
#[derive(Debug)]
pub struct FrozenWindows<V> {
    spec: WindowSpec,
    group_count: GroupCount,
    watermark_ms: i64,
    content: Content<V>,
}

#[derive(Debug)]
enum Content<V> {
    Memory {
        slices: Slices,
        keys: KeyRows,
        _charge: Reservation,
    },
    State {
        view: V,
        slices: Vec<i64>,
    },
}

impl<V: SliceScan> FrozenWindows<V> {
    /// The watermark of the operator.
    pub fn watermark_ms(&self) -> i64 {
        self.watermark_ms
    }

    /// Writes what there is of `groups` as the canonical checkpoint `id` of `dir`.
    ///
    /// # Errors
    ///
    /// [`WindowError`] if the view cannot be read or the directory not be written; its checkpoints are as they
    /// were.
    pub fn write(
        mut self,
        groups: GroupRange,
        dir: &CheckpointDir,
        id: u64,
    ) -> Result<Manifest, WindowError<V::Error>> {
        let mut sections = SectionWriter::new(
            dir.begin(id)?,
            Arc::clone(&self.spec.partials),
            self.group_count,
            groups,
            &self.spec.fingerprint(),
        )?
        .with_watermark(self.watermark_ms);
        let spec = &self.spec;
        let mut pending = Pending::default();
        match &mut self.content {
            Content::Memory { slices, keys, .. } => {
                // By group once, since each section goes through all slices.
                let mut sorted = SortedKeys::default();
                for slot in keys.slots() {
                    sorted.push(slot.0, self.group_count, |out| {
                        keys.write_key_row(slot, out)
                    });
                }
                sorted.sort();
                let all: Vec<_> = sorted.iter().collect();
                let mut value = Vec::new();
                for of_group in all.chunk_by(|a, b| a.0 == b.0) {
                    let group = of_group[0].0;
                    if !groups.contains(group) {
                        continue;
                    }
                    for (&end, slice) in slices.iter() {
                        for &(_, row, slot) in of_group {
                            if let Some(place) = slice.place(state_codec::Slot(slot)) {
                                value.clear();
                                spill::encode(slice, place, &mut value);
                                pending.push(spec, group, end, row, &value, &mut sections)?;
                            }
                        }
                    }
                }
            }
            Content::State { view, slices } => {
                for group in groups.iter() {
                    let of_group = GroupRange::new(group.get(), group.get());
                    let of_group = of_group.expect("a group is a range of one");
                    for &end in slices.iter() {
                        let mut failure = None;
                        let scanned =
                            view.scan(end, of_group, &mut |group, row, value| match pending.push(
                                spec,
                                group,
                                end,
                                row,
                                value,
                                &mut sections,
                            ) {
                                Ok(()) => ControlFlow::Continue(()),
                                Err(error) => {
                                    failure = Some(error);
                                    ControlFlow::Break(())
                                }
                            });
                        scanned.map_err(WindowError::State)?;
                        if let Some(failure) = failure {
                            return Err(failure);
                        }
                    }
                }
            }
        }
        pending.write(spec, &mut sections)?;
        let manifest = sections.finish()?;
        events::saved(&manifest);
        Ok(manifest)
    }
}

/// Rows that wait to be written as a record batch.
#[derive(Default)]
struct Pending {
    group: Option<KeyGroup>,
    rows: Vec<u8>,
    row_ends: Vec<usize>,
    slice_ends: Vec<i64>,
    accumulators: BinaryBuilder,
    bytes: usize,
}

impl Pending {
    fn push<E: std::error::Error + 'static>(
        &mut self,
        spec: &WindowSpec,
        group: KeyGroup,
        slice_end: i64,
        row: &[u8],
        value: &[u8],
        sections: &mut SectionWriter<'_>,
    ) -> Result<(), WindowError<E>> {
        if self.group != Some(group) {
            self.write(spec, sections)?;
            sections.begin(group)?;
            self.group = Some(group);
        }
        self.rows.extend_from_slice(row);
        self.row_ends.push(self.rows.len());
        self.slice_ends.push(slice_end);
        self.accumulators.append_value(value);
        self.bytes += row.len() + value.len();
        if self.slice_ends.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.write(spec, sections)?;
        }
        Ok(())
    }

    fn write<E: std::error::Error + 'static>(
        &mut self,
        spec: &WindowSpec,
        sections: &mut SectionWriter<'_>,
    ) -> Result<(), WindowError<E>> {
        if self.slice_ends.is_empty() {
            return Ok(());
        }
        let mut start = 0;
        let rows: Vec<&[u8]> = self
            .row_ends
            .iter()
            .map(|&end| &self.rows[std::mem::replace(&mut start, end)..end])
            .collect();
        let keys = if spec.group_by.is_empty() {
            Vec::new()
        } else {
            spec.key_layout.decode(&rows)?
        };
        let slice_ends = std::mem::take(&mut self.slice_ends);
        let accumulators = Arc::new(self.accumulators.finish());
        let batch = output::partials(&spec.partials, keys, slice_ends, accumulators);
        sections.write(&batch.map_err(WindowError::Output)?)?;
        self.rows.clear();
        self.row_ends.clear();
        self.bytes = 0;
        Ok(())
    }
}

impl<S: SlicedState> WindowOperator<S> {
    /// The partial aggregates and the watermark of this moment, for a canonical checkpoint. What waits to be
    /// written to a state is written first.
    ///
    /// # Errors
    ///
    /// [`WindowError`] if the state fails, or the budget has no room for a second copy of what is in memory.
    pub fn freeze(&mut self) -> Result<FrozenWindows<S::View>, WindowError<S::Error>> {
        self.write_all()?;
        let content = match self.spill()? {
            Some(spill) => Content::State {
                view: spill.state.freeze().map_err(WindowError::State)?,
                slices: spill.stored.iter().copied().collect(),
            },
            None => {
                let mut charge = self.reservation.pool().reserve(&self.name);
                charge.try_resize(self.slice_bytes + self.keys.index.key_rows_bytes())?;
                Content::Memory {
                    slices: self.slices.clone(),
                    keys: self.keys.index.to_key_rows(),
                    _charge: charge,
                }
            }
        };
        Ok(FrozenWindows {
            spec: self.spec.clone(),
            group_count: self.group_count,
            watermark_ms: self.watermark_ms,
            content,
        })
    }

    /// Saves the state's own files as checkpoint `id` of `dir`, with the watermark. What waits to be written
    /// is written first; all stays in memory as well.
    ///
    /// # Errors
    ///
    /// [`WindowError`] if the state or the directory fails; the checkpoints of `dir` are as they were.
    pub fn checkpoint<B>(
        &mut self,
        backend: &B,
        dir: &CheckpointDir,
        id: u64,
        groups: GroupRange,
    ) -> Result<Manifest, WindowError<S::Error>>
    where
        B: NativeSliceBackend<Slices = S, Error = S::Error>,
    {
        self.write_all()?;
        let (fingerprint, watermark_ms) = (self.spec.fingerprint(), self.watermark_ms);
        let spill = self.spill()?.expect("a native backend has states");
        let state = &mut spill.state;
        let saved = backend.checkpoint_slices(state, dir, id, groups, &fingerprint, watermark_ms);
        let manifest = saved.map_err(WindowError::State)?;
        events::saved(&manifest);
        Ok(manifest)
    }

    /// Opens an operator with the state called `name`, which must not exist, made of what the native
    /// checkpoints `parts` have of `groups`. Its watermark is the least of theirs, so that no row is late that
    /// was not; windows that it had fired do not fire again.
    ///
    /// # Errors
    ///
    /// [`WindowError`] if a checkpoint is not one of this operator, is damaged or cannot be read, or they are
    /// not about `groups`: then there is no state.
    pub fn restore_native<B>(
        spec: WindowSpec,
        backend: &B,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
    ) -> Result<Self, WindowError<S::Error>>
    where
        B: NativeSliceBackend<Slices = S, Error = S::Error>,
    {
        let manifests = parts
            .iter()
            .map(|part| Manifest::read(&part.dir, part.id))
            .collect::<Result<Vec<_>, _>>()?;
        let watermark_ms = least_watermark(&manifests)?;
        backend
            .restore_slices(name, parts, groups, &spec.fingerprint())
            .map_err(WindowError::State)?;
        let mut operator = Self::open(spec, backend, name)?;
        operator.restart_at(watermark_ms)?;
        events::restored(name, parts.len(), groups);
        Ok(operator)
    }

    /// Opens an operator with the state called `name`, which must be empty, and fills it with what the canonical
    /// checkpoints `parts`, of any backend, have of `groups`. All of them are checked as a whole before. Its
    /// watermark is the least of theirs; windows that had fired by then do not fire again.
    ///
    /// # Errors
    ///
    /// [`WindowError`] if a checkpoint is not one of this operator, is damaged or cannot be read, they are not
    /// about `groups`, or there is no room.
    pub fn restore<B>(
        spec: WindowSpec,
        backend: &B,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
    ) -> Result<Self, WindowError<S::Error>>
    where
        B: SliceBackend<Slices = S, Error = S::Error>,
    {
        let fingerprint = spec.fingerprint();
        let mut readers = Vec::with_capacity(parts.len());
        for part in parts {
            let reader = SectionReader::open(part, &fingerprint, backend.groups())?;
            readers.push(reader);
        }
        let manifests: Vec<Manifest> = readers
            .iter()
            .map(|reader| reader.manifest().clone())
            .collect();
        let ranges: Vec<GroupRange> = manifests.iter().map(|manifest| manifest.groups).collect();
        cover(&ranges, groups).map_err(RestoreError::from)?;
        let watermark_ms = least_watermark(&manifests)?;
        for reader in &mut readers {
            reader.verify(groups)?;
        }
        let mut operator = Self::open(spec, backend, name)?;
        if !operator.is_empty() {
            let name = name.to_owned();
            return Err(RestoreError::NotEmpty { name }.into());
        }
        for reader in &mut readers {
            let loaded = operator.load(reader, groups);
            if let Err(failure) = loaded {
                operator.clear();
                return Err(failure);
            }
        }
        operator.restart_at(watermark_ms)?;
        events::restored(name, parts.len(), groups);
        Ok(operator)
    }

    fn load(
        &mut self,
        reader: &mut SectionReader,
        groups: GroupRange,
    ) -> Result<(), WindowError<S::Error>> {
        let sections = reader.manifest().sections.iter();
        let sections: Vec<KeyGroup> = sections
            .map(|section| section.group)
            .filter(|&group| groups.contains(group))
            .collect();
        let schema = Arc::clone(&self.spec.partials);
        let mut row_bytes = Vec::new();
        for group in sections {
            let Some(batches) = reader.section(group, &schema)? else {
                continue;
            };
            let mut first_row = 0;
            for batch in batches {
                let batch = batch?;
                let mut keys = KeyBatch::default();
                let rows = batch.num_rows();
                self.spec
                    .partial_keys
                    .encode(batch.columns(), rows, &mut keys)?;
                for row in 0..rows {
                    row_bytes.clear();
                    keys.write_key_row(row, &mut row_bytes);
                    if group_of(&row_bytes, self.group_count) != group {
                        let row = first_row + row as u64;
                        let reason = "its key is of another group";
                        return Err(RestoreError::Row { group, row, reason }.into());
                    }
                }
                // Nothing is late before the watermark is set, and slices come as they were.
                let found = self.partial_groups(&batch)?;
                let found: Vec<_> = found.into_iter().map(|it| (it.slice_end, it)).collect();
                self.add_partials(&batch, &found)?;
                first_row += rows as u64;
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        let spill = self.spill.as_ref();
        self.slices.is_empty() && spill.is_none_or(|spill| spill.stored.is_empty())
    }

    /// Forgets everything, as far as the state lets it.
    fn clear(&mut self) {
        self.forget_resident();
        if let Some(spill) = &mut self.spill {
            let _ = spill.state.flush();
            for &end in &spill.stored {
                // The failure that led here says more than one of this.
                let _ = spill.state.expire(end);
            }
        }
    }

    fn restart_at(&mut self, watermark_ms: i64) -> Result<(), WindowError<S::Error>> {
        self.set_watermark(watermark_ms);
        self.timers.clear();
        self.schedule_all()?;
        self.settle()
    }
}

fn least_watermark(manifests: &[Manifest]) -> Result<i64, RestoreError> {
    let mut least = i64::MAX;
    for manifest in manifests {
        let id = manifest.id;
        let watermark_ms = manifest.watermark_ms;
        least = least.min(watermark_ms.ok_or(RestoreError::NoWatermark { id })?);
    }
    // No checkpoints say nothing.
    Ok(if manifests.is_empty() {
        i64::MIN
    } else {
        least
    })
}
