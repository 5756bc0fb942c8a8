//! Which worker owns a key, by way of its *key group*: the unit in which keyed state is divided and
//! rescaled.
//!
//! A key row is hashed to one of [`GroupCount`] groups, and each subtask of an operator owns one
//! contiguous [`GroupRange`] of them. Every number here is the one that Apache Flink 2.2.1 computes.
//! Nothing allocates, and nothing fails but the arguments that Flink refuses too.

#![no_std]

mod assign; // key → group
mod hash; // bytes → hash
mod range; // group ↔ subtask
mod rescale; // old subtask → new subtask

pub use crate::assign::{GroupCount, InvalidGroupCount, KeyGroup, group_of, group_of_hash};
pub use crate::hash::hash_of;
pub use crate::range::{
    GroupRange, InvalidParallelism, Parallelism, RangeError, TooManySubtasks,
    default_max_parallelism, range_of, subtask_of,
};
pub use crate::rescale::{Move, Moves, RescalePlan};

#[cfg(test)]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
