//! Keyed state of a stream processor in RocksDB.
//!
//! A [`RocksBackend`] opens [`RocksState`]s below one directory, each a database of its own. A bundle
//! works on values in memory: those of a batch's new keys are read in one sorted pass, and those that
//! changed are written in key order when the bundle ends. Values that were read are kept for later bundles.
//! Slices of operators with windows are in [`RocksSlices`].

mod backend; // opens stores
mod db; // the database of a store
mod error; // why a store failed
mod layout; // the bytes of a database
mod native; // checkpoints of a database's own files
mod options; // how RocksDB is set up
mod slices; // a store of slices
mod state; // a store
mod view; // the values of a store at one moment
mod write; // writing values

pub use crate::backend::RocksBackend;
pub use crate::error::{Operation, RocksError};
pub use crate::options::{Compression, RocksOptions, WritePolicy};
pub use crate::slices::{RocksSlices, RocksSlicesView};
pub use crate::state::RocksState;
pub use crate::view::RocksView;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
