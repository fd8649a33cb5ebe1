//! What an application does all day: 90 % point reads, 5 % inserts, 5 % queries of ten rows.

use super::{InsertSource, PoolSource, Source, count_entities, expect_status};
use crate::failure::{Failure, Result};
use crate::random::Random;
use crate::reply::Reply;

/// Rows that a query finds.
pub const QUERY_ENTITIES: u64 = 10;

/// Of a hundred requests.
const INSERTS: u64 = 5;
const INSERTS_AND_QUERIES: u64 = INSERTS + 5;

#[derive(Debug)]
pub struct MixedSource<'a> {
    random: Random,
    points: PoolSource,
    queries: PoolSource,
    inserts: InsertSource<'a>,
}

impl<'a> MixedSource<'a> {
    pub fn new(
        points: PoolSource,
        queries: PoolSource,
        inserts: InsertSource<'a>,
        seed: u64,
    ) -> Self {
        Self { random: Random::new(seed), points, queries, inserts }
    }
}

impl Source for MixedSource<'_> {
    fn next(&mut self, previous: Option<Reply<'_>>, is_over: bool, out: &mut Vec<u8>) -> bool {
        match self.random.below(100) {
            0..INSERTS => self.inserts.next(previous, is_over, out),
            INSERTS..INSERTS_AND_QUERIES => self.queries.next(previous, is_over, out),
            _ => self.points.next(previous, is_over, out),
        }
    }

    /// Which of the three it answers is not known; each has a status or a number of entities of its
    /// own.
    fn check(&self, reply: Reply<'_>) -> Result<u64> {
        if reply.head.status == 204 {
            return Ok(1);
        }
        expect_status(reply, 200)?;
        match count_entities(reply.body) {
            entities @ (1 | QUERY_ENTITIES) => Ok(entities),
            other => Err(Failure::new(format!(
                "{other} entities in a reply instead of 1 or {QUERY_ENTITIES}"
            ))),
        }
    }
}
