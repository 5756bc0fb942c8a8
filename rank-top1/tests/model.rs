//! Both rankers over both stores against a slow obvious model: random schemas, orders, NULLs, NaN,
//! zeros of both signs, ties, repeated keys, sliced batches, cuts and flushes.

mod common;

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, Int8Type, Schema, SchemaRef, TimeUnit};
use common::Draw;
use keygroup::GroupCount;
use proptest::prelude::*;
use rank_top1::{Changelog, Emit, FloatOrder, OrderBy, RankRange, RankSpec, Ranker, RowKind, Ties};
use state_codec::StateBackend;
use state_mem::MemBackend;
use state_rocks::RocksBackend;

/// A value of any column, `None` for NULL. Integers of all kinds are `Int`.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Int(i64),
    Float(f64),
    Bytes(Vec<u8>),
}

type Row = Vec<Option<Value>>;

fn types() -> Vec<DataType> {
    let dictionary = |value| DataType::Dictionary(Box::new(DataType::Int8), Box::new(value));
    vec![
        DataType::Int64,
        DataType::Int64,
        DataType::Int32,
        DataType::Int16,
        DataType::Int8,
        DataType::Boolean,
        DataType::Date32,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("+01:00".into())),
        DataType::Float32,
        DataType::Float64,
        DataType::Float64,
        DataType::Decimal128(10, 2),
        DataType::Decimal128(38, 10),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(3),
        dictionary(DataType::Utf8),
        dictionary(DataType::Int64),
    ]
}

/// A value out of few, so that ties and repeated keys are common.
fn draw_value(data_type: &DataType, draw: &mut Draw) -> Value {
    match data_type {
        DataType::Dictionary(_, value) => draw_value(value, draw),
        DataType::Float32 | DataType::Float64 => {
            let few = [
                -0.0,
                0.0,
                f64::NAN,
                1.5,
                -1.5,
                f64::INFINITY,
                f64::NEG_INFINITY,
            ];
            Value::Float(*draw.pick(&few))
        }
        DataType::Boolean => Value::Int(draw.below(2) as i64),
        DataType::Time32(_) => Value::Int(draw.below(4) as i64),
        DataType::FixedSizeBinary(_) => Value::Bytes(vec![draw.below(3) as u8, 0, 255]),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let few = [
                "",
                "a",
                "a\0",
                "ab",
                "abcdefg",
                "abcdefgh",
                "abcdefghijklm",
                "\u{10000}",
            ];
            Value::Bytes(draw.pick(&few).as_bytes().to_vec())
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let few: [&[u8]; 6] = [
                b"",
                b"\0",
                b"\0\0",
                b"\xff",
                b"\xff\0",
                b"longer than twelve bytes",
            ];
            Value::Bytes(draw.pick(&few).to_vec())
        }
        DataType::Int8 => Value::Int(*draw.pick(&[-128, -1, 0, 1, 127])),
        DataType::Int64 => Value::Int(*draw.pick(&[i64::MIN, -1, 0, 1, 2, i64::MAX])),
        _ => Value::Int(draw.below(5) as i64 - 2),
    }
}

/// The rows' column `c` as an array of its type. What stands under a NULL is left to Arrow.
fn array(data_type: &DataType, rows: &[Row], c: usize) -> ArrayRef {
    let ints = || {
        rows.iter().map(move |row| {
            row[c].as_ref().map(|value| match value {
                Value::Int(value) => *value,
                other => panic!("{other:?} is not an integer"),
            })
        })
    };
    let floats = || {
        rows.iter().map(move |row| {
            row[c].as_ref().map(|value| match value {
                Value::Float(value) => *value,
                other => panic!("{other:?} is not a float"),
            })
        })
    };
    let bytes = || {
        rows.iter().map(move |row| {
            row[c].as_ref().map(|value| match value {
                Value::Bytes(value) => value.as_slice(),
                other => panic!("{other:?} is not bytes"),
            })
        })
    };
    let strings =
        || bytes().map(|value| value.map(|value| std::str::from_utf8(value).expect("UTF-8")));
    match data_type {
        DataType::Int64 => Arc::new(Int64Array::from_iter(ints())),
        DataType::Int32 => Arc::new(Int32Array::from_iter(ints().map(|v| v.map(|v| v as i32)))),
        DataType::Int16 => Arc::new(Int16Array::from_iter(ints().map(|v| v.map(|v| v as i16)))),
        DataType::Int8 => Arc::new(Int8Array::from_iter(ints().map(|v| v.map(|v| v as i8)))),
        DataType::Boolean => Arc::new(BooleanArray::from_iter(ints().map(|v| v.map(|v| v == 1)))),
        DataType::Date32 => Arc::new(Date32Array::from_iter(ints().map(|v| v.map(|v| v as i32)))),
        DataType::Time32(_) => Arc::new(Time32MillisecondArray::from_iter(
            ints().map(|v| v.map(|v| v as i32)),
        )),
        DataType::Timestamp(unit, zone) => {
            let zone = zone.clone();
            match unit {
                TimeUnit::Second => {
                    Arc::new(TimestampSecondArray::from_iter(ints()).with_timezone_opt(zone))
                }
                TimeUnit::Millisecond => {
                    Arc::new(TimestampMillisecondArray::from_iter(ints()).with_timezone_opt(zone))
                }
                TimeUnit::Microsecond => {
                    Arc::new(TimestampMicrosecondArray::from_iter(ints()).with_timezone_opt(zone))
                }
                TimeUnit::Nanosecond => {
                    Arc::new(TimestampNanosecondArray::from_iter(ints()).with_timezone_opt(zone))
                }
            }
        }
        DataType::Float32 => Arc::new(Float32Array::from_iter(
            floats().map(|v| v.map(|v| v as f32)),
        )),
        DataType::Float64 => Arc::new(Float64Array::from_iter(floats())),
        DataType::Decimal128(precision, scale) => Arc::new(
            Decimal128Array::from_iter(ints().map(|v| v.map(i128::from)))
                .with_precision_and_scale(*precision, *scale)
                .unwrap(),
        ),
        DataType::Utf8 => Arc::new(StringArray::from_iter(strings())),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter(strings())),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter(strings())),
        DataType::Binary => Arc::new(BinaryArray::from_iter(bytes())),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter(bytes())),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(bytes())),
        DataType::FixedSizeBinary(size) => {
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes(), *size).unwrap())
        }
        DataType::Dictionary(_, value) => {
            // The keys point at the rows' own values, NULLs among them.
            let values = array(value, rows, c);
            let keys = Int8Array::from_iter_values((0..rows.len()).map(|row| row as i8));
            Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).unwrap())
        }
        other => panic!("no generator for {other}"),
    }
}

fn record_batch(schema: &SchemaRef, rows: &[Row]) -> RecordBatch {
    let columns = schema.fields().iter().enumerate();
    let columns = columns
        .map(|(c, field)| array(field.data_type(), rows, c))
        .collect();
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

#[derive(Clone, Debug)]
struct Term {
    column: usize,
    descending: bool,
    nulls_first: bool,
}

/// A query, a stream and its cuts.
#[derive(Clone, Debug)]
struct Case {
    schema: SchemaRef,
    partition_by: Vec<usize>,
    order_by: Vec<Term>,
    range: (u64, u64),
    output_rank: bool,
    update_before: bool,
    mini_batch: bool,
    keep_last: bool,
    floats: FloatOrder,
    rows: Vec<Row>,
    /// Batches as row ranges; `true` where a flush follows.
    batches: Vec<(usize, usize, bool)>,
    /// Rows by which each batch is sliced out of a longer one.
    padding: usize,
}

fn case(seed: u64, row_count: usize) -> Case {
    let mut draw = Draw(seed);
    let (keys, terms, others) = (draw.below(3), 1 + draw.below(3), draw.below(3));
    let types = types();
    let fields: Vec<Field> = (0..keys + terms + others)
        .map(|c| Field::new(format!("c{c}"), draw.pick(&types).clone(), !draw.one_in(3)))
        .collect();
    let order_by = (keys..keys + terms)
        .map(|column| Term {
            column,
            descending: draw.one_in(2),
            nulls_first: draw.one_in(2),
        })
        .collect();
    let start = 1 + draw.below(3) as u64;
    let range = if draw.one_in(2) {
        (1, 1)
    } else {
        (start, start + draw.below(3) as u64)
    };
    let is_top_1 = range == (1, 1);
    let rows = (0..row_count)
        .map(|_| {
            let value = |field: &Field, draw: &mut Draw| {
                let null = field.is_nullable() && draw.one_in(4);
                (!null).then(|| draw_value(field.data_type(), draw))
            };
            fields.iter().map(|field| value(field, &mut draw)).collect()
        })
        .collect();
    let mut batches = Vec::new();
    let mut at = 0;
    while at < row_count {
        let length = (1 + draw.below(12)).min(row_count - at);
        let length = if draw.one_in(10) { 0 } else { length };
        batches.push((at, at + length, draw.one_in(3)));
        at += length;
    }
    Case {
        schema: Arc::new(Schema::new(fields)),
        partition_by: (0..keys).collect(),
        order_by,
        range,
        output_rank: draw.one_in(2),
        update_before: !draw.one_in(3),
        mini_batch: draw.one_in(2),
        keep_last: is_top_1 && draw.one_in(4),
        floats: if is_top_1 && draw.one_in(2) {
            FloatOrder::Flink
        } else {
            FloatOrder::Total
        },
        rows,
        batches,
        padding: draw.below(3),
    }
}

impl Case {
    fn spec(&self) -> RankSpec {
        let name = |column: usize| self.schema.field(column).name().clone();
        let order_by = self.order_by.iter().map(|term| {
            let by = if term.descending {
                OrderBy::desc(name(term.column))
            } else {
                OrderBy::asc(name(term.column))
            };
            if term.nulls_first {
                by.nulls_first()
            } else {
                by.nulls_last()
            }
        });
        let spec = RankSpec::builder(self.schema.clone())
            .partition_by(self.partition_by.iter().map(|&column| name(column)))
            .order_by(order_by)
            .range(RankRange::new(self.range.0, self.range.1).unwrap())
            .update_before(self.update_before)
            .emit(if self.mini_batch {
                Emit::MiniBatch
            } else {
                Emit::Immediate
            })
            .ties(if self.keep_last {
                Ties::KeepLast
            } else {
                Ties::KeepFirst
            })
            .floats(self.floats);
        let spec = if self.output_rank {
            spec.output_rank("rn")
        } else {
            spec
        };
        spec.build().unwrap()
    }

    /// Whether row `a` comes strictly before row `b`, term by term.
    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        for term in &self.order_by {
            let nulls = if term.nulls_first {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            let ordering = match (&a[term.column], &b[term.column]) {
                (None, None) => Ordering::Equal,
                (None, Some(_)) => nulls,
                (Some(_), None) => nulls.reverse(),
                (Some(a), Some(b)) => {
                    let ordering = match (a, b) {
                        (Value::Int(a), Value::Int(b)) => a.cmp(b),
                        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
                        (Value::Float(a), Value::Float(b)) => match self.floats {
                            FloatOrder::Flink => a.partial_cmp(b).unwrap_or(Ordering::Equal),
                            FloatOrder::Total => a
                                .partial_cmp(b)
                                .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
                        },
                        _ => unreachable!("a column has one type"),
                    };
                    if term.descending {
                        ordering.reverse()
                    } else {
                        ordering
                    }
                }
            };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        Ordering::Equal
    }

    fn precedes(&self, a: usize, b: usize) -> bool {
        match self.compare(&self.rows[a], &self.rows[b]) {
            Ordering::Less => true,
            Ordering::Equal => self.keep_last,
            Ordering::Greater => false,
        }
    }

    /// Keys are equal when their bits are.
    fn key(&self, row: usize) -> String {
        let bits = |&c: &usize| match &self.rows[row][c] {
            Some(Value::Float(v)) if *self.schema.field(c).data_type() == DataType::Float32 => {
                format!("f{:x}", (*v as f32).to_bits())
            }
            Some(Value::Float(v)) => format!("d{:x}", v.to_bits()),
            other => format!("{other:?}"),
        };
        self.partition_by
            .iter()
            .map(bits)
            .collect::<Vec<_>>()
            .join("|")
    }

    fn changes(&self, before: &[usize], after: &[usize], out: &mut Vec<(RowKind, usize, usize)>) {
        let (start, end) = (self.range.0 as usize, self.range.1 as usize);
        if self.output_rank || start > 1 || end == 1 {
            for rank in start..=end {
                match (before.get(rank - 1), after.get(rank - 1)) {
                    (Some(b), Some(a)) if a != b => {
                        if self.update_before {
                            out.push((RowKind::UpdateBefore, *b, rank));
                        }
                        out.push((RowKind::UpdateAfter, *a, rank));
                    }
                    (None, Some(a)) => out.push((RowKind::Insert, *a, rank)),
                    _ => {}
                }
            }
        } else {
            let gone = before.iter().filter(|row| !after.contains(row));
            out.extend(gone.map(|&row| (RowKind::Delete, row, 0)));
            let come = after.iter().filter(|row| !before.contains(row));
            out.extend(come.map(|&row| (RowKind::Insert, row, 0)));
        }
    }

    /// What the query emits: kinds, rows by number, ranks.
    fn expected(&self) -> Vec<(RowKind, usize, usize)> {
        let mut out = Vec::new();
        let mut partitions: Vec<(String, Vec<usize>)> = Vec::new();
        // Partitions touched since the last flush, with their rows as they were then.
        let mut touched: Vec<(String, Vec<usize>)> = Vec::new();
        let whole = [(0, self.rows.len(), true)];
        let batches = if self.mini_batch {
            &self.batches[..]
        } else {
            &whole
        };
        let flush = |partitions: &[(String, Vec<usize>)],
                     touched: &mut Vec<(String, Vec<usize>)>,
                     out: &mut Vec<_>| {
            for (key, before) in touched.drain(..) {
                let (_, after) = partitions.iter().find(|(k, _)| *k == key).unwrap();
                self.changes(&before, after, out);
            }
        };
        for &(from, to, flushes) in batches {
            for row in from..to {
                let key = self.key(row);
                if !partitions.iter().any(|(k, _)| *k == key) {
                    partitions.push((key.clone(), Vec::new()));
                }
                let (_, kept) = partitions.iter_mut().find(|(k, _)| *k == key).unwrap();
                if self.mini_batch && !touched.iter().any(|(k, _)| *k == key) {
                    touched.push((key, kept.clone()));
                }
                let before = kept.clone();
                let place = kept.iter().position(|&kept| self.precedes(row, kept));
                kept.insert(place.unwrap_or(kept.len()), row);
                kept.truncate(self.range.1 as usize);
                if !self.mini_batch {
                    self.changes(&before, kept, &mut out);
                }
            }
            if flushes {
                flush(&partitions, &mut touched, &mut out);
            }
        }
        flush(&partitions, &mut touched, &mut out);
        out
    }

    fn run<B: StateBackend>(
        &self,
        ranker: Result<Ranker<B>, rank_top1::RankError<B::Error>>,
    ) -> Vec<Changelog> {
        let mut ranker = ranker.unwrap();
        let mut changes = Vec::new();
        for &(from, to, flushes) in &self.batches {
            let start = from.saturating_sub(self.padding);
            let end = (to + self.padding).min(self.rows.len());
            let batch = record_batch(&self.schema, &self.rows[start..end]);
            let batch = batch.slice(from - start, to - from);
            changes.extend(ranker.push(&batch).unwrap());
            if flushes {
                changes.extend(ranker.flush().unwrap());
            }
        }
        changes.extend(ranker.flush().unwrap());
        changes
    }

    fn check(&self, implementation: &str, changes: &[Changelog]) {
        let spec = self.spec();
        let expected = self.expected();
        let kinds: Vec<RowKind> = changes.iter().flat_map(|c| c.kinds().to_vec()).collect();
        let expected_kinds: Vec<RowKind> = expected.iter().map(|&(kind, ..)| kind).collect();
        assert_eq!(kinds, expected_kinds, "{implementation}");
        let batches: Vec<&RecordBatch> = changes.iter().map(Changelog::batch).collect();
        let got = concat_batches(spec.output_schema(), batches).unwrap();
        for (row, &(_, source, rank)) in expected.iter().enumerate() {
            let one = record_batch(&self.schema, &self.rows[source..=source]);
            for (c, column) in one.columns().iter().enumerate() {
                let found = got.column(c).slice(row, 1);
                assert_eq!(found.data_type(), column.data_type());
                assert_eq!(
                    &plain(&found),
                    &plain(column),
                    "{implementation}: change {row}, column {c}"
                );
            }
            if self.output_rank {
                let ranks: ArrayRef = Arc::new(Int64Array::from(vec![rank as i64]));
                let found = got.column(got.num_columns() - 1).slice(row, 1);
                assert_eq!(&found, &ranks, "{implementation}: rank of change {row}");
            }
        }
    }
}

/// A dictionary's values in the place of its keys, so that a NULL is one, wherever it was written.
fn plain(column: &ArrayRef) -> ArrayRef {
    match column.as_any_dictionary_opt() {
        Some(dictionary) => take(dictionary.values(), dictionary.keys(), None).unwrap(),
        None => column.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_rankers_over_both_stores_are_the_model(seed: u64, row_count in 0usize..60) {
        let case = case(seed, row_count);
        let groups = GroupCount::new(128).unwrap();
        let memory = MemBackend::new(groups);
        let directory = tempfile::tempdir().unwrap();
        let rocks = RocksBackend::new(directory.path(), groups);
        case.check("memory", &case.run(Ranker::open(case.spec(), &memory, "special")));
        case.check("memory, general", &case.run(Ranker::open_general(case.spec(), &memory, "general")));
        case.check("rocks", &case.run(Ranker::open(case.spec(), &rocks, "special")));
        if seed % 4 == 0 {
            case.check("rocks, general", &case.run(Ranker::open_general(case.spec(), &rocks, "general")));
        }
    }
}
