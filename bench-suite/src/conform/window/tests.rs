//! The model over all that is recorded.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use calendar_tz::Database;

use crate::conform::window::arrow::{batch, input_batch, output_schema, rows};
use crate::conform::window::case::{Event, Span, Window, WindowCase, cells};
use crate::conform::window::cell::Cell;
use crate::conform::window::check::{decision, difference};
use crate::conform::window::model::{answer, shift_zone};
use crate::conform::{read_lines, repository_golden};
use crate::tzdata;

static CASES: LazyLock<Vec<WindowCase>> = LazyLock::new(|| {
    let lines = read_lines(&repository_golden().join("windows.jsonl.gz")).expect("readable");
    let lines = lines.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).expect("a case"))
        .collect()
});

fn database() -> Database {
    tzdata::recorded().expect("the repository holds tz database 2025a")
}

/// How the model's answer differs from the recorded one, in the timers or in the rows.
fn modelled(case: &WindowCase, database: &Database) -> Option<String> {
    let zone = shift_zone(case, database).expect("a zone");
    let answer = answer(case, &zone).expect("an answer");
    let timers: Vec<_> = answer.iter().map(|row| Some(row.timer)).collect();
    let recorded: Vec<_> = case.expected.iter().map(|row| row.timer).collect();
    let answer: Vec<_> = answer.into_iter().map(|row| (row.wm, row.row)).collect();
    let rows = difference(case, &answer).expect("recorded values are of their types");
    rows.or_else(|| (timers != recorded).then(|| format!("{timers:?}\n{recorded:?}")))
}

#[test]
fn every_line_is_a_case() {
    let plain = CASES.iter().filter(|case| case.is_plain()).count();
    let ideal = CASES.iter().filter(|case| case.ideal == Some(true)).count();
    let cascades = CASES.iter().filter(|case| case.cascade.is_some()).count();
    let failing = CASES.iter().filter(|case| case.error.is_some()).count();
    assert_eq!(
        [CASES.len(), plain, ideal, cascades, failing],
        [414, 370, 296, 16, 9]
    );
}

#[test]
fn rows_come_back_from_arrow() {
    for case in CASES.iter() {
        let arriving: Vec<_> = case
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Row(row) => Some(row),
                Event::Watermark(_) => None,
            })
            .collect();
        let read = |columns, row: &[_]| cells(columns, row).expect("a row");
        let given: Vec<_> = arriving
            .iter()
            .map(|row| read(&case.types.input, row))
            .collect();
        let input = input_batch(case, arriving).expect("a batch");
        assert_eq!(rows(&input).expect("rows"), given, "{}", case.name);

        let expected = case.expected.iter();
        let expected: Vec<_> = expected
            .map(|expected| read(&case.types.output, &expected.row))
            .collect();
        let output = batch(&output_schema(case), &expected).expect("a batch");
        assert_eq!(rows(&output).expect("rows"), expected, "{}", case.name);
    }
}

#[test]
fn the_model_gives_what_flink_gives_where_flink_is_ideal() {
    let database = database();
    let ideal = CASES.iter().filter(|case| case.ideal == Some(true));
    let different: Vec<String> = ideal
        .filter_map(|case| Some(format!("{}: {}", case.name, modelled(case, &database)?)))
        .collect();
    assert!(
        different.is_empty(),
        "{} differ\n{}",
        different.len(),
        different.join("\n")
    );
}

#[test]
fn the_model_differs_where_flink_loses_rows() {
    let database = database();
    let mut counts: BTreeMap<(Option<u8>, &str), [usize; 2]> = BTreeMap::new();
    for case in CASES.iter().filter(|case| case.ideal == Some(false)) {
        let differs = modelled(case, &database).is_some();
        let count = counts.entry((decision(case), case.family())).or_default();
        count[usize::from(!differs)] += 1;
    }
    let counts = counts
        .into_iter()
        .map(|((decision, family), [other, same])| {
            let decision = decision.expect("a case that is not ideal has a decision");
            format!("#{decision} {family}: {other} differ, {same} do not")
        });
    insta::assert_snapshot!(counts.collect::<Vec<_>>().join("\n"), @"
    #6 dst: 36 differ, 0 do not
    #6 fixed_zone: 11 differ, 0 do not
    #6 offset_dense: 14 differ, 0 do not
    #6 offset_dst: 2 differ, 0 do not
    #6 offset_late: 3 differ, 0 do not
    #7 negative: 3 differ, 0 do not
    #7 negative_only: 3 differ, 0 do not
    #7 negative_zone: 1 differ, 0 do not
    #13 offset_late: 1 differ, 0 do not
    ");
}

#[test]
fn windows_hold_their_slices() {
    let span = |start_ms, end_ms| Span { start_ms, end_ms };
    let hop = Window::Hop {
        size_ms: 10,
        slide_ms: 5,
        offset_ms: 27,
    };
    assert_eq!(hop.slice_end(-4), -3);
    assert_eq!(hop.spans(-4), [span(-13, -3), span(-8, 2)]);
    let cumulate = Window::Cumulate {
        size_ms: 12,
        step_ms: 4,
        offset_ms: -1,
    };
    assert_eq!(cumulate.spans(4), [span(-1, 7), span(-1, 11)]);
}

#[test]
fn a_difference_names_the_rows() {
    let case = CASES
        .iter()
        .find(|case| case.name == "basic/tumble_10_0/one");
    let case = case.expect("recorded");
    let zone = shift_zone(case, &database()).expect("a zone");
    let released = answer(case, &zone).expect("an answer");
    let mut rows: Vec<_> = released.into_iter().map(|row| (row.wm, row.row)).collect();
    let told = |rows: &[_]| {
        difference(case, rows)
            .expect("well formed")
            .unwrap_or_default()
    };
    let last = rows.pop().expect("a row");
    insta::assert_snapshot!(told(&rows), @r#"
    from row 16 on
    expected at 9223372036854775807: "a", 1586937650000, 1586937660000, 1, 13, 13, 13, 13
    got      no more rows
    "#);
    rows.extend([last.clone(), last]);
    insta::assert_snapshot!(told(&rows), @r#"
    from row 19 on
    got      at 9223372036854775807: "a", 1586937650000, 1586937660000, 1, 13, 13, 13, 13
    "#);
    rows.pop();
    rows[0].1[3] = Cell::Integer(7);
    insta::assert_snapshot!(told(&rows), @"
    from row 0 on
    expected at 1586937601832: null, 1586937590000, 1586937600000, 1, 40, 40, 40, 40
    got      at 1586937601832: null, 1586937590000, 1586937600000, 7, 40, 40, 40, 40
    ");
}
