//! The figures that come from rounds of load. One workload may have several.

use crate::args::{Args, Workload};

/// Connections of `batch`: 800 entities in flight keep any of the servers busy.
const BATCH_CONNECTIONS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Series {
    Get,
    Point,
    Page,
    Scan,
    Insert,
    Batch,
}

/// What is counted per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Requests,
    Entities,
}

impl Series {
    /// In the order of measuring: reads first, because writes make the tables larger.
    pub(crate) const ALL: [Self; 6] = [Self::Get, Self::Point, Self::Page, Self::Scan, Self::Insert, Self::Batch];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Point => "page-point",
            Self::Page => "page",
            Self::Scan => "scan",
            Self::Insert => "insert",
            Self::Batch => "batch",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Get => "point GET of a random entity",
            Self::Point => "point GET, one at a time",
            Self::Page => "page of 1,000 from a random place, one at a time",
            Self::Scan => "full scan by pages of 1,000",
            Self::Insert => "insert of a new entity",
            Self::Batch => "batch of 100 inserts",
        }
    }

    /// For a picture, where room is short.
    pub(crate) const fn short_title(self) -> &'static str {
        match self {
            Self::Get => "point GET",
            Self::Point => "point GET, 1 connection",
            Self::Page => "page of 1,000",
            Self::Scan => "full scan",
            Self::Insert => "durable insert",
            Self::Batch => "batch of 100",
        }
    }

    pub(crate) const fn workload(self) -> Workload {
        match self {
            Self::Get => Workload::Get,
            Self::Point | Self::Page => Workload::Page,
            Self::Scan => Workload::Scan,
            Self::Insert => Workload::Insert,
            Self::Batch => Workload::Batch,
        }
    }

    pub(crate) fn connections(self, args: &Args) -> usize {
        match self {
            Self::Get | Self::Insert => usize::from(args.connections),
            Self::Point | Self::Page | Self::Scan => 1,
            Self::Batch => BATCH_CONNECTIONS,
        }
    }

    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::Get | Self::Point | Self::Page | Self::Insert => Unit::Requests,
            Self::Scan | Self::Batch => Unit::Entities,
        }
    }

    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::Batch)
    }
}

impl Unit {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests/s",
            Self::Entities => "entities/s",
        }
    }
}
