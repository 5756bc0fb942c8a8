//! Opens stores.

use std::fmt;
use std::path::PathBuf;

use keygroup::GroupCount;
use rocksdb::Cache;
use state_codec::{MemoryPool, StateBackend, StateCodec, StateValue, is_store_name};

use crate::error::RocksError;
use crate::options::RocksOptions;
use crate::state::{RocksState, Setup};

/// Opens stores below one directory: the store `name` is the database in `DIR/name`. Clones open the
/// same stores and share their block cache.
///
/// A store that was closed is opened again with what it held. There is no write-ahead log, so a
/// process that ends without dropping the store loses what was not yet in files.
///
/// ```
/// use keygroup::GroupCount;
/// use state_codec::MemoryPool;
/// use state_rocks::{RocksBackend, RocksOptions};
///
/// let pool = MemoryPool::new(64 << 20);
/// let backend = RocksBackend::new("/var/lib/operator-1", GroupCount::new(128)?)
///     .with_pool(pool)
///     .with_options(RocksOptions::default());
/// # let _ = backend;
/// # Ok::<(), keygroup::InvalidGroupCount>(())
/// ```
#[derive(Clone)]
pub struct RocksBackend {
    pub(crate) dir: PathBuf,
    pub(crate) groups: GroupCount,
    pool: MemoryPool,
    pub(crate) options: RocksOptions,
    pub(crate) block_cache: Cache,
}

impl RocksBackend {
    /// A backend below `dir`, with the default options and no limit of memory. Its stores divide
    /// their keys into `groups`. Nothing is touched before a store is opened.
    pub fn new(dir: impl Into<PathBuf>, groups: GroupCount) -> Self {
        let options = RocksOptions::default();
        Self {
            dir: dir.into(),
            groups,
            pool: MemoryPool::unlimited(),
            block_cache: options.block_cache(),
            options,
        }
    }

    /// The same, with stores that take the memory of their working sets from `pool`.
    #[must_use]
    pub fn with_pool(self, pool: MemoryPool) -> Self {
        Self { pool, ..self }
    }

    /// The same, with databases that are set up by `options`, and a block cache of their own.
    #[must_use]
    pub fn with_options(self, options: RocksOptions) -> Self {
        Self {
            block_cache: options.block_cache(),
            options,
            ..self
        }
    }
}

impl fmt::Debug for RocksBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksBackend")
            .field("dir", &self.dir)
            .field("groups", &self.groups)
            .field("pool", &self.pool)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl StateBackend for RocksBackend {
    type Error = RocksError;

    type State<V, C>
        = RocksState<V, C>
    where
        V: StateValue,
        C: StateCodec<V>;

    fn groups(&self) -> GroupCount {
        self.groups
    }

    fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    /// Opens or makes the database in `DIR/name`.
    fn open<V, C>(&self, name: &str, codec: C) -> Result<RocksState<V, C>, RocksError>
    where
        V: StateValue,
        C: StateCodec<V>,
    {
        if !is_store_name(name) {
            return Err(RocksError::InvalidName { name: name.into() });
        }
        let setup = Setup {
            path: self.dir.join(name),
            groups: self.groups,
            options: self.options.clone(),
            block_cache: self.block_cache.clone(),
            reservation: self.pool.reserve(name),
        };
        RocksState::open(setup, codec)
    }
}
