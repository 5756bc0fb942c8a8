//! Where Weir's stores and operators meet: the conformance run against recorded answers, and the
//! workloads, floors and trials that measure.
//!
//! The crate is not published. Its two binaries, `conform` and `trials`, are thin; what they do is
//! here, so that tests and the Criterion bench can use it too.

pub mod conform; // recorded answers against the product
pub mod flights; // the real data set, its ranking and its recorded changelog
pub mod golden; // how recordings write types, values and cases
pub mod report; // what recorded trials say
pub mod seed; // random numbers that are the same everywhere
pub mod stores; // the stores under test, by name
pub mod trial; // workloads, floors, samples and their table
pub mod tzdata; // the recorded version of the tz database, and what has changed since

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
