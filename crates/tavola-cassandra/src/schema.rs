//! What is stored in the cluster: the tables, and the version of their layout.
//!
//! Names of tables, columns and keys are stored in clusters: they stay, whatever the code calls
//! them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use scylla::client::session::Session;
use scylla::serialize::row::SerializeRow;
use scylla::statement::unprepared::Statement;
use uuid::Uuid;

use crate::cluster::connect;
use crate::error::OpenError;
use crate::options::Options;

/// The layout that this code reads and writes.
const VERSION: &str = "1";

/// Entities. A partition of the service is one of the cluster; the static columns are its register:
///
/// - `gen`: the generation under which the directory knows the partition; negative while it is
///   retired.
/// - `pts`: the highest version that was given out in it.
/// - `wid`: which write was the last.
///
/// A row exists exactly while `ver` is not null, because only UPDATE writes rows.
const ENTITY: &str = "CREATE TABLE IF NOT EXISTS entity (
    tid bigint, pk blob, gen int static, pts bigint static, wid uuid static, rk blob, ver bigint, doc blob,
    PRIMARY KEY ((tid, pk), rk)
) WITH compaction = {'class': 'LeveledCompactionStrategy'} AND gc_grace_seconds = 864000 AND read_repair = 'BLOCKING'";

/// The directory of partition keys, which gives scans their order. One row per generation, so that
/// a late delete cannot hide a newer registration.
const PDIR: &str = "CREATE TABLE IF NOT EXISTS pdir (
    tid bigint, slot smallint, pk blob, gen int, PRIMARY KEY ((tid, slot), pk, gen)
)";

/// What was decided when the keyspace was created.
const META: &str = "CREATE TABLE IF NOT EXISTS meta (key text PRIMARY KEY, value text)";

/// The name of the list of nodes. Clusters store it, so it keeps the word that nodes once had.
pub(crate) const NODE_LIST_NAME: &str = "front_end";

/// Which nodes serve this keyspace. Rows expire by themselves, and all are read at once.
const NODE_LIST: &str = "CREATE TABLE IF NOT EXISTS front_end (
    list int, id uuid, address text, PRIMARY KEY (list, id)
) WITH gc_grace_seconds = 3600";

const VERSION_KEY: &str = "layout";
const SLOTS_KEY: &str = "slots";
const SCOPE_KEY: &str = "quorum";
/// What nodes prove to each other that they serve this keyspace with.
pub(crate) const SECRET_KEY: &str = "secret";

/// What was decided when the keyspace was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slots: u16,
}

/// What [`init`] created; nothing, if all of it existed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Created {
    /// The keyspace itself.
    pub keyspace: bool,
    /// Names of tables.
    pub tables: Vec<&'static str>,
    /// Slots that each table's partition directory has, whether they were decided now or before.
    pub slots: u16,
}

/// Creates the keyspace and its tables where they are missing. Repeating it is harmless.
///
/// # Errors
/// If the cluster cannot be reached, refuses, or has a keyspace of that name that is not ours.
pub async fn init(options: &Options) -> Result<Created, OpenError> {
    let session = connect(options).await?;
    let created = create(&session, options).await?;
    let layout = check(&session, options).await?;
    Ok(Created { slots: layout.slots, ..created })
}

/// Creates what is missing.
pub(crate) async fn create(session: &Session, options: &Options) -> Result<Created, OpenError> {
    let keyspace = &options.keyspace;
    let is_new = !has_keyspace(session, keyspace).await?;
    let before = tables(session, keyspace).await?;
    refuse_foreign(session, keyspace, &before).await?;
    if is_new {
        let replication = replication(session, options)?;
        run(
            session,
            format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}"),
            (),
        )
        .await?;
    }
    let mut created = Created { keyspace: is_new, ..Created::default() };
    for (name, table) in
        [("entity", ENTITY), ("pdir", PDIR), (NODE_LIST_NAME, NODE_LIST), ("meta", META)]
    {
        if before.iter().any(|existing| existing == name) {
            continue;
        }
        run(session, table.replacen("EXISTS ", &format!("EXISTS {keyspace}."), 1), ()).await?;
        created.tables.push(name);
    }
    let meta = [
        (SLOTS_KEY, options.slots.to_string()),
        (SCOPE_KEY, scope(options)),
        (SECRET_KEY, secret()),
        (VERSION_KEY, VERSION.to_owned()),
    ];
    for (key, value) in meta {
        let insert =
            format!("INSERT INTO {keyspace}.meta (key, value) VALUES (?, ?) IF NOT EXISTS");
        run(session, insert, (key, value)).await?;
    }
    Ok(created)
}

/// Nothing is added to a keyspace of another program, or of another version of this one.
async fn refuse_foreign(
    session: &Session,
    keyspace: &str,
    tables: &[String],
) -> Result<(), OpenError> {
    let unusable = |reason| OpenError::Keyspace { keyspace: keyspace.to_owned(), reason };
    if !tables.iter().any(|name| name == "meta") {
        // An interrupted creation has created ours in their order, and this one comes last.
        let foreign: Vec<&str> = tables
            .iter()
            .map(String::as_str)
            .filter(|name| !["entity", "pdir", NODE_LIST_NAME].contains(name))
            .collect();
        if foreign.is_empty() {
            return Ok(());
        }
        return Err(unusable(format!("it has tables of another program: {}", foreign.join(", "))));
    }
    match read_meta(session, keyspace).await?.get(VERSION_KEY) {
        Some(version) if version != VERSION => Err(unusable(other_version(version))),
        _ => Ok(()),
    }
}

fn other_version(version: &str) -> String {
    format!(
        "its layout is version {version:?}, and this program knows version {VERSION}: use the program that made it, or a \
         newer one"
    )
}

const CREATING: &str = "create the keyspace and its tables";
const READING: &str = "read the keyspace's layout";

/// A busy cluster takes longer to create tables than to read and write them: a small one that
/// created four keyspaces at a time did not answer within the two seconds of other statements.
const CREATING_TIME: Duration = Duration::from_secs(60);

async fn run(
    session: &Session,
    statement: String,
    values: impl SerializeRow,
) -> Result<(), OpenError> {
    let mut statement = Statement::new(statement);
    statement.set_request_timeout(Some(CREATING_TIME));
    let done = session.query_unpaged(statement, values).await;
    done.map(drop).map_err(|error| OpenError::statement(CREATING, &error))
}

/// As many copies in each data centre as was asked for.
fn replication(session: &Session, options: &Options) -> Result<String, OpenError> {
    let unusable = |reason| OpenError::Keyspace { keyspace: options.keyspace.clone(), reason };
    let state = session.get_cluster_state();
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for node in state.get_nodes_info() {
        *nodes.entry(node.datacenter.as_deref().unwrap_or_default()).or_default() += 1;
    }
    if let Some(only) = &options.data_centre {
        nodes.retain(|name, _| name == only);
        if nodes.is_empty() {
            return Err(unusable(format!(
                "the cluster has no data centre {only:?} (setting store.data_centre)"
            )));
        }
    }
    let wanted = options.replication;
    if let Some((name, count)) = nodes.iter().find(|(_, count)| **count < usize::from(wanted)) {
        return Err(unusable(format!(
            "it shall have {wanted} copies of each row (setting store.replication), and data centre {name:?} has {count} \
             node(s)"
        )));
    }
    let copies: Vec<String> = nodes.keys().map(|name| format!("'{name}': {wanted}")).collect();
    Ok(format!("{{'class': 'NetworkTopologyStrategy', {}}}", copies.join(", ")))
}

/// Whose quorums count. It must be the same for all nodes: quorums of two kinds need not overlap,
/// and linearizability would be lost.
fn scope(options: &Options) -> String {
    options
        .data_centre
        .as_ref()
        .map_or_else(|| "cluster".to_owned(), |name| format!("data centre {name}"))
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
    let meta = read_meta(session, keyspace).await?;
    let value = |key: &str| meta.get(key).map(String::as_str).unwrap_or_default();
    if value(VERSION_KEY) != VERSION {
        return Err(unusable(other_version(value(VERSION_KEY))));
    }
    if value(SCOPE_KEY) != scope(options) {
        return Err(unusable(format!(
            "it was made for quorums of the {}, and store.data_centre asks for those of the {}",
            value(SCOPE_KEY),
            scope(options)
        )));
    }
    let slots = value(SLOTS_KEY).parse().ok().filter(|slots| *slots > 0);
    let slots =
        slots.ok_or_else(|| unusable(format!("{:?} is no number of slots", value(SLOTS_KEY))))?;
    Ok(Layout { slots })
}

/// More random bits than a proof has.
fn secret() -> String {
    let parts = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
    parts.map(|part| part.simple().to_string()).concat()
}

/// The table `meta`.
pub(crate) async fn read_meta(
    session: &Session,
    keyspace: &str,
) -> Result<HashMap<String, String>, OpenError> {
    let failed =
        |error: &dyn ToString| OpenError::Statement { doing: READING, reason: error.to_string() };
    let select = format!("SELECT key, value FROM {keyspace}.meta");
    let result = session.query_unpaged(select, ()).await.map_err(|error| failed(&error))?;
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
    names(
        session,
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
        (keyspace,),
    )
    .await
}

async fn names(session: &Session, select: &str, values: (&str,)) -> Result<Vec<String>, OpenError> {
    let failed =
        |error: &dyn ToString| OpenError::Statement { doing: READING, reason: error.to_string() };
    let result = session.query_unpaged(select, values).await.map_err(|error| failed(&error))?;
    let rows = result.into_rows_result().map_err(|error| failed(&error))?;
    let names = rows.rows::<(String,)>().map_err(|error| failed(&error))?;
    names
        .map(|row| row.map(|(name,)| name))
        .collect::<Result<_, _>>()
        .map_err(|error| failed(&error))
}
