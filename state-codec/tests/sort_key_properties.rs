//! Sort keys against a slow, obvious comparison of the values themselves, over random schemas, orders,
//! NULLs, NaNs, zeros, ties and slices; and the keys of stored rows against those of the columns.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowNativeTypeOp, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray,
    FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray, NullArray, PrimitiveArray,
    StringArray, StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, ArrowPrimitiveType, DataType, Date32Type,
    Decimal128Type, Field, FieldRef, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt16Type,
};
use proptest::prelude::*;
use state_codec::{
    FloatOrder, Nulls, Order, RowForm, RowLayout, Rows, Select, SortColumn, SortKeys, SortOrder,
};

#[derive(Clone, Debug, PartialEq)]
enum Scalar {
    Null,
    Int(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let dictionary = |key, value| Dictionary(Box::new(key), Box::new(value));
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        Float32,
        Float64,
        Date32,
        Time32(TimeUnit::Millisecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Nanosecond, Some("Asia/Tokyo".into())),
        Decimal128(5, 2),
        Decimal128(18, 0),
        Decimal128(38, 10),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(0),
        FixedSizeBinary(3),
        FixedSizeBinary(16),
        FixedSizeBinary(19),
        Null,
        dictionary(Int8, Utf8),
        dictionary(Int32, Float64),
        dictionary(UInt16, Decimal128(38, 10)),
        dictionary(Int16, FixedSizeBinary(3)),
        dictionary(Int64, Timestamp(TimeUnit::Microsecond, None)),
        dictionary(Int8, BinaryView),
        dictionary(Int8, Null),
    ]
}

const TEXTS: [&str; 12] = [
    "",
    "a",
    "a\0",
    "a\0\0",
    "a\0b",
    "a\u{1}",
    "ab",
    "\u{ffee}",
    "\u{1f600}",
    "a text of which the first sixteen bytes tie",
    "a text of which the first sixteen bytes tie\0",
    "a text of which all",
];
const BYTES: [&[u8]; 8] = [
    b"",
    b"\0",
    b"\0\0",
    b"\0\x01",
    b"\0\xff",
    b"\xff",
    b"\xff\xff\xff",
    b"more than 16 bytes\0!",
];

/// The value that `byte` stands for in a column of this type. Few values per type, so that ties abound.
fn scalar(data_type: &DataType, nullable: bool, byte: u8) -> Scalar {
    if *data_type == DataType::Null || nullable && byte < 50 {
        return Scalar::Null;
    }
    let pick = |low: i128, high: i128| {
        let values = [low, low + 1, -2, -1, 0, 1, 2, 127, high - 1, high, 0x1234];
        Scalar::Int(values[usize::from(byte) % values.len()].clamp(low, high))
    };
    let fixed = |width: usize| {
        let bytes = [0, 0, 1, 0x7f, 0x80, 0xff];
        let first = bytes[usize::from(byte) % bytes.len()];
        let mut value = vec![first; width];
        if let Some(last) = value.last_mut() {
            *last = bytes[usize::from(byte / 6) % bytes.len()];
        }
        Scalar::Bytes(value)
    };
    match data_type {
        DataType::Dictionary(_, values) => scalar(values, nullable, byte),
        DataType::Boolean => pick(0, 1),
        DataType::Int8 => pick(i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => pick(i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 | DataType::Date32 => pick(i32::MIN.into(), i32::MAX.into()),
        DataType::Time32(_) => pick(0, 86_399_999),
        DataType::Timestamp(TimeUnit::Second, _) => {
            pick((i64::MIN / 1_000).into(), (i64::MAX / 1_000).into())
        }
        DataType::Int64 | DataType::Timestamp(..) => pick(i64::MIN.into(), i64::MAX.into()),
        DataType::Decimal128(precision, _) => {
            let end = 10_i128.pow(u32::from(*precision)) - 1;
            pick(-end, end)
        }
        DataType::Float32 | DataType::Float64 => {
            let single = *data_type == DataType::Float32;
            let tiny = if single {
                f32::from_bits(1).into()
            } else {
                f64::from_bits(1)
            };
            let max = if single { f32::MAX.into() } else { f64::MAX };
            let values = [
                f64::NAN,
                -f64::NAN,
                f64::NEG_INFINITY,
                -max,
                -1.5,
                -tiny,
                -0.0,
                0.0,
                tiny,
                1.5,
                max,
                f64::INFINITY,
            ];
            Scalar::Float(values[usize::from(byte) % values.len()])
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Scalar::Bytes(TEXTS[usize::from(byte) % TEXTS.len()].into())
        }
        DataType::FixedSizeBinary(width) => fixed(*width as usize),
        _ => Scalar::Bytes(BYTES[usize::from(byte) % BYTES.len()].into()),
    }
}

fn int(value: &Scalar) -> Option<i128> {
    match value {
        Scalar::Int(value) => Some(*value),
        _ => None,
    }
}

fn bytes(value: &Scalar) -> Option<&[u8]> {
    match value {
        Scalar::Bytes(value) => Some(value),
        _ => None,
    }
}

fn text(value: &Scalar) -> Option<&str> {
    bytes(value).map(|bytes| std::str::from_utf8(bytes).expect("the texts are UTF-8"))
}

/// Below NULLs lies the greatest value of the type, which must not show.
fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: impl Iterator<Item = Option<T::Native>>,
) -> ArrayRef {
    let values: Vec<Option<T::Native>> = values.collect();
    let nulls: NullBuffer = values.iter().map(Option::is_some).collect();
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    let values: Vec<T::Native> = values
        .into_iter()
        .map(|value| value.unwrap_or(T::Native::MAX_TOTAL_ORDER))
        .collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
}

/// Each value once, in reverse, beside one that is not used and one that is NULL. A NULL is by turns
/// one of the keys and one of the values.
fn dictionary<K: ArrowDictionaryKeyType>(value_type: &DataType, values: &[Scalar]) -> ArrayRef {
    let mut distinct = vec![Scalar::Null, scalar(value_type, false, 77)];
    distinct.extend(values.iter().rev().cloned());
    let keys: PrimitiveArray<K> = values
        .iter()
        .enumerate()
        .map(|(i, value)| {
            // NaN equals nothing, itself included, so values are found by place.
            let at = match value {
                Scalar::Null if i % 2 == 0 => return None,
                Scalar::Null => 0,
                _ => distinct.len() - 1 - i,
            };
            Some(K::Native::from_usize(at).expect("there are few values"))
        })
        .collect();
    Arc::new(
        DictionaryArray::<K>::try_new(keys, array(value_type, &distinct)).expect("keys in range"),
    )
}

fn array(data_type: &DataType, values: &[Scalar]) -> ArrayRef {
    macro_rules! ints {
        ($type:ty) => {
            primitive::<$type>(
                data_type,
                values
                    .iter()
                    .map(|value| int(value).map(|value| value as _)),
            )
        };
    }
    macro_rules! floats {
        ($type:ty) => {
            primitive::<$type>(
                data_type,
                values.iter().map(|value| match value {
                    Scalar::Float(value) => Some(*value as _),
                    _ => None,
                }),
            )
        };
    }
    match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => Arc::new(
            values
                .iter()
                .map(|value| int(value).map(|value| value == 1))
                .collect::<BooleanArray>(),
        ),
        DataType::Int8 => ints!(Int8Type),
        DataType::Int16 => ints!(Int16Type),
        DataType::Int32 => ints!(Int32Type),
        DataType::Int64 => ints!(Int64Type),
        DataType::Date32 => ints!(Date32Type),
        DataType::Time32(_) => ints!(Time32MillisecondType),
        DataType::Timestamp(TimeUnit::Second, _) => ints!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => ints!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => ints!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => ints!(TimestampNanosecondType),
        DataType::Decimal128(..) => ints!(Decimal128Type),
        DataType::Float32 => floats!(Float32Type),
        DataType::Float64 => floats!(Float64Type),
        DataType::Utf8 => Arc::new(values.iter().map(text).collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(values.iter().map(text).collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(values.iter().map(text).collect::<StringViewArray>()),
        DataType::Binary => Arc::new(values.iter().map(bytes).collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(values.iter().map(bytes).collect::<LargeBinaryArray>()),
        DataType::BinaryView => Arc::new(values.iter().map(bytes).collect::<BinaryViewArray>()),
        DataType::FixedSizeBinary(width) => Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.iter().map(bytes), *width)
                .expect("the values are of that width"),
        ),
        DataType::Dictionary(key, value) => match **key {
            DataType::Int8 => dictionary::<Int8Type>(value, values),
            DataType::Int16 => dictionary::<Int16Type>(value, values),
            DataType::Int32 => dictionary::<Int32Type>(value, values),
            DataType::UInt16 => dictionary::<UInt16Type>(value, values),
            _ => dictionary::<Int64Type>(value, values),
        },
        _ => unreachable!("not among the types"),
    }
}

#[derive(Clone, Debug)]
struct Case {
    fields: Vec<FieldRef>,
    sort: Vec<SortColumn>,
    floats: FloatOrder,
    rows: Vec<Vec<Scalar>>,
    columns: Vec<ArrayRef>,
    form: RowForm,
}

fn cases() -> impl Strategy<Value = Case> {
    let column = (
        0..types().len(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let row = prop::collection::vec(any::<u8>(), 5);
    (
        prop::collection::vec(column, 1..=5),
        (any::<usize>(), any::<usize>()),
        (any::<bool>(), any::<bool>()),
        prop::collection::vec(row, 1..8),
        (0_usize..4, 0_usize..4),
    )
        .prop_map(
            |(columns, (rotation, terms), (flink, key), cells, (before, after))| {
                let types = types();
                let fields: Vec<FieldRef> = columns
                    .iter()
                    .enumerate()
                    .map(|(i, &(data_type, nullable, _, _))| {
                        let data_type = types[data_type].clone();
                        // A dictionary whose values are all NULL cannot be without.
                        let nulls_only = matches!(&data_type, DataType::Dictionary(_, value) if **value == DataType::Null);
                        Arc::new(Field::new(format!("c{i}"), data_type, nullable || nulls_only))
                    })
                    .collect();
                let mut sort: Vec<SortColumn> = columns
                    .iter()
                    .enumerate()
                    .map(|(column, &(_, _, ascending, first))| SortColumn {
                        column,
                        order: if ascending {
                            Order::Ascending
                        } else {
                            Order::Descending
                        },
                        nulls: if first { Nulls::First } else { Nulls::Last },
                    })
                    .collect();
                let width = sort.len();
                sort.rotate_left(rotation % width);
                sort.truncate(1 + terms % width);
                let value = |row: usize, i: usize| {
                    scalar(
                        fields[i].data_type(),
                        fields[i].is_nullable(),
                        cells[row][i],
                    )
                };
                let rows: Vec<Vec<Scalar>> = (0..cells.len())
                    .map(|row| (0..width).map(|i| value(row, i)).collect())
                    .collect();
                // The arrays are cut out of longer ones.
                let count = cells.len();
                let columns = (0..width)
                    .map(|i| {
                        let values: Vec<Scalar> = (0..before + count + after)
                            .map(|at| value((at + count * 4 - before) % count, i))
                            .collect();
                        array(fields[i].data_type(), &values).slice(before, count)
                    })
                    .collect();
                let floats = if flink {
                    FloatOrder::Flink
                } else {
                    FloatOrder::Total
                };
                let form = if key { RowForm::Key } else { RowForm::Payload };
                Case {
                    fields,
                    sort,
                    floats,
                    rows,
                    columns,
                    form,
                }
            },
        )
}

/// The comparison in the words of the documentation.
fn expected(case: &Case, a: &[Scalar], b: &[Scalar]) -> Ordering {
    for sort in &case.sort {
        let (a, b) = (&a[sort.column], &b[sort.column]);
        let null_before_value = match sort.nulls {
            Nulls::First => Ordering::Less,
            Nulls::Last => Ordering::Greater,
        };
        let ordering = match (a, b) {
            (Scalar::Null, Scalar::Null) => continue,
            (Scalar::Null, _) => return null_before_value,
            (_, Scalar::Null) => return null_before_value.reverse(),
            (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
            (Scalar::Bytes(a), Scalar::Bytes(b)) => a.cmp(b),
            (Scalar::Float(a), Scalar::Float(b)) => match (case.floats, a.is_nan(), b.is_nan()) {
                (FloatOrder::Total, a, b) if a || b => a.cmp(&b),
                _ if a < b => Ordering::Less,
                _ if a > b => Ordering::Greater,
                _ => Ordering::Equal,
            },
            _ => unreachable!("a column is of one type"),
        };
        let ordering = match sort.order {
            Order::Ascending => ordering,
            Order::Descending => ordering.reverse(),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn keys_compare_as_the_values_do(case in cases()) {
        let order = SortOrder::new(&case.fields, &case.sort, case.floats).expect("all types can be ordered");
        let mut keys = SortKeys::default();
        order.encode(&case.columns, &mut keys);
        prop_assert_eq!(keys.len(), case.rows.len());
        let mut visited = Vec::new();
        keys.for_each_prefix(|i, prefix| visited.push((i, prefix)));
        let expected_visits: Vec<_> = (0..keys.len()).map(|i| (i, keys.get(i).prefix)).collect();
        prop_assert_eq!(visited, expected_visits);
        for (i, a) in case.rows.iter().enumerate() {
            for (j, b) in case.rows.iter().enumerate() {
                let found = order.compare(keys.get(i), keys.get(j));
                prop_assert_eq!(found, expected(&case, a, b), "{:?} and {:?}", a, b);
                if order.prefix_decides() {
                    prop_assert_eq!(found, keys.get(i).prefix.cmp(&keys.get(j).prefix));
                    prop_assert!(keys.get(i).rest.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_key_of_its_columns(case in cases()) {
        let order = SortOrder::new(&case.fields, &case.sort, case.floats).expect("all types can be ordered");
        let layout = RowLayout::new(&case.fields, case.form).expect("all types have a layout");
        let mut rows = Rows::new();
        layout.encode_into(&case.columns, Select::All, &mut rows).expect("all values fit");
        let (mut keys, mut from_rows) = (SortKeys::default(), SortKeys::default());
        order.encode(&case.columns, &mut keys);
        for (i, row) in rows.iter().enumerate() {
            order.encode_row(&layout, row, &mut from_rows).expect("the row was just written");
            prop_assert_eq!(from_rows.get(i), keys.get(i), "row {}", i);
        }
    }

    #[test]
    fn the_order_is_transitive_unless_it_says_otherwise(case in cases()) {
        let order = SortOrder::new(&case.fields, &case.sort, case.floats).expect("all types can be ordered");
        if case.floats == FloatOrder::Total {
            prop_assert!(order.is_transitive());
        }
        let mut keys = SortKeys::default();
        order.encode(&case.columns, &mut keys);
        let compare = |i, j| order.compare(keys.get(i), keys.get(j));
        for i in 0..keys.len() {
            for j in 0..keys.len() {
                prop_assert_eq!(compare(i, j), compare(j, i).reverse());
                for k in 0..keys.len() {
                    if order.is_transitive() && compare(i, j) == compare(j, k) {
                        prop_assert_eq!(compare(i, k), compare(i, j));
                    }
                }
            }
        }
    }
}
