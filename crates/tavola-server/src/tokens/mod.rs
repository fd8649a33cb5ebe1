//! Bearer tokens: from the text of one to the roles of its bearer.
//!
//! What a token must look like is the protocol's business. Here is the rest: where issuers' keys
//! come from (`issuer`, `refresh`, `fetch`), how long a checked token is remembered (`verified`),
//! and what its claims earn.

mod fetch;
mod issuer;
mod refresh;
mod verified;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tavola_core::AccountName;
use tavola_core::grant::{Role, RoleAssignment, Scope};
use tavola_protocol::DenyReason;
use tavola_protocol::auth::token::{
    Claims, KeySet, TOKEN_BYTES_MAX, TokenError, check_unsigned, peek,
};

use crate::config::ConfigError;
use crate::config::tokens::{RoleRule, TokenConfig};

use issuer::{Issuer, Verified};
use verified::{Digest, VerifiedTokens};

/// Where clients are sent if no issuer says otherwise.
const DEFAULT_AUTHORIZATION_URI: &str = "https://login.microsoftonline.com/common/oauth2/authorize";
/// What clients shall ask a token for.
const RESOURCE_ID: &str = "https://storage.azure.com";

/// The issuer of a token that nobody signed.
const UNSIGNED: &str = "unsigned";

/// Counts the changes of key sets, so that what was checked with other keys is checked again.
type Generation = Arc<AtomicU64>;

/// Says what the bearers of tokens may do.
#[derive(Debug)]
pub struct TokenAuthority {
    issuers: Vec<Issuer>,
    roles: Vec<RoleRule>,
    unsigned: bool,
    challenge: String,
    generation: Generation,
    verified: VerifiedTokens,
    verifications: AtomicU64,
}

/// The bearer of a token that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// What the bearer may do in an account; nothing, if the token earns no role there.
    pub roles: Vec<RoleAssignment>,
    /// Who it is.
    pub subject: Arc<TokenSubject>,
}

/// Whom a token is about, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSubject {
    /// `iss`
    pub issuer: String,
    /// `sub`, in the issuer's words.
    pub subject: Option<String>,
}

/// Key sets that were read and are not used yet, in the order of the issuers.
#[derive(Debug)]
pub(crate) struct FreshKeys(Vec<Option<KeySet>>);

/// Why a token earns nothing. No reason repeats the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// The token itself.
    #[error(transparent)]
    Invalid(#[from] TokenError),
    /// An `iss` that nobody configured.
    #[error("the token's issuer is not trusted")]
    IssuerNotTrusted,
    /// Not the token's fault: its issuer has not yet, or not for a long time, told its keys.
    #[error("the keys of the token's issuer are not available")]
    KeysUnavailable,
}

impl TokenRefusal {
    /// The same, in one word for logs and counters.
    pub(crate) fn deny_reason(self) -> DenyReason {
        match self {
            Self::Invalid(error) => error.deny_reason(),
            Self::IssuerNotTrusted | Self::KeysUnavailable => DenyReason::Issuer,
        }
    }
}

impl TokenAuthority {
    /// Reads the files that the configuration names. Issuers are not asked before
    /// [`TokenAuthority::start`] or the first token, so that one who does not answer does not keep
    /// a server from starting.
    ///
    /// # Errors
    /// If a file cannot be read or used.
    pub fn new(config: &TokenConfig) -> Result<Self, ConfigError> {
        let generation = Generation::default();
        let issuers = config
            .issuers
            .iter()
            .map(|issuer| Issuer::new(issuer, &generation))
            .collect::<Result<_, _>>()?;
        let authorization_uri =
            config.issuers.first().and_then(|first| first.authorization_uri.as_deref());
        let authorization_uri = authorization_uri.unwrap_or(DEFAULT_AUTHORIZATION_URI);
        Ok(Self {
            issuers,
            roles: config.roles.clone(),
            unsigned: config.unsigned,
            challenge: format!(
                "Bearer authorization_uri={authorization_uri} resource_id={RESOURCE_ID}"
            ),
            generation,
            verified: VerifiedTokens::default(),
            verifications: AtomicU64::new(0),
        })
    }

    /// True if any token can be accepted.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        self.unsigned || !self.issuers.is_empty()
    }

    /// The value of `WWW-Authenticate` for a request without credentials. Its parameters have no
    /// quotes and no commas, because the service's have none and its clients look for exactly that.
    #[must_use]
    pub fn challenge(&self) -> &str {
        &self.challenge
    }

    /// Begins to ask issuers for their keys, in the background of the current runtime.
    pub fn start(&self) {
        for issuer in &self.issuers {
            issuer.start();
        }
    }

    /// Reads key sets on disk again, all or none.
    ///
    /// # Errors
    /// If a file cannot be read or used; then the old keys of every issuer stay.
    pub fn reload(&self) -> Result<(), ConfigError> {
        self.read_keys().map(|fresh| self.install(fresh))
    }

    /// The key sets on disk as they are now; nothing counts before [`TokenAuthority::install`].
    pub(crate) fn read_keys(&self) -> Result<FreshKeys, ConfigError> {
        let keys: Vec<Option<KeySet>> =
            self.issuers.iter().map(Issuer::read_keys).collect::<Result<_, _>>()?;
        Ok(FreshKeys(keys))
    }

    /// From now on the keys count that [`TokenAuthority::read_keys`] has found.
    pub(crate) fn install(&self, FreshKeys(fresh): FreshKeys) {
        for (issuer, keys) in self.issuers.iter().zip(fresh) {
            keys.into_iter().for_each(|keys| issuer.install(keys));
        }
    }

    /// How many signatures were checked, those of remembered tokens not among them.
    #[must_use]
    pub fn verifications(&self) -> u64 {
        self.verifications.load(Ordering::Relaxed)
    }

    /// What the bearer of a token may do in an account: nothing, if the token holds and earns no
    /// role there.
    ///
    /// # Errors
    /// Why the token does not hold.
    pub async fn roles(
        &self,
        token: &str,
        account: &AccountName,
        now: SystemTime,
    ) -> Result<Vec<RoleAssignment>, TokenRefusal> {
        self.bearer(token, account, now).await.map(|bearer| bearer.roles)
    }

    /// Who bears a token, and what that earns in an account.
    ///
    /// # Errors
    /// Why the token does not hold.
    pub async fn bearer(
        &self,
        token: &str,
        account: &AccountName,
        now: SystemTime,
    ) -> Result<Bearer, TokenRefusal> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong.into());
        }
        let digest = Digest::of(token, account);
        if let Some(bearer) =
            self.verified.get(&digest, self.generation.load(Ordering::Acquire), now)
        {
            return Ok(bearer);
        }
        let peeked = peek(token);
        let issuer = peeked
            .as_ref()
            .ok()
            .and_then(|peeked| self.issuers.iter().find(|issuer| issuer.is(&peeked.issuer)));
        let Some(issuer) = issuer else {
            return self.without_issuer(token, account, peeked.err(), now);
        };
        self.verifications.fetch_add(1, Ordering::Relaxed);
        let Verified { claims, generation } = issuer.verify(token, account, now).await?;
        let subject = issuer.subject(&claims);
        let bearer =
            Bearer { roles: self.earned(issuer, &claims, account), subject: Arc::new(subject) };
        self.verified.insert(digest, generation, bearer.clone(), claims.expires(), now);
        Ok(bearer)
    }

    /// An emulator takes everybody's word, and lets everybody do what the service's widest role for
    /// data may do.
    fn without_issuer(
        &self,
        token: &str,
        account: &AccountName,
        problem: Option<TokenError>,
        now: SystemTime,
    ) -> Result<Bearer, TokenRefusal> {
        if self.unsigned {
            check_unsigned(token, account.as_str(), now)?;
            let roles = vec![RoleAssignment { role: Role::Contributor, scope: Scope::Account }];
            // Nobody vouches for what such a token says.
            let subject = TokenSubject { issuer: UNSIGNED.to_owned(), subject: None };
            return Ok(Bearer { roles, subject: Arc::new(subject) });
        }
        Err(problem.map_or(TokenRefusal::IssuerNotTrusted, TokenRefusal::Invalid))
    }

    fn earned(
        &self,
        issuer: &Issuer,
        claims: &Claims,
        account: &AccountName,
    ) -> Vec<RoleAssignment> {
        let applies = |rule: &&RoleRule| {
            rule.issuer.as_deref().is_none_or(|name| name == issuer.name())
                && rule.account.as_ref().is_none_or(|own| own == account)
                && claims.values(&rule.claim).contains(&rule.value.as_str())
        };
        self.roles.iter().filter(applies).map(|rule| rule.assignment.clone()).collect()
    }
}
