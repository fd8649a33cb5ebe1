//! Where Cassandra nodes listen: always on this machine, each cluster on addresses of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::shape::{DEFAULT_NAME, Shape};
use crate::failure::{Failure, Result};
use crate::rocksdb::fnv1a;

pub(super) const CQL_PORT: u16 = 9042;
pub(super) const STORAGE_PORT: u16 = 7000;

/// Cassandra binds JMX to 127.0.0.1 and nothing else, so there each node of each cluster needs a
/// port of its own: 16 for each name, below the ports that the system gives out.
const JMX_PORT_FIRST: u16 = 12000;
const JMX_PORTS_OF_A_NAME: u16 = 16;

/// The addresses and ports of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) address: Ipv4Addr,
    pub(super) jmx_port: u16,
}

impl Place {
    /// `number` counts from one, spare nodes after those of the ring.
    pub(super) fn new(name: &str, number: u32) -> Self {
        let block = block(name);
        // A shape has no more nodes than that.
        let number = number.min(JMX_PORTS_OF_A_NAME.into()) as u8;
        let jmx_port =
            JMX_PORT_FIRST + u16::from(block) * JMX_PORTS_OF_A_NAME + u16::from(number) - 1;
        Self { address: Ipv4Addr::new(127, 0, block, number), jmx_port }
    }

    pub(super) fn cql(&self) -> SocketAddr {
        (self.address, CQL_PORT).into()
    }

    /// The group under which the node's process runs, if root starts it: a packet filter recognises
    /// the sender by it. The address does not help, because nodes send from 127.0.0.1. The number
    /// is as unique as the port.
    pub(super) fn group(&self) -> u16 {
        self.jmx_port
    }

    fn listeners(&self) -> [SocketAddr; 3] {
        [
            self.cql(),
            (self.address, STORAGE_PORT).into(),
            (Ipv4Addr::LOCALHOST, self.jmx_port).into(),
        ]
    }

    /// Fails if another process listens where the node will.
    pub(super) fn check_free(&self) -> Result {
        self.listeners().into_iter().try_for_each(check_free)
    }
}

fn check_free(listener: SocketAddr) -> Result {
    TcpListener::bind(listener).map(drop).map_err(|error| {
        Failure::new(format!(
            "a node would listen at {listener}, which cannot be had ({error}): another program is there, or another cluster \
             whose name leads to the same addresses (`cargo xtask cassandra status` lists them); end it, or choose another \
             --name"
        ))
    })
}

/// The third byte of a cluster's addresses: the default's is 127.0.0.x, other names share 254 more.
fn block(name: &str) -> u8 {
    if name == DEFAULT_NAME {
        return 0;
    }
    // Below 255, so the conversion cannot fail.
    u8::try_from(1 + fnv1a([name].into_iter()) % 254).unwrap_or(1)
}

/// All nodes of a cluster, first those of the ring.
pub(super) fn places(shape: &Shape) -> Vec<Place> {
    (1..=shape.nodes + shape.spares).map(|number| Place::new(&shape.name, number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_cluster_is_where_people_look() {
        let shape = Shape::new("dev", 3).unwrap();
        let addresses: Vec<_> =
            places(&shape).iter().map(|place| place.cql().to_string()).collect();
        assert_eq!(addresses, ["127.0.0.1:9042", "127.0.0.2:9042", "127.0.0.3:9042"]);
    }

    #[test]
    fn other_names_have_other_addresses_and_keep_them() {
        let first = Place::new("helper", 1);
        assert_eq!(first, Place::new("helper", 1));
        assert_ne!(first.address.octets()[2], 0);
        assert_ne!(first.address, Place::new("torture", 1).address);
    }

    #[test]
    fn no_two_nodes_share_a_port_and_none_is_seen_from_outside() {
        let mut ports = std::collections::BTreeMap::new();
        for name in (0..2000).map(|number| format!("name-{number}")).chain(["dev".into()]) {
            for number in 1..=16 {
                let place = Place::new(&name, number);
                assert!(place.listeners().iter().all(|listener| listener.ip().is_loopback()));
                assert!(place.jmx_port < 32768);
                let address = ports.entry(place.jmx_port).or_insert(place.address);
                assert_eq!(*address, place.address, "{name} {number}");
            }
        }
        assert_eq!(ports.len(), 255 * 16);
    }

    /// The step `cassandra` runs both at the same time.
    #[test]
    fn the_clusters_of_a_merge_are_apart() {
        let block = |name| Place::new(name, 1).address.octets()[2];
        assert_ne!(block("merge"), block("merge-guarded"));
    }

    #[test]
    fn a_port_in_use_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let failure = check_free(address).unwrap_err().to_string();
        assert!(failure.contains(&address.to_string()), "{failure}");
        // Any port that is free.
        check_free(([127, 0, 0, 1], 0).into()).unwrap();
    }
}
