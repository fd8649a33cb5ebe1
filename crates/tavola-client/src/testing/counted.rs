//! What a call costs.

use std::sync::{Arc, Mutex, PoisonError};

use crate::runtime::{BoxFuture, Runtime};
use crate::store::{Failure, Reply, Request, StoreTraits, TableStore};

/// A store that remembers the names of the requests that went through it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::testing::counting;
/// use tavola_client::TableServiceClient;
///
/// let counted = counting(tavola_local::in_memory());
/// TableServiceClient::on(counted.clone(), None).create_table("people").await?;
/// assert_eq!(counted.take(), ["CreateTable"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Counted {
    inner: Arc<dyn TableStore>,
    seen: Mutex<Vec<&'static str>>,
}

/// Counts what goes to `store`.
#[must_use]
pub fn counting(store: Arc<dyn TableStore>) -> Arc<Counted> {
    Arc::new(Counted { inner: store, seen: Mutex::default() })
}

impl Counted {
    /// The names of the requests since the last time, in their order.
    #[must_use]
    pub fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TableStore for Counted {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        let name = request.operation.name();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        self.inner.execute(request)
    }

    fn traits(&self) -> StoreTraits {
        self.inner.traits()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
}
