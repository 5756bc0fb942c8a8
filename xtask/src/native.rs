//! RocksDB's C++, compiled once for every profile.
//!
//! Cargo would run the build script of the bindings once per profile and target directory, a quarter of
//! an hour each. The script takes a finished library where `ROCKSDB_LIB_DIR` says; so that library is
//! built once, by the same script, and kept with a stamp of what went into it:
//!
//! ```text
//! <target dir>/native/
//!   build/              where cargo ran the build script
//!   lib/librocksdb.a    the library
//!   lib/stamp           what it was built from
//!   lock                held while the three above change
//! ```

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::step::{self, Failure};
use crate::toolchain;
use crate::workspace::Workspace;

const BINDINGS: &str = "librocksdb-sys";
const LIBRARY: &str = "librocksdb.a";

/// Variables that the compilation reads, beside the version and features of the bindings.
const INPUTS: [&str; 8] = [
    "CC",
    "CFLAGS",
    "CXX",
    "CXXFLAGS",
    "ROCKSDB_CXX_STD",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
];

/// Builds the library if need be, and prints what a shell evaluates to make plain cargo commands use it.
pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode, Failure> {
    toolchain::ensure()?;
    for (name, value) in Native::ensure(workspace)?.variables {
        println!("export {name}={}", quoted(&value.to_string_lossy()));
    }
    Ok(ExitCode::SUCCESS)
}

/// A library that is there, as the variables that tell the build script of it.
pub(crate) struct Native {
    variables: Vec<(&'static str, OsString)>,
}

impl Native {
    /// Finds the library that the user chose by `ROCKSDB_LIB_DIR`, or else ours, which is built if it is
    /// missing or was made from something else.
    pub(crate) fn ensure(workspace: &Workspace) -> Result<Self, Failure> {
        if env::var_os("ROCKSDB_LIB_DIR").is_some() {
            let inherited = |name| Some((name, env::var_os(name)?));
            let variables = ["ROCKSDB_LIB_DIR", "ROCKSDB_STATIC"];
            return Ok(Self {
                variables: variables.into_iter().filter_map(inherited).collect(),
            });
        }
        let native = workspace.target_dir()?.join("native");
        let lib = native.join("lib");
        provide(workspace, &native, &lib)?;
        Ok(Self {
            variables: vec![
                ("ROCKSDB_LIB_DIR", lib.into_os_string()),
                ("ROCKSDB_STATIC", "1".into()),
            ],
        })
    }

    /// Makes `command` link the library.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

fn provide(workspace: &Workspace, native: &Path, lib: &Path) -> Result<(), Failure> {
    let cannot = |error: io::Error| {
        Failure::because(
            format!("cannot keep RocksDB in {}", native.display()),
            error,
        )
    };
    fs::create_dir_all(lib).map_err(cannot)?;
    let lock = File::create(native.join("lock")).map_err(cannot)?;
    lock.lock().map_err(cannot)?; // until dropped

    let stamp = stamp_of(workspace)?;
    let kept = fs::read_to_string(lib.join("stamp")).is_ok_and(|kept| kept == stamp);
    if kept && lib.join(LIBRARY).is_file() {
        return Ok(());
    }
    let built = build(workspace, &native.join("build"))?;
    // The old stamp goes first and the new one comes last, so that an interruption leaves no false claim.
    fs::write(lib.join("stamp"), "").map_err(cannot)?;
    let partial = lib.join("librocksdb.a.partial");
    fs::copy(built, &partial).map_err(cannot)?;
    fs::rename(&partial, lib.join(LIBRARY)).map_err(cannot)?;
    fs::write(lib.join("stamp"), stamp).map_err(cannot)
}

/// Runs the build script of the bindings, and returns the library that it left.
fn build(workspace: &Workspace, target_dir: &Path) -> Result<PathBuf, Failure> {
    step::heading("compiling RocksDB, once (about a quarter of an hour on two cores)");
    let mut command = workspace.cargo()?;
    command
        .args([
            "build",
            "--release",
            "--message-format",
            "json",
            "--package",
        ])
        .arg(BINDINGS)
        .arg("--target-dir")
        .arg(target_dir)
        .stdin(Stdio::null());
    let messages = step::read(&mut command)?;
    out_dir(&messages)
        .map(|dir| dir.join(LIBRARY))
        .ok_or_else(|| Failure::new(format!("cargo ran no build script of {BINDINGS}")))
}

/// Where the build script of the bindings put what it made, according to cargo's messages.
fn out_dir(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "build-script-executed")
        .find(|message| {
            let id = message["package_id"].as_str().unwrap_or_default();
            id.contains(&format!("#{BINDINGS}@"))
        })
        .and_then(|message| Some(PathBuf::from(message["out_dir"].as_str()?)))
}

/// What the library is made from, a line each.
fn stamp_of(workspace: &Workspace) -> Result<String, Failure> {
    let bindings = workspace
        .packages()
        .find(|package| package["name"] == BINDINGS)
        .ok_or_else(|| Failure::new(format!("the workspace does not use {BINDINGS}")))?;
    let features = workspace
        .nodes()
        .find(|node| node["id"] == bindings["id"])
        .map_or(&Value::Null, |node| &node["features"]);
    let mut stamp = format!(
        "{BINDINGS} {} {features}\ntarget {}\n",
        bindings["version"],
        workspace.host()?
    );
    for name in INPUTS {
        if let Some(value) = env::var_os(name) {
            stamp.push_str(&format!("{name} {value:?}\n"));
        }
    }
    Ok(stamp)
}

/// `text` as one word of a POSIX shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{out_dir, quoted};

    #[test]
    fn the_out_dir_is_the_one_of_the_bindings() {
        let messages = r##"
{"reason":"build-script-executed","package_id":"registry+x#lz4-sys@1.0.0","out_dir":"/t/lz4/out"}
{"reason":"compiler-artifact","package_id":"registry+x#librocksdb-sys@0.19.0+11.8.1","out_dir":"/no"}
not a message
{"reason":"build-script-executed","package_id":"registry+x#librocksdb-sys@0.19.0+11.8.1","out_dir":"/t/rocks \"1\"/out"}
{"reason":"build-finished","success":true}"##;
        assert_eq!(
            out_dir(messages),
            Some(PathBuf::from(r#"/t/rocks "1"/out"#))
        );
        assert_eq!(out_dir(""), None);
    }

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("/a/b-c_1.2"), "/a/b-c_1.2");
        assert_eq!(quoted("/my dir"), "'/my dir'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
