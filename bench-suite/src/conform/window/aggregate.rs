//! The aggregates of the model, each as Flink 2.2.1 has it. Rows are added in order, and partial
//! results are merged in order: both tell in the last digits of floats, and where values tie.

use arrow::datatypes::DataType;

use crate::conform::window::case::{AggCase, AggFn, WindowCase};
use crate::conform::window::cell::Cell;

/// Why a case has no aggregate: "avg_s: AVG takes no Utf8".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct BadAggregate {
    name: String,
    problem: String,
}

/// An aggregate over a column of the input.
#[derive(Clone, Debug)]
pub struct Aggregate {
    function: AggFn,
    /// The column; `None` for `*`.
    column: Option<usize>,
    distinct: bool,
    filter: Option<Filter>,
    /// Whether SUM and AVG are made of `$SUM0` and COUNT.
    reduced: bool,
    /// The type of the column.
    number: Option<NumberType>,
    /// The type of the sum.
    sum: Option<NumberType>,
}

impl Aggregate {
    /// The aggregate of a case.
    ///
    /// # Errors
    ///
    /// [`BadAggregate`] if it names no column, sums what is no number, or has a filter of a form that
    /// recordings do not have.
    pub fn new(case: &WindowCase, agg: &AggCase) -> Result<Self, BadAggregate> {
        let bad = |problem: String| BadAggregate {
            name: agg.name.clone(),
            problem,
        };
        let find = |name: &str| {
            case.input_column(name)
                .ok_or_else(|| bad(format!("there is no column {name}")))
        };
        let column = agg.arg.as_deref().map(find).transpose()?;
        let filter = match agg.filter.as_deref() {
            None => None,
            Some(text) => {
                let (name, condition) =
                    Condition::parse(text).ok_or_else(|| bad(format!("a filter {text}")))?;
                let column = find(name)?;
                Some(Filter { column, condition })
            }
        };
        let data_type = column.map(|column| case.types.input[column].sql_type.arrow());
        let number = data_type.and_then(NumberType::of);
        if number.is_none() && matches!(agg.function, AggFn::Sum | AggFn::Avg) {
            let function = if agg.function == AggFn::Sum {
                "SUM"
            } else {
                "AVG"
            };
            let of = data_type.map_or_else(|| "*".to_owned(), ToString::to_string);
            return Err(bad(format!("{function} takes no {of}")));
        }
        let has = |function| {
            case.aggs.iter().any(|other| {
                other.function == function
                    && other.arg == agg.arg
                    && other.distinct == agg.distinct
                    && other.filter == agg.filter
            })
        };
        let meet = has(AggFn::Count) && has(AggFn::Sum) && has(AggFn::Avg);
        let reduced = case.sum_avg_reduced && meet;
        let sum = match agg.function {
            AggFn::Avg if !reduced => number.map(NumberType::widened),
            _ => number,
        };
        Ok(Self {
            function: agg.function,
            column,
            distinct: agg.distinct,
            filter,
            reduced,
            number,
            sum,
        })
    }

    /// What no row has been added to.
    #[must_use]
    pub fn start(&self) -> Partial {
        let sum = if self.is_plain_sum() {
            None
        } else {
            self.sum.map(NumberType::zero)
        };
        Partial {
            count: 0,
            sum,
            extreme: None,
            seen: Vec::new(),
        }
    }

    /// Whether a row passes the filter.
    #[must_use]
    pub fn takes(&self, row: &[Cell]) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| filter.is_true(row))
    }

    /// Whether SUM and AVG are made of `$SUM0` and COUNT.
    #[must_use]
    pub fn is_reduced(&self) -> bool {
        self.reduced
    }

    /// SUM or AVG, made of `$SUM0` and COUNT.
    #[must_use]
    pub fn of_sum0(&self, sum0: &Cell, count: i64) -> Cell {
        match (Number::of(sum0), self.number) {
            (Some(sum), Some(number)) if count != 0 => match self.function {
                AggFn::Avg => number.average(sum, count),
                _ => number.cell(sum),
            },
            _ => Cell::Null,
        }
    }

    /// Adds a row.
    pub fn add(&self, to: &mut Partial, row: &[Cell]) {
        if !self.takes(row) {
            return;
        }
        let value = self.column.map(|column| &row[column]);
        match value {
            Some(Cell::Null) => {}
            Some(value) if self.distinct => see(&mut to.seen, value),
            value => self.count(to, value),
        }
    }

    fn count(&self, to: &mut Partial, value: Option<&Cell>) {
        to.count += 1;
        let Some(value) = value else {
            return;
        };
        match self.function {
            AggFn::Count => {}
            AggFn::Sum | AggFn::Avg => {
                if let Some(number) = Number::of(value) {
                    to.sum = self.plus(to.sum, Some(number));
                }
            }
            AggFn::Min | AggFn::Max => self.meet(&mut to.extreme, value),
        }
    }

    /// Merges a partial result of later rows, or of those that Flink takes for later.
    pub fn merge(&self, to: &mut Partial, other: &Partial) {
        for value in &other.seen {
            see(&mut to.seen, value);
        }
        to.count += other.count;
        to.sum = self.plus(to.sum, other.sum);
        if let Some(value) = &other.extreme {
            self.meet(&mut to.extreme, value);
        }
    }

    /// The value that the query gives.
    #[must_use]
    pub fn value(&self, of: &Partial) -> Cell {
        if self.distinct {
            let mut plain = self.start();
            for value in &of.seen {
                self.count(&mut plain, Some(value));
            }
            return self.plain_value(&plain);
        }
        self.plain_value(of)
    }

    fn plain_value(&self, of: &Partial) -> Cell {
        match self.function {
            AggFn::Count => Cell::Integer(of.count),
            AggFn::Min | AggFn::Max => of.extreme.clone().unwrap_or(Cell::Null),
            AggFn::Sum | AggFn::Avg if of.count == 0 => Cell::Null,
            AggFn::Sum => match (of.sum, self.number) {
                (Some(sum), Some(number)) => number.cell(sum),
                _ => Cell::Null,
            },
            AggFn::Avg => match (of.sum, self.number) {
                (Some(sum), Some(number)) => number.average(sum, of.count),
                _ => Cell::Null,
            },
        }
    }

    /// The sum of two sums. To a plain SUM nothing (no value yet, or an overflow) is as good as
    /// zero; to the others it is there to stay.
    fn plus(&self, a: Option<Number>, b: Option<Number>) -> Option<Number> {
        match (a, b) {
            (Some(a), Some(b)) => a.plus(b, self.sum?),
            (Some(one), None) | (None, Some(one)) if self.is_plain_sum() => Some(one),
            _ => None,
        }
    }

    fn is_plain_sum(&self) -> bool {
        self.function == AggFn::Sum && !self.reduced
    }

    /// The first stays unless another is truly less or greater.
    fn meet(&self, extreme: &mut Option<Cell>, value: &Cell) {
        let replaces = match extreme {
            None => true,
            Some(extreme) if self.function == AggFn::Min => is_less(value, extreme),
            Some(extreme) => is_less(extreme, value),
        };
        if replaces {
            *extreme = Some(value.clone());
        }
    }
}

/// A partial result of an [`Aggregate`].
#[derive(Clone, Debug)]
pub struct Partial {
    count: i64,
    sum: Option<Number>,
    extreme: Option<Cell>,
    /// The distinct values, in the order in which they came; then the others are not used.
    seen: Vec<Cell>,
}

fn see(seen: &mut Vec<Cell>, value: &Cell) {
    if !seen.contains(value) {
        seen.push(value.clone());
    }
}

/// The order of SQL: NaN is neither less nor greater than anything, and zeros tie.
fn is_less(a: &Cell, b: &Cell) -> bool {
    match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => a < b,
        (Cell::Double(a), Cell::Double(b)) => a < b,
        _ => a < b,
    }
}

/// What can be summed up.
#[derive(Clone, Copy, Debug)]
enum NumberType {
    /// Of so many bits.
    Integer(u32),
    Float,
    Double,
    /// With so many digits after the point.
    Decimal(i8),
}

/// A sum. A FLOAT that AVG sums up as DOUBLE is a `Double`.
#[derive(Clone, Copy, Debug)]
enum Number {
    Integer(i64),
    Float(f32),
    Double(f64),
    Decimal(i128),
}

impl NumberType {
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 => Self::Integer(8),
            DataType::Int16 => Self::Integer(16),
            DataType::Int32 => Self::Integer(32),
            DataType::Int64 => Self::Integer(64),
            DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Double,
            DataType::Decimal128(_, scale) => Self::Decimal(*scale),
            _ => return None,
        })
    }

    /// In which AVG sums up.
    fn widened(self) -> Self {
        match self {
            Self::Integer(_) => Self::Integer(64),
            Self::Float | Self::Double => Self::Double,
            Self::Decimal(scale) => Self::Decimal(scale),
        }
    }

    fn zero(self) -> Number {
        match self {
            Self::Integer(_) => Number::Integer(0),
            Self::Float => Number::Float(0.0),
            Self::Double => Number::Double(0.0),
            Self::Decimal(_) => Number::Decimal(0),
        }
    }

    fn cell(self, sum: Number) -> Cell {
        match (self, sum) {
            (Self::Decimal(scale), Number::Decimal(unscaled)) => Cell::Decimal { unscaled, scale },
            (_, Number::Integer(sum)) => Cell::Integer(sum),
            (_, Number::Float(sum)) => Cell::Float(sum),
            (_, Number::Double(sum)) => Cell::Double(sum),
            (_, Number::Decimal(unscaled)) => Cell::Decimal { unscaled, scale: 0 },
        }
    }

    /// The average in the type of the result.
    fn average(self, sum: Number, count: i64) -> Cell {
        match (self, sum) {
            (Self::Integer(bits), Number::Integer(sum)) => {
                Cell::Integer(wrapped(sum.wrapping_div(count), bits))
            }
            (Self::Float, Number::Double(sum)) => Cell::Float((sum / count as f64) as f32),
            (_, Number::Float(sum)) => Cell::Float((f64::from(sum) / count as f64) as f32),
            (_, Number::Double(sum)) => Cell::Double(sum / count as f64),
            (Self::Decimal(scale), Number::Decimal(sum)) => decimal_average(sum, scale, count),
            (_, sum) => self.cell(sum),
        }
    }
}

impl Number {
    fn of(cell: &Cell) -> Option<Self> {
        Some(match cell {
            Cell::Integer(value) => Self::Integer(*value),
            Cell::Float(value) => Self::Float(*value),
            Cell::Double(value) => Self::Double(*value),
            Cell::Decimal { unscaled, .. } => Self::Decimal(*unscaled),
            _ => return None,
        })
    }

    /// The sum in a type; `None` if a decimal needs more than 38 digits.
    fn plus(self, other: Self, of: NumberType) -> Option<Self> {
        match (self, other, of) {
            (Self::Integer(a), Self::Integer(b), NumberType::Integer(bits)) => {
                Some(Self::Integer(wrapped(a.wrapping_add(b), bits)))
            }
            (Self::Float(a), Self::Float(b), _) => Some(Self::Float(a + b)),
            (Self::Double(a), Self::Double(b), _) => Some(Self::Double(a + b)),
            (Self::Double(a), Self::Float(b), _) => Some(Self::Double(a + f64::from(b))),
            (Self::Decimal(a), Self::Decimal(b), _) => {
                let sum = a.checked_add(b).filter(|sum| fits(*sum));
                sum.map(Self::Decimal)
            }
            // A column has one type.
            _ => None,
        }
    }
}

/// The low `bits`, with the sign that they then have.
fn wrapped(value: i64, bits: u32) -> i64 {
    let unused = 64 - bits;
    value << unused >> unused
}

fn fits(unscaled: i128) -> bool {
    unscaled.unsigned_abs() < 10_u128.pow(38)
}

/// With at least six digits after the point, halves away from zero. NULL if that is too wide.
fn decimal_average(sum: i128, scale: i8, count: i64) -> Cell {
    let count = i128::from(count);
    let wider = scale.max(6);
    let more = 10_i128.pow((wider - scale).unsigned_abs().into());
    // Only the remainder is widened in full, so that nothing is lost before the last digit.
    let rest = sum % count * more;
    let half = i128::from((rest % count).unsigned_abs() * 2 >= count.unsigned_abs());
    let last = rest / count + half * rest.signum();
    let unscaled = (sum / count)
        .checked_mul(more)
        .and_then(|whole| whole.checked_add(last))
        .filter(|unscaled| fits(*unscaled));
    unscaled.map_or(Cell::Null, |unscaled| Cell::Decimal {
        unscaled,
        scale: wider,
    })
}

#[derive(Clone, Debug)]
struct Filter {
    column: usize,
    condition: Condition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Greater(i64),
    Less(i64),
    IsNull,
}

impl Filter {
    fn is_true(&self, row: &[Cell]) -> bool {
        match (self.condition, &row[self.column]) {
            (Condition::Greater(than), Cell::Integer(value)) => *value > than,
            (Condition::Less(than), Cell::Integer(value)) => *value < than,
            (Condition::IsNull, value) => *value == Cell::Null,
            _ => false,
        }
    }
}

impl Condition {
    /// The column and the condition of `v > 10`, `v < 0` or `v IS NULL`.
    fn parse(text: &str) -> Option<(&str, Self)> {
        let (column, condition) = text.split_once(' ')?;
        let condition = match condition.split_once(' ')? {
            ("IS", "NULL") => Self::IsNull,
            (">", number) => Self::Greater(number.parse().ok()?),
            ("<", number) => Self::Less(number.parse().ok()?),
            _ => return None,
        };
        Some((column, condition))
    }
}

#[cfg(test)]
mod tests {
    use super::{Condition, decimal_average, wrapped};

    #[test]
    fn integers_wrap_in_their_bits() {
        assert_eq!(wrapped(128, 8), -128);
        assert_eq!(wrapped(-32_769, 16), 32_767);
        assert_eq!(wrapped(i64::MIN, 64), i64::MIN);
    }

    #[test]
    fn a_decimal_average_rounds_halves_away_from_zero() {
        let show = |sum, scale, count| decimal_average(sum, scale, count).to_string();
        insta::assert_snapshot!(show(1_000, 2, 3), @"3.333333");
        insta::assert_snapshot!(show(1, 6, 2), @"0.000001");
        insta::assert_snapshot!(show(-1, 6, 2), @"-0.000001");
        insta::assert_snapshot!(show(-2, 6, 3), @"-0.000001");
        insta::assert_snapshot!(show(10_i128.pow(38) - 1, 0, 1), @"null");
    }

    #[test]
    fn filters_are_read() {
        assert_eq!(
            Condition::parse("v > 10"),
            Some(("v", Condition::Greater(10)))
        );
        assert_eq!(
            Condition::parse("v IS NULL"),
            Some(("v", Condition::IsNull))
        );
        assert_eq!(Condition::parse("v >= 10"), None);
    }
}
