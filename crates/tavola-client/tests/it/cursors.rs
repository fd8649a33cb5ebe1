//! Typed cursors over keys.

use tavola_client::{Access, Entity, KeyPart, KeyRange};
use time::{Date, Month, OffsetDateTime};

#[derive(Debug, Clone, Entity)]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
}

fn filter<E>(range: impl Into<KeyRange<E>>) -> String {
    let text = range.into().to_filter().expect("the parts fit").to_string();
    text.replace("PartitionKey", "PK").replace("RowKey", "RK")
}

/// G65, G73, G74.
#[test]
fn leading_parts_give_ranges_and_all_parts_a_key() {
    let sales = Employee::key().dept("Sales");
    assert_eq!(filter(sales.clone()), "PK eq 'Sales' and RK ge 'empid_' and RK lt 'empid`'");
    let range = sales.clone().id_in(100..200);
    assert_eq!(filter(range), "PK eq 'Sales' and RK ge 'empid_000100' and RK lt 'empid_000200'");
    let range = sales.clone().id_in(100..=200);
    assert_eq!(filter(range), "PK eq 'Sales' and RK ge 'empid_000100' and RK lt 'empid_000201'");
    let range = sales.clone().id_in(..7);
    assert_eq!(filter(range), "PK eq 'Sales' and RK ge 'empid_' and RK lt 'empid_000007'");
    let point = sales.clone().id(212);
    assert_eq!(point.clone().into_key().unwrap().to_string(), "('Sales', 'empid_000212')");
    assert_eq!(filter(point), "PK eq 'Sales' and RK eq 'empid_000212'");
    assert_eq!(filter(Employee::key().dept_prefix("Sa")), "PK ge 'Sa' and PK lt 'Sb'");
    assert_eq!(filter(Employee::key().dept_in("A".."C")), "PK ge 'A' and PK lt 'C'");
    assert_eq!(filter(Employee::key()), "PK ge '\"'");
    let access = KeyRange::from(sales).explain().unwrap();
    assert_eq!((access.here, access.azure), (Access::RowRange, Access::RowRange));
    let error = Employee::key().dept("Sales").id(1_000_000).into_key().unwrap_err();
    assert!(error.to_string().contains("`id` = 1000000 has 7 digits"), "{error}");
}

#[derive(Debug, Clone, Entity)]
#[entity(partition = "{user:06}", row = "{at:desc}!{no:05,desc}")]
struct Claim {
    user: u32,
    at: OffsetDateTime,
    no: u32,
    amount: f64,
}

/// G74, G76.
#[test]
fn the_claims_of_the_guide() {
    let date = Date::from_calendar_date(2014, Month::August, 22).unwrap();
    let at = date.with_hms(0, 50, 32).unwrap().assume_utc();
    let later = date.with_hms(0, 50, 44).unwrap().assume_utc();
    let key = Claim { user: 123, at, no: 0, amount: 9.5 }.entity_key().unwrap();
    assert_eq!((key.partition(), key.row()), ("000123", "2519936321679999999!99999"));
    let user = Claim::key().user(123);
    assert_eq!(
        filter(user.clone().at(at)),
        "PK eq '000123' and RK ge '2519936321679999999!' and RK lt '2519936321679999999\"'"
    );
    // Newer ones come first, so that the bounds change sides.
    assert_eq!(
        filter(user.clone().at_in(at..=later)),
        "PK eq '000123' and RK ge '2519936321559999999' and RK lt '251993632167999999:'"
    );
    assert_eq!(user.at(at).no(0).into_key().unwrap(), key);
    assert_eq!(Claim::AMOUNT.gt(1.0).to_string(), "amount gt 1.0");
}

#[derive(Debug, Clone, PartialEq, KeyPart)]
struct Region(String);

#[derive(Debug, Clone, PartialEq, KeyPart)]
struct Number(u64);

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition = "all", row = "o_{region}!{number:08,desc}{open}")]
struct Order {
    region: Region,
    number: Number,
    open: bool,
}

#[test]
fn newtypes_are_parts() {
    let order = Order { region: Region("north west".into()), number: Number(7), open: true };
    let key = order.entity_key().unwrap();
    assert_eq!(key.to_string(), "('all', 'o_north$20west!999999921')");
    let row = tavola_client::DynEntity::from_entity(&order).unwrap();
    assert_eq!(row.to::<Order>().unwrap(), order);
    let north = Order::key().region(Region("north west".into()));
    assert_eq!(
        filter(north.number(Number(7))),
        "PK eq 'all' and RK ge 'o_north$20west!99999992' and RK lt 'o_north$20west!99999993'"
    );
}

#[derive(Debug, Clone, Entity)]
#[entity(partition = "settings", row = "global")]
struct Settings {
    theme: String,
}

#[test]
fn a_key_without_parts_is_a_point() {
    assert_eq!(Settings::key().into_key().unwrap().to_string(), "('settings', 'global')");
    assert_eq!(Settings { theme: "x".into() }.entity_key().unwrap().row(), "global");
    assert_eq!(Settings::THEME.eq("x").to_string(), "theme eq 'x'");
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition = "{type}", row = "{value}!{error}")]
struct Odd {
    r#type: String,
    value: String,
    error: u8,
    r#in: i32,
}

#[test]
fn any_field_name_will_do() {
    let odd = Odd { r#type: "t".into(), value: "v".into(), error: 7, r#in: 1 };
    let row = tavola_client::DynEntity::from_entity(&odd).unwrap();
    assert_eq!((row.partition(), row.row()), ("t", "v!007"));
    assert_eq!(row.get::<i32>("in").unwrap(), 1);
    assert_eq!(row.to::<Odd>().unwrap(), odd);
    assert_eq!(
        filter(Odd::key().r#type("t").value_in("a".."b")),
        "PK eq 't' and RK ge 'a' and RK lt 'b'"
    );
    assert_eq!(Odd::IN.eq(1).to_string(), "in eq 1");
}
