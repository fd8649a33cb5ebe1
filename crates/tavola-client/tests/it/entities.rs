//! Structs as entities.

use tavola_client::{DynEntity, ETag, EdmType, Entity, Error, ErrorKind, Properties, Rule, Value};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Properties)]
#[entity(rename_all = "PascalCase")]
struct Address {
    street: String,
    city: Option<String>,
    #[entity(flatten, prefix = "Geo")]
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Properties)]
struct Place {
    lat: f64,
    lon: f64,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(rename_all = "PascalCase", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    #[entity(rename = "mail")]
    email: Option<String>,
    visits: i64,
    age: Option<i32>,
    salary: f64,
    active: bool,
    hired: OffsetDateTime,
    badge: Uuid,
    photo: Vec<u8>,
    #[entity(as = "string")]
    count: u64,
    #[entity(as = "string")]
    limit: Option<u64>,
    #[entity(default)]
    level: i32,
    #[entity(skip)]
    cache: Vec<u64>,
    #[entity(flatten)]
    home: Address,
    #[entity(flatten, prefix = "Work")]
    work: Address,
    #[entity(etag)]
    etag: Option<ETag>,
}

fn address(city: Option<&str>) -> Address {
    let place = Place { lat: 52.5, lon: -0.0 };
    Address { street: "Main/1".to_owned(), city: city.map(str::to_owned), place }
}

fn employee() -> Employee {
    Employee {
        dept: "R&D / Labs".to_owned(),
        id: 212,
        last: "Jones".to_owned(),
        email: None,
        visits: 7,
        age: Some(41),
        salary: 1.5,
        active: true,
        hired: OffsetDateTime::UNIX_EPOCH + Duration::days(9),
        badge: Uuid::from_u128(5),
        photo: vec![0, 255],
        count: u64::MAX,
        limit: None,
        level: 3,
        cache: Vec::new(),
        home: address(Some("Oslo")),
        work: address(None),
        etag: Some(ETag::new("")),
    }
}

#[test]
fn what_is_written_is_read() {
    let written = employee();
    let row = DynEntity::from_entity(&written).unwrap();
    assert_eq!((row.partition(), row.row()), ("R$26D$20.~$20Labs", "empid_000212"));
    assert_eq!(row.to::<Employee>().unwrap(), written);
}

#[test]
fn each_field_has_its_name_and_its_exact_type() {
    let row = DynEntity::from_entity(&employee()).unwrap();
    let properties: Vec<_> = row.iter().map(|(name, value)| (name, value.edm_type())).collect();
    assert_eq!(
        properties,
        [
            ("Last", EdmType::String),
            ("Visits", EdmType::Int64),
            ("Age", EdmType::Int32),
            ("Salary", EdmType::Double),
            ("Active", EdmType::Boolean),
            ("Hired", EdmType::DateTime),
            ("Badge", EdmType::Guid),
            ("Photo", EdmType::Binary),
            ("Count", EdmType::String),
            ("Level", EdmType::Int32),
            ("Street", EdmType::String),
            ("City", EdmType::String),
            ("Geolat", EdmType::Double),
            ("Geolon", EdmType::Double),
            ("WorkStreet", EdmType::String),
            ("WorkGeolat", EdmType::Double),
            ("WorkGeolon", EdmType::Double),
        ]
    );
    assert_eq!(row.get::<String>("Count").unwrap(), "18446744073709551615");
}

fn read(change: impl FnOnce(&mut DynEntity)) -> Result<Employee, Error> {
    let mut row = DynEntity::from_entity(&employee()).expect("the entity can be written");
    change(&mut row);
    row.to()
}

#[test]
fn another_type_or_an_absent_property_is_an_error() {
    let kind = |change: fn(&mut DynEntity)| read(change).unwrap_err().to_string();
    assert_eq!(
        kind(|row| drop(row.set("Visits", 7_i32))),
        "property `Visits` is Edm.Int32, not Edm.Int64"
    );
    assert_eq!(kind(|row| drop(row.remove("Last"))), "property `Last` (Edm.String) is absent");
    assert_eq!(
        kind(|row| drop(row.set("Count", "many"))),
        "property `Count` is a text that its type cannot read"
    );
    assert_eq!(kind(|row| drop(row.remove("Count"))), "property `Count` (Edm.String) is absent");
    assert_eq!(
        kind(|row| drop(row.set("WorkGeolat", "north"))),
        "property `lat` is Edm.String, not Edm.Double"
    );
    let error = read(|row| drop(row.set("Age", 7_i64))).unwrap_err();
    assert!(matches!(
        error.kind(),
        ErrorKind::Property { name, expected: EdmType::Int32, found: Some(EdmType::Int64), .. }
            if name == "Age"
    ));
    // No value is in a message, not even for programmers.
    let error = read(|row| drop(row.set("Visits", "secret"))).unwrap_err();
    assert!(!format!("{error:?} {error}").contains("secret"));
}

#[test]
fn what_may_be_absent_may_be_absent() {
    let read = read(|row| {
        for name in ["Age", "City", "Level"] {
            row.remove(name);
        }
    });
    let read = read.unwrap();
    assert_eq!((read.age, read.level, read.home.city), (None, 0, None));
}

#[test]
fn a_key_of_another_template_is_refused() {
    let other = |partition: &str, row: &str| {
        let mut dynamic = DynEntity::new(partition, row);
        for (name, value) in DynEntity::from_entity(&employee()).unwrap().iter() {
            dynamic.set(name, value.clone());
        }
        dynamic
            .to::<Employee>()
            .map(|_| ())
            .map_err(|error| (error.kind().clone(), error.to_string()))
    };
    assert_eq!(other("Sales", "empid_000001"), Ok(()));
    for (partition, row, message) in [
        ("Sales", "emp_000001", "it does not continue with `empid_` at `emp_000001`"),
        ("Sales", "empid_000001x", "it goes on at `x`"),
        ("Sales", "empid_00001", "key part `id` is not 6 digits in the key"),
        ("R&D", "empid_000001", "key part `dept` is not text as escaped in the key"),
    ] {
        let (kind, text) = other(partition, row).unwrap_err();
        assert!(matches!(kind, ErrorKind::Invalid { rule: Rule::KeyTemplate, .. }), "{kind:?}");
        assert!(text.contains(message), "{text}");
    }
}

#[derive(Debug, Clone, PartialEq, Entity)]
struct Open {
    #[entity(partition)]
    zone: String,
    #[entity(row = "o_{}", store)]
    no: i64,
    #[entity(write_id)]
    write: Option<Uuid>,
    #[entity(rest)]
    rest: Vec<(String, Value)>,
}

/// G96.
#[test]
fn properties_that_are_not_known_are_kept() {
    let mut row = DynEntity::new("z", "o_10000000000000000042");
    row.set("no", 42_i64);
    row.set("colour", "red");
    row.set("write", Uuid::from_u128(3));
    let open: Open = row.to().unwrap();
    assert_eq!(open.no, 42);
    assert_eq!(open.write, Some(Uuid::from_u128(3)));
    assert_eq!(open.rest, [("colour".to_owned(), Value::from("red"))]);
    let back = DynEntity::from_entity(&open).unwrap();
    assert_eq!(back.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["no", "write", "colour"]);
    assert_eq!(Open::NO.eq(42).to_string(), "no eq 42L");
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition = "mail", row = "{email:lower}")]
struct Account {
    email: String,
}

#[test]
fn a_part_in_lower_case_is_stored_as_it_is_too() {
    let account = Account { email: "Ann@X.org".to_owned() };
    let row = DynEntity::from_entity(&account).unwrap();
    assert_eq!(row.row(), "ann@x.org");
    assert_eq!(row.get::<String>("email").unwrap(), "Ann@X.org");
    assert_eq!(row.to::<Account>().unwrap(), account);
}

#[cfg(feature = "json")]
mod json {
    use super::*;

    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Tag {
        name: String,
        weight: u64,
    }

    #[derive(Debug, Clone, PartialEq, Entity)]
    #[entity(partition = "p", row = "{id}")]
    struct Tagged {
        id: u64,
        #[entity(json)]
        tags: Vec<Tag>,
        #[entity(json)]
        extra: Option<Tag>,
    }

    /// G6.
    #[test]
    fn nested_data_is_one_text() {
        let tags = vec![Tag { name: "a".to_owned(), weight: 7 }];
        let tagged = Tagged { id: 1, tags, extra: None };
        let row = DynEntity::from_entity(&tagged).unwrap();
        assert_eq!(row.get::<String>("tags").unwrap(), r#"[{"name":"a","weight":7}]"#);
        assert_eq!(row.value("extra"), None);
        assert_eq!(row.to::<Tagged>().unwrap(), tagged);
        let mut row = row;
        row.set("tags", "[");
        let error = row.to::<Tagged>().unwrap_err();
        assert_eq!(error.to_string(), "property `tags` is a text that its type cannot read");
    }
}

#[test]
fn columns_know_names_and_types() {
    let filter = Employee::LAST.eq("Jones").and(Employee::VISITS.gt(0)).and(Employee::AGE.le(30));
    assert_eq!(filter.to_string(), "Last eq 'Jones' and Visits gt 0L and Age le 30");
    assert_eq!(Employee::EMAIL.starts_with("a").to_string(), "mail ge 'a' and mail lt 'b'");
    assert_eq!(Employee::COUNT.eq("7").to_string(), "Count eq '7'");
    let city = Employee::WORK.column(Address::CITY);
    assert_eq!(city.eq("Oslo").to_string(), "WorkCity eq 'Oslo'");
    let lat = Employee::WORK.column(Address::PLACE.column(Place::LAT));
    assert_eq!(lat.lt(60.0).to_string(), "WorkGeolat lt 60.0");
}
