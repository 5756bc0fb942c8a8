//! An answer against the recorded one, in the order that the case asks for.

use crate::conform::window::case::{AggFn, Event, ExpectedRow, RowOrder, WindowCase, cells};
use crate::conform::window::cell::{BadCell, Cell};

/// A row of an answer: the watermark that released it, and its values.
pub type Answered = (i64, Vec<Cell>);

/// How many rows of a difference are shown.
const SHOWN: usize = 4;

/// How `actual` differs from what is recorded, or `None`.
///
/// # Errors
///
/// [`BadCell`] if what is recorded is malformed.
pub fn difference(case: &WindowCase, actual: &[Answered]) -> Result<Option<String>, BadCell> {
    let expected = case
        .expected
        .iter()
        .map(|expected| Ok((expected.wm, cells(&case.types.output, &expected.row)?)))
        .collect::<Result<Vec<Answered>, BadCell>>()?;
    let mut rest = actual;
    let mut first = 0;
    for length in groups(case) {
        let group = &expected[first..first + length];
        // The group as far as the answer has rows of its watermark.
        let here = rest.iter().take(length);
        let here = here.take_while(|(wm, _)| *wm == group[0].0).count();
        let (got, others) = rest.split_at(here);
        if sorted(group) != sorted(got) {
            return Ok(Some(told(first, group, got, others)));
        }
        rest = others;
        first += length;
    }
    Ok((!rest.is_empty()).then(|| told(first, &[], rest, &[])))
}

/// Lengths of the stretches of expected rows within which the order is free.
fn groups(case: &WindowCase) -> impl Iterator<Item = usize> {
    let order = case.order;
    let is_one = move |a: &ExpectedRow, b: &ExpectedRow| match order {
        RowOrder::Emitted => false,
        RowOrder::Set => a.wm == b.wm && a.timer == b.timer,
        RowOrder::SetPerWatermark => a.wm == b.wm,
    };
    case.expected.chunk_by(is_one).map(<[_]>::len)
}

fn sorted(rows: &[Answered]) -> Vec<&Answered> {
    let mut rows: Vec<&Answered> = rows.iter().collect();
    rows.sort_unstable();
    rows
}

/// Which rows are missing and which are too many from row `first` on.
fn told(first: usize, expected: &[Answered], got: &[Answered], next: &[Answered]) -> String {
    let mut missing: Vec<&Answered> = expected.iter().collect();
    let mut more = Vec::new();
    for row in got {
        match missing.iter().position(|expected| *expected == row) {
            Some(place) => {
                missing.remove(place);
            }
            None => more.push(row),
        }
    }
    let mut told = format!("from row {first} on");
    let mut list = |what: &str, rows: &[&Answered]| {
        for (wm, row) in rows.iter().take(SHOWN) {
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            told.push_str(&format!("\n{what} at {wm}: {}", cells.join(", ")));
        }
        if rows.len() > SHOWN {
            told.push_str(&format!("\n{what} {} others", rows.len() - SHOWN));
        }
    };
    list("expected", &missing);
    list("got     ", &more);
    if more.is_empty() {
        match next.first() {
            Some(next) => list("got     ", &[next]),
            None => told.push_str("\ngot      no more rows"),
        }
    }
    told
}

/// Number in `golden/DECISIONS.md` of why Flink's answer to a query of the plain form is not what the
/// query means; `None` where it is, and for other queries.
#[must_use]
pub fn decision(case: &WindowCase) -> Option<u8> {
    if case.ideal != Some(false) {
        return None;
    }
    let output = &case.types.output;
    let counts = case
        .aggs
        .iter()
        .filter(|agg| agg.function == AggFn::Count && agg.arg.is_none() && agg.filter.is_none());
    let counts_nothing = |expected: &ExpectedRow| {
        counts.clone().any(|agg| {
            let column = output.iter().position(|column| column.name == agg.name);
            column.is_some_and(|column| expected.row.get(column) == Some(&0.into()))
        })
    };
    if case.expected.iter().any(counts_nothing) {
        return Some(13);
    }
    let time_column = case.input_column(&case.time_col);
    let is_before_1970 = |event: &Event| match (event, time_column) {
        (Event::Row(row), Some(column)) => row
            .get(column)
            .and_then(serde_json::Value::as_i64)
            .is_some_and(|time| time < 0),
        _ => false,
    };
    let loses_early_rows = case.two_phase && case.events.iter().any(is_before_1970);
    Some(if loses_early_rows { 7 } else { 6 })
}
