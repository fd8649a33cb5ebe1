//! `[store] kind = "cassandra"`: how a cluster is reached and used.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zeroize::Zeroizing;

use super::{ConfigError, Layers};

/// The risk that peers talk to each other without protection, while a cluster is switched over.
const PLAIN_PEERS: &str = "plain-peers";

/// What a point read promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterReads {
    /// Linearizable.
    Strict,
    /// A quorum's newest row.
    Fast,
}

/// Which writes go to the node that is preferred for their partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterAffinity {
    /// Those of partitions on which writes of several nodes conflicted.
    Contended,
    /// All.
    Always,
}

/// A cluster, as an operator describes it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Nodes to begin with.
    pub contact_points: Vec<String>,
    /// Where the tables of the store are.
    pub keyspace: String,
    /// Whose quorums count; `None`: those of the whole cluster.
    pub data_centre: Option<String>,
    /// Copies in each data centre, for a keyspace that is created.
    pub replication: u8,
    /// Create the keyspace if it does not exist.
    pub create: bool,
    /// Who we are.
    pub user: Option<String>,
    /// Proves it.
    pub password: Zeroizing<String>,
    /// Secure connections.
    pub tls: bool,
    /// Certificates to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Until one statement is answered.
    pub statement_time: Duration,
    /// Until a request is answered, whatever it takes.
    pub answer_time: Duration,
    /// What point reads promise.
    pub reads: ClusterReads,
    /// Writes that may wait for one partition.
    pub waiting_max: usize,
    /// How long tables, policies and properties are remembered.
    pub lease: Duration,
    /// When empty partitions are taken out of the directory.
    pub sweep_after: Duration,
    /// Where other nodes reach this one; `None`: they do not.
    pub peers: Option<SocketAddr>,
    /// What this node and its peers know each other by.
    pub peer_keys: Option<PathBuf>,
    /// Talk to peers beyond this machine without protection too.
    pub accept_plain_peers: bool,
    /// Which writes another node may carry out.
    pub affinity: ClusterAffinity,
    /// Names of findings that do not keep the server from starting.
    pub accepted_risks: Vec<String>,
}

/// Without the password.
impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig")
            .field("contact_points", &self.contact_points)
            .field("keyspace", &self.keyspace)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl ClusterConfig {
    /// Checks the values together.
    ///
    /// # Errors
    /// What is wrong, and where it was set.
    pub fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let optional =
            |path: &str| Some(layers.text(path)).filter(|text| !text.is_empty()).map(str::to_owned);
        let millis = |path| layers.parse_in(path, 10, 600_000).map(Duration::from_millis);
        let contact_points: Vec<String> =
            layers.list("store.contact_points").map(str::to_owned).collect();
        if contact_points.is_empty() {
            return Err(layers
                .error("store.contact_points", "name at least one node, as HOST or HOST:PORT"));
        }
        let ca_file = optional("store.ca_file").map(PathBuf::from);
        let (user, password) = (optional("store.user"), password(layers)?);
        if user.is_none() && !password.is_empty() {
            return Err(
                layers.error("store.password", "a password without a user; set store.user too")
            );
        }
        Ok(Self {
            contact_points,
            keyspace: layers.text("store.keyspace").to_owned(),
            data_centre: optional("store.data_centre"),
            replication: layers.parse_in("store.replication", 1, 9)?,
            create: layers.parse_bool("store.create")?,
            user,
            password,
            tls: layers.parse_bool("store.tls")? || ca_file.is_some(),
            ca_file,
            statement_time: millis("store.statement_ms")?,
            answer_time: millis("store.answer_ms")?,
            reads: reads(layers)?,
            waiting_max: layers.parse_in("store.waiting_max", 1, 1_000_000)?,
            lease: Duration::from_millis(layers.parse_in("store.lease_ms", 0, 60_000)?),
            sweep_after: Duration::from_secs(layers.parse_in("store.sweep_seconds", 1, 86_400)?),
            peers: peers(layers)?,
            peer_keys: optional("store.peer_keys").map(PathBuf::from),
            accept_plain_peers: layers.list("store.accept_risks").any(|risk| risk == PLAIN_PEERS),
            affinity: affinity(layers)?,
            accepted_risks: layers
                .list("store.accept_risks")
                .filter(|risk| *risk != PLAIN_PEERS)
                .map(str::to_owned)
                .collect(),
        })
    }

    /// Refuses to forward writes over a network where others could read and change them. Only for
    /// those who serve: other commands have no peers.
    ///
    /// # Errors
    /// What is missing, and the command that makes it.
    pub fn check_peers(&self, layers: &Layers) -> Result<(), ConfigError> {
        match self.peers {
            Some(address)
                if !address.ip().is_loopback()
                    && self.peer_keys.is_none()
                    && !self.accept_plain_peers =>
            {
                let problem = format!(
                    "{address} is beyond this machine, and there are no keys for peers: others could read and forge what \
                     nodes write for each other. Make keys with `tavola store peer-keys init {address} …` (the addresses of \
                     all nodes) and set store.peer_keys"
                );
                Err(layers.error("store.peers", &problem))
            }
            _ => Ok(()),
        }
    }
}

fn reads(layers: &Layers) -> Result<ClusterReads, ConfigError> {
    match layers.text("store.reads") {
        "strict" => Ok(ClusterReads::Strict),
        "fast" => Ok(ClusterReads::Fast),
        other => Err(layers.error("store.reads", &format!("\"{other}\" is not strict or fast"))),
    }
}

fn affinity(layers: &Layers) -> Result<ClusterAffinity, ConfigError> {
    match layers.text("store.affinity") {
        "contended" => Ok(ClusterAffinity::Contended),
        "always" => Ok(ClusterAffinity::Always),
        other => {
            Err(layers.error("store.affinity", &format!("\"{other}\" is not contended or always")))
        }
    }
}

/// One address to listen on and to tell others.
fn peers(layers: &Layers) -> Result<Option<SocketAddr>, ConfigError> {
    let path = "store.peers";
    if layers.text(path).is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = layers.parse(path)?;
    if address.ip().is_unspecified() {
        return Err(layers.error(
            path,
            "others are told this address: name the one at which they reach this machine",
        ));
    }
    Ok(Some(address))
}

/// From the setting, or from the first line of a file, which is how secrets are mounted.
fn password(layers: &Layers) -> Result<Zeroizing<String>, ConfigError> {
    let (given, file) = (layers.text("store.password"), layers.text("store.password_file"));
    match (given.is_empty(), file.is_empty()) {
        (_, true) => Ok(Zeroizing::new(given.to_owned())),
        (false, false) => {
            Err(layers.error("store.password_file", "store.password is set too; use one of them"))
        }
        (true, false) => read_password(Path::new(file)).map_err(|error| {
            layers.error("store.password_file", &format!("cannot read {file}: {error}"))
        }),
    }
}

fn read_password(file: &Path) -> std::io::Result<Zeroizing<String>> {
    let text = Zeroizing::new(std::fs::read_to_string(file)?);
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}
