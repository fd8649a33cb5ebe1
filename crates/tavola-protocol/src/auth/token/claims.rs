//! What a token says about its bearer.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::ACCOUNT_PLACEHOLDER;
use super::compact::Object;
use super::error::TokenError;

/// More values of one claim than this are not looked at. Providers stop at a few hundred
/// themselves.
const VALUES_MAX: usize = 1024;

/// The claims of a checked token.
pub struct Claims {
    object: Object,
    expires: SystemTime,
    not_before: Option<SystemTime>,
    issued: Option<SystemTime>,
}

/// Claims are about people: only the expiry is shown.
impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims").field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl Claims {
    pub(super) fn read(object: Object) -> Result<Self, TokenError> {
        let expires = time(&object, "exp")?.ok_or(TokenError::ExpiryMissing)?;
        let (not_before, issued) = (time(&object, "nbf")?, time(&object, "iat")?);
        object.text("sub")?;
        Ok(Self { object, expires, not_before, issued })
    }

    /// Whom the token is about, in the issuer's words.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.object.get("sub").and_then(Value::as_str)
    }

    /// When the token ends, leeway left out.
    #[must_use]
    pub fn expires(&self) -> SystemTime {
        self.expires
    }

    /// The values of a claim that is one text or a list of texts; whatever else it is, it has none.
    #[must_use]
    pub fn values(&self, claim: &str) -> Vec<&str> {
        match self.object.get(claim) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(values)) => {
                values.iter().filter_map(Value::as_str).take(VALUES_MAX).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn check_audience<'a>(
        &self,
        mut accepted: impl Iterator<Item = &'a str>,
        account: &str,
    ) -> Result<(), TokenError> {
        let audiences = self.values("aud");
        let is_named = |accepted: &str| {
            audiences.contains(&accepted.replace(ACCOUNT_PLACEHOLDER, account).as_str())
        };
        if accepted.any(is_named) { Ok(()) } else { Err(TokenError::AudienceMismatch) }
    }

    /// That the token is neither past nor to come.
    pub(super) fn check_validity(
        &self,
        now: SystemTime,
        leeway: Duration,
    ) -> Result<(), TokenError> {
        if now.duration_since(self.expires).is_ok_and(|since| since >= leeway) {
            return Err(TokenError::Expired);
        }
        match self.not_before {
            Some(start) if is_to_come(start, now, leeway) => Err(TokenError::NotYetValid),
            _ => Ok(()),
        }
    }

    pub(super) fn check_issued(&self, now: SystemTime, leeway: Duration) -> Result<(), TokenError> {
        match self.issued {
            Some(issued) if is_to_come(issued, now, leeway) => Err(TokenError::IssuedInFuture),
            _ => Ok(()),
        }
    }
}

fn is_to_come(time: SystemTime, now: SystemTime, leeway: Duration) -> bool {
    time.duration_since(now).is_ok_and(|until| until > leeway)
}

/// Seconds since 1970, with or without a fraction (RFC 7519 NumericDate).
fn time(object: &Object, claim: &'static str) -> Result<Option<SystemTime>, TokenError> {
    let Some(value) = object.get(claim) else { return Ok(None) };
    let since_epoch = match value.as_u64() {
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None => value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    };
    let time = since_epoch.and_then(|since_epoch| UNIX_EPOCH.checked_add(since_epoch));
    time.map(Some).ok_or(TokenError::ClaimMalformed(claim))
}
