//! Values and keys at their edges, as derived types and dynamic entities write and read them.

use futures_util::TryStreamExt as _;
use tavola_client::{DynEntity, Entity, IfMatch, Mode, Value, prop};
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;

use crate::site::{Difference, Site};

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition = "{group}", row = "{number:06}", rename_all = "PascalCase")]
struct Every {
    group: String,
    number: u32,
    text: String,
    flag: bool,
    small: i32,
    large: i64,
    ratio: f64,
    at: OffsetDateTime,
    id: Uuid,
    bytes: Vec<u8>,
    none: Option<String>,
}

/// One entity for each edge; the shorter lists begin anew.
fn edges(site: &Site) -> Vec<Every> {
    let is_damaged = site.differs(Difference::LongTextsAreDamaged);
    let long = if is_damaged { "y".repeat(32_768) } else { "😀".repeat(16_384) };
    let texts = ["", "it's \"é\" \\ \t\n 漢字 😀", &"x".repeat(32_768), &long];
    let ratios = [-0.0, 0.1, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NEG_INFINITY];
    let times = [
        datetime!(1601-01-01 00:00:00 UTC),
        datetime!(1970-01-01 00:00:00.001 UTC),
        datetime!(2024-02-29 12:34:56.1234567 UTC),
        datetime!(9999-12-31 23:59:59.9999999 UTC),
    ];
    let bytes = [vec![], vec![0, 255], vec![165; 65_536]];
    let edge = |number: usize| Every {
        group: "edges".to_owned(),
        number: u32::try_from(number).unwrap(),
        text: texts[number % texts.len()].to_owned(),
        flag: number.is_multiple_of(2),
        small: [i32::MIN, 0, i32::MAX][number % 3],
        large: [i64::MIN, 1, i64::MAX][number % 3],
        ratio: ratios[number],
        at: times[number % times.len()],
        id: [Uuid::nil(), Uuid::max()][number % 2],
        bytes: bytes[number % bytes.len()].clone(),
        none: None,
    };
    (0..ratios.len()).map(edge).collect()
}

pub(super) async fn every_type(site: &Site) {
    let table = site.table().await;
    for edge in edges(site) {
        table.insert(&edge).await.unwrap();
        let key = Every::key().group("edges").number(edge.number);
        let read = table.get(key).await;
        if site.differs(Difference::WholeDoublesAreIntegers) && edge.ratio == 0.0 {
            let error = read.unwrap_err().to_string();
            assert_eq!(error, "property `Ratio` is Edm.Int32, not Edm.Double");
            table
                .delete_at(Every::key().group("edges").number(edge.number), IfMatch::Any)
                .await
                .unwrap();
            continue;
        }
        let read = read.unwrap().unwrap();
        let short =
            |every: &Every| Every { text: String::new(), bytes: Vec::new(), ..every.clone() };
        assert_eq!(short(&read), short(&edge));
        assert_eq!((&read.text, &read.bytes), (&edge.text, &edge.bytes));
        // The service knows one zero.
        assert_eq!(read.ratio.to_bits(), (edge.ratio + 0.0).to_bits());
    }
    let listed = table.query(Every::key().group("edges")).stream();
    let listed: Vec<_> = listed.map_ok(|one| one.into_inner()).try_collect().await.unwrap();
    let skipped = edges(site).len() - listed.len();
    assert_eq!(listed, edges(site).split_off(skipped));
    assert_eq!(skipped, usize::from(site.differs(Difference::WholeDoublesAreIntegers)));
    let mut nan = edges(site).remove(1);
    nan.ratio = f64::NAN;
    table.update(&nan, Mode::Replace, IfMatch::Any).await.unwrap();
    let read = table.get(Every::key().group("edges").number(1)).await.unwrap().unwrap();
    assert!(read.ratio.is_nan());
}

/// A dynamic entity has exactly the types that were written.
pub(super) async fn dynamic_types(site: &Site) {
    let table = site.table().await;
    let written = DynEntity::from_entity(&edges(site)[1]).unwrap();
    table.insert(&written).await.unwrap();
    let read = table.get::<DynEntity>(("edges", "000001")).await.unwrap().unwrap();
    for (name, value) in written.iter() {
        assert_eq!(read.value(name), Some(value), "{name}");
    }
    assert_eq!(read.iter().len(), written.iter().len());
    let mut changed = DynEntity::new("edges", "000001");
    changed.set("Small", "now a text");
    table.update(&changed, Mode::Merge, IfMatch::Any).await.unwrap();
    let read = table.get::<DynEntity>(("edges", "000001")).await.unwrap().unwrap();
    assert_eq!(read.value("Small"), Some(&Value::from("now a text")));
}

/// Keys that must be escaped, through addresses, filters and transactions.
pub(super) async fn any_key(site: &Site) {
    let table = site.table().await;
    let longest = "k".repeat(512);
    for key in ["", "it's", "a b", "100%", "a+b&c=d", "漢字 😀", "a,b;c:d@e", "'", &longest] {
        let mut entity = DynEntity::new(key, key);
        entity.set("Key", key);
        table.insert(&entity).await.unwrap();
        let mut stored = table.get::<DynEntity>((key, key)).await.unwrap().unwrap();
        assert_eq!((stored.partition(), stored.row()), (key, key));
        table.replace(&mut stored).await.unwrap();
        let both = prop("PartitionKey").eq(key).and(prop("RowKey").eq(key));
        let found: Vec<_> = table.filter::<DynEntity>(both).stream().try_collect().await.unwrap();
        assert_eq!(found.len(), 1, "{key}");
        let mut transaction = table.transaction(key);
        transaction.delete(&found[0]).unwrap().insert(&DynEntity::new(key, "other")).unwrap();
        transaction.commit().await.unwrap();
        assert!(table.get::<DynEntity>((key, key)).await.unwrap().is_none());
    }
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(kind = "department", partition = "{dept}", row = "dept")]
struct Department {
    dept: String,
    employees: i64,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(kind = "note", version = 2, partition = "{dept}", row = "note_{no}")]
struct Note {
    dept: String,
    no: u16,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Entity)]
enum Staff {
    Department(Department),
    Note(Note),
    #[entity(other)]
    Other(DynEntity),
}

pub(super) async fn kinds_in_one_table(site: &Site) {
    let table = site.table().await;
    let mut other = DynEntity::new("Sales", "x");
    other.set("EntityType", "car");
    other.set("Doors", 5_i64);
    let all = [
        Staff::Department(Department { dept: "Sales".to_owned(), employees: 2 }),
        Staff::Note(Note { dept: "Sales".to_owned(), no: 7, text: "hello".to_owned() }),
        Staff::Other(other),
    ];
    table.bulk().insert_all(all.clone()).await.unwrap().into_result().unwrap();
    let sales = prop("PartitionKey").eq("Sales");
    let read = table.filter::<Staff>(sales).stream().map_ok(|one| one.into_inner());
    assert_eq!(read.try_collect::<Vec<_>>().await.unwrap(), all);
}
