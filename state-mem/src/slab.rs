//! Values by slot, in chunks that a view can share.

use std::sync::Arc;

use state_codec::Slot;

/// Values in a chunk. A write to a chunk that a view shares copies it: small chunks make that a short
/// pause, large ones make freezing cheaper and looking a value up no slower.
const CHUNK: usize = 128;

type Chunk<V> = [Option<V>; CHUNK];

/// Values by slot. Copying it copies pointers; the first change of a chunk that is shared copies the chunk.
#[derive(Debug)]
pub(crate) struct Slab<V> {
    chunks: Vec<Arc<Chunk<V>>>,
}

impl<V> Default for Slab<V> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<V> Slab<V> {
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&V> {
        self.chunks[slot.index() / CHUNK][slot.index() % CHUNK].as_ref()
    }

    /// Makes room for so many slots.
    pub(crate) fn grow(&mut self, slots: usize) {
        let empty = || Arc::new(std::array::from_fn(|_| None));
        let chunks = slots.div_ceil(CHUNK).max(self.chunks.len());
        self.chunks.resize_with(chunks, empty);
    }

    /// Gives back the room beyond so many slots, whose values are gone.
    pub(crate) fn shrink(&mut self, slots: usize) {
        self.chunks.truncate(slots.div_ceil(CHUNK));
        self.chunks.shrink_to_fit();
    }

    /// The same values, shared until either side changes them.
    pub(crate) fn share(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
        }
    }

    /// What is allocated, values' own heap bytes left out.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Arc<Chunk<V>>>() + self.chunks.len() * Self::CHUNK_BYTES
    }

    /// What sharing allocates.
    pub(crate) fn share_bytes(&self) -> usize {
        self.chunks.len() * size_of::<Arc<Chunk<V>>>()
    }

    /// A chunk and the counts of an `Arc`.
    const CHUNK_BYTES: usize = size_of::<Chunk<V>>() + 2 * size_of::<usize>();
}

impl<V: Clone> Slab<V> {
    /// The place of a slot, to change. Adds to `copied` what was copied for it, in bytes: `heap_bytes` says
    /// what a value weighs beside its place.
    #[inline]
    pub(crate) fn get_mut(
        &mut self,
        slot: Slot,
        copied: &mut usize,
        heap_bytes: impl Fn(&V) -> usize,
    ) -> &mut Option<V> {
        let chunk = &mut self.chunks[slot.index() / CHUNK];
        // There are no weak references, so this tells what `make_mut` finds without claiming the chunk twice.
        if Arc::strong_count(chunk) > 1 {
            *copied += Self::CHUNK_BYTES + chunk.iter().flatten().map(heap_bytes).sum::<usize>();
        }
        &mut Arc::make_mut(chunk)[slot.index() % CHUNK]
    }
}
