//! How the service would evaluate a signature: the rules of the protocol crate, called on a request
//! that is never sent.

use http::Request;
use http::header::HOST;
use tavola_core::{AccountName, DateTime, ServiceKind};
use tavola_protocol::{
    AccountKeys, AddressRules, ApiError, AuthContext, Caller, Credential, Precedence,
    ServiceApiError as _, authenticate, locate,
};

use crate::human_time::system_time;

/// Authenticates a read of `account` with the query string `query`.
pub(crate) fn evaluate(
    query: &str,
    account: &AccountName,
    keys: &AccountKeys,
    caller: Caller,
    now: DateTime,
) -> Result<Credential<'static>, ApiError> {
    let request = Request::get(format!("/{account}/?{query}")).header(HOST, "localhost").body(());
    let (parts, ()) = request.map_err(|_| ApiError::UrlUnparsable)?.into_parts();
    let rules = AddressRules { path_style_only: true, scheme: "http" };
    let address = locate(&parts, &rules, &|name| name == account.as_str())?;
    let auth = AuthContext {
        service: ServiceKind::Table,
        keys,
        challenge: "",
        caller,
        now: system_time(now),
        precedence: Precedence::Header,
    };
    match authenticate(&parts, &address, &auth)? {
        Credential::Complete(grant, signer) => Ok(Credential::Complete(grant, signer)),
        Credential::NeedsPolicies(signature) => Ok(Credential::NeedsPolicies(signature)),
        // A token comes in a header, and this request has none.
        Credential::Token(_) => Err(ApiError::InvalidAuthenticationInfo),
    }
}

/// The text of an error for a terminal.
pub(crate) fn words(api_error: &ApiError) -> String {
    match api_error {
        ApiError::AuthenticationFailed { detail: Some(detail), .. } => {
            detail.trim_end_matches('.').to_owned()
        }
        other => {
            let parts = other.parts();
            format!("{}: {}", parts.code, parts.text.trim_end_matches('.'))
        }
    }
}
