//! One account beside others: all that the pipeline asks when it has a request.

use std::sync::Arc;

use tavola_core::ServiceKind;
use tavola_fair::{KeyBudget, KeyBudgets, Line, Member, Stats};
use tavola_protocol::ApiError;

use super::body_memory::BodyMemory;
use super::rates::{Budgets, Rates};

/// One account.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(super) shares: Shares,
    budgets: Budgets,
    /// Those of all accounts.
    key_budgets: Arc<KeyBudgets>,
}

/// What it has of what is shared out.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// Requests in flight.
    pub(super) requests: Arc<Member>,
    /// Bytes of bodies.
    pub(super) bodies: Arc<Member>,
    /// Queries being answered.
    pub(super) queries: Arc<Line>,
    /// Writes that the store carries out now.
    pub(super) writes: Arc<Line>,
}

impl Tenant {
    pub(super) fn new(shares: Shares, rates: Rates, key_budgets: Arc<KeyBudgets>) -> Self {
        Self { shares, budgets: Budgets::new(rates), key_budgets }
    }

    /// The same tenant with other budgets, of which nothing is spent.
    pub(super) fn with_rates(&self, rates: Rates) -> Self {
        Self::new(self.shares.clone(), rates, Arc::clone(&self.key_budgets))
    }

    pub(super) fn rates(&self) -> Rates {
        self.budgets.rates()
    }

    pub(super) fn set_weight(&self, weight: u32) {
        self.shares.requests.set_weight(weight);
        self.shares.bodies.set_weight(weight);
        self.shares.queries.set_weight(weight);
        self.shares.writes.set_weight(weight);
    }

    pub(super) fn stats(&self) -> [(&'static str, Stats); 4] {
        [
            ("requests", self.shares.requests.stats()),
            ("body_bytes", self.shares.bodies.stats()),
            ("queries", self.shares.queries.stats()),
            ("writes", self.shares.writes.stats()),
        ]
    }

    /// Where the bodies of a request are counted, beside the `connection` if that carries many
    /// requests at a time.
    pub(crate) fn body_memory(&self, connection: Option<Arc<Member>>) -> BodyMemory {
        BodyMemory::new(Arc::clone(&self.shares.bodies), connection)
    }

    /// Takes one request with a body of this size from the account's budgets.
    ///
    /// # Errors
    /// `OverBudget` with the budget that is overdrawn.
    pub(crate) fn take_request(&self, body_bytes: u64) -> Result<(), ApiError> {
        self.budgets.take_request(body_bytes).map_err(ApiError::OverBudget)
    }

    /// The budget of each key that a request of the service names.
    pub(crate) fn key_budget(&self, service: ServiceKind) -> KeyBudget<'_> {
        self.key_budgets.at(self.budgets.rates().of_key(service))
    }

    /// A body came while its request was carried out: later requests pay for it.
    pub(crate) fn charge_body(&self, bytes: u64) {
        self.budgets.charge_ingress(bytes);
    }

    /// An answer was sent: later requests pay for it.
    pub(crate) fn charge_answer(&self, bytes: u64) {
        self.budgets.charge_egress(bytes);
    }
}
