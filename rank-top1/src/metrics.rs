//! What a ranker counts.

use state_codec::StoreMetrics;

/// What a ranker and its store have done since they were opened. Counting is always on: each number is
/// added to once per batch or bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankMetrics {
    /// Rows of accepted batches.
    pub rows_in: u64,
    /// Those of them that were not taken into their partition: they lost, or tied.
    pub rejected: u64,
    /// Rows of the changelogs that were returned.
    pub changes_out: u64,
    /// Bundles that were closed: batches in immediate mode, flushes in mini-batch mode.
    pub bundles: u64,
    /// Rows whose rank end was not that of their partition: see
    /// [`RankEnd::Column`](crate::RankEnd::Column).
    pub rank_end_mismatches: u64,
    /// Bytes charged to the memory budget now, by the ranker and its store.
    pub held_bytes: u64,
    /// What the store counts.
    pub store: StoreMetrics,
}

/// What a ranker counts itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rows_in: u64,
    /// Rows that took the place of another, or a free one.
    pub(crate) accepted: u64,
    pub(crate) changes_out: u64,
    pub(crate) bundles: u64,
    pub(crate) rank_end_mismatches: u64,
}

impl Counters {
    pub(crate) fn with_store(self, store: StoreMetrics, held_bytes: usize) -> RankMetrics {
        RankMetrics {
            rows_in: self.rows_in,
            rejected: self.rows_in - self.accepted,
            changes_out: self.changes_out,
            bundles: self.bundles,
            rank_end_mismatches: self.rank_end_mismatches,
            held_bytes: held_bytes as u64,
            store,
        }
    }
}
