//! Arrays of every make come back with the same values and the declared type.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryViewArray, DictionaryArray, Int8Array, Int64Array, LargeStringArray,
    ListArray, StringArray, StringViewArray, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Int8Type};
use state_codec::{RowForm, RowLayout, Rows, Select};

fn encode(columns: &[ArrayRef], select: Select<'_>) -> (RowLayout, Rows) {
    let fields: Vec<_> = columns
        .iter()
        .map(|column| Arc::new(Field::new("c", column.data_type().clone(), true)))
        .collect();
    let layout = RowLayout::new(&fields, RowForm::Payload).unwrap();
    let mut rows = Rows::new();
    layout.encode_into(columns, select, &mut rows).unwrap();
    (layout, rows)
}

fn rows_of(column: impl Array + 'static) -> Vec<Vec<u8>> {
    encode(&[Arc::new(column)], Select::All)
        .1
        .iter()
        .map(<[u8]>::to_vec)
        .collect()
}

fn round_trip(column: ArrayRef) -> ArrayRef {
    let (layout, rows) = encode(&[column], Select::All);
    layout
        .decode(&rows.iter().collect::<Vec<_>>())
        .unwrap()
        .remove(0)
}

#[test]
fn slices_of_one_buffer_are_equal_by_content() {
    let text = StringArray::from(vec!["the same text", "another", "the same text", "another"]);
    let rows = rows_of(text.slice(1, 3));
    assert_eq!(rows_of(text.slice(0, 1)), rows[1..2]);
    assert_eq!(rows[0], rows[2]);
    assert_ne!(rows[0], rows[1]);
}

#[test]
fn views_are_their_bytes_whether_inline_or_not() {
    let words = [
        "pre",
        "prefix of 12",
        "prefix of 13.",
        "prefix of 1",
        "prefix of 13!",
        "",
    ];
    let plain = rows_of(StringArray::from(words.to_vec()));
    assert_eq!(rows_of(StringViewArray::from(words.to_vec())), plain);
    assert_eq!(rows_of(LargeStringArray::from(words.to_vec())), plain);
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    assert_eq!(rows_of(BinaryViewArray::from(bytes)), plain);
    let views: ArrayRef = Arc::new(StringViewArray::from(words.to_vec()));
    assert_eq!(&round_trip(Arc::clone(&views)), &views);
}

#[test]
fn lists_of_nothing_but_nulls() {
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int8Type, _, _>([
        Some(vec![None]),
        Some(vec![None, None]),
        Some(vec![]),
        None,
    ]));
    assert_eq!(&round_trip(Arc::clone(&lists)), &lists);
}

#[test]
fn a_dictionary_comes_back_as_one() {
    let values = StringArray::from(vec!["unused", "b", "a", "b"]);
    let keys = Int8Array::from(vec![Some(3), Some(2), None, Some(1)]);
    let decoded = round_trip(Arc::new(DictionaryArray::new(keys, Arc::new(values))));
    let keys = Int8Array::from(vec![Some(0), Some(1), None, Some(0)]);
    let expected = DictionaryArray::new(keys, Arc::new(StringArray::from(vec!["b", "a"])));
    assert_eq!(decoded.as_ref(), &expected);
}

#[test]
fn a_null_struct_hides_its_parts() {
    let field = Arc::new(Field::new("part", DataType::Int64, true));
    let parts: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
    let nulls = NullBuffer::from(vec![false, true, true]);
    let structs = StructArray::from(vec![(field, parts)]);
    let (fields, parts, _) = structs.into_parts();
    let structs = StructArray::new(fields.clone(), parts, Some(nulls));
    let zeros = vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(rows_of(structs.clone())[0], zeros);

    let parts: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(2), None]));
    let expected = StructArray::new(fields, vec![parts], structs.nulls().cloned());
    assert_eq!(round_trip(Arc::new(structs)).as_ref(), &expected);
}

#[test]
fn no_rows_and_no_columns() {
    let (layout, rows) = encode(&[Arc::new(Int64Array::from(vec![0i64; 0]))], Select::All);
    assert!(rows.is_empty());
    assert_eq!(layout.decode(&[]).unwrap()[0].len(), 0);

    let (layout, rows) = encode(&[], Select::Indices(&[4, 4, 4]));
    assert!(rows.iter().eq([[0; 8]; 3]));
    assert!(layout.decode(&[rows.get(0)]).unwrap().is_empty());
}

#[test]
fn rows_come_in_the_order_of_the_indices() {
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![10, 11, 12])),
        Arc::new(StringArray::from(vec!["ten", "eleven eleven", "twelve"])),
    ];
    let (layout, rows) = encode(&columns, Select::Indices(&[2, 1, 1]));
    let decoded = layout.decode(&rows.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(decoded[0].as_ref(), &Int64Array::from(vec![12, 11, 11]));
    assert_eq!(
        decoded[1].as_ref(),
        &StringArray::from(vec!["twelve", "eleven eleven", "eleven eleven"])
    );
}

#[test]
fn an_arena_is_charged_for_what_it_reserves() {
    let (_, mut rows) = encode(&[Arc::new(Int64Array::from(vec![1; 10_000]))], Select::All);
    let allocated = rows.allocated_bytes();
    assert!(allocated >= 10_000 * (16 + size_of::<usize>()));
    rows.clear();
    assert_eq!((rows.len(), rows.allocated_bytes()), (0, allocated));
}
