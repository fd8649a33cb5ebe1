//! A cluster on this machine: made from its shape, found again by its name.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use super::address::{self, Place};
use super::jars::{Programs, VERSION};
use super::node::{Node, node_folder, write_script};
use super::shape::Shape;
use super::{script, tls, wait};
use crate::cache::{self, remove_folder};
use crate::failure::{Context, Failure, Result};
use crate::progress;

/// The one that `SimpleSnitch` puts every node in; clients name it when they create a keyspace.
const DATACENTER: &str = "datacenter1";

const CLUSTER_FILE: &str = "cluster.json";
const NODETOOL: &str = "nodetool";
const LOGBACK_OF_NODETOOL: &str = "logback-nodetool.xml";

/// It runs on when this value is dropped; [`Cluster::down`] ends it.
#[derive(Debug)]
pub(crate) struct Cluster {
    shape: Shape,
    version: String,
    folder: PathBuf,
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts what does not run yet and waits until every node serves clients and sees the others.
    ///
    /// `is_fresh` ends a running cluster of this name and removes its data first.
    pub(crate) fn up(shape: &Shape, is_fresh: bool) -> Result<Self> {
        let programs = Programs::ensure()?;
        let _lock = lock(&shape.name)?;
        if is_fresh && let Some(present) = Self::find(&shape.name)? {
            present.stop_and_remove(false)?;
        }
        let cluster = Self::new(shape.clone(), VERSION.into())?;
        if let Some(present) = Self::find(&shape.name)? {
            present.check_same(&cluster)?;
        }
        cluster.start(&programs)?;
        Ok(cluster)
    }

    /// Ends every node. Data goes, unless it is kept for the next `up`; logs stay in `logs`.
    pub(crate) fn down(&self, keep: bool) -> Result {
        let _lock = lock(&self.shape.name)?;
        self.stop_and_remove(keep)
    }

    /// The cluster of a name as far as there is one, running or not.
    pub(crate) fn find(name: &str) -> Result<Option<Self>> {
        let file = clusters()?.join(name).join(CLUSTER_FILE);
        let Ok(text) = fs::read_to_string(&file) else {
            return Ok(None);
        };
        let value: Value = serde_json::from_str(&text)
            .context(|| format!("cannot understand {}", file.display()))?;
        let found = Shape::from_json(&value).zip(value["version"].as_str());
        let (shape, version) =
            found.ok_or_else(|| Failure::new(format!("cannot understand {}", file.display())))?;
        Self::new(shape, version.to_owned()).map(Some)
    }

    /// Those of which there are files.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let entries = fs::read_dir(clusters()?).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names.iter().filter_map(|name| Self::find(name).transpose()).collect()
    }

    fn new(shape: Shape, version: String) -> Result<Self> {
        let folder = clusters()?.join(&shape.name);
        let node = |(number, place): (u32, Place)| Node {
            number,
            place,
            is_spare: number > shape.nodes,
            folder: node_folder(&folder, number),
        };
        let nodes = (1..).zip(address::places(&shape)).map(node).collect();
        Ok(Self { shape, version, folder, nodes })
    }

    /// Where clients begin: the nodes of the ring.
    pub(crate) fn contact_points(&self) -> Vec<SocketAddr> {
        self.ring().map(|node| node.place.cql()).collect()
    }

    /// Holds `cluster.json`, the script `nodetool`, and for each node a folder with its script
    /// `start`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(super) fn ring(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.is_spare)
    }

    pub(super) fn nodetool(&self) -> PathBuf {
        self.folder.join(NODETOOL)
    }

    /// The certificate that clients of a cluster with TLS must trust.
    pub(crate) fn authority(&self) -> Option<PathBuf> {
        self.shape.tls.then(|| tls::authority(&self.folder))
    }

    fn check_same(&self, wanted: &Self) -> Result {
        if self.shape == wanted.shape && self.version == wanted.version {
            return Ok(());
        }
        let is_running = self.nodes.iter().any(|node| node.live_pid().is_some());
        let (name, present) = (&self.shape.name, self.shape.describe());
        let state = if is_running { "is up" } else { "has data" };
        Err(Failure::new(format!(
            "the cluster `{name}` {state} with another shape (Cassandra {}, {present}): run `cargo xtask cassandra down --name \
             {name}` first, or add --fresh",
            self.version
        )))
    }

    fn start(&self, programs: &Programs) -> Result {
        let missing: Vec<&Node> = self.ring().filter(|node| node.live_pid().is_none()).collect();
        if missing.is_empty() {
            println!("the cluster `{}` is up already; looking at it", self.shape.name);
        }
        for node in &missing {
            node.place.check_free()?;
        }
        self.write_files(programs)?;
        let start = Instant::now();
        if let Err(failure) = self.start_nodes(&missing) {
            // A part of a cluster serves no client; what ran before stays.
            let missing: Vec<Node> = missing.into_iter().cloned().collect();
            if let Err(second) = wait::until_all_have_stopped(&missing) {
                eprintln!("warning: {second}");
            }
            return Err(failure);
        }
        println!(
            "the cluster `{}` is ready ({})",
            self.shape.name,
            progress::seconds(start.elapsed())
        );
        Ok(())
    }

    fn start_nodes(&self, missing: &[&Node]) -> Result {
        for node in missing {
            println!(
                "starting node {} of {} at {}",
                node.number,
                self.shape.nodes,
                node.place.cql()
            );
            node.start()?;
        }
        let ring: Vec<&Node> = self.ring().collect();
        wait::until_all_answer(&ring, &self.shape)?;
        wait::until_all_have_met(self)
    }

    fn write_files(&self, programs: &Programs) -> Result {
        let places = address::places(&self.shape);
        if self.shape.tls {
            tls::ensure(&self.folder, &places, programs)?;
        }
        for node in &self.nodes {
            // A script must not change under the shell that reads it.
            if node.live_pid().is_none() {
                node.write_files(&self.shape, &places, &self.folder, programs)?;
            }
        }
        let nodetool = script::nodetool(&self.shape, &places, &self.folder, programs);
        cache::write_if_changed(
            &self.folder.join(LOGBACK_OF_NODETOOL),
            script::LOGBACK_OF_NODETOOL,
        )?;
        write_script(&self.nodetool(), &nodetool)?;
        let text = serde_json::to_string_pretty(&self.to_json()).context(|| CLUSTER_FILE.into())?;
        cache::write_if_changed(&self.folder.join(CLUSTER_FILE), &format!("{text}\n"))
    }

    fn to_json(&self) -> Value {
        let mut value = self.shape.to_json();
        value["version"] = json!(self.version);
        value["datacenter"] = json!(DATACENTER);
        value["nodetool"] = json!(self.nodetool().display().to_string());
        value["authority"] = json!(self.authority().map(|file| file.display().to_string()));
        value["nodes"] = self.nodes.iter().map(Node::to_json).collect();
        value
    }

    fn stop_and_remove(&self, keep: bool) -> Result {
        wait::until_all_have_stopped(&self.nodes)?;
        if keep {
            return Ok(());
        }
        for node in &self.nodes {
            self.keep_log(node)?;
            remove_folder(&node.folder)?;
        }
        // What nodetool was asked.
        remove_folder(&self.folder.join(".cassandra"))?;
        tls::remove(&self.folder)?;
        // The last one last, so that what was interrupted is found again.
        for file in [NODETOOL, LOGBACK_OF_NODETOOL, CLUSTER_FILE] {
            let file = self.folder.join(file);
            if file.exists() {
                fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
            }
        }
        Ok(())
    }

    /// In the place of the log of an earlier cluster.
    fn keep_log(&self, node: &Node) -> Result {
        let (log, kept) =
            (node.folder.join("log"), self.logs().join(format!("node{}", node.number)));
        if !log.is_dir() {
            return Ok(());
        }
        cache::create(&self.logs())?;
        remove_folder(&kept)?;
        fs::rename(&log, &kept)
            .context(|| format!("cannot move {} to {}", log.display(), kept.display()))
    }

    /// Holds the logs of nodes that were removed.
    pub(super) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }
}

fn clusters() -> Result<PathBuf> {
    Ok(cache::root()?.join("cassandra").join("clusters"))
}

/// One command at a time for each name.
fn lock(name: &str) -> Result<File> {
    let folder = clusters()?;
    cache::create(&folder)?;
    cache::lock(
        &folder.join(format!("{name}.lock")),
        &format!("Another process starts or ends the cluster `{name}`"),
    )
}
