//! `cargo xtask bench`: builds in release and runs the trials.

use std::process::ExitCode;

use clap::Args;

use crate::native::Native;
use crate::step::{self, Failure};
use crate::toolchain;
use crate::workspace::Workspace;

const TRIALS: [&str; 5] = ["--release", "--package", "bench-suite", "--bin", "trials"];

/// What to measure.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Passed on to the trials; `-- --help` lists what they take
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Builds and runs the trials; their stdout is all that ours shows, their exit status becomes ours.
pub(crate) fn run(workspace: &Workspace, args: &BenchArgs) -> Result<ExitCode, Failure> {
    toolchain::ensure()?;
    let native = Native::ensure(workspace)?;
    let mut build = workspace.cargo()?;
    native.apply(build.arg("build").args(TRIALS));
    step::prepare("building the trials in release", &mut build)?;

    step::heading("running the trials");
    let mut trials = workspace.cargo_run()?;
    native.apply(trials.args(TRIALS).arg("--").args(&args.args));
    trials
        .env("WEIR_COMMIT", workspace.commit()?)
        .env("WEIR_RUSTC", workspace.rustc());
    step::hand_over(&mut trials)
}
