//! Several kinds and versions in one table.

use tavola_client::{DynEntity, Entity, ErrorKind, Value};

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
struct EmployeeV1 {
    dept: String,
    id: u32,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(kind = "employee", version = 2, upgrade(EmployeeV1))]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    first: String,
    last: String,
}

impl From<EmployeeV1> for Employee {
    fn from(old: EmployeeV1) -> Self {
        let (first, last) = old.name.split_once(' ').unwrap_or(("", &old.name));
        Self { dept: old.dept.clone(), id: old.id, first: first.into(), last: last.into() }
    }
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(kind = "department", partition = "{dept}", row = "dept")]
struct Department {
    dept: String,
    employees: i64,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(kind_by = "prefix", partition = "{dept}", row = "note_{no}")]
struct Note {
    dept: String,
    no: u16,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Entity)]
enum Staff {
    Employee(Employee),
    Department(Department),
    Note(Note),
    #[entity(other)]
    Other(DynEntity),
}

/// A row with its properties in this order.
fn row(key: &str, properties: &[(&str, Value)]) -> DynEntity {
    let mut row = DynEntity::new("Sales", key);
    for (name, value) in properties {
        row.set(*name, value.clone());
    }
    row
}

fn employee() -> Employee {
    let (first, last) = ("Don".to_owned(), "Hall".to_owned());
    Employee { dept: "Sales".to_owned(), id: 1, first, last }
}

/// G94, G100.
#[test]
fn versions_are_stored_and_older_ones_upgraded() {
    let new = DynEntity::from_entity(&employee()).unwrap();
    assert_eq!(new.get::<String>("EntityType").unwrap(), "employee@2");
    assert_eq!(new.kind(), Some("employee"));
    assert_eq!(new.to::<Employee>().unwrap(), employee());
    // Whatever stands first in the row.
    let (kind, name) = (("EntityType", "employee".into()), ("name", "Don Hall".into()));
    for properties in [[kind.clone(), name.clone()], [name.clone(), kind]] {
        let old = row("empid_000001", &properties);
        assert_eq!(old.to::<Employee>().unwrap(), employee());
    }
    // Version 1 can be written out.
    let old = row("empid_000001", &[name, ("EntityType", "employee@1".into())]);
    assert_eq!(old.to::<Employee>().unwrap(), employee());
}

#[test]
fn other_kinds_and_newer_versions_are_refused() {
    for (kind, found) in [
        (Some("employee@3"), Some("employee@3")),
        (Some("department"), Some("department")),
        (None, None),
    ] {
        let properties = [("first", "Don".into()), ("last", "Hall".into())];
        let mut row = row("empid_000001", &properties);
        if let Some(kind) = kind {
            row.set("EntityType", kind);
        }
        let error = row.to::<Employee>().unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::Kind { expected, found: text, .. }
                if expected == "employee@2" && text.as_deref() == found
        ));
    }
}

/// G95, G97.
#[test]
fn an_enum_reads_each_kind() {
    let staff = |row: &DynEntity| row.to::<Staff>().unwrap();
    let new = DynEntity::from_entity(&employee()).unwrap();
    assert_eq!(staff(&new), Staff::Employee(employee()));
    let old =
        row("empid_000001", &[("name", "Don Hall".into()), ("EntityType", "employee".into())]);
    assert_eq!(staff(&old), Staff::Employee(employee()));
    let department =
        row("dept", &[("employees", 2_i64.into()), ("EntityType", "department".into())]);
    assert_eq!(
        staff(&department),
        Staff::Department(Department { dept: "Sales".to_owned(), employees: 2 })
    );
    let note = row("note_00007", &[("text", "hello".into())]);
    let text = "hello".to_owned();
    assert_eq!(staff(&note), Staff::Note(Note { dept: "Sales".to_owned(), no: 7, text }));
    assert_eq!(DynEntity::from_entity(&staff(&note)).unwrap(), note);
}

/// G98.
#[test]
fn what_an_enum_does_not_know_is_written_back_whole() {
    for other in [
        row("x", &[]),
        row("x/y".replace('/', "_").as_str(), &[("EntityType", "car".into()), ("Doors", 5.into())]),
        row("empid_000001", &[("EntityType", "employee@3".into()), ("nick", "D".into())]),
        row("empid_000001", &[("a", 1.5.into()), ("EntityType", 7.into())]),
    ] {
        let read: Staff = other.to().unwrap();
        assert_eq!(read, Staff::Other(other.clone()));
        assert_eq!(DynEntity::from_entity(&read).unwrap(), other);
    }
}

#[test]
fn an_error_in_a_known_kind_is_an_error() {
    let bad = row("dept", &[("EntityType", "department".into()), ("employees", 2_i32.into())]);
    assert!(matches!(bad.to::<Staff>().unwrap_err().kind(), ErrorKind::Property { .. }));
}
