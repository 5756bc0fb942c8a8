//! Which windows over which rows and which store.

use std::fmt;

use window_shared::{Aggregate, Function, Windows};

use crate::stores::Store;

/// Windows whose rows are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// TUMBLE of 10 s.
    Tumble10,
    /// HOP of 10 s every 2 s.
    Hop10By2,
    /// HOP of 30 s every 2 s.
    Hop30By2,
    /// HOP of 60 s every second.
    Hop60By1,
    /// CUMULATE up to 10 s in steps of 2 s.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub zone: &'static str,
    /// Rows of a batch.
    pub batch_rows: usize,
}

impl WindowCell {
    /// Bytes of a key that is a BIGINT.
    pub const BIGINT_BYTES: usize = 8;

    /// Every cell: each shape, list and number of keys over both stores, and then for the shape with the least
    /// overlap the zones, smaller batches and wide keys.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for store in Store::ALL {
            let plain = Self {
                store,
                shape: Shape::Hop10By2,
                list: List::Count,
                keys: 4_096,
                key_bytes: Self::BIGINT_BYTES,
                zone: "UTC",
                batch_rows: 8_192,
            };
            for shape in Shape::ALL {
                for list in [List::Count, List::Sum, List::Mixed] {
                    for keys in [8, 64, 4_096, 65_536] {
                        cells.push(Self {
                            shape,
                            list,
                            keys,
                            ..plain
                        });
                    }
                }
            }
            for zone in ["GMT+08:00", "America/New_York"] {
                cells.push(Self { zone, ..plain });
            }
            cells.push(Self {
                batch_rows: 1_024,
                ..plain
            });
            for shape in [Shape::Tumble10, Shape::Hop10By2] {
                cells.push(Self {
                    shape,
                    keys: 8_192,
                    key_bytes: 256,
                    ..plain
                });
            }
        }
        cells
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
