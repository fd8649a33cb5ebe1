//! This machine: configuration, ports, clock, modes of key files, the certificate.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use tavola_embedded::{OpenError, private_files};
use tavola_server::Config;
use tavola_server::config::{Layers, SERVED, Warning};
use tavola_store::SettingValues as _;

use super::home::Home;
use super::report::Report;
use super::server::{self, Readiness};
use super::{at_rest, certificate, cluster};
use crate::account_access::{self, reachable};
use crate::http_client::{HttpClient, HttpError};
use crate::open_store::versions_max;
use crate::store_config::StoreConfig;

pub(super) async fn examine(home: &Home, client: &HttpClient, report: &mut Report) {
    let (layers, config) = match &home.0 {
        Ok((layers, config)) => (layers, config),
        Err(error) => {
            let advice = "`tavola config show --origin` shows the origin of each value";
            error.problems().for_each(|problem| report.fail("configuration", problem, advice));
            return;
        }
    };
    let served = if config.accounts.is_development() {
        "the development account, whose key is public".to_owned()
    } else {
        format!("{} account(s)", config.accounts.names().count())
    };
    report.ok("configuration", format!("valid: {served}, {}", crate::announce::listeners(config)));
    config.notes.iter().for_each(|note| report.warn("configuration", note, ""));
    let scheme = config.scheme().name();
    for listener in &config.listeners {
        let (what, address) = (format!("{} port", listener.service.name()), listener.address);
        check_port(&what, address, &format!("{scheme}://"), "/-/ready", client, report).await;
    }
    check_port("admin port", config.admin, "http://", "/ready", client, report).await;
    check_safety(config, report);
    // It was read when the configuration was checked.
    let store = StoreConfig::read(layers).ok();
    if let Some(StoreConfig::Embedded(store)) = &store {
        check_data_folder(&store.location, report);
    }
    check_certificate(layers, config, report);
    match &store {
        Some(StoreConfig::Cassandra(store)) => cluster::examine(store, report).await,
        Some(StoreConfig::Embedded(store)) => {
            check_versions(&store.location, report);
            at_rest::examine(&store.location, report);
        }
        Some(StoreConfig::Memory) | None => {}
    }
}

/// A clock that was far ahead for a moment marks all later Timestamps.
fn check_versions(folder: &Path, report: &mut Report) {
    match tavola_embedded::last_version(folder) {
        // There is none yet, or a server has it, which was asked above.
        Ok(None) | Err(OpenError::Missing { .. } | OpenError::Locked { .. }) => {}
        Ok(Some(last)) if last > versions_max() => {
            let (words, folder) =
                (format!("{} has Timestamps up to {last}", folder.display()), folder.display());
            let advice = format!(
                "if this machine's clock is wrong, set it; if it once was ahead, copy the folder \
                 with `tavola store copy --rewrite-versions --from embedded:{folder} --to \
                 embedded:NEW`, or serve it with --allow-future-versions"
            );
            report.fail(
                "data folder",
                format!("{words}, more than a day ahead of the clock"),
                advice,
            );
        }
        Ok(Some(_)) => report.ok("data folder", format!("{} can be opened", folder.display())),
        Err(error) => report.fail(
            "data folder",
            error.to_string(),
            format!("tavola check {}", folder.display()),
        ),
    }
}

async fn check_port(
    subject: &str,
    address: SocketAddr,
    scheme: &str,
    path: &str,
    client: &HttpClient,
    report: &mut Report,
) {
    if address.port() == 0 {
        report.ok(subject, "a free one is picked when the server starts");
        return;
    }
    let at = SocketAddr::new(reachable(address.ip()), address.port());
    match server::get(client, &format!("{scheme}{at}{path}")).await {
        Ok(response) => match server::readiness(&response) {
            Readiness::Ready(warning) => {
                report.ok(subject, format!("a Tavola at {at} is ready"));
                if path == "/-/ready" {
                    server::check_clock(&response, report);
                    server::warn(warning, report);
                }
            }
            Readiness::NotReady(reason) => {
                report.fail(
                    subject,
                    format!("a Tavola at {at} is not ready: {reason}"),
                    "see its log",
                );
            }
            Readiness::Other(status) => {
                taken(subject, at, &format!("it answers with {status}"), report)
            }
        },
        Err(HttpError::Refused(_)) => match TcpListener::bind(address) {
            Ok(_) => {
                report.ok(subject, format!("{address} is free; `tavola serve` would listen there"))
            }
            Err(error) => report.fail(
                subject,
                format!("cannot listen on {address}: {error}"),
                "choose another",
            ),
        },
        Err(error @ (HttpError::Certificate(..) | HttpError::ClientCertificateNeeded(_))) => {
            report.warn(subject, error.to_string(), server::advice_on(&error))
        }
        Err(error) => taken(subject, at, &error.to_string(), report),
    }
}

fn taken(subject: &str, at: SocketAddr, how: &str, report: &mut Report) {
    let flags = SERVED.iter().map(|service| format!("--{}-port, ", service.name()));
    let flags = flags.collect::<String>();
    let advice = format!("stop it, or choose another port ({flags}--admin-port, or in the file)");
    report.fail(
        subject,
        format!("{at} is in use by a process that is not a ready Tavola: {how}"),
        advice,
    );
}

/// What the server would warn of at its start.
fn check_safety(config: &Config, report: &mut Report) {
    let warnings = config.warnings();
    if !config.secret_files.is_empty() && !warnings.iter().any(|warning| warning.subject == "keys")
    {
        report.ok("keys", "only their owner can read files with keys");
    }
    for Warning { subject, says, advice } in warnings {
        report.warn(subject, says, advice);
    }
}

/// A user who can read the files has all data, whatever the server permits.
fn check_data_folder(location: &Path, report: &mut Report) {
    let folder = location.display();
    if !location.exists() {
        return;
    }
    match (private_files::find_link(location), private_files::open_to_others(location)) {
        (Ok(None), Ok(open)) => match open.first() {
            None => report.ok("data folder", format!("only its owner can access {folder}")),
            Some((first, mode)) => {
                let words = format!(
                    "other users can access {} files of {folder}: {} has mode {mode:o}",
                    open.len(),
                    first.display()
                );
                report.warn(
                    "data folder",
                    words,
                    format!("chmod -R go= {folder}; `tavola serve` does so too"),
                );
            }
        },
        (Ok(Some(link)), _) => {
            let advice = "put the file itself there; the server does not start with it";
            report.fail("data folder", format!("{} is a symbolic link", link.display()), advice);
        }
        (Err(error), _) | (_, Err(error)) => {
            report.fail(
                "data folder",
                format!("cannot read {folder}: {error}"),
                "run as the user of the server",
            );
        }
    }
}

fn check_certificate(layers: &Layers, config: &Config, report: &mut Report) {
    let Some(cert) = layers.optional("tls.cert") else { return };
    let key = layers.optional("tls.key").map(Path::new);
    let password = layers.optional("tls.password").unwrap_or_default();
    let account = config.accounts.names().next();
    let endpoints =
        account.and_then(|account| account_access::configured_endpoints(config, account).ok());
    // All services have one certificate, and names are of hosts.
    let endpoint = endpoints.as_deref().and_then(<[_]>::first).map(|(_, endpoint)| endpoint);
    certificate::examine(Path::new(cert), key, password, endpoint, report);
}
