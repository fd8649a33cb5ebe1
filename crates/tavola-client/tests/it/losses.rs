//! G92: calls whose replies are lost, against the real service.

use std::time::Duration;

use tavola_client::{
    ClientOptions, Created, DynEntity, ErrorKind, IfMatch, Mode, Observed, OnUnknown, Outcome,
    Proof, Retry, TableServiceClient,
};

use super::common::{Fate, Faulty, age, losing, person, table};

fn plain() -> ClientOptions {
    ClientOptions::default()
}

#[tokio::test(start_paused = true)]
async fn an_insert_is_found_by_its_content_or_by_its_id() {
    for (options, proof) in [(plain(), Proof::Content), (plain().write_ids(), Proof::WriteId)] {
        let (store, client) = table().await;
        let (faulty, losing) = losing(&store, &[Fate::LostReply], options);
        let written = losing.insert(&person("1", 5)).await.unwrap();
        assert_eq!((written.proof, written.attempts), (proof, 1));
        assert!(written.etag.is_some());
        assert_eq!(faulty.seen(), ["InsertEntity", "QueryEntity"]);
        assert_eq!(age(&client, "1").await, Some(5));
    }
}

#[tokio::test(start_paused = true)]
async fn an_insert_that_never_arrived_is_repeated() {
    let (store, client) = table().await;
    let (faulty, losing) = losing(&store, &[Fate::LostRequest], plain());
    let written = losing.insert(&person("1", 5)).await.unwrap();
    assert_eq!((written.proof, written.attempts), (Proof::Reply, 2));
    assert_eq!(faulty.seen(), ["InsertEntity", "QueryEntity", "InsertEntity"]);
    assert_eq!(age(&client, "1").await, Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_never_taken_twice() {
    let (store, _client) = table().await;
    let (_, losing) = losing(&store, &[Fate::LostReply], plain());
    let error = losing.insert(&person("1", 5)).claim().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    let ErrorKind::Unknown { observed, settles_at, .. } = error.kind() else { panic!("{error}") };
    assert_eq!(*observed, Some(Observed::Equal));
    assert!(settles_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn another_entity_has_the_key() {
    let (store, client) = table().await;
    let (_, losing) = losing(&store, &[Fate::LostRequest], plain());
    client.insert(&person("1", 9)).await.unwrap();
    let error = losing.insert(&person("1", 5)).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_replace_is_repeated_only_if_the_version_is_the_same() {
    let (store, client) = table().await;
    client.insert(&person("1", 5)).await.unwrap();
    let read = || async { client.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap() };

    let (_, lost_request) = losing(&store, &[Fate::LostRequest], plain());
    let mut stored = read().await;
    stored.set("Age", 6);
    let written = lost_request.replace(&mut stored).await.unwrap();
    assert_eq!((written.proof, written.attempts), (Proof::Reply, 2));
    assert_eq!(Some(stored.etag()), written.etag.as_ref());

    let (_, lost_reply) = losing(&store, &[Fate::LostReply], plain());
    let mut stored = read().await;
    stored.set("Age", 7);
    let error = lost_reply.replace(&mut stored).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "equal content is no proof");
    assert_eq!(age(&client, "1").await, Some(7));

    let (_, with_ids) = losing(&store, &[Fate::LostReply], plain().write_ids());
    let mut stored = read().await;
    stored.set("Age", 8);
    let written = with_ids.replace(&mut stored).await.unwrap();
    assert_eq!(written.proof, Proof::WriteId);
    assert_eq!(age(&client, "1").await, Some(8));
}

#[tokio::test(start_paused = true)]
async fn unconditional_writes_claim_a_state() {
    let (store, client) = table().await;
    for fate in [Fate::LostRequest, Fate::LostReply] {
        let (_, losing) = losing(&store, &[fate], plain());
        losing.upsert(&person("1", 5), Mode::Replace).await.unwrap();
        assert_eq!(age(&client, "1").await, Some(5));
        let (_, losing) = super::common::losing(&store, &[fate], plain());
        losing.update(&person("1", 6), Mode::Merge, IfMatch::Any).await.unwrap();
        assert_eq!(age(&client, "1").await, Some(6));
        let (_, losing) = super::common::losing(&store, &[fate], plain());
        losing.delete_at::<DynEntity>(("Smith", "1"), IfMatch::Any).await.unwrap();
        assert_eq!(age(&client, "1").await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn create_if_missing() {
    let (store, client) = table().await;
    let (_, losing) = losing(&store, &[Fate::LostReply], plain());
    let created = losing.create_if_missing(&person("1", 5)).await.unwrap();
    assert!(matches!(created, Created::Existing(_)), "without an id nobody knows whose it is");
    let (_, losing) = super::common::losing(&store, &[Fate::LostReply], plain().write_ids());
    let created = losing.create_if_missing(&person("2", 5)).await.unwrap();
    assert!(matches!(created, Created::New(_)));
    let Created::Existing(found) = client.create_if_missing(&person("1", 9)).await.unwrap() else {
        panic!("there is one")
    };
    assert_eq!(found.get::<i32>("Age").unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn transactions() {
    let (store, client) = table().await;
    let (faulty, losing) = losing(&store, &[Fate::LostReply], plain());
    let mut transaction = losing.transaction("Smith");
    transaction.insert(&person("1", 5)).unwrap().upsert(&person("2", 6), Mode::Merge).unwrap();
    let written = transaction.commit().await.unwrap();
    assert_eq!(written.iter().map(|one| one.proof).collect::<Vec<_>>(), [Proof::Content; 2]);
    assert_eq!(faulty.seen(), ["EntityGroupTransaction", "QueryEntity"]);

    // Only unconditional operations: all rows count, and what is done already is not repeated.
    let fates = [Fate::LostRequest];
    let (faulty, losing) = super::common::losing(&store, &fates, plain());
    let mut transaction = losing.transaction("Smith");
    transaction.delete_row("1").unwrap().upsert(&person("3", 7), Mode::Replace).unwrap();
    let written = transaction.commit().await.unwrap();
    assert_eq!(written.len(), 2);
    assert_eq!(
        faulty.seen(),
        ["EntityGroupTransaction", "QueryEntity", "QueryEntity", "EntityGroupTransaction"]
    );
    assert_eq!((age(&client, "1").await, age(&client, "3").await), (None, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_back_is_an_unknown_outcome() {
    let (store, _client) = table().await;
    let faulty = Faulty::without_reads(store, &[Fate::LostReply]);
    let losing = TableServiceClient::on(faulty.clone(), None).table_client("people");
    let error = losing.insert(&person("1", 5)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unknown { observed: None, .. }), "{error}");
    assert!(error.to_string().contains("may or may not have been applied"), "{error}");
    assert_eq!(faulty.seen(), ["InsertEntity", "QueryEntity", "QueryEntity", "QueryEntity"]);
}

#[tokio::test(start_paused = true)]
async fn reported_at_once() {
    let (store, _client) = table().await;
    let (faulty, losing) =
        losing(&store, &[Fate::LostReply], plain().on_unknown(OnUnknown::Report));
    let error = losing.insert(&person("1", 5)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(faulty.seen(), ["InsertEntity"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_sent_is_repeated_freely() {
    let (store, client) = table().await;
    let (faulty, losing) = losing(&store, &[Fate::NotSent; 3], plain());
    let written = losing.insert(&person("1", 5)).await.unwrap();
    assert_eq!((written.proof, written.attempts), (Proof::Reply, 4));
    assert_eq!(faulty.seen(), ["InsertEntity"; 4]);
    assert_eq!(age(&client, "1").await, Some(5));
    let (_, losing) = super::common::losing(&store, &[Fate::NotSent; 9], plain());
    let error = losing.insert(&person("2", 5)).await.unwrap_err();
    assert_eq!((error.outcome(), error.context().attempts), (Outcome::NotSent, 5));
    assert_eq!(*error.kind(), ErrorKind::Connect);
}

/// A part of the deadline is kept to find out what became of the write.
#[tokio::test(start_paused = true)]
async fn a_deadline_leaves_time_for_the_read_back() {
    let (store, _client) = table().await;
    let (faulty, losing) = losing(&store, &[Fate::Hangs], plain());
    let begun = tokio::time::Instant::now();
    let call = losing.insert(&person("1", 5)).deadline(Duration::from_secs(4));
    let error = call.retry(Retry::none()).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert_eq!(faulty.seen(), ["InsertEntity", "QueryEntity"]);
    assert!(begun.elapsed() <= Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn modify_does_not_loop_on_a_lost_reply_unless_told() {
    let (store, client) = table().await;
    client.insert(&person("1", 5)).await.unwrap();
    let increment = |person: &mut DynEntity| {
        *person.get_mut::<i32>("Age")? += 1;
        Ok(())
    };
    let (_, losing) = losing(&store, &[Fate::LostReply], plain());
    let error = losing.try_modify(("Smith", "1"), increment).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(age(&client, "1").await, Some(6), "it was applied, once");
    let (_, losing) = super::common::losing(&store, &[Fate::LostReply], plain());
    let set = |person: &mut DynEntity| drop(person.set("Age", 42));
    let modified = losing.modify(("Smith", "1"), set).idempotent().await.unwrap();
    assert!(modified.written.is_none(), "the second look found it done");
    assert_eq!(age(&client, "1").await, Some(42));
}
