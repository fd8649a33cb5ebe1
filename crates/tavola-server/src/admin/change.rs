//! What changes something: reading the configuration again, and rotating an account's key. Asked
//! for with POST, from this machine, with a key of the account or a token of an administrator.

use bytes::Bytes;
use http::header::{CONNECTION, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use tavola_core::AccountName;
use tavola_core::grant::{Role, RoleAssignment, Scope};
use tavola_protocol::auth::admin::{ADMIN_SCHEME, admin_signature_account};
use tavola_protocol::auth::{AdminSignatureError, check_admin_signature, token_of};

use super::connections::Place;
use super::{AdminPort, Caller, text, with_type};
use crate::config::account_folder::KeyNumber;
use crate::node::{Node, Reloaded};
use crate::telemetry::{AdminEvent, Principal};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// `POST /reload`
    Reload,
    /// `POST /accounts/NAME/rotate?key=1`
    Rotate(AccountName, KeyNumber),
}

impl Change {
    /// What a path names; `None` if nothing can be changed there.
    pub(super) fn parse(path: &str, query: Option<&str>) -> Option<Self> {
        if path == "/reload" {
            return Some(Self::Reload);
        }
        let name = path.strip_prefix("/accounts/")?.strip_suffix("/rotate")?;
        let number = query?
            .split('&')
            .find_map(|pair| pair.strip_prefix("key="))
            .and_then(KeyNumber::parse)?;
        Some(Self::Rotate(AccountName::parse(name)?, number))
    }

    /// What the audit log is told. The body of an answer to a rotation is the new key.
    fn event<'a>(
        &'a self,
        caller: Caller,
        principal: Option<&'a Principal>,
        response: &'a Response<Bytes>,
    ) -> AdminEvent<'a> {
        let (act, account, key) = match self {
            Self::Reload => ("reload", None, None),
            Self::Rotate(account, number) => ("rotate-key", Some(account), Some(*number)),
        };
        let result = match response.status() {
            StatusCode::OK => "done",
            StatusCode::ACCEPTED => "written, and in force after the next reload",
            _ => std::str::from_utf8(response.body()).unwrap_or_default().trim_end(),
        };
        let (time, address, status) = (caller.now, Some(caller.peer), Some(response.status()));
        AdminEvent { time, act, account, key, address, principal, status, result }
    }
}

/// Carries out a change for somebody who may, and writes down whether they might.
pub(super) async fn carry_out(
    port: &AdminPort,
    caller: Caller,
    parts: &Parts,
    change: &Change,
    place: &Place,
) -> Response<Bytes> {
    let authorized = match caller.peer.to_canonical().is_loopback() {
        true => authorize(port, caller, parts, change).await.map_err(unauthorized),
        false => Err(text(
            StatusCode::FORBIDDEN,
            "changes are made from the server's own machine\n".to_owned(),
        )),
    };
    let principal = authorized.as_ref().ok().cloned();
    let response = match authorized {
        Err(refused) => refused,
        Ok(_) => make(&port.node, change, place),
    };
    port.node.telemetry.record_admin(&change.event(caller, principal.as_ref(), &response));
    response
}

/// Makes a change for somebody who may.
fn make(node: &Node, change: &Change, place: &Place) -> Response<Bytes> {
    place.keep();
    let mut response = match change {
        Change::Reload => reload(node),
        Change::Rotate(account, number) => rotate(node, account, *number),
    };
    // The place is kept, so that the connection must end.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn unauthorized(problem: String) -> Response<Bytes> {
    let mut response = text(StatusCode::UNAUTHORIZED, format!("{problem}\n"));
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(ADMIN_SCHEME));
    response
}

/// An account's key is good for its own account, and for a reload, which gives nobody anything new.
async fn authorize(
    port: &AdminPort,
    caller: Caller,
    parts: &Parts,
    change: &Change,
) -> Result<Principal, String> {
    if let Some(token) = token_of(&parts.headers) {
        return authorize_token(&port.node, caller, token, change).await;
    }
    let named = admin_signature_account(&parts.headers).and_then(AccountName::parse);
    let account = named.ok_or_else(|| {
        format!("{}, or send an administrator's token", AdminSignatureError::Missing)
    })?;
    if let Change::Rotate(subject, _) = change
        && *subject != account
    {
        return Err(format!("a key of {account} cannot rotate another account's"));
    }
    let accounts = port.node.accounts();
    let known = accounts.get(&account).ok_or("no such account")?;
    let signature = check_admin_signature(parts, &account, &known.keys, caller.now);
    let signature = signature.map_err(|error| error.to_string())?;
    port.used_signatures.use_up(&signature, caller.now).map_err(|problem| problem.to_string())?;
    Ok(Principal::Signer(signature.signer))
}

async fn authorize_token(
    node: &Node,
    caller: Caller,
    token: &str,
    change: &Change,
) -> Result<Principal, String> {
    let accounts = node.accounts();
    let subjects: Vec<&AccountName> = match change {
        Change::Reload => accounts.names().collect(),
        Change::Rotate(account, _) => vec![account],
    };
    for account in subjects {
        let bearer = node
            .tokens()
            .bearer(token, account, caller.now)
            .await
            .map_err(|refusal| refusal.to_string())?;
        let is_administrator =
            |one: &RoleAssignment| one.role == Role::Administrator && one.scope == Scope::Account;
        if bearer.roles.iter().any(is_administrator) {
            return Ok(Principal::Token(bearer.subject));
        }
    }
    Err("the token's bearer is not an administrator".to_owned())
}

fn reload(node: &Node) -> Response<Bytes> {
    match node.reload() {
        Ok(Reloaded { accounts, needs_restart }) if needs_restart.is_empty() => {
            text(StatusCode::OK, format!("reloaded: {accounts} account(s)\n"))
        }
        Ok(Reloaded { accounts, needs_restart }) => {
            let waiting = needs_restart.join(", ");
            text(
                StatusCode::OK,
                format!("reloaded: {accounts} account(s); needs a restart: {waiting}\n"),
            )
        }
        Err(error) => text(StatusCode::CONFLICT, format!("nothing was changed: {error}\n")),
    }
}

/// The file first, then the server: what is answered survives a restart. A configuration that
/// cannot be read would leave the new key in the file and the old one in force, so that is found
/// out before.
fn rotate(node: &Node, account: &AccountName, number: KeyNumber) -> Response<Bytes> {
    let rotated = node.reload().and_then(|_| node.account_folder().rotate(account, number));
    let key = match rotated {
        Ok(key) => key,
        Err(error) => return text(StatusCode::CONFLICT, format!("nothing was changed: {error}\n")),
    };
    tracing::info!(%account, key = number.field(), "a key was rotated");
    let body = format!("{{\"account\":\"{account}\",\"{}\":\"{}\"}}\n", number.field(), &*key);
    let status = match node.reload() {
        Ok(_) => StatusCode::OK,
        // The key is told nevertheless, because nobody can read it from here again.
        Err(error) => {
            tracing::error!(%error, %account, "the new key counts after the next reload that succeeds");
            StatusCode::ACCEPTED
        }
    };
    with_type(status, "application/json", body)
}

#[cfg(test)]
mod tests {
    use super::Change;

    #[test]
    fn what_can_be_changed() {
        assert_eq!(Change::parse("/reload", None), Some(Change::Reload));
        assert!(matches!(
            Change::parse("/accounts/shop/rotate", Some("key=2")),
            Some(Change::Rotate(..))
        ));
        for (path, query) in [
            ("/accounts/shop/rotate", None),
            ("/accounts/shop/rotate", Some("key=3")),
            ("/accounts//rotate", Some("key=1")),
            ("/accounts/../rotate", Some("key=1")),
            ("/accounts/shop", Some("key=1")),
            ("/metrics", None),
        ] {
            assert_eq!(Change::parse(path, query), None, "{path} {query:?}");
        }
    }
}
