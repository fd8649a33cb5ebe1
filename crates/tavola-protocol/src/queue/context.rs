//! What the answer to a request of the Queue service needs to know of it.

use std::sync::Arc;

use http::Method;
use http::request::Parts;
use tavola_core::ServiceKind;
use tavola_core::queue::ListQueues;

use crate::address::Address;
use crate::response::ResponseContext;

/// What the answer needs to know of the request.
#[derive(Debug, Clone)]
pub struct QueueContext {
    pub(super) common: ResponseContext,
    /// None if the request names no account of ours.
    address: Option<Arc<Address>>,
    /// Headers are sent without the body that they describe.
    pub(super) is_head: bool,
    /// What a list repeats of its request, and the marker as the client sent it.
    pub(super) list: Option<(ListQueues, Option<String>)>,
}

impl QueueContext {
    /// What can be known of a request before it is understood. Never fails: the answer to a bad
    /// request needs it too.
    #[must_use]
    pub fn of(parts: &Parts, address: Option<&Arc<Address>>) -> Self {
        Self {
            common: ResponseContext::of(ServiceKind::Queue, parts),
            address: address.map(Arc::clone),
            is_head: parts.method == Method::HEAD,
            list: None,
        }
    }

    /// The endpoint as the client addressed it.
    pub(super) fn endpoint(&self) -> String {
        self.address.as_ref().map_or(String::new(), |address| format!("{}/", address.base))
    }
}

impl AsRef<ResponseContext> for QueueContext {
    fn as_ref(&self) -> &ResponseContext {
        &self.common
    }
}
