//! What is allocated per batch, counted exactly.

mod common;

use std::sync::Arc;

use allocation_counter::measure;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use common::open;
use rank_top1::{Emit, OrderBy, RankRange, RankSpec, Ranker};
use state_mem::MemBackend;

const KEYS: usize = 64;

/// A BIGINT and a text column to partition by, a BIGINT and a text column to order by, a payload.
fn schema() -> SchemaRef {
    let fields = [
        ("k", DataType::Int64),
        ("kt", DataType::Utf8),
        ("v", DataType::Int64),
        ("vt", DataType::Utf8),
        ("p", DataType::Utf8),
    ];
    let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
    Arc::new(Schema::new(fields.to_vec()))
}

/// `rows` rows of cycling keys that all sort as `sort`.
fn batch(schema: &SchemaRef, rows: usize, sort: i64) -> RecordBatch {
    let key = |row: usize| (row % KEYS) as i64;
    let text = |text: String| Arc::new(StringArray::from(vec![text; rows])) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((0..rows).map(key))),
        Arc::new(StringArray::from_iter_values(
            (0..rows).map(|row| format!("key number {:04}", key(row))),
        )),
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| sort))),
        text(format!("sorts as {sort:08}")),
        text("payload".to_owned()),
    ];
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

/// Allocations of a batch of rejected rows once the buffers have grown.
fn allocations(key: &str, sort: &str, general: bool, emit: Emit, rows: usize) -> u64 {
    let schema = schema();
    let spec = RankSpec::builder(schema.clone())
        .partition_by([key])
        .order_by([OrderBy::asc(sort)])
        .range(RankRange::TOP_1)
        .emit(emit)
        .build()
        .unwrap();
    let mut ranker = open(general, spec, &MemBackend::default(), "test").unwrap();
    ranker.push(&batch(&schema, rows, 1)).unwrap();
    ranker.flush().unwrap();
    let rejected = batch(&schema, rows, 2);
    let replay = |ranker: &mut Ranker<MemBackend>| {
        assert_eq!(ranker.push(&rejected).unwrap(), None);
        assert_eq!(ranker.flush().unwrap(), None);
    };
    replay(&mut ranker);
    measure(|| replay(&mut ranker)).count_total
}

#[test]
fn rejected_rows_allocate_nothing() {
    for general in [false, true] {
        for emit in [Emit::Immediate, Emit::MiniBatch] {
            for sort in ["v", "vt"] {
                assert_eq!(
                    allocations("k", sort, general, emit, 4096),
                    0,
                    "{sort} {emit:?}"
                );
            }
        }
    }
}

#[test]
fn rejected_rows_with_a_key_of_text_allocate_per_batch_at_most() {
    for general in [false, true] {
        for sort in ["v", "vt"] {
            let of = |rows| allocations("kt", sort, general, Emit::Immediate, rows);
            assert_eq!(of(4096), of(512), "a longer batch allocates no more");
            assert!(of(512) <= 4, "{} allocations", of(512));
        }
    }
}
