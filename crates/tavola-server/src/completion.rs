//! What is done when the last byte of an answer has left: the account pays for what was sent, and
//! telemetry hears of the request.

use std::sync::Arc;

use tokio::time::Instant;

use crate::config::Account;
use crate::node::Node;
use crate::telemetry::RequestEvent;

/// Travels with the body of an answer; dropped with it.
#[derive(Debug)]
pub(crate) struct Completion {
    node: Arc<Node>,
    /// The account whose budget pays for the bytes; none for a caller without a valid credential,
    /// which must not be able to spend an account's budget.
    payer: Option<Arc<Account>>,
    started: Instant,
    event: RequestEvent,
}

impl Completion {
    pub(crate) fn new(
        node: Arc<Node>,
        payer: Option<Arc<Account>>,
        started: Instant,
        event: RequestEvent,
    ) -> Box<Self> {
        Box::new(Self { node, payer, started, event })
    }

    /// So many bytes of the body were handed to the connection.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.event.response_bytes += bytes;
    }

    /// The body ended with an error, and the connection with it.
    pub(crate) fn broken(&mut self) {
        self.event.is_cut = true;
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.event.end_to_end = self.started.elapsed();
        if let Some(account) = &self.payer {
            account.tenant(&self.node.throttle).charge_answer(self.event.response_bytes);
        }
        self.node.telemetry.record(&self.event);
    }
}
