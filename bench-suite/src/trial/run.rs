//! How samples are taken: first the answers are checked and the speed is estimated, then the engines
//! take turns.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use rank_top1::{Changelog, RankSpec};
use state_codec::StateBackend;

use crate::conform::Changes;
use crate::flights;
use crate::stores::Store;
use crate::trial::TrialError;
use crate::trial::calendar;
use crate::trial::cell::{Arrival, Cell};
use crate::trial::engine::{
    Answer, Engine, EngineKind, OpenStore, Ranking, engine, open_memory, open_rocks, rank_error,
};
use crate::trial::measures::Measures;
use crate::trial::outcome::{Outcome, Problem, Samples};
#[cfg(feature = "peers")]
use crate::trial::peers;
use crate::trial::suite::Trial;
use crate::trial::sustained;
use crate::trial::window;
use crate::trial::workload::{Workload, boxed};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Samples of each engine in each trial.
    pub samples: usize,
    /// What a trial may take. An estimate sees to it that it is kept, as far as the least amounts of
    /// work allow.
    pub time_per_trial: Duration,
    /// Whether peers take turns with Weir's engines where they can. It takes a build with the feature `peers`.
    pub peers: bool,
}

/// The shortest sample that is wanted of the fastest engine, if the time allows.
const SAMPLE_TIME: Duration = Duration::from_millis(20);

/// Runs one trial.
///
/// # Errors
///
/// [`TrialError`] where the trial cannot be run. A wrong answer is an outcome.
pub fn run(
    trial: Trial,
    effort: Effort,
    flights: &mut Flights,
) -> Result<Vec<Outcome>, TrialError> {
    match trial {
        Trial::Flights(store) => run_flights(store, effort, flights),
        Trial::AppendTop1(cell) => run_cell(cell, effort),
        Trial::Calendar(cell) => calendar::run_cell(cell, effort),
        Trial::Sustained(sustained) => sustained::run_cell(sustained),
        Trial::Windows(cell) => window::run_cell(cell, effort),
        Trial::FlightWindows(windows, store) => {
            window::run_flights(windows, store, effort, flights.all_columns()?)
        }
    }
}

fn run_cell(cell: Cell, effort: Effort) -> Result<Vec<Outcome>, TrialError> {
    let make = |batches| {
        Workload::new(cell, batches).map_err(|error| TrialError::Workload {
            cell: Trial::AppendTop1(cell).to_string(),
            source: boxed(error),
        })
    };
    let warmup = make(warmup_batches(cell))?;
    let mut warmed = Vec::new();
    for kind in kinds(&cell, effort) {
        warmed.push(Warmed::new(kind, &warmup)?);
    }
    if let Some(outcomes) = wrong_answers(cell, &warmup, &warmed) {
        return Ok(outcomes);
    }
    let batches = match cell.rows {
        Some(rows) => rows.div_ceil(cell.batch_rows),
        None => sample_batches(cell, effort, &warmed),
    };
    drop(warmed);

    let workload = make(batches)?;
    let expected = workload.expected_changes(batches);
    let mut engines = Vec::new();
    for kind in kinds(&cell, effort) {
        let mut engine = engine(kind, &workload)?;
        engine.prime(&workload)?;
        if !cell.arrival.changes_state() {
            sample_of(engine.as_mut(), &workload, batches)?;
        }
        engines.push((kind, engine, Vec::new(), None));
    }
    for sample in 0..effort.samples {
        for (kind, engine, nanos, wrong) in &mut engines {
            // Rejected rows leave the state as it was; the others need it made anew.
            if sample > 0 && cell.arrival.changes_state() {
                engine.prime(&workload)?;
            }
            let (time, changes) = sample_of(engine.as_mut(), &workload, batches)?;
            nanos.push(time.as_nanos() as u64);
            if *kind != EngineKind::Floor && changes != expected {
                let problem = format!("{changes} changes where {expected} are right");
                *wrong = Some(Problem::Wrong(problem));
            }
        }
    }
    let rows = (batches * cell.batch_rows) as u64;
    let mut outcomes = Vec::new();
    for (engine, mut measured, nanos, wrong) in engines {
        let measures = count(measured.as_mut(), &workload, batches)?;
        outcomes.push(Outcome {
            workload: cell.to_string(),
            store: Some(cell.store),
            engine,
            result: wrong.map_or(Ok(Samples::of(rows, &nanos)), Err),
            measures: Some(measures),
        });
    }
    #[cfg(feature = "peers")]
    if effort.peers && peers::can_rank(&cell) {
        outcomes.push(peers::polars(&workload, batches, effort.samples)?);
    }
    Ok(outcomes)
}

/// What takes turns in a cell.
fn kinds(cell: &Cell, effort: Effort) -> Vec<EngineKind> {
    #[cfg(feature = "peers")]
    if effort.peers && peers::can_rank(cell) {
        return vec![
            EngineKind::Top1,
            EngineKind::General,
            EngineKind::Floor,
            EngineKind::Differential,
        ];
    }
    #[cfg(not(feature = "peers"))]
    let _ = (cell, effort);
    EngineKind::ALL.to_vec()
}

/// Most batches of the pass that counts.
const COUNTED_BATCHES: usize = 16;

/// What the engine allocates, reads and writes for the first batches, from the state that rows arrive at.
fn count(
    engine: &mut dyn Engine,
    workload: &Workload,
    batches: usize,
) -> Result<Measures, TrialError> {
    engine.prime(workload)?;
    let batches = batches.min(COUNTED_BATCHES);
    let rows = (batches * workload.cell().batch_rows) as u64;
    let before = engine.told();
    let counted = Measures::of(rows, || sample_of(engine, workload, batches).map(|_| ()))?;
    Ok(match (before, engine.told()) {
        (Some(before), Some(after)) => counted.with_told(before, after),
        _ => counted,
    })
}

/// Time and changes of one sample.
fn sample_of(
    engine: &mut dyn Engine,
    workload: &Workload,
    batches: usize,
) -> Result<(Duration, u64), TrialError> {
    let bundle = workload.cell().bundle_batches();
    let mut emitted = Vec::new();
    let mut changes = 0;
    let counted = engine.counted_changes();
    let start = Instant::now();
    for number in 0..batches {
        engine.arrive(
            workload,
            number,
            workload.arriving(number),
            (number + 1).is_multiple_of(bundle),
            &mut emitted,
        )?;
        changes += emitted
            .drain(..)
            .map(|changelog| changelog.len() as u64)
            .sum::<u64>();
    }
    let spent = start.elapsed();
    Ok((spent, changes + engine.counted_changes() - counted))
}

/// An engine's answer to the first batches, and how long it took for them.
struct Warmed {
    kind: EngineKind,
    answer: Answer,
    priming: Duration,
    per_batch: Duration,
}

impl Warmed {
    fn new(kind: EngineKind, workload: &Workload) -> Result<Self, TrialError> {
        let bundle = workload.cell().bundle_batches();
        let batches = warmup_batches(workload.cell());
        let mut engine = engine(kind, workload)?;
        let start = Instant::now();
        engine.prime(workload)?;
        let priming = start.elapsed();
        let mut answer = Answer::default();
        let mut time = Duration::ZERO;
        let mut emitted = Vec::new();
        for number in 0..batches {
            let ends_bundle = (number + 1).is_multiple_of(bundle);
            let start = Instant::now();
            let rows = workload.arriving(number);
            engine.arrive(workload, number, rows, ends_bundle, &mut emitted)?;
            time += start.elapsed();
            for changelog in emitted.drain(..) {
                answer.add(&changelog)?;
            }
        }
        if !workload.cell().arrival.changes_state() {
            // How long it takes once what can be cached is.
            time = sample_of(engine.as_mut(), workload, batches)?.0;
        }
        Ok(Self {
            kind,
            answer,
            priming,
            per_batch: time / batches as u32,
        })
    }
}

/// Whole bundles, enough to see every key of the smaller cells.
fn warmup_batches(cell: Cell) -> usize {
    match cell.store {
        Store::Memory => 8 * Cell::BUNDLE_BATCHES,
        Store::Rocks => 2 * Cell::BUNDLE_BATCHES,
    }
}

/// Outcomes without a time, if the rankers disagree with what is expected or with each other.
fn wrong_answers(cell: Cell, workload: &Workload, warmed: &[Warmed]) -> Option<Vec<Outcome>> {
    let expected = workload.expected_changes(warmup_batches(cell));
    let rankers = || {
        warmed
            .iter()
            .filter(|warmed| EngineKind::RANKERS.contains(&warmed.kind))
    };
    let agree = rankers().all(|warmed| Some(warmed.answer) == rankers().next().map(|w| w.answer));
    if agree && rankers().all(|warmed| warmed.answer.changes == expected) {
        return None;
    }
    let outcomes = rankers().map(|warmed| Outcome {
        workload: cell.to_string(),
        store: Some(cell.store),
        engine: warmed.kind,
        result: Err(Problem::Wrong(format!(
            "{}, where {expected} changes are right",
            warmed.answer
        ))),
        measures: None,
    });
    Some(outcomes.collect())
}

/// Batches of a sample: as many as make the fastest engine's sample long enough, no more than the
/// trial's time has room for, in whole bundles.
fn sample_batches(cell: Cell, effort: Effort, warmed: &[Warmed]) -> usize {
    let fastest = warmed
        .iter()
        .map(|warmed| warmed.per_batch)
        .min()
        .unwrap_or_default();
    let together: Duration = warmed.iter().map(|warmed| warmed.per_batch).sum();
    let priming: Duration = warmed.iter().map(|warmed| warmed.priming).sum();
    let primings = match cell.arrival {
        Arrival::Rejected => 1,
        Arrival::Improving | Arrival::Fresh | Arrival::Mixed => effort.samples as u32,
    };
    let room = effort.time_per_trial.saturating_sub(priming * primings);
    let wanted = times(SAMPLE_TIME, fastest);
    let affordable = times(room, together * effort.samples as u32);
    // What fits in memory: rejected rows are replayed, all others are made beforehand, and for
    // RocksDB once more as the bytes that its floor writes.
    let most_rows = match (cell.arrival, cell.store) {
        (Arrival::Rejected, _) => 32 << 20,
        (_, Store::Memory) => 1 << 20,
        (_, Store::Rocks) => 1 << 18,
    };
    let most = most_rows / cell.batch_rows;
    let batches = wanted.min(affordable).clamp(2 * Cell::BUNDLE_BATCHES, most);
    batches.next_multiple_of(Cell::BUNDLE_BATCHES)
}

fn times(whole: Duration, part: Duration) -> usize {
    (whole.as_nanos() / part.as_nanos().max(1)) as usize + 1
}

/// The flights and their changelog, read when the first trial needs them.
#[derive(Debug, Default)]
pub struct Flights {
    read: Option<(Vec<RecordBatch>, Changes)>,
    all_columns: Option<Vec<RecordBatch>>,
}

impl Flights {
    fn get(&mut self) -> Result<&(Vec<RecordBatch>, Changes), TrialError> {
        if self.read.is_none() {
            let batches = flights::read(&flights::repository_data())?;
            let recorded = flights::read_changelog(&flights::repository_changelog())?;
            self.read = Some((batches, Changes::new(recorded.kinds, recorded.rows)));
        }
        Ok(self.read.as_ref().expect("the flights were read just now"))
    }

    fn all_columns(&mut self) -> Result<&[RecordBatch], TrialError> {
        if self.all_columns.is_none() {
            self.all_columns = Some(flights::read_all(&flights::repository_data())?);
        }
        Ok(self.all_columns.as_deref().unwrap_or_default())
    }
}

fn run_flights(
    store: Store,
    effort: Effort,
    flights: &mut Flights,
) -> Result<Vec<Outcome>, TrialError> {
    let (batches, recorded) = flights.get()?;
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let mut results = EngineKind::RANKERS.map(|kind| (kind, Ok(Vec::new())));
    // The first sample of each warms up and is not kept.
    for sample in 0..=effort.samples {
        for (kind, result) in &mut results {
            let Ok(nanos) = result else { continue };
            let (time, emitted) = match store {
                Store::Memory => rank_flights(*kind, store, open_memory, batches)?,
                Store::Rocks => rank_flights(*kind, store, open_rocks, batches)?,
            };
            match Changes::of_changelogs(&emitted, &flights::schema())?.difference(recorded) {
                Some(difference) => *result = Err(difference.replace('\n', ", ")),
                None if sample > 0 => nanos.push(time.as_nanos() as u64),
                None => {}
            }
        }
    }
    let outcomes = results.into_iter().map(|(engine, result)| Outcome {
        workload: Trial::Flights(store).workload(),
        store: Some(store),
        engine,
        result: result
            .map(|nanos| Samples::of(rows, &nanos))
            .map_err(Problem::Wrong),
        measures: None,
    });
    Ok(outcomes.collect())
}

fn rank_flights<B: StateBackend>(
    kind: EngineKind,
    store: Store,
    open_store: OpenStore<B>,
    batches: &[RecordBatch],
) -> Result<(Duration, Vec<Changelog>), TrialError> {
    let cell = Trial::Flights(store).to_string();
    let spec: RankSpec = flights::spec().map_err(|error| TrialError::Workload {
        cell: cell.clone(),
        source: boxed(error),
    })?;
    let mut ranking = Ranking::open(kind, spec, open_store, &cell)?;
    let mut emitted = Vec::new();
    let start = Instant::now();
    for batch in batches {
        emitted.extend(
            ranking
                .ranker
                .push(batch)
                .map_err(|error| rank_error(&cell, kind, error))?,
        );
    }
    Ok((start.elapsed(), emitted))
}
