//! Aggregates: what is computed for each key and window.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};

use crate::accumulate::{
    Accumulator, Accumulators, Count, Empty, average, average_type, columns_of, distinct, extreme,
    sum, sum_type,
};
use crate::spec::SpecError;

/// The aggregate functions of SQL, with Flink's result types and rules. Rows in which the argument is NULL
/// are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Function {
    /// How many rows, as BIGINT. Takes every type.
    Count,
    /// The sum in the type of the argument, or DECIMAL(38, s) for decimals; NULL of no rows.
    ///
    /// Integers wrap around in their own type. A DECIMAL sum of more than 38 digits is NULL, and the next
    /// value starts it over. Floating-point sums are added in the order of the rows, slice by slice; their last
    /// digits depend on where slices end, and on two-phase use.
    Sum,
    /// As [`Sum`](Self::Sum), but starting from zero, which it is of no rows; a DECIMAL that overflowed stays
    /// NULL. Flink's planner puts this in the place of SUM where COUNT, SUM and AVG of one column meet.
    Sum0,
    /// The least value; NULL of no rows. Numbers, DECIMAL, BOOLEAN with false first, strings and bytes by their
    /// bytes, dates, times and timestamps. Of values that compare equal the first stays, in a hopping window
    /// that of the newest slice; NaN is replaced by nothing and replaces nothing.
    Min,
    /// The greatest value, likewise.
    Max,
    /// The mean in the type of the argument, or DECIMAL(38, max(s, 6)) for decimals; NULL of no rows. Integers
    /// are summed in 64 bits, which wrap, and the quotient is cut off towards zero; FLOAT is summed as
    /// DOUBLE; decimals are rounded half up, and NULL if they do not fit.
    Avg,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "COUNT",
            Self::Sum => "SUM",
            Self::Sum0 => "$SUM0",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::Avg => "AVG",
        }
    }
}

/// As in SQL: `COUNT`, `SUM`, `$SUM0`, `MIN`, `MAX`, `AVG`.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One aggregate: a function of a column, perhaps of its distinct values, perhaps of some rows.
///
/// ```
/// use window_shared::{Aggregate, Function};
///
/// let delay = 3; // column of the input
/// let aggregates = [
///     Aggregate::count_rows("flights"),
///     Aggregate::new("worst", Function::Max, delay),
///     Aggregate::new("delays", Function::Count, delay).distinct().filtered_by(4),
/// ];
/// # let _ = aggregates;
/// ```
#[derive(Clone)]
pub struct Aggregate {
    name: String,
    what: What,
    filter: Option<usize>,
}

#[derive(Clone)]
enum What {
    Rows,
    Function {
        function: Function,
        column: usize,
        distinct: bool,
    },
    Custom {
        id: String,
        column: usize,
        result: DataType,
        columns: fn(DataType, DataType) -> Box<dyn Accumulators>,
    },
}

impl Aggregate {
    /// `COUNT(*)`, in a column called `name`.
    pub fn count_rows(name: impl Into<String>) -> Self {
        Self::of(name.into(), What::Rows)
    }

    /// `function` of column `column` of the input, in a column called `name`.
    pub fn new(name: impl Into<String>, function: Function, column: usize) -> Self {
        let distinct = false;
        Self::of(
            name.into(),
            What::Function {
                function,
                column,
                distinct,
            },
        )
    }

    /// An aggregate of one's own over column `column` of the input, with results of type `result`. `id` is what
    /// checkpoints know it by: another meaning or layout is another `id`.
    pub fn custom<A: Accumulator>(
        name: impl Into<String>,
        id: impl Into<String>,
        column: usize,
        result: DataType,
    ) -> Self {
        let what = What::Custom {
            id: id.into(),
            column,
            result,
            columns: columns_of::<A>,
        };
        Self::of(name.into(), what)
    }

    fn of(name: String, what: What) -> Self {
        Self {
            name,
            what,
            filter: None,
        }
    }

    /// The same over distinct values: NULL is none of them, zeros of both signs are two, all NaNs are one.
    /// Makes no difference to MIN, MAX, `COUNT(*)` and aggregates of one's own.
    #[must_use]
    pub fn distinct(mut self) -> Self {
        if let What::Function { distinct, .. } = &mut self.what {
            *distinct = true;
        }
        self
    }

    /// The same over rows for which the BOOLEAN column `column` of the input is true: `FILTER (WHERE …)`.
    #[must_use]
    pub fn filtered_by(self, column: usize) -> Self {
        Self {
            filter: Some(column),
            ..self
        }
    }
}

impl fmt::Debug for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} AS {}", self.describe(), self.name)
    }
}

impl Aggregate {
    /// What is computed, in a form that stays the same.
    fn describe(&self) -> String {
        let mut text = match &self.what {
            What::Rows => "COUNT(*)".to_owned(),
            What::Function {
                function,
                column,
                distinct,
            } => format!(
                "{function}({}#{column})",
                if *distinct { "DISTINCT " } else { "" }
            ),
            What::Custom { id, column, .. } => format!("{id:?}(#{column})"),
        };
        if let Some(filter) = self.filter {
            text += &format!(" FILTER #{filter}");
        }
        text
    }
}

/// An aggregate over a schema.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) argument: Option<Argument>,
    pub(crate) filter: Option<usize>,
    /// A column of accumulators without any, to make others of.
    pub(crate) empty: Box<dyn Accumulators>,
    pub(crate) field: Field,
    pub(crate) description: String,
}

/// The column that an aggregate is of.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) column: usize,
    /// What it is cast to, where it is a dictionary whose values are looked at.
    pub(crate) decoded: Option<DataType>,
}

impl Clone for Plan {
    fn clone(&self) -> Self {
        Self {
            argument: self.argument.clone(),
            filter: self.filter,
            empty: self.empty.new_empty(),
            field: self.field.clone(),
            description: self.description.clone(),
        }
    }
}

impl Plan {
    pub(crate) fn new(aggregate: &Aggregate, schema: &SchemaRef) -> Result<Self, SpecError> {
        let name = &aggregate.name;
        let column = |index: usize| {
            schema.fields().get(index).ok_or(SpecError::NoSuchColumn {
                index,
                columns: schema.fields().len(),
            })
        };
        if let Some(filter) = aggregate.filter {
            let field = column(filter)?;
            if *field.data_type() != DataType::Boolean {
                return Err(SpecError::Filter {
                    aggregate: name.clone(),
                    column: field.name().clone(),
                    found: Box::new(field.data_type().clone()),
                });
            }
        }
        let unsupported = |found: &DataType| SpecError::Argument {
            aggregate: name.clone(),
            what: aggregate.describe(),
            found: Box::new(found.clone()),
        };
        let count = || columns_of::<Count>(DataType::Null, DataType::Int64);
        let (argument, empty, field) = match &aggregate.what {
            What::Rows => (None, count(), Field::new(name, DataType::Int64, false)),
            What::Function {
                function: Function::Count,
                column: index,
                distinct: false,
            } => {
                column(*index)?;
                let argument = Argument {
                    column: *index,
                    decoded: None,
                };
                (
                    Some(argument),
                    count(),
                    Field::new(name, DataType::Int64, false),
                )
            }
            What::Function {
                function,
                column: index,
                distinct: of_distinct,
            } => {
                let (argument, value) = Argument::values(*index, column(*index)?.data_type());
                let (empty, result) = match function {
                    Function::Min | Function::Max => {
                        let least = *function == Function::Min;
                        (extreme(&value, least), Some(value.clone()))
                    }
                    _ if *of_distinct => {
                        let result = match function {
                            Function::Count => Some(DataType::Int64),
                            Function::Avg => average_type(&value),
                            _ => sum_type(&value),
                        };
                        (distinct(*function, &value), result)
                    }
                    Function::Sum => (sum(&value, Empty::Null), sum_type(&value)),
                    Function::Sum0 => (sum(&value, Empty::Zero), sum_type(&value)),
                    Function::Avg => (average(&value), average_type(&value)),
                    Function::Count => (Some(count()), Some(DataType::Int64)),
                };
                let (Some(empty), Some(result)) = (empty, result) else {
                    return Err(unsupported(&value));
                };
                let nullable = *function != Function::Count;
                (Some(argument), empty, Field::new(name, result, nullable))
            }
            What::Custom {
                column: index,
                result,
                columns,
                ..
            } => {
                let (argument, value) = Argument::values(*index, column(*index)?.data_type());
                let empty = columns(value, result.clone());
                (
                    Some(argument),
                    empty,
                    Field::new(name, result.clone(), true),
                )
            }
        };
        Ok(Self {
            argument,
            filter: aggregate.filter,
            empty,
            field,
            description: aggregate.describe(),
        })
    }
}

impl Argument {
    /// The column, and the type of its values.
    fn values(column: usize, data_type: &DataType) -> (Self, DataType) {
        let decoded = match data_type {
            DataType::Dictionary(_, value) => Some(value.as_ref().clone()),
            DataType::RunEndEncoded(_, value) => Some(value.data_type().clone()),
            _ => None,
        };
        let value = decoded.clone().unwrap_or_else(|| data_type.clone());
        (Self { column, decoded }, value)
    }
}

/// Plans are shared by what is made of them.
pub(crate) type Plans = Arc<[Plan]>;
