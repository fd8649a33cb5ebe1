//! From what is answered to HTTP.

use bytes::Bytes;
use http::Response;
use tavola_core::TableReply;

use crate::headers::Exchange;
use crate::rejection::Rejection;

/// Writes the answer to a request that was carried out.
#[must_use]
pub fn render_reply(_reply: &TableReply, _exchange: &Exchange<'_>) -> Response<Bytes> {
    Response::new(Bytes::new())
}

/// Writes the answer to a request that was not.
#[must_use]
pub fn render_rejection(_rejection: &Rejection, _exchange: &Exchange<'_>) -> Response<Bytes> {
    Response::new(Bytes::new())
}
