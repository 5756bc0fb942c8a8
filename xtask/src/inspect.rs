//! `cargo xtask inspect`: shows what a directory of checkpoints holds.

use std::process::ExitCode;

use clap::Args;

use crate::native::Native;
use crate::step::{self, Failure};
use crate::toolchain;
use crate::workspace::Workspace;

/// What to show.
#[derive(Args)]
pub(crate) struct InspectArgs {
    /// The directory, or the manifest of one checkpoint, and `--id N`, `--rows N`, `--verify`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs the inspection; its exit status becomes ours.
pub(crate) fn run(workspace: &Workspace, args: &InspectArgs) -> Result<ExitCode, Failure> {
    toolchain::ensure()?;
    let native = Native::ensure(workspace)?;
    let mut command = workspace.cargo_run()?;
    native.apply(command.args(["--package", "bench-suite", "--bin", "inspect"]));
    command.arg("--").args(&args.args);
    step::hand_over(&mut command)
}
