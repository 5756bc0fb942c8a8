//! What the crate promises, a module per behaviour.

mod allocations; // nothing is allocated once a zone is made
mod batch; // batches against single values
mod field; // faults that users of other systems have met
mod library; // every zone against the source library
mod model; // the source library, called for each value
mod policies; // the table of differences in the documentation
mod queries; // transitions, fixed stretches and lengths
mod range; // all of 64 bits
mod sources; // identifiers, databases and bytes
mod triggers; // which windows have fired
