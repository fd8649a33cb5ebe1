//! What lies in the cluster: the tables, and the version of their layout.

use std::collections::HashMap;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::unprepared::Statement;

use crate::cluster::connect;
use crate::error::OpenError;
use crate::options::Options;

/// The layout that this code reads and writes.
const VERSION: &str = "1";

/// Entities. A partition of the service is one of the cluster; the static columns are its register:
///
/// - `gen`: the generation under which the directory knows the partition; negative while it is retired.
/// - `pts`: the highest version that was given out in it.
/// - `wid`: which write was the last.
///
/// A row exists exactly while `ver` is not null, because rows are only ever made by UPDATE.
const ENTITY: &str = "CREATE TABLE IF NOT EXISTS entity (
    tid bigint, pk blob, gen int static, pts bigint static, wid uuid static, rk blob, ver bigint, doc blob,
    PRIMARY KEY ((tid, pk), rk)
) WITH compaction = {'class': 'LeveledCompactionStrategy'} AND gc_grace_seconds = 864000 AND read_repair = 'BLOCKING'";

/// The directory of partition keys, which gives scans their order. One row per generation, so that a late delete cannot
/// hide a newer registration.
const PDIR: &str = "CREATE TABLE IF NOT EXISTS pdir (
    tid bigint, slot smallint, pk blob, gen int, PRIMARY KEY ((tid, slot), pk, gen)
)";

/// What was decided when the keyspace was made.
const META: &str = "CREATE TABLE IF NOT EXISTS meta (key text PRIMARY KEY, value text)";

const VERSION_KEY: &str = "layout";
const SLOTS_KEY: &str = "slots";
const SCOPE_KEY: &str = "quorum";

/// What was decided when the keyspace was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slots: u16,
}

/// Creates the keyspace and its tables where they are missing. Repeating it is harmless.
///
/// # Errors
/// If the cluster cannot be reached, refuses, or has a keyspace of that name that is not ours.
pub async fn init(options: &Options) -> Result<(), OpenError> {
    let session = connect(options).await?;
    create(&session, options).await
}

/// Creates what is missing, and checks what is there.
pub(crate) async fn create(session: &Session, options: &Options) -> Result<(), OpenError> {
    let keyspace = &options.keyspace;
    if has_keyspace(session, keyspace).await? && !has_table(session, keyspace, "meta").await? {
        let tables = tables(session, keyspace).await?;
        if !tables.is_empty() {
            let reason = format!("it has tables of somebody else: {}", tables.join(", "));
            return Err(OpenError::Keyspace { keyspace: keyspace.clone(), reason });
        }
    }
    let replication = replication(session, options).await?;
    run(session, format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}"), ()).await?;
    for table in [ENTITY, PDIR, META] {
        let qualified = table.replacen("EXISTS ", &format!("EXISTS {keyspace}."), 1);
        run(session, qualified, ()).await?;
    }
    let facts =
        [(SLOTS_KEY, options.slots.to_string()), (SCOPE_KEY, scope(options)), (VERSION_KEY, VERSION.to_owned())];
    for (key, value) in facts {
        let insert = format!("INSERT INTO {keyspace}.meta (key, value) VALUES (?, ?) IF NOT EXISTS");
        run(session, insert, (key, value)).await?;
    }
    Ok(())
}

const CREATING: &str = "create the keyspace and its tables";
const READING: &str = "read the keyspace's layout";

/// What is asked before anybody is served. All nodes must agree on a new table and write it down, which takes seconds on a
/// cluster that has something else to do: the bound of statements that requests wait for would give up before.
const OPENING_TIME: Duration = Duration::from_secs(15);

/// One statement of the opening.
async fn query(
    session: &Session,
    text: impl Into<String>,
    values: impl SerializeRow,
) -> Result<QueryResult, ExecutionError> {
    let mut statement = Statement::new(text);
    statement.set_request_timeout(Some(OPENING_TIME));
    session.query_unpaged(statement, values).await
}

async fn run(session: &Session, text: String, values: impl SerializeRow) -> Result<(), OpenError> {
    query(session, text, values).await.map(drop).map_err(|error| OpenError::statement(CREATING, &error))
}

/// As many copies in each data centre as was asked for.
async fn replication(session: &Session, options: &Options) -> Result<String, OpenError> {
    let state = session.get_cluster_state();
    let mut centres: Vec<String> = match &options.data_centre {
        Some(only) => vec![only.clone()],
        None => state.get_nodes_info().iter().filter_map(|node| node.datacenter.clone()).collect(),
    };
    centres.sort();
    centres.dedup();
    let known = |name: &String| state.get_nodes_info().iter().any(|node| node.datacenter.as_ref() == Some(name));
    if let Some(unknown) = centres.iter().find(|name| !known(name)) {
        let reason = format!("the cluster has no data centre {unknown:?} (setting store.data_centre)");
        return Err(OpenError::Keyspace { keyspace: options.keyspace.clone(), reason });
    }
    let copies: Vec<String> = centres.iter().map(|name| format!("'{name}': {}", options.replication)).collect();
    Ok(format!("{{'class': 'NetworkTopologyStrategy', {}}}", copies.join(", ")))
}

/// Whose quorums count. It must be the same for all front ends: linearizability ends where two kinds of quorum meet.
fn scope(options: &Options) -> String {
    options.data_centre.as_ref().map_or_else(|| "cluster".to_owned(), |name| format!("data centre {name}"))
}

/// Reads the layout and refuses what this code does not know.
pub(crate) async fn check(session: &Session, options: &Options) -> Result<Layout, OpenError> {
    let keyspace = &options.keyspace;
    let unusable = |reason: String| OpenError::Keyspace { keyspace: keyspace.clone(), reason };
    if !has_keyspace(session, keyspace).await? {
        return Err(OpenError::NoKeyspace { keyspace: keyspace.clone() });
    }
    if !has_table(session, keyspace, "meta").await? {
        return Err(unusable("it was not made by `tavola store init`".to_owned()));
    }
    let facts = facts(session, keyspace).await?;
    let fact = |key: &str| facts.get(key).map(String::as_str).unwrap_or_default();
    if fact(VERSION_KEY) != VERSION {
        return Err(unusable(format!(
            "its layout is version {:?}, and this program knows version {VERSION}: use the program that made it, or a newer one",
            fact(VERSION_KEY)
        )));
    }
    if fact(SCOPE_KEY) != scope(options) {
        return Err(unusable(format!(
            "it was made for quorums of the {}, and store.data_centre asks for those of the {}",
            fact(SCOPE_KEY),
            scope(options)
        )));
    }
    let slots = fact(SLOTS_KEY).parse().ok().filter(|slots| *slots > 0);
    let slots = slots.ok_or_else(|| unusable(format!("{:?} is no number of slots", fact(SLOTS_KEY))))?;
    Ok(Layout { slots })
}

async fn facts(session: &Session, keyspace: &str) -> Result<HashMap<String, String>, OpenError> {
    let failed = |error: &dyn ToString| OpenError::Statement { doing: READING, reason: error.to_string() };
    let select = format!("SELECT key, value FROM {keyspace}.meta");
    let result = query(session, select, ()).await.map_err(|error| failed(&error))?;
    let rows = result.into_rows_result().map_err(|error| failed(&error))?;
    let pairs = rows.rows::<(String, String)>().map_err(|error| failed(&error))?;
    pairs.collect::<Result<_, _>>().map_err(|error| failed(&error))
}

async fn has_keyspace(session: &Session, keyspace: &str) -> Result<bool, OpenError> {
    let select = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
    Ok(!names(session, select, (keyspace,)).await?.is_empty())
}

async fn has_table(session: &Session, keyspace: &str, table: &str) -> Result<bool, OpenError> {
    Ok(tables(session, keyspace).await?.iter().any(|name| name == table))
}

async fn tables(session: &Session, keyspace: &str) -> Result<Vec<String>, OpenError> {
    names(session, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", (keyspace,)).await
}

async fn names(session: &Session, select: &str, values: (&str,)) -> Result<Vec<String>, OpenError> {
    let failed = |error: &dyn ToString| OpenError::Statement { doing: READING, reason: error.to_string() };
    let result = query(session, select, values).await.map_err(|error| failed(&error))?;
    let rows = result.into_rows_result().map_err(|error| failed(&error))?;
    let names = rows.rows::<(String,)>().map_err(|error| failed(&error))?;
    names.map(|row| row.map(|(name,)| name)).collect::<Result<_, _>>().map_err(|error| failed(&error))
}
