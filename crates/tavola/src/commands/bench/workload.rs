//! What can be measured.

use tavola_load::MATCHES_ONE_OF;

/// Connections of `batch`: 800 entities in flight keep any server busy.
const BATCH_CONNECTIONS: usize = 8;

/// One kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    Get,
    Scan,
    Filter,
    Mixed,
    Insert,
    Batch,
}

impl Workload {
    /// In the order of measuring: reads first, because writes make the table larger.
    pub(super) const ALL: [Self; 6] =
        [Self::Get, Self::Scan, Self::Filter, Self::Mixed, Self::Insert, Self::Batch];
    /// Those that are measured if none is named.
    pub(super) const USUAL: [Self; 5] =
        [Self::Get, Self::Scan, Self::Mixed, Self::Insert, Self::Batch];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Scan => "scan",
            Self::Filter => "filter",
            Self::Mixed => "mixed",
            Self::Insert => "insert",
            Self::Batch => "batch",
        }
    }

    /// How many of the connections it uses. A scan knows its next page only from the one before.
    pub(super) fn connections(self, most: usize) -> usize {
        match self {
            Self::Get | Self::Mixed | Self::Insert => most,
            Self::Batch => most.min(BATCH_CONNECTIONS),
            Self::Scan | Self::Filter => 1,
        }
    }

    /// What is counted per second.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Get | Self::Mixed | Self::Insert => "requests",
            Self::Scan | Self::Batch => "entities",
            // That were looked at, whether or not they were sent.
            Self::Filter => "rows",
        }
    }

    /// The amount of that unit in so many replies.
    pub(super) fn count(self, requests: u64, entities: u64) -> u64 {
        match self {
            Self::Get | Self::Mixed | Self::Insert => requests,
            Self::Scan | Self::Batch => entities,
            Self::Filter => entities * MATCHES_ONE_OF,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Workload;

    #[test]
    fn each_counts_what_its_unit_says() {
        let counted = Workload::ALL.map(|workload| (workload.unit(), workload.count(3, 30)));
        let expected = [
            ("requests", 3),
            ("entities", 30),
            ("rows", 3_000),
            ("requests", 3),
            ("requests", 3),
            ("entities", 30),
        ];
        assert_eq!(counted, expected);
        assert_eq!(Workload::ALL.map(|workload| workload.connections(64)), [64, 1, 1, 64, 64, 8]);
        assert_eq!(Workload::ALL.map(|workload| workload.connections(2)), [2, 1, 1, 2, 2, 2]);
    }
}
