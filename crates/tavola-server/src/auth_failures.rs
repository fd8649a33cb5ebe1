//! Failed authentication, counted by address. An address that fails often waits for the answers to
//! its failures, and the operator is told.
//!
//! Only failures wait. Nothing is kept about accounts, so nobody can lock anybody out; a good
//! credential from the same address is served as ever. Memory and waiting requests are bounded:
//! beyond the bounds nobody waits.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tavola_protocol::DenyReason;
use tavola_store::backend::encode_counter;
use tokio::sync::Semaphore;

use crate::config::AuthFailureLimits;

/// How long failures are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are counted at a time. Beyond them those with the fewest failures are forgotten.
const SOURCES_MAX: usize = 4096;
/// Answers that wait at a time. Each holds a connection or a stream, and nothing of its request.
const DELAYED_MAX: usize = 256;
/// Addresses that get a line of their own in a window; the others are in the line at its end.
const WARNINGS_MAX: usize = 8;
/// Addresses that are named in the line at the end of a window.
const TOP_SOURCES: usize = 5;
/// A network of one subscriber, who has 2^64 addresses in it.
const IPV6_NETWORK_BITS: u32 = 64;

/// Counts failures, and keeps answers to them waiting.
#[derive(Debug)]
pub(crate) struct AuthFailures {
    limits: AuthFailureLimits,
    window: Mutex<Window>,
    places: Semaphore,
    delayed: AtomicU64,
}

/// The failures of a minute.
#[derive(Debug, Default)]
struct Window {
    /// Somebody waits for its end.
    is_open: bool,
    failures: u64,
    sources: HashMap<IpAddr, u32>,
    warnings: usize,
}

impl AuthFailures {
    pub(crate) fn new(limits: AuthFailureLimits) -> Self {
        let (window, places) = (Mutex::default(), Semaphore::new(DELAYED_MAX));
        Self { limits, window, places, delayed: AtomicU64::new(0) }
    }

    /// Counts a failure, and returns when its answer may be sent.
    pub(crate) async fn wait(self: &Arc<Self>, client: IpAddr, reason: DenyReason) {
        if !counts(reason) || !self.count(client, reason) {
            return;
        }
        let Ok(_place) = self.places.try_acquire() else { return };
        self.delayed.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.limits.delay).await;
    }

    /// True if the answer has to wait.
    fn count(self: &Arc<Self>, client: IpAddr, reason: DenyReason) -> bool {
        let source = network(client);
        let mut window = self.window();
        if !window.is_open {
            window.is_open = true;
            let failures = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(WINDOW).await;
                failures.close_window();
            });
        }
        let count = window.add(source);
        let threshold = self.limits.per_minute;
        if threshold > 0 && count == threshold.saturating_add(1) && window.warnings < WARNINGS_MAX {
            window.warnings += 1;
            drop(window);
            let last = reason.name();
            tracing::warn!(%source, last, "authentication failed {threshold} times within a minute");
        }
        // A proxy on this machine that nobody named in server.trusted_proxies has everybody behind
        // it.
        threshold > 0 && count > threshold && !source.is_loopback()
    }

    fn close_window(&self) {
        let ended = std::mem::take(&mut *self.window());
        if self.limits.per_minute == 0 || ended.failures <= u64::from(self.limits.per_minute) {
            return;
        }
        let (failures, addresses) = (ended.failures, ended.sources.len());
        tracing::warn!(
            failures,
            addresses,
            most = ended.top(),
            "authentication failed often in the last minute"
        );
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for AuthFailures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Answers to failed authentication that had to wait.";
        let delayed = self.delayed.load(Ordering::Relaxed);
        encode_counter(&mut encoder, "tavola_authentication_delayed", help, delayed)
    }
}

impl Window {
    fn add(&mut self, source: IpAddr) -> u32 {
        self.failures += 1;
        if !self.sources.contains_key(&source) {
            self.make_room();
        }
        let count = self.sources.entry(source).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Halving takes out those with the fewest failures, and costs each failure a constant time in
    /// the long run.
    fn make_room(&mut self) {
        while self.sources.len() >= SOURCES_MAX {
            self.sources.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
        }
    }

    /// `203.0.113.7 (812), 198.51.100.4 (120)`
    fn top(&self) -> String {
        let mut sources: Vec<_> = self.sources.iter().collect();
        sources.sort_unstable_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
        let named = sources
            .into_iter()
            .take(TOP_SOURCES)
            .map(|(source, count)| format!("{source} ({count})"));
        named.collect::<Vec<_>>().join(", ")
    }
}

/// Clients ask without credentials to find out where to get some; who does that guesses nothing.
fn counts(reason: DenyReason) -> bool {
    reason == DenyReason::UnknownAccount
        || reason.is_authentication() && reason != DenyReason::Missing
}

/// Whom failures are counted for: an IPv4 address, or the network of an IPv6 address.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let mask = u128::MAX << (Ipv6Addr::BITS - IPV6_NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::time::Instant;

    use super::*;

    const DELAY: Duration = Duration::from_secs(1);

    fn failures(per_minute: u32) -> Arc<AuthFailures> {
        Arc::new(AuthFailures::new(AuthFailureLimits { per_minute, delay: DELAY }))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    async fn waited(failures: &Arc<AuthFailures>, client: &str, reason: DenyReason) -> Duration {
        let before = Instant::now();
        failures.wait(ip(client), reason).await;
        before.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn only_those_who_fail_often_wait_and_only_for_a_minute() {
        let failures = failures(3);
        for _ in 0..3 {
            assert_eq!(
                waited(&failures, "203.0.113.7", DenyReason::Signature).await,
                Duration::ZERO
            );
        }
        assert_eq!(waited(&failures, "203.0.113.7", DenyReason::Expired).await, DELAY);
        assert_eq!(waited(&failures, "203.0.113.7", DenyReason::UnknownAccount).await, DELAY);
        assert_eq!(waited(&failures, "203.0.113.7", DenyReason::Missing).await, Duration::ZERO);
        assert_eq!(waited(&failures, "203.0.113.7", DenyReason::Permission).await, Duration::ZERO);
        assert_eq!(waited(&failures, "203.0.113.8", DenyReason::Signature).await, Duration::ZERO);
        assert_eq!(failures.delayed.load(Ordering::Relaxed), 2);
        tokio::time::sleep(WINDOW).await;
        assert_eq!(waited(&failures, "203.0.113.7", DenyReason::Signature).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_ipv6_is_one_source_and_loopback_never_waits() {
        let failures = failures(1);
        assert_eq!(
            waited(&failures, "2001:db8:0:1::7", DenyReason::Signature).await,
            Duration::ZERO
        );
        assert_eq!(waited(&failures, "2001:db8:0:1:ffff::8", DenyReason::Signature).await, DELAY);
        assert_eq!(
            waited(&failures, "2001:db8:0:2::7", DenyReason::Signature).await,
            Duration::ZERO
        );
        assert_eq!(
            waited(&failures, "::ffff:192.0.2.1", DenyReason::Signature).await,
            Duration::ZERO
        );
        assert_eq!(waited(&failures, "192.0.2.1", DenyReason::Signature).await, DELAY);
        for client in ["127.0.0.1", "::1"] {
            for _ in 0..5 {
                assert_eq!(waited(&failures, client, DenyReason::Signature).await, Duration::ZERO);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn zero_means_that_nobody_waits() {
        let failures = failures(0);
        for _ in 0..1000 {
            assert_eq!(
                waited(&failures, "203.0.113.7", DenyReason::Signature).await,
                Duration::ZERO
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_places_nobody_waits() {
        let failures = failures(1);
        waited(&failures, "203.0.113.7", DenyReason::Signature).await;
        let waiting: Vec<_> = (0..2 * DELAYED_MAX)
            .map(|_| {
                let failures = Arc::clone(&failures);
                tokio::spawn(async move {
                    failures.wait(ip("203.0.113.7"), DenyReason::Signature).await
                })
            })
            .collect();
        for one in waiting {
            one.await.unwrap();
        }
        assert_eq!(failures.delayed.load(Ordering::Relaxed), DELAYED_MAX as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_take_bounded_memory_and_hide_nobody_who_is_louder() {
        let failures = failures(100);
        for number in 0..100_000u32 {
            failures.count(
                IpAddr::V4(Ipv4Addr::from_bits(number | 0x0a00_0000)),
                DenyReason::Signature,
            );
            failures.count(ip("203.0.113.7"), DenyReason::Signature);
            assert!(failures.window().sources.len() <= SOURCES_MAX);
        }
        assert!(
            failures.window().top().starts_with("203.0.113.7 ("),
            "{}",
            failures.window().top()
        );
        assert!(failures.count(ip("203.0.113.7"), DenyReason::Signature));
    }
}
