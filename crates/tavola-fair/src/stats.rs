//! What a tenant had of a resource, for metrics.

use std::time::Duration;

/// One tenant's use of one resource. All but `used` only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Units held now.
    pub used: u64,
    /// Times that it was kept waiting.
    pub waits: u64,
    /// How long, added up.
    pub wait_time: Duration,
    /// Times that it was refused.
    pub refused: u64,
}
