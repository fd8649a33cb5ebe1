//! The design patterns, which need nothing but tables.

use tavola_client::patterns::{LogTail, Series};
use tavola_client::{Entity, Properties};

use crate::site::Site;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
#[entity(index(email, row = "email_{email:lower}", unique, copy(last)))]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    email: String,
}

pub(super) async fn indexed(site: &Site) {
    let table = site.table().await;
    let staff = table.indexed::<Employee>();
    let employee = |id, email: &str| Employee {
        dept: "Sales".to_owned(),
        id,
        last: "Jones".to_owned(),
        email: email.to_owned(),
    };
    staff.insert(&employee(1, "ann@x.org")).await.unwrap();
    staff.insert(&employee(2, "bob@x.org")).await.unwrap();
    assert!(staff.insert(&employee(3, "Ann@x.org")).await.unwrap_err().is_conflict());
    let by_email = |email: &str| Employee::by_email().dept("Sales").email(email);
    let mut ann = staff.find(by_email("ann@x.org")).await.unwrap().unwrap();
    assert_eq!(ann.id, 1);
    ann.email = "anna@x.org".to_owned();
    staff.replace(&mut ann).await.unwrap();
    assert!(staff.find(by_email("ann@x.org")).await.unwrap().is_none());
    staff.delete(&ann).await.unwrap();
    let report = staff.verify("Sales").await.unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[derive(Properties, Debug, Clone, PartialEq)]
struct Note {
    text: String,
}

pub(super) async fn log_tail(site: &Site) {
    let table = site.table().await;
    let log = LogTail::new(&table).stream("000123");
    for text in ["a", "b", "c"] {
        log.append(&Note { text: text.to_owned() }).await.unwrap();
    }
    let latest = log.latest(2).await.unwrap();
    assert_eq!(
        latest.iter().map(|entry| entry.value.text.as_str()).collect::<Vec<_>>(),
        ["c", "b"]
    );
}

pub(super) async fn series(site: &Site) {
    let table = site.table().await;
    let hours = Series::<i64, 24>::new(&table, "H");
    hours.set(("000123", "20140822"), 9, 5).await.unwrap();
    hours.add(("000123", "20140822"), 9, 2).await.unwrap();
    hours.add(("000123", "20140822"), 10, 1).await.unwrap();
    let chart = hours.read(("000123", "20140822")).await.unwrap().unwrap();
    assert_eq!((chart[9], chart[10], chart[11]), (Some(7), Some(1), None));
}
