//! Runs recorded answers against Weir and prints what became of them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bench_suite::conform;
use clap::Parser;
use indicatif::ProgressBar;

/// Runs every recording in a directory against Weir.
///
/// Prints per file how many cases there are and how many passed, failed, diverge by a decision of
/// golden/DECISIONS.md, and cannot run yet. Exits with 1 if a case failed.
#[derive(Parser)]
#[command(name = "conform", version)]
struct Options {
    /// Directory of recordings in the formats of golden/README.md [default: those of the repository]
    directory: Option<PathBuf>,
    /// Show the first differences of each file
    #[arg(long, short)]
    verbose: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let directory = options.directory.unwrap_or_else(conform::repository_golden);
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(100));
    let report = conform::run(&directory, &mut |file| {
        progress.set_message(file.to_owned())
    });
    progress.finish_and_clear();
    match report {
        Ok(report) => {
            print!("{}", report.render(options.verbose));
            if report.has_failed() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
        Err(error) => {
            eprintln!("error: {}", conform::error_chain(&error));
            ExitCode::FAILURE
        }
    }
}
