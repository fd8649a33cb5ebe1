//! What both ends of a node's connections need to know of the node itself.

use tavola_store::Peer;

use crate::proof::Secret;
use crate::transport::Transport;

/// This node: its name on the list, the keyspace's secret, and its way to connect.
#[derive(Debug)]
pub(crate) struct LocalNode {
    pub(crate) peer: Peer,
    pub(crate) secret: Secret,
    pub(crate) transport: Transport,
}
