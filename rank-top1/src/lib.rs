#![doc = include_str!("../README.md")]

mod append; // the general ranker: any range of ranks
mod base; // what both rankers have besides their ways to rank
mod bundle; // which partitions a bundle touched, and in which order
mod changelog; // what a ranker emits
mod clock; // the time that the caller says it is
mod error; // what can go wrong after the specification was accepted
mod events; // what an engine may want to log
mod input; // a batch, checked and encoded
mod kept; // the rows that lead in a bundle
mod metrics; // what a ranker counts
mod ranked; // the rows of a partition as they are kept and stored
mod ranker; // one operator type over both rankers
mod saved; // retained rows as a table, and the way back
mod spec; // what is ranked, and how
mod top1; // the ranker of range 1..1

pub use crate::changelog::{Changelog, RowKind};
pub use crate::error::{BatchError, ClockUnset, RankError, RestoreError};
pub use crate::metrics::RankMetrics;
pub use crate::ranker::{FrozenRanker, Ranker};
pub use crate::spec::{
    Emit, OrderBy, RankEnd, RankRange, RankSpec, RankSpecBuilder, SpecError, Ties,
};
pub use state_codec::{FloatOrder, Nulls, Order};
