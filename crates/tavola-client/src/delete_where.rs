//! Deletes what satisfies a condition.

use std::fmt;

use futures_util::TryStreamExt as _;
use tavola_core::EntityKey as CoreKey;

use crate::call::Call;
use crate::client::{TableClient, Transaction};
use crate::crypt::check_filter;
use crate::engine::CallSettings;
use crate::entity::Entity;
use crate::entity::names::expand;
use crate::error::Error;
use crate::etag::ETag;
use crate::filter::Filter;
use crate::prepare::delete;
use crate::query::Query;
use crate::written::IfMatch;

/// How often a row that others change is tested again.
const TESTS_MAX: u32 = 5;

/// A deletion that was described and not yet sent.
#[must_use = "nothing is deleted before run"]
pub struct DeleteWhere<'a, E> {
    client: &'a TableClient,
    filter: Filter<E>,
    is_dry: bool,
    at_most: Option<usize>,
    watch: Option<Watch<'a>>,
}

type Watch<'a> = Box<dyn FnMut(&DeleteReport) + Send + 'a>;

impl<E> fmt::Debug for DeleteWhere<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeleteWhere")
            .field("is_dry", &self.is_dry)
            .field("at_most", &self.at_most)
            .finish_non_exhaustive()
    }
}

/// What a deletion came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeleteReport {
    /// Entities that satisfied the condition.
    pub found: usize,
    /// Entities that were deleted; none in a dry run.
    pub deleted: usize,
    /// Entities that somebody changed or deleted first, and that no longer satisfied it.
    pub spared: usize,
}

impl TableClient {
    /// Deletes the entities that satisfy a condition, each in the version that satisfied it. One
    /// that is changed meanwhile is tested again. Not atomic.
    ///
    /// ```no_run
    /// # async fn f(t: tavola_client::TableClient) -> Result<(), tavola_client::Error> {
    /// use tavola_client::{DynEntity, prop};
    ///
    /// let old = prop("PartitionKey").eq("Sales").and(prop("Year").lt(2020));
    /// let report = t.delete_where::<DynEntity>(old).at_most(1000).run().await?;
    /// println!("{} deleted", report.deleted);
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_where<E: Entity>(&self, condition: impl Into<Filter<E>>) -> DeleteWhere<'_, E> {
        DeleteWhere {
            client: self,
            filter: condition.into(),
            is_dry: false,
            at_most: None,
            watch: None,
        }
    }
}

/// A row in the version that satisfied the condition.
type Found = (CoreKey, ETag);

impl<'a, E: Entity> DeleteWhere<'a, E> {
    /// Counts, and deletes nothing.
    pub fn dry_run(self) -> Self {
        Self { is_dry: true, ..self }
    }

    /// Deletes so many at most.
    pub fn at_most(self, entities: usize) -> Self {
        Self { at_most: Some(entities), ..self }
    }

    /// Tells `watch` what it came to so far, after each page and each transaction.
    pub fn watch(self, watch: impl FnMut(&DeleteReport) + Send + 'a) -> Self {
        Self { watch: Some(Box::new(watch)), ..self }
    }

    /// Carries it out. What was deleted before a request failed stays deleted.
    pub fn run(self) -> Call<'a, DeleteReport> {
        Call::new(self.client.engine().settings(), move |settings| self.run_with(settings))
    }

    async fn run_with(mut self, settings: CallSettings) -> Result<DeleteReport, Error> {
        let mut watch = self.watch.take().unwrap_or_else(|| Box::new(|_| ()));
        let filter = self.filter.as_core()?.clone();
        check_filter(&filter, &expand(E::ENCRYPTED), &settings.encryption)?;
        let mut query = Query::keys(self.client, filter.clone()).with_settings(settings.clone());
        if let Some(at_most) = self.at_most {
            query = query.take(at_most);
        }
        let mut report = DeleteReport::default();
        let mut pages = query.pages();
        while let Some(page) = pages.try_next().await? {
            report.found += page.items.len();
            watch(&report);
            if self.is_dry {
                continue;
            }
            for group in groups(self.client, page.items)? {
                delete_group(self.client, group, &filter, &settings, &mut report).await?;
                watch(&report);
            }
        }
        Ok(report)
    }
}

async fn delete_group(
    client: &TableClient,
    rows: Vec<Found>,
    filter: &tavola_core::Filter,
    settings: &CallSettings,
    report: &mut DeleteReport,
) -> Result<(), Error> {
    let transaction = transaction(client, &rows)?;
    match transaction.send(settings.clone()).await {
        Ok(written) => {
            report.deleted += written.len();
            return Ok(());
        }
        Err(error) if !error.is_changed() && !error.is_not_found() => return Err(error),
        Err(_) => {}
    }
    // Somebody was faster with one of them; each one goes its own way.
    for row in rows {
        if delete_one(client, row, filter, settings).await? {
            report.deleted += 1;
        } else {
            report.spared += 1;
        }
    }
    Ok(())
}

async fn delete_one(
    client: &TableClient,
    (key, mut tag): Found,
    filter: &tavola_core::Filter,
    settings: &CallSettings,
) -> Result<bool, Error> {
    let mut tests = 0;
    loop {
        let operation = delete(&key, &IfMatch::Version(tag))?;
        match client.send_one("delete", key.clone(), operation, settings).await {
            Ok(_) => return Ok(true),
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) if error.is_changed() && tests < TESTS_MAX => tests += 1,
            Err(error) => return Err(error),
        }
        let mut again =
            Query::keys(client, of_row(&key, filter)).with_settings(settings.clone()).stream();
        match again.try_next().await? {
            Some((_, newer)) => tag = newer,
            None => return Ok(false),
        }
    }
}

/// Rows of one partition each, as many as a transaction takes.
fn groups(client: &TableClient, rows: Vec<Found>) -> Result<Vec<Vec<Found>>, Error> {
    let mut groups: Vec<Vec<Found>> = Vec::new();
    for row in rows {
        let fits = groups.last().is_some_and(|group| {
            let same =
                group.first().is_some_and(|(key, _)| key.partition_key == row.0.partition_key);
            same && group.len() < tavola_core::limits::TRANSACTION_OPERATIONS_MAX
        });
        match groups.last_mut().filter(|_| fits) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    // Fails here rather than in the middle.
    client.table()?;
    Ok(groups)
}

fn transaction<'a>(client: &'a TableClient, rows: &[Found]) -> Result<Transaction<'a>, Error> {
    let partition = rows.first().map(|(key, _)| key.partition_key.as_str()).unwrap_or_default();
    let mut transaction = Transaction::new(client, partition.to_owned());
    for (key, tag) in rows {
        let operation = delete(key, &IfMatch::Version(tag.clone()))?;
        transaction.add("delete", key.clone(), operation)?;
    }
    Ok(transaction)
}

/// The condition for one row.
fn of_row(key: &CoreKey, filter: &tavola_core::Filter) -> tavola_core::Filter {
    use tavola_core::filter::Comparison;
    use tavola_core::{EdmValue, Filter as CoreFilter};

    let equal = |property: &str, text: &str| CoreFilter::Compare {
        property: property.to_owned(),
        comparison: Comparison::Equal,
        constant: EdmValue::String(text.to_owned()),
    };
    CoreFilter::And(vec![
        equal("PartitionKey", key.partition_key.as_str()),
        equal("RowKey", key.row_key.as_str()),
        filter.clone(),
    ])
}
