//! Connections by address: one address must not take the places of all others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;

/// Whoever has an IPv6 address has a network of at least so many bits.
const IPV6_NETWORK_BITS: u32 = 64;

/// Open connections by address.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    max: usize,
    /// These stand for all their clients.
    proxies: Arc<Vec<IpNet>>,
    /// As many as there are connections, at most.
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Addresses {
    pub(super) fn new(max: usize, proxies: Vec<IpNet>) -> Self {
        Self { max, proxies: Arc::new(proxies), open: Arc::default() }
    }

    /// A place for one more connection from there, unless there are too many.
    pub(super) fn enter(&self, ip: IpAddr) -> Option<AddressPlace> {
        let ip = ip.to_canonical();
        if self.proxies.iter().any(|proxy| proxy.contains(&ip)) {
            return Some(AddressPlace(None));
        }
        let network = network(ip);
        let mut open = self.lock();
        let count = open.entry(network).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        drop(open);
        Some(AddressPlace(Some((self.clone(), network))))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => {
            let mask = u128::MAX << (u128::BITS - IPV6_NETWORK_BITS);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

/// One connection's place, until it ends.
#[derive(Debug)]
pub(super) struct AddressPlace(Option<(Addresses, IpAddr)>);

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let Some((addresses, network)) = &self.0 else { return };
        let mut open = addresses.lock();
        let Some(count) = open.get_mut(network) else { return };
        *count -= 1;
        if *count == 0 {
            open.remove(network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_bound_and_others_have_theirs() {
        let addresses = Addresses::new(2, vec!["10.0.0.0/8".parse().unwrap()]);
        let held = [
            addresses.enter(ip("192.0.2.1")).unwrap(),
            addresses.enter(ip("::ffff:192.0.2.1")).unwrap(),
        ];
        assert!(addresses.enter(ip("192.0.2.1")).is_none());
        assert!(addresses.enter(ip("192.0.2.2")).is_some());
        let proxied: Vec<_> = (0..5).map(|_| addresses.enter(ip("10.1.2.3")).unwrap()).collect();
        drop((held, proxied));
        assert!(addresses.enter(ip("192.0.2.1")).is_some());
        assert!(addresses.lock().is_empty(), "nothing is kept of those that have gone");
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one() {
        let addresses = Addresses::new(1, Vec::new());
        let _held = addresses.enter(ip("2001:db8::1")).unwrap();
        assert!(addresses.enter(ip("2001:db8::ffff:1")).is_none());
        assert!(addresses.enter(ip("2001:db8:0:1::1")).is_some());
    }
}
