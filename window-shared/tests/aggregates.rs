//! What aggregates give for the types of SQL.

mod common;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    DictionaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    PrimitiveArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, TimeUnit};
use arrow::error::ArrowError;
use common::{audit, batch, cell, groups, open, schema, scratch, spec, text};
use state_codec::checkpoint::{CheckpointDir, CheckpointRef};
use state_codec::{DecodeError, MemoryPool};
use state_mem::MemBackend;
use state_rocks::RocksBackend;
use window_shared::{
    Accumulator, Age, Aggregate, EventTime, Function, LocalAggregate, Sharing, SpecError,
    WindowOperator, WindowSpec, Windows, take_bytes,
};

const V: usize = 0;
const FLAG: usize = 2;

/// Rows of one window without keys: `v`, `ts`, and `flag`, which is true for every other row.
fn rows(values: &ArrayRef) -> RecordBatch {
    let times =
        TimestampMillisecondArray::from_iter_values((0..values.len()).map(|row| row as i64));
    let flags = BooleanArray::from_iter((0..values.len()).map(|row| Some(row % 2 == 0)));
    let schema = Schema::new(vec![
        Field::new("v", values.data_type().clone(), true),
        Field::new("ts", times.data_type().clone(), true),
        Field::new("flag", DataType::Boolean, true),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::clone(values), Arc::new(times), Arc::new(flags)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn spec_of(rows: &RecordBatch, windows: Windows, aggregates: &[Aggregate]) -> WindowSpec {
    let time = EventTime::timestamp(1);
    WindowSpec::new(rows.schema(), &[], time, windows, aggregates).unwrap()
}

/// The columns of the results without the window, a line a row.
fn aggregates_of(results: &[RecordBatch]) -> String {
    let lines = results.iter().flat_map(|batch| {
        let first = batch.schema().index_of("window_time").unwrap() + 1;
        (0..batch.num_rows()).map(move |row| {
            let cells = batch.columns()[first..].iter();
            let cells: Vec<String> = cells.map(|column| cell(column, row)).collect();
            cells.join(" ")
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// In one window, in one batch.
fn of_values(values: impl Array + 'static, aggregates: &[Aggregate]) -> String {
    let rows = rows(&(Arc::new(values) as ArrayRef));
    let mut operator = open(spec_of(&rows, Windows::tumble(1_000).unwrap(), aggregates));
    operator.push(&rows).unwrap();
    let results = operator.finish().unwrap();
    audit(&operator);
    aggregates_of(&results)
}

/// The same row by row: at once, in two phases, over the slices of a hopping and of a cumulating window, over
/// RocksDB with every batch written, and with a checkpoint and a restore after each row. All must agree.
fn every_way(values: impl Array + 'static, aggregates: &[Aggregate]) -> String {
    let values: ArrayRef = Arc::new(values);
    let all = rows(&values);
    let each: Vec<RecordBatch> = (0..all.num_rows()).map(|row| all.slice(row, 1)).collect();
    let whole = spec_of(&all, Windows::tumble(1_000).unwrap(), aggregates);

    let mut operator = open(whole.clone());
    operator.push(&all).unwrap();
    let expected = aggregates_of(&operator.finish().unwrap());

    let mut operator = open(whole.clone());
    let mut local = LocalAggregate::new(whole.clone(), "local", &MemoryPool::unlimited());
    let local = local.as_mut().unwrap();
    for row in &each {
        local.push(row).unwrap();
        operator
            .push_partials(&local.flush().unwrap().unwrap())
            .unwrap();
    }
    assert_eq!(
        aggregates_of(&operator.finish().unwrap()),
        expected,
        "two phases"
    );

    // A row a millisecond, so each has a slice of its own.
    for windows in [
        Windows::hop(1, 1_000).unwrap(),
        Windows::cumulate(1, 1_000).unwrap(),
    ] {
        let mut operator = open(spec_of(&all, windows, aggregates));
        for row in &each {
            operator.push(row).unwrap();
        }
        let fired = operator.advance_watermark(999).unwrap();
        assert_eq!(
            aggregates_of(&fired[fired.len() - 1..]),
            expected,
            "{windows:?}"
        );
        audit(&operator);
    }

    let root = scratch();
    let stores = RocksBackend::new(root.path().join("stores"), groups());
    let mut operator = WindowOperator::open(whole.clone(), &stores, "through")
        .unwrap()
        .with_resident_bytes(0);
    for row in &each {
        operator.push(row).unwrap();
    }
    assert_eq!(
        aggregates_of(&operator.finish().unwrap()),
        expected,
        "RocksDB"
    );

    let dir = CheckpointDir::open(root.path().join("saved").as_path()).unwrap();
    let memory = MemBackend::new(groups());
    let mut operator = open(whole.clone());
    for (id, row) in (1..).zip(&each) {
        operator.push(row).unwrap();
        operator
            .freeze()
            .unwrap()
            .write(groups().all(), &dir, id)
            .unwrap();
        let parts = [CheckpointRef {
            dir: root.path().join("saved"),
            id,
        }];
        operator = WindowOperator::restore(whole.clone(), &memory, "again", &parts, groups().all())
            .unwrap();
    }
    assert_eq!(
        aggregates_of(&operator.finish().unwrap()),
        expected,
        "restored"
    );
    expected
}

fn aggregate(function: Function) -> Aggregate {
    Aggregate::new(function.to_string(), function, V)
}

const ALL: [Function; 6] = [
    Function::Count,
    Function::Sum,
    Function::Sum0,
    Function::Min,
    Function::Max,
    Function::Avg,
];

/// COUNT of a timestamp with a zone was wrong: it depends on NULLs alone, whatever the type.
#[test]
fn counts_do_not_depend_on_types() {
    let instants = TimestampMillisecondArray::from(vec![Some(1), None, Some(3)]);
    let text = StringArray::from(vec![Some("a"), None, Some("c")]);
    let keys = Int32Array::from(vec![Some(0), None, Some(0)]);
    let dictionary =
        DictionaryArray::<Int32Type>::new(keys, Arc::new(StringArray::from(vec!["a"])));
    let structs = arrow::array::StructArray::new(
        vec![Field::new("n", DataType::Int32, true)].into(),
        vec![Arc::new(Int32Array::from(vec![None, Some(2), Some(3)]))],
        Some(NullBuffer::from(vec![true, false, true])),
    );
    let lists = arrow::array::ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![None]),
        None,
        Some(vec![]),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int8Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(Int16Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(Float32Array::from(vec![Some(1.0), None, Some(f32::NAN)])),
        Arc::new(Float64Array::from(vec![Some(1.0), None, Some(f64::NAN)])),
        Arc::new(Decimal128Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(text),
        Arc::new(StringViewArray::from(vec![Some("a"), None, Some("c")])),
        Arc::new(BinaryArray::from(vec![Some(&b"a"[..]), None, Some(b"c")])),
        Arc::new(Date32Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(instants.clone()),
        Arc::new(instants.with_timezone("America/New_York")),
        Arc::new(TimestampMicrosecondArray::from(vec![
            Some(1),
            None,
            Some(3),
        ])),
        Arc::new(dictionary),
        Arc::new(structs),
        Arc::new(lists),
    ];
    for column in columns {
        let rows = rows(&column);
        let aggregates = [Aggregate::count_rows("rows"), aggregate(Function::Count)];
        let mut operator = open(spec_of(&rows, Windows::tumble(1_000).unwrap(), &aggregates));
        operator.push(&rows).unwrap();
        let found = aggregates_of(&operator.finish().unwrap());
        assert_eq!(found, "3 2", "{}", column.data_type());
    }
}

/// NULL is what functions give of no values, but for counts and `$SUM0`.
#[test]
fn windows_of_nulls_alone_have_nulls() {
    let nulls = Int32Array::from(vec![None, None]);
    assert_eq!(
        every_way(nulls, &ALL.map(aggregate)),
        "0 null 0 null null null"
    );
}

/// Results are of the types that Flink gives them.
#[test]
fn results_have_the_types_of_flink() {
    let types_of = |data_type: DataType| {
        let values = arrow::array::new_null_array(&data_type, 1);
        let rows = rows(&values);
        let spec = spec_of(&rows, Windows::tumble(1_000).unwrap(), &ALL.map(aggregate));
        let output = spec.output_schema();
        let first = output.index_of("window_time").unwrap() + 1;
        let fields = output.fields()[first..].iter();
        let fields = fields.map(|field| {
            let null = if field.is_nullable() { "" } else { " not null" };
            format!("{}{null}", field.data_type())
        });
        fields.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        types_of(DataType::Int8),
        "Int64 not null, Int8, Int8, Int8, Int8, Int8"
    );
    assert_eq!(
        types_of(DataType::Int64),
        "Int64 not null, Int64, Int64, Int64, Int64, Int64"
    );
    assert_eq!(
        types_of(DataType::Float32),
        "Int64 not null, Float32, Float32, Float32, Float32, Float32"
    );
    let decimals = types_of(DataType::Decimal128(10, 2));
    assert_eq!(
        decimals,
        "Int64 not null, Decimal128(38, 2), Decimal128(38, 2), Decimal128(10, 2), \
         Decimal128(10, 2), Decimal128(38, 6)"
    );
    for (data_type, function) in [
        (DataType::Utf8, Function::Sum),
        (DataType::Boolean, Function::Avg),
        (DataType::Date32, Function::Sum),
        (
            DataType::Timestamp(TimeUnit::Millisecond, None),
            Function::Avg,
        ),
    ] {
        let rows = rows(&arrow::array::new_null_array(&data_type, 1));
        let refused = WindowSpec::new(
            rows.schema(),
            &[],
            EventTime::timestamp(1),
            Windows::tumble(1).unwrap(),
            &[aggregate(function)],
        );
        let is_refused =
            matches!(&refused, Err(SpecError::Argument { found, .. }) if **found == data_type);
        assert!(is_refused, "{function} of {data_type}: {refused:?}");
    }
}

/// Two NaNs with other payloads were two values.
#[test]
fn nans_are_one_distinct_value() {
    let distinct = [Aggregate::new("n", Function::Count, V).distinct()];
    let doubles = [
        0x7ff8_0000_0000_0001,
        0x7ff8_0000_0000_0002,
        0xfff8_0000_0000_0003,
    ];
    let doubles = Float64Array::from_iter_values(doubles.map(f64::from_bits));
    assert_eq!(every_way(doubles, &distinct), "1");
    let floats = [0x7fc0_0001, 0x7fc0_0002, 0xffc0_0003].map(f32::from_bits);
    assert_eq!(
        every_way(Float32Array::from_iter_values(floats), &distinct),
        "1"
    );
}

/// The distinct values of slices were added up.
#[test]
fn a_value_in_two_slices_is_one_distinct_value() {
    let spec = WindowSpec::new(
        schema(),
        &[0],
        EventTime::timestamp(2),
        Windows::hop(5_000, 10_000).unwrap(),
        &[
            Aggregate::new("n", Function::Count, 1).distinct(),
            Aggregate::new("sum", Function::Sum, 1).distinct(),
        ],
    );
    let mut operator = open(spec.unwrap());
    operator
        .push(&batch("a 7 1000; a 7 6000; a 7 6001; a 8 6002"))
        .unwrap();
    assert_eq!(
        text(&operator.finish().unwrap()),
        "a -5000 5000 1 7\na 0 10000 2 15\na 5000 15000 2 15"
    );
}

/// Rows of distinct values stayed when no window was left that counted them.
#[test]
fn distinct_values_go_with_their_windows() {
    let spec = WindowSpec::new(
        schema(),
        &[0],
        EventTime::timestamp(2),
        Windows::hop(5_000, 10_000).unwrap(),
        &[Aggregate::new("n", Function::Count, 1).distinct()],
    )
    .unwrap();
    let root = scratch();
    let stores = RocksBackend::new(root.path(), groups());
    let mut stored = WindowOperator::open(spec.clone(), &stores, "stored")
        .unwrap()
        .with_resident_bytes(0);
    let mut operator = open(spec.clone());
    let mut most = 0;
    for window in 0..1_000_i64 {
        let at = window * 5_000;
        let rows: Vec<String> = (0..20)
            .map(|row| format!("k{} {} {}", row % 3, window * 20 + row, at + row))
            .collect();
        let rows = batch(&rows.join(";"));
        operator.push(&rows).unwrap();
        let fired = text(&operator.advance_watermark(at + 4_999).unwrap());
        let counts: Vec<&str> = fired.lines().map(|line| &line[line.len() - 2..]).collect();
        let expected = if window == 0 {
            [" 7", " 7", " 6"]
        } else {
            ["14", "14", "12"]
        };
        assert_eq!(counts, expected);
        stored.push(&rows).unwrap();
        assert_eq!(text(&stored.advance_watermark(at + 4_999).unwrap()), fired);
        if window == 100 {
            most = operator.charged_bytes();
        }
        assert!(
            window <= 100 || operator.charged_bytes() <= most,
            "window {window}"
        );
    }
    operator.finish().unwrap();
    stored.finish().unwrap();
    audit(&operator);
    // What is left are buffers for the next batch, which an operator without distinct values has as well.
    let left = operator.charged_bytes();
    assert!(left < most && left < 16 << 10, "{left} of {most}");
    let reopened = drop_and_reopen(stored, spec, &stores);
    assert_eq!(reopened, "");
}

/// What an operator over RocksDB fires that is opened over the state of another.
fn drop_and_reopen<S: state_codec::SlicedState>(
    operator: WindowOperator<S>,
    spec: WindowSpec,
    stores: &RocksBackend,
) -> String {
    drop(operator);
    let mut operator = WindowOperator::open(spec, stores, "stored").unwrap();
    text(&operator.finish().unwrap())
}

/// Beyond their limits integers did one thing in one place and another elsewhere.
#[test]
fn integers_wrap_around_everywhere() {
    let max = i64::MAX;
    let sums = [aggregate(Function::Sum), aggregate(Function::Avg)];
    assert_eq!(
        every_way(Int64Array::from(vec![max, 1]), &sums),
        format!("{} {}", i64::MIN, i64::MIN / 2)
    );
    assert_eq!(every_way(Int64Array::from(vec![max, max]), &sums), "-2 -1");
    assert_eq!(every_way(Int8Array::from(vec![127, 1]), &sums), "-128 64");
    assert_eq!(
        every_way(Int16Array::from(vec![i16::MIN, -1]), &sums),
        "32767 -16384"
    );
    assert_eq!(
        every_way(Int32Array::from(vec![i32::MAX, 1, 1]), &sums),
        "-2147483647 715827883"
    );
}

/// The mean of integers was rounded down.
#[test]
fn means_of_integers_are_cut_off_towards_zero() {
    let mean = [aggregate(Function::Avg)];
    assert_eq!(every_way(Int32Array::from(vec![1, 2]), &mean), "1");
    assert_eq!(every_way(Int32Array::from(vec![-1, -2]), &mean), "-1");
    assert_eq!(
        every_way(Int64Array::from(vec![Some(-5), None, Some(2)]), &mean),
        "-1"
    );
}

/// A comparison that looked at values under NULLs took one for the least.
#[test]
fn least_and_greatest_pass_over_nulls() {
    let extremes = [aggregate(Function::Min), aggregate(Function::Max)];
    for (values, expected) in [
        (vec![None, Some(3), Some(-4)], "-4 3"),
        (vec![Some(3), Some(-4), None], "-4 3"),
        (vec![None, Some(9), None], "9 9"),
        (vec![None, None], "null null"),
    ] {
        assert_eq!(every_way(Int64Array::from(values), &extremes), expected);
    }
    let garbage = ScalarBuffer::from(vec![i64::MIN, 5, i64::MAX, 7]);
    let nulls = NullBuffer::from(vec![false, true, false, true]);
    let values = PrimitiveArray::<Int64Type>::new(garbage, Some(nulls));
    let both = [
        aggregate(Function::Min),
        aggregate(Function::Max),
        aggregate(Function::Sum),
        aggregate(Function::Count),
    ];
    assert_eq!(every_way(values, &both), "5 7 12 2");
    let texts = StringArray::from(vec![None, Some("b"), Some(""), Some("ab")]);
    assert_eq!(every_way(texts, &extremes), " b");
    let flags = BooleanArray::from(vec![None, Some(true), Some(true)]);
    assert_eq!(every_way(flags, &extremes), "true true");
}

/// Sums of decimals have all digits that fit; more is NULL. Means are rounded half up.
#[test]
fn decimals_keep_their_digits() {
    let decimals = |values: Vec<Option<i128>>, precision, scale| {
        let values = Decimal128Array::from(values);
        values.with_precision_and_scale(precision, scale).unwrap()
    };
    let both = [aggregate(Function::Sum), aggregate(Function::Avg)];
    // 0.01 + 0.01 + 0.03, whose mean is 0.016666…
    let found = every_way(decimals(vec![Some(1), Some(1), Some(3)], 10, 2), &both);
    assert_eq!(found, "5 16667");
    let found = every_way(decimals(vec![Some(-1), Some(-1), Some(-3)], 10, 2), &both);
    assert_eq!(found, "-5 -16667");
    let most = 10_i128.pow(38) - 1;
    let sums = [aggregate(Function::Sum), aggregate(Function::Sum0)];
    let found = of_values(decimals(vec![Some(most), Some(1)], 38, 0), &sums);
    assert_eq!(found, "null null");
    let found = of_values(decimals(vec![Some(most), Some(1), Some(5)], 38, 0), &sums);
    assert_eq!(
        found, "5 null",
        "a value after the overflow starts the sum over"
    );
}

/// Each aggregate has the rows of its own filter, and distinct values among those.
#[test]
fn filters_are_of_one_aggregate() {
    let values = Int64Array::from(vec![5, 6, 5, 7, 9, 7]);
    let aggregates = [
        Aggregate::count_rows("all"),
        Aggregate::count_rows("some").filtered_by(FLAG),
        aggregate(Function::Sum).filtered_by(FLAG),
        aggregate(Function::Max),
        Aggregate::new("distinct", Function::Count, V)
            .distinct()
            .filtered_by(FLAG),
        Aggregate::new("all distinct", Function::Count, V).distinct(),
    ];
    assert_eq!(every_way(values, &aggregates), "6 3 19 9 2 4");
}

/// The texts, one after the other: order matters, and it cannot be undone.
#[derive(Clone, Debug, Default)]
struct Joined(String);

impl Accumulator for Joined {
    type Column<'a> = &'a StringArray;
    const SHARING: Sharing = Sharing::Associative;

    fn column(input: &dyn Array) -> &StringArray {
        input.as_string::<i32>()
    }

    fn add(&mut self, column: &&StringArray, row: usize) {
        self.0 += column.value(row);
    }

    fn merge(&mut self, other: &Self, age: Age) {
        match age {
            Age::Older => self.0.insert_str(0, &other.0),
            Age::Newer | Age::Later => self.0 += &other.0,
        }
    }

    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.0.len() as u32).to_le_bytes());
        out.extend_from_slice(self.0.as_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let len = u32::from_le_bytes(take_bytes(bytes, "length")?) as usize;
        let text = bytes.split_off(..len).unwrap_or_default();
        Ok(Self(String::from_utf8_lossy(text).into_owned()))
    }

    fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }

    fn heap_growth(input: &dyn Array) -> Option<usize> {
        Some(2 * input.as_string::<i32>().value_data().len())
    }

    fn finish<'a>(
        all: impl ExactSizeIterator<Item = &'a Self>,
        _: &DataType,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(StringArray::from_iter_values(
            all.map(|joined| &joined.0),
        )))
    }
}

/// An aggregate of a user's own is shared, written, saved and restored as those that are built in.
#[test]
fn an_aggregate_of_ones_own_goes_every_way() {
    let joined = [
        Aggregate::custom::<Joined>("joined", "joined 1", V, DataType::Utf8),
        Aggregate::custom::<Joined>("some", "joined 1", V, DataType::Utf8).filtered_by(FLAG),
    ];
    let values = StringArray::from(vec![Some("a"), Some("b"), None, Some("cd"), Some("e")]);
    assert_eq!(every_way(values, &joined), "abcde ae");
}

/// The most rows that a key has in a window, of all keys: windows over the results of windows.
#[test]
fn windows_over_the_results_of_windows() {
    let tumble: &[&str] = &["0 10000 3 3", "10000 20000 1 1"];
    let hop: &[&str] = &[
        "-5000 5000 2 2",
        "0 10000 3 3",
        "5000 15000 2 2",
        "10000 20000 1 1",
    ];
    let cumulate: &[&str] = &[
        "0 5000 2 2",
        "0 10000 3 3",
        "10000 15000 1 1",
        "10000 20000 1 1",
    ];
    for (windows, expected) in [
        (Windows::tumble(10_000), tumble),
        (Windows::hop(5_000, 10_000), hop),
        (Windows::cumulate(5_000, 10_000), cumulate),
    ] {
        let windows = windows.unwrap();
        let inner = spec(windows);
        let output = inner.output_schema().clone();
        let column = |name: &str| output.index_of(name).unwrap();
        let time = EventTime::attached(column("window_start"), column("window_end"));
        let most = [
            Aggregate::new("most", Function::Max, column("rows")),
            Aggregate::count_rows("keys"),
        ];
        let outer = WindowSpec::new(output.clone(), &[], time, windows, &most).unwrap();
        let (mut inner, mut outer) = (open(inner), open(outer));
        let mut lines = Vec::new();
        for (rows, watermark_ms) in [
            ("a 1 1000; a 1 2000; b 1 3000", 4_999),
            ("b 1 6000; b 1 7000; c 1 8000", 9_999),
            ("c 1 12000", i64::MAX),
        ] {
            inner.push(&batch(rows)).unwrap();
            for window in inner.advance_watermark(watermark_ms).unwrap() {
                outer.push(&window).unwrap();
            }
            lines.extend(
                text(&outer.advance_watermark(watermark_ms).unwrap())
                    .lines()
                    .map(str::to_owned),
            );
        }
        assert_eq!(outer.metrics().late, 0);
        assert_eq!(lines, expected);
    }
}
