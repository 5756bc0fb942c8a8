//! What recorded trials say: beside targets and floors, beside another record, as a page and as Markdown.

pub mod compare; // two records
pub mod data; // a record by cell
pub mod markdown; // tables for documents
pub mod page; // one page with charts
pub mod targets; // what is to be reached

mod chart; // times as multiples of a floor
