//! A batch, checked and encoded: what both rankers do before they look at state.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field};
use state_codec::{EncodeError, KeyBatch, SortKeys};

use crate::error::BatchError;
use crate::spec::RankSpec;

/// The keys and sort keys of a batch, in buffers that the next batch reuses.
#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) keys: KeyBatch,
    pub(crate) sort_keys: SortKeys,
}

impl Input {
    /// Encodes a batch that [`check`] has accepted.
    pub(crate) fn encode(
        &mut self,
        spec: &RankSpec,
        batch: &RecordBatch,
    ) -> Result<(), EncodeError> {
        spec.keys
            .encode(batch.columns(), batch.num_rows(), &mut self.keys)?;
        spec.order.encode(batch.columns(), &mut self.sort_keys);
        Ok(())
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.keys.allocated_bytes() + self.sort_keys.allocated_bytes()
    }

    /// Lets go of the batch, whose memory the keys may be.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.sort_keys.clear();
    }
}

/// Whether a batch is one of the specification's. Metadata does not matter, nor does a column that
/// promises fewer NULLs than the specification asks for.
pub(crate) fn check(spec: &RankSpec, batch: &RecordBatch) -> Result<(), BatchError> {
    if u32::try_from(batch.num_rows()).is_err() {
        return Err(BatchError::TooManyRows {
            rows: batch.num_rows(),
        });
    }
    let schema = batch.schema_ref();
    let same = std::sync::Arc::ptr_eq(schema, &spec.schema);
    let (expected, found) = (spec.schema.fields(), schema.fields());
    if expected.len() != found.len() {
        return Err(BatchError::ColumnCount {
            expected: expected.len(),
            found: found.len(),
        });
    }
    for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
        if !same && (expected.name() != found.name() || expected.data_type() != found.data_type()) {
            return Err(BatchError::Column {
                index,
                expected: expected.name().clone(),
                expected_type: Box::new(expected.data_type().clone()),
                found: found.name().clone(),
                found_type: Box::new(found.data_type().clone()),
            });
        }
        // A batch holds its own schema's promise, but for NULLs among the values of a dictionary.
        let promised =
            !found.is_nullable() && !matches!(found.data_type(), DataType::Dictionary(..));
        if !expected.is_nullable() && !promised {
            check_no_nulls(expected, batch.column(index))?;
        }
    }
    Ok(())
}

/// That a column that is declared without NULLs has none, among the values of a dictionary neither.
pub(crate) fn check_no_nulls(declared: &Field, column: &ArrayRef) -> Result<(), BatchError> {
    let nulls = column.logical_null_count();
    if nulls == 0 {
        return Ok(());
    }
    Err(BatchError::Null {
        column: declared.name().clone(),
        nulls,
    })
}
