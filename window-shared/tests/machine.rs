//! Jobs of several workers that are saved, killed, restored, rescaled, moved between stores and short of
//! memory at random, against a slow model that none of this happens to: it puts every row into each of its
//! windows.

mod common;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray, UInt32Array,
};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use calendar_tz::{Policy, Zone};
use common::{Draw, audit, cell, groups, scratch};
use keygroup::{GroupRange, Parallelism, group_of, range_of};
use state_codec::checkpoint::{CheckpointDir, CheckpointRef, Manifest};
use state_codec::{KeyBatch, KeyEncoder, MemoryPool, SliceBackend, SlicedState, StateBackend};
use state_mem::MemBackend;
use state_rocks::{RocksBackend, RocksOptions};
use window_shared::{
    Aggregate, BatchError, EventTime, FrozenWindows, Function, LocalAggregate, NullTime,
    WindowError, WindowMetrics, WindowOperator, WindowSpec, Windows,
};

/// Sequences of each of the tests below.
const SEQUENCES: u64 = 500;

/// How many times as many sequences to run; 1 if it is not set.
const TIMES: &str = "WEIR_TEST_TIMES";

/// One sequence to run alone, by the seed that a failure names.
const SEED: &str = "WEIR_TEST_SEED";

const STEPS: usize = 30;

/// What an empty operator may still hold: buffers for the next batch.
const EMPTY_BYTES: usize = 16 << 10;

/// Columns of the input.
mod column {
    pub(crate) const TEXT_KEY: usize = 0;
    pub(crate) const NUMBER_KEY: usize = 1;
    pub(crate) const TIME: usize = 2;
    pub(crate) const START: usize = 3;
    pub(crate) const END: usize = 4;
    pub(crate) const TINY: usize = 5;
    pub(crate) const LONG: usize = 6;
    pub(crate) const DOUBLE: usize = 7;
    pub(crate) const FLOAT: usize = 8;
    pub(crate) const DECIMAL: usize = 9;
    pub(crate) const TEXT: usize = 10;
    pub(crate) const FLAG: usize = 11;
}

#[derive(Clone, Debug, Default)]
struct Row {
    text_key: Option<String>,
    number_key: Option<i64>,
    time_ms: Option<i64>,
    /// The attached window.
    window: Option<(i64, i64)>,
    tiny: Option<i8>,
    long: Option<i64>,
    double: Option<f64>,
    float: Option<f32>,
    decimal: Option<i128>,
    text: Option<String>,
    flag: Option<bool>,
}

/// What happens to the input.
#[derive(Clone, Debug)]
enum Input {
    Push(Vec<Row>),
    Watermark(i64),
}

/// One aggregate; `None` is `COUNT(*)`.
#[derive(Clone, Copy, Debug)]
struct Call {
    function: Option<Function>,
    column: usize,
    distinct: bool,
    filter: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tumble,
    Hop,
    Cumulate,
}

#[derive(Clone, Debug)]
struct Query {
    kind: Kind,
    unit_ms: i64,
    size_ms: i64,
    offset_ms: i64,
    /// With the instant that a sequence starts at.
    zone: Option<Zone>,
    policy: Policy,
    attached: bool,
    micros: bool,
    keys: Vec<usize>,
    calls: Vec<Call>,
    null_time: NullTime,
    two_phase: bool,
    /// Zeros of both signs and NaN.
    odd_floats: bool,
    start_ms: i64,
}

impl Query {
    fn draw(draw: &mut Draw) -> Self {
        let zones = [
            (None, 0),
            (None, -5_000),
            (None, 1_700_000_000_000),
            (Some("UTC"), 1_700_000_000_000),
            (Some("+05:45"), 1_700_000_000_000),
            (Some("America/New_York"), 1_615_651_200_000), // 2021-03-13T16:00Z
            (Some("America/New_York"), 1_636_228_800_000), // 2021-11-06T20:00Z
            (Some("America/Sao_Paulo"), 1_541_278_800_000), // 2018-11-03T21:00Z
            (Some("America/Sao_Paulo"), 1_550_358_000_000), // 2019-02-16T23:00Z
            (Some("Australia/Lord_Howe"), 1_617_451_200_000), // 2021-04-03T12:00Z
            (Some("Australia/Lord_Howe"), 1_633_176_000_000), // 2021-10-02T12:00Z
            (Some("Pacific/Apia"), 1_325_152_800_000),     // 2011-12-29T10:00Z
        ];
        let (zone, start_ms) = draw.pick(&zones);
        let zone = zone.map(|id| Zone::named(id).unwrap());
        let unit_ms = match zone {
            None => draw.pick(&[1, 7, 10, 1_000]),
            Some(_) => draw.pick(&[
                600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 86_400_000,
            ]),
        };
        let kind = draw.pick(&[
            Kind::Tumble,
            Kind::Hop,
            Kind::Hop,
            Kind::Cumulate,
            Kind::Cumulate,
        ]);
        let size_ms = match kind {
            Kind::Tumble => unit_ms,
            _ => unit_ms * draw.between(1, 8),
        };
        let mut offset_ms = draw.pick(&[0, 0, unit_ms / 3, -unit_ms / 3, 1, 3 * unit_ms + 1]);
        if kind == Kind::Tumble {
            offset_ms %= size_ms;
        }
        let two_phase = draw.one_in(4);
        let attached = draw.one_in(6);
        let odd_floats = kind != Kind::Cumulate && !two_phase && draw.one_in(3);
        let calls = (0..draw.below(6)).map(|_| Call::draw(draw)).collect();
        Self {
            kind,
            unit_ms,
            size_ms,
            offset_ms,
            zone,
            policy: draw.pick(&[Policy::Flink, Policy::Exact]),
            attached,
            micros: draw.one_in(4),
            keys: match draw.below(5) {
                0 => Vec::new(),
                1 => vec![column::TEXT_KEY],
                2 | 3 => vec![column::NUMBER_KEY],
                _ => vec![column::NUMBER_KEY, column::TEXT_KEY],
            },
            calls,
            null_time: draw.pick(&[NullTime::Error, NullTime::Drop]),
            two_phase,
            odd_floats,
            start_ms,
        }
    }

    fn schema(&self) -> SchemaRef {
        let local = DataType::Timestamp(TimeUnit::Millisecond, None);
        let unit = if self.micros {
            TimeUnit::Microsecond
        } else {
            TimeUnit::Millisecond
        };
        let zone = self.zone.as_ref().map(|_| "UTC".into());
        let fields = [
            ("kt", DataType::Utf8),
            ("kn", DataType::Int64),
            ("ts", DataType::Timestamp(unit, zone)),
            ("start", local.clone()),
            ("end", local),
            ("tiny", DataType::Int8),
            ("long", DataType::Int64),
            ("double", DataType::Float64),
            ("float", DataType::Float32),
            ("decimal", DataType::Decimal128(10, 2)),
            ("text", DataType::Utf8),
            ("flag", DataType::Boolean),
        ];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        Arc::new(Schema::new(fields.to_vec()))
    }

    fn spec(&self) -> WindowSpec {
        let windows = match self.kind {
            Kind::Tumble => Windows::tumble(self.size_ms),
            Kind::Hop => Windows::hop(self.unit_ms, self.size_ms),
            Kind::Cumulate => Windows::cumulate(self.unit_ms, self.size_ms),
        };
        let windows = windows.unwrap().with_offset(self.offset_ms).unwrap();
        let time = match (&self.zone, self.attached) {
            (None, false) => EventTime::timestamp(column::TIME),
            (Some(zone), false) => EventTime::timestamp_ltz(column::TIME, zone.clone()),
            (None, true) => EventTime::attached(column::START, column::END),
            (Some(zone), true) => {
                EventTime::attached(column::START, column::END).in_zone(zone.clone())
            }
        };
        let aggregates: Vec<Aggregate> = self
            .calls
            .iter()
            .enumerate()
            .map(|(i, call)| {
                let name = format!("a{i}");
                let mut aggregate = match call.function {
                    None => Aggregate::count_rows(name),
                    Some(function) => Aggregate::new(name, function, call.column),
                };
                if call.distinct {
                    aggregate = aggregate.distinct();
                }
                if call.filter {
                    aggregate = aggregate.filtered_by(column::FLAG);
                }
                aggregate
            })
            .collect();
        WindowSpec::new(
            self.schema(),
            &self.keys,
            time.with_policy(self.policy),
            windows,
            &aggregates,
        )
        .unwrap()
        .with_null_time(self.null_time)
    }

    /// The windows of a local time.
    fn windows_of(&self, local_ms: i64) -> Vec<(i64, i64)> {
        let aligned = |unit: i64| local_ms - (local_ms - self.offset_ms).rem_euclid(unit);
        match self.kind {
            Kind::Tumble => {
                let start = aligned(self.size_ms);
                vec![(start, start + self.size_ms)]
            }
            Kind::Hop => {
                let starts = (0..).map(|i| aligned(self.unit_ms) - i * self.unit_ms);
                let covering = starts.take_while(|start| start + self.size_ms > local_ms);
                covering
                    .map(|start| (start, start + self.size_ms))
                    .collect()
            }
            Kind::Cumulate => {
                let start = aligned(self.size_ms);
                let ends = (1..=self.size_ms / self.unit_ms).map(|i| start + i * self.unit_ms);
                let covering = ends.filter(|&end| end > local_ms);
                covering.map(|end| (start, end)).collect()
            }
        }
    }

    fn local_ms(&self, time_ms: i64) -> i64 {
        match &self.zone {
            Some(zone) => zone.to_local(time_ms).unwrap(),
            None => time_ms,
        }
    }

    fn timer_ms(&self, end_ms: i64) -> i64 {
        match &self.zone {
            Some(zone) => zone.timer(end_ms - 1, self.policy).unwrap(),
            None => end_ms - 1,
        }
    }

    fn batch(&self, rows: &[Row]) -> RecordBatch {
        let schema = self.schema();
        let times = rows.iter().map(|row| row.time_ms);
        let time_type = schema.field(column::TIME).data_type().clone();
        let times: ArrayRef = if self.micros {
            // A part of a millisecond is cut off.
            let times = times.map(|time| time.map(|time| time * 1_000 + 999));
            Arc::new(TimestampMicrosecondArray::from_iter(times).with_data_type(time_type))
        } else {
            Arc::new(TimestampMillisecondArray::from_iter(times).with_data_type(time_type))
        };
        let bounds = |of: fn((i64, i64)) -> i64| {
            let bounds = rows.iter().map(|row| row.window.map(of));
            Arc::new(TimestampMillisecondArray::from_iter(bounds)) as ArrayRef
        };
        let decimals = Decimal128Array::from_iter(rows.iter().map(|row| row.decimal));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter(
                rows.iter().map(|row| row.text_key.as_deref()),
            )),
            Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.number_key))),
            times,
            bounds(|window| window.0),
            bounds(|window| window.1),
            Arc::new(Int8Array::from_iter(rows.iter().map(|row| row.tiny))),
            Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.long))),
            Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.double))),
            Arc::new(Float32Array::from_iter(rows.iter().map(|row| row.float))),
            Arc::new(decimals.with_precision_and_scale(10, 2).unwrap()),
            Arc::new(StringArray::from_iter(
                rows.iter().map(|row| row.text.as_deref()),
            )),
            Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.flag))),
        ];
        RecordBatch::try_new(schema, columns).unwrap()
    }

    fn row(&self, draw: &mut Draw, now_ms: i64) -> Row {
        let span = match draw.below(8) {
            0 => (-2 * self.size_ms, 0),
            1 => (-self.size_ms, self.size_ms),
            2 => (0, 2 * self.size_ms),
            _ => (-self.unit_ms / 2, self.unit_ms),
        };
        let mut time_ms = now_ms + draw.between(span.0, span.1);
        if draw.one_in(4) {
            // On a bound, or next to it.
            let local_ms = self.local_ms(time_ms);
            let past = (local_ms - self.offset_ms).rem_euclid(self.unit_ms);
            time_ms += draw.pick(&[-1, 0, 1]) - past;
        }
        let missing = |draw: &mut Draw| draw.one_in(8);
        let null_time = self.null_time == NullTime::Drop && draw.one_in(12);
        let windows = self.windows_of(self.local_ms(time_ms));
        let window = draw.pick(&windows);
        let odd = self.odd_floats && draw.one_in(2);
        let double = match odd {
            true => draw.pick(&[f64::NAN, 0.0, -0.0]),
            false => draw.between(-40, 40) as f64 * 0.25,
        };
        let float = match odd {
            true => draw.pick(&[f32::NAN, 0.0, -0.0]),
            false => draw.between(-40, 40) as f32 * 0.25,
        };
        let number = draw.between(0, 6);
        Row {
            text_key: match draw.below(6) {
                0 => None,
                length => Some("k".repeat(3 * length)),
            },
            number_key: (number != 0).then_some(number - 3),
            time_ms: (!null_time).then_some(time_ms),
            window: (!null_time).then_some(window),
            tiny: (!missing(draw)).then(|| draw.pick(&[-128, -1, 0, 1, 2, 2, 100, 127])),
            long: (!missing(draw)).then(|| draw.pick(&[i64::MIN, -3, 0, 1, 5, 5, i64::MAX])),
            double: (!missing(draw)).then_some(double),
            float: (!missing(draw)).then_some(float),
            decimal: (!missing(draw)).then(|| draw.between(-99_999, 99_999).into()),
            text: (!missing(draw)).then(|| {
                draw.pick(&["", "a", "b", "a string that is not short", "ä"])
                    .to_owned()
            }),
            flag: (!missing(draw)).then(|| draw.one_in(2)),
        }
    }
}

impl Call {
    fn draw(draw: &mut Draw) -> Self {
        use Function::{Avg, Count, Max, Min, Sum, Sum0};
        let function = draw.pick(&[Count, Count, Sum, Sum, Sum0, Min, Max, Avg]);
        let numbers = [
            column::TINY,
            column::LONG,
            column::DOUBLE,
            column::FLOAT,
            column::DECIMAL,
        ];
        let column = match function {
            Sum | Sum0 | Avg => draw.pick(&numbers),
            _ => draw.between(column::TINY as i64, column::FLAG as i64) as usize,
        };
        Self {
            function: (!draw.one_in(8)).then_some(function),
            column,
            distinct: draw.one_in(3),
            filter: draw.one_in(4),
        }
    }

    /// The result over the rows of a window, which come by slice.
    fn result(&self, slices: &[Vec<&Row>]) -> String {
        let accepts = |row: &&&Row| !self.filter || row.flag == Some(true);
        let rows = slices.iter().flatten().filter(accepts);
        let Some(function) = self.function else {
            return rows.count().to_string();
        };
        let mut seen = HashSet::new();
        let values: Vec<Value> = rows
            .filter_map(|row| Value::of(row, self.column))
            .filter(|value| !self.distinct || seen.insert(format!("{value:?}")))
            .collect();
        let extreme = |beats: fn(&Value, &Value) -> bool| {
            let best = |best: Option<Value>, value: Value| match best {
                Some(best) if !beats(&value, &best) => Some(best),
                _ => Some(value),
            };
            let of_slice = slices.iter().filter_map(|rows| {
                let values = rows.iter().filter(accepts);
                let values = values.filter_map(|row| Value::of(row, self.column));
                values.fold(None, best)
            });
            of_slice
                .fold(None, best)
                .map_or("null".to_owned(), |it| it.text())
        };
        match function {
            Function::Count => values.len().to_string(),
            Function::Min => extreme(|a, b| a.is_less(b)),
            Function::Max => extreme(|a, b| b.is_less(a)),
            _ => self.arithmetic(function, &values),
        }
    }

    fn arithmetic(&self, function: Function, values: &[Value]) -> String {
        let average = function == Function::Avg;
        if values.is_empty() && function != Function::Sum0 {
            return "null".to_owned();
        }
        let count = values.len() as i64;
        match self.column {
            column::TINY | column::LONG => {
                let sum = values.iter().fold(0_i64, |sum, value| match value {
                    Value::Integer(value) => sum.wrapping_add(*value),
                    other => unreachable!("{other:?}"),
                });
                let result = if average {
                    sum.wrapping_div(count)
                } else {
                    sum
                };
                match self.column {
                    column::TINY => (result as i8).to_string(),
                    _ => result.to_string(),
                }
            }
            column::DECIMAL => {
                let sum: i128 = values
                    .iter()
                    .map(|value| match value {
                        Value::Decimal(value) => *value,
                        other => unreachable!("{other:?}"),
                    })
                    .sum();
                if !average {
                    return sum.to_string();
                }
                let (scaled, count) = (sum.abs() * 10_000, i128::from(count));
                let rounded = (2 * scaled + count) / (2 * count);
                (sum.signum() * rounded).to_string()
            }
            _ => {
                let floats = values.iter().map(|value| match value {
                    Value::Float(value) => *value,
                    other => unreachable!("{other:?}"),
                });
                let sum = match function {
                    Function::Sum => floats.reduce(|a, b| a + b).unwrap(),
                    _ => floats.fold(0.0, |a, b| a + b),
                };
                let result = if average { sum / count as f64 } else { sum };
                match self.column {
                    column::FLOAT => format!("{:?}", f64::from(result as f32)),
                    _ => format!("{result:?}"),
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Value {
    Integer(i64),
    Float(f64),
    Decimal(i128),
    Text(String),
    Flag(bool),
}

impl Value {
    fn of(row: &Row, column: usize) -> Option<Self> {
        match column {
            column::TINY => row.tiny.map(|it| Self::Integer(it.into())),
            column::LONG => row.long.map(Self::Integer),
            column::DOUBLE => row.double.map(Self::Float),
            column::FLOAT => row.float.map(|it| Self::Float(it.into())),
            column::DECIMAL => row.decimal.map(Self::Decimal),
            column::TEXT => row.text.clone().map(Self::Text),
            _ => row.flag.map(Self::Flag),
        }
    }

    fn is_less(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a < b,
            (Self::Float(a), Self::Float(b)) => a < b,
            (Self::Decimal(a), Self::Decimal(b)) => a < b,
            (Self::Text(a), Self::Text(b)) => a < b,
            (Self::Flag(a), Self::Flag(b)) => a < b,
            different => unreachable!("{different:?}"),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Integer(it) => it.to_string(),
            Self::Float(it) => format!("{it:?}"),
            Self::Decimal(it) => it.to_string(),
            Self::Text(it) => it.clone(),
            Self::Flag(it) => it.to_string(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    rows_in: u64,
    late: u64,
    null_times: u64,
    rows_out: u64,
}

/// What comes of an input: windows in the order in which they fire, each with its rows, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Output {
    windows: Vec<(i64, Vec<String>)>,
    counts: Counts,
}

/// Rows of a key with the slices that they fall into, in the order in which they came.
type OfKey = Vec<(i64, Row)>;

/// The model.
struct Model {
    query: Query,
    watermark_ms: i64,
    /// By end: the windows that have rows and have not fired.
    open: BTreeMap<i64, (i64, BTreeMap<String, OfKey>)>,
}

impl Model {
    fn input(&mut self, input: &Input) -> Output {
        let mut output = Output::default();
        match input {
            Input::Push(rows) => {
                for row in rows {
                    self.row(row, &mut output.counts);
                }
            }
            Input::Watermark(watermark_ms) => {
                self.watermark_ms = self.watermark_ms.max(*watermark_ms);
                let ends = self.open.keys();
                let timers = ends.map(|&end| (self.query.timer_ms(end), end));
                let mut due: Vec<(i64, i64)> =
                    timers.filter(|it| it.0 <= self.watermark_ms).collect();
                due.sort_unstable();
                for (_, end_ms) in due {
                    let (start_ms, keys) = self.open.remove(&end_ms).unwrap();
                    let mut lines: Vec<String> = keys
                        .iter()
                        .map(|(key, rows)| self.line(start_ms, end_ms, key, rows))
                        .collect();
                    lines.sort();
                    output.counts.rows_out += lines.len() as u64;
                    output.windows.push((end_ms, lines));
                }
            }
        }
        output
    }

    fn row(&mut self, row: &Row, counts: &mut Counts) {
        counts.rows_in += 1;
        let Some(time_ms) = row.time_ms else {
            counts.null_times += 1;
            return;
        };
        let local_ms = self.query.local_ms(time_ms);
        let past = (local_ms - self.query.offset_ms).rem_euclid(self.query.unit_ms);
        let slice_end = local_ms - past + self.query.unit_ms;
        let windows = match row.window {
            Some(window) if self.query.attached => vec![window],
            _ => self.query.windows_of(local_ms),
        };
        let watermark_ms = self.watermark_ms;
        let open = windows
            .into_iter()
            .filter(|window| self.query.timer_ms(window.1) > watermark_ms);
        let open: Vec<(i64, i64)> = open.collect();
        counts.late += u64::from(open.is_empty());
        let slice_end = if self.query.attached { 0 } else { slice_end };
        let key = |column: &usize| match *column {
            column::TEXT_KEY => row.text_key.clone().unwrap_or("null".to_owned()),
            _ => row
                .number_key
                .map_or("null".to_owned(), |it| it.to_string()),
        };
        let key: Vec<String> = self.query.keys.iter().map(key).collect();
        for (start_ms, end_ms) in open {
            let window = self
                .open
                .entry(end_ms)
                .or_insert((start_ms, BTreeMap::new()));
            let rows = window.1.entry(key.join(" ")).or_default();
            rows.push((slice_end, row.clone()));
        }
    }

    fn line(&self, start_ms: i64, end_ms: i64, key: &str, rows: &OfKey) -> String {
        let mut by_slice: BTreeMap<i64, Vec<&Row>> = BTreeMap::new();
        for (slice_end, row) in rows {
            by_slice.entry(*slice_end).or_default().push(row);
        }
        let mut slices: Vec<Vec<&Row>> = by_slice.into_values().collect();
        if self.query.kind == Kind::Hop {
            slices.reverse();
        }
        let time_ms = match &self.query.zone {
            Some(zone) => zone.to_instant(end_ms - 1).unwrap(),
            None => end_ms - 1,
        };
        let bounds = format!("{start_ms} {end_ms} {time_ms}");
        let results = self.query.calls.iter().map(|call| call.result(&slices));
        let mut cells = vec![bounds];
        if !key.is_empty() {
            cells.insert(0, key.to_owned());
        }
        cells.extend(results);
        cells.join(" ")
    }
}

/// The state of a backend.
type StateOf<B> = <B as SliceBackend>::Slices;

/// A frozen operator.
type Frozen<B> = FrozenWindows<<StateOf<B> as SlicedState>::View>;

/// An operator over either store.
#[allow(clippy::large_enum_variant, reason = "there are three at a time")]
enum Worker {
    Memory(WindowOperator<StateOf<MemBackend>>, MemBackend),
    Rocks(WindowOperator<StateOf<RocksBackend>>, RocksBackend),
}

enum View {
    Memory(Frozen<MemBackend>),
    Rocks(Frozen<RocksBackend>),
}

/// Evaluates an expression for the operator and backend of either kind.
macro_rules! with {
    ($worker:expr, $operator:ident, $backend:ident, $body:expr) => {
        match $worker {
            Worker::Memory($operator, $backend) => $body,
            Worker::Rocks($operator, $backend) => $body,
        }
    };
}

fn counted(metrics: &WindowMetrics) -> Counts {
    Counts {
        rows_in: metrics.rows_in,
        late: metrics.late,
        null_times: metrics.null_times,
        rows_out: metrics.rows_out,
    }
}

impl Worker {
    /// Pushes rows or partials, while another holder has taken all memory but `room`, if that is given. What
    /// the budget refuses is tried again when it is back.
    fn push(&mut self, batch: &RecordBatch, partials: bool, room: Option<usize>) {
        with!(self, operator, backend, {
            let pool = backend.pool();
            let mut other = pool.reserve("other");
            if let Some(room) = room {
                let free = pool.limit_bytes() - pool.used_bytes();
                other.try_resize(free.saturating_sub(room)).unwrap();
            }
            let before = counted(&operator.metrics());
            let once = |operator: &mut WindowOperator<_>| match partials {
                true => operator.push_partials(batch),
                false => operator.push(batch),
            };
            if let Err(error) = once(operator) {
                assert!(error.denied().is_some() && room.is_some(), "{error:?}");
                assert_eq!(counted(&operator.metrics()), before, "refused");
                audit(operator);
                other.try_resize(0).unwrap();
                once(operator).unwrap();
            }
            audit(operator);
        });
    }

    fn advance(&mut self, watermark_ms: i64, room: Option<usize>) -> Vec<RecordBatch> {
        with!(self, operator, backend, {
            let pool = backend.pool();
            let mut other = pool.reserve("other");
            if let Some(room) = room {
                let free = pool.limit_bytes() - pool.used_bytes();
                other.try_resize(free.saturating_sub(room)).unwrap();
            }
            let results = match operator.advance_watermark(watermark_ms) {
                Ok(results) => results,
                Err(error) => {
                    assert!(error.denied().is_some() && room.is_some(), "{error:?}");
                    other.try_resize(0).unwrap();
                    operator.advance_watermark(i64::MIN).unwrap()
                }
            };
            audit(operator);
            results
        })
    }

    fn freeze(&mut self) -> View {
        match self {
            Self::Memory(operator, _) => View::Memory(operator.freeze().unwrap()),
            Self::Rocks(operator, _) => View::Rocks(operator.freeze().unwrap()),
        }
    }

    fn metrics(&self) -> WindowMetrics {
        with!(self, operator, _backend, operator.metrics())
    }
}

impl View {
    /// Writes the state on another thread.
    fn write(self, dir: &CheckpointDir, id: u64, range: GroupRange) -> Manifest {
        std::thread::scope(|scope| {
            let written = scope.spawn(move || match self {
                Self::Memory(view) => view.write(range, dir, id).unwrap(),
                Self::Rocks(view) => view.write(range, dir, id).unwrap(),
            });
            written.join().unwrap()
        })
    }
}

/// How the workers of a job keep their state.
#[derive(Clone, Copy, Debug)]
struct Setup {
    workers: u32,
    rocks: bool,
    resident_bytes: Option<usize>,
}

impl Setup {
    fn draw(draw: &mut Draw, rocks: bool) -> Self {
        Self {
            workers: 1 + draw.below(3) as u32,
            rocks,
            resident_bytes: match draw.below(3) {
                0 => None,
                1 => Some(0),
                _ => Some(draw.below(4096)),
            },
        }
    }
}

/// A complete checkpoint of every worker.
#[derive(Clone, Debug)]
struct Saved {
    parts: Vec<CheckpointRef>,
    native: bool,
}

struct Job {
    root: PathBuf,
    query: Query,
    setup: Setup,
    workers: Vec<(GroupRange, Worker)>,
    /// The first phase, if there are two.
    local: Option<LocalAggregate>,
    row_keys: KeyEncoder,
    partial_keys: KeyEncoder,
    opened: u64,
    /// Partials that were pushed since the start.
    partials: u64,
    /// What the workers should have counted since the start.
    expected: Counts,
}

impl Job {
    fn new(root: &Path, query: &Query, setup: Setup) -> Self {
        let spec = query.spec();
        let partials: Vec<usize> = (0..query.keys.len()).collect();
        Self {
            root: root.to_owned(),
            query: query.clone(),
            setup,
            workers: Vec::new(),
            local: None,
            row_keys: KeyEncoder::new(spec.schema().fields(), &query.keys).unwrap(),
            partial_keys: KeyEncoder::new(spec.partials_schema().fields(), &partials).unwrap(),
            opened: 0,
            partials: 0,
            expected: Counts::default(),
        }
    }

    fn start(&mut self, setup: Setup, saved: &Saved) {
        self.workers.clear(); // a directory is opened once
        self.setup = setup;
        self.partials = 0;
        self.expected = Counts::default();
        self.local = self.query.two_phase.then(|| {
            LocalAggregate::new(self.query.spec(), "local", &MemoryPool::unlimited()).unwrap()
        });
        let parallelism = Parallelism::new(setup.workers).unwrap();
        for worker in 0..setup.workers {
            let range = range_of(worker, groups(), parallelism).unwrap();
            self.opened += 1;
            let name = format!("state-{}", self.opened);
            let pool = MemoryPool::new(16 << 20);
            let spec = self.query.spec();
            let worker = if setup.rocks {
                let options = RocksOptions {
                    write_buffer_bytes: 64 << 10,
                    block_cache_bytes: 1 << 20,
                    ..RocksOptions::default()
                };
                let backend = RocksBackend::new(self.root.join("stores"), groups())
                    .with_options(options)
                    .with_pool(pool);
                let operator = if saved.native {
                    WindowOperator::restore_native(spec, &backend, &name, &saved.parts, range)
                } else {
                    WindowOperator::restore(spec, &backend, &name, &saved.parts, range)
                };
                let mut operator = operator.unwrap();
                if let Some(bytes) = setup.resident_bytes {
                    operator = operator.with_resident_bytes(bytes);
                }
                Worker::Rocks(operator, backend)
            } else {
                let backend = MemBackend::new(groups()).with_pool(pool);
                let operator =
                    WindowOperator::restore(spec, &backend, &name, &saved.parts, range).unwrap();
                Worker::Memory(operator, backend)
            };
            with!(&worker, operator, _backend, audit(operator));
            self.workers.push((range, worker));
        }
    }

    /// Pushes each row to the worker that owns its key, in batches cut at random.
    fn route(&mut self, draw: &mut Draw, batch: &RecordBatch, partials: bool, room: Option<usize>) {
        let encoder = match partials {
            true => &self.partial_keys,
            false => &self.row_keys,
        };
        let mut keys = KeyBatch::default();
        let rows = batch.num_rows();
        encoder.encode(batch.columns(), rows, &mut keys).unwrap();
        let groups_of_rows: Vec<_> = (0..rows)
            .map(|row| {
                let mut bytes = Vec::new();
                keys.write_key_row(row, &mut bytes);
                group_of(&bytes, groups())
            })
            .collect();
        for (range, worker) in &mut self.workers {
            let own = (0..rows as u32).filter(|&row| range.contains(groups_of_rows[row as usize]));
            let own = take_record_batch(batch, &UInt32Array::from_iter_values(own)).unwrap();
            let mut start = 0;
            while start < own.num_rows() {
                let length = 1 + draw.below(own.num_rows() - start);
                worker.push(&own.slice(start, length), partials, room);
                start += length;
            }
        }
    }

    fn flush_local(&mut self, draw: &mut Draw, room: Option<usize>) {
        let Some(local) = &mut self.local else {
            return;
        };
        if let Some(partials) = local.flush().unwrap() {
            self.partials += partials.num_rows() as u64;
            self.route(draw, &partials, true, room);
        }
    }

    /// Drives an input through the workers and compares what they emit and count.
    fn input(&mut self, draw: &mut Draw, input: &Input, expected: &Output, room: Option<usize>) {
        let mut windows: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        match input {
            Input::Push(rows) => {
                let batch = self.query.batch(rows);
                match &mut self.local {
                    Some(local) => local.push(&batch).unwrap(),
                    None => self.route(draw, &batch, false, room),
                }
            }
            Input::Watermark(watermark_ms) => {
                self.flush_local(draw, room);
                for (_, worker) in &mut self.workers {
                    let results = worker.advance(*watermark_ms, room);
                    let mut order: Vec<i64> = Vec::new();
                    for batch in &results {
                        let end = cell(&batch["window_end"], 0).parse().unwrap();
                        if order.last() != Some(&end) {
                            order.push(end);
                        }
                        let lines = common::lines(batch);
                        windows.entry(end).or_default().extend(lines);
                    }
                    let timers = order.iter().map(|&end| (self.query.timer_ms(end), end));
                    assert!(timers.is_sorted_by(|a, b| a < b), "order: {order:?}");
                }
            }
        }
        let mut found: Vec<(i64, Vec<String>)> = windows.into_iter().collect();
        found.sort_by_key(|&(end, _)| (self.query.timer_ms(end), end));
        found.iter_mut().for_each(|(_, lines)| lines.sort());
        assert_eq!(found, expected.windows);
        let counts = &expected.counts;
        self.expected.rows_in += counts.rows_in;
        self.expected.late += counts.late;
        self.expected.null_times += counts.null_times;
        self.expected.rows_out += counts.rows_out;
        let mut total = Counts::default();
        for (_, worker) in &self.workers {
            let counts = counted(&worker.metrics());
            total.rows_in += counts.rows_in;
            total.late += counts.late;
            total.null_times += counts.null_times;
            total.rows_out += counts.rows_out;
        }
        if self.local.is_none() {
            assert_eq!(total, self.expected);
        } else {
            assert_eq!(total.rows_in, self.partials);
            assert_eq!(total.rows_out, self.expected.rows_out);
            if matches!(input, Input::Watermark(_)) {
                assert_eq!(total.late > 0, self.expected.late > 0);
            }
        }
    }

    /// A batch with a NULL time is refused as a whole, where that is an error.
    fn refuse_null_time(&mut self, draw: &mut Draw, now_ms: i64) {
        let mut rows: Vec<Row> = (0..3).map(|_| self.query.row(draw, now_ms)).collect();
        rows[1].time_ms = None;
        rows[1].window = None;
        let batch = self.query.batch(&rows);
        let (_, worker) = &mut self.workers[0];
        with!(worker, operator, _backend, {
            let before = counted(&operator.metrics());
            let refused = operator.push(&batch);
            let is_null = matches!(
                refused,
                Err(WindowError::Batch(BatchError::NullTime { row: 1 }))
            );
            assert!(is_null, "{refused:?}");
            assert_eq!(counted(&operator.metrics()), before);
            audit(operator);
        });
    }

    fn freeze(&mut self, draw: &mut Draw) -> Vec<View> {
        self.flush_local(draw, None);
        let workers = self.workers.iter_mut();
        workers.map(|(_, worker)| worker.freeze()).collect()
    }

    fn write(&mut self, id: u64, views: Vec<View>) -> (Saved, usize) {
        let mut parts = Vec::new();
        let mut sections = 0;
        let workers = self.workers.iter().zip(views).enumerate();
        for (number, ((range, _), view)) in workers {
            let path = self.root.join(format!("saved-{number}"));
            let dir = CheckpointDir::open(&path).unwrap();
            sections += view.write(&dir, id, *range).sections.len();
            parts.push(CheckpointRef { dir: path, id });
        }
        let native = false;
        (Saved { parts, native }, sections)
    }

    fn save_native(&mut self, draw: &mut Draw, id: u64) -> Saved {
        self.flush_local(draw, None);
        let mut parts = Vec::new();
        for (number, (range, worker)) in self.workers.iter_mut().enumerate() {
            let path = self.root.join(format!("saved-{number}"));
            let dir = CheckpointDir::open(&path).unwrap();
            let Worker::Rocks(operator, backend) = worker else {
                unreachable!("only RocksDB has checkpoints of its own")
            };
            operator.checkpoint(backend, &dir, id, *range).unwrap();
            audit(operator);
            parts.push(CheckpointRef { dir: path, id });
        }
        let native = true;
        Saved { parts, native }
    }

    /// What the workers hold.
    fn held_bytes(&self) -> usize {
        let workers = self.workers.iter();
        workers
            .map(|(_, worker)| with!(worker, operator, _backend, operator.charged_bytes()))
            .max()
            .unwrap()
    }
}

fn sequence(seed: u64, rocks_too: bool, root: &Path, log: &mut Vec<String>) {
    let draw = &mut Draw(seed);
    let query = Query::draw(draw);
    log.push(format!("{query:?}"));
    let mut model = Model {
        query: query.clone(),
        watermark_ms: i64::MIN,
        open: BTreeMap::new(),
    };
    let rocks = rocks_too && draw.one_in(2);
    let mut job = Job::new(root, &query, Setup::draw(draw, rocks));
    let mut saved = Saved {
        parts: Vec::new(),
        native: false,
    };
    log.push(format!("start with {:?}", job.setup));
    job.start(job.setup, &saved);
    let mut now_ms = query.start_ms;
    // What came since the last checkpoint, and what was emitted for it.
    let mut since: Vec<(Input, Output)> = Vec::new();
    let mut id = 0;
    let draw_push = |draw: &mut Draw, now_ms: i64| {
        let rows = 1 + draw.below(12);
        Input::Push((0..rows).map(|_| query.row(draw, now_ms)).collect())
    };
    let draw_watermark = |draw: &mut Draw, now_ms: &mut i64| {
        *now_ms += draw.between(0, 2 * query.unit_ms);
        match draw.below(20) {
            0 => *now_ms += draw.between(300, 900) * 86_400_000,
            1 if query.zone.is_some() => {
                let zone = query.zone.as_ref().unwrap();
                if let Some(next) = zone.next_transition(*now_ms) {
                    *now_ms = next.instant_ms - draw.between(0, 2 * query.unit_ms);
                }
            }
            _ => {}
        }
        let behind = draw.pick(&[0, 0, query.unit_ms, query.size_ms]);
        let watermark_ms = *now_ms - draw.between(0, behind);
        if draw.one_in(3) {
            // When a window fires, or just before.
            let windows = query.windows_of(query.local_ms(watermark_ms));
            let end_ms = draw.pick(&windows).1;
            return Input::Watermark(query.timer_ms(end_ms) - draw.pick(&[0, 0, 1]));
        }
        Input::Watermark(watermark_ms)
    };
    for _ in 0..STEPS {
        let room = draw.one_in(4).then(|| draw.below(30_000));
        let input = match draw.below(20) {
            0..8 => draw_push(draw, now_ms),
            8..14 => draw_watermark(draw, &mut now_ms),
            14 if draw.one_in(4) => Input::Watermark(i64::MAX),
            14 | 15 if query.null_time == NullTime::Error => {
                log.push("refused".to_owned());
                job.refuse_null_time(draw, now_ms);
                continue;
            }
            18 | 19 => {
                // A crash, wherever the job is; the input since the checkpoint comes again.
                let rocks = saved.native || (rocks_too && draw.one_in(2));
                let setup = Setup::draw(draw, rocks);
                log.push(format!("crash, start with {setup:?}"));
                job.start(setup, &saved);
                for (number, (input, expected)) in since.iter().enumerate() {
                    log.push(format!("again {number}"));
                    job.input(draw, input, expected, None);
                }
                continue;
            }
            _ => {
                id += 1;
                if job.setup.rocks && draw.one_in(2) {
                    log.push("save natively".to_owned());
                    saved = job.save_native(draw, id);
                    since.clear();
                } else {
                    log.push("freeze".to_owned());
                    let views = job.freeze(draw);
                    since.clear();
                    // What comes between is not in it.
                    for _ in 0..draw.below(3) {
                        let input = match draw.below(3) {
                            0 => draw_watermark(draw, &mut now_ms),
                            _ => draw_push(draw, now_ms),
                        };
                        log.push(format!("{input:?}"));
                        let expected = model.input(&input);
                        job.input(draw, &input, &expected, None);
                        since.push((input, expected));
                    }
                    log.push("write".to_owned());
                    saved = job.write(id, views).0;
                }
                if since.is_empty() && draw.one_in(2) {
                    // And from it the job goes on with other workers, or another store.
                    let rocks = saved.native || (rocks_too && draw.one_in(2));
                    let setup = Setup::draw(draw, rocks);
                    log.push(format!("restore with {setup:?}"));
                    job.start(setup, &saved);
                }
                continue;
            }
        };
        log.push(format!("{input:?} {room:?}"));
        let expected = model.input(&input);
        job.input(draw, &input, &expected, room);
        since.push((input, expected));
    }
    log.push("the end".to_owned());
    let end = Input::Watermark(i64::MAX);
    let expected = model.input(&end);
    job.input(draw, &end, &expected, None);
    assert!(model.open.is_empty());
    let held = job.held_bytes();
    assert!(held <= EMPTY_BYTES, "{held} bytes are held by nothing");
    let views = job.freeze(draw);
    let (_, sections) = job.write(id + 1, views);
    assert_eq!(sections, 0, "there is nothing to save");
}

/// Tells which sequence failed, and how it came to that.
struct Report {
    seed: u64,
    log: Vec<String>,
}

impl Drop for Report {
    #[expect(clippy::print_stderr, reason = "the report of a failed test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{SEED}={} fails:", self.seed);
            self.log.iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

fn sequences(first: u64, rocks_too: bool) {
    let times = std::env::var(TIMES).map_or(1, |times| times.parse().unwrap());
    let only: Option<u64> = std::env::var(SEED).ok().map(|seed| seed.parse().unwrap());
    for number in 0..SEQUENCES * times {
        let seed = first + 4 * number;
        if only.is_some_and(|only| only != seed) {
            continue;
        }
        let root = scratch();
        let mut report = Report {
            seed,
            log: Vec::new(),
        };
        sequence(seed, rocks_too, root.path(), &mut report.log);
    }
}

#[test]
fn jobs_in_memory_are_the_model() {
    sequences(0, false);
}

#[test]
fn more_jobs_in_memory_are_the_model() {
    sequences(1, false);
}

#[test]
fn jobs_between_memory_and_rocksdb_are_the_model() {
    sequences(2, true);
}

#[test]
fn more_jobs_between_memory_and_rocksdb_are_the_model() {
    sequences(3, true);
}
