//! Keys and arguments in the forms that Arrow has for them.

mod common;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, RunArray,
    StringArray, StringViewArray, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use common::{MemOperator, audit, lines, open, text};
use window_shared::{Aggregate, EventTime, Function, WindowSpec, Windows};

/// One batch of keys with a value and the same time each.
fn batch(keys: &ArrayRef, values: &ArrayRef) -> RecordBatch {
    let times = TimestampMillisecondArray::from(vec![1; keys.len()]);
    let schema = Schema::new(vec![
        Field::new("k", keys.data_type().clone(), true),
        Field::new("v", values.data_type().clone(), true),
        Field::new("ts", arrow::array::Array::data_type(&times).clone(), true),
    ]);
    let columns = vec![Arc::clone(keys), Arc::clone(values), Arc::new(times)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn operator(batch: &RecordBatch, aggregates: &[Aggregate]) -> MemOperator {
    let windows = Windows::tumble(10).unwrap();
    let spec = WindowSpec::new(
        batch.schema(),
        &[0],
        EventTime::timestamp(2),
        windows,
        aggregates,
    );
    open(spec.unwrap())
}

fn results(
    keys: impl Into<ArrayRef>,
    values: impl Into<ArrayRef>,
    functions: &[Function],
) -> (String, DataType) {
    let batch = batch(&keys.into(), &values.into());
    let aggregates: Vec<Aggregate> = functions
        .iter()
        .map(|&function| Aggregate::new(function.to_string(), function, 1))
        .collect();
    let mut operator = operator(&batch, &aggregates);
    operator.push(&batch).unwrap();
    let results = operator.finish().unwrap();
    audit(&operator);
    (text(&results), results[0].column(0).data_type().clone())
}

fn counts(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from(vec![1; rows]))
}

/// A dictionary or a run whose value is NULL was not taken for NULL.
#[test]
fn nulls_of_dictionaries_and_runs_are_null_keys() {
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let places = Int32Array::from(vec![Some(0), Some(1), None, Some(0)]);
    let keys = DictionaryArray::<Int32Type>::new(places, Arc::clone(&names));
    let expected = "a 0 10 2\nnull 0 10 2";
    let (found, data_type) = results(Arc::new(keys) as ArrayRef, counts(4), &[Function::Count]);
    assert_eq!(found, expected);
    assert_eq!(data_type.to_string(), "Dictionary(Int32, Utf8)");
    // As an argument they are NULL likewise.
    let places = Int32Array::from(vec![Some(0), Some(1), None, Some(0)]);
    let values = DictionaryArray::<Int32Type>::new(places, Arc::clone(&names));
    let functions = [Function::Count, Function::Min, Function::Max];
    let (found, _) = results(counts(4), Arc::new(values) as ArrayRef, &functions);
    assert_eq!(found, "1 0 10 2 a a");
    let ends = Int32Array::from(vec![1, 3, 4]);
    let names = StringArray::from(vec![Some("a"), None, Some("a")]);
    let values = RunArray::<Int32Type>::try_new(&ends, &names).unwrap();
    let (found, _) = results(counts(4), Arc::new(values) as ArrayRef, &functions);
    assert_eq!(found, "1 0 10 2 a a");
}

/// Equal strings of slices that share a buffer were two keys.
#[test]
fn keys_are_equal_by_content() {
    let all = StringArray::from(vec!["ab", "cd", "ab", "xab", "cd"]);
    let keys = all.slice(1, 3);
    let (found, _) = results(Arc::new(keys) as ArrayRef, counts(3), &[Function::Count]);
    assert_eq!(found, "ab 0 10 1\ncd 0 10 1\nxab 0 10 1");
    let first: ArrayRef = Arc::new(all.slice(0, 2));
    let second: ArrayRef = Arc::new(all.slice(2, 3));
    let first = batch(&first, &counts(2));
    let mut operator = operator(&first, &[Aggregate::count_rows("rows")]);
    operator.push(&first).unwrap();
    operator.push(&batch(&second, &counts(3))).unwrap();
    assert_eq!(
        text(&operator.finish().unwrap()),
        "ab 0 10 2\ncd 0 10 2\nxab 0 10 1"
    );
}

/// Views of strings that are held within the view, and longer ones of the same beginning, were taken for each
/// other or ordered by something else than their bytes.
#[test]
fn views_compare_by_their_bytes() {
    let texts = [
        "abc",
        "abcdefghijkl",
        "abcdefghijklm",
        "abcdefghijklmn",
        "abd",
        "ab",
    ];
    let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        texts.iter().chain(&texts),
    ));
    let (found, data_type) = results(Arc::clone(&keys), counts(12), &[Function::Count]);
    let mut expected: Vec<String> = texts.iter().map(|text| format!("{text} 0 10 2")).collect();
    expected.sort();
    assert_eq!(found, expected.join("\n"));
    assert_eq!(data_type, DataType::Utf8View);
    let one_key: ArrayRef = Arc::new(Int64Array::from(vec![7; 12]));
    let (found, _) = results(one_key, keys, &[Function::Min, Function::Max]);
    assert_eq!(found, "7 0 10 ab abd");
}

/// What was kept of views was charged by what is in the view, not by what it refers to; and what was kept of a
/// batch kept the batch.
#[test]
fn kept_texts_are_charged_whole_and_let_go_of_their_batch() {
    let long = "x".repeat(10_000);
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let texts = (0..100).map(|row| format!("{row} {long}"));
    let values: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
    let rows = batch(&keys, &values);
    let mut operator = operator(&rows, &[Aggregate::new("least", Function::Min, 1)]);
    let empty = operator.charged_bytes();
    operator.push(&rows).unwrap();
    audit(&operator);
    let held = operator.charged_bytes() - empty;
    assert!((1_000_000..2_200_000).contains(&held), "{held}");
    let texts = Arc::downgrade(&values);
    drop((rows, values));
    assert!(texts.upgrade().is_none());
    let fired = operator.finish().unwrap();
    assert_eq!(lines(&fired[0]).len(), 100);
    assert_eq!(fired[0].column(4).len(), 100);
}

/// What cannot be grouped by or compared is refused by the name of its column.
#[test]
fn lists_are_no_arguments_of_comparisons() {
    let lists = || {
        let lists = vec![Some(vec![Some(1)]), None];
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)) as ArrayRef
    };
    let batch = batch(&counts(2), &lists());
    let refused = WindowSpec::new(
        batch.schema(),
        &[0],
        EventTime::timestamp(2),
        Windows::tumble(10).unwrap(),
        &[Aggregate::new("least", Function::Min, 1)],
    );
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("least") && message.contains("MIN") && message.contains("List"),
        "{message}"
    );
    let (found, _) = results(counts(2), lists(), &[Function::Count]);
    assert_eq!(found, "1 0 10 1");
}
