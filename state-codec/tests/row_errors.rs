//! Types, batches and bytes that are refused, and what is said about them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Decimal128Array, DictionaryArray, Int8Array, Int16Array, Int32Array,
    Int64Array, LargeBinaryArray, ListArray, StringArray, StructArray, TimestampSecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit};
use insta::assert_snapshot;
use state_codec::{DecodeError, EncodeErrorKind, RowForm, RowLayout, Rows, Select, Value};

fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

fn layout(form: RowForm, types: &[DataType]) -> RowLayout {
    let fields = types
        .iter()
        .zip('a'..)
        .map(|(data_type, name)| field(&name.to_string(), data_type.clone()));
    RowLayout::new(&fields.collect::<Vec<_>>(), form).unwrap()
}

fn unsupported(form: RowForm, data_type: DataType) -> String {
    RowLayout::new(&[field("ok", DataType::Int8), field("a", data_type)], form)
        .unwrap_err()
        .to_string()
}

/// What is said of the columns; the arena is left as it was.
fn refused(form: RowForm, columns: &[ArrayRef]) -> String {
    let types: Vec<_> = columns
        .iter()
        .map(|column| column.data_type().clone())
        .collect();
    refused_by(&layout(form, &types), columns)
}

fn refused_by(layout: &RowLayout, columns: &[ArrayRef]) -> String {
    let mut rows = Rows::new();
    rows.push(b"before").unwrap();
    let error = layout
        .encode_into(columns, Select::All, &mut rows)
        .unwrap_err();
    assert!(rows.iter().eq([b"before"]));
    error.to_string()
}

/// The bytes of a payload row: words of hex, from the lowest byte.
fn decode(types: &[DataType], words: &str) -> Result<Vec<ArrayRef>, DecodeError> {
    let digits: String = words.split_whitespace().collect();
    let byte = |i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap();
    let row: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    layout(RowForm::Payload, types).decode(&[&row])
}

fn malformed(types: &[DataType], words: &str) -> String {
    decode(types, words).unwrap_err().to_string()
}

fn list_of(data_type: DataType) -> DataType {
    DataType::List(field("item", data_type))
}

#[test]
fn types_without_a_layout() {
    use RowForm::{Key, Payload};
    assert_snapshot!(unsupported(Payload, DataType::UInt8), @"column `a` of type UInt8 has no row layout");
    assert_snapshot!(unsupported(Payload, DataType::Interval(IntervalUnit::DayTime)), @"column `a` of type Interval(DayTime) has no row layout");
    assert_snapshot!(unsupported(Payload, DataType::Decimal256(40, 2)), @"column `a` of type Decimal256(40, 2) has no row layout");
    assert_snapshot!(unsupported(Payload, list_of(list_of(DataType::Date64))), @"column `a.item.item` of type Date64 has no row layout");
    assert_snapshot!(unsupported(Key, list_of(DataType::Int8)), @"column `a` of type List(Int8) cannot be part of a key");
    let dictionary =
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(list_of(DataType::Int8)));
    assert_snapshot!(unsupported(Payload, dictionary), @"column `a` of type Dictionary(Int8, List(Int8)) has no row layout");
}

#[test]
fn types_may_nest_32_levels() {
    let nested = |levels| (0..levels).fold(DataType::Int8, |inner, _| list_of(inner));
    let error = RowLayout::new(&[field("a", nested(33))], RowForm::Payload).unwrap_err();
    assert_eq!(
        error.column(),
        ["a"]
            .into_iter()
            .chain(["item"; 32])
            .collect::<Vec<_>>()
            .join(".")
    );
    assert_eq!(error.data_type(), &nested(1));
    assert!(
        error
            .to_string()
            .ends_with("is nested deeper than 32 levels")
    );

    let types = [nested(32)];
    let mut rows = Rows::new();
    let column = (0..32).fold(
        Arc::new(Int8Array::from(vec![7])) as ArrayRef,
        |inner, _| {
            let item = field("item", inner.data_type().clone());
            Arc::new(ListArray::new(
                item,
                OffsetBuffer::from_lengths([1]),
                inner,
                None,
            ))
        },
    );
    let layout = layout(RowForm::Payload, &types);
    layout
        .encode_into(&[Arc::clone(&column)], Select::All, &mut rows)
        .unwrap();
    assert_eq!(layout.decode(&[rows.get(0)]).unwrap(), [column]);
}

#[test]
fn columns_that_are_not_those_of_the_layout() {
    let layout = layout(RowForm::Key, &[DataType::Int8, DataType::Utf8]);
    let ints = |length: usize| Arc::new(Int8Array::from(vec![1; length])) as ArrayRef;
    let text = |length: usize| Arc::new(StringArray::from(vec!["t"; length])) as ArrayRef;
    assert_snapshot!(refused_by(&layout, &[ints(1)]), @"number of columns is 1, of fields 2");
    assert_snapshot!(refused_by(&layout, &[ints(1), ints(1)]), @"column `b` is of type Int8, declared as Utf8");
    assert_snapshot!(refused_by(&layout, &[ints(1), text(2)]), @"column `b` has 2 rows, the first column 1");
}

#[test]
fn values_that_do_not_fit() {
    let seconds = TimestampSecondArray::from(vec![Some(0), None, Some(i64::MAX / 1000 + 1)]);
    assert_snapshot!(refused(RowForm::Key, &[Arc::new(seconds)]), @"column `a`, row 2: 9223372036854776 s do not fit in 64 bits of milliseconds");
    let decimals = Decimal128Array::from(vec![i128::from(i64::MIN), i128::from(i64::MIN) - 1]);
    let decimals = decimals.with_precision_and_scale(18, 2).unwrap();
    assert_snapshot!(refused(RowForm::Key, &[Arc::new(decimals)]), @"column `a`, row 1: unscaled -9223372036854775809 does not fit in the 64 bits of a short decimal");
}

#[test]
fn a_value_that_does_not_fit_in_a_row_that_is_not_selected() {
    let column: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, i64::MAX]));
    let mut rows = Rows::new();
    layout(RowForm::Key, &[column.data_type().clone()])
        .encode_into(&[column], Select::Indices(&[0]), &mut rows)
        .unwrap();
    assert_eq!(rows.len(), 1);
}

#[test]
fn a_null_where_none_may_be() {
    let values = Int32Array::from(vec![Some(1), None]);
    let keys = Int8Array::from(vec![0, 1]);
    let columns: [ArrayRef; 1] = [Arc::new(DictionaryArray::new(keys, Arc::new(values)))];
    let required = Field::new("a", columns[0].data_type().clone(), false);
    let layout = RowLayout::new(&[Arc::new(required)], RowForm::Key).unwrap();
    assert_snapshot!(refused_by(&layout, &columns), @"column `a`, row 1: NULL in a column that is not nullable");
    let row = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_snapshot!(layout.decode(&[&row]).unwrap_err(), @"column `a` at byte 0 of row 0 has a NULL where none may be");
}

#[test]
fn more_bytes_than_the_limit() {
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![1, 2])),
        Arc::new(StringArray::from(vec!["12 bytes are", "short"])),
    ];
    let layout = layout(RowForm::Key, &[DataType::Int64, DataType::Utf8]);
    let mut rows = Rows::with_limit_bytes(70);
    rows.push(&[0; 7]).unwrap();
    let error = layout
        .encode_into(&columns, Select::All, &mut rows)
        .unwrap_err();
    assert_snapshot!(error, @"rows need 71 bytes, more than the limit of 70");
    assert_eq!(
        error.kind(),
        &EncodeErrorKind::TooLarge {
            needed: 71,
            limit: 70
        }
    );
    assert_eq!(rows.len(), 1);

    layout
        .encode_into(&columns, Select::Indices(&[1]), &mut rows)
        .unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        rows.push(&[0; 40]).unwrap_err().kind(),
        &EncodeErrorKind::TooLarge {
            needed: 71,
            limit: 70
        }
    );
    rows.clear();
    layout
        .encode_into(&columns, Select::All, &mut rows)
        .unwrap();
    assert_eq!(rows.len(), 2);
}

#[test]
fn a_row_beyond_32_bit_offsets() {
    // One value of 2²⁰ bytes in 2,048 columns: the array is small, the row would not be.
    let value: ArrayRef = Arc::new(LargeBinaryArray::from(vec![vec![0; 1 << 20].as_slice()]));
    let columns = vec![value; 2048];
    let types = vec![DataType::LargeBinary; 2048];
    let mut rows = Rows::with_limit_bytes(usize::MAX);
    let error = layout(RowForm::Key, &types)
        .encode_into(&columns, Select::All, &mut rows)
        .unwrap_err();
    assert_snapshot!(error, @"rows need 2147500296 bytes, more than the limit of 2147483647");
}

#[test]
#[should_panic(expected = "an index is beyond the batch")]
fn an_index_beyond_the_batch() {
    let columns: [ArrayRef; 1] = [Arc::new(Int8Array::from(vec![1]))];
    let layout = layout(RowForm::Key, &[DataType::Int8]);
    let _ = layout.encode_into(&columns, Select::Indices(&[1]), &mut Rows::new());
}

#[test]
fn rows_that_are_cut() {
    let text = [DataType::Utf8];
    assert_snapshot!(malformed(&text, ""), @"fixed part of the row at byte 0 of row 0 is 16 bytes short");
    assert_snapshot!(malformed(&text, "0000000000000000 00000000000000"), @"fixed part of the row at byte 0 of row 0 is 1 byte short");
    assert_snapshot!(malformed(&text, "0000000000000000 0900000010000000 3132333435363738"), @"column `a` at byte 16 of row 0 is 1 byte short");
    assert_snapshot!(malformed(&text, "0000000000000000 09000000f0ffff7f 3132333435363738"), @"column `a` at byte 2147483632 of row 0 is 2147483617 bytes short");
    assert_snapshot!(malformed(&[list_of(DataType::Int8)], "0000000000000000 0800000010000000 ffffffff00000000"), @"column `a.item` at byte 16 of row 0 is 4831838208 bytes short");
}

#[test]
fn slots_that_nothing_writes() {
    let header = "0000000000000000";
    let slot = |data_type, words: &str| malformed(&[data_type], &format!("{header} {words}"));
    use arrow::datatypes::TimeUnit::{Microsecond, Nanosecond, Second};
    assert_snapshot!(slot(DataType::Boolean, "0200000000000000"), @"column `a` at byte 8 of row 0 is neither false nor true");
    assert_snapshot!(slot(DataType::Null, "0000000000000000"), @"column `a` at byte 8 of row 0 is not NULL");
    assert_snapshot!(slot(DataType::Utf8, "3132333435363788"), @"column `a` at byte 8 of row 0 has more bytes than a slot holds");
    assert_snapshot!(slot(DataType::Utf8, "ff00000000000081"), @"column `a` at byte 8 of row 0 is not UTF-8");
    assert_snapshot!(slot(DataType::FixedSizeBinary(2), "ff00000000000081"), @"column `a` at byte 8 of row 0 is not as long as its type says");
    assert_snapshot!(slot(DataType::Timestamp(Second, None), "e703000000000000"), @"column `a` at byte 8 of row 0 is not a whole second");
    assert_snapshot!(slot(DataType::Timestamp(Nanosecond, None), "40420f0010000000 0000000000000000"), @"column `a` at byte 8 of row 0 has more nanoseconds than a millisecond");
    assert_snapshot!(slot(DataType::Timestamp(Microsecond, None), "0100000010000000 0000000000000000"), @"column `a` at byte 8 of row 0 is not a whole microsecond");
    assert_snapshot!(slot(DataType::Timestamp(Microsecond, None), "0000000010000000 ffffffffffffff7f"), @"column `a` at byte 8 of row 0 overflows the 64 bits of its unit");
    assert_snapshot!(slot(DataType::Decimal128(20, 0), "0000000010000000 0000000000000000"), @"column `a` at byte 8 of row 0 is not a decimal of 1 to 16 bytes");
}

#[test]
fn values_that_overlap() {
    let two = [DataType::Utf8, DataType::Binary];
    let words = "0000000000000000 0800000018000000 0800000018000000 3132333435363738";
    assert_snapshot!(malformed(&two, words), @"column `b` at byte 16 of row 0 overlaps another value");

    // A list whose elements are all the list's own second half would double with every level.
    let words = "0000000000000000 1800000010000000
        0200000000000000 0800000010000000 0800000010000000 0000000000000000";
    assert_snapshot!(malformed(&[list_of(list_of(DataType::Int8))], words), @"column `a.item` at byte 24 of row 0 overlaps another value");
}

#[test]
fn a_map_without_a_value_for_each_key() {
    let entries = vec![
        Field::new("k", DataType::Int8, false),
        Field::new("v", DataType::Int8, true),
    ];
    let entries = Field::new("entries", DataType::Struct(entries.into()), false);
    let words = "0000000000000000 2400000010000000
        1000000001000000 0000000007000000 0000000000000000 0000000000000000 00000000";
    assert_snapshot!(malformed(&[DataType::Map(Arc::new(entries), false)], words), @"column `a` at byte 16 of row 0 has not a value for each key");
}

#[test]
fn more_values_than_dictionary_keys() {
    let keyed = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Int32));
    let row = |i: u8| [0, 0, 0, 0, 0, 0, 0, 0, i, 0, 0, 0, 0, 0, 0, 0];
    let rows: Vec<_> = (0..=128).map(row).collect();
    let rows: Vec<&[u8]> = rows.iter().map(|row| row.as_slice()).collect();
    let small = layout(RowForm::Payload, &[keyed(DataType::Int8)]);
    assert_eq!(small.decode(&rows[..128]).unwrap()[0].len(), 128);
    assert_snapshot!(small.decode(&rows).unwrap_err(), @"column `a` at byte 8 of row 128 overflows the keys of its dictionary");
    let large = layout(RowForm::Payload, &[keyed(DataType::UInt8)]);
    assert_eq!(large.decode(&rows).unwrap()[0].len(), 129);
}

#[test]
fn a_required_part_is_needed_only_where_the_whole_is() {
    let part = Field::new("p", DataType::Int32, false);
    let parts: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let column: ArrayRef = Arc::new(StructArray::new(
        vec![part].into(),
        vec![parts],
        Some(NullBuffer::from(vec![false, true])),
    ));
    let layout = layout(RowForm::Payload, &[column.data_type().clone()]);
    let mut rows = Rows::new();
    layout
        .encode_into(&[Arc::clone(&column)], Select::All, &mut rows)
        .unwrap();
    assert_eq!(
        layout.decode(&[rows.get(0), rows.get(1)]).unwrap(),
        [column]
    );
    let mut row = rows.get(1).to_vec();
    row[17] = 1; // the NULL bit of the part
    assert_snapshot!(layout.decode(&[rows.get(0), &row]).unwrap_err(), @"column `a.p` at byte 16 of row 1 has a NULL where none may be");
}

#[test]
fn single_fields_are_checked_alike() {
    let layout = layout(RowForm::Key, &[DataType::Int16, DataType::Utf8]);
    let columns: [ArrayRef; 2] = [
        Arc::new(Int16Array::from(vec![Some(-5), None])),
        Arc::new(StringArray::from(vec!["a longer text", "short"])),
    ];
    let mut rows = Rows::new();
    layout
        .encode_into(&columns, Select::All, &mut rows)
        .unwrap();
    assert_eq!(layout.read(rows.get(0), 0), Ok(Value::Int(-5)));
    assert_eq!(
        layout.read(rows.get(0), 1),
        Ok(Value::Bytes(b"a longer text"))
    );
    assert_eq!(layout.read(rows.get(1), 0), Ok(Value::Null));
    assert_eq!(layout.read(rows.get(1), 1), Ok(Value::Bytes(b"short")));
    assert_eq!(layout.is_null(rows.get(1), 0), Ok(true));
    assert_snapshot!(layout.read(&rows.get(0)[..30], 1).unwrap_err(), @"column `b` at byte 24 is 7 bytes short");
    assert_snapshot!(layout.is_null(&[0; 8], 1).unwrap_err(), @"fixed part of the row at byte 0 is 16 bytes short");
}
