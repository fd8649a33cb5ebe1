//! What an operator can set of the forwarding: each setting once, with its default and meaning.

use std::net::SocketAddr;
use std::path::PathBuf;

use tavola_store::settings::{OldName, Setting, SettingValues};

use crate::Affinity;

/// Every setting of a node among its peers.
pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "store.peers",
        Some("peers"),
        "IP:PORT",
        "",
        "Address on which this node listens for its peers, to forward writes to contended \
         partitions; empty: no forwarding",
    ),
    Setting::new(
        "store.peer_keys",
        Some("peer-keys"),
        "FOLDER",
        "",
        "Folder with this node's keys for mutual TLS with its peers (`tavola store peer-keys` \
         creates them); required beyond loopback, reloaded when they change",
    ),
    Setting::new(
        "store.affinity",
        None,
        "WORD",
        "contended",
        "Writes that are forwarded to the preferred node of their partition: contended (after \
         nodes conflicted) or always",
    ),
];

/// What settings were called before.
pub const OLD_NAMES: &[OldName] =
    &[OldName { path: "store.neighbours", flag: Some("neighbours"), now: "store.peers" }];

/// A node among its peers, as an operator describes it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where other nodes reach this one; `None`: they do not.
    pub address: Option<SocketAddr>,
    /// What this node and its peers know each other by.
    pub keys: Option<PathBuf>,
    /// Which writes another node may carry out.
    pub affinity: Affinity,
}

impl Config {
    /// Reads and checks the values.
    ///
    /// # Errors
    /// The first value that is wrong.
    pub fn read<V: SettingValues>(values: &V) -> Result<Self, V::Error> {
        let affinities = [("contended", Affinity::Contended), ("always", Affinity::Always)];
        Ok(Self {
            address: address(values)?,
            keys: values.optional("store.peer_keys").map(PathBuf::from),
            affinity: values.parse_word("store.affinity", affinities)?,
        })
    }

    /// Refuses to forward writes over a network where others could read and change them. Only for
    /// those who serve: other commands have no peers.
    ///
    /// # Errors
    /// What is missing, and the command that makes it.
    pub fn check<V: SettingValues>(&self, values: &V, accept_plain: bool) -> Result<(), V::Error> {
        match self.address {
            Some(address)
                if !address.ip().is_loopback() && self.keys.is_none() && !accept_plain =>
            {
                let problem = format!(
                    "{address} is beyond this machine, and there are no keys for peers: others could read and forge what \
                     nodes write for each other. Make keys with `tavola store peer-keys init {address} …` (the addresses of \
                     all nodes) and set store.peer_keys"
                );
                Err(values.error("store.peers", &problem))
            }
            _ => Ok(()),
        }
    }
}

/// One address to listen on and to tell others.
fn address<V: SettingValues>(values: &V) -> Result<Option<SocketAddr>, V::Error> {
    let path = "store.peers";
    if values.text(path).is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = values.parse(path)?;
    if address.ip().is_unspecified() {
        let problem = "others are told this address: name the one at which they reach this machine";
        return Err(values.error(path, problem));
    }
    Ok(Some(address))
}
