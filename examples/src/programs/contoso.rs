//! `contoso`: employees and their departments in one table.
//!
//! A department has its row in the partition of its employees, so that one transaction writes an
//! employee and the headcount. Eight writers hire and dismiss; whenever a reader looks, the
//! headcount equals the rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures_util::TryStreamExt as _;
use tavola_client::patterns::JoinCache;
use tavola_client::{DynEntity, Entity, Stored, TableClient, prop};

use super::Program;
use crate::frame::show::{bars, number, table};
use crate::frame::{Checked, Crew, Stage};

const COUNTED: &str = "the headcount equals the rows";
const SURVIVES: &str = "a kind that the program does not know survives a write";

pub(super) const PROGRAM: Program = Program {
    name: "contoso",
    invariants: &[COUNTED, SURVIVES],
    needs_server: false,
    run: |stage| Box::pin(run(stage)),
};

const DEPARTMENTS: [(&str, &str); 4] = [
    ("Marketing", "Ann Adler"),
    ("Operations", "Cai Jones"),
    ("Research", "Eve Hall"),
    ("Sales", "Don Smith"),
];
const LAST_NAMES: [&str; 6] = ["Adler", "Brown", "Hall", "Jones", "O'Brien", "Smith"];
/// A department has at least so many employees, and at most ten times as many.
const HEADCOUNT_MIN: i64 = 5;

#[derive(Debug, Clone, Entity)]
#[entity(kind = "employee", rename_all = "PascalCase", partition = "{dept}", row = "empid_{id:08}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
}

#[derive(Debug, Clone, Entity)]
#[entity(kind = "department", rename_all = "PascalCase", partition = "{dept}", row = "dept")]
struct Department {
    dept: String,
    manager: String,
    headcount: i64,
}

/// What a row of the table can be.
#[derive(Debug, Clone, Entity)]
enum Staff {
    Employee(Employee),
    Department(Department),
    #[entity(other)]
    Other(DynEntity),
}

/// What is counted beside the invariants.
#[derive(Debug, Default)]
struct Tally {
    races: AtomicU64,
    /// Looks that a writer overtook: what they saw proves nothing.
    overtaken: AtomicU64,
    /// Those of them that saw a part of a transaction.
    torn: AtomicU64,
}

async fn run(stage: Stage) -> Checked {
    let staff = stage.table("staff").await?;
    for (dept, manager) in DEPARTMENTS {
        let (dept, manager) = (dept.to_owned(), manager.to_owned());
        staff.insert(&Department { dept, manager, headcount: 0 }).await?;
    }
    let mut note = DynEntity::new("Sales", "note_1");
    note.set("EntityType", "note");
    note.set("Text", "of a program that is newer than this one");
    staff.insert(&note).await?;

    let tally = Arc::new(Tally::default());
    let (writing, reading, read_by) = (staff.clone(), staff.clone(), stage.clone());
    let (written, seen) = (Arc::clone(&tally), Arc::clone(&tally));
    Crew::new(&stage)
        .workers(8, move |random| hire_or_dismiss(writing.clone(), Arc::clone(&written), random))
        .workers(2, move |random| look(read_by.clone(), reading.clone(), Arc::clone(&seen), random))
        .run()
        .await?;
    let count = |counter: &AtomicU64| number(counter.load(Ordering::Relaxed));
    stage.say(format!(
        "{} transactions lost a race; {} looks were overtaken by a writer, {} of them between two \
         parts of a page\n",
        count(&tally.races),
        count(&tally.overtaken),
        count(&tally.torn)
    ));
    write_back_unknown(&stage, &staff).await?;
    list(&stage, &staff).await
}

/// One transaction: an employee comes or goes, and the headcount with it.
async fn hire_or_dismiss(staff: TableClient, tally: Arc<Tally>, mut random: Rng) -> Checked {
    let (dept, _) = DEPARTMENTS[random.usize(..DEPARTMENTS.len())];
    let found = staff.get(Department::key().dept(dept)).await?;
    let mut department = found.ok_or("a department is gone")?;
    let is_hire = random.i64(HEADCOUNT_MIN..HEADCOUNT_MIN * 10) > department.headcount;
    let mut together = staff.transaction(dept);
    if is_hire {
        let last = LAST_NAMES[random.usize(..LAST_NAMES.len())].to_owned();
        let id = random.u32(..100_000_000);
        together.insert(&Employee { dept: dept.to_owned(), id, last })?;
        department.headcount += 1;
    } else {
        let first = staff.query(Employee::key().dept(dept)).take(1).stream().try_next().await?;
        let Some(first) = first else { return Ok(()) };
        together.delete(&first)?;
        department.headcount -= 1;
    }
    // Under the version that was read: if somebody else was faster, nothing of it is applied.
    together.replace(&department)?;
    match together.commit().await {
        Ok(_) => Ok(()),
        Err(error) if error.is_changed() || error.is_not_found() => {
            tally.races.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

async fn rows(staff: &TableClient, dept: &str) -> Checked<Vec<Stored<Staff>>> {
    let rows = staff.filter::<Staff>(prop("PartitionKey").eq(dept));
    Ok(rows.stream().try_collect().await?)
}

/// A department as one query shows it. A long page is read in several steps, between which writers
/// go on; that none did, the version of the department tells, which every transaction changes.
async fn look(stage: Stage, staff: TableClient, tally: Arc<Tally>, mut random: Rng) -> Checked {
    let (dept, _) = DEPARTMENTS[random.usize(..DEPARTMENTS.len())];
    let rows = rows(&staff, dept).await?;
    let employees = rows.iter().filter(|row| matches!(***row, Staff::Employee(_))).count();
    let department = rows.iter().find_map(|row| match &**row {
        Staff::Department(department) => Some((row.etag(), department.headcount)),
        _ => None,
    });
    let (version, headcount) = department.ok_or("a department is gone")?;
    let holds = i64::try_from(employees) == Ok(headcount);
    let after = staff.get(Department::key().dept(dept)).await?;
    if after.is_some_and(|after| after.etag() == version) {
        stage.check(COUNTED, holds, || format!("{dept} says {headcount}, there are {employees}"));
    } else {
        tally.overtaken.fetch_add(1, Ordering::Relaxed);
        tally.torn.fetch_add(u64::from(!holds), Ordering::Relaxed);
    }
    Ok(())
}

/// A row of an unknown kind is read as what it is, and written back whole.
async fn write_back_unknown(stage: &Stage, staff: &TableClient) -> Checked {
    let read = || staff.get::<Staff>(("Sales", "note_1"));
    let mut note = read().await?.ok_or("the note is gone")?;
    let before = note.clone();
    staff.replace(&mut note).await?;
    let after = read().await?.ok_or("the note is gone")?;
    let is_same = match (&*before, &*after) {
        (Staff::Other(before), Staff::Other(after)) => {
            before == after && before.kind() == Some("note")
        }
        _ => false,
    };
    stage.check(SURVIVES, is_same, || format!("{:?} became {:?}", *before, *after));
    Ok(())
}

/// Everything by its kind; employees joined with their departments, each of which is read once.
async fn list(stage: &Stage, staff: &TableClient) -> Checked {
    let departments = JoinCache::<Department>::new(staff, Duration::from_secs(60), 100);
    let (mut employees, mut others) = (HashMap::<String, u64>::new(), 0);
    let mut all = staff.scan::<Staff>().stream();
    while let Some(row) = all.try_next().await? {
        match &*row {
            Staff::Employee(employee) => {
                let department = departments.get(Department::key().dept(&employee.dept)).await?;
                let manager = department.ok_or("a department is gone")?.manager.clone();
                *employees.entry(manager).or_default() += 1;
            }
            Staff::Department(_) => {}
            Staff::Other(_) => others += 1,
        }
    }
    let joined: u64 = employees.values().sum();
    let read = departments.requests();
    let mut lines = Vec::new();
    for (dept, manager) in DEPARTMENTS {
        let department = departments.get(Department::key().dept(dept)).await?;
        let headcount = department.map(|found| number(found.headcount)).unwrap_or_default();
        let rows = employees.get(manager).copied().unwrap_or_default();
        lines.push(vec![dept.into(), manager.into(), headcount, number(rows)]);
    }
    stage.say(table(&["department", "manager", "headcount", "rows"], &lines));
    let kinds = [("employee", joined), ("department", DEPARTMENTS.len() as u64), ("other", others)];
    let kinds = kinds.map(|(kind, count)| (kind.to_owned(), count));
    stage.say(format!("\n{}\n", bars(&kinds)));
    let joined = number(joined);
    stage.say(format!("{joined} employees were joined with their departments by {read} reads"));
    Ok(())
}
