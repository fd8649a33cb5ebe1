//! CORS: what a browser is told.

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tavola_core::cors::CorsRule;

use crate::headers::Exchange;
use crate::rejection::Rejection;
use crate::table::render_rejection;

/// Answers a preflight.
#[must_use]
pub fn preflight(_parts: &Parts, _rules: &[CorsRule], exchange: &Exchange<'_>) -> Response<Bytes> {
    render_rejection(&Rejection::CorsNoRule, exchange)
}

/// Adds what a browser needs to the answer to an actual request; `origin` is the request's `Origin` header.
pub fn add_cors_headers(_response: &mut Response<Bytes>, _origin: Option<&str>, _method: &str, _rules: &[CorsRule]) {}
