//! Calls as values.

use std::fmt;
use std::future::IntoFuture;

#[cfg(feature = "encrypt")]
use crate::crypt::Policy;
use crate::engine::CallSettings;
use crate::error::Error;
use crate::options::{Options, option_setters};
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

    option_setters! { deadline retry on_unknown client_request_id secondary claim idempotent }

    /// What the call does otherwise than its handle and its client say.
    pub fn options(mut self, over: Options) -> Self {
        self.settings = self.settings.options(over);
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
