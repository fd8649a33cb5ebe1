//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::series::Series;
use tavola_load::source::PAGE_ENTITIES;
use tavola_load::{BATCH_ENTITIES, Failure, Result};

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Point GET of random entities
    Get,
    /// What checking a credential costs, as a share of a point GET
    Auth,
    /// One page of 1,000 and one point GET, each on one connection: their cost must not grow with
    /// the table
    Page,
    /// The whole table by pages of 1,000, following continuation
    Scan,
    /// A scan of a large partition for the 1 % of its entities that match a filter on a property
    Filter,
    /// 90 % point GET, 5 % insert, 5 % query of ten rows; then the same at half of that rate, for
    /// its latencies
    Mixed,
    /// Durable inserts of new entities: over many partitions, one at a time, all into one partition
    Insert,
    /// Inserts, 100 per entity group transaction
    Batch,
    /// From the start of the process on an empty folder to the first reply
    Start,
    /// The same on a folder of the largest size, after a kill
    Recovery,
    /// Bytes on disk per byte of JSON, once merging has come to rest
    Space,
    /// Drop of a table of a million entities: its reply, its space, and what others notice
    Drop,
    /// Resident memory: idle, after loading, at the end
    Rss,
    /// CPU time of a point GET of the client library, against a bare hyper client that sends the
    /// same bytes
    ClientGet,
    /// Reading 1,000 entities into a derived type, against `serde_json` into an equivalent one
    ClientDecode,
    /// The same into dynamic entities, against the derived type
    ClientDynamic,
    /// New entities in 1,000 partitions by the client's `bulk`, against the load generator
    ClientBulk,
    /// Memory of a client that streams the largest table
    ClientStream,
}

/// Something to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rival {
    /// hyper and tokio as we use them, answering the same bytes with no work
    Null,
    /// RocksDB alone with our options and rows
    Engine,
    /// Microsoft's emulator, installed from npm
    Azurite,
    /// PostgreSQL, a Debian package: one table with a composite key, `synchronous_commit=on`, by
    /// pgbench
    Postgres,
    /// Redis, a Debian package: `appendfsync always`, by redis-benchmark
    Redis,
    /// The official SDK, in `client-get` and `client-bulk`; `cargo xtask sdk python` installs it
    Python,
    /// The same; `cargo xtask sdk js` installs it
    Js,
    /// The same; `cargo xtask sdk go` installs it
    Go,
}

/// Measures Tavola on this machine, side by side with others.
///
/// Servers are started on free ports of the loopback interface, on new folders under the temporary
/// folder (TMPDIR chooses another disk). All are asked by one generator: closed loop, keep-alive
/// connections, requests signed beforehand, every reply checked. Rounds of all servers alternate; a
/// ratio is the median of the ratios of each round.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to measure; everything if none is named
    #[arg(value_enum, value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<Workload>,

    /// What to compare with
    #[arg(long, value_enum, value_delimiter = ',', value_name = "RIVAL")]
    pub(crate) against: Vec<Rival>,

    /// Sizes of the tables, multiples of 1,000; one server runs for each
    #[arg(long, value_delimiter = ',', default_value = "1000000", value_name = "N")]
    pub(crate) entities: Vec<u64>,

    /// Size of Azurite's table: it reads all of it for every page
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub(crate) azurite_entities: u64,

    /// Entities of a round of `client-bulk`, a multiple of 100
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub(crate) bulk_entities: u64,

    /// Rounds of each workload on each server, after one that does not count
    #[arg(long, default_value_t = 5, value_name = "R", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Connections of `get` and `insert`
    #[arg(long, default_value_t = 64, value_name = "C", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,

    /// Length of a round; a scan that has begun is finished
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    pub(crate) seconds: f64,

    /// File for the raw figures [default: bench/runs/DATE-COMMIT.json]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// File for a picture of the ratios
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// A setting of our server; may be given again
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,

    /// Read every entity once before the first round, so that our server's caches hold what they
    /// have room for
    #[arg(long)]
    pub(crate) warm: bool,

    /// The server's binary [default: the release build]
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,

    /// Another build of the server to compare with, as `before`
    #[arg(long, value_name = "PATH")]
    pub(crate) before: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench get --against null,azurite
      Point reads beside a server that does no work, and beside Azurite
  cargo xtask bench page --entities 10000,10000000
      Does a page cost more when the table is larger?
  cargo xtask bench get page --entities 10000,10000000 --set store.cache_mb=14000 --warm
      The same while all of it is in memory
  cargo xtask bench insert batch --against engine,postgres,redis --seconds 10
      Durable writes; syncs per second are shown beside the rates
  cargo xtask bench get insert scan filter --before /tmp/tavola-of-yesterday
      What a change did, in the same run
  cargo xtask bench client-get client-bulk --against python,js,go
      The client library beside the official SDKs
  cargo xtask bench --against null,engine,azurite --svg docs/bench.svg
      Everything, and the picture; about a quarter of an hour";

fn setting(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a setting looks like store.cache_mb=1000")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Args {
    /// Refuses what no workload could do.
    pub(crate) fn check(&self) -> Result {
        let sizes = self.entities.iter().chain([&self.azurite_entities]);
        if let Some(size) =
            sizes.into_iter().find(|size| **size == 0 || !size.is_multiple_of(PAGE_ENTITIES))
        {
            return Err(Failure::new(format!(
                "--entities {size}: tables are filled by whole pages of {PAGE_ENTITIES}"
            )));
        }
        if self.bulk_entities == 0 || !self.bulk_entities.is_multiple_of(BATCH_ENTITIES) {
            return Err(Failure::new("--bulk-entities: a multiple of 100"));
        }
        if !(0.1..=600.0).contains(&self.seconds) {
            return Err(Failure::new(format!("--seconds {}: between 0.1 and 600", self.seconds)));
        }
        Ok(())
    }

    pub(crate) fn wants(&self, workload: Workload) -> bool {
        self.workloads.is_empty() || self.workloads.contains(&workload)
    }

    /// The cost of a credential is a share of that of a read.
    pub(crate) fn wants_series(&self, series: Series) -> bool {
        self.wants(series.workload()) || series == Series::Get && self.wants(Workload::Auth)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Args, Workload};

    fn parse(line: &str) -> Args {
        Args::try_parse_from(["bench"].into_iter().chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn no_workload_means_all() {
        assert!(parse("").wants(Workload::Scan));
        assert!(!parse("get batch").wants(Workload::Scan));
        assert!(parse("get batch --entities 1000,2000").wants(Workload::Batch));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(parse("--entities 10000,1000000").check().is_ok());
        assert!(parse("--entities 1500").check().is_err());
        assert!(parse("--azurite-entities 0").check().is_err());
        assert!(parse("--seconds 0").check().is_err());
        assert!(parse("--bulk-entities 150").check().is_err());
    }
}
