//! Checkpoints: directories of manifests and of the files that they name.
//!
//! ```text
//! DIR/00000000000000000007.manifest     a checkpoint is complete when it has its manifest
//! DIR/files/<sha-256 of the content>    named by one manifest or by many, never changed
//! DIR/tmp/…                             what a writer has not finished; removed by the next success
//! DIR/lock                              held by the one writer
//! ```
//!
//! A *native* checkpoint is a store's own files. A *canonical* one has a section per key group, each an
//! Arrow IPC stream of the operator's rows, which any store can be restored from and any Arrow reader
//! can open.

mod cover; // whether checkpoints together are about some groups
mod dir; // who writes where, and what is removed when
mod error; // what is wrong
mod ipc; // Arrow IPC that is looked into before it is believed
mod manifest; // what a checkpoint consists of
mod sections; // rows ↔ Arrow IPC, a stream per key group

use std::path::PathBuf;

use keygroup::GroupRange;

use crate::slices::SliceBackend;
use crate::state::{StateBackend, StateCodec, StateValue};

pub use cover::{CoverError, cover};
pub use dir::{CheckpointDir, CheckpointWriter, CreatedFile};
pub use error::{CheckpointError, Place};
pub use manifest::{CheckpointKind, FileEntry, Manifest, SectionEntry};
pub use sections::{SectionReader, SectionRows, SectionWriter, decode_section};

/// A checkpoint to restore from: the directory and the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRef {
    /// The directory that a [`CheckpointDir`] wrote.
    pub dir: PathBuf,
    /// Which of its checkpoints.
    pub id: u64,
}

/// A backend whose stores can be saved as the files that they already have, without reading a value.
pub trait NativeBackend: StateBackend {
    /// Saves what a store has of `groups` as checkpoint `id` of `dir`, between bundles. What the store holds
    /// back is written first, and its cache cleared. Files that an earlier checkpoint of `dir` has are named
    /// again and neither copied nor linked once more.
    ///
    /// `fingerprint` is what the operator calls its state; a restore has to give the same.
    ///
    /// # Errors
    ///
    /// Where the store or the directory cannot be written. The checkpoints of `dir` are as they were.
    fn checkpoint<V, C>(
        &self,
        state: &mut Self::State<V, C>,
        dir: &CheckpointDir,
        id: u64,
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<Manifest, Self::Error>
    where
        V: StateValue,
        C: StateCodec<V>;

    /// Makes the store `name`, which must not exist, of what the checkpoints `parts` hold of `groups`.
    /// Nothing of other groups remains, and no checkpoint is changed.
    ///
    /// # Errors
    ///
    /// Where a checkpoint is not one of this operator and of stores of this backend, is damaged, or
    /// cannot be read: then there is no store.
    fn restore(
        &self,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<(), Self::Error>;
}

/// A backend whose slices can be saved as the files that they already have, without reading an entry.
pub trait NativeSliceBackend: SliceBackend {
    /// Saves what the state has of `groups` as checkpoint `id` of `dir`, as [`NativeBackend::checkpoint`] does
    /// with keyed state, with the watermark of the operator. What was put is flushed.
    ///
    /// # Errors
    ///
    /// As there.
    fn checkpoint_slices(
        &self,
        state: &mut Self::Slices,
        dir: &CheckpointDir,
        id: u64,
        groups: GroupRange,
        fingerprint: &str,
        watermark_ms: i64,
    ) -> Result<Manifest, Self::Error>;

    /// Makes the state `name`, which must not exist, of what the checkpoints `parts` hold of `groups`, as
    /// [`NativeBackend::restore`] does. Returns the manifests.
    ///
    /// # Errors
    ///
    /// As there.
    fn restore_slices(
        &self,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<Vec<Manifest>, Self::Error>;
}
