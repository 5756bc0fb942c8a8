//! Arrow IPC streams that are looked into before they are believed.
//!
//! Arrow's reader takes the lengths and places in a message for granted where it slices and allocates. Here
//! each message is checked first: its own framing, what its metadata says of its body, and whether that is
//! enough for the columns of the schema. What is handed on is at most as long as what was read.

use std::collections::HashMap;
use std::io::{self, Read};

use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use arrow::ipc::{
    self, Buffer, FieldNode, Message, MessageHeader, MetadataVersion, Type,
    root_as_message_with_opts,
};
use flatbuffers::VerifierOptions;

/// What every message begins with, before the length of its metadata.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// How deep types may be nested.
const MAX_DEPTH: usize = 32;
/// What buffers start at a multiple of: the width of the widest value, so that none has to be copied. The
/// writer takes multiples of 64.
const BUFFER_ALIGNMENT: u64 = 16;

/// Reads a stream of `left` bytes message by message.
#[derive(Debug)]
pub(super) struct CheckedStream<R> {
    pub(super) inner: R,
    left: u64,
    /// A message that was checked, and how much of it was handed on.
    message: Vec<u8>,
    at: usize,
    columns: Option<Columns>,
    ended: bool,
}

/// What the schema message says.
#[derive(Debug)]
struct Columns {
    schema: SchemaRef,
    /// The types of dictionaries by their numbers.
    dictionaries: HashMap<i64, DataType>,
}

fn malformed(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

impl<R: Read> CheckedStream<R> {
    pub(super) fn new(inner: R, bytes: u64) -> Self {
        Self {
            inner,
            left: bytes,
            message: Vec::new(),
            at: 0,
            columns: None,
            ended: false,
        }
    }

    /// Whether the stream has come to its end, and nothing stands behind that.
    pub(super) fn is_through(&self) -> bool {
        self.ended && self.left == 0
    }

    fn take(&mut self, bytes: u64) -> io::Result<()> {
        if bytes > self.left {
            return Err(malformed("a message is longer than its section"));
        }
        let before = self.message.len() as u64;
        let taken = (&mut self.inner)
            .take(bytes)
            .read_to_end(&mut self.message)?;
        debug_assert_eq!(before + taken as u64, self.message.len() as u64);
        if (taken as u64) < bytes {
            return Err(malformed("the section ends within a message"));
        }
        self.left -= bytes;
        Ok(())
    }

    fn next_message(&mut self) -> io::Result<()> {
        self.message.clear();
        self.at = 0;
        if self.ended {
            return Ok(());
        }
        self.take(8)?;
        let (continuation, length) = self.message.split_at(4);
        if continuation != CONTINUATION {
            return Err(malformed("a message does not begin as one"));
        }
        let length = i32::from_le_bytes(length.try_into().expect("half of 8 bytes is 4 bytes"));
        if length == 0 {
            self.ended = true;
            return Ok(());
        }
        let length = u64::try_from(length).map_err(|_| malformed("a length is negative"))?;
        self.take(length)?;
        let metadata = self.message.split_off(8);
        let body_bytes = self.check(&metadata)?;
        self.message.extend_from_slice(&metadata);
        drop(metadata);
        self.take(body_bytes)
    }

    /// Checks the metadata of a message and returns the length of its body.
    fn check(&mut self, metadata: &[u8]) -> io::Result<u64> {
        // Several offsets may lead to one table, so a short schema could stand for one of any size.
        let options = VerifierOptions {
            max_depth: 128, // a map takes two levels
            max_tables: 64 + metadata.len() / 8,
            max_apparent_size: 4096 + 8 * metadata.len(),
            ignore_missing_null_terminator: false,
        };
        let message = root_as_message_with_opts(&options, metadata)
            .map_err(|_| malformed("the metadata of a message is not a flatbuffer of Arrow"))?;
        if message.version() != MetadataVersion::V5 {
            return Err(malformed("a message is not of metadata version 5"));
        }
        let body_bytes = u64::try_from(message.bodyLength())
            .map_err(|_| malformed("the length of a body is negative"))?;
        if body_bytes > self.left {
            return Err(malformed("a body is longer than its section"));
        }
        match (&self.columns, message.header_type()) {
            (None, MessageHeader::Schema) => {
                if body_bytes > 0 {
                    return Err(malformed("a schema has a body"));
                }
                self.columns = Some(Columns::read(&message)?);
            }
            (Some(columns), MessageHeader::RecordBatch) => {
                let batch = message.header_as_record_batch();
                let batch = batch.ok_or_else(|| malformed("a record batch is missing"))?;
                columns.check_batch(&batch, body_bytes)?;
            }
            (Some(columns), MessageHeader::DictionaryBatch) => {
                let dictionary = message.header_as_dictionary_batch();
                let dictionary = dictionary.ok_or_else(|| malformed("a dictionary is missing"))?;
                columns.check_dictionary(&dictionary, body_bytes)?;
            }
            _ => {
                return Err(malformed(
                    "a message is of the wrong kind, or at the wrong place",
                ));
            }
        }
        Ok(body_bytes)
    }
}

impl<R: Read> Read for CheckedStream<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.message.len() {
            self.next_message()?;
        }
        let bytes = (self.message.len() - self.at).min(out.len());
        out[..bytes].copy_from_slice(&self.message[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

impl Columns {
    fn read(message: &Message<'_>) -> io::Result<Self> {
        let schema = message.header_as_schema();
        let schema = schema.ok_or_else(|| malformed("a schema is missing"))?;
        let fields: Vec<ipc::Field<'_>> = schema.fields().into_iter().flatten().collect();
        for field in &fields {
            check_field(field, 0)?;
        }
        let converted = ipc::convert::try_fb_to_schema(schema)
            .map_err(|_| malformed("the schema has a type that cannot be read"))?;
        let mut dictionaries = HashMap::new();
        for (field, converted) in fields.iter().zip(converted.fields()) {
            collect_dictionaries(field, converted, &mut dictionaries)?;
        }
        Ok(Self {
            schema: converted.into(),
            dictionaries,
        })
    }

    fn check_batch(&self, batch: &ipc::RecordBatch<'_>, body_bytes: u64) -> io::Result<()> {
        let mut parts = Parts::new(batch, body_bytes)?;
        for field in self.schema.fields() {
            let rows = parts.column(field.data_type())?;
            if rows != parts.rows {
                return Err(malformed("a column has not as many rows as its batch"));
            }
        }
        parts.finish()
    }

    fn check_dictionary(
        &self,
        dictionary: &ipc::DictionaryBatch<'_>,
        body_bytes: u64,
    ) -> io::Result<()> {
        if dictionary.isDelta() {
            return Err(malformed("a dictionary is a delta"));
        }
        let data_type = self.dictionaries.get(&dictionary.id());
        let data_type = data_type.ok_or_else(|| malformed("a dictionary is of no column"))?;
        let batch = dictionary.data();
        let batch = batch.ok_or_else(|| malformed("a dictionary has no values"))?;
        let mut parts = Parts::new(&batch, body_bytes)?;
        if parts.column(data_type)? != parts.rows {
            return Err(malformed("a dictionary has not as many values as it says"));
        }
        parts.finish()
    }
}

/// Types that a section may have, and their parameters as far as Arrow's conversion trusts them.
fn check_field(field: &ipc::Field<'_>, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(malformed("types are nested too deeply"));
    }
    let children: Vec<ipc::Field<'_>> = field.children().into_iter().flatten().collect();
    let wrong = || malformed("a field of the schema is not as its type wants it");
    let bits = |bits: i32, of: &[i32]| of.contains(&bits).then_some(()).ok_or_else(wrong);
    let mut child_count = 0;
    match field.type_type() {
        Type::Null
        | Type::Bool
        | Type::Utf8
        | Type::Binary
        | Type::LargeUtf8
        | Type::LargeBinary
        | Type::Utf8View
        | Type::BinaryView => {}
        Type::Int => {
            let int = field.type_as_int().ok_or_else(wrong)?;
            bits(int.bitWidth(), &[8, 16, 32, 64])?;
        }
        Type::FloatingPoint => {
            let float = field.type_as_floating_point().ok_or_else(wrong)?;
            if !(0..=2).contains(&float.precision().0) {
                return Err(wrong());
            }
        }
        Type::Decimal => {
            let decimal = field.type_as_decimal().ok_or_else(wrong)?;
            bits(decimal.bitWidth(), &[128])?;
            let (precision, scale) = (decimal.precision(), decimal.scale());
            if !(1..=38).contains(&precision) || !(-38..=38).contains(&scale) {
                return Err(wrong());
            }
        }
        Type::Date => {
            let date = field.type_as_date().ok_or_else(wrong)?;
            if !(0..=1).contains(&date.unit().0) {
                return Err(wrong());
            }
        }
        Type::Time => {
            let time = field.type_as_time().ok_or_else(wrong)?;
            let seconds_or_millis = (0..=1).contains(&time.unit().0);
            let micros_or_nanos = (2..=3).contains(&time.unit().0);
            match time.bitWidth() {
                32 if seconds_or_millis => {}
                64 if micros_or_nanos => {}
                _ => return Err(wrong()),
            }
        }
        Type::Timestamp => {
            let timestamp = field.type_as_timestamp().ok_or_else(wrong)?;
            if !(0..=3).contains(&timestamp.unit().0) {
                return Err(wrong());
            }
        }
        Type::FixedSizeBinary => {
            let binary = field.type_as_fixed_size_binary().ok_or_else(wrong)?;
            if binary.byteWidth() < 0 {
                return Err(wrong());
            }
        }
        Type::FixedSizeList => {
            let list = field.type_as_fixed_size_list().ok_or_else(wrong)?;
            if list.listSize() < 0 {
                return Err(wrong());
            }
            child_count = 1;
        }
        Type::List | Type::LargeList | Type::Map => child_count = 1,
        Type::Struct_ => child_count = children.len(),
        _ => return Err(malformed("the schema has a type that no row can have")),
    }
    if children.len() != child_count {
        return Err(wrong());
    }
    if field.type_type() == Type::Map {
        let entries = children[0].children().map_or(0, |entries| entries.len());
        if children[0].type_type() != Type::Struct_ || entries != 2 {
            return Err(wrong());
        }
    }
    if let Some(dictionary) = field.dictionary() {
        let index = dictionary.indexType().ok_or_else(wrong)?;
        bits(index.bitWidth(), &[8, 16, 32, 64])?;
    }
    children
        .iter()
        .try_for_each(|child| check_field(child, depth + 1))
}

fn collect_dictionaries(
    field: &ipc::Field<'_>,
    converted: &Field,
    out: &mut HashMap<i64, DataType>,
) -> io::Result<()> {
    let mut data_type = converted.data_type();
    if let (Some(dictionary), DataType::Dictionary(_, values)) = (field.dictionary(), data_type) {
        let other = out.insert(dictionary.id(), values.as_ref().clone());
        if other.is_some() {
            return Err(malformed("two columns have the same dictionary"));
        }
        data_type = values;
    }
    let children = field.children().into_iter().flatten();
    let converted: Vec<&FieldRef> = match data_type {
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _) => vec![child],
        DataType::Struct(children) => children.iter().collect(),
        _ => Vec::new(),
    };
    for (child, converted) in children.zip(converted) {
        collect_dictionaries(&child, converted, out)?;
    }
    Ok(())
}

/// What a batch's metadata says of its body, from front to back.
struct Parts<'a> {
    rows: u64,
    body_bytes: u64,
    /// Where the last buffer ended.
    end: u64,
    nodes: Box<dyn Iterator<Item = &'a FieldNode> + 'a>,
    buffers: Box<dyn Iterator<Item = &'a Buffer> + 'a>,
    variadic_counts: Box<dyn Iterator<Item = i64> + 'a>,
}

impl<'a> Parts<'a> {
    fn new(batch: &ipc::RecordBatch<'a>, body_bytes: u64) -> io::Result<Self> {
        if batch.compression().is_some() {
            return Err(malformed("a body is compressed"));
        }
        let rows = u64::try_from(batch.length())
            .ok()
            .filter(|&rows| u32::try_from(rows).is_ok());
        Ok(Self {
            rows: rows.ok_or_else(|| malformed("a batch has an impossible number of rows"))?,
            body_bytes,
            end: 0,
            nodes: Box::new(batch.nodes().into_iter().flatten()),
            buffers: Box::new(batch.buffers().into_iter().flatten()),
            variadic_counts: Box::new(batch.variadicBufferCounts().into_iter().flatten()),
        })
    }

    /// A buffer of at least `count` elements of `width` bytes. Arrow takes its whole length for such elements, and
    /// panics where a part of one is left.
    fn elements(&mut self, count: u64, width: u64) -> io::Result<()> {
        let bytes = self.buffer(count.checked_mul(width))?;
        if width > 0 && bytes % width != 0 {
            return Err(malformed("a buffer ends within an element"));
        }
        Ok(())
    }

    /// A buffer of at least so many bytes, which are not too many to count. Returns its length.
    fn buffer(&mut self, least_bytes: Option<u64>) -> io::Result<u64> {
        let buffer = self.buffers.next();
        let buffer = buffer.ok_or_else(|| malformed("a batch has too few buffers"))?;
        let range = u64::try_from(buffer.offset())
            .ok()
            .zip(u64::try_from(buffer.length()).ok());
        let (offset, bytes) = range.ok_or_else(|| malformed("a buffer is at no place"))?;
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.body_bytes) {
            return Err(malformed("a buffer is not within its body"));
        }
        // Buffers that share bytes, or have to be copied, would let a short body stand for a long one.
        if offset < self.end || offset % BUFFER_ALIGNMENT != 0 {
            return Err(malformed("a buffer overlaps another or is not aligned"));
        }
        self.end = offset + bytes;
        if least_bytes.is_none_or(|least| bytes < least) {
            return Err(malformed("a buffer is too short for its rows"));
        }
        Ok(bytes)
    }

    /// The parts of a column of this type. Returns its rows.
    fn column(&mut self, data_type: &DataType) -> io::Result<u64> {
        let node = self.nodes.next();
        let node = node.ok_or_else(|| malformed("a batch has too few columns"))?;
        let wrong = || malformed("a column has an impossible number of rows or nulls");
        let rows = u64::try_from(node.length()).map_err(|_| wrong())?;
        let nulls = u64::try_from(node.null_count()).map_err(|_| wrong())?;
        if nulls > rows || i32::try_from(rows).is_err() {
            return Err(wrong());
        }
        if *data_type == DataType::Null {
            return Ok(rows);
        }
        self.buffer(Some(if nulls > 0 { rows.div_ceil(8) } else { 0 }))?;
        let offsets = if rows == 0 { 0 } else { rows + 1 };
        match data_type {
            DataType::Boolean => _ = self.buffer(Some(rows.div_ceil(8)))?,
            DataType::Utf8 | DataType::Binary => {
                self.elements(offsets, 4)?;
                self.buffer(Some(0))?;
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.elements(offsets, 8)?;
                self.buffer(Some(0))?;
            }
            DataType::Utf8View | DataType::BinaryView => {
                self.elements(rows, 16)?;
                let count = self.variadic_counts.next();
                let count = count.ok_or_else(|| malformed("a view column has no buffer count"))?;
                if count < 0 {
                    return Err(malformed("a view column has a negative buffer count"));
                }
                for _ in 0..count {
                    self.buffer(Some(0))?;
                }
            }
            DataType::FixedSizeBinary(width) => {
                let width = u64::try_from(*width).map_err(|_| wrong())?;
                self.elements(rows, width)?;
            }
            DataType::List(child) | DataType::Map(child, _) => {
                self.elements(offsets, 4)?;
                self.column(child.data_type())?;
            }
            DataType::LargeList(child) => {
                self.elements(offsets, 8)?;
                self.column(child.data_type())?;
            }
            DataType::FixedSizeList(child, size) => {
                let size = u64::try_from(*size).map_err(|_| wrong())?;
                if Some(self.column(child.data_type())?) != rows.checked_mul(size) {
                    return Err(malformed(
                        "a list of fixed size has other rows than it wants",
                    ));
                }
            }
            DataType::Struct(children) => {
                for child in children {
                    if self.column(child.data_type())? != rows {
                        return Err(malformed("a struct has columns of other lengths"));
                    }
                }
            }
            DataType::Dictionary(index, _) => {
                let width = index.primitive_width().ok_or_else(wrong)?;
                self.elements(rows, width as u64)?;
            }
            other => {
                let width = other.primitive_width().ok_or_else(wrong)?;
                self.elements(rows, width as u64)?;
            }
        }
        Ok(rows)
    }

    fn finish(&mut self) -> io::Result<()> {
        let more = self.nodes.next().is_some()
            || self.buffers.next().is_some()
            || self.variadic_counts.next().is_some();
        if more {
            return Err(malformed("a batch has more than its columns"));
        }
        Ok(())
    }
}
