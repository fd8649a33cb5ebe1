//! Shared access signatures for others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tavola_core::AccountName;
use tavola_protocol::AccountKey;

use super::{CLOCK_SKEW, SasScope, no_key, text};
use crate::account::Account;
use crate::credential::Secret;
use crate::error::Error;
use crate::runtime::Runtime;

/// The most scopes whose signatures are kept.
const SCOPES_MAX: usize = 1024;

/// Makes, keeps and renews shared access signatures for others: a service that has the account's key
/// hands them out to clients that must not have it. Nothing is sent; a signature is made here.
///
/// For one scope the same signature is handed out until half of its time is over, so that the
/// receiver has at least the other half. Clones share what was made; at most 1,024 scopes are kept.
///
/// ```
/// # fn main() -> Result<(), tavola_client::Error> {
/// use std::time::Duration;
/// use tavola_client::{Account, DynEntity, KeyRange, Permissions, SasIssuer, SasScope};
///
/// let issuer = SasIssuer::new(&Account::development(), Duration::from_secs(3600))?;
/// // What this user may see: one partition.
/// let own = KeyRange::<DynEntity>::partition("000123");
/// let scope = SasScope::table("claims", Permissions::READ).only(own)?;
/// let first = issuer.issue(&scope)?;
/// assert!(first.text().contains("spk=000123") && first.expires().is_some());
/// assert_eq!(issuer.issue(&scope)?.text(), first.text());
/// assert_eq!(issuer.made(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SasIssuer {
    shared: Arc<Shared>,
    runtime: Option<Arc<dyn Runtime>>,
}

struct Shared {
    account: AccountName,
    key: AccountKey,
    is_https: bool,
    valid: Duration,
    made: AtomicU64,
    kept: Mutex<BTreeMap<String, Secret>>,
}

impl fmt::Debug for SasIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SasIssuer")
            .field("account", &self.shared.account)
            .field("valid", &self.shared.valid)
            .finish_non_exhaustive()
    }
}

impl SasIssuer {
    /// Signs with the account's key; each signature is good for so long from when it is made.
    ///
    /// # Errors
    /// If the account was opened without its key.
    pub fn new(account: &Account, valid: Duration) -> Result<Self, Error> {
        let (name, key) = account.key().ok_or_else(no_key)?;
        let shared = Shared {
            account: AccountName::parse(name).ok_or_else(no_key)?,
            key: AccountKey::parse(key).map_err(|_| no_key())?,
            is_https: account.endpoint().starts_with("https:"),
            valid,
            made: AtomicU64::new(0),
            kept: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared), runtime: None })
    }

    /// By another clock.
    #[doc(hidden)]
    #[must_use]
    pub fn with_runtime(self, runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime: Some(runtime), ..self }
    }

    /// How many signatures were made.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.shared.made.load(Ordering::Relaxed)
    }

    /// A signature for this scope: a query string without `?`, and when it ends.
    ///
    /// # Errors
    /// If the clock is beyond what a signature can say.
    pub fn issue(&self, scope: &SasScope) -> Result<Secret, Error> {
        let now = match &self.runtime {
            Some(runtime) => runtime.time_of_day(),
            None => SystemTime::now(),
        };
        let Shared { account, key, valid, .. } = &*self.shared;
        let mut fields = scope.fields.clone();
        if self.shared.is_https {
            fields.protocol = "https".to_owned();
        }
        let place = fields.string_to_sign(account);
        let mut kept = self.kept();
        let is_fresh = |secret: &&Secret| secret.expires.is_some_and(|end| end >= now + *valid / 2);
        if let Some(secret) = kept.get(&place).filter(is_fresh) {
            return Ok(secret.clone());
        }
        fields.start = text(now - CLOCK_SKEW)?;
        fields.expiry = text(now + *valid)?;
        // The text has no fractions of a second.
        let secret = Secret::new(fields.signed(account, key), Some(now + *valid - SECOND));
        self.shared.made.fetch_add(1, Ordering::Relaxed);
        make_room(&mut kept, now);
        kept.insert(place, secret.clone());
        Ok(secret)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Secret>> {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Forgets what ended, and if that is not enough what ends first.
fn make_room(kept: &mut BTreeMap<String, Secret>, now: SystemTime) {
    if kept.len() < SCOPES_MAX {
        return;
    }
    kept.retain(|_, secret| secret.expires.is_some_and(|end| end > now));
    if kept.len() == SCOPES_MAX {
        let first = kept.iter().min_by_key(|(_, secret)| secret.expires);
        if let Some(place) = first.map(|(place, _)| place.clone()) {
            kept.remove(&place);
        }
    }
}
