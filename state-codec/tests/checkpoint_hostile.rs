//! Sections that no mutation of a valid one comes to, and that are short but stand for much.

use std::sync::Arc;

use allocation_counter::measure;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use arrow::ipc::{self, IntArgs, Struct_, Struct_Args};
use arrow::ipc::{
    FieldArgs, FieldNode, Message, MessageArgs, MessageHeader, MetadataVersion, RecordBatchArgs,
    SchemaArgs, Type,
};
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};
use state_codec::checkpoint::decode_section;

/// A message with this header, as it stands in a stream.
fn message(
    mut builder: FlatBufferBuilder<'_>,
    header_type: MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body: &[u8],
) -> Vec<u8> {
    let message = Message::create(
        &mut builder,
        &MessageArgs {
            version: MetadataVersion::V5,
            header_type,
            header: Some(header),
            bodyLength: body.len() as i64,
            custom_metadata: None,
        },
    );
    builder.finish(message, None);
    let mut metadata = builder.finished_data().to_vec();
    metadata.resize(metadata.len().next_multiple_of(8), 0);
    let length = (metadata.len() as i32).to_le_bytes();
    [&[0xff; 4], length.as_slice(), &metadata, body].concat()
}

/// A schema of one column: structs of `width` fields, nested `depth` deep, where the fields of each are one
/// and the same table.
fn nested(depth: usize, width: usize) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let name = builder.create_string("a");
    let int = ipc::Int::create(
        &mut builder,
        &IntArgs {
            bitWidth: 32,
            is_signed: true,
        },
    );
    let mut field = ipc::Field::create(
        &mut builder,
        &FieldArgs {
            name: Some(name),
            nullable: true,
            type_type: Type::Int,
            type_: Some(int.as_union_value()),
            ..Default::default()
        },
    );
    for _ in 0..depth {
        let children = builder.create_vector(&vec![field; width]);
        let type_ = Struct_::create(&mut builder, &Struct_Args {});
        field = ipc::Field::create(
            &mut builder,
            &FieldArgs {
                name: Some(name),
                nullable: true,
                type_type: Type::Struct_,
                type_: Some(type_.as_union_value()),
                children: Some(children),
                ..Default::default()
            },
        );
    }
    let fields = builder.create_vector(&[field]);
    let schema = ipc::Schema::create(
        &mut builder,
        &SchemaArgs {
            fields: Some(fields),
            ..Default::default()
        },
    );
    message(builder, MessageHeader::Schema, schema.as_union_value(), &[])
}

fn ints(columns: usize) -> SchemaRef {
    let field = |i| Field::new(format!("c{i}"), DataType::Int64, true);
    Arc::new(Schema::new((0..columns).map(field).collect::<Vec<_>>()))
}

/// A section of one batch of `columns` columns of integers, whose buffers are all at `offset` of a body.
fn sharing(columns: usize, rows: usize, offset: usize) -> Vec<u8> {
    use arrow::ipc::writer::StreamWriter;
    let mut bytes = StreamWriter::try_new(Vec::new(), &ints(columns))
        .and_then(StreamWriter::into_inner)
        .unwrap();
    bytes.truncate(bytes.len() - 8);
    let mut builder = FlatBufferBuilder::new();
    let nodes = builder.create_vector(&vec![FieldNode::new(rows as i64, 0); columns]);
    let validity = ipc::Buffer::new(0, 0);
    let values = ipc::Buffer::new(offset as i64, 8 * rows as i64);
    let buffers = builder.create_vector(&[validity, values].repeat(columns));
    let batch = ipc::RecordBatch::create(
        &mut builder,
        &RecordBatchArgs {
            length: rows as i64,
            nodes: Some(nodes),
            buffers: Some(buffers),
            ..Default::default()
        },
    );
    let body = vec![0; (8 * rows + offset).next_multiple_of(64)];
    let kind = MessageHeader::RecordBatch;
    bytes.extend(message(builder, kind, batch.as_union_value(), &body));
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    bytes
}

/// What is said of the section, which may take so much memory.
fn refused(bytes: &[u8], schema: &SchemaRef) -> String {
    let mut told = String::new();
    let allocated = measure(|| told = decode_section(bytes, schema).unwrap_err().to_string());
    let limit = 16 * bytes.len() as u64 + (64 << 10);
    assert!(
        allocated.bytes_max <= limit,
        "{} bytes of {}",
        allocated.bytes_max,
        bytes.len()
    );
    told
}

#[test]
fn a_schema_of_shared_parts_is_not_unfolded() {
    // 4 to the power of 9 columns in less than a kilobyte.
    let bytes = nested(9, 4);
    assert!(bytes.len() < 1024, "{}", bytes.len());
    assert!(refused(&bytes, &ints(1)).contains("not a flatbuffer"));
}

#[test]
fn buffers_that_share_bytes_are_refused() {
    for offset in [0, 64] {
        let told = refused(&sharing(100, 1000, offset), &ints(100));
        assert!(told.contains("overlaps"), "{told}");
    }
}

#[test]
fn a_buffer_that_would_have_to_be_copied_is_refused() {
    let told = refused(&sharing(1, 1000, 4), &ints(1));
    assert!(told.contains("aligned"), "{told}");
}

/// Arrow's reader panics where the offsets of a column end within one.
#[test]
fn a_buffer_that_ends_within_an_element_is_refused() {
    let texts = StringArray::from(vec!["a", "bc", "def", "ghij"]);
    let batch = RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    let section = writer.into_inner().unwrap();
    assert_eq!(
        decode_section(&section, &batch.schema()).unwrap(),
        std::slice::from_ref(&batch)
    );
    // The length of the five offsets, wherever it stands.
    let length = 20_i64.to_le_bytes();
    let places: Vec<usize> = (0..section.len() - 8)
        .filter(|&at| section[at..at + 8] == length)
        .collect();
    assert!(!places.is_empty());
    for at in places {
        let mut longer = section.clone();
        longer[at] += 1;
        let error = decode_section(&longer, &batch.schema()).unwrap_err();
        assert!(
            error.to_string().contains("ends within an element"),
            "{error}"
        );
    }
}
