//! The figures that come from rounds of load. One workload may have several.

use tavola_load::Pace;

use crate::args::{Args, Workload};

/// Connections of `batch` and `filter`: eight such requests in flight keep any of the servers busy.
const BATCH_CONNECTIONS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Series {
    Get,
    Point,
    Page,
    Scan,
    Filter,
    Mixed,
    /// The mixed load at half of the rate that the closed loop reached.
    MixedHalf,
    Insert,
    InsertAlone,
    InsertHot,
    Batch,
}

/// What is counted per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Requests,
    Entities,
    /// That were looked at, whether or not they were sent.
    Rows,
}

impl Series {
    /// In the order of measuring: reads first, because writes make the tables larger.
    pub(crate) const ALL: [Self; 11] = [
        Self::Get,
        Self::Point,
        Self::Page,
        Self::Scan,
        Self::Filter,
        Self::Mixed,
        Self::MixedHalf,
        Self::Insert,
        Self::InsertAlone,
        Self::InsertHot,
        Self::Batch,
    ];

    pub(crate) const fn name(self) -> &'static str {
        self.words().0
    }

    pub(crate) const fn title(self) -> &'static str {
        self.words().1
    }

    /// For a picture, where room is short.
    pub(crate) const fn short_title(self) -> &'static str {
        self.words().2
    }

    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Get => ("get", "point GET of a random entity", "point GET"),
            Self::Point => ("page-point", "point GET, one at a time", "point GET, 1 connection"),
            Self::Page => {
                ("page", "page of 1,000 from a random place, one at a time", "page of 1,000")
            }
            Self::Scan => ("scan", "full scan by pages of 1,000", "full scan"),
            Self::Filter => (
                "filter",
                "scan of a large partition for the 1 % that match a property",
                "filter, 1 % match",
            ),
            Self::Mixed => ("mixed", "90 % point GET, 5 % insert, 5 % query of ten rows", "mixed"),
            Self::MixedHalf => {
                ("mixed-half", "the same, open loop at half of that rate", "mixed, half rate")
            }
            Self::Insert => ("insert", "insert of a new entity", "durable insert"),
            Self::InsertAlone => {
                ("insert-alone", "insert of a new entity, one at a time", "insert, 1 connection")
            }
            Self::InsertHot => (
                "insert-hot",
                "insert of a new entity, all into one partition",
                "insert, 1 partition",
            ),
            Self::Batch => ("batch", "batch of 100 inserts", "batch of 100"),
        }
    }

    pub(crate) const fn workload(self) -> Workload {
        match self {
            Self::Get => Workload::Get,
            Self::Point | Self::Page => Workload::Page,
            Self::Scan => Workload::Scan,
            Self::Filter => Workload::Filter,
            Self::Mixed | Self::MixedHalf => Workload::Mixed,
            Self::Insert | Self::InsertAlone | Self::InsertHot => Workload::Insert,
            Self::Batch => Workload::Batch,
        }
    }

    pub(crate) fn connections(self, args: &Args) -> usize {
        match self {
            Self::Get | Self::Insert | Self::InsertHot | Self::Mixed | Self::MixedHalf => {
                usize::from(args.connections)
            }
            Self::Point | Self::Page | Self::Scan | Self::InsertAlone => 1,
            Self::Batch | Self::Filter => BATCH_CONNECTIONS,
        }
    }

    /// `top_rate` is what the closed loop of the same load reached.
    pub(crate) fn pace(self, top_rate: Option<f64>) -> Pace {
        match (self, top_rate) {
            (Self::MixedHalf, Some(rate)) => Pace::PerSecond(rate / 2.0),
            _ => Pace::Closed,
        }
    }

    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::Scan | Self::Batch => Unit::Entities,
            Self::Filter => Unit::Rows,
            _ => Unit::Requests,
        }
    }

    /// What we want to reach at least, as a multiple of another target's rate.
    pub(crate) fn goal(self, rival: &str) -> Option<f64> {
        match (self, rival) {
            (Self::Get, "null") => Some(0.8),
            (Self::Get, "azurite") => Some(30.0),
            (Self::Insert, "engine") => Some(0.7),
            (Self::Insert, "azurite") => Some(15.0),
            (Self::InsertAlone, "engine") => Some(0.85),
            (Self::Batch, "engine") => Some(0.5),
            (Self::Batch, "azurite") => Some(10.0),
            (Self::Scan, "null") => Some(0.6),
            (Self::Scan, "azurite") => Some(40.0),
            (Self::Filter, "engine") => Some(0.5),
            (Self::Mixed, "azurite") => Some(20.0),
            // Less is noise.
            (Self::Get | Self::Insert | Self::Scan | Self::Filter, "before") => Some(0.97),
            _ => None,
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|series| series.name() == name)
    }

    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::InsertAlone | Self::InsertHot | Self::Batch)
    }
}

impl Unit {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests/s",
            Self::Entities => "entities/s",
            Self::Rows => "rows/s",
        }
    }
}
