//! Which Cassandra node coordinates a statement: for one partition always the same, while it lives.
//!
//! Conditional writes and SERIAL reads of a partition that come through several coordinators
//! contend for it, and time out. The driver does not know which statements of Cassandra are such,
//! and spreads them; so all statements of a partition go to its replicas in the order of the ring,
//! those of our data centre first.

use std::sync::Arc;

use scylla::cluster::{ClusterState, Node, NodeRef};
use scylla::frame::response::result::TableSpec;
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::routing::{Shard, Token};

/// The order of coordinators.
#[derive(Debug)]
pub(crate) struct OneCoordinator {
    pub(crate) data_centre: Option<String>,
}

impl OneCoordinator {
    /// Replicas in the order of the ring, then all other Cassandra nodes; those without a
    /// connection at the end.
    fn order<'a>(
        &'a self,
        request: &RoutingInfo<'_>,
        cluster: &'a ClusterState,
    ) -> Vec<(NodeRef<'a>, Option<Shard>)> {
        let mut order: Vec<(NodeRef<'a>, Option<Shard>)> = Vec::new();
        if let (Some(token), Some(table)) = (request.token, request.table) {
            order.extend(replicas(cluster, table, token).map(|(node, shard)| (node, Some(shard))));
        }
        let others = cluster.get_nodes_info().iter().map(|node| (node, None));
        let others: Vec<_> =
            others.filter(|(node, _)| !order.iter().any(|(known, _)| same(known, node))).collect();
        order.extend(others);
        // Stable: the order of the ring stays within each class.
        order.sort_by_key(|(node, _)| (!node.is_connected(), !self.is_near(node)));
        order
    }

    fn is_near(&self, node: &Node) -> bool {
        self.data_centre.is_none() || node.datacenter == self.data_centre
    }
}

impl LoadBalancingPolicy for OneCoordinator {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo<'_>,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let (Some(token), Some(table)) = (request.token, request.table) else {
            return self.order(request, cluster).into_iter().next();
        };
        // The common case without a list: the first replica lives and is near.
        let first = replicas(cluster, table, token)
            .next()
            .filter(|(node, _)| node.is_connected() && self.is_near(node));
        match first {
            Some((node, shard)) => Some((node, Some(shard))),
            None => self.order(request, cluster).into_iter().next(),
        }
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo<'_>,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        Box::new(self.order(request, cluster).into_iter())
    }

    fn name(&self) -> String {
        "one coordinator per partition".to_owned()
    }
}

fn same(one: &Arc<Node>, other: &Arc<Node>) -> bool {
    one.host_id == other.host_id
}

/// The replicas of a token in the order of the ring.
pub(crate) fn replicas<'a>(
    cluster: &'a ClusterState,
    table: &TableSpec<'_>,
    token: Token,
) -> impl Iterator<Item = (NodeRef<'a>, Shard)> + use<'a> {
    let strategy = cluster.get_keyspace(table.ks_name()).map(|keyspace| &keyspace.strategy);
    let set = strategy
        .map(|strategy| cluster.replica_locator().replicas_for_token(token, strategy, None, table));
    set.into_iter().flat_map(|set| set.into_replicas_ordered())
}
