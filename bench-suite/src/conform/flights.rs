//! The recorded changelog of the flights, over each store by each implementation.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;

use crate::conform::changelog::{Changes, Implementation, error_chain};
use crate::conform::report::{Case, Verdict};
use crate::flights;
use crate::stores::{self, Store};

/// A case for each store and implementation. The flights are `flights-2013.parquet` beside the
/// changelog, in the directory that is run, or else those of the repository.
pub(crate) fn run(directory: &Path, path: &Path) -> Vec<Case> {
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let inputs = read(directory, path);
    let mut cases = Vec::new();
    for store in Store::ALL {
        for implementation in [Implementation::Chosen, Implementation::General] {
            let result = match &inputs {
                Ok((batches, recorded)) => check(store, implementation, batches, recorded),
                Err(how) => Err(how.clone()),
            };
            let verdict = match result {
                Ok(None) => Verdict::Passed,
                Ok(Some(how)) | Err(how) => Verdict::Failed(how),
            };
            cases.push(Case::new(
                format!("{file_name} {store} {implementation}"),
                verdict,
            ));
        }
    }
    cases
}

fn read(directory: &Path, path: &Path) -> Result<(Vec<RecordBatch>, Changes), String> {
    let data = data_of(directory, path);
    let recorded = flights::read_changelog(path).map_err(|error| error_chain(&error))?;
    let batches = flights::read(&data).map_err(|error| error_chain(&error))?;
    Ok((batches, Changes::new(recorded.kinds, recorded.rows)))
}

/// The flights that a recording is of: beside it, in the directory that is run, or in the repository.
pub(crate) fn data_of(directory: &Path, path: &Path) -> PathBuf {
    let beside = path.parent().unwrap_or(directory);
    [beside, directory]
        .map(|place| place.join("flights-2013.parquet"))
        .into_iter()
        .find(|data| data.exists())
        .unwrap_or_else(flights::repository_data)
}

fn check(
    store: Store,
    implementation: Implementation,
    batches: &[RecordBatch],
    recorded: &Changes,
) -> Result<Option<String>, String> {
    let spec = flights::spec().map_err(|error| error_chain(&error))?;
    let schema = flights::schema();
    let batches = batches.iter().cloned();
    let changes = match store {
        Store::Memory => {
            let backend = stores::memory();
            Changes::of_ranker(&backend, implementation, "flights", spec, batches, &schema)
        }
        Store::Rocks => {
            let (_directory, backend) = stores::rocks().map_err(|error| error_chain(&error))?;
            Changes::of_ranker(&backend, implementation, "flights", spec, batches, &schema)
        }
    }?;
    Ok(changes.difference(recorded))
}
