//! A kind of resources beside tables: shelves, which have metadata, a height, and somebody who may
//! hold one. And a client that asks for them until there is an answer.

use std::sync::Arc;

use tavola_core::{AccountName, EdmValue, EntityView, Metadata};
use tavola_service::ServiceError;
use tavola_service::catalog::{Attributes, Catalog, Entry, LastModified, Listed, ResourceKind};
use tavola_service::record::{Record, int64, require, text};
use tavola_store::{StopToken, StoreError};

use crate::common::Fixture;

#[derive(Debug, Clone)]
pub(super) struct Shelf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShelfName(pub(super) String);

#[derive(Debug, Clone, Default)]
pub(super) struct ShelfAttributes {
    pub(super) metadata: Metadata,
    pub(super) height: i64,
    pub(super) holder: Option<String>,
}

#[derive(Debug)]
pub(super) enum ShelfError {
    AlreadyExists,
    NotFound,
    Held,
    Service(ServiceError),
}

impl From<ServiceError> for ShelfError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl Attributes for ShelfAttributes {
    fn write(&self, record: &mut Record) {
        self.metadata.write(record);
        record.set("Height", EdmValue::Int64(self.height));
        if let Some(holder) = &self.holder {
            record.set_text("Holder", holder);
        }
    }

    fn read(row: &dyn EntityView) -> Result<Self, StoreError> {
        Ok(Self {
            metadata: Metadata::read(row)?,
            height: require(row, "Height", int64)?,
            holder: row.property("Holder").and_then(text).map(str::to_owned),
        })
    }
}

impl ResourceKind for Shelf {
    type Name = ShelfName;
    type Attributes = ShelfAttributes;
    type Error = ShelfError;

    const PREFIX: &'static str = "s:";
    const NOUN: &'static str = "shelf";

    fn parse(text: &str) -> Option<ShelfName> {
        let is_legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let fits = (3..=63).contains(&text.len()) && text.bytes().all(is_legal);
        fits.then(|| ShelfName(text.to_owned()))
    }

    fn text(name: &ShelfName) -> &str {
        &name.0
    }

    fn already_exists() -> ShelfError {
        ShelfError::AlreadyExists
    }

    fn not_found() -> ShelfError {
        ShelfError::NotFound
    }
}

pub(super) fn shelf(name: &str) -> ShelfName {
    Shelf::parse(name).unwrap()
}

pub(super) fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Metadata::new(pairs.iter().map(owned).collect()).unwrap()
}

pub(super) fn of_height(height: i64) -> ShelfAttributes {
    ShelfAttributes { height, ..ShelfAttributes::default() }
}

/// The shelves of one account, asked until there is an answer.
#[derive(Debug, Clone)]
pub(super) struct Shelves {
    pub(super) catalog: Arc<Catalog<Shelf>>,
    pub(super) account: AccountName,
}

/// An answer, and how often the outcome of an earlier attempt is unknown.
pub(super) type Answered<T> = (Result<T, ShelfError>, usize);

pub(super) async fn until_answered<T, F>(mut ask: impl FnMut() -> F) -> Answered<T>
where
    F: Future<Output = Result<T, ShelfError>>,
{
    let mut unknown = 0;
    for _ in 0..500 {
        match ask().await {
            Err(ShelfError::Service(ServiceError::Store(StoreError::UnknownOutcome))) => {
                unknown += 1;
            }
            Err(ShelfError::Service(ServiceError::Store(
                StoreError::Contended | StoreError::Unavailable { .. },
            ))) => {}
            answer => return (answer, unknown),
        }
    }
    panic!("no answer");
}

impl Shelves {
    pub(super) fn new(fixture: &Fixture) -> Self {
        let catalog = Arc::new(Catalog::new(Arc::clone(&fixture.base)));
        Self { catalog, account: fixture.account.clone() }
    }

    pub(super) async fn create(
        &self,
        name: &str,
        attributes: ShelfAttributes,
    ) -> Answered<Entry<Shelf>> {
        let name = shelf(name);
        until_answered(|| self.catalog.create(&self.account, &name, attributes.clone())).await
    }

    /// A new shelf, whose first attempt may have gone unanswered.
    pub(super) async fn make(&self, name: &str, attributes: ShelfAttributes) -> Entry<Shelf> {
        match self.create(name, attributes).await {
            (Ok(entry), _) => entry,
            (Err(ShelfError::AlreadyExists), unknown) if unknown > 0 => {
                self.read(name).await.unwrap()
            }
            (refused, _) => panic!("{refused:?}"),
        }
    }

    pub(super) async fn read(&self, name: &str) -> Option<Entry<Shelf>> {
        let name = shelf(name);
        let read = || async {
            Ok(self.catalog.read(&self.account, &name).await.map_err(ServiceError::from)?)
        };
        until_answered(read).await.0.unwrap()
    }

    pub(super) async fn find(&self, name: &str) -> Option<Arc<Entry<Shelf>>> {
        let name = shelf(name);
        let find = || async {
            Ok(self.catalog.find(&self.account, &name).await.map_err(ServiceError::from)?)
        };
        until_answered(find).await.0.unwrap()
    }

    pub(super) async fn change(
        &self,
        name: &str,
        last_modified: LastModified,
        change: impl Fn(&mut Entry<Shelf>) -> Result<(), ShelfError>,
    ) -> Answered<Entry<Shelf>> {
        let name = shelf(name);
        until_answered(|| self.catalog.change(&self.account, &name, last_modified, &change)).await
    }

    pub(super) async fn renew(&self, name: &str) -> Answered<Entry<Shelf>> {
        let name = shelf(name);
        until_answered(|| self.catalog.renew(&self.account, &name, |_| Ok(()))).await
    }

    pub(super) async fn delete(&self, name: &str, holder: Option<&str>) -> Answered<Entry<Shelf>> {
        let name = shelf(name);
        let check = |entry: &Entry<Shelf>| match entry.attributes.holder.as_deref() {
            held if held == holder => Ok(()),
            _ => Err(ShelfError::Held),
        };
        until_answered(|| self.catalog.delete(&self.account, &name, check)).await
    }

    /// Deletes a shelf, perhaps by an attempt that went unanswered.
    pub(super) async fn remove(&self, name: &str) {
        match self.delete(name, None).await {
            (Ok(_), _) => {}
            (Err(ShelfError::NotFound), unknown) if unknown > 0 => {}
            (other, _) => panic!("{other:?}"),
        }
    }

    pub(super) async fn list(
        &self,
        prefix: &str,
        from: Option<&str>,
        rows_max: usize,
    ) -> Listed<Shelf> {
        let (from, stop) = (from.map(shelf), StopToken::default());
        until_answered(|| {
            let context = (&stop).into();
            self.catalog.list(&self.account, prefix, from.as_ref(), rows_max, context)
        })
        .await
        .0
        .unwrap()
    }

    pub(super) async fn names(&self, prefix: &str, from: Option<&str>, rows_max: usize) -> Page {
        let listed = self.list(prefix, from, rows_max).await;
        (listed.entries.iter().map(|entry| entry.name().0.clone()).collect(), listed.next)
    }
}

/// Names, and where to go on.
pub(super) type Page = (Vec<String>, Option<String>);
