//! Canonical checkpoints: sections of Arrow IPC by key group.
//!
//! One file holds the sections of a checkpoint, by rising key group, each at an offset that is a multiple of
//! 8. A section is a whole Arrow IPC stream: schema, dictionaries and record batches, end of stream. The
//! manifest says where it starts, how long it is, how many rows it has, and its CRC-32.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use crc32fast::Hasher;
use keygroup::{GroupCount, GroupRange, KeyGroup};

use super::CheckpointRef;
use super::dir::{CheckpointWriter, CreatedFile};
use super::error::{CheckpointError, Place};
use super::ipc::CheckedStream;
use super::manifest::{CheckpointKind, Manifest, SectionEntry};

/// What the file of a canonical checkpoint is called.
const NAME: &str = "sections";
/// Offsets of sections are multiples of this, as Arrow wants it of its buffers.
const ALIGNMENT: u64 = 8;

/// Writes the sections of a canonical checkpoint, by rising key group. Holds one record batch at a time.
#[derive(Debug)]
pub struct SectionWriter<'a> {
    writer: CheckpointWriter<'a>,
    schema: SchemaRef,
    manifest: Manifest,
    state: State,
}

enum State {
    Between(CreatedFile),
    Within {
        group: KeyGroup,
        offset: u64,
        rows: u64,
        stream: Box<StreamWriter<Checked<CreatedFile>>>,
    },
    /// A write has failed.
    Broken,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between(_) => f.write_str("between sections"),
            Self::Within { group, rows, .. } => write!(f, "{rows} rows of group {}", group.get()),
            Self::Broken => f.write_str("broken"),
        }
    }
}

impl<'a> SectionWriter<'a> {
    /// Begins the checkpoint that `writer` is for: of an operator that calls its state `fingerprint`, about
    /// `groups` of `group_count`, with rows of `schema`.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Io`] if the file cannot be made.
    pub fn new(
        mut writer: CheckpointWriter<'a>,
        schema: SchemaRef,
        group_count: GroupCount,
        groups: GroupRange,
        fingerprint: &str,
    ) -> Result<Self, CheckpointError> {
        let file = writer.create()?;
        let manifest = Manifest {
            id: writer.id(),
            kind: CheckpointKind::Canonical,
            fingerprint: fingerprint.to_owned(),
            group_count,
            groups,
            watermark_ms: None,
            files: Vec::new(),
            sections: Vec::new(),
        };
        Ok(Self {
            writer,
            schema,
            manifest,
            state: State::Between(file),
        })
    }

    /// Notes the watermark of an operator that has one, in milliseconds of its clock.
    #[must_use]
    pub fn with_watermark(mut self, watermark_ms: i64) -> Self {
        self.manifest.watermark_ms = Some(watermark_ms);
        self
    }

    /// Begins the section of `group`, and ends the one before.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::GroupOrder`] if the group does not rise or is not one of the checkpoint's,
    /// [`CheckpointError::Io`] if the file cannot be written.
    pub fn begin(&mut self, group: KeyGroup) -> Result<(), CheckpointError> {
        let last = match &self.state {
            State::Within { group, .. } => Some(*group),
            _ => self.manifest.sections.last().map(|section| section.group),
        };
        let reason = if last.is_some_and(|last| group <= last) {
            "groups are written once, rising"
        } else if !self.manifest.groups.contains(group) {
            "the checkpoint is not about it"
        } else {
            ""
        };
        if !reason.is_empty() {
            return Err(CheckpointError::GroupOrder {
                group,
                reason: reason.to_owned(),
            });
        }
        let mut file = self.end()?;
        let padding = file.bytes().next_multiple_of(ALIGNMENT) - file.bytes();
        let path = file.path().to_owned();
        file.write_all(&[0; ALIGNMENT as usize][..padding as usize])
            .map_err(CheckpointError::io("write", &path))?;
        let offset = file.bytes();
        let stream = StreamWriter::try_new(Checked::new(file), &self.schema)
            .map_err(|error| arrow_error(error, &path))?;
        self.state = State::Within {
            group,
            offset,
            rows: 0,
            stream: Box::new(stream),
        };
        Ok(())
    }

    /// Adds rows to the section.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Batch`] if no section was begun or the columns are others,
    /// [`CheckpointError::Io`] if the file cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), CheckpointError> {
        let State::Within { rows, stream, .. } = &mut self.state else {
            let reason = "no section was begun".into();
            return Err(CheckpointError::Batch { reason });
        };
        if batch.schema_ref().fields() != self.schema.fields() {
            let reason = "it has other columns than the checkpoint".into();
            return Err(CheckpointError::Batch { reason });
        }
        let path = stream.get_ref().inner.path().to_owned();
        stream
            .write(batch)
            .map_err(|error| arrow_error(error, &path))?;
        *rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Ends the last section and makes the checkpoint complete.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if the directory cannot be written; then there is no such checkpoint.
    pub fn finish(mut self) -> Result<Manifest, CheckpointError> {
        let file = self.end()?;
        let Self {
            mut writer,
            manifest,
            ..
        } = self;
        writer.add_created(NAME, file)?;
        writer.commit(manifest)
    }

    fn end(&mut self) -> Result<CreatedFile, CheckpointError> {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Between(file) => Ok(file),
            State::Within {
                group,
                offset,
                rows,
                stream,
            } => {
                let path = stream.get_ref().inner.path().to_owned();
                let checked = stream
                    .into_inner()
                    .map_err(|error| arrow_error(error, &path))?;
                self.manifest.sections.push(SectionEntry {
                    group,
                    rows,
                    offset,
                    bytes: checked.bytes,
                    crc32: checked.crc32.finalize(),
                });
                Ok(checked.inner)
            }
            State::Broken => {
                let reason = "a write before has failed".into();
                Err(CheckpointError::Batch { reason })
            }
        }
    }
}

/// Reads the sections of a canonical checkpoint.
#[derive(Debug)]
pub struct SectionReader {
    manifest: Manifest,
    path: PathBuf,
    file: Option<File>,
}

impl SectionReader {
    /// Opens a checkpoint that is to be of the operator that calls its state `fingerprint`.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if it is not, or not a canonical one, or if the manifest or the length of its
    /// file are not as they were written.
    pub fn open(
        from: &CheckpointRef,
        fingerprint: &str,
        group_count: GroupCount,
    ) -> Result<Self, CheckpointError> {
        let manifest = Manifest::read(&from.dir, from.id)?;
        manifest.expect(CheckpointKind::Canonical, fingerprint, group_count)?;
        let (mut path, mut file) = (from.dir.clone(), None);
        if let Some(entry) = manifest.files.first() {
            path = entry.path_in(&from.dir);
            file = Some(entry.open(&from.dir)?);
        }
        Ok(Self {
            manifest,
            path,
            file,
        })
    }

    /// What the checkpoint consists of.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads the sections of `groups` once for their checksums.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Checksum`] for the first that differs, [`CheckpointError::Io`] if the file cannot
    /// be read.
    pub fn verify(&mut self, groups: GroupRange) -> Result<(), CheckpointError> {
        let sections: Vec<SectionEntry> = self.manifest.sections.clone();
        for section in sections.iter().filter(|entry| groups.contains(entry.group)) {
            let path = self.path.clone();
            let mut bytes = self.bytes_of(section)?;
            io::copy(&mut bytes, &mut io::sink()).map_err(CheckpointError::io("read", &path))?;
            check(&bytes, section, &path)?;
        }
        Ok(())
    }

    /// The rows of `group`, a record batch at a time; `None` if it has none. The columns have to be those of
    /// `schema`.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] here or from the iterator, which then ends: for bytes that no writer has
    /// written, other columns, another number of rows, or another checksum.
    pub fn section(
        &mut self,
        group: KeyGroup,
        schema: &SchemaRef,
    ) -> Result<Option<SectionRows<'_>>, CheckpointError> {
        let Some(section) = self.entry(group) else {
            return Ok(None);
        };
        let path = self.path.clone();
        let bytes = CheckedStream::new(self.bytes_of(&section)?, section.bytes);
        let malformed = |error: ArrowError| malformed(&path, group, &error);
        let stream = StreamReader::try_new(bytes, None).map_err(malformed)?;
        check_schema(&stream.schema(), schema)?;
        Ok(Some(SectionRows {
            rows_left: section.rows,
            section,
            path,
            stream: Some(stream),
        }))
    }

    /// The columns of the rows of `group`; `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] where the section does not begin with a schema.
    pub fn schema(&mut self, group: KeyGroup) -> Result<Option<SchemaRef>, CheckpointError> {
        let Some(section) = self.entry(group) else {
            return Ok(None);
        };
        let path = self.path.clone();
        let bytes = CheckedStream::new(self.bytes_of(&section)?, section.bytes);
        let stream = StreamReader::try_new(bytes, None);
        let stream = stream.map_err(|error| malformed(&path, group, &error))?;
        Ok(Some(stream.schema()))
    }

    fn entry(&self, group: KeyGroup) -> Option<SectionEntry> {
        let sections = &self.manifest.sections;
        let found = sections.binary_search_by_key(&group, |section| section.group);
        found.ok().map(|found| sections[found].clone())
    }

    fn bytes_of(&mut self, section: &SectionEntry) -> Result<Bytes<'_>, CheckpointError> {
        let file = self
            .file
            .as_mut()
            .ok_or_else(|| CheckpointError::MissingFile {
                name: NAME.to_owned(),
                path: self.path.clone(),
            })?;
        file.seek(SeekFrom::Start(section.offset))
            .map_err(CheckpointError::io("read", &self.path))?;
        let file = BufReader::with_capacity(1 << 16, file);
        Ok(Checked::new(file.take(section.bytes)))
    }
}

type Bytes<'a> = Checked<io::Take<BufReader<&'a mut File>>>;

/// The rows of a section: see [`SectionReader::section`].
#[derive(Debug)]
pub struct SectionRows<'a> {
    section: SectionEntry,
    path: PathBuf,
    rows_left: u64,
    /// `None` once it has ended.
    stream: Option<StreamReader<CheckedStream<Bytes<'a>>>>,
}

impl Iterator for SectionRows<'_> {
    type Item = Result<RecordBatch, CheckpointError>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.stream.as_mut()?;
        let group = self.section.group;
        let wrong = |reason: &'static str| CheckpointError::Malformed {
            place: Place {
                path: self.path.clone(),
                section: Some(group),
                offset: 0,
            },
            reason: reason.into(),
        };
        let batch = match stream.next() {
            Some(Ok(batch)) => match self.rows_left.checked_sub(batch.num_rows() as u64) {
                Some(left) => {
                    self.rows_left = left;
                    return Some(Ok(batch));
                }
                None => Err(wrong("there are more rows than the manifest says")),
            },
            Some(Err(error)) => Err(malformed(&self.path, group, &error)),
            None if self.rows_left > 0 => Err(wrong("there are fewer rows than the manifest says")),
            None => Ok(()),
        };
        let mut stream = self.stream.take()?;
        let bytes = stream.get_mut();
        let ended = batch.and_then(|()| {
            if !bytes.is_through() {
                return Err(wrong("it goes on behind its end"));
            }
            check(&bytes.inner, &self.section, &self.path)
        });
        ended.err().map(Err)
    }
}

/// The rows of a section that is in memory, such as one that was kept elsewhere: what
/// [`SectionReader::section`] does, without a manifest and its checksum.
///
/// Allocates at most sixteen times the length of `bytes`, and 64 KiB.
///
/// # Errors
///
/// [`CheckpointError::Malformed`] for bytes that no writer has written, [`CheckpointError::Schema`] for
/// other columns.
pub fn decode_section(
    bytes: &[u8],
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>, CheckpointError> {
    let wrong = |error: ArrowError| CheckpointError::Malformed {
        place: Place {
            path: PathBuf::new(),
            section: None,
            offset: 0,
        },
        reason: error.to_string().into(),
    };
    let checked = CheckedStream::new(bytes, bytes.len() as u64);
    let mut stream = StreamReader::try_new(checked, None).map_err(wrong)?;
    check_schema(&stream.schema(), schema)?;
    let batches = stream.by_ref().collect::<Result<Vec<_>, _>>();
    let batches = batches.map_err(wrong)?;
    if !stream.get_ref().is_through() {
        let reason = "it goes on behind its end".to_owned();
        return Err(wrong(ArrowError::IpcError(reason)));
    }
    Ok(batches)
}

fn check_schema(found: &SchemaRef, expected: &SchemaRef) -> Result<(), CheckpointError> {
    let (found, expected) = (found.fields(), expected.fields());
    if found.len() != expected.len() {
        let difference = format!("{} columns, not {}", found.len(), expected.len());
        return Err(CheckpointError::Schema { difference });
    }
    let mut pairs = found.iter().zip(expected);
    match pairs.find(|(found, expected)| !found.contains(expected) || !expected.contains(found)) {
        None => Ok(()),
        Some((found, expected)) => Err(CheckpointError::Schema {
            difference: format!("{found:?}, not {expected:?}"),
        }),
    }
}

fn check(
    bytes: &Bytes<'_>,
    section: &SectionEntry,
    path: &std::path::Path,
) -> Result<(), CheckpointError> {
    if bytes.bytes == section.bytes && bytes.crc32.clone().finalize() == section.crc32 {
        return Ok(());
    }
    Err(CheckpointError::Checksum {
        path: path.to_owned(),
        section: Some(section.group),
    })
}

fn malformed(path: &std::path::Path, group: KeyGroup, error: &ArrowError) -> CheckpointError {
    CheckpointError::Malformed {
        place: Place {
            path: path.to_owned(),
            section: Some(group),
            offset: 0,
        },
        reason: error.to_string().into(),
    }
}

fn arrow_error(error: ArrowError, path: &std::path::Path) -> CheckpointError {
    match error {
        ArrowError::IoError(_, source) => CheckpointError::io("write", path)(source),
        other => CheckpointError::Batch {
            reason: other.to_string(),
        },
    }
}

/// Bytes that are counted and summed on their way.
#[derive(Debug)]
struct Checked<T> {
    inner: T,
    bytes: u64,
    crc32: Hasher,
}

impl<T> Checked<T> {
    fn new(inner: T) -> Self {
        Self {
            inner,
            bytes: 0,
            crc32: Hasher::new(),
        }
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.crc32.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.crc32.update(&bytes[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}
