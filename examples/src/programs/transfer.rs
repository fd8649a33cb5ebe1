//! `transfer`: employees move between departments, which are partitions.
//!
//! No transaction has two partitions. The move is written down in the outbox of the department that
//! is left, together with the first change; a worker does the rest and may be killed anywhere:
//!
//! 1. old department: the employee is `leaving`, the work is in the outbox;
//! 2. new department: employee, headcount and a mark of this move in one transaction;
//! 3. old department: the row goes, and the headcount with it;
//! 4. new department: the employee has arrived, and may move again.
//!
//! The mark makes step 2 happen once, however often it is tried. Each employee has the name of the
//! department's manager, which changes in one transaction with all of these copies.
//!
//! `OneToMany::moving` does such moves; here they are written out, because a newcomer gets the name
//! of the new manager in the transaction in which he arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures_util::TryStreamExt as _;
use tavola_client::patterns::{Copies, Outbox, Progress, StepError, Work, Worker, step};
use tavola_client::{DynEntity, Entity, Error, ErrorKind, Stored, TableClient, prop};

use super::Program;
use crate::frame::show::{number, table};
use crate::frame::{Checked, Crew, Stage};

const COUNTED: &str = "each headcount equals the rows";
const COPIED: &str = "each employee has the name of the department's manager";
const FOUND: &str = "an employee is never in neither department";
const SETTLED: &str = "in the end each employee is in exactly one";

pub(super) const PROGRAM: Program = Program {
    name: "transfer",
    invariants: &[COUNTED, COPIED, FOUND, SETTLED],
    needs_server: false,
    run: |stage| Box::pin(run(stage)),
};

const DEPARTMENTS: [&str; 2] = ["Marketing", "Sales"];
const EMPLOYEES: u32 = 40;
/// A killed worker has its work for so long.
const LEASE: Duration = Duration::from_secs(1);
const ARRIVE: &str = "arrive";

#[derive(Debug, Clone, Entity)]
#[entity(kind = "employee", rename_all = "PascalCase", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    name: String,
    /// A copy of what the department says.
    manager: String,
    /// How often this employee has begun to move.
    moves: i64,
    /// Where to.
    leaving: Option<String>,
    /// The row in the old department may still be there.
    is_arriving: bool,
}

#[derive(Debug, Clone, Entity)]
#[entity(kind = "department", rename_all = "PascalCase", partition = "{dept}", row = "dept")]
struct Department {
    dept: String,
    manager: String,
    headcount: i64,
}

/// That the nth move of an employee has come here.
#[derive(Debug, Clone, Entity)]
#[entity(kind = "mark", partition = "{dept}", row = "moved_{id:06}_{nth:08}")]
struct Mark {
    dept: String,
    id: u32,
    nth: u32,
}

#[derive(Debug, Clone, Entity)]
enum Staff {
    Employee(Employee),
    Department(Department),
    #[entity(other)]
    Other(DynEntity),
}

/// Who, where from, where to, and which of the employee's moves it is.
type Job = (u32, String, String, i64);

/// What the workers share.
#[derive(Clone)]
struct Office {
    stage: Stage,
    staff: TableClient,
    outbox: Outbox,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    begun: AtomicU64,
    promoted: AtomicU64,
    overtaken: AtomicU64,
}

async fn run(stage: Stage) -> Checked {
    let staff = stage.table("staff").await?;
    let outbox = Outbox::new(&staff);
    let office = Office { stage: stage.clone(), staff, outbox, tally: Arc::default() };
    open(&office.staff).await?;

    let (movers, heads, workers) = (office.clone(), office.clone(), office.clone());
    let (readers, seekers) = (office.clone(), office.clone());
    Crew::new(&stage)
        .workers(2, move |random| begin(movers.clone(), random))
        .workers(1, move |random| promote(heads.clone(), random))
        .workers(2, move |_| carry_on(workers.clone()))
        .workers(2, move |random| look(readers.clone(), random))
        .workers(1, move |random| seek(seekers.clone(), random))
        .run()
        .await?;
    let report = worker(&office.outbox).drain().await?;
    stage.say(format!("{} moves were done after the time was over", number(report.done)));
    settle(&office).await
}

/// Half of the employees in each department.
async fn open(staff: &TableClient) -> Checked {
    for (at, dept) in (0..).zip(DEPARTMENTS) {
        let ids = (1..=EMPLOYEES).filter(|id| id % 2 == at);
        let employees: Vec<_> = ids.map(|id| employee(id, dept)).collect();
        let manager = employees.first().map(|one| one.name.clone()).unwrap_or_default();
        let headcount = i64::try_from(employees.len())?;
        let mut all = staff.transaction(dept);
        all.insert(&Department { dept: dept.to_owned(), manager: manager.clone(), headcount })?;
        for one in employees {
            all.insert(&Employee { manager: manager.clone(), ..one })?;
        }
        all.commit().await?;
    }
    Ok(())
}

fn employee(id: u32, dept: &str) -> Employee {
    Employee {
        dept: dept.to_owned(),
        id,
        name: format!("Employee {id}"),
        manager: String::new(),
        moves: 0,
        leaving: None,
        is_arriving: false,
    }
}

async fn department(staff: &TableClient, dept: &str) -> Result<Stored<Department>, StepError> {
    Ok(staff.get(Department::key().dept(dept)).await?.ok_or("a department is gone")?)
}

fn other(dept: &str) -> &'static str {
    if dept == DEPARTMENTS[0] { DEPARTMENTS[1] } else { DEPARTMENTS[0] }
}

/// Somebody else was faster: the rows are as they were.
fn has_lost_a_race(error: &Error) -> bool {
    error.is_changed() || error.is_not_found() || error.is_conflict()
}

/// Step 1: an employee leaves, and the work that this makes is written down.
async fn begin(office: Office, mut random: Rng) -> Checked {
    let dept = DEPARTMENTS[random.usize(..2)];
    let id = random.u32(1..=EMPLOYEES);
    let Some(mut one) = office.staff.get(Employee::key().dept(dept).id(id)).await? else {
        return Ok(());
    };
    if one.leaving.is_some() || one.is_arriving {
        return Ok(());
    }
    one.leaving = Some(other(dept).to_owned());
    one.moves += 1;
    let job: Job = (id, dept.to_owned(), other(dept).to_owned(), one.moves);
    let mut together = office.staff.transaction(dept);
    together.replace(&one)?;
    office.outbox.add(&mut together, ARRIVE, &job)?;
    match together.commit().await {
        Err(error) if has_lost_a_race(&error) => {}
        committed => {
            committed?;
            office.tally.begun.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn worker(outbox: &Outbox) -> Worker {
    let arrive = step(ARRIVE, |work: Work| async move { arrive(&work).await });
    // Attempts that were killed count too.
    outbox.worker().step(arrive).lease(LEASE).poison_after(10_000)
}

async fn carry_on(office: Office) -> Checked {
    worker(&office.outbox).run_once().await?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(())
}

/// Steps 2 to 4, of which any number may have been done before.
async fn arrive(work: &Work) -> Result<Progress, StepError> {
    let (id, from, to, nth): Job = work.job()?;
    let staff = work.table();
    loop {
        let source = staff.get(Employee::key().dept(&from).id(id)).await?;
        let Some(source) = source.filter(|one| one.moves == nth && one.leaving.is_some()) else {
            break;
        };
        let moved = match enter(staff, &source, &to).await? {
            true => leave(staff, &source).await?,
            false => false,
        };
        if moved {
            break;
        }
    }
    let arrived = staff.modify(Employee::key().dept(&to).id(id), |one| {
        one.is_arriving &= one.moves != nth;
    });
    match arrived.await {
        // Already somewhere else.
        Err(error) if error.is_not_found() => Ok(Progress::Done),
        other => Ok(other.map(|_| Progress::Done)?),
    }
}

/// Step 2. False if somebody else was faster with the department.
async fn enter(staff: &TableClient, source: &Employee, to: &str) -> Result<bool, StepError> {
    let nth = u32::try_from(source.moves)?;
    let mut department = department(staff, to).await?;
    department.headcount += 1;
    let here = Employee {
        dept: to.to_owned(),
        manager: department.manager.clone(),
        leaving: None,
        is_arriving: true,
        ..source.clone()
    };
    let mut together = staff.transaction(to);
    together.insert(&Mark { dept: to.to_owned(), id: source.id, nth })?;
    together.insert(&here)?.replace(&department)?;
    match together.commit().await {
        Ok(_) => Ok(true),
        // The mark is there: this move has come here before.
        Err(error) if matches!(error.kind(), ErrorKind::Transaction { index: Some(0), .. }) => {
            Ok(true)
        }
        Err(error) if error.is_changed() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Step 3. False if somebody else was faster.
async fn leave(staff: &TableClient, source: &Stored<Employee>) -> Result<bool, StepError> {
    let mut department = department(staff, &source.dept).await?;
    department.headcount -= 1;
    let mut together = staff.transaction(source.dept.as_str());
    together.delete(source)?.replace(&department)?;
    match together.commit().await {
        Ok(_) => Ok(true),
        Err(error) if has_lost_a_race(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The department is read first: who arrives or leaves afterwards changes its version.
async fn rows(
    staff: &TableClient,
    dept: &str,
) -> Checked<(Stored<Department>, Vec<Stored<Employee>>)> {
    let department = department(staff, dept).await?;
    let employees = staff.query(Employee::key().dept(dept)).stream().try_collect().await?;
    Ok((department, employees))
}

/// A department gets another manager, and each employee of it the new name in one transaction.
async fn promote(office: Office, mut random: Rng) -> Checked {
    let dept = DEPARTMENTS[random.usize(..2)];
    let next = format!("Employee {}", random.u32(1..=EMPLOYEES));
    let names = Copies::<Department, Employee>::new(
        &office.staff,
        |one| Some(Department::key().dept(&one.dept)),
        |department, one| one.manager = department.manager.clone(),
    );
    let key = Department::key().dept(dept);
    names.modify_source(key, |department| department.manager = next.clone()).await?;
    office.tally.promoted.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(())
}

/// A department as one query shows it, if no transaction came in between.
async fn look(office: Office, mut random: Rng) -> Checked {
    let dept = DEPARTMENTS[random.usize(..2)];
    let page = office.staff.filter::<Staff>(prop("PartitionKey").eq(dept)).stream();
    let page: Vec<Stored<Staff>> = page.try_collect().await?;
    let shown = page.iter().find_map(|row| match &**row {
        Staff::Department(department) => Some((row.etag(), department)),
        _ => None,
    });
    let (version, shown) = shown.ok_or("a department is gone")?;
    let employees: Vec<_> = page
        .iter()
        .filter_map(|row| match &**row {
            Staff::Employee(one) => Some(one),
            _ => None,
        })
        .collect();
    if department(&office.staff, dept).await?.etag() != version {
        office.tally.overtaken.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let count = i64::try_from(employees.len())?;
    let found = || format!("{dept} says {}, there are {count}", shown.headcount);
    office.stage.check(COUNTED, shown.headcount == count, found);
    let is_copied = employees.iter().all(|one| one.manager == shown.manager);
    office.stage.check(COPIED, is_copied, || format!("{dept}: {}", shown.manager));
    Ok(())
}

/// Looks for somebody in both departments. To miss an employee in four reads, two whole moves would
/// have to fit between them.
async fn seek(office: Office, mut random: Rng) -> Checked {
    let id = random.u32(1..=EMPLOYEES);
    let mut is_found = false;
    for dept in DEPARTMENTS.into_iter().cycle().take(4) {
        is_found |= office.staff.get(Employee::key().dept(dept).id(id)).await?.is_some();
        if is_found {
            break;
        }
    }
    office.stage.check(FOUND, is_found, || format!("employee {id}"));
    Ok(())
}

/// When nothing is left to be done.
async fn settle(office: &Office) -> Checked {
    let Office { stage, staff, outbox, tally } = office;
    let mut lines = Vec::new();
    let mut ids = Vec::new();
    for dept in DEPARTMENTS {
        let (department, employees) = rows(staff, dept).await?;
        let count = i64::try_from(employees.len())?;
        stage.check(COUNTED, department.headcount == count, || format!("{dept}: {count}"));
        let is_copied = employees.iter().all(|one| one.manager == department.manager);
        stage.check(COPIED, is_copied, || dept.to_owned());
        let is_quiet = employees.iter().all(|one| one.leaving.is_none() && !one.is_arriving);
        stage.check(SETTLED, is_quiet, || format!("somebody of {dept} is still on the way"));
        ids.extend(employees.iter().map(|one| one.id));
        let headcount = number(department.headcount);
        lines.push(vec![dept.to_owned(), department.manager.clone(), headcount, number(count)]);
    }
    ids.sort_unstable();
    stage.check(SETTLED, ids == (1..=EMPLOYEES).collect::<Vec<_>>(), || format!("{ids:?}"));
    let status = outbox.status().await?;
    stage.check(SETTLED, status.waiting + status.poisoned == 0, || format!("{status:?}"));
    stage.say(format!("\n{}\n", table(&["department", "manager", "headcount", "rows"], &lines)));
    let count = |counter: &AtomicU64| number(counter.load(Ordering::Relaxed));
    stage.say(format!(
        "{} moves, {} new managers, {} looks overtaken by a writer, {} pieces of work left",
        count(&tally.begun),
        count(&tally.promoted),
        count(&tally.overtaken),
        status.waiting
    ));
    Ok(())
}
