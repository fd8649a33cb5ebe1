//! The same calls for scripts and for programs without an async runtime.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::LazyLock;

use futures_core::Stream;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::call::Call;
use crate::entity::Entity;
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::query::{Items, Pages, Query};

/// One for the process, with one thread of its own: connections outlive the call that made them.
static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).thread_name("tavola-client").enable_all().build()
});

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Error> {
    if Handle::try_current().is_ok() {
        let text = "a blocking call inside an async runtime would hold up all of its other tasks: \
                    use `.await` or `.stream()` there, or `Handle::block_on` on a thread of \
                    `spawn_blocking`";
        return Err(Error::invalid(Rule::Request, text));
    }
    match &*RUNTIME {
        Ok(runtime) => Ok(runtime.block_on(future)),
        Err(error) => {
            let text = format!("the thread for blocking calls could not be started: {error}");
            Err(Error::new(ErrorKind::Transport, Outcome::NotSent, text))
        }
    }
}

impl<'a, R: 'a> Call<'a, R> {
    /// Sends the call and blocks the thread until it has ended. Instead of `.await`, where there is
    /// no async runtime; inside one it is an error, and nothing is sent.
    ///
    /// ```
    /// # fn main() -> Result<(), tavola_client::Error> {
    /// use tavola_client::{DynEntity, Mode, TableServiceClient};
    ///
    /// let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("people");
    /// table.create().wait()?;
    /// let written = table.upsert(&DynEntity::new("Smith", "1"), Mode::Replace).wait()?;
    /// assert_eq!(written.status, 204);
    /// for person in table.scan::<DynEntity>().iter() {
    ///     println!("{}", person?.row());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As with `.await`; and if the thread runs an async runtime.
    pub fn wait(self) -> Result<R, Error> {
        block_on(async { self.await })?
    }
}

impl<'a, E: Entity, T: Send + 'static> Query<'a, E, T> {
    /// The entities, page after page; the thread is blocked while a page is read. Instead of
    /// [`Query::stream`], where there is no async runtime.
    pub fn iter(self) -> Blocking<Items<'a, T>> {
        Blocking::new(self.stream())
    }

    /// The pages; the thread is blocked while one is read. Instead of [`Query::pages`], where there
    /// is no async runtime.
    pub fn iter_pages(self) -> Blocking<Pages<'a, T>> {
        Blocking::new(self.pages())
    }
}

/// A stream of this library as an iterator, which blocks the thread while it waits.
///
/// ```
/// # fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{Blocking, TableServiceClient};
///
/// let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// service.create_table("people").wait()?;
/// let names: Result<Vec<_>, _> = Blocking::new(service.tables()).collect();
/// assert_eq!(names?, ["people"]);
/// # Ok(())
/// # }
/// ```
#[must_use = "an iterator does nothing until it is asked"]
pub struct Blocking<S>(Option<S>);

impl<S> Blocking<S> {
    /// The items of `stream`.
    pub fn new(stream: S) -> Self {
        Self(Some(stream))
    }
}

impl<S> fmt::Debug for Blocking<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocking")
    }
}

impl<S, T> Iterator for Blocking<S>
where
    S: Stream<Item = Result<T, Error>> + Unpin,
{
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.0.as_mut()?;
        let next =
            block_on(std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context)));
        let next = next.unwrap_or_else(|error| Some(Err(error)));
        // Nothing comes after an error.
        if !matches!(next, Some(Ok(_))) {
            self.0 = None;
        }
        next
    }
}
