//! Keyed state of a stream processor in memory.
//!
//! A [`MemBackend`] opens [`MemState`]s, each a slab of values by slot behind an index of keys. A
//! store's slots stand for the same keys until the keys are forgotten, so a look at a value is one
//! load from the slab.

mod backend; // opens stores
mod error; // why a store refused
mod expiry; // when values expire, and the sweep
mod slab; // values by slot, in chunks that a view can share
mod slices; // what slices have beside the operator's memory: nothing
mod state; // a store
mod view; // the values of a store at one moment

pub use crate::backend::MemBackend;
pub use crate::error::MemError;
pub use crate::state::MemState;
pub use crate::view::MemView;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
