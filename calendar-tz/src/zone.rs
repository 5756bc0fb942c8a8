//! A zone: an identifier and its rules.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::database::{Database, ZoneError};
use crate::rules::{DataError, Rules, SECOND};

/// The rules of local time somewhere. Cloning is cheap, and clones share the rules.
///
/// Two zones are equal if their rules are: `UTC`, `Etc/UTC` and `GMT+00:00` are one zone,
/// `America/New_York` and `US/Eastern` another. Neither the identifier nor the version of the data
/// counts.
///
/// A zone of one offset takes a few dozen bytes. One with a daylight rule takes about 32 KiB, for its
/// table holds 400 years of that rule, after which everything repeats.
#[derive(Clone)]
pub struct Zone {
    id: Arc<str>,
    rules: Arc<Rules>,
    data_version: Option<Arc<str>>,
}

impl Zone {
    /// Coordinated Universal Time.
    #[must_use]
    pub fn utc() -> Self {
        Self::new("UTC", Arc::new(Rules::fixed(0)), None)
    }

    /// A zone by an identifier of Java, from the bundled database: [`Database::zone`].
    ///
    /// # Errors
    ///
    /// [`ZoneError`] if there is no such zone.
    ///
    /// ```
    /// use calendar_tz::Zone;
    ///
    /// assert_eq!(Zone::named("Asia/Kolkata")?, Zone::named("Asia/Calcutta")?);
    /// assert_eq!(Zone::named("GMT+8")?.id(), "GMT+08:00");
    /// assert_eq!(
    ///     Zone::named("Europe/berlin").unwrap_err().to_string(),
    ///     "zone \"Europe/berlin\" is not known; did you mean \"Europe/Berlin\"?"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn named(id: &str) -> Result<Self, ZoneError> {
        Database::bundled().zone(id)
    }

    /// A zone by an identifier that Flink's option `table.local-time-zone` accepts, from the bundled
    /// database: [`Database::session_zone`].
    ///
    /// # Errors
    ///
    /// [`ZoneError`] if the option rejects it.
    pub fn session(id: &str) -> Result<Self, ZoneError> {
        Database::bundled().session_zone(id)
    }

    /// A zone of one offset from UTC, in seconds, at most 18 hours to either side as in Java. Its
    /// identifier is Java's: `Z`, `+05:45`.
    ///
    /// # Errors
    ///
    /// [`OffsetError`] beyond 18 hours.
    ///
    /// ```
    /// use calendar_tz::Zone;
    ///
    /// assert_eq!(Zone::fixed(20_700)?.id(), "+05:45");
    /// # Ok::<(), calendar_tz::OffsetError>(())
    /// ```
    pub fn fixed(offset_s: i32) -> Result<Self, OffsetError> {
        if offset_s.unsigned_abs() > MAX_OFFSET_S.unsigned_abs() {
            return Err(OffsetError { offset_s });
        }
        let rules = Rules::fixed(i64::from(offset_s) * SECOND);
        Ok(Self::new(&offset_id(offset_s), Arc::new(rules), None))
    }

    /// A zone from the bytes of a TZif file (RFC 9636), under an identifier of the caller's choice.
    ///
    /// # Errors
    ///
    /// [`DataError`] if the bytes are no TZif.
    pub fn from_tzif(id: &str, file: &[u8]) -> Result<Self, DataError> {
        Ok(Self::new(id, Arc::new(Rules::from_tzif(file)?), None))
    }

    pub(crate) fn new(id: &str, rules: Arc<Rules>, data_version: Option<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            rules,
            data_version,
        }
    }

    /// The identifier, with an offset in it written as Java writes it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The version of the database that the rules come from, such as `2025a`. `None` for an offset,
    /// for bytes of the caller, and where the database does not tell.
    #[must_use]
    pub fn data_version(&self) -> Option<&str> {
        self.data_version.as_deref()
    }

    /// Whether the zone has daylight saving time under the rule that holds for the future. It is what
    /// Java calls "uses daylight time", and says nothing of the past.
    #[must_use]
    pub fn has_daylight_rule(&self) -> bool {
        self.rules.daylight_rule
    }

    /// The one offset that the zone has at all times, if it has one.
    #[must_use]
    pub fn only_offset_ms(&self) -> Option<i64> {
        self.rules.only_offset()
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules) || self.rules == other.rules
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rules.at.hash(state);
        self.rules.offset.hash(state);
    }
}

/// The identifier.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.id)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zone")
            .field("id", &self.id)
            .field("data_version", &self.data_version)
            .field("spans", &self.rules.at.len())
            .finish()
    }
}

/// Java's limit.
const MAX_OFFSET_S: i32 = 18 * 3_600;

/// An offset that is too large: "offset of 64801 s is not within 18 hours of UTC".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetError {
    offset_s: i32,
}

impl OffsetError {
    /// The offset that was given, in seconds.
    #[must_use]
    pub fn offset_s(&self) -> i32 {
        self.offset_s
    }
}

impl fmt::Display for OffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "offset of {} s is not within 18 hours of UTC",
            self.offset_s
        )
    }
}

impl std::error::Error for OffsetError {}

/// `Z`, `+05:45` or `-00:00:30`, as Java's `ZoneOffset.getId`.
pub(crate) fn offset_id(offset_s: i32) -> String {
    if offset_s == 0 {
        return "Z".to_owned();
    }
    let sign = if offset_s < 0 { '-' } else { '+' };
    let seconds = offset_s.unsigned_abs();
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    match seconds % 60 {
        0 => format!("{sign}{hours:02}:{minutes:02}"),
        rest => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// Reads an offset in one of the forms of Java's `ZoneOffset.of`: `Z`, `+h`, `+hh`, `+hhmm`,
/// `+hh:mm`, `+hhmmss`, `+hh:mm:ss`, at most 18 hours to either side.
pub(crate) fn parse_offset(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let (negative, digits) = match text.as_bytes() {
        [b'+', digits @ ..] => (false, digits),
        [b'-', digits @ ..] => (true, digits),
        _ => return None,
    };
    let two = |tens: u8, ones: u8| -> Option<i32> {
        let all_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
        all_digits.then(|| i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
    };
    let (hours, minutes, seconds) = match *digits {
        [h] => (two(b'0', h)?, 0, 0),
        [h, i] => (two(h, i)?, 0, 0),
        [h, i, m, n] | [h, i, b':', m, n] => (two(h, i)?, two(m, n)?, 0),
        [h, i, m, n, s, t] | [h, i, b':', m, n, b':', s, t] => (two(h, i)?, two(m, n)?, two(s, t)?),
        _ => return None,
    };
    let total = hours * 3_600 + minutes * 60 + seconds;
    if minutes > 59 || seconds > 59 || total > MAX_OFFSET_S {
        return None;
    }
    Some(if negative { -total } else { total })
}

#[cfg(test)]
mod tests {
    use super::{offset_id, parse_offset};

    #[test]
    fn offsets_are_read_as_java_reads_them() {
        for (text, seconds) in [
            ("Z", 0),
            ("+8", 28_800),
            ("-03", -10_800),
            ("+0530", 19_800),
            ("+05:45", 20_700),
            ("-000030", -30),
            ("+01:02:03", 3_723),
            ("+18:00", 64_800),
            ("-18", -64_800),
            ("-00:00", 0),
        ] {
            assert_eq!(parse_offset(text), Some(seconds), "{text}");
        }
        for text in [
            "",
            "z",
            "+",
            "8",
            "+5:30",
            "+530",
            "+24",
            "+18:01",
            "+05:60",
            "+05:30:60",
            "+05.30",
            "+05:3a",
            "+0530:15",
            "++5",
            "+é",
            "+-1",
            "+05:30:15:00",
            " +05",
        ] {
            assert_eq!(parse_offset(text), None, "{text}");
        }
    }

    #[test]
    fn offsets_are_written_as_java_writes_them() {
        let written = [0, 28_800, -12_600, -30, 64_800, 3_723].map(offset_id);
        assert_eq!(
            written,
            ["Z", "+08:00", "-03:30", "-00:00:30", "+18:00", "+01:02:03"]
        );
    }
}
