//! What an operator computes: input, keys, event time, windows and aggregates.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use calendar_tz::{Policy, RangeError, Zone};
use state_codec::{KeyEncoder, RowForm, RowLayout, UnsupportedType};

use crate::aggregate::{Aggregate, Plan, Plans};
use crate::windows::Windows;

/// Where rows say when they happened, and whose clock windows go by.
///
/// Windows are spans of *local time*: what a clock in a zone shows, counted as if it were UTC. A day has 24
/// hours of it, of which a change of the clock skips one or repeats one.
#[derive(Clone, Debug)]
pub struct EventTime {
    pub(crate) source: Source,
    /// `None` if local time is what the column says.
    pub(crate) zone: Option<Zone>,
    pub(crate) policy: Policy,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Column(usize),
    Attached { start: usize, end: usize },
}

impl EventTime {
    /// TIMESTAMP: column `column` has wall-clock times, which no zone changes. Watermarks are of the same
    /// clock.
    pub fn timestamp(column: usize) -> Self {
        Self {
            source: Source::Column(column),
            zone: None,
            policy: Policy::default(),
        }
    }

    /// TIMESTAMP_LTZ: column `column` has instants, as watermarks are, and windows go by the clock in `zone`,
    /// with [`Policy::Flink`].
    pub fn timestamp_ltz(column: usize, zone: Zone) -> Self {
        Self {
            zone: Some(zone),
            ..Self::timestamp(column)
        }
    }

    /// Attached windows: columns `start` and `end` have the local bounds of the window that each row belongs
    /// to, as an operator before has computed them. Of the specification's windows they must be some.
    pub fn attached(start: usize, end: usize) -> Self {
        Self {
            source: Source::Attached { start, end },
            ..Self::timestamp(0)
        }
    }

    /// The same where watermarks are instants, and windows go by the clock in `zone`: for attached windows of a
    /// TIMESTAMP_LTZ.
    #[must_use]
    pub fn in_zone(self, zone: Zone) -> Self {
        Self {
            zone: Some(zone),
            ..self
        }
    }

    /// The same with another rule for when a window fires around a change of the clock. [`Policy::Flink`], the
    /// default, is bit for bit Flink's, which takes every change for one of an hour and fires some windows too
    /// early; with [`Policy::Exact`] a window fires when its last instant has passed.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// The watermark from which on the window that ends at `end_ms` has fired.
    pub(crate) fn timer_ms(&self, end_ms: i64) -> Result<i64, RangeError> {
        let zone = self.zone.as_ref();
        match (zone, end_ms.checked_sub(1)) {
            (Some(zone), Some(last_ms)) => zone.timer(last_ms, self.policy),
            // No window ends at the beginning of time.
            (_, last_ms) => Ok(last_ms.unwrap_or(i64::MIN)),
        }
    }

    /// `window_time` of the window that ends at `end_ms`: its last millisecond in the input's kind of time.
    pub(crate) fn window_time_ms(&self, end_ms: i64) -> Result<i64, RangeError> {
        match &self.zone {
            Some(zone) => zone.to_instant(end_ms - 1),
            None => Ok(end_ms - 1),
        }
    }

    fn describe(&self) -> String {
        let source = match self.source {
            Source::Column(column) => format!("time #{column}"),
            Source::Attached { start, end } => format!("attached #{start} #{end}"),
        };
        match &self.zone {
            Some(zone) => format!("{source} in {} {:?}", zone.id(), self.policy),
            None => source,
        }
    }
}

/// What becomes of a row whose time is NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NullTime {
    /// Its batch is refused: as in Flink, where the job fails.
    #[default]
    Error,
    /// It is dropped, and counted.
    Drop,
}

/// What an operator computes.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
/// use std::sync::Arc;
/// use window_shared::{Aggregate, EventTime, Function, WindowSpec, Windows};
///
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("origin", DataType::Utf8, true),
///     Field::new("delay", DataType::Int64, true),
///     Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true),
/// ]));
/// let spec = WindowSpec::new(
///     schema,
///     &[0],
///     EventTime::timestamp(2),
///     Windows::tumble(3_600_000)?,
///     &[
///         Aggregate::count_rows("flights"),
///         Aggregate::new("worst", Function::Max, 1),
///     ],
/// )?;
/// let columns = spec.output_schema();
/// let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
/// assert_eq!(names, ["origin", "window_start", "window_end", "window_time", "flights", "worst"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WindowSpec {
    pub(crate) schema: SchemaRef,
    pub(crate) group_by: Vec<usize>,
    pub(crate) time: EventTime,
    pub(crate) windows: Windows,
    pub(crate) plans: Plans,
    pub(crate) null_time: NullTime,
    pub(crate) keys: KeyEncoder,
    /// The same for batches of partials.
    pub(crate) partial_keys: KeyEncoder,
    pub(crate) key_layout: RowLayout,
    pub(crate) output: SchemaRef,
    pub(crate) partials: SchemaRef,
}

/// Why a specification is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A column index beyond the schema.
    #[error("there is no column {index}: the schema has {columns}")]
    NoSuchColumn {
        /// The index, from 0.
        index: usize,
        /// Columns of the schema.
        columns: usize,
    },
    /// A time column that is no timestamp of the right kind.
    #[error("column {column:?} is {found}, but the event time must be {expected}")]
    Time {
        /// The name of the column.
        column: String,
        /// Its type.
        found: Box<DataType>,
        /// What it would have to be.
        expected: &'static str,
    },
    /// A filter that is not BOOLEAN.
    #[error("column {column:?}, which filters aggregate {aggregate:?}, is {found} and not BOOLEAN")]
    Filter {
        /// The name of the aggregate.
        aggregate: String,
        /// The name of the column.
        column: String,
        /// Its type.
        found: Box<DataType>,
    },
    /// An aggregate of a type that it is not defined for.
    #[error("aggregate {aggregate:?}: {what} is not defined for {found}")]
    Argument {
        /// The name of the aggregate.
        aggregate: String,
        /// What it computes.
        what: String,
        /// The type of the argument.
        found: Box<DataType>,
    },
    /// A group key of a type that cannot be one.
    #[error(transparent)]
    Key(#[from] UnsupportedType),
}

impl WindowSpec {
    /// Groups rows of `schema` by the columns `group_by`, of which there may be none, and by `windows` of
    /// `time`, and computes `aggregates`, of which there may be none either.
    ///
    /// # Errors
    ///
    /// [`SpecError`] if a column is not there or of a type that does not serve.
    pub fn new(
        schema: SchemaRef,
        group_by: &[usize],
        time: EventTime,
        windows: Windows,
        aggregates: &[Aggregate],
    ) -> Result<Self, SpecError> {
        let column = |index: usize| {
            schema.fields().get(index).ok_or(SpecError::NoSuchColumn {
                index,
                columns: schema.fields().len(),
            })
        };
        match time.source {
            Source::Column(index) => check_time(column(index)?, time.zone.is_some())?,
            Source::Attached { start, end } => {
                check_time(column(start)?, false)?;
                check_time(column(end)?, false)?;
            }
        }
        let key_fields = group_by
            .iter()
            .map(|&index| column(index).cloned())
            .collect::<Result<Vec<_>, _>>()?;
        let plans: Plans = aggregates
            .iter()
            .map(|aggregate| Plan::new(aggregate, &schema))
            .collect::<Result<_, _>>()?;

        let local = DataType::Timestamp(TimeUnit::Millisecond, None);
        let time_type = match &time.zone {
            Some(_) => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            None => local.clone(),
        };
        let mut output: Vec<Field> = key_fields.iter().map(|it| it.as_ref().clone()).collect();
        let mut partials: Vec<Field> = output
            .iter()
            .map(|field| field.clone().with_nullable(true))
            .collect();
        output.push(Field::new("window_start", local.clone(), false));
        output.push(Field::new("window_end", local, false));
        output.push(Field::new("window_time", time_type, false));
        output.extend(plans.iter().map(|plan| plan.field.clone()));
        partials.push(Field::new("slice_end", DataType::Int64, false));
        partials.push(Field::new("accumulators", DataType::Binary, false));
        Ok(Self {
            keys: KeyEncoder::new(schema.fields(), group_by)?,
            partial_keys: KeyEncoder::new(&key_fields, &(0..group_by.len()).collect::<Vec<_>>())?,
            key_layout: RowLayout::new(&key_fields, RowForm::Key)?,
            group_by: group_by.to_vec(),
            time,
            windows,
            plans,
            null_time: NullTime::default(),
            output: Arc::new(Schema::new(output)),
            partials: Arc::new(Schema::new(partials)),
            schema,
        })
    }

    /// The same with another treatment of rows whose time is NULL.
    #[must_use]
    pub fn with_null_time(self, null_time: NullTime) -> Self {
        Self { null_time, ..self }
    }

    /// The columns of the input.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The windows.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The columns of the output: the group keys; `window_start` and `window_end` in local time and
    /// `window_time` in the input's kind of time, all in milliseconds; the aggregates.
    pub fn output_schema(&self) -> &SchemaRef {
        &self.output
    }

    /// The columns of partial aggregates, which go from a [`LocalAggregate`](crate::LocalAggregate) to the
    /// operator, and of which canonical checkpoints are made:
    ///
    /// ```text
    /// the group keys
    /// slice_end      BIGINT not null     local milliseconds
    /// accumulators   BINARY not null     the bytes of each aggregate, one after the other
    /// ```
    pub fn partials_schema(&self) -> &SchemaRef {
        &self.partials
    }

    /// What tells state of this specification from others: keys, time, windows and aggregates, not their names.
    pub fn fingerprint(&self) -> String {
        let mut text = format!("window-shared 1; {}; ", self.windows.describe());
        text += &self.time.describe();
        text += "; by";
        for &index in &self.group_by {
            text += &format!(" #{index} {}", self.schema.field(index).data_type());
        }
        for plan in self.plans.iter() {
            text += &format!("; {}", plan.description);
            if let Some(argument) = &plan.argument {
                text += &format!(" {}", self.schema.field(argument.column).data_type());
            }
        }
        text
    }
}

fn check_time(field: &Field, instants: bool) -> Result<(), SpecError> {
    let expected = if instants {
        "a timestamp with a time zone"
    } else {
        "a timestamp without time zone"
    };
    match field.data_type() {
        DataType::Timestamp(_, zone) if zone.is_some() == instants => Ok(()),
        found => Err(SpecError::Time {
            column: field.name().clone(),
            found: Box::new(found.clone()),
            expected,
        }),
    }
}
