//! The values of a store at one moment.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use keygroup::{GroupCount, GroupRange, KeyGroup};
use rocksdb::DB;
use state_codec::{SnapshotView, StateCodec};

use crate::db;
use crate::error::RocksError;
use crate::layout;

/// What directories beside a store are for.
pub(crate) const VIEW: &str = "=view";
pub(crate) const CHECKPOINT: &str = "=checkpoint";
pub(crate) const RESTORE: &str = "=restore";
const PURPOSES: [&str; 3] = [VIEW, CHECKPOINT, RESTORE];

/// A directory beside a store that goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Removes what interrupted processes left beside the store. It is open here, so nobody else uses them,
    /// but for views that have outlived it in this process: they have their files open already.
    pub(crate) fn remove_left_over(store: &Path) -> Result<(), RocksError> {
        let dir = store.parent().unwrap_or(store);
        let failed = RocksError::directory(dir);
        let name = store.file_name().unwrap_or_default().to_string_lossy();
        for entry in fs::read_dir(dir).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            let found = entry.file_name();
            let purpose = found.to_string_lossy();
            let purpose = purpose.strip_prefix(&format!(".{name}")).map(str::to_owned);
            if purpose.is_some_and(|purpose| PURPOSES.iter().any(|p| purpose.starts_with(p))) {
                fs::remove_dir_all(entry.path()).map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// The directory `.STORE=PURPOSE`, which does not exist yet: what an interrupted process left there is
    /// removed. No store has such a name.
    pub(crate) fn new(store: &Path, purpose: &str) -> Result<Self, RocksError> {
        let name = store.file_name().unwrap_or_default().to_string_lossy();
        let path = store.with_file_name(format!(".{name}{purpose}"));
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(RocksError::Directory { path, source })
            }
            _ => Ok(Self { path }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next of this name.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The values of a [`RocksState`](crate::RocksState) at one moment: its files of then, linked into a
/// directory beside it and open for reading. The directory goes when the view is dropped. One that a killed
/// process left is removed when the store is next opened or frozen.
pub struct RocksView<C> {
    // In the order in which they are to be dropped.
    pub(crate) db: DB,
    pub(crate) dir: Scratch,
    pub(crate) groups: GroupCount,
    pub(crate) codec: C,
    pub(crate) expires: bool,
    pub(crate) now_ms: i64,
}

impl<C> std::fmt::Debug for RocksView<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksView")
            .field("dir", &self.dir)
            .field("now_ms", &self.now_ms)
            .finish_non_exhaustive()
    }
}

impl<V, C: StateCodec<V>> SnapshotView<V> for RocksView<C> {
    type Error = RocksError;

    /// One pass over the range, which leaves the block cache as it is; one value in memory at a time.
    fn scan(
        &mut self,
        groups: GroupRange,
        visit: &mut dyn FnMut(KeyGroup, &[u8], &V) -> ControlFlow<()>,
    ) -> Result<(), RocksError> {
        let Some(groups) = groups.intersect(self.groups.all()) else {
            return Ok(());
        };
        db::walk(
            &self.db,
            self.dir.path(),
            layout::bounds(groups),
            |key, bytes| {
                let (group, row) = db::split_key(key, self.dir.path(), self.groups)?;
                let value = db::decode(&self.codec, self.dir.path(), key, bytes)?;
                if self.expires && self.codec.expires_at_ms(&value) <= self.now_ms {
                    return Ok(ControlFlow::Continue(()));
                }
                Ok(visit(group, row, &value))
            },
        )
    }
}
