//! Times Weir's rankers beside their floors and prints one table.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use bench_suite::conform::error_chain;
use bench_suite::trial::TrialError;
use bench_suite::trial::cell::{Suite, select};
use bench_suite::trial::outcome::{Outcome, render, store_name};
use bench_suite::trial::record::{Line, Record, Run, cpu_model};
use bench_suite::trial::run::{Effort, Flights, run};
use chrono::{DateTime, Utc};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

/// Times Weir's rankers beside the general ranker and their floors.
///
/// Engines take turns within one run, every answer is checked, and a wrong answer has no time. The
/// table goes to standard output, progress to standard error, raw trials to a file of JSON lines.
/// Exits with 1 if an answer was wrong.
#[derive(Parser)]
#[command(name = "trials", version)]
struct Options {
    /// Suites to run [default: all]
    #[arg(long, value_enum)]
    suite: Vec<Suite>,
    /// Run only trials whose name, such as append_top1/rejected/64-keys/8-bytes/immediate/memory,
    /// holds this; may be given more than once, and then all must be held
    #[arg(long, value_name = "SUBSTR")]
    filter: Vec<String>,
    /// File of raw trials [default: target/trials/TIME.jsonl]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What each trial may take
    #[arg(long, value_name = "SECONDS", default_value_t = 2.5, value_parser = seconds)]
    seconds_per_cell: f64,
    /// Samples of each engine
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    samples: u16,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0 to 3600".to_owned()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if cfg!(debug_assertions) {
        eprintln!(
            "error: this is a debug build, whose times mean nothing; use \
             `cargo run --release -p bench-suite --bin trials`"
        );
        return ExitCode::FAILURE;
    }
    match run_all(&options) {
        Ok(outcomes) => {
            print!("{}", render(&outcomes));
            if outcomes.iter().any(|outcome| outcome.result.is_err()) {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
        Err(error) => {
            eprintln!("error: {}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run_all(options: &Options) -> Result<Vec<Outcome>, TrialError> {
    let is_chosen = |suite: &Suite| options.suite.is_empty() || options.suite.contains(suite);
    let suites = || {
        let all = Suite::value_variants().iter().copied();
        all.filter(is_chosen)
    };
    let selected = select(suites().flat_map(Suite::trials).collect(), &options.filter)?;
    let effort = Effort {
        samples: usize::from(options.samples),
        time_per_trial: Duration::from_secs_f64(options.seconds_per_cell),
    };
    let now = DateTime::<Utc>::from(SystemTime::now());
    let path = options.out.clone().unwrap_or_else(|| default_record(now));
    let mut record = Record::create(&path)?;
    record.write(&Line::Run(&Run {
        commit: env::var("WEIR_COMMIT").ok(),
        cpu: cpu_model(),
        threads: thread::available_parallelism().map_or(1, usize::from),
        compiler: env::var("WEIR_RUSTC").ok(),
        profile: "release",
        arguments: env::args().skip(1).collect(),
        suites: suites()
            .filter_map(|suite| Some(suite.to_possible_value()?.get_name().to_owned()))
            .collect(),
        filters: options.filter.clone(),
        trials: selected.len(),
        samples: effort.samples,
        seconds_per_cell: options.seconds_per_cell,
        started_epoch_seconds: now.timestamp(),
    }))?;
    let progress = ProgressBar::new(selected.len() as u64).with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed_precise} {msg}")
            .expect("the template is well formed"),
    );
    let mut flights = Flights::default();
    let mut outcomes = Vec::new();
    for trial in selected {
        progress.set_message(trial.to_string());
        for outcome in run(trial, effort, &mut flights)? {
            write_outcome(&mut record, &outcome)?;
            outcomes.push(outcome);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    eprintln!("raw trials: {}", path.display());
    Ok(outcomes)
}

fn write_outcome(record: &mut Record, outcome: &Outcome) -> Result<(), TrialError> {
    let Outcome {
        workload,
        engine,
        result,
        ..
    } = outcome;
    let store = store_name(outcome.store);
    match result {
        Ok(samples) => {
            for (sample, &nanos) in samples.nanos.iter().enumerate() {
                let (engine, rows) = (*engine, samples.rows);
                record.write(&Line::Sample {
                    workload,
                    store: &store,
                    engine,
                    sample,
                    rows,
                    nanos,
                })?;
            }
            Ok(())
        }
        Err(problem) => record.write(&Line::Wrong {
            workload,
            store: &store,
            engine: *engine,
            problem,
        }),
    }
}

fn default_record(started: DateTime<Utc>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/trials")
        .join(started.format("%Y%m%dT%H%M%SZ.jsonl").to_string())
}
