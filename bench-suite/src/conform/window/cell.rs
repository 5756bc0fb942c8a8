//! Values as window recordings have them, with an equality that tells bits apart.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use arrow::datatypes::{DataType, TimeUnit};
use serde_json::Value;

/// A value of a row. Two are equal if they are the same to Flink: all NaNs are one value, and the
/// zeros of both signs are two. The order is any one, for sorting; it is not SQL's.
#[derive(Clone, Debug)]
pub enum Cell {
    /// NULL of any type.
    Null,
    /// BOOLEAN.
    Boolean(bool),
    /// TINYINT to BIGINT; also DATE in days, and TIMESTAMP and TIMESTAMP_LTZ in milliseconds.
    Integer(i64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL.
    Decimal {
        /// The digits.
        unscaled: i128,
        /// How many of them stand after the point.
        scale: i8,
    },
    /// STRING.
    Text(String),
}

/// A value that is not one of its type's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadCell(String);

impl BadCell {
    pub(crate) fn width(columns: usize, values: usize) -> Self {
        Self(format!("{values} values for {columns} columns"))
    }
}

impl Cell {
    /// Reads a value of a column of `data_type`: numbers of DATE and TIMESTAMP, strings of DECIMAL,
    /// FLOAT and DOUBLE.
    ///
    /// # Errors
    ///
    /// [`BadCell`] if it is not one.
    pub fn read(value: &Value, data_type: &DataType) -> Result<Self, BadCell> {
        let cell = match (data_type, value) {
            (_, Value::Null) => Some(Self::Null),
            (DataType::Boolean, _) => value.as_bool().map(Self::Boolean),
            (DataType::Float32, Value::String(text)) => text.parse().ok().map(Self::Float),
            (DataType::Float64, Value::String(text)) => text.parse().ok().map(Self::Double),
            (DataType::Decimal128(_, scale), Value::String(text)) => decimal(text, *scale),
            (DataType::Utf8, Value::String(text)) => Some(Self::Text(text.clone())),
            _ => value
                .as_i64()
                .filter(|number| {
                    integers(data_type)
                        .is_some_and(|(least, greatest)| (least..=greatest).contains(number))
                })
                .map(Self::Integer),
        };
        cell.ok_or_else(|| BadCell(format!("value {value} is not a value of {data_type}")))
    }

    /// What equality looks at.
    fn key(&self) -> (u8, i8, i128, &str) {
        match self {
            Self::Null => (0, 0, 0, ""),
            Self::Boolean(value) => (1, 0, i128::from(*value), ""),
            Self::Integer(value) => (2, 0, i128::from(*value), ""),
            Self::Float(value) if value.is_nan() => (3, 1, 0, ""),
            Self::Float(value) => (3, 0, i128::from(value.to_bits()), ""),
            Self::Double(value) if value.is_nan() => (4, 1, 0, ""),
            Self::Double(value) => (4, 0, i128::from(value.to_bits()), ""),
            Self::Decimal { unscaled, scale } => (5, *scale, *unscaled, ""),
            Self::Text(text) => (6, 0, 0, text),
        }
    }
}

/// The least and the greatest number of a type that is recorded as a number.
fn integers(data_type: &DataType) -> Option<(i64, i64)> {
    match data_type {
        DataType::Int8 => Some((i8::MIN.into(), i8::MAX.into())),
        DataType::Int16 => Some((i16::MIN.into(), i16::MAX.into())),
        DataType::Int32 | DataType::Date32 => Some((i32::MIN.into(), i32::MAX.into())),
        DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Some((i64::MIN, i64::MAX))
        }
        _ => None,
    }
}

/// A decimal with exactly `scale` digits after the point.
fn decimal(text: &str, scale: i8) -> Option<Cell> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_exact = fraction.len() == usize::try_from(scale).ok()?;
    if !is_exact || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unscaled = format!("{whole}{fraction}").parse().ok()?;
    Some(Cell::Decimal { unscaled, scale })
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Cell {}

impl Hash for Cell {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialOrd for Cell {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cell {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// With all digits that tell it from others: `-0.0`, `1e300`, `"text"`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Double(value) => write!(f, "{value:?}"),
            Self::Decimal { unscaled, scale } => {
                let sign = if *unscaled < 0 { "-" } else { "" };
                let scale = usize::try_from(*scale).unwrap_or(0);
                let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
                let (whole, fraction) = digits.split_at(digits.len() - scale);
                let point = if scale == 0 { "" } else { "." };
                write!(f, "{sign}{whole}{point}{fraction}")
            }
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use serde_json::json;

    use super::Cell;

    #[test]
    fn zeros_of_both_signs_differ_and_nans_do_not() {
        assert_eq!(Cell::Double(f64::NAN), Cell::Double(-f64::NAN));
        assert_ne!(Cell::Double(0.0), Cell::Double(-0.0));
        assert_ne!(Cell::Null, Cell::Integer(0));
    }

    #[test]
    fn values_are_read_to_the_last_digit() {
        let read = |value, data_type| {
            Cell::read(&value, &data_type).map_or_else(|e| e.to_string(), |c| c.to_string())
        };
        insta::assert_snapshot!(read(json!(i64::MIN), DataType::Int64), @"-9223372036854775808");
        insta::assert_snapshot!(read(json!("4.9E-324"), DataType::Float64), @"5e-324");
        insta::assert_snapshot!(read(json!("-0.0"), DataType::Float32), @"-0.0");
        insta::assert_snapshot!(read(json!("-Infinity"), DataType::Float32), @"-inf");
        insta::assert_snapshot!(read(json!("-0.05"), DataType::Decimal128(10, 2)), @"-0.05");
        insta::assert_snapshot!(read(json!("7"), DataType::Decimal128(38, 0)), @"7");
        insta::assert_snapshot!(read(json!("0.5"), DataType::Decimal128(10, 2)), @r#"value "0.5" is not a value of Decimal128(10, 2)"#);
        insta::assert_snapshot!(read(json!(128), DataType::Int8), @"value 128 is not a value of Int8");
    }
}
