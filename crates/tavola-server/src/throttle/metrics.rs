//! What operators see of shares.

use std::fmt;
use std::sync::PoisonError;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tavola_core::AccountName;
use tavola_fair::Stats;

use super::Throttle;

/// What each account used, waited for and was refused.
impl Collector for Throttle {
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
