//! A directory of checkpoints.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::error::CheckpointError;
use super::manifest::{
    FileEntry, Manifest, READ_BYTES, check_name, digest, files_dir, hex, id_of, manifest_path,
    unhex,
};

/// A directory of checkpoints, and the right to write to it, which one process at a time has.
///
/// Several checkpoints may be written at once, by threads that share the directory. What the last
/// process left unfinished is removed when the directory is opened, and again at each success.
///
/// ```
/// # use std::io::Write;
/// # use keygroup::GroupCount;
/// # use state_codec::checkpoint::{CheckpointDir, CheckpointKind, Manifest};
/// # let parent = tempfile::tempdir()?;
/// # let path = parent.path().join("checkpoints");
/// let dir = CheckpointDir::open(&path)?;
/// let mut writer = dir.begin(7)?;
/// let mut file = writer.create()?;
/// file.write_all(b"what a store keeps")?;
/// writer.add_created("000012.sst", file)?;
/// assert!(dir.ids()?.is_empty());
///
/// let group_count = GroupCount::new(128)?;
/// writer.commit(Manifest {
///     id: 7,
///     kind: CheckpointKind::RocksDb,
///     fingerprint: "top1".to_owned(),
///     group_count,
///     groups: group_count.all(),
///     watermark_ms: None,
///     files: Vec::new(), // those of the writer
///     sections: Vec::new(),
/// })?;
/// assert_eq!(dir.ids()?, [7]);
/// let files = Manifest::read(&path, 7)?.verify_files(&path)?;
/// assert_eq!(std::fs::read(&files[0])?, b"what a store keeps");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CheckpointDir {
    path: PathBuf,
    /// Held until dropped.
    _lock: File,
    /// Whoever adds to or removes from the directory `files` holds this.
    writers: Mutex<Writers>,
}

/// The writers that are at work.
#[derive(Debug, Default)]
struct Writers {
    /// By the name of its directory in `tmp`: the files in `files` that it will name.
    pinned: HashMap<String, HashSet<[u8; 32]>>,
    /// How many there have been.
    begun: u64,
}

impl CheckpointDir {
    /// Opens or makes the directory, and removes what is unfinished in it.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Busy`] if it is open already, in this process or another;
    /// [`CheckpointError::Io`] if it cannot be made.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref().to_owned();
        for dir in [path.clone(), files_dir(&path), path.join("tmp")] {
            fs::create_dir_all(&dir).map_err(CheckpointError::io("make directory", &dir))?;
        }
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            sync_dir(parent)?;
        }
        sync_dir(&path)?;
        let lock_path = path.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(CheckpointError::io("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CheckpointError::Busy { dir: path }),
            Err(TryLockError::Error(error)) => {
                return Err(CheckpointError::io("lock", &lock_path)(error));
            }
        }
        let dir = Self {
            path,
            _lock: lock,
            writers: Mutex::default(),
        };
        dir.clean_if_possible(&dir.writers.lock());
        Ok(dir)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of the complete checkpoints, rising.
    ///
    /// # Errors
    ///
    /// As [`Manifest::ids`].
    pub fn ids(&self) -> Result<Vec<u64>, CheckpointError> {
        Manifest::ids(&self.path)
    }

    /// The manifest of a complete checkpoint.
    ///
    /// # Errors
    ///
    /// As [`Manifest::read`].
    pub fn manifest(&self, id: u64) -> Result<Manifest, CheckpointError> {
        Manifest::read(&self.path, id)
    }

    /// Begins a checkpoint. Until [`CheckpointWriter::commit`] there is none; one of the same number stays
    /// until then.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Io`] if nothing can be written to the directory.
    pub fn begin(&self, id: u64) -> Result<CheckpointWriter<'_>, CheckpointError> {
        let mut writers = self.writers.lock();
        let (name, tmp) = loop {
            let name = writers.begun.to_string();
            writers.begun += 1;
            let tmp = self.path.join("tmp").join(&name);
            match fs::create_dir(&tmp) {
                Ok(()) => break (name, tmp),
                // What could not be removed yet.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(CheckpointError::io("make directory", &tmp)(error)),
            }
        };
        writers.pinned.insert(name.clone(), HashSet::new());
        Ok(CheckpointWriter {
            dir: self,
            id,
            name,
            tmp,
            created: 0,
            staged: HashMap::new(),
            entries: Vec::new(),
        })
    }

    /// Forgets a checkpoint and removes the files that no other one names.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if there is no such checkpoint, or the system refuses. Also if the manifest of
    /// another checkpoint cannot be read: then this one is forgotten, but no file is removed, for the
    /// other one may need it.
    pub fn discard(&self, id: u64) -> Result<(), CheckpointError> {
        let writers = self.writers.lock();
        let path = manifest_path(&self.path, id);
        fs::remove_file(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CheckpointError::MissingManifest {
                dir: self.path.clone(),
                id,
            },
            _ => CheckpointError::io("remove", &path)(error),
        })?;
        // No file goes before it is certain that the manifest has gone.
        sync_dir(&self.path)?;
        self.clean(&writers)
    }

    /// Removes what no manifest names and no writer is at work on.
    fn clean(&self, writers: &Writers) -> Result<(), CheckpointError> {
        for (name, path) in list(&self.path.join("tmp"))? {
            if !writers.pinned.contains_key(&name) {
                let removed = match path.is_dir() {
                    true => fs::remove_dir_all(&path),
                    false => fs::remove_file(&path),
                };
                removed.map_err(CheckpointError::io("remove", &path))?;
            }
        }

        let mut needed: HashSet<[u8; 32]> = writers.pinned.values().flatten().copied().collect();
        for (name, path) in list(&self.path)? {
            if !name.ends_with(".manifest") {
                continue;
            }
            // A manifest that cannot be read may name any file.
            let manifest = match id_of(&name) {
                Some(id) => self.manifest(id)?,
                None => {
                    let reason = "it is not called as the manifest of a checkpoint is";
                    return Err(CheckpointError::FileName {
                        name: path.display().to_string(),
                        reason,
                    });
                }
            };
            needed.extend(manifest.files.iter().map(|file| file.sha256));
        }
        for (name, path) in list(&files_dir(&self.path))? {
            if unhex(&name).is_some_and(|sha256| !needed.contains(&sha256)) {
                fs::remove_file(&path).map_err(CheckpointError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Cleans up after a success, which it is whether or not everything can be removed now: the next
    /// success tries again.
    fn clean_if_possible(&self, writers: &Writers) {
        let _ = self.clean(writers);
    }

    /// Whether `files` has the file.
    fn has(&self, entry: &FileEntry) -> bool {
        let metadata = fs::metadata(entry.path_in(&self.path));
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() == entry.bytes)
    }
}

/// A checkpoint that is being written. Dropping it leaves the directory as it was.
#[derive(Debug)]
pub struct CheckpointWriter<'a> {
    dir: &'a CheckpointDir,
    id: u64,
    /// Of its directory in `tmp`.
    name: String,
    tmp: PathBuf,
    /// How many files there have been in it.
    created: u64,
    /// Files that go from `tmp` to `files`.
    staged: HashMap<[u8; 32], PathBuf>,
    entries: Vec<FileEntry>,
}

impl CheckpointWriter<'_> {
    /// The number of the checkpoint.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Adds the file `source`, which must not change any more, under the name `name`: reads it once for
    /// its SHA-256, and links it, or copies it where it cannot be linked. A file with this content that
    /// the directory has is only named.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::FileName`] if the name is not a plain one or has been given,
    /// [`CheckpointError::Io`] if the system refuses. Nothing is added then.
    pub fn add_file(&mut self, name: &str, source: &Path) -> Result<FileEntry, CheckpointError> {
        self.check_name(name)?;
        let mut file = File::open(source).map_err(CheckpointError::io("open", source))?;
        let (bytes, sha256) = digest(&mut file).map_err(CheckpointError::io("read", source))?;
        let entry = FileEntry {
            name: name.to_owned(),
            bytes,
            sha256,
        };
        if !self.staged.contains_key(&sha256) && !self.pin(&entry) {
            let path = self.next_path();
            // A link to a symbolic link would be one to what may change.
            let plain = fs::symlink_metadata(source).is_ok_and(|metadata| metadata.is_file());
            if !plain || fs::hard_link(source, &path).is_err() {
                let copy = self.copy(source)?;
                return self.add_created(name, copy);
            }
            file.sync_all()
                .map_err(CheckpointError::io("sync", source))?;
            self.staged.insert(sha256, path);
        }
        self.entries.push(entry.clone());
        Ok(entry)
    }

    /// Adds a file that is known to be in the directory, by an entry that `add_file` returned before.
    /// `false` if it is not there any more (it was discarded). Reads nothing.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::FileName`] if the name has been given.
    pub fn add_known(&mut self, entry: &FileEntry) -> Result<bool, CheckpointError> {
        self.check_name(&entry.name)?;
        let known = self.staged.contains_key(&entry.sha256) || self.pin(entry);
        if known {
            self.entries.push(entry.clone());
        }
        Ok(known)
    }

    /// A new file, to be written to and then added.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Io`] if it cannot be made.
    pub fn create(&mut self) -> Result<CreatedFile, CheckpointError> {
        let path = self.next_path();
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        Ok(CreatedFile {
            file: BufWriter::with_capacity(
                READ_BYTES,
                file.map_err(CheckpointError::io("create", &path))?,
            ),
            path,
            sha256: Sha256::new(),
            bytes: 0,
        })
    }

    /// Syncs a file of [`create`](Self::create) and adds it under the name `name`.
    ///
    /// # Errors
    ///
    /// As [`add_file`](Self::add_file).
    pub fn add_created(
        &mut self,
        name: &str,
        file: CreatedFile,
    ) -> Result<FileEntry, CheckpointError> {
        self.check_name(name)?;
        let CreatedFile {
            path,
            file,
            sha256,
            bytes,
        } = file;
        let file = file
            .into_inner()
            .map_err(|error| CheckpointError::io("write", &path)(error.into_error()))?;
        file.sync_all()
            .map_err(CheckpointError::io("sync", &path))?;
        let entry = FileEntry {
            name: name.to_owned(),
            bytes,
            sha256: sha256.finalize().into(),
        };
        if !self.staged.contains_key(&entry.sha256) && !self.pin(&entry) {
            self.staged.insert(entry.sha256, path);
        }
        self.entries.push(entry.clone());
        Ok(entry)
    }

    /// Makes the checkpoint one: syncs, writes the manifest, renames it to its place, syncs the directory,
    /// and removes what earlier interrupted checkpoints left. A checkpoint of the same number is replaced.
    /// Returns the manifest with the number and the files of this writer, whatever `manifest` has there.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Malformed`] if the manifest contradicts itself, [`CheckpointError::Io`] if the
    /// system refuses. The directory then has the checkpoints that it had; only if the very last sync
    /// fails, this one may be among them, complete.
    pub fn commit(self, manifest: Manifest) -> Result<Manifest, CheckpointError> {
        let manifest = Manifest {
            id: self.id,
            files: self.entries.clone(),
            ..manifest
        };
        let dir = self.dir.path();
        let path = manifest_path(dir, self.id);
        manifest.check(&path)?;

        let writers = self.dir.writers.lock();
        for (sha256, staged) in &self.staged {
            rename(staged, &files_dir(dir).join(hex(sha256)))?;
        }
        sync_dir(&files_dir(dir))?;
        let unnamed = self.tmp.join("manifest");
        let mut file = File::create(&unnamed).map_err(CheckpointError::io("create", &unnamed))?;
        file.write_all(&manifest.to_bytes())
            .map_err(CheckpointError::io("write", &unnamed))?;
        file.sync_all()
            .map_err(CheckpointError::io("sync", &unnamed))?;
        rename(&unnamed, &path)?;
        sync_dir(dir)?;

        self.dir.clean_if_possible(&writers);
        Ok(manifest)
    }

    fn check_name(&self, name: &str) -> Result<(), CheckpointError> {
        check_name(name)?;
        if self.entries.iter().any(|entry| entry.name == name) {
            return Err(CheckpointError::FileName {
                name: name.to_owned(),
                reason: "another file of the checkpoint has this name",
            });
        }
        Ok(())
    }

    /// Keeps a file that the directory has from being removed; `false` if it has not.
    fn pin(&self, entry: &FileEntry) -> bool {
        let mut writers = self.dir.writers.lock();
        let has = self.dir.has(entry);
        if has {
            let pinned = writers.pinned.get_mut(&self.name);
            pinned
                .expect("a writer is known until it is dropped")
                .insert(entry.sha256);
        }
        has
    }

    fn next_path(&mut self) -> PathBuf {
        self.created += 1;
        self.tmp.join(self.created.to_string())
    }

    fn copy(&mut self, source: &Path) -> Result<CreatedFile, CheckpointError> {
        let mut copy = self.create()?;
        let mut file = File::open(source).map_err(CheckpointError::io("open", source))?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = file
                .read(&mut buffer)
                .map_err(CheckpointError::io("read", source))?;
            if read == 0 {
                return Ok(copy);
            }
            copy.write_all(&buffer[..read])
                .map_err(CheckpointError::io("write", &copy.path))?;
        }
    }
}

impl Drop for CheckpointWriter<'_> {
    fn drop(&mut self) {
        // Who cleans up waits for the lock, and so does not find this half removed.
        let mut writers = self.dir.writers.lock();
        // What stays is removed by the next success.
        let _ = fs::remove_dir_all(&self.tmp);
        writers.pinned.remove(&self.name);
    }
}

/// A file of a checkpoint that is being written, buffered.
#[derive(Debug)]
pub struct CreatedFile {
    path: PathBuf,
    file: BufWriter<File>,
    sha256: Sha256,
    bytes: u64,
}

impl CreatedFile {
    /// Where it is until it is added.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes have been written to it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Write for CreatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), CheckpointError> {
    fs::rename(from, to).map_err(CheckpointError::io("rename", from))
}

/// Makes the names in a directory last.
fn sync_dir(dir: &Path) -> Result<(), CheckpointError> {
    // Elsewhere a directory cannot be opened as a file, and needs no sync.
    if cfg!(unix) {
        File::open(dir)
            .and_then(|dir| dir.sync_all())
            .map_err(CheckpointError::io("sync", dir))?;
    }
    Ok(())
}

/// The names and paths in a directory.
fn list(dir: &Path) -> Result<Vec<(String, PathBuf)>, CheckpointError> {
    let entries = fs::read_dir(dir).and_then(|entries| {
        let named = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.path())
        };
        entries.map(|entry| entry.map(named)).collect()
    });
    entries.map_err(CheckpointError::io("list", dir))
}
