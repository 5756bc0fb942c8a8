//! Rows of bytes in Flink's `BinaryRow` layout, to and from Arrow columns.
//!
//! All numbers are little-endian. Source: what Apache Flink 2.2.1 writes.
//!
//! # A row of `n` fields
//!
//! ```text
//! byte 0              row kind, always 0
//! bit 8 + i           1 if field i is NULL; bits count from the lowest of byte 0
//! ..  h               zeros; h = (n + 8 + 63) / 64 * 8, so 8 up to 56 fields, 16 up to 120
//! h + 8 i  .. + 8     slot of field i; zeros if it is NULL
//! h + 8 n  ..         variable part: pieces in field order, each padded with zeros to 8 bytes
//! ```
//!
//! The row of no fields is 8 zero bytes. Slots and variable pieces by Arrow type:
//!
//! ```text
//! type                             slot                                 variable piece
//! Boolean                          0 or 1 · 0 × 7
//! Int8 Int16 Int32 Int64           two's complement · zeros
//! Date32, Time32(Millisecond)      i32 · 0 × 4
//! Float32, Float64                 IEEE 754 bits as they are · zeros
//! Timestamp(Second | Millisecond)  i64 milliseconds
//! Timestamp(Micro | Nanosecond)    u32 nanos of milli · u32 offset      i64 milliseconds, rounded down
//! Decimal128, precision ≤ 18       i64 unscaled
//! Decimal128, precision > 18       u32 length · u32 offset              big-endian two's complement, as few
//!                                                                       bytes as hold it, zeros up to 16
//! strings, binaries ≤ 7 bytes      the bytes · zeros · 0x80 | length
//! strings, binaries ≥ 8 bytes      u32 length · u32 offset              the bytes
//! List, Struct, Map                u32 length · u32 offset              array, row or map, see below
//! Dictionary                       as its value
//! Null                             zeros, the NULL bit is set
//! ```
//!
//! Offsets count from the start of the row. Floats are not normalised: rows are equal when the bits are.
//!
//! NULL leaves a zero slot and no variable piece, but for [`RowForm::Key`] and the two types
//! `Timestamp(Micro | Nanosecond)` and `Decimal128` of a precision above 18: there the piece of 8 or 16
//! zero bytes is kept and the slot holds its offset.
//!
//! # Nested values
//!
//! A struct is a row as above, its offsets counting from its own first byte. A list is an array:
//!
//! ```text
//! 0 .. 4              number of elements m
//! bit 32 + i          1 if element i is NULL, counted from the lowest bit of byte 0
//! ..  h               zeros; h = 4 + (m + 31) / 32 * 4
//! h + w i  .. + w     slot of element i, the first w bytes of the slot above: 1 for Boolean and Int8,
//!                     2 for Int16, 4 for Int32, Float32, Date32 and Time32, 8 for all others
//! ..                  zeros to a multiple of 8, then the variable part; offsets from the array's start
//! ```
//!
//! A map is `u32` length of the array of keys, that array, the array of values.

mod decode; // rows → columns
mod encode; // columns → rows
mod error; // what is wrong with a type, a value, bytes
mod layout; // fields → where everything is
mod rows; // the arena

pub use self::decode::Value;
pub use self::encode::Select;
pub use self::error::{
    DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, UnsupportedType,
};
pub use self::layout::{RowForm, RowLayout};
pub use self::rows::Rows;
