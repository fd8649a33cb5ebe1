//! Calls as values.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

#[cfg(feature = "encrypt")]
use crate::crypt::Policy;
use crate::engine::CallSettings;
use crate::error::Error;
use crate::options::OnUnknown;
use crate::retry::Retry;
use crate::runtime::BoxFuture;

type Run<'a, R> = Box<dyn FnOnce(CallSettings) -> BoxFuture<'a, Result<R, Error>> + Send + 'a>;

/// A call that was described and not yet sent: say more about it, then `.await` it.
///
/// ```no_run
/// # async fn f(t: tavola_client::TableClient) -> Result<(), tavola_client::Error> {
/// use std::time::Duration;
/// use tavola_client::{DynEntity, Retry};
///
/// let found = t
///     .get::<DynEntity>(("Sales", "empid_000212"))
///     .deadline(Duration::from_secs(2))
///     .retry(Retry::none())
///     .await?;
/// # let _ = found;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<'a, R> {
    settings: CallSettings,
    run: Run<'a, R>,
}

impl<R> fmt::Debug for Call<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<'a, R> Call<'a, R> {
    pub(crate) fn new<F>(
        settings: CallSettings,
        run: impl FnOnce(CallSettings) -> F + Send + 'a,
    ) -> Self
    where
        F: Future<Output = Result<R, Error>> + Send + 'a,
    {
        Self { settings, run: Box::new(move |settings| Box::pin(run(settings))) }
    }

    /// For a call inside another one.
    pub(crate) fn with_settings(mut self, settings: CallSettings) -> Self {
        self.settings = settings;
        self
    }

    #[cfg(feature = "encrypt")]
    pub(crate) fn with_policy(mut self, policy: Policy) -> Self {
        self.settings.encryption = policy;
        self
    }

    /// The longest time that the call takes, attempts and pauses together. A quarter of it, at most
    /// two seconds, is kept to find out what became of a write whose reply was lost.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = Some(deadline);
        self
    }

    /// When attempts are repeated.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = retry;
        self
    }

    /// What the call does when its reply was lost.
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.settings.on_unknown = on_unknown;
        self
    }

    /// The id under which the service logs the request.
    pub fn client_request_id(mut self, id: impl Into<String>) -> Self {
        self.settings.client_request_id = Some(id.into());
        self
    }

    /// For an insert by which somebody takes something, a lock or a name: equal content is no proof
    /// that it was this call, and it is never applied twice.
    pub fn claim(mut self) -> Self {
        self.settings.claims = true;
        self
    }

    /// For `modify`: the closure may be applied once more after a reply was lost.
    pub fn idempotent(mut self) -> Self {
        self.settings.is_idempotent = true;
        self
    }

    /// For a read: asks the secondary, if the connection string names one.
    pub fn secondary(mut self) -> Self {
        self.settings.secondary = true;
        self
    }
}

impl<'a, R: 'a> IntoFuture for Call<'a, R> {
    type Output = Result<R, Error>;
    type IntoFuture = BoxFuture<'a, Result<R, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        (self.run)(self.settings)
    }
}
