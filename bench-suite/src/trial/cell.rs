//! The cells of append-only Top-1: which rows over which store.

use std::fmt;

use serde::Deserialize;

use crate::stores::Store;

/// How the arriving rows compare with the winners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// Every row is worse than its key's winner.
    Rejected,
    /// Every row is better than its key's winner.
    Improving,
    /// Every row has a key of its own.
    Fresh,
    /// One row in ten is better than its key's winner, at random; the others are worse.
    Mixed,
}

impl Arrival {
    /// Whether rows change the state, so that they cannot be replayed.
    #[must_use]
    pub fn changes_state(self) -> bool {
        self != Self::Rejected
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rejected => "rejected",
            Self::Improving => "improving",
            Self::Fresh => "fresh",
            Self::Mixed => "mixed",
        })
    }
}

/// When changes are emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Emission {
    /// With the batch that brought them.
    Immediate,
    /// At a flush after every [`Cell::BUNDLE_BATCHES`] batches.
    MiniBatch,
}

impl fmt::Display for Emission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Immediate => "immediate",
            Self::MiniBatch => "mini-batch",
        })
    }
}

/// Which keys the rows of a batch have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// At random, so that some come again within the batch.
    #[default]
    Repeated,
    /// Each another one.
    OncePerBatch,
}

/// What rows are partitioned by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyForm {
    /// One BIGINT.
    #[default]
    Bigint,
    /// One string of 16 bytes.
    Text,
    /// A BIGINT and a string of 16 bytes.
    Composite,
}

impl fmt::Display for KeyForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bigint => "bigint",
            Self::Text => "text",
            Self::Composite => "composite",
        })
    }
}

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderForm {
    /// One BIGINT, descending.
    #[default]
    Single,
    /// One BIGINT, descending, and among equals another one, ascending.
    Double,
}

/// One cell of the append-only Top-1 workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Where the winners are.
    pub store: Store,
    /// Keys that have a winner before the rows arrive.
    pub keys: usize,
    /// Bytes of each row's payload.
    pub payload_bytes: usize,
    /// How the arriving rows compare.
    pub arrival: Arrival,
    /// When changes are emitted.
    pub emission: Emission,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Which keys the rows of a batch have.
    pub spread: Spread,
    /// What they are partitioned by.
    pub key: KeyForm,
    /// What they are ordered by.
    pub order: OrderForm,
    /// Whether one payload in eight is NULL, and as many sort values of rows that lose.
    pub nullable: bool,
    /// Whether the rank is a column of the changes.
    pub rank: bool,
    /// Rows of a sample, where they do not follow from the speed.
    pub rows: Option<usize>,
}

impl Cell {
    /// Batches of a mini-batch bundle.
    pub const BUNDLE_BATCHES: usize = 4;

    /// 4,096 keys of one BIGINT, payloads of 8 bytes, batches of 4,096 rows, none of them nullable.
    #[must_use]
    pub fn plain(store: Store, arrival: Arrival) -> Self {
        Self {
            store,
            keys: 4_096,
            payload_bytes: 8,
            arrival,
            emission: Emission::Immediate,
            batch_rows: 4_096,
            spread: Spread::Repeated,
            key: KeyForm::Bigint,
            order: OrderForm::Single,
            nullable: false,
            rank: false,
            rows: None,
        }
    }

    /// Batches between two flushes.
    #[must_use]
    pub fn bundle_batches(&self) -> usize {
        match self.emission {
            Emission::Immediate => 1,
            Emission::MiniBatch => Self::BUNDLE_BATCHES,
        }
    }

    /// Why there are no such rows, if there are none.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let needs_keys = self.arrival != Arrival::Fresh;
        if needs_keys && self.keys == 0 {
            return Some(format!("{self}: rows that are not fresh need keys"));
        }
        if needs_keys && self.spread == Spread::OncePerBatch && self.keys < self.batch_rows {
            return Some(format!(
                "{self}: {} keys are too few for a batch in which each row has another one",
                self.keys
            ));
        }
        None
    }
}

/// The workload of the cell, without its store: what differs from the plain one is at the end.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            keys,
            payload_bytes,
            arrival,
            emission,
            ..
        } = self;
        write!(
            f,
            "append_top1/{arrival}/{keys}-keys/{payload_bytes}-bytes/{emission}"
        )?;
        if self.batch_rows != 4_096 {
            write!(f, "/{}-rows", self.batch_rows)?;
        }
        if self.spread == Spread::OncePerBatch {
            f.write_str("/once-per-batch")?;
        }
        if self.key != KeyForm::Bigint {
            write!(f, "/{}-key", self.key)?;
        }
        if self.order == OrderForm::Double {
            f.write_str("/double-order")?;
        }
        if self.nullable {
            f.write_str("/nullable")?;
        }
        if self.rank {
            f.write_str("/with-rank")?;
        }
        if let Some(rows) = self.rows {
            write!(f, "/{rows}-in-all")?;
        }
        Ok(())
    }
}
