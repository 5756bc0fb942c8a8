//! Recorded windows over the flights, over each store, in one phase and in two.

use std::io::{self, Read};
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMillisecondType};
use calendar_tz::Zone;
use state_codec::{MemoryPool, SliceBackend, SlicedState};
use window_shared::{
    Aggregate, EventTime, Function, LocalAggregate, WindowOperator, WindowSpec, Windows,
};

use crate::conform::changelog::error_chain;
use crate::conform::flights::data_of;
use crate::conform::report::{Case, Verdict};
use crate::flights;
use crate::stores::{self, Store};

const DAY_MS: i64 = 86_400_000;

/// The windows that a recording of this name is of: `tumble-1d.csv.gz`, `hop-6h-1h.csv`.
pub(crate) fn of_name(file_name: &str) -> Option<Windows> {
    let name = file_name.strip_suffix(".gz").unwrap_or(file_name);
    let mut parts = name.strip_suffix(".csv")?.split('-');
    let kind = parts.next()?;
    let sizes = parts.map(duration_ms).collect::<Option<Vec<i64>>>()?;
    match (kind, sizes.as_slice()) {
        ("tumble", &[size]) => Windows::tumble(size),
        ("hop", &[size, slide]) => Windows::hop(slide, size),
        ("cumulate", &[size, step]) => Windows::cumulate(step, size),
        _ => return None,
    }
    .ok()
}

/// Days or hours: `1d`, `6h`.
fn duration_ms(text: &str) -> Option<i64> {
    let (number, unit_ms) = match text.strip_suffix('d') {
        Some(number) => (number, DAY_MS),
        None => (text.strip_suffix('h')?, DAY_MS / 24),
    };
    number.parse::<i64>().ok()?.checked_mul(unit_ms)
}

/// A case for each store and number of phases.
pub(crate) fn run(directory: &Path, path: &Path, windows: Windows) -> Vec<Case> {
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let inputs = read(directory, path);
    let mut cases = Vec::new();
    for store in Store::ALL {
        for two_phase in [false, true] {
            let result = match &inputs {
                Ok((batches, recorded)) => check(store, two_phase, windows, batches, recorded),
                Err(how) => Err(how.clone()),
            };
            let verdict = match result {
                Ok(()) => Verdict::Passed,
                Err(how) => Verdict::Failed(how),
            };
            let phases = if two_phase { "two phases" } else { "one phase" };
            cases.push(Case::new(format!("{file_name} {store} {phases}"), verdict));
        }
    }
    cases
}

/// The batches, and the lines by window.
fn read(directory: &Path, path: &Path) -> Result<(Vec<RecordBatch>, Vec<Vec<String>>), String> {
    let recorded = read_recorded(path).map_err(|error| error_chain(&error))?;
    let batches = flights::read_all(&data_of(directory, path));
    Ok((batches.map_err(|error| error_chain(&error))?, recorded))
}

/// The lines of a recording by window.
pub(crate) fn read_recorded(path: &Path) -> io::Result<Vec<Vec<String>>> {
    let mut text = String::new();
    flights::open_text(path)?.read_to_string(&mut text)?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    Ok(by_window(&lines))
}

/// Lines that follow each other and have the same bounds, each run sorted.
fn by_window(lines: &[String]) -> Vec<Vec<String>> {
    let bounds = |line: &String| {
        let mut fields = line.split(',').map(str::to_owned);
        (fields.nth(1), fields.next())
    };
    lines
        .chunk_by(|a, b| bounds(a) == bounds(b))
        .map(|of_window| {
            let mut lines = of_window.to_vec();
            lines.sort_unstable();
            lines
        })
        .collect()
}

fn check(
    store: Store,
    two_phase: bool,
    windows: Windows,
    batches: &[RecordBatch],
    recorded: &[Vec<String>],
) -> Result<(), String> {
    let fired = match store {
        Store::Memory => {
            let mut operator = open(&stores::memory(), windows, batches)?;
            fired(&mut operator, two_phase, batches)
        }
        Store::Rocks => {
            let (_directory, backend) = stores::rocks().map_err(|error| error_chain(&error))?;
            let mut operator = open(&backend, windows, batches)?;
            fired(&mut operator, two_phase, batches)
        }
    }?;
    compare(&fired, recorded)
}

/// Whether the windows that fired are those recorded.
pub(crate) fn compare(fired: &[RecordBatch], recorded: &[Vec<String>]) -> Result<(), String> {
    let mut lines = Vec::new();
    add_lines(fired, &mut lines)?;
    let found = by_window(&lines);
    let differing = found.iter().zip(recorded).find(|(a, b)| a != b);
    if let Some((found, recorded)) = differing {
        return Err(format!("expected {recorded:?}\ngot      {found:?}"));
    }
    if found.len() != recorded.len() {
        let (found, recorded) = (found.len(), recorded.len());
        return Err(format!("{found} windows, but {recorded} are recorded"));
    }
    Ok(())
}

/// The recorded query over flights with all of their columns.
fn spec(batch: &RecordBatch, windows: Windows) -> Result<WindowSpec, String> {
    let schema = batch.schema();
    let column = |name: &str| schema.index_of(name).map_err(|error| error.to_string());
    let arrival = column("arr_delay")?;
    let aggregates = [
        Aggregate::count_rows("flights"),
        Aggregate::new("departed", Function::Count, column("dep_delay")?),
        Aggregate::new("sum", Function::Sum, arrival),
        Aggregate::new("min", Function::Min, arrival),
        Aggregate::new("max", Function::Max, arrival),
        Aggregate::new("distance", Function::Avg, column("distance")?),
        Aggregate::new("carriers", Function::Count, column("carrier")?).distinct(),
    ];
    let zone = Zone::named("America/New_York").map_err(|error| error_chain(&error))?;
    let time = EventTime::timestamp_ltz(column("scheduled")?, zone);
    WindowSpec::new(
        schema.clone(),
        &[column("origin")?],
        time,
        windows,
        &aggregates,
    )
    .map_err(|error| error_chain(&error))
}

/// Opens the recorded query.
pub(crate) fn open<B: SliceBackend>(
    backend: &B,
    windows: Windows,
    batches: &[RecordBatch],
) -> Result<WindowOperator<B::Slices>, String> {
    let first = batches.first().ok_or("there are no flights")?;
    let spec = spec(first, windows)?;
    WindowOperator::open(spec, backend, "flights").map_err(|error| error_chain(&error))
}

/// The windows that fire over the flights, with a watermark after each batch.
pub(crate) fn fired<S: SlicedState>(
    operator: &mut WindowOperator<S>,
    two_phase: bool,
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, String> {
    let spec = operator.spec().clone();
    let mut local = LocalAggregate::new(spec, "local", &MemoryPool::unlimited())
        .map_err(|error| error_chain(&error))?;
    let mut fired = Vec::new();
    for batch in batches {
        if two_phase {
            local.push(batch).map_err(|error| error_chain(&error))?;
            let partials = local.flush().map_err(|error| error_chain(&error))?;
            if let Some(partials) = partials {
                let pushed = operator.push_partials(&partials);
                pushed.map_err(|error| error_chain(&error))?;
            }
        } else {
            operator.push(batch).map_err(|error| error_chain(&error))?;
        }
        // The file is in the order of departures.
        let times = batch["scheduled"].as_primitive::<TimestampMillisecondType>();
        let watermark = times.value(times.len() - 1) - 1;
        let windows = operator.advance_watermark(watermark);
        fired.extend(windows.map_err(|error| error_chain(&error))?);
    }
    let windows = operator.finish().map_err(|error| error_chain(&error))?;
    fired.extend(windows);
    Ok(fired)
}

fn add_lines(windows: &[RecordBatch], lines: &mut Vec<String>) -> Result<(), String> {
    for window in windows {
        let bound = |name: &str, row: usize| {
            let column = window[name].as_primitive::<TimestampMillisecondType>();
            let bound = column.value_as_datetime(row);
            let bound = bound.ok_or_else(|| format!("{name} is no date"))?;
            Ok::<_, String>(bound.format("%Y-%m-%dT%H:%M").to_string())
        };
        let origins = window["origin"].as_string::<i32>();
        for row in 0..window.num_rows() {
            let mut line = format!(
                "+I,{},{},{}",
                bound("window_start", row)?,
                bound("window_end", row)?,
                origins.value(row)
            );
            for name in [
                "flights", "departed", "sum", "min", "max", "distance", "carriers",
            ] {
                line.push(',');
                let column = &window[name];
                if column.is_null(row) {
                    continue;
                }
                let number = match column.as_primitive_opt::<Int64Type>() {
                    Some(column) => column.value(row),
                    None => column.as_primitive::<Int32Type>().value(row).into(),
                };
                line += &number.to_string();
            }
            lines.push(line);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Windows, of_name};

    #[test]
    fn a_name_says_which_windows_were_recorded() {
        let hour = 3_600_000;
        assert_eq!(of_name("tumble-1d.csv.gz"), Windows::tumble(24 * hour).ok());
        assert_eq!(of_name("hop-6h-1h.csv"), Windows::hop(hour, 6 * hour).ok());
        assert_eq!(of_name("hop-6h-1h-2h.csv"), None);
        assert_eq!(of_name("top1-changelog.csv.gz"), None);
    }
}
