//! The recorded answers as files write them: types and values, and the shapes of lines.

pub mod format; // which recording a line belongs to
pub mod value; // SQL types and values ↔ Arrow
