//! What a checkpoint consists of.

use keygroup::{GroupCount, GroupRange, KeyGroup};

/// Whose files a checkpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointKind {
    /// Those of RocksDB.
    RocksDb,
    /// Sections of Arrow IPC, the same for every store.
    Canonical,
}

/// What a checkpoint consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The number of the checkpoint.
    pub id: u64,
    /// Whose files it has.
    pub kind: CheckpointKind,
    /// What the operator calls its state.
    pub fingerprint: String,
    /// Into how many groups the keys are divided.
    pub group_count: GroupCount,
    /// The groups that the checkpoint is about, whether or not they have keys.
    pub groups: GroupRange,
    /// Its files.
    pub files: Vec<FileEntry>,
    /// Where in the one file of a canonical checkpoint the rows of each group are, by rising group;
    /// none for groups without keys.
    pub sections: Vec<SectionEntry>,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// What the store calls it.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
    /// The SHA-256 of its content, by which it is found.
    pub sha256: [u8; 32],
}

/// The rows of one key group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionEntry {
    /// The group.
    pub group: KeyGroup,
    /// How many rows.
    pub rows: u64,
    /// Where the section starts in the file.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// The CRC-32 of these bytes.
    pub crc32: u32,
}
