//! The version of the tz database that the recorded Flink had, and what newer versions have changed.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use calendar_tz::Database;
use flate2::read::GzDecoder;

/// The version of the recorded answers.
pub const RECORDED_VERSION: &str = "2025a";

const DAY_MS: i64 = 86_400_000;

/// A directory of the repository.
#[must_use]
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tzdata")
}

/// The files of version 2025a. The pack is compressed with gzip and holds, for each file, a line with
/// the zones that share it, its length in four bytes, big-endian, and its bytes.
///
/// # Errors
///
/// [`io::Error`] where the pack cannot be read, or is none.
pub fn recorded() -> io::Result<Database> {
    let compressed = fs::File::open(directory().join("2025a.gz"))?;
    let mut pack = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut pack)?;
    let files = unpack(&pack)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the pack is cut off"))?;
    Ok(Database::of_files(Some(RECORDED_VERSION), files))
}

fn unpack(mut pack: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    while !pack.is_empty() {
        let line_end = pack.iter().position(|byte| *byte == b'\n')?;
        let names = std::str::from_utf8(&pack[..line_end]).ok()?;
        let (length, rest) = pack[line_end + 1..].split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (file, rest) = rest.split_at_checked(length)?;
        files.extend(
            names
                .split(' ')
                .map(|name| (name.to_owned(), file.to_owned())),
        );
        pack = rest;
    }
    Some(files)
}

/// A difference between version 2025a and the bundled one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The version that made it.
    pub version: String,
    /// The zones that have it.
    pub zones: Vec<String>,
    /// The first day, in UTC, counted from 1970-01-01; the first of all if it has no beginning.
    pub first_day: i64,
    /// The last day; `None` if it never ends.
    pub last_day: Option<i64>,
    /// What differs.
    pub effect: Effect,
    /// The change of the rules.
    pub change: String,
}

/// What differs between two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Offsets.
    Offset,
    /// Offsets, and the zone has no daylight rule any more, on which Flink's timers depend at all
    /// times.
    RuleEnds,
    /// The zone is new.
    New,
}

impl Since {
    /// Whether a local time or instant is within the difference, or so near that a conversion or
    /// timer of it may be.
    #[must_use]
    pub fn touches(&self, time_ms: i64) -> bool {
        let day = time_ms.div_euclid(DAY_MS);
        self.first_day - 2 <= day && self.last_day.is_none_or(|last| day <= last + 2)
    }
}

/// The list of differences: lines of version, first and last day or `ever`, effect, zones separated
/// by blanks, and change, separated by tabs. Lines that start with `#` are left out.
///
/// # Errors
///
/// [`io::Error`] where the list cannot be read, or a line is malformed.
pub fn since_recorded() -> io::Result<Vec<Since>> {
    let text = fs::read_to_string(directory().join("since-2025a.tsv"))?;
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            read_line(line).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("malformed: {line:?}"))
            })
        })
        .collect()
}

fn read_line(line: &str) -> Option<Since> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [version, first, last, effect, zones, change] = fields[..] else {
        return None;
    };
    Some(Since {
        version: version.to_owned(),
        first_day: match first {
            "ever" => i64::MIN.div_euclid(DAY_MS),
            date => day(date)?,
        },
        last_day: match last {
            "ever" => None,
            date => Some(day(date)?),
        },
        effect: match effect {
            "offset" => Effect::Offset,
            "rule ends" => Effect::RuleEnds,
            "new" => Effect::New,
            _ => return None,
        },
        zones: zones.split(' ').map(str::to_owned).collect(),
        change: change.to_owned(),
    })
}

/// The number of `2026-11-01`.
fn day(date: &str) -> Option<i64> {
    let date: chrono::NaiveDate = date.parse().ok()?;
    Some(
        date.signed_duration_since(chrono::NaiveDate::default())
            .num_days(),
    )
}
