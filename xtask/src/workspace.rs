//! What cargo, rustc and git say of this workspace.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::step::{self, Failure};

/// The workspace that this program was compiled in, as seen by the cargo that runs it.
pub(crate) struct Workspace {
    /// Answer of `cargo metadata`, with the dependencies that the host needs.
    metadata: Value,
    rustc: String,
}

impl Workspace {
    /// Asks cargo and rustc. Crates that are not downloaded yet are.
    pub(crate) fn load() -> Result<Self, Failure> {
        let rustc = step::read(Command::new(rustc()).arg("-vV"))?;
        let mut command = Command::new(cargo());
        command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["metadata", "--format-version", "1", "--filter-platform"])
            .arg(host_of(&rustc)?);
        let metadata = serde_json::from_str(&step::read(&mut command)?)
            .map_err(|error| Failure::because("cannot read what `cargo metadata` says", error))?;
        Ok(Self { metadata, rustc })
    }

    /// A cargo command that runs at the root of the workspace.
    pub(crate) fn cargo(&self) -> Result<Command, Failure> {
        let mut command = Command::new(cargo());
        command.current_dir(self.root()?);
        Ok(command)
    }

    /// A `cargo run` that builds in this workspace but starts the program in the caller's directory,
    /// so that the paths that the caller gives mean what they say.
    pub(crate) fn cargo_run(&self) -> Result<Command, Failure> {
        let mut command = Command::new(cargo());
        command
            .args(["run", "--quiet", "--manifest-path"])
            .arg(self.root()?.join("Cargo.toml"));
        Ok(command)
    }

    /// The directory of the root `Cargo.toml`.
    pub(crate) fn root(&self) -> Result<&Path, Failure> {
        self.directory("workspace_root")
    }

    /// Where cargo puts what it builds.
    pub(crate) fn target_dir(&self) -> Result<&Path, Failure> {
        self.directory("target_directory")
    }

    fn directory(&self, field: &str) -> Result<&Path, Failure> {
        let path = self.metadata[field].as_str();
        path.map(Path::new)
            .ok_or_else(|| Failure::new(format!("`cargo metadata` says no {field}")))
    }

    /// What `rustc -vV` says.
    pub(crate) fn rustc(&self) -> &str {
        self.rustc.trim_end()
    }

    /// The target triple of this machine.
    pub(crate) fn host(&self) -> Result<&str, Failure> {
        host_of(&self.rustc)
    }

    /// The packages of `cargo metadata`.
    pub(crate) fn packages(&self) -> impl Iterator<Item = &Value> {
        self.metadata["packages"].as_array().into_iter().flatten()
    }

    /// The nodes of the resolved dependency graph.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Value> {
        self.metadata["resolve"]["nodes"]
            .as_array()
            .into_iter()
            .flatten()
    }

    /// The hash of the commit that is checked out, `-dirty` behind it if files differ from it;
    /// "unknown" outside a repository.
    pub(crate) fn commit(&self) -> Result<String, Failure> {
        let root = self.root()?;
        let git = |args: &[&str]| {
            let output = Command::new("git")
                .current_dir(root)
                .args(args)
                .output()
                .ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            output.status.success().then(|| text.trim().to_owned())
        };
        Ok(match git(&["rev-parse", "HEAD"]) {
            Some(head) if git(&["status", "--porcelain"]).is_some_and(|diff| diff.is_empty()) => {
                head
            }
            Some(head) => head + "-dirty",
            None => "unknown".to_owned(),
        })
    }
}

fn host_of(rustc: &str) -> Result<&str, Failure> {
    rustc
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or_else(|| Failure::new("`rustc -vV` says no host"))
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn rustc() -> OsString {
    env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// The first file called `name` in the directories of `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}
