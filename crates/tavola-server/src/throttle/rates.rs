//! The budgets of an account: how much it may ask for in a second.

use tavola_core::ServiceKind;
use tavola_fair::{Bucket, Rate};
use tavola_protocol::api_error::Budget;
use tokio::time::Instant;

/// What an account may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Requests.
    pub requests: Rate,
    /// Bytes of request bodies.
    pub ingress_bytes: Rate,
    /// Bytes of answers.
    pub egress_bytes: Rate,
    /// Entities of each partition, which the Table service counts.
    pub partition_entities: Rate,
}

impl Rates {
    /// How much may be spent of each key of that service.
    pub(super) fn of_key(&self, service: ServiceKind) -> Rate {
        match service {
            ServiceKind::Table => self.partition_entities,
            ServiceKind::Blob | ServiceKind::Queue => Rate::UNBOUNDED,
        }
    }
}

/// The budgets of one account.
#[derive(Debug)]
pub(super) struct Budgets {
    rates: Rates,
    since: Instant,
    requests: Bucket,
    ingress: Bucket,
    egress: Bucket,
}

impl Budgets {
    /// Budgets of which nothing is spent.
    pub(super) fn new(rates: Rates) -> Self {
        let [requests, ingress, egress] =
            [rates.requests, rates.ingress_bytes, rates.egress_bytes].map(Bucket::new);
        Self { rates, since: Instant::now(), requests, ingress, egress }
    }

    /// What they were made from.
    pub(super) fn rates(&self) -> Rates {
        self.rates
    }

    /// Takes one request with a body of this size, unless a budget is overdrawn.
    pub(super) fn take_request(&self, body_bytes: u64) -> Result<(), Budget> {
        let now = self.since.elapsed();
        if !self.egress.is_open(1, now) {
            return Err(Budget::Egress);
        }
        if !self.requests.take(1, now) {
            return Err(Budget::Requests);
        }
        if self.ingress.take(body_bytes, now) { Ok(()) } else { Err(Budget::Ingress) }
    }

    /// A body came while its request was carried out: later requests pay for it.
    pub(super) fn charge_ingress(&self, bytes: u64) {
        self.ingress.charge(bytes, self.since.elapsed());
    }

    /// An answer was sent: later requests pay for it.
    pub(super) fn charge_egress(&self, bytes: u64) {
        self.egress.charge(bytes, self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use tavola_fair::Rate;
    use tavola_protocol::api_error::Budget;

    use super::{Budgets, Rates};

    #[test]
    fn each_budget_says_which() {
        let one = Rate::per_second(1);
        let budgets = Budgets::new(Rates { requests: one, ..Rates::default() });
        assert_eq!(budgets.take_request(1 << 40), Ok(()));
        assert_eq!(budgets.take_request(0), Err(Budget::Requests));
        let budgets =
            Budgets::new(Rates { ingress_bytes: one, egress_bytes: one, ..Rates::default() });
        assert_eq!(budgets.take_request(1 << 20), Ok(()));
        assert_eq!(budgets.take_request(0), Err(Budget::Ingress));
        budgets.charge_egress(1 << 20);
        assert_eq!(budgets.take_request(0), Err(Budget::Egress));
        let open = Budgets::new(Rates::default());
        assert!((0..1000).all(|_| open.take_request(u64::MAX).is_ok()));
    }
}
