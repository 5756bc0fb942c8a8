//! differential-dataflow: `reduce` to the greatest row of each key, one worker in this thread, a batch a time.
//!
//! It keeps every row that arrived, since any may be taken back; Weir's append-only rankers need not.

use std::cell::Cell as Counter;
use std::rc::Rc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use differential_dataflow::input::{Input, InputSession};
use rank_top1::Changelog;
use timely::WorkerConfig;
use timely::communication::Allocator;
use timely::communication::allocator::thread::Thread;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

use crate::trial::TrialError;
use crate::trial::engine::Engine;
use crate::trial::workload::{KeyedBatch, Workload};

/// Key, and sort value with payload.
type Row = (i64, (i64, Vec<u8>));

/// A dataflow that ranks.
pub(crate) struct Differential {
    worker: Worker,
    input: InputSession<u64, Row, isize>,
    probe: ProbeHandle<u64>,
    changes: Rc<Counter<u64>>,
}

impl Differential {
    pub(crate) fn new() -> Self {
        let allocator = Allocator::Thread(Thread::default());
        let mut worker = Worker::new(WorkerConfig::default(), allocator, None);
        let changes = Rc::new(Counter::new(0));
        let counted = Rc::clone(&changes);
        let probe = ProbeHandle::new();
        let input = worker.dataflow(|scope| {
            let (input, rows) = scope.new_collection::<Row, isize>();
            rows.reduce(|_key, rows, best| {
                // Values come in ascending order.
                if let Some((row, _)) = rows.last() {
                    best.push(((*row).clone(), 1));
                }
            })
            .inspect(move |_change| counted.set(counted.get() + 1))
            .probe_with(&probe);
            input
        });
        Self {
            worker,
            input,
            probe,
            changes,
        }
    }

    fn push(&mut self, rows: &KeyedBatch) {
        let keys = rows.batch.column(0).as_primitive::<Int64Type>().values();
        let sorts = rows.batch.column(1).as_primitive::<Int64Type>().values();
        let payloads = rows.batch.column(2).as_binary::<i32>();
        for (row, (&key, &sort)) in keys.iter().zip(sorts).enumerate() {
            let payload = payloads.value(row).to_vec();
            self.input.insert((key, (sort, payload)));
        }
        self.input.advance_to(self.input.time() + 1);
        self.input.flush();
        while self.probe.less_than(self.input.time()) {
            self.worker.step();
        }
    }
}

impl Engine for Differential {
    fn prime(&mut self, workload: &Workload) -> Result<(), TrialError> {
        *self = Self::new();
        for rows in workload.priming() {
            self.push(rows);
        }
        Ok(())
    }

    fn arrive(
        &mut self,
        _workload: &Workload,
        _number: usize,
        rows: &KeyedBatch,
        _ends_bundle: bool,
        _out: &mut Vec<Changelog>,
    ) -> Result<(), TrialError> {
        self.push(rows);
        Ok(())
    }

    fn counted_changes(&self) -> u64 {
        self.changes.get()
    }
}
