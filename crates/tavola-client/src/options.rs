//! How a client behaves, and how one call does.

use std::time::Duration;

use crate::crypt::Policy;
use crate::retry::Retry;
use crate::store::Flavour;

/// What a call does when its reply was lost.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, OnUnknown, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let ann = DynEntity::new("Smith", "1");
/// table.insert(&ann).on_unknown(OnUnknown::Report).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnUnknown {
    /// Reads back, and repeats under a condition where that is safe.
    #[default]
    Resolve,
    /// Tells the caller at once.
    Report,
}

/// How a call behaves. What is not said here is as the handle has it, else as the client has it.
/// A call, a query, a handle and a client take the same value.
///
/// ```
/// use std::time::Duration;
/// use tavola_client::{DynEntity, Options, Retry, TableServiceClient};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # service.create_table("people").await?;
/// let quick = Options::default().deadline(Duration::from_secs(1)).retry(Retry::none());
/// // For one call, or for all calls of a handle.
/// let table = service.table_client("people");
/// table.get::<DynEntity>(("Smith", "1")).options(quick.clone()).await?;
/// let table = table.with_options(quick);
/// table.get::<DynEntity>(("Smith", "1")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Options {
    pub(crate) retry: Option<Retry>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) on_unknown: Option<OnUnknown>,
    pub(crate) client_request_id: Option<String>,
    pub(crate) secondary: bool,
    pub(crate) claims: bool,
    pub(crate) is_idempotent: bool,
    pub(crate) denies_scans: Option<bool>,
}

/// The setters of [`Options`], for each type that has them: it has a method `options`, which takes
/// what is said over.
macro_rules! option_setters {
    ($($setter:ident)*) => { $($crate::options::option_setters!(@$setter);)* };
    (@deadline) => {
        /// The longest time that the call takes, attempts and pauses together; of a query each
        /// page. A quarter of it, at most two seconds, is kept to find out what became of a write
        /// whose reply was lost.
        #[must_use = "it returns the changed value"]
        pub fn deadline(self, deadline: std::time::Duration) -> Self {
            self.options($crate::Options::new(|options| options.deadline = Some(deadline)))
        }
    };
    (@retry) => {
        /// When attempts are repeated.
        #[must_use = "it returns the changed value"]
        pub fn retry(self, retry: $crate::Retry) -> Self {
            self.options($crate::Options::new(|options| options.retry = Some(retry)))
        }
    };
    (@on_unknown) => {
        /// What a write does when its reply was lost.
        #[must_use = "it returns the changed value"]
        pub fn on_unknown(self, on_unknown: $crate::OnUnknown) -> Self {
            self.options($crate::Options::new(|options| options.on_unknown = Some(on_unknown)))
        }
    };
    (@client_request_id) => {
        /// The id under which the service logs the request.
        #[must_use = "it returns the changed value"]
        pub fn client_request_id(self, id: impl Into<String>) -> Self {
            let id = id.into();
            self.options($crate::Options::new(|options| options.client_request_id = Some(id)))
        }
    };
    (@secondary) => {
        /// Reads ask the secondary, if the connection string names one.
        #[must_use = "it returns the changed value"]
        pub fn secondary(self) -> Self {
            self.options($crate::Options::new(|options| options.secondary = true))
        }
    };
    (@claim) => {
        /// For an insert by which somebody takes something, a lock or a name: equal content is no
        /// proof that it was this call, and it is never applied twice.
        #[must_use = "it returns the changed value"]
        pub fn claim(self) -> Self {
            self.options($crate::Options::new(|options| options.claims = true))
        }
    };
    (@idempotent) => {
        /// For `modify`: the closure may be applied once more after a reply was lost.
        #[must_use = "it returns the changed value"]
        pub fn idempotent(self) -> Self {
            self.options($crate::Options::new(|options| options.is_idempotent = true))
        }
    };
    (@deny_scans) => {
        /// Refuses queries that read a whole partition or more.
        #[must_use = "it returns the changed value"]
        pub fn deny_scans(self) -> Self {
            self.options($crate::Options::new(|options| options.denies_scans = Some(true)))
        }
    };
    (@allow_scan) => {
        /// Allows to read a whole partition or more, whatever the handle or the client says.
        #[must_use = "it returns the changed value"]
        pub fn allow_scan(self) -> Self {
            self.options($crate::Options::new(|options| options.denies_scans = Some(false)))
        }
    };
}
pub(crate) use option_setters;

impl Options {
    option_setters! {
        deadline retry on_unknown client_request_id secondary claim idempotent deny_scans allow_scan
    }

    pub(crate) fn new(set: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        set(&mut options);
        options
    }

    /// These, and over them what `over` says.
    #[must_use]
    pub fn options(self, over: Self) -> Self {
        Self {
            retry: over.retry.or(self.retry),
            deadline: over.deadline.or(self.deadline),
            on_unknown: over.on_unknown.or(self.on_unknown),
            client_request_id: over.client_request_id.or(self.client_request_id),
            secondary: over.secondary || self.secondary,
            claims: over.claims || self.claims,
            is_idempotent: over.is_idempotent || self.is_idempotent,
            denies_scans: over.denies_scans.or(self.denies_scans),
        }
    }
}

/// How one call behaves, everything said.
#[derive(Debug, Clone)]
pub(crate) struct CallSettings {
    pub(crate) retry: Retry,
    pub(crate) deadline: Option<Duration>,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) client_request_id: Option<String>,
    pub(crate) secondary: bool,
    /// An insert takes something: see [`Options::claim`].
    pub(crate) claims: bool,
    /// A closure of `modify` may be applied twice.
    pub(crate) is_idempotent: bool,
    pub(crate) denies_scans: bool,
    pub(crate) encryption: Policy,
}

impl CallSettings {
    pub(crate) fn new(options: &Options) -> Self {
        let silent = Self {
            retry: Retry::default(),
            deadline: None,
            on_unknown: OnUnknown::Resolve,
            client_request_id: None,
            secondary: false,
            claims: false,
            is_idempotent: false,
            denies_scans: false,
            encryption: Policy::default(),
        };
        silent.options(options.clone())
    }

    /// The same, and over it what `over` says.
    pub(crate) fn options(self, over: Options) -> Self {
        Self {
            retry: over.retry.unwrap_or(self.retry),
            deadline: over.deadline.or(self.deadline),
            on_unknown: over.on_unknown.unwrap_or(self.on_unknown),
            client_request_id: over.client_request_id.or(self.client_request_id),
            secondary: over.secondary || self.secondary,
            claims: over.claims || self.claims,
            is_idempotent: over.is_idempotent || self.is_idempotent,
            denies_scans: over.denies_scans.unwrap_or(self.denies_scans),
            encryption: self.encryption,
        }
    }
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
    pub(crate) calls: Options,
    pub(crate) parallel_requests: usize,
    pub(crate) flavour: Option<Flavour>,
    pub(crate) write_ids: bool,
    pub(crate) advises: bool,
    pub(crate) user_agent: Option<String>,
    pub(crate) allow_http: bool,
    #[cfg(feature = "otel")]
    pub(crate) metrics_per_table: bool,
    pub(crate) connection: ConnectionOptions,
    pub(crate) encryption: Policy,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            calls: Options::default(),
            parallel_requests: 64,
            flavour: None,
            write_ids: false,
            advises: false,
            user_agent: None,
            allow_http: false,
            #[cfg(feature = "otel")]
            metrics_per_table: false,
            connection: ConnectionOptions::default(),
            encryption: Policy::default(),
        }
    }
}

impl ClientOptions {
    option_setters! { deadline retry on_unknown secondary deny_scans }

    /// How calls behave, unless they or their handle say something else.
    #[must_use]
    pub fn options(self, over: Options) -> Self {
        Self { calls: self.calls.options(over), ..self }
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

    /// Keeps figures about keys and plans, for [`crate::TableServiceClient::advise`].
    #[must_use]
    pub fn advise(self) -> Self {
        Self { advises: true, ..self }
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

    /// Counts each table for itself. Off by default: a program may have any number of tables.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn metrics_per_table(self) -> Self {
        Self { metrics_per_table: true, ..self }
    }

    /// How connections are made and kept.
    #[must_use]
    pub fn connection(self, connection: ConnectionOptions) -> Self {
        Self { connection, ..self }
    }
}

/// How connections are made and kept.
///
/// ```
/// use std::time::Duration;
/// use tavola_client::{ClientOptions, ConnectionOptions};
///
/// let connection = ConnectionOptions::default()
///     .proxy("http://proxy.example:3128")
///     .connect_timeout(Duration::from_secs(3));
/// let options = ClientOptions::default().connection(connection);
/// # let _ = options;
/// ```
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
