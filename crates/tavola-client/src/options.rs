//! How a client behaves, and how one call does.

use std::time::Duration;

use crate::crypt::Policy;
use crate::retry::Retry;
use crate::store::Flavour;

/// What a call does when its reply was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnUnknown {
    /// Reads back, and repeats under a condition where that is safe.
    #[default]
    Resolve,
    /// Tells the caller at once.
    Report,
}

/// How a client behaves.
///
/// ```
/// use std::time::Duration;
/// use tavola_client::{ClientOptions, Retry};
///
/// let options = ClientOptions::default()
///     .deadline(Duration::from_secs(10))
///     .retry(Retry::default().attempts(3));
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    pub(crate) retry: Retry,
    pub(crate) deadline: Option<Duration>,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) deny_scans: bool,
    pub(crate) parallel_requests: usize,
    pub(crate) flavour: Option<Flavour>,
    pub(crate) write_ids: bool,
    pub(crate) user_agent: Option<String>,
    pub(crate) allow_http: bool,
    pub(crate) connection: ConnectionOptions,
    pub(crate) encryption: Policy,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            retry: Retry::default(),
            deadline: None,
            on_unknown: OnUnknown::Resolve,
            deny_scans: false,
            parallel_requests: 64,
            flavour: None,
            write_ids: false,
            user_agent: None,
            allow_http: false,
            connection: ConnectionOptions::default(),
            encryption: Policy::default(),
        }
    }
}

impl ClientOptions {
    /// When attempts are repeated.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// The longest time that a call takes, attempts and pauses together.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// What a call does when its reply was lost.
    #[must_use]
    pub fn on_unknown(self, on_unknown: OnUnknown) -> Self {
        Self { on_unknown, ..self }
    }

    /// Refuses queries that read whole partitions or more.
    #[must_use]
    pub fn deny_scans(self) -> Self {
        Self { deny_scans: true, ..self }
    }

    /// So many requests at a time; the others wait.
    #[must_use]
    pub fn parallel_requests(self, parallel_requests: usize) -> Self {
        Self { parallel_requests: parallel_requests.max(1), ..self }
    }

    /// Which service it is, if the name of the host does not tell.
    #[must_use]
    pub fn flavour(self, flavour: Flavour) -> Self {
        Self { flavour: Some(flavour), ..self }
    }

    /// Stores an id with every write, in the property `tv_ver`. By it a lost reply is decided where
    /// content is no proof.
    #[must_use]
    pub fn write_ids(self) -> Self {
        Self { write_ids: true, ..self }
    }

    /// What stands before this library's name in `User-Agent`.
    #[must_use]
    pub fn user_agent(self, user_agent: impl Into<String>) -> Self {
        Self { user_agent: Some(user_agent.into()), ..self }
    }

    /// Allows http to other hosts than this machine. Keys are not sent, but data is, for everybody
    /// to read.
    #[must_use]
    pub fn allow_http(self) -> Self {
        Self { allow_http: true, ..self }
    }

    /// How connections are made and kept.
    #[must_use]
    pub fn connection(self, connection: ConnectionOptions) -> Self {
        Self { connection, ..self }
    }
}

/// How connections are made and kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "nothing connects without http"))]
pub struct ConnectionOptions {
    pub(crate) proxy: Option<String>,
    pub(crate) certificates: Vec<Vec<u8>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) idle_max: usize,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            proxy: None,
            certificates: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            // Load balancers of the service close idle connections after a few minutes.
            idle_timeout: Duration::from_secs(90),
            idle_max: 32,
        }
    }
}

impl ConnectionOptions {
    /// Goes through this proxy: `http://host:port`.
    #[must_use]
    pub fn proxy(self, url: impl Into<String>) -> Self {
        Self { proxy: Some(url.into()), ..self }
    }

    /// Trusts the certificates in this PEM text as well.
    #[must_use]
    pub fn certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.push(pem.into());
        self
    }

    /// The longest time for a connection to be made, with TLS.
    #[must_use]
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// How long a connection is kept that nobody uses.
    #[must_use]
    pub fn idle_timeout(self, idle_timeout: Duration) -> Self {
        Self { idle_timeout, ..self }
    }

    /// How many connections are kept that nobody uses.
    #[must_use]
    pub fn idle_max(self, idle_max: usize) -> Self {
        Self { idle_max, ..self }
    }
}
