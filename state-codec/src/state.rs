//! What a store offers an operator: the seam between them.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;

use keygroup::{GroupCount, GroupRange, KeyGroup};

use crate::key::KeyBatch;
use crate::key_index::Slot;
use crate::memory::{MemoryDenied, MemoryPool};
use crate::metrics::StoreMetrics;
use crate::row::DecodeError;

/// What a store can keep: a value that another thread may look at, or have a copy of, while the
/// operator goes on. Every such type is one.
pub trait StateValue: Clone + Send + Sync + 'static {}

impl<V: Clone + Send + Sync + 'static> StateValue for V {}

/// The expiry of a value that never expires, in milliseconds of the operator's clock.
pub const NEVER: i64 = i64::MAX;

/// Tells from a value's stored bytes when it expires, in milliseconds of the operator's clock; [`NEVER`]
/// for bytes that it cannot read, for a background thread is not the place to report them.
pub type StoredExpiry = Arc<dyn Fn(&[u8]) -> i64 + Send + Sync>;

/// How values of type `V` become bytes, what one weighs, and when it expires.
///
/// # For implementers
///
/// - [`decode`](Self::decode) inverts [`encode_into`](Self::encode_into).
/// - `encode_into` appends; what `out` held stays.
/// - Bytes that `encode_into` cannot have written are an error, never a panic.
/// - [`stored_expiry`](Self::stored_expiry) and [`expires_at_ms`](Self::expires_at_ms) agree.
pub trait StateCodec<V>: Clone + Send + 'static {
    /// Appends the bytes of `value` to `out`.
    fn encode_into(&self, value: &V, out: &mut Vec<u8>);

    /// The value of `bytes`.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] where the bytes are not those of a value.
    fn decode(&self, bytes: &[u8]) -> Result<V, DecodeError>;

    /// Bytes that `value` holds beyond `size_of::<V>()`, by capacity.
    fn heap_bytes(&self, value: &V) -> usize;

    /// From which instant on `value` is as if it were not there, in milliseconds of the operator's
    /// clock.
    fn expires_at_ms(&self, _value: &V) -> i64 {
        NEVER
    }

    /// The same for stored bytes; `None` if no value of this codec ever expires, which spares a store
    /// the looking.
    fn stored_expiry(&self) -> Option<StoredExpiry> {
        None
    }
}

/// Why a store failed.
pub trait StoreError: Error + Send + Sync + 'static {
    /// The refusal of the memory pool, if this is what it was: the store is as it was before the call,
    /// which can be made again once others have given back.
    fn denied(&self) -> Option<&MemoryDenied>;
}

impl StoreError for MemoryDenied {
    fn denied(&self) -> Option<&MemoryDenied> {
        Some(self)
    }
}

/// The keyed values of one operator, addressed by slot once a batch's keys are resolved. It has no
/// notion of rows, and of time only what its caller and its codec say.
///
/// Work is done in *bundles*: any number of [`resolve`](Self::resolve), reads and writes, closed by
/// [`end_bundle`](Self::end_bundle) or undone, as far as nothing was written, by
/// [`abandon_bundle`](Self::abandon_bundle).
///
/// # For implementers
///
/// - A slot means the same key until the bundle ends; equal keys get equal slots, whatever batch of
///   the bundle they come from. Keys are equal when their bytes are; equal hashes mean nothing.
/// - [`get`](Self::get) never makes a value dirty; [`get_mut`](Self::get_mut), [`put`](Self::put) and
///   [`remove`](Self::remove) always do. A bundle without a dirty value encodes and writes nothing.
/// - A refused or failed [`resolve`](Self::resolve) or [`claim`](Self::claim) changes no value; the
///   caller may abandon the bundle and try the batch again.
/// - After [`end_bundle`](Self::end_bundle) nothing of the batch or of a database read is kept, and
///   the bytes charged equal those retained. A key without a value is forgotten.
/// - If [`end_bundle`](Self::end_bundle) fails, the dirty values are still there: calling it again
///   continues.
/// - A value expires when its key is resolved for the first time in a bundle at a clock of
///   [`expires_at_ms`](StateCodec::expires_at_ms) or later: from then on there is none. One that was
///   still there at that moment stays to the end of the bundle, however the clock advances. An expiry
///   alone makes nothing dirty and writes nothing.
/// - Values that expired and are never asked for again are reclaimed all the same, in steps that do not
///   grow with the state.
pub trait KeyedState<V> {
    /// Why an operation failed.
    type Error: StoreError;

    /// Sets the clock, in milliseconds. It starts at [`i64::MIN`] and never goes back: an earlier time
    /// than the last changes nothing. Between bundles this may spend a bounded amount of work on
    /// values that have expired.
    fn advance_clock(&mut self, now_ms: i64);

    /// Replaces `slots` with one slot per row of `keys`, loading the values that are stored.
    ///
    /// # Errors
    ///
    /// Where the store cannot read, or the memory budget has no room for the keys.
    fn resolve(&mut self, keys: &KeyBatch, slots: &mut Vec<Slot>) -> Result<(), Self::Error>;

    /// The value in `slot`, to look at.
    fn get(&self, slot: Slot) -> Option<&V>;

    /// The value in `slot`, to change.
    fn get_mut(&mut self, slot: Slot) -> Option<&mut V>;

    /// Sets the value in `slot`.
    fn put(&mut self, slot: Slot, value: V);

    /// Takes the value out of `slot`.
    fn remove(&mut self, slot: Slot) -> Option<V>;

    /// Claims `additional` bytes of the memory budget for values that this bundle is about to put,
    /// so that a refusal comes before the first change. The end of the bundle settles the account.
    ///
    /// # Errors
    ///
    /// Where the budget refuses.
    fn claim(&mut self, additional: usize) -> Result<(), Self::Error>;

    /// Closes the bundle: writes what is dirty, if this store writes, and settles the account.
    ///
    /// # Errors
    ///
    /// Where the store cannot write.
    fn end_bundle(&mut self) -> Result<(), Self::Error>;

    /// Closes a bundle in which nothing became dirty, forgetting the keys that it brought and that a
    /// cache does not keep.
    ///
    /// # Panics
    ///
    /// If a value is dirty: there is no way back from a write.
    fn abandon_bundle(&mut self);

    /// Bytes charged to the memory budget now.
    fn charged_bytes(&self) -> usize;

    /// What the store has done since it was opened.
    fn metrics(&self) -> StoreMetrics;
}

/// All values of a store in an order that does not depend on the store.
///
/// Between bundles only: each method panics while a bundle is open with something dirty.
pub trait Snapshot<V> {
    /// Why an operation failed.
    type Error: StoreError;

    /// The values of one moment. It may go to another thread; the store goes on in the meantime, and
    /// what changes there does not show here.
    type View: SnapshotView<V, Error = Self::Error> + Send + 'static;

    /// Takes a view of all values. What the store holds back is written first, and its cache cleared.
    ///
    /// # Errors
    ///
    /// Where the store cannot write or read, or the memory budget refuses.
    fn freeze(&mut self) -> Result<Self::View, Self::Error>;

    /// Whether the store holds no value at all, expired ones included.
    ///
    /// # Errors
    ///
    /// Where the store cannot read.
    fn is_empty(&mut self) -> Result<bool, Self::Error>;

    /// Removes every value.
    ///
    /// # Errors
    ///
    /// Where the store cannot write.
    fn clear(&mut self) -> Result<(), Self::Error>;
}

/// What [`Snapshot::freeze`] gives.
pub trait SnapshotView<V> {
    /// Why an operation failed.
    type Error: StoreError;

    /// Calls `visit` with the group, key row and value of each key of `groups`, ordered by group and
    /// key row, until it breaks. Values that had expired when the view was taken are left out.
    ///
    /// # Errors
    ///
    /// Where the store cannot read; a damaged file is an error and never a short result.
    #[expect(
        clippy::type_complexity,
        reason = "a name for it would say less than it does"
    )]
    fn scan(
        &mut self,
        groups: GroupRange,
        visit: &mut dyn FnMut(KeyGroup, &[u8], &V) -> ControlFlow<()>,
    ) -> Result<(), Self::Error>;
}

/// Whether a store may have this name: 1 to 128 ASCII letters, digits, `-` and `_`. That is a name of a
/// file or directory everywhere, with room for what a store adds to it.
///
/// ```
/// assert!(state_codec::is_store_name("worst-delays_2"));
/// assert!(!state_codec::is_store_name("../elsewhere"));
/// ```
pub fn is_store_name(name: &str) -> bool {
    let in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=128).contains(&name.len()) && name.bytes().all(in_alphabet)
}

/// Opens stores: the one thing that an operator is given to keep its state in.
pub trait StateBackend {
    /// Why a store could not be opened, read or written.
    type Error: StoreError;

    /// The store for values `V` in the bytes of `C`.
    type State<V, C>: KeyedState<V, Error = Self::Error> + Snapshot<V, Error = Self::Error>
    where
        V: StateValue,
        C: StateCodec<V>;

    /// Into how many groups the stores divide their keys.
    fn groups(&self) -> GroupCount;

    /// The memory budget that the stores charge, for what an operator itself retains.
    fn pool(&self) -> &MemoryPool;

    /// Opens the store called `name`, as [`is_store_name`] wants it.
    ///
    /// # Errors
    ///
    /// Where the store cannot be opened, among them that it is open already.
    fn open<V, C>(&self, name: &str, codec: C) -> Result<Self::State<V, C>, Self::Error>
    where
        V: StateValue,
        C: StateCodec<V>;
}
