//! Queries: described, then streamed.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tavola_core::request::{EntityQuery, Select};
use tavola_core::{EntityKey as CoreKey, Filter as CoreFilter, TableRequest};
use tavola_protocol::table::decode::Decoded as Answer;
use tavola_protocol::table::encode::NextPage;
use tavola_protocol::table::entity_json::DecodedEntity;

use crate::client::TableClient;
use crate::continuation::{Continuation, query_hash};
use crate::engine::{CallSettings, Subject};
use crate::entity::{Decoder as _, DynEntity, Entity, Projected, Selection, Stored};
use crate::error::Error;
use crate::etag::ETag;
use crate::explain::{Dialect, Explain};
use crate::filter::Filter;
use crate::key::{EntityKey, KeyRange};
use crate::prepare::{decode, with_head};
use crate::retry::Retry;
use crate::store::Flavour;

/// The most entities of a page.
const PAGE_MAX: usize = 1000;

type Decode<T> = Box<dyn Fn(DecodedEntity) -> Result<T, Error> + Send + Sync>;

/// One page of a query.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Page<T> {
    /// In the order of their keys. There may be none, and yet another page.
    pub items: Vec<T>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<Continuation>,
}

/// A query that was described and not yet sent.
///
/// ```no_run
/// # async fn f(t: tavola_client::TableClient) -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::{DynEntity, prop};
///
/// let mut rows = t
///     .filter::<DynEntity>(prop("PartitionKey").eq("Sales").and(prop("Age").gt(30)))
///     .take(10)
///     .stream();
/// while let Some(row) = rows.try_next().await? {
///     println!("{}", row.row());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a query does nothing until it is streamed"]
pub struct Query<'a, E, T = Stored<E>> {
    client: &'a TableClient,
    filter: Result<Option<CoreFilter>, Error>,
    select: Option<Vec<String>>,
    decode: Decode<T>,
    page_size: Option<usize>,
    take: Option<usize>,
    resume: Option<Continuation>,
    denies_scans: bool,
    settings: CallSettings,
    of: PhantomData<fn() -> E>,
}

impl<E, T> fmt::Debug for Query<'_, E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No filter: its constants are values.
        f.debug_struct("Query")
            .field("table", &self.client.name())
            .field("select", &self.select)
            .field("page_size", &self.page_size)
            .field("take", &self.take)
            .finish_non_exhaustive()
    }
}

impl TableClient {
    /// The entities of a range of keys, as a cursor gives it. Nothing outside is read; of a family
    /// the rows of other kinds are left out.
    pub fn query<E: Entity>(&self, keys: impl Into<KeyRange<E>>) -> Query<'_, E> {
        let keys = keys.into();
        let filter = keys.to_filter().and_then(|filter| filter.as_core().cloned());
        let query = Query::new(self, filter.map(Some));
        match E::KIND {
            Some(kind) if E::FAMILY && !keys.is_point() => query.and(kind.to_filter()),
            _ => query,
        }
    }

    /// The entities that satisfy a condition.
    pub fn filter<E: Entity>(&self, condition: impl Into<Filter<E>>) -> Query<'_, E> {
        let filter = condition.into().as_core().cloned();
        Query::new(self, filter.map(Some))
    }

    /// All entities of the table.
    pub fn scan<E: Entity>(&self) -> Query<'_, E> {
        let query = Query::new(self, Ok(None));
        query.allow_scan()
    }
}

impl<'a, E: Entity> Query<'a, E> {
    pub(crate) fn new(client: &'a TableClient, filter: Result<Option<CoreFilter>, Error>) -> Self {
        Self {
            client,
            filter,
            select: None,
            decode: Box::new(decode::<E>),
            page_size: None,
            take: None,
            resume: None,
            denies_scans: client.engine().options.deny_scans,
            settings: client.engine().settings(),
            of: PhantomData,
        }
    }

    /// Reads some properties only: a projection ([`crate::only`]), a tuple of columns, or names.
    pub fn select<S>(self, selection: S) -> Query<'a, E, Projected<S::Out>>
    where
        S: Selection<E> + Sync + 'static,
    {
        let names = selection.names();
        let decode = move |entity: DecodedEntity| {
            let mut decoder = selection.decoder();
            with_head(&entity, |head| {
                crate::prepare::visit(&entity, |name, value| decoder.property(name, value));
                Projected::new(head, decoder.finish(head)?)
            })
        };
        self.into_rows(Some(names), Box::new(decode))
    }

    /// Makes of each row what `resolve` makes of it.
    pub fn resolve<T: Send + 'static>(
        self,
        resolve: impl Fn(Stored<E>) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Query<'a, E, T> {
        self.into_rows(None, Box::new(move |entity| resolve(decode::<E>(entity)?)))
    }

    /// Makes of each row, as it was received, what `decode` makes of it.
    pub(crate) fn read_by<T>(
        self,
        decode: impl Fn(DecodedEntity) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Query<'a, E, T> {
        self.into_rows(None, Box::new(decode))
    }

    fn into_rows<T>(self, select: Option<Vec<String>>, decode: Decode<T>) -> Query<'a, E, T> {
        let Self { client, filter, page_size, take, resume, denies_scans, settings, .. } = self;
        let of = PhantomData;
        Query {
            client,
            filter,
            select,
            decode,
            page_size,
            take,
            resume,
            denies_scans,
            settings,
            of,
        }
    }
}

impl<'a> Query<'a, DynEntity, (CoreKey, ETag)> {
    /// Keys and versions only.
    pub(crate) fn keys(client: &'a TableClient, filter: CoreFilter) -> Self {
        let decode = |entity: DecodedEntity| {
            with_head(&entity, |head| {
                let key = EntityKey::new(head.partition, head.row)?;
                Ok((key.as_core().clone(), head.etag.clone()))
            })
        };
        let query = Query::<DynEntity>::new(client, Ok(Some(filter)));
        query.into_rows(Some(Vec::new()), Box::new(decode)).allow_scan()
    }
}

impl<'a, E: Entity, T: Send + 'static> Query<'a, E, T> {
    /// Only those that satisfy this condition as well.
    pub fn and(mut self, condition: impl Into<Filter<E>>) -> Self {
        let added = condition.into().as_core().cloned();
        self.filter = self.filter.and_then(|filter| {
            let added = added?;
            Ok(Some(match filter {
                None => added,
                Some(CoreFilter::And(mut terms)) => {
                    terms.push(added);
                    CoreFilter::And(terms)
                }
                Some(filter) => CoreFilter::And(vec![filter, added]),
            }))
        });
        self
    }

    /// So many entities a page, at most 1,000.
    pub fn page_size(mut self, entities: usize) -> Self {
        self.page_size = Some(entities.clamp(1, PAGE_MAX));
        self
    }

    /// So many entities in all.
    pub fn take(mut self, entities: usize) -> Self {
        self.take = Some(entities);
        self
    }

    /// Goes on where an earlier run of the same query ended.
    pub fn resume(mut self, token: impl Into<Option<Continuation>>) -> Self {
        self.resume = token.into();
        self
    }

    /// Refuses to read a whole partition or more.
    pub fn deny_scans(mut self) -> Self {
        self.denies_scans = true;
        self
    }

    /// Allows to read a whole partition or more, whatever the client's options say.
    pub fn allow_scan(mut self) -> Self {
        self.denies_scans = false;
        self
    }

    /// Asks the secondary, if the connection string names one.
    pub fn secondary(mut self) -> Self {
        self.settings.secondary = true;
        self
    }

    pub(crate) fn with_settings(mut self, settings: CallSettings) -> Self {
        self.settings = settings;
        self
    }

    /// The longest time for each page.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = Some(deadline);
        self
    }

    /// When attempts at a page are repeated.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = retry;
        self
    }

    /// What the query would read. Nothing is sent.
    ///
    /// # Errors
    /// If the filter cannot be sent.
    pub fn explain(&self) -> Result<Explain, Error> {
        match &self.filter {
            Ok(filter) => Ok(Explain::of(filter.as_ref(), self.select.clone())),
            Err(error) => Err(error.again()),
        }
    }

    /// The pages. Nothing is read before the first one is asked for.
    pub fn pages(self) -> Pages<'a, T> {
        let state = State::Start(Box::new(self));
        let pages = stream::unfold(state, |state| async move {
            match state.next().await {
                Ok(Some((page, state))) => Some((Ok(page), state)),
                Ok(None) => None,
                Err(error) => Some((Err(error), State::End)),
            }
        });
        Pages(pages.boxed())
    }

    /// The entities, page after page. Nothing is read before the first one is asked for.
    pub fn stream(self) -> Items<'a, T> {
        let items = self.pages().0.flat_map(|page| match page {
            Ok(page) => stream::iter(page.items.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        });
        Items(items.boxed())
    }

    fn select_names(&self) -> Select {
        match &self.select {
            None => Select::All,
            Some(names) => {
                let system = ["PartitionKey", "RowKey", "Timestamp"].map(str::to_owned);
                Select::Names(system.into_iter().chain(names.iter().cloned()).collect())
            }
        }
    }

    fn check_scans(&self) -> Result<(), Error> {
        if !self.denies_scans {
            return Ok(());
        }
        let dialect = match self.client.engine().traits.flavour {
            Flavour::Tavola => Dialect::Tavola,
            Flavour::Azure | Flavour::Cosmos => Dialect::Azure,
        };
        self.explain()?.deny_scans(dialect)
    }

    fn hash(&self, filter: Option<&CoreFilter>) -> u64 {
        let filter = filter.map(ToString::to_string).unwrap_or_default();
        let select = self.select.as_ref().map(|names| names.join(",")).unwrap_or_default();
        query_hash(&[&self.client.name().to_ascii_lowercase(), &filter, &select])
    }
}

/// A query while it is read.
enum State<'a, E, T> {
    Start(Box<Query<'a, E, T>>),
    Page(Box<Query<'a, E, T>>, u64, NextPage),
    End,
}

type Step<'a, E, T> = Result<Option<(Page<T>, State<'a, E, T>)>, Error>;

impl<'a, E: Entity, T: Send + 'static> State<'a, E, T> {
    async fn next(self) -> Step<'a, E, T> {
        match self {
            Self::End => Ok(None),
            Self::Start(query) => {
                query.check_scans()?;
                let filter = query.filter.as_ref().map_err(Error::again)?;
                let hash = query.hash(filter.as_ref());
                let page = query.resume.as_ref().map(|token| token.page_of(hash)).transpose()?;
                read_page(query, hash, page).await
            }
            Self::Page(query, hash, page) => read_page(query, hash, Some(page)).await,
        }
    }
}

async fn read_page<'a, E: Entity, T: Send + 'static>(
    mut query: Box<Query<'a, E, T>>,
    hash: u64,
    page: Option<NextPage>,
) -> Step<'a, E, T> {
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
    let subject = Subject::new("query", Some(&table));
    let request =
        TableRequest::QueryEntities(table.clone(), EntityQuery { filter, top, from: None });
    let engine = query.client.engine();
    let answer =
        engine.read(&subject, request, query.select_names(), page, &query.settings).await?;
    let Answer::Entities(rows, next) = answer else { return Ok(None) };
    let rows = rows.into_iter().take(query.take.unwrap_or(usize::MAX));
    let items = rows.map(&query.decode).collect::<Result<Vec<_>, _>>()?;
    query.take = query.take.map(|take| take.saturating_sub(items.len()));
    let token = next.clone().map(|page| Continuation::new(hash, page));
    let state = match next {
        Some(page) if query.take != Some(0) => State::Page(query, hash, page),
        _ => State::End,
    };
    Ok(Some((Page { items, next: token }, state)))
}

/// The entities of a query.
#[must_use = "a stream does nothing until it is polled"]
pub struct Items<'a, T>(BoxStream<'a, Result<T, Error>>);

/// The pages of a query.
#[must_use = "a stream does nothing until it is polled"]
pub struct Pages<'a, T>(BoxStream<'a, Result<Page<T>, Error>>);

impl<T> Stream for Items<'_, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl<T> Stream for Pages<'_, T> {
    type Item = Result<Page<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
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
