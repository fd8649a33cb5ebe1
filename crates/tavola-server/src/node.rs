//! What all connections share.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tavola_fair::Pool;
use tavola_protocol::Precedence;
use tavola_store::Backend;

use crate::auth_failures::AuthFailures;
use crate::config::{AccountFolder, Accounts, Config, ConfigError, Layers, Limits, TokenConfig};
use crate::listener::ConnectionLimits;
use crate::public_key::DevelopmentHosts;
use crate::query_pool::QueryPool;
use crate::telemetry::Telemetry;
use crate::throttle::Throttle;
use crate::tokens::{FreshKeys, TokenAuthority};

/// Where the configuration comes from, so that it can be read again.
pub trait Configuration: fmt::Debug + Send + Sync + 'static {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(&self) -> Result<Config, ConfigError>;

    /// Makes everything ready that the node does not know of: certificates, log files. Nothing
    /// changes before the answer is called, and then nothing can fail any more.
    ///
    /// # Errors
    /// What is wrong.
    fn prepare(&self, _config: &Config) -> Result<Apply, ConfigError> {
        Ok(Box::new(|| {}))
    }
}

/// Puts into force what was made ready.
pub type Apply = Box<dyn FnOnce() + Send>;

/// What became of a configuration that was read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Accounts that count now.
    pub accounts: usize,
    /// Settings that were changed and count only after a restart.
    pub needs_restart: Vec<&'static str>,
}

/// A configuration that nobody can change.
impl Configuration for Config {
    fn read(&self) -> Result<Config, ConfigError> {
        Ok(self.clone())
    }
}

/// One server: its accounts, its service, its limits and its telemetry.
#[derive(Debug)]
pub struct Node {
    /// Who may come in. Replaced as a whole when the configuration is read again.
    accounts: ArcSwap<Accounts>,
    /// Whose tokens count. Replaced when other issuers or roles are configured.
    tokens: ArcSwap<Tokens>,
    /// Never look for the account in the host name.
    pub path_style_only: bool,
    /// What counts of two credentials in one request.
    pub credential_precedence: Precedence,
    /// Under which names the development account is served.
    pub(crate) development_hosts: DevelopmentHosts,
    /// Proxies whose word about their clients counts.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// Bounds.
    pub limits: Limits,
    /// Who hears of every request.
    pub telemetry: Telemetry,
    /// The store as the process holds it.
    pub backend: Arc<dyn Backend>,
    /// Where accounts are kept that can be changed while serving.
    account_folder: ArcSwap<AccountFolder>,
    /// What the server was started with.
    started_with: Layers,
    /// What the admin port is called, beside its address.
    pub admin_names: Vec<String>,
    configuration: Box<dyn Configuration>,
    /// Who failed to authenticate, and how often.
    pub(crate) auth_failures: Arc<AuthFailures>,
    /// Two reloads at a time could each undo half of the other.
    reloading: Mutex<()>,
    /// Requests whose head has come and whose answer is not ready; those that are still arriving
    /// are among them.
    pub(crate) open_requests: AtomicUsize,
    pub(crate) http2_connections: AtomicUsize,
    pub(crate) connections: ConnectionLimits,
    /// What each account may have and spend.
    pub(crate) throttle: Arc<Throttle>,
    /// Memory for the heads of requests, shared out between connections.
    pub(crate) heads: Arc<Pool>,
    pub(crate) query_pool: QueryPool,
    request_ids: RequestIds,
}

impl Node {
    /// A node with this configuration.
    ///
    /// # Errors
    /// If a file that the configuration names cannot be used.
    pub fn new(
        config: &Config,
        backend: Arc<dyn Backend>,
        mut telemetry: Telemetry,
    ) -> Result<Self, ConfigError> {
        let throttle = Arc::new(Throttle::new(&config.limits));
        let auth_failures = Arc::new(AuthFailures::new(config.auth_failures));
        telemetry.collect_from(&backend, &throttle, &auth_failures);
        Ok(Self {
            accounts: ArcSwap::from_pointee(config.accounts.clone()),
            tokens: ArcSwap::from_pointee(Tokens::new(&config.tokens)?),
            path_style_only: config.path_style_only,
            credential_precedence: config.personality.credential_precedence(),
            development_hosts: DevelopmentHosts::new(config),
            trusted_proxies: config.trusted_proxies.clone(),
            limits: config.limits,
            telemetry,
            backend,
            account_folder: ArcSwap::from_pointee(config.account_folder.clone()),
            started_with: config.layers.clone(),
            admin_names: config.admin_names.clone(),
            configuration: Box::new(config.clone()),
            reloading: Mutex::new(()),
            open_requests: AtomicUsize::new(0),
            http2_connections: AtomicUsize::new(0),
            connections: ConnectionLimits::new(&config.limits, &config.trusted_proxies),
            throttle,
            heads: Pool::for_many(config.limits.head_memory_bytes as u64),
            auth_failures,
            query_pool: QueryPool::start()
                .map_err(|error| ConfigError::new(format!("cannot start threads: {error}")))?,
            request_ids: RequestIds::new(),
        })
    }

    /// The accounts as they are now. A request asks once and keeps what it got.
    #[must_use]
    pub fn accounts(&self) -> Arc<Accounts> {
        self.accounts.load_full()
    }

    /// Who says what the bearers of tokens may do.
    #[must_use]
    pub fn tokens(&self) -> Arc<TokenAuthority> {
        Arc::clone(&self.tokens.load().authority)
    }

    /// The same node with a configuration that can be read again.
    #[must_use]
    pub fn with_configuration(self, configuration: impl Configuration) -> Self {
        Self { configuration: Box::new(configuration), ..self }
    }

    /// Where accounts are kept that can be changed while serving.
    #[must_use]
    pub fn account_folder(&self) -> Arc<AccountFolder> {
        self.account_folder.load_full()
    }

    /// Reads the configuration again and takes from it what can change while serving: from the next
    /// request on other keys count. Requests under way finish with those that they came with. All
    /// of it is taken, or nothing: first everything that can fail is done, then everything is put
    /// into force.
    ///
    /// # Errors
    /// What is wrong; then nothing has changed.
    pub fn reload(&self) -> Result<Reloaded, ConfigError> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let config = self.configuration.read()?;
        let current = self.accounts();
        config.accounts.check_replacing(&current, &config.account_folder)?;
        let tokens = self.prepare_tokens(&config.tokens)?;
        let apply = self.configuration.prepare(&config)?;
        let reloaded = Reloaded {
            accounts: config.accounts.names().count(),
            needs_restart: config.layers.needing_restart(&self.started_with),
        };
        match tokens {
            FreshTokens::SameIssuers(keys) => self.tokens().install(keys),
            FreshTokens::Others(tokens) => {
                tokens.authority.start();
                self.tokens.store(Arc::new(tokens));
            }
        }
        self.accounts.store(Arc::new(config.accounts));
        self.account_folder.store(Arc::new(config.account_folder));
        apply();
        Ok(reloaded)
    }

    /// Issuers that are the same keep the keys that they were asked for.
    fn prepare_tokens(&self, config: &TokenConfig) -> Result<FreshTokens, ConfigError> {
        let current = self.tokens.load_full();
        if current.config == *config {
            return current.authority.read_keys().map(FreshTokens::SameIssuers);
        }
        Tokens::new(config).map(FreshTokens::Others)
    }

    /// The id of the next request.
    pub(crate) fn next_request_id(&self) -> String {
        self.request_ids.next()
    }
}

/// What tokens are checked with from the end of a reload on.
enum FreshTokens {
    SameIssuers(FreshKeys),
    Others(Tokens),
}

/// The issuers of tokens, and what they were made from.
#[derive(Debug)]
struct Tokens {
    config: TokenConfig,
    authority: Arc<TokenAuthority>,
}

impl Tokens {
    fn new(config: &TokenConfig) -> Result<Self, ConfigError> {
        Ok(Self { config: config.clone(), authority: Arc::new(TokenAuthority::new(config)?) })
    }
}

/// Ids that no other process gives out: random bytes of this process, and a counter in place of
/// more randomness.
#[derive(Debug)]
struct RequestIds {
    process: u128,
    counter: AtomicU64,
}

impl RequestIds {
    fn new() -> Self {
        Self { process: uuid::Uuid::new_v4().as_u128(), counter: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        let number = u128::from(self.counter.fetch_add(1, Ordering::Relaxed));
        uuid::Uuid::from_u128(self.process.wrapping_add(number)).hyphenated().to_string()
    }
}
