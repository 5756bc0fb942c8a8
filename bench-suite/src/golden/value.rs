//! SQL types and values as recordings write them, as Arrow types and arrays.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Decimal128Array, PrimitiveArray, StringBuilder,
    make_array,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::NaiveDate;
use serde_json::Value;

/// A SQL type, such as `DECIMAL(10,2)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlType {
    arrow: DataType,
    /// Digits after the point: of seconds in a TIME or TIMESTAMP, of the number in a DECIMAL.
    fraction_digits: u32,
}

/// A type that recordings do not use, or that Arrow has no counterpart for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("type {0} is unknown")]
pub struct UnknownType(String);

impl UnknownType {
    /// The name of the type if it is one of SQL that has no column here, such as `ARRAY`.
    #[must_use]
    pub fn unsupported(&self) -> Option<&str> {
        let end = self.0.find(|c: char| !c.is_ascii_uppercase());
        let name = &self.0[..end.unwrap_or(self.0.len())];
        ["ARRAY", "INTERVAL", "MAP", "MULTISET", "RAW", "ROW"]
            .contains(&name)
            .then_some(name)
    }
}

/// A value that is not one of its type's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("value {value} {problem} {sql_type}")]
pub struct BadValue {
    value: String,
    problem: Problem,
    sql_type: DataType,
}

impl BadValue {
    /// Whether the value is good and only Arrow's type too narrow for it: a TIMESTAMP(7) to
    /// TIMESTAMP(9) counts nanoseconds in 64 bits, which end in the years 1677 and 2262.
    #[must_use]
    pub fn is_beyond_arrow(&self) -> bool {
        self.problem == Problem::BeyondArrow
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    NotOfType,
    BeyondArrow,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOfType => "is not a value of",
            Self::BeyondArrow => "is beyond the range of",
        })
    }
}

impl SqlType {
    /// Reads a type as recordings write it: no blank after the comma and no `NOT NULL`.
    ///
    /// # Errors
    ///
    /// [`UnknownType`] with the text.
    pub fn parse(text: &str) -> Result<Self, UnknownType> {
        let unknown = || UnknownType(text.to_owned());
        let (name, arguments) = match text.split_once('(') {
            None => (text, Vec::new()),
            Some((name, rest)) => {
                let inner = rest.strip_suffix(')').ok_or_else(unknown)?;
                let numbers = inner
                    .split(',')
                    .map(str::parse)
                    .collect::<Result<Vec<u32>, _>>();
                (name, numbers.map_err(|_| unknown())?)
            }
        };
        let mut fraction_digits = 0;
        let arrow = match (name, arguments.as_slice()) {
            ("BOOLEAN", []) => DataType::Boolean,
            ("TINYINT", []) => DataType::Int8,
            ("SMALLINT", []) => DataType::Int16,
            ("INT", []) => DataType::Int32,
            ("BIGINT", []) => DataType::Int64,
            ("FLOAT", []) => DataType::Float32,
            ("DOUBLE", []) => DataType::Float64,
            ("DATE", []) => DataType::Date32,
            ("TIME", []) => DataType::Time32(TimeUnit::Millisecond),
            ("TIME", &[digits @ 0..=3]) => {
                fraction_digits = digits;
                DataType::Time32(TimeUnit::Millisecond)
            }
            ("CHAR" | "VARCHAR", [_]) | ("STRING", []) => DataType::Utf8,
            ("BINARY" | "VARBINARY", [_]) | ("BYTES", []) => DataType::Binary,
            ("DECIMAL", &[precision @ 1..=38, scale]) if scale <= precision => {
                fraction_digits = scale;
                DataType::Decimal128(precision as u8, scale as i8)
            }
            ("TIMESTAMP" | "TIMESTAMP_LTZ", &[digits @ 0..=9]) => {
                fraction_digits = digits;
                let unit = match digits {
                    0 => TimeUnit::Second,
                    1..=3 => TimeUnit::Millisecond,
                    4..=6 => TimeUnit::Microsecond,
                    _ => TimeUnit::Nanosecond,
                };
                let zone = (name == "TIMESTAMP_LTZ").then(|| Arc::from("UTC"));
                DataType::Timestamp(unit, zone)
            }
            _ => return Err(unknown()),
        };
        Ok(Self {
            arrow,
            fraction_digits,
        })
    }

    /// The Arrow type that holds the values.
    #[must_use]
    pub fn arrow(&self) -> &DataType {
        &self.arrow
    }

    /// One array of `values`.
    ///
    /// # Errors
    ///
    /// [`BadValue`] for the first value that is not of the type.
    pub fn array<'a>(&self, values: impl Iterator<Item = &'a Value>) -> Result<ArrayRef, BadValue> {
        match &self.arrow {
            DataType::Boolean => {
                let mut array = BooleanBuilder::new();
                for value in values {
                    array.append_option(self.optional(value, Value::as_bool)?);
                }
                Ok(Arc::new(array.finish()))
            }
            DataType::Int8 => self.primitive::<Int8Type>(values, narrow),
            DataType::Int16 => self.primitive::<Int16Type>(values, narrow),
            DataType::Int32 => self.primitive::<Int32Type>(values, narrow),
            DataType::Int64 => self.primitive::<Int64Type>(values, narrow),
            DataType::Float32 => self.primitive::<Float32Type>(values, |value| match value {
                Value::String(text) => named_float(text).map(|float| float as f32),
                _ => value.as_f64().map(|float| float as f32),
            }),
            DataType::Float64 => self.primitive::<Float64Type>(values, |value| match value {
                Value::String(text) => named_float(text),
                _ => value.as_f64(),
            }),
            DataType::Date32 => self.primitive::<Date32Type>(values, |value| {
                i32::try_from(days(value.as_str()?)?).ok()
            }),
            DataType::Time32(_) => self.primitive::<Time32MillisecondType>(values, |value| {
                let (second, nanos) = second_of_day(value.as_str()?, self.fraction_digits)?;
                i32::try_from(second * 1_000 + nanos / 1_000_000).ok()
            }),
            DataType::Decimal128(precision, scale) => {
                let unscaled = values
                    .map(|value| self.optional(value, |value| self.decimal(value.as_str()?)))
                    .collect::<Result<Decimal128Array, _>>()?;
                let array = unscaled.with_precision_and_scale(*precision, *scale);
                Ok(Arc::new(array.map_err(|_| {
                    self.bad("of this column", Problem::NotOfType)
                })?))
            }
            DataType::Utf8 => {
                let mut array = StringBuilder::new();
                for value in values {
                    array.append_option(self.optional(value, Value::as_str)?);
                }
                Ok(Arc::new(array.finish()))
            }
            DataType::Binary => {
                let mut array = BinaryBuilder::new();
                for value in values {
                    array.append_option(
                        self.optional(value, |value| bytes_of_hex(value.as_str()?))?,
                    );
                }
                Ok(Arc::new(array.finish()))
            }
            DataType::Timestamp(TimeUnit::Second, zone) => {
                self.timestamps::<TimestampSecondType>(values, 1, zone.clone())
            }
            DataType::Timestamp(TimeUnit::Millisecond, zone) => {
                self.timestamps::<TimestampMillisecondType>(values, 1_000, zone.clone())
            }
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                self.timestamps::<TimestampMicrosecondType>(values, 1_000_000, zone.clone())
            }
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                self.timestamps::<TimestampNanosecondType>(values, 1_000_000_000, zone.clone())
            }
            other => unreachable!("no SQL type is read as {other}"),
        }
    }

    fn primitive<'a, T: ArrowPrimitiveType>(
        &self,
        values: impl Iterator<Item = &'a Value>,
        read: impl Fn(&Value) -> Option<T::Native>,
    ) -> Result<ArrayRef, BadValue> {
        let array = values
            .map(|value| self.optional(value, &read))
            .collect::<Result<PrimitiveArray<T>, _>>()?;
        Ok(Arc::new(array.with_data_type(self.arrow.clone())))
    }

    fn timestamps<'a, T: ArrowPrimitiveType<Native = i64>>(
        &self,
        values: impl Iterator<Item = &'a Value>,
        units_per_second: i128,
        zone: Option<Arc<str>>,
    ) -> Result<ArrayRef, BadValue> {
        let mut array = PrimitiveArray::<T>::builder(0);
        for value in values {
            let nanos = self.optional(value, |value| {
                let text = value.as_str()?;
                let text = if zone.is_some() {
                    text.strip_suffix('Z')?
                } else {
                    text
                };
                epoch_nanos(text, self.fraction_digits)
            })?;
            let units = nanos.map(|nanos| {
                i64::try_from(nanos.div_euclid(1_000_000_000 / units_per_second))
                    .map_err(|_| self.bad(&value.to_string(), Problem::BeyondArrow))
            });
            array.append_option(units.transpose()?);
        }
        Ok(Arc::new(array.finish().with_data_type(self.arrow.clone())))
    }

    fn decimal(&self, text: &str) -> Option<i128> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if fraction.len() != self.fraction_digits as usize
            || !fraction.bytes().all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        format!("{whole}{fraction}").parse().ok()
    }

    fn optional<'a, T>(
        &self,
        value: &'a Value,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, BadValue> {
        if value.is_null() {
            return Ok(None);
        }
        read(value)
            .map(Some)
            .ok_or_else(|| self.bad(&value.to_string(), Problem::NotOfType))
    }

    fn bad(&self, value: &str, problem: Problem) -> BadValue {
        BadValue {
            value: value.to_owned(),
            problem,
            sql_type: self.arrow.clone(),
        }
    }
}

/// Value `i` of a column as text, `null` for NULL. A timestamp with a zone is shown in UTC.
#[must_use]
pub fn text_of(column: &ArrayRef, i: usize) -> String {
    // Arrow formats no zone but offsets, unless it carries the zone database.
    let column = match column.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let zoneless = DataType::Timestamp(*unit, None);
            let data = column.to_data().into_builder().data_type(zoneless).build();
            make_array(data.expect("a zone changes nothing about the values"))
        }
        _ => column.clone(),
    };
    let options = FormatOptions::new().with_null("null");
    ArrayFormatter::try_new(&column, &options).map_or_else(
        |error| error.to_string(),
        |formatter| formatter.value(i).to_string(),
    )
}

/// A whole number, which is a decimal string where a JSON number would lose digits.
fn narrow<T: TryFrom<i64>>(value: &Value) -> Option<T> {
    let number = match value {
        Value::String(text) => text.parse().ok()?,
        _ => value.as_i64()?,
    };
    T::try_from(number).ok()
}

fn named_float(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        "-0.0" => Some(-0.0),
        _ => None,
    }
}

/// Bytes written as hexadecimal digits, two a byte.
#[must_use]
pub fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    digits
        .chunks_exact(2)
        .map(|pair| Some((nibble(pair[0])? << 4 | nibble(pair[1])?) as u8))
        .collect()
}

/// Lower-case hexadecimal digits, two a byte.
#[must_use]
pub fn hex_of_bytes(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes whatever is written");
            text
        })
}

/// Nanoseconds since 1970-01-01T00:00:00 of `2024-02-29T12:34:56.789` with `digits` after the point.
fn epoch_nanos(text: &str, digits: u32) -> Option<i128> {
    let (date, time) = text.split_once('T')?;
    let (second, nanos) = second_of_day(time, digits)?;
    Some(i128::from(days(date)? * 86_400 + second) * 1_000_000_000 + i128::from(nanos))
}

/// Days since 1970-01-01 of `2024-02-29`.
fn days(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    if parts.next().is_some() {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32)?;
    Some(date.signed_duration_since(NaiveDate::default()).num_days())
}

/// Second and nanosecond of `12:34:56.789` with `fraction_digits` after the point.
fn second_of_day(text: &str, fraction_digits: u32) -> Option<(i64, i64)> {
    let (clock, nanos) = if fraction_digits == 0 {
        (text, 0)
    } else {
        let (clock, fraction) = text.split_once('.')?;
        let scale = 10_i64.pow(9_u32.checked_sub(fraction_digits)?);
        (clock, digits(fraction, fraction_digits as usize)? * scale)
    };
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second = digits(parts.next()?, 2)?;
    (parts.next().is_none() && hour < 24 && minute < 60 && second < 60)
        .then_some((hour * 3_600 + minute * 60 + second, nanos))
}

/// A number of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    if text.len() != count || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use serde_json::{Value, json};

    use super::{SqlType, bytes_of_hex, hex_of_bytes, text_of};

    /// The type and values of a column after a trip through Arrow, or why there was none.
    fn read(sql_type: &str, values: &Value) -> String {
        let sql_type = match SqlType::parse(sql_type) {
            Ok(sql_type) => sql_type,
            Err(error) => return error.to_string(),
        };
        match sql_type.array(values.as_array().expect("a list of values").iter()) {
            Ok(array) => {
                let values = (0..array.len()).map(|i| text_of(&array, i));
                format!(
                    "{} {}",
                    array.data_type(),
                    values.collect::<Vec<_>>().join(" ")
                )
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn timestamps_of_all_years_and_precisions_are_exact() {
        insta::assert_snapshot!(read("TIMESTAMP(0)", &json!(["0001-01-01T00:00:00"])), @"Timestamp(s) 0001-01-01T00:00:00");
        insta::assert_snapshot!(read("TIMESTAMP(3)", &json!(["9999-12-31T23:59:59.999", null])), @"Timestamp(ms) 9999-12-31T23:59:59.999 null");
        insta::assert_snapshot!(read("TIMESTAMP(6)", &json!(["0001-01-01T00:00:00.000001"])), @"Timestamp(µs) 0001-01-01T00:00:00.000001");
        insta::assert_snapshot!(read("TIMESTAMP(9)", &json!(["1969-12-31T23:59:59.999999999"])), @"Timestamp(ns) 1969-12-31T23:59:59.999999999");
        insta::assert_snapshot!(read("TIMESTAMP_LTZ(3)", &json!(["2024-02-29T12:34:56.789Z"])), @r#"Timestamp(ms, "UTC") 2024-02-29T12:34:56.789"#);
        insta::assert_snapshot!(read("TIME(3)", &json!(["12:34:56.789"])), @"Time32(ms) 12:34:56.789");
        insta::assert_snapshot!(read("DATE", &json!(["0001-01-01", "2024-02-29"])), @"Date32 0001-01-01 2024-02-29");
    }

    #[test]
    fn numbers_keep_every_bit() {
        let floats = SqlType::parse("DOUBLE")
            .expect("a type")
            .array(
                json!(["-0.0", "NaN", "-Infinity", 0.1, 1e16, 5e-324])
                    .as_array()
                    .expect("list")
                    .iter(),
            )
            .expect("doubles");
        let bits = floats
            .as_primitive::<arrow::datatypes::Float64Type>()
            .values()
            .iter()
            .map(|f| f.to_bits());
        assert_eq!(
            bits.collect::<Vec<_>>(),
            [
                0x8000_0000_0000_0000,
                0x7ff8_0000_0000_0000,
                0xfff0_0000_0000_0000,
                0x3fb9_9999_9999_999a,
                0x4341_c379_37e0_8000,
                1
            ]
        );
        insta::assert_snapshot!(read("BIGINT", &json!(["-9223372036854775808", 9])), @"Int64 -9223372036854775808 9");
        insta::assert_snapshot!(read("DECIMAL(38,10)", &json!(["-0.0000000001", "12.3400000000"])), @"Decimal128(38, 10) -0.0000000001 12.3400000000");
    }

    #[test]
    fn what_is_not_of_the_type_is_named() {
        insta::assert_snapshot!(read("INTERVAL", &json!([])), @"type INTERVAL is unknown");
        insta::assert_snapshot!(read("TIMESTAMP(10)", &json!([])), @"type TIMESTAMP(10) is unknown");
        insta::assert_snapshot!(read("TINYINT", &json!([128])), @"value 128 is not a value of Int8");
        insta::assert_snapshot!(read("DATE", &json!(["2023-02-29"])), @r#"value "2023-02-29" is not a value of Date32"#);
        insta::assert_snapshot!(read("TIMESTAMP(3)", &json!(["2024-02-29T12:34:56.78"])), @r#"value "2024-02-29T12:34:56.78" is not a value of Timestamp(ms)"#);
        insta::assert_snapshot!(read("DECIMAL(10,2)", &json!(["1.5"])), @r#"value "1.5" is not a value of Decimal128(10, 2)"#);
        insta::assert_snapshot!(read("VARBINARY(9)", &json!(["0g"])), @r#"value "0g" is not a value of Binary"#);
        insta::assert_snapshot!(read("TIMESTAMP(9)", &json!(["9999-12-31T23:59:59.999999999"])), @r#"value "9999-12-31T23:59:59.999999999" is beyond the range of Timestamp(ns)"#);
    }

    #[test]
    fn hexadecimal_digits_and_bytes_invert_each_other() {
        assert_eq!(bytes_of_hex("00ff7a"), Some(vec![0, 255, 122]));
        assert_eq!(hex_of_bytes(&[0, 255, 122]), "00ff7a");
        assert_eq!(bytes_of_hex("0"), None);
    }

    #[test]
    fn a_type_of_sql_is_told_from_a_misspelt_one() {
        let unsupported = |text| {
            let error = SqlType::parse(text).expect_err("not a type that has a column");
            error.unsupported().map(str::to_owned)
        };
        assert_eq!(unsupported("ARRAY<INT>").as_deref(), Some("ARRAY"));
        assert_eq!(unsupported("INTERVAL DAY(2)").as_deref(), Some("INTERVAL"));
        assert_eq!(unsupported("ARRAYS"), None);
        assert_eq!(unsupported("BIGNT"), None);
    }
}
