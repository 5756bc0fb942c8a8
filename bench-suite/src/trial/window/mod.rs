//! Shared windows beside the least that any such operator must do.
//!
//! All costs are per input row and output row together: what an operator is asked for is both.

mod cell; // shapes, aggregates, keys, zones
mod flights; // recorded windows over the flights
mod input; // the rows of a cell, and what is right
mod run; // how samples are taken

pub use cell::{List, Shape, WindowCell};
pub use flights::FlightWindows;
#[cfg(feature = "peers")]
pub(crate) use input::Input;
pub(crate) use run::{run_cell, run_flights};
