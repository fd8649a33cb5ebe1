//! Which account a request is for, in either style of URL, and what of its path remains.

use http::request::Parts;
use tavola_core::AccountName;

use crate::rejection::Rejection;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The account, without `-secondary`.
    pub account: AccountName,
    /// True if it is addressed through its read-only secondary.
    pub secondary: bool,
    /// What the URLs of the answer begin with: `http://127.0.0.1:10002/devstoreaccount1`, `http://acct.table.localhost`.
    pub base: String,
    /// The path without the account, still percent-encoded, beginning with a slash.
    pub resource_path: String,
}

/// How this listener reads addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRules {
    /// Never take the account from the host.
    pub path_style_only: bool,
    /// The scheme that clients used to reach us.
    pub scheme: &'static str,
}

/// Finds the account.
///
/// # Errors
/// If the request names no host, or no account of ours.
pub fn locate(_parts: &Parts, _rules: &AddressRules, _is_account: &dyn Fn(&str) -> bool) -> Result<Address, Rejection> {
    Err(Rejection::AccountNotFound)
}
