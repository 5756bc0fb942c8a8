//! The flights that left New York City in 2013, ranked per aircraft by arrival delay.
//!
//! The rows have a column `i`, their number in the file, behind the partition column `tailnum`.
//! NULL is an aircraft like any other, and a delay of NULL is worse than every other.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use flate2::read::MultiGzDecoder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use rank_top1::{OrderBy, RankSpec, RowKind, SpecError};

/// Rows of a batch of flights.
pub const BATCH_ROWS: usize = 8_192;

/// Why the flights, or the recorded changelog, could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlightsError {
    /// The file could not be opened or read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not Parquet.
    #[error("{} is not readable as Parquet", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: ParquetError,
    },
    /// The file does not hold the columns of the flights.
    #[error("{} does not hold the flights", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: ArrowError,
    },
    /// A line of the changelog is not one.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// The file of flights in the repository.
#[must_use]
pub fn repository_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data")
        .join("flights-2013.parquet")
}

/// The recorded changelog in the repository.
#[must_use]
pub fn repository_changelog() -> PathBuf {
    crate::conform::repository_golden()
        .join("flights")
        .join("top1-changelog.csv.gz")
}

/// The columns that are ranked.
#[must_use]
pub fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        field("tailnum", DataType::Utf8),
        field("i", DataType::Int32),
        field("arr_delay", DataType::Int32),
        field("carrier", DataType::Utf8),
        field("flight", DataType::Int32),
        field("origin", DataType::Utf8),
        field("dest", DataType::Utf8),
    ]))
}

/// Which flight of each aircraft arrived latest, as a changelog.
///
/// # Errors
///
/// [`SpecError`] never, unless the columns of [`schema`] cannot be ranked any more.
pub fn spec() -> Result<RankSpec, SpecError> {
    RankSpec::builder(schema())
        .partition_by(["tailnum"])
        .order_by([OrderBy::desc("arr_delay").nulls_last()])
        .build()
}

/// The flights in file order, in batches of [`BATCH_ROWS`] rows.
///
/// # Errors
///
/// [`FlightsError`] where the file cannot be read or is not the flights.
pub fn read(path: &Path) -> Result<Vec<RecordBatch>, FlightsError> {
    let mut next_row = 0;
    read_columns(path, |batch| ranked_columns(batch, &mut next_row))
}

/// The flights in file order with all of their columns, of which `scheduled` is the time of departure, in batches
/// of [`BATCH_ROWS`] rows.
///
/// # Errors
///
/// [`FlightsError`] where the file cannot be read or is not Parquet.
pub fn read_all(path: &Path) -> Result<Vec<RecordBatch>, FlightsError> {
    read_columns(path, |batch| Ok(batch.clone()))
}

fn read_columns(
    path: &Path,
    mut columns_of: impl FnMut(&RecordBatch) -> Result<RecordBatch, ArrowError>,
) -> Result<Vec<RecordBatch>, FlightsError> {
    let parquet = |source| FlightsError::Parquet {
        path: path.to_owned(),
        source,
    };
    let columns = |source| FlightsError::Columns {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(|source| FlightsError::Io {
        path: path.to_owned(),
        source,
    })?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|builder| builder.with_batch_size(BATCH_ROWS).build())
        .map_err(parquet)?;
    let mut batches = Vec::new();
    for batch in reader {
        batches.push(columns_of(&batch.map_err(columns)?).map_err(columns)?);
    }
    Ok(batches)
}

fn ranked_columns(batch: &RecordBatch, next_row: &mut i32) -> Result<RecordBatch, ArrowError> {
    let schema = schema();
    let first_row = *next_row;
    *next_row += batch.num_rows() as i32;
    let columns = schema
        .fields()
        .iter()
        .map(|field| match field.name().as_str() {
            "i" => Ok(Arc::new(Int32Array::from_iter_values(first_row..*next_row)) as ArrayRef),
            name => {
                let column = batch
                    .column_by_name(name)
                    .ok_or_else(|| ArrowError::SchemaError(format!("column {name} is missing")))?;
                cast(column, field.data_type())
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema, columns)
}

/// A file of text, which is decompressed if its name ends in `.gz`.
pub(crate) fn open_text(path: &Path) -> std::io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    Ok(if path.extension().is_some_and(|ending| ending == "gz") {
        // All members: what is appended to a recording counts.
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    })
}

/// A recorded changelog: the kinds of its changes, and their rows in the columns of [`schema`].
#[derive(Clone, Debug)]
pub struct RecordedChangelog {
    /// Kind of each change.
    pub kinds: Vec<RowKind>,
    /// Row of each change.
    pub rows: RecordBatch,
}

/// Reads lines such as `+I,N14228,0,11,UA,1545,EWR,IAH`, in which an empty field is NULL. Blank
/// lines may end the file. A file whose name ends in `.gz` is decompressed.
///
/// # Errors
///
/// [`FlightsError`] where the file cannot be read or a line is not a change, by its number.
pub fn read_changelog(path: &Path) -> Result<RecordedChangelog, FlightsError> {
    let io = |source| FlightsError::Io {
        path: path.to_owned(),
        source,
    };
    let reader = open_text(path).map_err(io)?;
    let schema = schema();
    let mut kinds = Vec::new();
    let mut texts: Vec<Vec<Option<String>>> = vec![Vec::new(); schema.fields().len()];
    let mut numbers: Vec<Vec<Option<i32>>> = vec![Vec::new(); schema.fields().len()];
    let mut blank_line = None;
    for (index, line) in BufReader::new(reader).lines().enumerate() {
        let line = line.map_err(io)?;
        if line.is_empty() {
            blank_line.get_or_insert(index + 1);
            continue;
        }
        if let Some(line) = blank_line {
            return Err(FlightsError::Line {
                path: path.to_owned(),
                line,
                problem: "a blank line before others".to_owned(),
            });
        }
        let bad = |problem: String| FlightsError::Line {
            path: path.to_owned(),
            line: index + 1,
            problem,
        };
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() != schema.fields().len() + 1 {
            return Err(bad(format!(
                "{} fields where a kind and {} columns belong",
                fields.len(),
                schema.fields().len()
            )));
        }
        kinds.push(kind_of(fields[0]).ok_or_else(|| bad(format!("unknown kind {:?}", fields[0])))?);
        for (column, text) in fields[1..].iter().enumerate() {
            let text = (!text.is_empty()).then_some(*text);
            if schema.field(column).data_type() == &DataType::Int32 {
                let number = text.map(|text| {
                    text.parse().map_err(|_| {
                        bad(format!(
                            "{text:?} in {} is not a number",
                            schema.field(column).name()
                        ))
                    })
                });
                numbers[column].push(number.transpose()?);
            } else {
                texts[column].push(text.map(str::to_owned));
            }
        }
    }
    let columns =
        texts
            .into_iter()
            .zip(numbers)
            .zip(schema.fields())
            .map(|((texts, numbers), field)| {
                if field.data_type() == &DataType::Int32 {
                    Arc::new(Int32Array::from(numbers)) as ArrayRef
                } else {
                    Arc::new(StringArray::from(texts)) as ArrayRef
                }
            });
    let rows = RecordBatch::try_new(schema.clone(), columns.collect()).map_err(|source| {
        FlightsError::Columns {
            path: path.to_owned(),
            source,
        }
    })?;
    Ok(RecordedChangelog { kinds, rows })
}

/// The kind that a recording writes as `+I`, `-U`, `+U` or `-D`.
#[must_use]
pub fn kind_of(text: &str) -> Option<RowKind> {
    match text {
        "+I" => Some(RowKind::Insert),
        "-U" => Some(RowKind::UpdateBefore),
        "+U" => Some(RowKind::UpdateAfter),
        "-D" => Some(RowKind::Delete),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::read_changelog;

    /// How many changes a file of these gzip members holds, or what is wrong with it.
    fn read(members: &[&str]) -> Result<usize, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("top1-changelog.csv.gz");
        let mut file = File::create(&path).expect("a file");
        for member in members {
            let mut encoder = GzEncoder::new(&mut file, Compression::fast());
            encoder.write_all(member.as_bytes()).expect("written");
            encoder.finish().expect("written");
        }
        let changelog = read_changelog(&path).map_err(|error| {
            let text = error.to_string();
            text.rsplit('/').next().unwrap_or_default().to_owned()
        })?;
        assert_eq!(changelog.kinds.len(), changelog.rows.num_rows());
        Ok(changelog.kinds.len())
    }

    #[test]
    fn every_member_of_a_compressed_changelog_is_read() {
        let change = "+I,N14228,0,11,UA,1545,EWR,IAH\n";
        assert_eq!(read(&[change]), Ok(1));
        assert_eq!(read(&[change, change]), Ok(2));
        let error = read(&[change, "no change\n"]).expect_err("a line that is none");
        insta::assert_snapshot!(error, @"top1-changelog.csv.gz:2: 1 fields where a kind and 7 columns belong");
    }

    #[test]
    fn blank_lines_may_only_end_a_changelog() {
        let change = "+I,N14228,0,11,UA,1545,EWR,IAH\n";
        assert_eq!(read(&[change, "\n\n"]), Ok(1));
        let error = read(&[change, "\n", change]).expect_err("a blank line inside");
        insta::assert_snapshot!(error, @"top1-changelog.csv.gz:2: a blank line before others");
    }
}
