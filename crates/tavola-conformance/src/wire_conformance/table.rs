//! A table of a case's own: made under a fresh name, dropped at the end, with the few requests that
//! many cases need.

use serde_json::{Value, json};

use super::http::Response;
use super::multipart::Operation;
use super::request::{Client, NO_METADATA, Request, percent_encode};
use super::sas::Sas;
use super::{Failure, Outcome};

/// More pages than any walk of the suite needs: a bound against an endpoint that repeats a token.
const PAGES_MAX: usize = 5_000;

/// Exists as long as the value lives; dropping is a best effort.
#[derive(Debug)]
pub(super) struct Table<'c> {
    client: &'c Client<'c>,
    name: String,
}

impl Client<'_> {
    /// Creates a table under a fresh name.
    pub(super) fn table(&self) -> Result<Table<'_>, Failure> {
        self.table_named(&self.endpoint().fresh_name())
    }

    /// Creates a table under this name.
    pub(super) fn table_named(&self, name: &str) -> Result<Table<'_>, Failure> {
        self.create_table(name).send()?.expect_status(201)?;
        Ok(self.existing_table(name))
    }

    /// Creates a table under a fresh name with the one entity `p`, `r`.
    pub(super) fn table_with_entity(&self) -> Result<Table<'_>, Failure> {
        let table = self.table()?;
        table.add(&keys("p", "r"))?;
        Ok(table)
    }

    /// Takes a table that the case created itself into its care.
    pub(super) fn existing_table(&self, name: &str) -> Table<'_> {
        Table { client: self, name: name.to_owned() }
    }

    /// The request of Create Table.
    pub(super) fn create_table(&self, name: &str) -> Request<'_> {
        self.post("/Tables").json(&json!({ "TableName": name }).to_string())
    }

    /// The request of Delete Table.
    pub(super) fn delete_table(&self, name: &str) -> Request<'_> {
        self.delete(&format!("/Tables('{name}')"))
    }
}

impl Table<'_> {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// `/Name`, the address of the entity set.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// The address of an entity, as Python words it.
    pub(super) fn entity(&self, partition_key: &str, row_key: &str) -> String {
        let quoted = |key: &str| percent_encode(&key.replace('\'', "''"));
        format!(
            "/{}(PartitionKey='{}',RowKey='{}')",
            self.name,
            quoted(partition_key),
            quoted(row_key)
        )
    }

    /// A shared access signature for this table, for an hour.
    pub(super) fn sas(&self, permissions: &str) -> Sas {
        Sas::service(self.client.endpoint().account(), &self.name, permissions)
    }

    /// The request of Get Entity.
    pub(super) fn point(&self, partition_key: &str, row_key: &str) -> Request<'_> {
        self.client.get(&self.entity(partition_key, row_key))
    }

    /// The request of Insert Entity with this body.
    pub(super) fn insert(&self, body: &str) -> Request<'_> {
        self.client.post(&self.path()).json(body)
    }

    /// Inserts an entity that must be taken.
    pub(super) fn add(&self, entity: &Value) -> Result<Response, Failure> {
        let response =
            self.insert(&entity.to_string()).header("Prefer", "return-no-content").send()?;
        response.expect_status(204)?;
        Ok(response)
    }

    /// Inserts entities by batches of one partition each, a hundred at a time.
    pub(super) fn add_all(&self, entities: &[Value]) -> Outcome {
        for group in entities.chunk_by(|one, next| one["PartitionKey"] == next["PartitionKey"]) {
            for chunk in group.chunks(100) {
                let operations: Vec<_> = chunk
                    .iter()
                    .map(|entity| {
                        Operation::insert(&self.path(), entity)
                            .header("Prefer", "return-no-content")
                    })
                    .collect();
                self.client
                    .batch(&operations)
                    .send()?
                    .expect_status(202)?
                    .expect_in_body("HTTP/1.1 204 No Content")?;
            }
        }
        Ok(())
    }

    /// The entity, at the level of minimal metadata; it must be there.
    pub(super) fn get(&self, partition_key: &str, row_key: &str) -> Result<Response, Failure> {
        let response = self.client.get(&self.entity(partition_key, row_key)).send()?;
        response.expect_status(200)?;
        Ok(response)
    }

    /// Fails unless the entity is missing.
    pub(super) fn expect_missing(&self, partition_key: &str, row_key: &str) -> Outcome {
        self.client
            .get(&self.entity(partition_key, row_key))
            .send()?
            .expect_error(404, "ResourceNotFound")?;
        Ok(())
    }

    /// The request of Query Entities; `query` follows the question mark as it is.
    pub(super) fn query(&self, query: &str) -> Request<'_> {
        self.client.get(&format!("/{}()?{query}", self.name)).accept(NO_METADATA)
    }

    /// The request of Query Entities with this filter, in plain text.
    pub(super) fn filter(&self, filter: &str) -> Request<'_> {
        self.query(&format!("$filter={}", percent_encode(filter)))
    }

    /// All entities of a query, page by page to the end. Short and empty pages are legal, so only
    /// tokens count.
    pub(super) fn walk(&self, query: &str) -> Result<Vec<Value>, Failure> {
        self.walk_with(query, "", |request| request)
    }

    /// The same with a shared access signature, from a continuation on; an empty one is the
    /// beginning.
    pub(super) fn walk_sas(
        &self,
        query: &str,
        token: &str,
        sas: &Sas,
    ) -> Result<Vec<Value>, Failure> {
        self.walk_with(query, token, |request| request.sas(sas))
    }

    fn walk_with<'t>(
        &'t self,
        query: &str,
        token: &str,
        authorized: impl Fn(Request<'t>) -> Request<'t>,
    ) -> Result<Vec<Value>, Failure> {
        let mut rows = Vec::new();
        let mut next = Some(token.to_owned());
        for _ in 0..PAGES_MAX {
            let Some(token) = next else {
                return Ok(rows);
            };
            let parts: Vec<_> =
                [query, &token].into_iter().filter(|part| !part.is_empty()).collect();
            let page = authorized(self.query(&parts.join("&"))).send()?;
            page.expect_status(200)?;
            rows.extend(page.rows()?);
            next = continuation(&page);
        }
        Err(Failure::mismatch(format!("{query} was not done after {PAGES_MAX} pages")))
    }

    /// The row keys that a filter finds, in order, over all pages.
    pub(super) fn found(&self, filter: &str) -> Result<Vec<String>, Failure> {
        let rows = self.walk(&format!("$filter={}", percent_encode(filter)))?;
        Ok(row_keys(&rows))
    }

    /// Fails unless the filter finds exactly these row keys, in this order, separated by spaces.
    pub(super) fn expect_found(&self, filter: &str, row_keys: &str) -> Outcome {
        let found = self.found(filter)?.join(" ");
        if found == row_keys {
            return Ok(());
        }
        Err(Failure::mismatch(format!("$filter={filter} found [{found}], expected [{row_keys}]")))
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        // The result of the case is known already; a table left behind does no harm.
        let _ = self.client.delete_table(&self.name).send();
    }
}

/// The continuation of a page as query parameters, or nothing on the last page.
pub(super) fn continuation(page: &Response) -> Option<String> {
    let partition = page.header("x-ms-continuation-NextPartitionKey")?;
    let mut token = format!("NextPartitionKey={}", percent_encode(partition));
    if let Some(row) = page.header("x-ms-continuation-NextRowKey") {
        token.push_str(&format!("&NextRowKey={}", percent_encode(row)));
    }
    Some(token)
}

/// The row keys of rows.
pub(super) fn row_keys(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["RowKey"].as_str().unwrap_or_default().to_owned()).collect()
}

/// An entity that has only its keys.
pub(super) fn keys(partition_key: &str, row_key: &str) -> Value {
    json!({ "PartitionKey": partition_key, "RowKey": row_key })
}
