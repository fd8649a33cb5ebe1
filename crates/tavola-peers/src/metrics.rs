//! What nodes have done for each other, as metrics.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tavola_fair::Stats;
use tavola_store::backend::{encode_counter, encode_gauge};

use crate::counters::PeerStats;
use crate::store::ForwardingStore;

impl ForwardingStore {
    /// Encodes what nodes have done for each other, for a collector.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn encode_metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.stats().encode(encoder)?;
        encode_tenants(encoder, &self.tenants())
    }
}

impl PeerStats {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let counters = [
            ("tavola_peers_sent", "Writes that another node carried out for this one.", self.sent),
            ("tavola_peers_received", "Writes carried out for other nodes.", self.received),
            ("tavola_peers_declined", "Writes that another node did not begin.", self.declined),
            (
                "tavola_peers_refused",
                "Connections to the port for peers that were refused.",
                self.refused,
            ),
            (
                "tavola_peers_unanswered",
                "Forwarded writes whose outcome is unknown.",
                self.unanswered,
            ),
        ];
        for (name, help, value) in counters {
            encode_counter(encoder, name, help, value)?;
        }
        encode_gauge(encoder, "tavola_peers", "Other nodes that can be reached.", self.present)?;
        let Some(left) = self.certificate_seconds_left else { return Ok(()) };
        let left = u64::try_from(left).unwrap_or_default();
        let help = "Until this node's certificate for peers ends.";
        encode_gauge(encoder, "tavola_peers_certificate_seconds", help, left)
    }
}

/// What accounts have of this node's places for the writes that other nodes forward.
fn encode_tenants(encoder: &mut DescriptorEncoder<'_>, tenants: &[(String, Stats)]) -> fmt::Result {
    let used = ConstGauge::<u64>::new;
    let count = ConstCounter::<u64>::new;
    let help = "Places for forwarded writes that an account holds.";
    encode_family(encoder, "used", help, tenants, |stats| used(stats.used))?;
    let help = "Times that an account waited for one.";
    encode_family(encoder, "waits", help, tenants, |stats| count(stats.waits))?;
    let seconds = |stats: &Stats| ConstCounter::new(stats.wait_time.as_secs_f64());
    encode_family(encoder, "wait_seconds", "Seconds that it waited.", tenants, seconds)?;
    let help = "Times that it was refused one.";
    encode_family(encoder, "refused", help, tenants, |stats| count(stats.refused))
}

fn encode_family<M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    tenants: &[(String, Stats)],
    metric: impl Fn(&Stats) -> M,
) -> fmt::Result {
    let name = format!("tavola_peers_account_{name}");
    let mut family = encoder.encode_descriptor(&name, help, None, M::TYPE)?;
    for (account, stats) in tenants {
        // Another node names the account, so the text may be anything.
        let account = account.replace(['\\', '"', '\n'], "_");
        metric(stats).encode(family.encode_family(&[("account", account)])?)?;
    }
    Ok(())
}
