//! `cargo xtask test`: all that must hold before a push, cheapest first.

use std::process::ExitCode;

use crate::native::Native;
use crate::step::{self, Failure};
use crate::workspace::Workspace;
use crate::{conform, toolchain};

/// Runs every step, until one fails.
pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode, Failure> {
    toolchain::ensure()?;
    let native = Native::ensure(workspace)?;
    let cargo = |args: &str| -> Result<(), Failure> {
        let mut command = workspace.cargo()?;
        native.apply(command.args(args.split(' ')));
        if args.starts_with("doc ") {
            command.env("RUSTDOCFLAGS", "-D warnings");
        }
        step::run(&format!("cargo {args}"), &mut command)
    };
    cargo("fmt --all --check")?;
    cargo("clippy --workspace --all-targets -- -D warnings")?;
    cargo("doc --workspace --no-deps")?;
    cargo("test --workspace")?;
    step::run("conform", &mut conform::command(workspace, &native)?)?;
    step::heading("every step passed");
    Ok(ExitCode::SUCCESS)
}
