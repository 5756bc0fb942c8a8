//! Checkpoints of a database's own files.

/// Files.
#[derive(Debug, Default)]
pub(crate) struct Checkpointed {}
