//! Queries: what they send, and what they give. G47, G48, G58, G60 to G66, G174, and retrievals of
//! every size (5.1.8 of the design guide's digest).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use tavola_client::__store::Runtime;
use tavola_client::testing::counting;
use tavola_client::{
    Access, BoxFuture, ClientOptions, DynEntity, Entity, ErrorKind, Failure, Mode, Options,
    Projection, Reply, Request, Retry, StoreTraits, Stored, TableClient, TableServiceClient,
    TableStore, only, prop,
};
use tavola_core::TableRequest;
use tavola_core::request::Select;

use super::common::person;
use super::http::{answer, client, server};

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(rename_all = "PascalCase", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    visits: i64,
}

#[derive(Debug, PartialEq, Projection)]
#[projection(of = Employee)]
struct Card {
    last: String,
}

fn employee(id: u32, last: &str) -> Employee {
    Employee { dept: "Sales".to_owned(), id, last: last.to_owned(), visits: i64::from(id) }
}

/// Keeps `$top` and `$select` of each query, and answers with at most `page_max` entities, as a
/// service does that is short of time.
#[derive(Debug)]
struct Recorded {
    inner: Arc<dyn TableStore>,
    page_max: usize,
    queries: Mutex<Vec<(Option<usize>, Select)>>,
}

impl TableStore for Recorded {
    fn execute(&self, mut request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        let (_, select, _) = request.clone().into_parts();
        if let TableRequest::QueryEntities(_, query) = request.operation_mut() {
            self.queries.lock().unwrap().push((query.top, select));
            query.top = Some(query.top.unwrap_or(1000).min(self.page_max));
        }
        self.inner.execute(request)
    }

    fn traits(&self) -> StoreTraits {
        self.inner.traits()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
}

async fn recorded(page_max: usize) -> (Arc<Recorded>, TableClient) {
    let inner = tavola_local::in_memory();
    let store = Arc::new(Recorded { inner, page_max, queries: Mutex::default() });
    let table = TableServiceClient::on(store.clone(), None).table_client("employees");
    table.create().await.unwrap();
    (store, table)
}

/// G174: a typed point get is one line and gives an `Option`.
#[tokio::test]
async fn a_point_get_is_one_line() {
    let (_, t) = recorded(1000).await;
    t.insert(&employee(212, "Jones")).await.unwrap();
    let e = t.get(Employee::key().dept("Sales").id(212)).await.unwrap();
    let found: Stored<Employee> = e.unwrap();
    assert_eq!(*found, employee(212, "Jones"));
    let by_keys = t.get::<Employee>(("Sales", "empid_000212")).await.unwrap();
    assert_eq!(by_keys.unwrap().last, "Jones");
    assert!(t.get(Employee::key().dept("Sales").id(213)).await.unwrap().is_none());
}

/// G47: the class of a query is known without network, here and on Azure.
#[tokio::test]
async fn a_query_is_explained_before_anything_is_sent() {
    let counted = counting(tavola_local::in_memory());
    let t = TableServiceClient::on(counted.clone(), None).table_client("employees");
    let range = t.query(Employee::key().dept("Sales").id_in(100..200)).and(Employee::LAST.eq("J"));
    let explain = range.select(only::<Card>()).explain().unwrap();
    assert_eq!((explain.here, explain.azure), (Access::RowRange, Access::RowRange));
    assert_eq!(explain.select.unwrap(), ["Last"]);
    let rows = prop("RowKey").eq("1").or(prop("RowKey").eq("2"));
    let either = t.filter::<DynEntity>(prop("PartitionKey").eq("Sales").and(rows));
    let explain = either.explain().unwrap();
    assert_eq!((explain.here, explain.azure), (Access::Point, Access::PartitionScan));
    assert_eq!(t.scan::<Employee>().explain().unwrap().here, Access::TableScan);
    assert!(counted.take().is_empty());
}

/// G48: a client, a handle or a query denies scans; then nothing is sent.
#[tokio::test]
async fn scans_are_denied_at_each_level() {
    let counted = counting(tavola_local::in_memory());
    let service = TableServiceClient::on(counted.clone(), None);
    let t = service.table_client("employees");
    t.create().await.unwrap();
    let careful = t.with_options(Options::default().deny_scans());
    drop(counted.take());
    let by_name = || Employee::LAST.eq("Jones");
    let denied = [
        careful.filter::<Employee>(by_name()).stream().try_next().await,
        t.filter::<Employee>(by_name()).deny_scans().stream().try_next().await,
        t.filter::<Employee>(by_name())
            .options(Options::default().deny_scans())
            .stream()
            .try_next()
            .await,
    ];
    for error in denied.map(Result::unwrap_err) {
        let ErrorKind::ScanDenied { access, .. } = error.kind() else { panic!("{error:?}") };
        assert_eq!(*access, Access::TableScan);
    }
    assert!(counted.take().is_empty());
    let allowed = careful.filter::<Employee>(by_name()).allow_scan();
    assert!(allowed.stream().try_next().await.unwrap().is_none());
    let range = careful.query(Employee::key().dept("Sales").id_in(1..9));
    assert!(range.stream().try_next().await.unwrap().is_none());
    assert_eq!(counted.take().len(), 2);
}

/// G58: a projection keeps keys, Timestamp and ETag, and asks for nothing else.
#[tokio::test]
async fn a_projection_keeps_its_key_and_version() {
    let (store, t) = recorded(1000).await;
    let written = t.insert(&employee(7, "Jones")).await.unwrap();
    let cards = t.query(Employee::key().dept("Sales")).select(only::<Card>());
    let cards: Vec<_> = cards.stream().try_collect().await.unwrap();
    assert_eq!(*cards[0], Card { last: "Jones".to_owned() });
    assert_eq!(cards[0].key().to_string(), "('Sales', 'empid_000007')");
    assert_eq!(Some(cards[0].etag()), written.etag.as_ref());
    assert_eq!(Some(cards[0].timestamp()), written.timestamp);
    let (_, select) = store.queries.lock().unwrap()[0].clone();
    let Select::Names(names) = select else { panic!("all properties were asked for") };
    assert_eq!(names, ["PartitionKey", "RowKey", "Timestamp", "Last"]);
}

/// G60: a stream goes on after pages that are short, or empty.
#[tokio::test]
async fn a_stream_goes_by_the_token_not_by_the_count() {
    let entity = |row: &str| {
        format!(
            "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"Timestamp\":\"2026-11-16T00:05:27Z\"}}"
        )
    };
    let page = |next: Option<&str>, rows: &[&str]| {
        let rows: Vec<_> = rows.iter().map(|row| entity(row)).collect();
        let token = next.map(|next| format!("x-ms-continuation-NextPartitionKey: {next}\r\n"));
        let headers = "x-ms-request-id: 7\r\ncontent-type: application/json\r\n".to_owned();
        let body = format!("{{\"value\":[{}]}}", rows.join(","));
        answer("200 OK", &(headers + &token.unwrap_or_default()), &body)
    };
    let pages =
        [page(Some("a"), &[]), page(Some("b"), &["1"]), page(Some("c"), &[]), page(None, &["2"])];
    let (address, heads) = server(pages.into()).await;
    let table = client(&address, ClientOptions::default());
    let rows: Vec<_> = table.scan::<DynEntity>().stream().try_collect().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.row()).collect::<Vec<_>>(), ["1", "2"]);
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 4);
    assert!(heads[3].1.contains("NextPartitionKey=c"), "{}", heads[3].1);
}

/// G61: pages are explicit, and another process goes on from the token's text.
#[tokio::test]
async fn a_token_is_text() {
    let (_, t) = recorded(1000).await;
    t.bulk().insert_all((0..25).map(|id| employee(id, "Jones"))).await.unwrap();
    let sales = || t.query(Employee::key().dept("Sales")).page_size(10);
    let (mut saved, mut seen) = (None::<String>, Vec::new());
    loop {
        let token = saved.take().map(|text| text.parse().unwrap());
        let page = sales().resume(token).pages().try_next().await.unwrap().unwrap();
        seen.extend(page.items.iter().map(|one| one.id));
        match page.next {
            Some(token) => saved = Some(token.to_string()),
            None => break,
        }
    }
    assert_eq!(seen, (0..25).collect::<Vec<_>>());
    let other = t.query(Employee::key().dept("Legal"));
    let token = sales().pages().try_next().await.unwrap().unwrap().next.unwrap();
    let refused = other.resume(token).stream().try_next().await.unwrap_err();
    assert!(refused.to_string().contains("another query"), "{refused}");
}

/// G62: `take` is exact over short pages. G63: page size and limit are two settings.
#[tokio::test]
async fn a_limit_is_not_a_page_size() {
    let (store, t) = recorded(3).await;
    t.bulk().insert_all((0..25).map(|id| employee(id, "Jones"))).await.unwrap();
    let sales = || t.query(Employee::key().dept("Sales"));
    let taken: Vec<_> = sales().take(10).stream().try_collect().await.unwrap();
    assert_eq!(taken.iter().map(|one| one.id).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    let tops = |store: &Recorded| -> Vec<_> {
        store.queries.lock().unwrap().drain(..).map(|(top, _)| top).collect()
    };
    assert_eq!(tops(&store), [Some(10), Some(7), Some(4), Some(1)]);
    assert!(sales().take(0).stream().try_next().await.unwrap().is_none());
    assert!(tops(&store).is_empty());

    let (store, t) = recorded(1000).await;
    t.bulk().insert_all((0..25).map(|id| employee(id, "Jones"))).await.unwrap();
    let sales = || t.query(Employee::key().dept("Sales"));
    let pages: Vec<_> = sales().page_size(4).take(10).pages().try_collect().await.unwrap();
    assert_eq!(pages.iter().map(|page| page.items.len()).collect::<Vec<_>>(), [4, 4, 2]);
    assert_eq!(tops(&store), [Some(4), Some(4), Some(2)]);
    let all: Vec<_> = sales().page_size(20).stream().try_collect().await.unwrap();
    assert_eq!(all.len(), 25);
    assert_eq!(tops(&store), [Some(20), Some(20)]);
    let _: Vec<_> = sales().take(5000).stream().try_collect().await.unwrap();
    assert_eq!(tops(&store), [Some(1000)]);
}

/// G64: nothing is fetched before the first poll, nor ahead unless `prefetch` asks for it; then it
/// is one page.
#[tokio::test]
async fn pages_are_fetched_ahead_only_if_asked() {
    let counted = counting(tavola_local::in_memory());
    let t = TableServiceClient::on(counted.clone(), None).table_client("employees");
    t.create().await.unwrap();
    t.bulk().insert_all((0..50).map(|id| employee(id, "Jones"))).await.unwrap();
    drop(counted.take());
    let sales = || t.query(Employee::key().dept("Sales")).page_size(10);
    for (query, first, eleventh) in [(sales(), 1, 2), (sales().prefetch(), 2, 3)] {
        let mut rows = query.stream();
        assert!(counted.take().is_empty(), "before the first poll");
        rows.next().await.unwrap().unwrap();
        let mut requests = counted.take().len();
        assert_eq!(requests, first);
        for _ in 0..9 {
            rows.next().await.unwrap().unwrap();
        }
        requests += counted.take().len();
        assert_eq!(requests, first, "the page is not used up");
        rows.next().await.unwrap().unwrap();
        requests += counted.take().len();
        assert_eq!(requests, eleventh);
        // A stream that is dropped sends nothing more.
        drop(rows);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(counted.take().is_empty());
    }
    let ahead: Vec<_> = sales().prefetch().take(25).stream().try_collect().await.unwrap();
    assert_eq!(ahead.iter().map(|one| one.id).collect::<Vec<_>>(), (0..25).collect::<Vec<_>>());
    assert_eq!(counted.take().len(), 3, "a page that the limit excludes is not asked for");
    let pages: Vec<_> = sales().prefetch().pages().try_collect().await.unwrap();
    assert_eq!(pages.len(), 5);
}

/// An error of a page that was fetched ahead comes after what was read before it.
#[tokio::test]
async fn an_early_error_waits_for_its_turn() {
    let (address, _) = server(vec![
        answer(
            "200 OK",
            "x-ms-request-id: 7\r\ncontent-type: application/json\r\nx-ms-continuation-NextPartitionKey: b\r\n",
            "{\"value\":[{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"Timestamp\":\"2026-11-16T00:05:27Z\"}]}",
        ),
        answer("200 OK", "content-type: text/html\r\n", "<html>"),
    ])
    .await;
    let table = client(&address, ClientOptions::default().retry(Retry::none()));
    let mut rows = table.scan::<DynEntity>().prefetch().stream();
    assert_eq!(rows.next().await.unwrap().unwrap().row(), "1");
    assert!(matches!(rows.next().await.unwrap().unwrap_err().kind(), ErrorKind::NotOurs { .. }));
    assert!(rows.next().await.is_none());
}

/// G65: a query by prefix has the right end, whatever comes after the prefix.
#[tokio::test]
async fn a_prefix_ends_where_it_should() {
    let (_, t) = recorded(1000).await;
    let rows = [
        "Jone",
        "Jones",
        "Jones ",
        "Jones!",
        "Jones~",
        "Joneses",
        "Jones\u{e9}",
        "Jones\u{d7ff}",
        "Jones\u{fffd}",
        "Jones\u{10ffff}",
        "Jonet",
        "JONES",
        "a.",
        "a.~",
        "a0",
        "z",
    ];
    t.bulk().upsert_all(rows.map(|row| DynEntity::new("p", row)), Mode::Replace).await.unwrap();
    for prefix in ["Jones", "a.", "J", "z", "Jones\u{10ffff}", "Jones~"] {
        let filter = prop("PartitionKey").eq("p").and(prop("RowKey").starts_with(prefix));
        assert_eq!(filter.explain().unwrap().azure, Access::RowRange);
        let found: Vec<_> = t.filter::<DynEntity>(filter).stream().try_collect().await.unwrap();
        let mut found: Vec<_> = found.iter().map(|row| row.row().to_owned()).collect();
        let mut expected: Vec<_> = rows.into_iter().filter(|row| row.starts_with(prefix)).collect();
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{prefix}");
    }
    t.insert(&employee(7, "Jones")).await.unwrap();
    t.insert(&DynEntity::new("Sales", "empid")).await.unwrap();
    t.insert(&DynEntity::new("Sales", "empid`")).await.unwrap();
    let all: Vec<_> = t.query(Employee::key().dept("Sales")).stream().try_collect().await.unwrap();
    assert_eq!(all.iter().map(|one| one.id).collect::<Vec<_>>(), [7]);
}

/// G66: filters nest, and quote what they are given.
#[tokio::test]
async fn filters_nest_and_quote() {
    let (_, t) = recorded(1000).await;
    for (row, name, age) in [("1", "O'Brien", 30), ("2", "' or '1' eq '1", 40), ("3", "Jones", 50)]
    {
        let mut one = person(row, age);
        one.set("Name", name);
        t.insert(&one).await.unwrap();
    }
    let smith = || prop("PartitionKey").eq("Smith");
    for (filter, expected) in [
        (smith().and(prop("Name").eq("O'Brien")), vec!["1"]),
        (smith().and(prop("Name").eq("' or '1' eq '1")), vec!["2"]),
        (smith().and(prop("Name").eq("Jones").or(prop("Age").lt(35))), vec!["1", "3"]),
        (smith().and(prop("Name").eq("Jones").or(prop("Age").lt(45)).not()), vec![]),
        (
            smith()
                .and(prop("RowKey").eq("1").or(prop("Age").gt(30).and(prop("Name").ne("Jones")))),
            vec!["1", "2"],
        ),
    ] {
        let text = filter.to_string();
        let found: Vec<_> = t.filter::<DynEntity>(filter).stream().try_collect().await.unwrap();
        assert_eq!(found.iter().map(|row| row.row()).collect::<Vec<_>>(), expected, "{text}");
    }
}

/// Retrievals of every size, in one partition and in many: each entity once, in the order of the
/// keys, in as few requests as the service needs.
#[tokio::test]
async fn retrievals_of_every_size() {
    for (rows, partitions) in [
        (0, 1),
        (1, 1),
        (1_000, 1),
        (1_001, 1),
        (1_000, 10),
        (1_001, 7),
        (100_000, 1),
        (100_000, 100),
    ] {
        let counted = counting(tavola_local::in_memory());
        let t = TableServiceClient::on(counted.clone(), None).table_client("rows");
        t.create().await.unwrap();
        let share = rows / partitions + usize::from(rows % partitions > 0);
        let key =
            |number: usize| (format!("p{:03}", number / share), format!("{:06}", number % share));
        let input = (0..rows).map(|number| {
            let (partition, row) = key(number);
            DynEntity::new(partition, row)
        });
        let report = t.bulk().insert_all(input).await.unwrap().into_result().unwrap();
        assert_eq!((report.written, report.checkpoint.len()), (rows, rows));
        drop(counted.take());
        let (mut count, mut stream) = (0, t.scan::<DynEntity>().prefetch().stream());
        while let Some(row) = stream.try_next().await.unwrap() {
            let (partition, name) = key(count);
            assert_eq!((row.partition(), row.row()), (partition.as_str(), name.as_str()));
            count += 1;
        }
        assert_eq!(count, rows);
        let requests = counted.take().len();
        assert!(requests <= rows / 1000 + 1 + partitions, "{requests} for {rows} in {partitions}");
        let half = t.scan::<DynEntity>().take(rows / 2).stream().count().await;
        assert_eq!(half, rows / 2);
    }
}
