//! The bytes of keys and values of a stream processor's state, and the seam between the operators
//! that use state and the stores that keep it.

#[cfg(feature = "checkpoint")]
pub mod checkpoint; // directories of saved state, and the sections in them
#[cfg(feature = "contract")]
pub mod contract; // what every store must pass
mod key; // Arrow columns → key rows
mod key_index; // key → slot, for the stores
mod memory; // one budget of bytes, shared by several holders
mod metrics; // what stores count
mod row; // Arrow columns ↔ rows of bytes
mod slices; // what a store offers an operator with windows
mod sort_key; // Arrow columns → keys that compare as an ORDER BY does
mod state; // what a store offers an operator

pub use crate::key::{KeyBatch, KeyEncoder};
pub use crate::key_index::{KeyIndex, KeyRows, Slot};
pub use crate::memory::{Holder, MemoryDenied, MemoryPool, Reservation};
pub use crate::metrics::StoreMetrics;
pub use crate::row::{
    DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, RowForm, RowLayout, Rows, Select,
    UnsupportedType, Value,
};
pub use crate::slices::{NoSlices, SliceBackend, SliceScan, SlicedState, Visit};
pub use crate::sort_key::{
    FloatOrder, Nulls, Order, SortColumn, SortError, SortKey, SortKeys, SortOrder,
};
pub use crate::state::{
    KeyedState, NEVER, Snapshot, SnapshotView, StateBackend, StateCodec, StateValue, StoreError,
    StoredExpiry, is_store_name,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
