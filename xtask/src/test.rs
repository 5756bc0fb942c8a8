//! `cargo xtask test`: all that must hold before a push, cheapest first.

use std::process::ExitCode;

use clap::Args;

use crate::native::Native;
use crate::step::{self, Failure};
use crate::workspace::Workspace;
use crate::{conform, toolchain};

/// How many times as many random sequences and inputs `--long` runs; the tests read it from this variable.
const LONG: (&str, &str) = ("WEIR_TEST_TIMES", "10");

/// How much to test.
#[derive(Args)]
pub(crate) struct TestArgs {
    /// Run ten times as many random sequences of jobs and inputs of decoders
    #[arg(long)]
    long: bool,
}

/// Runs every step, until one fails.
pub(crate) fn run(workspace: &Workspace, args: &TestArgs) -> Result<ExitCode, Failure> {
    toolchain::ensure()?;
    let native = Native::ensure(workspace)?;
    let long = args.long;
    let cargo = |args: &str| -> Result<(), Failure> {
        let mut command = workspace.cargo()?;
        native.apply(command.args(args.split(' ')));
        if args.starts_with("doc ") {
            command.env("RUSTDOCFLAGS", "-D warnings");
        }
        if long && args.starts_with("test ") {
            command.env(LONG.0, LONG.1);
        }
        step::run(&format!("cargo {args}"), &mut command)
    };
    cargo("fmt --all --check")?;
    cargo("clippy --workspace --all-targets -- -D warnings")?;
    cargo("clippy --package bench-suite --all-targets --features peers -- -D warnings")?;
    cargo("doc --workspace --no-deps")?;
    cargo("test --workspace")?;
    step::run("conform", &mut conform::command(workspace, &native)?)?;
    step::heading("every step passed");
    Ok(ExitCode::SUCCESS)
}
