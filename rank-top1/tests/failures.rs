//! What a failure leaves behind: held changes after a failed write, and the bundle of earlier batches
//! after a refused one.

#[macro_use]
mod common;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray,
    TimestampSecondArray,
};
use arrow::datatypes::{DataType, Field, Int8Type, Int64Type, Schema, TimeUnit};
use common::{View, batch, open, run, spec, text};
use keygroup::GroupCount;
use rank_top1::{Emit, OrderBy, RankError, RankSpec};
use state_codec::{
    KeyBatch, KeyedState, MemoryDenied, MemoryPool, Slot, Snapshot, StateBackend, StateCodec,
    StateValue, StoreError, StoreMetrics,
};
use state_mem::{MemBackend, MemError, MemState};

/// Memory whose bundles fail to end as often as `failures` says.
#[derive(Default)]
struct FailingBackend {
    backend: MemBackend,
    failures: Arc<AtomicU32>,
}

struct FailingState<V, C> {
    state: MemState<V, C>,
    failures: Arc<AtomicU32>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the disk is full")]
    Full,
    #[error(transparent)]
    Memory(#[from] MemError),
}

impl StoreError for Failure {
    fn denied(&self) -> Option<&MemoryDenied> {
        match self {
            Self::Full => None,
            Self::Memory(error) => error.denied(),
        }
    }
}

impl StateBackend for FailingBackend {
    type Error = Failure;
    type State<V, C>
        = FailingState<V, C>
    where
        V: StateValue,
        C: StateCodec<V>;

    fn groups(&self) -> GroupCount {
        self.backend.groups()
    }

    fn pool(&self) -> &MemoryPool {
        self.backend.pool()
    }

    fn open<V, C>(&self, name: &str, codec: C) -> Result<FailingState<V, C>, Failure>
    where
        V: StateValue,
        C: StateCodec<V>,
    {
        let state = self.backend.open(name, codec)?;
        let failures = Arc::clone(&self.failures);
        Ok(FailingState { state, failures })
    }
}

impl<V: StateValue, C: StateCodec<V>> KeyedState<V> for FailingState<V, C> {
    forward_all_but_end_bundle!(Failure);

    fn end_bundle(&mut self) -> Result<(), Failure> {
        let fail = |left: u32| left.checked_sub(1);
        if self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fail)
            .is_ok()
        {
            return Err(Failure::Full);
        }
        Ok(self.state.end_bundle()?)
    }
}

impl<V: StateValue, C: StateCodec<V>> Snapshot<V> for FailingState<V, C> {
    forward_snapshot!(Failure, MemState<V, C>);
}

#[test]
fn changes_whose_write_failed_are_held_back_until_a_flush_succeeds() {
    for general in [false, true] {
        for emit in [Emit::Immediate, Emit::MiniBatch] {
            let backend = FailingBackend::default();
            let spec = spec().emit(emit).build().unwrap();
            let mut ranker = open(general, spec, &backend, "test").unwrap();
            run(&mut ranker, &["a 5 a1"]);

            backend.failures.store(2, Ordering::Relaxed);
            let pushed = ranker.push(&batch("a 4 a2; b 1 b1"));
            let failed = match emit {
                Emit::Immediate => pushed.unwrap_err(),
                Emit::MiniBatch => {
                    assert_eq!(pushed.unwrap(), None);
                    ranker.flush().unwrap_err()
                }
            };
            assert!(
                matches!(failed, RankError::Write(Failure::Full)),
                "{failed}"
            );
            assert!(matches!(ranker.flush().unwrap_err(), RankError::Write(_)));
            let refused = ranker.push(&batch("a 1 x")).unwrap_err();
            assert!(matches!(refused, RankError::Unwritten), "{refused}");
            ranker.abandon(); // there is no way back from a write

            let held = text(ranker.flush().unwrap());
            assert_eq!(held, "-U a 5 a1\n+U a 4 a2\n+I b 1 b1");
            assert_eq!(ranker.flush().unwrap(), None);
            assert_eq!(
                run(&mut ranker, &["a 4 x; a 3 a3; b 2 x"]),
                "-U a 4 a2\n+U a 3 a3"
            );
        }
    }
}

#[test]
fn a_mini_batch_whose_flush_was_refused_can_be_flushed_again_or_abandoned() {
    for general in [false, true] {
        for abandoned in [false, true] {
            let pool = MemoryPool::new(1 << 20);
            let backend = MemBackend::default().with_pool(pool.clone());
            let spec = spec().emit(Emit::MiniBatch).build().unwrap();
            let mut ranker = open(general, spec, &backend, "test").unwrap();
            run(&mut ranker, &["a 5 a1"]);
            let large = "x".repeat(10_000);
            ranker
                .push(&batch(&format!("a 4 {large}; b 1 b1")))
                .unwrap();
            ranker.push(&batch("c 1 c1; a 3 a3; b 9 x")).unwrap();
            ranker.push(&batch(&format!("d 1 {large}"))).unwrap();

            let mut other = pool.reserve("other");
            other
                .try_grow(pool.limit_bytes() - pool.used_bytes())
                .unwrap();
            let refused = ranker.flush().unwrap_err();
            assert!(matches!(refused, RankError::State(_)), "{refused}");
            drop(other);
            if abandoned {
                ranker.abandon();
                assert_eq!(ranker.flush().unwrap(), None);
                assert_eq!(run(&mut ranker, &["a 5 x; b 1 b2"]), "+I b 1 b2");
            } else {
                let expected =
                    format!("-U a 5 a1\n+U a 3 a3\n+I b 1 b1\n+I c 1 c1\n+I d 1 {large}");
                assert_eq!(text(ranker.flush().unwrap()), expected);
            }
            assert_eq!(ranker.charged_bytes(), pool.used_bytes());
        }
    }
}

/// Rows of `(k, v, t)` where `t` is a timestamp in seconds, which not every `i64` can be.
fn seconds(rows: &[(i64, i64, i64)]) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Second, None), true),
    ]);
    let column = |pick: fn(&(i64, i64, i64)) -> i64| rows.iter().map(pick).collect::<Vec<_>>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(column(|row| row.0))),
        Arc::new(Int64Array::from(column(|row| row.1))),
        Arc::new(TimestampSecondArray::from(column(|row| row.2))),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

#[test]
fn a_row_that_cannot_be_written_is_refused_with_its_batch_and_nothing_else() {
    for general in [false, true] {
        for emit in [Emit::Immediate, Emit::MiniBatch] {
            let spec = RankSpec::builder(seconds(&[]).schema())
                .partition_by(["k"])
                .order_by([OrderBy::asc("v")])
                .emit(emit)
                .build()
                .unwrap();
            let mut ranker = open(general, spec, &MemBackend::default(), "test").unwrap();
            let mut keys = Vec::new();
            let mut collect = |pushed: Option<rank_top1::Changelog>| {
                if let Some(changelog) = pushed {
                    let column = changelog.batch().column(0).as_primitive::<Int64Type>();
                    keys.extend_from_slice(column.values());
                }
            };
            collect(ranker.push(&seconds(&[(1, 5, 7)])).unwrap());
            let refused = ranker.push(&seconds(&[(3, 1, 7), (1, 4, 7), (2, 4, i64::MAX)]));
            let refused = refused.unwrap_err();
            assert!(matches!(refused, RankError::Encode(_)), "{refused}");
            collect(
                ranker
                    .push(&seconds(&[(2, 5, 7), (3, 1, 8), (1, 5, 7)]))
                    .unwrap(),
            );
            collect(ranker.flush().unwrap());
            // One insert each, in the order in which accepted batches touched them.
            assert_eq!(keys, [1, 2, 3]);
        }
    }
}

#[test]
fn a_null_among_the_values_of_a_dictionary_breaks_its_promise() {
    let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![
        Field::new("v", DataType::Int64, false),
        Field::new("d", data_type, false),
    ]));
    let words = DictionaryArray::<Int8Type>::new(
        Int8Array::from(vec![0, 1]),
        Arc::new(StringArray::from(vec![Some("word"), None])),
    );
    assert_eq!(words.null_count(), 0);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1, 0])), Arc::new(words)];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    for emit in [Emit::Immediate, Emit::MiniBatch] {
        let order = [OrderBy::asc("v")];
        let spec = RankSpec::builder(schema.clone()).order_by(order).emit(emit);
        let mut ranker =
            open(false, spec.build().unwrap(), &MemBackend::default(), "test").unwrap();
        let refused = ranker.push(&batch).unwrap_err().to_string();
        assert_eq!(
            refused,
            r#"column "d" is declared not null and holds 1 nulls"#
        );
    }
}

#[test]
fn batches_may_promise_more_than_the_specification_asks_for() {
    let required = |nullable: bool| {
        Arc::new(Schema::new(vec![
            Field::new("k", DataType::Utf8, nullable),
            Field::new("v", DataType::Int64, nullable),
            Field::new("p", DataType::Utf8, nullable),
        ]))
    };
    for general in [false, true] {
        let spec = spec().emit(Emit::MiniBatch).build().unwrap();
        let mut ranker = open(general, spec, &MemBackend::default(), "test").unwrap();
        let strict = batch("a 1 a1").columns().to_vec();
        ranker
            .push(&RecordBatch::try_new(required(false), strict).unwrap())
            .unwrap();
        ranker.push(&batch("b 1 null")).unwrap();
        assert_eq!(text(ranker.flush().unwrap()), "+I a 1 a1\n+I b 1 null");
    }
}

#[test]
fn a_mini_batch_keeps_and_charges_what_leads_and_no_more() {
    let fields = ["k", "v", "p"].map(|name| Field::new(name, DataType::Utf8, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let spec = RankSpec::builder(schema.clone())
        .partition_by(["k"])
        .order_by([OrderBy::desc("v")])
        .emit(Emit::MiniBatch)
        .build()
        .unwrap();
    let mut ranker = open(false, spec, &MemBackend::default(), "test").unwrap();
    let empty = ranker.charged_bytes();
    for number in 0..300 {
        let text = |texts: Vec<String>| Arc::new(StringArray::from(texts)) as ArrayRef;
        let long = |i: usize| format!("{:0>100}", number * 1000 + i);
        let columns = vec![
            text((0..1000).map(|i| format!("key {}", i % 10)).collect()),
            text((0..1000).map(long).collect()),
            text((0..1000).map(|i| format!("payload {number} {i}")).collect()),
        ];
        ranker
            .push(&RecordBatch::try_new(schema.clone(), columns).unwrap())
            .unwrap();
    }
    // Ten rows of some 300 bytes lead, twice as much and 64 KiB may have lost; buffers double. The keys and
    // sort keys of a batch are some 200 bytes a row, and the 300 batches some 100 MB.
    let charged = ranker.charged_bytes() - empty;
    assert!((3000..1_000_000).contains(&charged), "{charged}");
    let changes = ranker.flush().unwrap().unwrap();
    assert_eq!(changes.len(), 10);
    let payloads = changes.batch().column(2);
    let expected: Vec<String> = (990..1000).map(|i| format!("payload 299 {i}")).collect();
    assert_eq!(
        payloads.as_ref(),
        &StringArray::from(expected) as &dyn Array
    );
}
