//! Recorded answers against the product, through its public API.
//!
//! A directory may hold any files in the documented formats (`golden/README.md`). Every line of
//! every file counts as a case; Markdown pages alone are left out.

mod calendar; // conversions, triggers and zone ids
mod changelog; // a ranker's output against a recorded changelog
pub(crate) mod flight_windows; // windows over the flights
mod flights; // the changelog of the flights
mod keygroup; // key rows, their hash and their routing
mod model; // an obvious Top-N, for answers that a decision changes
mod rank; // ranking and deduplication jobs
mod report; // counts and how they are shown
mod ttl; // ranking jobs whose state expires
pub mod window; // windowed queries: cases, an obvious model, and the comparison

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread;

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use crate::conform::changelog::{Changes, error_chain};
pub use crate::conform::report::{Case, FileReport, Report, Verdict};
use crate::golden::format::Format;

/// Why a directory could not be run at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConformError {
    /// A directory or file could not be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is nothing to run.
    #[error("{} holds no recordings", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
}

/// The recordings in the repository.
#[must_use]
pub fn repository_golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Runs every file in `directory` and the directories below it, in the order of their paths, and
/// calls `progress` with each path before it is run. Links to directories are not followed.
///
/// # Errors
///
/// [`ConformError`] where the directory or a file cannot be read, or there is no file. What is
/// wrong *in* a file is a failed case of the report.
pub fn run(directory: &Path, progress: &mut dyn FnMut(&str)) -> Result<Report, ConformError> {
    let mut paths = Vec::new();
    collect_files(directory, &mut paths)?;
    if paths.is_empty() {
        return Err(ConformError::Empty {
            path: directory.to_owned(),
        });
    }
    let mut files = Vec::new();
    for path in paths {
        let name = path
            .strip_prefix(directory)
            .unwrap_or(&path)
            .display()
            .to_string();
        progress(&name);
        files.push(run_file(directory, &path, name)?);
    }
    Ok(Report { files })
}

fn collect_files(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<(), ConformError> {
    let error = |source| ConformError::Io {
        path: directory.to_owned(),
        source,
    };
    let mut entries = fs::read_dir(directory)
        .and_then(|entries| {
            entries
                .map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))))
                .collect::<Result<Vec<_>, _>>()
        })
        .map_err(error)?;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (path, file_type) in entries {
        if file_type.is_dir() {
            collect_files(&path, paths)?;
        } else if path.extension().is_none_or(|ending| ending != "md") {
            paths.push(path);
        }
    }
    Ok(())
}

fn run_file(directory: &Path, path: &Path, name: String) -> Result<FileReport, ConformError> {
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let cases = if path.is_dir() {
        vec![Case::new(
            "file",
            Verdict::Unsupported("a link to a directory".to_owned()),
        )]
    } else if file_name.ends_with(".jsonl") || file_name.ends_with(".jsonl.gz") {
        let bytes = read_lines(path).map_err(|source| ConformError::Io {
            path: path.to_owned(),
            source,
        })?;
        run_lines(&file_name, &bytes)
    } else if file_name.starts_with("top1-changelog")
        && (file_name.ends_with(".csv") || file_name.ends_with(".csv.gz"))
    {
        flights::run(directory, path)
    } else if let Some(windows) = flight_windows::of_name(&file_name) {
        flight_windows::run(directory, path, windows)
    } else {
        vec![Case::new(
            "file",
            Verdict::Unsupported("a format that is not known".to_owned()),
        )]
    };
    Ok(FileReport { name, cases })
}

/// The bytes of a file, which is decompressed if its name ends so.
fn read_lines(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    if path.extension().is_none_or(|ending| ending != "gz") {
        return Ok(bytes);
    }
    let mut lines = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut lines)?;
    Ok(lines)
}

/// Most of a run is waiting for databases to be opened and closed, so there are more threads than
/// cores.
const THREADS: usize = 8;

/// One case per line that is not blank.
fn run_lines(file_name: &str, bytes: &[u8]) -> Vec<Case> {
    let stem = file_name.split('.').next().unwrap_or_default();
    let by_name = Format::of_stem(stem);
    let lines: Vec<(String, &[u8])> = bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
        .map(|(index, line)| (format!("{file_name}:{}", index + 1), line))
        .collect();
    if lines.is_empty() {
        return vec![Case::new(
            file_name,
            Verdict::Failed("a file without a line".to_owned()),
        )];
    }
    let share = lines.len().div_ceil(THREADS);
    thread::scope(|scope| {
        let workers: Vec<_> = lines
            .chunks(share)
            .map(|lines| {
                let run = || {
                    lines
                        .iter()
                        .map(|(place, line)| run_line(place, line, by_name))
                };
                scope.spawn(move || run().collect::<Vec<_>>())
            })
            .collect();
        let cases = workers.into_iter().map(|worker| match worker.join() {
            Ok(cases) => cases,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        cases.flatten().collect()
    })
}

fn run_line(place: &str, line: &[u8], by_name: Option<Format>) -> Case {
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return Case::new(place, Verdict::Failed(format!("not JSON: {error}"))),
    };
    let Some(fields) = value.as_object() else {
        return Case::new(place, Verdict::Failed("not a JSON object".to_owned()));
    };
    let name = match fields.get("name").and_then(Value::as_str) {
        Some(name) => format!("{place} {name}"),
        None => place.to_owned(),
    };
    let verdict = match Format::of_fields(fields).or(by_name) {
        Some(Format::KeyGroup) => checked(value, keygroup::key),
        Some(Format::Ranges) => checked(value, keygroup::range),
        Some(Format::Rank) => checked(value, rank::rank),
        Some(Format::Dedup) => checked(value, rank::dedup),
        Some(Format::RankTtl) => checked(value, ttl::rank_ttl),
        Some(Format::Calendar) => checked(value, calendar::conversion),
        Some(Format::Triggers) => checked(value, calendar::trigger),
        Some(Format::Zones) => checked(value, calendar::zone_id),
        Some(Format::Slices) => checked(value, window::slices),
        Some(Format::Windows) => checked(value, window::windowed),
        None => Verdict::Unsupported("a shape that is not known".to_owned()),
    };
    Case::new(name, verdict)
}

/// Reads the line and checks it; a line that cannot be read has failed.
fn checked<L: DeserializeOwned>(value: Value, check: impl Fn(&L) -> Verdict) -> Verdict {
    match serde_json::from_value(value) {
        Ok(line) => check(&line),
        Err(error) => Verdict::Failed(format!("malformed line: {error}")),
    }
}
