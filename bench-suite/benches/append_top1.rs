//! A few cells of the append-only Top-1 workload for Criterion; the ids are `workload/rows/store`.

use std::time::{Duration, Instant};

use bench_suite::stores::Store;
use bench_suite::trial::cell::{Arrival, Cell};
use bench_suite::trial::engine::{EngineKind, engine};
use bench_suite::trial::workload::Workload;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const BATCHES: usize = 4 * Cell::BUNDLE_BATCHES;

fn append_top1(criterion: &mut Criterion) {
    for store in Store::ALL {
        for arrival in [Arrival::Rejected, Arrival::Improving, Arrival::Fresh] {
            for kind in EngineKind::ALL {
                bench(criterion, Cell::plain(store, arrival), kind);
            }
        }
    }
}

fn bench(criterion: &mut Criterion, cell: Cell, kind: EngineKind) {
    let rows = BATCHES * cell.batch_rows;
    let workload = Workload::new(cell, BATCHES).expect("the workload fits its schema");
    let mut engine = engine(kind, &workload).expect("the engine takes the workload");
    let name = format!("append_top1-{}-{kind}", cell.arrival);
    let mut group = criterion.benchmark_group(name);
    group
        .throughput(Throughput::Elements(rows as u64))
        .sample_size(10);
    group.bench_function(format!("{rows}/{}", cell.store), |bencher| {
        bencher.iter_custom(|iterations| {
            let mut time = Duration::ZERO;
            let mut emitted = Vec::new();
            for _ in 0..iterations {
                engine
                    .prime(&workload)
                    .expect("the store takes the primed rows");
                let start = Instant::now();
                for number in 0..BATCHES {
                    let rows = workload.arriving(number);
                    engine
                        .arrive(&workload, number, rows, true, &mut emitted)
                        .expect("the store takes the arriving rows");
                    emitted.clear();
                }
                time += start.elapsed();
            }
            time
        });
    });
    group.finish();
}

criterion_group!(benches, append_top1);
criterion_main!(benches);
