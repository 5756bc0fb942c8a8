//! What the fuzz targets read, and valid inputs to begin with. Also a module of the bounded run among the
//! tests of `state-codec`.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float64Array, Int32Array, Int64Array, ListArray, NullArray, RecordBatch, StringArray,
    StringViewArray, StructArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Int8Type, Int32Type, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use state_codec::checkpoint::{Manifest, decode_section};
use state_codec::{RowForm, RowLayout, Rows, Select};

/// Columns of every layout that a row or a section can have.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let words = ["", "a", "longer than twelve bytes", "ü"];
    let some = |i: usize| (i != 2).then(|| words[i]);
    let strings = StringArray::from_iter((0..4).map(some));
    let views = StringViewArray::from_iter((0..4).map(some));
    let dictionary: DictionaryArray<Int8Type> = (0..4).map(some).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
        Some(vec![Some(4), Some(5), Some(6)]),
    ]);
    let child: FieldRef = Arc::new(Field::new("child", DataType::Int32, true));
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let structs = StructArray::from(vec![(child, ints.clone())]);
    let binaries = (0..4).map(|i| (i != 1).then_some([i as u8; 3]));
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(binaries, 3);
    let decimals = Decimal128Array::from(vec![Some(1), None, Some(i128::MAX / 4), Some(-5)]);
    let decimals = decimals.with_precision_and_scale(38, 10);
    vec![
        ("int", ints),
        (
            "bigint",
            Arc::new(Int64Array::from(vec![
                Some(i64::MIN),
                None,
                Some(0),
                Some(7),
            ])),
        ),
        (
            "double",
            Arc::new(Float64Array::from(vec![0.5, -0.0, f64::NAN, 1e300])),
        ),
        (
            "boolean",
            Arc::new(BooleanArray::from(vec![
                Some(true),
                None,
                Some(false),
                None,
            ])),
        ),
        ("string", Arc::new(strings)),
        ("view", Arc::new(views)),
        ("dictionary", Arc::new(dictionary)),
        ("list", Arc::new(lists)),
        ("struct", Arc::new(structs)),
        ("fixed", Arc::new(fixed.expect("values of three bytes"))),
        ("decimal", Arc::new(decimals.expect("values of 38 digits"))),
        (
            "time",
            Arc::new(TimestampNanosecondArray::from(vec![1, -1, i64::MAX, 0])),
        ),
        ("null", Arc::new(NullArray::new(4))),
    ]
}

fn batch() -> RecordBatch {
    let fields = columns()
        .into_iter()
        .map(|(name, column)| Field::new(name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns().into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(schema, columns).expect("columns of four rows")
}

fn schemas() -> Vec<SchemaRef> {
    let whole = batch().schema();
    let one = |i: usize| Arc::new(Schema::new(vec![whole.field(i).clone()]));
    let mut schemas: Vec<SchemaRef> = (0..whole.fields().len()).map(one).collect();
    schemas.push(whole);
    schemas
}

/// Reads a row, or two that are cut at a place that the first byte names. Whether it could.
pub fn rows(bytes: &[u8]) -> bool {
    let Some((&first, bytes)) = bytes.split_first() else {
        return false;
    };
    let schemas = schemas();
    let schema = &schemas[first as usize % schemas.len()];
    let layout = RowLayout::new(schema.fields(), RowForm::Payload).expect("types of rows");
    let columns = layout.decode(&[bytes]);
    let half = bytes.len() / 2;
    let _ = layout.decode(&[&bytes[..half], &bytes[half..]]);
    columns.is_ok_and(|columns| columns.iter().all(|column| column.len() == 1))
}

/// Rows with the number of their schema in front.
pub fn valid_rows() -> Vec<Vec<u8>> {
    let batch = batch();
    let mut inputs = Vec::new();
    for (number, schema) in schemas().iter().enumerate() {
        let layout = RowLayout::new(schema.fields(), RowForm::Payload).expect("types of rows");
        let columns: Vec<ArrayRef> = schema
            .fields()
            .iter()
            .map(|field| {
                batch
                    .column_by_name(field.name())
                    .expect("a column")
                    .clone()
            })
            .collect();
        let mut rows = Rows::new();
        layout
            .encode_into(&columns, Select::All, &mut rows)
            .expect("rows are short");
        inputs.extend(rows.iter().map(|row| [&[number as u8], row].concat()));
    }
    inputs
}

/// Reads a section. Whether it could.
pub fn section(bytes: &[u8]) -> bool {
    let mut read = false;
    for schema in schemas() {
        read |= decode_section(bytes, &schema).is_ok();
    }
    read
}

/// A section of all columns, and one of each.
pub fn valid_section() -> Vec<Vec<u8>> {
    let batch = batch();
    let mut inputs = Vec::new();
    for schema in schemas() {
        let names = schema.fields().iter().map(|field| field.name());
        let indices = names.map(|name| batch.schema().index_of(name).expect("a column"));
        let projected = batch
            .project(&indices.collect::<Vec<_>>())
            .expect("columns");
        let mut writer = StreamWriter::try_new(Vec::new(), &schema).expect("memory");
        for rows in [projected.clone(), projected.slice(1, 2)] {
            writer.write(&rows).expect("memory");
        }
        inputs.push(writer.into_inner().expect("memory"));
    }
    inputs
}

/// Reads a manifest. Whether it could.
pub fn manifest(bytes: &[u8]) -> bool {
    Manifest::from_bytes(bytes, Path::new("manifest"), 7).is_ok()
}

/// A manifest of each kind.
pub fn valid_manifest() -> Vec<Vec<u8>> {
    use keygroup::{GroupCount, GroupRange};
    use state_codec::checkpoint::{CheckpointKind, FileEntry, SectionEntry};
    let group_count = GroupCount::new(128).expect("a count");
    let file = FileEntry {
        name: "sections".to_owned(),
        bytes: 2048,
        sha256: [7; 32],
    };
    let section = |group, offset| SectionEntry {
        group: group_count.group(group).expect("a group"),
        rows: 10,
        offset,
        bytes: 1024,
        crc32: 99,
    };
    let canonical = Manifest {
        id: 7,
        kind: CheckpointKind::Canonical,
        fingerprint: "rank-top1 \"columns\"".to_owned(),
        group_count,
        groups: GroupRange::new(0, 63).expect("in order"),
        files: vec![file.clone()],
        watermark_ms: Some(-5),
        sections: vec![section(3, 0), section(9, 1024)],
    };
    let native = Manifest {
        kind: CheckpointKind::RocksDb,
        files: vec![
            file.clone(),
            FileEntry {
                name: "CURRENT".to_owned(),
                ..file
            },
        ],
        watermark_ms: None,
        sections: Vec::new(),
        ..canonical.clone()
    };
    vec![canonical.to_bytes(), native.to_bytes()]
}
