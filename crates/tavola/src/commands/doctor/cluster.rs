//! A cluster that entities are kept in: node by node, what would lose data or linearizability.

use std::net::SocketAddr;

use tavola_cassandra::{Finding, InspectedNode, Inspection, OpenError, Options};

use super::report::Report;
use crate::cluster;
use crate::exit::Failure;
use crate::store_config::ClusterConfig;

/// Looks at the cluster that the settings name.
pub(crate) async fn examine(config: &ClusterConfig, report: &mut Report) {
    examine_peers(config, report);
    match cluster::options(config) {
        Ok(options) => look(&options, report).await,
        Err(Failure::System(reason) | Failure::Usage(reason) | Failure::Data(reason)) => {
            report.fail(
                "cluster",
                reason,
                "`tavola config show --origin` shows the origin of each value",
            );
        }
        Err(Failure::Clap(error)) => report.fail("cluster", error.to_string(), ""),
    }
}

/// What nodes write for each other is protected by keys of their own.
fn examine_peers(config: &ClusterConfig, report: &mut Report) {
    let Some(address) = config.peers.address else { return };
    let make = || {
        format!(
            "`tavola store peer-keys init {address} …` creates keys; set store.peer_keys to their \
             folder"
        )
    };
    match cluster::peer_keys(config) {
        Ok(Some(keys)) => tell_keys(address, keys.seconds_left(), report),
        Ok(None) if address.ip().is_loopback() => {
            report.ok("peers", format!("only this machine can reach {address}"))
        }
        Ok(None) if config.accept_plain_peers => {
            report.warn(
                "peers",
                format!("traffic between peers at {address} is not encrypted. It is accepted"),
                make(),
            );
        }
        Ok(None) => report.fail(
            "peers",
            format!("{address} has no keys. The server does not start without them"),
            make(),
        ),
        Err(Failure::System(reason) | Failure::Usage(reason) | Failure::Data(reason)) => {
            report.fail("peers", reason, "")
        }
        Err(Failure::Clap(error)) => report.fail("peers", error.to_string(), ""),
    }
    if config.peers.keys.is_some() && config.accept_plain_peers {
        let says = "peers without TLS are accepted too. It is accepted";
        report.warn(
            "peers",
            says,
            "remove plain-peers from store.accept_risks once every node has keys",
        );
    }
}

fn tell_keys(address: SocketAddr, seconds_left: i64, report: &mut Report) {
    const DAY: i64 = 24 * 3600;
    let says = format!("the certificate of {address} is valid for {} days", seconds_left / DAY);
    if seconds_left < 30 * DAY {
        report.warn("peers", says, format!("`tavola store peer-keys issue {address}` renews it"));
    } else {
        report.ok("peers", says);
    }
}

async fn look(options: &Options, report: &mut Report) {
    match tavola_cassandra::inspect(options).await {
        Ok(inspection) => tell(&inspection, options, report),
        Err(error) => report.fail("cluster", error.to_string(), advice_on(&error)),
    }
}

/// One line for each node and for each finding.
pub(crate) fn tell(inspection: &Inspection, options: &Options, report: &mut Report) {
    for node in &inspection.nodes {
        report.ok("node", node_text(node));
    }
    for finding in &inspection.findings {
        tell_finding(finding, options, report);
    }
    match &inspection.keyspace {
        Ok(slots) => {
            report.ok(
                "keyspace",
                format!("{} can be used; its directory has {slots} slots", options.keyspace),
            );
        }
        Err(OpenError::NoKeyspace { keyspace }) if options.create => {
            let says = format!("the cluster has no keyspace {keyspace:?}");
            report.warn(
                "keyspace",
                says,
                "the first start of the server creates it (store.create)",
            );
        }
        Err(error) => report.fail("keyspace", error.to_string(), advice_on(error)),
    }
}

fn node_text(node: &InspectedNode) -> String {
    let InspectedNode { address, version, clock_offset, settings } = node;
    let settings = if settings.is_empty() {
        "settings are not available".to_owned()
    } else {
        settings.join(", ")
    };
    format!(
        "{address} answers: version {version}, clock within {} ms, {settings}",
        clock_offset.as_millis()
    )
}

fn tell_finding(finding: &Finding, options: &Options, report: &mut Report) {
    let subject = format!("cluster {}", finding.risk.name());
    let is_accepted = options.accepted_risks.contains(&finding.risk);
    match (finding.dangerous, is_accepted) {
        (true, false) => {
            let name = finding.risk.name();
            let way_out =
                format!("{}; or accept it: store.accept_risks = \"{name}\"", finding.advice);
            report.fail(
                subject,
                format!("{}. The server does not start on it", finding.text),
                way_out,
            );
        }
        (true, true) => report.warn(
            subject,
            format!("{}. It is accepted", finding.text),
            finding.advice.clone(),
        ),
        (false, _) => report.warn(subject, finding.text.clone(), finding.advice.clone()),
    }
}

fn advice_on(error: &OpenError) -> &'static str {
    match error {
        OpenError::Connect { .. } => {
            "start the nodes, or name others in store.contact_points (--contact-points)"
        }
        OpenError::Tls { .. } => {
            "set store.ca_file (--store-ca-file) to the issuer of the nodes' certificates; each \
             must name its node's address"
        }
        OpenError::Credentials { .. } | OpenError::NoCredentials { .. } => {
            "set store.user (--store-user) and store.password_file (--store-password-file)"
        }
        _ => "",
    }
}
