//! The zones of trials.

use std::fmt;

use serde::Deserialize;

/// A zone of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TrialZone {
    /// Without an offset.
    #[serde(rename = "UTC")]
    Utc,
    /// Of one offset.
    #[serde(rename = "GMT+08:00")]
    Fixed,
    /// With a clock that changes twice a year.
    #[serde(rename = "America/New_York")]
    NewYork,
}

impl TrialZone {
    /// Its identifier.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Utc => "UTC",
            Self::Fixed => "GMT+08:00",
            Self::NewYork => "America/New_York",
        }
    }
}

/// The identifier.
impl fmt::Display for TrialZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
