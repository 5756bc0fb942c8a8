//! What a checkpoint consists of.

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use keygroup::{GroupCount, GroupRange, KeyGroup};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::{CheckpointError, Place};

/// The version of manifests that is written, and the latest that is read.
const VERSION: u32 = 1;

/// What the first line of a manifest begins with.
const MAGIC: &str = "weir-checkpoint";

/// Bytes that the first line has at most.
const MAX_HEADER_BYTES: usize = 128;

/// Bytes of a file that are read at a time.
pub(super) const READ_BYTES: usize = 128 << 10;

/// Whose files a checkpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointKind {
    /// Those of RocksDB.
    RocksDb,
    /// Sections of Arrow IPC, the same for every store.
    Canonical,
}

impl CheckpointKind {
    const ALL: [Self; 2] = [Self::RocksDb, Self::Canonical];

    fn name(self) -> &'static str {
        match self {
            Self::RocksDb => "rocksdb",
            Self::Canonical => "canonical",
        }
    }
}

/// As in a manifest: `rocksdb` or `canonical`.
impl fmt::Display for CheckpointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a checkpoint consists of.
///
/// # Layout
///
/// ```text
/// weir-checkpoint <version> <bytes> <crc32>\n     bytes and checksum, 8 hex digits, of what follows
/// {"id":7,"kind":"canonical","fingerprint":"…","group_count":128,"groups":[0,63],
///  "files":[{"name":"sections","bytes":4096,"sha256":"<64 hex digits>"}],
///  "sections":[{"group":3,"rows":2,"offset":0,"bytes":4096,"crc32":305419896}]}
/// ```
///
/// The JSON is of exactly that length, in one line, and has no other members, but for `"watermark":-5`
/// in front of the files of an operator that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The number of the checkpoint.
    pub id: u64,
    /// Whose files it has.
    pub kind: CheckpointKind,
    /// What the operator calls its state.
    pub fingerprint: String,
    /// Into how many groups the keys are divided.
    pub group_count: GroupCount,
    /// The groups that the checkpoint is about, whether or not they have keys.
    pub groups: GroupRange,
    /// The watermark of an operator that has one, in milliseconds of its clock.
    pub watermark_ms: Option<i64>,
    /// Its files, each of another name; of a canonical checkpoint just one.
    pub files: Vec<FileEntry>,
    /// Where in the one file of a canonical checkpoint the rows of each group are, by rising group;
    /// none for groups without keys. They follow each other without gaps and make up the file.
    pub sections: Vec<SectionEntry>,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// What the store calls it, a plain file name.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
    /// The SHA-256 of its content, by which it is found.
    pub sha256: [u8; 32],
}

/// The rows of one key group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionEntry {
    /// The group.
    pub group: KeyGroup,
    /// How many rows.
    pub rows: u64,
    /// Where the section starts in the file, a multiple of 8.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// The CRC-32 of these bytes, as in gzip.
    pub crc32: u32,
}

impl Manifest {
    /// Reads the manifest of checkpoint `id` of the directory `dir`. Another process may be writing there.
    ///
    /// Whether the files are there and whole is not looked at: see [`verify_files`](Self::verify_files).
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if there is no such checkpoint, or its manifest cannot be read, is damaged, or
    /// is of a later version.
    pub fn read(dir: &Path, id: u64) -> Result<Self, CheckpointError> {
        let path = manifest_path(dir, id);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CheckpointError::MissingManifest {
                dir: dir.to_owned(),
                id,
            },
            _ => CheckpointError::io("read", &path)(error),
        })?;
        Self::from_bytes(&bytes, &path, id)
    }

    /// The numbers of the complete checkpoints of the directory `dir`, rising. Another process may be
    /// writing there.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Io`] if the directory cannot be listed.
    pub fn ids(dir: &Path) -> Result<Vec<u64>, CheckpointError> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(dir).map_err(CheckpointError::io("list", dir))? {
            let name = entry.map_err(CheckpointError::io("list", dir))?.file_name();
            ids.extend(name.to_str().and_then(id_of));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// That the checkpoint is of this kind, of this state and of so many groups.
    ///
    /// # Errors
    ///
    /// The variant of [`CheckpointError`] that is about the first of these that differs.
    pub fn expect(
        &self,
        kind: CheckpointKind,
        fingerprint: &str,
        group_count: GroupCount,
    ) -> Result<(), CheckpointError> {
        if self.kind != kind {
            return Err(CheckpointError::OtherKind {
                found: self.kind,
                expected: kind,
            });
        }
        if self.fingerprint != fingerprint {
            return Err(CheckpointError::Fingerprint {
                found: self.fingerprint.clone(),
                expected: fingerprint.to_owned(),
            });
        }
        if self.group_count != group_count {
            return Err(CheckpointError::GroupCount {
                found: self.group_count,
                expected: group_count,
            });
        }
        Ok(())
    }

    /// Reads all files once and returns where each one is, in the order of [`files`](Self::files).
    ///
    /// # Errors
    ///
    /// As [`FileEntry::verify`].
    pub fn verify_files(&self, dir: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
        self.files.iter().map(|file| file.verify(dir)).collect()
    }

    /// The manifest that the bytes of the file `path` are, which is to be of checkpoint `id`.
    ///
    /// What is allocated is bounded by 32 times the length of `bytes`.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if they are not one: truncated, too long, of another checksum, version or kind,
    /// or malformed.
    pub fn from_bytes(bytes: &[u8], path: &Path, id: u64) -> Result<Self, CheckpointError> {
        let at = |offset: usize| Place {
            path: path.to_owned(),
            section: None,
            offset: offset as u64,
        };
        let malformed = |offset: usize, reason: String| CheckpointError::Malformed {
            place: at(offset),
            reason: reason.into(),
        };
        let header = Header::parse(bytes, path)?;
        let json = &bytes[header.line_bytes..];
        if (json.len() as u64) < header.json_bytes {
            return Err(CheckpointError::Truncated {
                place: at(bytes.len()),
                missing: header.json_bytes - json.len() as u64,
            });
        }
        if json.len() as u64 > header.json_bytes {
            return Err(CheckpointError::Length {
                path: path.to_owned(),
                found: bytes.len() as u64,
                expected: header.line_bytes as u64 + header.json_bytes,
            });
        }
        if crc32fast::hash(json) != header.crc32 {
            return Err(CheckpointError::Checksum {
                path: path.to_owned(),
                section: None,
            });
        }
        let stored: Stored = serde_json::from_slice(json).map_err(|error| {
            malformed(
                header.line_bytes + error.column(),
                format!("the JSON is not that of a manifest: {error}"),
            )
        })?;
        let kind = CheckpointKind::ALL
            .into_iter()
            .find(|kind| kind.name() == stored.kind)
            .ok_or_else(|| CheckpointError::UnknownKind {
                path: path.to_owned(),
                found: stored.kind.clone(),
            })?;
        let manifest = stored
            .into_manifest(kind)
            .map_err(|reason| malformed(header.line_bytes, reason))?;
        if manifest.id != id {
            let reason = format!("is the manifest of checkpoint {}", manifest.id);
            return Err(malformed(header.line_bytes, reason));
        }
        manifest.check(path)?;
        Ok(manifest)
    }

    /// The bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(&Stored::of(self)).expect("numbers and strings are JSON");
        let header = Header {
            line_bytes: 0,
            json_bytes: json.len() as u64,
            crc32: crc32fast::hash(&json),
        };
        [header.line().into_bytes(), json].concat()
    }

    /// What holds of every manifest, read or to be written.
    pub(super) fn check(&self, path: &Path) -> Result<(), CheckpointError> {
        let malformed = |section: Option<KeyGroup>, reason: &'static str| {
            Err(CheckpointError::Malformed {
                place: Place {
                    path: path.to_owned(),
                    section,
                    offset: 0,
                },
                reason: reason.into(),
            })
        };
        if u32::from(self.groups.end().get()) >= self.group_count.get() {
            return malformed(None, "the range of groups ends behind the last group");
        }
        let mut names = HashSet::new();
        for file in &self.files {
            check_name(&file.name)?;
            if !names.insert(file.name.as_str()) {
                return malformed(None, "two files have the same name");
            }
        }
        let file_bytes = match (self.kind, self.files.as_slice()) {
            (CheckpointKind::Canonical, [file]) => file.bytes,
            (CheckpointKind::Canonical, _) => {
                return malformed(None, "a canonical checkpoint has one file");
            }
            (CheckpointKind::RocksDb, _) if self.sections.is_empty() => return Ok(()),
            (CheckpointKind::RocksDb, _) => {
                return malformed(None, "only a canonical checkpoint has sections");
            }
        };

        let (mut end, mut last) = (0, None);
        for section in &self.sections {
            let group = Some(section.group);
            if last >= group {
                return malformed(group, "the groups of the sections do not rise");
            }
            if !self.groups.contains(section.group) {
                return malformed(group, "the group is not in the range of the checkpoint");
            }
            if section.offset < end {
                return malformed(group, "the section overlaps the one before");
            }
            if section.offset > end {
                return Err(missing_section(path, end, section.offset));
            }
            if section.offset % 8 != 0 {
                return malformed(group, "the section does not start at a multiple of 8");
            }
            end = match section.offset.checked_add(section.bytes) {
                Some(end) if end <= file_bytes => end,
                _ => return malformed(group, "the section ends behind the end of the file"),
            };
            last = group;
        }
        if end < file_bytes {
            return Err(missing_section(path, end, file_bytes));
        }
        Ok(())
    }
}

fn missing_section(path: &Path, start: u64, end: u64) -> CheckpointError {
    CheckpointError::MissingSection {
        path: path.to_owned(),
        offset: start,
        bytes: end - start,
    }
}

impl FileEntry {
    /// Where the file is if `dir` has it.
    pub fn path_in(&self, dir: &Path) -> PathBuf {
        files_dir(dir).join(hex(&self.sha256))
    }

    /// Reads the file once and returns where it is.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if the file is missing, of another length or another checksum, or cannot be
    /// read.
    pub fn verify(&self, dir: &Path) -> Result<PathBuf, CheckpointError> {
        let path = self.path_in(dir);
        let mut file = self.open(dir)?;
        let (_, sha256) = digest(&mut file).map_err(CheckpointError::io("read", &path))?;
        if sha256 == self.sha256 {
            Ok(path)
        } else {
            Err(CheckpointError::Checksum {
                path,
                section: None,
            })
        }
    }

    /// The file, which is there and as long as it should be.
    pub(super) fn open(&self, dir: &Path) -> Result<File, CheckpointError> {
        let path = self.path_in(dir);
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CheckpointError::MissingFile {
                name: self.name.clone(),
                path: path.clone(),
            },
            _ => CheckpointError::io("open", &path)(error),
        })?;
        let metadata = file.metadata();
        let bytes = metadata
            .map_err(CheckpointError::io("look at", &path))?
            .len();
        if bytes < self.bytes {
            let place = Place {
                path,
                section: None,
                offset: bytes,
            };
            let missing = self.bytes - bytes;
            return Err(CheckpointError::Truncated { place, missing });
        }
        if bytes > self.bytes {
            return Err(CheckpointError::Length {
                path,
                found: bytes,
                expected: self.bytes,
            });
        }
        Ok(file)
    }
}

/// The file name of the manifest of checkpoint `id`, in `dir`.
pub(super) fn manifest_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:020}.manifest"))
}

/// Where the files are that manifests name.
pub(super) fn files_dir(dir: &Path) -> PathBuf {
    dir.join("files")
}

/// The number of the checkpoint whose manifest has this file name.
pub(super) fn id_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".manifest")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

/// That a file of this name stays in the directory that a store puts it in.
pub(super) fn check_name(name: &str) -> Result<(), CheckpointError> {
    let reason = if name.is_empty() || name.len() > 255 {
        "it does not have 1 to 255 bytes"
    } else if name == "." || name == ".." || name.contains(['/', '\\', ':', '\0']) {
        "it is not a plain file name"
    } else {
        return Ok(());
    };
    let name = name.to_owned();
    Err(CheckpointError::FileName { name, reason })
}

/// Two lower-case digits per byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Length and SHA-256 of all that `reader` has.
pub(super) fn digest(reader: &mut impl Read) -> io::Result<(u64, [u8; 32])> {
    let mut sha256 = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok((bytes, sha256.finalize().into())),
            Ok(read) => {
                sha256.update(&buffer[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The first line.
struct Header {
    line_bytes: usize,
    json_bytes: u64,
    crc32: u32,
}

impl Header {
    fn line(&self) -> String {
        format!("{MAGIC} {VERSION} {} {:08x}\n", self.json_bytes, self.crc32)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Self, CheckpointError> {
        let place = |offset: usize| Place {
            path: path.to_owned(),
            section: None,
            offset: offset as u64,
        };
        let malformed = || CheckpointError::Malformed {
            place: place(0),
            reason: "the first line is not that of a manifest".into(),
        };
        let start = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
        let magic = &start[..start.len().min(MAGIC.len())];
        if !MAGIC.as_bytes().starts_with(magic) {
            return Err(malformed());
        }
        let Some(end) = start.iter().position(|&byte| byte == b'\n') else {
            if bytes.len() >= MAX_HEADER_BYTES {
                return Err(malformed());
            }
            return Err(CheckpointError::Truncated {
                place: place(bytes.len()),
                missing: 1,
            });
        };
        let line = str::from_utf8(&start[..end]).map_err(|_| malformed())?;
        let words: Vec<&str> = line.split(' ').collect();
        let [_, version, rest @ ..] = words.as_slice() else {
            return Err(malformed());
        };
        if version.parse() != Ok(VERSION) {
            let digits = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
            return Err(if digits {
                CheckpointError::UnknownVersion {
                    path: path.to_owned(),
                    found: (*version).to_owned(),
                    latest: VERSION,
                }
            } else {
                malformed()
            });
        }
        let [json_bytes, crc32] = rest else {
            return Err(malformed());
        };
        let header = Self {
            line_bytes: end + 1,
            json_bytes: json_bytes.parse().map_err(|_| malformed())?,
            crc32: u32::from_str_radix(crc32, 16).map_err(|_| malformed())?,
        };
        // Other ways to write the same numbers are not ours.
        if header.line().as_bytes() == &bytes[..=end] {
            Ok(header)
        } else {
            Err(malformed())
        }
    }
}

/// The JSON.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    id: u64,
    kind: String,
    fingerprint: String,
    group_count: u32,
    groups: [u16; 2],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    watermark: Option<i64>,
    files: Vec<StoredFile>,
    sections: Vec<StoredSection>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StoredFile {
    name: String,
    bytes: u64,
    sha256: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StoredSection {
    group: u16,
    rows: u64,
    offset: u64,
    bytes: u64,
    crc32: u32,
}

impl Stored {
    fn of(manifest: &Manifest) -> Self {
        let file = |file: &FileEntry| StoredFile {
            name: file.name.clone(),
            bytes: file.bytes,
            sha256: hex(&file.sha256),
        };
        let section = |section: &SectionEntry| StoredSection {
            group: section.group.get(),
            rows: section.rows,
            offset: section.offset,
            bytes: section.bytes,
            crc32: section.crc32,
        };
        Self {
            id: manifest.id,
            kind: manifest.kind.name().to_owned(),
            fingerprint: manifest.fingerprint.clone(),
            group_count: manifest.group_count.get(),
            groups: [manifest.groups.start().get(), manifest.groups.end().get()],
            watermark: manifest.watermark_ms,
            files: manifest.files.iter().map(file).collect(),
            sections: manifest.sections.iter().map(section).collect(),
        }
    }

    /// The manifest, or what is wrong, as a phrase.
    fn into_manifest(self, kind: CheckpointKind) -> Result<Manifest, String> {
        let group_count = GroupCount::new(self.group_count).map_err(|error| error.to_string())?;
        let [start, end] = self.groups;
        let file = |file: StoredFile| match unhex(&file.sha256) {
            Some(sha256) => Ok(FileEntry {
                name: file.name,
                bytes: file.bytes,
                sha256,
            }),
            None => Err(format!("`{}` is not a SHA-256", file.sha256)),
        };
        let section = |section: StoredSection| match group_count.group(section.group.into()) {
            Some(group) => Ok(SectionEntry {
                group,
                rows: section.rows,
                offset: section.offset,
                bytes: section.bytes,
                crc32: section.crc32,
            }),
            None => Err(format!("there is no key group {}", section.group)),
        };
        Ok(Manifest {
            id: self.id,
            kind,
            fingerprint: self.fingerprint,
            group_count,
            groups: GroupRange::new(start, end)
                .ok_or_else(|| format!("{start} to {end} is not a range of groups"))?,
            watermark_ms: self.watermark,
            files: self.files.into_iter().map(file).collect::<Result<_, _>>()?,
            sections: self
                .sections
                .into_iter()
                .map(section)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// The inverse of [`hex`], for exactly 64 lower-case digits.
pub(super) fn unhex(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = nibble(high)? << 4 | nibble(low)?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
