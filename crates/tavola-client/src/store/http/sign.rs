//! Puts the credential into a request.

use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use tavola_core::AccountName;
use tavola_protocol::AccountKey;
use tavola_protocol::auth::{SasFields, Scheme, sign_request};
use tavola_protocol::connection_string::Endpoint;

use super::super::{AttemptResult, Cause, Failure};
use crate::credential::{Credential, Secret};
use crate::error::{Error, ErrorKind, Outcome};
use crate::renewal::Renewal;
use crate::runtime::Runtime;

/// A credential that is ready for use.
pub(super) struct Signer {
    method: Method,
    /// What a source gave last.
    renewal: Renewal,
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
        Ok(Self { method, renewal: Renewal::default() })
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
        match &self.method {
            Method::None => Ok(()),
            Method::Key(account, key) => {
                sign_request(request, Scheme::SharedKey, account, key, runtime.time_of_day());
                Ok(())
            }
            Method::Sas(query) => add_query(request, query),
            Method::Source(source) => {
                let secret = self.current(source, runtime).await?;
                match source {
                    Credential::Token(_) => add_token(request, &secret.text),
                    _ => add_query(request, secret.text.trim_start_matches('?')),
                }
            }
        }
    }

    async fn current(&self, source: &Credential, runtime: &dyn Runtime) -> Result<Secret, Failure> {
        let ask = || match source {
            Credential::Token(source) => source.token(),
            Credential::SasSource(source) => source.sas(),
            Credential::Key { .. } | Credential::Sas(_) => {
                Box::pin(async { Err("no source".into()) })
            }
        };
        self.renewal.get(runtime, ask).await.map_err(|error| unusable(&error.to_string()))
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
