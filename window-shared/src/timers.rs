//! Which windows are to fire, and when. Nothing of it is stored: it follows from the slices.

use std::collections::BTreeSet;

/// The ends of windows that have rows and have not fired: of each slice and each of its [chains] of windows the
/// first; when it fires, the next of the chain takes its place.
///
/// [chains]: crate::spec::WindowSpec::chains
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_timer: BTreeSet<(i64, i64)>,
    by_end: BTreeSet<i64>,
}

impl Timers {
    pub(crate) fn insert(&mut self, timer_ms: i64, end_ms: i64) {
        self.by_timer.insert((timer_ms, end_ms));
        self.by_end.insert(end_ms);
    }

    /// The window to fire first, if its timer is not after `watermark_ms`.
    pub(crate) fn due(&self, watermark_ms: i64) -> Option<(i64, i64)> {
        let first = self.by_timer.first().copied();
        first.filter(|&(timer_ms, _)| timer_ms <= watermark_ms)
    }

    pub(crate) fn remove(&mut self, timer_ms: i64, end_ms: i64) {
        self.by_timer.remove(&(timer_ms, end_ms));
        self.by_end.remove(&end_ms);
    }

    /// Whether a window that ends in this range is to fire.
    pub(crate) fn any_in(&self, ends: impl std::ops::RangeBounds<i64>) -> bool {
        self.by_end.range(ends).next().is_some()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        // Nodes of a tree are half full at least.
        self.by_end.len() * 2 * (size_of::<(i64, i64)>() + size_of::<i64>())
    }
}
