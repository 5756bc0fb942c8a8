//! What is to be reached, from `matrix/targets.toml`, and what a record says of it.

use serde::Deserialize;

use crate::report::data::{Cell, Trials};
use crate::trial::TrialError;
use crate::trial::engine::EngineKind;

const FILE: &str = "matrix/targets.toml";

/// A ratio that some cells are not to exceed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// What is timed, and what it is held against.
    pub path: String,
    /// The greatest ratio that is good.
    pub at_most: f64,
    /// The workloads, without their store.
    pub workloads: Vec<String>,
    /// The store.
    pub store: String,
    /// The engine.
    pub engine: EngineKind,
    /// In what differs what it is held against.
    pub against: Against,
}

/// What is not the same as in the cell itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    workload: Option<String>,
    store: Option<String>,
    engine: Option<EngineKind>,
}

/// A target in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The target's [`path`](Target::path).
    pub path: String,
    /// The workload.
    pub workload: String,
    /// The store.
    pub store: String,
    /// The greatest ratio that is good.
    pub at_most: f64,
    /// The ratio in the record, if it has both times.
    pub ratio: Option<f64>,
}

impl Judged {
    /// How far beyond what is good, 1 being just good. Nothing if it was not measured.
    #[must_use]
    pub fn excess(&self) -> Option<f64> {
        Some(self.ratio? / self.at_most)
    }

    /// Whether the record shows that it is not reached.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.excess().is_some_and(|excess| excess > 1.0)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    target: Vec<Target>,
}

/// The targets.
///
/// # Errors
///
/// [`TrialError::Matrix`] if their file is not well formed.
pub fn targets() -> Result<Vec<Target>, TrialError> {
    let file: Result<File, _> = toml::from_str(include_str!("../../matrix/targets.toml"));
    let file = file.map_err(|error| TrialError::Matrix {
        file: FILE.to_owned(),
        problem: error.to_string(),
    })?;
    Ok(file.target)
}

/// Each target in each of its cells, and each peer in a cell: first what is missed, by how far; then what was not measured; then the rest.
#[must_use]
pub fn judge(targets: &[Target], trials: &Trials) -> Vec<Judged> {
    let mut judged: Vec<Judged> = targets
        .iter()
        .flat_map(|target| {
            target.workloads.iter().map(|workload| {
                let median = |workload: &str, store: &str, engine| {
                    trials.cell(workload, store)?.engine(engine)?.median()
                };
                let against = &target.against;
                let own = median(workload, &target.store, target.engine);
                let other = median(
                    against.workload.as_ref().unwrap_or(workload),
                    against.store.as_ref().unwrap_or(&target.store),
                    against.engine.unwrap_or(target.engine),
                );
                Judged {
                    path: target.path.clone(),
                    workload: workload.clone(),
                    store: target.store.clone(),
                    at_most: target.at_most,
                    ratio: own.zip(other).map(|(own, other)| own / other),
                }
            })
        })
        .collect();
    judged.extend(trials.cells.iter().flat_map(beside_peers));
    let place = |judged: &Judged| judged.excess().unwrap_or(1.0);
    judged.sort_by(|a, b| place(b).total_cmp(&place(a)));
    judged
}

/// A cell's first engine beside each peer that was timed in it: no slower is good.
fn beside_peers(cell: &Cell) -> Vec<Judged> {
    let Some(own) = cell.engines.first().filter(|engine| !engine.kind.is_peer()) else {
        return Vec::new();
    };
    let peers = cell.engines.iter().filter(|engine| engine.kind.is_peer());
    let judged = peers.filter_map(|peer| {
        Some(Judged {
            path: format!("{}: the peer {}", own.kind, peer.kind),
            workload: cell.workload.clone(),
            store: cell.store.clone(),
            at_most: 1.0,
            ratio: Some(own.median()? / peer.median()?),
        })
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::ValueEnum;

    use super::{EngineKind, Trials, judge, targets};
    use crate::report::data;
    use crate::trial::suite::{Profile, Suite, select};

    #[test]
    fn every_target_is_of_a_trial_that_the_quick_profile_has() {
        let listed = select(Suite::value_variants(), Profile::Quick, &[]).expect("well formed");
        let names: HashSet<String> = listed.iter().map(|it| it.trial.to_string()).collect();
        for target in targets().expect("well formed") {
            for workload in &target.workloads {
                let name = format!("{workload}/{}", target.store);
                assert!(names.contains(&name), "{name}");
            }
            if let Some(workload) = &target.against.workload {
                let name = format!("{workload}/{}", target.store);
                assert!(names.contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn what_is_missed_comes_first_and_what_was_not_measured_is_told_apart() {
        let trials = Trials::of_lines(data::tests::lines()).expect("there are conditions");
        let judged = judge(&targets().expect("well formed"), &trials);
        assert_eq!(
            judged[0].workload,
            "append_top1/rejected/64-keys/8-bytes/immediate"
        );
        assert_eq!(judged[0].ratio, Some(3.1));
        assert!(judged[0].is_missed());
        assert!(judged[1..].iter().all(|judged| judged.ratio.is_none()));
        assert_eq!(trials.cells[0].engines[0].kind, EngineKind::Top1);
    }

    #[test]
    fn a_peer_that_is_faster_is_a_loss() {
        let mut trials = Trials::of_lines(data::tests::lines()).expect("there are conditions");
        let mut peer = trials.cells[0].engines[1].clone();
        peer.kind = EngineKind::Polars;
        trials.cells[0].engines.push(peer);
        let judged = judge(&[], &trials);
        assert_eq!(judged.len(), 1);
        assert_eq!(judged[0].path, "top-1: the peer polars");
        assert_eq!(judged[0].ratio, Some(3.1));
        assert!(judged[0].is_missed());
    }
}
