//! Drives building, testing, conformance and trials of Weir.
//!
//! A verb prints its result on stdout; headings, progress and the output of preparations go to stderr.

#![allow(clippy::print_stderr, clippy::print_stdout)]

mod bench; // verb: the trials
mod conform; // verb: recorded answers
mod inspect; // verb: what a checkpoint holds
mod native; // verb: RocksDB's C++, compiled once
mod step; // one command after another, and why one stopped
mod test; // verb: all that must hold before a push
mod toolchain; // what compiling RocksDB needs of the machine
mod workspace; // what cargo and git say of this workspace

#[cfg(test)]
mod layering; // which member may depend on which

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bench::PassedOn;
use crate::conform::ConformArgs;
use crate::inspect::InspectArgs;
use crate::step::Failure;
use crate::test::TestArgs;
use crate::workspace::Workspace;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check formatting, lints, docs, tests and recorded answers: what CI runs
    #[command(visible_alias = "check")]
    Test(TestArgs),
    /// Hold the workspace against recorded answers of Flink
    Conform(ConformArgs),
    /// Build in release and run the trials: `--list`, `--suite`, `--filter`, `--profile quick|full`, `--out`,
    /// `--format json|table`, `--peers`
    Bench(PassedOn),
    /// Run the trials into the record that the README's tables are of
    Record(PassedOn),
    /// Write a page with charts of a record, what is missed first: `[RECORD]`, `--out`, `--markdown`, `--readme`
    Report(PassedOn),
    /// Compare two records cell by cell: `A B`, `--threshold`, `--format json|table`, `--fail-on-slower`
    Compare(PassedOn),
    /// Show what a directory of checkpoints holds, and whether it is whole
    Inspect(InspectArgs),
    /// Compile RocksDB's C++ once, and print what makes plain cargo commands use it
    Native,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.verb) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("xtask: {}", with_causes(&failure));
            ExitCode::FAILURE
        }
    }
}

fn run(verb: &Verb) -> Result<ExitCode, Failure> {
    let workspace = Workspace::load()?;
    match verb {
        Verb::Test(args) => test::run(&workspace, args),
        Verb::Conform(args) => conform::run(&workspace, args),
        Verb::Bench(args) => bench::bench(&workspace, args),
        Verb::Record(args) => bench::record(&workspace, args),
        Verb::Report(args) => bench::report(&workspace, args),
        Verb::Compare(args) => bench::compare(&workspace, args),
        Verb::Inspect(args) => inspect::run(&workspace, args),
        Verb::Native => native::run(&workspace),
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_misspelt_verb_is_told_the_near_match() {
        let error = Cli::try_parse_from(["cargo xtask", "comform"])
            .err()
            .unwrap();
        assert!(error.to_string().contains("'conform'"), "{error}");
    }
}
