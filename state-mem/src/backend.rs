//! Opens stores.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use keygroup::GroupCount;
use state_codec::{MemoryPool, StateBackend, StateCodec, StateValue, is_store_name};

use crate::error::MemError;
use crate::state::MemState;

/// Opens stores in memory that share a [`MemoryPool`]. Clones open the same stores.
///
/// A store lives as long as its [`MemState`]: once that is dropped, the name may be opened again and
/// the store is empty.
///
/// ```
/// use keygroup::GroupCount;
/// use state_codec::MemoryPool;
/// use state_mem::MemBackend;
///
/// let pool = MemoryPool::new(64 << 20);
/// let backend = MemBackend::new(GroupCount::new(128)?).with_pool(pool);
/// # let _ = backend;
/// # Ok::<(), keygroup::InvalidGroupCount>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemBackend {
    groups: GroupCount,
    pool: MemoryPool,
    open: Arc<Mutex<HashSet<String>>>,
}

impl MemBackend {
    /// A backend whose stores divide their keys into `groups` and may take any amount of memory.
    pub fn new(groups: GroupCount) -> Self {
        Self {
            groups,
            pool: MemoryPool::unlimited(),
            open: Arc::default(),
        }
    }

    /// The same, with stores that take their memory from `pool`.
    #[must_use]
    pub fn with_pool(self, pool: MemoryPool) -> Self {
        Self { pool, ..self }
    }
}

/// 128 key groups, Flink's default for up to 85 workers, and any amount of memory.
impl Default for MemBackend {
    fn default() -> Self {
        Self::new(GroupCount::new(128).expect("128 is a max parallelism"))
    }
}

impl StateBackend for MemBackend {
    type Error = MemError;

    type State<V, C>
        = MemState<V, C>
    where
        V: StateValue,
        C: StateCodec<V>;

    fn groups(&self) -> GroupCount {
        self.groups
    }

    fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    fn open<V, C>(&self, name: &str, codec: C) -> Result<MemState<V, C>, MemError>
    where
        V: StateValue,
        C: StateCodec<V>,
    {
        if !is_store_name(name) {
            return Err(MemError::InvalidName { name: name.into() });
        }
        let opened = Opened::new(name, &self.open)?;
        MemState::new(opened, self.groups, self.pool.reserve(name), codec)
    }
}

/// The one right to a store's name; given back on drop.
pub(crate) struct Opened {
    name: String,
    open: Arc<Mutex<HashSet<String>>>,
}

impl Opened {
    fn new(name: &str, open: &Arc<Mutex<HashSet<String>>>) -> Result<Self, MemError> {
        let name = name.to_owned();
        if !lock(open).insert(name.clone()) {
            return Err(MemError::OpenAlready { name });
        }
        Ok(Self {
            name,
            open: Arc::clone(open),
        })
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        lock(&self.open).remove(&self.name);
    }
}

/// Each insertion and removal leaves the set whole, so a panic of another holder spoils nothing.
fn lock(open: &Mutex<HashSet<String>>) -> std::sync::MutexGuard<'_, HashSet<String>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}
