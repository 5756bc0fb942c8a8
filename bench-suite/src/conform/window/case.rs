//! Lines of `windows.jsonl`. The format is described in `golden/README.md`.

use serde::Deserialize;
use serde_json::Value;

use crate::conform::window::cell::{BadCell, Cell};
use crate::golden::value::{SqlType, UnknownType};

/// A query over windows, what arrives, and what Flink gave.
#[derive(Clone, Debug, Deserialize)]
pub struct WindowCase {
    /// Name of the case; its first part is the family.
    pub name: String,
    /// The query, over a view `src`.
    pub sql: String,
    /// The session's zone, as the option was given.
    pub zone: String,
    /// The type of the time column.
    pub time_type: TimeType,
    /// The windows.
    pub window: Window,
    /// Whether rows were aggregated by a local operator first.
    #[serde(rename = "two_phase_used")]
    pub two_phase: bool,
    /// Whether SUM and AVG of a column that COUNT has too were made of `$SUM0`.
    pub sum_avg_reduced: bool,
    /// Key columns besides the window.
    pub group_by: Vec<String>,
    /// The aggregates of a query of the plain form; see [`is_plain`](Self::is_plain).
    pub aggs: Vec<AggCase>,
    /// Columns of what arrives and of what is given.
    pub types: CaseColumns,
    /// The time column.
    pub time_col: String,
    /// In which order the expected rows stand.
    pub order: RowOrder,
    /// Whether the answer is what textbook semantics give; only there for the plain form.
    #[serde(rename = "matches_ideal_model")]
    pub ideal: Option<bool>,
    /// The two queries of a cascade, in parts.
    pub cascade: Option<Cascade>,
    /// What arrives; then the input ends, with a watermark of `i64::MAX`.
    pub events: Vec<Event>,
    /// What Flink gave.
    pub expected: Vec<ExpectedRow>,
    /// The class of the exception if the query failed.
    pub error: Option<String>,
}

impl WindowCase {
    /// Whether the query has the plain form: keys, `window_start`, `window_end`, perhaps
    /// `window_time`, and aggregates, in this order, over one windowing of `src`.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.ideal.is_some()
    }

    /// The number of an input column.
    #[must_use]
    pub fn input_column(&self, name: &str) -> Option<usize> {
        let mut columns = self.types.input.iter();
        columns.position(|column| column.name == name)
    }

    /// The first part of the name.
    #[must_use]
    pub fn family(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// The types that a time column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TimeType {
    /// A reading of a clock, in milliseconds. The session's zone has no effect.
    #[serde(rename = "TIMESTAMP(3)")]
    Timestamp,
    /// An instant, in milliseconds. Windows are of local time in the session's zone.
    #[serde(rename = "TIMESTAMP_LTZ(3)")]
    TimestampLtz,
}

/// Windows of local time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "UPPERCASE")]
pub enum Window {
    /// One after another.
    Tumble {
        /// Length.
        size_ms: i64,
        /// A start of a window.
        offset_ms: i64,
    },
    /// One every slide.
    Hop {
        /// Length.
        size_ms: i64,
        /// From one start to the next.
        slide_ms: i64,
        /// A start of a window.
        offset_ms: i64,
    },
    /// Growing by steps up to a size.
    Cumulate {
        /// Length of the longest.
        size_ms: i64,
        /// From one end to the next.
        step_ms: i64,
        /// A start of a window.
        offset_ms: i64,
    },
}

/// Start and end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first millisecond of local time in it.
    pub start_ms: i64,
    /// The first after it.
    pub end_ms: i64,
}

impl Window {
    /// The length of a slice: of the shortest stretch that lies in the same windows throughout.
    #[must_use]
    pub fn slice_ms(self) -> i64 {
        match self {
            Self::Tumble { size_ms, .. } => size_ms,
            Self::Hop { slide_ms, .. } => slide_ms,
            Self::Cumulate { step_ms, .. } => step_ms,
        }
    }

    /// The end of the slice of a local time.
    #[must_use]
    pub fn slice_end(self, local_ms: i64) -> i64 {
        let (Self::Tumble { offset_ms, .. }
        | Self::Hop { offset_ms, .. }
        | Self::Cumulate { offset_ms, .. }) = self;
        start(local_ms, offset_ms, self.slice_ms()) + self.slice_ms()
    }

    /// The windows that hold a local time, in the order of their ends. The first ends with the slice.
    #[must_use]
    pub fn spans(self, local_ms: i64) -> Vec<Span> {
        let first = self.slice_end(local_ms);
        match self {
            Self::Tumble { size_ms, .. } => vec![Span {
                start_ms: first - size_ms,
                end_ms: first,
            }],
            Self::Hop {
                size_ms, slide_ms, ..
            } => (0..size_ms / slide_ms)
                .map(|slide| first + slide * slide_ms)
                .map(|end_ms| Span {
                    start_ms: end_ms - size_ms,
                    end_ms,
                })
                .collect(),
            Self::Cumulate {
                size_ms,
                step_ms,
                offset_ms,
            } => {
                let start_ms = start(local_ms, offset_ms, size_ms);
                (1..=size_ms / step_ms)
                    .map(|step| start_ms + step * step_ms)
                    .filter(|end_ms| *end_ms >= first)
                    .map(|end_ms| Span { start_ms, end_ms })
                    .collect()
            }
        }
    }
}

fn start(local_ms: i64, offset_ms: i64, unit_ms: i64) -> i64 {
    local_ms - (local_ms - offset_ms).rem_euclid(unit_ms)
}

/// An aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AggCase {
    /// The function.
    #[serde(rename = "fn")]
    pub function: AggFn,
    /// The column; `None` for `*`.
    pub arg: Option<String>,
    /// Whether equal values count once.
    pub distinct: bool,
    /// A condition in SQL.
    pub filter: Option<String>,
    /// Name of the output column.
    #[serde(rename = "as")]
    pub name: String,
}

/// The functions that recordings have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs)]
pub enum AggFn {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

/// Columns of what arrives and of what is given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CaseColumns {
    /// Of the rows that arrive.
    pub input: Vec<Column>,
    /// Of the answer.
    pub output: Vec<Column>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ColumnText")]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether it may hold NULL.
    pub nullable: bool,
}

#[derive(Deserialize)]
struct ColumnText {
    name: String,
    #[serde(rename = "type")]
    sql_type: String,
}

/// Reads types in both forms, as a query's text has them and as Flink prints them.
impl TryFrom<ColumnText> for Column {
    type Error = UnknownType;

    fn try_from(text: ColumnText) -> Result<Self, UnknownType> {
        let (sql_type, nullable) = match text.sql_type.strip_suffix(" NOT NULL") {
            Some(sql_type) => (sql_type, false),
            None => (text.sql_type.as_str(), true),
        };
        let sql_type = match sql_type.strip_suffix(" WITH LOCAL TIME ZONE") {
            Some(timestamp) => timestamp.replace("TIMESTAMP", "TIMESTAMP_LTZ"),
            None => sql_type.replace(", ", ","),
        };
        Ok(Self {
            name: text.name,
            sql_type: SqlType::parse(&sql_type)?,
            nullable,
        })
    }
}

/// In which order the expected rows stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOrder {
    /// As they were emitted.
    Emitted,
    /// Rows of one watermark and one timer in any order, such groups as they were emitted.
    Set,
    /// Rows of one watermark in any order.
    SetPerWatermark,
}

/// A query over the windows of another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Cascade {
    /// The query that reads `src`.
    pub inner: Inner,
    /// The query that reads the answer of the inner one, by the same windows.
    pub outer: Outer,
}

/// The query that reads `src`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Inner {
    /// Key columns besides the window.
    pub group_by: Vec<String>,
    /// The aggregates.
    pub aggs: Vec<AggCase>,
}

/// The query that reads the answer of the inner one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Outer {
    /// Key columns besides the window.
    pub group_by: Vec<String>,
    /// The aggregates in SQL; the inner count is called `cnt`.
    pub aggs: Vec<String>,
}

/// Something that arrives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A row of the input columns.
    Row(Vec<Value>),
    /// A watermark in the domain of the time column. One that does not increase has no effect.
    Watermark(i64),
}

/// A row that Flink gave.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ExpectedRow {
    /// Its values.
    pub row: Vec<Value>,
    /// The watermark that released it.
    pub wm: i64,
    /// The timer of its window; `None` where no window is aggregated.
    pub timer: Option<i64>,
}

/// The cells of a row as a recording has it.
///
/// # Errors
///
/// [`BadCell`] for a value that is not of its column's type, or if there is not one for each column.
pub fn cells(columns: &[Column], row: &[Value]) -> Result<Vec<Cell>, BadCell> {
    if columns.len() != row.len() {
        return Err(BadCell::width(columns.len(), row.len()));
    }
    columns
        .iter()
        .zip(row)
        .map(|(column, value)| Cell::read(value, column.sql_type.arrow()))
        .collect()
}
