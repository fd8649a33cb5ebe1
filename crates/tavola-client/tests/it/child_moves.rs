//! Children that go to a parent in another partition: G102, and what every pattern must show: G129
//! cuts, G130 races, G131 costs.

use futures_util::TryStreamExt as _;
use tavola_client::patterns::{Moves, OneToMany, Outbox};
use tavola_client::testing::{Checked, Sim, counting, every_cut, race};
use tavola_client::{DynEntity, Entity, Outcome, PointKey, TableClient, TableServiceClient, prop};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "department", partition = "{dept}", row = "dept")]
struct Department {
    dept: String,
    employees: i64,
    salaries: i64,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(kind = "employee", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    salary: i64,
}

fn staff(table: &TableClient) -> OneToMany<Department, Employee> {
    let staff = OneToMany::new(table, |one: &Employee| Department::key().dept(&one.dept));
    staff.count(|dept| &mut dept.employees).sum(|dept| &mut dept.salaries, |one| one.salary)
}

fn department(dept: &str) -> Department {
    Department { dept: dept.to_owned(), employees: 0, salaries: 0 }
}

fn employee(id: u32, salary: i64) -> Employee {
    Employee { dept: "Sales".to_owned(), id, salary }
}

fn of(id: u32) -> PointKey<Employee> {
    Employee::key().dept("Sales").id(id)
}

fn moves(table: &TableClient) -> Moves<Department, Employee> {
    let relocate = |one: &mut Employee, to: &str| one.dept = to.to_owned();
    staff(table).moving(&Outbox::new(table), "move", relocate)
}

/// Two departments, and an employee in the first.
async fn seed_two(sim: Sim) -> Checked {
    let table = sim.table("staff");
    table.create().await?;
    for dept in ["Sales", "Support"] {
        table.insert(&department(dept)).await?;
    }
    staff(&table).insert(&employee(1, 100)).await?;
    Ok(())
}

async fn order_move(sim: Sim) -> Checked {
    let table = sim.table("staff");
    let one = table.get(of(1)).await?.ok_or("nobody")?;
    moves(&table).move_to(&one, "Support").await?;
    Ok(())
}

async fn work(sim: Sim) -> Checked {
    let table = sim.table("staff");
    Outbox::new(&table).worker().step(moves(&table).step()).drain().await?;
    Ok(())
}

/// The old place first, then the new one.
async fn both(sim: &Sim) -> Result<(Option<i64>, Option<i64>), tavola_client::Error> {
    let table = sim.table("staff");
    let old = table.get(of(1)).await?.map(|one| one.salary);
    let new = table.get(Employee::key().dept("Support").id(1)).await?.map(|one| one.salary);
    Ok((old, new))
}

/// Never in neither place, and the numbers of both departments are exact.
async fn is_somewhere(sim: Sim) -> Checked {
    if both(&sim).await? == (None, None) {
        return Err("it is in neither".into());
    }
    for dept in ["Sales", "Support"] {
        let report = staff(&sim.table("staff")).verify(dept).await?;
        if !report.is_clean() {
            return Err(format!("{dept}: {report:?}").into());
        }
    }
    Ok(())
}

/// G102, G129: whatever is cut of the order or of the worker; then it is in one place.
#[tokio::test]
async fn every_cut_of_a_move() {
    let scenario = |sim: Sim| async move {
        order_move(sim.clone()).await?;
        sim.note("ordered");
        work(sim).await
    };
    let finally = |sim: Sim| async move {
        work(sim.clone()).await?;
        let is_ordered = sim.notes().iter().any(|note| note == "ordered");
        let found = both(&sim).await?;
        let is_right = match found {
            (None, Some(100)) => true,
            (Some(100), None) => !is_ordered,
            _ => false,
        };
        // What a worker left that stopped at its last request.
        moves(&sim.table("staff")).sweep("Support").await?;
        let rows = prop("PartitionKey").eq("Support").and(prop("RowKey").lt("\""));
        let rows: Vec<_> =
            sim.table("staff").filter::<DynEntity>(rows).stream().try_collect().await?;
        if is_right && rows.is_empty() { Ok(()) } else { Err(format!("{found:?} {rows:?}").into()) }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_two).recover(work);
    cuts.always(is_somewhere).finally(finally).run().await.unwrap();
}

/// G102, G129: a child that is inserted again at the old place, after a worker stopped there, stays.
#[tokio::test]
async fn a_repeated_move_leaves_a_new_child_alone() {
    let scenario = |sim: Sim| async move {
        order_move(sim.clone()).await?;
        work(sim).await
    };
    let hire_again = |sim: Sim| async move {
        if both(&sim).await? == (None, Some(100)) {
            staff(&sim.table("staff")).insert(&employee(1, 7)).await?;
            sim.note("again");
        }
        work(sim).await
    };
    let finally = |sim: Sim| async move {
        let found = both(&sim).await?;
        let is_again = sim.notes().iter().any(|note| note == "again");
        let wanted = if is_again { (Some(7), Some(100)) } else { (None, Some(100)) };
        let is_unordered = found == (Some(100), None);
        if found == wanted || is_unordered { Ok(()) } else { Err(format!("{found:?}").into()) }
    };
    let cuts = every_cut(tavola_local::in_memory, scenario).seed(seed_two).recover(hire_again);
    cuts.always(is_somewhere).finally(finally).run().await.unwrap();
}

/// G102, G130: two workers, a change at the old place, and new children in both departments.
#[tokio::test]
async fn moves_race() {
    let seed_ordered = |sim: Sim| async move {
        seed_two(sim.clone()).await?;
        order_move(sim).await
    };
    let raise = |sim: Sim| async move {
        match staff(&sim.table("staff")).modify(of(1), |one| one.salary = 150).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => {
                other?;
                sim.note("raised");
                Ok(())
            }
        }
    };
    let join = |sim: Sim| async move {
        let staff = staff(&sim.table("staff"));
        staff.insert(&Employee { dept: "Support".to_owned(), ..employee(2, 1) }).await?;
        staff.insert(&employee(2, 1)).await?;
        Ok(())
    };
    let finally = |sim: Sim| async move {
        work(sim.clone()).await?;
        let salary = if sim.notes().iter().any(|note| note == "raised") { 150 } else { 100 };
        let found = both(&sim).await?;
        if found != (None, Some(salary)) {
            return Err(format!("{found:?}, not {salary}").into());
        }
        is_somewhere(sim).await
    };
    let race = || race(tavola_local::in_memory).seed(seed_ordered).writer(work).writer(raise);
    let race = |more: bool| if more { race().writer(join) } else { race().writer(work) };
    for more in [false, true] {
        race(more).at_most(80, 60).always(is_somewhere).finally(finally).run().await.unwrap();
    }
}

/// G102, G131: requests; a child that was deleted and inserted again stays; so does one whose place
/// is taken.
#[tokio::test]
async fn moves_cost_and_refuse() {
    let counted = counting(tavola_local::in_memory());
    let table = TableServiceClient::on(counted.clone(), None).table_client("staff");
    table.create().await.unwrap();
    for dept in ["Sales", "Support"] {
        table.insert(&department(dept)).await.unwrap();
    }
    let (staff, moves, outbox) = (staff(&table), moves(&table), Outbox::new(&table));
    staff.insert(&employee(1, 5)).await.unwrap();
    let one = table.get(of(1)).await.unwrap().unwrap();
    assert_eq!(moves.move_to(&one, "Sales").await.unwrap_err().outcome(), Outcome::NotSent);
    let _ = counted.take();
    moves.move_to(&one, "Support").await.unwrap();
    assert_eq!(counted.take().len(), 2, "one is the hint");
    let one = table.get(of(1)).await.unwrap().unwrap();
    staff.delete(&one).await.unwrap();
    staff.insert(&employee(1, 5)).await.unwrap();
    let worker = || outbox.worker().step(moves.step()).poison_after(1);
    assert_eq!(worker().drain().await.unwrap().skipped, 1);
    assert!(table.get(of(1)).await.unwrap().is_some());

    let one = table.get(of(1)).await.unwrap().unwrap();
    moves.move_to(&one, "Support").await.unwrap();
    let _ = counted.take();
    let step = worker().run_once().await.unwrap();
    let requests = counted.take().len();
    // The outbox needs four: hints, rows, the claim, and the row once more.
    assert_eq!((step.done, requests - 4), (1, 7));
    assert!(table.get(of(1)).await.unwrap().is_none());

    staff.insert(&employee(1, 5)).await.unwrap();
    let one = table.get(of(1)).await.unwrap().unwrap();
    moves.move_to(&one, "Support").await.unwrap();
    assert_eq!(worker().drain().await.unwrap().poisoned, 1);
    assert_eq!(outbox.poisoned().await.unwrap().len(), 1);
}
