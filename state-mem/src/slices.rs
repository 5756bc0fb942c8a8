//! Slices, of which a backend in memory keeps none beside the operator's own.

use state_codec::{NoSlices, SliceBackend, is_store_name};

use crate::backend::MemBackend;
use crate::error::MemError;

impl SliceBackend for MemBackend {
    type Slices = NoSlices<MemError>;

    fn open_slices(&self, name: &str) -> Result<Option<NoSlices<MemError>>, MemError> {
        if !is_store_name(name) {
            return Err(MemError::InvalidName { name: name.into() });
        }
        Ok(None)
    }
}
