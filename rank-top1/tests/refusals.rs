//! What is refused, what the refusal says, and that nothing has changed then.

mod common;

use std::sync::Arc;

use arrow::array::{Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema};
use common::{batch, open, run, schema, spec, text};
use keygroup::GroupCount;
use rank_top1::{
    BatchError, FloatOrder, OrderBy, RankError, RankRange, RankSpec, RankSpecBuilder, Ranker,
    SpecError, Ties,
};
use state_codec::MemoryPool;
use state_mem::MemBackend;
use state_rocks::RocksBackend;

fn refusal(spec: RankSpecBuilder) -> String {
    spec.build().unwrap_err().to_string()
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[test]
fn a_specification_is_refused_with_clause_and_column() {
    let cases = [
        (
            spec().partition_by(["nope"]),
            r#"partition by names column "nope", which is not among ["k", "v", "p"]"#,
        ),
        (
            spec().order_by([OrderBy::asc("nope")]),
            r#"order by names column "nope", which is not among ["k", "v", "p"]"#,
        ),
        (
            spec().partition_by(["k", "k"]),
            r#"partition by names column "k" twice"#,
        ),
        (
            spec().order_by([OrderBy::asc("v"), OrderBy::desc("v")]),
            r#"order by names column "v" twice"#,
        ),
        (
            spec().order_by([]),
            "order by names no column: a rank needs an order",
        ),
        (
            spec().range(RankRange::at_most_column("p")),
            r#"rank end column "p" is Utf8, not an integer"#,
        ),
        (spec().output_rank("v"), r#"output names column "v" twice"#),
        (
            spec()
                .ties(Ties::KeepLast)
                .range(RankRange::at_most(2).unwrap()),
            "a tie can only keep the last row for the rank range 1..1",
        ),
    ];
    for (spec, message) in cases {
        assert_eq!(refusal(spec), message);
    }
}

#[test]
fn a_range_without_ranks_is_refused() {
    let refusal = |range: Result<RankRange, SpecError>| range.unwrap_err().to_string();
    assert_eq!(
        refusal(RankRange::new(0, 1)),
        "rank range 0..1 starts at 0: ranks start at 1"
    );
    assert_eq!(
        refusal(RankRange::new(2, 1)),
        "rank range 2..1 is empty: its end must not be below its start"
    );
    assert_eq!(
        refusal(RankRange::below(1)),
        "rank range 1..0 is empty: its end must not be below its start"
    );
    assert_eq!(RankRange::exactly(0), Err(SpecError::RankStart { end: 0 }));
}

#[test]
fn a_type_that_has_no_use_is_refused_with_its_column() {
    let interval = DataType::Interval(IntervalUnit::YearMonth);
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int8, true)));
    let schema = |odd: &DataType| {
        Arc::new(Schema::new(vec![
            Field::new("v", DataType::Int64, true),
            Field::new("odd", odd.clone(), true),
        ]))
    };
    let by = |odd: &DataType| RankSpec::builder(schema(odd)).order_by([OrderBy::asc("v")]);
    for (spec, clause) in [
        (by(&interval), "schema: "),
        (by(&list).partition_by(["odd"]), "partition by: "),
        (by(&list).order_by([OrderBy::asc("odd")]), "order by: "),
    ] {
        let message = refusal(spec);
        assert!(message.starts_with(clause), "{message}");
        assert!(message.contains("odd"), "{message}");
    }
    assert!(by(&list).build().is_ok(), "a list is a payload");
}

#[test]
fn an_order_that_is_none_is_refused_beyond_one_row() {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Float64, true)]));
    let by = || RankSpec::builder(schema.clone()).order_by([OrderBy::asc("v")]);
    let top_2 = by().range(RankRange::at_most(2).unwrap());
    assert!(top_2.clone().build().is_ok());
    assert_eq!(
        top_2.floats(FloatOrder::Flink).build().unwrap_err(),
        SpecError::FloatOrderBeyondTop1
    );
    assert!(by().floats(FloatOrder::Total).build().is_ok());
}

#[test]
fn a_name_that_two_columns_have_is_refused() {
    let field = Field::new("v", DataType::Int64, true);
    let schema = Arc::new(Schema::new(vec![field.clone(), field]));
    let spec = RankSpec::builder(schema).order_by([OrderBy::asc("v")]);
    assert_eq!(refusal(spec), r#"the schema has more than one column "v""#);
}

#[test]
fn a_batch_of_another_schema_is_refused_and_changes_nothing() {
    for general in [false, true] {
        let mut ranker = open(
            general,
            spec().build().unwrap(),
            &MemBackend::default(),
            "test",
        )
        .unwrap();
        run(&mut ranker, &["k 5 a"]);

        let two = batch("k 1 x").project(&[0, 1]).unwrap();
        let refused = ranker.push(&two).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the batch has 2 columns, the specification 3"
        );

        let fields = vec![
            Field::new("k", DataType::Utf8, true),
            Field::new("v", DataType::Int32, true),
            Field::new("p", DataType::Utf8, true),
        ];
        let narrow = RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            vec![
                Arc::new(StringArray::from(vec!["k"])),
                Arc::new(Int32Array::from(vec![1])),
                Arc::new(StringArray::from(vec!["x"])),
            ],
        );
        let refused = ranker.push(&narrow.unwrap()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            r#"column 1 of the batch is "v" Int32, in the specification it is "v" Int64"#
        );
        assert_eq!(run(&mut ranker, &["k 6 b; k 4 c"]), "-U k 5 a\n+U k 4 c");
    }
}

#[test]
fn a_null_where_none_is_declared_is_refused() {
    let required = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
    let spec = RankSpec::builder(required)
        .order_by([OrderBy::asc("v")])
        .build()
        .unwrap();
    let mut ranker = Ranker::open(spec, &MemBackend::default(), "test").unwrap();
    let nullable = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
    let values = |values: Vec<Option<i64>>| {
        let column = Arc::new(Int64Array::from(values));
        RecordBatch::try_new(nullable.clone(), vec![column]).unwrap()
    };
    let refused = ranker.push(&values(vec![Some(1), None])).unwrap_err();
    let RankError::Batch(refused) = refused else {
        panic!("{refused}")
    };
    assert_eq!(
        refused,
        BatchError::Null {
            column: "v".to_owned(),
            nulls: 1
        }
    );
    let changes = ranker.push(&values(vec![Some(1)])).unwrap().unwrap();
    assert_eq!(changes.len(), 1);
}

#[test]
fn a_refused_batch_can_be_pushed_again() {
    let rows: Vec<String> = (0..500)
        .map(|i| format!("key{i} {i} {}", "p".repeat(40)))
        .collect();
    let rows = rows.join(";");
    for general in [false, true] {
        let pool = MemoryPool::new(200 << 10);
        let backend = MemBackend::default().with_pool(pool.clone());
        let mut ranker = open(general, spec().build().unwrap(), &backend, "winners").unwrap();
        let primed = run(&mut ranker, &["a 5 a"]);
        let used = pool.used_bytes();

        let mut other = pool.reserve("other");
        other.try_grow(pool.limit_bytes() - used).unwrap();
        let refused = ranker.push(&batch(&rows)).unwrap_err();
        let message = chain(&refused);
        assert!(
            message.contains("winners") && message.contains("other"),
            "{message}"
        );
        // What tables grew by was given back, and perhaps some room that they had before.
        assert!(ranker.charged_bytes() <= used, "general: {general}");
        assert_eq!(pool.used_bytes(), other.bytes() + ranker.charged_bytes());

        drop(other);
        assert_eq!(
            text(ranker.push(&batch(&rows)).unwrap()).lines().count(),
            500
        );
        assert_eq!(run(&mut ranker, &["a 6 x; a 4 b"]), "-U a 5 a\n+U a 4 b");
        assert_eq!(
            (primed.as_str(), ranker.charged_bytes()),
            ("+I a 5 a", pool.used_bytes())
        );
    }
}

#[test]
fn a_payload_too_large_for_the_budget_is_refused_before_anything_changes() {
    for general in [false, true] {
        let pool = MemoryPool::new(64 << 10);
        let backend = MemBackend::default().with_pool(pool);
        let mut ranker = open(general, spec().build().unwrap(), &backend, "test").unwrap();
        run(&mut ranker, &["a 5 a"]);
        let charged = ranker.charged_bytes();
        let large = "x".repeat(100 << 10);
        let refused = ranker
            .push(&batch(&format!("a 1 {large}; b 1 small")))
            .unwrap_err();
        let denied = refused.denied().expect("it is the budget that refuses");
        assert_eq!(denied.limit_bytes(), 64 << 10);
        assert!(denied.requested_bytes() > 100 << 10);
        assert!(ranker.charged_bytes() <= charged, "general: {general}");
        assert_eq!(
            run(&mut ranker, &["b 2 b; a 4 c"]),
            "+I b 2 b\n-U a 5 a\n+U a 4 c"
        );
    }
}

#[test]
fn a_directory_that_cannot_be_opened_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    let backend = RocksBackend::new(file.join("state"), GroupCount::new(128).unwrap());
    let refused = Ranker::open(spec().build().unwrap(), &backend, "test").unwrap_err();
    let source = chain(&refused);
    assert!(source.contains(file.to_str().unwrap()), "{source}");
}

#[test]
fn two_rankers_on_one_directory_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let backend = RocksBackend::new(directory.path(), GroupCount::new(128).unwrap());
        Ranker::open(spec().build().unwrap(), &backend, "test")
    };
    let mut first = open().unwrap();
    let refused = open().unwrap_err();
    let source = chain(&refused);
    assert!(
        source.contains(directory.path().to_str().unwrap()),
        "{source}"
    );
    assert_eq!(run(&mut first, &["k 1 a"]), "+I k 1 a");
}

#[test]
fn a_max_parallelism_out_of_range_is_refused() {
    for max_parallelism in [0, 40_000] {
        let refused = GroupCount::new(max_parallelism).unwrap_err().to_string();
        assert!(refused.contains(&max_parallelism.to_string()), "{refused}");
    }
}

#[test]
fn a_schema_that_is_equal_but_not_the_same_is_accepted() {
    let mut ranker = Ranker::open(spec().build().unwrap(), &MemBackend::default(), "test").unwrap();
    let metadata = [("origin".to_owned(), "test".to_owned())];
    let tagged = schema()
        .as_ref()
        .clone()
        .with_metadata(std::collections::HashMap::from(metadata));
    let tagged = batch("k 1 a").with_schema(Arc::new(tagged));
    // Metadata of the batch does not reach the output, whose schema is the specification's.
    let changes = ranker.push(&tagged.unwrap()).unwrap().unwrap();
    assert_eq!(changes.batch().schema(), schema());
}
