//! Ranks a few flights and saves the state as a canonical checkpoint in the directory that is named:
//!
//! ```sh
//! cargo run -p rank-top1 --example save_top1 -- /tmp/worst-delays
//! python3 rank-top1/examples/read_checkpoint.py /tmp/worst-delays
//! ```

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use rank_top1::{OrderBy, RankSpec, Ranker};
use state_codec::StateBackend;
use state_codec::checkpoint::CheckpointDir;
use state_mem::MemBackend;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("name a directory")?;
    let schema = Arc::new(Schema::new(vec![
        Field::new("aircraft", DataType::Utf8, true),
        Field::new("delay", DataType::Int32, true),
        Field::new("flight", DataType::Utf8, false),
    ]));
    let spec = RankSpec::builder(schema.clone())
        .partition_by(["aircraft"])
        .order_by([OrderBy::desc("delay")])
        .ttl(Duration::from_secs(24 * 3600))
        .build()?;
    let backend = MemBackend::default();
    let mut worst = Ranker::open(spec, &backend, "worst-delays")?;
    worst.advance_clock(1_357_034_400_000);
    let aircraft = StringArray::from(vec!["N14228", "N24211", "N619AA", "N14228", "N24211"]);
    let delays = Int32Array::from(vec![Some(11), Some(20), None, Some(33), Some(4)]);
    let flights = StringArray::from(vec!["UA1545", "UA1714", "AA1141", "UA1077", "UA1005"]);
    let columns: Vec<arrow::array::ArrayRef> =
        vec![Arc::new(aircraft), Arc::new(delays), Arc::new(flights)];
    worst.push(&RecordBatch::try_new(schema, columns)?)?;

    // The view can go to another thread; the ranker goes on.
    let mut view = worst.freeze()?;
    view.write(&CheckpointDir::open(dir)?, 1, backend.groups().all())?;
    Ok(())
}
