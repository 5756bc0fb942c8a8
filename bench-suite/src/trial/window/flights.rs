//! Recorded windows over the flights.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use window_shared::Windows;

use crate::conform::flight_windows;
use crate::flights;

/// Windows of flights per origin in New York's time: of a day, of six hours every hour, of a day by the hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum FlightWindows {
    /// TUMBLE of a day.
    #[serde(rename = "tumble-1d")]
    Tumble,
    /// HOP of six hours every hour.
    #[serde(rename = "hop-6h-1h")]
    Hop,
    /// CUMULATE up to a day in steps of an hour.
    #[serde(rename = "cumulate-1d-1h")]
    Cumulate,
}

impl FlightWindows {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Tumble, Self::Hop, Self::Cumulate];

    fn name(self) -> &'static str {
        match self {
            Self::Tumble => "tumble-1d",
            Self::Hop => "hop-6h-1h",
            Self::Cumulate => "cumulate-1d-1h",
        }
    }

    pub(crate) fn windows(self) -> Windows {
        flight_windows::of_name(&format!("{}.csv", self.name())).expect("the name says which")
    }

    pub(crate) fn recording(self) -> PathBuf {
        flights::repository_changelog().with_file_name(format!("{}.csv.gz", self.name()))
    }
}

impl fmt::Display for FlightWindows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flights/{}", self.name())
    }
}
