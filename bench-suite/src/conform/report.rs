//! Counts of a conformance run and how they are shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::golden::value::{BadValue, UnknownType};

/// What became of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The product gives the recorded answer in every variant.
    Passed,
    /// It does not, or the case cannot be read; the text says how.
    Failed(String),
    /// It does not on purpose, by the decision of this number in `golden/DECISIONS.md`.
    Divergent(u8),
    /// Nothing can run the case yet; the text names what it is.
    Unsupported(String),
}

/// Why a line was not made into something to run.
#[derive(Clone, Debug)]
pub(crate) enum Unread {
    /// The line is wrong; the text says how.
    Malformed(String),
    /// It is right, and Arrow or the product has no place for it; the text names what it is.
    Unsupported(String),
}

impl Unread {
    /// A type of SQL that cannot be given to the product, or a text that is none.
    pub(crate) fn of_type(place: &str, error: &UnknownType) -> Self {
        error.unsupported().map_or_else(
            || Self::Malformed(format!("{place}: {error}")),
            |name| Self::Unsupported(format!("type {name}")),
        )
    }

    /// A value that its Arrow type cannot hold, or that is none of its SQL type's.
    pub(crate) fn of_value(place: &str, error: &BadValue) -> Self {
        if error.is_beyond_arrow() {
            Self::Unsupported("a timestamp that Arrow's nanoseconds cannot count".to_owned())
        } else {
            Self::Malformed(format!("{place}: {error}"))
        }
    }
}

impl From<String> for Unread {
    fn from(how: String) -> Self {
        Self::Malformed(how)
    }
}

impl From<Unread> for Verdict {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Malformed(how) => Self::Failed(how),
            Unread::Unsupported(what) => Self::Unsupported(what),
        }
    }
}

/// One case and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// File, line and name.
    pub name: String,
    /// What became of it.
    pub verdict: Verdict,
}

impl Case {
    /// A case.
    pub fn new(name: impl Into<String>, verdict: Verdict) -> Self {
        Self {
            name: name.into(),
            verdict,
        }
    }
}

/// The cases of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Path below the directory that was run.
    pub name: String,
    /// In the order of the file.
    pub cases: Vec<Case>,
}

/// All files of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In the order of their paths.
    pub files: Vec<FileReport>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    cases: usize,
    passed: usize,
    failed: usize,
    /// Decision → cases.
    divergent: BTreeMap<u8, usize>,
    unsupported: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        self.cases += 1;
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed(_) => self.failed += 1,
            Verdict::Divergent(decision) => *self.divergent.entry(*decision).or_default() += 1,
            Verdict::Unsupported(_) => self.unsupported += 1,
        }
    }

    /// `0`, or the count and the decisions: `3 (#2: 1, #3: 2)`.
    fn divergent(&self) -> String {
        if self.divergent.is_empty() {
            return "0".to_owned();
        }
        let each = self
            .divergent
            .iter()
            .map(|(decision, cases)| format!("#{decision}: {cases}"));
        let each = each.collect::<Vec<_>>().join(", ");
        format!("{} ({each})", self.divergent.values().sum::<usize>())
    }

    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            self.cases.to_string(),
            self.passed.to_string(),
            self.failed.to_string(),
            self.divergent(),
            self.unsupported.to_string(),
        ]
    }
}

/// Differences that a verbose report shows of one file.
const SHOWN_PER_FILE: usize = 5;

impl Report {
    /// Whether a case has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.cases()
            .any(|case| matches!(case.verdict, Verdict::Failed(_)))
    }

    fn cases(&self) -> impl Iterator<Item = &Case> {
        self.files.iter().flat_map(|file| &file.cases)
    }

    /// A table with a line per file. With `verbose`, the first failures of each file follow, and
    /// what its cases are that cannot run yet.
    #[must_use]
    pub fn render(&self, verbose: bool) -> String {
        let mut table = Table::new();
        table
            .load_style(ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header([
                "file",
                "cases",
                "passed",
                "failed",
                "divergent by decision",
                "not supported yet",
            ]);
        for column in 1..=5 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut total = Counts::default();
        for file in &self.files {
            let mut counts = Counts::default();
            for case in &file.cases {
                counts.add(&case.verdict);
                total.add(&case.verdict);
            }
            table.add_row(counts.row(&file.name));
        }
        table.add_row(total.row("total"));
        let mut text = format!("{table}\n");
        if verbose {
            for file in &self.files {
                render_details(file, &mut text);
            }
        }
        text
    }
}

fn render_details(file: &FileReport, text: &mut String) {
    let failures = file.cases.iter().filter_map(|case| match &case.verdict {
        Verdict::Failed(how) => Some((&case.name, how)),
        _ => None,
    });
    let more = failures.clone().count().saturating_sub(SHOWN_PER_FILE);
    for (name, how) in failures.take(SHOWN_PER_FILE) {
        write!(text, "\nfailed: {name}\n  {}\n", how.replace('\n', "\n  "))
            .expect("a string takes whatever is written");
    }
    if more > 0 {
        writeln!(text, "\n{}: {more} more failed", file.name)
            .expect("a string takes whatever is written");
    }
    let mut unsupported: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &file.cases {
        if let Verdict::Unsupported(what) = &case.verdict {
            *unsupported.entry(what).or_default() += 1;
        }
    }
    for (what, cases) in unsupported {
        writeln!(text, "\n{}: {cases} not supported yet: {what}", file.name)
            .expect("a string takes whatever is written");
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, FileReport, Report, Verdict};

    fn report() -> Report {
        let file = |name: &str, verdicts: Vec<Verdict>| FileReport {
            name: name.to_owned(),
            cases: verdicts
                .into_iter()
                .enumerate()
                .map(|(i, verdict)| Case::new(format!("{name}:{}", i + 1), verdict))
                .collect(),
        };
        Report {
            files: vec![
                file(
                    "top1.jsonl",
                    vec![
                        Verdict::Passed,
                        Verdict::Failed("change 0\nexpected +I 1\ngot nothing".to_owned()),
                        Verdict::Divergent(2),
                        Verdict::Divergent(3),
                        Verdict::Divergent(3),
                    ],
                ),
                file(
                    "zones.jsonl",
                    vec![Verdict::Unsupported("Zones".to_owned())],
                ),
            ],
        }
    }

    #[test]
    fn the_table_has_a_line_per_file_and_a_total() {
        assert!(report().has_failed());
        insta::assert_snapshot!(report().render(false), @"
        | file        | cases | passed | failed | divergent by decision | not supported yet |
        |-------------|-------|--------|--------|-----------------------|-------------------|
        | top1.jsonl  |     5 |      1 |      1 |      3 (#2: 1, #3: 2) |                 0 |
        | zones.jsonl |     1 |      0 |      0 |                     0 |                 1 |
        | total       |     6 |      1 |      1 |      3 (#2: 1, #3: 2) |                 1 |
        ");
    }

    #[test]
    fn a_verbose_report_shows_differences() {
        insta::assert_snapshot!(report().render(true), @"
        | file        | cases | passed | failed | divergent by decision | not supported yet |
        |-------------|-------|--------|--------|-----------------------|-------------------|
        | top1.jsonl  |     5 |      1 |      1 |      3 (#2: 1, #3: 2) |                 0 |
        | zones.jsonl |     1 |      0 |      0 |                     0 |                 1 |
        | total       |     6 |      1 |      1 |      3 (#2: 1, #3: 2) |                 1 |

        failed: top1.jsonl:2
          change 0
          expected +I 1
          got nothing

        zones.jsonl: 1 not supported yet: Zones
        ");
    }
}
