//! The baseline of everything that is stored: the engine alone, in a process of its own, with the
//! same options, the same rows and the same grouping of writes.
//!
//! The process is this program itself, started again with a hidden word. It is told what to do line
//! by line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use tavola_core::{PartitionKey, RowKey, TableId, Timestamp};
use tavola_embedded::Options;
use tavola_embedded::engine_baseline::{EngineBaseline, RowBytes};
use tavola_load::{
    BATCH_ENTITIES, Context, EntityTemplate, Failure, Family, MATCHES_ONE_OF, Result,
};
use tavola_protocol::table::entity_json::read_entity;
use tavola_store::encoding::encode_value;
use tavola_store::keys::encode_key;

use crate::folders::Scratch;
use crate::series::Series;
use crate::server::this_program;
use crate::server_target::WIDE_ENTITIES;
use crate::target::{Reached, Shape, Target};

/// The word that turns this program into it; its folder follows.
pub(crate) const WORD: &str = "engine";

/// The first that a user's table gets.
const TABLE: TableId = TableId::new(TableId::FIRST_USER);

/// One order.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Fill with so many rows, and one large partition.
    Load {
        entities: u64,
        wide_entities: u64,
    },
    Insert {
        threads: usize,
        seconds: f64,
        hot: bool,
    },
    Batch {
        threads: usize,
        seconds: f64,
    },
    Walk {
        threads: usize,
        seconds: f64,
    },
}

/// The process as the bench sees it.
#[derive(Debug)]
pub(crate) struct EngineProcess {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    entities: u64,
}

impl EngineProcess {
    pub(crate) fn start(entities: u64, scratch: &Scratch) -> Result<Self> {
        let folder = scratch.folder("engine")?;
        let mut command = this_program()?;
        command.arg(WORD).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context(|| "cannot start the engine".into())?;
        let orders = child.stdin.take().ok_or("no pipe")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let mut engine = Self { child, orders, answers, entities };
        eprintln!("Loading the engine alone with the same rows");
        engine.order(&Order::Load { entities, wide_entities: WIDE_ENTITIES })?;
        Ok(engine)
    }

    fn order(&mut self, order: &Order) -> Result<Reached> {
        let line = serde_json::to_string(order).context(|| "an order".into())?;
        writeln!(self.orders, "{line}").context(|| "the engine is gone".into())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).context(|| "the engine is gone".into())?;
        let answer: std::result::Result<Reached, String> =
            serde_json::from_str(&answer).context(|| format!("the engine said `{answer}`"))?;
        answer.map_err(Failure::new)
    }
}

impl Target for EngineProcess {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn entities(&self) -> u64 {
        self.entities
    }

    fn process(&self) -> Option<u32> {
        Some(self.child.id())
    }

    fn takes(&self, series: Series) -> bool {
        series.writes() || series == Series::Filter
    }

    fn press(&mut self, shape: Shape, _template: &EntityTemplate, _round: u32) -> Result<Reached> {
        let (threads, seconds) = (shape.connections, shape.duration.as_secs_f64());
        self.order(&match shape.series {
            Series::Batch => Order::Batch { threads, seconds },
            Series::Filter => Order::Walk { threads, seconds },
            series => Order::Insert { threads, seconds, hot: series == Series::InsertHot },
        })
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process itself: takes orders until there are no more.
pub(crate) fn main(folder: &Path) -> Result {
    let engine = Engine::new(folder)?;
    for line in std::io::stdin().lines() {
        let line = line.context(|| "no orders".into())?;
        let order = serde_json::from_str(&line).context(|| format!("the order `{line}`"))?;
        let answer = engine.obey(&order).map_err(|failure| failure.to_string());
        println!("{}", serde_json::to_string(&answer).context(|| "an answer".into())?);
    }
    Ok(())
}

struct Engine {
    engine: EngineBaseline,
    rows: RowMaker,
    inserted: AtomicU64,
    hot: AtomicU64,
    batched: AtomicU64,
}

impl Engine {
    fn new(folder: &Path) -> Result<Self> {
        let engine =
            EngineBaseline::create(folder, &Options::default()).context(|| "the engine".into())?;
        let (inserted, hot, batched) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { engine, rows: RowMaker::new()?, inserted, hot, batched })
    }

    fn obey(&self, order: &Order) -> Result<Reached> {
        match *order {
            Order::Load { entities, wide_entities } => {
                self.load(Family::Loaded, entities)?;
                self.load(Family::Wide, wide_entities)
            }
            Order::Insert { threads, seconds, hot } => {
                let (family, next) =
                    if hot { (Family::Hot, &self.hot) } else { (Family::Inserted, &self.inserted) };
                press(threads, seconds, 1, || {
                    let rows = vec![self.rows.row(family, next.fetch_add(1, Ordering::Relaxed))?];
                    match threads {
                        1 => self.engine.write_alone(&rows),
                        _ => self.engine.write_in_group(rows),
                    }
                    .map_err(Failure::new)
                })
            }
            Order::Batch { threads, seconds } => press(threads, seconds, BATCH_ENTITIES, || {
                let first = self.batched.fetch_add(BATCH_ENTITIES, Ordering::Relaxed);
                let rows = (first..first + BATCH_ENTITIES)
                    .map(|index| self.rows.row(Family::Batched, index));
                self.engine.write_in_group(rows.collect::<Result<_>>()?).map_err(Failure::new)
            }),
            Order::Walk { threads, seconds } => {
                press(threads, seconds, WIDE_ENTITIES / MATCHES_ONE_OF, || self.walk())
            }
        }
    }

    fn load(&self, family: Family, entities: u64) -> Result<Reached> {
        const STEP: u64 = 1_000;
        for first in (0..entities).step_by(STEP as usize) {
            let rows = (first..first + STEP)
                .map(|index| self.rows.row(family, index))
                .collect::<Result<_>>()?;
            self.engine.write_in_group(rows).map_err(Failure::new)?;
        }
        Ok(Reached { requests: 0, entities, seconds: 0.0, p50_us: 0.0, p99_us: 0.0, p999_us: 0.0 })
    }

    /// Over the one large partition.
    fn walk(&self) -> Result {
        let (start, end) =
            (self.rows.key(Family::Wide, 0)?, self.rows.key(Family::Wide, WIDE_ENTITIES)?);
        let (rows, _) = self.engine.walk(&start, end).map_err(Failure::new)?;
        if rows == WIDE_ENTITIES {
            Ok(())
        } else {
            Err(Failure::new(format!("met {rows} of {WIDE_ENTITIES} rows")))
        }
    }
}

/// The rows that our server would store for the same requests. Made by writing over one of them:
/// making rows is no work of an engine.
struct RowMaker {
    template: EntityTemplate,
    value: Vec<u8>,
    text_at: usize,
}

impl RowMaker {
    fn new() -> Result<Self> {
        let template = EntityTemplate::new();
        let mut json = Vec::new();
        template.render(Family::Loaded.key(0), &mut json);
        let entity = read_entity(&json)
            .map_err(|error| Failure::new(format!("our own entity: {error:?}")))?;
        let value = encode_value(&entity.properties, Timestamp::MIN);
        let text_at = memmem::find(&value, template.text_of(0)).ok_or("no text in our own row")?;
        Ok(Self { template, value, text_at })
    }

    fn row(&self, family: Family, index: u64) -> Result<RowBytes> {
        let mut value = self.value.clone();
        let text = self.template.text_of(index);
        value[self.text_at..][..text.len()].copy_from_slice(text);
        Ok((self.key(family, index)?, value))
    }

    fn key(&self, family: Family, index: u64) -> Result<Vec<u8>> {
        let key = family.key(index);
        let partition_key = PartitionKey::new(key.partition_key()).map_err(|_| "our own key")?;
        let row_key = RowKey::new(key.row_key()).map_err(|_| "our own key")?;
        Ok(encode_key(TABLE, &partition_key, &row_key))
    }
}

/// Runs `work` on threads for a time, each call for so many entities.
fn press(
    threads: usize,
    seconds: f64,
    entities: u64,
    work: impl Fn() -> Result + Sync,
) -> Result<Reached> {
    let (started, duration) = (Instant::now(), Duration::from_secs_f64(seconds));
    let run = || -> Result<Histogram<u64>> {
        let mut latency = Histogram::new(3).context(|| "a histogram".into())?;
        while started.elapsed() < duration {
            let asked = Instant::now();
            work()?;
            let nanoseconds = asked.elapsed().as_nanos() as u64;
            latency.record(nanoseconds.max(1)).context(|| "a latency".into())?;
        }
        Ok(latency)
    };
    let mut latency = Histogram::new(3).context(|| "a histogram".into())?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().try_for_each(|thread| {
            let of_one = thread.join().map_err(|_| "a thread panicked")??;
            latency.add(of_one).context(|| "latencies".into())
        })
    })?;
    Ok(Reached::new(latency.len(), latency.len() * entities, started.elapsed(), &latency))
}
