//! Two records, cell by cell.

use std::fmt::Write as _;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;

use crate::report::data::{Engine, Trials};
use crate::seed::Seed;
use crate::trial::engine::EngineKind;

/// Fewer samples carry no interval.
pub const LEAST_SAMPLES: usize = 5;

/// Resamples of the bootstrap.
const RESAMPLES: usize = 2_000;

/// An engine in a cell of both records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The workload, without its store.
    pub workload: String,
    /// The store, or a dash.
    pub store: String,
    /// The engine.
    pub engine: EngineKind,
    /// The second record's median time per row over that of the first.
    pub ratio: f64,
    /// Between what the ratio lies with 95 % confidence, if there are enough samples.
    pub interval: Option<(f64, f64)>,
    /// What to make of it.
    pub verdict: Verdict,
}

/// Whether the second record is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is above 1, and the ratio beyond the threshold.
    Slower,
    /// Likewise below.
    Faster,
    /// Neither.
    Same,
    /// Too few samples to tell.
    Unknown,
}

/// Two records side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Conditions that differ, as `what: first, second`.
    pub conditions: Vec<String>,
    /// What both have, slower ones first.
    pub compared: Vec<Compared>,
    /// Exact counts that differ, as `cell, engine: what, first, second`.
    pub counts: Vec<String>,
    /// What one of them has alone.
    pub alone: Vec<String>,
}

/// Compares two records. A change is one if it is beyond `threshold`, a part of 1, and beyond chance.
#[must_use]
pub fn compare(first: &Trials, second: &Trials, threshold: f64) -> Comparison {
    let mut comparison = Comparison {
        conditions: conditions(first, second),
        compared: Vec::new(),
        counts: Vec::new(),
        alone: Vec::new(),
    };
    for cell in &first.cells {
        for engine in &cell.engines {
            let other = second.cell(&cell.workload, &cell.store);
            let name = format!("{}/{} {}", cell.workload, cell.store, engine.kind);
            let Some(other) = other.and_then(|cell| cell.engine(engine.kind)) else {
                comparison.alone.push(format!("{name}: only in the first"));
                continue;
            };
            comparison.counts.extend(counts(&name, engine, other));
            if let (Some(a), Some(b)) = (engine.median(), other.median()) {
                let ratio = b / a;
                let interval = interval(engine, other, &name);
                comparison.compared.push(Compared {
                    workload: cell.workload.clone(),
                    store: cell.store.clone(),
                    engine: engine.kind,
                    ratio,
                    interval,
                    verdict: verdict(ratio, interval, threshold),
                });
            }
        }
    }
    for cell in &second.cells {
        for engine in &cell.engines {
            let other = first.cell(&cell.workload, &cell.store);
            if other.and_then(|cell| cell.engine(engine.kind)).is_none() {
                let (workload, store, kind) = (&cell.workload, &cell.store, engine.kind);
                let alone = format!("{workload}/{store} {kind}: only in the second");
                comparison.alone.push(alone);
            }
        }
    }
    comparison
        .compared
        .sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    comparison
}

fn conditions(first: &Trials, second: &Trials) -> Vec<String> {
    let of = |trials: &Trials| {
        let run = &trials.run;
        let unknown = || "unknown".to_owned();
        [
            ("processor", run.cpu.clone().unwrap_or_else(unknown)),
            ("threads", run.threads.to_string()),
            ("compiler", run.compiler.clone().unwrap_or_else(unknown)),
            ("profile", run.profile.clone()),
        ]
    };
    let both = of(first).into_iter().zip(of(second));
    both.filter(|(a, b)| a != b)
        .map(|((what, a), (_, b))| format!("{what}: {a}, {b}"))
        .collect()
}

fn verdict(ratio: f64, interval: Option<(f64, f64)>, threshold: f64) -> Verdict {
    match interval {
        None => Verdict::Unknown,
        Some((low, _)) if low > 1.0 && ratio > 1.0 + threshold => Verdict::Slower,
        Some((_, high)) if high < 1.0 && ratio < 1.0 / (1.0 + threshold) => Verdict::Faster,
        Some(_) => Verdict::Same,
    }
}

/// The 95 % percentile interval of the ratio of medians, by resampling both; the same every time.
fn interval(first: &Engine, second: &Engine, name: &str) -> Option<(f64, f64)> {
    let (a, b) = (first.samples.sorted(), second.samples.sorted());
    if a.len() < LEAST_SAMPLES || b.len() < LEAST_SAMPLES {
        return None;
    }
    let mut seed = Seed::of_name(name);
    let mut median = |samples: &[f64]| {
        let mut drawn: Vec<f64> = (0..samples.len())
            .map(|_| samples[seed.below(samples.len() as u64) as usize])
            .collect();
        drawn.sort_by(f64::total_cmp);
        drawn[drawn.len() / 2]
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| median(&b) / median(&a)).collect();
    ratios.sort_by(f64::total_cmp);
    Some((
        ratios[RESAMPLES / 40],
        ratios[RESAMPLES - 1 - RESAMPLES / 40],
    ))
}

/// Counts of two passes that differ, per row.
fn counts(name: &str, first: &Engine, second: &Engine) -> Vec<String> {
    let (Some(a), Some(b)) = (first.measures, second.measures) else {
        return Vec::new();
    };
    let all = [
        ("allocations", a.allocations, b.allocations),
        ("state reads", a.state_reads, b.state_reads),
        ("state writes", a.state_writes, b.state_writes),
    ];
    let per_row = |count: u64, rows: u64| count as f64 / rows.max(1) as f64;
    all.into_iter()
        .filter_map(|(what, x, y)| {
            let (x, y) = (per_row(x?, a.rows), per_row(y?, b.rows));
            ((x - y).abs() > 1e-9).then(|| format!("{name}: {what} per row {x:.4}, {y:.4}"))
        })
        .collect()
}

impl Comparison {
    /// Whether something got slower.
    #[must_use]
    pub fn is_slower(&self) -> bool {
        let mut verdicts = self.compared.iter().map(|compared| compared.verdict);
        verdicts.any(|verdict| verdict == Verdict::Slower)
    }

    /// As a table, with what differs besides under it.
    #[must_use]
    pub fn render(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(["cell", "store", "impl", "ratio", "95 % interval", ""]);
        for column in 3..=4 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for compared in &self.compared {
            let interval = match compared.interval {
                Some((low, high)) => format!("{low:.2} to {high:.2}"),
                None => "too few samples".to_owned(),
            };
            let verdict = match compared.verdict {
                Verdict::Slower => "SLOWER",
                Verdict::Faster => "faster",
                Verdict::Same | Verdict::Unknown => "",
            };
            table.add_row([
                compared.workload.clone(),
                compared.store.clone(),
                compared.engine.to_string(),
                format!("{:.2}", compared.ratio),
                interval,
                verdict.to_owned(),
            ]);
        }
        let mut text =
            format!("{table}\n\nratio: the second record's median time per row over the first's\n");
        for (title, lines) in [
            ("conditions that differ", &self.conditions),
            ("counts that differ", &self.counts),
            ("in one record alone", &self.alone),
        ] {
            if !lines.is_empty() {
                let _ = write!(text, "\n{title}:\n  {}\n", lines.join("\n  "));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, compare};
    use crate::report::data::{self, Trials};
    use crate::trial::outcome::Samples;

    fn trials() -> Trials {
        Trials::of_lines(data::tests::lines()).expect("there are conditions")
    }

    #[test]
    fn a_record_is_the_same_as_itself() {
        let comparison = compare(&trials(), &trials(), 0.05);
        assert!(!comparison.is_slower());
        let verdicts: Vec<_> = comparison
            .compared
            .iter()
            .map(|it| (it.ratio, it.verdict))
            .collect();
        assert_eq!(verdicts, [(1.0, Verdict::Same), (1.0, Verdict::Same)]);
        assert!(comparison.conditions.is_empty() && comparison.counts.is_empty());
    }

    #[test]
    fn what_got_slower_stands_first_with_its_interval_and_all_that_differs_is_told() {
        let mut second = trials();
        let nanos = [3_900_000, 4_000_000, 4_100_000, 4_030_000, 3_950_000];
        second.cells[0].engines[0].samples = Samples::of(1_000_000, &nanos);
        second.cells[0].engines[0]
            .measures
            .as_mut()
            .expect("counted")
            .allocations = Some(32);
        second.cells[0].engines[1].samples.0.truncate(3);
        second.cells[1].engines.pop();
        second.run.compiler = None;
        let comparison = compare(&trials(), &second, 0.05);
        assert!(comparison.is_slower());
        insta::assert_snapshot!(comparison.render(), @"
        | cell                                           | store  | impl  | ratio |   95 % interval |        |
        |------------------------------------------------|--------|-------|-------|-----------------|--------|
        | append_top1/rejected/64-keys/8-bytes/immediate | memory | top-1 |  1.29 |    1.21 to 1.34 | SLOWER |
        | append_top1/rejected/64-keys/8-bytes/immediate | memory | floor |  1.00 | too few samples |        |

        ratio: the second record's median time per row over the first's

        conditions that differ:
          compiler: rustc 1.95.0, unknown

        counts that differ:
          append_top1/rejected/64-keys/8-bytes/immediate/memory top-1: allocations per row 0.0002, 0.0005

        in one record alone:
          append_top1/rejected/64-keys/8-bytes/immediate/RocksDB library: only in the first
        ");
        assert_eq!(
            compare(&second, &trials(), 0.05).compared[1].verdict,
            Verdict::Faster
        );
    }
}
