//! Which workload runs over which store.

use std::fmt;

use clap::ValueEnum;

use crate::stores::Store;
use crate::trial::TrialError;
use crate::trial::calendar::CalendarCell;
use crate::trial::window::{FlightWindows, WindowCell};

/// How the arriving rows compare with the winners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Every row is worse than its key's winner.
    Rejected,
    /// Every row is better than its key's winner.
    Improving,
    /// Every row has a key of its own.
    Fresh,
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rejected => "rejected",
            Self::Improving => "improving",
            Self::Fresh => "fresh",
        })
    }
}

/// When changes are emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emission {
    /// With the batch that brought them.
    Immediate,
    /// At a flush after every [`Cell::BUNDLE_BATCHES`] batches.
    MiniBatch,
}

impl fmt::Display for Emission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Immediate => "immediate",
            Self::MiniBatch => "mini-batch",
        })
    }
}

/// One cell of the append-only Top-1 workload: a BIGINT key, a BIGINT sort column in descending
/// order, and a binary payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Where the winners are.
    pub store: Store,
    /// Keys that have a winner before the rows arrive.
    pub keys: usize,
    /// Bytes of each row's payload.
    pub payload_bytes: usize,
    /// How the arriving rows compare.
    pub arrival: Arrival,
    /// When changes are emitted.
    pub emission: Emission,
}

impl Cell {
    /// Rows of a batch.
    pub const BATCH_ROWS: usize = 4_096;
    /// Batches of a mini-batch bundle.
    pub const BUNDLE_BATCHES: usize = 4;

    /// Every cell: both stores, 64, 4,096 and 65,536 keys, payloads of 8 and 256 bytes, all arrivals,
    /// both ways to emit.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for store in Store::ALL {
            for arrival in [Arrival::Rejected, Arrival::Improving, Arrival::Fresh] {
                for keys in [64, 4_096, 65_536] {
                    for payload_bytes in [8, 256] {
                        for emission in [Emission::Immediate, Emission::MiniBatch] {
                            cells.push(Self {
                                store,
                                keys,
                                payload_bytes,
                                arrival,
                                emission,
                            });
                        }
                    }
                }
            }
        }
        cells
    }

    /// Batches between two flushes.
    #[must_use]
    pub fn bundle_batches(&self) -> usize {
        match self.emission {
            Emission::Immediate => 1,
            Emission::MiniBatch => Self::BUNDLE_BATCHES,
        }
    }
}

/// The workload of the cell, without its store.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            keys,
            payload_bytes,
            arrival,
            emission,
            ..
        } = self;
        write!(
            f,
            "append_top1/{arrival}/{keys}-keys/{payload_bytes}-bytes/{emission}"
        )
    }
}

/// One thing to try: a workload over a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The flights, ranked per aircraft by arrival delay.
    Flights(Store),
    /// A cell of append-only Top-1.
    AppendTop1(Cell),
    /// A conversion of local time.
    Calendar(CalendarCell),
    /// A cell of shared windows.
    Windows(WindowCell),
    /// Recorded windows over the flights.
    FlightWindows(FlightWindows, Store),
}

impl Trial {
    /// Where the winners are; `None` if there is no state.
    #[must_use]
    pub fn store(&self) -> Option<Store> {
        match self {
            Self::Flights(store) | Self::FlightWindows(_, store) => Some(*store),
            Self::AppendTop1(cell) => Some(cell.store),
            Self::Windows(cell) => Some(cell.store),
            Self::Calendar(_) => None,
        }
    }

    /// The workload without its store.
    #[must_use]
    pub fn workload(&self) -> String {
        match self {
            Self::Flights(_) => "flights".to_owned(),
            Self::AppendTop1(cell) => cell.to_string(),
            Self::Calendar(cell) => cell.to_string(),
            Self::Windows(cell) => cell.to_string(),
            Self::FlightWindows(windows, _) => windows.to_string(),
        }
    }
}

/// Workload and, if there is one, store.
impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.store() {
            Some(store) => write!(f, "{}/{store}", self.workload()),
            None => f.write_str(&self.workload()),
        }
    }
}

/// Trials that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// The flights of 2013: ranked per aircraft by arrival delay, and counted in windows per origin
    #[value(name = "flights")]
    Flights,
    /// Synthetic rows over stores, keys, payloads, arrivals and ways to emit
    #[value(name = "append_top1")]
    AppendTop1,
    /// Shared windows over shapes, aggregates, keys, zones and stores
    #[value(name = "windows")]
    Windows,
    /// Conversions between instants and local time, in batches
    #[value(name = "calendar")]
    Calendar,
}

impl Suite {
    /// The trials of the suite.
    #[must_use]
    pub fn trials(self) -> Vec<Trial> {
        match self {
            Self::Flights => {
                let ranked = Store::ALL.into_iter().map(Trial::Flights);
                let windows = FlightWindows::ALL.into_iter().flat_map(|windows| {
                    Store::ALL.map(|store| Trial::FlightWindows(windows, store))
                });
                ranked.chain(windows).collect()
            }
            Self::AppendTop1 => Cell::all().into_iter().map(Trial::AppendTop1).collect(),
            Self::Windows => WindowCell::all().into_iter().map(Trial::Windows).collect(),
            Self::Calendar => CalendarCell::all()
                .into_iter()
                .map(Trial::Calendar)
                .collect(),
        }
    }
}

/// The trials whose names hold all of `filters`.
///
/// # Errors
///
/// [`TrialError::NothingSelected`] if there is none.
pub fn select(trials: Vec<Trial>, filters: &[String]) -> Result<Vec<Trial>, TrialError> {
    let holds_all = |trial: &&Trial| {
        let name = trial.to_string();
        filters.iter().all(|filter| name.contains(filter.as_str()))
    };
    let selected: Vec<Trial> = trials.iter().filter(holds_all).copied().collect();
    if selected.is_empty() {
        return Err(TrialError::NothingSelected {
            filters: filters.to_vec(),
            known: trials.iter().map(ToString::to_string).collect(),
        });
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::{Suite, Trial, select};
    use clap::ValueEnum;

    fn selected(filters: &[&str]) -> Vec<String> {
        let filters: Vec<String> = filters.iter().map(ToString::to_string).collect();
        let trials = Suite::value_variants()
            .iter()
            .flat_map(|suite| suite.trials());
        match select(trials.collect(), &filters) {
            Ok(trials) => trials.iter().map(ToString::to_string).collect(),
            Err(error) => vec![
                error
                    .to_string()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            ],
        }
    }

    #[test]
    fn suites_have_all_of_their_cells() {
        assert_eq!(selected(&["append_top1"]).len(), 72);
        assert_eq!(selected(&["windows/"]).len(), 2 * (5 * 3 * 4 + 5));
        assert_eq!(
            selected(&["flights", "memory"]),
            [
                "flights/memory",
                "flights/tumble-1d/memory",
                "flights/hop-6h-1h/memory",
                "flights/cumulate-1d-1h/memory",
            ]
        );
        assert_eq!(selected(&["flights"]).len(), 8);
    }

    #[test]
    fn names_are_unique() {
        let all: Vec<String> = Suite::value_variants()
            .iter()
            .flat_map(|suite| suite.trials())
            .map(|trial: Trial| trial.to_string())
            .collect();
        let different: std::collections::HashSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn the_calendar_has_20_cells_and_no_store() {
        assert_eq!(selected(&["calendar"]).len(), 20);
        assert_eq!(
            selected(&["GMT+08:00", "to-"]),
            [
                "calendar/GMT+08:00/to-local/random",
                "calendar/GMT+08:00/to-instant/random"
            ]
        );
    }

    #[test]
    fn filters_narrow_together() {
        assert_eq!(
            selected(&["rejected/64-keys/8-bytes", "memory"]),
            [
                "append_top1/rejected/64-keys/8-bytes/immediate/memory",
                "append_top1/rejected/64-keys/8-bytes/mini-batch/memory"
            ]
        );
    }

    #[test]
    fn an_empty_selection_is_an_error_that_lists_the_cells() {
        let error =
            select(Suite::Flights.trials(), &["unsorted".to_owned()]).expect_err("no such cell");
        insta::assert_snapshot!(error, @r#"
        no cell has all of ["unsorted"] in its name; the cells are:
        flights/memory
        flights/RocksDB
        flights/tumble-1d/memory
        flights/tumble-1d/RocksDB
        flights/hop-6h-1h/memory
        flights/hop-6h-1h/RocksDB
        flights/cumulate-1d-1h/memory
        flights/cumulate-1d-1h/RocksDB
        "#);
    }
}
