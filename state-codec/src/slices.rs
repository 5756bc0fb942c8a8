//! Where an operator keeps slices of time that memory has no room for.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use keygroup::{GroupRange, KeyGroup};

use crate::metrics::StoreMetrics;
use crate::state::{StateBackend, StoreError};

/// Bytes by slice, key group and key row, in this order. A slice is a number, such as the time at which it
/// ends; smaller ones come first, negative ones too.
///
/// What the bytes mean is the operator's. It keeps in memory what it works on, and comes here with what
/// has to go: in bulk, sorted, each key once.
///
/// # For implementers
///
/// - After [`flush`](Self::flush) each entry that was put is read by every method. Before it, none need be.
/// - A [`scan`](Self::scan) never walks over entries of other slices, nor over what was removed with them.
/// - [`expire`](Self::expire) costs the same however many entries the slice has.
pub trait SlicedState {
    /// Why an operation failed.
    type Error: StoreError;

    /// The entries of one moment. It may go to another thread; the state goes on in the meantime, and what
    /// changes there does not show here.
    type View: SliceScan<Error = Self::Error> + Send + 'static;

    /// Puts an entry in the place of an older one. It comes behind the one put before in the order of the
    /// state, unless that was flushed.
    ///
    /// # Errors
    ///
    /// Where the state cannot write. Entries put since the last flush may be there or not; putting all of them
    /// again is right.
    fn put(
        &mut self,
        slice: i64,
        group: KeyGroup,
        key_row: &[u8],
        value: &[u8],
    ) -> Result<(), Self::Error>;

    /// Writes what was put and not yet written.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    fn flush(&mut self) -> Result<(), Self::Error>;

    /// Calls `found` with the place in `keys` and the value of each key of a slice that has one. The keys
    /// are groups and key rows, rising.
    ///
    /// # Errors
    ///
    /// Where the state cannot read.
    fn read(
        &mut self,
        slice: i64,
        keys: &[(KeyGroup, &[u8])],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Self::Error>;

    /// [`SliceScan::scan`] of what is there now.
    ///
    /// # Errors
    ///
    /// Where the state cannot read; a damaged file is an error and never a short result.
    fn scan(&mut self, slice: i64, groups: GroupRange, visit: Visit<'_>)
    -> Result<(), Self::Error>;

    /// The slices that may have entries, rising.
    ///
    /// # Errors
    ///
    /// Where the state cannot read.
    fn slices(&mut self) -> Result<Vec<i64>, Self::Error>;

    /// Removes a slice.
    ///
    /// # Errors
    ///
    /// Where the state cannot write.
    fn expire(&mut self, slice: i64) -> Result<(), Self::Error>;

    /// Takes a view of all entries that were flushed.
    ///
    /// # Errors
    ///
    /// Where the state cannot write.
    fn freeze(&mut self) -> Result<Self::View, Self::Error>;

    /// What was done since it was opened.
    fn metrics(&self) -> StoreMetrics;
}

/// What a scan calls with each group, key row and value, until it breaks.
pub type Visit<'a> = &'a mut dyn FnMut(KeyGroup, &[u8], &[u8]) -> ControlFlow<()>;

/// What [`SlicedState::freeze`] gives.
pub trait SliceScan {
    /// Why an operation failed.
    type Error: StoreError;

    /// Calls `visit` with what a slice has of `groups`, ordered by group and key row.
    ///
    /// # Errors
    ///
    /// Where the state cannot read; a damaged file is an error and never a short result.
    fn scan(&mut self, slice: i64, groups: GroupRange, visit: Visit<'_>)
    -> Result<(), Self::Error>;
}

/// Opens the state of operators with slices.
pub trait SliceBackend: StateBackend {
    /// What it opens. A backend that keeps all in memory has a type without values here.
    type Slices: SlicedState<Error = Self::Error>;

    /// Opens the state called `name`, as [`is_store_name`](crate::is_store_name) wants it; `None` if
    /// this backend has only memory, so that what has no room there is refused.
    ///
    /// # Errors
    ///
    /// Where the state cannot be opened, among them that it is open already.
    fn open_slices(&self, name: &str) -> Result<Option<Self::Slices>, Self::Error>;
}

/// The slices of a backend that keeps all in memory: a type without values, for an operator's slices are there
/// already, and there is nowhere else for them to go.
#[derive(Clone, Copy, Debug)]
pub struct NoSlices<E> {
    never: Infallible,
    error: PhantomData<fn() -> E>,
}

impl<E: StoreError> SlicedState for NoSlices<E> {
    type Error = E;
    type View = Self;

    fn put(&mut self, _: i64, _: KeyGroup, _: &[u8], _: &[u8]) -> Result<(), E> {
        match self.never {}
    }

    fn flush(&mut self) -> Result<(), E> {
        match self.never {}
    }

    fn read(
        &mut self,
        _: i64,
        _: &[(KeyGroup, &[u8])],
        _: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), E> {
        match self.never {}
    }

    fn scan(&mut self, _: i64, _: GroupRange, _: Visit<'_>) -> Result<(), E> {
        match self.never {}
    }

    fn slices(&mut self) -> Result<Vec<i64>, E> {
        match self.never {}
    }

    fn expire(&mut self, _: i64) -> Result<(), E> {
        match self.never {}
    }

    fn freeze(&mut self) -> Result<Self, E> {
        match self.never {}
    }

    fn metrics(&self) -> StoreMetrics {
        match self.never {}
    }
}

impl<E: StoreError> SliceScan for NoSlices<E> {
    type Error = E;

    fn scan(&mut self, _: i64, _: GroupRange, _: Visit<'_>) -> Result<(), E> {
        match self.never {}
    }
}
