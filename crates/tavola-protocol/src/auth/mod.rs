//! Who sends a request: from its credentials to a [`Grant`].

pub mod shared_key;

use std::time::SystemTime;

use http::request::Parts;
use tavola_core::Grant;

use crate::address::Address;
use crate::rejection::Rejection;

pub use shared_key::{AccountKey, AccountKeys, KeyTextError};

/// Checks a request's credentials.
///
/// # Errors
/// What the service answers to missing, malformed or wrong credentials.
pub fn authenticate(
    _parts: &Parts,
    _address: &Address,
    _keys: &AccountKeys,
    _now: SystemTime,
) -> Result<Grant, Rejection> {
    Err(Rejection::InvalidAuthenticationInfo)
}
