//! From columns to rows. The layouts are drawn at [`RowLayout`].

use std::iter::repeat;
use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};

use super::error::{EncodeError, EncodeErrorKind};
use super::layout::{
    Kind, Node, RowForm, RowLayout, array_fixed_bytes, array_header_bytes, array_null_bit,
    row_fixed_bytes, row_header_bytes, row_null_bit,
};
use super::rows::Rows;

/// Bytes of the longest row: its offsets and lengths are 32-bit, and the highest bit has a meaning.
const MAX_ROW_BYTES: usize = i32::MAX as usize;

/// Bytes that a slot itself holds of a string or binary; the eighth is their number.
const MAX_INLINE: usize = 7;

/// Runs `$body` with `$value` bound to the function from index to bytes, once per type of array.
macro_rules! with_bytes {
    ($bytes:expr, |$value:ident| $body:expr) => {
        match $bytes {
            Bytes::Utf8(array) => {
                let $value = |i: usize| array.value(i).as_bytes();
                $body
            }
            Bytes::LargeUtf8(array) => {
                let $value = |i: usize| array.value(i).as_bytes();
                $body
            }
            Bytes::Utf8View(array) => {
                let $value = |i: usize| array.value(i).as_bytes();
                $body
            }
            Bytes::Binary(array) => {
                let $value = |i: usize| array.value(i);
                $body
            }
            Bytes::LargeBinary(array) => {
                let $value = |i: usize| array.value(i);
                $body
            }
            Bytes::BinaryView(array) => {
                let $value = |i: usize| array.value(i);
                $body
            }
            Bytes::Fixed(array) => {
                let $value = |i: usize| array.value(i);
                $body
            }
        }
    };
}
/// Which rows of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Select<'a> {
    /// Every row in order.
    All,
    /// These, in this order; a row may be named more than once.
    Indices(&'a [u32]),
}

pub(super) fn encode_into(
    layout: &RowLayout,
    columns: &[ArrayRef],
    select: Select<'_>,
    out: &mut Rows,
) -> Result<(), EncodeError> {
    let batch_rows = check_columns(layout, columns)?;
    if let Select::Indices(indices) = select {
        let bound = if columns.is_empty() {
            usize::MAX
        } else {
            batch_rows
        };
        assert!(
            indices.iter().all(|&i| (i as usize) < bound),
            "an index is beyond the batch"
        );
    }
    let (bytes_before, rows_before) = (out.bytes.len(), out.ends.len());
    let result = append(layout, columns, batch_rows, select, out);
    if result.is_err() {
        out.bytes.truncate(bytes_before);
        out.ends.truncate(rows_before);
    }
    result
}

/// The length of the columns, which are as the layout wants them.
fn check_columns(layout: &RowLayout, columns: &[ArrayRef]) -> Result<usize, EncodeError> {
    let nodes = layout.nodes();
    if columns.len() != nodes.len() {
        let (expected, found) = (nodes.len(), columns.len());
        return Err(EncodeError::new(EncodeErrorKind::ColumnCount {
            expected,
            found,
        }));
    }
    let rows = columns.first().map_or(0, |column| column.len());
    for (node, column) in nodes.iter().zip(columns) {
        let declared = &node.data_type;
        if declared != column.data_type() && !declared.equals_datatype(column.data_type()) {
            return Err(EncodeError::new(EncodeErrorKind::Type {
                column: node.path.clone(),
                expected: declared.clone(),
                found: column.data_type().clone(),
            }));
        }
        if column.len() != rows {
            return Err(EncodeError::new(EncodeErrorKind::Length {
                column: node.path.clone(),
                expected: rows,
                found: column.len(),
            }));
        }
    }
    Ok(rows)
}

/// Leaves `out` in disorder if it fails, but what was there before is still at its start.
fn append(
    layout: &RowLayout,
    columns: &[ArrayRef],
    batch_rows: usize,
    select: Select<'_>,
    out: &mut Rows,
) -> Result<(), EncodeError> {
    let nodes = layout.nodes();
    let columns: Vec<Column<'_>> = nodes
        .iter()
        .zip(columns)
        .map(|(node, array)| Column::new(node, array.as_ref()))
        .collect();
    let rows = match select {
        Select::All => batch_rows,
        Select::Indices(indices) => indices.len(),
    };
    let (base, first) = (out.bytes.len(), out.ends.len());

    let fixed = layout.fixed_bytes();
    out.ends.resize(first + rows, fixed);
    for (node, column) in nodes
        .iter()
        .zip(&columns)
        .filter(|(node, _)| node.kind.is_variable())
    {
        add_sizes(node, column, layout.form(), select, &mut out.ends[first..]);
    }
    let mut end = base;
    let mut longest = 0;
    for size in &mut out.ends[first..] {
        longest = longest.max(*size);
        end = end.saturating_add(*size);
        *size = end;
    }
    if longest > MAX_ROW_BYTES {
        let kind = EncodeErrorKind::TooLarge {
            needed: longest,
            limit: MAX_ROW_BYTES,
        };
        return Err(EncodeError::new(kind));
    }
    if end > out.limit {
        let kind = EncodeErrorKind::TooLarge {
            needed: end,
            limit: out.limit,
        };
        return Err(EncodeError::new(kind));
    }

    out.bytes.resize(end, 0);
    out.cursors.clear();
    if nodes.iter().any(|node| node.kind.is_variable()) {
        out.cursors.resize(rows, fixed);
    }
    let mut target = Target {
        bytes: &mut out.bytes,
        base,
        ends: &out.ends[first..],
        cursors: &mut out.cursors,
        select,
        header: row_header_bytes(nodes.len()),
    };
    for (field, (node, column)) in nodes.iter().zip(&columns).enumerate() {
        target.write_column(layout.form(), field, node, column)?;
    }
    Ok(())
}

/// Adds to each selected row's size the bytes that `column` has in its variable part.
fn add_sizes(
    node: &Node,
    column: &Column<'_>,
    form: RowForm,
    select: Select<'_>,
    sizes: &mut [usize],
) {
    fn add(select: Select<'_>, sizes: &mut [usize], size: impl Fn(usize) -> usize) {
        match select {
            Select::All => sizes
                .iter_mut()
                .enumerate()
                .for_each(|(i, sum)| *sum += size(i)),
            Select::Indices(indices) => {
                sizes
                    .iter_mut()
                    .zip(indices)
                    .for_each(|(sum, &i)| *sum += size(i as usize));
            }
        }
    }

    let reserved = node.kind.storage().reserved_bytes();
    if form == RowForm::Key && reserved > 0 {
        return sizes.iter_mut().for_each(|sum| *sum += reserved);
    }
    match (&column.values, column.nulls) {
        (Values::Bytes(bytes), None) => {
            with_bytes!(bytes, |value| add(select, sizes, |i| bytes_piece(value(i))));
        }
        (Values::Bytes(bytes), Some(nulls)) => with_bytes!(bytes, |value| {
            add(select, sizes, |i| {
                if nulls.is_valid(i) {
                    bytes_piece(value(i))
                } else {
                    0
                }
            });
        }),
        _ => add(select, sizes, |i| column.piece_bytes(i)),
    }
}

/// The rows that are being written, all zero at first.
struct Target<'a> {
    bytes: &'a mut [u8],
    base: usize, // where the first of them starts
    ends: &'a [usize],
    cursors: &'a mut [usize], // from the row's start; empty if no column is variable
    select: Select<'a>,
    header: usize,
}

impl Target<'_> {
    fn write_column(
        &mut self,
        form: RowForm,
        field: usize,
        node: &Node,
        column: &Column<'_>,
    ) -> Result<(), EncodeError> {
        let slot = self.header + 8 * field;
        let put = |word: [u8; 8], row: &mut [u8]| row[slot..slot + 8].copy_from_slice(&word);
        match &column.values {
            // The columns that keys and sort keys are made of have a loop of their own.
            Values::Int32(values) => self.each(field, node, column, |row, i| {
                row[slot..slot + 4].copy_from_slice(&values[i].to_le_bytes());
                Ok(())
            }),
            Values::Int64(values) => self.each(field, node, column, |row, i| {
                put(values[i].to_le_bytes(), row);
                Ok(())
            }),
            Values::Float64(values) => self.each(field, node, column, |row, i| {
                put(values[i].to_le_bytes(), row);
                Ok(())
            }),
            Values::Bytes(bytes) => with_bytes!(bytes, |value| {
                self.each_variable(
                    field,
                    node,
                    column,
                    |row, i, cursor| {
                        put(write_bytes(value(i), row, cursor), row);
                        Ok(())
                    },
                    |_, _| {},
                )
            }),
            _ if node.kind.is_variable() => {
                let reserved = match form {
                    RowForm::Key => node.kind.storage().reserved_bytes(),
                    RowForm::Payload => 0,
                };
                self.each_variable(
                    field,
                    node,
                    column,
                    |row, i, cursor| {
                        let word = column.write(node, i, row, cursor)?;
                        put(word, row);
                        Ok(())
                    },
                    |row, cursor| {
                        if reserved > 0 {
                            put(offset_word(*cursor, 0), row);
                            *cursor += reserved;
                        }
                    },
                )
            }
            _ => self.each(field, node, column, |row, i| {
                put(column.fixed(node, i)?, row);
                Ok(())
            }),
        }
    }

    /// Calls `write` with each row and the index of its value, or sets its NULL bit.
    fn each(
        &mut self,
        field: usize,
        node: &Node,
        column: &Column<'_>,
        write: impl Fn(&mut [u8], usize) -> Result<(), Fault>,
    ) -> Result<(), EncodeError> {
        let rows = RowsMut {
            bytes: self.bytes,
            base: self.base,
            ends: self.ends,
        };
        let write = |row: &mut [u8], i, ()| write(row, i);
        rows.walk(
            self.select,
            repeat(()),
            field,
            node,
            column,
            write,
            |_, ()| {},
        )
    }

    /// As [`each`](Self::each), with the cursor of each row.
    fn each_variable(
        &mut self,
        field: usize,
        node: &Node,
        column: &Column<'_>,
        write: impl Fn(&mut [u8], usize, &mut usize) -> Result<(), Fault>,
        write_null: impl Fn(&mut [u8], &mut usize),
    ) -> Result<(), EncodeError> {
        let rows = RowsMut {
            bytes: self.bytes,
            base: self.base,
            ends: self.ends,
        };
        rows.walk(
            self.select,
            self.cursors.iter_mut(),
            field,
            node,
            column,
            write,
            write_null,
        )
    }
}

struct RowsMut<'a> {
    bytes: &'a mut [u8],
    base: usize,
    ends: &'a [usize],
}

impl RowsMut<'_> {
    #[expect(
        clippy::too_many_arguments,
        reason = "one loop, specialised by all of them"
    )]
    fn walk<C: Iterator>(
        self,
        select: Select<'_>,
        cursors: C,
        field: usize,
        node: &Node,
        column: &Column<'_>,
        write: impl Fn(&mut [u8], usize, C::Item) -> Result<(), Fault>,
        write_null: impl Fn(&mut [u8], C::Item),
    ) -> Result<(), EncodeError> {
        let bit = row_null_bit(field);
        let always = |_: usize| true;
        let sometimes = |i: usize| column.is_valid(i);
        let nullable = column.may_have_nulls();
        match select {
            Select::All if nullable => {
                self.visit(0.., cursors, bit, node, sometimes, write, write_null)
            }
            Select::All => self.visit(0.., cursors, bit, node, always, write, write_null),
            Select::Indices(indices) => {
                let indices = indices.iter().map(|&i| i as usize);
                if nullable {
                    self.visit(indices, cursors, bit, node, sometimes, write, write_null)
                } else {
                    self.visit(indices, cursors, bit, node, always, write, write_null)
                }
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one loop, specialised by all of them"
    )]
    #[inline(always)]
    fn visit<C: Iterator>(
        self,
        indices: impl Iterator<Item = usize>,
        cursors: C,
        null_bit: usize,
        node: &Node,
        is_valid: impl Fn(usize) -> bool,
        write: impl Fn(&mut [u8], usize, C::Item) -> Result<(), Fault>,
        write_null: impl Fn(&mut [u8], C::Item),
    ) -> Result<(), EncodeError> {
        let mut start = self.base;
        for ((&end, i), cursor) in self.ends.iter().zip(indices).zip(cursors) {
            let row = &mut self.bytes[start..end];
            start = end;
            if is_valid(i) {
                write(row, i, cursor).map_err(|fault| fault.in_row(i))?;
            } else if node.required {
                return Err(Fault::null(node).in_row(i));
            } else {
                set_bit(row, null_bit);
                write_null(row, cursor);
            }
        }
        Ok(())
    }
}

/// A value that does not fit, in a row that the caller knows.
struct Fault {
    column: String,
    problem: String,
}

impl Fault {
    #[cold]
    fn new(node: &Node, problem: String) -> Self {
        Self {
            column: node.path.clone(),
            problem,
        }
    }

    #[cold]
    fn null(node: &Node) -> Self {
        Self::new(node, "NULL in a column that is not nullable".to_owned())
    }

    #[cold]
    fn in_row(self, row: usize) -> EncodeError {
        let Self { column, problem } = self;
        EncodeError::new(EncodeErrorKind::Value {
            column,
            row,
            problem,
        })
    }
}

/// An array, or a part of one, looked at as its storage.
struct Column<'a> {
    nulls: Option<&'a NullBuffer>, // of a dictionary: of its keys
    values: Values<'a>,
    element_width: usize,
    is_variable: bool,
}

enum Values<'a> {
    Null,
    Boolean(&'a BooleanBuffer),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Seconds(&'a [i64]),
    Micros(&'a [i64]),
    Nanos(&'a [i64]),
    CompactDecimal(&'a [i128]),
    WideDecimal(&'a [i128]),
    Bytes(Bytes<'a>),
    Dictionary(Keys<'a>, Box<Column<'a>>),
    List(Offsets<'a>, Box<Column<'a>>),
    Struct(Vec<Column<'a>>),
    Map(Offsets<'a>, Box<[Column<'a>; 2]>),
}

enum Bytes<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    Fixed(&'a FixedSizeBinaryArray),
}

enum Keys<'a> {
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
}

impl Keys<'_> {
    /// The index of the value in row `i`, which is not NULL.
    fn get(&self, i: usize) -> usize {
        // The keys of a valid array are indices of its values, so none is changed by the casts.
        match self {
            Keys::Int8(keys) => keys[i] as usize,
            Keys::Int16(keys) => keys[i] as usize,
            Keys::Int32(keys) => keys[i] as usize,
            Keys::Int64(keys) => keys[i] as usize,
            Keys::UInt8(keys) => keys[i] as usize,
            Keys::UInt16(keys) => keys[i] as usize,
            Keys::UInt32(keys) => keys[i] as usize,
            Keys::UInt64(keys) => keys[i] as usize,
        }
    }
}

enum Offsets<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

impl Offsets<'_> {
    /// The elements of the list in row `i`.
    fn range(&self, i: usize) -> Range<usize> {
        match self {
            Offsets::Small(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
            Offsets::Large(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
        }
    }
}

impl<'a> Column<'a> {
    /// `array` is of the type that `node` was made of.
    fn new(node: &Node, array: &'a dyn Array) -> Self {
        let values = match &node.kind {
            Kind::Null => Values::Null,
            Kind::Boolean => Values::Boolean(array.as_boolean().values()),
            Kind::Int8 => Values::Int8(array.as_primitive::<Int8Type>().values()),
            Kind::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            Kind::Int32 => Values::Int32(match &node.data_type {
                DataType::Date32 => array.as_primitive::<Date32Type>().values(),
                DataType::Time32(_) => array.as_primitive::<Time32MillisecondType>().values(),
                _ => array.as_primitive::<Int32Type>().values(),
            }),
            Kind::Int64 => Values::Int64(match &node.data_type {
                DataType::Timestamp(..) => {
                    array.as_primitive::<TimestampMillisecondType>().values()
                }
                _ => array.as_primitive::<Int64Type>().values(),
            }),
            Kind::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
            Kind::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            Kind::Seconds => Values::Seconds(array.as_primitive::<TimestampSecondType>().values()),
            Kind::Micros => {
                Values::Micros(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            Kind::Nanos => Values::Nanos(array.as_primitive::<TimestampNanosecondType>().values()),
            Kind::CompactDecimal => {
                Values::CompactDecimal(array.as_primitive::<Decimal128Type>().values())
            }
            Kind::WideDecimal => {
                Values::WideDecimal(array.as_primitive::<Decimal128Type>().values())
            }
            Kind::Bytes => Values::Bytes(match &node.data_type {
                DataType::Utf8 => Bytes::Utf8(array.as_string()),
                DataType::LargeUtf8 => Bytes::LargeUtf8(array.as_string()),
                DataType::Utf8View => Bytes::Utf8View(array.as_string_view()),
                DataType::Binary => Bytes::Binary(array.as_binary()),
                DataType::LargeBinary => Bytes::LargeBinary(array.as_binary()),
                DataType::BinaryView => Bytes::BinaryView(array.as_binary_view()),
                _ => Bytes::Fixed(array.as_fixed_size_binary()),
            }),
            Kind::Dictionary(value_node) => {
                let (keys, values) = dictionary_parts(&node.data_type, array);
                Values::Dictionary(keys, Box::new(Column::new(value_node, values.as_ref())))
            }
            Kind::List(element) => match &node.data_type {
                DataType::LargeList(_) => {
                    let list = array.as_list::<i64>();
                    let child = Column::new(element, list.values().as_ref());
                    Values::List(Offsets::Large(list.value_offsets()), Box::new(child))
                }
                _ => {
                    let list = array.as_list::<i32>();
                    let child = Column::new(element, list.values().as_ref());
                    Values::List(Offsets::Small(list.value_offsets()), Box::new(child))
                }
            },
            Kind::Struct(children) => {
                let arrays = array.as_struct().columns();
                let column =
                    |(node, array): (&Node, &'a ArrayRef)| Column::new(node, array.as_ref());
                Values::Struct(children.iter().zip(arrays).map(column).collect())
            }
            Kind::Map(pair) => {
                let map = array.as_map();
                let keys = Column::new(&pair[0], map.keys().as_ref());
                let values = Column::new(&pair[1], map.values().as_ref());
                Values::Map(
                    Offsets::Small(map.value_offsets()),
                    Box::new([keys, values]),
                )
            }
        };
        Self {
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
            values,
            element_width: node.kind.element_width(),
            is_variable: node.kind.is_variable(),
        }
    }

    fn may_have_nulls(&self) -> bool {
        match &self.values {
            Values::Null => true,
            Values::Dictionary(_, values) => self.nulls.is_some() || values.may_have_nulls(),
            _ => self.nulls.is_some(),
        }
    }

    fn is_valid(&self, i: usize) -> bool {
        self.nulls.is_none_or(|nulls| nulls.is_valid(i))
            && match &self.values {
                Values::Null => false,
                Values::Dictionary(keys, values) => values.is_valid(keys.get(i)),
                _ => true,
            }
    }

    /// Bytes of value `i` in a variable part.
    fn piece_bytes(&self, i: usize) -> usize {
        if !self.is_valid(i) {
            return 0;
        }
        match &self.values {
            Values::Micros(_) | Values::Nanos(_) => 8,
            Values::WideDecimal(_) => 16,
            Values::Bytes(bytes) => with_bytes!(bytes, |value| bytes_piece(value(i))),
            Values::Dictionary(keys, values) => values.piece_bytes(keys.get(i)),
            Values::List(offsets, elements) => elements.array_bytes(offsets.range(i)),
            Values::Struct(children) => {
                let pieces = children.iter().map(|child| child.piece_bytes(i));
                row_fixed_bytes(children.len()) + pieces.sum::<usize>()
            }
            Values::Map(offsets, pair) => {
                let arrays = pair.iter().map(|array| array.array_bytes(offsets.range(i)));
                (4 + arrays.sum::<usize>()).next_multiple_of(8)
            }
            _ => 0,
        }
    }

    /// Bytes of an array of these elements.
    fn array_bytes(&self, elements: Range<usize>) -> usize {
        let fixed = array_fixed_bytes(elements.len(), self.element_width);
        if self.is_variable {
            fixed + elements.map(|i| self.piece_bytes(i)).sum::<usize>()
        } else {
            fixed
        }
    }

    /// The slot of value `i`, which is not NULL and of a type without variable pieces.
    fn fixed(&self, node: &Node, i: usize) -> Result<[u8; 8], Fault> {
        Ok(match &self.values {
            Values::Boolean(values) => slot([u8::from(values.value(i))]),
            Values::Int8(values) => slot(values[i].to_le_bytes()),
            Values::Int16(values) => slot(values[i].to_le_bytes()),
            Values::Int32(values) => slot(values[i].to_le_bytes()),
            Values::Int64(values) => values[i].to_le_bytes(),
            Values::Float32(values) => slot(values[i].to_le_bytes()),
            Values::Float64(values) => values[i].to_le_bytes(),
            Values::Seconds(values) => match values[i].checked_mul(1000) {
                Some(millis) => millis.to_le_bytes(),
                None => {
                    let problem = format!("{} s do not fit in 64 bits of milliseconds", values[i]);
                    return Err(Fault::new(node, problem));
                }
            },
            Values::CompactDecimal(values) => match i64::try_from(values[i]) {
                Ok(unscaled) => unscaled.to_le_bytes(),
                Err(_) => {
                    let problem = format!(
                        "unscaled {} does not fit in the 64 bits of a short decimal",
                        values[i]
                    );
                    return Err(Fault::new(node, problem));
                }
            },
            Values::Dictionary(keys, values) => return values.fixed(node, keys.get(i)),
            _ => unreachable!("this type has variable pieces"),
        })
    }

    /// The slot of value `i`, which is not NULL; its piece, if it has one, goes to the `cursor` of `out`.
    fn write(
        &self,
        node: &Node,
        i: usize,
        out: &mut [u8],
        cursor: &mut usize,
    ) -> Result<[u8; 8], Fault> {
        Ok(match (&self.values, &node.kind) {
            (Values::Bytes(bytes), _) => {
                with_bytes!(bytes, |value| write_bytes(value(i), out, cursor))
            }
            (Values::WideDecimal(values), _) => {
                let bytes = values[i].to_be_bytes();
                let start = 15 - significant_bits(values[i]) as usize / 8;
                write_piece(out, cursor, 16, &bytes[start..])
            }
            (Values::Micros(values), _) => {
                let nanos = values[i].rem_euclid(1000) * 1000;
                write_timestamp(out, cursor, values[i].div_euclid(1000), nanos)
            }
            (Values::Nanos(values), _) => {
                let nanos = values[i].rem_euclid(1_000_000);
                write_timestamp(out, cursor, values[i].div_euclid(1_000_000), nanos)
            }
            (Values::Dictionary(keys, values), Kind::Dictionary(value_node)) => {
                values.write(value_node, keys.get(i), out, cursor)?
            }
            (Values::List(offsets, elements), Kind::List(element)) => {
                let start = *cursor;
                let size = elements.write_array(element, offsets.range(i), &mut out[start..])?;
                *cursor += size;
                offset_word(start, size)
            }
            (Values::Struct(children), Kind::Struct(nodes)) => {
                let start = *cursor;
                let size = write_row(nodes, children, i, &mut out[start..])?;
                *cursor += size;
                offset_word(start, size)
            }
            (Values::Map(offsets, pair), Kind::Map(nodes)) => {
                let start = *cursor;
                let map = &mut out[start..];
                let keys = pair[0].write_array(&nodes[0], offsets.range(i), &mut map[4..])?;
                map[..4].copy_from_slice(&(keys as u32).to_le_bytes());
                let values =
                    pair[1].write_array(&nodes[1], offsets.range(i), &mut map[4 + keys..])?;
                let size = 4 + keys + values;
                *cursor += size.next_multiple_of(8);
                offset_word(start, size)
            }
            _ => self.fixed(node, i)?,
        })
    }

    /// Writes an array to the start of `out` and returns its bytes, a multiple of 8.
    fn write_array(
        &self,
        node: &Node,
        elements: Range<usize>,
        out: &mut [u8],
    ) -> Result<usize, Fault> {
        let count = elements.len();
        let width = self.element_width;
        let header = array_header_bytes(count);
        let mut cursor = array_fixed_bytes(count, width);
        out[..4].copy_from_slice(&(count as u32).to_le_bytes());
        for (element, i) in elements.enumerate() {
            if self.is_valid(i) {
                let word = self.write(node, i, out, &mut cursor)?;
                let at = header + element * width;
                out[at..at + width].copy_from_slice(&word[..width]);
            } else if node.required {
                return Err(Fault::null(node));
            } else {
                set_bit(out, array_null_bit(element));
            }
        }
        Ok(cursor)
    }
}

/// The keys and the values of a dictionary array of this type.
fn dictionary_parts<'a>(data_type: &DataType, array: &'a dyn Array) -> (Keys<'a>, &'a ArrayRef) {
    fn parts<'a, K: ArrowDictionaryKeyType>(
        array: &'a dyn Array,
        keys: fn(&'a [K::Native]) -> Keys<'a>,
    ) -> (Keys<'a>, &'a ArrayRef) {
        let array = array.as_dictionary::<K>();
        (keys(array.keys().values()), array.values())
    }

    let DataType::Dictionary(key_type, _) = data_type else {
        unreachable!("a dictionary node is of a dictionary type");
    };
    match key_type.as_ref() {
        DataType::Int8 => parts::<Int8Type>(array, Keys::Int8),
        DataType::Int16 => parts::<Int16Type>(array, Keys::Int16),
        DataType::Int32 => parts::<Int32Type>(array, Keys::Int32),
        DataType::Int64 => parts::<Int64Type>(array, Keys::Int64),
        DataType::UInt8 => parts::<UInt8Type>(array, Keys::UInt8),
        DataType::UInt16 => parts::<UInt16Type>(array, Keys::UInt16),
        DataType::UInt32 => parts::<UInt32Type>(array, Keys::UInt32),
        _ => parts::<UInt64Type>(array, Keys::UInt64),
    }
}

/// Writes a nested row to the start of `out` and returns its bytes, a multiple of 8.
fn write_row(
    nodes: &[Node],
    columns: &[Column<'_>],
    i: usize,
    out: &mut [u8],
) -> Result<usize, Fault> {
    let header = row_header_bytes(nodes.len());
    let mut cursor = row_fixed_bytes(nodes.len());
    for (field, (node, column)) in nodes.iter().zip(columns).enumerate() {
        if column.is_valid(i) {
            let word = column.write(node, i, out, &mut cursor)?;
            let at = header + 8 * field;
            out[at..at + 8].copy_from_slice(&word);
        } else if node.required {
            return Err(Fault::null(node));
        } else {
            set_bit(out, row_null_bit(field));
        }
    }
    Ok(cursor)
}

fn set_bit(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] |= 1 << (bit % 8);
}

/// Bytes, then zeros.
fn slot<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
    let mut slot = [0; 8];
    slot[..N].copy_from_slice(&bytes);
    slot
}

/// A slot that points to a piece. Both numbers are below 2³¹, as rows are no longer.
fn offset_word(offset: usize, low: usize) -> [u8; 8] {
    ((offset as u64) << 32 | low as u64).to_le_bytes()
}

/// Bytes that a string or binary has in the variable part.
fn bytes_piece(value: &[u8]) -> usize {
    if value.len() <= MAX_INLINE {
        0
    } else {
        value.len().next_multiple_of(8)
    }
}

#[inline]
fn write_bytes(value: &[u8], out: &mut [u8], cursor: &mut usize) -> [u8; 8] {
    if value.len() <= MAX_INLINE {
        let mut word = [0; 8];
        word[..value.len()].copy_from_slice(value);
        word[7] = 0x80 | value.len() as u8;
        word
    } else {
        write_piece(out, cursor, value.len().next_multiple_of(8), value)
    }
}

/// Writes `value` at the cursor, moves that by `reserved`, and returns the slot.
#[inline]
fn write_piece(out: &mut [u8], cursor: &mut usize, reserved: usize, value: &[u8]) -> [u8; 8] {
    let start = *cursor;
    out[start..start + value.len()].copy_from_slice(value);
    *cursor += reserved;
    offset_word(start, value.len())
}

fn write_timestamp(out: &mut [u8], cursor: &mut usize, millis: i64, nanos: i64) -> [u8; 8] {
    let start = *cursor;
    write_piece(out, cursor, 8, &millis.to_le_bytes());
    offset_word(start, nanos as usize)
}

/// Bits of the two's complement but for the sign.
fn significant_bits(value: i128) -> u32 {
    128 - if value < 0 {
        value.leading_ones()
    } else {
        value.leading_zeros()
    }
}
