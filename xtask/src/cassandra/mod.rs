//! `cargo xtask cassandra`: stock Apache Cassandra on loopback addresses, for tests and for
//! developers.
//!
//! Everything about a cluster is in its folder below the cache folder. A node is started by its own
//! script, so that a test that kills nodes can start them again without us.

mod address;
mod cluster;
mod cql;
mod jars;
mod node;
mod ring;
mod script;
mod shape;
mod tls;
mod wait;
mod yaml;

use std::net::SocketAddr;

pub(crate) use cluster::Cluster;
pub(crate) use shape::Shape;

use crate::args::Args;
use crate::failure::{Failure, Result};

pub(crate) const HELP: &str = "\
cargo xtask cassandra up [--nodes N] [--spare N] [--name NAME] [--fresh] [--password] [--tls]
    [--setting KEY=VALUE]
cargo xtask cassandra down [--name NAME] [--keep]
cargo xtask cassandra status [--name NAME]

Runs stock Apache Cassandra on loopback addresses. The jars are fetched once into the cache folder; Java 17 and Maven are
installed when missing. A cluster lives until `down`, whatever becomes of the terminal. It takes half a gigabyte a node.

  up               start the nodes and wait until all serve clients and see each other
    --nodes N      so many; default 1
    --spare N      prepare so many more, which their script `start` adds to the ring
    --name NAME    default dev, at 127.0.0.1 and following; each name has addresses and data of its own
    --fresh        end a cluster of this name and forget its data first
    --password     clients must log in; the first user is cassandra, with the password cassandra
    --tls          clients must encrypt; what they must trust is tls/ca.pem in the folder of the cluster
    --setting K=V  a line of cassandra.yaml, instead of ours; may be repeated
  down             end the nodes and remove their data; their logs stay
    --keep         keep the data too, for the next `up`
  status           what runs, and where its log is; without --name of all clusters

The folder of a cluster has cluster.json (names all of this for programs), `nodetool NODE ARGUMENTS`, and for each node a
folder with cassandra.yaml, log, data, the script `start` and the file `pid`.";

/// Fetches what nodes are started from, if it is missing.
pub(crate) fn fetch() -> Result {
    jars::Programs::ensure().map(drop)
}

pub(crate) fn command(mut args: Args) -> Result {
    match args.command().as_deref() {
        Some("up") => up(args),
        Some("down") => down(args),
        Some("status") => status(args),
        other => Err(Failure::new(format!(
            "cargo xtask cassandra up, down or status, not `{}`",
            other.unwrap_or_default()
        ))),
    }
}

fn up(mut args: Args) -> Result {
    let shape = Shape::from_args(&mut args)?;
    let is_fresh = args.flag("--fresh");
    args.finish()?;
    let cluster = Cluster::up(&shape, is_fresh)?;
    println!("contact points: {}", join(&cluster.contact_points()));
    println!("folder: {}", cluster.folder().display());
    if let Some(authority) = cluster.authority() {
        println!("clients must encrypt, and trust {}", authority.display());
    }
    Ok(())
}

fn down(mut args: Args) -> Result {
    let name = shape::name(&mut args)?;
    let keep = args.flag("--keep");
    args.finish()?;
    let Some(cluster) = Cluster::find(&name)? else {
        println!("there is no cluster `{name}`");
        return Ok(());
    };
    cluster.down(keep)?;
    match keep {
        true => println!("the cluster `{name}` is down; its data stays for the next `up`"),
        false => println!(
            "the cluster `{name}` is down and gone; its logs are in {}",
            cluster.logs().display()
        ),
    }
    Ok(())
}

fn status(mut args: Args) -> Result {
    let name = shape::name_if_given(&mut args)?;
    args.finish()?;
    let clusters: Vec<Cluster> = match &name {
        Some(name) => Cluster::find(name)?.into_iter().collect(),
        None => Cluster::all()?,
    };
    if clusters.is_empty() {
        println!(
            "there is no cluster{}",
            name.map(|name| format!(" `{name}`")).unwrap_or_default()
        );
    }
    clusters.iter().for_each(print_status);
    Ok(())
}

fn print_status(cluster: &Cluster) {
    let shape = cluster.shape();
    println!("{}: Cassandra {}, {}", shape.name, cluster.version(), shape.describe());
    for node in cluster.nodes() {
        let process = match (node.live_pid(), node.pid()) {
            (Some(pid), _) => format!("pid {pid}"),
            (None, Some(pid)) => format!("dead (was {pid})"),
            (None, None) => "not started".into(),
        };
        let answers = if node.answers(shape.tls) { "answers" } else { "silent" };
        let role = if node.is_spare { "spare" } else { "seed" };
        println!(
            "  {:>2} {role:<5} {:<16} {process:<18} {answers:<7} {}",
            node.number,
            node.place.cql(),
            node.log().display()
        );
    }
}

fn join(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" ")
}
