//! The settings of the server itself, each once: its path in the file, its flag, its default and its
//! help. Those of services are in [`super::services`], those of backends in their crates; the
//! [`Schema`](super::Schema) joins them.

use tavola_store::Setting;

/// When a changed value of a setting applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applies {
    /// When the server starts.
    AtStart,
    /// On SIGHUP if the server was started with a value, otherwise when it starts.
    OnReloadIfSetAtStart,
    /// On SIGHUP.
    OnReload,
}

impl Applies {
    /// When a changed value of that setting applies.
    #[must_use]
    pub(super) fn of(setting: &Setting) -> Self {
        match setting.path {
            "server.accounts_folder" | "log.level" => Self::OnReload,
            // They are loaded together with the certificate.
            "tls.key" | "tls.password" | "tls.client_ca" | "tls.client_auth" => Self::OnReload,
            path if path.starts_with("targets.") => Self::OnReload,
            "tls.cert" | "log.file" | "log.access_file" => Self::OnReloadIfSetAtStart,
            _ => Self::AtStart,
        }
    }
}

/// Addresses, ports and accounts.
pub(super) const SERVER: &[Setting] = &[
    Setting::new(
        "server.host",
        Some("host"),
        "ADDRESS",
        "127.0.0.1",
        "Address on which services listen",
    ),
    Setting::new(
        "server.admin_host",
        Some("admin-host"),
        "ADDRESS",
        "127.0.0.1",
        "Address of the admin port (health and metrics)",
    ),
    Setting::new(
        "server.admin_port",
        Some("admin-port"),
        "PORT",
        "10003",
        "Admin port (health and metrics); 0 picks a free one",
    ),
    Setting::new(
        "server.admin_names",
        None,
        "NAMES",
        "",
        "Host names accepted on the admin port, in addition to addresses and localhost",
    ),
    Setting::new(
        "server.path_style_only",
        Some("path-style-only"),
        "BOOL",
        "false",
        "Read the account from the path even if the host name starts with an account name",
    ),
    Setting::new(
        "server.accounts_folder",
        Some("accounts-folder"),
        "FOLDER",
        "tavola-accounts",
        "Folder with one file per account, written by `tavola account`",
    ),
    Setting::new(
        "server.development_account",
        Some("development-account"),
        "BOOL",
        "false",
        "Serve the development account, whose key is public, also next to other accounts, \
         beyond loopback or behind proxies",
    ),
    Setting::new(
        "server.development_hosts",
        Some("development-hosts"),
        "NAMES",
        "",
        "Host names accepted for the development account, in addition to localhost; *.NAME \
         accepts every subdomain",
    ),
    Setting::new(
        "server.trusted_proxies",
        None,
        "RANGES",
        "",
        "Proxies (addresses or ranges, separated by commas) whose X-Forwarded-For and \
         X-Forwarded-Proto apply",
    ),
];

/// Certificates of the server and of its clients.
pub(super) const TLS: &[Setting] = &[
    Setting::new(
        "tls.cert",
        Some("tls-cert"),
        "FILE",
        "",
        "Serve https with this certificate: PEM with its chain, or a PFX file; reloaded when \
         the file changes",
    ),
    Setting::new(
        "tls.key",
        Some("tls-key"),
        "FILE",
        "",
        "Private key of the certificate in PEM, unless it is in the same file",
    ),
    Setting::new("tls.password", None, "PASSWORD", "", "Password of the PFX file"),
    Setting::new(
        "tls.client_ca",
        Some("tls-client-ca"),
        "FILE",
        "",
        "Request client certificates issued by an authority in this PEM file, which may also \
         contain revocation lists",
    ),
    Setting::new(
        "tls.client_auth",
        None,
        "WORD",
        "required",
        "With tls.client_ca: required (reject clients without a certificate) or optional \
         (reject only invalid ones)",
    ),
];

/// Bounds of the process and budgets of accounts.
pub(super) const LIMITS: &[Setting] = &[
    Setting::new(
        "limits.connections",
        None,
        "COUNT",
        "10000",
        "Open connections; beyond it 503 ServerBusy",
    ),
    Setting::new(
        "limits.connections_per_address",
        None,
        "COUNT",
        "0",
        "Open connections from one address (IPv6: one /64 network); 0: three quarters of all. \
         Does not apply to server.trusted_proxies",
    ),
    Setting::new(
        "limits.requests_in_flight",
        None,
        "COUNT",
        "4096",
        "Requests in progress; beyond it 503 ServerBusy",
    ),
    Setting::new(
        "limits.queries",
        None,
        "COUNT",
        "0",
        "Queries in progress; others wait briefly, then 503 ServerBusy; 0: two per processor, \
         at least 8",
    ),
    Setting::new(
        "limits.body_mb",
        None,
        "MB",
        "256",
        "Memory for bodies above 16 KB, of all requests and responses together; beyond it 503 \
         ServerBusy",
    ),
    Setting::new(
        "limits.head_mb",
        None,
        "MB",
        "32",
        "Memory for request heads, of all connections together; beyond it 503 ServerBusy",
    ),
    Setting::new(
        "limits.header_bytes",
        None,
        "BYTES",
        "65536",
        "Size of request line and headers; headers alone are limited to 32 KiB",
    ),
    Setting::new(
        "limits.header_seconds",
        Some("keep-alive-seconds"),
        "SECONDS",
        "60",
        "Time for a complete request head to arrive; an idle connection is closed after it",
    ),
    Setting::new(
        "limits.body_seconds",
        None,
        "SECONDS",
        "60",
        "Time for a complete request body to arrive, and for a client to read 64 KB of a \
         pending response",
    ),
    Setting::new(
        "limits.request_seconds",
        None,
        "SECONDS",
        "30",
        "Time after which a request fails with OperationTimedOut",
    ),
    Setting::new(
        "limits.drain_seconds",
        None,
        "SECONDS",
        "25",
        "Time for open requests to finish at shutdown",
    ),
    Setting::new(
        "limits.auth_failures_per_minute",
        None,
        "COUNT",
        "100",
        "Failed authentications of one address, beyond which responses to its failures are \
         delayed; 0: never",
    ),
    Setting::new("limits.auth_failure_delay_ms", None, "MS", "1000", "Delay of such a response"),
    Setting::new(
        "targets.preset",
        Some("targets"),
        "PRESET",
        "none",
        "Budgets of every account: none, or azure for 20000 requests/s and 2000 entities/s \
         per partition",
    ),
    Setting::new(
        "targets.account_requests_per_second",
        None,
        "COUNT",
        "",
        "Requests of every account; beyond it 503 ServerBusy; 0: no limit; default: from the \
         preset",
    ),
    Setting::new(
        "targets.partition_entities_per_second",
        None,
        "COUNT",
        "",
        "Entities requested from one partition; beyond it 503 ServerBusy; 0: no limit; \
         default: from the preset",
    ),
];

/// Log, access log and audit log.
pub(super) const LOGGING: &[Setting] = &[
    Setting::new(
        "log.format",
        Some("log-format"),
        "FORMAT",
        "auto",
        "auto, text or json; auto is text on a terminal",
    ),
    Setting::new(
        "log.level",
        Some("log-level"),
        "LEVEL",
        "info",
        "error, warn, info, debug, trace, or a tracing filter",
    ),
    Setting::new(
        "log.access",
        Some("access-log"),
        "BOOL",
        "true",
        "Write one line per request to standard output",
    ),
    Setting::new(
        "log.file",
        Some("log-file"),
        "FILE",
        "",
        "Append the log to this file instead of standard error",
    ),
    Setting::new(
        "log.access_file",
        Some("access-log-file"),
        "FILE",
        "",
        "Append the access log to this file instead of standard output; SIGHUP and SIGUSR1 \
         reopen it",
    ),
    Setting::new(
        "audit.file",
        Some("audit-file"),
        "FILE",
        "",
        "Append an audit record (actor, operation, address, result) for each request to this \
         file, one JSON object per line",
    ),
    Setting::new(
        "audit.requests",
        None,
        "WORD",
        "writes",
        "Requests to audit: denied, writes (and denied) or all; administrative changes are \
         always included",
    ),
];
