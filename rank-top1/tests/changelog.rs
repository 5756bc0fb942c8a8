//! What is emitted, and in which order.

mod common;

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use common::{batch, changelog, open, run, spec, text};
use insta::assert_snapshot;
use rank_top1::{Emit, FloatOrder, OrderBy, RankRange, RankSpec, Ranker, RowKind, Ties};
use state_codec::StateBackend;
use state_mem::MemBackend;

#[test]
fn a_tie_keeps_the_row_that_came_first() {
    assert_snapshot!(changelog(&spec(), "a 7 first; a 7 second"), @"+I a 7 first");
}

#[test]
fn a_tie_keeps_the_row_that_came_last_if_asked() {
    let keep_last = spec().ties(Ties::KeepLast);
    assert_snapshot!(changelog(&keep_last, "k 5 a; k 5 b; k 6 c"), @r"
    +I k 5 a
    -U k 5 a
    +U k 5 b
    ");
}

#[test]
fn each_update_is_a_pair_whatever_the_other_keys_do() {
    assert_snapshot!(changelog(&spec(), "a 9 a1; b 9 b1;; a 8 a2; b 8 b2; a 7 a3; b 7 b3"), @r"
    +I a 9 a1
    +I b 9 b1
    -U a 9 a1
    +U a 8 a2
    -U b 9 b1
    +U b 8 b2
    -U a 8 a2
    +U a 7 a3
    -U b 8 b2
    +U b 7 b3
    ");
}

#[test]
fn stored_rows_carry_no_row_kind() {
    assert_snapshot!(changelog(&spec(), "k 10 a;; k 5 b;; k 1 c"), @r"
    +I k 10 a
    -U k 10 a
    +U k 5 b
    -U k 5 b
    +U k 1 c
    ");
}

#[test]
fn update_before_is_left_out_if_not_asked_for() {
    let upsert = spec().update_before(false);
    assert_snapshot!(changelog(&upsert, "k 3 a; k 2 b;; k 1 c"), @r"
    +I k 3 a
    +U k 2 b
    +U k 1 c
    ");
}

#[test]
fn the_spellings_of_the_first_rank_are_one_range() {
    let rows = "k 3 a; k 2 b; j 1 c";
    let expected = changelog(&spec(), rows);
    for range in [
        RankRange::at_most(1),
        RankRange::exactly(1),
        RankRange::below(2),
    ] {
        assert_eq!(changelog(&spec().range(range.unwrap()), rows), expected);
    }
}

#[test]
fn one_insert_and_twenty_improvements_are_one_insert_and_twenty_pairs() {
    let rows: Vec<String> = (0..=20).map(|i| format!("k {} p{i}", 100 - i)).collect();
    let changes = changelog(&spec(), &rows.join(";"));
    let kinds: Vec<&str> = changes.lines().map(|line| &line[..2]).collect();
    assert_eq!(kinds, [vec!["+I"], ["-U", "+U"].repeat(20)].concat());
    assert_eq!(changelog(&spec(), ""), "");
}

#[test]
fn keys_that_differ_are_independent_though_the_rest_is_equal() {
    assert_snapshot!(changelog(&spec(), "a 1 x; b 1 x;; a 0 y"), @r"
    +I a 1 x
    +I b 1 x
    -U a 1 x
    +U a 0 y
    ");
}

#[test]
fn a_losing_row_emits_nothing() {
    assert_snapshot!(changelog(&spec(), "k 5 a;; k 6 b; k 5 c; k 100 d"), @"+I k 5 a");
}

#[test]
fn null_is_a_key_and_the_lowest_sort_value() {
    assert_snapshot!(changelog(&spec(), "null 5 a; null null b; null 1 c; k null d"), @r"
    +I null 5 a
    -U null 5 a
    +U null null b
    +I k null d
    ");
}

#[test]
fn no_partition_columns_make_one_partition() {
    let global = RankSpec::builder(common::schema()).order_by([OrderBy::desc("v")]);
    assert_snapshot!(changelog(&global, "a 1 x; b 2 y; c 0 z"), @r"
    +I a 1 x
    -U a 1 x
    +U b 2 y
    ");
}

#[test]
fn a_new_key_is_one_insert_in_a_mini_batch() {
    let mini_batch = spec().emit(Emit::MiniBatch);
    assert_snapshot!(changelog(&mini_batch, "k 5 a; k 3 b;; k 1 c"), @"+I k 1 c");
}

/// The changelogs of several mini-batches, `|` between them, by both rankers.
fn mini_batches(spec: &rank_top1::RankSpecBuilder, rows: &str) -> String {
    let of = |general: bool| {
        let spec = spec.clone().emit(Emit::MiniBatch).build().unwrap();
        let mut ranker = open(general, spec, &MemBackend::default(), "test").unwrap();
        let bundles = rows
            .split('|')
            .map(|rows| run(&mut ranker, &rows.split(";;").collect::<Vec<_>>()));
        bundles.collect::<Vec<_>>().join("\n--\n")
    };
    assert_eq!(of(false), of(true));
    of(false)
}

#[test]
fn a_mini_batch_emits_net_changes_in_the_order_of_first_touch() {
    // c is touched first by a row that loses; b only by losers.
    assert_snapshot!(
        mini_batches(&spec(), "a 5 a1; b 5 b1; c 5 c1 | c 9 x; a 4 a2;; b 7 y; c 3 c2; a 2 a3; d 1 d1"),
        @r"
    +I a 5 a1
    +I b 5 b1
    +I c 5 c1
    --
    -U c 5 c1
    +U c 3 c2
    -U a 5 a1
    +U a 2 a3
    +I d 1 d1
    ");
}

#[test]
fn a_mini_batch_of_top_2_emits_the_rows_that_went_and_came() {
    let top_2 = spec().range(RankRange::at_most(2).unwrap());
    assert_snapshot!(mini_batches(&top_2, "a 5 a1; a 6 a2 | a 3 a3; a 4 a4; a 1 a5"), @r"
    +I a 5 a1
    +I a 6 a2
    --
    -D a 5 a1
    -D a 6 a2
    +I a 1 a5
    +I a 3 a3
    ");
    assert_snapshot!(mini_batches(&top_2.output_rank("rn"), "a 5 a1; a 6 a2 | a 3 a3; a 7 a4"), @r"
    +I a 5 a1 1
    +I a 6 a2 2
    --
    -U a 5 a1 1
    +U a 3 a3 1
    -U a 6 a2 2
    +U a 5 a1 2
    ");
}

#[test]
fn a_long_mini_batch_keeps_the_leading_rows_only() {
    let spec = spec().emit(Emit::MiniBatch).build().unwrap();
    let mut ranker = Ranker::open(spec, &MemBackend::default(), "test").unwrap();
    for i in (0..30_000).rev() {
        assert_eq!(
            text(
                ranker
                    .push(&batch(&format!("a {i} p{i}; b {} q", i / 2)))
                    .unwrap()
            ),
            ""
        );
    }
    assert_eq!(text(ranker.flush().unwrap()), "+I a 0 p0\n+I b 0 q");
}

#[test]
fn ranks_of_equal_rows_are_in_arrival_order_and_one_entry_is_kept_per_rank() {
    // One key, sort cycling over three values.
    let rows: Vec<String> = (0..1000).map(|i| format!("k {} p{i}", i % 3)).collect();
    let top_2 = spec()
        .range(RankRange::at_most(2).unwrap())
        .output_rank("rn");
    let changes = changelog(&top_2, &rows.join(";"));
    assert_snapshot!(changes, @r"
    +I k 0 p0 1
    +I k 1 p1 2
    -U k 1 p1 2
    +U k 0 p3 2
    ");
    let top_1 = changelog(&spec(), &rows.join(";"));
    assert_eq!(top_1, "+I k 0 p0");
}

#[test]
fn an_offset_keeps_rows_before_it_without_a_word() {
    let second_and_third = spec().range(RankRange::new(2, 3).unwrap());
    assert_snapshot!(changelog(&second_and_third, "k 5 a; k 3 b; k 4 c; k 1 d"), @r"
    +I k 5 a
    -U k 5 a
    +U k 4 c
    +I k 5 a
    -U k 4 c
    +U k 3 b
    -U k 5 a
    +U k 4 c
    ");
}

#[test]
fn the_first_row_of_a_partition_sets_its_rank_end() {
    let fields = ["k", "v", "n"].map(|name| Field::new(name, DataType::Int64, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let spec = RankSpec::builder(schema.clone())
        .partition_by(["k"])
        .order_by([OrderBy::asc("v")])
        .range(RankRange::at_most_column("n"))
        .build()
        .unwrap();
    type Kvn = (i64, i64, Option<i64>);
    let rows = |rows: &[Kvn]| {
        let column = |pick: fn(&Kvn) -> Option<i64>| {
            Arc::new(Int64Array::from_iter(rows.iter().map(pick))) as ArrayRef
        };
        let columns = vec![
            column(|r| Some(r.0)),
            column(|r| Some(r.1)),
            column(|r| r.2),
        ];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let mut ranker = Ranker::open(spec, &MemBackend::default(), "test").unwrap();
    let changes = ranker.push(&rows(&[
        (1, 5, Some(2)),
        (1, 4, Some(9)),
        (1, 3, None),
        (2, 5, Some(1)),
        (2, 4, Some(1)),
    ]));
    assert_snapshot!(text(changes.unwrap()), @r"
    +I 1 5 2
    +I 1 4 9
    -D 1 5 2
    +I 1 3 null
    +I 2 5 1
    -D 2 5 1
    +I 2 4 1
    ");
    assert_eq!(ranker.metrics().rank_end_mismatches, 2);
    let refused = ranker
        .push(&rows(&[(1, 0, Some(2)), (3, 5, Some(0))]))
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        r#"rank end column "n" is Some(0) in row 1, but a rank end is at least 1"#
    );
    let changes = ranker.push(&rows(&[(1, 9, Some(2))]));
    assert_eq!(changes.unwrap(), None);
}

fn floats(column: ArrayRef, terms: [OrderBy; 2], floats: FloatOrder) -> String {
    let rows = column.len();
    let ids = (1..=rows as i64).rev().collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(vec![
        Field::new("d", column.data_type().clone(), true),
        Field::new("id", DataType::Int64, true),
    ]));
    let spec = RankSpec::builder(schema.clone())
        .order_by(terms)
        .floats(floats)
        .build()
        .unwrap();
    let batch =
        RecordBatch::try_new(schema, vec![column, Arc::new(Int64Array::from(ids))]).unwrap();
    let winner = |general: bool| {
        let mut ranker = open(general, spec.clone(), &MemBackend::default(), "test").unwrap();
        let changes = ranker.push(&batch).unwrap().unwrap();
        let last = changes.batch().slice(changes.len() - 1, 1);
        use arrow::array::AsArray;
        last.column(1)
            .as_primitive::<arrow::datatypes::Int64Type>()
            .value(0)
    };
    assert_eq!(winner(false), winner(true));
    format!("{}", winner(false))
}

#[test]
fn zeros_of_both_signs_tie_so_the_next_term_decides() {
    let terms = || [OrderBy::asc("d"), OrderBy::asc("id")];
    for order in [FloatOrder::Flink, FloatOrder::Total] {
        let f32s = Arc::new(Float32Array::from(vec![-0.0, 0.0])) as ArrayRef;
        let f64s = Arc::new(Float64Array::from(vec![0.0, -0.0])) as ArrayRef;
        assert_eq!(floats(f32s, terms(), order), "1");
        assert_eq!(floats(f64s, terms(), order), "1");
    }
}

#[test]
fn nan_ties_as_in_flink_or_is_greatest() {
    let terms = || [OrderBy::asc("d"), OrderBy::asc("id")];
    let column = || Arc::new(Float64Array::from(vec![1.0, f64::NAN, 2.0])) as ArrayRef;
    // The rows are (1.0, 3), (NaN, 2), (2.0, 1). NaN ties with 1.0 and wins by id, then 2.0 likewise.
    assert_eq!(floats(column(), terms(), FloatOrder::Flink), "1");
    assert_eq!(floats(column(), terms(), FloatOrder::Total), "3");
}

#[test]
fn a_nan_that_ties_and_came_last_lets_a_worse_row_follow() {
    let schema = Arc::new(Schema::new(vec![Field::new("d", DataType::Float64, true)]));
    let spec = RankSpec::builder(schema.clone())
        .order_by([OrderBy::asc("d")])
        .ties(Ties::KeepLast)
        .build()
        .unwrap();
    let batch = |values: Vec<f64>| {
        let column = Arc::new(Float64Array::from(values));
        RecordBatch::try_new(schema.clone(), vec![column]).unwrap()
    };
    for open in [Ranker::open, Ranker::open_general] {
        let mut ranker = open(spec.clone(), &MemBackend::default(), "test").unwrap();
        ranker.push(&batch(vec![5.0])).unwrap();
        // 7 loses to 5, which is in state, but not to the NaN that has taken its place.
        let changes = ranker.push(&batch(vec![f64::NAN, 7.0])).unwrap().unwrap();
        let pair = [RowKind::UpdateBefore, RowKind::UpdateAfter];
        assert_eq!(changes.kinds(), pair.repeat(2));
    }
}

#[test]
fn a_winner_does_not_keep_its_batch_alive() {
    let backend = MemBackend::default();
    let mut ranker = Ranker::open(spec().build().unwrap(), &backend, "test").unwrap();
    let payload = "x".repeat(100);
    for key in 0..1000 {
        let keys = StringArray::from_iter_values((0..8192).map(|_| format!("key-{key:08}")));
        let sorts = Int64Array::from_iter_values(0..8192);
        let payloads = StringArray::from_iter_values((0..8192).map(|_| &payload));
        let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(sorts), Arc::new(payloads)];
        ranker
            .push(&RecordBatch::try_new(common::schema(), columns).unwrap())
            .unwrap();
    }
    // A row is 32 fixed bytes and 16 + 104 variable ones; its key row is 32 bytes.
    let row = 32 + 16 + 104;
    let holders = backend.pool().holders();
    let held = |name: &str| {
        holders
            .iter()
            .find(|holder| &*holder.name == name)
            .unwrap()
            .bytes
    };
    let charged = held("test");
    assert!(
        (1000 * row..1000 * (row + 200)).contains(&charged),
        "{charged}"
    );
    // Its own buffers are those of one batch: a slot, a key and a sort key a row.
    let own = held("test ranker");
    assert!((8192 * 4..8192 * 100).contains(&own), "{own}");
    assert_eq!(ranker.charged_bytes(), charged + own);
}

/// Keeps `StateBackend` in scope as a bound that a ranker can be generic over.
#[test]
fn a_ranker_is_generic_over_its_backend() {
    fn first<B: StateBackend>(backend: &B) -> String {
        let mut ranker = Ranker::open(spec().build().unwrap(), backend, "test").unwrap();
        run(&mut ranker, &["k 1 a"])
    }
    assert_eq!(first(&MemBackend::default()), "+I k 1 a");
}
