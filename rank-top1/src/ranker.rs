//! One operator type over both rankers.

use arrow::array::RecordBatch;
use keygroup::{GroupCount, GroupRange};
use state_codec::checkpoint::{CheckpointDir, CheckpointRef, Manifest, NativeBackend};
use state_codec::{KeyedState, Reservation, Snapshot, StateBackend};

use crate::append::AppendRanker;
use crate::changelog::Changelog;
use crate::error::RankError;
use crate::events;
use crate::metrics::RankMetrics;
use crate::ranked::{RankedRows, RowsCodec, Winner};
use crate::saved;
use crate::spec::RankSpec;
use crate::top1::Top1;

/// Ranks inserted rows per partition and emits how the ranking changes, over the state of a backend
/// `B`.
///
/// The answers are those of Apache Flink 2.2.1 for `ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)`
/// filtered on a range of ranks, and do not depend on how the input is cut into batches:
///
/// - Immediate mode emits each change in arrival order. A better winner is `-U` of the old row
///   directly before `+U` of the new one; in the range 1..N without a rank column, with N > 1, it is
///   `-D` of the row that falls out before `+I` of the new one.
/// - Mini-batch mode emits at [`flush`](Self::flush), per partition, the difference between the last
///   flush and this one, in the order in which the partitions were first touched. Between two
///   flushes it holds the rows that lead, as bytes, and nothing else of the batches.
///
/// A batch that is refused has changed nothing and can be pushed again.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Int64Array, RecordBatch, StringArray};
/// use arrow::datatypes::{DataType, Field, Schema};
/// use rank_top1::{OrderBy, Ranker, RankSpec};
/// use state_mem::MemBackend;
///
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("player", DataType::Utf8, false),
///     Field::new("score", DataType::Int64, false),
/// ]));
/// let spec = RankSpec::builder(schema.clone())
///     .partition_by(["player"])
///     .order_by([OrderBy::desc("score")])
///     .build()?;
/// let mut best = Ranker::open(spec, &MemBackend::default(), "best")?;
///
/// let players = StringArray::from(vec!["ada", "bob", "ada", "ada"]);
/// let scores = Int64Array::from(vec![10, 7, 9, 12]);
/// let batch = RecordBatch::try_new(schema, vec![Arc::new(players), Arc::new(scores)])?;
/// let changes = best.push(&batch)?.expect("there are new winners");
/// let kinds: Vec<String> = changes.kinds().iter().map(ToString::to_string).collect();
/// assert_eq!(kinds, ["+I", "+I", "-U", "+U"]); // ada 10, bob 7, ada 10 → ada 12
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ranker<B: StateBackend> {
    group_count: GroupCount,
    ranker: Either<B>,
}

enum Either<B: StateBackend> {
    Top1(Top1<B::State<Winner, RowsCodec>>),
    Append(AppendRanker<B::State<RankedRows, RowsCodec>>),
}

impl<B: StateBackend> Ranker<B> {
    /// Opens the ranker that serves the specification best, over the backend's state `name`: for the
    /// range 1..1 one that keeps a single winner, else the general one.
    ///
    /// # Errors
    ///
    /// [`RankError::State`] if the state cannot be opened.
    pub fn open(spec: RankSpec, backend: &B, name: &str) -> Result<Self, RankError<B::Error>> {
        if !spec.is_top_1() {
            return Self::open_general(spec, backend, name);
        }
        let state = backend
            .open(name, RowsCodec::new(&spec))
            .map_err(RankError::State)?;
        let reservation = reservation(backend, name);
        events::opened(name, &spec);
        Ok(Self {
            group_count: backend.groups(),
            ranker: Either::Top1(Top1::new(spec, state, reservation)),
        })
    }

    /// Opens the general ranker, whatever the range: to compare the two. Both store the same bytes.
    ///
    /// # Errors
    ///
    /// [`RankError::State`] if the state cannot be opened.
    pub fn open_general(
        spec: RankSpec,
        backend: &B,
        name: &str,
    ) -> Result<Self, RankError<B::Error>> {
        let state = backend
            .open(name, RowsCodec::new(&spec))
            .map_err(RankError::State)?;
        let reservation = reservation(backend, name);
        events::opened(name, &spec);
        Ok(Self {
            group_count: backend.groups(),
            ranker: Either::Append(AppendRanker::new(spec, state, reservation)),
        })
    }

    /// Says what time it is, in milliseconds since an epoch of the caller's choice, which has to be the same
    /// after a restore. The clock never goes back: an earlier time than the last changes nothing. It only
    /// matters where rows have a [time to live](crate::RankSpecBuilder::ttl); there it has to be set before
    /// the first batch, and calling this when there is no input lets the store reclaim what has expired,
    /// a bounded amount at a time.
    pub fn advance_clock(&mut self, now_ms: i64) {
        match &mut self.ranker {
            Either::Top1(top1) => top1.base.advance_clock(now_ms),
            Either::Append(append) => append.base.advance_clock(now_ms),
        }
    }

    /// Ranks the rows of a batch. In immediate mode returns what they changed, `None` if nothing; in
    /// mini-batch mode always `None`.
    ///
    /// # Errors
    ///
    /// [`RankError`]; nothing has changed then, but for [`RankError::Write`].
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Option<Changelog>, RankError<B::Error>> {
        events::refusals(match &mut self.ranker {
            Either::Top1(top1) => top1.push(batch),
            Either::Append(append) => append.push(batch),
        })
    }

    /// Closes a mini-batch and returns what it changed, `None` if nothing. In immediate mode there
    /// is never anything left, but after [`RankError::Write`].
    ///
    /// # Errors
    ///
    /// [`RankError`]; the mini-batch is still there and can be flushed again. That cannot help where the
    /// changes do not fit into columns of the declared types ([`RankError::Output`] or
    /// [`RankError::Decode`]: a dictionary with more values than its keys can count): then
    /// [`abandon`](Self::abandon) the mini-batch and push its rows again with more flushes.
    pub fn flush(&mut self) -> Result<Option<Changelog>, RankError<B::Error>> {
        events::refusals(match &mut self.ranker {
            Either::Top1(top1) => top1.flush(),
            Either::Append(append) => append.flush(),
        })
    }

    /// Drops the rows that were pushed since the last flush; the state is as it was then. Does nothing
    /// after [`RankError::Write`], where a flush has to finish what it began.
    pub fn abandon(&mut self) {
        match &mut self.ranker {
            Either::Top1(top1) => top1.abandon(),
            Either::Append(append) => append.abandon(),
        }
    }

    /// Takes a view of the retained rows, to be [written](FrozenRanker::write) as a canonical checkpoint,
    /// on another thread if that suits. The ranker goes on meanwhile; what changes is not in the view. How
    /// long this takes, and what the view holds, is for the store to say.
    ///
    /// # Errors
    ///
    /// [`RankError::OpenBundle`] if a mini-batch is not flushed, [`RankError::Unwritten`] after a failed
    /// write, [`RankError::State`] where the store fails or the memory budget refuses.
    pub fn freeze(&mut self) -> Result<FrozenRanker<B>, RankError<B::Error>> {
        let view = match &mut self.ranker {
            Either::Top1(top1) => EitherView::Top1(frozen(top1.base.state_between_bundles()?)?),
            Either::Append(append) => {
                EitherView::Append(frozen(append.base.state_between_bundles()?)?)
            }
        };
        Ok(FrozenRanker {
            spec: self.spec().clone(),
            now_ms: self.now_ms(),
            group_count: self.group_count,
            view,
        })
    }

    fn now_ms(&self) -> i64 {
        match &self.ranker {
            Either::Top1(top1) => top1.base.clock.now_ms(),
            Either::Append(append) => append.base.clock.now_ms(),
        }
    }

    /// Opens the ranker that [`open`](Self::open) would, over the backend's state `name`, which must be
    /// empty, and fills it with what canonical checkpoints hold of the key groups `groups`: those of any
    /// number of rankers of this specification, over any store, that had all groups among them. No
    /// checkpoints at all give an empty state.
    ///
    /// A state that rows with a time to live are restored into, but was saved without the times of their
    /// acceptance, keeps these rows until better ones come. The clock has to be set again.
    ///
    /// # Errors
    ///
    /// [`RankError::Checkpoint`] where a checkpoint is damaged or not one of this specification and number
    /// of key groups, and [`RankError::Restore`] where they do not fit together: before any state is
    /// touched, but for single rows that are out of place. [`RankError::State`] where the store fails or
    /// the memory budget refuses. The state is empty then.
    pub fn restore(
        spec: RankSpec,
        backend: &B,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
    ) -> Result<Self, RankError<B::Error>> {
        let mut ranker = Self::open(spec, backend, name)?;
        ranker.load(name, parts, groups)?;
        Ok(ranker)
    }

    /// [`restore`](Self::restore) into the [general](Self::open_general) ranker.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    pub fn restore_general(
        spec: RankSpec,
        backend: &B,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
    ) -> Result<Self, RankError<B::Error>> {
        let mut ranker = Self::open_general(spec, backend, name)?;
        ranker.load(name, parts, groups)?;
        Ok(ranker)
    }

    fn load(
        &mut self,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
    ) -> Result<(), RankError<B::Error>> {
        let (count, spec) = (self.group_count, self.spec().clone());
        events::refusals(match &mut self.ranker {
            Either::Top1(top1) => {
                let state = top1.base.state_between_bundles()?;
                saved::restore(&spec, state, name, count, parts, groups)
            }
            Either::Append(append) => {
                let state = append.base.state_between_bundles()?;
                saved::restore(&spec, state, name, count, parts, groups)
            }
        })?;
        events::restored(name, parts.len(), groups);
        Ok(())
    }

    /// What is ranked, and how.
    pub fn spec(&self) -> &RankSpec {
        match &self.ranker {
            Either::Top1(top1) => &top1.base.spec,
            Either::Append(append) => &append.base.spec,
        }
    }

    /// Bytes that the ranker and its state charge to the memory budget now.
    pub fn charged_bytes(&self) -> usize {
        match &self.ranker {
            Either::Top1(top1) => top1.base.charged_bytes(),
            Either::Append(append) => append.base.charged_bytes(),
        }
    }

    /// What the ranker and its store have done since they were opened.
    pub fn metrics(&self) -> RankMetrics {
        let (counters, store) = match &self.ranker {
            Either::Top1(top1) => (top1.base.metrics, top1.base.state.metrics()),
            Either::Append(append) => (append.base.metrics, append.base.state.metrics()),
        };
        counters.with_store(store, self.charged_bytes())
    }
}

fn frozen<V, S: Snapshot<V>>(state: &mut S) -> Result<S::View, RankError<S::Error>> {
    state.freeze().map_err(RankError::State)
}

/// Checkpoints of a store's own files: of the same kind of store and as many key groups only, but without
/// a value being read.
impl<B: NativeBackend> Ranker<B> {
    /// Saves the state of the key groups `groups` as checkpoint `id` of `dir`. `backend` is the one that the
    /// ranker was opened with.
    ///
    /// # Errors
    ///
    /// [`RankError::OpenBundle`] if a mini-batch is not flushed, [`RankError::Unwritten`] after a failed
    /// write, [`RankError::State`] where the store or the directory cannot be written. The checkpoints of
    /// `dir` are as they were.
    pub fn checkpoint(
        &mut self,
        backend: &B,
        dir: &CheckpointDir,
        id: u64,
        groups: GroupRange,
    ) -> Result<Manifest, RankError<B::Error>> {
        let spec = self.spec().clone();
        match &mut self.ranker {
            Either::Top1(top1) => {
                let state = top1.base.state_between_bundles()?;
                backend.checkpoint(state, dir, id, groups, spec.fingerprint())
            }
            Either::Append(append) => {
                let state = append.base.state_between_bundles()?;
                backend.checkpoint(state, dir, id, groups, spec.fingerprint())
            }
        }
        .map_err(RankError::State)
        .inspect(events::saved)
    }

    /// Makes the state `name`, which must not exist, of what native checkpoints hold of the key groups
    /// `groups`, and opens the ranker that [`open`](Self::open) would.
    ///
    /// # Errors
    ///
    /// [`RankError::State`] where a checkpoint is damaged, or not one of this specification and kind of
    /// store, or where they do not fit together. There is no state then.
    pub fn restore_native(
        spec: RankSpec,
        backend: &B,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
    ) -> Result<Self, RankError<B::Error>> {
        backend
            .restore(name, parts, groups, spec.fingerprint())
            .map_err(RankError::State)?;
        events::restored(name, parts.len(), groups);
        Self::open(spec, backend, name)
    }
}

/// The retained rows of a ranker at one moment: see [`Ranker::freeze`].
pub struct FrozenRanker<B: StateBackend> {
    spec: RankSpec,
    now_ms: i64,
    group_count: GroupCount,
    view: EitherView<B>,
}

type View<B, V> = <<B as StateBackend>::State<V, RowsCodec> as Snapshot<V>>::View;

enum EitherView<B: StateBackend> {
    Top1(View<B, Winner>),
    Append(View<B, RankedRows>),
}

impl<B: StateBackend> FrozenRanker<B> {
    /// Writes the rows of the key groups `groups` as canonical checkpoint `id` of `dir`: a section of
    /// Arrow IPC for each group that has any, with the columns of the input, the rank (but for 1..1), and
    /// when each row was accepted. Holds one record batch of at most 8,192 rows, and a row, at a time.
    ///
    /// # Errors
    ///
    /// [`RankError::Checkpoint`] where the directory cannot be written, [`RankError::State`] where the
    /// store cannot be read. There is no such checkpoint then.
    pub fn write(
        &mut self,
        dir: &CheckpointDir,
        id: u64,
        groups: GroupRange,
    ) -> Result<Manifest, RankError<B::Error>> {
        let (spec, now_ms, count) = (&self.spec, self.now_ms, self.group_count);
        match &mut self.view {
            EitherView::Top1(view) => saved::write(spec, view, now_ms, count, groups, dir, id),
            EitherView::Append(view) => saved::write(spec, view, now_ms, count, groups, dir, id),
        }
        .inspect(events::saved)
    }
}

impl<B: StateBackend> std::fmt::Debug for FrozenRanker<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrozenRanker")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

/// For what a ranker holds beside its state.
fn reservation<B: StateBackend>(backend: &B, name: &str) -> Reservation {
    backend.pool().reserve(&format!("{name} ranker"))
}

impl<B: StateBackend> std::fmt::Debug for Ranker<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let implementation = match &self.ranker {
            Either::Top1(_) => "top-1",
            Either::Append(_) => "append",
        };
        f.debug_struct("Ranker")
            .field("spec", self.spec())
            .field("implementation", &implementation)
            .finish_non_exhaustive()
    }
}
