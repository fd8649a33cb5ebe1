//! What all connections share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tavola_protocol::AddressRules;
use tavola_service::TableService;
use tokio::sync::Semaphore;

use crate::config::{Accounts, Config, Limits};
use crate::telemetry::Telemetry;

/// What the store says about itself.
pub trait Health: fmt::Debug + Send + Sync + 'static {
    /// `Err` with the reason if the store cannot take reads and writes.
    ///
    /// # Errors
    /// A sentence for an operator.
    fn ready(&self) -> Result<(), String>;

    /// Counters for the metrics: name, help and current value.
    fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }
}

/// Always ready: a store in memory.
#[derive(Debug, Clone, Copy)]
pub struct AlwaysReady;

impl Health for AlwaysReady {
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// One server: its accounts, its service, its limits and its telemetry.
#[derive(Debug)]
pub struct Node {
    /// Who may come in. Replaced as a whole when the configuration is read again.
    accounts: ArcSwap<Accounts>,
    /// What requests mean.
    pub tables: TableService,
    /// How URLs are read.
    pub address_rules: AddressRules,
    /// Bounds.
    pub limits: Limits,
    /// Who hears of every request.
    pub telemetry: Telemetry,
    /// What the store says about itself.
    pub health: Arc<dyn Health>,
    pub(crate) in_flight: Semaphore,
    request_ids: RequestIds,
}

impl Node {
    /// A node with this configuration.
    #[must_use]
    pub fn new(config: &Config, tables: TableService, health: Arc<dyn Health>, telemetry: Telemetry) -> Self {
        Self {
            accounts: ArcSwap::from_pointee(config.accounts.clone()),
            tables,
            address_rules: AddressRules { path_style_only: config.path_style_only, scheme: "http" },
            limits: config.limits,
            telemetry,
            health,
            in_flight: Semaphore::new(config.limits.requests_in_flight),
            request_ids: RequestIds::new(),
        }
    }

    /// The accounts as they are now. A request asks once and keeps what it got.
    #[must_use]
    pub fn accounts(&self) -> Arc<Accounts> {
        self.accounts.load_full()
    }

    /// Takes what can change while serving from a configuration that was read again: from the next request on, other
    /// keys count. Requests under way finish with those that they came with.
    pub fn reload(&self, config: &Config) {
        let standing = self.accounts();
        self.accounts.store(Arc::new(config.accounts.clone().with_budgets_of(&standing)));
    }

    /// The id of the next request.
    pub(crate) fn next_request_id(&self) -> String {
        self.request_ids.next()
    }
}

/// Ids that no other process gives out: random bytes of this process, and a counter in place of more randomness.
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
