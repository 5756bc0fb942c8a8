//! What is ranked, and how: the SQL of a ranking query as a checked value.

use std::collections::HashSet;
use std::fmt::Write;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, SchemaRef};
use state_codec::{
    FloatOrder, KeyEncoder, NEVER, Nulls, Order, RowForm, RowLayout, SortColumn, SortError,
    SortOrder, UnsupportedType,
};

use crate::ranked::UNKNOWN;

/// The ranks that are kept and emitted, both ends inclusive, starting at 1: the filter on
/// `ROW_NUMBER()`.
///
/// Ranges are of integers by type. The ways to write a range that mean the same are equal:
///
/// ```
/// # use rank_top1::RankRange;
/// assert_eq!(RankRange::at_most(1)?, RankRange::exactly(1)?); // rn <= 1, rn = 1
/// assert_eq!(RankRange::below(2)?, RankRange::new(1, 1)?); // rn < 2, rn BETWEEN 1 AND 1
/// assert_eq!(
///     RankRange::new(2, 1).unwrap_err().to_string(),
///     "rank range 2..1 is empty: its end must not be below its start"
/// );
/// # Ok::<(), rank_top1::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankRange {
    pub(crate) start: u64,
    pub(crate) end: RankEnd,
}

/// Where a range of ranks ends, inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankEnd {
    /// The same for every partition.
    Constant(NonZeroU64),
    /// In each partition, the value of this integer column in the first row that arrives; rows that
    /// say something else later are counted and otherwise ignored, as in Flink.
    Column(String),
}

impl RankRange {
    /// The first row of each partition: 1..1.
    pub const TOP_1: Self = Self {
        start: 1,
        end: RankEnd::Constant(NonZeroU64::MIN),
    };

    /// `rn BETWEEN start AND end`.
    ///
    /// # Errors
    ///
    /// [`SpecError::RankStart`] for a start of 0, [`SpecError::EmptyRange`] for an end below it.
    pub fn new(start: u64, end: u64) -> Result<Self, SpecError> {
        if start == 0 {
            return Err(SpecError::RankStart { end });
        }
        match NonZeroU64::new(end) {
            Some(constant) if start <= end => Ok(Self {
                start,
                end: RankEnd::Constant(constant),
            }),
            _ => Err(SpecError::EmptyRange { start, end }),
        }
    }

    /// `rn <= n`.
    ///
    /// # Errors
    ///
    /// [`SpecError::EmptyRange`] for 0.
    pub fn at_most(n: u64) -> Result<Self, SpecError> {
        Self::new(1, n)
    }

    /// `rn < n`.
    ///
    /// # Errors
    ///
    /// [`SpecError::EmptyRange`] below 2.
    pub fn below(n: u64) -> Result<Self, SpecError> {
        Self::new(1, n.saturating_sub(1))
    }

    /// `rn = n`.
    ///
    /// # Errors
    ///
    /// [`SpecError::RankStart`] for 0.
    pub fn exactly(n: u64) -> Result<Self, SpecError> {
        Self::new(n, n)
    }

    /// `rn <= column`: see [`RankEnd::Column`].
    pub fn at_most_column(column: impl Into<String>) -> Self {
        Self {
            start: 1,
            end: RankEnd::Column(column.into()),
        }
    }

    /// The first rank of the range.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The last rank of the range.
    pub fn end(&self) -> &RankEnd {
        &self.end
    }
}

/// One term of ORDER BY. NULL counts as the lowest value unless said otherwise: first when
/// ascending, last when descending (Flink's default).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    column: String,
    order: Order,
    nulls: Nulls,
}

impl OrderBy {
    /// `column ASC`, NULLs first.
    pub fn asc(column: impl Into<String>) -> Self {
        Self {
            column: column.into(),
            order: Order::Ascending,
            nulls: Nulls::First,
        }
    }

    /// `column DESC`, NULLs last.
    pub fn desc(column: impl Into<String>) -> Self {
        Self {
            column: column.into(),
            order: Order::Descending,
            nulls: Nulls::Last,
        }
    }

    /// `NULLS FIRST`.
    #[must_use]
    pub fn nulls_first(self) -> Self {
        Self {
            nulls: Nulls::First,
            ..self
        }
    }

    /// `NULLS LAST`.
    #[must_use]
    pub fn nulls_last(self) -> Self {
        Self {
            nulls: Nulls::Last,
            ..self
        }
    }
}

/// When changes are emitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// Each change, in arrival order, with the batch that brought it.
    #[default]
    Immediate,
    /// At a flush, per partition the net change since the flush before.
    MiniBatch,
}

/// Which of two rows wins that no term of ORDER BY tells apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The one that came first, as in Flink's ranking.
    #[default]
    KeepFirst,
    /// The one that came last, as in Flink's deduplication by a time attribute that keeps the last
    /// row. For the range 1..1 only.
    KeepLast,
}

/// Why a specification was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A column is not in the schema.
    #[error("{clause} names column {column:?}, which is not among {known:?}")]
    UnknownColumn {
        /// Where it was named.
        clause: &'static str,
        /// Its name.
        column: String,
        /// The schema's columns.
        known: Vec<String>,
    },
    /// A column is named twice in one clause.
    #[error("{clause} names column {column:?} twice")]
    DuplicateColumn {
        /// Where it was named.
        clause: &'static str,
        /// Its name.
        column: String,
    },
    /// A name that the specification uses stands for two columns of the schema.
    #[error("the schema has more than one column {column:?}")]
    AmbiguousColumn {
        /// The name.
        column: String,
    },
    /// There is nothing to order by.
    #[error("order by names no column: a rank needs an order")]
    EmptyOrder,
    /// A column cannot be ordered by.
    #[error("order by: {0}")]
    Order(#[source] SortError),
    /// A column cannot be a partition key.
    #[error("partition by: {0}")]
    Key(#[source] UnsupportedType),
    /// A column cannot be kept as part of a row.
    #[error("schema: {0}")]
    Row(#[source] UnsupportedType),
    /// Ranks start at 1.
    #[error("rank range 0..{end} starts at 0: ranks start at 1")]
    RankStart {
        /// The end that was given.
        end: u64,
    },
    /// The range holds no rank.
    #[error("rank range {start}..{end} is empty: its end must not be below its start")]
    EmptyRange {
        /// The start that was given.
        start: u64,
        /// The end that was given.
        end: u64,
    },
    /// The column of a variable rank end is not an integer.
    #[error("rank end column {column:?} is {data_type}, not an integer")]
    RankEndType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// Keeping the last of equal rows has a meaning for one winner only.
    #[error("a tie can only keep the last row for the rank range 1..1")]
    TiesBeyondTop1,
    /// NaN that ties with every number is no order among more than two rows.
    #[error(
        "FloatOrder::Flink is no order for more than one row: rank beyond 1..1 by FloatOrder::Total"
    )]
    FloatOrderBeyondTop1,
}

/// A ranking query, checked: every column exists and has a type that its use allows.
///
/// ```
/// use std::sync::Arc;
/// use arrow::datatypes::{DataType, Field, Schema};
/// use rank_top1::{OrderBy, RankRange, RankSpec};
///
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("aircraft", DataType::Utf8, true),
///     Field::new("delay", DataType::Int32, true),
/// ]));
/// // SELECT … ROW_NUMBER() OVER (PARTITION BY aircraft ORDER BY delay DESC) AS rn … WHERE rn <= 3
/// let spec = RankSpec::builder(schema)
///     .partition_by(["aircraft"])
///     .order_by([OrderBy::desc("delay")])
///     .range(RankRange::at_most(3)?)
///     .output_rank("rn")
///     .build()?;
/// assert_eq!(spec.output_schema().field(2).name(), "rn");
/// # Ok::<(), rank_top1::SpecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RankSpec {
    pub(crate) schema: SchemaRef,
    pub(crate) output_schema: SchemaRef,
    pub(crate) keys: KeyEncoder,
    pub(crate) order: SortOrder,
    pub(crate) order_terms: usize,
    pub(crate) layout: RowLayout,
    pub(crate) range: RankRange,
    /// The column of a variable rank end.
    pub(crate) rank_end_column: Option<usize>,
    pub(crate) output_rank: bool,
    pub(crate) update_before: bool,
    pub(crate) emit: Emit,
    pub(crate) ties: Ties,
    /// How long a row lives, in milliseconds; `None` for ever.
    pub(crate) ttl_ms: Option<i64>,
    fingerprint: Arc<str>,
}

impl RankSpec {
    /// Starts a specification over rows of `schema`: one partition, 1..1, no rank column, `-U` rows,
    /// immediate; the order has to be given.
    pub fn builder(schema: SchemaRef) -> RankSpecBuilder {
        RankSpecBuilder {
            schema,
            partition_by: Vec::new(),
            order_by: Vec::new(),
            range: RankRange::TOP_1,
            rank_column: None,
            update_before: true,
            emit: Emit::default(),
            ties: Ties::default(),
            floats: None,
            ttl_ms: None,
        }
    }

    /// The schema that input batches must have.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The schema of what is emitted: the input's columns, then the rank if it is asked for.
    pub fn output_schema(&self) -> &SchemaRef {
        &self.output_schema
    }

    /// The range of ranks.
    pub fn range(&self) -> &RankRange {
        &self.range
    }

    /// Whether this is the constant range 1..1, for which there is a ranker of its own.
    pub fn is_top_1(&self) -> bool {
        self.range == RankRange::TOP_1
    }

    /// How long a row lives after it was accepted, `None` for ever: see [`RankSpecBuilder::ttl`].
    pub fn ttl(&self) -> Option<Duration> {
        let ttl_ms = u64::try_from(self.ttl_ms?).expect("a time to live is not negative");
        Some(Duration::from_millis(ttl_ms))
    }

    /// What decides which rows are retained, as text: columns, partition, order, range, ties. Saved state
    /// is restored only where it is the same. What may differ is when and how changes are emitted, and
    /// the time to live.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// What is kept of the time at which a row was accepted: nothing where rows live for ever.
    pub(crate) fn write_ms(&self, now_ms: i64) -> i64 {
        self.ttl_ms.map_or(UNKNOWN, |_| now_ms)
    }

    /// When a row accepted at `write_ms` expires.
    pub(crate) fn expires_at_ms(&self, write_ms: i64) -> i64 {
        self.ttl_ms
            .map_or(NEVER, |ttl_ms| write_ms.saturating_add(ttl_ms))
    }

    /// Whether a row that lost to a winner loses to all that follow. A NaN that ties with every number
    /// breaks that in two ways: a later term of the order decides a tie, or the row that came last wins
    /// it. Then a winner can be followed by one that is worse.
    pub(crate) fn losers_stay_losers(&self) -> bool {
        let ties_stay = self.order_terms == 1 && self.ties == Ties::KeepFirst;
        self.order.is_transitive() || ties_stay
    }
}

/// What [`RankSpec::builder`] starts; each call replaces what an earlier one of the same name said.
#[derive(Clone, Debug)]
pub struct RankSpecBuilder {
    schema: SchemaRef,
    partition_by: Vec<String>,
    order_by: Vec<OrderBy>,
    range: RankRange,
    rank_column: Option<String>,
    update_before: bool,
    emit: Emit,
    ties: Ties,
    floats: Option<FloatOrder>,
    ttl_ms: Option<i64>,
}

impl RankSpecBuilder {
    /// `PARTITION BY columns`. No columns make one partition of all rows.
    #[must_use]
    pub fn partition_by<C: Into<String>>(self, columns: impl IntoIterator<Item = C>) -> Self {
        Self {
            partition_by: columns.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// `ORDER BY terms`.
    #[must_use]
    pub fn order_by(self, terms: impl IntoIterator<Item = OrderBy>) -> Self {
        Self {
            order_by: terms.into_iter().collect(),
            ..self
        }
    }

    /// The filter on the rank; 1..1 if it is not called.
    #[must_use]
    pub fn range(self, range: RankRange) -> Self {
        Self { range, ..self }
    }

    /// Emits the rank as a last column of this name, a BIGINT. The rank is output for wide ranges in
    /// the form of Flink's ranked changelog: a row that moves is `-U` at its old rank and `+U` at
    /// its new one.
    #[must_use]
    pub fn output_rank(self, column: impl Into<String>) -> Self {
        Self {
            rank_column: Some(column.into()),
            ..self
        }
    }

    /// Whether `-U` rows are emitted; `true` if it is not called. A consumer that works by key does
    /// not need them.
    #[must_use]
    pub fn update_before(self, update_before: bool) -> Self {
        Self {
            update_before,
            ..self
        }
    }

    /// When changes are emitted; [`Emit::Immediate`] if it is not called.
    #[must_use]
    pub fn emit(self, emit: Emit) -> Self {
        Self { emit, ..self }
    }

    /// Which of two equal rows wins; [`Ties::KeepFirst`] if it is not called.
    #[must_use]
    pub fn ties(self, ties: Ties) -> Self {
        Self { ties, ..self }
    }

    /// How NaN compares. If it is not called: [`FloatOrder::Flink`] for the range 1..1, as in Flink,
    /// and [`FloatOrder::Total`] for the others, where Flink's answers depend on the history of
    /// insertions or fail.
    #[must_use]
    pub fn floats(self, floats: FloatOrder) -> Self {
        Self {
            floats: Some(floats),
            ..self
        }
    }

    /// How long a row lives after it was accepted, by the clock that
    /// [`Ranker::advance_clock`](crate::Ranker::advance_clock) is given; for ever if it is not called,
    /// and for a duration of zero (as in Flink). Counted in milliseconds, a part of one as a whole.
    ///
    /// A row that is expired, at `accepted + ttl` or later, is gone without any change being emitted, and
    /// the next row of its partition is `+I`. Rows that lose or tie refresh nothing. In a range beyond
    /// 1..1 rows expire one by one; an accepted row refreshes those that it ties with, and where the
    /// range is 1..N and the rank is not emitted, a row that falls out refreshes those that it tied with.
    /// In a mini-batch, what is expired is decided when its partition is first touched.
    ///
    /// Flink's winner cache makes a row live longer when a checkpoint or an eviction writes it again.
    /// Here cache, checkpoints, restores and the kind of store make no difference.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        let ttl_ms = ttl.as_nanos().div_ceil(1_000_000);
        let ttl_ms = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
        Self {
            ttl_ms: (ttl_ms > 0).then_some(ttl_ms),
            ..self
        }
    }

    /// Checks the specification.
    ///
    /// # Errors
    ///
    /// [`SpecError`] says which clause names what.
    pub fn build(self) -> Result<RankSpec, SpecError> {
        let partition_by = self.columns("partition by", self.partition_by.iter())?;
        let order_by = self.columns("order by", self.order_by.iter().map(|term| &term.column))?;
        if order_by.is_empty() {
            return Err(SpecError::EmptyOrder);
        }
        let terms: Vec<SortColumn> = order_by
            .iter()
            .zip(&self.order_by)
            .map(|(&column, term)| SortColumn {
                column,
                order: term.order,
                nulls: term.nulls,
            })
            .collect();
        let fields = self.schema.fields();
        let is_top_1 = self.range == RankRange::TOP_1;
        if !is_top_1 && self.ties == Ties::KeepLast {
            return Err(SpecError::TiesBeyondTop1);
        }
        let default_floats = if is_top_1 {
            FloatOrder::Flink
        } else {
            FloatOrder::Total
        };
        let floats = self.floats.unwrap_or(default_floats);
        let order = SortOrder::new(fields, &terms, floats).map_err(SpecError::Order)?;
        if !is_top_1 && !order.is_transitive() {
            return Err(SpecError::FloatOrderBeyondTop1);
        }
        let fingerprint = self.fingerprint(floats);
        Ok(RankSpec {
            fingerprint: fingerprint.into(),
            ttl_ms: self.ttl_ms,
            output_schema: self.output_schema()?,
            keys: KeyEncoder::new(fields, &partition_by).map_err(SpecError::Key)?,
            order,
            order_terms: terms.len(),
            layout: RowLayout::new(fields, RowForm::Payload).map_err(SpecError::Row)?,
            rank_end_column: self.rank_end_column()?,
            output_rank: self.rank_column.is_some(),
            update_before: self.update_before,
            emit: self.emit,
            ties: self.ties,
            range: self.range,
            schema: self.schema,
        })
    }

    /// See [`RankSpec::fingerprint`]. Names are quoted, so that no two specifications share one.
    fn fingerprint(&self, floats: FloatOrder) -> String {
        let mut text = "rank-top1 columns".to_owned();
        for field in self.schema.fields() {
            let (name, data_type) = (field.name(), field.data_type());
            write!(text, " {name:?}: {data_type}").expect("a string takes what is written");
        }
        write!(text, "; partition by {:?}; order by", self.partition_by).expect("as above");
        for term in &self.order_by {
            let OrderBy {
                column,
                order,
                nulls,
            } = term;
            write!(text, " {column:?} {order:?} nulls {nulls:?}").expect("as above");
        }
        let RankRange { start, end } = &self.range;
        match end {
            RankEnd::Constant(end) => write!(text, "; range {start}..{end}"),
            RankEnd::Column(column) => write!(text, "; range {start}..{column:?}"),
        }
        .expect("as above");
        write!(text, "; ties {:?}; floats {floats:?}", self.ties).expect("as above");
        text
    }

    fn columns<'a>(
        &self,
        clause: &'static str,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<Vec<usize>, SpecError> {
        let mut seen = HashSet::new();
        names
            .map(|name| {
                if !seen.insert(name) {
                    return Err(SpecError::DuplicateColumn {
                        clause,
                        column: name.clone(),
                    });
                }
                self.column(clause, name)
            })
            .collect()
    }

    fn column(&self, clause: &'static str, name: &str) -> Result<usize, SpecError> {
        let named = |(_, field): &(usize, &arrow::datatypes::FieldRef)| field.name() == name;
        let mut found = self.schema.fields().iter().enumerate().filter(named);
        match (found.next(), found.next()) {
            (Some((column, _)), None) => Ok(column),
            (Some(_), Some(_)) => Err(SpecError::AmbiguousColumn {
                column: name.to_owned(),
            }),
            (None, _) => Err(SpecError::UnknownColumn {
                clause,
                column: name.to_owned(),
                known: self
                    .schema
                    .fields()
                    .iter()
                    .map(|field| field.name().clone())
                    .collect(),
            }),
        }
    }

    fn rank_end_column(&self) -> Result<Option<usize>, SpecError> {
        let RankEnd::Column(name) = &self.range.end else {
            return Ok(None);
        };
        let column = self.column("rank range", name)?;
        let data_type = self.schema.field(column).data_type();
        if data_type.is_signed_integer() {
            Ok(Some(column))
        } else {
            Err(SpecError::RankEndType {
                column: name.clone(),
                data_type: data_type.clone(),
            })
        }
    }

    fn output_schema(&self) -> Result<SchemaRef, SpecError> {
        let Some(rank) = &self.rank_column else {
            return Ok(self.schema.clone());
        };
        if self
            .schema
            .fields()
            .iter()
            .any(|field| field.name() == rank)
        {
            return Err(SpecError::DuplicateColumn {
                clause: "output",
                column: rank.clone(),
            });
        }
        let rank = arrow::datatypes::Field::new(rank, DataType::Int64, false);
        let fields = self.schema.fields().iter().cloned().chain([rank.into()]);
        let schema = arrow::datatypes::Schema::new_with_metadata(
            fields.collect::<Vec<_>>(),
            self.schema.metadata().clone(),
        );
        Ok(schema.into())
    }
}
