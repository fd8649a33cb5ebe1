//! Every setting, once: its path in the file, its flag, its default and its help. Variables follow
//! from the path.

/// One thing that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// `section.key` in the file.
    pub path: &'static str,
    /// The long flag of `tavola serve`, if there is one.
    pub flag: Option<&'static str>,
    /// What the value is called in help.
    pub value: &'static str,
    /// As somebody would write it.
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

    /// Never shown: a password.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.path.ends_with("password")
    }

    /// When another value counts.
    #[must_use]
    pub fn taken(&self) -> Taken {
        match self.path {
            "server.accounts_folder" | "log.level" => Taken::OnReload,
            // They go with the certificate.
            "tls.key" | "tls.password" | "tls.client_ca" | "tls.client_auth" => Taken::OnReload,
            path if path.starts_with("targets.") => Taken::OnReload,
            "tls.cert" | "log.file" | "log.access_file" => Taken::IfGivenAtStart,
            _ => Taken::AtStart,
        }
    }

    /// The setting at that path.
    #[must_use]
    pub fn find(path: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.path == path)
    }
}

/// A name that a setting had before. It still works everywhere, and whoever uses it is told the new
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldName {
    /// The path that it had.
    pub path: &'static str,
    /// The flag that it had.
    pub flag: Option<&'static str>,
    /// The path that it has now.
    pub now: &'static str,
}

impl OldName {
    /// What an old path is called today.
    #[must_use]
    pub fn find(path: &str) -> Option<&'static Self> {
        OLD_NAMES.iter().find(|old| old.path == path)
    }
}

/// Every name that settings had before.
pub const OLD_NAMES: &[OldName] =
    &[OldName { path: "store.neighbours", flag: Some("neighbours"), now: "store.peers" }];

/// When another value of a setting counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// When the server starts.
    AtStart,
    /// On SIGHUP, if the server was started with a value; otherwise when it starts.
    IfGivenAtStart,
    /// On SIGHUP.
    OnReload,
}

const fn setting(
    path: &'static str,
    flag: Option<&'static str>,
    value: &'static str,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { path, flag, value, default, help }
}

/// A field of a section that can stand several times, each time under a name that somebody chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// `[section.NAME] field` in the file.
    pub name: &'static str,
    /// Never shown.
    pub secret: bool,
    /// One line.
    pub help: &'static str,
}

/// A section that can stand several times: `[accounts.NAME]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedSection {
    /// What stands before the name.
    pub prefix: &'static str,
    /// What can stand below it.
    pub fields: &'static [Field],
    /// What must stand below it, in words.
    pub needs: &'static str,
}

impl NamedSection {
    /// Takes `prefix.NAME.field` apart.
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
    secret("key2", "The second key, base64; a signature by either counts"),
    field("read_only", "Refuse every write: true or false"),
    field("allowed_ips", "Addresses or ranges (10.0.0.0/8) that may use the account; none: all"),
    field(
        "weight",
        "What it may have beside other accounts when the server is busy; 1 to 1000, default: 1",
    ),
    field(
        "requests_per_second",
        "Requests beyond it get 503 ServerBusy; 0: no bound; default: that of [targets]",
    ),
    field("ingress_bytes_per_second", "Bytes of request bodies, likewise; default: no bound"),
    field("egress_bytes_per_second", "Bytes of answers, likewise; default: no bound"),
    field(
        "partition_entities_per_second",
        "Entities of each partition, likewise; default: that of [targets]",
    ),
];

const ISSUER_FIELDS: &[Field] = &[
    field("issuer", "The identity provider's address, exactly as in the iss claim of its tokens"),
    field(
        "audiences",
        "Accepted aud claims, {account} standing for the account; default: those of the service",
    ),
    field(
        "algorithms",
        "How it may sign: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384; default RS256, ES256",
    ),
    field("jwks_file", "Its public keys as a file (JWKS) instead of asking it"),
    field("ca_file", "Certificates (PEM) to trust besides the system's when asking it"),
    field("authorization_uri", "Where clients without credentials are told to get a token"),
];

const ROLE_FIELDS: &[Field] = &[
    field("issuer", "NAME of the [auth.oidc.NAME] who must say so; default: any"),
    field("claim", "The claim to look at; default roles"),
    field("value", "The value that it must be or contain"),
    field("role", "reader, contributor or administrator"),
    field("account", "The account in which the role holds; default * (every one)"),
    field("tables", "The tables for which it holds; default: all"),
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
        "Address for health and metrics",
    ),
    setting(
        "server.admin_port",
        Some("admin-port"),
        "PORT",
        "10003",
        "Port for health and metrics; 0 picks a free one",
    ),
    setting(
        "server.admin_names",
        None,
        "NAMES",
        "",
        "Host names under which health and metrics are asked for, beside addresses and localhost",
    ),
    setting(
        "server.path_style_only",
        Some("path-style-only"),
        "BOOL",
        "false",
        "Take the account from the path even if the host name begins with one",
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
        "Serve the development account, whose key is public, also beside others, beyond loopback or behind proxies",
    ),
    setting(
        "server.development_hosts",
        Some("development-hosts"),
        "NAMES",
        "",
        "Host names under which the development account is used, beside localhost; *.NAME for all below one",
    ),
    setting(
        "server.trusted_proxies",
        None,
        "RANGES",
        "",
        "Proxies (addresses or ranges, by commas) whose X-Forwarded-For and X-Forwarded-Proto count",
    ),
    setting(
        "tls.cert",
        Some("tls-cert"),
        "FILE",
        "",
        "Serve https with this certificate: PEM, with its chain, or a PFX file; read again when it changes",
    ),
    setting(
        "tls.key",
        Some("tls-key"),
        "FILE",
        "",
        "The certificate's private key in PEM, unless it is in the same file",
    ),
    setting("tls.password", None, "PASSWORD", "", "Password of a PFX file"),
    setting(
        "tls.client_ca",
        Some("tls-client-ca"),
        "FILE",
        "",
        "Ask clients for a certificate that an authority in this PEM file issued; it may hold revocation lists too",
    ),
    setting(
        "tls.client_auth",
        None,
        "WORD",
        "required",
        "With tls.client_ca: required (refuse clients without a certificate) or optional (refuse wrong ones only)",
    ),
    setting(
        "store.kind",
        Some("store"),
        "KIND",
        "embedded",
        "Where entities are kept: embedded (on disk), cassandra (in a cluster) or memory",
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
        "Memory of the embedded store for cached rows and blocks, half for each; blocks also have what memtables leave of theirs",
    ),
    setting(
        "store.compression",
        Some("compression"),
        "KIND",
        "lz4",
        "How the embedded store packs what it writes: lz4, or zstd, which takes less space and more time to read",
    ),
    setting(
        "store.memtable_kb",
        None,
        "KB",
        "57344",
        "New writes that the embedded store collects in memory before they become a file; it may need twice as much",
    ),
    setting(
        "store.reserve_mb",
        None,
        "MB",
        "256",
        "Free space on the disk below which writes are refused; half of it is left to what makes room",
    ),
    setting(
        "store.allow_future_versions",
        Some("allow-future-versions"),
        "BOOL",
        "false",
        "Serve a data folder whose Timestamps are more than a day ahead of the clock; new ones are later still",
    ),
    setting(
        "store.contact_points",
        Some("contact-points"),
        "NODES",
        "127.0.0.1:9042",
        "Nodes of the cluster to begin with, HOST or HOST:PORT; the others are learnt from them",
    ),
    setting(
        "store.keyspace",
        Some("keyspace"),
        "NAME",
        "tavola",
        "Keyspace of the cluster's tables",
    ),
    setting(
        "store.data_centre",
        Some("data-centre"),
        "NAME",
        "",
        "Data centre whose quorums count; none: those of the whole cluster. The same for all front ends",
    ),
    setting(
        "store.replication",
        Some("replication"),
        "COUNT",
        "3",
        "Copies in each data centre, for a keyspace that is created",
    ),
    setting("store.create", None, "BOOL", "false", "Create the keyspace at the first start"),
    setting("store.user", Some("store-user"), "NAME", "", "User of the cluster"),
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
        "Secure the connections to the cluster",
    ),
    setting(
        "store.ca_file",
        Some("store-ca-file"),
        "FILE",
        "",
        "Certificates (PEM) to trust for that besides the system's",
    ),
    setting(
        "store.statement_ms",
        None,
        "MS",
        "2000",
        "Until one statement must be answered by the cluster",
    ),
    setting("store.answer_ms", None, "MS", "10000", "Until a request to the cluster is given up"),
    setting(
        "store.reads",
        None,
        "WORD",
        "strict",
        "Reads of the cluster: strict (linearizable) or fast (a transaction under way may be seen in part)",
    ),
    setting(
        "store.waiting_max",
        None,
        "COUNT",
        "4096",
        "Writes that may wait for one partition of the cluster; beyond them 503 ServerBusy",
    ),
    setting(
        "store.lease_ms",
        None,
        "MS",
        "2000",
        "How long a front end of the cluster may go on with tables, policies and properties that another changed; a drop \
         is answered after it. The same for all front ends",
    ),
    setting(
        "store.sweep_seconds",
        None,
        "SECONDS",
        "60",
        "When partitions of the cluster that were found empty are taken out of the directory",
    ),
    setting(
        "store.peers",
        Some("peers"),
        "IP:PORT",
        "",
        "Where this node listens for the others of its cluster, to write contended partitions for each other; \
         empty: each writes by itself",
    ),
    setting(
        "store.peer_keys",
        Some("peer-keys"),
        "FOLDER",
        "",
        "Keys of this node, by which its peers and it know each other (`tavola store peer-keys` makes them); needed beyond \
         loopback, and read again when they change",
    ),
    setting(
        "store.affinity",
        None,
        "WORD",
        "contended",
        "Which writes go to the peer preferred for their partition: contended (where nodes conflicted) or always",
    ),
    setting(
        "store.accept_risks",
        Some("accept-risks"),
        "NAMES",
        "",
        "Dangers of the cluster to live with: commitlog, paxos, replication, settings, plain-peers; see `tavola doctor`",
    ),
    setting(
        "limits.connections",
        None,
        "COUNT",
        "10000",
        "Open connections; beyond them 503 ServerBusy",
    ),
    setting(
        "limits.connections_per_address",
        None,
        "COUNT",
        "0",
        "Open connections from one address (of IPv6: one network of 64 bits); 0 for three quarters of all. \
         Proxies of server.trusted_proxies are not bound by it",
    ),
    setting(
        "limits.requests_in_flight",
        None,
        "COUNT",
        "4096",
        "Requests being answered; beyond them 503 ServerBusy",
    ),
    setting(
        "limits.queries",
        None,
        "COUNT",
        "0",
        "Queries being answered; others wait for a moment, then 503 ServerBusy; 0: two per processor, at least 8",
    ),
    setting(
        "limits.body_mb",
        None,
        "MB",
        "256",
        "Memory for bodies above 16 KB, of all requests and answers together; beyond it 503 ServerBusy",
    ),
    setting(
        "limits.head_mb",
        None,
        "MB",
        "32",
        "Memory for the heads of requests, of all connections together; beyond it 503 ServerBusy",
    ),
    setting(
        "limits.header_bytes",
        None,
        "BYTES",
        "65536",
        "Request line and headers; headers alone have 32 KiB",
    ),
    setting(
        "limits.header_seconds",
        Some("keep-alive-seconds"),
        "SECONDS",
        "60",
        "Until a whole request head has arrived; an idle connection is closed after it",
    ),
    setting(
        "limits.body_seconds",
        None,
        "SECONDS",
        "60",
        "Until a whole request body has arrived, or a client that keeps an answer waiting has taken 64 KB of it",
    ),
    setting(
        "limits.request_seconds",
        None,
        "SECONDS",
        "30",
        "Until a request is answered with OperationTimedOut",
    ),
    setting(
        "limits.drain_seconds",
        None,
        "SECONDS",
        "25",
        "Until open requests are abandoned at shutdown",
    ),
    setting(
        "limits.auth_failures_per_minute",
        None,
        "COUNT",
        "100",
        "Failed authentications of one address, beyond which answers to its failures are delayed; 0: never",
    ),
    setting(
        "limits.auth_failure_delay_ms",
        None,
        "MS",
        "1000",
        "How long such an answer is delayed",
    ),
    setting(
        "targets.preset",
        Some("targets"),
        "PRESET",
        "none",
        "Budgets of every account: none, or azure for 20000 requests/s and 2000 entities/s in each partition",
    ),
    setting(
        "targets.account_requests_per_second",
        None,
        "COUNT",
        "",
        "Requests of every account; beyond them 503 ServerBusy; 0: no bound; default: as the preset says",
    ),
    setting(
        "targets.partition_entities_per_second",
        None,
        "COUNT",
        "",
        "Entities asked for in one partition; beyond them 503 ServerBusy; 0: no bound; default: as the preset says",
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
        "Append the access log to this file instead of standard output; SIGHUP and SIGUSR1 open it anew",
    ),
    setting(
        "audit.file",
        Some("audit-file"),
        "FILE",
        "",
        "Append who did what, from where and with which result to this file, one JSON object per line",
    ),
    setting(
        "audit.requests",
        None,
        "WORD",
        "writes",
        "Which requests it has: denied, writes (and denied) or all; changes of the server itself always",
    ),
];
