//! A directory of checkpoints.

use std::fs::File;
use std::path::Path;

use super::error::CheckpointError;
use super::manifest::{FileEntry, Manifest};

/// A directory of checkpoints, and the right to write to it, which one process at a time has.
#[derive(Debug)]
pub struct CheckpointDir {}

impl CheckpointDir {
    /// Opens or makes the directory.
    pub fn open(_path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        todo!()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        todo!()
    }

    /// The numbers of the complete checkpoints, rising.
    pub fn ids(&self) -> Result<Vec<u64>, CheckpointError> {
        todo!()
    }

    /// The manifest of a complete checkpoint.
    pub fn manifest(&self, _id: u64) -> Result<Manifest, CheckpointError> {
        todo!()
    }

    /// Begins a checkpoint. Until [`CheckpointWriter::commit`] there is none.
    pub fn begin(&self, _id: u64) -> Result<CheckpointWriter<'_>, CheckpointError> {
        todo!()
    }

    /// Forgets a checkpoint and removes the files that no other one names.
    pub fn discard(&self, _id: u64) -> Result<(), CheckpointError> {
        todo!()
    }
}

/// A checkpoint that is being written.
#[derive(Debug)]
pub struct CheckpointWriter<'a> {
    _dir: &'a CheckpointDir,
}

impl CheckpointWriter<'_> {
    /// Adds the file `source`, which must not change any more, under the name `name`: reads it once for
    /// its SHA-256, and links it, or copies it where it cannot be linked. A file with this content that
    /// the directory has is only named.
    pub fn add_file(&mut self, _name: &str, _source: &Path) -> Result<FileEntry, CheckpointError> {
        todo!()
    }

    /// Adds a file that is known to be in the directory, by an entry that `add_file` returned before.
    /// `false` if it is not there any more (it was discarded).
    pub fn add_known(&mut self, _entry: &FileEntry) -> Result<bool, CheckpointError> {
        todo!()
    }

    /// A new file in `tmp`, to be written to and then added with [`add_file`](Self::add_file) semantics.
    pub fn create(&mut self) -> Result<File, CheckpointError> {
        todo!()
    }

    /// Syncs, writes the manifest, renames it to its place, syncs the directory, and removes what earlier
    /// interrupted checkpoints left. A checkpoint of the same number is replaced.
    pub fn commit(self, _manifest: Manifest) -> Result<Manifest, CheckpointError> {
        todo!()
    }
}
