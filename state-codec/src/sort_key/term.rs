//! One column of the order: what its values look like in a key.

use arrow::datatypes::{DataType, Field, TimeUnit};

use super::{FloatOrder, Nulls, Order, PREFIX_BYTES, SortColumn};
use crate::row::{DecodeError, Value};

/// What follows a 00 that ends a string, and what follows one that is in it.
pub(super) const TERMINATOR: u8 = 0x01;
const ESCAPE: u8 = 0xff;

/// The values of a column, dictionaries seen through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Timestamp(TimeUnit),
    CompactDecimal,
    WideDecimal,
    Float32,
    Float64,
    FixedBytes(usize),
    Bytes,
}

impl Kind {
    fn new(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Dictionary(_, values) if !matches!(**values, DataType::Dictionary(..)) => {
                return Self::new(values);
            }
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean,
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 | DataType::Date32 | DataType::Time32(TimeUnit::Millisecond) => {
                Self::Int32
            }
            DataType::Int64 => Self::Int64,
            DataType::Timestamp(unit, _) => Self::Timestamp(*unit),
            DataType::Decimal128(precision, _) if *precision <= 18 => Self::CompactDecimal,
            DataType::Decimal128(..) => Self::WideDecimal,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::FixedSizeBinary(width) => Self::FixedBytes(usize::try_from(*width).ok()?),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Bytes,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Bytes,
            _ => return None,
        })
    }

    fn body(self) -> Body {
        match self {
            Self::Null => Body::Number(0),
            Self::Boolean | Self::Int8 => Body::Number(1),
            Self::Int16 => Body::Number(2),
            Self::Int32 | Self::Float32 => Body::Number(4),
            Self::Int64 | Self::Timestamp(_) | Self::CompactDecimal | Self::Float64 => {
                Body::Number(8)
            }
            Self::WideDecimal => Body::Number(16),
            Self::FixedBytes(width) if width <= PREFIX_BYTES => Body::Number(width),
            Self::FixedBytes(width) => Body::Raw(width),
            Self::Bytes => Body::Escaped,
        }
    }
}

/// What is done to a number to put it into a key of at most 16 bytes: it is shifted, then combined
/// with a constant that holds the marker and the inversion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) constant: u128,
    pub(super) shift: usize,
}

impl Place {
    #[inline]
    pub(super) fn of(self, number: u128) -> u128 {
        self.constant ^ (number << self.shift)
    }

    /// The same for the bits of an `i64` in the place of the number that orders as it does.
    pub(super) fn of_signed(self) -> Self {
        let sign = int64(0);
        Self {
            constant: self.of(sign),
            shift: self.shift,
        }
    }
}

/// How the values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A number of so many bytes, at most 16.
    Number(usize),
    /// So many bytes.
    Raw(usize),
    /// Any number of bytes, escaped and terminated.
    Escaped,
}

/// A value in the form in which it is written, but for the direction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a> {
    Null,
    Number(u128),
    Bytes(&'a [u8]),
}

/// The bytes that tell NULL from a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker {
    pub(super) null: u8,
    pub(super) value: u8,
}

#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) column: usize,
    pub(super) data_type: DataType,
    pub(super) kind: Kind,
    pub(super) body: Body,
    pub(super) marker: Option<Marker>,
    /// All ones in the width of a number if the column is descending, otherwise 0.
    mask: u128,
    /// How far the term is from the low end of the prefix; used only if the whole key fits there.
    shift: usize,
    /// What NaN is written as, if it ties with every number.
    tying_nan: Option<u128>,
}

impl Term {
    /// A term that starts at byte `at` of the key; `None` if the type has no order.
    pub(super) fn new(
        field: &Field,
        sort: &SortColumn,
        floats: FloatOrder,
        at: usize,
    ) -> Option<Self> {
        let kind = Kind::new(field.data_type())?;
        let body = kind.body();
        let marker = match sort.nulls {
            Nulls::First => Marker { null: 0, value: 1 },
            Nulls::Last => Marker { null: 2, value: 1 },
        };
        let mask = match (sort.order, body) {
            (Order::Ascending, _) | (Order::Descending, Body::Number(0)) => 0,
            (Order::Descending, Body::Number(width)) => u128::MAX >> (128 - 8 * width),
            (Order::Descending, Body::Raw(_) | Body::Escaped) => u128::MAX,
        };
        let tying_nan = match (floats, kind) {
            (FloatOrder::Flink, Kind::Float32) => Some(float32(f32::NAN) ^ mask),
            (FloatOrder::Flink, Kind::Float64) => Some(float64(f64::NAN) ^ mask),
            _ => None,
        };
        let mut term = Self {
            column: sort.column,
            data_type: field.data_type().clone(),
            kind,
            body,
            marker: (field.is_nullable() && kind != Kind::Null).then_some(marker),
            mask,
            shift: 0,
            tying_nan,
        };
        let end = at.saturating_add(term.least_bytes());
        term.shift = 8 * PREFIX_BYTES.saturating_sub(end);
        Some(term)
    }

    pub(super) fn marker_bytes(&self) -> usize {
        usize::from(self.marker.is_some())
    }

    /// The bytes of every value and NULL, if they are equally many.
    pub(super) fn fixed_bytes(&self) -> Option<usize> {
        (self.body != Body::Escaped).then(|| self.least_bytes())
    }

    /// The bytes that do not depend on the value.
    pub(super) fn least_bytes(&self) -> usize {
        self.marker_bytes()
            + match self.body {
                Body::Number(width) | Body::Raw(width) => width,
                Body::Escaped => 0,
            }
    }

    /// The bytes of the body of `value`.
    pub(super) fn body_bytes(&self, value: Scalar<'_>) -> usize {
        match (self.body, value) {
            (Body::Number(width) | Body::Raw(width), _) => width,
            (Body::Escaped, Scalar::Bytes(bytes)) => {
                bytes.len() + bytes.iter().filter(|&&byte| byte == 0).count() + 2
            }
            // Without a marker only the terminator keeps keys from being beginnings of others.
            (Body::Escaped, _) if self.marker.is_none() => 2,
            (Body::Escaped, _) => 0,
        }
    }

    pub(super) fn nan_ties(&self) -> bool {
        self.tying_nan.is_some()
    }

    /// Whether a body, as written, is a NaN that ties with every number.
    pub(super) fn is_nan_that_ties(&self, number: u128) -> bool {
        self.tying_nan == Some(number)
    }

    /// What each byte of a body is combined with: `ff` if the column is descending.
    pub(super) fn inversion(&self) -> u8 {
        (self.mask & 0xff) as u8
    }

    /// The term of a number, where it belongs in a key of at most 16 bytes.
    #[inline]
    pub(super) fn placed(&self, number: u128) -> u128 {
        self.place().of(number)
    }

    /// Where a number belongs in a key of at most 16 bytes.
    pub(super) fn place(&self) -> Place {
        let marker = self.marked(self.marker.map_or(0, |marker| marker.value));
        Place {
            constant: (marker | self.mask) << self.shift,
            shift: self.shift,
        }
    }

    /// The term of NULL, where it belongs in a key of at most 16 bytes.
    pub(super) fn placed_null(&self) -> u128 {
        self.marked(self.marker.map_or(0, |marker| marker.null)) << self.shift
    }

    /// The marker in front of a body of zeros. A body of 16 bytes has none in a key that fits.
    #[inline]
    fn marked(&self, marker: u8) -> u128 {
        match self.body {
            Body::Number(width) if width < PREFIX_BYTES => u128::from(marker) << (8 * width),
            _ => 0,
        }
    }

    /// Writes marker and body to the beginning of `out`, which holds zeros, and says how long they are.
    #[inline]
    pub(super) fn write(&self, value: Scalar<'_>, out: &mut [u8]) -> usize {
        let mut start = 0;
        if let Some(marker) = self.marker {
            out[0] = if matches!(value, Scalar::Null) {
                marker.null
            } else {
                marker.value
            };
            start = 1;
        }
        let end = start + self.body_bytes(value);
        let out = &mut out[start..end];
        match (value, self.body) {
            (Scalar::Number(number), _) => {
                let bytes = (number ^ self.mask).to_be_bytes();
                out.copy_from_slice(&bytes[PREFIX_BYTES - out.len()..]);
            }
            (Scalar::Bytes(bytes), Body::Escaped) => write_escaped(bytes, self.inversion(), out),
            (Scalar::Bytes(bytes), _) => {
                for (out, byte) in out.iter_mut().zip(bytes) {
                    *out = byte ^ self.inversion();
                }
            }
            (Scalar::Null, Body::Escaped) if self.marker.is_none() => {
                write_escaped(&[], self.inversion(), out);
            }
            (Scalar::Null, _) => {}
        }
        end
    }

    /// What is written for a value that was read from a row.
    pub(super) fn scalar<'a>(&self, value: Value<'a>) -> Result<Scalar<'a>, DecodeError> {
        let number = match (self.kind, value) {
            (_, Value::Null) => return Ok(Scalar::Null),
            (Kind::Boolean, Value::Boolean(value)) => u128::from(value),
            (Kind::Int8, Value::Int(value)) => int8(value as i8),
            (Kind::Int16, Value::Int(value)) => int16(value as i16),
            (Kind::Int32, Value::Int(value)) => int32(value as i32),
            (Kind::Int64 | Kind::Timestamp(TimeUnit::Millisecond), Value::Int(value)) => {
                int64(value)
            }
            // The row holds milliseconds of whole seconds.
            (Kind::Timestamp(TimeUnit::Second), Value::Int(millis)) => {
                int64(millis.div_euclid(1_000))
            }
            (Kind::Timestamp(unit), Value::Timestamp { millis, nanos }) => {
                let nanos = i128::from(millis) * 1_000_000 + i128::from(nanos);
                let value = match unit {
                    TimeUnit::Microsecond => nanos.div_euclid(1_000),
                    _ => nanos,
                };
                let value = i64::try_from(value).map_err(|_| {
                    DecodeError::malformed("timestamp to sort by", 0, "is out of range")
                })?;
                int64(value)
            }
            (Kind::CompactDecimal, Value::Decimal(value)) => compact_decimal(value),
            (Kind::WideDecimal, Value::Decimal(value)) => int128(value),
            (Kind::Float32, Value::Float32(value)) => float32(value),
            (Kind::Float64, Value::Float64(value)) => float64(value),
            (Kind::FixedBytes(width), Value::Bytes(bytes)) if bytes.len() == width => {
                match self.body {
                    Body::Number(_) => big_endian(bytes),
                    _ => return Ok(Scalar::Bytes(bytes)),
                }
            }
            (Kind::Bytes, Value::Bytes(bytes)) => return Ok(Scalar::Bytes(bytes)),
            _ => {
                let reason = "is not of the type of its column";
                return Err(DecodeError::malformed("value to sort by", 0, reason));
            }
        };
        Ok(Scalar::Number(number))
    }
}

fn write_escaped(value: &[u8], inversion: u8, out: &mut [u8]) {
    let mut at = 0;
    for (i, run) in value.split(|&byte| byte == 0).enumerate() {
        if i > 0 {
            out[at..at + 2].copy_from_slice(&[0, ESCAPE]);
            at += 2;
        }
        out[at..at + run.len()].copy_from_slice(run);
        at += run.len();
    }
    out[at..].copy_from_slice(&[0, TERMINATOR]);
    if inversion != 0 {
        out.iter_mut().for_each(|byte| *byte ^= inversion);
    }
}

pub(super) fn int8(value: i8) -> u128 {
    u128::from(value as u8 ^ 1 << 7)
}

pub(super) fn int16(value: i16) -> u128 {
    u128::from(value as u16 ^ 1 << 15)
}

pub(super) fn int32(value: i32) -> u128 {
    u128::from(value as u32 ^ 1 << 31)
}

pub(super) fn int64(value: i64) -> u128 {
    u128::from(value as u64 ^ 1 << 63)
}

pub(super) fn int128(value: i128) -> u128 {
    value as u128 ^ 1 << 127
}

/// Values that no decimal of 18 digits has tie at the ends of the 64 bits.
pub(super) fn compact_decimal(value: i128) -> u128 {
    int64(value.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

pub(super) fn float32(value: f32) -> u128 {
    // Adding +0.0 turns −0.0 into it and leaves all else as it is.
    let bits = if value.is_nan() {
        0x7fc0_0000
    } else {
        (value + 0.0).to_bits()
    };
    let negative = (bits as i32 >> 31) as u32;
    u128::from(bits ^ (negative | 1 << 31))
}

pub(super) fn float64(value: f64) -> u128 {
    let bits = if value.is_nan() {
        0x7ff8_0000_0000_0000
    } else {
        (value + 0.0).to_bits()
    };
    let negative = (bits as i64 >> 63) as u64;
    u128::from(bits ^ (negative | 1 << 63))
}

/// At most 16 bytes as a number.
pub(super) fn big_endian(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .fold(0, |number, &byte| number << 8 | u128::from(byte))
}
