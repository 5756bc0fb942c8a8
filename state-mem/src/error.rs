//! Why a store refused.

use state_codec::{MemoryDenied, StoreError};

/// Why a store in memory was not opened, or refused a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemError {
    /// The name is not as [`is_store_name`](state_codec::is_store_name) wants it.
    #[error("{name:?} is no name for a store: 1 to 128 ASCII letters, digits, '-' and '_' are")]
    InvalidName {
        /// The name that was given.
        name: String,
    },
    /// The backend has a store of this name open.
    #[error("store {name:?} is open already")]
    OpenAlready {
        /// The name of the store.
        name: String,
    },
    /// The memory pool has no room.
    #[error(transparent)]
    Denied(#[from] MemoryDenied),
}

impl StoreError for MemError {
    fn denied(&self) -> Option<&MemoryDenied> {
        match self {
            Self::Denied(denied) => Some(denied),
            _ => None,
        }
    }
}
