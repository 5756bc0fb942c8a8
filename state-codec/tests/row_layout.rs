//! The bytes of rows, one shape each. Eight bytes to the line: header, slots, variable part.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, MapBuilder, NullArray, StringArray, StringBuilder,
    StringViewArray, StructArray, Time32MillisecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::array::{Int32Builder, StringDictionaryBuilder};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Int8Type, Int32Type};
use insta::assert_snapshot;
use state_codec::{RowForm, RowLayout, Rows, Select};

/// The first row of the columns, eight bytes to the line.
fn row(form: RowForm, columns: &[ArrayRef]) -> String {
    let fields: Vec<_> = columns
        .iter()
        .map(|column| Arc::new(Field::new("c", column.data_type().clone(), true)))
        .collect();
    let layout = RowLayout::new(&fields, form).unwrap();
    let mut rows = Rows::new();
    layout
        .encode_into(columns, Select::Indices(&[0]), &mut rows)
        .unwrap();
    let first: Vec<_> = columns.iter().map(|column| column.slice(0, 1)).collect();
    assert_eq!(layout.decode(&[rows.get(0)]).unwrap(), first);
    let word = |word: &[u8]| {
        word.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    rows.get(0)
        .chunks(8)
        .map(word)
        .collect::<Vec<_>>()
        .join("\n")
}

fn key(columns: &[ArrayRef]) -> String {
    row(RowForm::Key, columns)
}

fn payload(columns: &[ArrayRef]) -> String {
    row(RowForm::Payload, columns)
}

fn wide_decimal(unscaled: Option<i128>) -> ArrayRef {
    Arc::new(
        Decimal128Array::from(vec![unscaled])
            .with_precision_and_scale(38, 10)
            .unwrap(),
    )
}

#[test]
fn no_fields() {
    assert_snapshot!(key(&[]), @"0000000000000000");
}

#[test]
fn integers() {
    let columns: [ArrayRef; 5] = [
        Arc::new(BooleanArray::from(vec![true])),
        Arc::new(Int8Array::from(vec![-1])),
        Arc::new(Int16Array::from(vec![-2])),
        Arc::new(Int32Array::from(vec![-3])),
        Arc::new(Int64Array::from(vec![-4])),
    ];
    assert_snapshot!(key(&columns), @r"
    0000000000000000
    0100000000000000
    ff00000000000000
    feff000000000000
    fdffffff00000000
    fcffffffffffffff
    ");
}

#[test]
fn floats_are_not_normalised() {
    let columns: [ArrayRef; 4] = [
        Arc::new(Float32Array::from(vec![-0.0])),
        Arc::new(Float32Array::from(vec![f32::from_bits(0xffc0_0001)])),
        Arc::new(Float64Array::from(vec![-0.0])),
        Arc::new(Float64Array::from(vec![f64::from_bits(
            0x7ff8_0000_0000_0001,
        )])),
    ];
    assert_snapshot!(key(&columns), @r"
    0000000000000000
    0000008000000000
    0100c0ff00000000
    0000000000000080
    010000000000f87f
    ");
}

#[test]
fn dates_and_times() {
    let columns: [ArrayRef; 6] = [
        Arc::new(Date32Array::from(vec![-1])),
        Arc::new(Time32MillisecondArray::from(vec![86_399_999])),
        Arc::new(TimestampSecondArray::from(vec![-1])),
        Arc::new(TimestampMillisecondArray::from(vec![-1]).with_timezone("UTC")),
        Arc::new(TimestampMicrosecondArray::from(vec![-1])),
        Arc::new(TimestampNanosecondArray::from(vec![1_000_001]).with_timezone("UTC")),
    ];
    assert_snapshot!(key(&columns), @r"
    0000000000000000
    ffffffff00000000
    ff5b260500000000
    18fcffffffffffff
    ffffffffffffffff
    583e0f0038000000
    0100000040000000
    ffffffffffffffff
    0100000000000000
    ");
}

#[test]
fn decimals() {
    let columns: [ArrayRef; 3] = [
        Arc::new(
            Decimal128Array::from(vec![-1])
                .with_precision_and_scale(18, 2)
                .unwrap(),
        ),
        wide_decimal(Some(-1)),
        wide_decimal(Some(128)),
    ];
    assert_snapshot!(key(&columns), @r"
    0000000000000000
    ffffffffffffffff
    0100000020000000
    0200000030000000
    ff00000000000000
    0000000000000000
    0080000000000000
    0000000000000000
    ");
}

#[test]
fn strings_of_seven_and_eight_bytes() {
    let columns: [ArrayRef; 4] = [
        Arc::new(StringArray::from(vec![""])),
        Arc::new(StringViewArray::from(vec!["seven b"])),
        Arc::new(BinaryArray::from(vec![b"eight by".as_slice()])),
        Arc::new(FixedSizeBinaryArray::try_from_iter([b"and nine."].into_iter()).unwrap()),
    ];
    assert_snapshot!(key(&columns), @r"
    0000000000000000
    0000000000000080
    736576656e206287
    0800000028000000
    0900000030000000
    6569676874206279
    616e64206e696e65
    2e00000000000000
    ");
}

#[test]
fn nulls_leave_zeros() {
    let garbage = NullBuffer::new_null(1);
    let columns: [ArrayRef; 4] = [
        Arc::new(Int64Array::new(vec![-1].into(), Some(garbage.clone()))),
        Arc::new(NullArray::new(1)),
        Arc::new(BooleanArray::new(vec![true].into(), Some(garbage))),
        Arc::new(StringArray::new_null(1)),
    ];
    assert_snapshot!(key(&columns), @r"
    000f000000000000
    0000000000000000
    0000000000000000
    0000000000000000
    0000000000000000
    ");
}

#[test]
fn null_of_a_wide_type_in_a_key_keeps_its_bytes() {
    let columns: [ArrayRef; 3] = [
        wide_decimal(None),
        Arc::new(TimestampMicrosecondArray::new_null(1)),
        Arc::new(StringArray::from(vec!["follows them"])),
    ];
    assert_snapshot!(key(&columns), @r"
    0003000000000000
    0000000020000000
    0000000030000000
    0c00000038000000
    0000000000000000
    0000000000000000
    0000000000000000
    666f6c6c6f777320
    7468656d00000000
    ");
}

#[test]
fn null_of_a_wide_type_in_a_payload_keeps_nothing() {
    let columns: [ArrayRef; 3] = [
        wide_decimal(None),
        Arc::new(TimestampMicrosecondArray::new_null(1)),
        Arc::new(StringArray::from(vec!["follows them"])),
    ];
    assert_snapshot!(payload(&columns), @r"
    0003000000000000
    0000000000000000
    0000000000000000
    0c00000020000000
    666f6c6c6f777320
    7468656d00000000
    ");
}

#[test]
fn a_57th_field_widens_the_header() {
    let column = |i: i8| Arc::new(Int8Array::from(vec![(i != 56).then_some(i)])) as ArrayRef;
    let rows = [56, 57].map(|fields| key(&(0..fields).map(column).collect::<Vec<_>>()));
    let starts = rows.map(|row| row.lines().take(3).collect::<Vec<_>>().join("\n"));
    assert_snapshot!(starts.join("\n\n"), @r"
    0000000000000000
    0000000000000000
    0100000000000000

    0000000000000000
    0100000000000000
    0000000000000000
    ");
}

#[test]
fn a_dictionary_is_its_value() {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    builder.append_value("as a plain string");
    let plain: ArrayRef = Arc::new(StringArray::from(vec!["as a plain string"]));
    assert_eq!(key(&[Arc::new(builder.finish())]), key(&[plain]));
}

#[test]
fn a_null_value_of_a_dictionary_is_null() {
    let values = Int32Array::from(vec![None, Some(7)]);
    let columns: [ArrayRef; 1] = [Arc::new(DictionaryArray::new(
        Int8Array::from(vec![0, 1]),
        Arc::new(values),
    ))];
    let fields = [Arc::new(Field::new(
        "c",
        columns[0].data_type().clone(),
        true,
    ))];
    let layout = RowLayout::new(&fields, RowForm::Key).unwrap();
    let mut rows = Rows::new();
    layout
        .encode_into(&columns, Select::All, &mut rows)
        .unwrap();
    assert_eq!(rows.get(0), b"\x00\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(rows.get(1), b"\x00\x00\0\0\0\0\0\0\x07\0\0\0\0\0\0\0");
    let decoded = layout.decode(&[rows.get(0), rows.get(1)]).unwrap();
    let decoded = decoded[0].as_dictionary::<Int8Type>();
    assert_eq!(decoded.keys(), &Int8Array::from(vec![None, Some(0)]));
    assert_eq!(decoded.values().as_ref(), &Int32Array::from(vec![7]));
}

#[test]
fn a_list() {
    let bytes = ListArray::from_iter_primitive::<Int8Type, _, _>([Some([Some(1), None, Some(-1)])]);
    assert_snapshot!(payload(&[Arc::new(bytes)]), @r"
    0000000000000000
    1000000010000000
    0300000002000000
    0100ff0000000000
    ");
}

#[test]
fn a_list_of_lists() {
    let inner = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        None,
        Some(vec![]),
    ]);
    let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([3]);
    let outer = ListArray::new(item, offsets, Arc::new(inner), None);
    assert_snapshot!(payload(&[Arc::new(outer)]), @r"
    0000000000000000
    3800000010000000
    0300000002000000
    1000000020000000
    0000000000000000
    0800000030000000
    0200000000000000
    0100000002000000
    0000000000000000
    ");
}

#[test]
fn a_struct() {
    let fields = vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Null, true),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![5])),
        Arc::new(StringArray::from(vec!["a longer one"])),
        Arc::new(NullArray::new(1)),
    ];
    assert_snapshot!(payload(&[Arc::new(StructArray::new(fields.into(), columns, None))]), @r"
    0000000000000000
    3000000010000000
    0004000000000000
    0500000000000000
    0c00000020000000
    0000000000000000
    61206c6f6e676572
    206f6e6500000000
    ");
}

#[test]
fn a_map() {
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("one");
    map.values().append_value(1);
    map.keys().append_value("none");
    map.values().append_null();
    map.append(true).unwrap();
    assert_snapshot!(payload(&[Arc::new(map.finish())]), @r"
    0000000000000000
    2c00000010000000
    1800000002000000
    000000006f6e6500
    000000836e6f6e65
    0000008402000000
    0200000001000000
    0000000000000000
    ");
}
