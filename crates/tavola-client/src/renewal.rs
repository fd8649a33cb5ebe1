//! A secret that ends and is asked for anew before, so that no request fails for it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::credential::{SasSource, Secret, SourceError};
use crate::runtime::{BoxFuture, Runtime, SystemRuntime, within};

/// A secret is renewed so long before it ends, or when a quarter of its life is left, if that is
/// later.
const RENEWAL: Duration = Duration::from_secs(5 * 60);
/// How long the one request that renews waits while the old secret is good, at most.
const RENEWAL_TIME_MAX: Duration = Duration::from_secs(5);
/// After a renewal that failed the next is tried so much later.
const RETRY: Duration = Duration::from_secs(15);

/// The last secret of a source.
#[derive(Default)]
pub(crate) struct Renewal {
    held: Mutex<Option<Held>>,
    /// Held while the source is asked.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Held {
    secret: Secret,
    renew_at: Option<SystemTime>,
}

impl Held {
    fn new(secret: Secret, now: SystemTime) -> Self {
        let renew_at = secret.expires.map(|end| {
            let life = end.duration_since(now).unwrap_or_default();
            end - RENEWAL.min(life / 4)
        });
        Self { secret, renew_at }
    }

    fn is_good(&self, now: SystemTime) -> bool {
        self.secret.expires.is_none_or(|end| end > now)
    }

    fn is_due(&self, now: SystemTime) -> bool {
        self.renew_at.is_some_and(|at| at <= now)
    }
}

impl Renewal {
    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A secret that is good now. While the old one is, one request asks for the next, for a short
    /// time, and the others go on with the old one.
    pub(crate) async fn get<'s>(
        &self,
        runtime: &dyn Runtime,
        ask: impl Fn() -> BoxFuture<'s, Result<Secret, SourceError>> + Send,
    ) -> Result<Secret, SourceError> {
        let now = runtime.time_of_day();
        let old = self.held().clone().filter(|held| held.is_good(now));
        let Some(old) = old else { return self.first(runtime, ask).await };
        if !old.is_due(now) {
            return Ok(old.secret);
        }
        let Ok(_asking) = self.asking.try_lock() else { return Ok(old.secret) };
        let renewed = within(runtime, Some(RENEWAL_TIME_MAX), ask()).await;
        let now = runtime.time_of_day();
        match renewed {
            Some(Ok(secret)) => {
                *self.held() = Some(Held::new(secret.clone(), now));
                Ok(secret)
            }
            Some(Err(_)) | None => {
                tracing::warn!("a credential could not be renewed yet; the old one is used");
                let renew_at = Some(now + RETRY);
                *self.held() = Some(Held { renew_at, ..old.clone() });
                Ok(old.secret)
            }
        }
    }

    /// There is no good secret: requests wait until one of them got one.
    async fn first<'s>(
        &self,
        runtime: &dyn Runtime,
        ask: impl Fn() -> BoxFuture<'s, Result<Secret, SourceError>> + Send,
    ) -> Result<Secret, SourceError> {
        let _asking = self.asking.lock().await;
        let now = runtime.time_of_day();
        let held = self.held().clone();
        if let Some(held) = held.filter(|held| held.is_good(now)) {
            return Ok(held.secret);
        }
        let secret = ask().await?;
        *self.held() = Some(Held::new(secret.clone(), runtime.time_of_day()));
        Ok(secret)
    }
}

/// A source of shared access signatures that asks another one, and keeps what it said until shortly
/// before it ends: five minutes, or a quarter of its life. A client does the same with the source
/// that it is given; this is for several clients that share one.
///
/// While the old signature is good, no request waits longer than five seconds for the next one, and
/// a source that fails is asked again later. Clones share what they know.
#[derive(Clone)]
pub struct CachedSas {
    source: Arc<dyn SasSource>,
    renewal: Arc<Renewal>,
    runtime: Arc<dyn Runtime>,
}

impl CachedSas {
    /// Keeps what this source says.
    #[must_use]
    pub fn new(source: impl SasSource + 'static) -> Self {
        let runtime = Arc::new(SystemRuntime::new());
        Self { source: Arc::new(source), renewal: Arc::default(), runtime }
    }

    /// By another clock.
    #[doc(hidden)]
    #[must_use]
    pub fn with_runtime(self, runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, ..self }
    }
}

impl fmt::Debug for CachedSas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CachedSas(***)")
    }
}

impl SasSource for CachedSas {
    fn sas(&self) -> BoxFuture<'_, Result<Secret, SourceError>> {
        Box::pin(self.renewal.get(&*self.runtime, || self.source.sas()))
    }
}
