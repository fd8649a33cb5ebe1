//! A service under test: how it is reached, and how it differs.

use std::path::Path;
use std::process::{self, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use tavola_client::{
    Account, ClientOptions, ConnectionOptions, Credential, TableClient, TableServiceClient,
};
use tavola_core::AccountName;
use tavola_protocol::auth::{AccountKey, AccountSas};
use tempfile::TempDir;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::runtime::Runtime;

use crate::common::{ACCOUNT, KEY, RunningServer, tavola};

/// Where Azurite is.
const AZURITE: &str = "TAVOLA_AZURITE";

/// What a service does otherwise than the Table service. Each case that meets one asserts what is
/// there instead, so that a difference that goes away is noticed. COMPATIBILITY.md lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Difference {
    /// It has neither signatures nor accounts.
    NoAccounts,
    /// `3.0` without a type is read by JavaScript, which knows no difference to `3`.
    WholeDoublesAreIntegers,
    /// A body is decoded by pieces as they come: a character on the border of two is lost. Where
    /// that is depends on the network, so that a case can only go around it.
    LongTextsAreDamaged,
    /// A merge is checked for itself, not with what is stored.
    MergesWithoutLimits,
    /// A policy without one of its parts is 400 without a body.
    WholePoliciesOnly,
    /// A transaction with a table's signature is 403: it is checked for a table named `$batch`.
    NoSignedTransactions,
    /// The key range of a signature is not looked at.
    KeyRangesIgnored,
}

/// Those of Azurite.
const OF_AZURITE: &[Difference] = &[
    Difference::WholeDoublesAreIntegers,
    Difference::LongTextsAreDamaged,
    Difference::MergesWithoutLimits,
    Difference::WholePoliciesOnly,
    Difference::NoSignedTransactions,
    Difference::KeyRangesIgnored,
];

/// A service and a client of it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) name: &'static str,
    pub(crate) service: TableServiceClient,
    /// The account's endpoint, where a client with a signature can be made.
    url: Option<String>,
    options: ClientOptions,
    differences: &'static [Difference],
}

impl Site {
    fn new(name: &'static str, service: TableServiceClient) -> Arc<Self> {
        let options = ClientOptions::default();
        Arc::new(Self { name, service, url: None, options, differences: &[] })
    }

    fn at(name: &'static str, url: String, options: ClientOptions) -> Self {
        let credential = Some(Credential::key(ACCOUNT, KEY));
        let service = TableServiceClient::new(&url, credential, Some(options.clone())).unwrap();
        Self { name, service, url: Some(url), options, differences: &[] }
    }

    /// A client of the same service with a signature instead of a key, if it has accounts.
    pub(crate) fn guest(&self, signature: &str) -> Option<TableServiceClient> {
        let url = format!("{}?{signature}", self.url.as_ref()?);
        Some(TableServiceClient::new(&url, None, Some(self.options.clone())).unwrap())
    }

    /// Whether the client has no key, but a signature for the account.
    pub(crate) fn has_signature_only(&self) -> bool {
        self.url.is_none() && !self.differs(Difference::NoAccounts)
    }

    pub(crate) fn differs(&self, difference: Difference) -> bool {
        self.differences.contains(&difference)
    }

    /// The name of a table that no other case has.
    pub(crate) fn table_name(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        format!("t{}n{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn table(&self) -> TableClient {
        let table = self.service.table_client(self.table_name());
        table.create().await.unwrap();
        table
    }
}

/// Our servers, which run until the last case has ended.
pub(crate) struct Servers {
    folder: TempDir,
    http: RunningServer,
    https: RunningServer,
}

impl Servers {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let cert = tavola()
            .args(["cert", "--authority", "--out"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .status();
        assert!(cert.unwrap().success());
        let http = RunningServer::start(&file("http"));
        let https = RunningServer::start_with(&file("https"), |command| {
            command.arg("--tls-cert").arg(file("cert.pem"));
            command.arg("--tls-key").arg(file("key.pem"))
        });
        Self { folder, http, https }
    }

    pub(crate) fn sites(&self, runtime: &Runtime) -> Vec<Arc<Site>> {
        let _entered = runtime.enter();
        let url = self.http.endpoint();
        let text = format!("AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={url}");
        let by_text = Account::from_connection_string(&text).unwrap().tables().unwrap();
        let by_path = Site { url: Some(url.clone()), ..take(Site::new("http", by_text)) };
        let signed = TableServiceClient::new(&format!("{url}?{}", signature()), None, None);
        let local = TableServiceClient::on(tavola_local::in_memory(), None);
        let local =
            Site { differences: &[Difference::NoAccounts], ..take(Site::new("local", local)) };
        let mut sites = vec![Arc::new(local), Arc::new(by_path)];
        sites.push(Site::new("http-signature", signed.unwrap()));
        sites.push(Arc::new(by_host(&self.http.table)));
        sites.push(Arc::new(over_tls(&self.https, &self.folder.path().join("ca.pem"))));
        sites.extend(std::env::var(AZURITE).ok().map(azurite));
        sites
    }
}

fn take(site: Arc<Site>) -> Site {
    Arc::into_inner(site).unwrap()
}

/// With the account's name in the host, which no resolver knows: the server is its own proxy.
fn by_host(address: &str) -> Site {
    let connection = ConnectionOptions::default().proxy(format!("http://{address}"));
    let options = ClientOptions::default().allow_http().connection(connection);
    Site::at("http-host", format!("http://{ACCOUNT}.table.localhost"), options)
}

fn over_tls(server: &RunningServer, authority: &Path) -> Site {
    let authority = std::fs::read(authority).unwrap();
    let connection = ConnectionOptions::default().certificates(authority);
    let options = ClientOptions::default().connection(connection);
    Site::at("https", server.endpoint().replace("http:", "https:"), options)
}

fn azurite(url: String) -> Arc<Site> {
    let site = Site::at("azurite", url, ClientOptions::default());
    Arc::new(Site { differences: OF_AZURITE, ..site })
}

/// For all of the account, for an hour.
fn signature() -> String {
    let expiry = OffsetDateTime::from(SystemTime::now() + Duration::from_secs(3600));
    let sas = AccountSas {
        version: "2019-02-02".to_owned(),
        services: "t".to_owned(),
        resource_types: "sco".to_owned(),
        permissions: "rwdlacu".to_owned(),
        expiry: expiry.replace_nanosecond(0).unwrap().format(&Rfc3339).unwrap(),
        ..AccountSas::default()
    };
    sas.signed(&AccountName::parse(ACCOUNT).unwrap(), &AccountKey::parse(KEY).unwrap())
}
