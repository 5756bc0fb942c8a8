//! From declared fields to where everything is.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, TimeUnit};

use super::decode::{self, Value};
use super::encode::{self, Select};
use super::error::{DecodeError, EncodeError, UnsupportedType};
use super::rows::Rows;

/// Levels of lists, structs and maps that a column may have; reading and writing recurse as deep.
const MAX_DEPTH: usize = 32;

/// How NULL is written in a DECIMAL of more than 18 digits or a TIMESTAMP finer than milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// As Flink's key projection does: the zeroed 16 or 8 bytes are reserved and the slot holds their
    /// offset. Nested types are not allowed.
    Key,
    /// As Flink's row serializer does: a zero slot and no variable part.
    Payload,
}

/// The compiled layout of rows with given fields. Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow::array::{ArrayRef, Int64Array, StringArray};
/// # use arrow::datatypes::{DataType, Field};
/// # use state_codec::{RowForm, RowLayout, Rows, Select};
/// let fields = [
///     Arc::new(Field::new("id", DataType::Int64, false)),
///     Arc::new(Field::new("tail", DataType::Utf8, true)),
/// ];
/// let columns: [ArrayRef; 2] = [
///     Arc::new(Int64Array::from(vec![7, 8])),
///     Arc::new(StringArray::from(vec![Some("N123AB"), None])),
/// ];
/// let layout = RowLayout::new(&fields, RowForm::Key)?;
/// let mut rows = Rows::new();
/// layout.encode_into(&columns, Select::All, &mut rows)?;
/// assert_eq!(rows.get(0), b"\0\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0N123AB\0\x86");
/// assert_eq!(layout.decode(&[rows.get(0), rows.get(1)])?, columns);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// All numbers are little-endian. Source: what Apache Flink 2.2.1 writes.
///
/// # A row of `n` fields
///
/// ```text
/// byte 0              row kind, always 0
/// bit 8 + i           1 if field i is NULL; bits count from the lowest of byte 0
/// ..  h               zeros; h = (n + 8 + 63) / 64 * 8, so 8 up to 56 fields, 16 up to 120
/// h + 8 i  .. + 8     slot of field i; zeros if it is NULL
/// h + 8 n  ..         variable part: pieces in field order, each padded with zeros to 8 bytes
/// ```
///
/// The row of no fields is 8 zero bytes. Slots and variable pieces by Arrow type:
///
/// ```text
/// type                             slot                                 variable piece
/// Boolean                          0 or 1 · 0 × 7
/// Int8 Int16 Int32 Int64           two's complement · zeros
/// Date32, Time32(Millisecond)      i32 · 0 × 4
/// Float32, Float64                 IEEE 754 bits as they are · zeros
/// Timestamp(Second | Millisecond)  i64 milliseconds
/// Timestamp(Micro | Nanosecond)    u32 nanos of milli · u32 offset      i64 milliseconds, rounded down
/// Decimal128, precision ≤ 18       i64 unscaled
/// Decimal128, precision > 18       u32 length · u32 offset              big-endian two's complement, as few
///                                                                       bytes as hold it, zeros up to 16
/// strings, binaries ≤ 7 bytes      the bytes · zeros · 0x80 | length
/// strings, binaries ≥ 8 bytes      u32 length · u32 offset              the bytes
/// List, Struct, Map                u32 length · u32 offset              array, row or map, see below
/// Dictionary                       as its value
/// Null                             zeros, the NULL bit is set
/// ```
///
/// Offsets count from the start of the row. Floats are not normalised: rows are equal when the bits are.
///
/// NULL leaves a zero slot and no variable piece, but for [`RowForm::Key`] and the two types
/// `Timestamp(Micro | Nanosecond)` and `Decimal128` of a precision above 18: there the piece of 8 or 16
/// zero bytes is kept and the slot holds its offset.
///
/// # Nested values
///
/// A struct is a row as above, its offsets counting from its own first byte. A list is an array:
///
/// ```text
/// 0 .. 4              number of elements m
/// bit 32 + i          1 if element i is NULL, counted from the lowest bit of byte 0
/// ..  h               zeros; h = 4 + (m + 31) / 32 * 4
/// h + w i  .. + w     slot of element i, the first w bytes of the slot above: 1 for Boolean and Int8,
///                     2 for Int16, 4 for Int32, Float32, Date32 and Time32, 8 for all others
/// ..                  zeros to a multiple of 8, then the variable part; offsets from the array's start
/// ```
///
/// A map is `u32` length of the array of keys, that array, the array of values.
#[derive(Clone, Debug)]
pub struct RowLayout {
    fields: Arc<[FieldRef]>,
    nodes: Arc<[Node]>,
    form: RowForm,
}

impl RowLayout {
    /// Compiles the layout of rows with these fields.
    ///
    /// A field that is not nullable holds no NULL: it is an error in what is written and in what is
    /// read.
    ///
    /// # Errors
    ///
    /// [`UnsupportedType`] for the first column whose type, or a part of it, has no layout (above); is a
    /// nested one in [`RowForm::Key`]; or nests deeper than 32 levels.
    pub fn new(fields: &[FieldRef], form: RowForm) -> Result<Self, UnsupportedType> {
        let nodes = fields
            .iter()
            .map(|field| {
                let node = Node::new(field.name().clone(), field, 0)?;
                match node.kind {
                    Kind::List(_) | Kind::Struct(_) | Kind::Map(..) if form == RowForm::Key => {
                        Err(node.unsupported("cannot be part of a key"))
                    }
                    _ => Ok(node),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            fields: fields.into(),
            nodes,
            form,
        })
    }

    /// The fields as declared.
    pub fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// How NULL is written.
    pub fn form(&self) -> RowForm {
        self.form
    }

    /// Bytes before the variable part: header and slots, a multiple of 8. A row is not shorter.
    pub fn fixed_bytes(&self) -> usize {
        row_fixed_bytes(self.nodes.len())
    }

    /// Bytes of every row, if the fields are such that all rows have equally many.
    pub fn uniform_bytes(&self) -> Option<usize> {
        self.nodes
            .iter()
            .try_fold(self.fixed_bytes(), |bytes, node| {
                let piece = node.kind.storage().reserved_bytes();
                match self.form {
                    RowForm::Key if piece > 0 => Some(bytes + piece),
                    _ => (!node.kind.is_variable()).then_some(bytes),
                }
            })
    }

    /// Appends the selected rows of `columns`, one array per field, of equal lengths.
    ///
    /// Takes two passes over each column and allocates nothing per row. Rows of no fields cannot be
    /// counted, so [`Select::All`] appends none of them and [`Select::Indices`] as many as are named.
    ///
    /// # Errors
    ///
    /// [`EncodeError`], and `out` is as before, if
    /// - the columns are not those of the layout in number and type, or differ in length;
    /// - a timestamp in seconds does not fit in 64 bits of milliseconds, or a decimal of at most 18
    ///   digits not in 64 bits;
    /// - a column has a NULL in a selected row and is not nullable;
    /// - a row would have more than `i32::MAX` bytes, or `out` more than its limit.
    ///
    /// # Panics
    ///
    /// If an index is beyond the columns' end.
    pub fn encode_into(
        &self,
        columns: &[ArrayRef],
        select: Select<'_>,
        out: &mut Rows,
    ) -> Result<(), EncodeError> {
        encode::encode_into(self, columns, select, out)
    }

    /// The rows as one array per field, of the declared types, all as long as `rows`.
    ///
    /// A dictionary comes back with each of its values once, in the order in which they occur.
    ///
    /// The rows may be any bytes. What is allocated is bounded by a small multiple of their length, given
    /// the widths of the declared types: a NULL of a `FixedSizeBinary` takes its width in Arrow.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] with column, row and byte, if a row is not one of this layout: too short, an
    /// offset beyond its end, values that overlap, text that is not UTF-8, a NULL in a column without,
    /// a value that the declared type does not have. Also if a dictionary has not enough keys, or a
    /// column of 32-bit offsets not enough room, for what is in the rows.
    pub fn decode(&self, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, DecodeError> {
        decode::decode(self, rows)
    }

    /// Whether field `field` of `row` is NULL.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the row is shorter than its fixed part.
    ///
    /// # Panics
    ///
    /// If there is no such field.
    pub fn is_null(&self, row: &[u8], field: usize) -> Result<bool, DecodeError> {
        decode::is_null(self, row, field)
    }

    /// Field `field` of `row`.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the row is too short or the field malformed; text is not looked into.
    ///
    /// # Panics
    ///
    /// If there is no such field.
    pub fn read<'a>(&self, row: &'a [u8], field: usize) -> Result<Value<'a>, DecodeError> {
        decode::read(self, row, field)
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

/// Header of a row: kind and NULL bits.
pub(super) fn row_header_bytes(fields: usize) -> usize {
    (fields + 8).div_ceil(64) * 8
}

/// Header and slots of a row.
pub(super) fn row_fixed_bytes(fields: usize) -> usize {
    row_header_bytes(fields) + 8 * fields
}

/// Header of an array: length and NULL bits.
pub(super) fn array_header_bytes(elements: usize) -> usize {
    4 + elements.div_ceil(32) * 4
}

/// Header and slots of an array.
pub(super) fn array_fixed_bytes(elements: usize, width: usize) -> usize {
    (array_header_bytes(elements) + width * elements).next_multiple_of(8)
}

/// The bit that says NULL for field `i` of a row, counted from the row's start.
pub(super) fn row_null_bit(i: usize) -> usize {
    8 + i
}

/// The bit that says NULL for element `i` of an array, counted from the array's start.
pub(super) fn array_null_bit(i: usize) -> usize {
    32 + i
}

/// A column or a part of one.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) data_type: DataType,
    /// No NULL may be here.
    pub(super) required: bool,
    pub(super) kind: Kind,
}

/// How values are stored.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Seconds,
    Micros,
    Nanos,
    CompactDecimal,
    WideDecimal,
    Bytes,
    Dictionary(Box<Node>),
    List(Box<Node>),
    Struct(Vec<Node>),
    Map(Box<[Node; 2]>),
}

impl Kind {
    /// This, or for a dictionary the kind of its values.
    pub(super) fn storage(&self) -> &Kind {
        match self {
            Kind::Dictionary(values) => &values.kind,
            kind => kind,
        }
    }

    /// Whether a value may need more than its slot.
    pub(super) fn is_variable(&self) -> bool {
        matches!(
            self.storage(),
            Kind::Micros
                | Kind::Nanos
                | Kind::WideDecimal
                | Kind::Bytes
                | Kind::List(_)
                | Kind::Struct(_)
                | Kind::Map(..)
        )
    }

    /// Bytes of the variable piece of every value, and in [`RowForm::Key`] of NULL too.
    pub(super) fn reserved_bytes(&self) -> usize {
        match self {
            Kind::Micros | Kind::Nanos => 8,
            Kind::WideDecimal => 16,
            _ => 0,
        }
    }

    /// Bytes of a slot in an array.
    pub(super) fn element_width(&self) -> usize {
        match self.storage() {
            Kind::Boolean | Kind::Int8 => 1,
            Kind::Int16 => 2,
            Kind::Int32 | Kind::Float32 => 4,
            _ => 8,
        }
    }
}

impl Node {
    fn new(path: String, field: &FieldRef, depth: usize) -> Result<Self, UnsupportedType> {
        let data_type = field.data_type();
        let unsupported = |reason| Err(UnsupportedType::new(&path, data_type, reason));
        let child =
            |field: &FieldRef| Self::new(format!("{path}.{}", field.name()), field, depth + 1);
        let nested = matches!(
            data_type,
            DataType::List(_) | DataType::LargeList(_) | DataType::Struct(_) | DataType::Map(..)
        );
        if nested && depth == MAX_DEPTH {
            return unsupported("is nested deeper than 32 levels");
        }
        let kind = match data_type {
            DataType::List(element) | DataType::LargeList(element) => {
                Kind::List(Box::new(child(element)?))
            }
            DataType::Struct(fields) => {
                Kind::Struct(fields.iter().map(child).collect::<Result<_, _>>()?)
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 && !entries.is_nullable() => {
                    if pair[0].is_nullable() {
                        return unsupported("has keys that may be NULL, so no row layout");
                    }
                    Kind::Map(Box::new([child(&pair[0])?, child(&pair[1])?]))
                }
                _ => return unsupported("has entries that are not pairs, so no row layout"),
            },
            DataType::Dictionary(_, value_type) => match flat_kind(value_type) {
                Some(kind) => Kind::Dictionary(Box::new(Self {
                    path: path.clone(),
                    data_type: value_type.as_ref().clone(),
                    required: false,
                    kind,
                })),
                None => return unsupported("has no row layout"),
            },
            _ => match flat_kind(data_type) {
                Some(kind) => kind,
                None => return unsupported("has no row layout"),
            },
        };
        // All that a Null column has is NULL, whatever its field says.
        let required = !field.is_nullable() && !matches!(kind, Kind::Null);
        Ok(Self {
            path,
            data_type: data_type.clone(),
            required,
            kind,
        })
    }

    /// How errors call it.
    pub(super) fn name(&self) -> String {
        format!("column `{}`", self.path)
    }

    fn unsupported(&self, reason: &'static str) -> UnsupportedType {
        UnsupportedType::new(&self.path, &self.data_type, reason)
    }
}

/// How the values of a type without parts are stored.
fn flat_kind(data_type: &DataType) -> Option<Kind> {
    Some(match data_type {
        DataType::Null => Kind::Null,
        DataType::Boolean => Kind::Boolean,
        DataType::Int8 => Kind::Int8,
        DataType::Int16 => Kind::Int16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(TimeUnit::Millisecond) => Kind::Int32,
        DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => Kind::Int64,
        DataType::Float32 => Kind::Float32,
        DataType::Float64 => Kind::Float64,
        DataType::Timestamp(TimeUnit::Second, _) => Kind::Seconds,
        DataType::Timestamp(TimeUnit::Microsecond, _) => Kind::Micros,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Kind::Nanos,
        DataType::Decimal128(precision, _) if *precision <= 18 => Kind::CompactDecimal,
        DataType::Decimal128(..) => Kind::WideDecimal,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Bytes,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Kind::Bytes,
        DataType::FixedSizeBinary(width) if *width >= 0 => Kind::Bytes,
        _ => return None,
    })
}
