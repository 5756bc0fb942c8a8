//! Ranking jobs whose state expires: over each store, by each implementation, with checkpoints and
//! restores where the recording has them, must emit what is recorded after each event.

use arrow::array::RecordBatch;
use rank_top1::{Changelog, RankSpec, Ranker};
use state_codec::StateBackend;
use state_codec::checkpoint::{CheckpointDir, CheckpointRef};
use tempfile::TempDir;

use crate::conform::changelog::{Changes, Implementation, error_chain};
use crate::conform::model::{Lifetimes, Model};
use crate::conform::rank::Job;
use crate::conform::report::{Unread, Verdict};
use crate::golden::format::{RankLine, RankTtlLine, TtlEvent};
use crate::stores::{self, Store};

/// A ranking job whose state expires.
pub(crate) fn rank_ttl(line: &RankTtlLine) -> Verdict {
    match checked(line) {
        Ok(verdict) => verdict,
        Err(unread) => unread.into(),
    }
}

fn checked(line: &RankTtlLine) -> Result<Verdict, Unread> {
    let rows = line.events.iter().filter_map(|event| event.row.clone());
    let job_line = RankLine {
        input: rows.collect(),
        ..line.job.clone()
    };
    let job = Job::build_expiring(&job_line, line.ttl_ms)?;
    let arrivals = line.events.iter().filter(|event| event.row.is_some());
    let lifetimes = Lifetimes {
        ttl_ms: i64::try_from(line.ttl_ms).map_err(|error| error.to_string())?,
        arrivals_ms: arrivals.map(|event| event.at_ms).collect(),
    };
    let model = Model::new(&job_line, job.input.columns(), Some(lifetimes))
        .map_err(|error| error_chain(&error))?
        .ok_or_else(|| "a column of the job is not among the rows'".to_owned())?;
    let (strict, _) = model
        .answer(job.recorded.schema())
        .map_err(|error| error_chain(&error))?;
    let recorded_events = line.job.expected.iter().map(|change| change.after_event);
    let recorded_events: Vec<Option<usize>> = recorded_events.collect();
    let mut divergent = false;
    for run in Run::all(&job, line)? {
        let Run {
            variant,
            changes,
            events,
        } = run;
        match changes.difference(&job.recorded) {
            None if events == recorded_events => {}
            None => {
                return Ok(Verdict::Failed(format!(
                    "{variant}\nexpected after events {recorded_events:?}\ngot             {events:?}"
                )));
            }
            Some(difference) => {
                if changes.difference(&strict).is_some() || decision(line).is_none() {
                    return Ok(Verdict::Failed(format!("{variant}\n{difference}")));
                }
                divergent = true;
            }
        }
    }
    Ok(match decision(line).filter(|_| divergent) {
        Some(decision) => Verdict::Divergent(decision),
        None => Verdict::Passed,
    })
}

/// The decision by which the strict rule may differ from what is recorded.
fn decision(line: &RankTtlLine) -> Option<u8> {
    let [start, end] = line.job.rank_range;
    let ranked = end > 1 && (line.job.output_rank || start > 1);
    let columns = line.job.columns.iter();
    let key = line.job.partition_by.iter().filter_map(|name| {
        let mut columns = columns.clone();
        columns.position(|column| column == name)
    });
    let key: Vec<usize> = key.collect();
    let rows = line.events.iter().filter_map(|event| event.row.as_ref());
    let keys = rows.map(|row| key.iter().map(|&column| row[column].to_string()).collect());
    let keys: std::collections::HashSet<Vec<String>> = keys.collect();
    let saved = |event: &TtlEvent| event.checkpoint || event.restore;
    let flushed = line.events.iter().any(saved) || keys.len() > line.cache_entries;
    // A cached buffer of more than one row lives from when it was loaded, not from its last row.
    let from_load = end > 1;
    if line.cache == "on" && (flushed || from_load) {
        Some(4)
    } else {
        ranked.then_some(5)
    }
}

/// What one variant of a job has emitted.
struct Run {
    variant: String,
    changes: Changes,
    /// The event that caused each change.
    events: Vec<Option<usize>>,
}

impl Run {
    fn all(job: &Job, line: &RankTtlLine) -> Result<Vec<Self>, Unread> {
        let mut runs = Vec::new();
        for store in Store::ALL {
            for implementation in Implementation::of(&job.spec) {
                let variant = format!("{store}, {implementation}");
                let emitted = match store {
                    Store::Memory => emit(&stores::memory(), implementation, job, line),
                    Store::Rocks => {
                        let (_directory, backend) =
                            stores::rocks().map_err(|error| error_chain(&error))?;
                        emit(&backend, implementation, job, line)
                    }
                };
                let emitted = emitted.map_err(|error| format!("{variant}: {error}"))?;
                let events = emitted.iter().flat_map(|(event, changelog)| {
                    std::iter::repeat_n(Some(*event), changelog.len())
                });
                let events = events.collect();
                let changelogs = emitted.into_iter().map(|(_, changelog)| changelog);
                let changelogs: Vec<Changelog> = changelogs.collect();
                let changes = Changes::of_changelogs(&changelogs, &job.recorded.schema())
                    .map_err(|error| error_chain(&error))?;
                runs.push(Self {
                    variant,
                    changes,
                    events,
                });
            }
        }
        Ok(runs)
    }
}

/// What is emitted, and after which event.
fn emit<B: StateBackend>(
    backend: &B,
    implementation: Implementation,
    job: &Job,
    line: &RankTtlLine,
) -> Result<Vec<(usize, Changelog)>, String> {
    let saved = TempDir::with_prefix("weir-").map_err(|error| error.to_string())?;
    let dir = CheckpointDir::open(saved.path()).map_err(|error| error_chain(&error))?;
    let groups = backend.groups().all();
    let open = |name: &str, parts: &[CheckpointRef]| {
        let spec: RankSpec = job.spec.clone();
        let ranker = match implementation {
            Implementation::Chosen => Ranker::restore(spec, backend, name, parts, groups),
            Implementation::General => Ranker::restore_general(spec, backend, name, parts, groups),
        };
        ranker.map_err(|error| error_chain(&error))
    };
    let mut ranker = open("ttl", &[])?;
    let mut emitted = Vec::new();
    let mut next_row = 0;
    for (number, event) in line.events.iter().enumerate() {
        ranker.advance_clock(event.at_ms);
        if event.row.is_some() {
            let row: RecordBatch = job.input.slice(next_row, 1);
            next_row += 1;
            let changes = ranker.push(&row).map_err(|error| error_chain(&error))?;
            emitted.extend(changes.map(|changes| (number, changes)));
        }
        if event.checkpoint || event.restore {
            let id = number as u64;
            let mut view = ranker.freeze().map_err(|error| error_chain(&error))?;
            view.write(&dir, id, groups)
                .map_err(|error| error_chain(&error))?;
            if event.restore {
                let part = CheckpointRef {
                    dir: saved.path().to_owned(),
                    id,
                };
                drop(ranker);
                ranker = open(&format!("ttl-{number}"), &[part])?;
                ranker.advance_clock(event.at_ms);
            }
        }
    }
    Ok(emitted)
}
