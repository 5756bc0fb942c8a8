//! What is counted exactly of one pass, apart from the timing.

use allocation_counter::measure;
use serde::{Deserialize, Serialize};

/// Counts of one pass over some rows. What an engine does not count is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measures {
    /// Rows that arrived.
    pub rows: u64,
    /// Requests for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
    /// Bytes of these requests together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Bytes that the operator and its store held at the end, by their own account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<u64>,
    /// Keys looked up in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_reads: Option<u64>,
    /// Values written to the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_writes: Option<u64>,
    /// Bytes read from and written to the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_bytes: Option<u64>,
}

/// What an operator tells of itself and its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Bytes held.
    pub held_bytes: u64,
    /// Keys looked up.
    pub reads: u64,
    /// Values written.
    pub writes: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

impl Told {
    /// Of an operator that holds so much.
    #[must_use]
    pub fn new(held_bytes: u64, store: state_codec::StoreMetrics) -> Self {
        Self {
            held_bytes,
            reads: store.reads,
            writes: store.writes,
            bytes: store.read_bytes + store.written_bytes,
        }
    }
}

impl Measures {
    /// Counts what `pass` over `rows` rows allocates in this thread.
    ///
    /// # Errors
    ///
    /// That of the pass.
    pub fn of<E>(rows: u64, pass: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        let mut result = Ok(());
        let counted = measure(|| result = pass());
        result.map(|()| Self {
            rows,
            allocations: Some(counted.count_total),
            allocated_bytes: Some(counted.bytes_total),
            ..Self::default()
        })
    }

    /// The same with what an operator told before and after the pass.
    #[must_use]
    pub fn with_told(self, before: Told, after: Told) -> Self {
        Self {
            held_bytes: Some(after.held_bytes),
            state_reads: Some(after.reads - before.reads),
            state_writes: Some(after.writes - before.writes),
            state_bytes: Some(after.bytes - before.bytes),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::hint::black_box;

    use super::{Measures, Told};

    #[test]
    fn requests_and_bytes_are_those_of_the_pass() {
        let measures = Measures::of(10, || {
            black_box(Vec::<u64>::with_capacity(4));
            black_box(Box::new(7_u8));
            Ok::<(), Infallible>(())
        });
        let told = |held_bytes, reads| Told {
            held_bytes,
            reads,
            ..Told::default()
        };
        let measures = measures
            .expect("no failure")
            .with_told(told(5, 1), told(7, 4));
        let text = serde_json::to_string(&measures).expect("JSON");
        assert_eq!(
            text,
            r#"{"rows":10,"allocations":2,"allocated_bytes":33,"held_bytes":7,"state_reads":3,"state_writes":0,"state_bytes":0}"#
        );
    }
}
