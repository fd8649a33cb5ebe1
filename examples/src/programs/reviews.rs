//! `reviews`: the reviews of an employee, one a year.
//!
//! The key is compound, `{id}_{year}`: all years of one employee are one range of rows and one
//! request. A projection asks for the ratings without the texts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use futures_util::TryStreamExt as _;
use tavola_client::{Entity, Projection, Properties, Stored, TableClient, only};

use super::Program;
use crate::frame::show::{bars, number, table};
use crate::frame::{Checked, Cost, Crew, Stage};

const WHOLE: &str = "one request returns all years of an employee, in order";
const PROJECTED: &str = "a projected rating is the stored one";
const SMALLER: &str = "a projection sends less";

pub(super) const PROGRAM: Program = Program {
    name: "reviews",
    invariants: &[WHOLE, PROJECTED, SMALLER],
    needs_server: false,
    run: |stage| Box::pin(run(stage)),
};

const DEPT: &str = "Sales";
const EMPLOYEES: u32 = 50;
const FIRST_YEAR: u16 = 1990;
const LAST_YEAR: u16 = 2040;
const TEXT: &str =
    "Meets the goals of the year, helps colleagues, and writes what others can read. ";

/// What employees and reviews have in common.
#[derive(Debug, Clone, PartialEq, Properties)]
struct Person {
    first: String,
    last: String,
}

#[derive(Debug, Clone, Entity)]
#[entity(kind = "employee", rename_all = "PascalCase", partition = "{dept}", row = "{id:06}")]
struct Employee {
    dept: String,
    id: u32,
    #[entity(flatten)]
    person: Person,
}

#[derive(Debug, Clone, Entity)]
#[entity(
    kind = "review",
    rename_all = "PascalCase",
    partition = "{dept}",
    row = "{id:06}_{year:04}"
)]
struct Review {
    dept: String,
    id: u32,
    year: u16,
    #[entity(flatten)]
    person: Person,
    manager_rating: i32,
    peer_rating: i32,
    comments: String,
}

/// The ratings without the texts.
#[derive(Debug, Clone, PartialEq, Projection)]
#[projection(of = Review)]
struct Ratings {
    manager_rating: i32,
    peer_rating: i32,
}

async fn run(stage: Stage) -> Checked {
    let reviews = stage.table("reviews").await?;
    let people = (1..=EMPLOYEES).map(|id| {
        let person = Person { first: "Don".to_owned(), last: format!("Hall{id}") };
        Employee { dept: DEPT.to_owned(), id, person }
    });
    reviews.bulk().insert_all(people).await?.into_result()?;

    let years = Arc::new(AtomicU64::new(0));
    let (writing, reading, written) = (reviews.clone(), reviews.clone(), Arc::clone(&years));
    let read_by = stage.clone();
    Crew::new(&stage)
        .workers(4, move |random| review(writing.clone(), Arc::clone(&written), random))
        .workers(2, move |random| look(read_by.clone(), reading.clone(), random))
        .run()
        .await?;
    stage.say(format!("{} reviews were written\n", number(years.load(Ordering::Relaxed))));
    compare(&stage, &reviews).await
}

/// The reviews of one employee with the number of requests that it took to read them.
async fn all_years(reviews: &TableClient, id: u32) -> Checked<(Vec<Stored<Review>>, usize)> {
    let mut pages = reviews.query(Review::key().dept(DEPT).id(id)).pages();
    let (mut all, mut requests) = (Vec::new(), 0);
    while let Some(page) = pages.try_next().await? {
        requests += 1;
        all.extend(page.items);
    }
    Ok((all, requests))
}

/// The review of the next year of somebody.
async fn review(reviews: TableClient, years: Arc<AtomicU64>, mut random: Rng) -> Checked {
    let id = random.u32(1..=EMPLOYEES);
    let (known, _) = all_years(&reviews, id).await?;
    let year = known.last().map_or(FIRST_YEAR, |last| last.year + 1);
    if year > LAST_YEAR {
        return Ok(());
    }
    let employee = reviews.get(Employee::key().dept(DEPT).id(id)).await?;
    let person = employee.ok_or("an employee is gone")?.person.clone();
    let review = Review {
        dept: DEPT.to_owned(),
        id,
        year,
        person,
        manager_rating: random.i32(1..=5),
        peer_rating: random.i32(1..=5),
        comments: TEXT.repeat(random.usize(5..25)),
    };
    match reviews.insert(&review).await {
        Ok(_) => drop(years.fetch_add(1, Ordering::Relaxed)),
        // Another worker reviewed the same year.
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn look(stage: Stage, reviews: TableClient, mut random: Rng) -> Checked {
    let id = random.u32(1..=EMPLOYEES);
    let ratings = reviews.query(Review::key().dept(DEPT).id(id)).select(only::<Ratings>());
    let ratings: Vec<_> = ratings.stream().try_collect().await?;
    let (whole, requests) = all_years(&reviews, id).await?;
    let years: Vec<_> = whole.iter().map(|review| review.year).collect();
    let expected: Vec<_> = (FIRST_YEAR..).take(years.len()).collect();
    let holds = requests == 1 && years == expected;
    stage.check(WHOLE, holds, || format!("{requests} requests for {years:?}"));
    // Those that were there first are still there, and nobody changes a review.
    let stored = whole.iter().map(|review| Ratings {
        manager_rating: review.manager_rating,
        peer_rating: review.peer_rating,
    });
    let holds =
        ratings.len() <= whole.len() && ratings.iter().zip(stored).all(|(one, own)| **one == own);
    stage.check(PROJECTED, holds, || format!("employee {id}: {ratings:?}"));
    Ok(())
}

/// Each way to read the same years, and what it takes.
async fn compare(stage: &Stage, reviews: &TableClient) -> Checked {
    let (most, id) = most_reviewed(reviews).await?;
    let all = || reviews.query(Review::key().dept(DEPT).id(id));
    let whole = async { all().stream().try_collect::<Vec<_>>().await };
    let (read, whole) = stage.measure(whole).await?;
    read?;
    let ratings = async { all().select(only::<Ratings>()).stream().try_collect::<Vec<_>>().await };
    let (read, projected) = stage.measure(ratings).await?;
    let ratings = read?;
    let one_by_one = async {
        let years = FIRST_YEAR..FIRST_YEAR + most as u16;
        let keys = years.map(|year| Review::key().dept(DEPT).id(id).year(year));
        reviews.get_many::<Review, _>(keys, 8).await
    };
    let (read, points) = stage.measure(one_by_one).await?;
    read?;
    let line = |what: &str, cost: Option<Cost>| {
        let cells = cost.map(|cost| [number(cost.requests), number(cost.bytes)]);
        let [requests, bytes] = cells.unwrap_or(["?".to_owned(), "?".to_owned()]);
        vec![what.to_owned(), requests, bytes]
    };
    let lines = [
        line("one range", whole),
        line("one range, ratings only", projected),
        line("year by year", points),
    ];
    stage.say(format!("{most} years of employee {id}\n"));
    stage.say(table(&["read by", "requests", "bytes"], &lines));
    let chart: Vec<_> = ratings
        .iter()
        .map(|one| (one.key().row().to_owned(), (one.manager_rating + one.peer_rating) as u64))
        .collect();
    stage.say(format!("\nratings of both, added\n{}", bars(&chart[..chart.len().min(12)])));
    // Without a server of our own only the names that are asked for tell.
    let holds = match (whole, projected) {
        (Some(whole), Some(projected)) => projected.bytes < whole.bytes,
        _ => all().select(only::<Ratings>()).explain()?.select.is_some(),
    };
    stage.check(SMALLER, holds, || format!("{projected:?}, {whole:?}"));
    Ok(())
}

/// How many reviews the employee with the most of them has, and who that is.
async fn most_reviewed(reviews: &TableClient) -> Checked<(usize, u32)> {
    let mut most = (0, 1);
    for id in 1..=EMPLOYEES {
        most = most.max((all_years(reviews, id).await?.0.len(), id));
    }
    Ok(most)
}
