//! The Table service in the process, as the client library sees it: for tests, and for programs
//! that keep their tables to themselves.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tavola_client::Error> {
//! use tavola_client::{DynEntity, TableServiceClient};
//!
//! let service = TableServiceClient::on(tavola_local::in_memory(), None);
//! let table = service.table_client("people");
//! table.create().await?;
//! let mut person = DynEntity::new("Smith", "1");
//! person.set("Age", 42);
//! table.insert(&person).await?;
//! let found = table.get::<DynEntity>(("Smith", "1")).await?;
//! assert_eq!(found.map(|person| person.get::<i32>("Age")).transpose()?, Some(42));
//! # Ok(())
//! # }
//! ```

mod answer;
mod runtime;

use std::sync::Arc;

use tavola_client::__store::Runtime;
use tavola_client::{BoxFuture, Failure, Flavour, Reply, Request, StoreTraits, TableStore};
use tavola_core::{AccountName, Grant};
use tavola_service::{Clock, SystemClock, TableService};
use tavola_store::Store;

pub use runtime::TokioRuntime;

/// The account that requests are for.
const ACCOUNT: &str = "local";

/// The Table service on a store of this process.
#[derive(Debug)]
pub struct LocalStore {
    service: TableService,
    grant: Grant,
    runtime: Arc<dyn Runtime>,
}

/// A new service without tables, in memory.
#[must_use]
pub fn in_memory() -> Arc<LocalStore> {
    let store = Arc::new(tavola_store::MemoryStore::default());
    Arc::new(LocalStore::new(store, Arc::new(SystemClock), Arc::new(TokioRuntime::new())))
}

impl LocalStore {
    /// The service on `store`.
    ///
    /// # Panics
    /// Never: the account's name is a constant.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, runtime: Arc<dyn Runtime>) -> Self {
        let account = AccountName::parse(ACCOUNT).expect("the account's name is legal");
        Self { service: TableService::new(store, clock), grant: Grant::owner(account), runtime }
    }

    async fn answer(&self, request: Request) -> Result<Reply, Failure> {
        let (operation, select, page) = request.into_parts();
        let operation = answer::resume(operation, page)?;
        let asked = operation.clone();
        match self.service.execute(&self.grant, operation).await {
            Ok(answered) => answer::reply(&asked, answered.reply, &select).map(Reply::new),
            Err(error) => Err(answer::failure(&asked, error)),
        }
    }
}

impl TableStore for LocalStore {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(self.answer(request))
    }

    fn traits(&self) -> StoreTraits {
        StoreTraits::new(Flavour::Tavola, "local:", Some(ACCOUNT.to_owned()))
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime)
    }
}
