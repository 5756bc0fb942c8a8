//! Queries of `windows.jsonl` through the product: over each store, in one phase and in two, and with the rows cut
//! into batches in several ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimestampMillisecondType};
use calendar_tz::{Policy, Zone};
use state_codec::{MemoryPool, SliceBackend, SlicedState};
use window_shared::{
    Aggregate as Computed, EventTime, Function, LocalAggregate, WindowOperator, WindowSpec, Windows,
};

use crate::conform::calendar::recorded_database;
use crate::conform::changelog::error_chain;
use crate::conform::report::Verdict;
use crate::conform::window::aggregate::Aggregate;
use crate::conform::window::arrow::{batch, input_schema, rows};
use crate::conform::window::case::{AggCase, AggFn, Event, TimeType, Window, WindowCase, cells};
use crate::conform::window::cell::Cell;
use crate::conform::window::check::{Answered, decision, difference};
use crate::conform::window::model::{answer, shift_zone};
use crate::stores::{self, Store};

/// A query.
pub(crate) fn windowed(case: &WindowCase) -> Verdict {
    let verdict = if case.error.is_some() {
        refused(case)
    } else if case.is_plain() {
        plain(case)
    } else {
        of_several(case)
    };
    verdict.unwrap_or_else(Verdict::Failed)
}

/// How a query is run.
#[derive(Clone, Copy, Debug)]
struct Variant {
    store: Store,
    phases: Phases,
    cuts: Cuts,
    /// Bytes that stay in memory beside RocksDB; `None` for the default.
    resident_bytes: Option<usize>,
}

/// In how many phases rows are aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phases {
    One,
    /// The first hands over before each watermark.
    Two,
    /// The first hands over when Flink's does, which tells in the last digits of floating-point sums, and where
    /// an answer is not ideal loses rows.
    TwoAsFlink,
}

/// Where the rows between watermarks are cut into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cuts {
    Nowhere,
    AfterEach,
    /// At places that these bits choose.
    Mixed(u64),
}

impl Variant {
    fn all(case: &WindowCase) -> Vec<Self> {
        let seed = case
            .name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        let mut variants = Vec::new();
        let mut all = vec![Phases::One, Phases::Two];
        if case.two_phase && case.ideal == Some(true) {
            all.push(Phases::TwoAsFlink);
        }
        for phases in all {
            for cuts in [Cuts::Nowhere, Cuts::AfterEach, Cuts::Mixed(seed)] {
                variants.push((Store::Memory, phases, cuts, None));
            }
            variants.push((Store::Rocks, phases, Cuts::Mixed(seed), None));
            // All slices are written and read back.
            variants.push((
                Store::Rocks,
                phases,
                Cuts::Mixed(seed.rotate_left(9)),
                Some(0),
            ));
        }
        let variants = variants.into_iter();
        variants
            .map(|(store, phases, cuts, resident_bytes)| Self {
                store,
                phases,
                cuts,
                resident_bytes,
            })
            .collect()
    }
}

/// The batches between watermarks.
enum Step {
    Batch(RecordBatch),
    Watermark(i64),
}

fn steps(case: &WindowCase, query: &Query, cuts: Cuts) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut waiting: Vec<Vec<Cell>> = Vec::new();
    let mut bits = match cuts {
        Cuts::Mixed(bits) => bits | 1,
        _ => 0,
    };
    for event in &case.events {
        match event {
            Event::Row(row) => {
                let row = cells(&case.types.input, row).map_err(|error| error.to_string())?;
                waiting.push(row);
                bits = bits.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let cut = match cuts {
                    Cuts::Nowhere => false,
                    Cuts::AfterEach => true,
                    Cuts::Mixed(_) => bits.is_multiple_of(3),
                };
                if cut {
                    steps.push(Step::Batch(query.batch(&std::mem::take(&mut waiting))?));
                }
            }
            Event::Watermark(watermark) => {
                if !waiting.is_empty() {
                    steps.push(Step::Batch(query.batch(&std::mem::take(&mut waiting))?));
                }
                steps.push(Step::Watermark(*watermark));
            }
        }
    }
    if !waiting.is_empty() {
        steps.push(Step::Batch(query.batch(&waiting)?));
    }
    steps.push(Step::Watermark(i64::MAX));
    Ok(steps)
}

/// A query of the plain form as the product takes it.
struct Query {
    spec: WindowSpec,
    input: SchemaRef,
    /// The conditions that are columns of the input behind those of the case.
    filters: Vec<Aggregate>,
    /// By column of the answer: what it is made of.
    output: Vec<Made>,
    time_column: usize,
    zone: Zone,
}

/// What a column of the answer is made of.
enum Made {
    /// A column of the product's answer.
    Column(usize),
    /// SUM or AVG of `$SUM0` and COUNT in these columns.
    OfSum0(Aggregate, usize, usize),
}

fn windows_of(window: Window) -> Result<Windows, String> {
    let (windows, offset_ms) = match window {
        Window::Tumble { size_ms, offset_ms } => (Windows::tumble(size_ms), offset_ms),
        Window::Hop {
            size_ms,
            slide_ms,
            offset_ms,
        } => (Windows::hop(slide_ms, size_ms), offset_ms),
        Window::Cumulate {
            size_ms,
            step_ms,
            offset_ms,
        } => (Windows::cumulate(step_ms, size_ms), offset_ms),
    };
    windows
        .and_then(|windows| windows.with_offset(offset_ms))
        .map_err(|error| error.to_string())
}

fn function(agg: &AggCase) -> Function {
    match agg.function {
        AggFn::Count => Function::Count,
        AggFn::Sum => Function::Sum,
        AggFn::Min => Function::Min,
        AggFn::Max => Function::Max,
        AggFn::Avg => Function::Avg,
    }
}

fn event_time(case: &WindowCase, column: usize, zone: &Zone) -> EventTime {
    match case.time_type {
        TimeType::Timestamp => EventTime::timestamp(column),
        TimeType::TimestampLtz => EventTime::timestamp_ltz(column, zone.clone()),
    }
}

impl Query {
    fn new(
        case: &WindowCase,
        group_by: &[String],
        aggs: &[AggCase],
        zone: &Zone,
    ) -> Result<Self, String> {
        let column = |name: &str| {
            let column = case.input_column(name);
            column.ok_or_else(|| format!("there is no column {name}"))
        };
        let own = input_schema(case);
        let mut fields: Vec<_> = own.fields().iter().cloned().collect();
        let mut filters = Vec::new();
        let mut computed = Vec::new();
        let mut models = Vec::new();
        for agg in aggs {
            let model = Aggregate::new(case, agg).map_err(|error| error.to_string())?;
            let mut aggregate = match &agg.arg {
                None => Computed::count_rows(&agg.name),
                Some(name) => {
                    let function = match (function(agg), model.is_reduced()) {
                        (Function::Sum | Function::Avg, true) => Function::Sum0,
                        (function, _) => function,
                    };
                    Computed::new(&agg.name, function, column(name)?)
                }
            };
            if agg.distinct {
                aggregate = aggregate.distinct();
            }
            if agg.filter.is_some() {
                aggregate = aggregate.filtered_by(fields.len());
                let name = format!("filter {}", filters.len());
                fields.push(Arc::new(Field::new(name, DataType::Boolean, true)));
                filters.push(model.clone());
            }
            computed.push(aggregate);
            models.push(model);
        }
        let input: SchemaRef = Arc::new(Schema::new(fields));
        let group_by_columns = group_by
            .iter()
            .map(|name| column(name))
            .collect::<Result<Vec<_>, _>>()?;
        let spec = WindowSpec::new(
            Arc::clone(&input),
            &group_by_columns,
            event_time(case, column(&case.time_col)?, zone),
            windows_of(case.window)?,
            &computed,
        )
        .map_err(|error| error_chain(&error))?;
        let of_spec = spec.output_schema();
        let place = |name: &str| {
            let place = of_spec.index_of(name);
            place.map_err(|error| error.to_string())
        };
        let made = |name: &str| {
            let Some(i) = aggs.iter().position(|agg| agg.name == name) else {
                return Ok(Made::Column(place(name)?));
            };
            let count = aggs.iter().find(|other| {
                other.function == AggFn::Count
                    && other.arg == aggs[i].arg
                    && other.distinct == aggs[i].distinct
                    && other.filter == aggs[i].filter
            });
            Ok(match (models[i].is_reduced(), aggs[i].function, count) {
                (true, AggFn::Sum | AggFn::Avg, Some(count)) => {
                    Made::OfSum0(models[i].clone(), place(name)?, place(&count.name)?)
                }
                _ => Made::Column(place(name)?),
            })
        };
        let output = case.types.output.iter().map(|column| made(&column.name));
        Ok(Self {
            output: if case.is_plain() {
                output.collect::<Result<_, String>>()?
            } else {
                Vec::new()
            },
            spec,
            input,
            filters,
            time_column: column(&case.time_col)?,
            zone: zone.clone(),
        })
    }

    fn batch(&self, of_rows: &[Vec<Cell>]) -> Result<RecordBatch, String> {
        let own = self.input.fields().len() - self.filters.len();
        let own = Arc::new(Schema::new(self.input.fields()[..own].to_vec()));
        let made = batch(&own, of_rows).map_err(|error| error_chain(&error))?;
        let mut columns = made.columns().to_vec();
        for filter in &self.filters {
            let takes: BooleanArray = of_rows.iter().map(|row| Some(filter.takes(row))).collect();
            columns.push(Arc::new(takes) as ArrayRef);
        }
        RecordBatch::try_new(Arc::clone(&self.input), columns).map_err(|error| error.to_string())
    }

    /// The first phase, if there are two.
    fn local(&self, variant: Variant) -> Result<Option<Local>, String> {
        Ok(match variant.phases {
            Phases::One => None,
            Phases::Two => Some(Local::new(self, false)?),
            Phases::TwoAsFlink => Some(Local::new(self, true)?),
        })
    }

    fn answered(&self, row: &[Cell]) -> Vec<Cell> {
        self.output
            .iter()
            .map(|made| match made {
                Made::Column(column) => row[*column].clone(),
                Made::OfSum0(aggregate, sum, count) => match row[*count] {
                    Cell::Integer(count) => aggregate.of_sum0(&row[*sum], count),
                    _ => Cell::Null,
                },
            })
            .collect()
    }
}

/// The product over one of the stores, in one or two phases.
struct Running<S: SlicedState> {
    operator: WindowOperator<S>,
    local: Option<Local>,
}

/// The first of two phases.
struct Local {
    rows: LocalAggregate,
    zone: Zone,
    time_column: usize,
    windows: Windows,
    /// The least slice end of what it holds.
    least_end: Option<i64>,
    as_flink: bool,
    next_trigger: i64,
}

impl Local {
    fn new(query: &Query, as_flink: bool) -> Result<Self, String> {
        let rows = LocalAggregate::new(query.spec.clone(), "local", &MemoryPool::unlimited());
        Ok(Self {
            rows: rows.map_err(|error| error_chain(&error))?,
            zone: query.zone.clone(),
            time_column: query.time_column,
            windows: *query.spec.windows(),
            least_end: None,
            as_flink,
            next_trigger: i64::MIN,
        })
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<(), String> {
        self.rows.push(batch).map_err(|error| error_chain(&error))?;
        let times = batch.column(self.time_column);
        let times = times.as_primitive::<TimestampMillisecondType>();
        for time in times.iter().flatten() {
            let local = self
                .zone
                .to_local(time)
                .map_err(|error| error.to_string())?;
            let end = self
                .windows
                .slice_end(local)
                .map_err(|error| error.to_string())?;
            self.least_end = Some(self.least_end.map_or(end, |least| least.min(end)));
        }
        Ok(())
    }

    fn advance(&mut self, watermark: i64) -> Result<Option<RecordBatch>, String> {
        let least = match self.least_end {
            Some(least) => least,
            None => return Ok(None),
        };
        let fired = |end| self.zone.has_fired(end, watermark, Policy::Flink);
        let waits = self.as_flink && watermark < self.next_trigger;
        if waits || (self.as_flink && !fired(least).map_err(|error| error.to_string())?) {
            return Ok(None);
        }
        let interval = self.windows.slice_ms();
        let next = self.zone.next_trigger(watermark, interval, Policy::Flink);
        // None within 64 bits is the end of the input.
        self.next_trigger = next.unwrap_or(i64::MAX);
        self.least_end = None;
        self.rows.flush().map_err(|error| error_chain(&error))
    }
}

impl<S: SlicedState> Running<S> {
    fn open<B>(
        spec: &WindowSpec,
        local: Option<Local>,
        backend: &B,
        name: &str,
        variant: Variant,
    ) -> Result<Self, String>
    where
        B: SliceBackend<Slices = S, Error = S::Error>,
    {
        let operator = WindowOperator::open(spec.clone(), backend, name);
        let mut operator = operator.map_err(|error| error_chain(&error))?;
        if let Some(bytes) = variant.resident_bytes {
            operator = operator.with_resident_bytes(bytes);
        }
        Ok(Self { operator, local })
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<(), String> {
        match &mut self.local {
            Some(local) => local.push(batch),
            None => self
                .operator
                .push(batch)
                .map_err(|error| error_chain(&error)),
        }
    }

    fn advance(&mut self, watermark: i64) -> Result<Vec<RecordBatch>, String> {
        if let Some(local) = &mut self.local
            && let Some(partials) = local.advance(watermark)?
        {
            let pushed = self.operator.push_partials(&partials);
            pushed.map_err(|error| error_chain(&error))?;
        }
        let fired = self.operator.advance_watermark(watermark);
        fired.map_err(|error| error_chain(&error))
    }
}

fn run_plain<B: SliceBackend>(
    case: &WindowCase,
    query: &Query,
    backend: &B,
    variant: Variant,
) -> Result<Vec<Answered>, String> {
    let local = query.local(variant)?;
    let mut running = Running::open(&query.spec, local, backend, "windows", variant)?;
    let mut answered = Vec::new();
    for step in steps(case, query, variant.cuts)? {
        match step {
            Step::Batch(batch) => running.push(&batch)?,
            Step::Watermark(watermark) => {
                for fired in running.advance(watermark)? {
                    for row in rows(&fired).map_err(|error| error_chain(&error))? {
                        answered.push((watermark, query.answered(&row)));
                    }
                }
            }
        }
    }
    Ok(answered)
}

/// Calls `run` with a backend of the variant's store.
fn over(
    variant: Variant,
    in_memory: impl FnOnce(&state_mem::MemBackend) -> Result<Vec<Answered>, String>,
    in_rocks: impl FnOnce(&state_rocks::RocksBackend) -> Result<Vec<Answered>, String>,
) -> Result<Vec<Answered>, String> {
    let answered = match variant.store {
        Store::Memory => in_memory(&stores::memory()),
        Store::Rocks => {
            let (_directory, backend) = stores::rocks().map_err(|error| error_chain(&error))?;
            in_rocks(&backend)
        }
    };
    answered.map_err(|how| format!("{variant:?}\n{how}"))
}

/// A query of the plain form: as recorded if that is what textbook semantics give, else as these have it.
fn plain(case: &WindowCase) -> Result<Verdict, String> {
    let zone = shift_zone(case, recorded_database()).map_err(|error| error_chain(&error))?;
    let query = Query::new(case, &case.group_by, &case.aggs, &zone)?;
    let is_ideal = case.ideal == Some(true);
    let model: Vec<Answered> = answer(case, &zone)
        .map_err(|error| error_chain(&error))?
        .into_iter()
        .map(|released| (released.wm, released.row))
        .collect();
    for variant in Variant::all(case) {
        let answered = over(
            variant,
            |backend| run_plain(case, &query, backend, variant),
            |backend| run_plain(case, &query, backend, variant),
        )?;
        // Flink's phases differ in the last digits of floating-point sums, and so do ours.
        let exact = match variant.phases {
            Phases::One => !case.two_phase,
            Phases::Two => false,
            Phases::TwoAsFlink => true,
        };
        let differs = if is_ideal && exact {
            difference(case, &answered).map_err(|error| error.to_string())?
        } else {
            differs_from(&answered, &model)
        };
        if let Some(how) = differs {
            return Ok(Verdict::Failed(format!("{variant:?}\n{how}")));
        }
    }
    Ok(match decision(case).filter(|_| !is_ideal) {
        Some(decision) => Verdict::Divergent(decision),
        None if is_ideal => Verdict::Passed,
        None => Verdict::Failed("not ideal, and no decision says why".to_owned()),
    })
}

/// How an answer differs from the model's, as sets by watermark; floating-point numbers but for their last
/// digits.
fn differs_from(answered: &[Answered], model: &[Answered]) -> Option<String> {
    let sorted = |rows: &[Answered]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    let (got, expected) = (sorted(answered), sorted(model));
    if got.len() != expected.len() {
        return Some(format!(
            "{} rows, but the model has {}",
            got.len(),
            expected.len()
        ));
    }
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs());
    let same = |a: &Cell, b: &Cell| match (a, b) {
        (Cell::Double(a), Cell::Double(b)) if a.is_finite() => near(*a, *b),
        (Cell::Float(a), Cell::Float(b)) if a.is_finite() => near((*a).into(), (*b).into()),
        _ => a == b,
    };
    let mut pairs = got.iter().zip(&expected);
    let differing = pairs.find(|(got, expected)| {
        let mut cells = got.1.iter().zip(&expected.1);
        got.0 != expected.0 || !cells.all(|(a, b)| same(a, b))
    });
    differing.map(|(got, expected)| {
        let shown = |row: &Answered| {
            let cells: Vec<String> = row.1.iter().map(ToString::to_string).collect();
            format!("at {}: {}", row.0, cells.join(", "))
        };
        format!("the model: {}\ngot        {}", shown(expected), shown(got))
    })
}

/// A query that Flink refuses, or whose job fails.
fn refused(case: &WindowCase) -> Result<Verdict, String> {
    let zone = match shift_zone(case, recorded_database()) {
        Ok(zone) => zone,
        Err(_) => return Ok(Verdict::Passed),
    };
    let query = match Query::new(case, &case.group_by, &case.aggs, &zone) {
        Ok(query) => query,
        // Of the recorded queries those whose sizes do not fit.
        Err(_) if windows_of(case.window).is_err() => return Ok(Verdict::Passed),
        Err(how) => return Err(how),
    };
    let mut failed = false;
    for variant in Variant::all(case) {
        let answered = over(
            variant,
            |backend| run_plain(case, &query, backend, variant),
            |backend| run_plain(case, &query, backend, variant),
        );
        failed |= answered.is_err_and(|how| how.contains("its time is NULL"));
    }
    let sums_distinct = case
        .aggs
        .iter()
        .any(|agg| agg.function == AggFn::Sum && agg.distinct);
    match (failed, case.window) {
        (true, _) => Ok(Verdict::Passed),
        // The planner refuses what works.
        (false, Window::Hop { .. }) if sums_distinct => Ok(Verdict::Divergent(11)),
        (false, _) => Ok(Verdict::Failed("it is not refused".to_owned())),
    }
}

/// A query over the windows of another.
fn of_several(case: &WindowCase) -> Result<Verdict, String> {
    let Some(pipeline) = Pipeline::new(case)? else {
        return Ok(Verdict::Unsupported(match case.family() {
            "tvf_only" => "windows of single rows, which are not aggregated".to_owned(),
            _ => "a condition on windows between them and their aggregate".to_owned(),
        }));
    };
    let mut diverges = false;
    for variant in Variant::all(case) {
        let answered = over(
            variant,
            |backend| pipeline.run(case, backend, variant),
            |backend| pipeline.run(case, backend, variant),
        )?;
        if let Some(how) = difference(case, &answered).map_err(|error| error.to_string())? {
            let model = modelled_cascade(case)?;
            match model.and_then(|model| differs_from(&answered, &model)) {
                None if case.cascade.is_some() => diverges = true,
                _ => return Ok(Verdict::Failed(format!("{variant:?}\n{how}"))),
            }
        }
    }
    // The inner query loses rows in Flink.
    Ok(if diverges {
        Verdict::Divergent(6)
    } else {
        Verdict::Passed
    })
}

/// What textbook semantics give for the greatest, the number and the sum of the counts of each window; `None`
/// if the case is another.
fn modelled_cascade(case: &WindowCase) -> Result<Option<Vec<Answered>>, String> {
    let Some(cascade) = &case.cascade else {
        return Ok(None);
    };
    let zone = shift_zone(case, recorded_database()).map_err(|error| error_chain(&error))?;
    let inner = WindowCase {
        group_by: cascade.inner.group_by.clone(),
        aggs: cascade.inner.aggs.clone(),
        ideal: Some(true),
        ..case.clone()
    };
    let mut windows: BTreeMap<(i64, Cell, Cell), Vec<i64>> = BTreeMap::new();
    for released in answer(&inner, &zone).map_err(|error| error_chain(&error))? {
        let keys = inner.group_by.len();
        let [start, end, Cell::Integer(count)] = &released.row[keys..] else {
            return Err("the inner query has bounds and a count".to_owned());
        };
        let window = (released.wm, start.clone(), end.clone());
        windows.entry(window).or_default().push(*count);
    }
    let rows = windows.into_iter().map(|((wm, start, end), counts)| {
        let number = |value: i64| Cell::Integer(value);
        let most = counts.iter().copied().max().unwrap_or_default();
        let row = vec![
            start,
            end,
            number(most),
            number(counts.len() as i64),
            number(counts.iter().sum()),
        ];
        (wm, row)
    });
    Ok(Some(rows.collect()))
}

/// Two queries, of which the second reads the first; or one, with a condition on its results.
struct Pipeline {
    inner: Query,
    outer: Option<WindowSpec>,
    /// Of the inner answer, before the outer query or the end: the rows that go on.
    keeps: fn(&[Cell]) -> bool,
    /// Of the input: the rows that arrive, and what becomes of them.
    arrives: fn(&mut Vec<Cell>) -> bool,
    /// By column of the answer: which column of the last query.
    output: Vec<usize>,
}

fn agg(function: AggFn, arg: Option<&str>, name: &str) -> AggCase {
    AggCase {
        function,
        arg: arg.map(str::to_owned),
        distinct: false,
        filter: None,
        name: name.to_owned(),
    }
}

impl Pipeline {
    /// `None` for a query that the product has no part for.
    fn new(case: &WindowCase) -> Result<Option<Self>, String> {
        let zone = shift_zone(case, recorded_database()).map_err(|error| error_chain(&error))?;
        let query = |group_by: &[&str], aggs: &[AggCase]| {
            let group_by: Vec<String> = group_by.iter().map(|&name| name.to_owned()).collect();
            Query::new(case, &group_by, aggs, &zone)
        };
        let count = agg(AggFn::Count, None, "cnt");
        let attached = |inner: &Query, group_by: &[&str], aggregates: &[Computed]| {
            let schema = Arc::clone(inner.spec.output_schema());
            let column = |name: &str| schema.index_of(name).map_err(|error| error.to_string());
            let mut time = EventTime::attached(column("window_start")?, column("window_end")?);
            if case.time_type == TimeType::TimestampLtz {
                time = time.in_zone(zone.clone());
            }
            let group_by = group_by
                .iter()
                .map(|name| column(name))
                .collect::<Result<Vec<_>, _>>()?;
            let windows = windows_of(case.window)?;
            WindowSpec::new(Arc::clone(&schema), &group_by, time, windows, aggregates)
                .map_err(|error| error_chain(&error))
        };
        let keeps: fn(&[Cell]) -> bool = |_| true;
        let arrives: fn(&mut Vec<Cell>) -> bool = |_| true;
        let (inner, outer, keeps, arrives) = match case.family() {
            "cascade_count_max" => {
                let inner = query(&["k"], &[count])?;
                let cnt = inner
                    .spec
                    .output_schema()
                    .index_of("cnt")
                    .map_err(|e| e.to_string())?;
                let outer = attached(
                    &inner,
                    &[],
                    &[
                        Computed::new("max_cnt", Function::Max, cnt),
                        Computed::count_rows("keys"),
                        Computed::new("total", Function::Sum, cnt),
                    ],
                )?;
                (inner, Some(outer), keeps, arrives)
            }
            "cascade_keyed" => {
                let inner = query(&["k", "g"], &[count, agg(AggFn::Sum, Some("v"), "s")])?;
                let column = |name: &str| inner.spec.output_schema().index_of(name);
                let cnt = column("cnt").map_err(|error| error.to_string())?;
                let s = column("s").map_err(|error| error.to_string())?;
                let outer = attached(
                    &inner,
                    &["g"],
                    &[
                        Computed::new("max_cnt", Function::Max, cnt),
                        Computed::new("min_s", Function::Min, s),
                    ],
                )?;
                (inner, Some(outer), keeps, arrives)
            }
            "rewindow" => {
                let inner = query(&["k"], &[agg(AggFn::Count, None, "c5")])?;
                let schema = Arc::clone(inner.spec.output_schema());
                let column = |name: &str| schema.index_of(name).map_err(|e| e.to_string());
                let (time, c5) = (column("window_time")?, column("c5")?);
                let windows = Windows::tumble(10_000).map_err(|error| error.to_string())?;
                let outer = WindowSpec::new(
                    Arc::clone(&schema),
                    &[],
                    event_time(case, time, &zone),
                    windows,
                    &[
                        Computed::new("c10", Function::Sum, c5),
                        Computed::new("m10", Function::Max, c5),
                    ],
                )
                .map_err(|error| error_chain(&error))?;
                (inner, Some(outer), keeps, arrives)
            }
            "shape" if case.name.contains("where_having") => {
                let inner = query(
                    &["k"],
                    &[
                        agg(AggFn::Count, None, "c"),
                        agg(AggFn::Sum, Some("v"), "s"),
                    ],
                )?;
                // `v` is the second column of the input, COUNT(*) the last but one of the answer.
                let keeps: fn(&[Cell]) -> bool =
                    |row| matches!(row[row.len() - 2], Cell::Integer(count) if count > 1);
                let arrives: fn(&mut Vec<Cell>) -> bool = |row| match &mut row[1] {
                    Cell::Integer(v) if *v > -50 => {
                        *v *= 2;
                        true
                    }
                    _ => false,
                };
                (inner, None, keeps, arrives)
            }
            _ => return Ok(None),
        };
        let last = outer.as_ref().unwrap_or(&inner.spec).output_schema();
        let output = case.types.output.iter().map(|column| {
            let column = last.index_of(&column.name);
            column.map_err(|error| error.to_string())
        });
        let output = output.collect::<Result<_, _>>()?;
        Ok(Some(Self {
            inner,
            outer,
            keeps,
            arrives,
            output,
        }))
    }

    fn run<B: SliceBackend>(
        &self,
        case: &WindowCase,
        backend: &B,
        variant: Variant,
    ) -> Result<Vec<Answered>, String> {
        let local = self.inner.local(variant)?;
        let mut inner = Running::open(&self.inner.spec, local, backend, "inner", variant)?;
        let mut outer = match &self.outer {
            Some(spec) => Some(Running::open(spec, None, backend, "outer", variant)?),
            None => None,
        };
        let mut answered = Vec::new();
        for step in steps(case, &self.inner, variant.cuts)? {
            match step {
                Step::Batch(batch) => {
                    let mut arriving = rows(&batch).map_err(|error| error_chain(&error))?;
                    arriving.retain_mut(|row| (self.arrives)(row));
                    inner.push(&self.inner.batch(&arriving)?)?;
                }
                Step::Watermark(watermark) => {
                    let mut fired = inner.advance(watermark)?;
                    if let Some(outer) = &mut outer {
                        for batch in &fired {
                            outer.push(batch)?;
                        }
                        fired = outer.advance(watermark)?;
                    }
                    for batch in fired {
                        for row in rows(&batch).map_err(|error| error_chain(&error))? {
                            if (self.keeps)(&row) {
                                let row = self.output.iter().map(|&column| row[column].clone());
                                answered.push((watermark, row.collect()));
                            }
                        }
                    }
                }
            }
        }
        Ok(answered)
    }
}
