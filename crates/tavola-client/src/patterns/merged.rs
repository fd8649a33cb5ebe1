//! Rows of several places in one order: what is read of rolling tables and of spread partitions.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use tavola_protocol::table::encode::NextPage;
use tavola_protocol::table::entity_json::DecodedEntity;

use crate::client::TableClient;
use crate::continuation::Continuation;
use crate::crypt::Policy;
use crate::engine::CallSettings;
use crate::entity::{Entity, Stored};
use crate::error::{Error, ErrorKind, Outcome, Rule};
use crate::filter::{AnyFilter, prop};
use crate::key::EntityKey;
use crate::query::{Page, Query};
use crate::runtime::BoxFuture;

/// Rows of a page, unless the query says another number.
const PAGE_DEFAULT: usize = 1000;
/// Places that are read at a time.
const PARALLEL: usize = 8;

/// What makes an entity of a row.
pub(super) type Decode<E> =
    Arc<dyn Fn(DecodedEntity, &Policy) -> Result<Stored<E>, Error> + Send + Sync>;

/// One place where rows are.
pub(super) struct Source {
    /// Its name in continuations. Of two rows with one key that of the lesser label is first.
    pub(super) label: String,
    pub(super) table: TableClient,
    pub(super) filter: AnyFilter,
}

/// In which order places are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// All together, by keys.
    Keys,
    /// One after the other, from the greatest label down, each by its keys.
    LabelsDescending,
}

/// What is known of a query over several places before anything is read.
pub(super) struct Plan<E> {
    pub(super) order: Order,
    /// All rows are of one partition, as the program sees it.
    pub(super) is_single: bool,
    /// A table that is missing has no rows.
    pub(super) allows_missing: bool,
    /// By which the query knows its own continuations.
    pub(super) hash: u64,
    pub(super) decode: Decode<E>,
    pub(super) settings: CallSettings,
}

type Sources<'a> = BoxFuture<'a, Result<Vec<Source>, Error>>;

/// A query over several tables or partitions that was described and not yet sent. Its rows come in
/// one order, and its pages have continuations like those of any query.
#[must_use = "a query does nothing until it is streamed"]
pub struct Merged<'a, E> {
    plan: Plan<E>,
    sources: Sources<'a>,
    page_size: Option<usize>,
    take: Option<usize>,
    resume: Option<Continuation>,
}

impl<E> fmt::Debug for Merged<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged")
            .field("order", &self.plan.order)
            .field("page_size", &self.page_size)
            .field("take", &self.take)
            .finish_non_exhaustive()
    }
}

impl<'a, E: Entity> Merged<'a, E> {
    pub(super) fn new(
        plan: Plan<E>,
        sources: impl Future<Output = Result<Vec<Source>, Error>> + Send + 'a,
    ) -> Self {
        Self { plan, sources: Box::pin(sources), page_size: None, take: None, resume: None }
    }

    /// So many entities a page, at most 1,000.
    pub fn page_size(mut self, entities: usize) -> Self {
        self.page_size = Some(entities.clamp(1, PAGE_DEFAULT));
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

    /// The pages. Nothing is read before the first one is asked for.
    #[must_use]
    pub fn pages(self) -> BoxStream<'a, Result<Page<Stored<E>>, Error>> {
        let state = State::Start(Box::new(self));
        stream::try_unfold(state, |state| async move {
            let mut reading = match state {
                State::Start(query) => query.begin().await?,
                State::Reading(reading) => reading,
            };
            let page = reading.page().await?;
            Ok(page.map(|page| (page, State::Reading(reading))))
        })
        .boxed()
    }

    /// The entities, page after page. Nothing is read before the first one is asked for.
    #[must_use]
    pub fn stream(self) -> BoxStream<'a, Result<Stored<E>, Error>> {
        let items = |page: Page<Stored<E>>| stream::iter(page.items.into_iter().map(Ok));
        self.pages().map_ok(items).try_flatten().boxed()
    }

    async fn begin(self) -> Result<Reading<E>, Error> {
        let at = self.resume.map(|token| Position::of(&token, self.plan.hash)).transpose()?;
        let mut sources = self.sources.await?;
        sources.sort_by(|left, right| left.label.cmp(&right.label));
        if self.plan.order == Order::LabelsDescending {
            sources.reverse();
        }
        let page_size = self.page_size.unwrap_or(PAGE_DEFAULT);
        let places = sources.into_iter().filter_map(|source| match &at {
            None => Some(Place::new(source)),
            Some(at) => at.rest_of(source, &self.plan),
        });
        let places = places.collect();
        Ok(Reading { plan: self.plan, places, page_size, take: self.take })
    }
}

enum State<'a, E> {
    Start(Box<Merged<'a, E>>),
    Reading(Reading<E>),
}

/// Where a page ended: the last row, and the place that it was in.
struct Position {
    label: String,
    partition: String,
    row: String,
}

impl Position {
    fn of(token: &Continuation, hash: u64) -> Result<Self, Error> {
        let page = token.page_of(hash)?;
        // No key has a control character.
        let place = page.partition_key.as_deref().and_then(|place| place.split_once('\n'));
        let (Some((label, partition)), Some(row)) = (place, page.row_key) else {
            return Err(Error::invalid(Rule::Continuation, "the continuation is of another query"));
        };
        Ok(Self { label: label.to_owned(), partition: partition.to_owned(), row })
    }

    fn token(label: &str, key: &EntityKey, hash: u64) -> Continuation {
        let partition_key = Some(format!("{label}\n{}", key.partition()));
        let row_key = Some(key.row().to_owned());
        Continuation::new(hash, NextPage { partition_key, row_key, table_name: None })
    }

    /// What is left of a place behind this position; `None` if nothing is.
    fn rest_of<E>(&self, mut source: Source, plan: &Plan<E>) -> Option<Place<E>> {
        let side = source.label.cmp(&self.label);
        let includes_key = match (plan.order, side) {
            (Order::LabelsDescending, Ordering::Greater) => return None,
            (Order::LabelsDescending, Ordering::Less) => return Some(Place::new(source)),
            (_, side) => side == Ordering::Greater,
        };
        let row = self.row.as_str();
        let behind = if includes_key { prop("RowKey").ge(row) } else { prop("RowKey").gt(row) };
        let partition = self.partition.as_str();
        source.filter = if plan.is_single {
            source.filter.and(behind)
        } else {
            // The bound stands alone too, so that nothing before it is read.
            let bound = prop("PartitionKey").ge(partition);
            source.filter.and(bound).and(prop("PartitionKey").gt(partition).or(behind))
        };
        Some(Place::new(source))
    }
}

/// A place while it is read.
struct Place<E> {
    source: Source,
    rows: VecDeque<Stored<E>>,
    next: Option<Continuation>,
    is_read: bool,
}

impl<E> Place<E> {
    fn new(source: Source) -> Self {
        Self { source, rows: VecDeque::new(), next: None, is_read: false }
    }

    fn wants_rows(&self) -> bool {
        self.rows.is_empty() && !self.is_read
    }
}

impl<E: Entity> Place<E> {
    /// Reads pages until there are rows, or no more pages.
    async fn fill(&mut self, plan: &Plan<E>, rows: usize) -> Result<(), Error> {
        while self.wants_rows() {
            let filter = self.source.filter.as_core().cloned().map(Some);
            let decode = Arc::clone(&plan.decode);
            let query = Query::<E>::new(&self.source.table, filter)
                .read_by(move |row, policy| decode(row, policy))
                .with_settings(plan.settings.clone())
                .page_size(rows)
                .resume(self.next.take());
            let page = match query.pages().try_next().await {
                Err(error) if plan.allows_missing && error.code() == Some("TableNotFound") => None,
                page => page?,
            };
            let (rows, next) = page.map_or_else(Default::default, |page| (page.items, page.next));
            self.is_read = next.is_none();
            self.rows.extend(rows);
            self.next = next;
        }
        Ok(())
    }
}

/// A query while it is read.
struct Reading<E> {
    plan: Plan<E>,
    places: VecDeque<Place<E>>,
    page_size: usize,
    take: Option<usize>,
}

impl<E: Entity> Reading<E> {
    async fn page(&mut self) -> Result<Option<Page<Stored<E>>>, Error> {
        let wanted = self.take.map_or(self.page_size, |take| take.min(self.page_size));
        let mut items = Vec::new();
        let mut next = None;
        while items.len() < wanted {
            let Some((label, item)) = self.next(wanted).await? else { break };
            next = Some(Position::token(&label, item.key(), self.plan.hash));
            items.push(item);
        }
        if items.is_empty() {
            return Ok(None);
        }
        self.take = self.take.map(|take| take - items.len());
        let is_end = self.places.iter().all(|place| place.is_read && place.rows.is_empty());
        Ok(Some(Page { items, next: next.filter(|_| !is_end) }))
    }

    /// The next row, and the label of its place.
    async fn next(&mut self, wanted: usize) -> Result<Option<(String, Stored<E>)>, Error> {
        match self.plan.order {
            Order::Keys => {
                let plan = &self.plan;
                let empty = self.places.iter_mut().filter(|place| place.wants_rows());
                let reads: Vec<_> = empty.map(|place| place.fill(plan, wanted)).collect();
                stream::iter(reads).buffer_unordered(PARALLEL).try_collect::<()>().await?;
            }
            Order::LabelsDescending => {
                while let Some(first) = self.places.front_mut() {
                    first.fill(&self.plan, wanted).await?;
                    if !first.rows.is_empty() {
                        break;
                    }
                    self.places.pop_front();
                }
            }
        }
        let heads = self.places.iter_mut().filter(|place| !place.rows.is_empty());
        let first = match self.plan.order {
            Order::Keys => heads.min_by(|left, right| self.plan.compare(left, right)),
            Order::LabelsDescending => heads.take(1).next(),
        };
        Ok(first.and_then(|place| Some((place.source.label.clone(), place.rows.pop_front()?))))
    }
}

impl<E: Entity> Plan<E> {
    fn compare(&self, left: &Place<E>, right: &Place<E>) -> Ordering {
        let (Some(left), Some(right)) = (left.rows.front(), right.rows.front()) else {
            return Ordering::Equal;
        };
        let (left, right) = (left.key().as_core(), right.key().as_core());
        match self.is_single {
            true => left.row_key.cmp(&right.row_key),
            false => left.cmp(right),
        }
    }
}

/// Refuses a service that returns rows in no order.
pub(super) fn check_order(table: &crate::engine::Engine) -> Result<(), Error> {
    if table.traits.flavour.has_key_order() {
        return Ok(());
    }
    let text = "the service returns rows in no order, so that those of several places cannot be \
                merged";
    Err(Error::new(ErrorKind::Pattern, Outcome::NotSent, text))
}
