//! `find`: employees by id, by mail address and by the beginning of their name.
//!
//! Index rows are in the partition of the employee and written in the same transaction: a look-up
//! by mail reads one row, as one by id does, and two employees never get one address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fastrand::Rng;
use futures_util::{StreamExt as _, TryStreamExt as _};
use tavola_client::patterns::Indexed;
use tavola_client::{Access, Entity, ErrorKind, TableClient};

use super::Program;
use crate::frame::show::{number, table};
use crate::frame::{Checked, Cost, Crew, Stage};

const FOUND: &str = "a look-up by mail finds the employee who has it";
const REFUSED: &str = "a taken mail address is refused";
const CLEAN: &str = "each employee has its index rows, each index row its employee";
const SAME: &str = "the index and the whole partition give one answer";

pub(super) const PROGRAM: Program = Program {
    name: "find",
    invariants: &[FOUND, REFUSED, CLEAN, SAME],
    needs_server: false,
    run: |stage| Box::pin(run(stage)),
};

const DEPT: &str = "Sales";
const LAST_NAMES: [&str; 8] =
    ["Adler", "Brown", "Hall", "Jansen", "Jones", "Joyce", "O'Brien", "Smith"];
const SEEDED: u32 = 200;
/// Nobody changes her.
const CHIEF: u32 = 1;
const CHIEF_MAIL: &str = "chief@contoso.example";

#[derive(Debug, Clone, Entity)]
#[entity(kind = "employee", rename_all = "PascalCase", partition = "{dept}", row = "empid_{id:06}")]
#[entity(index(email, row = "email_{email:lower}", unique, copy(last)))]
#[entity(index(last, row = "last_{last}!{id:06}"))]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    email: String,
    age: i32,
}

fn employee(id: u32, mut random: Rng) -> Employee {
    let last = LAST_NAMES[random.usize(..LAST_NAMES.len())].to_owned();
    let email = mail(id, 0);
    Employee { dept: DEPT.to_owned(), id, last, email, age: random.i32(18..66) }
}

/// The nth address of an employee.
fn mail(id: u32, nth: u8) -> String {
    format!("emp{id:06}.{nth}@contoso.example")
}

/// What the workers share.
#[derive(Clone)]
struct Office {
    stage: Stage,
    table: TableClient,
    staff: Indexed<Employee>,
    /// The last id that was given.
    last_id: Arc<AtomicU32>,
}

async fn run(stage: Stage) -> Checked {
    let table = stage.table("staff").await?;
    let (staff, last_id) = (table.indexed::<Employee>(), Arc::new(AtomicU32::new(SEEDED)));
    let office = Office { stage: stage.clone(), table, staff, last_id };
    let chief = Employee { email: CHIEF_MAIL.to_owned(), ..employee(CHIEF, Rng::new()) };
    office.staff.insert(&chief).await?;
    let all: Vec<_> = (2..=SEEDED).map(|id| employee(id, Rng::new())).collect();
    let inserts = all.iter().map(|one| office.staff.insert(one).into_future());
    let inserts = futures_util::stream::iter(inserts.collect::<Vec<_>>());
    inserts.buffer_unordered(16).try_collect::<Vec<_>>().await?;

    let (writers, readers, thieves, auditors) =
        (office.clone(), office.clone(), office.clone(), office.clone());
    Crew::new(&stage)
        .workers(4, move |random| change(writers.clone(), random))
        .workers(2, move |random| look_up(readers.clone(), random))
        .workers(1, move |random| take_the_chiefs_address(thieves.clone(), random))
        .workers(1, move |_| audit(auditors.clone()))
        .run()
        .await?;
    compare(&office).await
}

/// Somebody comes, goes, or has a new address.
async fn change(office: Office, mut random: Rng) -> Checked {
    let newest = office.last_id.load(Ordering::Relaxed);
    let id = random.u32(CHIEF + 1..=newest);
    let key = Employee::key().dept(DEPT).id(id);
    let result = match random.u8(..10) {
        0..2 => {
            let id = office.last_id.fetch_add(1, Ordering::Relaxed) + 1;
            office.staff.insert(&employee(id, random)).await.map(drop)
        }
        2..4 => match office.table.get::<Employee>(key).await? {
            Some(stored) => office.staff.delete(&stored).await.map(drop),
            None => Ok(()),
        },
        nth => office.staff.modify(key, |one| one.email = mail(one.id, nth)).await.map(drop),
    };
    match result {
        // Another worker was faster, or nobody has the id any more.
        Err(error) if error.is_changed() || error.is_not_found() => Ok(()),
        other => Ok(other?),
    }
}

async fn look_up(office: Office, mut random: Rng) -> Checked {
    let newest = office.last_id.load(Ordering::Relaxed);
    let wanted = mail(random.u32(CHIEF + 1..=newest), random.u8(..10));
    let found = office.staff.find(Employee::by_email().dept(DEPT).email(&wanted)).await?;
    let holds = found.as_ref().is_none_or(|found| found.email == wanted);
    office.stage.check(FOUND, holds, || format!("{wanted} gave {found:?}"));
    Ok(())
}

async fn take_the_chiefs_address(office: Office, random: Rng) -> Checked {
    let id = office.last_id.fetch_add(1, Ordering::Relaxed) + 1;
    let thief = Employee { email: CHIEF_MAIL.to_uppercase(), ..employee(id, random) };
    match office.staff.insert(&thief).await {
        Ok(_) => office.stage.check(REFUSED, false, || format!("{id} has it too")),
        Err(error) => match error.kind() {
            ErrorKind::Duplicate { .. } => office.stage.check(REFUSED, true, String::new),
            _ => return Err(error.into()),
        },
    }
    Ok(())
}

/// Beside the writers.
async fn audit(office: Office) -> Checked {
    let report = office.staff.verify(DEPT).await?;
    office.stage.check(CLEAN, report.is_clean(), || format!("{report:?}"));
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    Ok(())
}

/// One question in several ways, and what each reads.
async fn compare(office: &Office) -> Checked {
    let Office { stage, table: t, staff, .. } = office;
    let mut lines = Vec::new();
    let mut line = |what: &str, found: usize, access: Option<Access>, cost: Option<Cost>| {
        let access = access.map(|access| access.to_string()).unwrap_or_default();
        let mut cells = vec![what.to_owned(), number(found), access];
        cells.extend(match cost {
            Some(cost) => [
                number(cost.requests),
                number(cost.rows_read),
                format!("{:.1}", cost.time.as_secs_f64() * 1e3),
            ],
            None => ["?".into(), "?".into(), "?".into()],
        });
        lines.push(cells);
    };
    let by_id = || Employee::key().dept(DEPT).id(CHIEF);
    let by_mail = || Employee::by_email().dept(DEPT).email(CHIEF_MAIL);
    let by_name = || Employee::by_last().dept(DEPT).last_prefix("Jo");

    let (found, cost) = stage.measure(async { t.get(by_id()).await }).await?;
    line("by id", usize::from(found?.is_some()), Some(Access::Point), cost);
    let (found, cost) = stage.measure(async { staff.row(by_mail()).await }).await?;
    line(
        "by mail, what the index copies",
        usize::from(found?.is_some()),
        Some(Access::Point),
        cost,
    );
    let (found, cost) = stage.measure(async { staff.find(by_mail()).await }).await?;
    line("by mail, the whole employee", usize::from(found?.is_some()), Some(Access::Point), cost);
    let (rows, cost) = stage.measure(async { staff.range(by_name()).stale().await }).await?;
    let rows = rows?;
    line("names from Jo, by the index", rows.len(), Some(Access::RowRange), cost);

    let search = || t.query(Employee::key().dept(DEPT)).and(Employee::LAST.starts_with("Jo"));
    let access = search().explain()?.here;
    let scan = async { search().stream().try_collect::<Vec<_>>().await };
    let (scanned, cost) = stage.measure(scan).await?;
    let scanned = scanned?;
    line("names from Jo, without an index", scanned.len(), Some(access), cost);
    stage.say(table(&["look-up", "found", "access", "requests", "rows read", "ms"], &lines));

    let mut indexed: Vec<_> = rows.iter().map(|row| row.base().row().to_owned()).collect();
    let mut searched: Vec<_> = scanned.iter().map(|row| row.key().row().to_owned()).collect();
    indexed.sort();
    searched.sort();
    stage.check(SAME, indexed == searched, || format!("{} and {}", rows.len(), scanned.len()));
    let report = staff.verify(DEPT).await?;
    stage.check(CLEAN, report.is_clean(), || format!("{report:?}"));
    Ok(())
}
