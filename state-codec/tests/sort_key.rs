//! Sort keys: their bytes, what is refused, and single cases of the order that others got wrong.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, NullArray, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampSecondArray,
};
use arrow::datatypes::{DataType, Field, FieldRef, Int8Type, TimeUnit};
use state_codec::{
    FloatOrder, Nulls, Order, RowForm, RowLayout, Rows, Select, SortColumn, SortError, SortKeys,
    SortOrder,
};

const ASC: Order = Order::Ascending;
const DESC: Order = Order::Descending;
const FIRST: Nulls = Nulls::First;
const LAST: Nulls = Nulls::Last;

/// Nullable fields of the types of `columns`, named `c0`, `c1`, …
fn fields(columns: &[ArrayRef]) -> Vec<FieldRef> {
    let field = |(i, array): (usize, &ArrayRef)| {
        Arc::new(Field::new(format!("c{i}"), array.data_type().clone(), true))
    };
    columns.iter().enumerate().map(field).collect()
}

/// An order by all columns in turn.
fn order(fields: &[FieldRef], terms: &[(Order, Nulls)], floats: FloatOrder) -> SortOrder {
    let columns: Vec<SortColumn> = terms
        .iter()
        .enumerate()
        .map(|(column, &(order, nulls))| SortColumn {
            column,
            order,
            nulls,
        })
        .collect();
    SortOrder::new(fields, &columns, floats).expect("every column can be ordered")
}

fn keys(order: &SortOrder, columns: &[ArrayRef]) -> SortKeys {
    let mut keys = SortKeys::default();
    order.encode(columns, &mut keys);
    keys
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The keys of `columns`, one a line: the prefix, and behind a blank what follows it.
fn layout_of(order: &SortOrder, columns: &[ArrayRef]) -> String {
    let keys = keys(order, columns);
    let lines = (0..keys.len()).map(|i| {
        let key = keys.get(i);
        format!("{} {}", hex(&key.prefix.to_be_bytes()), hex(key.rest))
            .trim_end()
            .to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The keys of one column that is declared to have NULLs if it has one.
fn bytes(array: impl Array + 'static, direction: Order, nulls: Nulls) -> String {
    let nullable = array.logical_null_count() > 0;
    let columns: [ArrayRef; 1] = [Arc::new(array)];
    let fields = [Arc::new(Field::new(
        "c",
        columns[0].data_type().clone(),
        nullable,
    ))];
    layout_of(
        &order(&fields, &[(direction, nulls)], FloatOrder::Total),
        &columns,
    )
}

/// The row that comes first, the earlier one of a tie, as the winner of a ranking is chosen.
fn winner(order: &SortOrder, columns: &[ArrayRef]) -> usize {
    let keys = keys(order, columns);
    let better = |best, row| match order.compare(keys.get(row), keys.get(best)) {
        Ordering::Less => row,
        _ => best,
    };
    (0..keys.len()).reduce(better).expect("there are rows")
}

#[test]
fn integers_have_their_sign_inverted() {
    let array = || Int8Array::from(vec![-128, -1, 0, 1, 127]);
    insta::assert_snapshot!(bytes(array(), ASC, FIRST), @r"
    00000000000000000000000000000000
    7f000000000000000000000000000000
    80000000000000000000000000000000
    81000000000000000000000000000000
    ff000000000000000000000000000000
    ");
    insta::assert_snapshot!(bytes(array(), DESC, FIRST), @r"
    ff000000000000000000000000000000
    80000000000000000000000000000000
    7f000000000000000000000000000000
    7e000000000000000000000000000000
    00000000000000000000000000000000
    ");
    insta::assert_snapshot!(bytes(Int16Array::from(vec![-2, 0x0102]), ASC, LAST), @r"
    7ffe0000000000000000000000000000
    81020000000000000000000000000000
    ");
    insta::assert_snapshot!(bytes(Date32Array::from(vec![-1, 19_782]), ASC, LAST), @r"
    7fffffff000000000000000000000000
    80004d46000000000000000000000000
    ");
    insta::assert_snapshot!(bytes(Int64Array::from(vec![i64::MIN, 5]), DESC, LAST), @r"
    ffffffffffffffff0000000000000000
    7ffffffffffffffa0000000000000000
    ");
}

#[test]
fn a_nullable_column_has_a_marker_that_no_direction_inverts() {
    let array = || Int32Array::from(vec![None, Some(-1), Some(5)]);
    insta::assert_snapshot!(bytes(array(), ASC, FIRST), @r"
    00000000000000000000000000000000
    017fffffff0000000000000000000000
    01800000050000000000000000000000
    ");
    insta::assert_snapshot!(bytes(array(), DESC, FIRST), @r"
    00000000000000000000000000000000
    01800000000000000000000000000000
    017ffffffa0000000000000000000000
    ");
    insta::assert_snapshot!(bytes(array(), ASC, LAST), @r"
    02000000000000000000000000000000
    017fffffff0000000000000000000000
    01800000050000000000000000000000
    ");
    insta::assert_snapshot!(bytes(array(), DESC, LAST), @r"
    02000000000000000000000000000000
    01800000000000000000000000000000
    017ffffffa0000000000000000000000
    ");
}

#[test]
fn floats_follow_the_total_order_without_the_sign_of_zero() {
    let negative_nan = f32::from_bits(0xffc0_0001);
    let values = vec![
        f32::NEG_INFINITY,
        -1.5,
        -0.0,
        0.0,
        1.5,
        f32::INFINITY,
        negative_nan,
    ];
    insta::assert_snapshot!(bytes(Float32Array::from(values), ASC, FIRST), @r"
    007fffff000000000000000000000000
    403fffff000000000000000000000000
    80000000000000000000000000000000
    80000000000000000000000000000000
    bfc00000000000000000000000000000
    ff800000000000000000000000000000
    ffc00000000000000000000000000000
    ");
    insta::assert_snapshot!(bytes(Float64Array::from(vec![-1.5, -0.0, f64::NAN]), DESC, FIRST), @r"
    bff80000000000000000000000000000
    7fffffffffffffff0000000000000000
    0007ffffffffffff0000000000000000
    ");
}

#[test]
fn booleans_decimals_and_timestamps_are_numbers() {
    insta::assert_snapshot!(bytes(BooleanArray::from(vec![false, true]), DESC, FIRST), @r"
    ff000000000000000000000000000000
    fe000000000000000000000000000000
    ");
    let decimals = |precision| {
        let array = Decimal128Array::from(vec![-1, 10]);
        array
            .with_precision_and_scale(precision, 2)
            .expect("the values are short")
    };
    insta::assert_snapshot!(bytes(decimals(18), ASC, FIRST), @r"
    7fffffffffffffff0000000000000000
    800000000000000a0000000000000000
    ");
    insta::assert_snapshot!(bytes(decimals(19), ASC, FIRST), @r"
    7fffffffffffffffffffffffffffffff
    8000000000000000000000000000000a
    ");
    let micros = TimestampMicrosecondArray::from(vec![-1, 1_000_001]).with_timezone("UTC");
    insta::assert_snapshot!(bytes(micros, ASC, FIRST), @r"
    7fffffffffffffff0000000000000000
    80000000000f42410000000000000000
    ");
}

#[test]
fn strings_are_escaped_and_terminated() {
    let values = || {
        vec![
            Some(""),
            Some("a"),
            Some("a\0"),
            Some("a\0b"),
            Some("ab"),
            None,
        ]
    };
    insta::assert_snapshot!(bytes(StringArray::from(values()), ASC, LAST), @r"
    01000100000000000000000000000000
    01610001000000000000000000000000
    016100ff000100000000000000000000
    016100ff620001000000000000000000
    01616200010000000000000000000000
    02000000000000000000000000000000
    ");
    insta::assert_snapshot!(bytes(StringViewArray::from(values()), DESC, LAST), @r"
    01fffe00000000000000000000000000
    019efffe000000000000000000000000
    019eff00fffe00000000000000000000
    019eff009dfffe000000000000000000
    019e9dfffe0000000000000000000000
    02000000000000000000000000000000
    ");
    insta::assert_snapshot!(
        bytes(BinaryArray::from(vec![&b"thirteen byte"[..], b"fourteen bytes", b"more than sixteen"]), ASC, LAST),
        @r"
    746869727465656e2062797465000100
    666f75727465656e2062797465730001
    6d6f7265207468616e20736978746565 6e0001
    ");
}

#[test]
fn fixed_size_binaries_are_their_bytes() {
    let array = |values: Vec<Option<&'static [u8]>>, width| {
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), width)
            .expect("the values are of that width")
    };
    insta::assert_snapshot!(bytes(array(vec![Some(b"\0a"), None], 2), DESC, FIRST), @r"
    01ff9e00000000000000000000000000
    00000000000000000000000000000000
    ");
    insta::assert_snapshot!(bytes(array(vec![Some(b"\0\x01 seventeen bytes"), None], 18), DESC, FIRST), @r"
    01fffedf8c9a899a918b9a9a91df9d86 8b9a8c
    00000000000000000000000000000000 000000
    ");
}

#[test]
fn columns_follow_each_other() {
    let columns: [ArrayRef; 3] = [
        Arc::new(Int16Array::from(vec![Some(1), None, Some(1)])),
        Arc::new(StringArray::from(vec![Some("x"), Some("y"), None])),
        Arc::new(Decimal128Array::from(vec![Some(7), Some(8), None])),
    ];
    let order = order(
        &fields(&columns),
        &[(ASC, LAST), (DESC, FIRST), (ASC, FIRST)],
        FloatOrder::Flink,
    );
    insta::assert_snapshot!(layout_of(&order, &columns), @r"
    0180010187fffe018000000000000000 0000000000000007
    0200000186fffe018000000000000000 0000000000000008
    01800100000000000000000000000000 0000000000
    ");
}

#[test]
fn a_column_of_nothing_but_null_has_no_bytes_and_decides_nothing() {
    let columns: [ArrayRef; 2] = [
        Arc::new(NullArray::new(2)),
        Arc::new(Int8Array::from(vec![2, 1])),
    ];
    let by_null = order(&fields(&columns), &[(ASC, FIRST)], FloatOrder::Total);
    insta::assert_snapshot!(layout_of(&by_null, &columns), @r"
    00000000000000000000000000000000
    00000000000000000000000000000000
    ");
    assert!(by_null.prefix_decides());
    let by_both = order(
        &fields(&columns),
        &[(ASC, FIRST), (ASC, FIRST)],
        FloatOrder::Total,
    );
    assert_eq!(winner(&by_both, &columns), 1);
}

#[test]
fn zeros_of_both_signs_tie_and_the_next_column_decides() {
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let singles: ArrayRef = Arc::new(Float32Array::from(vec![0.0, -0.0]));
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
    for floats in [FloatOrder::Flink, FloatOrder::Total] {
        for first in [&singles, &doubles] {
            let columns = [first.clone(), ids.clone()];
            let fields = fields(&columns);
            assert_eq!(
                winner(
                    &order(&fields, &[(ASC, FIRST), (ASC, FIRST)], floats),
                    &columns
                ),
                0
            );
            assert_eq!(
                winner(
                    &order(&fields, &[(ASC, FIRST), (DESC, FIRST)], floats),
                    &columns
                ),
                1
            );
        }
    }
}

#[test]
fn nan_ties_with_numbers_as_in_flink_or_is_the_greatest() {
    let other_nan = f64::from_bits(0xfff0_0000_0000_0001);
    let values = vec![
        Some(f64::NAN),
        Some(other_nan),
        Some(f64::NEG_INFINITY),
        Some(1.0),
        Some(f64::INFINITY),
        None,
    ];
    let columns: [ArrayRef; 1] = [Arc::new(Float64Array::from(values))];
    let table = |floats, direction| {
        let order = order(&fields(&columns), &[(direction, LAST)], floats);
        let keys = keys(&order, &columns);
        let symbol = |i, j| match order.compare(keys.get(i), keys.get(j)) {
            Ordering::Less => '<',
            Ordering::Equal => '=',
            Ordering::Greater => '>',
        };
        let line = |i| (0..keys.len()).map(|j| symbol(i, j)).collect::<String>();
        (0..keys.len()).map(line).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(table(FloatOrder::Flink, ASC), @r"
    =====<
    =====<
    ===<<<
    ==>=<<
    ==>>=<
    >>>>>=
    ");
    insta::assert_snapshot!(table(FloatOrder::Total, ASC), @r"
    ==>>><
    ==>>><
    <<=<<<
    <<>=<<
    <<>>=<
    >>>>>=
    ");
    insta::assert_snapshot!(table(FloatOrder::Total, DESC), @r"
    ==<<<<
    ==<<<<
    >>=>><
    >><=><
    >><<=<
    >>>>>=
    ");
}

#[test]
fn a_column_behind_a_tying_nan_decides() {
    let columns: [ArrayRef; 3] = [
        Arc::new(StringArray::from(vec![
            "a\0 long common text",
            "a\0 long common text",
        ])),
        Arc::new(Float32Array::from(vec![f32::NAN, -7.0])),
        Arc::new(BinaryViewArray::from(vec![&b"y"[..], b"x"])),
    ];
    let terms = [(DESC, FIRST), (DESC, FIRST), (DESC, FIRST)];
    assert_eq!(
        winner(
            &order(&fields(&columns), &terms, FloatOrder::Flink),
            &columns
        ),
        0
    );
    let terms = [(DESC, FIRST), (DESC, FIRST), (ASC, FIRST)];
    assert_eq!(
        winner(
            &order(&fields(&columns), &terms, FloatOrder::Flink),
            &columns
        ),
        1
    );
}

#[test]
fn the_prefix_decides_short_keys_of_fixed_width() {
    let decides = |types: &[(DataType, bool)], floats| {
        let fields: Vec<FieldRef> = types
            .iter()
            .map(|(data_type, nullable)| Arc::new(Field::new("c", data_type.clone(), *nullable)))
            .collect();
        let order = order(&fields, &vec![(ASC, FIRST); types.len()], floats);
        (order.prefix_decides(), order.is_transitive())
    };
    use DataType::{Decimal128, Float64, Int32, Int64, Utf8};
    let (flink, total) = (FloatOrder::Flink, FloatOrder::Total);
    assert_eq!(decides(&[(Int64, true)], flink), (true, true));
    assert_eq!(
        decides(&[(Int64, false), (Int64, false)], flink),
        (true, true)
    );
    assert_eq!(
        decides(&[(Int64, true), (Int64, false)], flink),
        (false, true)
    );
    assert_eq!(
        decides(&[(Int64, true), (Int32, true)], flink),
        (true, true)
    );
    assert_eq!(decides(&[(Decimal128(38, 0), false)], flink), (true, true));
    assert_eq!(decides(&[(Decimal128(38, 0), true)], flink), (false, true));
    assert_eq!(decides(&[(Utf8, false)], flink), (false, true));
    assert_eq!(decides(&[(Float64, true)], total), (true, true));
    assert_eq!(decides(&[(Float64, true)], flink), (false, false));
}

#[test]
fn views_that_share_a_beginning_compare_by_bytes() {
    let texts = [
        "abc",
        "abcabcabcabc",
        "abcabcabcabca",
        "abcabcabcabcb",
        "abcabcabcabd",
        "abd",
    ];
    let columns: [ArrayRef; 1] = [Arc::new(StringViewArray::from(texts.to_vec()))];
    let order = order(&fields(&columns), &[(ASC, FIRST)], FloatOrder::Total);
    let keys = keys(&order, &columns);
    for i in 0..texts.len() {
        for j in 0..texts.len() {
            let found = order.compare(keys.get(i), keys.get(j));
            assert_eq!(
                found,
                texts[i].as_bytes().cmp(texts[j].as_bytes()),
                "{} {}",
                texts[i],
                texts[j]
            );
        }
    }
}

#[test]
fn text_is_in_the_order_of_code_points() {
    // In UTF-16 the second would come before the first.
    let columns: [ArrayRef; 1] = [Arc::new(StringArray::from(vec!["\u{ffee}", "\u{1f600}"]))];
    let order = order(&fields(&columns), &[(ASC, FIRST)], FloatOrder::Total);
    assert_eq!(winner(&order, &columns), 0);
}

#[test]
fn a_null_among_the_values_of_a_dictionary_is_null() {
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a")]));
    let keys = Int8Array::from(vec![Some(0), Some(1), Some(2), None]);
    let array = DictionaryArray::<Int8Type>::try_new(keys, values).expect("the keys are in range");
    insta::assert_snapshot!(bytes(array, ASC, LAST), @r"
    01620001000000000000000000000000
    02000000000000000000000000000000
    01610001000000000000000000000000
    02000000000000000000000000000000
    ");
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    let keys = Int8Array::from(vec![None, None]);
    let array = DictionaryArray::<Int8Type>::try_new(keys, none).expect("there are no keys");
    insta::assert_snapshot!(bytes(array, ASC, LAST), @r"
    02000000000000000000000000000000
    02000000000000000000000000000000
    ");
}

#[test]
fn a_slice_has_the_keys_of_its_rows() {
    let columns: [ArrayRef; 3] = [
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)])),
        Arc::new(BooleanArray::from(vec![
            Some(true),
            Some(false),
            None,
            Some(true),
        ])),
        Arc::new(StringArray::from(vec![
            Some("one"),
            Some("two"),
            None,
            Some("four"),
        ])),
    ];
    let order = order(
        &fields(&columns),
        &[(ASC, FIRST), (DESC, LAST), (ASC, LAST)],
        FloatOrder::Total,
    );
    let sliced: Vec<ArrayRef> = columns.iter().map(|array| array.slice(1, 2)).collect();
    let whole = layout_of(&order, &columns);
    let middle: Vec<&str> = whole.lines().skip(1).take(2).collect();
    assert_eq!(layout_of(&order, &sliced), middle.join("\n"));
}

#[test]
fn buffers_are_reused() {
    let columns: [ArrayRef; 1] = [Arc::new(StringArray::from(vec![
        "a text longer than a prefix";
        100
    ]))];
    let by_text = order(&fields(&columns), &[(ASC, FIRST)], FloatOrder::Total);
    let mut keys = keys(&by_text, &columns);
    let allocated = keys.allocated_bytes();
    // Prefix, marker, text, terminator and end of each key.
    assert!(allocated >= 100 * (16 + 1 + 27 + 2 + 8));
    by_text.encode(&[columns[0].slice(0, 10)], &mut keys);
    assert_eq!((keys.len(), keys.allocated_bytes()), (10, allocated));
    keys.clear();
    assert_eq!((keys.is_empty(), keys.allocated_bytes()), (true, allocated));

    // Another order may use them next; nothing of the earlier keys shows.
    let numbers: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![3]))];
    let by_number = order(&fields(&numbers), &[(ASC, FIRST)], FloatOrder::Total);
    by_text.encode(&columns, &mut keys);
    by_number.encode(&numbers, &mut keys);
    assert_eq!((keys.len(), keys.get(0).rest), (1, &[][..]));
    assert_eq!(keys.get(0).prefix, 0x01_8000_0000_0000_0003_u128 << 56);
}

#[test]
fn keys_in_a_columns_memory_are_let_go_of_and_can_be_added_to() {
    let numbers: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX]))];
    let fields = fields(&numbers);
    let layout = RowLayout::new(&fields, RowForm::Payload).expect("flat types");
    let mut rows = Rows::new();
    layout
        .encode_into(&numbers, Select::All, &mut rows)
        .expect("the values fit");
    for direction in [ASC, DESC] {
        let order = order(&fields, &[(direction, FIRST)], FloatOrder::Total);
        let mut keys = keys(&order, &numbers);
        let memory = numbers[0].to_data().buffers()[0].strong_count();
        for row in rows.iter() {
            order
                .encode_row(&layout, row, &mut keys)
                .expect("the row was just written");
        }
        assert_eq!(keys.len(), 8);
        for i in 0..4 {
            assert_eq!(keys.get(i), keys.get(i + 4), "row {i}");
        }
        assert_eq!(numbers[0].to_data().buffers()[0].strong_count(), memory - 1);
    }
}

#[test]
fn no_rows_have_no_keys() {
    let columns: [ArrayRef; 1] = [Arc::new(StringArray::from(Vec::<&str>::new()))];
    let order = order(&fields(&columns), &[(ASC, FIRST)], FloatOrder::Total);
    assert!(keys(&order, &columns).is_empty());
}

#[test]
fn the_row_of_a_key_gives_the_same_key() {
    let columns: [ArrayRef; 2] = [
        Arc::new(TimestampSecondArray::from(vec![
            Some(-3),
            None,
            Some(1_700_000_000),
        ])),
        Arc::new(StringArray::from(vec![
            Some("long\0 enough for a second part"),
            Some(""),
            None,
        ])),
    ];
    let fields = fields(&columns);
    let order = order(&fields, &[(DESC, LAST), (ASC, LAST)], FloatOrder::Total);
    let layout = RowLayout::new(&fields, RowForm::Payload).expect("flat types");
    let mut rows = Rows::new();
    layout
        .encode_into(&columns, Select::All, &mut rows)
        .expect("the values fit");
    let expected = keys(&order, &columns);
    let mut found = SortKeys::default();
    for (i, row) in rows.iter().enumerate() {
        order
            .encode_row(&layout, row, &mut found)
            .expect("the row was just written");
        assert_eq!(found.get(i), expected.get(i), "row {i}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn a_malformed_row_is_an_error_and_adds_no_key() {
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![5])),
        Arc::new(StringArray::from(vec!["sixteen bytes ok"])),
    ];
    let fields = fields(&columns);
    let layout = RowLayout::new(&fields, RowForm::Payload).expect("flat types");
    let mut rows = Rows::new();
    layout
        .encode_into(&columns, Select::All, &mut rows)
        .expect("the values fit");
    let order = order(&fields, &[(ASC, FIRST), (ASC, FIRST)], FloatOrder::Total);
    let mut keys = keys(&order, &columns);
    let before = keys.get(0).rest.to_vec();
    for end in 0..rows.get(0).len() {
        let cut = &rows.get(0)[..end];
        let result = order.encode_row(&layout, cut, &mut keys);
        assert!(result.is_err(), "a row cut to {end} bytes was read");
        assert_eq!((keys.len(), keys.get(0).rest), (1, &before[..]));
    }
    order
        .encode_row(&layout, rows.get(0), &mut keys)
        .expect("the whole row is well-formed");
    assert_eq!(keys.get(0), keys.get(1));
}

#[test]
fn an_order_that_cannot_be_compiled_says_why() {
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int8, true)));
    let fields: Vec<FieldRef> = vec![
        Arc::new(Field::new("id", DataType::Int64, false)),
        Arc::new(Field::new("tags", list.clone(), true)),
        Arc::new(Field::new("wait", DataType::Time32(TimeUnit::Second), true)),
        Arc::new(Field::new(
            "kind",
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(list.clone())),
            true,
        )),
    ];
    let error = |columns: &[usize]| {
        let columns: Vec<SortColumn> = columns
            .iter()
            .map(|&column| SortColumn {
                column,
                order: ASC,
                nulls: FIRST,
            })
            .collect();
        SortOrder::new(&fields, &columns, FloatOrder::Flink).expect_err("it cannot be compiled")
    };
    insta::assert_snapshot!(error(&[]), @"an order needs at least one column");
    insta::assert_snapshot!(error(&[0, 4]), @"sort column 4 is beyond the 4 fields of the rows");
    insta::assert_snapshot!(error(&[0, 0]), @"column `id` is in the order twice");
    insta::assert_snapshot!(error(&[0, 1]), @"column `tags` of type List(Int8) cannot be ordered");
    insta::assert_snapshot!(error(&[2]), @"column `wait` of type Time32(s) cannot be ordered");
    assert!(matches!(error(&[3]), SortError::NotOrderable { column, .. } if column == "kind"));
    assert_eq!(
        error(&[1]),
        SortError::NotOrderable {
            column: "tags".to_owned(),
            data_type: list
        }
    );
}

#[test]
#[should_panic(expected = "sort column 0 has 1 rows of Int32, not 1 of Int64")]
fn a_column_of_another_type_is_a_bug_of_the_caller() {
    let fields = [Arc::new(Field::new("c", DataType::Int64, true))];
    let columns: [ArrayRef; 1] = [Arc::new(Int32Array::from(vec![1]))];
    keys(
        &order(&fields, &[(ASC, FIRST)], FloatOrder::Total),
        &columns,
    );
}

#[test]
fn a_whole_batch_is_ordered_by_any_of_its_columns() {
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
        ("name", Arc::new(StringArray::from(vec!["b", "c", "a"]))),
    ])
    .expect("the columns are equally long");
    let by_name = SortColumn {
        column: 1,
        order: ASC,
        nulls: FIRST,
    };
    let order = SortOrder::new(batch.schema().fields(), &[by_name], FloatOrder::Total)
        .expect("text can be ordered");
    assert_eq!(winner(&order, batch.columns()), 2);
}
