//! Which recording a line belongs to: told by the fields that it has, and by the name of its file
//! where these do not tell.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The recordings that have a documented format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Key columns with the bytes and routing of their key row.
    KeyGroup,
    /// Ranges of subtasks, and default max parallelisms.
    Ranges,
    /// Ranking jobs.
    Rank,
    /// Ranking jobs by a time attribute, where a tie replaces.
    Dedup,
    /// Ranking with state that expires.
    RankTtl,
    /// Conversions between epoch and local time.
    Calendar,
    /// Times at which windows fire.
    Triggers,
    /// Zone ids.
    Zones,
    /// Slices of windows.
    Slices,
    /// Windowed queries.
    Windows,
}

impl Format {
    /// The format of a line with these fields. Extra fields do not matter.
    #[must_use]
    pub fn of_fields(fields: &Map<String, Value>) -> Option<Self> {
        let has = |names: &[&str]| names.iter().all(|name| fields.contains_key(*name));
        SHAPES
            .iter()
            .find(|(_, names)| has(names))
            .map(|(format, _)| *format)
    }

    /// The format of a file called so without its ending, for lines that lack what tells it.
    #[must_use]
    pub fn of_stem(stem: &str) -> Option<Self> {
        STEMS
            .iter()
            .find(|(start, _)| stem.starts_with(start))
            .map(|(_, format)| *format)
    }
}

/// Fields that tell a format; the first match counts, so the more special ones stand first.
const SHAPES: &[(Format, &[&str])] = &[
    (Format::KeyGroup, &["types", "values", "row_hex"]),
    (Format::Ranges, &["max_parallelism", "parallelism", "index"]),
    (Format::Ranges, &["parallelism", "default_max_parallelism"]),
    (Format::RankTtl, &["rank_range", "ttl_ms", "events"]),
    (Format::Dedup, &["rank_range", "input", "time_attribute"]),
    (Format::Rank, &["rank_range", "input"]),
    (Format::Triggers, &["fn", "zone"]),
    (Format::Windows, &["window", "events"]),
    (Format::Slices, &["assigner", "size_ms"]),
    (Format::Calendar, &["zone", "uses_dst", "epoch_ms"]),
    (Format::Calendar, &["zone", "uses_dst", "local_ms"]),
    (Format::Zones, &["zone", "zone_id_of_ok"]),
];

/// Starts of file names; the first match counts, so the longer ones stand first.
const STEMS: &[(&str, Format)] = &[
    ("keygroup_ranges", Format::Ranges),
    ("keygroup", Format::KeyGroup),
    ("top1_ttl", Format::RankTtl),
    ("top1", Format::Rank),
    ("dedup", Format::Dedup),
    ("calendar", Format::Calendar),
    ("triggers", Format::Triggers),
    ("zones", Format::Zones),
    ("slices", Format::Slices),
    ("windows", Format::Windows),
];

/// A line of a key group recording.
#[derive(Clone, Debug, Deserialize)]
pub struct KeyGroupLine {
    /// Types of the key columns.
    pub types: Vec<String>,
    /// Their values.
    pub values: Vec<Value>,
    /// The key row.
    pub row_hex: String,
    /// The row of the same values outside a key, where it differs.
    pub serializer_hex: Option<String>,
    /// Hash of the key row.
    pub hash: i32,
    /// Max parallelism → key group.
    pub groups: std::collections::BTreeMap<String, u16>,
    /// `max parallelism/parallelism` → subtask.
    pub index: std::collections::BTreeMap<String, u32>,
}

/// A line of a recording of ranges.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub enum RangesLine {
    /// The groups of a subtask.
    Range(RangeLine),
    /// The groups when none are configured.
    Default(DefaultLine),
}

/// The groups of a subtask.
#[derive(Clone, Debug, Deserialize)]
pub struct RangeLine {
    /// Groups.
    pub max_parallelism: u32,
    /// Subtasks.
    pub parallelism: u32,
    /// The subtask.
    pub index: u32,
    /// First group.
    pub start: u16,
    /// Last group.
    pub end: u16,
}

/// The groups when none are configured.
#[derive(Clone, Debug, Deserialize)]
pub struct DefaultLine {
    /// Subtasks.
    pub parallelism: u32,
    /// Groups.
    pub default_max_parallelism: u32,
}

/// The kind is told first, so that an error names the field.
impl TryFrom<Value> for RangesLine {
    type Error = serde_json::Error;

    fn try_from(line: Value) -> Result<Self, Self::Error> {
        if line.get("default_max_parallelism").is_some() {
            serde_json::from_value(line).map(Self::Default)
        } else {
            serde_json::from_value(line).map(Self::Range)
        }
    }
}

/// A ranking job: a line of a recording of ranks or of deduplication.
#[derive(Clone, Debug, Deserialize)]
pub struct RankLine {
    /// Name of the case.
    pub name: String,
    /// Columns of the rows.
    pub columns: Vec<String>,
    /// Column → type.
    pub types: std::collections::BTreeMap<String, String>,
    /// Columns of the partition key.
    pub partition_by: Vec<String>,
    /// Terms of the order.
    pub order_by: Vec<OrderLine>,
    /// First and last rank.
    pub rank_range: [u64; 2],
    /// Whether the rank is the last column of the output.
    pub output_rank: bool,
    /// Whether `-U` rows are wanted.
    pub update_before: bool,
    /// The rows that arrive; in a job with events, they are among these.
    #[serde(default)]
    pub input: Vec<Vec<Value>>,
    /// The changes that they cause.
    pub expected: Vec<ChangeLine>,
    /// The time attribute of a deduplication: `rowtime` or `proctime`.
    pub time_attribute: Option<String>,
}

/// A ranking job whose state expires.
#[derive(Clone, Debug, Deserialize)]
pub struct RankTtlLine {
    /// The job, without its rows.
    #[serde(flatten)]
    pub job: RankLine,
    /// How long a row lives.
    pub ttl_ms: u64,
    /// `on` or `off`.
    pub cache: String,
    /// How many keys Flink's cache had room for.
    pub cache_entries: usize,
    /// What happens.
    pub events: Vec<TtlEvent>,
}

/// Something that happens at a time: a row arrives, or the state is saved, or saved and restored.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TtlEvent {
    /// The time on every clock.
    pub at_ms: i64,
    /// The row that arrives.
    pub row: Option<Vec<Value>>,
    /// Whether the state is saved.
    #[serde(default)]
    pub checkpoint: bool,
    /// Whether the state is saved, and the operator starts again from what was saved.
    #[serde(default)]
    pub restore: bool,
}

/// A term of an order.
#[derive(Clone, Debug, Deserialize)]
pub struct OrderLine {
    /// The column.
    pub col: String,
    /// Whether smaller values come first.
    pub asc: bool,
    /// Whether NULL comes before every value; if absent, it does when ascending.
    pub nulls_first: Option<bool>,
}

/// A change of a changelog.
#[derive(Clone, Debug, Deserialize)]
pub struct ChangeLine {
    /// `+I`, `-U`, `+U` or `-D`.
    pub kind: String,
    /// The row.
    pub row: Vec<Value>,
    /// Number of the event that caused the change, in a job with events.
    pub after_event: Option<usize>,
}

/// A conversion between instants (*epoch*) and local time (*local*, or *UTC* where Flink names it so).
/// Of each answer either the value or the error is there.
#[derive(Clone, Debug, Deserialize)]
pub struct CalendarLine {
    /// Zone id.
    pub zone: String,
    /// Whether its rule for the future knows daylight saving time.
    pub uses_dst: bool,
    /// The instant to convert.
    pub epoch_ms: Option<i64>,
    /// Its local time.
    pub to_utc_ms: Option<i64>,
    /// Why there is none.
    pub error_to_utc_ms: Option<String>,
    /// The local time to convert.
    pub local_ms: Option<i64>,
    /// Its instant.
    pub to_epoch_ms: Option<i64>,
    /// Why there is none.
    pub error_to_epoch_ms: Option<String>,
    /// The instant of a timer for it.
    pub to_epoch_ms_for_timer: Option<i64>,
    /// Why there is none.
    pub error_to_epoch_ms_for_timer: Option<String>,
}

/// A line of a recording of triggers.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "fn")]
pub enum TriggersLine {
    /// Whether a window has fired.
    #[serde(rename = "isWindowFired")]
    Fired(FiredLine),
    /// The next trigger.
    #[serde(rename = "getNextTriggerWatermark")]
    Next(NextTriggerLine),
}

/// Whether a window has fired.
#[derive(Clone, Debug, Deserialize)]
pub struct FiredLine {
    /// Zone id.
    pub zone: String,
    /// Whether its rule for the future knows daylight saving time.
    pub uses_dst: bool,
    /// End of the window, in local time.
    pub window_end_ms: i64,
    /// Watermarks, and whether it has fired by then.
    pub progress_fired: Vec<(i64, Fired)>,
}

/// `true`, `false`, or `"error:Class"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Fired {
    /// Whether it has.
    Known(bool),
    /// Why that is not known.
    Error(String),
}

impl Fired {
    /// `None` for an error.
    ///
    /// # Errors
    ///
    /// The text, if it is neither.
    pub fn read(&self) -> Result<Option<bool>, &str> {
        match self {
            Self::Known(fired) => Ok(Some(*fired)),
            Self::Error(error) if error.starts_with("error:") => Ok(None),
            Self::Error(text) => Err(text),
        }
    }
}

/// The next trigger after a watermark. Either it or the error is there.
#[derive(Clone, Debug, Deserialize)]
pub struct NextTriggerLine {
    /// Zone id.
    pub zone: String,
    /// Whether its rule for the future knows daylight saving time.
    pub uses_dst: bool,
    /// Interval of the windows.
    pub interval_ms: i64,
    /// The watermark.
    pub watermark_ms: i64,
    /// The next trigger.
    pub next_trigger_ms: Option<i64>,
    /// Why there is none.
    pub error_next_trigger_ms: Option<String>,
}

/// A zone id. The last two are there if Java knows it.
#[derive(Clone, Debug, Deserialize)]
pub struct ZonesLine {
    /// The id.
    pub zone: String,
    /// Whether Java's `ZoneId.of` takes it.
    pub zone_id_of_ok: bool,
    /// Whether Flink's option takes it.
    pub accepted_by_table_local_time_zone: bool,
    /// Whether its rule for the future knows daylight saving time.
    pub uses_dst: Option<bool>,
    /// Whether it has one offset for all time.
    pub fixed_offset: Option<bool>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Format;

    fn format_of(line: &Value) -> Option<Format> {
        Format::of_fields(line.as_object().expect("an object"))
    }

    #[test]
    fn fields_tell_the_format() {
        let rank = json!({"name": "a", "rank_range": [1, 1], "input": [], "expected": []});
        assert_eq!(format_of(&rank), Some(Format::Rank));
        let dedup = json!({"rank_range": [1, 1], "input": [], "time_attribute": "rowtime"});
        assert_eq!(format_of(&dedup), Some(Format::Dedup));
        let ttl = json!({"rank_range": [1, 1], "ttl_ms": 5, "events": []});
        assert_eq!(format_of(&ttl), Some(Format::RankTtl));
        let zone = json!({"zone": "UTC", "uses_dst": false, "zone_id_of_ok": true});
        assert_eq!(format_of(&zone), Some(Format::Zones));
        assert_eq!(format_of(&json!({"name": "a"})), None);
    }

    #[test]
    fn the_longer_start_of_a_name_counts() {
        assert_eq!(Format::of_stem("top1_ttl"), Some(Format::RankTtl));
        assert_eq!(Format::of_stem("top1-more"), Some(Format::Rank));
        assert_eq!(Format::of_stem("keygroup_ranges"), Some(Format::Ranges));
        assert_eq!(Format::of_stem("notes"), None);
    }
}
