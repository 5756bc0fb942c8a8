//! What a ranker emits against a recorded changelog, change by change.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use rank_top1::{Changelog, RankSpec, Ranker, RowKind};
use state_codec::StateBackend;

use crate::golden::value::text_of;

/// Which code ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Implementation {
    /// The one that the spec chooses.
    Chosen,
    /// The general append ranker.
    General,
}

impl Implementation {
    /// Those that serve a specification.
    pub(crate) fn of(spec: &RankSpec) -> Vec<Self> {
        if spec.is_top_1() {
            vec![Self::Chosen, Self::General]
        } else {
            vec![Self::General]
        }
    }
}

impl std::fmt::Display for Implementation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Chosen => "top-1",
            Self::General => "general",
        })
    }
}

/// Changes in order.
#[derive(Clone, Debug)]
pub struct Changes {
    kinds: Vec<RowKind>,
    rows: RecordBatch,
}

impl Changes {
    /// The changes of these kinds to these rows, of which there are equally many.
    #[must_use]
    pub fn new(kinds: Vec<RowKind>, rows: RecordBatch) -> Self {
        Self { kinds, rows }
    }

    /// The columns of the rows.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Column `number` of the rows.
    pub(crate) fn column(&self, number: usize) -> &ArrayRef {
        self.rows.column(number)
    }

    /// The changes of these numbers, in this order.
    pub(crate) fn select(&self, numbers: &[usize]) -> Result<Self, ArrowError> {
        let indices: UInt32Array = numbers.iter().map(|&number| number as u32).collect();
        Ok(Self {
            kinds: numbers.iter().map(|&number| self.kinds[number]).collect(),
            rows: take_record_batch(&self.rows, &indices)?,
        })
    }

    /// What a ranker called `name` emits for the batches, with the columns of `schema`.
    pub(crate) fn of_ranker<B: StateBackend>(
        backend: &B,
        implementation: Implementation,
        name: &str,
        spec: RankSpec,
        batches: impl IntoIterator<Item = RecordBatch>,
        schema: &SchemaRef,
    ) -> Result<Self, String> {
        let mut ranker = match implementation {
            Implementation::Chosen => Ranker::open(spec, backend, name),
            Implementation::General => Ranker::open_general(spec, backend, name),
        }
        .map_err(|error| error_chain(&error))?;
        let mut emitted = Vec::new();
        for batch in batches {
            emitted.extend(ranker.push(&batch).map_err(|error| error_chain(&error))?);
        }
        emitted.extend(ranker.flush().map_err(|error| error_chain(&error))?);
        Self::of_changelogs(&emitted, schema)
            .map_err(|error| format!("the changelog's columns are not those recorded: {error}"))
    }

    /// Changelogs one after the other, of which only the columns of `schema` count.
    ///
    /// # Errors
    ///
    /// [`ArrowError`] where the changelogs do not have these columns.
    pub fn of_changelogs(changelogs: &[Changelog], schema: &SchemaRef) -> Result<Self, ArrowError> {
        let rows = changelogs
            .iter()
            .map(|changelog| columns_of(changelog.batch(), schema))
            .collect::<Result<Vec<_>, _>>()?;
        let kinds = changelogs
            .iter()
            .flat_map(|changelog| changelog.kinds())
            .copied()
            .collect();
        Ok(Self {
            kinds,
            rows: concat_batches(schema, &rows)?,
        })
    }

    /// The first difference from what is recorded, if there is one.
    #[must_use]
    pub fn difference(&self, recorded: &Self) -> Option<String> {
        if self.kinds == recorded.kinds && self.rows == recorded.rows {
            return None;
        }
        let changes = self.kinds.len().max(recorded.kinds.len());
        let first = (0..changes)
            .find(|&i| !self.has_change_of(recorded, i))
            .expect("changelogs that differ do so in a change");
        Some(format!(
            "change {first}\nexpected {}\ngot      {}",
            recorded.show(first),
            self.show(first)
        ))
    }

    fn has_change_of(&self, other: &Self, i: usize) -> bool {
        i < self.kinds.len()
            && i < other.kinds.len()
            && self.kinds[i] == other.kinds[i]
            && self.rows.slice(i, 1) == other.rows.slice(i, 1)
    }

    fn show(&self, i: usize) -> String {
        let Some(kind) = self.kinds.get(i) else {
            return format!("nothing after {i} changes");
        };
        let values = self.rows.columns().iter().map(|column| text_of(column, i));
        format!("{kind} {}", values.collect::<Vec<_>>().join(", "))
    }
}

/// The columns of `schema` out of a changelog's batch, by name.
fn columns_of(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let indices = schema
        .fields()
        .iter()
        .map(|field| batch.schema().index_of(field.name()));
    let projected = batch.project(&indices.collect::<Result<Vec<_>, _>>()?)?;
    RecordBatch::try_new(schema.clone(), projected.columns().to_vec())
}

/// An error and its causes on one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
