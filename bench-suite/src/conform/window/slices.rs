//! Lines of `slices.jsonl`: what a row's slice and windows are, when these fire, and what of their slices is
//! merged and dropped.

use calendar_tz::{Policy, Zone};
use serde::Deserialize;
use window_shared::{Windows, WindowsError};

use crate::conform::calendar::recorded_zone;
use crate::conform::report::Verdict;

/// A time, and what Flink's assigner makes of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SliceLine {
    kind: Kind,
    assigner: Assigner,
    size_ms: i64,
    #[serde(alias = "step_ms")]
    slide_ms: Option<i64>,
    offset_ms: i64,
    zone: String,
    timestamp_ms: Option<i64>,
    shifted_ms: Option<i64>,
    slice_end_interval: Option<i64>,
    shared: Option<bool>,
    slice_end: Option<i64>,
    last_window_end: Option<i64>,
    window_start: Option<i64>,
    last_window_start: Option<i64>,
    #[serde(default)]
    windows: Vec<WindowLine>,
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Tumble,
    Hop,
    Cumulate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Assigner {
    Plain,
    Windowed,
    Sliced,
}

#[derive(Clone, Debug, Deserialize)]
struct WindowLine {
    window_end: i64,
    window_start: i64,
    expired_slices: Vec<i64>,
    merge_target: Option<i64>,
    merge_slices: Option<Vec<i64>>,
    merge_slices_count: Option<usize>,
    merge_slices_first_3: Option<Vec<i64>>,
    merge_slices_last_3: Option<Vec<i64>>,
    next_if_nonempty: Option<i64>,
    next_if_empty: Option<i64>,
    timer_ms: Option<i64>,
    timer_error: Option<String>,
    window_time_ms: Option<i64>,
}

/// Why a line is not answered as recorded.
enum Differs {
    /// The answer does not fit in 64 bits, where Flink wraps.
    Range,
    Otherwise(String),
}

impl From<String> for Differs {
    fn from(how: String) -> Self {
        Self::Otherwise(how)
    }
}

/// Slices and windows of a time.
pub(crate) fn slices(line: &SliceLine) -> Verdict {
    match answered(line) {
        Ok(()) => Verdict::Passed,
        // Whose absolute value Flink takes for negative, and so for small.
        Err(_) if line.offset_ms == i64::MIN => Verdict::Divergent(14),
        Err(Differs::Range) if wraps(line) => Verdict::Divergent(14),
        Err(Differs::Range) => Verdict::Failed("a range error, but nothing wraps".to_owned()),
        Err(Differs::Otherwise(how)) => Verdict::Failed(how),
    }
}

fn windows(line: &SliceLine) -> Result<Windows, WindowsError> {
    let part = line.slide_ms.unwrap_or_default();
    let windows = match line.kind {
        Kind::Tumble => Windows::tumble(line.size_ms),
        Kind::Hop => Windows::hop(part, line.size_ms),
        Kind::Cumulate => Windows::cumulate(part, line.size_ms),
    }?;
    windows.with_offset(line.offset_ms)
}

/// Whether the slice of a time is so near an end of 64 bits that Flink's arithmetic of it wraps, as recorded.
fn wraps(line: &SliceLine) -> bool {
    let Some(local) = line.shifted_ms.or(line.timestamp_ms) else {
        return false;
    };
    let unit = line.slide_ms.unwrap_or(line.size_ms);
    let start = local.wrapping_sub(local.wrapping_sub(line.offset_ms).rem_euclid(unit));
    let end = start.wrapping_add(unit);
    let far = 3 * i128::from(line.size_ms);
    let is_near = i128::from(i64::MAX) - i128::from(local) < far
        || i128::from(local) - i128::from(i64::MIN) < far;
    is_near && line.slice_end == Some(end)
}

fn answered(line: &SliceLine) -> Result<(), Differs> {
    let windows = match (windows(line), line.timestamp_ms) {
        (Ok(windows), Some(_)) => windows,
        // Without a time it is the constructor that fails.
        (Err(_), None) if line.error.is_some() => return Ok(()),
        (made, _) => return Err(format!("sizes: {made:?}, recorded {:?}", line.error).into()),
    };
    let zone = recorded_zone(&line.zone)?;
    let time = line.timestamp_ms.unwrap_or_default();
    let plain = line.assigner == Assigner::Plain;
    let local = if plain {
        match (zone.to_local(time), &line.error) {
            (Err(_), Some(_)) => return Ok(()),
            (Ok(local), None) => local,
            (other, recorded) => {
                return Err(format!("local time: {other:?}, recorded {recorded:?}").into());
            }
        }
    } else {
        time
    };
    let range = |_| Differs::Range;
    let slice_end = if plain {
        windows.slice_end(local).map_err(range)?
    } else {
        // It is what the row has, even where there is no such slice.
        local
    };
    let attached = line.assigner == Assigner::Windowed;
    let last_window_end = if attached {
        slice_end
    } else {
        windows.last_window_end(slice_end).map_err(range)?
    };
    let start = |end| windows.window_start(end).map_err(range);
    let got = [
        (
            "slice end interval",
            Some(windows.slice_ms()),
            line.slice_end_interval,
        ),
        ("slice end", Some(slice_end), line.slice_end),
        (
            "last window end",
            Some(last_window_end),
            line.last_window_end,
        ),
        ("window start", Some(start(slice_end)?), line.window_start),
        (
            "last window start",
            Some(start(last_window_end)?),
            line.last_window_start,
        ),
    ];
    for (what, got, recorded) in got {
        same(what, &got, &recorded)?;
    }
    let shared = windows.shares_slices() && !attached;
    same("shared", &Some(shared), &line.shared)?;
    let mut ends: Vec<i64> = if attached {
        vec![slice_end]
    } else {
        windows.window_ends(slice_end).map_err(range)?.collect()
    };
    if ends.len() > 6 {
        ends.drain(3..ends.len() - 3);
    }
    let recorded: Vec<i64> = line
        .windows
        .iter()
        .map(|window| window.window_end)
        .collect();
    same("windows", &ends, &recorded)?;
    for window in &line.windows {
        check_window(line, &windows, &zone, shared, window)?;
    }
    Ok(())
}

fn check_window(
    line: &SliceLine,
    windows: &Windows,
    zone: &Zone,
    shared: bool,
    window: &WindowLine,
) -> Result<(), Differs> {
    let range = |_| Differs::Range;
    let end = window.window_end;
    let first = windows.first_slice_end(end).map_err(range)?;
    let start = windows.window_start(end).map_err(range)?;
    same("window start", &start, &window.window_start)?;
    let next = windows.next_window_end(end).filter(|_| shared);
    let expired = match line.kind {
        _ if !shared => vec![end],
        Kind::Hop => vec![first],
        Kind::Cumulate if end == first => vec![],
        Kind::Cumulate if next.is_none() => vec![end, first],
        Kind::Cumulate | Kind::Tumble => vec![end],
    };
    same("expired slices", &expired, &window.expired_slices)?;
    if shared {
        let growing = line.kind == Kind::Cumulate;
        let merged: Vec<i64> = match line.kind {
            Kind::Cumulate if end == first => vec![],
            Kind::Cumulate => vec![end],
            _ => {
                let count = windows.slice_count(end).map_err(range)?;
                (0..count).map(|i| end - i * windows.slice_ms()).collect()
            }
        };
        same(
            "merge target",
            &growing.then_some(first),
            &window.merge_target,
        )?;
        if let Some(recorded) = &window.merge_slices {
            same("merged slices", &merged, recorded)?;
        } else {
            let count = window.merge_slices_count.unwrap_or_default();
            same("number of merged slices", &merged.len(), &count)?;
            let (head, tail) = (merged[..3].to_vec(), merged[merged.len() - 3..].to_vec());
            same(
                "first merged slices",
                &Some(head),
                &window.merge_slices_first_3,
            )?;
            same(
                "last merged slices",
                &Some(tail),
                &window.merge_slices_last_3,
            )?;
        }
        // A hopping window without rows ends the chain.
        same("next window", &next, &window.next_if_nonempty)?;
        same(
            "next window of an empty one",
            &next.filter(|_| growing),
            &window.next_if_empty,
        )?;
    }
    let timer = zone.timer(end - 1, Policy::Flink).ok();
    if window.timer_error.is_some() {
        return same("timer", &timer, &None);
    }
    same("timer", &timer, &window.timer_ms)?;
    same(
        "window time",
        &zone.to_instant(end - 1).ok(),
        &window.window_time_ms,
    )
}

fn same<T: std::fmt::Debug + PartialEq>(what: &str, got: &T, recorded: &T) -> Result<(), Differs> {
    if got == recorded {
        return Ok(());
    }
    Err(format!("{what}: got {got:?}, recorded {recorded:?}").into())
}
