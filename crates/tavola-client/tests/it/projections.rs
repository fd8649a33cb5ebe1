//! Some properties instead of all.

use tavola_client::entity::Selection;
use tavola_client::{Entity, Projection, only};

#[derive(Debug, Entity)]
#[entity(rename_all = "PascalCase", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    age: Option<i32>,
    #[entity(rename = "seen")]
    visits: i64,
}

#[derive(Debug, PartialEq, Projection)]
#[projection(of = Employee)]
struct Card {
    last: String,
    age: Option<i32>,
    visits: i64,
}

#[test]
fn a_projection_asks_for_the_names_of_the_entity() {
    assert_eq!(only::<Card>().names(), ["Last", "Age", "seen"]);
    assert_eq!((Employee::LAST, Employee::VISITS).names(), ["Last", "seen"]);
    let card = Card { last: "Jones".to_owned(), age: None, visits: 3 };
    assert_eq!(card.age, None);
    let employee =
        Employee { dept: "d".into(), id: 1, last: card.last, age: card.age, visits: card.visits };
    assert_eq!(employee.entity_key().unwrap().row(), "empid_000001");
}
