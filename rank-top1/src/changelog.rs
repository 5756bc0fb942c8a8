//! What a ranker emits.

use std::fmt;

use arrow::array::RecordBatch;

/// What a row of a changelog does to the table that it changes. The values are Flink's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// `+I`: a row appears.
    Insert = 0,
    /// `-U`: a row goes, and the next row of the changelog takes its place.
    UpdateBefore = 1,
    /// `+U`: a row takes the place of another.
    UpdateAfter = 2,
    /// `-D`: a row goes.
    Delete = 3,
}

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Insert => "+I",
            Self::UpdateBefore => "-U",
            Self::UpdateAfter => "+U",
            Self::Delete => "-D",
        })
    }
}

/// Changes in the order in which they apply: a batch of rows, and one kind for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Changelog {
    batch: RecordBatch,
    kinds: Vec<RowKind>,
}

impl Changelog {
    pub(crate) fn new(batch: RecordBatch, kinds: Vec<RowKind>) -> Self {
        assert_eq!(
            batch.num_rows(),
            kinds.len(),
            "each row of a changelog has one kind"
        );
        Self { batch, kinds }
    }

    /// The rows: the columns of the input, then the rank if the specification asks for it.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The kind of each row.
    pub fn kinds(&self) -> &[RowKind] {
        &self.kinds
    }

    /// How many changes there are: at least one.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a ranker emits no empty changelog"
    )]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The rows and their kinds.
    pub fn into_parts(self) -> (RecordBatch, Vec<RowKind>) {
        (self.batch, self.kinds)
    }
}
