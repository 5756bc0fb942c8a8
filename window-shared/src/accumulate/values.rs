//! Typed looks at columns.

use std::fmt::Debug;
use std::hash::Hash;

use arrow::array::types::ByteArrayType;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray, GenericByteArray,
    PrimitiveArray, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, GenericBinaryType, GenericStringType};
use arrow::error::ArrowError;
use state_codec::DecodeError;

use super::{put_run, take_bytes, take_run};

/// An accumulator that can be given values one by one, in the place of rows.
pub(crate) trait FromValue<T> {
    fn add_value(&mut self, value: T);
}

/// A kind of column, and the values that are kept of it.
pub(crate) trait Values: Debug + Send + Sync + 'static {
    /// A value that is kept.
    type Value: Clone + Debug + Send + Sync + 'static;
    /// What tells distinct values apart, in an order that is the same everywhere.
    type Key: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static;
    /// A look at a column.
    type Column<'a>;
    /// A look at a value of it.
    type Ref<'a>: Copy;

    fn column(input: &dyn Array) -> Self::Column<'_>;
    fn get<'a>(column: &Self::Column<'a>, row: usize) -> Self::Ref<'a>;
    fn as_ref(value: &Self::Value) -> Self::Ref<'_>;
    fn to_value(value: Self::Ref<'_>) -> Self::Value;
    /// Whether `a` is before `b` in the order of MIN and MAX, in which NaN is neither before nor behind.
    fn is_less(a: Self::Ref<'_>, b: Self::Ref<'_>) -> bool;
    /// Whether it is NaN.
    fn is_nan(_: Self::Ref<'_>) -> bool {
        false
    }
    /// NaN, where there is one.
    fn nan() -> Option<Self::Value> {
        None
    }
    fn key(value: Self::Ref<'_>) -> Self::Key;
    fn of_key(key: &Self::Key) -> Self::Value;
    fn heap_bytes(_: &Self::Value) -> usize {
        0
    }
    fn key_heap_bytes(_: &Self::Key) -> usize {
        0
    }
    /// Bytes of heap that the values of a column take when each is kept.
    fn all_heap_bytes(_: &dyn Array) -> usize {
        0
    }
    fn encode_into(value: Self::Ref<'_>, out: &mut Vec<u8>);
    fn decode(bytes: &mut &[u8]) -> Result<Self::Value, DecodeError>;
    /// A column of type `as_type`.
    fn array(
        values: &mut dyn Iterator<Item = Option<Self::Ref<'_>>>,
        as_type: &DataType,
    ) -> Result<ArrayRef, ArrowError>;
}

/// Fixed-width numbers, dates, times and timestamps.
#[derive(Debug)]
pub(crate) struct Fixed<T>(std::marker::PhantomData<fn() -> T>);

/// A native value of an Arrow type, with what the accumulators ask of it.
pub(crate) trait Native: Copy + Debug + PartialOrd + Send + Sync + 'static {
    type Key: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static;
    fn key(self) -> Self::Key;
    fn of_key(key: &Self::Key) -> Self;
    fn encode_into(self, out: &mut Vec<u8>);
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError>;
    fn is_nan(self) -> bool {
        false
    }
    fn nan() -> Option<Self> {
        None
    }
}

macro_rules! native_integers {
    ($($native:ty)*) => {$(
        impl Native for $native {
            type Key = $native;
            fn key(self) -> $native {
                self
            }
            fn of_key(key: &$native) -> Self {
                *key
            }
            fn encode_into(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(Self::from_le_bytes(take_bytes(bytes, "number")?))
            }
        }
    )*};
}
native_integers!(i8 i16 i32 i64 i128);

macro_rules! native_floats {
    ($($native:ty, $bits:ty;)*) => {$(
        impl Native for $native {
            type Key = $bits;
            /// All NaNs are one value; zeros of both signs are two.
            fn key(self) -> $bits {
                if self.is_nan() { <$native>::NAN.to_bits() } else { self.to_bits() }
            }
            fn of_key(key: &$bits) -> Self {
                <$native>::from_bits(*key)
            }
            fn encode_into(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_bits().to_le_bytes());
            }
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(<$native>::from_bits(<$bits>::from_le_bytes(take_bytes(bytes, "number")?)))
            }
            fn is_nan(self) -> bool {
                <$native>::is_nan(self)
            }
            fn nan() -> Option<Self> {
                Some(<$native>::NAN)
            }
        }
    )*};
}
native_floats! { f32, u32; f64, u64; }

impl<T> Values for Fixed<T>
where
    T: ArrowPrimitiveType + Debug,
    T::Native: Native,
{
    type Value = T::Native;
    type Key = <T::Native as Native>::Key;
    type Column<'a> = &'a [T::Native];
    type Ref<'a> = T::Native;

    fn column(input: &dyn Array) -> &[T::Native] {
        input.as_primitive::<T>().values()
    }

    #[inline]
    fn get<'a>(column: &Self::Column<'a>, row: usize) -> Self::Ref<'a> {
        column[row]
    }

    fn as_ref(value: &T::Native) -> T::Native {
        *value
    }

    fn to_value(value: T::Native) -> T::Native {
        value
    }

    #[inline]
    fn is_less(a: T::Native, b: T::Native) -> bool {
        a < b
    }

    #[inline]
    fn is_nan(value: T::Native) -> bool {
        Native::is_nan(value)
    }

    fn nan() -> Option<T::Native> {
        T::Native::nan()
    }

    fn key(value: T::Native) -> Self::Key {
        value.key()
    }

    fn of_key(key: &Self::Key) -> T::Native {
        T::Native::of_key(key)
    }

    fn encode_into(value: T::Native, out: &mut Vec<u8>) {
        value.encode_into(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<T::Native, DecodeError> {
        T::Native::decode(bytes)
    }

    fn array(
        values: &mut dyn Iterator<Item = Option<T::Native>>,
        as_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let array: PrimitiveArray<T> = values.collect();
        Ok(std::sync::Arc::new(array.with_data_type(as_type.clone())))
    }
}

/// BOOLEAN, of which false comes first.
#[derive(Debug)]
pub(crate) struct Booleans;

impl Values for Booleans {
    type Value = bool;
    type Key = bool;
    type Column<'a> = &'a BooleanArray;
    type Ref<'a> = bool;

    fn column(input: &dyn Array) -> &BooleanArray {
        input.as_boolean()
    }

    fn get<'a>(column: &Self::Column<'a>, row: usize) -> Self::Ref<'a> {
        column.value(row)
    }

    fn as_ref(value: &bool) -> bool {
        *value
    }

    fn to_value(value: bool) -> bool {
        value
    }

    fn is_less(a: bool, b: bool) -> bool {
        !a & b
    }

    fn key(value: bool) -> bool {
        value
    }

    fn of_key(key: &bool) -> bool {
        *key
    }

    fn encode_into(value: bool, out: &mut Vec<u8>) {
        out.push(value.into());
    }

    fn decode(bytes: &mut &[u8]) -> Result<bool, DecodeError> {
        match take_bytes(bytes, "boolean")? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(DecodeError::malformed("boolean", 0, "it is 0 or 1")),
        }
    }

    fn array(
        values: &mut dyn Iterator<Item = Option<bool>>,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(std::sync::Arc::new(values.collect::<BooleanArray>()))
    }
}

/// Texts and bytes of any encoding, in the order of their bytes: for texts that of code points.
#[derive(Debug)]
pub(crate) struct Bytes;

/// A look at a column of texts or bytes.
pub(crate) enum BytesColumn<'a> {
    Utf8(&'a GenericByteArray<GenericStringType<i32>>),
    LargeUtf8(&'a GenericByteArray<GenericStringType<i64>>),
    Binary(&'a GenericByteArray<GenericBinaryType<i32>>),
    LargeBinary(&'a GenericByteArray<GenericBinaryType<i64>>),
    Utf8View(&'a arrow::array::StringViewArray),
    BinaryView(&'a arrow::array::BinaryViewArray),
    FixedSize(&'a FixedSizeBinaryArray),
}

fn value_of<T: ByteArrayType>(array: &GenericByteArray<T>, row: usize) -> &[u8] {
    array.value(row).as_ref()
}

impl Values for Bytes {
    type Value = Box<[u8]>;
    type Key = Box<[u8]>;
    type Column<'a> = BytesColumn<'a>;
    type Ref<'a> = &'a [u8];

    fn column(input: &dyn Array) -> BytesColumn<'_> {
        match input.data_type() {
            DataType::Utf8 => BytesColumn::Utf8(input.as_string()),
            DataType::LargeUtf8 => BytesColumn::LargeUtf8(input.as_string()),
            DataType::Binary => BytesColumn::Binary(input.as_binary()),
            DataType::LargeBinary => BytesColumn::LargeBinary(input.as_binary()),
            DataType::Utf8View => BytesColumn::Utf8View(input.as_string_view()),
            DataType::BinaryView => BytesColumn::BinaryView(input.as_binary_view()),
            _ => BytesColumn::FixedSize(input.as_fixed_size_binary()),
        }
    }

    fn get<'a>(column: &Self::Column<'a>, row: usize) -> Self::Ref<'a> {
        match column {
            BytesColumn::Utf8(array) => value_of(array, row),
            BytesColumn::LargeUtf8(array) => value_of(array, row),
            BytesColumn::Binary(array) => value_of(array, row),
            BytesColumn::LargeBinary(array) => value_of(array, row),
            BytesColumn::Utf8View(array) => array.value(row).as_bytes(),
            BytesColumn::BinaryView(array) => array.value(row),
            BytesColumn::FixedSize(array) => array.value(row),
        }
    }

    fn as_ref(value: &Box<[u8]>) -> &[u8] {
        value
    }

    fn to_value(value: &[u8]) -> Box<[u8]> {
        value.into()
    }

    fn is_less(a: &[u8], b: &[u8]) -> bool {
        a < b
    }

    fn key(value: &[u8]) -> Box<[u8]> {
        value.into()
    }

    fn of_key(key: &Box<[u8]>) -> Box<[u8]> {
        key.clone()
    }

    fn heap_bytes(value: &Box<[u8]>) -> usize {
        value.len()
    }

    fn key_heap_bytes(key: &Box<[u8]>) -> usize {
        key.len()
    }

    fn all_heap_bytes(input: &dyn Array) -> usize {
        let column = Self::column(input);
        (0..input.len())
            .filter(|&row| input.is_valid(row))
            .map(|row| Self::get(&column, row).len())
            .sum()
    }

    fn encode_into(value: &[u8], out: &mut Vec<u8>) {
        put_run(value, out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Box<[u8]>, DecodeError> {
        Ok(take_run(bytes, "bytes")?.into())
    }

    fn array(
        values: &mut dyn Iterator<Item = Option<&[u8]>>,
        as_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let plain: ArrayRef = match as_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                let texts = values.map(|value| match value.map(std::str::from_utf8).transpose() {
                    Ok(text) => Ok(text),
                    Err(error) => Err(ArrowError::InvalidArgumentError(error.to_string())),
                });
                std::sync::Arc::new(texts.collect::<Result<StringArray, ArrowError>>()?)
            }
            _ => std::sync::Arc::new(values.collect::<BinaryArray>()),
        };
        if plain.data_type() == as_type {
            return Ok(plain);
        }
        cast(&plain, as_type)
    }
}
