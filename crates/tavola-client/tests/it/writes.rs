//! Writes: what they return, and what they overwrite. G6, G35, G88 to G93, G168, G175. G91 and G92
//! have their whole tables in `losses.rs` and `unknown.rs`, bulk writes a file of their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tavola_client::__store::Runtime;
use tavola_client::{
    BoxFuture, ClientOptions, Created, DynEntity, Entity, ErrorKind, Failure, IfMatch, Mode,
    Outcome, Proof, Reply, Request, StoreTraits, TableClient, TableServiceClient, TableStore,
    Value, Written,
};
use tavola_core::TableRequest;
use tavola_local::LocalStore;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::common::{Fate, age, losing, person, table};
use super::http::{client, not_found, read_request};

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition = "{dept}", row = "{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    #[entity(json)]
    skills: HashMap<String, Vec<u8>>,
}

/// G6: a complex value is one property, by declaration, and comes back as it was.
#[tokio::test]
async fn a_complex_value_is_one_property() {
    let (_, t) = table().await;
    let skills =
        HashMap::from([("Rust".to_owned(), vec![1, 2]), ("O'Caml \"5\"".to_owned(), vec![])]);
    let employee = Employee { dept: "Sales".to_owned(), id: 7, skills };
    t.insert(&employee).await.unwrap();
    let found = t.get(Employee::key().dept("Sales").id(7)).await.unwrap().unwrap();
    assert_eq!(*found, employee);
    let row = t.get::<DynEntity>(("Sales", "000007")).await.unwrap().unwrap();
    let Some(Value::String(text)) = row.value("skills") else { panic!("{row:?}") };
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(json["Rust"], serde_json::json!([1, 2]));
    let mut broken = DynEntity::new("Sales", "000008");
    broken.set("skills", "{");
    t.insert(&broken).await.unwrap();
    let error = t.get(Employee::key().dept("Sales").id(8)).await.unwrap_err();
    assert!(error.to_string().contains("skills"), "{error}");
}

/// G175: every write returns its status, ETag and Timestamp.
#[tokio::test]
async fn every_write_says_what_it_came_to() {
    let (_, t) = table().await;
    async fn is_stored(t: &TableClient, written: &Written) {
        let stored = t.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
        assert_eq!((written.status, written.proof), (204, Proof::Reply));
        assert_eq!(written.etag.as_ref(), Some(stored.etag()));
        assert_eq!(written.timestamp, Some(stored.timestamp()));
    }
    is_stored(&t, &t.insert(&person("1", 1)).await.unwrap()).await;
    is_stored(&t, &t.upsert(&person("1", 2), Mode::Replace).await.unwrap()).await;
    is_stored(&t, &t.upsert(&person("1", 3), Mode::Merge).await.unwrap()).await;
    is_stored(&t, &t.update(&person("1", 4), Mode::Replace, IfMatch::Any).await.unwrap()).await;
    is_stored(&t, &t.update(&person("1", 5), Mode::Merge, IfMatch::Any).await.unwrap()).await;
    let mut stored = t.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    stored.set("Age", 6);
    is_stored(&t, &t.replace(&mut stored).await.unwrap()).await;
    let modified = t.modify::<DynEntity>(("Smith", "1"), |one| drop(one.set("Age", 7))).await;
    is_stored(&t, &modified.unwrap().written.unwrap()).await;
    let mut both = t.transaction("Smith");
    both.upsert(&person("1", 8), Mode::Merge).unwrap().insert(&person("2", 1)).unwrap();
    let both = both.commit().await.unwrap();
    is_stored(&t, &both[0]).await;
    assert_ne!(both[1].etag, None);
    let stored = t.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    let deleted = t.delete(&stored).await.unwrap();
    assert_eq!((deleted.status, deleted.etag, deleted.timestamp), (204, None, None));
}

/// G88: the version is checked by default; a write to any version says so.
#[tokio::test]
async fn versions_are_checked_unless_told_otherwise() {
    let (_, t) = table().await;
    t.insert(&person("1", 1)).await.unwrap();
    let mut old = t.get::<DynEntity>(("Smith", "1")).await.unwrap().unwrap();
    t.upsert(&person("1", 2), Mode::Merge).await.unwrap();
    old.set("Age", 9);
    let error = t.replace(&mut old).await.unwrap_err();
    assert!(error.is_changed() && error.outcome() == Outcome::NotApplied, "{error}");
    assert!(t.delete(&old).await.unwrap_err().is_changed());
    let mut transaction = t.transaction("Smith");
    transaction.replace(&old).unwrap();
    assert!(transaction.commit().await.unwrap_err().is_changed());
    assert!(t.bulk().delete_all([old]).await.unwrap().into_result().unwrap_err().is_changed());
    assert_eq!(age(&t, "1").await, Some(2));
    t.update(&person("1", 3), Mode::Replace, IfMatch::Any).await.unwrap();
    assert_eq!(age(&t, "1").await, Some(3));
    t.delete_at::<DynEntity>(("Smith", "1"), IfMatch::Any).await.unwrap();
    assert_eq!(age(&t, "1").await, None);
}

/// A service on which somebody else writes the row after each read of it, so many times.
#[derive(Debug)]
struct Rival {
    inner: Arc<LocalStore>,
    writes: Mutex<u32>,
}

impl TableStore for Rival {
    fn execute(&self, request: Request) -> BoxFuture<'_, Result<Reply, Failure>> {
        let is_read = matches!(request.operation(), TableRequest::GetEntity(..));
        Box::pin(async move {
            let reply = self.inner.execute(request).await;
            let writes = {
                let mut left = self.writes.lock().unwrap();
                let writes = is_read && *left > 0;
                *left -= u32::from(writes);
                writes
            };
            if writes {
                let rival = TableServiceClient::on(self.inner.clone(), None).table_client("people");
                let add = |one: &mut DynEntity| *one.get_mut::<i32>("Age").unwrap() += 100;
                rival.modify::<DynEntity>(("Smith", "1"), add).await.unwrap();
            }
            reply
        })
    }

    fn traits(&self) -> StoreTraits {
        self.inner.traits()
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
}

/// G89: read, change, write under the ETag, begin anew after a conflict, ten times at most.
#[tokio::test(start_paused = true)]
async fn modify_loops_and_its_loop_is_bounded() {
    let (store, t) = table().await;
    t.insert(&person("1", 0)).await.unwrap();
    let against = |writes| {
        let rival = Arc::new(Rival { inner: store.clone(), writes: Mutex::new(writes) });
        TableServiceClient::on(rival, None).table_client("people")
    };
    let add = |one: &mut DynEntity| *one.get_mut::<i32>("Age").unwrap() += 1;
    let modified = against(9).modify::<DynEntity>(("Smith", "1"), add).await.unwrap();
    assert_eq!(modified.entity.get::<i32>("Age").unwrap(), 901);
    assert_eq!(age(&t, "1").await, Some(901));
    let error = against(99).modify::<DynEntity>(("Smith", "1"), add).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Modify { attempts: 10, .. }), "{error:?}");
    assert_eq!(age(&t, "1").await, Some(1901), "only the rival's");
    assert!(error.to_string().contains("('Smith', '1')"), "{error}");
}

/// G90: a deletion of what may be gone, and a creation of what may be there.
#[tokio::test]
async fn what_may_be_there_and_what_may_be_gone() {
    let (_, t) = table().await;
    let fresh = t.create_if_missing(&person("1", 5)).await.unwrap();
    assert!(matches!(fresh, Created::New(Written { status: 204, .. })), "{fresh:?}");
    let person = person("1", 6);
    let Created::Existing(found) = t.create_if_missing(&person).await.unwrap() else {
        panic!("it was there")
    };
    assert_eq!(found.get::<i32>("Age").unwrap(), 5, "nothing was overwritten");
    assert!(t.delete_if_exists::<DynEntity>(("Smith", "1")).await.unwrap());
    assert!(!t.delete_if_exists::<DynEntity>(("Smith", "1")).await.unwrap());
    let gone = TableServiceClient::on(tavola_local::in_memory(), None).table_client("gone");
    let error = gone.delete_if_exists::<DynEntity>(("Smith", "1")).await.unwrap_err();
    assert_eq!(error.code(), Some("TableNotFound"), "not the same as an entity that is gone");
}

/// G91: what was not sent is repeated after pauses that differ from client to client.
#[tokio::test(start_paused = true)]
async fn pauses_have_jitter() {
    let mut pauses = Vec::new();
    for row in 0..8 {
        let (store, _) = table().await;
        let (faulty, t) = losing(&store, &[Fate::NotSent; 3], ClientOptions::default());
        let begun = tokio::time::Instant::now();
        assert_eq!(t.insert(&person(&row.to_string(), 1)).await.unwrap().attempts, 4);
        assert_eq!(faulty.seen().len(), 4);
        pauses.push(begun.elapsed());
    }
    assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(200 + 400 + 800 + 10)));
    pauses.sort_unstable();
    pauses.dedup();
    assert!(pauses.len() > 1, "{pauses:?}");
}

/// G92: a write whose reply was lost is read back: applied, it is not sent again.
#[tokio::test]
async fn a_lost_reply_is_resolved_by_a_read() {
    let (store, plain) = table().await;
    let (faulty, t) = losing(&store, &[Fate::LostReply], ClientOptions::default());
    let written = t.insert(&person("1", 5)).await.unwrap();
    assert_eq!((written.proof, written.attempts), (Proof::Content, 1));
    assert_eq!(faulty.seen(), ["InsertEntity", "QueryEntity"]);
    assert_eq!(age(&plain, "1").await, Some(5));
}

/// G93: the limits are those of the merged entity, so that the service says it.
#[tokio::test]
async fn limits_are_those_of_the_merged_entity() {
    let (_, t) = table().await;
    let wide = |prefix: &str, count: usize| {
        let mut one = DynEntity::new("Smith", "1");
        (0..count).for_each(|number| drop(one.set(format!("{prefix}{number}"), 1)));
        one
    };
    t.insert(&wide("a", 200)).await.unwrap();
    t.upsert(&wide("b", 52), Mode::Merge).await.unwrap();
    let error = t.upsert(&wide("c", 1), Mode::Merge).await.unwrap_err();
    assert_eq!((error.status(), error.outcome()), (Some(400), Outcome::NotApplied), "{error}");
    let mut large = DynEntity::new("Smith", "2");
    (0..9).for_each(|number| drop(large.set(format!("a{number}"), "x".repeat(32_000))));
    t.insert(&large).await.unwrap();
    let mut more = DynEntity::new("Smith", "2");
    (0..9).for_each(|number| drop(more.set(format!("b{number}"), "x".repeat(32_000))));
    let error = t.upsert(&more, Mode::Merge).await.unwrap_err();
    assert_eq!((error.status(), error.outcome()), (Some(400), Outcome::NotApplied), "{error}");
    let kept = t.get::<DynEntity>(("Smith", "2")).await.unwrap().unwrap();
    assert_eq!(kept.iter().count(), 9, "nothing of it was applied");
}

/// G35: the failing operation is named by its index and by the caller's own key.
#[tokio::test]
async fn a_transaction_names_the_operation_that_failed() {
    let (_, t) = table().await;
    t.insert(&person("3", 3)).await.unwrap();
    let people: Vec<_> = (1..=5).map(|row| person(&row.to_string(), row)).collect();
    let mut transaction = t.transaction("Smith");
    for one in &people {
        transaction.insert(one).unwrap();
    }
    let error = transaction.commit().await.unwrap_err();
    let ErrorKind::Transaction { index: Some(index), .. } = error.kind() else {
        panic!("{error:?}")
    };
    assert_eq!(people[*index].row(), "3");
    let key = error.context().key.as_ref().unwrap();
    assert_eq!((key.partition(), key.row()), ("Smith", "3"));
    assert_eq!(age(&t, "1").await, None, "nothing was applied");
    let report = t.bulk().insert_all(people.clone()).await.unwrap();
    assert_eq!(report.failed[0].inputs, [0, 1, 2, 3, 4]);
}

/// G168: calls are futures that any thread may run, a client is shared, and at most so many requests
/// are under way at a time.
#[tokio::test]
async fn requests_under_way_are_bounded() {
    fn any_thread<T: Send>(future: T) -> T {
        future
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let counts = Arc::new(Mutex::new((0_usize, 0_usize)));
    let seen = counts.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                while read_request(&mut socket).await.is_some() {
                    {
                        let mut counts = seen.lock().unwrap();
                        counts.0 += 1;
                        counts.1 = counts.1.max(counts.0);
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    seen.lock().unwrap().0 -= 1;
                    socket.write_all(not_found().unwrap().as_bytes()).await.unwrap();
                }
            });
        }
    });
    let shared = client(&address, ClientOptions::default().parallel_requests(3));
    let calls = (0..12).map(|number| {
        let client = shared.clone();
        tokio::spawn(any_thread(async move {
            client.get::<DynEntity>(("p", number.to_string())).await.unwrap().is_none()
        }))
    });
    assert!(join_all(calls).await.into_iter().all(|one| one.unwrap()));
    assert_eq!(counts.lock().unwrap().1, 3);
    drop(any_thread(shared.insert(&person("1", 1)).into_future()));
    drop(any_thread(shared.scan::<DynEntity>().stream()));
    drop(any_thread(shared.bulk().insert_all([person("1", 1)]).into_future()));
    fn is_shared<T: Send + Sync + Clone>(_: &T) {}
    is_shared(&shared);
}
