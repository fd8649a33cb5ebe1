//! Proxies in front of the server: whose word about clients counts.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{ConfigError, Layers};
use tavola_store::SettingValues as _;

/// The proxies whose `X-Forwarded-*` headers count.
pub(super) fn trusted_proxies(layers: &Layers) -> Result<Vec<IpNet>, ConfigError> {
    let problem =
        |text: &str| format!("\"{text}\" is not an address or a range such as 10.0.0.0/8");
    layers
        .list("server.trusted_proxies")
        .map(|text| {
            ip_range(text).ok_or_else(|| layers.error("server.trusted_proxies", &problem(text)))
        })
        .collect()
}

/// `10.0.0.0/8`, or one address.
#[must_use]
pub fn ip_range(text: &str) -> Option<IpNet> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(|ip| IpNet::from(ip.to_canonical())))
}
