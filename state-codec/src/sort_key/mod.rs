//! Keys that compare as an ORDER BY does: by their bytes alone.

mod column; // Arrow columns → numbers and bytes
mod term; // one column of the order: what its values look like in a key

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef};

use self::column::{BytesColumn, NumberSink, number_column};
use self::term::{Body, Scalar, Term};
use crate::row::{DecodeError, RowLayout};

/// Bytes of a key that [`SortKey::prefix`] holds.
const PREFIX_BYTES: usize = 16;

/// The direction of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Greatest first.
    Descending,
}

/// Where NULL stands, whatever the direction. SQL's default in Flink is first for ascending columns and
/// last for descending ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nulls {
    /// Before every value.
    First,
    /// After every value.
    Last,
}

/// How NaN compares. ±0.0 tie under both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatOrder {
    /// NaN ties with every number, as in Flink, which compares by plain `<` and `>`. It does not tie
    /// with NULL. This is not transitive (1 ties with NaN and NaN with 2), so it suits a comparison of
    /// two rows but no sorting.
    Flink,
    /// NaN is greater than every number, and all NaNs tie, whatever their bits.
    Total,
}

/// One column of an ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortColumn {
    /// Its index in the fields.
    pub column: usize,
    /// Its direction.
    pub order: Order,
    /// Where its NULLs stand.
    pub nulls: Nulls,
}

/// A compiled ORDER BY: turns rows into [`SortKeys`] and compares them.
///
/// Source of the order: what Apache Flink 2.2.1 does in ranking. Integers, dates, times and decimals
/// compare as numbers, timestamps as instants, false before true, strings and binaries by unsigned
/// bytes with a prefix first, ±0.0 tie; for NaN see [`FloatOrder`]. NULL is placed independently of the
/// direction; two NULLs tie and the next column decides.
///
/// ```
/// # use std::cmp::Ordering;
/// # use std::sync::Arc;
/// # use arrow::array::{ArrayRef, Int32Array, StringArray};
/// # use arrow::datatypes::{DataType, Field};
/// use state_codec::{FloatOrder, Nulls, Order, SortColumn, SortKeys, SortOrder};
///
/// let fields = [
///     Arc::new(Field::new("tail", DataType::Utf8, false)),
///     Arc::new(Field::new("delay", DataType::Int32, true)),
/// ];
/// // ORDER BY delay DESC NULLS LAST, tail ASC
/// let order = SortOrder::new(
///     &fields,
///     &[
///         SortColumn { column: 1, order: Order::Descending, nulls: Nulls::Last },
///         SortColumn { column: 0, order: Order::Ascending, nulls: Nulls::First },
///     ],
///     FloatOrder::Flink,
/// )?;
/// let columns: [ArrayRef; 2] = [
///     Arc::new(StringArray::from(vec!["N123", "N45", "N6", "N7"])),
///     Arc::new(Int32Array::from(vec![Some(10), Some(25), None, Some(10)])),
/// ];
/// let mut keys = SortKeys::default();
/// order.encode(&columns, &mut keys);
/// assert_eq!(order.compare(keys.get(1), keys.get(0)), Ordering::Less); // 25 comes before 10
/// assert_eq!(order.compare(keys.get(0), keys.get(3)), Ordering::Less); // a tie, then N123 before N7
/// assert_eq!(order.compare(keys.get(3), keys.get(2)), Ordering::Less); // NULL is last
/// # Ok::<(), state_codec::SortError>(())
/// ```
///
/// # Bytes of a key
///
/// A key is one piece per column of the order, one after the other:
///
/// ```text
/// marker     1 byte, only if the field is nullable:
///              NULLs first:  00 NULL   01 value
///              NULLs last:   01 value  02 NULL
/// body       of a value: as below; with every bit inverted for a descending column
///            of NULL: as many 00 bytes as a value of fixed width has, otherwise nothing
/// ```
///
/// The body of a value; numbers are big-endian:
///
/// ```text
/// Boolean                              1 byte    00 false, 01 true
/// Int8, Int16, Int32, Int64            1 2 4 8   two's complement, sign bit inverted
/// Date32, Time32(Millisecond)          4         as Int32
/// Timestamp of any unit                8         as Int64, in its own unit
/// Decimal128, precision ≤ 18           8         unscaled, as Int64
/// Decimal128, precision > 18           16        unscaled, two's complement, sign bit inverted
/// Float32, Float64                     4 8       IEEE 754 bits; sign bit inverted if it was 0, otherwise all;
///                                                −0.0 is written as +0.0, NaN as 7fc00000 or 7ff8000000000000
/// FixedSizeBinary(n)                   n         the bytes
/// strings, other binaries              var       the bytes, 00 as 00 ff; then 00 01
/// Dictionary                                     as its value
/// Null                                 0         nothing, not even a marker: all are NULL
/// ```
///
/// No key is the beginning of another of the same order, so keys of unequal length compare by bytes too.
#[derive(Clone, Debug)]
pub struct SortOrder {
    terms: Vec<Term>,
    /// The column that says how many rows there are, also where no term has any bytes.
    first_column: usize,
    /// Every key has this length, if it is fixed.
    key_bytes: Option<usize>,
    transitive: bool,
}

impl SortOrder {
    /// Compiles the order of rows that have these `fields`: by the first of `columns`, then the next.
    ///
    /// # Errors
    ///
    /// [`SortError`] if `columns` is empty, names a column that is not there or one twice, or one whose
    /// type has no order here: those that have one are in the table [above](Self#bytes-of-a-key).
    pub fn new(
        fields: &[FieldRef],
        columns: &[SortColumn],
        floats: FloatOrder,
    ) -> Result<Self, SortError> {
        let first_column = columns.first().ok_or(SortError::Empty)?.column;
        let mut terms = Vec::with_capacity(columns.len());
        let mut key_bytes = Some(0);
        let mut transitive = true;
        for (i, sort) in columns.iter().enumerate() {
            let field = fields.get(sort.column).ok_or(SortError::OutOfRange {
                column: sort.column,
                fields: fields.len(),
            })?;
            if columns[..i]
                .iter()
                .any(|earlier| earlier.column == sort.column)
            {
                return Err(SortError::Duplicate {
                    column: field.name().clone(),
                });
            }
            let at = key_bytes.unwrap_or(PREFIX_BYTES);
            let Some(term) = Term::new(field, sort, floats, at) else {
                return Err(SortError::NotOrderable {
                    column: field.name().clone(),
                    data_type: field.data_type().clone(),
                });
            };
            key_bytes = key_bytes
                .zip(term.fixed_bytes())
                .map(|(sum, bytes)| sum + bytes);
            transitive &= !term.nan_ties();
            if term.fixed_bytes() != Some(0) {
                terms.push(term);
            }
        }
        Ok(Self {
            terms,
            first_column,
            key_bytes,
            transitive,
        })
    }

    /// Whether the prefix alone decides every comparison (all columns of fixed width, at most 16 bytes
    /// together, and no NaN that ties): then `rest` is always empty and comparing prefixes as integers
    /// is [`compare`](Self::compare).
    pub fn prefix_decides(&self) -> bool {
        self.fits_prefix() && self.transitive
    }

    /// Whether ties and precedence are transitive, as sorting needs. False exactly if a float column is
    /// among the columns and [`FloatOrder::Flink`] was asked for.
    pub fn is_transitive(&self) -> bool {
        self.transitive
    }

    fn fits_prefix(&self) -> bool {
        self.key_bytes.is_some_and(|bytes| bytes <= PREFIX_BYTES)
    }

    /// Replaces the content of `out` with one key per row. `columns` are all columns of the batch,
    /// indexed by [`SortColumn::column`]; others than those of the order are not looked at.
    ///
    /// One pass per column of the order where keys are of a fixed width of at most 16 bytes, otherwise
    /// two and a copy of the prefixes. Allocates only where `out` has not enough capacity, and for
    /// dictionaries. A NULL in a field that was declared to have none is written without a marker,
    /// as 00 bytes or the empty string.
    ///
    /// # Panics
    ///
    /// If a column of the order is missing, not of the declared type, or not as long as the others.
    pub fn encode(&self, columns: &[ArrayRef], out: &mut SortKeys) {
        let rows = columns[self.first_column].len();
        out.clear();
        for term in &self.terms {
            let array = &columns[term.column];
            assert!(
                array.data_type() == &term.data_type && array.len() == rows,
                "sort column {} has {} rows of {}, not {rows} of {}",
                term.column,
                array.len(),
                array.data_type(),
                term.data_type,
            );
        }
        if let Some(words) = self.words_of(columns) {
            out.words = Some(words);
        } else if self.fits_prefix() {
            self.encode_prefixes(columns, rows, &mut out.prefixes);
        } else {
            self.encode_bytes(columns, rows, out);
        }
    }

    /// The prefixes as the memory of the only column, if they can be seen so.
    fn words_of(&self, columns: &[ArrayRef]) -> Option<Words> {
        let [term] = &self.terms[..] else {
            return None;
        };
        let array = &columns[term.column];
        let numbers = column::int64_memory(array).filter(|_| array.null_count() == 0)?;
        Some(Words {
            numbers,
            place: term.place().of_signed(),
        })
    }

    fn encode_prefixes(&self, columns: &[ArrayRef], rows: usize, prefixes: &mut Vec<u128>) {
        for (i, term) in self.terms.iter().enumerate() {
            let array = &columns[term.column];
            let nulls = nulls_of(array);
            let sink = PrefixSink {
                term,
                nulls: nulls.as_ref(),
                first: i == 0,
                prefixes,
            };
            number_column(term.kind, array, sink);
        }
        prefixes.resize(rows, 0); // only if no term has any bytes
    }

    fn encode_bytes(&self, columns: &[ArrayRef], rows: usize, out: &mut SortKeys) {
        let SortKeys {
            prefixes,
            bytes,
            ends,
            ..
        } = out;
        let fixed: usize = self.terms.iter().map(Term::least_bytes).sum();
        ends.resize(rows, fixed);
        for term in self.terms.iter().filter(|term| term.body == Body::Escaped) {
            let array = &columns[term.column];
            let nulls = nulls_of(array);
            let values = BytesColumn::new(array);
            for (row, length) in ends.iter_mut().enumerate() {
                let value = is_valid(nulls.as_ref(), row).then(|| Scalar::Bytes(values.get(row)));
                *length += term.body_bytes(value.unwrap_or(Scalar::Null));
            }
        }
        // From here until all terms are written, `ends[i]` is where the next piece of key `i` goes.
        let mut total = 0;
        for end in ends.iter_mut() {
            total += std::mem::replace(end, total);
        }
        bytes.resize(total, 0);
        for term in &self.terms {
            let array = &columns[term.column];
            let nulls = nulls_of(array);
            match term.body {
                Body::Number(_) => {
                    let sink = BytesSink {
                        term,
                        nulls: nulls.as_ref(),
                        bytes,
                        cursors: ends,
                    };
                    number_column(term.kind, array, sink);
                }
                Body::Raw(_) | Body::Escaped => {
                    let values = BytesColumn::new(array);
                    for (row, at) in ends.iter_mut().enumerate() {
                        let value = match is_valid(nulls.as_ref(), row) {
                            true => Scalar::Bytes(values.get(row)),
                            false => Scalar::Null,
                        };
                        *at += term.write(value, &mut bytes[*at..]);
                    }
                }
            }
        }
        let mut start = 0;
        prefixes.extend(ends.iter().map(|&end| {
            let prefix = prefix_of(&bytes[start..end]);
            start = end;
            prefix
        }));
    }

    /// Appends the key of one row that `layout` wrote, byte for byte as [`encode`](Self::encode) makes
    /// it. `layout` must be one of the fields given to [`new`](Self::new), in either form; `out` must hold
    /// keys of this order only.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the row is malformed where a column of the order is; then `out` is unchanged.
    ///
    /// # Panics
    ///
    /// If `layout` has not as many fields.
    pub fn encode_row(
        &self,
        layout: &RowLayout,
        row: &[u8],
        out: &mut SortKeys,
    ) -> Result<(), DecodeError> {
        out.own_prefixes();
        if self.fits_prefix() {
            let mut prefix = 0;
            for term in &self.terms {
                prefix |= match term.scalar(layout.read(row, term.column)?)? {
                    Scalar::Number(number) => term.placed(number),
                    Scalar::Null | Scalar::Bytes(_) => term.placed_null(),
                };
            }
            out.prefixes.push(prefix);
            return Ok(());
        }
        let start = out.bytes.len();
        for term in &self.terms {
            let value = layout
                .read(row, term.column)
                .and_then(|value| term.scalar(value));
            match value {
                Ok(value) => {
                    let at = out.bytes.len();
                    out.bytes
                        .resize(at + term.marker_bytes() + term.body_bytes(value), 0);
                    term.write(value, &mut out.bytes[at..]);
                }
                Err(error) => {
                    out.bytes.truncate(start);
                    return Err(error);
                }
            }
        }
        out.prefixes.push(prefix_of(&out.bytes[start..]));
        out.ends.push(out.bytes.len());
        Ok(())
    }

    /// Compares two keys of this order. [`Ordering::Less`]: `a` comes first.
    #[inline]
    pub fn compare(&self, a: SortKey<'_>, b: SortKey<'_>) -> Ordering {
        if self.transitive {
            a.prefix.cmp(&b.prefix).then_with(|| a.rest.cmp(b.rest))
        } else {
            self.compare_by_term(a, b)
        }
    }

    /// As the terms before it tied, a term starts at the same byte in both keys: equal strings are
    /// equally long, and a NaN is as wide as the number that it ties with.
    fn compare_by_term(&self, a: SortKey<'_>, b: SortKey<'_>) -> Ordering {
        let mut at = 0;
        for term in &self.terms {
            if let Some(marker) = term.marker {
                let (x, y) = (a.byte(at), b.byte(at));
                if x != y {
                    return x.cmp(&y);
                }
                at += 1;
                if x == marker.null {
                    at += term.body_bytes(Scalar::Null);
                    continue;
                }
            }
            match term.body {
                Body::Number(width) => {
                    let (x, y) = (a.number(at, width), b.number(at, width));
                    if x != y && !term.is_nan_that_ties(x) && !term.is_nan_that_ties(y) {
                        return x.cmp(&y);
                    }
                    at += width;
                }
                Body::Raw(width) => {
                    for at in at..at + width {
                        let (x, y) = (a.byte(at), b.byte(at));
                        if x != y {
                            return x.cmp(&y);
                        }
                    }
                    at += width;
                }
                Body::Escaped => {
                    let mut after_zero = false;
                    while at < a.len() {
                        let (x, y) = (a.byte(at), b.byte(at));
                        if x != y {
                            return x.cmp(&y);
                        }
                        at += 1;
                        let plain = x ^ term.inversion();
                        if after_zero && plain == term::TERMINATOR {
                            break;
                        }
                        after_zero = plain == 0;
                    }
                }
            }
        }
        Ordering::Equal
    }
}

/// The NULLs of a column, those of a dictionary's values included; `None` if there are none.
fn nulls_of(array: &ArrayRef) -> Option<NullBuffer> {
    array.logical_nulls().filter(|nulls| nulls.null_count() > 0)
}

fn is_valid(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_none_or(|nulls| nulls.is_valid(row))
}

fn prefix_of(key: &[u8]) -> u128 {
    match key.first_chunk::<PREFIX_BYTES>() {
        Some(chunk) => u128::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; PREFIX_BYTES];
            chunk[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(chunk)
        }
    }
}

/// Puts numbers where they belong in 16-byte keys.
struct PrefixSink<'a> {
    term: &'a Term,
    nulls: Option<&'a NullBuffer>,
    /// Whether the prefixes are yet to be made.
    first: bool,
    prefixes: &'a mut Vec<u128>,
}

impl NumberSink for PrefixSink<'_> {
    fn take(self, numbers: impl Iterator<Item = u128>) {
        let Self {
            term,
            nulls,
            first,
            prefixes,
        } = self;
        let place = term.place();
        match nulls {
            None => put(prefixes, first, place, numbers),
            Some(nulls) => {
                let null = term.placed_null();
                let placed = numbers
                    .zip(nulls.iter())
                    .map(|(number, valid)| if valid { place.of(number) } else { null });
                put_placed(prefixes, first, placed);
            }
        }
    }
}

/// The shifts of a key that is one 8-byte number, without a marker and with one, are constants in
/// loops of their own: a shift of 16 bytes by a number not known costs more than all else here.
fn put(
    prefixes: &mut Vec<u128>,
    first: bool,
    place: term::Place,
    numbers: impl Iterator<Item = u128>,
) {
    let term::Place { constant, shift } = place;
    match shift {
        64 => put_placed(
            prefixes,
            first,
            numbers.map(|number| constant ^ (number << 64)),
        ),
        56 => put_placed(
            prefixes,
            first,
            numbers.map(|number| constant ^ (number << 56)),
        ),
        _ => put_placed(prefixes, first, numbers.map(|number| place.of(number))),
    }
}

fn put_placed(prefixes: &mut Vec<u128>, first: bool, placed: impl Iterator<Item = u128>) {
    if first {
        prefixes.extend(placed);
    } else {
        for (prefix, placed) in prefixes.iter_mut().zip(placed) {
            *prefix |= placed;
        }
    }
}

/// Writes numbers at the cursor of each key and moves it behind them.
struct BytesSink<'a> {
    term: &'a Term,
    nulls: Option<&'a NullBuffer>,
    bytes: &'a mut [u8],
    cursors: &'a mut [usize],
}

impl NumberSink for BytesSink<'_> {
    fn take(self, numbers: impl Iterator<Item = u128>) {
        for (row, (at, number)) in self.cursors.iter_mut().zip(numbers).enumerate() {
            let value = match is_valid(self.nulls, row) {
                true => Scalar::Number(number),
                false => Scalar::Null,
            };
            *at += self.term.write(value, &mut self.bytes[*at..]);
        }
    }
}

/// A sort key: its first 16 bytes as a big-endian number, padded with zeros, and what follows them.
///
/// Most comparisons end with the prefix. It has meaning only to the [`SortOrder`] that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey<'a> {
    /// The first 16 bytes.
    pub prefix: u128,
    /// The others.
    pub rest: &'a [u8],
}

impl SortKey<'_> {
    fn len(&self) -> usize {
        PREFIX_BYTES + self.rest.len()
    }

    /// Byte `at`; 0 beyond the end.
    fn byte(&self, at: usize) -> u8 {
        match at.checked_sub(PREFIX_BYTES) {
            None => self.prefix.to_be_bytes()[at],
            Some(at) => self.rest.get(at).copied().unwrap_or(0),
        }
    }

    /// The `width` bytes from `at` as a number.
    fn number(&self, at: usize, width: usize) -> u128 {
        if width > 0 && at + width <= PREFIX_BYTES {
            return (self.prefix << (8 * at)) >> (8 * (PREFIX_BYTES - width));
        }
        (at..at + width).fold(0, |number, at| number << 8 | u128::from(self.byte(at)))
    }
}

/// Sort keys of a batch in reused buffers, 16 bytes a key and what is longer beside them.
#[derive(Clone, Debug, Default)]
pub struct SortKeys {
    prefixes: Vec<u128>,
    /// In the place of `prefixes`, where they are made of a column's memory as it is.
    words: Option<Words>,
    /// The keys one after the other, beginnings included; unused if they fit in the prefixes.
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`; empty if they fit in the prefixes.
    ends: Vec<usize>,
}

/// The prefixes of a batch whose order is one column of 8-byte integers, none of them NULL in it: prefix
/// `i` is `constant ^ numbers[i] << shift`. The numbers are the column's own memory, so that encoding
/// costs nothing and comparing reads half as much.
#[derive(Clone, Debug)]
struct Words {
    numbers: ScalarBuffer<u64>,
    place: term::Place,
}

impl SortKeys {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.words
            .as_ref()
            .map_or(self.prefixes.len(), |words| words.numbers.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Key `i`.
    ///
    /// # Panics
    ///
    /// If there is no such key.
    #[inline]
    pub fn get(&self, i: usize) -> SortKey<'_> {
        if let Some(words) = &self.words {
            let prefix = words.place.of(words.numbers[i].into());
            return SortKey { prefix, rest: &[] };
        }
        let prefix = self.prefixes[i];
        let rest = match self.ends.get(i) {
            None => &[],
            Some(&end) => {
                let start = if i == 0 { 0 } else { self.ends[i - 1] };
                self.bytes[start..end].get(PREFIX_BYTES..).unwrap_or(&[])
            }
        };
        SortKey { prefix, rest }
    }

    /// Calls `visit` with the number and the prefix of each key, in order. Faster than
    /// [`get`](Self::get) for each: the loop is made for the way in which the keys are kept.
    #[inline]
    pub fn for_each_prefix(&self, mut visit: impl FnMut(usize, u128)) {
        let Some(Words { numbers, place }) = &self.words else {
            for (i, &prefix) in self.prefixes.iter().enumerate() {
                visit(i, prefix);
            }
            return;
        };
        let constant = place.constant;
        match place.shift {
            64 => {
                for (i, &number) in numbers.iter().enumerate() {
                    visit(i, constant ^ (u128::from(number) << 64));
                }
            }
            56 => {
                for (i, &number) in numbers.iter().enumerate() {
                    visit(i, constant ^ (u128::from(number) << 56));
                }
            }
            _ => {
                for (i, &number) in numbers.iter().enumerate() {
                    visit(i, place.of(number.into()));
                }
            }
        }
    }

    /// Forgets the keys, lets go of the batch that they were made of, and keeps the capacity.
    pub fn clear(&mut self) {
        self.prefixes.clear();
        self.words = None;
        self.bytes.clear();
        self.ends.clear();
    }

    /// Turns prefixes that are a column's memory into a list that can grow.
    fn own_prefixes(&mut self) {
        if let Some(Words { numbers, place }) = self.words.take() {
            let prefixes = numbers.iter().map(|&number| place.of(number.into()));
            self.prefixes.extend(prefixes);
        }
    }

    /// The bytes allocated, used or not; a batch's memory is the batch's.
    pub fn allocated_bytes(&self) -> usize {
        self.prefixes.capacity() * size_of::<u128>()
            + self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
    }
}

/// Why an ORDER BY cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SortError {
    /// It has no column.
    #[error("an order needs at least one column")]
    Empty,
    /// It names a column that is not there.
    #[error("sort column {column} is beyond the {fields} fields of the rows")]
    OutOfRange {
        /// The index given.
        column: usize,
        /// How many fields there are.
        fields: usize,
    },
    /// It names a column twice.
    #[error("column `{column}` is in the order twice")]
    Duplicate {
        /// The name of the field.
        column: String,
    },
    /// It names a column whose type has no order here.
    #[error("column `{column}` of type {data_type} cannot be ordered")]
    NotOrderable {
        /// The name of the field.
        column: String,
        /// Its type.
        data_type: DataType,
    },
}
