//! An answer against the recorded one, in the order that the case asks for.

use crate::conform::window::case::{ExpectedRow, RowOrder, WindowCase, cells};
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
