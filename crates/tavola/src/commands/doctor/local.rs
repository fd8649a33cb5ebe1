//! This machine: configuration, ports, clock, who can read keys, the certificate.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tavola_server::Config;
use tavola_server::config::{Layers, Origin, StoreConfig};

use super::home::Home;
use super::report::Report;
use super::server::{self, Readiness};
use super::{at_rest, certificate, cluster};
use crate::account_access::{self, optional_setting, reachable};
use crate::http_client::{HttpClient, HttpError};

/// Reading by the group or by others.
const READ_BY_OTHERS: u32 = 0o044;

pub(super) async fn examine(home: &Home, client: &HttpClient, report: &mut Report) {
    let (layers, config) = match &home.0 {
        Ok((layers, config)) => (layers, config),
        Err(error) => {
            let advice = "`tavola config show --origin` says where each value comes from";
            report.fail("configuration", error.to_string(), advice);
            return;
        }
    };
    let whose = if config.accounts.is_development() { "the development account, whose key is public" } else { "" };
    let accounts = config.accounts.names().count();
    let whose = if whose.is_empty() { format!("{accounts} account(s)") } else { whose.to_owned() };
    report.ok("configuration", format!("good: {whose}, tables at {}", config.table));
    let scheme = if optional_setting(layers, "tls.cert").is_some() { "https" } else { "http" };
    check_port("table port", config.table, &format!("{scheme}://"), "/-/ready", client, report).await;
    check_port("admin port", config.admin, "http://", "/ready", client, report).await;
    check_modes(layers, config, report);
    check_certificate(layers, config, report);
    match &config.store {
        StoreConfig::Memory => {}
        StoreConfig::Embedded { location, .. } => at_rest::examine(location, report),
        StoreConfig::Cassandra(store) => cluster::examine(store, report).await,
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
            Readiness::Ready => {
                report.ok(subject, format!("a Tavola at {at} is ready"));
                if path == "/-/ready" {
                    server::check_clock(&response, report);
                }
            }
            Readiness::NotReady(reason) => {
                report.fail(subject, format!("a Tavola at {at} is not ready: {reason}"), "look at its log");
            }
            Readiness::Other(status) => taken(subject, at, &format!("it answers with {status}"), report),
        },
        Err(HttpError::Refused(_)) => match TcpListener::bind(address) {
            Ok(_) => report.ok(subject, format!("{address} is free; `tavola serve` would listen there")),
            Err(error) => report.fail(subject, format!("cannot listen on {address}: {error}"), "choose another"),
        },
        Err(error @ (HttpError::Certificate(..) | HttpError::ClientCertificateNeeded(_))) => {
            report.warn(subject, error.to_string(), server::advice_on(&error))
        }
        Err(error) => taken(subject, at, &error.to_string(), report),
    }
}

fn taken(subject: &str, at: SocketAddr, how: &str, report: &mut Report) {
    let advice = "stop it, or choose another port (--table-port, --admin-port, or in the file)";
    report.fail(subject, format!("{at} is taken by something that is not a ready Tavola: {how}"), advice);
}

/// Who has a key owns the account, so its file must be its owner's alone.
fn check_modes(layers: &Layers, config: &Config, report: &mut Report) {
    let mut files: Vec<PathBuf> = config
        .accounts
        .names()
        .flat_map(|account| ["key1", "key2"].map(|key| format!("accounts.{account}.{key}")))
        .filter_map(|path| match layers.origin(&path) {
            Origin::File(file) => Some(file),
            _ => None,
        })
        .collect();
    files.sort();
    files.dedup();
    let folder = config.account_folder.path();
    let open = |path: &Path| mode(path).is_some_and(|mode| mode & READ_BY_OTHERS != 0);
    for file in files.iter().filter(|file| open(file)) {
        let mode = mode(file).unwrap_or_default();
        let words = format!("{} holds keys, and others can read it (mode {mode:o})", file.display());
        report.warn("keys", words, format!("chmod 600 {}", file.display()));
    }
    if open(folder) {
        report.warn(
            "keys",
            format!("others can look into {}", folder.display()),
            format!("chmod 700 {}", folder.display()),
        );
    }
    if !files.is_empty() && !files.iter().any(|file| open(file)) && !open(folder) {
        report.ok("keys", "files with keys can be read by their owner only");
    }
}

fn mode(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777)
}

fn check_certificate(layers: &Layers, config: &Config, report: &mut Report) {
    let Some(cert) = optional_setting(layers, "tls.cert") else { return };
    let key = optional_setting(layers, "tls.key").map(Path::new);
    let password = optional_setting(layers, "tls.password").unwrap_or_default();
    let account = config.accounts.names().next();
    let endpoint = account.and_then(|account| account_access::configured_endpoint(layers, config, account).ok());
    certificate::examine(Path::new(cert), key, password, endpoint.as_ref(), report);
}
