//! Windowed queries as they were recorded: typed cases, their rows as Arrow batches, an obvious model
//! of what the queries mean, and the comparison of an answer with the recorded one.

pub mod aggregate; // the model's aggregates
pub mod arrow; // rows ↔ record batches
pub mod case; // lines of a recording
pub mod cell; // values, with exact equality
pub mod check; // an answer against the recorded one
pub mod model; // which rows a query of the plain form gives, and when
mod run; // queries through the product
mod slices; // assigners of slices

pub use self::case::WindowCase;
pub use self::cell::Cell;
pub(crate) use self::run::windowed;
pub(crate) use self::slices::slices;

#[cfg(test)]
mod tests;
