//! The Table service of one account.

use std::fmt;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use tavola_core::request::{Select, TablesQuery};
use tavola_core::{Filter as CoreFilter, TableName, TableRequest};
use tavola_protocol::table::decode::Decoded;

use super::settings::ServiceStats;
use super::table::TableClient;
use crate::account::Account;
use crate::call::Call;
use crate::credential::Credential;
use crate::engine::{Engine, Subject, Write};
use crate::error::{Error, Rule};
use crate::options::{ClientOptions, Options};
use crate::store::{StoreTraits, TableStore};
use crate::unknown::Claim;

/// The Table service of one account. Clones share connections, budgets and pauses.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use futures_util::TryStreamExt as _;
/// use tavola_client::TableServiceClient;
///
/// let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// service.create_table("people").await?;
/// let names: Vec<_> = service.tables().try_collect().await?;
/// assert_eq!(names, ["people"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TableServiceClient {
    pub(crate) engine: Arc<Engine>,
    pub(crate) account: Option<Arc<Account>>,
}

impl fmt::Debug for TableServiceClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableServiceClient").field("service", &self.engine.traits).finish()
    }
}

/// A table's name, checked.
pub(crate) fn table_name(name: &str) -> Result<TableName, Error> {
    TableName::parse(name).map_err(|_| {
        let text = format!(
            "`{name}` cannot name a table: a letter first, then letters and digits, 3 to 63 in all"
        );
        Error::invalid(Rule::Request, text)
    })
}

impl TableServiceClient {
    /// The service at `endpoint`, which may carry a shared access signature instead of a credential.
    /// Nothing is sent.
    ///
    /// # Errors
    /// If the address or the credential cannot be used.
    #[cfg(feature = "http")]
    pub fn new(
        endpoint: &str,
        credential: Option<Credential>,
        options: Option<ClientOptions>,
    ) -> Result<Self, Error> {
        let account = Account::new(endpoint, credential)?;
        account.with_options(options.unwrap_or_default()).tables()
    }

    /// The service behind any store.
    #[must_use]
    pub fn on(store: Arc<dyn TableStore>, options: Option<ClientOptions>) -> Self {
        let engine = Arc::new(Engine::new(store, options.unwrap_or_default()));
        Self { engine, account: None }
    }

    #[cfg(feature = "http")]
    pub(crate) fn with_account(self, account: Account) -> Self {
        Self { account: Some(Arc::new(account)), ..self }
    }

    /// A handle of the same service whose calls behave as `over` says. It shares connections,
    /// budgets and pauses with this one.
    #[must_use]
    pub fn with_options(&self, over: Options) -> Self {
        let engine = Arc::new(self.engine.with_options(over));
        Self { engine, account: self.account.clone() }
    }

    /// What is known about the service.
    #[must_use]
    pub fn traits(&self) -> &StoreTraits {
        &self.engine.traits
    }

    /// A table of the account. Whether there is one, and whether the name is legal, is found out
    /// when it is used.
    #[must_use]
    pub fn table_client(&self, name: impl Into<String>) -> TableClient {
        TableClient::new(self.clone(), name.into())
    }

    /// Creates a table.
    pub fn create_table(&self, name: &str) -> Call<'_, ()> {
        self.change_table(
            "create table",
            name,
            |name| (TableRequest::CreateTable(name), Claim::CreateTable(false)),
            |_| (),
        )
    }

    /// Creates a table unless there is one. True if this call created it.
    pub fn create_table_if_missing(&self, name: &str) -> Call<'_, bool> {
        self.change_table(
            "create table",
            name,
            |name| (TableRequest::CreateTable(name), Claim::CreateTable(true)),
            |is_new| is_new,
        )
    }

    /// Deletes a table with all its entities.
    pub fn delete_table(&self, name: &str) -> Call<'_, ()> {
        self.change_table(
            "delete table",
            name,
            |name| (TableRequest::DeleteTable(name), Claim::DeleteTable(false)),
            |_| (),
        )
    }

    /// Deletes a table if there is one. True if this call deleted it.
    pub fn delete_table_if_exists(&self, name: &str) -> Call<'_, bool> {
        self.change_table(
            "delete table",
            name,
            |name| (TableRequest::DeleteTable(name), Claim::DeleteTable(true)),
            |is_new| is_new,
        )
    }

    fn change_table<R: Send + 'static>(
        &self,
        operation: &'static str,
        name: &str,
        request: impl FnOnce(TableName) -> (TableRequest, Claim),
        result: fn(bool) -> R,
    ) -> Call<'_, R> {
        let name = table_name(name);
        let write = name.map(|name| (name.clone(), request(name)));
        Call::new(self.engine.settings(), move |settings| async move {
            let (name, (request, claim)) = write?;
            let subject = Subject::new(operation, Some(&name));
            let write = Write::Other(request, claim);
            let finished = self.engine.write(&subject, &write, &settings).await?;
            Ok(result(!finished.is_existing))
        })
    }

    /// The names of the account's tables, in their order.
    #[must_use]
    pub fn tables(&self) -> BoxStream<'_, Result<String, Error>> {
        self.tables_with(None)
    }

    /// The names that satisfy a filter on `TableName`.
    pub(crate) fn tables_with(
        &self,
        filter: Option<CoreFilter>,
    ) -> BoxStream<'_, Result<String, Error>> {
        let query = TablesQuery { filter, ..TablesQuery::default() };
        let pages = stream::try_unfold(Some((None, query)), move |page| async move {
            let Some((page, query)) = page else { return Ok(None) };
            let subject = Subject::new("list tables", None);
            let request = TableRequest::QueryTables(query.clone());
            let settings = self.engine.settings();
            let decoded = self.engine.read(&subject, request, Select::All, page, &settings).await?;
            let Decoded::Tables(names, next) = decoded else { return Ok(None) };
            Ok::<_, Error>(Some((names, next.map(|next| (Some(next), query)))))
        });
        let flat = |page: Result<Vec<String>, Error>| match page {
            Ok(names) => stream::iter(names.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        };
        pages.flat_map(flat).boxed()
    }

    /// How the secondary of the account is doing.
    pub fn stats(&self) -> Call<'_, ServiceStats> {
        Call::new(self.engine.settings(), move |settings| async move {
            let subject = Subject::new("get stats", None);
            let request = TableRequest::GetServiceStats;
            let decoded = self.engine.read(&subject, request, Select::All, None, &settings).await?;
            match decoded {
                Decoded::Document(xml) => Ok(ServiceStats::read(&xml)),
                _ => Ok(ServiceStats::default()),
            }
        })
    }
}
