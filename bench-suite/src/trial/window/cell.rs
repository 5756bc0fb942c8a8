//! Which windows over which rows and which store.

use std::fmt;

use serde::Deserialize;
use window_shared::{Aggregate, Function, Windows};

use crate::stores::Store;
use crate::trial::zone::TrialZone;

/// Windows whose rows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Shape {
    /// TUMBLE of 10 s.
    #[serde(rename = "tumble-10s")]
    Tumble10,
    /// HOP of 10 s every 2 s.
    #[serde(rename = "hop-10s-2s")]
    Hop10By2,
    /// HOP of 30 s every 2 s.
    #[serde(rename = "hop-30s-2s")]
    Hop30By2,
    /// HOP of 60 s every second.
    #[serde(rename = "hop-60s-1s")]
    Hop60By1,
    /// CUMULATE up to 10 s in steps of 2 s.
    #[serde(rename = "cumulate-10s-2s")]
    Cumulate10By2,
}

impl Shape {
    /// Every shape.
    pub const ALL: [Self; 5] = [
        Self::Tumble10,
        Self::Hop10By2,
        Self::Hop30By2,
        Self::Hop60By1,
        Self::Cumulate10By2,
    ];

    /// The windows.
    #[must_use]
    pub fn windows(self) -> Windows {
        let windows = match self {
            Self::Tumble10 => Windows::tumble(10_000),
            Self::Hop10By2 => Windows::hop(2_000, 10_000),
            Self::Hop30By2 => Windows::hop(2_000, 30_000),
            Self::Hop60By1 => Windows::hop(1_000, 60_000),
            Self::Cumulate10By2 => Windows::cumulate(2_000, 10_000),
        };
        windows.expect("the sizes divide")
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tumble10 => "tumble-10s",
            Self::Hop10By2 => "hop-10s-2s",
            Self::Hop30By2 => "hop-30s-2s",
            Self::Hop60By1 => "hop-60s-1s",
            Self::Cumulate10By2 => "cumulate-10s-2s",
        })
    }
}

/// What is computed of the rows of a key and window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum List {
    /// `COUNT(*)`.
    Count,
    /// `SUM(value)` of a BIGINT.
    Sum,
    /// `COUNT(*)`, and SUM, MIN, MAX, AVG and COUNT DISTINCT of a BIGINT.
    Mixed,
}

impl List {
    /// The aggregates, of which the first is a BIGINT.
    #[must_use]
    pub fn aggregates(self) -> Vec<Aggregate> {
        let value = |name, function| Aggregate::new(name, function, 1);
        match self {
            Self::Count => vec![Aggregate::count_rows("rows")],
            Self::Sum => vec![value("sum", Function::Sum)],
            Self::Mixed => vec![
                Aggregate::count_rows("rows"),
                value("sum", Function::Sum),
                value("min", Function::Min),
                value("max", Function::Max),
                value("avg", Function::Avg),
                value("distinct", Function::Count).distinct(),
            ],
        }
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Mixed => "mixed",
        })
    }
}

/// One cell of the windows workload: 8,192 rows of a second of event time, of keys at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCell {
    /// Where slices are.
    pub store: Store,
    /// The windows.
    pub shape: Shape,
    /// The aggregates.
    pub list: List,
    /// Different keys.
    pub keys: usize,
    /// Bytes of a key: 8 for a BIGINT, more for a string.
    pub key_bytes: usize,
    /// Whose clock windows go by.
    pub zone: TrialZone,
    /// Rows of a batch.
    pub batch_rows: usize,
}

impl WindowCell {
    /// Bytes of a key that is a BIGINT.
    pub const BIGINT_BYTES: usize = 8;

    /// HOP of 10 s every 2 s, COUNT of 4,096 BIGINT keys, in memory and UTC.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            store: Store::Memory,
            shape: Shape::Hop10By2,
            list: List::Count,
            keys: 4_096,
            key_bytes: Self::BIGINT_BYTES,
            zone: TrialZone::Utc,
            batch_rows: 8_192,
        }
    }

    /// Rows of a sample: two minutes of event time, or half a minute of wide keys.
    #[must_use]
    pub fn rows(&self) -> usize {
        if self.key_bytes > Self::BIGINT_BYTES {
            1 << 18
        } else {
            1 << 20
        }
    }
}

/// The workload of the cell, without its store.
impl fmt::Display for WindowCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shape,
            list,
            keys,
            key_bytes,
            zone,
            batch_rows,
            ..
        } = self;
        write!(
            f,
            "windows/{shape}/{list}/{keys}-keys/{key_bytes}-bytes/{zone}/{batch_rows}-rows"
        )
    }
}
