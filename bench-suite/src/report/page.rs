//! One page that needs nothing else: conditions, what is missed, charts and tables of each suite.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::chart::{Dot, Strip, chart};
use crate::report::data::{Cell, Engine, Trials};
use crate::report::markdown::{conditions, fields, is_product, suites};
use crate::report::targets::Judged;
use crate::trial::engine::EngineKind;
use crate::trial::outcome::Problem;

const STYLE: &str = include_str!("page.css");

/// The page of a record.
#[must_use]
pub fn page(trials: &Trials, judged: &[Judged]) -> String {
    let missed = judged.iter().filter(|judged| judged.is_missed()).count();
    let measured = judged
        .iter()
        .filter(|judged| judged.ratio.is_some())
        .count();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Weir: trials" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Weir: trials" }
                p class="dim" { (conditions(trials)) }
                div class="big" {
                    div { b class=(if missed > 0 { "missed" } else { "reached" }) { (missed) } "targets missed" }
                    div { b { (measured - missed) } "reached" }
                    div { b { (trials.cells.len()) } "cells" }
                }
                (without_time(trials, "WRONG answers, which have no time", wrong))
                (losses(judged))
                @for suite in suites(trials) { (of_suite(trials, suite)) }
                (without_time(trials, "What cannot be asked", unsupported))
                (glossary())
            }
        }
    };
    page.into_string()
}

fn wrong(problem: &Problem) -> Option<&str> {
    match problem {
        Problem::Wrong(how) => Some(how),
        Problem::Unsupported(_) => None,
    }
}

fn unsupported(problem: &Problem) -> Option<&str> {
    match problem {
        Problem::Wrong(_) => None,
        Problem::Unsupported(why) => Some(why),
    }
}

/// Engines that have no time, with why: wrong answers, or what cannot be asked.
fn without_time(trials: &Trials, title: &str, why: impl Fn(&Problem) -> Option<&str>) -> Markup {
    let engines = trials.cells.iter().flat_map(|cell| {
        let why = &why;
        let engines = cell.engines.iter();
        engines.filter_map(move |engine| Some((cell, engine, why(engine.problem.as_ref()?)?)))
    });
    let engines: Vec<_> = engines.collect();
    html! {
        @if !engines.is_empty() {
            h2 { (title) }
            @for (cell, engine, why) in engines {
                div class="entry" {
                    div class="figure" { (engine.kind) }
                    div { (why) div class="dim small" { (cell.workload) " " (cell.store) } }
                }
            }
        }
    }
}

/// What is missed first, by how far.
fn losses(judged: &[Judged]) -> Markup {
    html! {
        h2 { "Targets, what is furthest off first" }
        p class="dim" { "Each is a ratio of median times within this run, against what is named after the colon. A peer is to be no faster." }
        @for judged in judged {
            div class="entry" {
                @match judged.ratio {
                    None => { div class="figure" { "–" } }
                    Some(ratio) => {
                        div class=(if judged.is_missed() { "figure missed" } else { "figure reached" }) {
                            (format!("{ratio:.2}"))
                        }
                    }
                }
                div {
                    (judged.path) " " b { (format!("at most {:.2}", judged.at_most)) }
                    @if judged.ratio.is_none() { ", not measured" }
                    div class="dim small" { (judged.workload) " " (judged.store) }
                }
            }
        }
    }
}

fn of_suite(trials: &Trials, suite: &str) -> Markup {
    let cells: Vec<&Cell> = trials
        .cells
        .iter()
        .filter(|cell| cell.suite() == suite)
        .collect();
    let (with_floor, without): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| cell.floor().is_some());
    let mut kinds: Vec<EngineKind> = Vec::new();
    for engine in cells.iter().flat_map(|cell| &cell.engines) {
        if engine.median().is_some() && !kinds.contains(&engine.kind) {
            kinds.push(engine.kind);
        }
    }
    html! {
        h2 { (suite) }
        div class="legend" {
            @for kind in &kinds { span class=(format!("l-{kind}")) { (kind) } }
        }
        @if !with_floor.is_empty() {
            p class="dim" { "Multiples of the floor's time per row, furthest first; lines reach from the fastest to the slowest sample." }
            (chart(&strips(&with_floor, suite, Cell::floor), "×"))
        }
        @if !without.is_empty() {
            p class="dim" { "Nanoseconds per row." }
            (chart(&strips(&without, suite, |_| Some(1.0)), " ns"))
        }
        details {
            summary { "All figures" }
            div class="scroll" { table {
                tr {
                    th class="text" { "cell" } th class="text" { "store" } th class="text" { "impl" }
                    th { "million rows/s" } th { "ns/row" } th { "min to max" } th { "× floor" } th { "samples" } th { "held" }
                    th { "allocations/row" } th { "state writes/row" }
                }
                @for cell in &cells {
                    @for engine in &cell.engines {
                        tr {
                            @for (i, field) in fields(cell, engine).iter().enumerate() {
                                @if i < 3 { td class="text" { (field) } } @else { td { (field) } }
                            }
                        }
                    }
                }
            } }
        }
    }
}

/// A strip for each cell: times over what `unit` says, those that are furthest from it first.
fn strips(cells: &[&Cell], suite: &str, unit: impl Fn(&Cell) -> Option<f64>) -> Vec<Strip> {
    let mut strips: Vec<(f64, Strip)> = cells
        .iter()
        .map(|cell| {
            let unit = unit(cell).unwrap_or(1.0);
            let dots = cell.engines.iter().filter_map(|engine| dot(engine, unit));
            let mut dots: Vec<Dot> = dots.collect();
            // What the cell is about comes first; the numbers of others would lie over its own.
            let others = dots.iter_mut().filter(|dot| dot.is_labelled).skip(1);
            others.for_each(|dot| dot.is_labelled = false);
            let own = dots.iter().find(|dot| dot.is_labelled).map(|dot| dot.value);
            let name = cell.workload.strip_prefix(suite).unwrap_or(&cell.workload);
            let label = format!("{} {}", name.trim_start_matches('/'), cell.store);
            (own.unwrap_or_default(), Strip { label, dots })
        })
        .collect();
    strips.sort_by(|a, b| b.0.total_cmp(&a.0));
    strips.into_iter().map(|(_, strip)| strip).collect()
}

fn dot(engine: &Engine, unit: f64) -> Option<Dot> {
    let sorted = engine.samples.sorted();
    Some(Dot {
        engine: engine.kind.to_string(),
        value: engine.median()? / unit,
        least: sorted.first()? / unit,
        greatest: sorted.last()? / unit,
        is_labelled: is_product(engine.kind),
    })
}

fn glossary() -> Markup {
    let terms = [
        ("cell", "One workload over one store."),
        (
            "row",
            "A row that arrives; of windows, a row that arrives or comes out.",
        ),
        (
            "floor",
            "The least that any engine must do for the answer, and no more: bare probes of a hash table and copies of rows in \
             memory, sorted reads and one write batch in RocksDB. It emits nothing. It is timed in the same run.",
        ),
        (
            "top-1, memory, rocksdb",
            "Weir's operators: the ranker of the range 1..1; shared windows over memory and over RocksDB.",
        ),
        (
            "general",
            "Weir's ranker for any range, given the same rows.",
        ),
        (
            "write-through",
            "Shared windows over RocksDB that keep nothing in memory between batches.",
        ),
        (
            "held",
            "Bytes that the operator and its store hold at the end of the counted pass, by their own account.",
        ),
        (
            "allocations, state writes",
            "Counted exactly in a pass of their own, apart from the timing.",
        ),
        (
            "min to max",
            "The fastest and the slowest sample. There are no percentiles: so few samples carry none.",
        ),
    ];
    html! {
        h2 { "Terms" }
        dl { @for (term, meaning) in terms { dt { (term) } dd { (meaning) } } }
    }
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::report::data::{self, Trials};
    use crate::report::targets::{judge, targets};

    #[test]
    fn a_page_needs_nothing_else_shows_losses_first_and_escapes_what_it_shows() {
        let trials = Trials::of_lines(data::tests::lines()).expect("there are conditions");
        let judged = judge(&targets().expect("well formed"), &trials);
        let page = page(&trials, &judged);
        for outside in ["http://", "https://", "<script", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("A processor &lt;1&gt;"), "{page}");
        let place = |text: &str| {
            page.find(text)
                .unwrap_or_else(|| panic!("no {text:?} in {page}"))
        };
        assert!(place("targets missed") < place("WRONG"));
        assert!(place("WRONG") < place("figure missed\">3.10<"));
        assert!(place("figure missed\">3.10<") < place("Multiples of the floor"));
        assert!(
            page.contains("it ranks nothing") && page.contains(">3.1×<"),
            "{page}"
        );
    }
}
