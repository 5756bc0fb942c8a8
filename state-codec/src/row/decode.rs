//! From rows to columns, and single fields of single rows. The layouts are drawn at [`RowLayout`].

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BinaryViewBuilder, BooleanArray, DictionaryArray,
    FixedSizeBinaryArray, GenericListArray, LargeBinaryBuilder, LargeStringBuilder, MapArray,
    NullArray, OffsetSizeTrait, PrimitiveArray, StringBuilder, StringViewBuilder, StructArray,
    new_empty_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType, Date32Type, Decimal128Type, FieldRef,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::error::{DecodeError, DecodeErrorKind};
use super::layout::{
    Kind, Node, RowLayout, array_fixed_bytes, array_header_bytes, array_null_bit, row_fixed_bytes,
    row_header_bytes, row_null_bit,
};

/// Bytes of one buffer that views point into.
const MAX_VIEW_BLOCK: usize = 2 << 20;

/// One field of one row, as stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// BOOLEAN.
    Boolean(bool),
    /// An integer, days of a DATE, milliseconds of a TIME, or milliseconds since the epoch of a
    /// TIMESTAMP in seconds or milliseconds.
    Int(i64),
    /// FLOAT.
    Float32(f32),
    /// DOUBLE.
    Float64(f64),
    /// The unscaled value of a DECIMAL of any precision.
    Decimal(i128),
    /// A TIMESTAMP in microseconds or nanoseconds.
    Timestamp {
        /// Milliseconds since the epoch, rounded down.
        millis: i64,
        /// Nanoseconds of that millisecond, 0 to 999,999.
        nanos: u32,
    },
    /// A string, not yet known to be UTF-8, or a binary; of a list, struct or map its layout.
    Bytes(&'a [u8]),
}

pub(super) fn is_null(layout: &RowLayout, row: &[u8], field: usize) -> Result<bool, DecodeError> {
    assert!(field < layout.nodes().len(), "the row has no field {field}");
    check_fixed_part(row, layout.fixed_bytes())?;
    Ok(bit(row, row_null_bit(field)))
}

pub(super) fn read<'a>(
    layout: &RowLayout,
    row: &'a [u8],
    field: usize,
) -> Result<Value<'a>, DecodeError> {
    if is_null(layout, row, field)? {
        return Ok(Value::Null);
    }
    let node = &layout.nodes()[field];
    let slot = row_header_bytes(layout.nodes().len()) + 8 * field;
    read_value(node.kind.storage(), row, slot).map_err(|problem| problem.of(node, 0))
}

fn read_value<'a>(kind: &Kind, row: &'a [u8], slot: usize) -> Result<Value<'a>, Problem> {
    Ok(match kind {
        Kind::Null => return Err(Problem::malformed(slot, "is not NULL")),
        Kind::Boolean => Value::Boolean(read_bool(row, slot)?),
        Kind::Int8 => Value::Int(i8::from_le_bytes(load(row, slot)).into()),
        Kind::Int16 => Value::Int(i16::from_le_bytes(load(row, slot)).into()),
        Kind::Int32 => Value::Int(i32::from_le_bytes(load(row, slot)).into()),
        Kind::Int64 | Kind::Seconds => Value::Int(i64::from_le_bytes(load(row, slot))),
        Kind::Float32 => Value::Float32(f32::from_le_bytes(load(row, slot))),
        Kind::Float64 => Value::Float64(f64::from_le_bytes(load(row, slot))),
        Kind::CompactDecimal => Value::Decimal(i64::from_le_bytes(load(row, slot)).into()),
        Kind::WideDecimal => Value::Decimal(read_decimal(row, slot)?),
        Kind::Micros | Kind::Nanos => {
            let (millis, nanos) = read_timestamp(row, slot)?;
            Value::Timestamp { millis, nanos }
        }
        Kind::Bytes => Value::Bytes(read_bytes(row, slot)?),
        Kind::Dictionary(values) => return read_value(&values.kind, row, slot),
        Kind::List(_) | Kind::Struct(_) | Kind::Map(..) => Value::Bytes(read_piece(row, slot)?),
    })
}

pub(super) fn decode(layout: &RowLayout, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, DecodeError> {
    let fixed = layout.fixed_bytes();
    let mut containers = Vec::with_capacity(rows.len());
    for (row, &bytes) in rows.iter().enumerate() {
        check_fixed_part(bytes, fixed).map_err(|error| error.in_row(row))?;
        containers.push(Container {
            bytes,
            start: 0,
            room: bytes.len() - fixed,
            row,
        });
    }
    let header = row_header_bytes(layout.nodes().len());
    let mut cells = Vec::with_capacity(rows.len());
    let column = |(field, node): (usize, &Node)| {
        cells.clear();
        cells.extend(row_cells(&containers, header, field));
        check_required(node, &cells, &containers)?;
        decode_column(node, &cells, &mut containers)
    };
    layout.nodes().iter().enumerate().map(column).collect()
}

fn check_fixed_part(row: &[u8], fixed: usize) -> Result<(), DecodeError> {
    match fixed.checked_sub(row.len()) {
        None | Some(0) => Ok(()),
        Some(missing) => Err(DecodeError::truncated("fixed part of the row", 0, missing)),
    }
}

/// A row, an array or a map, whose fixed part has been seen to be there.
struct Container<'a> {
    bytes: &'a [u8],
    start: usize, // in the row
    /// Bytes of the variable part that no value has claimed. Values that overlap would let a short row
    /// stand for columns of any size.
    room: usize,
    row: usize,
}

/// Where a value is: the slot in which container.
#[derive(Clone, Copy)]
struct Cell {
    container: usize,
    slot: u32, // or NULL
}

const NULL: u32 = u32::MAX;

impl Cell {
    fn new(container: usize, slot: usize, is_null: bool) -> Self {
        let slot = if is_null { NULL } else { slot as u32 };
        Self { container, slot }
    }

    fn is_null(self) -> bool {
        self.slot == NULL
    }
}

/// Field `field` of each of the rows.
fn row_cells(
    containers: &[Container<'_>],
    header: usize,
    field: usize,
) -> impl Iterator<Item = Cell> {
    containers.iter().enumerate().map(move |(container, row)| {
        Cell::new(
            container,
            header + 8 * field,
            bit(row.bytes, row_null_bit(field)),
        )
    })
}

/// That no cell is NULL, if the column is not nullable.
fn check_required(
    node: &Node,
    cells: &[Cell],
    containers: &[Container<'_>],
) -> Result<(), DecodeError> {
    match cells.iter().find(|cell| node.required && cell.is_null()) {
        Some(&Cell { container, .. }) => {
            let Container { start, row, .. } = containers[container];
            Err(Problem::malformed(0, "has a NULL where none may be")
                .of(node, start)
                .in_row(row))
        }
        None => Ok(()),
    }
}

/// The cells, NULL in any place, as an array of the node's type.
fn decode_column(
    node: &Node,
    cells: &[Cell],
    containers: &mut [Container<'_>],
) -> Result<ArrayRef, DecodeError> {
    let mut column = ColumnReader {
        node,
        cells,
        containers,
    };
    match &node.kind {
        Kind::Null => column.null(),
        Kind::Boolean => column.boolean(),
        Kind::Int8 => column.fixed::<Int8Type, 1>(i8::from_le_bytes),
        Kind::Int16 => column.fixed::<Int16Type, 2>(i16::from_le_bytes),
        Kind::Int32 => match &node.data_type {
            DataType::Date32 => column.fixed::<Date32Type, 4>(i32::from_le_bytes),
            DataType::Time32(_) => column.fixed::<Time32MillisecondType, 4>(i32::from_le_bytes),
            _ => column.fixed::<Int32Type, 4>(i32::from_le_bytes),
        },
        Kind::Int64 => match &node.data_type {
            DataType::Timestamp(..) => {
                column.fixed::<TimestampMillisecondType, 8>(i64::from_le_bytes)
            }
            _ => column.fixed::<Int64Type, 8>(i64::from_le_bytes),
        },
        Kind::Float32 => column.fixed::<Float32Type, 4>(f32::from_le_bytes),
        Kind::Float64 => column.fixed::<Float64Type, 8>(f64::from_le_bytes),
        Kind::Seconds => column.primitive::<TimestampSecondType>(|bytes, slot| {
            let millis = i64::from_le_bytes(load(bytes, slot));
            if millis % 1000 == 0 {
                Ok(millis / 1000)
            } else {
                Err(Problem::malformed(slot, "is not a whole second"))
            }
        }),
        Kind::Micros => column.primitive::<TimestampMicrosecondType>(|bytes, slot| {
            let (millis, nanos) = read_timestamp(bytes, slot)?;
            if nanos % 1000 != 0 {
                return Err(Problem::malformed(slot, "is not a whole microsecond"));
            }
            join_timestamp(slot, millis, 1000, nanos / 1000)
        }),
        Kind::Nanos => column.primitive::<TimestampNanosecondType>(|bytes, slot| {
            let (millis, nanos) = read_timestamp(bytes, slot)?;
            join_timestamp(slot, millis, 1_000_000, nanos)
        }),
        Kind::CompactDecimal => {
            column.fixed::<Decimal128Type, 8>(|bytes| i64::from_le_bytes(bytes).into())
        }
        Kind::WideDecimal => column.primitive::<Decimal128Type>(read_decimal),
        Kind::Bytes => column.bytes(),
        Kind::Dictionary(values) => column.dictionary(values),
        Kind::List(element) => match &node.data_type {
            DataType::LargeList(field) => column.list::<i64>(element, field),
            DataType::List(field) => column.list::<i32>(element, field),
            _ => unreachable!("a list node is of a list type"),
        },
        Kind::Struct(children) => column.structs(children),
        Kind::Map(pair) => column.maps(pair),
    }
}

struct ColumnReader<'c, 'a> {
    node: &'c Node,
    cells: &'c [Cell],
    containers: &'c mut [Container<'a>],
}

impl<'a> ColumnReader<'_, 'a> {
    fn nulls(&self) -> Option<NullBuffer> {
        let any = self.cells.iter().any(|cell| cell.is_null());
        any.then(|| self.cells.iter().map(|cell| !cell.is_null()).collect())
    }

    #[cold]
    fn error(&self, cell: Cell, problem: Problem) -> DecodeError {
        let container = &self.containers[cell.container];
        problem.of(self.node, container.start).in_row(container.row)
    }

    #[cold]
    fn malformed(&self, reason: &'static str) -> DecodeError {
        DecodeError::new(self.node.name(), 0, DecodeErrorKind::Malformed(reason))
    }

    /// What `read` makes of a cell that is not NULL.
    fn read<T>(
        &self,
        cell: Cell,
        read: impl Fn(&'a [u8], usize) -> Result<T, Problem>,
    ) -> Result<T, DecodeError> {
        read(self.containers[cell.container].bytes, cell.slot as usize)
            .map_err(|problem| self.error(cell, problem))
    }

    /// Claims `bytes` of the variable part that the cell belongs to.
    fn claim(&mut self, cell: Cell, bytes: usize) -> Result<(), DecodeError> {
        let room = &mut self.containers[cell.container].room;
        match room.checked_sub(bytes) {
            Some(left) => {
                *room = left;
                Ok(())
            }
            None => {
                let problem = Problem::malformed(cell.slot as usize, "overlaps another value");
                Err(self.error(cell, problem))
            }
        }
    }

    fn null(&self) -> Result<ArrayRef, DecodeError> {
        match self.cells.iter().find(|cell| !cell.is_null()) {
            Some(&cell) => {
                Err(self.error(cell, Problem::malformed(cell.slot as usize, "is not NULL")))
            }
            None => Ok(Arc::new(NullArray::new(self.cells.len()))),
        }
    }

    fn boolean(&self) -> Result<ArrayRef, DecodeError> {
        let value = |&cell: &Cell| {
            if cell.is_null() {
                Ok(false)
            } else {
                self.read(cell, read_bool)
            }
        };
        let values: BooleanBuffer = self.cells.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Arc::new(BooleanArray::new(values, self.nulls())))
    }

    fn fixed<T: ArrowPrimitiveType, const N: usize>(
        &self,
        from: impl Fn([u8; N]) -> T::Native,
    ) -> Result<ArrayRef, DecodeError> {
        self.primitive::<T>(|bytes, slot| Ok(from(load(bytes, slot))))
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        read: impl Fn(&'a [u8], usize) -> Result<T::Native, Problem>,
    ) -> Result<ArrayRef, DecodeError> {
        let mut values = Vec::with_capacity(self.cells.len());
        for &cell in self.cells {
            values.push(if cell.is_null() {
                T::Native::default()
            } else {
                self.read(cell, &read)?
            });
        }
        let array = PrimitiveArray::<T>::new(values.into(), self.nulls());
        Ok(Arc::new(array.with_data_type(self.node.data_type.clone())))
    }

    fn bytes(&mut self) -> Result<ArrayRef, DecodeError> {
        let mut values = Vec::with_capacity(self.cells.len());
        let mut total = 0;
        for &cell in self.cells {
            let value = if cell.is_null() {
                None
            } else {
                Some(self.read(cell, read_bytes)?)
            };
            if let Some(bytes) = value {
                if !inline(self.containers[cell.container].bytes, cell.slot as usize) {
                    self.claim(cell, bytes.len())?;
                }
                total += bytes.len();
                let small = matches!(self.node.data_type, DataType::Utf8 | DataType::Binary);
                if small && total > i32::MAX as usize {
                    return Err(self.error(cell, Problem::offsets(cell)));
                }
            }
            values.push(value);
        }

        let text = |k: usize| -> Result<Option<&'a str>, DecodeError> {
            values[k].map(str::from_utf8).transpose().map_err(|_| {
                let cell = self.cells[k];
                self.error(cell, Problem::malformed(cell.slot as usize, "is not UTF-8"))
            })
        };
        let rows = values.len();
        // The builders' own first block of 16 KiB would be most of what a few rows take.
        let block = total.clamp(1, MAX_VIEW_BLOCK) as u32;
        Ok(match &self.node.data_type {
            DataType::Utf8 => {
                let mut builder = StringBuilder::with_capacity(rows, total);
                (0..rows).try_for_each(|k| text(k).map(|value| builder.append_option(value)))?;
                Arc::new(builder.finish())
            }
            DataType::LargeUtf8 => {
                let mut builder = LargeStringBuilder::with_capacity(rows, total);
                (0..rows).try_for_each(|k| text(k).map(|value| builder.append_option(value)))?;
                Arc::new(builder.finish())
            }
            DataType::Utf8View => {
                let mut builder =
                    StringViewBuilder::with_capacity(rows).with_fixed_block_size(block);
                (0..rows).try_for_each(|k| text(k).map(|value| builder.append_option(value)))?;
                Arc::new(builder.finish())
            }
            DataType::Binary => {
                let mut builder = BinaryBuilder::with_capacity(rows, total);
                values
                    .iter()
                    .for_each(|&value| builder.append_option(value));
                Arc::new(builder.finish())
            }
            DataType::LargeBinary => {
                let mut builder = LargeBinaryBuilder::with_capacity(rows, total);
                values
                    .iter()
                    .for_each(|&value| builder.append_option(value));
                Arc::new(builder.finish())
            }
            DataType::BinaryView => {
                let mut builder =
                    BinaryViewBuilder::with_capacity(rows).with_fixed_block_size(block);
                values
                    .iter()
                    .for_each(|&value| builder.append_option(value));
                Arc::new(builder.finish())
            }
            DataType::FixedSizeBinary(width) => self.fixed_size_binary(*width, &values)?,
            _ => unreachable!("a bytes node is of a string or binary type"),
        })
    }

    fn fixed_size_binary(
        &self,
        width: i32,
        values: &[Option<&[u8]>],
    ) -> Result<ArrayRef, DecodeError> {
        let mut bytes = Vec::new();
        for (&cell, value) in self.cells.iter().zip(values) {
            match value {
                Some(value) if value.len() == width as usize => bytes.extend_from_slice(value),
                Some(_) => {
                    let reason = "is not as long as its type says";
                    return Err(self.error(cell, Problem::malformed(cell.slot as usize, reason)));
                }
                None => bytes.resize(bytes.len() + width as usize, 0),
            }
        }
        let buffer = Buffer::from_vec(bytes);
        FixedSizeBinaryArray::try_new_with_len(width, buffer, self.nulls(), self.cells.len())
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|_| self.malformed("does not make an array of its type"))
    }

    fn dictionary(&mut self, value_node: &Node) -> Result<ArrayRef, DecodeError> {
        let DataType::Dictionary(key_type, _) = &self.node.data_type else {
            unreachable!("a dictionary node is of a dictionary type");
        };
        match key_type.as_ref() {
            DataType::Int8 => self.dictionary_of::<Int8Type>(value_node),
            DataType::Int16 => self.dictionary_of::<Int16Type>(value_node),
            DataType::Int32 => self.dictionary_of::<Int32Type>(value_node),
            DataType::Int64 => self.dictionary_of::<Int64Type>(value_node),
            DataType::UInt8 => self.dictionary_of::<UInt8Type>(value_node),
            DataType::UInt16 => self.dictionary_of::<UInt16Type>(value_node),
            DataType::UInt32 => self.dictionary_of::<UInt32Type>(value_node),
            _ => self.dictionary_of::<UInt64Type>(value_node),
        }
    }

    fn dictionary_of<K: ArrowDictionaryKeyType>(
        &mut self,
        value_node: &Node,
    ) -> Result<ArrayRef, DecodeError> {
        let hasher = RandomState::default();
        let mut seen: HashTable<(Identity<'a>, usize)> = HashTable::new();
        let mut distinct = Vec::new(); // the first cell of each value
        let mut keys = Vec::with_capacity(self.cells.len());
        for &cell in self.cells {
            if cell.is_null() {
                keys.push(K::Native::default());
                continue;
            }
            let value = self.read(cell, |bytes, slot| {
                Identity::of(&value_node.kind, bytes, slot)
            })?;
            let entry = seen.entry(
                hasher.hash_one(value),
                |(known, _)| *known == value,
                |(known, _)| hasher.hash_one(known),
            );
            let key = match entry {
                Entry::Occupied(entry) => entry.get().1,
                Entry::Vacant(entry) => {
                    distinct.push(cell);
                    entry.insert((value, distinct.len() - 1));
                    distinct.len() - 1
                }
            };
            keys.push(match K::Native::from_usize(key) {
                Some(key) => key,
                None => {
                    let kind = DecodeErrorKind::Overflow("the keys of its dictionary");
                    return Err(self.error(
                        cell,
                        Problem {
                            at: cell.slot as usize,
                            kind,
                        },
                    ));
                }
            });
        }
        let keys = PrimitiveArray::<K>::new(keys.into(), self.nulls());
        let values = if distinct.is_empty() {
            new_empty_array(&value_node.data_type)
        } else {
            decode_column(value_node, &distinct, self.containers)?
        };
        DictionaryArray::try_new(keys, values)
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|_| self.malformed("does not make an array of its type"))
    }

    fn list<O: OffsetSizeTrait>(
        &mut self,
        element: &Node,
        field: &FieldRef,
    ) -> Result<ArrayRef, DecodeError> {
        let mut arrays = Arrays::default();
        for &cell in self.cells {
            if !cell.is_null() {
                let (bytes, start) = self.nested(cell)?;
                let row = self.containers[cell.container].row;
                arrays.add(element, bytes, start, row)?;
            }
            arrays.end_row();
        }
        let offsets = self.offsets::<O>(&arrays)?;
        check_required(element, &arrays.cells, &arrays.containers)?;
        let values = decode_column(element, &arrays.cells, &mut arrays.containers)?;
        GenericListArray::try_new(Arc::clone(field), offsets, values, self.nulls())
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|_| self.malformed("does not make an array of its type"))
    }

    fn structs(&mut self, children: &[Node]) -> Result<ArrayRef, DecodeError> {
        let DataType::Struct(fields) = &self.node.data_type else {
            unreachable!("a struct node is of a struct type");
        };
        let header = row_header_bytes(children.len());
        let fixed = row_fixed_bytes(children.len());
        let mut rows = Vec::with_capacity(self.cells.len());
        for &cell in self.cells.iter().filter(|cell| !cell.is_null()) {
            let (bytes, start) = self.nested(cell)?;
            let row = self.containers[cell.container].row;
            match bytes.len().checked_sub(fixed) {
                Some(room) => rows.push(Container {
                    bytes,
                    start,
                    room,
                    row,
                }),
                None => {
                    let kind = DecodeErrorKind::Truncated(fixed - bytes.len());
                    return Err(Problem { at: 0, kind }.of(self.node, start).in_row(row));
                }
            }
        }
        let decode_child = |(field, node): (usize, &Node)| {
            let cells: Vec<Cell> = row_cells(&rows, header, field).collect();
            check_required(node, &cells, &rows)?;
            let mut present = cells.into_iter();
            let below_null = Cell {
                container: 0,
                slot: NULL,
            };
            let mut spread = Vec::with_capacity(self.cells.len());
            for cell in self.cells {
                let cell = if cell.is_null() { None } else { present.next() };
                spread.push(cell.unwrap_or(below_null));
            }
            decode_column(node, &spread, &mut rows)
        };
        let children = children
            .iter()
            .enumerate()
            .map(decode_child)
            .collect::<Result<_, _>>()?;
        StructArray::try_new_with_length(fields.clone(), children, self.nulls(), self.cells.len())
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|_| self.malformed("does not make an array of its type"))
    }

    fn maps(&mut self, pair: &[Node; 2]) -> Result<ArrayRef, DecodeError> {
        let DataType::Map(field, ordered) = &self.node.data_type else {
            unreachable!("a map node is of a map type");
        };
        let DataType::Struct(pair_fields) = field.data_type() else {
            unreachable!("entries of a map are structs");
        };
        let (mut keys, mut values) = (Arrays::default(), Arrays::default());
        for &cell in self.cells {
            if !cell.is_null() {
                let (bytes, start) = self.nested(cell)?;
                let row = self.containers[cell.container].row;
                let error = |kind| Problem { at: 0, kind }.of(self.node, start).in_row(row);
                let Some((length, arrays)) = bytes.split_first_chunk::<4>() else {
                    return Err(error(DecodeErrorKind::Truncated(4 - bytes.len())));
                };
                let length = u32::from_le_bytes(*length) as usize;
                let Some((key_array, value_array)) = arrays.split_at_checked(length) else {
                    return Err(error(DecodeErrorKind::Truncated(length - arrays.len())));
                };
                let key_count = keys.add(&pair[0], key_array, start + 4, row)?;
                let value_count = values.add(&pair[1], value_array, start + 4 + length, row)?;
                if key_count != value_count {
                    return Err(error(DecodeErrorKind::Malformed(
                        "has not a value for each key",
                    )));
                }
            }
            keys.end_row();
            values.end_row();
        }
        let offsets = self.offsets::<i32>(&keys)?;
        let entries = keys.cells.len();
        check_required(&pair[0], &keys.cells, &keys.containers)?;
        check_required(&pair[1], &values.cells, &values.containers)?;
        let columns = vec![
            decode_column(&pair[0], &keys.cells, &mut keys.containers)?,
            decode_column(&pair[1], &values.cells, &mut values.containers)?,
        ];
        StructArray::try_new_with_length(pair_fields.clone(), columns, None, entries)
            .and_then(|entries| {
                MapArray::try_new(Arc::clone(field), offsets, entries, self.nulls(), *ordered)
            })
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|_| self.malformed("does not make an array of its type"))
    }

    /// The piece of a list, struct or map and where in the row it starts.
    fn nested(&mut self, cell: Cell) -> Result<(&'a [u8], usize), DecodeError> {
        let (offset, piece) = self.read(cell, locate_piece)?;
        self.claim(cell, piece.len())?;
        Ok((piece, self.containers[cell.container].start + offset))
    }

    fn offsets<O: OffsetSizeTrait>(
        &self,
        arrays: &Arrays<'_>,
    ) -> Result<OffsetBuffer<O>, DecodeError> {
        let mut offsets = Vec::with_capacity(arrays.ends.len() + 1);
        offsets.push(O::zero());
        for (&end, &cell) in arrays.ends.iter().zip(self.cells) {
            match O::from_usize(end) {
                Some(end) => offsets.push(end),
                None => return Err(self.error(cell, Problem::offsets(cell))),
            }
        }
        Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
    }
}

/// Arrays one after the other, as the values of lists or one side of maps.
#[derive(Default)]
struct Arrays<'a> {
    containers: Vec<Container<'a>>,
    cells: Vec<Cell>,
    ends: Vec<usize>, // in `cells`, per row
}

impl<'a> Arrays<'a> {
    /// Adds the elements of the array in `bytes` and returns their number.
    fn add(
        &mut self,
        element: &Node,
        bytes: &'a [u8],
        start: usize,
        row: usize,
    ) -> Result<usize, DecodeError> {
        let truncated = |missing| {
            let kind = DecodeErrorKind::Truncated(missing);
            Problem { at: 0, kind }.of(element, start).in_row(row)
        };
        let Some(count) = bytes.first_chunk::<4>() else {
            return Err(truncated(4 - bytes.len()));
        };
        let count = u32::from_le_bytes(*count) as usize;
        let width = element.kind.element_width();
        // At most 2³² elements of 8 bytes and a bit: this does not overflow.
        let fixed = array_fixed_bytes(count, width);
        let Some(room) = bytes.len().checked_sub(fixed) else {
            return Err(truncated(fixed - bytes.len()));
        };
        let container = self.containers.len();
        self.containers.push(Container {
            bytes,
            start,
            room,
            row,
        });
        let header = array_header_bytes(count);
        self.cells.extend(
            (0..count)
                .map(|i| Cell::new(container, header + i * width, bit(bytes, array_null_bit(i)))),
        );
        Ok(count)
    }

    fn end_row(&mut self) {
        self.ends.push(self.cells.len());
    }
}

/// What makes two values of a dictionary one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Identity<'a> {
    Word([u8; 8]),
    Decimal(i128),
    Timestamp(i64, u32),
    Bytes(&'a [u8]),
}

impl<'a> Identity<'a> {
    fn of(kind: &Kind, bytes: &'a [u8], slot: usize) -> Result<Self, Problem> {
        Ok(match kind {
            Kind::Bytes => Self::Bytes(read_bytes(bytes, slot)?),
            Kind::WideDecimal => Self::Decimal(read_decimal(bytes, slot)?),
            Kind::Micros | Kind::Nanos => {
                let (millis, nanos) = read_timestamp(bytes, slot)?;
                Self::Timestamp(millis, nanos)
            }
            _ => {
                let mut word = [0; 8];
                let width = kind.element_width();
                word[..width].copy_from_slice(&bytes[slot..slot + width]);
                Self::Word(word)
            }
        })
    }
}

/// What is wrong at which byte of a container.
struct Problem {
    at: usize,
    kind: DecodeErrorKind,
}

impl Problem {
    fn malformed(at: usize, reason: &'static str) -> Self {
        Self {
            at,
            kind: DecodeErrorKind::Malformed(reason),
        }
    }

    fn offsets(cell: Cell) -> Self {
        let kind = DecodeErrorKind::Overflow("the 32-bit offsets of its type");
        Self {
            at: cell.slot as usize,
            kind,
        }
    }

    #[cold]
    fn of(self, node: &Node, start: usize) -> DecodeError {
        DecodeError::new(node.name(), start + self.at, self.kind)
    }
}

fn bit(bytes: &[u8], bit: usize) -> bool {
    bytes[bit / 8] & 1 << (bit % 8) != 0
}

/// The bytes of a slot, which is in the fixed part.
fn load<const N: usize>(bytes: &[u8], slot: usize) -> [u8; N] {
    *bytes[slot..]
        .first_chunk()
        .expect("the fixed part holds all slots")
}

fn read_bool(bytes: &[u8], slot: usize) -> Result<bool, Problem> {
    match bytes[slot] {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Problem::malformed(slot, "is neither false nor true")),
    }
}

/// The low and the high half of a slot that points to a piece.
fn halves(bytes: &[u8], slot: usize) -> (usize, usize) {
    let word = u64::from_le_bytes(load(bytes, slot));
    (word as u32 as usize, (word >> 32) as usize)
}

/// `length` bytes at `offset`.
fn piece(bytes: &[u8], offset: usize, length: usize) -> Result<&[u8], Problem> {
    let end = offset.saturating_add(length);
    bytes.get(offset..end).ok_or(Problem {
        at: offset,
        kind: DecodeErrorKind::Truncated(end.saturating_sub(bytes.len())),
    })
}

/// The piece that a slot points to, after its offset.
fn locate_piece(bytes: &[u8], slot: usize) -> Result<(usize, &[u8]), Problem> {
    let (length, offset) = halves(bytes, slot);
    Ok((offset, piece(bytes, offset, length)?))
}

fn read_piece(bytes: &[u8], slot: usize) -> Result<&[u8], Problem> {
    locate_piece(bytes, slot).map(|(_, piece)| piece)
}

/// Whether the slot of a string or binary holds the bytes itself.
fn inline(bytes: &[u8], slot: usize) -> bool {
    bytes[slot + 7] & 0x80 != 0
}

fn read_bytes(bytes: &[u8], slot: usize) -> Result<&[u8], Problem> {
    if !inline(bytes, slot) {
        return read_piece(bytes, slot);
    }
    match usize::from(bytes[slot + 7] & 0x7f) {
        length @ ..=7 => Ok(&bytes[slot..slot + length]),
        _ => Err(Problem::malformed(slot, "has more bytes than a slot holds")),
    }
}

fn read_decimal(bytes: &[u8], slot: usize) -> Result<i128, Problem> {
    let piece = read_piece(bytes, slot)?;
    if piece.is_empty() || piece.len() > 16 {
        return Err(Problem::malformed(
            slot,
            "is not a decimal of 1 to 16 bytes",
        ));
    }
    let sign = if piece[0] & 0x80 == 0 { 0 } else { 0xff };
    let mut unscaled = [sign; 16];
    unscaled[16 - piece.len()..].copy_from_slice(piece);
    Ok(i128::from_be_bytes(unscaled))
}

fn read_timestamp(bytes: &[u8], slot: usize) -> Result<(i64, u32), Problem> {
    let (nanos, offset) = halves(bytes, slot);
    if nanos > 999_999 {
        return Err(Problem::malformed(
            slot,
            "has more nanoseconds than a millisecond",
        ));
    }
    let millis = i64::from_le_bytes(load(piece(bytes, offset, 8)?, 0));
    Ok((millis, nanos as u32))
}

/// A timestamp in units of which a millisecond has `per_milli`.
fn join_timestamp(slot: usize, millis: i64, per_milli: i64, rest: u32) -> Result<i64, Problem> {
    // The earliest instants have millis that, taken alone, are out of range.
    let units = i128::from(millis) * i128::from(per_milli) + i128::from(rest);
    let kind = DecodeErrorKind::Overflow("the 64 bits of its unit");
    i64::try_from(units).map_err(|_| Problem { at: slot, kind })
}
