//! What reaches the store: rejected rows encode and write nothing, and a bundle writes each changed
//! winner once.

#[macro_use]
mod common;

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{View, batch, open, run, spec, text};
use keygroup::GroupCount;
use rank_top1::{Emit, RankRange, Ranker};
use state_codec::{
    DecodeError, KeyBatch, KeyedState, MemoryPool, Slot, Snapshot, SnapshotView, StateBackend,
    StateCodec, StateValue, StoreMetrics, StoredExpiry,
};
use state_rocks::{RocksBackend, RocksError, RocksOptions, RocksState, WritePolicy};

/// Counts the values that are encoded.
#[derive(Clone, Debug)]
struct CountingCodec<C> {
    codec: C,
    encoded: Arc<AtomicU64>,
}

impl<V, C: StateCodec<V>> StateCodec<V> for CountingCodec<C> {
    fn encode_into(&self, value: &V, out: &mut Vec<u8>) {
        self.encoded.fetch_add(1, Ordering::Relaxed);
        self.codec.encode_into(value, out);
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, DecodeError> {
        self.codec.decode(bytes)
    }

    fn heap_bytes(&self, value: &V) -> usize {
        self.codec.heap_bytes(value)
    }

    fn expires_at_ms(&self, value: &V) -> i64 {
        self.codec.expires_at_ms(value)
    }

    fn stored_expiry(&self) -> Option<StoredExpiry> {
        self.codec.stored_expiry()
    }
}

/// What a store has done so far.
#[derive(Clone, Debug, Default)]
struct Counts {
    encoded: Arc<AtomicU64>,
    metrics: Arc<Mutex<StoreMetrics>>,
}

impl Counts {
    fn encoded(&self) -> u64 {
        self.encoded.load(Ordering::Relaxed)
    }

    fn metrics(&self) -> StoreMetrics {
        *self.metrics.lock().unwrap()
    }
}

/// RocksDB with the counts taken out.
struct CountedBackend {
    backend: RocksBackend,
    counts: Counts,
}

struct CountedState<V, C: StateCodec<V>> {
    state: RocksState<V, CountingCodec<C>>,
    counts: Counts,
}

impl StateBackend for CountedBackend {
    type Error = RocksError;
    type State<V, C>
        = CountedState<V, C>
    where
        V: StateValue,
        C: StateCodec<V>;

    fn groups(&self) -> GroupCount {
        self.backend.groups()
    }

    fn pool(&self) -> &MemoryPool {
        self.backend.pool()
    }

    fn open<V, C>(&self, name: &str, codec: C) -> Result<CountedState<V, C>, RocksError>
    where
        V: StateValue,
        C: StateCodec<V>,
    {
        let codec = CountingCodec {
            codec,
            encoded: Arc::clone(&self.counts.encoded),
        };
        let state = self.backend.open(name, codec)?;
        Ok(CountedState {
            state,
            counts: self.counts.clone(),
        })
    }
}

impl<V: StateValue, C: StateCodec<V>> KeyedState<V> for CountedState<V, C> {
    forward_all_but_end_bundle!(RocksError);

    fn end_bundle(&mut self) -> Result<(), RocksError> {
        self.state.end_bundle()?;
        *self.counts.metrics.lock().unwrap() = self.state.metrics();
        Ok(())
    }
}

impl<V: StateValue, C: StateCodec<V>> Snapshot<V> for CountedState<V, C> {
    forward_snapshot!(RocksError, RocksState<V, CountingCodec<C>>);
}

fn backend() -> (tempfile::TempDir, CountedBackend) {
    let directory = tempfile::tempdir().unwrap();
    // Without a cache, so that each bundle reads what it needs.
    let options = RocksOptions {
        cache_bytes: 0,
        ..RocksOptions::default()
    };
    let backend =
        RocksBackend::new(directory.path(), GroupCount::new(128).unwrap()).with_options(options);
    (
        directory,
        CountedBackend {
            backend,
            counts: Counts::default(),
        },
    )
}

const PRIMING: &str = "a 5 a1; b 5 b1; c 5 c1; null null n1";
const REJECTED: &str = "a 5 x; b 6 x; c 9 x; null null x; a 7 x; b 5 x; null 0 x";

#[test]
fn rejected_rows_write_nothing_whatever_is_kept_and_with_a_time_to_live() {
    let plain = RocksOptions::default;
    let kept = [
        (64 << 20, WritePolicy::Through, usize::MAX),
        (300, WritePolicy::Through, usize::MAX),
        (64 << 20, WritePolicy::Through, 12 << 10), // a budget in which no cache has room
        (64 << 20, WritePolicy::Back { limit_bytes: 300 }, usize::MAX),
    ];
    for general in [false, true] {
        for (cache_bytes, write_policy, budget_bytes) in kept {
            for ttl in [Duration::ZERO, Duration::from_secs(1000)] {
                let (_directory, mut backend) = backend();
                let options = RocksOptions {
                    cache_bytes,
                    write_policy,
                    kept_buffer_bytes: 0,
                    ..plain()
                };
                backend.backend = backend
                    .backend
                    .with_options(options)
                    .with_pool(MemoryPool::new(budget_bytes));
                let spec = spec().ttl(ttl).build().unwrap();
                let mut ranker = open(general, spec, &backend, "test").unwrap();
                ranker.advance_clock(1);
                run(&mut ranker, &[PRIMING]);
                ranker.freeze().unwrap(); // writes what waits
                let primed = (backend.counts.encoded(), ranker.metrics().store);
                for now_ms in 2..52 {
                    ranker.advance_clock(now_ms);
                    assert_eq!(run(&mut ranker, &[REJECTED]), "");
                }
                let replayed = (backend.counts.encoded(), ranker.metrics().store);
                assert_eq!(replayed.0, primed.0, "values encoded");
                assert_eq!(replayed.1.writes, primed.1.writes);
                assert_eq!(replayed.1.written_bytes, primed.1.written_bytes);
                assert_eq!(replayed.1.deletes, 0);
            }
        }
    }
}

#[test]
fn rejected_rows_encode_and_write_nothing() {
    for general in [false, true] {
        for emit in [Emit::Immediate, Emit::MiniBatch] {
            let (_directory, backend) = backend();
            let spec = spec().emit(emit).build().unwrap();
            let mut ranker = open(general, spec, &backend, "test").unwrap();
            run(&mut ranker, &[PRIMING]);
            let primed = (backend.counts.encoded(), backend.counts.metrics());
            assert_eq!(primed.0, 4);
            assert_eq!(primed.1.writes, 4);
            for _ in 0..50 {
                assert_eq!(run(&mut ranker, &[REJECTED]), "");
            }
            let replayed = (backend.counts.encoded(), backend.counts.metrics());
            assert_eq!(replayed.0, primed.0, "values encoded");
            assert_eq!(replayed.1.writes, primed.1.writes);
            assert_eq!(replayed.1.written_bytes, primed.1.written_bytes);
            assert_eq!(replayed.1.write_batches, primed.1.write_batches);
            assert_eq!(
                replayed.1.reads,
                primed.1.reads + 50 * 4,
                "each distinct key once a bundle"
            );
        }
    }
}

#[test]
fn a_bundle_writes_each_changed_winner_once() {
    for general in [false, true] {
        let (_directory, backend) = backend();
        let mut ranker = open(general, spec().build().unwrap(), &backend, "test").unwrap();
        run(&mut ranker, &[PRIMING]);
        let before = (backend.counts.encoded(), backend.counts.metrics().writes);
        // a improves three times, b once, c never.
        ranker
            .push(&batch("a 4 a2; b 4 b2; a 3 a3; c 8 x; a 2 a4; b 9 x"))
            .unwrap();
        let after = (backend.counts.encoded(), backend.counts.metrics().writes);
        assert_eq!(after, (before.0 + 2, before.1 + 2));
    }
}

#[test]
fn a_mini_batch_over_several_batches_writes_each_changed_winner_once() {
    for general in [false, true] {
        let (_directory, backend) = backend();
        let spec = spec().emit(Emit::MiniBatch).build().unwrap();
        let mut ranker = open(general, spec, &backend, "test").unwrap();
        for i in 0..20 {
            ranker
                .push(&batch(&format!("a {} a; b {} b; c 5 c", 50 - i, 90 - i)))
                .unwrap();
        }
        assert_eq!(
            (backend.counts.encoded(), backend.counts.metrics().writes),
            (0, 0)
        );
        assert_eq!(
            text(ranker.flush().unwrap()),
            "+I a 31 a\n+I b 71 b\n+I c 5 c"
        );
        assert_eq!(
            (backend.counts.encoded(), backend.counts.metrics().writes),
            (3, 3)
        );
    }
}

#[test]
fn state_outlives_the_ranker_and_is_read_by_the_other_one() {
    for (first, second) in [(false, true), (true, false), (false, false), (true, true)] {
        let (_directory, backend) = backend();
        let open =
            |general: bool| open(general, spec().build().unwrap(), &backend, "test").unwrap();
        run(&mut open(first), &[PRIMING]);
        assert_eq!(
            run(
                &mut open(second),
                &[REJECTED, "a 1 a2; null null x; d 1 d1"]
            ),
            "-U a 5 a1\n+U a 1 a2\n+I d 1 d1"
        );
    }
}

#[test]
fn stored_bytes_have_the_documented_layout() {
    for general in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let backend = RocksBackend::new(directory.path(), GroupCount::new(128).unwrap());
        let mut ranker = open(general, spec().build().unwrap(), &backend, "test").unwrap();
        run(&mut ranker, &["key 7 payload"]);
        drop(ranker);
        assert_eq!(
            stored(&backend),
            [(
                "00000000000000006b65790000000083".to_owned(),
                // Version, length of the row, then the row: header, "key", 7, "payload".
                "01\
                 20000000\
                 0000000000000000\
                 6b65790000000083\
                 0700000000000000\
                 7061796c6f616487"
                    .to_owned()
            )]
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let backend = RocksBackend::new(directory.path(), GroupCount::new(128).unwrap());
    let top_2 = spec()
        .range(RankRange::at_most(2).unwrap())
        .build()
        .unwrap();
    run(
        &mut Ranker::open(top_2, &backend, "test").unwrap(),
        &["a 2 x; a 1 y; a 3 z"],
    );
    let row = |sort: &str, payload: &str| {
        format!(
            "2000000000000000000000006100000000000081{sort}00000000000000{payload}00000000000081"
        )
    };
    assert_eq!(
        stored(&backend)[0].1,
        format!("01{}{}", row("01", "79"), row("02", "78"))
    );
}

/// Keys and values of the state `test`, as hex.
fn stored(backend: &RocksBackend) -> Vec<(String, String)> {
    /// Values as their bytes.
    #[derive(Clone)]
    struct Raw;
    impl StateCodec<Vec<u8>> for Raw {
        fn encode_into(&self, value: &Vec<u8>, out: &mut Vec<u8>) {
            out.extend_from_slice(value);
        }
        fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
            Ok(bytes.to_vec())
        }
        fn heap_bytes(&self, value: &Vec<u8>) -> usize {
            value.capacity()
        }
    }
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let mut state = backend.open::<Vec<u8>, _>("test", Raw).unwrap();
    let mut entries = Vec::new();
    let all = GroupCount::new(128).unwrap().all();
    let mut view = state.freeze().unwrap();
    view.scan(all, &mut |_, key, value: &Vec<u8>| {
        entries.push((hex(key), hex(value)));
        ControlFlow::Continue(())
    })
    .unwrap();
    entries
}
