//! µWheel: a wheel of sums for each key. It counts seconds, has one aggregate, and emits no window that began before
//! the first row.

use std::time::{Duration, Instant};

use uwheel::aggregator::sum::I64SumAggregator;
use uwheel::{Entry, RwWheel, Window};

use crate::stores::Store;
use crate::trial::engine::EngineKind;
use crate::trial::outcome::{Outcome, Problem, Sample, Samples};
use crate::trial::window::{Input, List, Shape, WindowCell};

/// Whether it can: one sum, few keys, windows and batches of whole seconds.
pub(crate) fn can_slide(cell: &WindowCell) -> bool {
    cell.store == Store::Memory
        && cell.list == List::Sum
        && cell.keys <= 64
        && cell.batch_rows == Input::ROWS_PER_SECOND
        && matches!(
            cell.shape,
            Shape::Hop10By2 | Shape::Hop30By2 | Shape::Hop60By1
        )
}

/// Samples of wheels over the input of a cell.
pub(crate) struct Wheels {
    /// Results and the sum over them: those of windows that lie within the input.
    expected: (u64, i64),
    samples: Result<Samples, Problem>,
}

impl Wheels {
    pub(crate) fn new(cell: &WindowCell, input: &Input) -> Self {
        Self {
            expected: expected(cell, input),
            samples: Ok(Samples::default()),
        }
    }

    /// Takes one, from empty wheels, unless an answer was wrong.
    pub(crate) fn sample(&mut self, cell: &WindowCell, input: &Input) {
        let Ok(samples) = &mut self.samples else {
            return;
        };
        let (spent, found) = pass(cell, input);
        if found == self.expected {
            samples.0.push(Sample {
                rows: input.keys.len() as u64 + found.0,
                nanos: spent.as_nanos() as u64,
            });
        } else {
            let (found, expected) = (found, self.expected);
            self.samples = Err(Problem::Wrong(format!(
                "results and their sum are {found:?}, where {expected:?} are right"
            )));
        }
    }

    pub(crate) fn outcome(self, cell: &WindowCell) -> Outcome {
        Outcome {
            workload: cell.to_string(),
            store: Some(cell.store),
            engine: EngineKind::Uwheel,
            result: self.samples,
            measures: None,
        }
    }
}

fn pass(cell: &WindowCell, input: &Input) -> (Duration, (u64, i64)) {
    let windows = cell.shape.windows();
    let start_ms = Input::START_MS as u64;
    let window = Window::sliding(
        uwheel::Duration::milliseconds(windows.size_ms()),
        uwheel::Duration::milliseconds(windows.slice_ms()),
    );
    let mut wheels: Vec<RwWheel<I64SumAggregator>> = (0..cell.keys)
        .map(|_| {
            let mut wheel = RwWheel::new(start_ms);
            wheel.window(window);
            wheel
        })
        .collect();
    let mut fired = Vec::new();
    let start = Instant::now();
    for (number, keys) in input.keys.chunks(cell.batch_rows).enumerate() {
        let first = number * cell.batch_rows;
        for (row, &key) in keys.iter().enumerate() {
            let time = Input::time_ms(first + row) as u64;
            wheels[key as usize].insert(Entry::new(Input::value(key), time));
        }
        let end_ms = start_ms + (number as u64 + 1) * 1_000;
        for wheel in &mut wheels {
            fired.extend(wheel.advance_to(end_ms));
        }
    }
    let spent = start.elapsed();
    let sum = fired.iter().map(|window| window.aggregate).sum();
    (spent, (fired.len() as u64, sum))
}

/// The same by an obvious count.
fn expected(cell: &WindowCell, input: &Input) -> (u64, i64) {
    let windows = cell.shape.windows();
    let seconds: Vec<i64> = input
        .keys
        .chunks(Input::ROWS_PER_SECOND)
        .map(|keys| keys.iter().map(|&key| Input::value(key)).sum())
        .collect();
    let size = (windows.size_ms() / 1_000) as usize;
    let slide = (windows.slice_ms() / 1_000) as usize;
    let ends = (size..=seconds.len()).filter(|end| end.is_multiple_of(slide));
    let sums = ends.map(|end| seconds[end - size..end].iter().sum::<i64>());
    let (count, sum) = sums.fold((0, 0), |(count, all), sum| (count + 1, all + sum));
    (count * cell.keys as u64, sum)
}
