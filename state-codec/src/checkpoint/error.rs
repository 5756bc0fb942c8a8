//! Why a checkpoint cannot be written or read.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use keygroup::{GroupCount, KeyGroup};

use super::manifest::CheckpointKind;
use crate::row::UnsupportedType;

/// Where in a checkpoint something is wrong: "/ckpt/files/5e0c…, section of key group 7, byte 64".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The section of the file, if it is in one.
    pub section: Option<KeyGroup>,
    /// Bytes from the start of the section, or of the file if it is in none.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(group) = self.section {
            write!(f, ", section of key group {}", group.get())?;
        }
        write!(f, ", byte {}", self.offset)
    }
}

/// Why a checkpoint cannot be written or read: a variant for each cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another writer has the directory open.
    #[error("checkpoint directory {} is in use by another writer", dir.display())]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// There is no such checkpoint, or it was never finished.
    #[error("{} has no checkpoint {id}", dir.display())]
    MissingManifest {
        /// The directory.
        dir: PathBuf,
        /// The number asked for.
        id: u64,
    },
    /// The state is that of another operator, or of one with other settings.
    #[error("the checkpoint is of state `{found}`, wanted is `{expected}`")]
    Fingerprint {
        /// What the checkpoint says.
        found: String,
        /// What the reader asked for.
        expected: String,
    },
    /// A later release wrote it.
    #[error("{} is of version {found}, the latest known one is {latest}", path.display())]
    UnknownVersion {
        /// The manifest or the file of sections.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The latest version that this release reads.
        latest: u32,
    },
    /// A kind of checkpoint that this release does not know.
    #[error("{} is a checkpoint of the unknown kind `{found}`", path.display())]
    UnknownKind {
        /// The manifest.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// A kind that this reader does not read.
    #[error("the checkpoint is a {found} one, wanted is a {expected} one")]
    OtherKind {
        /// What the checkpoint says.
        found: CheckpointKind,
        /// What the reader asked for.
        expected: CheckpointKind,
    },
    /// The keys are divided into another number of groups.
    #[error("the checkpoint has {} key groups, wanted are {}", found.get(), expected.get())]
    GroupCount {
        /// What the checkpoint says.
        found: GroupCount,
        /// What the reader asked for.
        expected: GroupCount,
    },
    /// A file that the manifest names is not there.
    #[error("the file `{name}` of the checkpoint is missing: {}", path.display())]
    MissingFile {
        /// What the store calls it.
        name: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// A part of a file of sections belongs to no section.
    #[error("{}: the {bytes} bytes at {offset} of the rows belong to no section", path.display())]
    MissingSection {
        /// The manifest.
        path: PathBuf,
        /// Where in the file of sections the part starts.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
    /// A file is longer than it should be.
    #[error("{} has {found} bytes, {expected} are expected", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// How long it is.
        found: u64,
        /// How long it should be.
        expected: u64,
    },
    /// A file or section ends before it should.
    #[error("{place}: {missing} bytes are missing")]
    Truncated {
        /// Where it ends.
        place: Place,
        /// How many bytes more are needed, at least.
        missing: u64,
    },
    /// The content is not that which was written.
    #[error(
        "{}{} does not have the checksum that it was written with",
        path.display(),
        section.map(|group| format!(", section of key group {},", group.get())).unwrap_or_default()
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The section, if it is the checksum of one.
        section: Option<KeyGroup>,
    },
    /// What no writer can have written.
    #[error("{place}: {reason}")]
    Malformed {
        /// Where.
        place: Place,
        /// What is wrong, as a phrase.
        reason: Cow<'static, str>,
    },
    /// The rows have other columns than the reader expects.
    #[error("the rows of the checkpoint have other columns: {difference}")]
    Schema {
        /// The first difference, as a phrase.
        difference: String,
    },
    /// Rows of this type cannot be saved.
    #[error("the rows cannot be saved")]
    Unsupported(#[from] UnsupportedType),
    /// Rows that cannot be saved as they are.
    #[error("a batch cannot be saved: {reason}")]
    Batch {
        /// What is wrong, as a phrase.
        reason: String,
    },
    /// Key groups have to be written in rising order, within the range of the checkpoint.
    #[error("key group {} cannot be written: {reason}", group.get())]
    GroupOrder {
        /// The group that came at the wrong time.
        group: KeyGroup,
        /// Why it cannot come now, as a phrase.
        reason: String,
    },
    /// A file of a checkpoint cannot have this name.
    #[error("a file of a checkpoint cannot be called `{name}`: {reason}")]
    FileName {
        /// The name.
        name: String,
        /// Why not, as a phrase.
        reason: &'static str,
    },
}

impl CheckpointError {
    /// For `map_err`: an I/O error in doing `operation`, a verb, to `path`.
    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }
}
