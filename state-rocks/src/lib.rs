//! Keyed state of a stream processor in RocksDB.
//!
//! A [`RocksBackend`] opens [`RocksState`]s below one directory, each a database of its own. A bundle
//! works on values in memory: those of a batch's new keys are read in one sorted pass, and those that
//! changed are written in key order when the bundle ends. Nothing of a bundle outlives it.

mod backend; // opens stores
mod error; // why a store failed
mod layout; // the bytes of a database
mod options; // how RocksDB is set up
mod state; // a store

pub use crate::backend::RocksBackend;
pub use crate::error::{Operation, RocksError};
pub use crate::options::{Compression, RocksOptions};
pub use crate::state::{RocksState, StoreStats};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
