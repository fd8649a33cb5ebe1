//! The description of a cluster: its name, its nodes, its settings.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::args::Args;
use crate::failure::{Failure, Result};

pub(super) const DEFAULT_NAME: &str = "dev";

/// Bounded by the addresses and ports that a name has.
const NODES_MAX: u32 = 16;

/// Settings that we choose ourselves: elsewhere a node would be reachable from outside, or not be
/// found.
const SETTINGS_OF_OURS: [&str; 6] = [
    "cluster_name",
    "storage_port",
    "ssl_storage_port",
    "native_transport_port",
    "seed_provider",
    "initial_token",
];
const SETTINGS_OF_OURS_BEGIN: [&str; 4] =
    ["listen_", "rpc_", "broadcast_", "native_transport_address"];
const SETTINGS_OF_OURS_END: [&str; 2] = ["_directory", "_directories"];

/// Two clusters of one shape are the same cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) name: String,
    /// In the ring from the start.
    pub(crate) nodes: u32,
    /// Prepared, to be added to the ring later.
    pub(crate) spares: u32,
    /// True if clients must log in.
    pub(crate) password: bool,
    /// True if clients must use TLS.
    pub(crate) tls: bool,
    /// Lines of `cassandra.yaml` that replace ours.
    pub(crate) settings: BTreeMap<String, String>,
}

impl Shape {
    pub(crate) fn new(name: &str, nodes: u32) -> Result<Self> {
        check_name(name)?;
        let shape = Self {
            name: name.into(),
            nodes,
            spares: 0,
            password: false,
            tls: false,
            settings: BTreeMap::new(),
        };
        shape.check_nodes()?;
        Ok(shape)
    }

    pub(super) fn from_args(args: &mut Args) -> Result<Self> {
        let mut shape = Self::new(&name(args)?, count(args, "--nodes", 1)?)?;
        shape.spares = count(args, "--spare", 0)?;
        shape.check_nodes()?;
        shape.password = args.flag("--password");
        shape.tls = args.flag("--tls");
        while let Some(setting) = args.value("--setting")? {
            let (key, value) = parse_setting(&setting)?;
            shape.settings.insert(key, value);
        }
        Ok(shape)
    }

    fn check_nodes(&self) -> Result {
        if self.nodes == 0 {
            return Err("a cluster has at least one node".into());
        }
        if self.nodes.saturating_add(self.spares) > NODES_MAX {
            return Err(Failure::new(format!(
                "at most {NODES_MAX} nodes and spare nodes together"
            )));
        }
        Ok(())
    }

    /// The part of `cluster.json` from which [`Shape::from_json`] reads it again.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "ring_nodes": self.nodes,
            "spare_nodes": self.spares,
            "password": self.password,
            "tls": self.tls,
            "settings": self.settings,
        })
    }

    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let settings = value["settings"].as_object()?.iter();
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            nodes: value["ring_nodes"].as_u64()?.try_into().ok()?,
            spares: value["spare_nodes"].as_u64()?.try_into().ok()?,
            password: value["password"].as_bool()?,
            tls: value["tls"].as_bool().unwrap_or(false),
            settings: settings
                .map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
        })
    }

    /// As the arguments that ask for it.
    pub(super) fn describe(&self) -> String {
        let mut words = vec![format!("--nodes {}", self.nodes)];
        if self.spares > 0 {
            words.push(format!("--spare {}", self.spares));
        }
        if self.password {
            words.push("--password".into());
        }
        if self.tls {
            words.push("--tls".into());
        }
        words.extend(self.settings.iter().map(|(key, value)| format!("--setting {key}={value}")));
        words.join(" ")
    }
}

pub(super) fn name(args: &mut Args) -> Result<String> {
    Ok(name_if_given(args)?.unwrap_or_else(|| DEFAULT_NAME.into()))
}

pub(super) fn name_if_given(args: &mut Args) -> Result<Option<String>> {
    let name = args.value("--name")?;
    name.as_deref().map_or(Ok(()), check_name)?;
    Ok(name)
}

/// It becomes a folder and a word in scripts.
fn check_name(name: &str) -> Result {
    let is_plain =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if is_plain && (1..=32).contains(&name.len()) && !name.starts_with('-') {
        return Ok(());
    }
    Err(Failure::new(format!("`{name}` is no name for a cluster: 1 to 32 of a-z, 0-9 and -")))
}

fn count(args: &mut Args, option: &str, default: u32) -> Result<u32> {
    let Some(text) = args.value(option)? else {
        return Ok(default);
    };
    text.parse().map_err(|_| Failure::new(format!("{option} needs a number, not `{text}`")))
}

fn parse_setting(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').ok_or("--setting needs KEY=VALUE")?;
    let is_key = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'0'..=b'9'));
    if !is_key || value.is_empty() || value.contains(['\n', '\r']) {
        return Err(Failure::new(format!(
            "`{text}` is no line of cassandra.yaml: it needs KEY=VALUE"
        )));
    }
    let is_ours = SETTINGS_OF_OURS.contains(&key)
        || SETTINGS_OF_OURS_BEGIN.iter().any(|begin| key.starts_with(begin))
        || SETTINGS_OF_OURS_END.iter().any(|end| key.ends_with(end));
    if is_ours {
        return Err(Failure::new(format!(
            "`{key}` is not yours to set: it says where a node listens or keeps its files"
        )));
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(line: &str) -> Result<Shape> {
        let mut args = Args::new(line.split_whitespace().map(str::to_owned));
        let shape = Shape::from_args(&mut args)?;
        args.finish()?;
        Ok(shape)
    }

    #[test]
    fn without_arguments_it_is_one_node() {
        assert_eq!(shape("").unwrap(), Shape::new("dev", 1).unwrap());
    }

    #[test]
    fn all_arguments_are_read_and_written() {
        let line = "--nodes 3 --spare 1 --password --tls --setting commitlog_sync=periodic --setting paxos_variant=v1";
        let shape = shape(&format!("{line} --name helper")).unwrap();
        assert_eq!(
            (shape.name.as_str(), shape.nodes, shape.spares, shape.password, shape.tls),
            ("helper", 3, 1, true, true)
        );
        assert_eq!(shape.settings["commitlog_sync"], "periodic");
        assert_eq!(shape.describe(), line);
        assert_eq!(Shape::from_json(&shape.to_json()), Some(shape));
    }

    #[test]
    fn what_is_no_cluster_is_refused() {
        for line in [
            "--nodes 0",
            "--nodes three",
            "--nodes 14 --spare 3",
            "--nodes 4294967295 --spare 4294967295",
            "--name ../dev",
            "--name -",
            "--name Dev",
            "--setting commitlog_sync",
            "--setting =batch",
            "--setting commitlog_sync=",
            "--setting Commitlog=batch",
            "--setting listen_address=0.0.0.0",
            "--setting rpc_address=0.0.0.0",
            "--setting hints_directory=/tmp",
            "--setting storage_port=1",
            "--node 3",
        ] {
            assert!(shape(line).is_err(), "{line}");
        }
    }
}
