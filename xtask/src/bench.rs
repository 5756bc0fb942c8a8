//! `cargo xtask bench`, `record`, `report` and `compare`: builds in release and hands over to the programs of
//! `bench-suite`.

use std::process::ExitCode;

use clap::Args;

use crate::native::Native;
use crate::step::{self, Failure};
use crate::toolchain;
use crate::workspace::Workspace;

/// Passed on to the program that does the work.
#[derive(Args)]
pub(crate) struct PassedOn {
    /// Passed on; `-- --help` lists what can be given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs the trials; their stdout is all that ours shows, their exit status becomes ours.
pub(crate) fn bench(workspace: &Workspace, args: &PassedOn) -> Result<ExitCode, Failure> {
    hand_over(workspace, "trials", &[], &args.args)
}

/// Runs the trials of the quick profile with more samples, into the record that the README's tables are of.
pub(crate) fn record(workspace: &Workspace, args: &PassedOn) -> Result<ExitCode, Failure> {
    let record = workspace.root()?.join("bench-suite/record/reference.jsonl");
    let record = record.to_string_lossy();
    let given = [
        "--out",
        &record,
        "--samples",
        "15",
        "--seconds-per-cell",
        "4",
    ];
    hand_over(workspace, "trials", &given, &args.args)
}

/// Writes the page of a record.
pub(crate) fn report(workspace: &Workspace, args: &PassedOn) -> Result<ExitCode, Failure> {
    hand_over(workspace, "report", &["page"], &args.args)
}

/// Compares two records.
pub(crate) fn compare(workspace: &Workspace, args: &PassedOn) -> Result<ExitCode, Failure> {
    hand_over(workspace, "report", &["compare"], &args.args)
}

fn hand_over(
    workspace: &Workspace,
    program: &str,
    given: &[&str],
    args: &[String],
) -> Result<ExitCode, Failure> {
    toolchain::ensure()?;
    let native = Native::ensure(workspace)?;
    let mut what = vec!["--release", "--package", "bench-suite", "--bin", program];
    if args.iter().any(|arg| arg == "--peers") {
        // Nobody builds them unasked.
        what.extend(["--features", "peers"]);
    }
    let mut build = workspace.cargo()?;
    native.apply(build.arg("build").args(&what));
    step::prepare(&format!("building {program} in release"), &mut build)?;

    step::heading(&format!("running {program}"));
    let mut run = workspace.cargo_run()?;
    native.apply(run.args(&what).arg("--").args(given).args(args));
    run.env("WEIR_COMMIT", workspace.commit()?)
        .env("WEIR_RUSTC", workspace.rustc());
    step::hand_over(&mut run)
}
