//! Tumbling, hopping and cumulating aggregates over Arrow record batches, with the answers of Apache Flink
//! SQL.
//!
//! Overlapping windows share *slices*: a row is added to one slice, and windows are made of slices when they
//! fire. See [`WindowOperator`].

mod accumulate; // what an aggregate keeps for a key and a slice
mod aggregate; // which aggregates there are
mod chains; // the order in which windows fire
mod error; // why a call was refused
mod events; // what an engine may want to log
mod input; // a batch by slices
mod keys; // the keys of an operator
mod local; // the first of two phases
mod metrics; // what an operator counts
mod operator; // rows and watermarks in, results out
mod output; // results as record batches
mod saved; // checkpoints
mod slice; // accumulators by key
mod sliding; // what hopping windows share
mod spec; // what an operator computes
mod spill; // slices that are not in memory
mod timers; // which windows are to fire
mod windows; // which windows there are

pub use crate::accumulate::{Accumulator, Age, Sharing, take_bytes};
pub use crate::aggregate::{Aggregate, Function};
pub use crate::error::{BatchError, RestoreError, WindowError};
pub use crate::local::LocalAggregate;
pub use crate::metrics::WindowMetrics;
pub use crate::operator::WindowOperator;
pub use crate::saved::FrozenWindows;
pub use crate::spec::{EventTime, NullTime, SpecError, WindowSpec};
pub use crate::windows::{TimeRangeError, Windows, WindowsError};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
