//! What stores count.

/// What a store has done since it was opened. Counting is always on: each number is added to once per
/// batch or bundle, never per row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreMetrics {
    /// Rows whose keys were resolved: one probe each.
    pub probes: u64,
    /// Keys that were looked up where the store keeps what is not in memory.
    pub reads: u64,
    /// Those of them that had a value there.
    pub hydrated: u64,
    /// Bytes of the values that were read; of those found by a scan, with their key rows.
    pub read_bytes: u64,
    /// Values that were written.
    pub writes: u64,
    /// Bytes of the keys and values that were written.
    pub written_bytes: u64,
    /// Values that were deleted by their key.
    pub deletes: u64,
    /// Write batches.
    pub write_batches: u64,
    /// Rows whose key was in memory already: the cache of clean values had it, or an earlier row of the
    /// bundle brought it.
    pub cache_hits: u64,
    /// Keys that had to be read because it was not.
    pub cache_misses: u64,
    /// Values that it gave up for newer ones.
    pub cache_evictions: u64,
    /// Times that the memory budget refused it.
    pub cache_refusals: u64,
    /// Values that were found expired, at their key or by the sweep. A store whose files drop expired
    /// values on their own does not see those.
    pub expired: u64,
    /// Bundles that were closed.
    pub bundles: u64,
}
