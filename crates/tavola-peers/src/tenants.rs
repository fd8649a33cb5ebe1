//! Places for the writes that peers forward, shared out between tenants: one that brings too many
//! waits behind itself, and those of others go on. `tavola-fair` has the rule.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tavola_fair::{Line, Stats, Turn, Turns};

/// A write takes one unit, and one more for each of these in its message.
const UNIT_BYTES: usize = 8 * 1024;
/// Half of the time within which a forwarded write must begin; then its sender does it itself.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(500);
/// Lines are kept for good, so there is a bound on them. Tenants beyond it share one.
const TENANTS_MAX: usize = 4096;

/// The places, and the tenants that have used them.
#[derive(Debug)]
pub(crate) struct Tenants {
    writes: Arc<Turns>,
    by_name: Mutex<BTreeMap<String, Arc<Line>>>,
}

impl Tenants {
    /// Of so many writes at a time, each of [`UNIT_BYTES`] at most.
    pub(crate) fn new(places: u64) -> Self {
        Self { writes: Turns::new(places), by_name: Mutex::default() }
    }

    /// A place for a tenant's write; `None` if it has its share already.
    pub(crate) async fn place(&self, tenant: &str, message_bytes: usize) -> Option<Turn> {
        let units = 1 + message_bytes / UNIT_BYTES;
        self.line(tenant).take(units as u64, QUEUE_TIMEOUT).await.ok()
    }

    /// What each tenant has, waited for and was refused.
    pub(crate) fn stats(&self) -> Vec<(String, Stats)> {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        by_name.iter().map(|(name, line)| (name.clone(), line.stats())).collect()
    }

    fn line(&self, tenant: &str) -> Arc<Line> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant =
            if by_name.len() < TENANTS_MAX || by_name.contains_key(tenant) { tenant } else { "" };
        if let Some(line) = by_name.get(tenant) {
            return Arc::clone(line);
        }
        let line = self.writes.line(1);
        by_name.insert(tenant.to_owned(), Arc::clone(&line));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: u64 = 64;

    #[tokio::test(start_paused = true)]
    async fn a_tenant_with_its_share_waits_behind_itself() {
        let tenants = Tenants::new(PLACES);
        let mut held = Vec::new();
        while let Some(turn) = tenants.place("greedy", 100).await {
            held.push(turn);
        }
        assert!(held.len() as u64 > PLACES / 2, "one alone gets most of it");
        assert!(tenants.place("polite", 1 << 20).await.is_some());
        let stats: BTreeMap<String, Stats> = tenants.stats().into_iter().collect();
        assert_eq!((stats["greedy"].refused, stats["polite"].refused), (1, 0));
    }

    #[tokio::test]
    async fn the_number_of_lines_is_bounded() {
        let tenants = Tenants::new(PLACES);
        for tenant in 0..TENANTS_MAX + 10 {
            assert!(tenants.place(&tenant.to_string(), 0).await.is_some());
        }
        assert_eq!(tenants.stats().len(), TENANTS_MAX + 1);
    }
}
