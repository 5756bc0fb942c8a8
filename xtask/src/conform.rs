//! `cargo xtask conform`: holds the workspace against recorded answers of Flink.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::native::Native;
use crate::step::{self, Failure};
use crate::toolchain;
use crate::workspace::Workspace;

/// What to hold it against.
#[derive(Args)]
pub(crate) struct ConformArgs {
    /// Directory of recorded answers [default: the copies in the repository]
    dir: Option<PathBuf>,
    /// Show the first differences of each file
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the comparison; its exit status becomes ours.
pub(crate) fn run(workspace: &Workspace, args: &ConformArgs) -> Result<ExitCode, Failure> {
    toolchain::ensure()?;
    let mut command = command(workspace, &Native::ensure(workspace)?)?;
    command.arg("--").args(&args.dir);
    if args.verbose {
        command.arg("--verbose");
    }
    step::hand_over(&mut command)
}

/// The comparison with its defaults. Unoptimised builds find more: they check for overflow.
pub(crate) fn command(workspace: &Workspace, native: &Native) -> Result<Command, Failure> {
    let mut command = workspace.cargo_run()?;
    native.apply(command.args(["--package", "bench-suite", "--bin", "conform"]));
    Ok(command)
}
