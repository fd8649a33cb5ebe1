//! Reads a query page by page.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tavola_core::TableRequest;
use tavola_core::request::EntityQuery;
use tavola_protocol::table::decode::Decoded as Answer;
use tavola_protocol::table::encode::NextPage;

use super::{PAGE_MAX, Page, Query};
use crate::continuation::Continuation;
use crate::crypt;
use crate::engine::Subject;
use crate::entity::Entity;
use crate::entity::names::expand;
use crate::error::Error;
use crate::runtime::BoxFuture;

/// Entities that are decrypted at a time: their keys may be in a vault.
const OPENED_AT_A_TIME: usize = 16;

/// The pages of a query.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::{DynEntity, Pages, Stored, TableServiceClient};
/// # let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("people");
/// # table.create().await?;
///
/// let mut pages: Pages<'_, Stored<DynEntity>> = table.scan::<DynEntity>().page_size(50).pages();
/// while let Some(page) = pages.try_next().await? {
///     println!("{} entities; it goes on at {:?}", page.items.len(), page.next);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct Pages<'a, T> {
    /// Asks for the next page. It is polled when that page is needed, or earlier to prefetch.
    fetch: Option<Fetch<'a, T>>,
    /// A page that came before it was needed.
    early: Option<Result<Fetched<'a, T>, Error>>,
    prefetches: bool,
}

/// The entities of a query.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::{DynEntity, Items, Stored, TableServiceClient};
/// # let table = TableServiceClient::on(tavola_local::in_memory(), None).table_client("people");
/// # table.create().await?;
///
/// let mut items: Items<'_, Stored<DynEntity>> = table.scan::<DynEntity>().stream();
/// while let Some(item) = items.try_next().await? {
///     println!("{}", item.row());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct Items<'a, T> {
    pages: Pages<'a, T>,
    items: std::vec::IntoIter<T>,
}

/// Nothing is sent before it is polled; `None` if there is no page.
type Fetch<'a, T> = BoxFuture<'a, Result<Option<Fetched<'a, T>>, Error>>;

struct Fetched<'a, T> {
    page: Page<T>,
    next: Option<Fetch<'a, T>>,
}

// Pages and items are moved out of vectors, never pinned.
impl<T> Unpin for Pages<'_, T> {}
impl<T> Unpin for Items<'_, T> {}

impl<'a, T> Pages<'a, T> {
    pub(super) fn new<E: Entity>(query: Query<'a, E, T>) -> Self
    where
        T: Send + 'static,
    {
        let prefetches = query.prefetches;
        Self { fetch: Some(first(Box::new(query))), early: None, prefetches }
    }

    /// Goes on with the page that is asked for; ready if it is there, or there is none.
    fn poll_fetch(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(fetch) = &mut self.fetch
            && self.early.is_none()
        {
            self.early = ready!(fetch.as_mut().poll(context)).transpose();
            self.fetch = None;
        }
        Poll::Ready(())
    }

    /// Goes on with the next page while this one is read.
    fn prefetch(&mut self, context: &mut Context<'_>) {
        if self.prefetches {
            let _ready_later = self.poll_fetch(context);
        }
    }
}

impl<T> Stream for Pages<'_, T> {
    type Item = Result<Page<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        ready!(self.poll_fetch(context));
        match self.early.take() {
            None => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            Some(Ok(Fetched { page, next })) => {
                self.fetch = next;
                self.prefetch(context);
                Poll::Ready(Some(Ok(page)))
            }
        }
    }
}

impl<'a, T> Items<'a, T> {
    pub(super) fn new(pages: Pages<'a, T>) -> Self {
        Self { pages, items: Vec::new().into_iter() }
    }
}

impl<T> Stream for Items<'_, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.items.next() {
                self.pages.prefetch(context);
                return Poll::Ready(Some(Ok(item)));
            }
            match ready!(Pin::new(&mut self.pages).poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(page)) => self.items = page.items.into_iter(),
            }
        }
    }
}

/// Checks the query, then asks for its first page.
fn first<'a, E: Entity, T: Send + 'static>(mut query: Box<Query<'a, E, T>>) -> Fetch<'a, T> {
    Box::pin(async move {
        query.access = Some(query.check_access()?);
        let filter = query.filter.as_ref().map_err(Error::again)?;
        if let Some(filter) = filter {
            crypt::check_filter(filter, &expand(E::ENCRYPTED), &query.settings.encryption)?;
        }
        let hash = query.hash(filter.as_ref());
        let page = query.resume.as_ref().map(|token| token.page_of(hash)).transpose()?;
        fetch(query, hash, page).await
    })
}

/// Asks for one page.
fn fetch<'a, E: Entity, T: Send + 'static>(
    mut query: Box<Query<'a, E, T>>,
    hash: u64,
    page: Option<NextPage>,
) -> Fetch<'a, T> {
    Box::pin(async move {
        if query.take == Some(0) {
            return Ok(None);
        }
        let table = query.client.table()?;
        let filter = query.filter.as_ref().map_err(Error::again)?.clone();
        let left = query.take.map(|take| take.min(PAGE_MAX));
        let top = match (query.page_size, left) {
            (Some(size), Some(left)) => Some(size.min(left)),
            (size, left) => size.or(left),
        };
        let subject = Subject { access: query.access, ..Subject::new("query", Some(&table)) };
        let request = EntityQuery { filter, top, from: None };
        let request = TableRequest::QueryEntities(table.clone(), request);
        let engine = query.client.engine();
        let select = query.select_names();
        let answer = engine.read(&subject, request, select.clone(), page, &query.settings).await?;
        let Answer::Entities(rows, next) = answer else { return Ok(None) };
        let rows = rows.into_iter().take(query.take.unwrap_or(usize::MAX));
        let policy = &query.settings.encryption;
        let items: Vec<T> = if policy.has_keys() {
            let opened = rows.map(|row| engine.open(&subject, row, &select, &query.settings));
            let opened = stream::iter(opened).buffered(OPENED_AT_A_TIME);
            opened.map(|row| (query.decode)(row?, policy)).try_collect().await?
        } else {
            rows.map(|row| (query.decode)(row, policy)).collect::<Result<_, _>>()?
        };
        query.take = query.take.map(|take| take.saturating_sub(items.len()));
        let token = next.clone().map(|page| Continuation::new(hash, page));
        let next = next.filter(|_| query.take != Some(0));
        let next = next.map(|page| fetch(query, hash, Some(page)));
        Ok(Some(Fetched { page: Page { items, next: token }, next }))
    })
}

impl<T> fmt::Debug for Items<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Items")
    }
}

impl<T> fmt::Debug for Pages<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pages")
    }
}
