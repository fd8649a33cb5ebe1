//! Every setting, once: its path in the file, its flag, its default and its help. Variables, help
//! pages, the template and `docs/configuration.md` are derived from this table.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// `section.key` in the file.
    pub path: &'static str,
    /// The long flag of `tavola serve`, if there is one.
    pub flag: Option<&'static str>,
    /// Placeholder of the value in help.
    pub value: &'static str,
    /// As written in the file; empty if there is none.
    pub default: &'static str,
    /// One line.
    pub help: &'static str,
}

impl Setting {
    /// The variable that sets it: `TAVOLA_SECTION__KEY`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("TAVOLA_{}", self.path.replace('.', "__").to_ascii_uppercase())
    }

    /// A password, which is masked wherever settings are shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.path.ends_with("password")
    }

    /// The heading under which help lists the setting.
    #[must_use]
    pub fn group(&self) -> Group {
        match self.path.split_once('.') {
            Some(("tls", _)) => Group::Tls,
            Some(("store", key)) if EMBEDDED_KEYS.contains(&key) => Group::Storage,
            Some(("store", _)) => Group::Cluster,
            Some(("limits" | "targets", _)) => Group::Limits,
            Some(("log" | "audit", _)) => Group::Logging,
            _ => Group::Server,
        }
    }

    /// When a changed value applies.
    #[must_use]
    pub fn applies(&self) -> Applies {
        match self.path {
            "server.accounts_folder" | "log.level" => Applies::OnReload,
            // They are loaded together with the certificate.
            "tls.key" | "tls.password" | "tls.client_ca" | "tls.client_auth" => Applies::OnReload,
            path if path.starts_with("targets.") => Applies::OnReload,
            "tls.cert" | "log.file" | "log.access_file" => Applies::OnReloadIfSetAtStart,
            _ => Applies::AtStart,
        }
    }

    /// The setting at that path.
    #[must_use]
    pub fn find(path: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.path == path)
    }
}

/// A former name of a setting. It still works everywhere, and the server logs the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldName {
    /// The former path.
    pub path: &'static str,
    /// The former flag.
    pub flag: Option<&'static str>,
    /// The current path.
    pub now: &'static str,
}

impl OldName {
    /// The entry for a former path.
    #[must_use]
    pub fn find(path: &str) -> Option<&'static Self> {
        OLD_NAMES.iter().find(|old| old.path == path)
    }
}

pub const OLD_NAMES: &[OldName] =
    &[OldName { path: "store.neighbours", flag: Some("neighbours"), now: "store.peers" }];

/// When a changed value of a setting applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// When the server starts.
    AtStart,
    /// On SIGHUP if the server was started with a value, otherwise when it starts.
    OnReloadIfSetAtStart,
    /// On SIGHUP.
    OnReload,
}

/// A heading of help pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Addresses, ports and accounts.
    Server,
    /// Where entities are stored, and the embedded store.
    Storage,
    /// The Cassandra store and its peers.
    Cluster,
    /// Certificates of the server and of its clients.
    Tls,
    /// Log, access log and audit log.
    Logging,
    /// Bounds of the process and budgets of accounts.
    Limits,
}

impl Group {
    /// The text of the heading.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Storage => "Storage",
            Self::Cluster => "Cluster",
            Self::Tls => "TLS",
            Self::Logging => "Logging",
            Self::Limits => "Limits",
        }
    }
}

/// Keys of `[store]` that are not about a cluster.
const EMBEDDED_KEYS: &[&str] = &[
    "kind",
    "location",
    "cache_mb",
    "compression",
    "memtable_kb",
    "reserve_mb",
    "allow_future_versions",
];

const fn setting(
    path: &'static str,
    flag: Option<&'static str>,
    value: &'static str,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { path, flag, value, default, help }
}

/// A field of a section that may occur several times, each time under a name of the operator's
/// choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// `[section.NAME] field` in the file.
    pub name: &'static str,
    /// Masked wherever settings are shown.
    pub secret: bool,
    /// One line.
    pub help: &'static str,
}

/// A section that may occur several times: `[accounts.NAME]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedSection {
    /// The part before the name.
    pub prefix: &'static str,
    /// The fields that it accepts.
    pub fields: &'static [Field],
    /// The required fields, in words.
    pub needs: &'static str,
}

impl NamedSection {
    /// Splits `prefix.NAME.field`.
    #[must_use]
    pub fn split(path: &str) -> Option<(&'static Self, &str, &'static Field)> {
        NAMED_SECTIONS.iter().find_map(|section| {
            let rest = path.strip_prefix(section.prefix)?.strip_prefix('.')?;
            let (name, field) = rest.rsplit_once('.')?;
            let field = section.fields.iter().find(|known| known.name == field)?;
            (!name.is_empty()).then_some((section, name, field))
        })
    }
}

const fn field(name: &'static str, help: &'static str) -> Field {
    Field { name, secret: false, help }
}

const fn secret(name: &'static str, help: &'static str) -> Field {
    Field { name, secret: true, help }
}

/// Every section whose names are the operator's.
pub const NAMED_SECTIONS: &[NamedSection] = &[
    NamedSection { prefix: "accounts", fields: ACCOUNT_FIELDS, needs: "key1" },
    NamedSection { prefix: "auth.oidc", fields: ISSUER_FIELDS, needs: "issuer" },
    NamedSection { prefix: "auth.roles", fields: ROLE_FIELDS, needs: "value and role" },
];

const ACCOUNT_FIELDS: &[Field] = &[
    secret("key1", "The first key, base64"),
    secret("key2", "The second key, base64; signatures by either key are valid"),
    field("read_only", "Reject every write: true or false"),
    field("allowed_ips", "Addresses or ranges (10.0.0.0/8) that may use the account; default: all"),
    field(
        "weight",
        "Share relative to other accounts when the server is busy; 1 to 1000, default: 1",
    ),
    field(
        "requests_per_second",
        "Beyond it 503 ServerBusy; 0: no limit; default: that of [targets]",
    ),
    field(
        "ingress_bytes_per_second",
        "Bytes of request bodies; beyond it 503 ServerBusy; default: no limit",
    ),
    field(
        "egress_bytes_per_second",
        "Bytes of responses; beyond it 503 ServerBusy; default: no limit",
    ),
    field(
        "partition_entities_per_second",
        "Entities of each partition; beyond it 503 ServerBusy; default: that of [targets]",
    ),
];

const ISSUER_FIELDS: &[Field] = &[
    field("issuer", "URL of the identity provider, exactly as in the iss claim of its tokens"),
    field(
        "audiences",
        "Accepted aud claims, {account} is replaced by the account; default: those of the service",
    ),
    field(
        "algorithms",
        "Accepted signature algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384; \
         default: RS256, ES256",
    ),
    field("jwks_file", "Its public keys (JWKS) from this file instead of from the issuer"),
    field("ca_file", "Certificates (PEM) to trust for the issuer, in addition to the system's"),
    field(
        "authorization_uri",
        "Where the challenge sends clients without credentials to get a token",
    ),
];

const ROLE_FIELDS: &[Field] = &[
    field("issuer", "NAME of the [auth.oidc.NAME] that must issue the token; default: any"),
    field("claim", "Claim to evaluate; default: roles"),
    field("value", "Value that the claim must equal or contain"),
    field("role", "reader, contributor or administrator"),
    field("account", "Account to which the role applies; default: * (every account)"),
    field("tables", "Tables to which the role applies; default: all"),
];

/// Every setting with a fixed path.
pub const SETTINGS: &[Setting] = &[
    setting(
        "server.host",
        Some("host"),
        "ADDRESS",
        "127.0.0.1",
        "Address on which the Table service listens",
    ),
    setting(
        "server.table_port",
        Some("table-port"),
        "PORT",
        "10002",
        "Port of the Table service; 0 picks a free one",
    ),
    setting(
        "server.admin_host",
        Some("admin-host"),
        "ADDRESS",
        "127.0.0.1",
        "Address of the admin port (health and metrics)",
    ),
    setting(
        "server.admin_port",
        Some("admin-port"),
        "PORT",
        "10003",
        "Admin port (health and metrics); 0 picks a free one",
    ),
    setting(
        "server.admin_names",
        None,
        "NAMES",
        "",
        "Host names accepted on the admin port, in addition to addresses and localhost",
    ),
    setting(
        "server.path_style_only",
        Some("path-style-only"),
        "BOOL",
        "false",
        "Read the account from the path even if the host name starts with an account name",
    ),
    setting(
        "server.accounts_folder",
        Some("accounts-folder"),
        "FOLDER",
        "tavola-accounts",
        "Folder with one file per account, written by `tavola account`",
    ),
    setting(
        "server.development_account",
        Some("development-account"),
        "BOOL",
        "false",
        "Serve the development account, whose key is public, also next to other accounts, \
         beyond loopback or behind proxies",
    ),
    setting(
        "server.development_hosts",
        Some("development-hosts"),
        "NAMES",
        "",
        "Host names accepted for the development account, in addition to localhost; *.NAME \
         accepts every subdomain",
    ),
    setting(
        "server.trusted_proxies",
        None,
        "RANGES",
        "",
        "Proxies (addresses or ranges, separated by commas) whose X-Forwarded-For and \
         X-Forwarded-Proto apply",
    ),
    setting(
        "tls.cert",
        Some("tls-cert"),
        "FILE",
        "",
        "Serve https with this certificate: PEM with its chain, or a PFX file; reloaded when \
         the file changes",
    ),
    setting(
        "tls.key",
        Some("tls-key"),
        "FILE",
        "",
        "Private key of the certificate in PEM, unless it is in the same file",
    ),
    setting("tls.password", None, "PASSWORD", "", "Password of the PFX file"),
    setting(
        "tls.client_ca",
        Some("tls-client-ca"),
        "FILE",
        "",
        "Request client certificates issued by an authority in this PEM file, which may also \
         contain revocation lists",
    ),
    setting(
        "tls.client_auth",
        None,
        "WORD",
        "required",
        "With tls.client_ca: required (reject clients without a certificate) or optional \
         (reject only invalid ones)",
    ),
    setting(
        "store.kind",
        Some("store"),
        "KIND",
        "embedded",
        "Storage backend: embedded (on disk), cassandra (a cluster) or memory",
    ),
    setting(
        "store.location",
        Some("location"),
        "FOLDER",
        "tavola-data",
        "Data folder of the embedded store",
    ),
    setting(
        "store.cache_mb",
        Some("cache-mb"),
        "MB",
        "64",
        "Cache of the embedded store, half for rows and half for blocks; blocks also use \
         memory that memtables leave free",
    ),
    setting(
        "store.compression",
        Some("compression"),
        "KIND",
        "lz4",
        "Compression of the embedded store: lz4, or zstd, which takes less space and more \
         time to read",
    ),
    setting(
        "store.memtable_kb",
        None,
        "KB",
        "57344",
        "Writes that the embedded store collects in memory before it writes a file; it may \
         use twice as much",
    ),
    setting(
        "store.reserve_mb",
        None,
        "MB",
        "256",
        "Free disk space below which writes are rejected; half of it is reserved for \
         operations that free space",
    ),
    setting(
        "store.allow_future_versions",
        Some("allow-future-versions"),
        "BOOL",
        "false",
        "Serve a data folder whose Timestamps are more than a day ahead of the clock; new \
         ones are later still",
    ),
    setting(
        "store.contact_points",
        Some("contact-points"),
        "NODES",
        "127.0.0.1:9042",
        "Cassandra nodes to connect to first, HOST or HOST:PORT; they name the others",
    ),
    setting("store.keyspace", Some("keyspace"), "NAME", "tavola", "Keyspace of the cluster"),
    setting(
        "store.data_centre",
        Some("data-centre"),
        "NAME",
        "",
        "Data centre whose quorums are used; none: quorums of the whole cluster. Must be the \
         same on every node",
    ),
    setting(
        "store.replication",
        Some("replication"),
        "COUNT",
        "3",
        "Replicas in each data centre, for a keyspace that is created",
    ),
    setting("store.create", None, "BOOL", "false", "Create the keyspace at the first start"),
    setting("store.user", Some("store-user"), "NAME", "", "User name for the cluster"),
    setting("store.password", None, "TEXT", "", "Password of that user"),
    setting(
        "store.password_file",
        Some("store-password-file"),
        "FILE",
        "",
        "File whose first line is the password",
    ),
    setting(
        "store.tls",
        Some("store-tls"),
        "BOOL",
        "false",
        "Use TLS for connections to the cluster",
    ),
    setting(
        "store.ca_file",
        Some("store-ca-file"),
        "FILE",
        "",
        "Certificates (PEM) to trust for the cluster, in addition to the system's",
    ),
    setting("store.statement_ms", None, "MS", "2000", "Timeout of one statement on the cluster"),
    setting(
        "store.answer_ms",
        None,
        "MS",
        "10000",
        "Timeout of a request to the cluster, retries included",
    ),
    setting(
        "store.reads",
        None,
        "WORD",
        "strict",
        "Reads from the cluster: strict (linearizable) or fast (may show part of a \
         transaction in progress)",
    ),
    setting(
        "store.waiting_max",
        None,
        "COUNT",
        "4096",
        "Writes that may queue for one partition of the cluster; beyond it 503 ServerBusy",
    ),
    setting(
        "store.lease_ms",
        None,
        "MS",
        "2000",
        "How long a node may use cached tables, policies and properties that another node has \
         changed; a drop is acknowledged after it. Must be the same on every node",
    ),
    setting(
        "store.sweep_seconds",
        None,
        "SECONDS",
        "60",
        "Delay before an empty partition is removed from the partition directory of the \
         cluster",
    ),
    setting(
        "store.peers",
        Some("peers"),
        "IP:PORT",
        "",
        "Address on which this node listens for its peers, to forward writes to contended \
         partitions; empty: no forwarding",
    ),
    setting(
        "store.peer_keys",
        Some("peer-keys"),
        "FOLDER",
        "",
        "Folder with this node's keys for mutual TLS with its peers (`tavola store peer-keys` \
         creates them); required beyond loopback, reloaded when they change",
    ),
    setting(
        "store.affinity",
        None,
        "WORD",
        "contended",
        "Writes that are forwarded to the preferred node of their partition: contended (after \
         nodes conflicted) or always",
    ),
    setting(
        "store.accept_risks",
        Some("accept-risks"),
        "NAMES",
        "",
        "Known risks of the cluster to accept: commitlog, paxos, replication, settings, \
         plain-peers; see `tavola doctor`",
    ),
    setting(
        "limits.connections",
        None,
        "COUNT",
        "10000",
        "Open connections; beyond it 503 ServerBusy",
    ),
    setting(
        "limits.connections_per_address",
        None,
        "COUNT",
        "0",
        "Open connections from one address (IPv6: one /64 network); 0: three quarters of all. \
         Does not apply to server.trusted_proxies",
    ),
    setting(
        "limits.requests_in_flight",
        None,
        "COUNT",
        "4096",
        "Requests in progress; beyond it 503 ServerBusy",
    ),
    setting(
        "limits.queries",
        None,
        "COUNT",
        "0",
        "Queries in progress; others wait briefly, then 503 ServerBusy; 0: two per processor, \
         at least 8",
    ),
    setting(
        "limits.body_mb",
        None,
        "MB",
        "256",
        "Memory for bodies above 16 KB, of all requests and responses together; beyond it 503 \
         ServerBusy",
    ),
    setting(
        "limits.head_mb",
        None,
        "MB",
        "32",
        "Memory for request heads, of all connections together; beyond it 503 ServerBusy",
    ),
    setting(
        "limits.header_bytes",
        None,
        "BYTES",
        "65536",
        "Size of request line and headers; headers alone are limited to 32 KiB",
    ),
    setting(
        "limits.header_seconds",
        Some("keep-alive-seconds"),
        "SECONDS",
        "60",
        "Time for a complete request head to arrive; an idle connection is closed after it",
    ),
    setting(
        "limits.body_seconds",
        None,
        "SECONDS",
        "60",
        "Time for a complete request body to arrive, and for a client to read 64 KB of a \
         pending response",
    ),
    setting(
        "limits.request_seconds",
        None,
        "SECONDS",
        "30",
        "Time after which a request fails with OperationTimedOut",
    ),
    setting(
        "limits.drain_seconds",
        None,
        "SECONDS",
        "25",
        "Time for open requests to finish at shutdown",
    ),
    setting(
        "limits.auth_failures_per_minute",
        None,
        "COUNT",
        "100",
        "Failed authentications of one address, beyond which responses to its failures are \
         delayed; 0: never",
    ),
    setting("limits.auth_failure_delay_ms", None, "MS", "1000", "Delay of such a response"),
    setting(
        "targets.preset",
        Some("targets"),
        "PRESET",
        "none",
        "Budgets of every account: none, or azure for 20000 requests/s and 2000 entities/s \
         per partition",
    ),
    setting(
        "targets.account_requests_per_second",
        None,
        "COUNT",
        "",
        "Requests of every account; beyond it 503 ServerBusy; 0: no limit; default: from the \
         preset",
    ),
    setting(
        "targets.partition_entities_per_second",
        None,
        "COUNT",
        "",
        "Entities requested from one partition; beyond it 503 ServerBusy; 0: no limit; \
         default: from the preset",
    ),
    setting(
        "log.format",
        Some("log-format"),
        "FORMAT",
        "auto",
        "auto, text or json; auto is text on a terminal",
    ),
    setting(
        "log.level",
        Some("log-level"),
        "LEVEL",
        "info",
        "error, warn, info, debug, trace, or a tracing filter",
    ),
    setting(
        "log.access",
        Some("access-log"),
        "BOOL",
        "true",
        "Write one line per request to standard output",
    ),
    setting(
        "log.file",
        Some("log-file"),
        "FILE",
        "",
        "Append the log to this file instead of standard error",
    ),
    setting(
        "log.access_file",
        Some("access-log-file"),
        "FILE",
        "",
        "Append the access log to this file instead of standard output; SIGHUP and SIGUSR1 \
         reopen it",
    ),
    setting(
        "audit.file",
        Some("audit-file"),
        "FILE",
        "",
        "Append an audit record (actor, operation, address, result) for each request to this \
         file, one JSON object per line",
    ),
    setting(
        "audit.requests",
        None,
        "WORD",
        "writes",
        "Requests to audit: denied, writes (and denied) or all; administrative changes are \
         always included",
    ),
];
