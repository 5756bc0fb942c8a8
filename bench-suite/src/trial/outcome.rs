//! Samples, and the table that shows them.

use std::collections::HashMap;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::stores::Store;
use crate::trial::engine::EngineKind;
use crate::trial::measures::Measures;

/// What became of one engine in one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The workload, without its store.
    pub workload: String,
    /// Where the state is; `None` if there is none.
    pub store: Option<Store>,
    /// What was timed.
    pub engine: EngineKind,
    /// Its samples, or why it has none.
    pub result: Result<Samples, Problem>,
    /// What was counted of it in a pass of its own.
    pub measures: Option<Measures>,
}

/// Why an engine has no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its answer is wrong.
    Wrong(String),
    /// There is no way to ask it.
    Unsupported(String),
}

/// One timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Rows that arrived; of windows, those that came out as well.
    pub rows: u64,
    /// What that took.
    pub nanos: u64,
}

impl Sample {
    /// Nanoseconds per row.
    #[must_use]
    pub fn nanos_per_row(&self) -> f64 {
        self.nanos as f64 / self.rows as f64
    }
}

/// Timings in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples(pub Vec<Sample>);

impl Samples {
    /// Timings of the same number of rows.
    #[must_use]
    pub fn of(rows: u64, nanos: &[u64]) -> Self {
        let samples = nanos.iter().map(|&nanos| Sample { rows, nanos });
        Self(samples.collect())
    }

    /// Nanoseconds per row of each sample, ascending.
    #[must_use]
    pub fn sorted(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.0.iter().map(Sample::nanos_per_row).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Nanoseconds per row of the median sample; of an even number, the upper of the middle two. Not a number if
    /// there is none.
    #[must_use]
    pub fn median_nanos_per_row(&self) -> f64 {
        let sorted = self.sorted();
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The slowest sample less the fastest, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let sorted = self.sorted();
        let (Some(fastest), Some(slowest)) = (sorted.first(), sorted.last()) else {
            return f64::NAN;
        };
        (slowest - fastest) / self.median_nanos_per_row()
    }
}

const LEGEND: &str = "\
rows/s, ns/row: of the median sample
× floor: time per row over the floor's, in the same run (1.00 is the floor)
× general: the general ranker's time per row over this one's, in the same run; of the calendar the
  time of the library that reads the rules, called for each row
spread: slowest less fastest sample, as a share of the median
";

/// A table with a line per engine, in the order given, and a legend.
#[must_use]
pub fn render(outcomes: &[Outcome]) -> String {
    let medians: HashMap<(&str, Option<Store>, EngineKind), f64> = outcomes
        .iter()
        .filter_map(|outcome| {
            let samples = outcome.result.as_ref().ok()?;
            let key = (outcome.workload.as_str(), outcome.store, outcome.engine);
            Some((key, samples.median_nanos_per_row()))
        })
        .collect();
    let mut table = Table::new();
    table
        .load_style(ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header([
            "cell",
            "store",
            "impl",
            "rows/s",
            "ns/row",
            "× floor",
            "× general",
            "spread",
            "samples",
        ]);
    for column in 3..=8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut wrong = String::new();
    for outcome in outcomes {
        let start = [
            outcome.workload.clone(),
            store_name(outcome.store),
            outcome.engine.to_string(),
        ];
        let end = match &outcome.result {
            Ok(samples) => {
                let own = samples.median_nanos_per_row();
                let other = |engine| {
                    let key = (outcome.workload.as_str(), outcome.store, engine);
                    medians.get(&key).copied()
                };
                let ratio = |ratio: Option<f64>| {
                    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
                };
                [
                    thousands((1e9 / own).round() as u64),
                    format!("{own:.1}"),
                    ratio(other(EngineKind::Floor).map(|floor| own / floor)),
                    ratio(
                        other(EngineKind::General)
                            .or(other(EngineKind::Library))
                            .map(|general| general / own),
                    ),
                    format!("{:.0} %", 100.0 * samples.spread()),
                    samples.0.len().to_string(),
                ]
            }
            Err(problem) => {
                let Outcome {
                    workload,
                    store,
                    engine,
                    ..
                } = outcome;
                let (verdict, problem) = match problem {
                    Problem::Wrong(problem) => ("WRONG", problem),
                    Problem::Unsupported(reason) => ("unsupported", reason),
                };
                wrong.push_str(&format!(
                    "{verdict}: {workload}, {}, {engine}: {problem}\n",
                    store_name(*store)
                ));
                let mut cells = [const { String::new() }; 6];
                cells[0] = verdict.to_owned();
                cells
            }
        };
        table.add_row(start.into_iter().chain(end));
    }
    format!("{table}\n\n{LEGEND}{wrong}")
}

/// How the table and the record name it.
#[must_use]
pub fn store_name(store: Option<Store>) -> String {
    store.map_or_else(|| "–".to_owned(), |store| store.to_string())
}

/// `12,345,678`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Problem, Samples, render, thousands};
    use crate::stores::Store;
    use crate::trial::engine::EngineKind;

    fn outcome(engine: EngineKind, result: Result<&[u64], &str>) -> Outcome {
        Outcome {
            workload: "append_top1/rejected/64-keys/8-bytes/immediate".to_owned(),
            store: Some(Store::Memory),
            engine,
            result: result
                .map(|nanos| Samples::of(1_000_000, nanos))
                .map_err(|problem| Problem::Wrong(problem.to_owned())),
            measures: None,
        }
    }

    #[test]
    fn the_table_shows_ratios_within_a_cell() {
        let outcomes = [
            outcome(EngineKind::Top1, Ok(&[9_000_000, 11_000_000, 10_000_000])),
            outcome(
                EngineKind::General,
                Ok(&[40_000_000, 41_000_000, 40_500_000]),
            ),
            outcome(EngineKind::Floor, Ok(&[5_000_000, 5_000_000, 5_000_000])),
            Outcome {
                store: Some(Store::Rocks),
                ..outcome(EngineKind::Top1, Err("3 changes, not 4"))
            },
        ];
        insta::assert_snapshot!(render(&outcomes), @"
        | cell                                           | store   | impl    |      rows/s | ns/row | × floor | × general | spread | samples |
        |------------------------------------------------|---------|---------|-------------|--------|---------|-----------|--------|---------|
        | append_top1/rejected/64-keys/8-bytes/immediate | memory  | top-1   | 100,000,000 |   10.0 |    2.00 |      4.05 |   20 % |       3 |
        | append_top1/rejected/64-keys/8-bytes/immediate | memory  | general |  24,691,358 |   40.5 |    8.10 |      1.00 |    2 % |       3 |
        | append_top1/rejected/64-keys/8-bytes/immediate | memory  | floor   | 200,000,000 |    5.0 |    1.00 |      8.10 |    0 % |       3 |
        | append_top1/rejected/64-keys/8-bytes/immediate | RocksDB | top-1   |       WRONG |        |         |           |        |         |

        rows/s, ns/row: of the median sample
        × floor: time per row over the floor's, in the same run (1.00 is the floor)
        × general: the general ranker's time per row over this one's, in the same run; of the calendar the
          time of the library that reads the rules, called for each row
        spread: slowest less fastest sample, as a share of the median
        WRONG: append_top1/rejected/64-keys/8-bytes/immediate, RocksDB, top-1: 3 changes, not 4
        ");
    }

    #[test]
    fn numbers_are_grouped_by_threes() {
        let shown = [0, 999, 1_000, 1_234_567].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
