//! Compound keys, rows behind those of another kind: G74, G79, and what every pattern must show:
//! G129 cuts, G130 races, G131 costs.

use futures_util::TryStreamExt as _;
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{Access, DynEntity, Entity, Mode, TableClient, TableServiceClient};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(family, kind = "employee", version = 2, upgrade(EmployeeV1))]
#[entity(partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(family, kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
struct EmployeeV1 {
    dept: String,
    id: u32,
    name: String,
}

impl From<EmployeeV1> for Employee {
    fn from(old: EmployeeV1) -> Self {
        Self { dept: old.dept, id: old.id, last: old.name }
    }
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(within = Employee, kind = "review")]
#[entity(partition = "{dept}", row = "empid_{id:06}_{year:04}")]
struct Review {
    dept: String,
    id: u32,
    year: u16,
    rating: i32,
}

/// Behind a review.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(within = Review, kind = "remark")]
#[entity(partition = "{dept}", row = "empid_{id:06}_{year:04}_{number:02}")]
struct Remark {
    dept: String,
    id: u32,
    year: u16,
    number: u8,
    text: String,
}

/// Behind a text.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(family, kind = "topic", partition = "{forum}", row = "{topic}")]
struct Topic {
    forum: String,
    topic: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(within = Topic, kind = "post", partition = "{forum}", row = "{topic}!{number:03}")]
struct Post {
    forum: String,
    topic: String,
    number: u16,
}

/// Rows of the family begin alike, and that is meant.
#[derive(Entity, Debug, Clone, PartialEq)]
enum Staff {
    Employee(Employee),
    Review(Review),
    Remark(Remark),
    #[entity(other)]
    Other(DynEntity),
}

fn employee(id: u32) -> Employee {
    Employee { dept: "Sales".to_owned(), id, last: "Jones".to_owned() }
}

fn review(id: u32, year: u16) -> Review {
    Review { dept: "Sales".to_owned(), id, year, rating: i32::from(year) }
}

fn remark(id: u32, year: u16) -> Remark {
    Remark { dept: "Sales".to_owned(), id, year, number: 1, text: "well".to_owned() }
}

async fn fill(table: &TableClient) -> Checked {
    let mut all = table.transaction("Sales");
    for id in [130, 131, 132] {
        all.insert(&employee(id))?;
        for year in [2021, 2022] {
            all.insert(&review(id, year))?;
        }
    }
    all.insert(&remark(131, 2021))?;
    // An index, a helper's row, and one of nobody's kind in the middle.
    all.insert(&DynEntity::new("Sales", "dept"))?;
    all.insert(&DynEntity::new("Sales", "empid_000131_x"))?;
    all.commit().await?;
    Ok(())
}

async fn seed(sim: Sim) -> Checked {
    sim.table("staff").create().await?;
    Ok(())
}

/// G74, G79, G131: one range reads the family, in one request and in the order (employee, year); a
/// range of one kind returns no other kind, in all its versions.
#[tokio::test]
async fn a_family_is_one_range() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
    table.create().await.unwrap();
    fill(&table).await.unwrap();
    let _ = counted.take();
    let cost = || counted.take().len();

    let key = || Employee::key().dept("Sales").id(131);
    let family: Vec<_> = table.query::<Staff>(key().family()).stream().try_collect().await.unwrap();
    assert_eq!(cost(), 1);
    let family: Vec<Staff> = family.into_iter().map(|row| row.into_inner()).collect();
    let expected = [
        Staff::Employee(employee(131)),
        Staff::Review(review(131, 2021)),
        Staff::Remark(remark(131, 2021)),
        Staff::Review(review(131, 2022)),
    ];
    assert_eq!(family[..4], expected);
    assert!(matches!(&family[4..], [Staff::Other(other)] if other.row() == "empid_000131_x"));
    let both = Review::key().dept("Sales").id(131).year(2021).family::<Staff>();
    let both: Vec<_> = table.query(both).stream().try_collect().await.unwrap();
    assert_eq!(both.len(), 2);
    let _ = cost();

    // One year is a point; all years of one, or of all, are reviews only.
    let one = Review::key().dept("Sales").id(131).year(2022);
    assert_eq!(*table.get(one).await.unwrap().unwrap(), review(131, 2022));
    for (keys, expected) in [
        (Review::key().dept("Sales").id(131).into(), vec![(131, 2021), (131, 2022)]),
        (Review::key().dept("Sales").id(131).year_in(2022..), vec![(131, 2022)]),
        (Review::key().dept("Sales").id_in(131..=132), {
            vec![(131, 2021), (131, 2022), (132, 2021), (132, 2022)]
        }),
    ] {
        let found = table.query::<Review>(keys);
        assert_eq!(found.explain().unwrap().azure, Access::RowRange);
        let found = found.stream().map_ok(|review| (review.id, review.year));
        assert_eq!(found.try_collect::<Vec<_>>().await.unwrap(), expected);
    }

    // Employees only, also those of the version before.
    let mut old = DynEntity::new("Sales", "empid_000133");
    old.set("EntityType", "employee");
    old.set("name", "Adler");
    table.insert(&old).await.unwrap();
    let employees = table.query(Employee::key().dept("Sales")).stream();
    let ids: Vec<_> = employees.map_ok(|employee| employee.id).try_collect().await.unwrap();
    assert_eq!(ids, [130, 131, 132, 133]);
    // One of a newer version is not passed over, but an error.
    let mut newer = DynEntity::new("Sales", "empid_000134");
    newer.set("EntityType", "employee@3");
    table.upsert(&newer, Mode::Replace).await.unwrap();
    let employees = table.query(Employee::key().dept("Sales")).stream();
    let error = employees.try_collect::<Vec<_>>().await.unwrap_err();
    assert!(error.to_string().contains("employee@3"), "{error}");
}

/// G74: behind a text too: topics that begin with the text of another are not of its family.
#[tokio::test]
async fn a_family_behind_a_text() {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("posts");
    table.create().await.unwrap();
    for topic in ["Jo", "Jo-a", "Jon", "Jo!"] {
        let (forum, topic) = ("f".to_owned(), topic.to_owned());
        table.insert(&Topic { forum: forum.clone(), topic: topic.clone() }).await.unwrap();
        for number in [1, 2] {
            let (forum, topic) = (forum.clone(), topic.clone());
            table.insert(&Post { forum, topic, number }).await.unwrap();
        }
    }
    for topic in ["Jo", "Jo-a", "Jon", "Jo!"] {
        let family = Topic::key().forum("f").topic(topic).family::<DynEntity>();
        let rows: Vec<_> = table.query(family).stream().try_collect().await.unwrap();
        assert_eq!(rows.len(), 3, "{topic}");
        let posts = table.query(Post::key().forum("f").topic(topic)).stream();
        let posts: Vec<_> = posts.try_collect().await.unwrap();
        assert!(posts.len() == 2 && posts.iter().all(|post| post.topic == topic), "{topic}");
    }
    let topics = table.query(Topic::key().forum("f")).stream();
    let topics: Vec<_> = topics.map_ok(|row| row.topic.clone()).try_collect().await.unwrap();
    assert_eq!(topics, ["Jo", "Jo!", "Jo-a", "Jon"]);
}

async fn hire(sim: Sim) -> Checked {
    let table = sim.table("staff");
    let mut both = table.transaction("Sales");
    both.insert(&employee(131))?.insert(&review(131, 2021))?;
    both.commit().await?;
    Ok(())
}

/// An employee and the first review are there, or neither is.
async fn both_or_none(sim: Sim) -> Checked {
    let table = sim.table("staff");
    let family = Employee::key().dept("Sales").id(131).family::<Staff>();
    let rows: Vec<_> = table.query(family).stream().try_collect().await?;
    match rows.len() {
        0 | 2 => Ok(()),
        other => Err(format!("{other} rows").into()),
    }
}

/// G129, G130: the family is in one partition, so that one transaction changes it.
#[tokio::test]
async fn one_transaction_changes_a_family() {
    let cuts = every_cut(tavola_local::in_memory, hire).seed(seed).always(both_or_none);
    assert_eq!(cuts.run().await.unwrap().requests, 1);
    let fire = |sim: Sim| async move {
        let table = sim.table("staff");
        let mut both = table.transaction("Sales");
        both.delete_row("empid_000131")?.delete_row("empid_000131_2021")?;
        match both.commit().await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(hire).writer(fire);
    race.writer(both_or_none).always(both_or_none).run().await.unwrap();
}
