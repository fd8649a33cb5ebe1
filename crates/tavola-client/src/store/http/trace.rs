//! Tells the service which trace a request is of.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt as _;

/// Adds `traceparent` and `tracestate` of the current OpenTelemetry span. Without one nothing is
/// sent: a trace that nobody keeps would only tell the service not to keep its own.
pub(super) fn add_context(headers: &mut HeaderMap) {
    let context = Context::current();
    let span = context.span();
    let span = span.span_context();
    if !span.is_valid() {
        return;
    }
    let flags = span.trace_flags().to_u8();
    let parent = format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id());
    if let Ok(parent) = HeaderValue::try_from(parent) {
        headers.insert(HeaderName::from_static("traceparent"), parent);
    }
    let state = span.trace_state().header();
    if let Some(state) = HeaderValue::try_from(state).ok().filter(|state| !state.is_empty()) {
        headers.insert(HeaderName::from_static("tracestate"), state);
    }
}
