//! Jobs of several workers that are saved, killed, restored, rescaled, moved between stores and short of
//! memory at random, against a slow model that none of this happens to.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use common::{Draw, batch, schema, text};
use keygroup::{GroupCount, GroupRange, Parallelism, group_of, range_of};
use rank_top1::{Changelog, Emit, OrderBy, RankError, RankRange, RankSpec, Ranker};
use state_codec::checkpoint::{CheckpointDir, CheckpointRef, SectionReader};
use state_codec::{KeyEncoder, MemoryPool, StateBackend};
use state_mem::MemBackend;
use state_rocks::{RocksBackend, RocksOptions, WritePolicy};

/// Sequences of each of the tests below.
const SEQUENCES: u64 = 500;

/// How many times as many sequences to run; 1 if it is not set.
const TIMES: &str = "WEIR_TEST_TIMES";

/// Changes and rows by partition, as text.
type ByKey = BTreeMap<String, Vec<String>>;

#[derive(Clone, Debug)]
struct Row {
    key: String,
    sort: i64,
    payload: String,
}

impl Row {
    fn text(&self) -> String {
        format!("{} {} {}", self.key, self.sort, self.payload)
    }
}

/// What happens to the input.
#[derive(Clone, Debug)]
enum Input {
    Push(Vec<Row>),
    Flush,
    Clock(i64),
}

#[derive(Clone, Copy, Debug)]
struct Query {
    end: u64,
    output_rank: bool,
    mini_batch: bool,
    ttl_ms: Option<i64>,
}

impl Query {
    fn spec(self) -> RankSpec {
        let mut spec = RankSpec::builder(schema())
            .partition_by(["k"])
            .order_by([OrderBy::asc("v")])
            .range(RankRange::at_most(self.end).unwrap());
        if self.output_rank {
            spec = spec.output_rank("rank");
        }
        if self.mini_batch {
            spec = spec.emit(Emit::MiniBatch);
        }
        if let Some(ttl_ms) = self.ttl_ms {
            spec = spec.ttl(Duration::from_millis(ttl_ms as u64));
        }
        spec.build().unwrap()
    }

    fn tells_ranks(self) -> bool {
        self.output_rank || self.end == 1
    }
}

#[derive(Clone, Debug)]
struct Held {
    row: Row,
    write_ms: i64,
}

/// What a partition holds, and what it held when the bundle first touched it.
#[derive(Clone, Debug, Default)]
struct Partition {
    held: Vec<Held>,
    before: Option<Vec<Held>>,
}

/// The model: payloads are unique, so they tell rows apart.
struct Model {
    query: Query,
    now_ms: i64,
    partitions: BTreeMap<String, Partition>,
}

impl Model {
    fn is_live(&self, held: &Held) -> bool {
        let ttl_ms = self.query.ttl_ms;
        ttl_ms.is_none_or(|ttl_ms| held.write_ms + ttl_ms > self.now_ms)
    }

    fn input(&mut self, input: &Input) -> ByKey {
        let mut changes = ByKey::new();
        match input {
            Input::Clock(now_ms) => self.now_ms = *now_ms,
            Input::Push(rows) => {
                for row in rows {
                    let emitted = self.row(row);
                    if !self.query.mini_batch {
                        changes.entry(row.key.clone()).or_default().extend(emitted);
                    }
                }
                if !self.query.mini_batch {
                    self.partitions.values_mut().for_each(|p| p.before = None);
                }
            }
            Input::Flush => {
                let query = self.query;
                for (key, partition) in &mut self.partitions {
                    if let Some(before) = partition.before.take() {
                        let net = net_changes(query, &before, &partition.held);
                        changes.insert(key.clone(), net);
                    }
                }
            }
        }
        changes.retain(|_, changes| !changes.is_empty());
        changes
    }

    fn row(&mut self, row: &Row) -> Vec<String> {
        let mut partition = self.partitions.remove(&row.key).unwrap_or_default();
        if partition.before.is_none() {
            partition.held.retain(|held| self.is_live(held));
            partition.before = Some(partition.held.clone());
        }
        let before = partition.held.clone();
        let place = before.iter().take_while(|held| held.row.sort <= row.sort);
        let place = place.count();
        let mut emitted = Vec::new();
        if (place as u64) < self.query.end {
            let write_ms = self.now_ms;
            let row = row.clone();
            let mut written = vec![row.sort];
            partition.held.insert(place, Held { row, write_ms });
            if partition.held.len() as u64 > self.query.end {
                let gone = partition.held.pop().unwrap();
                if !self.query.tells_ranks() {
                    written.push(gone.row.sort);
                }
            }
            for held in &mut partition.held {
                if written.contains(&held.row.sort) {
                    held.write_ms = write_ms;
                }
            }
            emitted = net_changes(self.query, &before, &partition.held);
        }
        let key = row.key.clone();
        self.partitions.insert(key, partition);
        emitted
    }

    /// What is retained, with ranks and times.
    fn table(&self) -> ByKey {
        let mut table = ByKey::new();
        for (key, partition) in &self.partitions {
            let live = partition.held.iter().filter(|held| self.is_live(held));
            let rows = live.enumerate().map(|(place, held)| {
                let time = match self.query.ttl_ms {
                    Some(_) => held.write_ms.to_string(),
                    None => "null".to_owned(),
                };
                format!("{} {} {time}", held.row.text(), place + 1)
            });
            let rows: Vec<String> = rows.collect();
            if !rows.is_empty() {
                table.insert(key.clone(), rows);
            }
        }
        table
    }
}

/// One accepted row, or a mini-batch, as changes: rank by rank, or rows that went and rows that came.
fn net_changes(query: Query, before: &[Held], after: &[Held]) -> Vec<String> {
    let mut changes = Vec::new();
    let is = |a: &Held, b: &Held| a.row.payload == b.row.payload;
    if !query.tells_ranks() {
        let absent = |from: &[Held], held: &Held| !from.iter().any(|other| is(other, held));
        let gone = before.iter().filter(|held| absent(after, held));
        changes.extend(gone.map(|held| format!("-D {}", held.row.text())));
        let came = after.iter().filter(|held| absent(before, held));
        changes.extend(came.map(|held| format!("+I {}", held.row.text())));
        return changes;
    }
    for (place, new) in after.iter().enumerate() {
        let rank = if query.output_rank {
            format!(" {}", place + 1)
        } else {
            String::new()
        };
        match before.get(place) {
            None => changes.push(format!("+I {}{rank}", new.row.text())),
            Some(old) if !is(old, new) => {
                changes.push(format!("-U {}{rank}", old.row.text()));
                changes.push(format!("+U {}{rank}", new.row.text()));
            }
            Some(_) => {}
        }
    }
    changes
}

/// A ranker over either store.
#[expect(clippy::large_enum_variant, reason = "there are three at a time")]
enum Worker {
    Memory(Ranker<MemBackend>, MemBackend),
    Rocks(Ranker<RocksBackend>, RocksBackend),
}

/// Evaluates an expression for the ranker and backend of either kind.
macro_rules! with {
    ($worker:expr, $ranker:ident, $backend:ident, $body:expr) => {
        match $worker {
            Worker::Memory($ranker, $backend) => $body,
            Worker::Rocks($ranker, $backend) => $body,
        }
    };
}

impl Worker {
    /// Pushes or flushes, while another holder has taken all memory but `room`, if that is given. What the
    /// budget refuses is tried again when it is back.
    fn input(&mut self, rows: Option<&[Row]>, room: Option<usize>) -> Option<Changelog> {
        let rows = rows.map(|rows| {
            let rows: Vec<String> = rows.iter().map(Row::text).collect();
            batch(&rows.join("; "))
        });
        with!(self, ranker, backend, {
            let pool = backend.pool();
            let mut other = pool.reserve("other");
            if let Some(room) = room {
                let free = pool.limit_bytes() - pool.used_bytes();
                other.try_resize(free.saturating_sub(room)).unwrap();
            }
            let mut once = || match &rows {
                Some(rows) => ranker.push(rows),
                None => ranker.flush(),
            };
            let changes = match once() {
                Ok(changes) => changes,
                Err(error) => {
                    assert!(error.denied().is_some(), "{error:?}");
                    other.try_resize(0).unwrap();
                    match error {
                        RankError::Write(_) => ranker.flush().unwrap(),
                        _ => once().unwrap(),
                    }
                }
            };
            drop(other);
            assert_eq!(ranker.charged_bytes(), pool.used_bytes());
            assert_eq!(ranker.metrics().held_bytes, pool.used_bytes() as u64);
            changes
        })
    }

    fn advance_clock(&mut self, now_ms: i64) {
        with!(self, ranker, _backend, ranker.advance_clock(now_ms));
    }
}

/// How the workers of a job keep their state.
#[derive(Clone, Copy, Debug)]
struct Setup {
    workers: u32,
    rocks: bool,
    general: bool,
    cache_bytes: usize,
    write_back: bool,
}

impl Setup {
    fn draw(draw: &mut Draw, rocks_too: bool) -> Self {
        Self {
            workers: 1 + draw.below(3) as u32,
            rocks: rocks_too && draw.one_in(2),
            general: draw.one_in(3),
            cache_bytes: [0, 500, 1 << 20][draw.below(3)],
            write_back: draw.one_in(2),
        }
    }
}

fn groups() -> GroupCount {
    GroupCount::new(16).unwrap()
}

/// A complete checkpoint of every worker.
#[derive(Clone, Debug)]
struct Saved {
    parts: Vec<CheckpointRef>,
    native: bool,
    now_ms: i64,
}

struct Job {
    root: PathBuf,
    query: Query,
    setup: Setup,
    workers: Vec<(GroupRange, Worker)>,
    keys: KeyEncoder,
    opened: u64,
}

impl Job {
    fn start(&mut self, setup: Setup, saved: &Saved) {
        self.workers.clear(); // a directory is opened once
        self.setup = setup;
        let parallelism = Parallelism::new(setup.workers).unwrap();
        for worker in 0..setup.workers {
            let range = range_of(worker, groups(), parallelism).unwrap();
            self.opened += 1;
            let name = format!("state-{}", self.opened);
            let pool = MemoryPool::new(4 << 20);
            let mut worker = if setup.rocks {
                let options = RocksOptions {
                    cache_bytes: setup.cache_bytes,
                    write_policy: if setup.write_back {
                        WritePolicy::Back { limit_bytes: 2000 }
                    } else {
                        WritePolicy::Through
                    },
                    write_buffer_bytes: 64 << 10,
                    block_cache_bytes: 1 << 20,
                    ..RocksOptions::default()
                };
                let backend = RocksBackend::new(self.root.join("stores"), groups())
                    .with_options(options)
                    .with_pool(pool);
                let ranker = if saved.native {
                    Ranker::restore_native(self.query.spec(), &backend, &name, &saved.parts, range)
                } else {
                    restored(
                        setup.general,
                        self.query,
                        &backend,
                        &name,
                        &saved.parts,
                        range,
                    )
                };
                Worker::Rocks(ranker.unwrap(), backend)
            } else {
                let backend = MemBackend::new(groups()).with_pool(pool);
                let ranker = restored(
                    setup.general,
                    self.query,
                    &backend,
                    &name,
                    &saved.parts,
                    range,
                );
                Worker::Memory(ranker.unwrap(), backend)
            };
            worker.advance_clock(saved.now_ms);
            self.workers.push((range, worker));
        }
    }

    /// Drives an input through the workers. Returns what they emit.
    fn input(&mut self, input: &Input, room: Option<usize>) -> ByKey {
        let mut emitted = ByKey::new();
        match input {
            Input::Clock(now_ms) => {
                for (_, worker) in &mut self.workers {
                    worker.advance_clock(*now_ms);
                }
            }
            Input::Flush => {
                for (_, worker) in &mut self.workers {
                    collect(worker.input(None, room), &mut emitted);
                }
            }
            Input::Push(rows) => {
                for (range, worker) in &mut self.workers {
                    let rows = rows.iter().filter(|row| {
                        let mut key = state_codec::KeyBatch::default();
                        let batch = batch(&row.text());
                        self.keys.encode(batch.columns(), 1, &mut key).unwrap();
                        let mut key_row = Vec::new();
                        key.write_key_row(0, &mut key_row);
                        range.contains(group_of(&key_row, groups()))
                    });
                    let rows: Vec<Row> = rows.cloned().collect();
                    if !rows.is_empty() {
                        collect(worker.input(Some(&rows), room), &mut emitted);
                    }
                }
            }
        }
        emitted
    }

    /// Saves every worker between bundles; a canonical checkpoint has what the model holds.
    fn save(&mut self, id: u64, native: bool, model: &Model) -> Saved {
        let native = native && self.setup.rocks;
        let mut parts = Vec::new();
        let mut table = ByKey::new();
        for (number, (range, worker)) in self.workers.iter_mut().enumerate() {
            let path = self.root.join(format!("saved-{number}"));
            let dir = CheckpointDir::open(&path).unwrap();
            match worker {
                Worker::Memory(ranker, _) => write(ranker, &dir, id, *range),
                Worker::Rocks(ranker, backend) if native => {
                    ranker.checkpoint(backend, &dir, id, *range).unwrap();
                }
                Worker::Rocks(ranker, _) => write(ranker, &dir, id, *range),
            }
            let part = CheckpointRef { dir: path, id };
            if !native {
                read(&part, self.query, &mut table);
            }
            parts.push(part);
        }
        if !native {
            assert_eq!(table, model.table());
        }
        Saved {
            parts,
            native,
            now_ms: model.now_ms,
        }
    }
}

fn restored<B: StateBackend>(
    general: bool,
    query: Query,
    backend: &B,
    name: &str,
    parts: &[CheckpointRef],
    range: GroupRange,
) -> Result<Ranker<B>, RankError<B::Error>> {
    let restore = if general {
        Ranker::restore_general
    } else {
        Ranker::restore
    };
    restore(query.spec(), backend, name, parts, range)
}

/// Writes the state on another thread.
fn write<B>(ranker: &mut Ranker<B>, dir: &CheckpointDir, id: u64, range: GroupRange)
where
    B: StateBackend,
    rank_top1::FrozenRanker<B>: Send,
    B::Error: std::fmt::Debug,
{
    let mut view = ranker.freeze().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || view.write(dir, id, range).unwrap());
    });
}

/// Adds the rows of a checkpoint's sections to a table.
fn read(part: &CheckpointRef, query: Query, table: &mut ByKey) {
    let spec = query.spec();
    let mut reader = SectionReader::open(part, spec.fingerprint(), groups()).unwrap();
    let sections = reader.manifest().sections.clone();
    for section in sections {
        let schema = reader.schema(section.group).unwrap().unwrap();
        let batches = reader.section(section.group, &schema).unwrap().unwrap();
        for batch in batches {
            let batch = batch.unwrap();
            let ranked = query.end > 1;
            assert_eq!(batch.num_columns(), 4 + usize::from(ranked));
            for row in 0..batch.num_rows() {
                let text = |column: usize| match batch.column(column) {
                    column if column.is_null(row) => "null".to_owned(),
                    column => match column.as_primitive_opt::<Int64Type>() {
                        Some(numbers) => numbers.value(row).to_string(),
                        None => column.as_string::<i32>().value(row).to_owned(),
                    },
                };
                let rank = if ranked { text(3) } else { "1".to_owned() };
                let time = text(3 + usize::from(ranked));
                let line = format!("{} {} {} {rank} {time}", text(0), text(1), text(2));
                table.entry(text(0)).or_default().push(line);
            }
        }
    }
}

fn collect(changelog: Option<Changelog>, emitted: &mut ByKey) {
    for line in text(changelog).lines() {
        let key = line.split(' ').nth(1).unwrap().to_owned();
        emitted.entry(key).or_default().push(line.to_owned());
    }
}

fn rows(draw: &mut Draw, next_payload: &mut u64) -> Vec<Row> {
    let count = 1 + draw.below(8);
    (0..count)
        .map(|_| {
            *next_payload += 1;
            let key = match draw.below(10) {
                0 => "null".to_owned(),
                number => format!("key-{}", "x".repeat(number)),
            };
            Row {
                key,
                sort: draw.below(6) as i64,
                payload: format!("p{next_payload}"),
            }
        })
        .collect()
}

fn sequence(seed: u64, rocks_too: bool, root: &Path) {
    let draw = &mut Draw(seed);
    let end = [1, 1, 2, 3][draw.below(4)];
    let query = Query {
        end,
        output_rank: draw.one_in(3),
        mini_batch: draw.one_in(2),
        ttl_ms: draw.one_in(2).then_some(100),
    };
    let mut model = Model {
        query,
        now_ms: 0,
        partitions: BTreeMap::new(),
    };
    let fields = schema().fields().clone();
    let mut job = Job {
        root: root.to_owned(),
        query,
        setup: Setup::draw(draw, rocks_too),
        workers: Vec::new(),
        keys: KeyEncoder::new(&fields, &[0]).unwrap(),
        opened: 0,
    };
    let mut saved = Saved {
        parts: Vec::new(),
        native: false,
        now_ms: 0,
    };
    job.start(job.setup, &saved);
    // What came since the last checkpoint, and what was emitted for it.
    let mut since: Vec<(Input, ByKey)> = Vec::new();
    let (mut id, mut next_payload) = (0, 0);
    for step in 0..40 {
        let input = match draw.below(12) {
            0..6 => Input::Push(rows(draw, &mut next_payload)),
            6 => Input::Flush,
            7 => Input::Clock(model.now_ms + draw.below(80) as i64),
            8..10 => {
                // A checkpoint is between bundles.
                let flush = Input::Flush;
                assert_eq!(
                    job.input(&flush, None),
                    model.input(&flush),
                    "{seed} {step}"
                );
                id += 1;
                saved = job.save(id, draw.one_in(2), &model);
                since.clear();
                if draw.one_in(2) {
                    continue;
                }
                // And from it the job goes on with other workers, or another store.
                let setup = Setup {
                    rocks: saved.native || (rocks_too && draw.one_in(2)),
                    ..Setup::draw(draw, rocks_too)
                };
                job.start(setup, &saved);
                continue;
            }
            _ => {
                // A crash, wherever the job is; the input since the checkpoint comes again.
                let setup = Setup {
                    rocks: saved.native || (rocks_too && draw.one_in(2)),
                    ..Setup::draw(draw, rocks_too)
                };
                job.start(setup, &saved);
                for (number, (input, expected)) in since.iter().enumerate() {
                    let emitted = job.input(input, None);
                    assert_eq!(&emitted, expected, "{seed} {step}, again {number}");
                }
                continue;
            }
        };
        let expected = model.input(&input);
        let room = draw.one_in(4).then(|| draw.below(3000));
        let emitted = job.input(&input, room);
        assert_eq!(emitted, expected, "{seed} {step} {query:?} {:?}", job.setup);
        since.push((input, expected));
    }
    let flush = Input::Flush;
    assert_eq!(job.input(&flush, None), model.input(&flush), "{seed}");
    job.save(id + 1, false, &model);
}

/// A directory in memory where there is one: thousands of checkpoints are synced.
fn scratch() -> tempfile::TempDir {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn sequences(first: u64, rocks_too: bool) {
    let times = std::env::var(TIMES).map_or(1, |times| times.parse().unwrap());
    for number in 0..SEQUENCES * times {
        let root = scratch();
        sequence(first + 4 * number, rocks_too, root.path());
    }
}

#[test]
fn jobs_in_memory_are_the_model() {
    sequences(0, false);
}

#[test]
fn more_jobs_in_memory_are_the_model() {
    sequences(1, false);
}

#[test]
fn jobs_between_memory_and_rocksdb_are_the_model() {
    sequences(2, true);
}

#[test]
fn more_jobs_between_memory_and_rocksdb_are_the_model() {
    sequences(3, true);
}
