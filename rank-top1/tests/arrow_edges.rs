//! Columns whose Arrow form is unusual: the answer is that of their plain copies.

mod common;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int8Array, Int32Array, Int64Array, ListArray,
    MapBuilder, RecordBatch, StringArray, StringBuilder, StringViewArray, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int8Type, Int32Type, Schema};
use common::open;
use rank_top1::{Changelog, Emit, OrderBy, RankSpec, Ranker, RowKind};
use state_mem::MemBackend;

/// The changelogs of the first batch and of the second, Top-1 by `v` ascending within `k`, by both
/// rankers in both modes.
fn changelogs(first: &RecordBatch, second: &RecordBatch) -> Vec<[Changelog; 2]> {
    let mut all = Vec::new();
    for emit in [Emit::Immediate, Emit::MiniBatch] {
        for general in [false, true] {
            let spec = RankSpec::builder(first.schema())
                .partition_by(["k"])
                .order_by([OrderBy::asc("v")])
                .emit(emit)
                .build()
                .unwrap();
            let mut ranker = open(general, spec, &MemBackend::default(), "test").unwrap();
            all.push([first, second].map(|batch| {
                let pushed = ranker.push(batch).unwrap();
                pushed
                    .or_else(|| ranker.flush().unwrap())
                    .expect("each batch changes something")
            }));
        }
    }
    all
}

fn with_payload(keys: Vec<Option<&str>>, sorts: Vec<i64>, payload: ArrayRef) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
        Field::new("p", payload.data_type().clone(), true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(keys)),
        Arc::new(Int64Array::from(sorts)),
        payload,
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

/// Rows of `payload` come back as they went in: from the batch, and from state as `-U`.
fn assert_payload_survives(payload: ArrayRef) {
    let rows = payload.len();
    let names: Vec<String> = (0..rows).map(|row| format!("key{row}")).collect();
    let keys = || names.iter().map(|name| Some(name.as_str())).collect();
    let first = with_payload(keys(), vec![5; rows], payload.clone());
    let second = with_payload(keys(), vec![4; rows], payload.clone());
    for [inserts, updates] in changelogs(&first, &second) {
        assert_eq!(inserts.batch(), &first);
        assert_eq!(
            updates.kinds(),
            [RowKind::UpdateBefore, RowKind::UpdateAfter].repeat(rows)
        );
        for row in 0..rows {
            let change = |i: usize| updates.batch().slice(i, 1);
            assert_eq!(change(2 * row), first.slice(row, 1), "-U of row {row}");
            assert_eq!(change(2 * row + 1), second.slice(row, 1), "+U of row {row}");
        }
    }
}

#[test]
fn a_null_in_the_values_of_a_dictionary_is_a_null_key() {
    let values = Arc::new(StringArray::from(vec![Some("a"), None]));
    let keys = Int8Array::from(vec![Some(0), Some(1), None, Some(1)]);
    let column = Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).unwrap());
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", column.data_type().clone(), true),
        Field::new("v", DataType::Int64, true),
    ]));
    let batch = |sorts: Vec<i64>| {
        let columns: Vec<ArrayRef> = vec![column.clone(), Arc::new(Int64Array::from(sorts))];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    for [first, second] in changelogs(&batch(vec![5, 5, 5, 5]), &batch(vec![9, 9, 4, 9])) {
        assert_eq!(
            first.kinds(),
            [RowKind::Insert; 2],
            "one group of a, one of NULL"
        );
        assert_eq!(
            second.kinds(),
            [RowKind::UpdateBefore, RowKind::UpdateAfter]
        );
        assert_eq!(second.batch().column(0).logical_null_count(), 2);
        assert_eq!(
            second.batch().schema().field(0).data_type(),
            column.data_type()
        );
    }
}

#[test]
fn lists_structs_and_maps_survive_as_payload() {
    let list = ListArray::from_iter_primitive::<Int8Type, _, _>([
        Some(vec![None]),
        Some(vec![None, None]),
        None,
        Some(vec![]),
        Some(vec![Some(-1), None, Some(7)]),
    ]);
    assert_payload_survives(Arc::new(list));

    let fields = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
    ]);
    let children: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(StringArray::from(vec![
            Some("longer than seven"),
            Some("x"),
            None,
        ])),
    ];
    let validity = NullBuffer::from(vec![true, true, true]);
    assert_payload_survives(Arc::new(StructArray::new(fields, children, Some(validity))));

    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.keys().append_value("key");
    map.values().append_value("value");
    map.append(true).unwrap();
    map.append(true).unwrap();
    map.append(false).unwrap();
    assert_payload_survives(Arc::new(map.finish()));
}

#[test]
fn a_null_struct_hides_what_stands_under_it() {
    let fields = Fields::from(vec![Field::new("a", DataType::Int32, true)]);
    let children: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![1, 2]))];
    let hidden = StructArray::new(fields, children, Some(NullBuffer::from(vec![true, false])));
    let batch = |sort| {
        with_payload(
            vec![Some("a"), Some("b")],
            vec![sort; 2],
            Arc::new(hidden.clone()),
        )
    };
    for [_, updates] in changelogs(&batch(5), &batch(4)) {
        let payload = updates.batch().column(2).as_struct();
        assert_eq!(
            payload.nulls().unwrap().iter().collect::<Vec<_>>(),
            [true, true, false, false]
        );
        assert_eq!(payload.column(0).as_primitive::<Int32Type>().value(0), 1);
    }
}

#[test]
fn string_views_and_dictionaries_keep_their_types() {
    let views = ["abc", "abcdefghijkl", "abcdefghijklm", ""];
    assert_payload_survives(Arc::new(StringViewArray::from(views.to_vec())));
    let words: DictionaryArray<Int8Type> = views.into_iter().collect();
    let first = with_payload(
        vec![Some("a"); 4],
        vec![5, 4, 3, 2],
        Arc::new(words.clone()),
    );
    let second = with_payload(
        vec![Some("a"); 4],
        vec![1, 0, 0, 0],
        Arc::new(words.clone()),
    );
    for changes in changelogs(&first, &second).iter().flatten() {
        assert_eq!(
            changes.batch().schema().field(2).data_type(),
            words.data_type()
        );
        assert_eq!(changes.batch().column(2).data_type(), words.data_type());
    }
}

#[test]
fn slices_of_one_buffer_are_compared_by_content() {
    let keys = StringArray::from(vec!["x", "same", "same", "y"]);
    let sorts = Int64Array::from(vec![0, 7, 6, 0]);
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
    ]));
    let batch = |from: usize| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(keys.slice(from, 1)),
            Arc::new(sorts.slice(from, 1)),
        ];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    for [first, second] in changelogs(&batch(1), &batch(2)) {
        assert_eq!(first.kinds(), [RowKind::Insert]);
        assert_eq!(
            second.kinds(),
            [RowKind::UpdateBefore, RowKind::UpdateAfter]
        );
    }
}

#[test]
fn an_empty_batch_changes_nothing() {
    let spec = common::spec().build().unwrap();
    let mut ranker = Ranker::open(spec, &MemBackend::default(), "test").unwrap();
    assert_eq!(
        ranker
            .push(&RecordBatch::new_empty(common::schema()))
            .unwrap(),
        None
    );
    assert_eq!(ranker.flush().unwrap(), None);
}
