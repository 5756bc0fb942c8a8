//! What is wrong with a type, a value or stored bytes.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use arrow::datatypes::DataType;

/// A column whose type has no row layout: "column `a.b` of type Interval(DayTime) has no row layout".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedType {
    column: String,
    data_type: DataType,
    reason: &'static str,
}

impl UnsupportedType {
    pub(super) fn new(column: &str, data_type: &DataType, reason: &'static str) -> Self {
        Self {
            column: column.to_owned(),
            data_type: data_type.clone(),
            reason,
        }
    }

    /// The path of the column: the field's name, and for a part of a nested type the names down to it.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The type that has no layout.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }
}

impl fmt::Display for UnsupportedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "column `{}` of type {} {}",
            self.column, self.data_type, self.reason
        )
    }
}

impl Error for UnsupportedType {}

/// A batch that cannot be written as rows: "column `t`, row 3: 9223372036854775807 s do not fit in
/// 64 bits of milliseconds".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    kind: EncodeErrorKind,
}

/// The ways in which a batch cannot be written as rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The rows need more bytes than there may be.
    TooLarge {
        /// Bytes that the arena, or the one row, would have had.
        needed: usize,
        /// Bytes that it may have.
        limit: usize,
    },
    /// As many columns as there are fields are wanted.
    ColumnCount {
        /// Fields of the layout.
        expected: usize,
        /// Columns given.
        found: usize,
    },
    /// A column is not of the declared type.
    Type {
        /// Its name.
        column: String,
        /// The type of the layout.
        expected: DataType,
        /// The type of the array.
        found: DataType,
    },
    /// A column is not as long as the first one.
    Length {
        /// Its name.
        column: String,
        /// Rows of the first column.
        expected: usize,
        /// Rows of this one.
        found: usize,
    },
    /// A value is not one that the layout can hold.
    Value {
        /// The path of its column.
        column: String,
        /// Its row in the batch.
        row: usize,
        /// The value and why it does not fit, as a phrase.
        problem: String,
    },
}

impl EncodeError {
    pub(super) fn new(kind: EncodeErrorKind) -> Self {
        Self { kind }
    }

    /// What is wrong.
    pub fn kind(&self) -> &EncodeErrorKind {
        &self.kind
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            EncodeErrorKind::TooLarge { needed, limit } => {
                write!(
                    f,
                    "rows need {needed} bytes, more than the limit of {limit}"
                )
            }
            EncodeErrorKind::ColumnCount { expected, found } => {
                write!(f, "number of columns is {found}, of fields {expected}")
            }
            EncodeErrorKind::Type {
                column,
                expected,
                found,
            } => {
                write!(
                    f,
                    "column `{column}` is of type {found}, declared as {expected}"
                )
            }
            EncodeErrorKind::Length {
                column,
                expected,
                found,
            } => {
                write!(
                    f,
                    "column `{column}` has {found} rows, the first column {expected}"
                )
            }
            EncodeErrorKind::Value {
                column,
                row,
                problem,
            } => {
                write!(f, "column `{column}`, row {row}: {problem}")
            }
        }
    }
}

impl Error for EncodeError {}

/// Bytes that no readable layout could have written: "slice end at byte 14 is 3 bytes short".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    field: Cow<'static, str>,
    row: Option<usize>,
    at: usize, // bytes from the start of the entry
    kind: DecodeErrorKind,
}

/// The ways in which stored bytes are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// So many bytes are missing.
    Truncated(usize),
    /// A version that nobody here can read.
    UnknownVersion(u8),
    /// The bytes are not what they must be: a phrase such as "is not UTF-8".
    Malformed(&'static str),
    /// Well-formed values that the declared type cannot hold together: what overflows.
    Overflow(&'static str),
}

impl DecodeError {
    /// `missing` bytes of `field`, which starts at byte `at`, are not there.
    ///
    /// ```
    /// # use state_codec::DecodeError;
    /// let error = DecodeError::truncated("slice end", 14, 3);
    /// assert_eq!(error.to_string(), "slice end at byte 14 is 3 bytes short");
    /// ```
    pub fn truncated(field: &'static str, at: usize, missing: usize) -> Self {
        Self::new(field, at, DecodeErrorKind::Truncated(missing))
    }

    /// The version byte `field` at byte `at` is none that is known.
    pub fn unknown_version(field: &'static str, at: usize, found: u8) -> Self {
        Self::new(field, at, DecodeErrorKind::UnknownVersion(found))
    }

    /// `field` at byte `at` is not what it must be; `reason` is a phrase such as "is not UTF-8".
    pub fn malformed(field: &'static str, at: usize, reason: &'static str) -> Self {
        Self::new(field, at, DecodeErrorKind::Malformed(reason))
    }

    pub(super) fn new(
        field: impl Into<Cow<'static, str>>,
        at: usize,
        kind: DecodeErrorKind,
    ) -> Self {
        Self {
            field: field.into(),
            row: None,
            at,
            kind,
        }
    }

    pub(super) fn in_row(mut self, row: usize) -> Self {
        self.row = Some(row);
        self
    }

    /// The same error in an entry where what was read starts at byte `start`.
    ///
    /// ```
    /// # use state_codec::DecodeError;
    /// let error = DecodeError::malformed("row", 8, "is not UTF-8").starting_at(4);
    /// assert_eq!(error.to_string(), "row at byte 12 is not UTF-8");
    /// ```
    #[must_use]
    pub fn starting_at(mut self, start: usize) -> Self {
        self.at = self.at.saturating_add(start);
        self
    }

    /// What was to be read; for a column its path in backquotes.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Where it starts: bytes from the start of the entry.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Which of the rows it is in, where several were decoded at once.
    pub fn row(&self) -> Option<usize> {
        self.row
    }

    /// What is wrong.
    pub fn kind(&self) -> DecodeErrorKind {
        self.kind
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.field, self.at)?;
        if let Some(row) = self.row {
            write!(f, " of row {row}")?;
        }
        match self.kind {
            DecodeErrorKind::Truncated(1) => write!(f, " is 1 byte short"),
            DecodeErrorKind::Truncated(missing) => write!(f, " is {missing} bytes short"),
            DecodeErrorKind::UnknownVersion(found) => write!(f, " has the unknown version {found}"),
            DecodeErrorKind::Malformed(reason) => write!(f, " {reason}"),
            DecodeErrorKind::Overflow(what) => write!(f, " overflows {what}"),
        }
    }
}

impl Error for DecodeError {}
