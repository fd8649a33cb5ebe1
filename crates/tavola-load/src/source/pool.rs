//! Reads that were signed beforehand: point reads of random entities or of each once, pages from
//! random places.

use std::ops::Range;

use super::scan::encode;
use super::{QUERY_ENTITIES, Source, count_entities, expect_status};
use crate::entity::{Family, ROWS_PER_LOADED_PARTITION};
use crate::failure::{Failure, Result};
use crate::random::Random;
use crate::reply::Reply;
use crate::request::Signer;

/// The most that the service puts into one page.
pub const PAGE_ENTITIES: u64 = 1_000;

/// Distinct point reads of a round; a fast server comes round to them again. 100 MB of requests.
const POINT_READS: u64 = 200_000;
/// Of a small table there are fewer: each entity is asked for so many times.
const POINT_READS_PER_ENTITY: u64 = 20;
const PAGE_READS: usize = 2_000;
const ROW_RANGES: usize = 20_000;

/// Requests in one piece of memory, asked in turn.
#[derive(Debug)]
pub struct PoolSource {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    next: usize,
    entities_per_reply: u64,
    /// It ends when all have been asked.
    is_once: bool,
}

impl PoolSource {
    /// Point reads of random loaded entities.
    pub fn points(signer: &Signer<'_>, table: &str, entities: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut pool = Self::empty(1);
        for _ in 0..POINT_READS.min(entities * POINT_READS_PER_ENTITY) {
            let key = Family::Loaded.key(random.below(entities));
            pool.push(&signer.get(&format!("{table}{}", key.predicate()), ""));
        }
        pool
    }

    /// A point read of each of these loaded entities.
    pub fn each_point(signer: &Signer<'_>, table: &str, entities: Range<u64>) -> Self {
        let mut pool = Self { is_once: true, ..Self::empty(1) };
        for index in entities {
            pool.push(
                &signer.get(&format!("{table}{}", Family::Loaded.key(index).predicate()), ""),
            );
        }
        pool
    }

    /// Whole pages from random places of the table. `pages` are the queries that a scan went
    /// through.
    pub fn pages(signer: &Signer<'_>, table: &str, pages: &[String], seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut pool = Self::empty(PAGE_ENTITIES);
        for _ in 0..PAGE_READS {
            let page = &pages[random.below(pages.len() as u64) as usize];
            pool.push(&signer.get(&format!("{table}()"), page));
        }
        pool
    }

    /// Ten neighbours of random loaded entities, by their keys.
    pub fn row_ranges(signer: &Signer<'_>, table: &str, entities: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut pool = Self::empty(QUERY_ENTITIES);
        let partitions = entities / ROWS_PER_LOADED_PARTITION;
        for _ in 0..ROW_RANGES {
            let row = random.below(ROWS_PER_LOADED_PARTITION - QUERY_ENTITIES);
            let first =
                Family::Loaded.key(random.below(partitions) * ROWS_PER_LOADED_PARTITION + row);
            let filter = format!(
                "PartitionKey eq '{}' and RowKey ge '{}'",
                first.partition_key(),
                first.row_key()
            );
            let query = format!("?$filter={}&$top={QUERY_ENTITIES}", encode(&filter));
            pool.push(&signer.get(&format!("{table}()"), &query));
        }
        pool
    }

    fn empty(entities_per_reply: u64) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), next: 0, entities_per_reply, is_once: false }
    }

    fn push(&mut self, request: &[u8]) {
        self.bytes.extend_from_slice(request);
        self.ends.push(self.bytes.len());
    }
}

impl Source for PoolSource {
    fn next(&mut self, _previous: Option<Reply<'_>>, is_over: bool, out: &mut Vec<u8>) -> bool {
        if self.next == self.ends.len() && !self.is_once {
            self.next = 0;
        }
        if is_over || self.next == self.ends.len() {
            return false;
        }
        let start = if self.next == 0 { 0 } else { self.ends[self.next - 1] };
        out.extend_from_slice(&self.bytes[start..self.ends[self.next]]);
        self.next += 1;
        true
    }

    fn check(&self, reply: Reply<'_>) -> Result<u64> {
        expect_status(reply, 200)?;
        let entities = count_entities(reply.body);
        if entities != self.entities_per_reply {
            let expected = self.entities_per_reply;
            return Err(Failure::new(format!(
                "{entities} entities in a reply instead of {expected}"
            )));
        }
        Ok(entities)
    }
}
