//! Arrow columns → key rows.
//!
//! A key row is the partition or group key of one input row, in the layout of
//! [`RowForm::Key`]. Most keys are a single column whose row is 16 bytes: a header that only tells
//! NULL from a value, and one 8-byte *word*. Such a batch is kept as words and never written out as
//! rows, and a store may index the word itself. Both forms of one key have the same hash.

use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, PrimitiveArray, StringArray,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, FieldRef, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMillisecondType,
};
use foldhash::fast::FixedState;

use crate::key_index::{KeyIndex, Slot};
use crate::row::{DecodeError, EncodeError, RowForm, RowLayout, Rows, Select, UnsupportedType};

/// Bytes of a key row that is one word: the header and the word.
const WORD_ROW_BYTES: usize = 16;
/// The header of a key row of one column that is not NULL, and of one that is: bit 8 is the first
/// column's null bit. Both as little-endian numbers.
const VALUE_HEADER: u64 = 0;
const NULL_HEADER: u64 = 1 << 8;
/// The row of a key of no columns: a header and nothing else.
const NO_COLUMNS: [u8; 8] = [0; 8];

/// One key, as a store should index it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    /// The row of one NULL: header with the null bit, zero word.
    Null,
    /// The row of one value that is a word.
    Word(u64),
    /// The row of one short text.
    Short(Short),
    /// Any other row.
    Row(&'a [u8]),
}

/// The text of a key row of one column with a text of 8 to 16 bytes. Such rows stand behind a header, a word that
/// says where the text is and how long, and the text itself with zeros up to a multiple of 8 bytes; shorter texts
/// are words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    /// Its bytes as little-endian numbers, with zeros behind.
    pub(crate) words: [u64; 2],
    pub(crate) length: u32,
}

impl Short {
    /// Where the text stands in its row, as the upper half of the second word.
    const PLACE: u64 = (WORD_ROW_BYTES as u64) << 32;
    const MOST_ROW_BYTES: usize = 2 * WORD_ROW_BYTES;

    /// The text, if it has 8 to 16 bytes.
    #[inline]
    fn of(text: &[u8]) -> Option<Self> {
        let (first, _) = text.split_first_chunk::<8>()?;
        let (_, last) = text.split_last_chunk::<8>()?;
        let behind = text.len() - 8;
        // The last 8 bytes, of which those that are in the first word as well are shifted out.
        let second = match behind {
            0 => 0,
            1..=8 => u64::from_le_bytes(*last) >> (8 * (8 - behind)),
            _ => return None,
        };
        Some(Self {
            words: [u64::from_le_bytes(*first), second],
            length: text.len() as u32,
        })
    }

    /// The text of a row, if it is one of these.
    fn of_row(row: &[u8]) -> Option<Self> {
        let (header, rest) = row.split_first_chunk::<8>()?;
        let (place, text) = rest.split_first_chunk::<8>()?;
        let length = u64::from_le_bytes(*place).checked_sub(Self::PLACE)?;
        if u64::from_le_bytes(*header) != VALUE_HEADER || !(8..=16).contains(&length) {
            return None;
        }
        let length = length as usize;
        let is_row = text.len() == length.next_multiple_of(8)
            && text[length..].iter().all(|&byte| byte == 0);
        is_row.then(|| Self::of(&text[..length])).flatten()
    }

    /// The row, and how long it is.
    pub(crate) fn row(self) -> ([u8; Self::MOST_ROW_BYTES], usize) {
        let mut row = [0; Self::MOST_ROW_BYTES];
        let place = Self::PLACE | u64::from(self.length);
        row[8..16].copy_from_slice(&place.to_le_bytes());
        row[16..24].copy_from_slice(&self.words[0].to_le_bytes());
        row[24..].copy_from_slice(&self.words[1].to_le_bytes());
        (
            row,
            WORD_ROW_BYTES + (self.length as usize).next_multiple_of(8),
        )
    }
}

/// The hash of a key that is a short text.
#[inline]
pub(crate) fn hash_short(short: Short) -> u64 {
    let [first, second] = short.words.map(u128::from);
    hasher().hash_one((first | second << 64) ^ u128::from(short.length))
}

impl<'a> Key<'a> {
    /// The key of a row. Equal rows give equal keys, however their batches were kept.
    pub(crate) fn of_row(row: &'a [u8]) -> Self {
        let Ok(words) = <&[u8; WORD_ROW_BYTES]>::try_from(row) else {
            return Short::of_row(row).map_or(Self::Row(row), Self::Short);
        };
        let (header, word) = words.split_at(8);
        let number = |bytes: &[u8]| {
            u64::from_le_bytes(bytes.try_into().expect("half of 16 bytes is 8 bytes"))
        };
        match (number(header), number(word)) {
            (VALUE_HEADER, word) => Self::Word(word),
            (NULL_HEADER, 0) => Self::Null,
            _ => Self::Row(row),
        }
    }

    /// Appends the key's row to `out`.
    pub(crate) fn write_row(self, out: &mut Vec<u8>) {
        match self {
            Self::Row(row) => out.extend_from_slice(row),
            Self::Word(word) => out.extend_from_slice(&Self::word_row(word)),
            Self::Short(short) => {
                let (row, length) = short.row();
                out.extend_from_slice(&row[..length]);
            }
            Self::Null => {
                out.extend_from_slice(&NULL_HEADER.to_le_bytes());
                out.extend_from_slice(&0u64.to_le_bytes());
            }
        }
    }

    /// How the rows of two keys compare, as bytes.
    pub(crate) fn compare_rows(self, other: Self) -> Ordering {
        if let (Self::Word(a), Self::Word(b)) = (self, other) {
            // Behind equal headers stand the words, least byte first.
            return a.swap_bytes().cmp(&b.swap_bytes());
        }
        if let (Self::Row(a), Self::Row(b)) = (self, other) {
            return a.cmp(b);
        }
        if let (Self::Short(a), Self::Short(b)) = (self, other) {
            return a.row().0.cmp(&b.row().0);
        }
        let (mut row_a, mut row_b) = (Vec::new(), Vec::new());
        self.write_row(&mut row_a);
        other.write_row(&mut row_b);
        row_a.cmp(&row_b)
    }

    /// The row of a word.
    pub(crate) fn word_row(word: u64) -> [u8; WORD_ROW_BYTES] {
        let mut row = [0; WORD_ROW_BYTES];
        let (header, value) = row.split_at_mut(8);
        header.copy_from_slice(&VALUE_HEADER.to_le_bytes());
        value.copy_from_slice(&word.to_le_bytes());
        row
    }
}

/// Hashes serve probing only and are never stored, so their function may change between releases.
/// It is the same in every process: a library draws no random numbers on its own.
#[inline]
fn hasher() -> FixedState {
    FixedState::with_seed(0)
}

/// The hash of a key that is a word.
#[inline]
pub(crate) fn hash_word(word: u64) -> u64 {
    hasher().hash_one(word)
}

/// The hash of a key that is not.
pub(crate) fn hash_row(row: &[u8]) -> u64 {
    hasher().hash_one(row)
}

/// The keys of a batch, one per row, in buffers that are reused from batch to batch. One column of 8-byte values is not copied at all: the keys are its memory until they are
/// cleared or replaced.
///
/// A batch is filled by a [`KeyEncoder`], or from key rows that exist already:
///
/// ```
/// # use state_codec::KeyBatch;
/// let seven = [0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]; // the row of BIGINT 7
/// let keys = KeyBatch::from_rows([seven.as_slice()])?;
/// assert_eq!(keys.len(), 1);
/// # Ok::<(), state_codec::EncodeError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeyBatch {
    form: Form,
    words: Vec<u64>,
    /// The words of a column that has them in memory as they are, in the place of `words`.
    shared: Option<ScalarBuffer<u64>>,
    /// The column, in [`Form::Texts`].
    texts: Option<StringArray>,
    /// Which words are values; `None` if all are. Only in [`Form::Words`].
    validity: Option<NullBuffer>,
    rows: Rows,
    /// The caller's, one per row, or none: a key is hashed where it is probed, which is as fast for rows
    /// and faster for words than to read a hash that was made before.
    hashes: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    Words,
    /// Each one NULL or a [`Short`].
    Texts,
    #[default]
    Rows,
}

impl KeyBatch {
    /// The batch of these key rows, for an engine whose rows are `BinaryRow` bytes already.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the rows together are longer than an arena may be.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, EncodeError> {
        let mut batch = Self::default();
        for row in rows {
            batch.rows.push(row)?;
        }
        Ok(batch)
    }

    /// How many keys there are: the batch's rows.
    pub fn len(&self) -> usize {
        match self.form {
            Form::Words => self.words().len(),
            Form::Texts => self.texts.as_ref().map_or(0, |texts| texts.len()),
            Form::Rows => self.rows.len(),
        }
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the keys 64-bit hashes of the caller's in the place of our own, one per row. Equal keys must
    /// get equal hashes, in this batch and in every other that meets the same store.
    ///
    /// # Panics
    ///
    /// If there are not as many hashes as keys.
    pub fn set_hashes(&mut self, hashes: &[u64]) {
        assert_eq!(hashes.len(), self.len(), "there is one hash per key");
        self.hashes.clear();
        self.hashes.extend_from_slice(hashes);
    }

    /// Forgets the keys, lets go of the batch that they were made of, and keeps the capacity.
    pub fn clear(&mut self) {
        self.reset(Form::Rows);
    }

    /// Appends the key row of row `i` to `out`.
    ///
    /// # Panics
    ///
    /// If `i` is not below [`len`](Self::len).
    pub fn write_key_row(&self, i: usize, out: &mut Vec<u8>) {
        self.key(i).write_row(out);
    }

    /// Bytes allocated by the buffers; a batch's memory is the batch's.
    pub fn allocated_bytes(&self) -> usize {
        size_of::<u64>() * (self.words.capacity() + self.hashes.capacity())
            + self.rows.allocated_bytes()
    }

    pub(crate) fn key(&self, i: usize) -> Key<'_> {
        match self.form {
            Form::Rows => Key::of_row(self.rows.get(i)),
            Form::Words if self.validity.as_ref().is_some_and(|v| v.is_null(i)) => Key::Null,
            Form::Words => Key::Word(self.words()[i]),
            Form::Texts => match self.texts.as_ref().filter(|texts| texts.is_valid(i)) {
                Some(texts) => Key::Short(short_at(texts, i)),
                None => Key::Null,
            },
        }
    }

    fn words(&self) -> &[u64] {
        self.shared.as_ref().map_or(&self.words, |shared| shared)
    }

    /// The caller's hash of a row.
    pub(crate) fn given_hash(&self, i: usize) -> Option<u64> {
        self.hashes.get(i).copied()
    }

    /// The keys as words, if they were kept so, none of them is NULL, and their hashes are
    /// [`hash_word`]'s.
    pub(crate) fn as_words(&self) -> Option<&[u64]> {
        let plain = self.form == Form::Words && self.validity.is_none() && self.hashes.is_empty();
        plain.then(|| self.words())
    }

    /// The keys as short texts, if they were kept so and all is as in [`as_words`](Self::as_words).
    pub(crate) fn as_shorts(&self) -> Option<impl Iterator<Item = Short> + '_> {
        let texts = self.texts.as_ref();
        let texts = texts.filter(|texts| texts.null_count() == 0 && self.hashes.is_empty())?;
        Some((0..texts.len()).map(|i| short_at(texts, i)))
    }

    fn reset(&mut self, form: Form) {
        self.form = form;
        self.texts = None;
        self.words.clear();
        self.shared = None;
        self.validity = None;
        self.rows.clear();
        self.hashes.clear();
    }

    /// Takes the words of a column; what stands under a NULL does not matter.
    fn set_words(&mut self, words: impl Iterator<Item = u64>, validity: Option<&NullBuffer>) {
        self.words.extend(words);
        self.validity = validity.filter(|v| v.null_count() > 0).cloned();
    }
}

/// A text of a column of which it is known that all have the right length.
#[inline]
fn short_at(texts: &StringArray, i: usize) -> Short {
    let short = Short::of(texts.value(i).as_bytes());
    short.expect("the lengths of texts were looked at")
}

/// Turns the key columns of batches into [`KeyBatch`]es: `O(rows)`, no allocation per row, and none
/// at all once the buffers have grown.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow::array::{ArrayRef, Int64Array};
/// # use arrow::datatypes::{DataType, Field};
/// # use state_codec::{KeyBatch, KeyEncoder};
/// let fields = [Arc::new(Field::new("k", DataType::Int64, true))];
/// let encoder = KeyEncoder::new(&fields, &[0])?;
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
/// let mut keys = KeyBatch::default();
/// encoder.encode(&[column], 2, &mut keys)?;
///
/// let mut row = Vec::new();
/// keys.write_key_row(1, &mut row);
/// assert_eq!(row, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // NULL is a key like any other
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyEncoder {
    columns: Vec<usize>,
    layout: RowLayout,
}

impl KeyEncoder {
    /// An encoder for the keys of `columns`, which index into `fields`. No columns make one key for
    /// all rows.
    ///
    /// # Errors
    ///
    /// [`UnsupportedType`] names a column whose type cannot be a key.
    ///
    /// # Panics
    ///
    /// If a column is not below `fields.len()`.
    pub fn new(fields: &[FieldRef], columns: &[usize]) -> Result<Self, UnsupportedType> {
        let key_fields: Vec<FieldRef> = columns.iter().map(|&c| fields[c].clone()).collect();
        Ok(Self {
            columns: columns.to_vec(),
            layout: RowLayout::new(&key_fields, RowForm::Key)?,
        })
    }

    /// The layout of the key rows.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Replaces the content of `out` by the keys of a batch of `rows` rows. `columns` are all of the
    /// batch's columns.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if a key cannot be written, among them that the batch's keys together are
    /// longer than an arena may be. `out` is then empty.
    pub fn encode(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        out: &mut KeyBatch,
    ) -> Result<(), EncodeError> {
        if let [only] = self.columns[..]
            && (self.encode_words(&columns[only], out) || encode_texts(&columns[only], out))
        {
            return Ok(());
        }
        out.reset(Form::Rows);
        if self.columns.is_empty() {
            for _ in 0..rows {
                out.rows.push(&NO_COLUMNS)?;
            }
        } else {
            let key_columns: Vec<ArrayRef> =
                self.columns.iter().map(|&c| columns[c].clone()).collect();
            self.layout
                .encode_into(&key_columns, Select::All, &mut out.rows)?;
        }
        Ok(())
    }

    /// The columns of the keys in these slots, whatever encoder of the same types they came from. No columns have
    /// no length of their own.
    ///
    /// Costs a copy per key where keys are single values of at most 8 bytes, else decoding of its row.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if a key is not one of this encoder's columns.
    ///
    /// # Panics
    ///
    /// If a slot stands for no key.
    pub fn decode(&self, index: &KeyIndex, slots: &[Slot]) -> Result<Vec<ArrayRef>, DecodeError> {
        if self.columns.is_empty() {
            return Ok(Vec::new());
        }
        if let [only] = self.layout.fields()
            && let Some(column) = decode_words(only.data_type(), index, slots)
        {
            return Ok(vec![column]);
        }
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(slots.len());
        for &slot in slots {
            index.write_key_row(slot, &mut bytes);
            ends.push(bytes.len());
        }
        let mut start = 0;
        let rows: Vec<&[u8]> = ends
            .iter()
            .map(|&end| &bytes[std::mem::replace(&mut start, end)..end])
            .collect();
        self.layout.decode(&rows)
    }

    /// Takes a column whose values are words as it is; `false` if they are not.
    fn encode_words(&self, column: &ArrayRef, out: &mut KeyBatch) -> bool {
        fn take<T: ArrowPrimitiveType>(
            column: &ArrayRef,
            out: &mut KeyBatch,
            word: impl Fn(T::Native) -> u64,
        ) {
            let array = column.as_primitive::<T>();
            out.reset(Form::Words);
            out.set_words(array.values().iter().map(|&v| word(v)), array.nulls());
        }
        /// The column's own memory: its values are words already.
        fn share<T: ArrowPrimitiveType>(column: &ArrayRef, out: &mut KeyBatch) {
            let array = column.as_primitive::<T>();
            out.reset(Form::Words);
            let memory = array.values().inner().clone();
            out.shared = Some(ScalarBuffer::new(memory, 0, array.len()));
            out.validity = array.nulls().filter(|v| v.null_count() > 0).cloned();
        }
        // Narrow integers fill the low bytes of their word; the others are zero, whatever the sign.
        match column.data_type() {
            DataType::Int64 => share::<Int64Type>(column, out),
            DataType::Int32 => take::<Int32Type>(column, out, |v| v.cast_unsigned().into()),
            DataType::Int16 => take::<Int16Type>(column, out, |v| v.cast_unsigned().into()),
            DataType::Int8 => take::<Int8Type>(column, out, |v| v.cast_unsigned().into()),
            DataType::Date32 => take::<Date32Type>(column, out, |v| v.cast_unsigned().into()),
            DataType::Time32(TimeUnit::Millisecond) => {
                take::<Time32MillisecondType>(column, out, |v| v.cast_unsigned().into());
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                share::<TimestampMillisecondType>(column, out);
            }
            DataType::Float64 => share::<Float64Type>(column, out),
            DataType::Float32 => take::<Float32Type>(column, out, |v| v.to_bits().into()),
            DataType::Boolean => {
                let array: &BooleanArray = column.as_boolean();
                out.reset(Form::Words);
                out.set_words(array.values().iter().map(u64::from), array.nulls());
            }
            _ => return false,
        }
        true
    }
}

/// Takes a column of short texts as it is; `false` if it is not one, or some are shorter or longer.
fn encode_texts(column: &ArrayRef, out: &mut KeyBatch) -> bool {
    let Some(texts) = column.as_string_opt::<i32>() else {
        return false;
    };
    let are_short = texts.offsets().windows(2).enumerate().all(|(i, bounds)| {
        let is_short = (8..=16).contains(&(bounds[1] - bounds[0]));
        is_short || texts.is_null(i)
    });
    if are_short {
        out.reset(Form::Texts);
        out.texts = Some(texts.clone());
    }
    are_short
}

/// The column of type `data_type` of keys that are words; `None` if they are not, or columns of this type.
fn decode_words(data_type: &DataType, index: &KeyIndex, slots: &[Slot]) -> Option<ArrayRef> {
    fn array<T: ArrowPrimitiveType>(
        data_type: &DataType,
        index: &KeyIndex,
        slots: &[Slot],
        value: impl Fn(u64) -> T::Native,
    ) -> Option<ArrayRef> {
        let mut values = Vec::with_capacity(slots.len());
        let mut nulls = None;
        for (row, &slot) in slots.iter().enumerate() {
            match index.key(slot) {
                Key::Word(word) => values.push(value(word)),
                Key::Null => {
                    // There is one key that is NULL, so it comes once.
                    values.push(T::Native::default());
                    nulls.get_or_insert_with(Vec::new).push(row);
                }
                Key::Short(_) | Key::Row(_) => return None,
            }
        }
        let nulls = nulls.map(|nulls| {
            let mut valid = BooleanBufferBuilder::new(slots.len());
            valid.append_n(slots.len(), true);
            nulls.into_iter().for_each(|row| valid.set_bit(row, false));
            NullBuffer::new(valid.finish())
        });
        let array = PrimitiveArray::<T>::new(values.into(), nulls);
        Some(Arc::new(array.with_data_type(data_type.clone())))
    }
    // What encoding has put into the low bytes of the word.
    match data_type {
        DataType::Int64 => array::<Int64Type>(data_type, index, slots, u64::cast_signed),
        DataType::Int32 => array::<Int32Type>(data_type, index, slots, |word| word as i32),
        DataType::Int16 => array::<Int16Type>(data_type, index, slots, |word| word as i16),
        DataType::Int8 => array::<Int8Type>(data_type, index, slots, |word| word as i8),
        DataType::Date32 => array::<Date32Type>(data_type, index, slots, |word| word as i32),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            array::<TimestampMillisecondType>(data_type, index, slots, u64::cast_signed)
        }
        DataType::Float64 => array::<Float64Type>(data_type, index, slots, f64::from_bits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Date32Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
        Time32MillisecondArray, TimestampMillisecondArray,
    };
    use arrow::datatypes::Field;

    use super::*;

    fn keys_of(column: ArrayRef) -> KeyBatch {
        let fields = [Arc::new(Field::new("k", column.data_type().clone(), true))];
        let encoder = KeyEncoder::new(&fields, &[0]).unwrap();
        let mut keys = KeyBatch::default();
        let rows = column.len();
        encoder.encode(&[column], rows, &mut keys).unwrap();
        keys
    }

    fn key_row(keys: &KeyBatch, i: usize) -> Vec<u8> {
        let mut row = Vec::new();
        keys.write_key_row(i, &mut row);
        row
    }

    #[test]
    fn words_and_rows_of_one_key_are_equal() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(-7), None, Some(i64::MAX)])),
            Arc::new(Int32Array::from(vec![Some(-7), None, Some(i32::MAX)])),
            Arc::new(Int16Array::from(vec![Some(-7), None, Some(7)])),
            Arc::new(Int8Array::from(vec![Some(-7), None, Some(7)])),
            Arc::new(Date32Array::from(vec![Some(-7), None, Some(7)])),
            Arc::new(Time32MillisecondArray::from(vec![Some(7), None, Some(0)])),
            Arc::new(TimestampMillisecondArray::from(vec![
                Some(-7),
                None,
                Some(7),
            ])),
            Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::NAN)])),
            Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(f32::NAN)])),
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ];
        for column in columns {
            let words = keys_of(column.clone());
            assert_eq!(words.form, Form::Words, "{}", column.data_type());
            let fields = [Arc::new(Field::new("k", column.data_type().clone(), true))];
            let mut rows = Rows::new();
            let layout = RowLayout::new(&fields, RowForm::Key).unwrap();
            layout
                .encode_into(std::slice::from_ref(&column), Select::All, &mut rows)
                .unwrap();
            let from_rows = KeyBatch::from_rows(rows.iter()).unwrap();
            for i in 0..column.len() {
                assert_eq!(
                    key_row(&words, i),
                    rows.get(i),
                    "{} row {i}",
                    column.data_type()
                );
                assert_eq!(words.key(i), from_rows.key(i));
            }
        }
    }

    #[test]
    fn a_slice_of_a_column_has_the_keys_of_its_rows() {
        let column = Int64Array::from(vec![Some(1), None, Some(3), Some(4)]);
        let keys = keys_of(Arc::new(column.slice(1, 2)));
        assert_eq!(keys.key(0), Key::Null);
        assert_eq!(keys.key(1), Key::Word(3));
        assert_eq!(keys.len(), 2);
    }

    /// The bytes of an index do not tell which batches its keys came in.
    #[test]
    fn texts_and_rows_of_one_key_are_equal() {
        let texts = [
            Some("exactly8"),
            Some("nine byte"),
            None,
            Some("fifteen bytes.."),
            Some("sixteen bytes..."),
            Some("zeros\0\0\0"),
            Some("zeros\0\0\0\0"),
        ];
        let column: ArrayRef = Arc::new(StringArray::from(texts.to_vec()).slice(0, 7));
        let fields = [Arc::new(Field::new("k", DataType::Utf8, true))];
        let keys = keys_of(column.clone());
        assert_eq!(keys.form, Form::Texts);
        let mut rows = Rows::new();
        let layout = RowLayout::new(&fields, RowForm::Key).unwrap();
        layout
            .encode_into(&[column], Select::All, &mut rows)
            .unwrap();
        let from_rows = KeyBatch::from_rows(rows.iter()).unwrap();
        let mut index = KeyIndex::default();
        let (mut slots, mut again) = (Vec::new(), Vec::new());
        index.resolve(&keys, &mut slots, &mut Vec::new());
        index.resolve(&from_rows, &mut again, &mut Vec::new());
        assert_eq!(slots, again);
        assert_eq!(index.len(), 7);
        for (i, text) in texts.iter().enumerate() {
            assert_eq!(key_row(&keys, i), rows.get(i), "{text:?}");
            assert_eq!(keys.key(i), from_rows.key(i));
        }
        // One that is longer makes rows of all.
        let mixed = keys_of(Arc::new(StringArray::from(vec![
            "exactly8",
            "more than sixteen",
        ])));
        assert_eq!(mixed.form, Form::Rows);
        index.resolve(&mixed, &mut again, &mut Vec::new());
        assert_eq!(again[0], slots[0]);
    }

    #[test]
    fn rows_that_only_look_like_texts_stay_rows() {
        let text = keys_of(Arc::new(StringArray::from(vec!["nine byte"])));
        let row = key_row(&text, 0);
        assert!(matches!(Key::of_row(&row), Key::Short(_)));
        let changed = |at: usize, byte: u8| {
            let mut row = row.clone();
            row[at] = byte;
            row
        };
        // A header, a place, a length that does not fit, something behind the text.
        for other in [
            changed(1, 1),
            changed(12, 24),
            changed(8, 17),
            changed(8, 8),
            changed(31, 1),
        ] {
            assert_eq!(Key::of_row(&other), Key::Row(&other));
        }
        assert_eq!(Key::of_row(&row[..24]), Key::Row(&row[..24]));
    }

    #[test]
    fn short_strings_are_words_and_long_ones_rows() {
        let keys = keys_of(Arc::new(StringArray::from(vec![
            "abc",
            "longer than seven",
        ])));
        assert!(matches!(keys.key(0), Key::Word(_)));
        assert!(matches!(keys.key(1), Key::Row(row) if row.len() == 40));
    }

    #[test]
    fn no_columns_are_one_key() {
        let encoder = KeyEncoder::new(&[], &[]).unwrap();
        let mut keys = KeyBatch::default();
        encoder.encode(&[], 3, &mut keys).unwrap();
        assert_eq!(keys.len(), 3);
        assert_eq!(key_row(&keys, 2), [0; 8]);
    }

    #[test]
    fn a_batch_forgets_the_one_before() {
        let fields = [Arc::new(Field::new("k", DataType::Int64, true))];
        let encoder = KeyEncoder::new(&fields, &[0]).unwrap();
        let mut keys = KeyBatch::default();
        encoder
            .encode(
                &[Arc::new(Int64Array::from(vec![None, Some(2)]))],
                2,
                &mut keys,
            )
            .unwrap();
        encoder
            .encode(&[Arc::new(Int64Array::from(vec![5]))], 1, &mut keys)
            .unwrap();
        assert_eq!((keys.len(), keys.key(0)), (1, Key::Word(5)));
    }

    #[test]
    fn keys_are_decoded_to_the_columns_they_came_from() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(-7), None, Some(i64::MAX)])),
            Arc::new(Int32Array::from(vec![Some(-7), None, Some(i32::MAX)])),
            Arc::new(Int16Array::from(vec![Some(-7), None, Some(7)])),
            Arc::new(Int8Array::from(vec![Some(-7), None, Some(7)])),
            Arc::new(Date32Array::from(vec![Some(-7), None, Some(7)])),
            Arc::new(Time32MillisecondArray::from(vec![Some(7), None, Some(0)])),
            Arc::new(
                TimestampMillisecondArray::from(vec![Some(-7), None, Some(7)]).with_timezone("UTC"),
            ),
            Arc::new(Float64Array::from(vec![Some(-0.5), None, Some(1.5)])),
            Arc::new(Float32Array::from(vec![Some(-0.5), None, Some(1.5)])),
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            Arc::new(StringArray::from(vec![
                Some("a"),
                None,
                Some("long enough"),
            ])),
            Arc::new(Int64Array::from(vec![1, 2, 3])),
        ];
        for column in columns {
            let fields = [Arc::new(Field::new("k", column.data_type().clone(), true))];
            let encoder = KeyEncoder::new(&fields, &[0]).unwrap();
            let mut keys = KeyBatch::default();
            encoder
                .encode(std::slice::from_ref(&column), 3, &mut keys)
                .unwrap();
            let (mut index, mut slots) = (KeyIndex::default(), Vec::new());
            index.resolve(&keys, &mut slots, &mut Vec::new());
            assert_eq!(encoder.decode(&index, &slots).unwrap(), [column]);
        }
    }
}
