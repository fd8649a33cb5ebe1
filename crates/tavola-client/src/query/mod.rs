//! Queries: described, then streamed.

mod pages;

use std::fmt;
use std::marker::PhantomData;

use tavola_core::request::Select;
use tavola_core::{EntityKey as CoreKey, Filter as CoreFilter};
use tavola_protocol::table::entity_json::DecodedEntity;

pub use pages::{Items, Pages};

use crate::client::TableClient;
use crate::continuation::{Continuation, query_hash};
use crate::crypt::{self, ENVELOPE, Policy};
use crate::engine::CallSettings;
use crate::entity::names::{count, expand};
use crate::entity::{Decoder as _, DynEntity, Entity, Projected, Selection, Stored};
use crate::error::Error;
use crate::etag::ETag;
use crate::explain::{Access, Dialect, Explain};
use crate::filter::Filter;
use crate::key::{EntityKey, KeyRange};
use crate::options::{Options, option_setters};
use crate::prepare::{decode, with_head};
use crate::store::Flavour;

/// The most entities of a page.
const PAGE_MAX: usize = 1000;

type Decode<T> = Box<dyn Fn(DecodedEntity, &Policy) -> Result<T, Error> + Send + Sync>;

/// One page of a query.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::{DynEntity, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// # for row in ["1", "2", "3"] { table.insert(&DynEntity::new("Smith", row)).await?; }
/// let page = table.scan::<DynEntity>().page_size(2).pages().try_next().await?;
/// let page = page.expect("there is one");
/// assert_eq!((page.items.len(), page.next.is_some()), (2, true));
/// # Ok(())
/// # }
/// ```
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
    prefetches: bool,
    /// How it reaches its rows, known when it begins.
    access: Option<Access>,
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
            prefetches: false,
            access: None,
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
        let mut encrypted = expand(E::ENCRYPTED);
        encrypted.retain(|name| names.contains(name));
        let decode = move |entity: DecodedEntity, policy: &Policy| {
            let mut decoder = selection.decoder();
            with_head(&entity, |head| {
                crypt::check(&encrypted, &entity.properties, policy)?;
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
        self.into_rows(None, Box::new(move |entity, policy| resolve(decode::<E>(entity, policy)?)))
    }

    /// Makes of each row, as it was received, what `decode` makes of it.
    pub(crate) fn read_by<T>(
        self,
        decode: impl Fn(DecodedEntity, &Policy) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Query<'a, E, T> {
        self.into_rows(None, Box::new(decode))
    }

    fn into_rows<T>(self, select: Option<Vec<String>>, decode: Decode<T>) -> Query<'a, E, T> {
        let Self { client, filter, page_size, take, resume, prefetches, settings, .. } = self;
        let of = PhantomData;
        Query {
            client,
            filter,
            select,
            decode,
            page_size,
            take,
            resume,
            prefetches,
            access: None,
            settings,
            of,
        }
    }
}

impl<'a> Query<'a, DynEntity, (CoreKey, ETag)> {
    /// Keys and versions only.
    pub(crate) fn keys(client: &'a TableClient, filter: CoreFilter) -> Self {
        let decode = |entity: DecodedEntity, _: &Policy| {
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

    /// Asks for the next page while this one is read: one page ahead, no more. Without it a page is
    /// asked for when the one before it is used up.
    pub fn prefetch(mut self) -> Self {
        self.prefetches = true;
        self
    }

    option_setters! { deadline retry client_request_id secondary deny_scans allow_scan }

    /// What the query does otherwise than its handle and its client say.
    pub fn options(mut self, over: Options) -> Self {
        self.settings = self.settings.options(over);
        self
    }

    #[cfg(feature = "encrypt")]
    pub(crate) fn with_policy(mut self, policy: Policy) -> Self {
        self.settings.encryption = policy;
        self
    }

    /// For a query inside a call. Whether it may scan is its own affair.
    pub(crate) fn with_settings(mut self, settings: CallSettings) -> Self {
        let denies_scans = self.settings.denies_scans;
        self.settings = CallSettings { denies_scans, ..settings };
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
        Pages::new(self)
    }

    /// The entities, page after page. Nothing is read before the first one is asked for.
    pub fn stream(self) -> Items<'a, T> {
        Items::new(self.pages())
    }

    fn select_names(&self) -> Select {
        match &self.select {
            None => Select::All,
            Some(names) => {
                let system = ["PartitionKey", "RowKey", "Timestamp"].map(str::to_owned);
                let may_be_encrypted =
                    self.settings.encryption.has_keys() || count(E::ENCRYPTED) > 0;
                let is_needed = may_be_encrypted && !names.is_empty();
                let envelope = is_needed.then(|| ENVELOPE.to_owned());
                let envelope = envelope.filter(|envelope| !names.contains(envelope));
                let names = system.into_iter().chain(names.iter().cloned()).chain(envelope);
                Select::Names(names.collect())
            }
        }
    }

    /// How the query reaches its rows, if it may.
    fn check_access(&self) -> Result<Access, Error> {
        let explain = self.explain()?;
        let dialect = match self.client.engine().traits.flavour {
            Flavour::Tavola => Dialect::Tavola,
            Flavour::Azure | Flavour::Cosmos => Dialect::Azure,
        };
        if self.settings.denies_scans {
            explain.deny_scans(dialect)?;
        }
        Ok(match dialect {
            Dialect::Tavola => explain.here,
            Dialect::Azure => explain.azure,
        })
    }

    fn hash(&self, filter: Option<&CoreFilter>) -> u64 {
        let filter = filter.map(ToString::to_string).unwrap_or_default();
        let select = self.select.as_ref().map(|names| names.join(",")).unwrap_or_default();
        query_hash(&[&self.client.name().to_ascii_lowercase(), &filter, &select])
    }
}
