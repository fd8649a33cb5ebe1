//! Puts the credential into a request.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use tavola_core::AccountName;
use tavola_protocol::AccountKey;
use tavola_protocol::auth::{SasFields, Scheme, sign_request};
use tavola_protocol::connection_string::Endpoint;
use tokio::sync::Mutex;

use super::super::{AttemptResult, Cause, Failure};
use crate::credential::{Credential, Secret};
use crate::error::{Error, ErrorKind, Outcome};
use crate::runtime::Runtime;

/// A secret is renewed so long before it ends.
const RENEWAL: Duration = Duration::from_secs(5 * 60);

/// A credential that is ready for use.
pub(super) struct Signer {
    method: Method,
    /// What a source gave last.
    last: Mutex<Option<Secret>>,
}

enum Method {
    None,
    Key(AccountName, AccountKey),
    Sas(zeroize::Zeroizing<String>),
    Source(Credential),
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.method {
            Method::None => "None",
            Method::Key(..) => "Key(***)",
            Method::Sas(_) => "Sas(***)",
            Method::Source(_) => "Source(***)",
        })
    }
}

impl Signer {
    pub(super) fn new(credential: Option<Credential>, endpoint: &Endpoint) -> Result<Self, Error> {
        let method = match credential {
            None => Method::None,
            Some(Credential::Key { account, key }) => {
                let name = AccountName::parse(&account).or_else(|| endpoint.account());
                let name = name.ok_or_else(|| wrong("this cannot be the name of an account"))?;
                let key = AccountKey::parse(&key)
                    .map_err(|_| wrong("the account's key is not base64; was it cut off?"))?;
                Method::Key(name, key)
            }
            Some(Credential::Sas(signature)) => {
                let query = signature.trim_start_matches('?');
                if !SasFields::are_in(Some(query)) {
                    return Err(wrong("the shared access signature has no sig=; was it cut off?"));
                }
                Method::Sas(zeroize::Zeroizing::new(query.to_owned()))
            }
            Some(source) => Method::Source(source),
        };
        Ok(Self { method, last: Mutex::new(None) })
    }

    pub(super) fn account(&self) -> Option<String> {
        match &self.method {
            Method::Key(account, _) => Some(account.as_str().to_owned()),
            _ => None,
        }
    }

    pub(super) async fn sign(
        &self,
        request: &mut Request<Bytes>,
        runtime: &dyn Runtime,
    ) -> Result<(), Failure> {
        self.sign_at(request, runtime.time_of_day()).await
    }

    pub(super) async fn sign_at(
        &self,
        request: &mut Request<Bytes>,
        now: SystemTime,
    ) -> Result<(), Failure> {
        match &self.method {
            Method::None => Ok(()),
            Method::Key(account, key) => {
                sign_request(request, Scheme::SharedKey, account, key, now);
                Ok(())
            }
            Method::Sas(query) => add_query(request, query),
            Method::Source(source) => {
                let secret = self.current(source, now).await?;
                match source {
                    Credential::Token(_) => add_token(request, &secret.text),
                    _ => add_query(request, secret.text.trim_start_matches('?')),
                }
            }
        }
    }

    async fn current(&self, source: &Credential, now: SystemTime) -> Result<Secret, Failure> {
        // A request that comes while another asks waits for the answer of that one.
        let mut last = self.last.lock().await;
        let is_good = |secret: &Secret| secret.expires.is_none_or(|end| end > now + RENEWAL);
        if let Some(secret) = last.as_ref().filter(|secret| is_good(secret)) {
            return Ok(secret.clone());
        }
        let renewed = match source {
            Credential::Token(source) => source.token().await,
            Credential::SasSource(source) => source.sas().await,
            Credential::Key { .. } | Credential::Sas(_) => return Err(unusable("no source")),
        };
        let secret = match (renewed, last.as_ref()) {
            (Ok(secret), _) => secret,
            // The old one is still good for a while.
            (Err(_), Some(old)) if old.expires.is_some_and(|end| end > now) => {
                return Ok(old.clone());
            }
            (Err(error), _) => return Err(unusable(&error.to_string())),
        };
        *last = Some(secret.clone());
        Ok(secret)
    }
}

fn wrong(text: &'static str) -> Error {
    Error::new(ErrorKind::Credential, Outcome::NotSent, text)
}

fn unusable(reason: &str) -> Failure {
    Failure::new(AttemptResult::NotSent, Cause::Credential(reason.to_owned()))
}

fn add_query(request: &mut Request<Bytes>, query: &str) -> Result<(), Failure> {
    let separator = if request.uri().query().is_some() { '&' } else { '?' };
    let uri = zeroize::Zeroizing::new(format!("{}{separator}{query}", request.uri()));
    let uri: Uri = uri.parse().map_err(|_| unusable("the signature cannot stand in a URL"))?;
    *request.uri_mut() = uri;
    Ok(())
}

fn add_token(request: &mut Request<Bytes>, token: &str) -> Result<(), Failure> {
    if request.uri().scheme_str() != Some("https") {
        return Err(unusable("a token is never sent over http"));
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| unusable("the token cannot stand in a header"))?;
    value.set_sensitive(true);
    request.headers_mut().insert(header::AUTHORIZATION, value);
    Ok(())
}
