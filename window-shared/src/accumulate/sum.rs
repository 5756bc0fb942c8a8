//! SUM and AVG, with Flink's result types, overflow and rounding.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow::error::ArrowError;
use state_codec::DecodeError;

use super::values::FromValue;
use super::{Accumulator, Accumulators, Age, Sharing, columns_of, take_bytes};

/// What the sum of no rows is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empty {
    /// NULL: SUM.
    Null,
    /// Zero: `$SUM0`.
    Zero,
}

/// An integer type.
pub(crate) trait Integer: ArrowPrimitiveType {
    fn widen(value: Self::Native) -> i64;
    /// Without the bits that do not fit.
    fn wrap(value: i64) -> Self::Native;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Integer for $type {
            fn widen(value: Self::Native) -> i64 {
                value.into()
            }
            fn wrap(value: i64) -> Self::Native {
                value as Self::Native
            }
        }
    )*};
}
integers!(Int8Type Int16Type Int32Type Int64Type);

/// What is made of a sum of integers and of how many there were.
pub(crate) trait OfIntegers: Debug + Send + Sync + 'static {
    fn result<T: Integer>(sum: i64, count: i64) -> Option<T::Native>;
}

/// SUM. It wraps in the input type; a sum that was kept in 64 bits all along wraps to the same.
#[derive(Debug)]
pub(crate) struct Sum;
/// `$SUM0`.
#[derive(Debug)]
pub(crate) struct Sum0;
/// AVG: of a sum that wraps in 64 bits, cut off towards zero.
#[derive(Debug)]
pub(crate) struct Avg;

impl OfIntegers for Sum {
    fn result<T: Integer>(sum: i64, count: i64) -> Option<T::Native> {
        (count != 0).then(|| T::wrap(sum))
    }
}

impl OfIntegers for Sum0 {
    fn result<T: Integer>(sum: i64, _: i64) -> Option<T::Native> {
        Some(T::wrap(sum))
    }
}

impl OfIntegers for Avg {
    fn result<T: Integer>(sum: i64, count: i64) -> Option<T::Native> {
        (count != 0).then(|| T::wrap(sum.wrapping_div(count)))
    }
}

/// A sum of integers. Wrapping makes it a group, so it can be undone exactly.
#[derive(Debug)]
pub(crate) struct IntegerSum<T, F> {
    sum: i64,
    count: i64,
    kind: PhantomData<fn() -> (T, F)>,
}

impl<T, F> Clone for IntegerSum<T, F> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T, F> Default for IntegerSum<T, F> {
    fn default() -> Self {
        Self {
            sum: 0,
            count: 0,
            kind: PhantomData,
        }
    }
}

impl<T: Integer + Debug, F: OfIntegers> Accumulator for IntegerSum<T, F> {
    type Column<'a> = &'a [T::Native];
    const SHARING: Sharing = Sharing::Undo;

    fn column(input: &dyn Array) -> &[T::Native] {
        input.as_primitive::<T>().values()
    }

    #[inline]
    fn add(&mut self, column: &&[T::Native], row: usize) {
        self.sum = self.sum.wrapping_add(T::widen(column[row]));
        self.count += 1;
    }

    #[inline]
    fn merge(&mut self, other: &Self, _: Age) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.count += other.count;
    }

    #[inline]
    fn exclude(&mut self, slice: &Self) {
        self.sum = self.sum.wrapping_sub(slice.sum);
        self.count -= slice.count;
    }

    /// ```text
    /// 0     8      16
    /// | sum | rows |
    ///   i64   i64
    /// ```
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sum.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let sum = i64::from_le_bytes(take_bytes(bytes, "sum")?);
        Ok(Self {
            sum,
            count: decode_rows(bytes)?,
            kind: PhantomData,
        })
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let results = all.map(|sum| F::result::<T>(sum.sum, sum.count));
        Ok(Arc::new(results.collect::<PrimitiveArray<T>>()))
    }
}

impl<T: Integer, F: OfIntegers> FromValue<T::Native> for IntegerSum<T, F> {
    fn add_value(&mut self, value: T::Native) {
        self.sum = self.sum.wrapping_add(T::widen(value));
        self.count += 1;
    }
}

/// How many rows a sum is of.
fn decode_rows(bytes: &mut &[u8]) -> Result<i64, DecodeError> {
    let rows = i64::from_le_bytes(take_bytes(bytes, "rows of a sum")?);
    if !(0..=i64::MAX / 2).contains(&rows) {
        let reason = "it is a number of rows";
        return Err(DecodeError::malformed("rows of a sum", 0, reason));
    }
    Ok(rows)
}

/// A floating-point type.
pub(crate) trait Float: ArrowPrimitiveType {
    const ZERO: Self::Native;
    fn plus(a: Self::Native, b: Self::Native) -> Self::Native;
    fn widen(value: Self::Native) -> f64;
    fn narrow(value: f64) -> Self::Native;
    fn to_bits(value: Self::Native) -> u64;
    fn of_bits(bits: u64) -> Self::Native;
}

impl Float for Float32Type {
    const ZERO: f32 = 0.0;
    fn plus(a: f32, b: f32) -> f32 {
        a + b
    }
    fn widen(value: f32) -> f64 {
        value.into()
    }
    fn narrow(value: f64) -> f32 {
        value as f32
    }
    fn to_bits(value: f32) -> u64 {
        value.to_bits().into()
    }
    fn of_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
}

impl Float for Float64Type {
    const ZERO: f64 = 0.0;
    fn plus(a: f64, b: f64) -> f64 {
        a + b
    }
    fn widen(value: f64) -> f64 {
        value
    }
    fn narrow(value: f64) -> f64 {
        value
    }
    fn to_bits(value: f64) -> u64 {
        value.to_bits()
    }
    fn of_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

/// SUM of FLOAT or DOUBLE in the arithmetic of the input type. The first value is taken as it is, so the
/// sum of nothing but -0.0 is that.
#[derive(Debug)]
pub(crate) struct FloatSum<T: Float> {
    sum: Option<T::Native>,
}

impl<T: Float> Clone for FloatSum<T> {
    fn clone(&self) -> Self {
        Self { sum: self.sum }
    }
}

impl<T: Float> Default for FloatSum<T> {
    fn default() -> Self {
        Self { sum: None }
    }
}

impl<T: Float + Debug> Accumulator for FloatSum<T> {
    type Column<'a> = &'a [T::Native];
    const SHARING: Sharing = Sharing::InOrder;

    fn column(input: &dyn Array) -> &[T::Native] {
        input.as_primitive::<T>().values()
    }

    #[inline]
    fn add(&mut self, column: &&[T::Native], row: usize) {
        self.add_value(column[row]);
    }

    fn merge(&mut self, other: &Self, _: Age) {
        if let Some(sum) = other.sum {
            self.add_value(sum);
        }
    }

    /// ```text
    /// 0         1
    /// | present | sum
    ///   u8        bits as u64, if present is 1
    /// ```
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(self.sum.is_some().into());
        if let Some(sum) = self.sum {
            out.extend_from_slice(&T::to_bits(sum).to_le_bytes());
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            sum: if decode_flag(bytes)? {
                Some(T::of_bits(u64::from_le_bytes(take_bytes(bytes, "sum")?)))
            } else {
                None
            },
        })
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let sums = all.map(|sum| sum.sum);
        Ok(Arc::new(sums.collect::<PrimitiveArray<T>>()))
    }
}

impl<T: Float> FromValue<T::Native> for FloatSum<T> {
    #[inline]
    fn add_value(&mut self, value: T::Native) {
        self.sum = Some(match self.sum {
            Some(sum) => T::plus(sum, value),
            None => value,
        });
    }
}

fn decode_flag(bytes: &mut &[u8]) -> Result<bool, DecodeError> {
    match take_bytes(bytes, "presence")? {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(DecodeError::malformed("presence", 0, "it is 0 or 1")),
    }
}

/// `$SUM0` of FLOAT or DOUBLE: starts from 0.0.
#[derive(Debug)]
pub(crate) struct FloatSum0<T: Float> {
    sum: T::Native,
}

impl<T: Float> Clone for FloatSum0<T> {
    fn clone(&self) -> Self {
        Self { sum: self.sum }
    }
}

impl<T: Float> Default for FloatSum0<T> {
    fn default() -> Self {
        Self { sum: T::ZERO }
    }
}

impl<T: Float + Debug> Accumulator for FloatSum0<T> {
    type Column<'a> = &'a [T::Native];
    const SHARING: Sharing = Sharing::InOrder;

    fn column(input: &dyn Array) -> &[T::Native] {
        input.as_primitive::<T>().values()
    }

    #[inline]
    fn add(&mut self, column: &&[T::Native], row: usize) {
        self.add_value(column[row]);
    }

    fn merge(&mut self, other: &Self, _: Age) {
        self.add_value(other.sum);
    }

    /// The bits of the sum, as u64.
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&T::to_bits(self.sum).to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let sum = T::of_bits(u64::from_le_bytes(take_bytes(bytes, "sum")?));
        Ok(Self { sum })
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let sums = all.map(|sum| Some(sum.sum));
        Ok(Arc::new(sums.collect::<PrimitiveArray<T>>()))
    }
}

impl<T: Float> FromValue<T::Native> for FloatSum0<T> {
    #[inline]
    fn add_value(&mut self, value: T::Native) {
        self.sum = T::plus(self.sum, value);
    }
}

/// AVG of FLOAT or DOUBLE: of a DOUBLE sum from 0.0.
#[derive(Debug)]
pub(crate) struct FloatAverage<T> {
    sum: f64,
    count: i64,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for FloatAverage<T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T> Default for FloatAverage<T> {
    fn default() -> Self {
        Self {
            sum: 0.0,
            count: 0,
            kind: PhantomData,
        }
    }
}

impl<T: Float + Debug> Accumulator for FloatAverage<T> {
    type Column<'a> = &'a [T::Native];
    const SHARING: Sharing = Sharing::InOrder;

    fn column(input: &dyn Array) -> &[T::Native] {
        input.as_primitive::<T>().values()
    }

    #[inline]
    fn add(&mut self, column: &&[T::Native], row: usize) {
        self.add_value(column[row]);
    }

    fn merge(&mut self, other: &Self, _: Age) {
        self.sum += other.sum;
        self.count += other.count;
    }

    /// ```text
    /// 0            8      16
    /// | sum        | rows |
    ///   bits, u64    i64
    /// ```
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sum.to_bits().to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let sum = f64::from_bits(u64::from_le_bytes(take_bytes(bytes, "sum")?));
        Ok(Self {
            sum,
            count: decode_rows(bytes)?,
            kind: PhantomData,
        })
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let averages = all.map(|it| (it.count != 0).then(|| T::narrow(it.sum / it.count as f64)));
        Ok(Arc::new(averages.collect::<PrimitiveArray<T>>()))
    }
}

impl<T: Float> FromValue<T::Native> for FloatAverage<T> {
    #[inline]
    fn add_value(&mut self, value: T::Native) {
        self.sum += T::widen(value);
        self.count += 1;
    }
}

/// The greatest DECIMAL(38), without its scale.
const MAX_DECIMAL: i128 = 10_i128.pow(38) - 1;

fn decimal_sum(a: i128, b: i128) -> Option<i128> {
    a.checked_add(b)
        .filter(|sum| (-MAX_DECIMAL..=MAX_DECIMAL).contains(sum))
}

/// SUM of DECIMAL as DECIMAL(38, s). A sum that does not fit is NULL, and the next value starts over.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecimalSum {
    sum: Option<i128>,
}

impl Accumulator for DecimalSum {
    type Column<'a> = &'a [i128];
    const SHARING: Sharing = Sharing::InOrder;

    fn column(input: &dyn Array) -> &[i128] {
        input.as_primitive::<Decimal128Type>().values()
    }

    #[inline]
    fn add(&mut self, column: &&[i128], row: usize) {
        self.add_value(column[row]);
    }

    fn merge(&mut self, other: &Self, _: Age) {
        if let Some(sum) = other.sum {
            self.add_value(sum);
        }
    }

    /// ```text
    /// 0         1
    /// | present | sum without its scale
    ///   u8        i128, if present is 1
    /// ```
    fn encode_into(&self, out: &mut Vec<u8>) {
        encode_decimal(self.sum, out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let sum = decode_decimal(bytes)?;
        Ok(Self { sum })
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        result: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        decimals(&mut all.map(|sum| sum.sum), result)
    }
}

impl FromValue<i128> for DecimalSum {
    #[inline]
    fn add_value(&mut self, value: i128) {
        self.sum = match self.sum {
            Some(sum) => decimal_sum(sum, value),
            None => Some(value),
        };
    }
}

fn encode_decimal(sum: Option<i128>, out: &mut Vec<u8>) {
    out.push(sum.is_some().into());
    if let Some(sum) = sum {
        out.extend_from_slice(&sum.to_le_bytes());
    }
}

fn decode_decimal(bytes: &mut &[u8]) -> Result<Option<i128>, DecodeError> {
    if !decode_flag(bytes)? {
        return Ok(None);
    }
    let sum = i128::from_le_bytes(take_bytes(bytes, "decimal")?);
    if sum.unsigned_abs() > MAX_DECIMAL.unsigned_abs() {
        let reason = "it has at most 38 digits";
        return Err(DecodeError::malformed("decimal", 0, reason));
    }
    Ok(Some(sum))
}

fn decimals(
    values: &mut dyn Iterator<Item = Option<i128>>,
    result: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let array: PrimitiveArray<Decimal128Type> = values.collect();
    Ok(Arc::new(array.with_data_type(result.clone())))
}

/// `$SUM0` of DECIMAL: starts from 0; a sum that does not fit is NULL for ever.
#[derive(Clone, Debug)]
pub(crate) struct DecimalSum0 {
    sum: Option<i128>,
}

impl Default for DecimalSum0 {
    fn default() -> Self {
        Self { sum: Some(0) }
    }
}

impl Accumulator for DecimalSum0 {
    type Column<'a> = &'a [i128];
    const SHARING: Sharing = Sharing::InOrder;

    fn column(input: &dyn Array) -> &[i128] {
        input.as_primitive::<Decimal128Type>().values()
    }

    #[inline]
    fn add(&mut self, column: &&[i128], row: usize) {
        self.add_value(column[row]);
    }

    fn merge(&mut self, other: &Self, _: Age) {
        match other.sum {
            Some(sum) => self.add_value(sum),
            None => self.sum = None,
        }
    }

    /// As [`DecimalSum`].
    fn encode_into(&self, out: &mut Vec<u8>) {
        encode_decimal(self.sum, out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let sum = decode_decimal(bytes)?;
        Ok(Self { sum })
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        result: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        decimals(&mut all.map(|sum| sum.sum), result)
    }
}

impl FromValue<i128> for DecimalSum0 {
    #[inline]
    fn add_value(&mut self, value: i128) {
        self.sum = self.sum.and_then(|sum| decimal_sum(sum, value));
    }
}

/// AVG of DECIMAL(p, s) as DECIMAL(38, max(s, 6)), rounded half up; NULL if the sum or the result does not
/// fit.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecimalAverage {
    sum: DecimalSum0,
    count: i64,
}

impl Accumulator for DecimalAverage {
    type Column<'a> = &'a [i128];
    const SHARING: Sharing = Sharing::InOrder;

    fn column(input: &dyn Array) -> &[i128] {
        DecimalSum0::column(input)
    }

    #[inline]
    fn add(&mut self, column: &&[i128], row: usize) {
        self.add_value(column[row]);
    }

    fn merge(&mut self, other: &Self, age: Age) {
        self.sum.merge(&other.sum, age);
        self.count += other.count;
    }

    /// The bytes of [`DecimalSum0`], and the rows as i64.
    fn encode_into(&self, out: &mut Vec<u8>) {
        self.sum.encode_into(out);
        out.extend_from_slice(&self.count.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            sum: DecimalSum0::decode(bytes)?,
            count: decode_rows(bytes)?,
        })
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        argument: &DataType,
        result: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let scale = |of: &DataType| match of {
            DataType::Decimal128(_, scale) => i32::from(*scale),
            _ => 0,
        };
        let more_digits = u32::try_from(scale(result) - scale(argument)).unwrap_or(0);
        let average = |it: &Self| divide_half_up(it.sum.sum?, it.count, more_digits);
        decimals(&mut all.map(average), result)
    }
}

impl FromValue<i128> for DecimalAverage {
    #[inline]
    fn add_value(&mut self, value: i128) {
        self.sum.add_value(value);
        self.count += 1;
    }
}

/// `sum` · 10^`more_digits` / `count`, rounded half away from zero; `None` if it has more than 38 digits, or
/// the count is 0.
fn divide_half_up(sum: i128, count: i64, more_digits: u32) -> Option<i128> {
    let count = u128::from(count.unsigned_abs());
    if count == 0 {
        return None;
    }
    let magnitude = sum.unsigned_abs();
    let (mut quotient, mut rest) = (magnitude / count, magnitude % count);
    for _ in 0..more_digits {
        // The rest is below 2^63, so this fits.
        rest *= 10;
        quotient = quotient.checked_mul(10)?.checked_add(rest / count)?;
        rest %= count;
    }
    if 2 * rest >= count {
        quotient += 1;
    }
    let quotient = i128::try_from(quotient)
        .ok()
        .filter(|&it| it <= MAX_DECIMAL)?;
    Some(if sum < 0 { -quotient } else { quotient })
}

/// The type of SUM over this type; `None` if it has no sum.
pub(crate) fn sum_type(argument: &DataType) -> Option<DataType> {
    match argument {
        DataType::Decimal128(_, scale) => {
            Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale))
        }
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64 => Some(argument.clone()),
        _ => None,
    }
}

/// The type of AVG over this type; `None` if it has no average.
pub(crate) fn average_type(argument: &DataType) -> Option<DataType> {
    match argument {
        DataType::Decimal128(_, scale) => Some(DataType::Decimal128(
            DECIMAL128_MAX_PRECISION,
            (*scale).max(6),
        )),
        _ => sum_type(argument),
    }
}

/// Columns of SUM or `$SUM0` over an argument of this type; `None` if it has no sum.
pub(crate) fn sum(argument: &DataType, empty: Empty) -> Option<Box<dyn Accumulators>> {
    fn integers<T: Integer + Debug>(argument: &DataType, empty: Empty) -> Box<dyn Accumulators> {
        let (argument, result) = (argument.clone(), argument.clone());
        match empty {
            Empty::Null => columns_of::<IntegerSum<T, Sum>>(argument, result),
            Empty::Zero => columns_of::<IntegerSum<T, Sum0>>(argument, result),
        }
    }
    fn floats<T: Float + Debug>(argument: &DataType, empty: Empty) -> Box<dyn Accumulators> {
        let (argument, result) = (argument.clone(), argument.clone());
        match empty {
            Empty::Null => columns_of::<FloatSum<T>>(argument, result),
            Empty::Zero => columns_of::<FloatSum0<T>>(argument, result),
        }
    }
    let result = sum_type(argument)?;
    Some(match argument {
        DataType::Int8 => integers::<Int8Type>(argument, empty),
        DataType::Int16 => integers::<Int16Type>(argument, empty),
        DataType::Int32 => integers::<Int32Type>(argument, empty),
        DataType::Int64 => integers::<Int64Type>(argument, empty),
        DataType::Float32 => floats::<Float32Type>(argument, empty),
        DataType::Float64 => floats::<Float64Type>(argument, empty),
        _ => match empty {
            Empty::Null => columns_of::<DecimalSum>(argument.clone(), result),
            Empty::Zero => columns_of::<DecimalSum0>(argument.clone(), result),
        },
    })
}

/// Columns of AVG over an argument of this type; `None` if it has no average.
pub(crate) fn average(argument: &DataType) -> Option<Box<dyn Accumulators>> {
    let result = average_type(argument)?;
    let argument = argument.clone();
    Some(match argument {
        DataType::Int8 => columns_of::<IntegerSum<Int8Type, Avg>>(argument, result),
        DataType::Int16 => columns_of::<IntegerSum<Int16Type, Avg>>(argument, result),
        DataType::Int32 => columns_of::<IntegerSum<Int32Type, Avg>>(argument, result),
        DataType::Int64 => columns_of::<IntegerSum<Int64Type, Avg>>(argument, result),
        DataType::Float32 => columns_of::<FloatAverage<Float32Type>>(argument, result),
        DataType::Float64 => columns_of::<FloatAverage<Float64Type>>(argument, result),
        _ => columns_of::<DecimalAverage>(argument, result),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_of_decimals_round_half_away_from_zero() {
        assert_eq!(divide_half_up(1, 2, 0), Some(1));
        assert_eq!(divide_half_up(-1, 2, 0), Some(-1));
        assert_eq!(divide_half_up(1, 3, 6), Some(333_333));
        assert_eq!(divide_half_up(2, 3, 6), Some(666_667));
        assert_eq!(divide_half_up(MAX_DECIMAL, 1, 1), None);
        assert_eq!(divide_half_up(5, 0, 1), None);
    }
}
