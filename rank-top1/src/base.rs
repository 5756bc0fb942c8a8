//! What both rankers have besides their ways to rank.

use arrow::array::RecordBatch;
use state_codec::{KeyedState, Reservation};

use crate::changelog::Changelog;
use crate::clock::Clock;
use crate::error::RankError;
use crate::input;
use crate::metrics::Counters;
use crate::spec::RankSpec;

/// A specification over a state, the time, the account of what is held beside the state, and where the
/// running bundle stands.
#[derive(Debug)]
pub(crate) struct Base<S> {
    pub(crate) spec: RankSpec,
    pub(crate) state: S,
    pub(crate) clock: Clock,
    /// For all that the ranker holds and its state does not.
    pub(crate) reservation: Reservation,
    pub(crate) metrics: Counters,
    /// A mini-batch has rows that are not flushed.
    pub(crate) in_bundle: bool,
    /// Changes whose state a failed write has left unwritten.
    pub(crate) unwritten: Option<Changelog>,
}

impl<S> Base<S> {
    pub(crate) fn new(spec: RankSpec, state: S, reservation: Reservation) -> Self {
        Self {
            spec,
            state,
            clock: Clock::default(),
            reservation,
            metrics: Counters::default(),
            in_bundle: false,
            unwritten: None,
        }
    }

    /// Whether a batch can be taken now, and is one of the specification's.
    pub(crate) fn check<E>(&self, batch: &RecordBatch) -> Result<(), RankError<E>>
    where
        E: std::error::Error + 'static,
    {
        if self.unwritten.is_some() {
            return Err(RankError::Unwritten);
        }
        self.clock.check(&self.spec)?;
        Ok(input::check(&self.spec, batch)?)
    }

    /// Counts the rows of a batch that was taken, whether or not its changes could be written.
    pub(crate) fn batch_pushed<T, E>(&mut self, batch: &RecordBatch, pushed: &Result<T, E>) {
        if pushed.is_ok() || self.unwritten.is_some() {
            self.metrics.rows_in += batch.num_rows() as u64;
        }
    }

    /// Charges what is held from one call to the next, if the budget has room for it.
    pub(crate) fn charge(&mut self, held_bytes: usize) -> bool {
        self.reservation.try_resize(held_bytes).is_ok()
    }

    /// Charges what is left when all that can be was given back: it was charged when the bundle took it, or
    /// is a log whose write failed.
    pub(crate) fn charge_rest(&mut self, held_bytes: usize) {
        let held_bytes = held_bytes.min(self.reservation.bytes());
        let settled = self.reservation.try_resize(held_bytes);
        settled.expect("a pool never refuses to take bytes back");
    }

    /// Counts a closed bundle, and hands out what it changed.
    pub(crate) fn bundle_closed(&mut self) -> Option<Changelog> {
        self.metrics.bundles += 1;
        let changelog = self.unwritten.take();
        self.metrics.changes_out += changelog.as_ref().map_or(0, Changelog::len) as u64;
        changelog
    }

    /// The state, unless it is in the middle of a bundle.
    pub(crate) fn state_between_bundles<V>(&mut self) -> Result<&mut S, RankError<S::Error>>
    where
        S: KeyedState<V>,
    {
        if self.unwritten.is_some() {
            return Err(RankError::Unwritten);
        }
        if self.in_bundle {
            return Err(RankError::OpenBundle);
        }
        Ok(&mut self.state)
    }

    pub(crate) fn advance_clock<V>(&mut self, now_ms: i64)
    where
        S: KeyedState<V>,
    {
        self.clock.advance(now_ms);
        self.state.advance_clock(now_ms);
    }

    /// Bytes that the ranker and its state charge.
    pub(crate) fn charged_bytes<V>(&self) -> usize
    where
        S: KeyedState<V>,
    {
        self.reservation.bytes() + self.state.charged_bytes()
    }
}
