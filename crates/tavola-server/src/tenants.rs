//! What each account has of the server's bounded resources: see `tavola-fair` for the rule.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tavola_core::AccountName;
use tavola_fair::{Line, Member, Pool, Stats, Turns};

use crate::config::Limits;

/// Work that a store has in hand at the same time, in units of [`WRITE_UNIT_BYTES`]: enough to fill
/// the groups of a group commit, and so little that a write behind all of it is not late.
const WRITE_UNITS: u64 = 2048;
/// A write takes one unit, and one more for each of these in its body.
const WRITE_UNIT_BYTES: u64 = 2 * 1024;

/// The resources, and the accounts that have used them.
#[derive(Debug)]
pub(crate) struct Tenants {
    requests: Arc<Pool>,
    bodies: Arc<Pool>,
    queries: Arc<Turns>,
    writes: Arc<Turns>,
    by_account: Mutex<BTreeMap<AccountName, Arc<Tenant>>>,
}

/// One account.
#[derive(Debug)]
pub(crate) struct Tenant {
    /// Requests in flight.
    pub(crate) requests: Arc<Member>,
    /// Bytes of bodies.
    pub(crate) bodies: Arc<Member>,
    /// Queries being answered.
    pub(crate) queries: Arc<Line>,
    /// Writes that the store has in hand.
    pub(crate) writes: Arc<Line>,
}

impl Tenants {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            requests: Pool::new(limits.requests_in_flight as u64),
            bodies: Pool::new(limits.body_memory_bytes as u64),
            queries: Turns::new(limits.queries as u64),
            writes: Turns::new(WRITE_UNITS),
            by_account: Mutex::default(),
        }
    }

    /// The tenant of that name, the same one however often the configuration is read.
    pub(crate) fn of(&self, account: &AccountName, weight: u32) -> Arc<Tenant> {
        let mut by_account = self.by_account.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = by_account.entry(account.clone()).or_insert_with(|| {
            Arc::new(Tenant {
                requests: self.requests.member(weight),
                bodies: self.bodies.member(weight),
                queries: self.queries.line(weight),
                writes: self.writes.line(weight),
            })
        });
        tenant.set_weight(weight);
        Arc::clone(tenant)
    }
}

/// What each account used, waited for and was refused.
impl Collector for Tenants {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let by_account = self.by_account.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all: Vec<_> = by_account.iter().map(|(name, tenant)| (name, tenant.stats())).collect();
        let help = "What an account holds of a shared resource: requests, body bytes, queries, \
                    units of writes.";
        let used = |stats: &Stats| ConstGauge::new(stats.used);
        encode_family(&mut encoder, "tavola_account_used", help, &all, used)?;
        let help = "Times that an account waited for its share of a resource.";
        let waits = |stats: &Stats| ConstCounter::new(stats.waits);
        encode_family(&mut encoder, "tavola_account_waits", help, &all, waits)?;
        let help = "Seconds that an account waited for its share of a resource.";
        let seconds = |stats: &Stats| ConstCounter::new(stats.wait_time.as_secs_f64());
        encode_family(&mut encoder, "tavola_account_wait_seconds", help, &all, seconds)?;
        let help = "Times that an account was refused because it had its share of a resource.";
        let refused = |stats: &Stats| ConstCounter::new(stats.refused);
        encode_family(&mut encoder, "tavola_account_refused", help, &all, refused)
    }
}

/// One metric of every account and resource.
fn encode_family<M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    all: &[(&AccountName, [(&'static str, Stats); 4])],
    metric: impl Fn(&Stats) -> M,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (account, resources) in all {
        for (resource, stats) in resources {
            let labels = [("account", account.as_str()), ("resource", *resource)];
            metric(stats).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

impl Tenant {
    fn set_weight(&self, weight: u32) {
        self.requests.set_weight(weight);
        self.bodies.set_weight(weight);
        self.queries.set_weight(weight);
        self.writes.set_weight(weight);
    }

    fn stats(&self) -> [(&'static str, Stats); 4] {
        [
            ("requests", self.requests.stats()),
            ("body_bytes", self.bodies.stats()),
            ("queries", self.queries.stats()),
            ("writes", self.writes.stats()),
        ]
    }
}

/// What a write with a body of this size takes of [`Tenant::writes`].
pub(crate) fn write_units(body_bytes: u64) -> u64 {
    1 + body_bytes / WRITE_UNIT_BYTES
}
