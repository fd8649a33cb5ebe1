//! `cargo xtask simulate`: how many Cassandra nodes and servers a load needs, from costs that were
//! measured.
//!
//! Not a test and not a promise: it deals requests out to partitions by their popularity,
//! partitions to nodes as the ring does, and adds up what each has to do. `docs/scale.md` says
//! where the costs come from and what is left out.

mod model;
mod random;

use crate::args::Args;
use crate::failure::{Failure, Result};
use model::{Answer, Costs, Load};

pub(crate) const HELP: &str = "\
cargo xtask simulate [--accounts N] [--requests N] [--skew S] [--writes SHARE] [...]

Answers how many Cassandra nodes and servers a load needs, from the costs of docs/scale.md. A cluster fits if no Cassandra
node is busier than the bound while one is down.

  --accounts N          accounts; default 100
  --partitions N        partitions of an account; default 10000
  --requests N          requests a second of all accounts together; default 10000
  --skew S              how unequal partitions are: 0 all the same, 1 as words of a language; default 0.8
  --writes SHARE        share of writes; default 0.2
  --reads WORD          strict or fast; default strict
  --copies N            of each row; default 3
  --cores N             of a Cassandra node; default 8
  --server-cores N      of a server; default 4
  --busy SHARE          how busy a core may be; default 0.6
  --seed N              of the dice; default 1

Costs, in milliseconds of one core; the defaults were measured on two cores that all nodes shared, and are high:
  --write-ms, --strict-ms, --fast-ms   of all replicas together, per copy
  --server-ms                          of a server, per request
  --partition-writes N                 writes a second that one partition can take";

pub(crate) fn command(mut args: Args) -> Result {
    let load = Load {
        accounts: number(&mut args, "--accounts", 100.0)? as usize,
        partitions: number(&mut args, "--partitions", 10_000.0)? as usize,
        requests: number(&mut args, "--requests", 10_000.0)?,
        skew: number(&mut args, "--skew", 0.8)?,
        writes: number(&mut args, "--writes", 0.2)?,
        is_strict: match args.value("--reads")?.as_deref() {
            None | Some("strict") => true,
            Some("fast") => false,
            Some(other) => return Err(Failure::new(format!("--reads {other}: strict or fast"))),
        },
        copies: number(&mut args, "--copies", 3.0)? as usize,
        cassandra_cores: number(&mut args, "--cores", 8.0)?,
        server_cores: number(&mut args, "--server-cores", 4.0)?,
        busy: number(&mut args, "--busy", 0.6)?,
        seed: number(&mut args, "--seed", 1.0)? as u64,
    };
    let defaults = Costs::MEASURED;
    let costs = Costs {
        write_ms: number(&mut args, "--write-ms", defaults.write_ms)?,
        strict_ms: number(&mut args, "--strict-ms", defaults.strict_ms)?,
        fast_ms: number(&mut args, "--fast-ms", defaults.fast_ms)?,
        server_ms: number(&mut args, "--server-ms", defaults.server_ms)?,
        partition_writes: number(&mut args, "--partition-writes", defaults.partition_writes)?,
    };
    args.finish()?;
    load.check().map_err(Failure::new)?;
    print(&load, &costs, &model::answer(&load, &costs));
    Ok(())
}

fn number(args: &mut Args, name: &str, default: f64) -> Result<f64> {
    let Some(text) = args.value(name)? else { return Ok(default) };
    let parsed = text
        .replace(['_', ','], "")
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0);
    parsed.ok_or_else(|| Failure::new(format!("{name} {text}: not a number")))
}

fn print(load: &Load, costs: &Costs, answer: &Answer) {
    println!(
        "{} accounts with {} partitions each, {:.0} requests/s, {:.0} % writes, skew {}",
        load.accounts,
        load.partitions,
        load.requests,
        load.writes * 100.0,
        load.skew
    );
    match answer.nodes {
        Some(nodes) => println!(
            "  nodes        {nodes} of {} cores, {} copies; the busiest is at {:.0} %, with one down at {:.0} %",
            load.cassandra_cores,
            load.copies,
            answer.busiest * 100.0,
            answer.busiest_with_one_down * 100.0
        ),
        None => println!(
            "  nodes        no number helps: the busiest partition alone is too much for its replicas"
        ),
    }
    println!(
        "  servers      {} of {} cores, one of them to spare",
        answer.servers, load.server_cores
    );
    println!(
        "  hottest partition  {:.0} requests/s, of them {:.0} writes; one partition takes {:.0} writes/s{}",
        answer.hottest,
        answer.hottest * load.writes,
        costs.partition_writes,
        if answer.hottest * load.writes > costs.partition_writes {
            ": TOO HOT, clients will get ServerBusy"
        } else {
            ""
        }
    );
}
