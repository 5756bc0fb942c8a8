//! Trials by suite, as the files of `matrix/` list them.

use std::fmt;

use clap::ValueEnum;
use serde::Deserialize;

use crate::stores::Store;
use crate::trial::TrialError;
use crate::trial::calendar::CalendarCell;
use crate::trial::cell::Cell;
use crate::trial::matrix;
use crate::trial::sustained::SustainedCell;
use crate::trial::window::{FlightWindows, WindowCell};

/// One thing to try: a workload over a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The flights, ranked per aircraft by arrival delay.
    Flights(Store),
    /// Recorded windows over the flights.
    FlightWindows(FlightWindows, Store),
    /// A cell of append-only Top-1.
    AppendTop1(Cell),
    /// A cell of shared windows.
    Windows(WindowCell),
    /// A conversion of local time.
    Calendar(CalendarCell),
    /// Append-only Top-1 for seconds on end.
    Sustained(SustainedCell),
}

impl Trial {
    /// Where the state is; `None` if there is none.
    #[must_use]
    pub fn store(&self) -> Option<Store> {
        match self {
            Self::Flights(store) | Self::FlightWindows(_, store) => Some(*store),
            Self::AppendTop1(cell) => Some(cell.store),
            Self::Windows(cell) => Some(cell.store),
            Self::Calendar(_) => None,
            Self::Sustained(sustained) => Some(sustained.cell.store),
        }
    }

    /// The workload without its store.
    #[must_use]
    pub fn workload(&self) -> String {
        match self {
            Self::Flights(_) => "flights/top-1".to_owned(),
            Self::FlightWindows(windows, _) => windows.to_string(),
            Self::AppendTop1(cell) => cell.to_string(),
            Self::Windows(cell) => cell.to_string(),
            Self::Calendar(cell) => cell.to_string(),
            Self::Sustained(sustained) => sustained.to_string(),
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

/// Trials that belong together: a file of `matrix/`.
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
    /// Some of append_top1 at full speed for seconds on end
    #[value(name = "sustained")]
    Sustained,
}

impl Suite {
    /// How the command line and the files of `matrix/` call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flights => "flights",
            Self::AppendTop1 => "append_top1",
            Self::Windows => "windows",
            Self::Calendar => "calendar",
            Self::Sustained => "sustained",
        }
    }
}

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// The cells that say most, in a few minutes
    Quick,
    /// All cells, in an hour or two
    Full,
}

/// A trial, and why it is one.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What to try.
    pub trial: Trial,
    /// What it shows.
    pub why: String,
}

/// The trials of `suites` in `profile` whose names hold all of `filters`, each once.
///
/// # Errors
///
/// [`TrialError::Matrix`] if a file of `matrix/` is not well formed, [`TrialError::NothingSelected`] if there is no
/// such trial.
pub fn select(
    suites: &[Suite],
    profile: Profile,
    filters: &[String],
) -> Result<Vec<Listed>, TrialError> {
    let mut all: Vec<(String, Listed)> = Vec::new();
    for &suite in suites {
        for listed in matrix::trials(suite, profile)? {
            let name = listed.trial.to_string();
            if all.iter().all(|(known, _)| *known != name) {
                all.push((name, listed));
            }
        }
    }
    let holds_all = |name: &str| filters.iter().all(|filter| name.contains(filter.as_str()));
    if all.iter().any(|(name, _)| holds_all(name)) {
        all.retain(|(name, _)| holds_all(name));
        return Ok(all.into_iter().map(|(_, listed)| listed).collect());
    }
    let known: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
    Err(TrialError::NothingSelected {
        near: near_matches(filters, &known),
        filters: filters.to_vec(),
        known,
    })
}

/// For each filter that no name holds, the part of a name that is most like it.
fn near_matches(filters: &[String], known: &[String]) -> Vec<String> {
    let unknown = filters
        .iter()
        .filter(|filter| known.iter().all(|name| !name.contains(filter.as_str())));
    let near = unknown.filter_map(|filter| {
        let parts = known.iter().flat_map(|name| name.split('/'));
        let nearest = parts
            .map(|part| (strsim::jaro_winkler(filter, part), part))
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        (nearest.0 > 0.75).then(|| nearest.1.to_owned())
    });
    near.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::ValueEnum;

    use super::{Profile, Suite, select};

    fn selected(suites: &[Suite], profile: Profile, filters: &[&str]) -> Vec<String> {
        let filters: Vec<String> = filters.iter().map(ToString::to_string).collect();
        let listed = select(suites, profile, &filters).expect("there are some");
        listed
            .iter()
            .map(|listed| listed.trial.to_string())
            .collect()
    }

    #[test]
    fn every_suite_has_trials_of_both_profiles_once_each_and_with_a_reason() {
        for &suite in Suite::value_variants() {
            let full = select(&[suite], Profile::Full, &[]).expect("well formed");
            let names: HashSet<String> = full.iter().map(|it| it.trial.to_string()).collect();
            assert_eq!(names.len(), full.len(), "{suite:?}");
            assert!(full.iter().all(|listed| listed.why.len() > 20));
            assert_eq!(
                suite.to_possible_value().expect("named").get_name(),
                suite.name()
            );
            if suite != Suite::Sustained {
                let quick = select(&[suite], Profile::Quick, &[]).expect("well formed");
                assert!(quick.len() <= 40, "{suite:?} has {}", quick.len());
            }
        }
        assert_eq!(
            selected(&[Suite::Windows], Profile::Full, &[]).len(),
            2 * 60 + 2 * 5 + 4
        );
        assert_eq!(
            selected(&[Suite::Flights], Profile::Quick, &["memory"]),
            [
                "flights/top-1/memory",
                "flights/tumble-1d/memory",
                "flights/hop-6h-1h/memory",
                "flights/cumulate-1d-1h/memory",
            ]
        );
    }

    #[test]
    fn filters_narrow_together() {
        assert_eq!(
            selected(
                &[Suite::AppendTop1],
                Profile::Full,
                &["rejected/64-keys/8-bytes", "memory"]
            ),
            [
                "append_top1/rejected/64-keys/8-bytes/immediate/memory",
                "append_top1/rejected/64-keys/8-bytes/mini-batch/memory",
                "append_top1/rejected/64-keys/8-bytes/immediate/256-rows/memory"
            ]
        );
    }

    #[test]
    fn an_empty_selection_is_an_error_that_names_the_near_and_lists_what_there_is() {
        let filters = ["memroy".to_owned()];
        let error = select(&[Suite::Flights], Profile::Quick, &filters).expect_err("no such trial");
        insta::assert_snapshot!(error, @r#"
        no trial has all of ["memroy"] in its name, did you mean memory? The trials are:
        flights/top-1/memory
        flights/top-1/RocksDB
        flights/tumble-1d/memory
        flights/tumble-1d/RocksDB
        flights/hop-6h-1h/memory
        flights/hop-6h-1h/RocksDB
        flights/cumulate-1d-1h/memory
        flights/cumulate-1d-1h/RocksDB
        "#);
        let error = select(&[Suite::Sustained], Profile::Quick, &[]).expect_err("no such trial");
        insta::assert_snapshot!(error, @"no trial of these suites is of this profile; `--profile full` has all");
    }
}
