//! How samples of windows are taken: the answers are checked first, then the engines take turns.

use std::error::Error;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, Int64Builder, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::row::{RowConverter, SortField};
use foldhash::fast::FixedState;
use state_codec::{SliceBackend, SlicedState};
use window_shared::WindowOperator;

use crate::conform::flight_windows;
use crate::flights::FlightsError;
use crate::stores::{self, Store};
use crate::trial::TrialError;
use crate::trial::engine::EngineKind;
use crate::trial::measures::{Measures, Told};
use crate::trial::outcome::{Outcome, Problem, Samples};
#[cfg(feature = "peers")]
use crate::trial::peers::{self, Wheels};
use crate::trial::run::Effort;
use crate::trial::suite::Trial;
use crate::trial::window::WindowCell;
use crate::trial::window::flights::FlightWindows;
use crate::trial::window::input::Input;

type Failure = Box<dyn Error + Send + Sync>;

/// What windows give: rows, the sum over them of the first aggregate, and a checksum of all columns that does
/// not depend on the order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    rows: u64,
    sum: i64,
    checksum: u64,
}

impl Answer {
    fn of(fired: &[RecordBatch]) -> Result<Self, Failure> {
        let mut answer = Self::default();
        let Some(first) = fired.first() else {
            return Ok(answer);
        };
        let types = first.schema();
        let fields = types.fields().iter();
        let fields = fields.map(|field| SortField::new(field.data_type().clone()));
        let rows = RowConverter::new(fields.collect())?;
        let hasher = FixedState::with_seed(0);
        for window in fired {
            answer.rows += window.num_rows() as u64;
            // Key and bounds come first.
            let first = window.column(4).as_primitive::<Int64Type>();
            answer.sum += arrow::compute::sum(first).unwrap_or_default();
            for row in &rows.convert_columns(window.columns())? {
                answer.checksum = answer.checksum.wrapping_add(hasher.hash_one(row.as_ref()));
            }
        }
        Ok(answer)
    }
}

/// What a pass through a cell's input took, and what came out.
struct Pass {
    spent: Duration,
    rows: u64,
    /// The results, where they are kept.
    fired: Vec<RecordBatch>,
    told: Option<Told>,
}

/// What becomes of results. As a consumer lets go of them, their memory serves for the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Results {
    Kept,
    Dropped,
}

/// A pass by one engine, from an empty state.
fn pass(
    engine: EngineKind,
    input: &Input,
    rows_out: u64,
    results: Results,
) -> Result<Pass, Failure> {
    match engine {
        EngineKind::Floor => Ok(floor(input, rows_out)),
        EngineKind::Stored | EngineKind::WriteThrough => {
            let (_directory, backend) = stores::rocks()?;
            let mut operator = open(input, &backend)?;
            if engine == EngineKind::WriteThrough {
                operator = operator.with_resident_bytes(0);
            }
            drive(&mut operator, input, results)
        }
        _ => drive(&mut open(input, &stores::memory())?, input, results),
    }
}

fn open<B: SliceBackend>(input: &Input, backend: &B) -> Result<WindowOperator<B::Slices>, Failure>
where
    B::Error: 'static,
{
    Ok(WindowOperator::open(input.spec.clone(), backend, "trial")?)
}

/// Each batch, and the watermark behind it.
fn drive<S: SlicedState>(
    operator: &mut WindowOperator<S>,
    input: &Input,
    results: Results,
) -> Result<Pass, Failure>
where
    S::Error: 'static,
{
    let mut fired = Vec::new();
    let start = Instant::now();
    for (batch, &watermark_ms) in input.batches.iter().zip(&input.watermarks) {
        operator.push(batch)?;
        let windows = operator.advance_watermark(watermark_ms)?;
        if results == Results::Kept {
            fired.extend(windows);
        }
    }
    let spent = start.elapsed();
    let metrics = operator.metrics();
    Ok(Pass {
        spent,
        rows: metrics.rows_out,
        fired,
        told: Some(Told::new(metrics.held_bytes, metrics.store)),
    })
}

/// A probe of a bare hash table and an addition per input row; a key and a count appended per output row.
fn floor(input: &Input, rows_out: u64) -> Pass {
    let hasher = FixedState::with_seed(0);
    let mut table: hashbrown::HashMap<u64, i64, FixedState> =
        hashbrown::HashMap::with_hasher(hasher);
    let start = Instant::now();
    for &key in &input.keys {
        *table.entry(key.into()).or_insert(0) += 1;
    }
    let entries: Vec<(u64, i64)> = table.iter().map(|(&key, &count)| (key, count)).collect();
    let mut left = rows_out as usize;
    while left > 0 {
        let now = left.min(entries.len());
        let mut keys = Int64Builder::with_capacity(now);
        let mut counts = Int64Builder::with_capacity(now);
        for &(key, count) in &entries[..now] {
            keys.append_value(key as i64);
            counts.append_value(count);
        }
        black_box((keys.finish(), counts.finish()));
        left -= now;
    }
    let spent = start.elapsed();
    Pass {
        spent,
        rows: rows_out,
        fired: Vec::new(),
        told: None,
    }
}

/// The engines of a cell: over RocksDB the same operator over memory is beside it, and for keys that do not fit
/// in what stays resident the one that writes every batch through.
fn engines(cell: &WindowCell) -> Vec<EngineKind> {
    match cell.store {
        Store::Memory => vec![EngineKind::InMemory, EngineKind::Floor],
        Store::Rocks if cell.key_bytes > WindowCell::BIGINT_BYTES => vec![
            EngineKind::Stored,
            EngineKind::InMemory,
            EngineKind::WriteThrough,
            EngineKind::Floor,
        ],
        Store::Rocks => vec![EngineKind::Stored, EngineKind::InMemory, EngineKind::Floor],
    }
}

/// Runs one cell.
///
/// The first pass of each engine is for its answer. Rows of a sample are input rows and output rows together.
pub(crate) fn run_cell(cell: WindowCell, effort: Effort) -> Result<Vec<Outcome>, TrialError> {
    let failed = |source| TrialError::Workload {
        cell: Trial::Windows(cell).to_string(),
        source,
    };
    let input = Input::new(&cell).map_err(failed)?;
    let (rows_out, sum) = input.expected(&cell).map_err(failed)?;
    let mut trials = Vec::new();
    let mut together = Duration::ZERO;
    let mut agreed = None;
    for engine in engines(&cell) {
        let first = pass(engine, &input, rows_out, Results::Kept).map_err(failed)?;
        together += first.spent;
        let mut result = Ok(Vec::new());
        if engine != EngineKind::Floor {
            let answer = Answer::of(&first.fired).map_err(failed)?;
            let agreed = *agreed.get_or_insert(answer);
            if (answer.rows, answer.sum) != (rows_out, sum) || answer != agreed {
                result = Err(Problem::Wrong(format!(
                    "{answer:?}, where {rows_out} rows with a sum of {sum} are right"
                )));
            }
        }
        trials.push((engine, result));
    }
    #[cfg(feature = "peers")]
    let mut wheels = (effort.peers && peers::can_slide(&cell)).then(|| Wheels::new(&cell, &input));
    let affordable = effort.time_per_trial.as_nanos() / together.as_nanos().max(1);
    for _ in 0..effort.samples.min(affordable.max(1) as usize) {
        for (engine, result) in &mut trials {
            let Ok(nanos) = result else { continue };
            let pass = pass(*engine, &input, rows_out, Results::Dropped).map_err(failed)?;
            let found = pass.rows;
            if found != rows_out {
                let problem = format!("{found} rows, where {rows_out} are right");
                *result = Err(Problem::Wrong(problem));
                continue;
            }
            nanos.push(pass.spent.as_nanos() as u64);
        }
        #[cfg(feature = "peers")]
        if let Some(wheels) = &mut wheels {
            wheels.sample(&cell, &input);
        }
    }
    let rows = cell.rows() as u64 + rows_out;
    let mut outcomes = Vec::new();
    for (engine, result) in trials {
        let mut told = None;
        let counted = Measures::of(rows, || {
            told = pass(engine, &input, rows_out, Results::Dropped)?.told;
            Ok(())
        });
        let counted = counted.map_err(failed)?;
        outcomes.push(Outcome {
            workload: cell.to_string(),
            store: Some(cell.store),
            engine,
            result: result.map(|nanos| Samples::of(rows, &nanos)),
            measures: Some(match told {
                Some(told) => counted.with_told(Told::default(), told),
                None => counted,
            }),
        });
    }
    #[cfg(feature = "peers")]
    outcomes.extend(wheels.map(|wheels| wheels.outcome(&cell)));
    Ok(outcomes)
}

/// Runs windows over the flights; each answer is compared with the recorded one.
pub(crate) fn run_flights(
    windows: FlightWindows,
    store: Store,
    effort: Effort,
    batches: &[RecordBatch],
) -> Result<Vec<Outcome>, TrialError> {
    let path = windows.recording();
    let recorded = flight_windows::read_recorded(&path)
        .map_err(|source| TrialError::Flights(FlightsError::Io { path, source }))?;
    let failed = |source: String| TrialError::Workload {
        cell: Trial::FlightWindows(windows, store).to_string(),
        source: source.into(),
    };
    let mut nanos = Vec::new();
    let mut result = Ok(());
    let mut rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    // The first sample warms up and is not kept.
    for sample in 0..=effort.samples {
        let (spent, fired) = match store {
            Store::Memory => time_flights(&stores::memory(), windows, batches),
            Store::Rocks => {
                let (_directory, backend) =
                    stores::rocks().map_err(|error| failed(error.to_string()))?;
                time_flights(&backend, windows, batches)
            }
        }
        .map_err(failed)?;
        result = flight_windows::compare(&fired, &recorded);
        if result.is_err() {
            break;
        }
        if sample == 0 {
            rows += fired
                .iter()
                .map(|batch| batch.num_rows() as u64)
                .sum::<u64>();
        } else {
            nanos.push(spent.as_nanos() as u64);
        }
    }
    Ok(vec![Outcome {
        workload: windows.to_string(),
        store: Some(store),
        engine: match store {
            Store::Memory => EngineKind::InMemory,
            Store::Rocks => EngineKind::Stored,
        },
        result: match result {
            Ok(()) => Ok(Samples::of(rows, &nanos)),
            Err(difference) => Err(Problem::Wrong(difference.replace('\n', ", "))),
        },
        measures: None,
    }])
}

fn time_flights<B: SliceBackend>(
    backend: &B,
    windows: FlightWindows,
    batches: &[RecordBatch],
) -> Result<(Duration, Vec<RecordBatch>), String> {
    let mut operator = flight_windows::open(backend, windows.windows(), batches)?;
    let start = Instant::now();
    let fired = flight_windows::fired(&mut operator, false, batches)?;
    Ok((start.elapsed(), fired))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{WindowCell, run_cell, run_flights};
    use crate::flights;
    use crate::stores::Store;
    use crate::trial::run::Effort;
    use crate::trial::window::{FlightWindows, List, Shape};
    use crate::trial::zone::TrialZone;

    const ANSWERS_ALONE: Effort = Effort {
        samples: 0,
        time_per_trial: Duration::ZERO,
        peers: cfg!(feature = "peers"),
    };

    #[test]
    fn every_engine_answers_right() {
        for store in Store::ALL {
            for shape in Shape::ALL {
                let cell = WindowCell {
                    store,
                    shape,
                    list: List::Mixed,
                    keys: 7,
                    key_bytes: 16,
                    zone: TrialZone::NewYork,
                    batch_rows: 8_192,
                };
                for outcome in run_cell(cell, ANSWERS_ALONE).expect("runs") {
                    assert!(outcome.result.is_ok(), "{outcome:?}");
                }
            }
        }
    }

    #[test]
    fn windows_over_the_flights_are_those_recorded() {
        let batches = flights::read_all(&flights::repository_data()).expect("the flights");
        for windows in FlightWindows::ALL {
            let outcomes = run_flights(windows, Store::Memory, ANSWERS_ALONE, &batches);
            let outcomes = outcomes.expect("runs");
            assert!(outcomes[0].result.is_ok(), "{outcomes:?}");
        }
    }
}
