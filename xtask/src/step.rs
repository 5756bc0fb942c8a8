//! One command after another: a heading for each on stderr, and an end at the first that fails.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::{Command, ExitCode, ExitStatus};

/// Announces what comes next.
pub(crate) fn heading(text: &str) {
    eprintln!("==> {text}");
}

/// Runs `command`, with what it prints going where ours does.
///
/// # Errors
///
/// If it cannot be started, or ends in failure: the step is named.
pub(crate) fn run(step: &str, command: &mut Command) -> Result<(), Failure> {
    heading(step);
    succeed(step, status(command)?)
}

/// Runs `command` as [`run`] does, but keeps stdout free: what it prints there goes to stderr.
pub(crate) fn prepare(step: &str, command: &mut Command) -> Result<(), Failure> {
    run(step, command.stdout(io::stderr()))
}

/// Runs `command` as the last thing of a verb: whatever status it ends with becomes ours.
pub(crate) fn hand_over(command: &mut Command) -> Result<ExitCode, Failure> {
    let status = status(command)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Runs `command` for what it prints on stdout; what it prints on stderr goes to ours.
pub(crate) fn read(command: &mut Command) -> Result<String, Failure> {
    let output = command
        .stderr(io::stderr())
        .output()
        .map_err(|error| cannot_start(command, error))?;
    succeed(&name_of(command), output.status)?;
    String::from_utf8(output.stdout)
        .map_err(|error| Failure::because(format!("reading from {}", name_of(command)), error))
}

fn status(command: &mut Command) -> Result<ExitStatus, Failure> {
    command
        .status()
        .map_err(|error| cannot_start(command, error))
}

fn succeed(step: &str, status: ExitStatus) -> Result<(), Failure> {
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("step failed: {step} ({status})")))
    }
}

fn cannot_start(command: &Command, error: io::Error) -> Failure {
    Failure::because(format!("cannot start {}", name_of(command)), error)
}

fn name_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Why a verb stopped.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    cause: Option<Box<dyn Error>>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cause: None,
        }
    }

    pub(crate) fn because(what: impl Into<String>, cause: impl Into<Box<dyn Error>>) -> Self {
        Self {
            what: what.into(),
            cause: Some(cause.into()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref()
    }
}
