//! Arrow columns as numbers and bytes.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};

use super::term::{self, Kind};

/// What is done with the numbers of a column; generic over the iterator, so that each type gets a loop
/// of its own.
pub(super) trait NumberSink {
    /// Takes one number per row; that of a NULL is meaningless.
    fn take(self, numbers: impl Iterator<Item = u128>);
}

impl NumberSink for &mut Vec<u128> {
    fn take(self, numbers: impl Iterator<Item = u128>) {
        self.extend(numbers);
    }
}

/// Hands the values of `array`, which are of `kind`, to `sink`.
pub(super) fn number_column(kind: Kind, array: &ArrayRef, sink: impl NumberSink) {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let mut numbers = Vec::new();
        number_column(kind, dictionary.values(), &mut numbers);
        let keys = dictionary_keys(array);
        // Without values there are only NULLs, but still one key each.
        return sink.take(
            keys.iter()
                .map(|&key| numbers.get(key).copied().unwrap_or(0)),
        );
    }
    match kind {
        Kind::Boolean => sink.take(array.as_boolean().values().iter().map(u128::from)),
        Kind::Int8 => sink.take(values::<Int8Type>(array).map(term::int8)),
        Kind::Int16 => sink.take(values::<Int16Type>(array).map(term::int16)),
        Kind::Int32 => match array.data_type() {
            DataType::Date32 => sink.take(values::<Date32Type>(array).map(term::int32)),
            DataType::Time32(_) => {
                sink.take(values::<Time32MillisecondType>(array).map(term::int32));
            }
            _ => sink.take(values::<Int32Type>(array).map(term::int32)),
        },
        Kind::Int64 => sink.take(values::<Int64Type>(array).map(term::int64)),
        Kind::Timestamp(TimeUnit::Second) => {
            sink.take(values::<TimestampSecondType>(array).map(term::int64));
        }
        Kind::Timestamp(TimeUnit::Millisecond) => {
            sink.take(values::<TimestampMillisecondType>(array).map(term::int64));
        }
        Kind::Timestamp(TimeUnit::Microsecond) => {
            sink.take(values::<TimestampMicrosecondType>(array).map(term::int64));
        }
        Kind::Timestamp(TimeUnit::Nanosecond) => {
            sink.take(values::<TimestampNanosecondType>(array).map(term::int64));
        }
        Kind::CompactDecimal => {
            sink.take(values::<Decimal128Type>(array).map(term::compact_decimal));
        }
        Kind::WideDecimal => sink.take(values::<Decimal128Type>(array).map(term::int128)),
        Kind::Float32 => sink.take(values::<Float32Type>(array).map(term::float32)),
        Kind::Float64 => sink.take(values::<Float64Type>(array).map(term::float64)),
        Kind::FixedBytes(_) => {
            let array = array.as_fixed_size_binary();
            sink.take((0..array.len()).map(|row| term::big_endian(array.value(row))));
        }
        Kind::Null | Kind::Bytes => unreachable!("a column without numbers"),
    }
}

/// The memory of a column whose values are 8-byte integers, as their bits.
pub(super) fn int64_memory(array: &ArrayRef) -> Option<ScalarBuffer<u64>> {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef) -> ScalarBuffer<u64> {
        let values = array.as_primitive::<T>().values();
        ScalarBuffer::new(values.inner().clone(), 0, values.len())
    }
    Some(match array.data_type() {
        DataType::Int64 => of::<Int64Type>(array),
        DataType::Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(array),
        _ => return None,
    })
}

fn values<T: ArrowPrimitiveType>(array: &ArrayRef) -> impl Iterator<Item = T::Native> {
    array.as_primitive::<T>().values().iter().copied()
}

/// The index of each row's value; that of a NULL may be any.
fn dictionary_keys(array: &ArrayRef) -> Vec<usize> {
    let dictionary = array.as_any_dictionary();
    if dictionary.values().is_empty() {
        return vec![0; array.len()];
    }
    dictionary.normalized_keys()
}

/// A column of strings or binaries.
pub(super) enum BytesColumn<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    Fixed(&'a FixedSizeBinaryArray),
    Dictionary {
        keys: Vec<usize>,
        values: Box<BytesColumn<'a>>,
    },
}

impl<'a> BytesColumn<'a> {
    pub(super) fn new(array: &'a ArrayRef) -> Self {
        match array.data_type() {
            DataType::Utf8 => Self::Utf8(array.as_string()),
            DataType::LargeUtf8 => Self::LargeUtf8(array.as_string()),
            DataType::Utf8View => Self::Utf8View(array.as_string_view()),
            DataType::Binary => Self::Binary(array.as_binary()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary()),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary()),
            _ => Self::Dictionary {
                keys: dictionary_keys(array),
                values: Box::new(Self::new(array.as_any_dictionary().values())),
            },
        }
    }

    /// The value of a row that is not NULL.
    #[inline]
    pub(super) fn get(&self, row: usize) -> &'a [u8] {
        match self {
            Self::Utf8(array) => array.value(row).as_bytes(),
            Self::LargeUtf8(array) => array.value(row).as_bytes(),
            Self::Utf8View(array) => array.value(row).as_bytes(),
            Self::Binary(array) => array.value(row),
            Self::LargeBinary(array) => array.value(row),
            Self::BinaryView(array) => array.value(row),
            Self::Fixed(array) => array.value(row),
            Self::Dictionary { keys, values } => values.get(keys[row]),
        }
    }
}
