//! One to many, and links: G101 child and counter, G119 summary entities, G103 links, G105
//! inheritance, and what every pattern must show: G129 cuts, G130 races, G131 costs. G113: verify
//! and rebuild beside writers.

use tavola_client::patterns::{Link, LinksTo, OneToMany};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{
    DynEntity, Entity, ErrorKind, IfMatch, Outcome, PointKey, TableClient, TableServiceClient,
};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "department", partition = "{dept}", row = "dept")]
struct Department {
    dept: String,
    city: String,
    employees: i64,
    salaries: i64,
    manager: Option<Link<Employee>>,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    salary: i64,
}

/// G103: the department of an employee follows from the keys.
impl LinksTo<Department> for Employee {
    fn link(&self) -> Option<PointKey<Department>> {
        Some(Department::key().dept(&self.dept))
    }
}

fn staff(table: &TableClient) -> OneToMany<Department, Employee> {
    let staff = OneToMany::new(table, |one: &Employee| Department::key().dept(&one.dept));
    staff.count(|dept| &mut dept.employees).sum(|dept| &mut dept.salaries, |one| one.salary)
}

fn department(dept: &str) -> Department {
    let (dept, city) = (dept.to_owned(), "Rome".to_owned());
    Department { dept, city, employees: 0, salaries: 0, manager: None }
}

fn employee(id: u32, salary: i64) -> Employee {
    Employee { dept: "Sales".to_owned(), id, salary }
}

fn of(id: u32) -> PointKey<Employee> {
    Employee::key().dept("Sales").id(id)
}

async fn numbers(table: &TableClient) -> Result<(i64, i64), tavola_client::Error> {
    let sales = table.get(Department::key().dept("Sales")).await?.unwrap();
    Ok((sales.employees, sales.salaries))
}

/// A department with one employee.
async fn seed(sim: Sim) -> Checked {
    let table = sim.table("staff");
    table.create().await?;
    table.insert(&department("Sales")).await?;
    staff(&table).insert(&employee(1, 100)).await?;
    Ok(())
}

async fn is_clean(sim: Sim) -> Checked {
    let report = staff(&sim.table("staff")).verify("Sales").await?;
    if report.is_clean() { Ok(()) } else { Err(format!("{report:?}").into()) }
}

async fn delete(sim: Sim) -> Checked {
    let table = sim.table("staff");
    let one = table.get(of(1)).await?.ok_or("nobody")?;
    staff(&table).delete(&one).await?;
    Ok(())
}

/// The gap of a counter without a version: two insert, and one is counted.
#[tokio::test]
async fn a_counter_under_a_plain_update_loses_one() {
    let writer = |id: u32| {
        move |sim: Sim| async move {
            let table = sim.table("staff");
            let mut sales = table.get(Department::key().dept("Sales")).await?.ok_or("none")?;
            sales.employees += 1;
            let mut both = table.transaction("Sales");
            both.insert(&employee(id, 0))?;
            both.update(&*sales, tavola_client::Mode::Replace, &IfMatch::Any)?;
            both.commit().await?;
            Ok(())
        }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(writer(2)).writer(writer(3));
    let broken = race.finally(is_clean).run().await.unwrap_err();
    assert!(broken.reason().contains("stale: 1"), "{broken}");
}

/// G101, G119, G130: n writers; the numbers are exact at every moment, and none is lost.
#[tokio::test]
async fn children_race() {
    for (writers, orders) in [(2, 300), (8, 20)] {
        let mut all = race(tavola_local::in_memory).seed(seed);
        for id in 2..2 + writers {
            all = all.writer(move |sim: Sim| async move {
                staff(&sim.table("staff")).insert(&employee(id, 10)).await?;
                Ok(())
            });
        }
        let finally = move |sim: Sim| async move {
            let found = numbers(&sim.table("staff")).await?;
            let writers = i64::from(writers);
            if found == (1 + writers, 100 + 10 * writers) {
                return Ok(());
            }
            Err(format!("{found:?}").into())
        };
        all.at_most(orders, 20).always(is_clean).finally(finally).run().await.unwrap();
    }
    let raise = |sim: Sim| async move {
        match staff(&sim.table("staff")).modify(of(1), |one| one.salary += 50).await {
            // The other one deleted it.
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    };
    let dismiss = |sim: Sim| async move {
        loop {
            match delete(sim.clone()).await {
                Err(error) if error.to_string().contains("changed") => {}
                other => return other,
            }
        }
    };
    let relocate = |sim: Sim| async move {
        let key = Department::key().dept("Sales");
        sim.table("staff").modify(key, |dept: &mut Department| dept.city = "Oslo".into()).await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let found = numbers(&sim.table("staff")).await?;
        if found == (0, 0) { Ok(()) } else { Err(format!("{found:?}").into()) }
    };
    let race = race(tavola_local::in_memory).seed(seed).writer(raise).writer(dismiss);
    let race = race.writer(relocate).at_most(300, 100).always(is_clean).finally(finally);
    race.run().await.unwrap();
}

/// G101, G129: whatever is cut, the numbers are those of the children.
#[tokio::test]
async fn every_cut_leaves_numbers_right() {
    let scenario = |sim: Sim| async move {
        let staff = staff(&sim.table("staff"));
        staff.insert(&employee(2, 10)).await?;
        staff.modify(of(2), |one| one.salary = 20).await?;
        delete(sim.clone()).await?;
        sim.note("done");
        Ok(())
    };
    let finally = |sim: Sim| async move {
        let found = numbers(&sim.table("staff")).await?;
        let is_done = sim.notes().iter().any(|note| note == "done");
        if is_done && found != (1, 20) { Err(format!("{found:?}").into()) } else { Ok(()) }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed).always(is_clean);
    assert_eq!(cuts.finally(finally).run().await.unwrap().requests, 2 + 3 + 3);
}

/// G131: requests of each call; refusals.
#[tokio::test]
async fn costs_and_refusals() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
    table.create().await.unwrap();
    let staff = staff(&table);
    let error = staff.insert(&employee(1, 10)).await.unwrap_err();
    assert!(error.is_not_found(), "a child has a parent: {error}");
    table.insert(&department("Sales")).await.unwrap();
    let _ = counted.take();
    staff.insert(&employee(1, 10)).await.unwrap();
    assert_eq!(counted.take().len(), 2);
    staff.modify(of(1), |one| one.salary = 11).await.unwrap();
    assert_eq!(counted.take().len(), 3);
    staff.modify(of(1), |_| ()).await.unwrap();
    assert_eq!(counted.take().len(), 2);
    assert!(staff.insert(&employee(1, 10)).await.unwrap_err().is_conflict());
    let one = table.get(of(1)).await.unwrap().unwrap();
    let _ = counted.take();
    staff.delete(&one).await.unwrap();
    assert_eq!(counted.take().len(), 2);
    assert_eq!(numbers(&table).await.unwrap(), (0, 0));
    assert!(staff.verify("Sales").await.unwrap().is_clean());

    let elsewhere = OneToMany::<Department, Employee>::new(&table, |_| ("Other", "dept").into());
    let error = elsewhere.insert(&employee(2, 10)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent);
}

/// A child that is not counted, one that is counted and gone, and one without a parent.
async fn seed_drift(sim: Sim) -> Checked {
    seed(sim.clone()).await?;
    let table = sim.table("staff");
    table.insert(&employee(2, 7)).await?;
    table.insert(&employee(3, 7)).await?;
    table.delete_at::<Employee>(of(1), IfMatch::Any).await?;
    Ok(())
}

/// G113, G119, G129, G130: a summary can be recomputed, also if that is cut, and beside writers.
#[tokio::test]
async fn a_summary_is_recomputed() {
    let scenario = |sim: Sim| async move {
        let (table, staff) = (sim.table("staff"), staff(&sim.table("staff")));
        let orphan = Employee { dept: "Nowhere".to_owned(), ..employee(1, 0) };
        table.insert(&orphan).await?;
        assert_eq!(staff.verify("Nowhere").await?.orphan, 1);
        let found = staff.verify("Sales").await?;
        assert_eq!((found.stale, found.mended), (1, 0));
        let mended = staff.rebuild("Sales").await?;
        assert_eq!((mended.stale, mended.mended), (1, 1));
        assert_eq!(numbers(&table).await?, (2, 14));
        Ok(())
    };
    let alone = race(tavola_local::in_memory).seed(seed_drift).writer(scenario);
    alone.finally(is_clean).run().await.unwrap();
    let rebuild = |sim: Sim| async move {
        staff(&sim.table("staff")).rebuild("Sales").await?;
        Ok(())
    };
    let cuts = every_cut(tavola_local::in_memory, rebuild).seed(seed_drift).recover(rebuild);
    cuts.finally(is_clean).run().await.unwrap();
    let insert = |sim: Sim| async move {
        staff(&sim.table("staff")).insert(&employee(4, 1)).await?;
        Ok(())
    };
    let race = race(tavola_local::in_memory).seed(seed_drift).writer(rebuild).writer(insert);
    let race = race.writer(insert_five).at_most(300, 50);
    race.finally(is_clean).run().await.unwrap();
}

async fn insert_five(sim: Sim) -> Checked {
    staff(&sim.table("staff")).insert(&employee(5, 1)).await?;
    Ok(())
}

/// G103: links by convention and stored ones give keys, whatever is in them.
#[tokio::test]
async fn links_are_keys() {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("staff");
    table.create().await.unwrap();
    let (sales, one) = (department("Sales"), employee(104, 5));
    table.insert(&one).await.unwrap();
    let link = Link::new(of(104)).unwrap();
    table.insert(&Department { manager: Some(link.clone()), ..sales }).await.unwrap();

    let stored = table.get(Department::key().dept("Sales")).await.unwrap().unwrap();
    assert_eq!(stored.manager, Some(link));
    assert_eq!(stored.manager.follow(&table).await.unwrap().map(|one| one.into_inner()), Some(one));
    let back: Option<_> = employee(104, 5).follow(&table).await.unwrap();
    assert_eq!(
        back.map(|dept: tavola_client::Stored<Department>| dept.city.clone()).as_deref(),
        Some("Rome")
    );
    assert!(None::<Link<Employee>>.follow(&table).await.unwrap().is_none());

    let raw = table.get::<DynEntity>(("Sales", "dept")).await.unwrap().unwrap();
    assert_eq!(raw.get::<String>("manager").unwrap(), "Sales!empid_000104");
    for (partition, row) in [("", ""), ("a!b", "c,d"), ("ü 'x'", "\"$}~"), ("p", "a!b!c")] {
        let mut row_with_link = DynEntity::new("x", "y");
        let link = Link::<DynEntity>::new((partition, row)).unwrap();
        row_with_link.set("l", &link);
        assert_eq!(row_with_link.get::<Link<DynEntity>>("l").unwrap(), link);
        assert_eq!((link.key().partition(), link.key().row()), (partition, row));
    }
    let mut broken = DynEntity::new("x", "y");
    broken.set("l", "no link");
    let error = broken.get::<Link<DynEntity>>("l").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Property { .. }));
    assert!(Link::<Employee>::new(("a/b", "c")).is_err());
}

/// G105: the sample of the page on relationships: concrete kinds of an abstract person in one
/// table.
mod inheritance {
    use futures_util::TryStreamExt as _;
    use tavola_client::{DynEntity, Entity, TableServiceClient, prop};

    #[derive(Entity, Debug, PartialEq)]
    #[entity(kind = "employee", partition = "person", row = "{id:06}")]
    struct Employee {
        id: u32,
        name: String,
        salary: i64,
    }

    #[derive(Entity, Debug, PartialEq)]
    #[entity(kind = "contractor", partition = "person", row = "{id:06}")]
    struct Contractor {
        id: u32,
        name: String,
        agency: String,
    }

    #[derive(Entity, Debug, PartialEq)]
    #[entity(mixed)]
    enum Person {
        Employee(Employee),
        Contractor(Contractor),
        #[entity(other)]
        Other(DynEntity),
    }

    impl Person {
        fn name(&self) -> String {
            match self {
                Self::Employee(one) => one.name.clone(),
                Self::Contractor(one) => one.name.clone(),
                Self::Other(one) => one.get("name").unwrap_or_default(),
            }
        }
    }

    #[tokio::test]
    async fn kinds_share_a_table() {
        let service = TableServiceClient::on(tavola_local::in_memory(), None);
        let table = service.table_client("people");
        table.create().await.unwrap();
        let name = |name: &str| name.to_owned();
        table.insert(&Employee { id: 1, name: name("Ann"), salary: 10 }).await.unwrap();
        let bob = Contractor { id: 2, name: name("Bob"), agency: name("x") };
        table.insert(&Person::Contractor(bob)).await.unwrap();
        let mut eve = DynEntity::new("person", "000003");
        eve.set("EntityType", "trainee");
        eve.set("name", "Eve");
        table.insert(&eve).await.unwrap();

        let everybody = table.filter::<Person>(prop("PartitionKey").eq("person"));
        let everybody: Vec<_> = everybody.stream().try_collect().await.unwrap();
        let names: Vec<_> = everybody.iter().map(|one| one.name()).collect();
        assert_eq!(names, ["Ann", "Bob", "Eve"]);
        assert!(matches!(*everybody[1], Person::Contractor(_)));
        assert!(matches!(&*everybody[2], Person::Other(eve) if eve.kind() == Some("trainee")));
        let ann = table.get::<Employee>(("person", "000001")).await.unwrap();
        assert_eq!(ann.map(|ann| ann.salary), Some(10));
    }
}
