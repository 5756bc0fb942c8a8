//! Times Weir's operators beside their floors, and prints one table or JSON lines.
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
use bench_suite::trial::outcome::{Outcome, Problem, render};
use bench_suite::trial::record::{Line, Record, Run, cpu_model};
use bench_suite::trial::run::{Effort, Flights, run};
use bench_suite::trial::suite::{Listed, Profile, Suite, select};
use chrono::{DateTime, Utc};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

/// Times Weir's operators beside general ones and their floors.
///
/// Engines take turns within one run, every answer is checked, and a wrong answer has no time. Results go to
/// standard output, progress to standard error, raw trials to a file of JSON lines. Exits with 1 if an answer was
/// wrong.
#[derive(Parser)]
#[command(name = "trials", version)]
struct Options {
    /// Suites to run [default: all of them that the profile has trials of]
    #[arg(long, value_enum)]
    suite: Vec<Suite>,
    /// Run only trials whose name, such as append_top1/rejected/64-keys/8-bytes/immediate/memory,
    /// holds this; may be given more than once, and then all must be held
    #[arg(long, value_name = "SUBSTR")]
    filter: Vec<String>,
    /// Which trials, and with how much effort
    #[arg(long, value_enum, default_value = "quick")]
    profile: Profile,
    /// File of raw trials [default: target/trials/TIME.jsonl]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What goes to standard output: a table, or the lines of the file of raw trials
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Let peers that a user could pick instead take turns, where they can do the same work
    #[cfg(feature = "peers")]
    #[arg(long)]
    peers: bool,
    /// Print the names of the selected trials and what each shows, and run none
    #[arg(long)]
    list: bool,
    /// What each trial may take [default: 1.5 in the profile quick, 4 in full]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds_per_cell: Option<f64>,
    /// Samples of each engine [default: 5 in the profile quick, 15 in full]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    samples: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// JSON lines, for programs
    Json,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0 to 3600".to_owned()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = selected(&options).and_then(|selected| {
        if options.list {
            list(&selected, options.format);
            return Ok(ExitCode::SUCCESS);
        }
        if cfg!(debug_assertions) {
            eprintln!(
                "error: this is a debug build, whose times mean nothing; use \
                 `cargo run --release -p bench-suite --bin trials`"
            );
            return Ok(ExitCode::FAILURE);
        }
        let outcomes = run_all(&options, selected)?;
        if options.format == Format::Table {
            print!("{}", render(&outcomes));
        }
        let is_wrong = |outcome: &Outcome| matches!(outcome.result, Err(Problem::Wrong(_)));
        Ok(match outcomes.iter().any(is_wrong) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    });
    done.unwrap_or_else(|error| {
        eprintln!("error: {}", error_chain(&error));
        ExitCode::FAILURE
    })
}

/// The suites that are asked for, or all.
fn suites(options: &Options) -> Vec<Suite> {
    match options.suite.as_slice() {
        [] => Suite::value_variants().to_vec(),
        suites => suites.to_vec(),
    }
}

fn selected(options: &Options) -> Result<Vec<Listed>, TrialError> {
    select(&suites(options), options.profile, &options.filter)
}

fn list(selected: &[Listed], format: Format) {
    for listed in selected {
        let (name, why) = (listed.trial.to_string(), &listed.why);
        match format {
            Format::Table => println!("{name}\n    {why}"),
            Format::Json => println!("{}", serde_json::json!({ "trial": name, "why": why })),
        }
    }
}

fn run_all(options: &Options, selected: Vec<Listed>) -> Result<Vec<Outcome>, TrialError> {
    let (seconds_per_cell, samples) = match options.profile {
        Profile::Quick => (1.5, 5),
        Profile::Full => (4.0, 15),
    };
    let seconds_per_cell = options.seconds_per_cell.unwrap_or(seconds_per_cell);
    let effort = Effort {
        samples: usize::from(options.samples.unwrap_or(samples)),
        time_per_trial: Duration::from_secs_f64(seconds_per_cell),
        #[cfg(feature = "peers")]
        peers: options.peers,
        #[cfg(not(feature = "peers"))]
        peers: false,
    };
    let now = DateTime::<Utc>::from(SystemTime::now());
    let path = options.out.clone().unwrap_or_else(|| default_record(now));
    let mut record = Record::create(&path)?;
    let mut write = |line: &Line| {
        if options.format == Format::Json {
            println!("{}", serde_json::json!(line));
        }
        record.write(line)
    };
    write(&Line::Run(Run {
        commit: env::var("WEIR_COMMIT").ok(),
        cpu: cpu_model(),
        threads: thread::available_parallelism().map_or(1, usize::from),
        compiler: env::var("WEIR_RUSTC").ok(),
        profile: "release".to_owned(),
        arguments: env::args().skip(1).collect(),
        suites: suites(options)
            .into_iter()
            .map(|suite| suite.name().to_owned())
            .collect(),
        filters: options.filter.clone(),
        trials: selected.len(),
        samples: effort.samples,
        seconds_per_cell,
        started_epoch_seconds: now.timestamp(),
    }))?;
    let progress = ProgressBar::new(selected.len() as u64).with_style(
        ProgressStyle::with_template(
            "{bar:30} {pos}/{len} {elapsed_precise}, {eta_precise} left: {msg}",
        )
        .expect("the template is well formed"),
    );
    let mut flights = Flights::default();
    let mut outcomes = Vec::new();
    for listed in selected {
        progress.set_message(listed.trial.to_string());
        for outcome in run(listed.trial, effort, &mut flights)? {
            for line in Line::of_outcome(&outcome) {
                write(&line)?;
            }
            outcomes.push(outcome);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    eprintln!("raw trials: {}", path.display());
    Ok(outcomes)
}

fn default_record(started: DateTime<Utc>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/trials")
        .join(started.format("%Y%m%dT%H%M%SZ.jsonl").to_string())
}
