//! Queries, their pages, and what stands on them.

use futures_util::TryStreamExt as _;
use tavola_client::{
    AnyFilter, Continuation, DynEntity, Entity, Projection, TableClient, TableServiceClient, Value,
    only, prop,
};
use time::OffsetDateTime;
use uuid::Uuid;

use super::person;
use crate::site::Site;

async fn rows(table: &TableClient, filter: AnyFilter) -> Vec<String> {
    let found = table.filter::<DynEntity>(filter).stream().map_ok(|one| one.row().to_owned());
    found.try_collect().await.unwrap()
}

async fn filled(site: &Site, people: i32) -> TableClient {
    let table = site.table().await;
    let all = (0..people).map(|row| person(&format!("{row:04}"), row));
    let report = table.bulk().insert_all(all).await.unwrap().into_result().unwrap();
    assert_eq!(report.written, usize::try_from(people).unwrap());
    table
}

/// Each comparison with each type, and what nests.
pub(super) async fn filters(site: &Site) {
    let table = site.table().await;
    let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
    let values: [[Value; 3]; 8] = [
        [1.into(), 2.into(), 3.into()],
        [(-5_i64).into(), (1_i64 << 40).into(), i64::MAX.into()],
        [(-1.5).into(), 0.25.into(), 1e300.into()],
        ["a".into(), "it's".into(), "ü".into()],
        [at(0).into(), at(1).into(), at(2).into()],
        [Uuid::from_u128(1).into(), Uuid::from_u128(2).into(), Uuid::from_u128(3).into()],
        [vec![0].into(), vec![0, 1].into(), vec![1].into()],
        [false.into(), true.into(), true.into()],
    ];
    for row in 0..3 {
        let mut entity = DynEntity::new("p", row.to_string());
        for (index, values) in values.iter().enumerate() {
            entity.set(format!("P{index}"), values[row].clone());
        }
        table.insert(&entity).await.unwrap();
    }
    for (index, values) in values.iter().take(7).enumerate() {
        let (name, middle) = (format!("P{index}"), &values[1]);
        let is = |compare: fn(tavola_client::filter::Prop, Value) -> AnyFilter| {
            rows(&table, compare(prop(&name), middle.clone()))
        };
        assert_eq!(is(|prop, value| prop.eq(value)).await, ["1"], "{name}");
        assert_eq!(is(|prop, value| prop.ne(value)).await, ["0", "2"], "{name}");
        assert_eq!(is(|prop, value| prop.gt(value)).await, ["2"], "{name}");
        assert_eq!(is(|prop, value| prop.ge(value)).await, ["1", "2"], "{name}");
        assert_eq!(is(|prop, value| prop.lt(value)).await, ["0"], "{name}");
        assert_eq!(is(|prop, value| prop.le(value)).await, ["0", "1"], "{name}");
    }
    assert_eq!(rows(&table, prop("P7").eq(true)).await, ["1", "2"]);
    let nested = prop("P0").lt(2).or(prop("P0").gt(2)).and(prop("P7").eq(true).not());
    assert_eq!(rows(&table, nested).await, ["0"]);
    assert_eq!(rows(&table, prop("P3").starts_with("it")).await, ["1"]);
    assert_eq!(rows(&table, prop("None").eq(1)).await, [""; 0]);
}

pub(super) async fn in_pages(site: &Site) {
    let table = filled(site, 25).await;
    let smiths = || table.filter::<DynEntity>(prop("PartitionKey").eq("Smith"));
    let pages: Vec<_> = smiths().page_size(4).take(10).pages().try_collect().await.unwrap();
    assert_eq!(pages.iter().map(|page| page.items.len()).sum::<usize>(), 10);
    let all: Vec<_> = smiths().page_size(10).stream().try_collect().await.unwrap();
    let ages: Vec<_> = all.iter().map(|one| one.get::<i32>("Age").unwrap()).collect();
    assert_eq!(ages, (0..25).collect::<Vec<_>>());
    let old = smiths().and(prop("Age").ge(20)).page_size(2).stream();
    assert_eq!(old.try_collect::<Vec<_>>().await.unwrap().len(), 5);
    let range = prop("RowKey").ge("0005").and(prop("RowKey").lt("0008"));
    assert_eq!(rows(&table, range).await, ["0005", "0006", "0007"]);
}

/// More than a page of the service; a token goes on with another client, as a text.
pub(super) async fn resumed_elsewhere(site: &Site) {
    let table = filled(site, 1100).await;
    let first = table.scan::<DynEntity>().pages().try_next().await.unwrap().unwrap();
    assert_eq!(first.items.len(), 1000);
    let token: Continuation = first.next.unwrap().to_string().parse().unwrap();
    let other: TableServiceClient = site.service.clone();
    let table = other.table_client(table.name());
    let rest = table.scan::<DynEntity>().resume(token).stream();
    let rest: Vec<_> = rest.try_collect().await.unwrap();
    assert_eq!((rest.len(), rest[0].row()), (100, "1000"));
}

#[derive(Debug, Entity)]
#[entity(partition = "{dept}", row = "{id:06}", rename_all = "PascalCase")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    age: Option<i32>,
    wage: f64,
}

#[derive(Debug, PartialEq, Projection)]
#[projection(of = Employee)]
struct Card {
    last: String,
    age: Option<i32>,
}

pub(super) async fn projections(site: &Site) {
    let table = site.table().await;
    for (id, age) in [(1, Some(30)), (2, None)] {
        let last = format!("Last{id}");
        let employee = Employee { dept: "Sales".into(), id, last, age, wage: 1.5 };
        table.insert(&employee).await.unwrap();
    }
    let cards = table.query(Employee::key().dept("Sales")).select(only::<Card>()).stream();
    let cards: Vec<_> = cards.try_collect().await.unwrap();
    assert_eq!(*cards[0], Card { last: "Last1".into(), age: Some(30) });
    assert_eq!(*cards[1], Card { last: "Last2".into(), age: None });
    assert_eq!((cards[0].key().partition(), cards[0].key().row()), ("Sales", "000001"));
    let whole: Vec<_> =
        table.query(Employee::key().dept("Sales")).stream().try_collect().await.unwrap();
    assert_eq!((whole[0].etag(), whole[0].timestamp()), (cards[0].etag(), cards[0].timestamp()));
    assert_eq!((whole[0].wage, whole[0].id, whole[0].dept.as_str()), (1.5, 1, "Sales"));
    let wages = table.filter(Employee::AGE.gt(20)).select((Employee::WAGE,)).stream();
    let wages: Vec<_> = wages.map_ok(|one| one.into_inner().0).try_collect().await.unwrap();
    assert_eq!(wages, [1.5]);
}

pub(super) async fn many_reads(site: &Site) {
    let table = filled(site, 20).await;
    let keys = ["0003", "0099", "0001"].map(|row| ("Smith", row));
    let found = table.get_many::<DynEntity, _>(keys, 2).await.unwrap();
    let rows: Vec<_> = found.iter().map(|one| one.as_ref().map(|one| one.row())).collect();
    assert_eq!(rows, [Some("0003"), None, Some("0001")]);
}

pub(super) async fn deletes(site: &Site) {
    let table = filled(site, 150).await;
    let old = || table.delete_where::<DynEntity>(prop("Age").ge(20));
    assert_eq!(old().dry_run().run().await.unwrap().found, 130);
    let some = old().at_most(10).run().await.unwrap();
    assert_eq!((some.found, some.deleted), (10, 10));
    assert_eq!(old().run().await.unwrap().deleted, 120);
    let left: Vec<_> = table.scan::<DynEntity>().stream().try_collect().await.unwrap();
    assert_eq!(left.len(), 20);
}
