//! What a store offers an operator: the seam between them.

use std::error::Error;

use keygroup::{GroupRange, KeyGroup};

use crate::key::KeyBatch;
use crate::key_index::Slot;
use crate::row::DecodeError;

/// How values of type `V` become bytes, and what one weighs.
///
/// # For implementers
///
/// - [`decode`](Self::decode) inverts [`encode_into`](Self::encode_into).
/// - `encode_into` appends; what `out` held stays.
/// - Bytes that `encode_into` cannot have written are an error, never a panic.
pub trait StateCodec<V> {
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
}

/// The keyed values of one operator, addressed by slot once a batch's keys are resolved. It has no
/// notion of rows or time.
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
pub trait KeyedState<V> {
    /// Why an operation failed; [`Infallible`](std::convert::Infallible) if none can.
    type Error: Error + Send + Sync + 'static;

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

    /// Closes a bundle in which nothing became dirty, forgetting the keys that it brought.
    ///
    /// # Panics
    ///
    /// If a value is dirty: there is no way back from a write.
    fn abandon_bundle(&mut self);

    /// Bytes charged to the memory budget now.
    fn charged_bytes(&self) -> usize;
}

/// All values of a store in an order that does not depend on the store, and the way back.
pub trait Snapshot<V> {
    /// Why an operation failed.
    type Error: Error + Send + Sync + 'static;

    /// Calls `visit` with the group, key row and value of each live key of `groups`, ordered by
    /// group and key row. Between bundles only.
    ///
    /// # Errors
    ///
    /// Where the store cannot read; a damaged file is an error and never a short result.
    fn scan(
        &mut self,
        groups: GroupRange,
        visit: &mut dyn FnMut(KeyGroup, &[u8], &V),
    ) -> Result<(), Self::Error>;

    /// Sets the value of the key with this key row, as a bundle of its own.
    ///
    /// # Errors
    ///
    /// Where the store cannot write or the budget refuses.
    fn load(&mut self, key_row: &[u8], value: V) -> Result<(), Self::Error>;
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
    type Error: Error + Send + Sync + 'static;

    /// The store for values `V` in the bytes of `C`.
    type State<V, C>: KeyedState<V, Error = Self::Error> + Snapshot<V, Error = Self::Error>
    where
        V: 'static,
        C: StateCodec<V> + 'static;

    /// Opens the store called `name`, as [`is_store_name`] wants it.
    ///
    /// # Errors
    ///
    /// Where the store cannot be opened, among them that it is open already.
    fn open<V, C>(&self, name: &str, codec: C) -> Result<Self::State<V, C>, Self::Error>
    where
        V: 'static,
        C: StateCodec<V> + 'static;
}
