//! Shows recorded trials, and compares two records.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench_suite::conform::error_chain;
use bench_suite::report::compare::compare;
use bench_suite::report::data::Trials;
use bench_suite::report::markdown::{document, rates, regenerated};
use bench_suite::report::page::page;
use bench_suite::report::targets::{judge, targets};
use bench_suite::trial::TrialError;
use clap::{Parser, Subcommand, ValueEnum};

/// Shows recorded trials, and compares two records.
#[derive(Parser)]
#[command(name = "report", version)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write a page with charts of a record: what is missed stands first
    Page {
        /// The file of raw trials [default: the one of the repository]
        record: Option<PathBuf>,
        /// Where the page goes [default: target/trials/report.html]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Where the same tables go as Markdown
        #[arg(long, value_name = "FILE")]
        markdown: Option<PathBuf>,
        /// Make the tables of the README and of bench-suite/record/reference.md anew
        #[arg(long, conflicts_with = "record")]
        readme: bool,
    },
    /// Compare two records, cell by cell
    Compare {
        /// The file of raw trials that comes first
        first: PathBuf,
        /// The one that is held against it
        second: PathBuf,
        /// By how much, as a part of 1, times must differ to be called slower or faster
        #[arg(long, value_name = "PART", default_value_t = 0.05)]
        threshold: f64,
        /// For people or for programs
        #[arg(long, value_enum, default_value = "table")]
        format: Format,
        /// Exit with 1 if something got slower
        #[arg(long)]
        fail_on_slower: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

fn main() -> ExitCode {
    run(Options::parse().what).unwrap_or_else(|error| {
        eprintln!("error: {}", error_chain(&error));
        ExitCode::FAILURE
    })
}

fn run(what: What) -> Result<ExitCode, TrialError> {
    match what {
        What::Page {
            record,
            out,
            markdown,
            readme,
        } => {
            let trials = Trials::read(&record.unwrap_or_else(reference))?;
            let judged = judge(&targets()?, &trials);
            let out = out.unwrap_or_else(|| repository().join("target/trials/report.html"));
            write(&out, &page(&trials, &judged))?;
            if let Some(path) = markdown {
                write(&path, &document(&trials, &judged))?;
            }
            if readme {
                let path = repository().join("README.md");
                let failed = |source| TrialError::Record {
                    path: path.clone(),
                    source,
                };
                let old = fs::read_to_string(&path).map_err(failed)?;
                if let Some(new) = regenerated(&old, &rates(&trials)) {
                    write(&path, &new)?;
                }
                let all = reference().with_extension("md");
                write(&all, &document(&trials, &judged))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        What::Compare {
            first,
            second,
            threshold,
            format,
            fail_on_slower,
        } => {
            let comparison = compare(&Trials::read(&first)?, &Trials::read(&second)?, threshold);
            match format {
                Format::Table => print!("{}", comparison.render()),
                Format::Json => println!("{}", serde_json::json!(comparison)),
            }
            Ok(match fail_on_slower && comparison.is_slower() {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            })
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), TrialError> {
    let failed = |source| TrialError::Record {
        path: path.to_owned(),
        source,
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)?;
    eprintln!("written: {}", path.display());
    Ok(())
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The record that the README's tables are of.
fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("record/reference.jsonl")
}
