//! What an operator can set of this store: each setting once, with its default, range and meaning.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tavola_store::settings::{Defaults, Setting, SettingValues};
use zeroize::Zeroizing;

use crate::{Options, Reads};

/// Every setting of a cluster.
pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "store.contact_points",
        Some("contact-points"),
        "NODES",
        "127.0.0.1:9042",
        "Cassandra nodes to connect to first, HOST or HOST:PORT; they name the others",
    ),
    Setting::new("store.keyspace", Some("keyspace"), "NAME", "tavola", "Keyspace of the cluster"),
    Setting::new(
        "store.data_centre",
        Some("data-centre"),
        "NAME",
        "",
        "Data centre whose quorums are used; none: quorums of the whole cluster. Must be the \
         same on every node",
    ),
    Setting::new(
        "store.replication",
        Some("replication"),
        "COUNT",
        "3",
        "Replicas in each data centre, for a keyspace that is created",
    ),
    Setting::new("store.create", None, "BOOL", "false", "Create the keyspace at the first start"),
    Setting::new("store.user", Some("store-user"), "NAME", "", "User name for the cluster"),
    Setting::new("store.password", None, "TEXT", "", "Password of that user"),
    Setting::new(
        "store.password_file",
        Some("store-password-file"),
        "FILE",
        "",
        "File whose first line is the password",
    ),
    Setting::new(
        "store.tls",
        Some("store-tls"),
        "BOOL",
        "false",
        "Use TLS for connections to the cluster",
    ),
    Setting::new(
        "store.ca_file",
        Some("store-ca-file"),
        "FILE",
        "",
        "Certificates (PEM) to trust for the cluster, in addition to the system's",
    ),
    Setting::new(
        "store.statement_ms",
        None,
        "MS",
        "2000",
        "Timeout of one statement on the cluster",
    ),
    Setting::new(
        "store.answer_ms",
        None,
        "MS",
        "10000",
        "Timeout of a request to the cluster, retries included",
    ),
    Setting::new(
        "store.reads",
        None,
        "WORD",
        "strict",
        "Reads from the cluster: strict (linearizable) or fast (may show part of a \
         transaction in progress)",
    ),
    Setting::new(
        "store.waiting_max",
        None,
        "COUNT",
        "4096",
        "Writes that may queue for one partition of the cluster; beyond it 503 ServerBusy",
    ),
    Setting::new(
        "store.sweep_seconds",
        None,
        "SECONDS",
        "60",
        "Delay before an empty partition is removed from the partition directory of the \
         cluster",
    ),
];

/// A cluster as an operator describes it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Secure connections. The caller knows whom to trust: [`Options::tls`].
    pub tls: bool,
    /// Certificates to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The rest.
    pub options: Options,
}

impl Config {
    /// Reads and checks the values.
    ///
    /// # Errors
    /// The first value that is wrong.
    pub fn read<V: SettingValues>(values: &V) -> Result<Self, V::Error> {
        let ca_file = values.optional("store.ca_file").map(PathBuf::from);
        Ok(Self {
            tls: values.parse_bool("store.tls")? || ca_file.is_some(),
            ca_file,
            options: Options::read(values)?,
        })
    }
}

impl Options {
    /// What an operator chose, and for the rest what suits most.
    fn read<V: SettingValues>(values: &V) -> Result<Self, V::Error> {
        let millis = |path| values.parse_in(path, 10, 600_000).map(Duration::from_millis);
        let contact_points: Vec<String> =
            values.list("store.contact_points").map(str::to_owned).collect();
        if contact_points.is_empty() {
            let problem = "name at least one node, as HOST or HOST:PORT";
            return Err(values.error("store.contact_points", problem));
        }
        let reads = [("strict", Reads::Strict), ("fast", Reads::Fast)];
        Ok(Self {
            contact_points,
            keyspace: values.text("store.keyspace").to_owned(),
            data_centre: values.optional("store.data_centre").map(str::to_owned),
            replication: values.parse_in("store.replication", 1, 9)?,
            slots: 16,
            create: values.parse_bool("store.create")?,
            credentials: credentials(values)?,
            tls: None,
            connect_time: Duration::from_secs(5),
            statement_time: millis("store.statement_ms")?,
            answer_time: millis("store.answer_ms")?,
            reads: values.parse_word("store.reads", reads)?,
            waiting_max: values.parse_in("store.waiting_max", 1, 1_000_000)?,
            sweep_after: Duration::from_secs(values.parse_in("store.sweep_seconds", 1, 86_400)?),
            accepted_risks: Vec::new(),
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::read(&Defaults(SETTINGS)).expect("the defaults of settings are legal")
    }
}

fn credentials<V: SettingValues>(
    values: &V,
) -> Result<Option<(String, Zeroizing<String>)>, V::Error> {
    let password = password(values)?;
    match values.optional("store.user") {
        Some(user) => Ok(Some((user.to_owned(), password))),
        None if password.is_empty() => Ok(None),
        None => {
            Err(values.error("store.password", "a password without a user; set store.user too"))
        }
    }
}

/// From the setting, or from the first line of a file, which is how secrets are mounted.
fn password<V: SettingValues>(values: &V) -> Result<Zeroizing<String>, V::Error> {
    let (given, file) = (values.text("store.password"), values.text("store.password_file"));
    match (given.is_empty(), file.is_empty()) {
        (_, true) => Ok(Zeroizing::new(given.to_owned())),
        (false, false) => {
            Err(values.error("store.password_file", "store.password is set too; use one of them"))
        }
        (true, false) => read_password(Path::new(file)).map_err(|error| {
            values.error("store.password_file", &format!("cannot read {file}: {error}"))
        }),
    }
}

fn read_password(file: &Path) -> std::io::Result<Zeroizing<String>> {
    let text = Zeroizing::new(std::fs::read_to_string(file)?);
    Ok(Zeroizing::new(text.lines().next().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Options, Reads};

    #[test]
    fn defaults_are_those_of_the_settings() {
        let options = Options::default();
        assert_eq!(options.contact_points, ["127.0.0.1:9042"]);
        assert_eq!((options.keyspace.as_str(), options.replication), ("tavola", 3));
        assert_eq!((options.reads, options.waiting_max), (Reads::Strict, 4096));
        assert_eq!(
            (options.statement_time, options.answer_time, options.sweep_after),
            (Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60))
        );
        assert!(options.credentials.is_none() && !options.create && options.data_centre.is_none());
    }
}
