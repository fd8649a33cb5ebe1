//! Rows that are computed from others.

mod apply;
mod rebuild;
mod rows;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;

use self::rows::{Control, Snapshot};
use super::drift::DriftReport;
use super::housekeeping::now;
use crate::call::Call;
use crate::client::{ATTEMPTS_MAX, TableClient};
use crate::engine::CallSettings;
use crate::entity::{DynEntity, Entity, Properties};
use crate::error::Error;
use crate::filter::prop;
use crate::key::EntityKey;
use crate::query::Query;

/// What a view makes of the changes of its source. It is pure: the same changes in the same order
/// give the same rows, or a rebuild would be another view.
pub trait Project<S>: Send + Sync + 'static {
    /// A row of the view.
    type Row: Properties + PartialEq;

    /// The RowKeys of the view's rows that a change is about, at most 99. None begins with `!`.
    fn keys(&self, change: &S) -> Vec<String>;

    /// One of these rows after the change; `None` if there is none then.
    fn fold(&self, key: &str, row: Option<Self::Row>, change: &S) -> Option<Self::Row>;
}

/// A materialized view: rows in one partition that a [`Project`] computes from the changes in
/// another one, of any table.
///
/// The **source** is a partition whose rows are changes: each is inserted behind all others by its
/// RowKey, and never changed. The view remembers the RowKey of the last change that it has
/// (`tv_pos`).
///
/// **Guarantee.** Rows and position are written in one transaction, under the version of the
/// position: each change is in the view once, whatever is repeated and however many apply. A
/// rebuild computes a new generation of the view beside the one that is read, and switches in one
/// write: readers see the old one or the new one, whole.
///
/// **Cost** in requests: apply 3, and for each 1,000 changes the rows that they are about, read one
/// by one, and one transaction for each 99 of these; get 2; lag 3.
///
/// ```
/// # #[cfg(feature = "derive")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::patterns::{Project, View};
/// use tavola_client::{Entity, Properties, TableServiceClient};
///
/// #[derive(Entity)]
/// #[entity(partition = "orders", row = "{number:010}")]
/// struct Order {
///     number: u64,
///     customer: String,
///     amount: i64,
/// }
///
/// #[derive(Properties, PartialEq, Default)]
/// struct Total {
///     orders: i64,
///     amount: i64,
/// }
///
/// struct Totals;
///
/// impl Project<Order> for Totals {
///     type Row = Total;
///
///     fn keys(&self, order: &Order) -> Vec<String> {
///         vec![order.customer.clone()]
///     }
///
///     fn fold(&self, _: &str, row: Option<Total>, order: &Order) -> Option<Total> {
///         let Total { orders, amount } = row.unwrap_or_default();
///         Some(Total { orders: orders + 1, amount: amount + order.amount })
///     }
/// }
///
/// let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// let (orders, views) = (service.table_client("orders"), service.table_client("views"));
/// orders.create().await?;
/// views.create().await?;
/// for (number, customer, amount) in [(1, "ann", 5), (2, "bob", 7), (3, "ann", 1)] {
///     orders.insert(&Order { number, customer: customer.into(), amount }).await?;
/// }
/// let totals = View::new(&views, "totals", &orders, "orders", Totals);
/// assert_eq!(totals.apply().await?.changes, 3);
/// assert_eq!(totals.get("ann").await?.map(|total| total.amount), Some(6));
/// assert!(totals.verify().await?.is_clean());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "derive"))]
/// # fn main() {}
/// ```
pub struct View<S, P> {
    table: TableClient,
    name: String,
    source: TableClient,
    /// The partition of the source.
    changes: String,
    project: Arc<P>,
    of: PhantomData<fn() -> S>,
}

impl<S, P> Clone for View<S, P> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            name: self.name.clone(),
            source: self.source.clone(),
            changes: self.changes.clone(),
            project: Arc::clone(&self.project),
            of: PhantomData,
        }
    }
}

impl<S, P> fmt::Debug for View<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("name", &self.name)
            .field("source", &self.source.name())
            .finish_non_exhaustive()
    }
}

/// What was applied to a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Applied {
    /// The changes that this call brought into the view.
    pub changes: usize,
    /// The transactions that it took.
    pub transactions: usize,
}

impl<S: Entity, P: Project<S>> View<S, P> {
    /// The view of this name in `table`, of the changes in one partition of `source`.
    #[must_use]
    pub fn new(
        table: &TableClient,
        name: impl Into<String>,
        source: &TableClient,
        changes: impl Into<String>,
        project: P,
    ) -> Self {
        Self {
            table: table.clone(),
            name: name.into(),
            source: source.clone(),
            changes: changes.into(),
            project: Arc::new(project),
            of: PhantomData,
        }
    }

    /// One row of the view; `None` if there is none.
    pub fn get(&self, key: impl Into<String>) -> Call<'_, Option<P::Row>> {
        let key = key.into();
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            let mut live = self.control(&settings).await?.live;
            for _ in 0..ATTEMPTS_MAX {
                let row = EntityKey::new(self.partition(live), key.as_str())?;
                let row = self.table.get::<DynEntity>(&row).with_settings(settings.clone()).await?;
                if let Some(row) = row {
                    return rows::decode::<P::Row>(&row).map(Some);
                }
                // It may be gone because its generation is.
                match self.control(&settings).await?.live {
                    still if still == live => return Ok(None),
                    newer => live = newer,
                }
            }
            Err(self.contended())
        })
    }

    /// All rows of the view with their keys, of one generation, in the order of their keys. They
    /// are held in memory. Of several pages a later one may have changes that an earlier one has
    /// not.
    pub fn rows(&self) -> Call<'_, Vec<(String, P::Row)>> {
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            for _ in 0..ATTEMPTS_MAX {
                let live = self.control(&settings).await?.live;
                let found = Snapshot::<P::Row>::read(self, live, &settings).await?;
                if self.control(&settings).await?.live == live {
                    return Ok(found.rows.into_iter().collect());
                }
            }
            Err(self.contended())
        })
    }

    /// How old the oldest change is that the view does not have; `None` if it has all.
    pub fn lag(&self) -> Call<'_, Option<Duration>> {
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            let live = self.control(&settings).await?.live;
            let position = self.position(live, &settings).await?;
            let position = position.map(|position| position.at).unwrap_or_default();
            let first = self.behind(&position).with_settings(settings).take(1);
            let first: Vec<_> = first.stream().try_collect().await?;
            let age = |at| Duration::try_from(now(self.table.engine()) - at).unwrap_or_default();
            Ok(first.first().map(|change| age(change.timestamp())))
        })
    }

    /// Compares the view with what its changes come to, beside writers. It reads all changes that
    /// the view has, and holds the view in memory. [`View::rebuild`] mends what is wrong.
    pub fn verify(&self) -> Call<'_, DriftReport> {
        Call::new(self.table.engine().settings(), move |settings: CallSettings| async move {
            self.compare(&settings).await
        })
    }

    /// The changes behind a position.
    fn behind(&self, position: &str) -> Query<'_, S> {
        let changes = prop("PartitionKey").eq(self.changes.as_str());
        // An empty RowKey is one too, but none that a template writes.
        self.source.filter(changes.and(prop("RowKey").gt(position)))
    }

    /// The partition of a generation.
    fn partition(&self, generation: i64) -> String {
        format!("{}!{generation:06}", self.name)
    }

    async fn control(&self, settings: &CallSettings) -> Result<Control, Error> {
        let key = Control::key(&self.name)?;
        let found = self.table.get::<DynEntity>(&key).with_settings(settings.clone()).await?;
        Control::of(found)
    }

    fn contended(&self) -> Error {
        match Control::key(&self.name) {
            Ok(key) => self.table.contended(&key),
            Err(error) => error,
        }
    }
}
