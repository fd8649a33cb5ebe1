//! G173: every code sample of the guide in this library, each as short as its table asks for.
//!
//! A sample is what stands between `// Sample, at most n lines` and `// End`; the last test counts.

use futures_util::TryStreamExt as _;
use tavola_client::key::TicksDesc;
use tavola_client::patterns::LogTail;
use tavola_client::{
    Access, Continuation, DynEntity, Entity, Error, Mode, Projection, Properties, Stored,
    TableClient, TableServiceClient, only, prop,
};
use time::{Date, Month, OffsetDateTime};

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(kind = "employee", rename_all = "PascalCase", partition = "{dept}", row = "empid_{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    last: String,
    age: Option<i32>,
    visits: i64,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(kind = "department", rename_all = "PascalCase", partition = "{dept}", row = "dept")]
struct Department {
    dept: String,
    employee_count: i64,
}

#[derive(Debug, Clone, PartialEq, Entity)]
enum Staff {
    Employee(Employee),
    Department(Department),
    #[entity(other)]
    Other(DynEntity),
}

#[derive(Debug, PartialEq, Projection)]
#[projection(of = Employee)]
struct Card {
    last: String,
    age: Option<i32>,
}

#[derive(Debug, Clone, Entity)]
#[entity(partition = "{user:06}", row = "{at:desc}!{no:05,desc}")]
struct Claim {
    user: u32,
    at: OffsetDateTime,
    no: u32,
    amount: f64,
}

#[derive(Debug, Clone, PartialEq, Properties)]
struct Expense {
    amount: f64,
}

type Tested = Result<(), Error>;

const NAMES: [&str; 3] = ["Hall", "Jones", "Smith"];

fn employee(id: u32) -> Employee {
    let last = NAMES[id as usize % 3].to_owned();
    let visits = i64::from(id % 2);
    Employee { dept: "Sales".to_owned(), id, last, age: Some(20 + id as i32 % 40), visits }
}

/// The employees 100 to 219 of Sales, and their department.
async fn sales() -> Result<TableClient, Error> {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("employees");
    table.create().await?;
    let all: Vec<_> = (100..220).map(employee).collect();
    table.bulk().insert_all(all).await?.into_result()?;
    table.insert(&Department { dept: "Sales".to_owned(), employee_count: 120 }).await?;
    Ok(table)
}

#[test]
fn inverted_ticks_and_back() -> Tested {
    let date = Date::from_calendar_date(2014, Month::August, 22).unwrap();
    let at = date.with_hms(0, 50, 32).unwrap().assume_utc();
    let claim = Claim { user: 123, at, no: 0, amount: 9.5 };
    // Sample, at most 2 lines
    let key = claim.entity_key()?;
    let (back, _) = TicksDesc::decode(key.row(), "at")?;
    // End
    assert_eq!(key.to_string(), "('000123', '2519936321679999999!99999')");
    assert_eq!((back, claim.amount), (at, 9.5));
    Ok(())
}

#[tokio::test]
async fn newest_ten() -> Tested {
    let service = TableServiceClient::on(tavola_local::in_memory(), None);
    let table = service.table_client("expenses");
    table.create().await?;
    let log = LogTail::<Expense>::new(&table).stream("000123");
    for amount in 0..25 {
        log.append(&Expense { amount: f64::from(amount) }).await?;
    }
    // Sample, at most 1 line
    let ten = log.latest(10).await?;
    // End
    let amounts: Vec<_> = ten.iter().map(|entry| entry.value.amount).collect();
    assert_eq!(amounts, (15..25).rev().map(f64::from).collect::<Vec<_>>());
    Ok(())
}

/// G174.
#[tokio::test]
async fn retrieve_one_by_both_keys() -> Tested {
    let t = sales().await?;
    // Sample, at most 1 line
    let found = t.get::<Employee>(("Sales", "empid_000212")).await?;
    // End
    assert_eq!(found.as_deref(), Some(&employee(212)));
    // Sample, at most 1 line
    let by_parts = t.get(Employee::key().dept("Sales").id(212)).await?;
    // End
    assert_eq!(by_parts.as_deref(), Some(&employee(212)));
    assert!(t.get(Employee::key().dept("Sales").id(999)).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn conditions_on_keys_and_properties() -> Tested {
    let t = sales().await?;
    // Sample, at most 2 lines
    let keys = Employee::key().dept("Sales").id_in(100..200);
    let rows = t.query(keys).and(Employee::LAST.eq("Jones").and(Employee::VISITS.gt(0)));
    // End
    assert_eq!(rows.explain()?.here, Access::RowRange);
    let rows: Vec<_> = rows.stream().try_collect().await?;
    let expected: Vec<_> = (100..200).filter(|id| id % 3 == 1 && id % 2 == 1).collect();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), expected);
    Ok(())
}

#[tokio::test]
async fn a_filter_of_names_nested() -> Tested {
    let t = sales().await?;
    t.insert(&DynEntity::new("Sales", "O'Brien")).await?;
    t.insert(&DynEntity::new("Ops", "O'Brien")).await?;
    // Sample, at most 2 lines
    let either = prop("RowKey").eq("empid_000121").or(prop("RowKey").eq("O'Brien"));
    let rows = t.filter::<DynEntity>(prop("PartitionKey").eq("Sales").and(either)).deny_scans();
    // End
    let rows: Vec<_> = rows.stream().try_collect().await?;
    let keys: Vec<_> = rows.iter().map(|row| row.key().to_string()).collect();
    assert_eq!(keys, ["('Sales', 'O''Brien')", "('Sales', 'empid_000121')"]);
    Ok(())
}

#[tokio::test]
#[rustfmt::skip] // A loop on one line, as the guide counts it.
async fn enumerate_a_whole_query() -> Tested {
    let t = sales().await?;
    let mut seen = Vec::new();
    // Sample, at most 2 lines
    let mut rows = t.query(Employee::key().dept("Sales")).stream();
    while let Some(e) = rows.try_next().await? { seen.push(e.id) }
    // End
    assert_eq!(seen, (100..220).collect::<Vec<_>>());
    Ok(())
}

/// A token is stored after the second page; another client goes on from the text.
#[tokio::test]
async fn segments_with_a_stored_token() -> Tested {
    let t = sales().await?;
    let (mut stored, mut seen) = (None, Vec::new());
    let mut save = |rows: &[Stored<Employee>], token: Option<String>| {
        seen.extend(rows.iter().map(|e| e.id));
        stored = token;
        stored.clone()
    };
    let mut first = t.query(Employee::key().dept("Sales")).page_size(50).pages();
    let mut saved = None;
    for _ in 0..2 {
        let page = first.try_next().await?.unwrap();
        saved = save(&page.items, page.next.map(|token| token.to_string()));
    }
    drop(first);
    let t = t.service().table_client("employees");
    let saved = saved.unwrap().parse::<Continuation>()?;
    // Sample, at most 4 lines
    let mut pages = t.query(Employee::key().dept("Sales")).resume(saved).pages();
    while let Some(page) = pages.try_next().await? {
        save(&page.items, page.next.map(|token| token.to_string()));
    }
    // End
    assert_eq!((seen, stored), ((100..220).collect::<Vec<_>>(), None));
    Ok(())
}

#[tokio::test]
async fn page_size_is_not_take() -> Tested {
    let t = sales().await?;
    let all = || t.query(Employee::key().dept("Sales"));
    // Sample, at most 1 line
    let first = t.query(Employee::key().dept("Sales")).page_size(50).pages().try_next().await?;
    // End
    let first = first.unwrap();
    assert_eq!((first.items.len(), first.next.is_some()), (50, true));
    let paged: Vec<_> = all().page_size(50).stream().try_collect().await?;
    let taken: Vec<_> = all().take(50).stream().try_collect().await?;
    assert_eq!((paged.len(), taken.len()), (120, 50));
    Ok(())
}

#[tokio::test]
async fn projection_by_the_server() -> Tested {
    let t = sales().await?;
    // Sample, at most 2 lines
    let cards = t.query(Employee::key().dept("Sales").id_in(100..102)).select(only::<Card>());
    let cards: Vec<_> = cards.stream().try_collect().await?;
    // End
    let expected = [100, 101].map(employee).map(|e| Card { last: e.last, age: e.age });
    assert_eq!(cards.into_iter().map(|card| card.into_inner()).collect::<Vec<_>>(), expected);
    // Sample, at most 2 lines
    let names = t.query(Employee::key().dept("Sales")).select((Employee::LAST, Employee::AGE));
    let names: Vec<_> = names.take(1).stream().try_collect().await?;
    // End
    assert_eq!(*names[0], (employee(100).last, employee(100).age));
    Ok(())
}

#[tokio::test]
async fn a_dynamic_entity_and_its_type() -> Tested {
    let t = sales().await?;
    // Sample, at most 3 lines
    let e = t.get::<DynEntity>(("Sales", "dept")).await?.unwrap();
    let is_department = e.get::<String>("EntityType")? == "department";
    let count = e.get::<Option<i64>>("EmployeeCount")?;
    // End
    assert_eq!((is_department, count), (true, Some(120)));
    Ok(())
}

#[tokio::test]
async fn several_types_in_one_query() -> Tested {
    let t = sales().await?;
    t.insert(&DynEntity::new("Sales", "note")).await?;
    // Sample, at most 1 line
    let staff = t.filter::<Staff>(prop("PartitionKey").eq("Sales")).stream();
    // End
    let staff: Vec<_> = staff.try_collect().await?;
    let count = |is: fn(&Staff) -> bool| staff.iter().filter(|one| is(one)).count();
    assert_eq!(count(|one| matches!(one, Staff::Employee(_))), 120);
    assert_eq!(count(|one| matches!(one, Staff::Department(_))), 1);
    assert_eq!(count(|one| matches!(one, Staff::Other(_))), 1);
    // The same by a closure.
    let resolve = |row: Stored<DynEntity>| Ok(row.kind().unwrap_or("unknown").to_owned());
    let kinds = t.filter::<DynEntity>(prop("PartitionKey").eq("Sales")).resolve(resolve);
    let kinds: Vec<String> = kinds.stream().try_collect().await?;
    assert_eq!(kinds.iter().filter(|kind| *kind == "employee").count(), 120);
    Ok(())
}

#[tokio::test]
async fn change_one_property_of_an_unknown_type() -> Tested {
    let t = sales().await?;
    // Sample, at most 3 lines
    let hire = |e: &mut DynEntity| e.get_mut::<i64>("EmployeeCount").map(|count| *count += 1);
    t.try_modify(("Sales", "dept"), hire).await?;
    // End
    let found = t.get(Department::key().dept("Sales")).await?;
    assert_eq!(found.map(|found| found.employee_count), Some(121));
    let missing = t.try_modify(("Sales", "empid_000100"), hire).await.unwrap_err();
    assert!(missing.to_string().contains("EmployeeCount"), "{missing}");
    Ok(())
}

#[tokio::test]
#[rustfmt::skip] // A loop on one line, as the guide counts it.
async fn many_entities() -> Tested {
    let t = sales().await?;
    let mut seen = Vec::new();
    // Sample, at most 3 lines
    let q = t.query(Employee::key().dept("Sales")).and(Employee::VISITS.ge(1));
    let mut rows = q.stream();
    while let Some(e) = rows.try_next().await? { seen.push((e.id, e.last.clone())) }
    // End
    assert_eq!(seen.len(), 60);
    assert!(seen.iter().all(|(id, last)| id % 2 == 1 && *last == employee(*id).last));
    Ok(())
}

/// The same without an async runtime of one's own.
fn sales_for_scripts() -> Result<TableClient, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(sales())
}

/// G176.
#[test]
#[rustfmt::skip] // A loop on one line, as the guide counts it.
fn many_entities_blocking() -> Tested {
    let t = sales_for_scripts()?;
    let mut seen = Vec::new();
    // Sample, at most 3 lines
    let q = t.query(Employee::key().dept("Sales")).and(Employee::VISITS.ge(1));
    for e in q.iter() { seen.push(e?.id) }
    // End
    assert_eq!(seen, (100..220).filter(|id| id % 2 == 1).collect::<Vec<_>>());
    Ok(())
}

/// G175, G176.
#[test]
fn upsert_and_its_status_blocking() -> Tested {
    let t = sales_for_scripts()?;
    let e = employee(500);
    // Sample, at most 1 line
    let status = t.upsert(&e, Mode::Replace).wait()?.status;
    // End
    assert_eq!(status, 204);
    assert_eq!(t.get(Employee::key().dept("Sales").id(500)).wait()?.as_deref(), Some(&e));
    Ok(())
}

/// G175.
#[tokio::test]
async fn upsert_and_its_status() -> Tested {
    let t = sales().await?;
    let e = employee(500);
    // Sample, at most 1 line
    let status = t.upsert(&e, Mode::Replace).await?.status;
    // End
    assert_eq!(status, 204);
    let again = t.upsert(&e, Mode::Merge).await?;
    let stored = t.get(Employee::key().dept("Sales").id(500)).await?.unwrap();
    assert_eq!(
        (again.etag.as_ref(), again.timestamp),
        (Some(stored.etag()), Some(stored.timestamp()))
    );
    Ok(())
}

/// The samples are as short as the guide's table asks for.
#[test]
fn lines_are_counted() {
    let (mut samples, mut left) = (0, None);
    for (number, line) in include_str!("samples.rs").lines().enumerate() {
        let text = line.trim();
        if let Some(most) = text.strip_prefix("// Sample, at most ") {
            let most = most.split(' ').next().unwrap().parse::<i32>().unwrap();
            (samples, left) = (samples + 1, Some(most));
        } else if text == "// End" {
            assert!(left.take().is_some(), "line {number} ends no sample");
        } else if let Some(left) = &mut left {
            *left -= 1;
            assert!(*left >= 0, "line {number} is one too many");
        }
    }
    assert_eq!((samples, left), (18, None));
}
