//! Throttling: everything that holds a request up or refuses it because there is too much to do.
//! `docs/decisions/006-overload.md` says why it is as it is.
//!
//! The pipeline asks one object, the `Tenant` of the request's account. In this order a request
//! meets:
//!
//! 1. the memory for bodies, while its own arrives (`body_memory`);
//! 2. the budgets of its account: requests, bytes in, bytes out in a second (`rates`);
//! 3. a turn among writes, if only to read the body takes long (`admission`);
//! 4. its place among requests in flight, and its turn among queries or writes (`admission`):
//!    the service says what the request weighs (`Work`);
//! 5. while it is carried out, the budget of each key that it names: the service counts what it
//!    spends of a partition (`KeyBudget`);
//! 6. the memory for bodies again, with its answer, until the last byte is sent.
//!
//! What was not known before is charged afterwards, and later requests pay for it: the bytes of the
//! answer, of a body that was streamed, and the rows of a page.
//!
//! Shares (1, 3, 4, 6) are what an account has beside others, budgets (2, 5) what it has whatever
//! others do. The rules of both are in `tavola-fair`; here is what is shared out, and how much. What
//! comes before a request has an account is bounded where it comes in: connections and heads by
//! `listener`, failed authentication by `auth_failures`.

mod admission;
mod body_memory;
mod metrics;
mod rates;
mod tenant;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tavola_core::AccountName;
use tavola_fair::{KeyBudgets, Pool, Turns};
use tavola_protocol::ApiError;

pub use admission::Work;
pub(crate) use admission::{Admitted, Place};
pub(crate) use body_memory::{BodyMemory, BodyShare};
pub use rates::Rates;
pub(crate) use tenant::Tenant;

use crate::config::Limits;

/// What a client is told to wait when the server is over a limit.
const RETRY_AFTER_SECONDS: u32 = 1;
/// Work that a store has in hand at the same time, in units of writes (`admission`): enough to fill
/// the groups of a group commit, and so little that a write behind all of it is not late.
const WRITE_UNITS: u64 = 2048;

/// What is shared out, and the accounts that have used it.
#[derive(Debug)]
pub(crate) struct Throttle {
    requests: Arc<Pool>,
    bodies: Arc<Pool>,
    queries: Arc<Turns>,
    writes: Arc<Turns>,
    key_budgets: Arc<KeyBudgets>,
    by_account: Mutex<BTreeMap<AccountName, Arc<Tenant>>>,
}

impl Throttle {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            requests: Pool::new(limits.requests_in_flight as u64),
            bodies: Pool::new(limits.body_memory_bytes as u64),
            queries: Turns::new(limits.queries as u64),
            writes: Turns::new(WRITE_UNITS),
            key_budgets: Arc::default(),
            by_account: Mutex::default(),
        }
    }

    /// The tenant of that name. However often the configuration is read, it has the same shares,
    /// and as long as its rates are the same it has spent what it has spent.
    pub(crate) fn tenant(&self, account: &AccountName, weight: u32, rates: Rates) -> Arc<Tenant> {
        let mut by_account = self.by_account.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = match by_account.get(account) {
            Some(known) if known.rates() == rates => Arc::clone(known),
            known => {
                let tenant = match known {
                    Some(known) => known.with_rates(rates),
                    None => self.new_tenant(weight, rates),
                };
                let tenant = Arc::new(tenant);
                by_account.insert(account.clone(), Arc::clone(&tenant));
                tenant
            }
        };
        tenant.set_weight(weight);
        tenant
    }

    fn new_tenant(&self, weight: u32, rates: Rates) -> Tenant {
        let shares = tenant::Shares {
            requests: self.requests.member(weight),
            bodies: self.bodies.member(weight),
            queries: self.queries.line(weight),
            writes: self.writes.line(weight),
        };
        Tenant::new(shares, rates, Arc::clone(&self.key_budgets))
    }
}

pub(crate) fn busy() -> ApiError {
    ApiError::ServerBusy { retry_after_seconds: RETRY_AFTER_SECONDS }
}

#[cfg(test)]
mod tests {
    use tavola_fair::Rate;
    use tavola_protocol::api_error::Budget;

    use super::*;

    fn throttle() -> Throttle {
        Throttle::new(&crate::config::tests::limits())
    }

    #[test]
    fn the_same_account_is_the_same_tenant() {
        let throttle = Arc::new(throttle());
        let name = AccountName::parse("shop").unwrap();
        let tenant = |weight| throttle.tenant(&name, weight, Rates::default());
        let held = tenant(1).shares.requests.try_take(3).unwrap();
        assert_eq!(tenant(5).shares.requests.stats().used, 3);
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(Arc::clone(&throttle)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(
            text.contains("tavola_account_used{account=\"shop\",resource=\"requests\"} 3\n"),
            "{text}"
        );
        assert!(
            text.contains("tavola_account_refused_total{account=\"shop\",resource=\"writes\"} 0\n"),
            "{text}"
        );
        drop(held);
    }

    /// To read the configuration again must not refill a budget; to change it must count at once.
    #[test]
    fn budgets_last_as_long_as_their_rates() {
        let throttle = throttle();
        let name = AccountName::parse("shop").unwrap();
        let tenant = |ingress| {
            let ingress_bytes = Rate::per_second(ingress);
            throttle.tenant(&name, 1, Rates { ingress_bytes, ..Rates::default() })
        };
        let spent = Err(ApiError::OverBudget(Budget::Ingress));
        let held = tenant(1).shares.requests.try_take(3).unwrap();
        assert_eq!(tenant(1).take_request(1 << 40), Ok(()));
        assert_eq!(tenant(1).take_request(0), spent);
        assert_eq!(tenant(2).take_request(1 << 40), Ok(()));
        assert_eq!(tenant(2).take_request(0), spent);
        assert_eq!(tenant(2).shares.requests.stats().used, 3, "shares are as they were");
        drop(held);
    }
}
