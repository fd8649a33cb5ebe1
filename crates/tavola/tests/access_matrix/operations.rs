//! The operations: what each asks for, and the request that asks it.

use std::collections::BTreeMap;

use crate::http::Request;
use crate::rows::{Key, stored};
use crate::signing::percent_encoded;

/// The table that everything is about.
pub(crate) const TABLE: &str = "Orders";
/// A table that does not exist until somebody may create it.
pub(crate) const NEW_TABLE: &str = "Newcomers";
/// An empty table for those who may delete one.
pub(crate) const OLD_TABLE: &str = "Leavers";
/// A table for which a signature can be that is used for `TABLE`.
pub(crate) const OTHER_TABLE: &str = "Others";

const JSON: &str = "application/json";
const XML: &str = "application/xml";
/// The origin that the accounts' one CORS rule names.
pub(crate) const ORIGIN: &str = "https://pages.example";

/// One operation of the matrix.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// For people.
    pub(crate) name: String,
    pub(crate) action: Action,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// About the account or a table as such; its name in the tables of expectations says all.
    Whole(&'static str),
    /// About one entity.
    Entity(Step),
    Query(Query),
    /// A changeset.
    Batch(&'static [Step]),
    BatchedGet(Key),
    BatchedQuery(Query),
}

/// An operation on one entity: its name in the tables of expectations, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) key: Key,
}

/// A query, said once for the server and once for the test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    name: &'static str,
    filter: &'static str,
    matches: fn(Key) -> bool,
    pub(crate) top: Option<usize>,
    /// The first row of a continuation that the owner was given.
    from: Option<Key>,
    /// Into how many ranges of keys the filter falls.
    pub(crate) ranges: u64,
}

impl Query {
    const ALL: Self =
        Self { name: "all", filter: "", matches: |_| true, top: None, from: None, ranges: 1 };

    /// What the query asks for, whoever asks.
    pub(crate) fn selects(&self, key: Key) -> bool {
        (self.matches)(key) && self.from.is_none_or(|from| key >= from)
    }

    fn query_string(&self, continuations: &BTreeMap<Key, String>) -> String {
        let mut parts = Vec::new();
        if !self.filter.is_empty() {
            parts.push(format!("$filter={}", percent_encoded(self.filter)));
        }
        parts.extend(self.top.map(|top| format!("$top={top}")));
        parts.extend(self.from.map(|from| continuations[&from].clone()));
        parts.join("&")
    }
}

/// Where the owner's continuations start: before every range, and behind those that end.
pub(crate) const CONTINUATIONS: [Key; 2] = [Key::new("a", "5"), Key::new("d", "3")];

fn queries() -> [Query; 8] {
    let named = |name, filter, matches| Query { name, filter, matches, ..Query::ALL };
    let in_a_or_b = |key: Key| matches!(key.partition, "a" | "b");
    [
        Query::ALL,
        named("elsewhere", "PartitionKey eq 'a'", |key| key.partition == "a"),
        Query {
            ranges: 2,
            ..named("two", "PartitionKey eq 'a' or PartitionKey eq 'b'", in_a_or_b)
        },
        named("point", "PartitionKey eq 'a' and RowKey eq '3'", |key| key == Key::new("a", "3")),
        named("content", "Marker eq 'content-of-a-3'", |key| key == Key::new("a", "3")),
        Query { name: "top", top: Some(3), ..Query::ALL },
        Query { name: "from before", top: Some(2), from: Some(CONTINUATIONS[0]), ..Query::ALL },
        Query { name: "from behind", top: Some(2), from: Some(CONTINUATIONS[1]), ..Query::ALL },
    ]
}

/// Where single operations happen: a row that exists, and one that does not. `first` and `last` are
/// the edges of the range of rows; `below` and `above` lie in its partitions and outside of it.
const POSITIONS: [(&str, Key, Key); 6] = [
    ("before", Key::new("a", "3"), Key::new("a", "4")),
    ("below", Key::new("b", "1"), Key::new("b", "2")),
    ("first", Key::new("b", "3"), Key::new("b", "4")),
    ("last", Key::new("c", "5"), Key::new("c", "4")),
    ("above", Key::new("c", "7"), Key::new("c", "6")),
    ("after", Key::new("d", "3"), Key::new("d", "4")),
];
/// Where no range is asked about.
const ANYWHERE: &str = "first";

/// The operations about an account or a table as such.
const WHOLE: [&str; 11] = [
    "query-tables",
    "get-table",
    "create-table",
    "delete-table",
    "get-acl",
    "set-acl",
    "get-properties",
    "set-properties",
    "get-stats",
    "get-metadata",
    "preflight",
];

/// The operations on rows that exist, and those on rows that do not.
const ON_STORED: [&str; 7] = [
    "get",
    "update",
    "merge",
    "insert-or-replace",
    "delete",
    "tunnelled-merge",
    "tunnelled-delete",
];
const ON_NEW: [&str; 2] = ["insert", "insert-or-merge"];

/// A batch of writes, and what it is about.
type Changeset = (&'static str, &'static [Step]);

/// Inside of every range.
const BATCHES: [Changeset; 3] = [
    ("inserts", &[step("insert", "b", "4"), step("insert", "b", "6")]),
    (
        "mixed",
        &[
            step("insert", "b", "4"),
            step("update", "b", "5"),
            step("merge", "b", "3"),
            step("delete", "b", "7"),
        ],
    ),
    (
        "mixed backwards",
        &[
            step("delete", "c", "3"),
            step("insert-or-replace", "c", "4"),
            step("insert-or-merge", "c", "1"),
            step("insert", "c", "2"),
        ],
    ),
];

/// Outside of a range, as a whole or with one operation.
const BATCHES_OUTSIDE: [Changeset; 4] = [
    ("outside", &[step("insert", "a", "2"), step("insert", "a", "4")]),
    ("leaving the range", &[step("insert", "b", "4"), step("insert", "b", "2")]),
    (
        "entering the range",
        &[step("delete", "b", "1"), step("insert", "b", "4"), step("update", "b", "3")],
    ),
    ("over the end", &[step("update", "c", "5"), step("merge", "c", "7")]),
];

const fn step(name: &'static str, partition: &'static str, row: &'static str) -> Step {
    Step { name, key: Key::new(partition, row) }
}

/// Every operation, everywhere.
pub(crate) fn everywhere() -> Vec<Operation> {
    let mut all = anywhere();
    for position in POSITIONS.iter().filter(|(name, ..)| *name != ANYWHERE) {
        all.extend(entity_operations(position));
    }
    all.extend(BATCHES_OUTSIDE.map(batch));
    all.extend([Key::new("a", "3"), Key::new("c", "7")].map(batched_get));
    all
}

/// Every operation, in one place: for credentials that know no range.
pub(crate) fn anywhere() -> Vec<Operation> {
    let mut all: Vec<_> = WHOLE.iter().map(|name| named(*name, Action::Whole(name))).collect();
    for position in POSITIONS.iter().filter(|(name, ..)| *name == ANYWHERE) {
        all.extend(entity_operations(position));
    }
    all.extend(queries().map(|query| named(format!("query {}", query.name), Action::Query(query))));
    all.extend(BATCHES.map(batch));
    all.push(batched_get(Key::new("b", "3")));
    all.push(named("batched query", Action::BatchedQuery(Query::ALL)));
    all
}

fn named(name: impl Into<String>, action: Action) -> Operation {
    Operation { name: name.into(), action }
}

fn entity_operations((position, stored, new): &(&'static str, Key, Key)) -> Vec<Operation> {
    let steps = ON_STORED.map(|name| Step { name, key: *stored }).into_iter();
    let steps = steps.chain(ON_NEW.map(|name| Step { name, key: *new }));
    steps.map(|step| named(format!("{} {position}", step.name), Action::Entity(step))).collect()
}

fn batch((name, steps): Changeset) -> Operation {
    named(format!("batch {name}"), Action::Batch(steps))
}

fn batched_get(key: Key) -> Operation {
    named(format!("batched get {}/{}", key.partition, key.row), Action::BatchedGet(key))
}

impl Operation {
    /// Its row in the tables of expectations.
    pub(crate) fn row(&self) -> &'static str {
        match &self.action {
            Action::Whole(name) => name,
            Action::Entity(step) => step.name,
            Action::Query(_) => "query",
            Action::Batch(_) => "batch",
            Action::BatchedGet(_) => "batched-get",
            Action::BatchedQuery(_) => "batched-query",
        }
    }

    /// What credentials are asked about, one by one: the row in the tables of expectations, and the
    /// entity.
    pub(crate) fn demands(&self) -> Vec<(&'static str, Option<Key>)> {
        match &self.action {
            Action::Entity(step) => vec![(step.name, Some(step.key))],
            Action::Batch(steps) => steps.iter().map(|step| (step.name, Some(step.key))).collect(),
            Action::BatchedGet(key) => vec![(self.row(), Some(*key))],
            Action::Whole(_) | Action::Query(_) | Action::BatchedQuery(_) => {
                vec![(self.row(), None)]
            }
        }
    }

    /// The rows that it names.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.demands().into_iter().filter_map(|(_, key)| key).collect()
    }

    pub(crate) fn asks_secondary(&self) -> bool {
        matches!(self.action, Action::Whole("get-stats"))
    }

    pub(crate) fn request(&self, continuations: &BTreeMap<Key, String>) -> Request {
        match &self.action {
            Action::Whole(name) => whole(name),
            Action::Entity(step) => step.request(),
            Action::Query(query) => {
                Request::new("GET", format!("/{TABLE}()")).query(query.query_string(continuations))
            }
            Action::Batch(steps) => changeset(&steps.iter().map(Step::request).collect::<Vec<_>>()),
            Action::BatchedGet(key) => single(&Step { name: "get", key: *key }.request()),
            Action::BatchedQuery(query) => single(
                &Request::new("GET", format!("/{TABLE}()"))
                    .query(query.query_string(continuations)),
            ),
        }
    }
}

fn whole(name: &str) -> Request {
    let properties = "restype=service&comp=properties";
    match name {
        "query-tables" => Request::new("GET", "/Tables"),
        "get-table" => Request::new("GET", format!("/Tables('{TABLE}')")),
        "create-table" => create_table(NEW_TABLE),
        "delete-table" => Request::new("DELETE", format!("/Tables('{OLD_TABLE}')")),
        "get-acl" => Request::new("GET", format!("/{TABLE}")).query("comp=acl"),
        "set-acl" => set_acl("<SignedIdentifiers />"),
        "get-properties" => Request::new("GET", "/").query(properties),
        "set-properties" => Request::new("PUT", "/").query(properties).body(XML, PROPERTIES),
        "get-stats" => Request::new("GET", "/").query("restype=service&comp=stats"),
        "get-metadata" => Request::new("GET", "/$metadata"),
        "preflight" => {
            let request = Request::new("OPTIONS", format!("/{TABLE}"));
            request.header("Origin", ORIGIN).header("Access-Control-Request-Method", "GET")
        }
        other => panic!("no such operation: {other}"),
    }
}

/// Allows one origin to read.
const PROPERTIES: &str = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>https://pages.example\
    </AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*\
    </ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

pub(crate) fn create_table(name: &str) -> Request {
    Request::new("POST", "/Tables").body(JSON, format!("{{\"TableName\":\"{name}\"}}"))
}

pub(crate) fn delete_table(name: &str) -> Request {
    Request::new("DELETE", format!("/Tables('{name}')"))
}

pub(crate) fn set_properties() -> Request {
    whole("set-properties")
}

pub(crate) fn set_acl(policies: &str) -> Request {
    Request::new("PUT", format!("/{TABLE}")).query("comp=acl").body(XML, policies)
}

impl Step {
    pub(crate) fn request(&self) -> Request {
        let Key { partition, row } = self.key;
        let at_entity = |method| {
            Request::new(method, format!("/{TABLE}(PartitionKey='{partition}',RowKey='{row}')"))
        };
        let changed = |request: Request| request.body(JSON, "{\"Marker\":\"changed\"}");
        let existing = |request: Request| request.header("If-Match", "*");
        match self.name {
            "get" => at_entity("GET"),
            "insert" => Request::new("POST", format!("/{TABLE}")).body(JSON, entity(self.key)),
            "update" => changed(existing(at_entity("PUT"))),
            "merge" => changed(existing(at_entity("PATCH"))),
            "insert-or-replace" => changed(at_entity("PUT")),
            "insert-or-merge" => changed(at_entity("PATCH")),
            "delete" => existing(at_entity("DELETE")),
            "tunnelled-merge" => {
                changed(existing(at_entity("POST").header("X-HTTP-Method", "MERGE")))
            }
            "tunnelled-delete" => existing(at_entity("POST").header("X-HTTP-Method", "DELETE")),
            other => panic!("no such operation: {other}"),
        }
    }
}

fn entity(key: Key) -> String {
    let Key { partition, row } = key;
    format!(
        "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"Marker\":\"{}\"}}",
        key.marker()
    )
}

/// Brings rows of one partition back to what they were; those that must not be there are there.
pub(crate) fn restore(keys: &[Key]) -> Request {
    let restored = |key: &Key| match key.is_stored() {
        true => {
            let request = Step { name: "insert-or-replace", key: *key }.request();
            Request { body: entity(*key), ..request }
        }
        false => Step { name: "delete", key: *key }.request(),
    };
    changeset(&keys.iter().map(restored).collect::<Vec<_>>())
}

/// Inserts every row of a partition.
pub(crate) fn seed(partition: &str) -> Request {
    let keys = stored().filter(|key| key.partition == partition);
    changeset(&keys.map(|key| Step { name: "insert", key }.request()).collect::<Vec<_>>())
}

fn changeset(requests: &[Request]) -> Request {
    let parts = requests.iter().map(|request| format!("--changes\r\n{}", part(request)));
    let body = format!(
        "--whole\r\nContent-Type: multipart/mixed; boundary=changes\r\n\r\n{}--changes--\r\n--whole--\r\n",
        parts.collect::<String>()
    );
    Request::new("POST", "/$batch").body("multipart/mixed; boundary=whole", body)
}

fn single(request: &Request) -> Request {
    let body = format!("--whole\r\n{}--whole--\r\n", part(request));
    Request::new("POST", "/$batch").body("multipart/mixed; boundary=whole", body)
}

fn part(request: &Request) -> String {
    let Request { method, path, query, headers, body } = request;
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         {method} {path}{query} HTTP/1.1\r\n{headers}\r\n{body}\r\n"
    )
}
