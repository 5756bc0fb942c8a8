//! Why a store refused.

use state_codec::{EncodeError, MemoryDenied};

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
    /// A key row that no batch of keys can hold.
    #[error(transparent)]
    Key(#[from] EncodeError),
}
