//! Lints over the keys and plans that went through a client, and over the keys of a table.
//!
//! Figures are kept only if the client was told to ([`ClientOptions::advise`]): a bounded number of
//! tables, partitions and properties, no values.
//!
//! [`ClientOptions::advise`]: crate::ClientOptions::advise

mod figures;
mod keys;
mod numbers;

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use tavola_core::{EntityOperation, Filter as CoreFilter, Precondition};
use time::OffsetDateTime;

use crate::call::Call;
use crate::client::{TableClient, TableServiceClient};
use crate::engine::CallSettings;
use crate::entity::DynEntity;
use crate::error::Error;
use crate::explain::Advice;
use crate::filter::prop;
use crate::key::EntityKey;
use crate::query::Query;
use figures::TableFigures;
use keys::KeyFigures;

/// Tables of which figures are kept; later ones are not looked at.
const TABLES_MAX: usize = 64;
/// Requests for a look at the keys of a table.
const SAMPLE_PAGES_MAX: usize = 50;

/// What went through a client.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    tables: BTreeMap<String, TableFigures>,
}

impl Observed {
    fn table(&mut self, name: &str) -> Option<&mut TableFigures> {
        if !self.tables.contains_key(name) {
            if self.tables.len() == TABLES_MAX {
                return None;
            }
            self.tables.insert(name.to_owned(), TableFigures::default());
        }
        self.tables.get_mut(name)
    }

    /// A write that was applied.
    pub(crate) fn on_write(&mut self, table: &str, partition: &str, operation: &EntityOperation) {
        let Some(figures) = self.table(table) else { return };
        match operation {
            EntityOperation::Insert(new)
            | EntityOperation::Replace(new, Precondition::None)
            | EntityOperation::Merge(new, Precondition::None) => {
                figures.on_new(partition, new.row_key().as_str());
            }
            EntityOperation::Replace(..) | EntityOperation::Merge(..) => figures.on_change(),
            EntityOperation::Delete(..) => {}
        }
    }

    /// A page of a query.
    pub(crate) fn on_page(&mut self, table: &str, filter: Option<&CoreFilter>, returned: usize) {
        if let Some(figures) = self.table(table) {
            figures.on_page(filter, returned);
        }
    }

    fn advice(&self, only: Option<&str>) -> Vec<Advice> {
        let wanted = self.tables.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
        wanted.flat_map(|(name, figures)| figures.advice(name)).collect()
    }
}

impl TableServiceClient {
    /// What could be better about the keys and queries of all tables, judged by what went through
    /// this client and its clones. It is empty unless [`crate::ClientOptions::advise`] was said.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tavola_client::Error> {
    /// use tavola_client::{ClientOptions, DynEntity, TableServiceClient};
    ///
    /// let options = ClientOptions::default().advise();
    /// let service = TableServiceClient::on(tavola_local::in_memory(), Some(options));
    /// let table = service.table_client("orders");
    /// table.create().await?;
    /// for number in 1..=10 {
    ///     table.insert(&DynEntity::new("Sales", number.to_string())).await?;
    /// }
    /// let advice = &service.advise()[0];
    /// assert_eq!(advice.lint, "unpadded-numbers");
    /// assert_eq!(advice.evidence, "orders: RowKey '10' sorts below '9'");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn advise(&self) -> Vec<Advice> {
        self.engine.observed().map_or_else(Vec::new, |observed| observed.advice(None))
    }
}

impl TableClient {
    /// The same for this table alone.
    #[must_use]
    pub fn advise(&self) -> Vec<Advice> {
        let name = self.name().to_ascii_lowercase();
        self.engine().observed().map_or_else(Vec::new, |observed| observed.advice(Some(&name)))
    }

    /// What could be better about the keys that are stored: looks at up to 50 pages of keys, at most
    /// one page that begins in a partition, in the order in which the rows were written last.
    pub fn advise_on_keys(&self) -> Call<'_, Vec<Advice>> {
        Call::new(self.engine().settings(), move |settings| async move {
            let mut rows = self.sample(&settings).await?;
            rows.sort_by_key(|(written, _)| *written);
            let mut figures = KeyFigures::default();
            for (_, key) in &rows {
                figures.add(key.partition(), key.row());
            }
            Ok(figures.advice(&self.name().to_ascii_lowercase()))
        })
    }

    async fn sample(
        &self,
        settings: &CallSettings,
    ) -> Result<Vec<(OffsetDateTime, EntityKey)>, Error> {
        let mut rows: Vec<(OffsetDateTime, EntityKey)> = Vec::new();
        for _ in 0..SAMPLE_PAGES_MAX {
            let from = match rows.last() {
                None => Ok(None),
                Some((_, key)) => {
                    let behind = prop("PartitionKey").gt(key.partition());
                    behind.as_core().cloned().map(Some)
                }
            };
            let query = Query::<DynEntity>::new(self, from).allow_scan();
            let query = query.select(Vec::<String>::new()).with_settings(settings.clone());
            let Some(page) = query.pages().try_next().await? else { break };
            let is_last = page.items.is_empty() && page.next.is_none();
            rows.extend(page.items.iter().map(|row| (row.timestamp(), row.key().clone())));
            if is_last {
                break;
            }
        }
        Ok(rows)
    }
}
