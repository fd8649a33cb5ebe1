//! `tavola store peer-keys`: what the nodes of a cluster prove to each other which nodes they are
//! with.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tavola_peers::authority::{Authority, AuthorityError, certified_node};
use tavola_peers::keys::{CERTIFICATE_FILE, KEY_FILE, TRUST_FILE};
use zeroize::Zeroizing;

use crate::commands::described;
use crate::exit::Failure;
use crate::new_file::NewFile;

/// The authority's key and certificate; during a rotation also those of its predecessor, which
/// stays valid.
const AUTHORITY_FILE: &str = "authority.pem";
/// An authority outlives many certificates of nodes.
const AUTHORITY_DAYS: u32 = 3650;
const NODE_DAYS: &str = "825";

const ABOUT: &str =
    "Create the keys for mutual TLS between the nodes of a cluster (store.peer_keys)";
const EXAMPLES: &str = "\
Examples:
  tavola store peer-keys init 10.0.1.7:10010 10.0.1.8:10010
      An authority of the cluster's own, and a folder for each node
  tavola store peer-keys issue 10.0.1.9:10010
      A folder for another node, or a new certificate for one whose certificate ends
  tavola store peer-keys rotate
      A new authority and new keys for all nodes; the old ones stay valid until `rotate --finish`";
const AFTER: &str = "\
The addresses are those of store.peers. Copy only its own folder to each node.

Exit codes: 0 done, 1 a file cannot be written, 2 wrong usage.";

pub(crate) fn command() -> Command {
    described("peer-keys", ABOUT, EXAMPLES)
        .after_help(AFTER)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(with_nodes(
            Command::new("init").about("Create an authority, and the keys of the named nodes"),
        ))
        .subcommand(with_nodes(
            Command::new("issue").about("Create keys for the named nodes, known or new"),
        ))
        .subcommand(with_folder(
            Command::new("rotate")
                .about("Replace the authority and the keys of all nodes, without downtime")
                .arg(Arg::new("finish").long("finish").action(ArgAction::SetTrue).help(
                    "The second step, once all nodes have their new folders: the old keys become \
                     invalid",
                )),
        ))
}

fn with_nodes(command: Command) -> Command {
    let nodes = Arg::new("node")
        .value_name("IP:PORT")
        .required(true)
        .action(ArgAction::Append)
        .value_parser(node_address)
        .help("A node's store.peers");
    with_folder(command.arg(nodes))
}

fn with_folder(command: Command) -> Command {
    command
        .arg(
            Arg::new("folder")
                .long("folder")
                .value_name("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .default_value("tavola-peer-keys")
                .help("Folder of the authority and of all nodes"),
        )
        .arg(
            Arg::new("days")
                .long("days")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=i64::from(AUTHORITY_DAYS)))
                .default_value(NODE_DAYS)
                .help("Days until certificates of nodes expire"),
        )
}

/// An address that others can connect to.
fn node_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "not IP:PORT, as 10.0.1.7:10010 or [fd00::7]:10010".to_owned())?;
    if address.ip().is_unspecified() || address.port() == 0 {
        return Err("no address that other nodes can connect to".to_owned());
    }
    Ok(address)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("init", matches)) => init(matches),
        Some(("issue", matches)) => issue(matches),
        Some(("rotate", matches)) if matches.get_flag("finish") => finish_rotation(matches),
        Some(("rotate", matches)) => begin_rotation(matches),
        _ => unreachable!("clap asks for a known command"),
    }
}

fn init(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = Folder::of(matches);
    if folder.authority_file().symlink_metadata().is_ok() {
        let file = folder.authority_file();
        return Err(Failure::Usage(format!(
            "{} exists: add nodes with `tavola store peer-keys issue`, or replace all keys with \
             `rotate`",
            file.display()
        )));
    }
    let keys = ClusterKeys {
        authority: Authority::create(AUTHORITY_DAYS).map_err(failed)?,
        rotation: None,
    };
    folder.write_authority(&keys)?;
    let nodes = nodes_of(matches);
    folder.write_nodes(&keys, &nodes)?;
    folder.print_next_steps(&nodes);
    Ok(())
}

fn issue(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = Folder::of(matches);
    let keys = folder.read_authority()?;
    let nodes = nodes_of(matches);
    folder.write_nodes(&keys, &nodes)?;
    folder.print_next_steps(&nodes);
    Ok(())
}

fn begin_rotation(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = Folder::of(matches);
    let ClusterKeys { authority: previous, rotation } = folder.read_authority()?;
    if rotation.is_some() {
        return Err(Failure::Usage(
            "a rotation is in progress: once every node has its new folder, run `tavola store \
             peer-keys rotate --finish`"
                .to_owned(),
        ));
    }
    let nodes = folder.nodes()?;
    let authority = Authority::create(AUTHORITY_DAYS).map_err(failed)?;
    let bridge = previous.cross_sign(&authority, AUTHORITY_DAYS).map_err(failed)?;
    let rotation = Some(Rotation { bridge, previous: previous.certificate().to_owned() });
    let keys = ClusterKeys { authority, rotation };
    folder.write_authority(&keys)?;
    folder.write_nodes(&keys, &nodes)?;
    folder.print_copies(&nodes);
    println!("Nodes accept old and new keys meanwhile. When all have the new ones, run");
    println!("  tavola store peer-keys rotate --finish --folder {}", folder.path.display());
    println!(
        "and copy the folders once more; from then on the old keys, also stolen ones, are invalid."
    );
    Ok(())
}

fn finish_rotation(matches: &ArgMatches) -> Result<(), Failure> {
    let folder = Folder::of(matches);
    let ClusterKeys { authority, rotation } = folder.read_authority()?;
    if rotation.is_none() {
        return Err(Failure::Usage(
            "no rotation is in progress: `tavola store peer-keys rotate` starts one".to_owned(),
        ));
    }
    let keys = ClusterKeys { authority, rotation: None };
    let nodes = folder.nodes()?;
    folder.write_authority(&keys)?;
    folder.write_nodes(&keys, &nodes)?;
    folder.print_copies(&nodes);
    println!("A node accepts the old keys until it has these.");
    Ok(())
}

fn nodes_of(matches: &ArgMatches) -> Vec<SocketAddr> {
    let mut nodes: Vec<SocketAddr> =
        matches.get_many("node").into_iter().flatten().copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn failed(error: AuthorityError) -> Failure {
    Failure::System(error.to_string())
}

/// The authority, and what lets nodes of its predecessor know its own.
struct ClusterKeys {
    authority: Authority,
    rotation: Option<Rotation>,
}

struct Rotation {
    /// The new authority's certificate, signed by the old one.
    bridge: String,
    /// The old authority's certificate.
    previous: String,
}

impl ClusterKeys {
    /// In one file, so that it is replaced in one step.
    fn encode(&self) -> Zeroizing<String> {
        let mut text = self.authority.key();
        text.push_str(self.authority.certificate());
        if let Some(rotation) = &self.rotation {
            text.push_str(&rotation.bridge);
            text.push_str(&rotation.previous);
        }
        text
    }

    fn decode(text: &str) -> Result<Self, String> {
        let blocks: Vec<&str> = pem_blocks(text).collect();
        let (authority, rotation) = match blocks[..] {
            [key, certificate] => (Authority::read(certificate, key), None),
            [key, certificate, bridge, previous] => {
                let rotation =
                    Rotation { bridge: bridge.to_owned(), previous: previous.to_owned() };
                (Authority::read(certificate, key), Some(rotation))
            }
            _ => return Err("it does not contain a key and its certificate".to_owned()),
        };
        Ok(Self { authority: authority.map_err(|error| error.to_string())?, rotation })
    }

    /// What a node trusts.
    fn trust(&self) -> String {
        let previous = self.rotation.as_ref().map(|rotation| rotation.previous.as_str());
        [Some(self.authority.certificate()), previous].into_iter().flatten().collect()
    }

    /// A node's certificate, with what leads from it to an authority that others trust.
    fn chain(&self, certificate: String) -> String {
        certificate + self.rotation.as_ref().map_or("", |rotation| &rotation.bridge)
    }
}

/// The PEM blocks of a text, each with its own end of line.
fn pem_blocks(text: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "-----BEGIN ";
    let starts: Vec<usize> = text.match_indices(BEGIN).map(|(at, _)| at).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(move |(start, end)| &text[start..end])
}

/// Where the keys of a cluster are kept.
struct Folder<'a> {
    path: &'a Path,
    days: u32,
}

impl<'a> Folder<'a> {
    fn of(matches: &'a ArgMatches) -> Self {
        let path = matches.get_one::<PathBuf>("folder").expect("it has a default");
        Self { path, days: *matches.get_one("days").expect("it has a default") }
    }

    fn authority_file(&self) -> PathBuf {
        self.path.join(AUTHORITY_FILE)
    }

    /// Colons are not for names of files.
    fn node_folder(&self, node: SocketAddr) -> PathBuf {
        self.path.join(format!("{}_{}", node.ip().to_string().replace(':', "-"), node.port()))
    }

    fn read_authority(&self) -> Result<ClusterKeys, Failure> {
        let file = self.authority_file();
        let unusable = |problem: String| {
            Failure::Usage(format!(
                "{}: {problem}; `tavola store peer-keys init` creates one, and --folder names its \
                 folder",
                file.display()
            ))
        };
        let text = std::fs::read_to_string(&file).map_err(|error| unusable(error.to_string()))?;
        ClusterKeys::decode(&Zeroizing::new(text)).map_err(unusable)
    }

    fn write_authority(&self, keys: &ClusterKeys) -> Result<(), Failure> {
        make_folder(self.path)?;
        write(NewFile::secret(self.authority_file(), keys.encode()))?;
        println!(
            "wrote {}: it can issue a certificate for any node, so keep it off the nodes",
            self.authority_file().display()
        );
        Ok(())
    }

    /// The nodes that have a folder here.
    fn nodes(&self) -> Result<Vec<SocketAddr>, Failure> {
        let entries =
            std::fs::read_dir(self.path).map_err(|error| cannot("read", self.path, &error))?;
        let folders =
            entries.filter_map(Result::ok).map(|entry| entry.path().join(CERTIFICATE_FILE));
        let certificates = folders.filter_map(|file| std::fs::read_to_string(file).ok());
        let mut nodes: Vec<_> = certificates.filter_map(|pem| certified_node(&pem)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() {
            return Err(Failure::Usage(format!(
                "{} contains no folder of a node",
                self.path.display()
            )));
        }
        Ok(nodes)
    }

    fn write_nodes(&self, keys: &ClusterKeys, nodes: &[SocketAddr]) -> Result<(), Failure> {
        for node in nodes {
            let issued = keys.authority.issue(*node, self.days).map_err(failed)?;
            let folder = self.node_folder(*node);
            make_folder(&folder)?;
            // The key last: a node that watches this very folder uses nothing that does not fit
            // together.
            write(NewFile::secret(folder.join(TRUST_FILE), Zeroizing::new(keys.trust())))?;
            write(NewFile::secret(
                folder.join(CERTIFICATE_FILE),
                Zeroizing::new(keys.chain(issued.certificate)),
            ))?;
            write(NewFile::secret(folder.join(KEY_FILE), issued.key))?;
            println!(
                "wrote {} for the node at {node}, valid for {} days",
                folder.display(),
                self.days
            );
        }
        Ok(())
    }

    fn print_copies(&self, nodes: &[SocketAddr]) {
        println!();
        println!("Copy each node's folder over the one that it has, for example:");
        for node in nodes {
            println!(
                "  scp {}/* {}:/etc/tavola/peer-keys/",
                self.node_folder(*node).display(),
                node.ip()
            );
        }
        println!("A running node loads the new files within seconds, without a restart.");
    }

    fn print_next_steps(&self, nodes: &[SocketAddr]) {
        println!();
        println!("Copy each folder to its node, readable only by the server's user, for example:");
        for node in nodes {
            println!(
                "  scp -rp {} {}:/etc/tavola/peer-keys",
                self.node_folder(*node).display(),
                node.ip()
            );
        }
        println!(
            "Then set in each node's tavola.toml, and restart it (a node with keys reloads them \
             by itself):"
        );
        println!("  [store]");
        println!("  peers = \"IP:PORT\"                        # its own, as above");
        println!("  peer_keys = \"/etc/tavola/peer-keys\"");
    }
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| cannot("make", folder, &error))
}

fn write(file: NewFile) -> Result<(), Failure> {
    file.write().map_err(|error| cannot("write", file.path(), &error))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::System(format!("cannot {what} {}: {error}", path.display()))
}
