//! From HTTP to what is asked.

use bytes::Bytes;
use http::request::Parts;
use tavola_core::TableRequest;

use crate::address::Address;
use crate::headers::Presentation;
use crate::rejection::Rejection;

/// Understands a request; `presentation` learns how its answer is to be written.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse_request(
    _parts: &Parts,
    _body: &Bytes,
    _address: &Address,
    _presentation: &mut Presentation,
) -> Result<TableRequest, Rejection> {
    Err(Rejection::InvalidUri)
}
