//! A server's gate: a key that no input can know, and the one place that knows how the server asks.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use http::request::Parts;
use tavola_core::{Grant, ServiceKind};
use tavola_protocol::auth::{
    AccountKey, AccountKeys, AuthContext, Caller, Credential, PolicySignature, Precedence,
};
use tavola_protocol::table::TableContext;
use tavola_protocol::{Address, ApiError};

use crate::requests::check_refusal;

/// When requests arrive, since 1970. The seeds bear this date.
pub const NOW: Duration = Duration::from_secs(1_794_787_527);

/// The same in the words of HTTP.
pub const NOW_TEXT: &str = "Mon, 16 Nov 2026 00:05:27 GMT";

/// New in every process, so that an input that is granted means a check that is missing.
static KEY_TEXT: LazyLock<String> = LazyLock::new(|| {
    // Hexadecimal digits are base64 too.
    (0..8).map(|part: u32| format!("{:016x}", RandomState::new().hash_one(part))).collect()
});

static KEYS: LazyLock<AccountKeys> =
    LazyLock::new(|| AccountKeys::parse(&KEY_TEXT, None).expect("base64"));

static KEY: LazyLock<AccountKey> = LazyLock::new(|| AccountKey::parse(&KEY_TEXT).expect("base64"));

/// The key's text, for a server's configuration.
pub(crate) fn key_text() -> &'static str {
    &KEY_TEXT
}

/// The key of the account.
#[must_use]
pub fn account_key() -> &'static AccountKey {
    &KEY
}

/// What a credential that was made with the account's key opens.
#[derive(Debug)]
pub enum Opened {
    /// This.
    Grant(Grant),
    /// What a stored access policy says.
    ByPolicy(PolicySignature),
}

/// Checks a request's credentials as the server does, over TLS from this machine. A token opens
/// nothing yet, because only its issuer's keys can tell.
///
/// # Errors
/// What the service answers to credentials that do not hold.
pub fn authenticate(parts: &Parts, address: &Address) -> Result<Option<Opened>, ApiError> {
    let caller = Caller { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), https: true };
    let auth = AuthContext {
        service: ServiceKind::Table,
        keys: &KEYS,
        challenge: "Bearer",
        caller,
        now: SystemTime::UNIX_EPOCH + NOW,
        precedence: Precedence::Header,
    };
    tavola_protocol::authenticate(parts, address, &auth).map(|credential| match credential {
        Credential::Complete(grant, _) => Some(Opened::Grant(grant)),
        Credential::NeedsPolicies(signature) => Some(Opened::ByPolicy(signature)),
        Credential::Token(_) => None,
    })
}

/// Checks that a request that nobody signed with the key opens nothing; gives what it gets instead.
#[track_caller]
pub fn check_refused(parts: &Parts, address: &Address) -> Option<ApiError> {
    match authenticate(parts, address) {
        Ok(opened) => {
            assert!(opened.is_none(), "granted without the key");
            None
        }
        Err(api_error) => Some(api_error),
    }
}

/// The same, and that the answer can be written, which costs more than the check.
pub fn check_refused_in_words(parts: &Parts, address: &Address) {
    if let Some(api_error) = check_refused(parts, address) {
        check_refusal(
            &api_error.into(),
            &TableContext::of(parts, Some(&Arc::new(address.clone()))),
        );
    }
}
