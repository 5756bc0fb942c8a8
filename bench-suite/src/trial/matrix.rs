//! The files of `matrix/`: workloads as data, each with its reason, its profiles and its answer.
//!
//! A workload lists values by dimension, and is all of their combinations.

use calendar_tz::{Conversion, Policy};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::stores::Store;
use crate::trial::TrialError;
use crate::trial::calendar::{CalendarCell, Times};
use crate::trial::cell::{Arrival, Cell, Emission, KeyForm, OrderForm, Spread};
use crate::trial::suite::{Listed, Profile, Suite, Trial};
use crate::trial::sustained::SustainedCell;
use crate::trial::window::{FlightWindows, List, Shape, WindowCell};
use crate::trial::zone::TrialZone;

/// The trials of a suite in a profile, in the order of its file.
pub(crate) fn trials(suite: Suite, profile: Profile) -> Result<Vec<Listed>, TrialError> {
    match suite {
        Suite::Flights => {
            of_file::<FlightsWorkload>(suite, include_str!("../../matrix/flights.toml"), profile)
        }
        Suite::AppendTop1 => of_file::<AppendTop1Workload>(
            suite,
            include_str!("../../matrix/append_top1.toml"),
            profile,
        ),
        Suite::Windows => {
            of_file::<WindowsWorkload>(suite, include_str!("../../matrix/windows.toml"), profile)
        }
        Suite::Calendar => {
            of_file::<CalendarWorkload>(suite, include_str!("../../matrix/calendar.toml"), profile)
        }
        Suite::Sustained => of_file::<SustainedWorkload>(
            suite,
            include_str!("../../matrix/sustained.toml"),
            profile,
        ),
    }
}

/// A workload of a file: what a new suite has to say of itself.
trait Workload: DeserializeOwned {
    fn why(&self) -> &str;
    fn profiles(&self) -> &[Profile];
    /// All combinations, or what is wrong with one.
    fn trials(&self) -> Result<Vec<Trial>, String>;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<W> {
    workload: Vec<W>,
}

fn of_file<W: Workload>(
    suite: Suite,
    text: &str,
    profile: Profile,
) -> Result<Vec<Listed>, TrialError> {
    let failed = |problem: String| TrialError::Matrix {
        file: format!("matrix/{}.toml", suite.name()),
        problem,
    };
    let file: File<W> = toml::from_str(text).map_err(|error| failed(error.to_string()))?;
    let mut listed = Vec::new();
    for workload in &file.workload {
        if workload.profiles().contains(&profile) {
            let trials = workload.trials().map_err(failed)?;
            listed.extend(trials.into_iter().map(|trial| Listed {
                trial,
                why: workload.why().to_owned(),
            }));
        }
    }
    Ok(listed)
}

macro_rules! workload {
    ($name:ident) => {
        impl Workload for $name {
            fn why(&self) -> &str {
                &self.why
            }

            fn profiles(&self) -> &[Profile] {
                &self.profiles
            }

            fn trials(&self) -> Result<Vec<Trial>, String> {
                self.combinations()
            }
        }
    };
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlightsWorkload {
    why: String,
    profiles: Vec<Profile>,
    store: Vec<Store>,
    query: Vec<FlightsQuery>,
    #[serde(rename = "expected")]
    _expected: Recorded,
}

#[derive(Clone, Copy, Deserialize)]
enum FlightsQuery {
    #[serde(rename = "top-1")]
    Top1,
    #[serde(untagged)]
    Windows(FlightWindows),
}

/// The answer that was recorded of Flink.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Recorded {
    Recorded,
}

workload!(FlightsWorkload);

impl FlightsWorkload {
    fn combinations(&self) -> Result<Vec<Trial>, String> {
        let trials = self.query.iter().flat_map(|query| {
            self.store.iter().map(move |&store| match *query {
                FlightsQuery::Top1 => Trial::Flights(store),
                FlightsQuery::Windows(windows) => Trial::FlightWindows(windows, store),
            })
        });
        Ok(trials.collect())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AppendTop1Workload {
    why: String,
    profiles: Vec<Profile>,
    store: Vec<Store>,
    arrival: Vec<Arrival>,
    keys: Vec<usize>,
    payload_bytes: Vec<usize>,
    emission: Vec<Emission>,
    #[serde(default = "batch_rows")]
    batch_rows: Vec<usize>,
    #[serde(default = "default")]
    spread: Vec<Spread>,
    #[serde(default = "default")]
    key: Vec<KeyForm>,
    #[serde(default = "default")]
    order: Vec<OrderForm>,
    #[serde(default = "default")]
    nullable: Vec<bool>,
    #[serde(default = "default")]
    rank: Vec<bool>,
    rows: Option<usize>,
    expected: Changes,
}

fn default<T: Default>() -> Vec<T> {
    vec![T::default()]
}

fn batch_rows() -> Vec<usize> {
    vec![4_096]
}

/// Which changes the arriving rows cause: what `trial::workload::Workload::expected_changes` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Changes {
    None,
    AnInsertARow,
    AnUpdateAnImprovingRow,
    AnUpdateAnImprovedKey,
}

impl Changes {
    fn of(cell: &Cell) -> Self {
        match (cell.arrival, cell.emission) {
            (Arrival::Rejected, _) => Self::None,
            (Arrival::Fresh, _) => Self::AnInsertARow,
            (_, Emission::Immediate) => Self::AnUpdateAnImprovingRow,
            (_, Emission::MiniBatch) => Self::AnUpdateAnImprovedKey,
        }
    }
}

workload!(AppendTop1Workload);

impl AppendTop1Workload {
    fn combinations(&self) -> Result<Vec<Trial>, String> {
        let mut cells = vec![Cell {
            rows: self.rows,
            ..Cell::plain(Store::Memory, Arrival::Rejected)
        }];
        vary(&mut cells, &self.store, |cell, store| cell.store = store);
        vary(&mut cells, &self.arrival, |cell, arrival| {
            cell.arrival = arrival
        });
        vary(&mut cells, &self.key, |cell, key| cell.key = key);
        vary(&mut cells, &self.keys, |cell, keys| cell.keys = keys);
        vary(&mut cells, &self.payload_bytes, |cell, bytes| {
            cell.payload_bytes = bytes
        });
        vary(&mut cells, &self.emission, |cell, emission| {
            cell.emission = emission
        });
        vary(&mut cells, &self.batch_rows, |cell, rows| {
            cell.batch_rows = rows
        });
        vary(&mut cells, &self.spread, |cell, spread| {
            cell.spread = spread
        });
        vary(&mut cells, &self.order, |cell, order| cell.order = order);
        vary(&mut cells, &self.nullable, |cell, nullable| {
            cell.nullable = nullable
        });
        vary(&mut cells, &self.rank, |cell, rank| cell.rank = rank);
        for cell in &cells {
            if let Some(flaw) = cell.flaw() {
                return Err(flaw);
            }
            if Changes::of(cell) != self.expected {
                let (expected, right) = (self.expected, Changes::of(cell));
                return Err(format!(
                    "{cell}: {expected:?} is expected, but {right:?} is right"
                ));
            }
        }
        Ok(cells.into_iter().map(Trial::AppendTop1).collect())
    }
}

/// Makes of each cell as many as there are values.
fn vary<C: Copy, V: Copy>(cells: &mut Vec<C>, values: &[V], set: impl Fn(&mut C, V)) {
    let varied = cells.iter().flat_map(|&cell| {
        let set = &set;
        values.iter().map(move |&value| {
            let mut cell = cell;
            set(&mut cell, value);
            cell
        })
    });
    *cells = varied.collect();
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowsWorkload {
    why: String,
    profiles: Vec<Profile>,
    store: Vec<Store>,
    shape: Vec<Shape>,
    list: Vec<List>,
    keys: Vec<usize>,
    key_bytes: Vec<usize>,
    zone: Vec<TrialZone>,
    batch_rows: Vec<usize>,
    #[serde(rename = "expected")]
    _expected: Counted,
}

/// Rows out and the sum over them of the first aggregate, by an obvious count.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Counted {
    CountedBySlices,
}

workload!(WindowsWorkload);

impl WindowsWorkload {
    fn combinations(&self) -> Result<Vec<Trial>, String> {
        let mut cells = vec![WindowCell::plain()];
        vary(&mut cells, &self.store, |cell, store| cell.store = store);
        vary(&mut cells, &self.shape, |cell, shape| cell.shape = shape);
        vary(&mut cells, &self.list, |cell, list| cell.list = list);
        vary(&mut cells, &self.keys, |cell, keys| cell.keys = keys);
        vary(&mut cells, &self.key_bytes, |cell, bytes| {
            cell.key_bytes = bytes
        });
        vary(&mut cells, &self.zone, |cell, zone| cell.zone = zone);
        vary(&mut cells, &self.batch_rows, |cell, rows| {
            cell.batch_rows = rows
        });
        Ok(cells.into_iter().map(Trial::Windows).collect())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalendarWorkload {
    why: String,
    profiles: Vec<Profile>,
    zone: Vec<TrialZone>,
    conversion: Vec<ConversionName>,
    times: Vec<Times>,
    #[serde(rename = "expected")]
    _expected: OneByOne,
}

/// What each value gives alone.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OneByOne {
    ValueByValue,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ConversionName {
    ToLocal,
    ToInstant,
    TimerFlink,
    TimerExact,
}

impl From<ConversionName> for Conversion {
    fn from(name: ConversionName) -> Self {
        match name {
            ConversionName::ToLocal => Self::ToLocal,
            ConversionName::ToInstant => Self::ToInstant,
            ConversionName::TimerFlink => Self::Timer(Policy::Flink),
            ConversionName::TimerExact => Self::Timer(Policy::Exact),
        }
    }
}

workload!(CalendarWorkload);

impl CalendarWorkload {
    fn combinations(&self) -> Result<Vec<Trial>, String> {
        let mut trials = Vec::new();
        for &zone in &self.zone {
            for &times in &self.times {
                for &conversion in &self.conversion {
                    let conversion = conversion.into();
                    trials.push(Trial::Calendar(CalendarCell {
                        zone,
                        conversion,
                        times,
                    }));
                }
            }
        }
        Ok(trials)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SustainedWorkload {
    why: String,
    profiles: Vec<Profile>,
    store: Vec<Store>,
    arrival: Vec<Arrival>,
    keys: Vec<usize>,
    warm_up_seconds: u16,
    measured_seconds: u16,
    runs: u16,
    #[serde(rename = "expected")]
    _expected: AsInAppendTop1,
}

/// The changes that the same rows cause in the suite append_top1.
#[derive(Deserialize)]
enum AsInAppendTop1 {
    #[serde(rename = "as-in-append_top1")]
    Same,
}

workload!(SustainedWorkload);

impl SustainedWorkload {
    fn combinations(&self) -> Result<Vec<Trial>, String> {
        let mut cells = vec![Cell::plain(Store::Memory, Arrival::Rejected)];
        vary(&mut cells, &self.store, |cell, store| cell.store = store);
        vary(&mut cells, &self.arrival, |cell, arrival| {
            cell.arrival = arrival
        });
        vary(&mut cells, &self.keys, |cell, keys| cell.keys = keys);
        if let Some(flaw) = cells.iter().find_map(Cell::flaw) {
            return Err(flaw);
        }
        let sustained = cells.into_iter().map(|cell| SustainedCell {
            cell,
            warm_up_seconds: self.warm_up_seconds,
            measured_seconds: self.measured_seconds,
            runs: self.runs,
        });
        Ok(sustained.map(Trial::Sustained).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{AppendTop1Workload, of_file};
    use crate::trial::suite::{Profile, Suite};

    fn refusal(change: impl Fn(&str) -> String) -> String {
        let good = r#"
            [[workload]]
            why = "a test"
            profiles = ["quick"]
            store = ["memory"]
            arrival = ["rejected"]
            keys = [64]
            payload_bytes = [8]
            emission = ["immediate"]
            expected = "none"
        "#;
        assert!(of_file::<AppendTop1Workload>(Suite::AppendTop1, good, Profile::Quick).is_ok());
        let refused =
            of_file::<AppendTop1Workload>(Suite::AppendTop1, &change(good), Profile::Quick);
        refused.expect_err("not well formed").to_string()
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_name() {
        let unknown = refusal(|good| good.replace("keys =", "kys ="));
        assert!(
            unknown.starts_with("matrix/append_top1.toml: "),
            "{unknown}"
        );
        assert!(unknown.contains("unknown field `kys`"), "{unknown}");
        let value = refusal(|good| good.replace("\"rejected\"", "\"rejceted\""));
        assert!(value.contains("unknown variant `rejceted`"), "{value}");
        let answer = refusal(|good| good.replace("\"none\"", "\"an-insert-a-row\""));
        assert!(
            answer.contains("AnInsertARow is expected, but None is right"),
            "{answer}"
        );
        let few =
            refusal(|good| good.replace("expected", "spread = [\"once-per-batch\"]\nexpected"));
        assert!(few.contains("64 keys are too few"), "{few}");
    }
}
