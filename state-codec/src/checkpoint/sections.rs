//! Canonical checkpoints: sections of Arrow IPC by key group.

/// Writes the sections of a canonical checkpoint.
#[derive(Debug)]
pub struct SectionWriter {}

/// Reads them.
#[derive(Debug)]
pub struct SectionReader {}
