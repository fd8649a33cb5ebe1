//! One identity provider: its keys on disk or by asking it, and tokens held against them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tavola_core::AccountName;
use tavola_protocol::auth::token::{
    Claims, DOCUMENT_BYTES_MAX, KeySet, TokenError, TrustedIssuer, verify,
};

use crate::config::ConfigError;
use crate::config::tokens::{IssuerConfig, KeySource};

use super::fetch::Fetcher;
use super::refresh::FetchedKeys;
use super::{Generation, TokenRefusal, TokenSubject};

/// One identity provider.
#[derive(Debug)]
pub(super) struct Issuer {
    trusted: TrustedIssuer,
    keys: Keys,
    generation: Generation,
}

#[derive(Debug)]
enum Keys {
    OnDisk(PathBuf, ArcSwap<KeySet>),
    Fetched(FetchedKeys),
}

/// A token that holds.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) claims: Claims,
    /// By keys of this generation, or of a later one.
    pub(super) generation: u64,
}

impl Issuer {
    pub(super) fn new(config: &IssuerConfig, generation: &Generation) -> Result<Self, ConfigError> {
        let trusted = config.trusted.clone();
        let problem =
            |text: String| ConfigError::new(format!("auth.oidc.{}: {text}", trusted.name));
        let keys = match &config.keys {
            KeySource::File(file) => {
                Keys::OnDisk(file.clone(), ArcSwap::from_pointee(read(file).map_err(problem)?))
            }
            KeySource::Discovery { ca_file } => {
                let fetcher = Fetcher::new(&trusted.issuer, ca_file.as_deref()).map_err(problem)?;
                Keys::Fetched(FetchedKeys::new(&trusted, fetcher, generation.clone()))
            }
        };
        Ok(Self { trusted, keys, generation: generation.clone() })
    }

    /// What the operator calls it.
    pub(super) fn name(&self) -> &str {
        &self.trusted.name
    }

    /// Whom its claims are about.
    pub(super) fn subject(&self, claims: &Claims) -> TokenSubject {
        let subject = claims.subject().map(str::to_owned);
        TokenSubject { issuer: self.trusted.issuer.clone(), subject }
    }

    /// Whether it is who a token claims to be from.
    pub(super) fn is(&self, issuer: &str) -> bool {
        self.trusted.issuer == issuer
    }

    pub(super) fn start(&self) {
        if let Keys::Fetched(keys) = &self.keys {
            keys.start();
        }
    }

    /// Its keys as they are on disk now, if they come from there.
    pub(super) fn read_keys(&self) -> Result<Option<KeySet>, ConfigError> {
        let Keys::OnDisk(file, _) = &self.keys else { return Ok(None) };
        let problem = |text| ConfigError::new(format!("auth.oidc.{}: {text}", self.trusted.name));
        read(file).map(Some).map_err(problem)
    }

    /// From now on these keys count.
    pub(super) fn install(&self, fresh: KeySet) {
        let Keys::OnDisk(_, keys) = &self.keys else { return };
        if fresh != **keys.load() {
            keys.store(Arc::new(fresh));
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Holds a token against the keys; against the issuer's newest ones, if those at hand do not
    /// know its key.
    pub(super) async fn verify(
        &self,
        token: &str,
        account: &AccountName,
        now: SystemTime,
    ) -> Result<Verified, TokenRefusal> {
        let refusal = match self.verify_at_hand(token, account, now) {
            Err(
                refusal @ (TokenRefusal::KeysUnavailable
                | TokenRefusal::Invalid(TokenError::KeyUnknown)),
            ) => refusal,
            settled => return settled,
        };
        match &self.keys {
            Keys::Fetched(keys) if keys.refresh().await => self.verify_at_hand(token, account, now),
            _ => Err(refusal),
        }
    }

    fn verify_at_hand(
        &self,
        token: &str,
        account: &AccountName,
        now: SystemTime,
    ) -> Result<Verified, TokenRefusal> {
        // Read before the keys: if they change in between, the result counts as one of the old
        // keys.
        let generation = self.generation.load(Ordering::Acquire);
        let check = |keys: &KeySet| verify(token, &self.trusted, account.as_str(), keys, now);
        let claims = match &self.keys {
            Keys::OnDisk(_, keys) => check(&keys.load())?,
            Keys::Fetched(keys) => {
                check(&keys.current().ok_or(TokenRefusal::KeysUnavailable)?.keys)?
            }
        };
        Ok(Verified { claims, generation })
    }
}

fn read(file: &Path) -> Result<KeySet, String> {
    let problem =
        |problem: &dyn std::fmt::Display| format!("jwks_file {}: {problem}", file.display());
    let mut json = Vec::new();
    // One byte beyond the bound is enough to see that it is too long.
    let bound = DOCUMENT_BYTES_MAX as u64 + 1;
    let opened = File::open(file).map_err(|error| problem(&error))?;
    opened.take(bound).read_to_end(&mut json).map_err(|error| problem(&error))?;
    KeySet::parse(&json).map_err(|error| problem(&error))
}
