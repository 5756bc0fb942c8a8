//! Local time and instants: conversions between the milliseconds that a clock on the wall shows and
//! those that have passed, for any zone of the tz database.
//!
//! Two domains, both in milliseconds as `i64`. An *instant* counts from 1970-01-01T00:00:00Z. A
//! *local* time is what a clock in the zone shows, counted as if it were UTC; it may be shown twice
//! (an *overlap*) or never (a *gap*).
//!
//! A [`Zone`] comes from an identifier, as Java reads it, and a [`Database`] of rules. It converts one
//! value ([`Zone::to_local`], [`Zone::to_instant`], [`Zone::timer`]) or a batch of them
//! ([`Zone::convert`]). Where Apache Flink is wrong around a clock change, a [`Policy`] tells whether
//! its answer is wanted or the right one.
//!
//! [`END_OF_TIME`] is no instant but the mark of a watermark's end; every conversion gives it back.
//! Nothing else is special: a result beyond 64 bits is a [`RangeError`], and nothing panics or wraps.
//! After a zone is made nothing allocates.

mod batch; // many values at once
mod convert; // one value, and the policies
mod database; // where rules come from
mod near; // what a misspelt identifier may have meant
mod query; // changes of the clock, and lengths of local time
mod rules; // offsets over all of time
mod trigger; // which windows have fired
mod tzif; // the end of a TZif file
mod zone; // a zone and its identifier

pub use crate::batch::{BatchError, Validity};
pub use crate::convert::{Conversion, Cursor, END_OF_TIME, Policy, RangeError};
pub use crate::database::{Database, DatabaseError, ZoneError};
pub use crate::query::Transition;
pub use crate::rules::DataError;
pub use crate::trigger::TriggerError;
pub use crate::zone::{OffsetError, Zone};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
