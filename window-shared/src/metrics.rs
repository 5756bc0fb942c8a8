//! What an operator counts.

use state_codec::StoreMetrics;

/// What an operator has done since it was opened. Counting is always on: each number is added to once per
/// batch or firing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowMetrics {
    /// Rows of accepted batches.
    pub rows_in: u64,
    /// Those of them that were dropped because all their windows had fired.
    pub late: u64,
    /// Those of them that were dropped because their time was NULL.
    pub null_times: u64,
    /// Rows of results that were returned.
    pub rows_out: u64,
    /// Windows that fired.
    pub fired: u64,
    /// Accumulators that were merged into others, or taken out of them: what firing costs besides its output.
    pub merges: u64,
    /// Times that accumulators in memory were written to the state to make room.
    pub spills: u64,
    /// Bytes charged to the memory budget now.
    pub held_bytes: u64,
    /// What the state counts; nothing for one in memory.
    pub store: StoreMetrics,
}

/// What an operator counts itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rows_in: u64,
    pub(crate) late: u64,
    pub(crate) null_times: u64,
    pub(crate) rows_out: u64,
    pub(crate) fired: u64,
    pub(crate) merges: u64,
    pub(crate) spills: u64,
}
