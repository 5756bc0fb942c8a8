//! What is timed: both rankers over a store, and the store's floor.

use std::fmt;
use std::hash::BuildHasher;

use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use foldhash::fast::FixedState;
use rank_top1::{Changelog, RankError, RankSpec, Ranker};
use serde::{Deserialize, Serialize};
use state_codec::StateBackend;
use tempfile::TempDir;

use crate::stores::{self, Store, StoreError};
use crate::trial::TrialError;
use crate::trial::cell::KeyForm;
use crate::trial::floor::{ProbeFloor, RocksFloor, Text, Word, WordAndText};
use crate::trial::measures::Told;
#[cfg(feature = "peers")]
use crate::trial::peers;
use crate::trial::suite::Trial;
use crate::trial::workload::{KeyedBatch, Workload, boxed};

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// The ranker of range 1..1.
    #[serde(rename = "top-1")]
    Top1,
    /// The general append ranker.
    General,
    /// The least that any engine must do.
    Floor,
    /// Conversion by the zone's table.
    Table,
    /// Conversion with a cache of eight values.
    Cache,
    /// The library that reads the rules, called for each row.
    Library,
    /// Shared windows whose slices are in memory.
    #[serde(rename = "memory")]
    InMemory,
    /// Shared windows over RocksDB, with what fits of them resident.
    #[serde(rename = "rocksdb")]
    Stored,
    /// Shared windows over RocksDB that write every batch through.
    WriteThrough,
    /// A peer: differential-dataflow, which reduces to the greatest row of each key.
    Differential,
    /// A peer: µWheel, a wheel of sums for each key.
    Uwheel,
    /// A peer: Polars, which ranks all rows at once.
    Polars,
}

impl EngineKind {
    /// Every kind that ranks, in the order in which they alternate.
    pub const ALL: [Self; 3] = [Self::Top1, Self::General, Self::Floor];
    /// The kinds that have an answer.
    pub const RANKERS: [Self; 2] = [Self::Top1, Self::General];

    /// Whether a user could pick it instead of Weir.
    #[must_use]
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Differential | Self::Uwheel | Self::Polars)
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Top1 => "top-1",
            Self::General => "general",
            Self::Floor => "floor",
            Self::Table => "table",
            Self::Cache => "cache",
            Self::Library => "library",
            Self::InMemory => "memory",
            Self::Stored => "rocksdb",
            Self::WriteThrough => "write-through",
            Self::Differential => "differential",
            Self::Uwheel => "uwheel",
            Self::Polars => "polars",
        })
    }
}

/// Something that rows can be driven through.
pub trait Engine {
    /// Forgets everything and takes in the rows that give every key a winner. Not timed.
    ///
    /// # Errors
    ///
    /// [`TrialError`] where the store fails.
    fn prime(&mut self, workload: &Workload) -> Result<(), TrialError>;

    /// Takes in `rows`, which are the arriving batch `number` and may end a bundle, and appends what is emitted.
    ///
    /// # Errors
    ///
    /// [`TrialError`] where the store fails.
    fn arrive(
        &mut self,
        workload: &Workload,
        number: usize,
        rows: &KeyedBatch,
        ends_bundle: bool,
        out: &mut Vec<Changelog>,
    ) -> Result<(), TrialError>;

    /// Changes that it has counted itself, beside those that it emits.
    fn counted_changes(&self) -> u64 {
        0
    }

    /// What it tells of itself and its store, if it tells anything.
    fn told(&self) -> Option<Told> {
        None
    }
}

/// The engine of one kind for a workload's cell.
///
/// # Errors
///
/// [`TrialError`] where the workload cannot be turned into what the engine takes.
pub fn engine(kind: EngineKind, workload: &Workload) -> Result<Box<dyn Engine>, TrialError> {
    Ok(match (kind, workload.cell().store) {
        (EngineKind::Floor, Store::Memory) => match workload.cell().key {
            KeyForm::Bigint => Box::new(ProbeFloor::<Word>::new(workload)),
            KeyForm::Text => Box::new(ProbeFloor::<Text>::new(workload)),
            KeyForm::Composite => Box::new(ProbeFloor::<WordAndText>::new(workload)),
        },
        (EngineKind::Floor, Store::Rocks) => Box::new(RocksFloor::new(workload)?),
        #[cfg(feature = "peers")]
        (EngineKind::Differential, _) => Box::new(peers::Differential::new()),
        (_, Store::Memory) => Box::new(RankEngine::new(kind, open_memory)),
        (_, Store::Rocks) => Box::new(RankEngine::new(kind, open_rocks)),
    })
}

/// Opens a store; the directory, if it has one, goes with the first part.
pub(crate) type OpenStore<B> = fn() -> Result<(Option<TempDir>, B), StoreError>;

pub(crate) fn open_memory() -> Result<(Option<TempDir>, state_mem::MemBackend), StoreError> {
    Ok((None, stores::memory()))
}

pub(crate) fn open_rocks() -> Result<(Option<TempDir>, state_rocks::RocksBackend), StoreError> {
    stores::rocks().map(|(directory, backend)| (Some(directory), backend))
}

/// A ranker over a store of its own.
pub(crate) struct Ranking<B: StateBackend> {
    // Dropped in this order: the state goes before its directory.
    pub(crate) ranker: Ranker<B>,
    _backend: B,
    _directory: Option<TempDir>,
}

impl<B: StateBackend> Ranking<B> {
    pub(crate) fn open(
        kind: EngineKind,
        spec: RankSpec,
        open_store: OpenStore<B>,
        cell: &str,
    ) -> Result<Self, TrialError> {
        let (directory, backend) = open_store().map_err(|source| TrialError::Store {
            cell: cell.to_owned(),
            source: Box::new(source),
        })?;
        let ranker = match kind {
            EngineKind::General => Ranker::open_general(spec, &backend, "trial"),
            _ => Ranker::open(spec, &backend, "trial"),
        }
        .map_err(|error| rank_error(cell, kind, error))?;
        Ok(Self {
            ranker,
            _backend: backend,
            _directory: directory,
        })
    }
}

pub(crate) fn rank_error<E: std::error::Error + Send + Sync + 'static>(
    cell: &str,
    engine: EngineKind,
    error: RankError<E>,
) -> TrialError {
    TrialError::Rank {
        cell: cell.to_owned(),
        engine,
        source: Box::new(error),
    }
}

struct RankEngine<B: StateBackend> {
    kind: EngineKind,
    open_store: OpenStore<B>,
    ranking: Option<Ranking<B>>,
}

impl<B: StateBackend> RankEngine<B> {
    fn new(kind: EngineKind, open_store: OpenStore<B>) -> Self {
        Self {
            kind,
            open_store,
            ranking: None,
        }
    }
}

impl<B: StateBackend> Engine for RankEngine<B> {
    fn prime(&mut self, workload: &Workload) -> Result<(), TrialError> {
        let cell = Trial::AppendTop1(workload.cell()).to_string();
        let spec = workload.spec().map_err(|error| TrialError::Workload {
            cell: cell.clone(),
            source: boxed(error),
        })?;
        self.ranking = None;
        let mut ranking = Ranking::open(self.kind, spec, self.open_store, &cell)?;
        for batch in workload.priming() {
            ranking
                .ranker
                .push(&batch.batch)
                .map_err(|error| rank_error(&cell, self.kind, error))?;
        }
        ranking
            .ranker
            .flush()
            .map_err(|error| rank_error(&cell, self.kind, error))?;
        self.ranking = Some(ranking);
        Ok(())
    }

    fn arrive(
        &mut self,
        workload: &Workload,
        _number: usize,
        rows: &KeyedBatch,
        ends_bundle: bool,
        out: &mut Vec<Changelog>,
    ) -> Result<(), TrialError> {
        let ranker = &mut self
            .ranking
            .as_mut()
            .expect("an engine is primed before rows arrive")
            .ranker;
        let failed = |error| {
            let cell = Trial::AppendTop1(workload.cell()).to_string();
            rank_error(&cell, self.kind, error)
        };
        out.extend(ranker.push(&rows.batch).map_err(failed)?);
        if ends_bundle && workload.cell().bundle_batches() > 1 {
            out.extend(ranker.flush().map_err(failed)?);
        }
        Ok(())
    }

    fn told(&self) -> Option<Told> {
        let metrics = self.ranking.as_ref()?.ranker.metrics();
        Some(Told::new(metrics.held_bytes, metrics.store))
    }
}

/// How many changes there are, and a checksum of their kinds and rows that does not depend on their
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// How many.
    pub changes: u64,
    /// The sum of a hash of each.
    pub checksum: u64,
}

impl Answer {
    /// Adds the changes of a changelog.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] if its columns cannot be compared.
    pub fn add(&mut self, changelog: &Changelog) -> Result<(), ArrowError> {
        let batch = changelog.batch();
        let schema = batch.schema();
        let fields = schema.fields().iter();
        let fields = fields.map(|field| SortField::new(field.data_type().clone()));
        let rows = RowConverter::new(fields.collect())?.convert_columns(batch.columns())?;
        let hasher = FixedState::with_seed(0);
        for (row, kind) in rows.iter().zip(changelog.kinds()) {
            let hash = hasher.hash_one((*kind, row.as_ref()));
            self.checksum = self.checksum.wrapping_add(hash);
        }
        self.changes += changelog.kinds().len() as u64;
        Ok(())
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} changes with checksum {:016x}",
            self.changes, self.checksum
        )
    }
}
