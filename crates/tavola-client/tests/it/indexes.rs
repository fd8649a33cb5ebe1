//! Other keys by which an entity is found.

use tavola_client::__private::Index;
use tavola_client::{Entity, KeyRange};

#[derive(Debug, Clone, Entity)]
#[entity(rename_all = "PascalCase", partition = "{dept}", row = "empid_{id:06}")]
#[entity(index(email, row = "email_{email:lower}", unique, copy(last)))]
#[entity(index(last, partition = "last_{dept}!{last}", row = "{id:06}"))]
#[entity(index(badge, row = "badge_{badge}!{id:06}", full))]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    email: String,
    badge: Option<String>,
}

fn employee(badge: Option<&str>) -> Employee {
    Employee {
        dept: "Sales".to_owned(),
        id: 212,
        last: "Jones".to_owned(),
        email: "Ann@X.org".to_owned(),
        badge: badge.map(str::to_owned),
    }
}

#[test]
fn each_index_has_its_key() {
    let keys = |employee: Employee| -> Vec<Option<String>> {
        let key = |at| employee.index_key(at).unwrap().map(|key| key.to_string());
        (0..4).map(key).collect()
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        keys(employee(Some("B 7"))),
        [
            text("('Sales', 'email_ann@x.org')"),
            text("('last_Sales!Jones', '000212')"),
            text("('Sales', 'badge_B$207!000212')"),
            None,
        ]
    );
    assert_eq!(keys(employee(None))[2], None);
}

#[test]
fn indexes_are_described() {
    let [email, last, badge] = Employee::INDEXES else { panic!() };
    assert_eq!(
        *email,
        Index {
            name: "email",
            same_partition: true,
            unique: true,
            full: false,
            copy: &["Last"],
            row: "email_",
        }
    );
    assert_eq!((last.name, last.same_partition, last.unique, last.row), ("last", false, false, ""));
    assert!(badge.full && badge.copy.is_empty());
}

#[test]
fn cursors_go_over_indexes() {
    let filter = |range: KeyRange<_>| range.to_filter().unwrap().to_string();
    assert_eq!(
        filter(Employee::by_email().dept("Sales").email_prefix("A")),
        "PartitionKey eq 'Sales' and RowKey ge 'email_a' and RowKey lt 'email_b'"
    );
    let point = Employee::by_email().dept("Sales").email("ANN@x.org");
    assert_eq!(point.into_key().unwrap().row(), "email_ann@x.org");
    assert_eq!(
        filter(Employee::by_last().dept("Sales").last("Jones").into()),
        "PartitionKey eq 'last_Sales!Jones' and RowKey ge '\"'"
    );
    assert_eq!(
        filter(Employee::by_last().dept("Sales").into()),
        "PartitionKey ge 'last_Sales!' and PartitionKey lt 'last_Sales\"'"
    );
    assert_eq!(
        filter(Employee::by_badge().dept("Sales").badge("B").into()),
        "PartitionKey eq 'Sales' and RowKey ge 'badge_B!' and RowKey lt 'badge_B\"'"
    );
}
