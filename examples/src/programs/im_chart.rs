//! `im-chart`: messages of each hour and each day, to draw.
//!
//! The 24 hours of a day are 24 properties of one row: a chart takes one read, and additions of
//! eight writers are exact. The days of a year are more than a row has; they are an entity of
//! several rows, and a reader never sees rows of two writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fastrand::Rng;
use tavola_client::patterns::{Series, Wide, WideStored};
use tavola_client::{DynEntity, Entity, Properties, TableClient};

use super::Program;
use crate::frame::show::{bars, number, table};
use crate::frame::{Checked, Cost, Crew, Stage};

const EXACT: &str = "the hours add up to the messages that were sent";
const WHOLE: &str = "all days of a year are of one write";
const CAUGHT: &str = "a read that a writer tears is caught";

pub(super) const PROGRAM: Program = Program {
    name: "im-chart",
    invariants: &[EXACT, WHOLE, CAUGHT],
    needs_server: false,
    run: |stage| Box::pin(run(stage)),
};

const DAY: &str = "20140822";
const YEAR: u16 = 2014;
const YEARS_USER: u32 = 123;
const USERS_MIN: u64 = 8;

/// One of the 24 rows that one row replaces.
#[derive(Debug, Clone, Entity)]
#[entity(partition = "{user:06}", row = "20140822{hour:02}")]
struct Hour {
    user: u32,
    hour: u8,
    messages: i64,
}

/// The messages of each day of a month.
#[derive(Debug, Clone, PartialEq, Default, Properties)]
#[rustfmt::skip]
struct Month {
    d01: i64, d02: i64, d03: i64, d04: i64, d05: i64, d06: i64, d07: i64, d08: i64,
    d09: i64, d10: i64, d11: i64, d12: i64, d13: i64, d14: i64, d15: i64, d16: i64,
    d17: i64, d18: i64, d19: i64, d20: i64, d21: i64, d22: i64, d23: i64, d24: i64,
    d25: i64, d26: i64, d27: i64, d28: i64, d29: i64, d30: i64, d31: i64,
}

impl Month {
    #[rustfmt::skip]
    fn of(n: i64) -> Self {
        Self {
            d01: n, d02: n, d03: n, d04: n, d05: n, d06: n, d07: n, d08: n, d09: n, d10: n, d11: n,
            d12: n, d13: n, d14: n, d15: n, d16: n, d17: n, d18: n, d19: n, d20: n, d21: n, d22: n,
            d23: n, d24: n, d25: n, d26: n, d27: n, d28: n, d29: n, d30: n, d31: n,
        }
    }
}

/// 372 properties, in two rows.
#[derive(Debug, Clone, Entity)]
#[entity(wide, partition = "{user:06}", row = "{year:04}")]
struct Year {
    user: u32,
    year: u16,
    #[entity(flatten, prefix = "Jan")]
    january: Month,
    #[entity(flatten, prefix = "Feb")]
    february: Month,
    #[entity(flatten, prefix = "Mar")]
    march: Month,
    #[entity(flatten, prefix = "Apr")]
    april: Month,
    #[entity(flatten, prefix = "May")]
    may: Month,
    #[entity(flatten, prefix = "Jun")]
    june: Month,
    #[entity(flatten, prefix = "Jul")]
    july: Month,
    #[entity(flatten, prefix = "Aug")]
    august: Month,
    #[entity(flatten, prefix = "Sep")]
    september: Month,
    #[entity(flatten, prefix = "Oct")]
    october: Month,
    #[entity(flatten, prefix = "Nov")]
    november: Month,
    #[entity(flatten, prefix = "Dec")]
    december: Month,
}

impl Year {
    fn months(&self) -> [&Month; 12] {
        [
            &self.january,
            &self.february,
            &self.march,
            &self.april,
            &self.may,
            &self.june,
            &self.july,
            &self.august,
            &self.september,
            &self.october,
            &self.november,
            &self.december,
        ]
    }

    /// Each day has `n` messages.
    fn of(n: i64) -> Self {
        let m = || Month::of(n);
        Self {
            user: YEARS_USER,
            year: YEAR,
            january: m(),
            february: m(),
            march: m(),
            april: m(),
            may: m(),
            june: m(),
            july: m(),
            august: m(),
            september: m(),
            october: m(),
            november: m(),
            december: m(),
        }
    }

    /// The number of each day, if all have one.
    fn number(&self) -> Option<i64> {
        let n = self.january.d01;
        let month = Month::of(n);
        self.months().into_iter().all(|one| *one == month).then_some(n)
    }
}

/// What was sent, by the program's own books.
#[derive(Debug, Default)]
struct Books {
    begun: AtomicI64,
    acknowledged: AtomicI64,
    naive_torn: AtomicU64,
}

fn user(of: u64) -> String {
    format!("{of:06}")
}

async fn run(stage: Stage) -> Checked {
    let chart = stage.table("chart").await?;
    let years = stage.table("years").await?;
    // A row remembers 64 writers for an hour, and a killed one does not come back.
    let users = USERS_MIN + stage.duration().as_secs();
    let hours = Series::<i64, 24>::new(&chart, "H");
    // One row a request: the hardest case.
    let wide = Wide::<Year>::new(&years).page_size(1);
    wide.insert(&Year::of(0)).await?;
    let books = Arc::new(Books::default());

    let (kept, adding, writing) = (Arc::clone(&books), hours.clone(), wide.clone());
    let (reading, rows) = (wide.clone(), years.clone());
    let (read_by, torn) = (stage.clone(), Arc::clone(&books));
    Crew::new(&stage)
        .workers(8, move |random| send(adding.clone(), Arc::clone(&kept), users, random))
        .workers(2, move |_| rewrite(writing.clone()))
        .workers(2, move |_| {
            look(read_by.clone(), reading.clone(), rows.clone(), Arc::clone(&torn))
        })
        .run()
        .await?;

    let mut total = [0; 24];
    for of in 0..users {
        let day = hours.read((user(of), DAY)).await?.unwrap_or([None; 24]);
        total.iter_mut().zip(day).for_each(|(sum, hour)| *sum += hour.unwrap_or(0));
    }
    let sum: i64 = total.iter().sum();
    let (acknowledged, begun) =
        (books.acknowledged.load(Ordering::Relaxed), books.begun.load(Ordering::Relaxed));
    // A killed worker does not see whether its last message was counted.
    let text = format!("{} messages sent, {} counted", number(acknowledged), number(sum));
    stage.check(EXACT, (acknowledged..=begun).contains(&sum), || text.clone());
    stage.say(&text);
    let torn = number(books.naive_torn.load(Ordering::Relaxed));
    stage.say(format!("{torn} reads of a year, row by row without a check, were torn\n"));
    tear(&stage, &wide, &years).await?;
    compare(&stage, &chart, &hours, &total).await
}

/// A message in some hour of some user's day.
async fn send(hours: Series<i64, 24>, books: Arc<Books>, users: u64, mut random: Rng) -> Checked {
    let of = random.u64(..users);
    // Most are written in the middle of the day.
    let hour = (random.usize(..12) + random.usize(..12)).min(23);
    books.begun.fetch_add(1, Ordering::Relaxed);
    hours.add((user(of), DAY), hour, 1).await?;
    books.acknowledged.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn read_year(wide: &Wide<Year>) -> Checked<WideStored<Year>> {
    let year = wide.read(Year::key().user(YEARS_USER).year(YEAR)).await?;
    Ok(year.ok_or("the year is gone")?)
}

/// All days at once get the next number.
async fn rewrite(wide: Wide<Year>) -> Checked {
    let mut year = read_year(&wide).await?;
    *year = Year::of(year.january.d01 + 1);
    wide.replace(&mut year).await?;
    Ok(())
}

/// The two rows of the year, read one after the other by somebody who does not compare them.
async fn read_naively(years: &TableClient) -> Checked<bool> {
    let user = format!("{YEARS_USER:06}");
    let first = years.get::<DynEntity>((user.as_str(), "2014!w00")).await?;
    let second = years.get::<DynEntity>((user.as_str(), "2014!w01")).await?;
    let (first, second) = first.zip(second).ok_or("the year is gone")?;
    Ok(first.get::<i64>("Jand01")? == second.get::<i64>("Decd31")?)
}

async fn look(stage: Stage, wide: Wide<Year>, years: TableClient, books: Arc<Books>) -> Checked {
    let year = read_year(&wide).await?;
    stage.check(WHOLE, year.number().is_some(), || format!("{:?}", year.months()));
    let is_torn = !read_naively(&years).await?;
    books.naive_torn.fetch_add(u64::from(is_torn), Ordering::Relaxed);
    Ok(())
}

/// A writer between the two rows of a reader.
async fn tear(stage: &Stage, wide: &Wide<Year>, years: &TableClient) -> Checked {
    let user = format!("{YEARS_USER:06}");
    let first = years.get::<DynEntity>((user.as_str(), "2014!w00")).await?;
    rewrite(wide.clone()).await?;
    let second = years.get::<DynEntity>((user.as_str(), "2014!w01")).await?;
    let (first, second) = first.zip(second).ok_or("the year is gone")?;
    let (january, december) = (first.get::<i64>("Jand01")?, second.get::<i64>("Decd31")?);
    let whole = read_year(wide).await?.number();
    stage.say(format!(
        "a write between two rows: 1 January of write {january}, 31 December of write {december}; \
         the library reads write {}\n",
        whole.map(number).unwrap_or_default()
    ));
    let is_caught = january != december && whole == Some(december);
    stage.check(CAUGHT, is_caught, || format!("{january}, {december}, {whole:?}"));
    Ok(())
}

/// The chart from one row, and from 24.
async fn compare(
    stage: &Stage,
    chart: &TableClient,
    hours: &Series<i64, 24>,
    total: &[i64; 24],
) -> Checked {
    let rows = total.iter().zip(0_u8..).map(|(messages, hour)| Hour {
        user: 999_999,
        hour,
        messages: *messages,
    });
    chart.bulk().insert_all(rows.collect::<Vec<_>>()).await?.into_result()?;
    let day = || (user(0), DAY);
    let (read, one) = stage.measure(async { hours.read(day()).await }).await?;
    read?;
    let keys = (0..24).map(|hour| Hour::key().user(999_999).hour(hour));
    let many = async { chart.get_many::<Hour, _>(keys, 8).await };
    let (read, many) = stage.measure(many).await?;
    read?;
    let line = |what: &str, cost: Option<Cost>| {
        let cells = cost.map(|cost| {
            let ms = format!("{:.1}", cost.time.as_secs_f64() * 1e3);
            [number(cost.requests), number(cost.bytes), ms]
        });
        let cells = cells.unwrap_or(["?", "?", "?"].map(str::to_owned));
        [what.to_owned()].into_iter().chain(cells).collect()
    };
    let lines: [Vec<_>; 2] = [line("one row of 24 hours", one), line("24 rows of one hour", many)];
    let head = ["chart from", "requests", "bytes", "ms"];
    let hour = |(messages, hour): (&i64, u8)| (format!("{hour:02}"), *messages as u64);
    let all: Vec<_> = total.iter().zip(0..).map(hour).collect();
    stage.say(format!("{}\n\n{}", bars(&all), table(&head, &lines)));
    Ok(())
}
