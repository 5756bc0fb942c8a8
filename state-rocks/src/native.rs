//! Checkpoints of a database's own files.
//!
//! RocksDB links its files into a scratch directory beside the store. The checkpoint directory takes them by
//! their content, so a table file that an earlier checkpoint has is named again. While a store is open
//! RocksDB never uses a file number twice, so that within this time a name stands for a content and a file
//! is read for its checksum once; after that nothing is concluded from names.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use keygroup::GroupRange;
use rocksdb::DB;
use rocksdb::checkpoint::Checkpoint;
use state_codec::checkpoint::{
    CheckpointDir, CheckpointKind, CheckpointRef, FileEntry, Manifest, NativeBackend,
    NativeSliceBackend, cover,
};
use state_codec::{StateCodec, StateValue, StoreMetrics, is_store_name};

use crate::backend::RocksBackend;
use crate::db;
use crate::error::{Operation, RocksError};
use crate::layout::Layout;
use crate::slices::RocksSlices;
use crate::state::RocksState;
use crate::view::{CHECKPOINT, RESTORE, Scratch};
use crate::write::{Batch, write};

/// The table files of the last checkpoint of an open store, by their names.
#[derive(Debug, Default)]
pub(crate) struct Checkpointed(HashMap<String, FileEntry>);

/// What the name of a table file ends with. All other files change, or are small.
const TABLE: &str = ".sst";

impl NativeBackend for RocksBackend {
    fn checkpoint<V, C>(
        &self,
        state: &mut RocksState<V, C>,
        dir: &CheckpointDir,
        id: u64,
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<Manifest, RocksError>
    where
        V: StateValue,
        C: StateCodec<V>,
    {
        state.write_all()?;
        let manifest = self.manifest(id, groups, fingerprint, None);
        let (db, path) = (&state.db, &state.path);
        save(db, path, &mut state.checkpointed, dir, manifest)
    }

    fn restore(
        &self,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<(), RocksError> {
        self.restore_files(Layout::Keyed, name, parts, groups, fingerprint)
            .map(drop)
    }
}

impl NativeSliceBackend for RocksBackend {
    fn checkpoint_slices(
        &self,
        state: &mut RocksSlices,
        dir: &CheckpointDir,
        id: u64,
        groups: GroupRange,
        fingerprint: &str,
        watermark_ms: i64,
    ) -> Result<Manifest, RocksError> {
        state.write_all()?;
        let manifest = self.manifest(id, groups, fingerprint, Some(watermark_ms));
        let (db, path) = (&state.db, &state.path);
        save(db, path, &mut state.checkpointed, dir, manifest)
    }

    fn restore_slices(
        &self,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<Vec<Manifest>, RocksError> {
        self.restore_files(Layout::Sliced, name, parts, groups, fingerprint)
    }
}

/// Links the files of a database into a scratch directory, and saves them.
fn save(
    db: &DB,
    path: &Path,
    checkpointed: &mut Checkpointed,
    dir: &CheckpointDir,
    manifest: Manifest,
) -> Result<Manifest, RocksError> {
    let scratch = Scratch::new(path, CHECKPOINT)?;
    Checkpoint::new(db)
        .and_then(|checkpoint| checkpoint.create_checkpoint(scratch.path()))
        .map_err(|source| RocksError::engine(Operation::Freeze, path, source))?;
    let mut writer = dir.begin(manifest.id)?;
    let mut tables = HashMap::new();
    for name in file_names(scratch.path())? {
        let known = checkpointed.0.get(&name);
        let entry = match known {
            Some(entry) if writer.add_known(entry)? => entry.clone(),
            _ => writer.add_file(&name, &scratch.path().join(&name))?,
        };
        if name.ends_with(TABLE) {
            tables.insert(name, entry);
        }
    }
    let manifest = writer.commit(manifest)?;
    *checkpointed = Checkpointed(tables);
    Ok(manifest)
}

impl RocksBackend {
    fn manifest(
        &self,
        id: u64,
        groups: GroupRange,
        fingerprint: &str,
        watermark_ms: Option<i64>,
    ) -> Manifest {
        Manifest {
            id,
            kind: CheckpointKind::RocksDb,
            fingerprint: fingerprint.to_owned(),
            group_count: self.groups,
            groups,
            watermark_ms,
            files: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Reads every file once for its checksum, then links the files of the checkpoint that has most of the
    /// groups, removes the other groups from them and compacts what they shared files with, and copies
    /// what the other checkpoints have entry by entry. Returns the manifests of all.
    fn restore_files(
        &self,
        layout: Layout,
        name: &str,
        parts: &[CheckpointRef],
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<Vec<Manifest>, RocksError> {
        if !is_store_name(name) {
            return Err(RocksError::InvalidName { name: name.into() });
        }
        let path = self.dir.join(name);
        if path.exists() {
            return Err(RocksError::Exists { path });
        }
        let mut sources = Vec::with_capacity(parts.len());
        for part in parts {
            let manifest = Manifest::read(&part.dir, part.id)?;
            manifest.expect(CheckpointKind::RocksDb, fingerprint, self.groups)?;
            sources.push((part, manifest));
        }
        let ranges: Vec<GroupRange> = sources
            .iter()
            .map(|(_, manifest)| manifest.groups)
            .collect();
        cover(&ranges, groups)?;
        let manifests = sources
            .iter()
            .map(|(_, manifest)| manifest.clone())
            .collect();
        let mut sources: Vec<Source> = sources
            .into_iter()
            .filter_map(|(part, manifest)| {
                let range = manifest.groups.intersect(groups)?;
                Some((part, manifest, range))
            })
            .map(|(part, manifest, range)| {
                let paths = manifest.verify_files(&part.dir)?;
                let names = manifest.files.into_iter().map(|file| file.name);
                let files = names.zip(paths).collect();
                Ok(Source { range, files })
            })
            .collect::<Result<_, RocksError>>()?;
        sources.sort_by_key(|source| std::cmp::Reverse(source.range.iter().len()));
        let Some((base, others)) = sources.split_first() else {
            return Ok(manifests);
        };

        fs::create_dir_all(&self.dir).map_err(RocksError::directory(&self.dir))?;
        let scratch = Scratch::new(&path, RESTORE)?;
        base.link_into(scratch.path())?;
        let db = db::open(
            scratch.path(),
            layout,
            self.groups,
            &self.options,
            &self.block_cache,
            None,
        )?;
        self.remove_all_but(&db, scratch.path(), layout, base.range)?;
        for other in others {
            self.copy(layout, other, &path, &db, scratch.path())?;
        }
        db.flush()
            .map_err(|source| RocksError::engine(Operation::Write, scratch.path(), source))?;
        drop(db);
        fs::rename(scratch.path(), &path).map_err(RocksError::directory(&path))?;
        let synced = fs::File::open(&self.dir).and_then(|dir| dir.sync_all());
        synced.map_err(RocksError::directory(&self.dir))?;
        Ok(manifests)
    }

    fn remove_all_but(
        &self,
        db: &DB,
        path: &Path,
        layout: Layout,
        kept: GroupRange,
    ) -> Result<(), RocksError> {
        let all = self.groups.all();
        let (first, last) = (all.start().get(), all.end().get());
        let (start, end) = (kept.start().get(), kept.end().get());
        let range = |start, end| GroupRange::new(start, end).expect("both are groups, in order");
        let remove = |removed| {
            let ranges = db::ranges(db, path, layout, self.groups, removed)?;
            db::remove(db, path, &ranges)
        };
        if start > first {
            remove(range(first, start - 1))?;
        }
        if end < last {
            remove(range(end + 1, last))?;
        }
        Ok(())
    }

    /// Copies what a checkpoint has of its range into a database.
    fn copy(
        &self,
        layout: Layout,
        source: &Source,
        store: &Path,
        db: &DB,
        path: &Path,
    ) -> Result<(), RocksError> {
        let scratch = Scratch::new(store, &format!("{RESTORE}-part"))?;
        source.link_into(scratch.path())?;
        let from = db::open_read_only(
            scratch.path(),
            layout,
            self.groups,
            &self.options,
            &self.block_cache,
        )?;
        let mut metrics = StoreMetrics::default();
        let mut batch = Batch::default();
        for range in db::ranges(&from, scratch.path(), layout, self.groups, source.range)? {
            db::walk(&from, scratch.path(), range, |key, value| {
                match layout {
                    Layout::Keyed => drop(db::split_key(key, scratch.path(), self.groups)?),
                    Layout::Sliced => drop(db::split_slice_key(key, scratch.path(), self.groups)?),
                }
                if !batch.has_room(key.len() + value.len(), self.options.write_batch_bytes) {
                    let full = std::mem::take(&mut batch);
                    write(db, path, full, &mut metrics)?;
                }
                batch.put(key, value);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        write(db, path, batch, &mut metrics)
    }
}

/// A checkpoint that is restored from.
struct Source {
    /// What is taken of it.
    range: GroupRange,
    /// What RocksDB calls its files, and where they are.
    files: Vec<(String, PathBuf)>,
}

impl Source {
    /// Makes a directory with these files. RocksDB never changes a table file, so these are links where
    /// that can be.
    fn link_into(&self, dir: &Path) -> Result<(), RocksError> {
        fs::create_dir(dir).map_err(RocksError::directory(dir))?;
        for (name, path) in &self.files {
            let to = dir.join(name);
            if name.ends_with(TABLE) && fs::hard_link(path, &to).is_ok() {
                continue;
            }
            fs::copy(path, &to).map_err(RocksError::directory(&to))?;
        }
        Ok(())
    }
}

fn file_names(dir: &Path) -> Result<Vec<String>, RocksError> {
    let names = fs::read_dir(dir).and_then(|entries| {
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<Vec<String>>>()
    });
    let mut names = names.map_err(RocksError::directory(dir))?;
    names.sort_unstable();
    Ok(names)
}
