//! Rows of bytes in Flink's `BinaryRow` layout, to and from Arrow columns.
//!
//! The layouts are drawn at [`RowLayout`].

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
