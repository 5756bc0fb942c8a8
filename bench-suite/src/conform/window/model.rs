//! An obvious model of a windowed query of the plain form: each row goes into all of its windows when
//! it arrives, but those that have fired; a window gives one row for each key when it fires.
//!
//! That is what the query means, and what `golden/DECISIONS.md` asks for where Flink loses rows. Which
//! rows a window has is decided window by window; only the order in which they are added up is
//! Flink's, slice by slice, as it tells in the last digits of floats and in ties.

use std::collections::BTreeMap;

use calendar_tz::{Database, Policy, RangeError, Zone, ZoneError};

use crate::conform::window::aggregate::{Aggregate, BadAggregate, Partial};
use crate::conform::window::case::{Event, Span, TimeType, Window, WindowCase, cells};
use crate::conform::window::cell::{BadCell, Cell};

/// Why a case has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The query is not of the plain form.
    #[error("the query is not of the plain form")]
    NotPlain,
    /// A column that is named does not exist.
    #[error("there is no column {0}")]
    NoColumn(String),
    /// A row has no time.
    #[error("event {event} is a row without a time")]
    NullTime {
        /// Number of the event.
        event: usize,
    },
    /// A row is malformed.
    #[error(transparent)]
    Cell(#[from] BadCell),
    /// An aggregate is malformed.
    #[error(transparent)]
    Aggregate(#[from] BadAggregate),
    /// A time is out of range.
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// A row of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The watermark that released it.
    pub wm: i64,
    /// The timer of its window.
    pub timer: i64,
    /// The row.
    pub row: Vec<Cell>,
}

/// The zone of local time in which the windows of a case lie: the session's, or UTC if the time is a
/// clock's reading.
///
/// # Errors
///
/// [`ZoneError`] if the option rejects the session's zone.
pub fn shift_zone(case: &WindowCase, database: &Database) -> Result<Zone, ZoneError> {
    let session = database.session_zone(&case.zone)?;
    Ok(match case.time_type {
        TimeType::Timestamp => Zone::utc(),
        TimeType::TimestampLtz => session,
    })
}

/// The answer to a case of the plain form, in the order of the watermarks, then of the timers, then of
/// the windows, and then of the keys' first rows.
///
/// # Errors
///
/// [`ModelError`] if the case is not of the plain form, malformed, or about a time out of range.
pub fn answer(case: &WindowCase, zone: &Zone) -> Result<Vec<Released>, ModelError> {
    let mut model = Model::new(case, zone)?;
    for (number, event) in case.events.iter().enumerate() {
        match event {
            Event::Row(row) => model.arrive(number, cells(&case.types.input, row)?)?,
            Event::Watermark(watermark) => model.advance(number, *watermark)?,
        }
    }
    model.advance(case.events.len(), i64::MAX)?;
    Ok(model.released)
}

struct Model<'a> {
    case: &'a WindowCase,
    zone: &'a Zone,
    time_column: usize,
    key_columns: Vec<usize>,
    aggregates: Vec<Aggregate>,
    progress: i64,
    /// The watermarks that counted, and the numbers of their events.
    watermarks: Vec<(usize, i64)>,
    local: Local,
    keys: Vec<Vec<Cell>>,
    /// The windows that have a row, and their rows by key.
    open: BTreeMap<(Span, usize), Vec<Held>>,
    released: Vec<Released>,
}

/// A row in a window.
#[derive(Clone)]
struct Held {
    event: usize,
    slice_end: i64,
    /// Whether the first window of its slice had fired when it arrived.
    is_late: bool,
    /// Number of the local operator's bundle that it was in.
    bundle: usize,
    row: Vec<Cell>,
}

impl<'a> Model<'a> {
    fn new(case: &'a WindowCase, zone: &'a Zone) -> Result<Self, ModelError> {
        if !case.is_plain() {
            return Err(ModelError::NotPlain);
        }
        let column = |name: &String| {
            case.input_column(name)
                .ok_or_else(|| ModelError::NoColumn(name.clone()))
        };
        let aggregates = case.aggs.iter().map(|agg| Aggregate::new(case, agg));
        Ok(Self {
            case,
            zone,
            time_column: column(&case.time_col)?,
            key_columns: case.group_by.iter().map(column).collect::<Result<_, _>>()?,
            aggregates: aggregates.collect::<Result<_, _>>()?,
            progress: i64::MIN,
            watermarks: Vec::new(),
            local: Local::default(),
            keys: Vec::new(),
            open: BTreeMap::new(),
            released: Vec::new(),
        })
    }

    fn arrive(&mut self, event: usize, row: Vec<Cell>) -> Result<(), ModelError> {
        let Cell::Integer(time) = row[self.time_column] else {
            return Err(ModelError::NullTime { event });
        };
        let local = self.zone.to_local(time)?;
        let slice_end = self.case.window.slice_end(local);
        let key: Vec<Cell> = self
            .key_columns
            .iter()
            .map(|column| row[*column].clone())
            .collect();
        let key = match self.keys.iter().position(|known| *known == key) {
            Some(known) => known,
            None => {
                self.keys.push(key);
                self.keys.len() - 1
            }
        };
        let held = Held {
            event,
            slice_end,
            is_late: self.has_fired(slice_end)?,
            bundle: self.local.bundle,
            row,
        };
        for span in self.case.window.spans(local) {
            if !self.has_fired(span.end_ms)? {
                self.open.entry((span, key)).or_default().push(held.clone());
            }
        }
        self.local.arrive(slice_end);
        Ok(())
    }

    fn has_fired(&self, end_ms: i64) -> Result<bool, RangeError> {
        self.zone.has_fired(end_ms, self.progress, Policy::Flink)
    }

    fn advance(&mut self, event: usize, watermark: i64) -> Result<(), ModelError> {
        if watermark <= self.progress {
            return Ok(());
        }
        self.progress = watermark;
        self.watermarks.push((event, watermark));
        self.local.advance(self.case, self.zone, watermark)?;

        let mut due = Vec::new();
        for &(span, key) in self.open.keys() {
            if self.has_fired(span.end_ms)? {
                let timer = self.zone.timer(span.end_ms - 1, Policy::Flink)?;
                due.push((timer, span.end_ms, key, span));
            }
        }
        due.sort_unstable();
        for (timer, _, key, span) in due {
            let rows = self.open.remove(&(span, key)).unwrap_or_default();
            let row = self.fire(span, key, &rows)?;
            self.released.push(Released {
                wm: watermark,
                timer,
                row,
            });
        }
        Ok(())
    }

    fn fire(&self, span: Span, key: usize, rows: &[Held]) -> Result<Vec<Cell>, ModelError> {
        let mut row = self.keys[key].clone();
        row.extend([span.start_ms, span.end_ms].map(Cell::Integer));
        let output = self.case.types.output.get(row.len());
        if output.is_some_and(|column| column.name == "window_time") {
            // For a clock's reading the zone is UTC.
            let last = self.zone.to_instant(span.end_ms - 1)?;
            row.push(Cell::Integer(last));
        }
        let steps = self.steps(span, rows)?;
        row.extend(self.aggregates.iter().map(|aggregate| {
            let mut total = aggregate.start();
            for step in &steps {
                if step.is_merged {
                    aggregate.merge(&mut total, &self.slice(aggregate, &step.rows));
                } else {
                    self.add(aggregate, &mut total, &step.rows);
                }
            }
            aggregate.value(&total)
        }));
        Ok(row)
    }

    /// The rows of a window in the order in which Flink adds them up.
    fn steps<'r>(&self, span: Span, rows: &'r [Held]) -> Result<Vec<Step<'r>>, RangeError> {
        let mut by_slice: BTreeMap<i64, Vec<&Held>> = BTreeMap::new();
        let mut direct = Vec::new();
        let first_slice_end = self.case.window.slice_end(span.start_ms);
        let is_cumulate = matches!(self.case.window, Window::Cumulate { .. });
        for held in rows {
            if is_cumulate && (held.is_late || held.slice_end == first_slice_end) {
                direct.push(held);
            } else {
                by_slice.entry(held.slice_end).or_default().push(held);
            }
        }
        let slice = |rows| Step {
            is_merged: true,
            rows,
        };
        if !is_cumulate {
            return Ok(by_slice.into_values().rev().map(slice).collect());
        }
        // Rows of the first slice and late rows go into the running result when they arrive, slices
        // when the window that ends with them fires.
        let mut steps = Vec::new();
        for held in direct {
            let step = Step {
                is_merged: false,
                rows: vec![held],
            };
            steps.push(((held.event, i64::MIN, held.slice_end), step));
        }
        for (slice_end, rows) in by_slice {
            let timer = self.zone.timer(slice_end - 1, Policy::Flink)?;
            let mut fired = self.watermarks.iter();
            let event = match fired.find(|(_, watermark)| *watermark >= timer) {
                Some((event, _)) => *event,
                None => usize::MAX,
            };
            steps.push(((event, timer, slice_end), slice(rows)));
        }
        steps.sort_by_key(|(place, _)| *place);
        let mut joined: Vec<Step<'_>> = Vec::new();
        for (_, step) in steps {
            match joined.last_mut() {
                Some(last) if !last.is_merged && !step.is_merged => last.rows.extend(step.rows),
                _ => joined.push(step),
            }
        }
        Ok(joined)
    }

    fn slice(&self, aggregate: &Aggregate, rows: &[&Held]) -> Partial {
        let mut partial = aggregate.start();
        self.add(aggregate, &mut partial, rows);
        partial
    }

    /// Adds rows: one by one, or after a local operator bundle by bundle.
    fn add(&self, aggregate: &Aggregate, to: &mut Partial, rows: &[&Held]) {
        if !self.case.two_phase {
            for held in rows {
                aggregate.add(to, &held.row);
            }
            return;
        }
        for bundle in rows.chunk_by(|a, b| a.bundle == b.bundle) {
            let mut partial = aggregate.start();
            for held in bundle {
                aggregate.add(&mut partial, &held.row);
            }
            aggregate.merge(to, &partial);
        }
    }
}

/// Rows that are added to the total one by one, or first to a slice that is then merged.
struct Step<'r> {
    is_merged: bool,
    rows: Vec<&'r Held>,
}

/// When the local operator of two phases passes on what it has added up.
#[derive(Default)]
struct Local {
    bundle: usize,
    least_slice_end: Option<i64>,
    watermark: i64,
    next_trigger: i64,
}

impl Local {
    fn arrive(&mut self, slice_end: i64) {
        let least = self
            .least_slice_end
            .map_or(slice_end, |least| least.min(slice_end));
        self.least_slice_end = Some(least);
    }

    fn advance(
        &mut self,
        case: &WindowCase,
        zone: &Zone,
        watermark: i64,
    ) -> Result<(), RangeError> {
        if watermark <= self.watermark {
            return Ok(());
        }
        self.watermark = watermark;
        if watermark < self.next_trigger {
            return Ok(());
        }
        if let Some(end_ms) = self.least_slice_end
            && zone.has_fired(end_ms, watermark, Policy::Flink)?
        {
            self.bundle += 1;
            self.least_slice_end = None;
        }
        let next = zone.next_trigger(watermark, case.window.slice_ms(), Policy::Flink);
        self.next_trigger = next.unwrap_or(i64::MAX);
        Ok(())
    }
}
