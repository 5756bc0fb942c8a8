//! Polars: the winners of all rows at once, from a table in memory, in one thread. It emits no changes: the answer is
//! the last state alone.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::process::Command;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::ipc::writer::FileWriter;
use serde::Deserialize;

use crate::trial::TrialError;
use crate::trial::engine::EngineKind;
use crate::trial::outcome::{Outcome, Problem, Samples};
use crate::trial::suite::Trial;
use crate::trial::workload::Workload;

const SCRIPT: &str = include_str!("polars_top1.py");

/// What the script prints.
#[derive(Deserialize)]
struct Printed {
    nanos: Vec<u64>,
    keys: u64,
    sum: i64,
}

/// Ranks the primed rows and the first `batches` arriving ones.
pub(crate) fn run_cell(
    workload: &Workload,
    batches: usize,
    samples: usize,
) -> Result<Outcome, TrialError> {
    let cell = workload.cell();
    let name = Trial::AppendTop1(cell).to_string();
    let failed = |source| TrialError::Workload {
        cell: name.clone(),
        source,
    };
    let (result, rows) = ask(workload, batches, samples).map_err(failed)?;
    Ok(Outcome {
        workload: cell.to_string(),
        store: Some(cell.store),
        engine: EngineKind::Polars,
        result: result.map(|nanos| Samples::of(rows, &nanos)),
        measures: None,
    })
}

type Asked = (Result<Vec<u64>, Problem>, u64);

fn ask(
    workload: &Workload,
    batches: usize,
    samples: usize,
) -> Result<Asked, Box<dyn Error + Send + Sync>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("rows.arrow");
    let schema = workload
        .priming()
        .first()
        .unwrap_or(workload.arriving(0))
        .batch
        .schema();
    let mut file = FileWriter::try_new(File::create(&path)?, &schema)?;
    let mut winners: HashMap<i64, i64> = HashMap::new();
    let mut count = 0;
    let arriving = (0..batches).map(|number| workload.arriving(number));
    for rows in workload.priming().iter().chain(arriving) {
        file.write(&rows.batch)?;
        count += rows.batch.num_rows() as u64;
        let keys = rows.batch.column(0).as_primitive::<Int64Type>().values();
        let sorts = rows.batch.column(1).as_primitive::<Int64Type>().values();
        for (&key, &sort) in keys.iter().zip(sorts) {
            let winner = winners.entry(key).or_insert(sort);
            *winner = sort.max(*winner);
        }
    }
    file.finish()?;
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(&path)
        .arg(samples.to_string())
        .env("POLARS_MAX_THREADS", "1")
        .output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            let last = error.lines().last().unwrap_or_default();
            let reason = format!("python3 with the package polars is needed: {last}");
            return Ok((Err(Problem::Unsupported(reason)), count));
        }
        Err(error) => {
            let reason = format!("python3 with the package polars is needed: {error}");
            return Ok((Err(Problem::Unsupported(reason)), count));
        }
    };
    let printed: Printed = serde_json::from_slice(&output.stdout)?;
    let sum = winners
        .values()
        .fold(0_i64, |sum, winner| sum.wrapping_add(*winner));
    if (printed.keys, printed.sum) != (winners.len() as u64, sum) {
        let problem = format!(
            "{} keys with a sum of {}, where {} with {sum} are right",
            printed.keys,
            printed.sum,
            winners.len()
        );
        return Ok((Err(Problem::Wrong(problem)), count));
    }
    Ok((Ok(printed.nanos), count))
}
