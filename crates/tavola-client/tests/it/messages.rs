//! The texts of errors: what happened, to what, and what to do. One for each sample of the design.

use tavola_client::{ClientOptions, DynEntity, Entity, Outcome, Retry};

use super::common::{Fate, losing, person, table};
use super::http::{answer, client, server};

#[derive(Debug, Entity)]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
}

fn refused(status: &str, code: &str) -> Option<String> {
    let body = format!(
        "{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"no\"}}}}}}"
    );
    answer(status, "x-ms-request-id: 7c1e\r\ncontent-type: application/json\r\n", &body)
}

#[tokio::test]
async fn an_entity_exists() {
    let (address, _) = server(vec![refused("409 Conflict", "EntityAlreadyExists")]).await;
    let employees = client(&address, ClientOptions::default());
    let jones = Employee { dept: "Sales".to_owned(), id: 212 };
    let error = employees.insert(&jones).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "insert people ('Sales', 'empid_000212'): an entity with this key exists \
         (409 EntityAlreadyExists; request 7c1e)"
    );
}

#[tokio::test]
async fn an_operation_of_a_transaction() {
    let (_, people) = table().await;
    let mut stored = Vec::new();
    for row in ["1", "2", "3"] {
        people.insert(&person(row, 1)).await.unwrap();
        stored.push(people.get::<DynEntity>(("Smith", row)).await.unwrap().unwrap());
    }
    people.upsert(&person("3", 2), tavola_client::Mode::Replace).await.unwrap();
    let mut transaction = people.transaction("Smith");
    for one in &stored {
        transaction.replace(one).unwrap();
    }
    let error = transaction.commit().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "transaction people 'Smith', operation 3 of 3, replace '3': it was changed since it was read \
         (412 UpdateConditionNotSatisfied); nothing was applied"
    );
}

#[tokio::test]
async fn a_write_without_a_reply() {
    let (store, people) = table().await;
    people.insert(&person("1", 1)).await.unwrap();
    let mut stored = people.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    stored.set("Age", 2);
    let (_, losing_one) = losing(&store, &[Fate::LostReply], ClientOptions::default());
    let error = losing_one.replace(&mut stored).await.unwrap_err();
    let text = error.to_string();
    let beginning = "replace people ('Smith', '1'): no reply (connection reset), then found what was \
                     sent: the write may or may not have been applied; final after ";
    assert!(text.starts_with(beginning), "{text}");
    assert!(text.ends_with(" UTC; #[entity(write_id)] would decide it"), "{text}");
    assert_eq!(error.outcome(), Outcome::Unknown);

    let stored = people.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    let (_, losing_one) = losing(&store, &[Fate::LostReply], ClientOptions::default());
    let text = losing_one.delete(&stored).await.unwrap_err().to_string();
    assert!(text.contains("then found no entity") && text.ends_with(" UTC"), "{text}");
}

/// A transaction of which nobody knows says neither that it was applied nor that it was not.
#[tokio::test]
async fn a_transaction_without_a_reply() {
    let (address, _) = server(vec![refused("500 Error", "InternalError"), None]).await;
    let options = ClientOptions::default().retry(Retry::none());
    let people = client(&address, options);
    let mut transaction = people.transaction("Smith");
    transaction.insert(&person("1", 1)).unwrap().insert(&person("2", 1)).unwrap();
    let error =
        transaction.commit().on_unknown(tavola_client::OnUnknown::Report).await.unwrap_err();
    let text = error.to_string();
    let beginning =
        "transaction people 'Smith', 2 operations: no: the write may or may not have been";
    assert!(text.starts_with(beginning) && !text.contains("nothing was applied"), "{text}");
}

#[test]
fn a_key_part_that_is_too_wide() {
    let error = Employee { dept: "Sales".to_owned(), id: 1_000_000 }.entity_key().unwrap_err();
    assert_eq!(
        error.to_string(),
        "key part `id` = 1000000 has 7 digits, the template `empid_{id:06}` gives 6; \
         widen it (docs/patterns/rekey)"
    );
}

/// What is not a table service is told with its beginning and its address: HTML, JSON that ends in
/// the middle, and a type that is none.
#[tokio::test]
async fn somebody_else_answers() {
    for (kind, body, said) in [
        ("text/html", "<html><title>Proxy login", "answered 200 text/html"),
        ("application/json", "{\"PartitionKey\":\"p\",\"Row", "answered 200 application/json"),
        ("image/png", "PNG", "answered 200 image/png"),
    ] {
        let (address, _) =
            server(vec![answer("200 OK", &format!("content-type: {kind}\r\n"), body)]).await;
        let people = client(&address, ClientOptions::default().retry(Retry::none()));
        let error = people.get::<DynEntity>(("p", "r")).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "get people ('p', 'r'): {address}/account {said}, not a table service; it begins \
                 {body:?}"
            )
        );
        assert_eq!(error.context().endpoint.as_deref(), Some(&*format!("{address}/account")));
    }
}
