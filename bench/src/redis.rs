//! Redis, for orientation: every write in its log and synced before the answer, pressed by its own
//! redis-benchmark.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tavola_load::{Context, ENTITY_BYTES, EntityTemplate, Failure, Result};

use crate::folders::Scratch;
use crate::packages;
use crate::series::Series;
use crate::target::{Reached, Shape, Target};

const START_MAX: Duration = Duration::from_secs(10);
/// redis-benchmark runs for a number of requests, not for a time; this is about what it reaches in
/// a second here.
const GETS_PER_SECOND: f64 = 60_000.0;
const SETS_PER_SECOND: f64 = 10_000.0;

#[derive(Debug)]
pub(crate) struct Redis {
    child: Child,
    port: String,
    entities: u64,
}

impl Redis {
    pub(crate) fn start(entities: u64, scratch: &Scratch) -> Result<Self> {
        packages::install("redis-server", || Path::new("/usr/bin/redis-server").exists())?;
        let folder = scratch.folder("redis")?;
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ]);
        command.args(["--save", "", "--dir"]).arg(folder).stdout(Stdio::null());
        let child = command.spawn().context(|| "cannot start redis".into())?;
        let redis = Self { child, port, entities };
        redis.wait()?;
        eprintln!("Loading Redis");
        let count = entities.to_string();
        // Without a sync for each: what is loaded need not be durable.
        redis.cli(&["config", "set", "appendfsync", "no"])?;
        redis.benchmark(&["-t", "set", "-c", "8", "-P", "100", "-n", &count])?;
        redis.cli(&["config", "set", "appendfsync", "always"])?;
        Ok(redis)
    }

    fn wait(&self) -> Result {
        let started = Instant::now();
        while self.cli(&["ping"]).is_err() {
            if started.elapsed() > START_MAX {
                return Err(Failure::new("redis does not answer"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn cli(&self, words: &[&str]) -> Result<String> {
        output(Command::new("redis-cli").args(["-e", "-p", &self.port]).args(words))
    }

    fn benchmark(&self, words: &[&str]) -> Result<String> {
        let (keys, bytes) = (self.entities.to_string(), ENTITY_BYTES.to_string());
        let mut command = Command::new("redis-benchmark");
        command.args(["--csv", "-p", &self.port, "-d", &bytes, "-r", &keys]).args(words);
        output(&mut command)
    }
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context(|| "cannot run redis's tools".into())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(Failure::new(format!("redis's tool failed: {text}")))
    }
}

fn free_port() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context(|| "no free port".into())?;
    Ok(listener.local_addr().context(|| "no free port".into())?.port().to_string())
}

impl Target for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn entities(&self) -> u64 {
        self.entities
    }

    fn process(&self) -> Option<u32> {
        Some(self.child.id())
    }

    fn takes(&self, series: Series) -> bool {
        matches!(series, Series::Get | Series::Insert | Series::InsertAlone)
    }

    fn press(&mut self, shape: Shape, _template: &EntityTemplate, _round: u32) -> Result<Reached> {
        let (test, rate) = if shape.series == Series::Get {
            ("get", GETS_PER_SECOND)
        } else {
            ("set", SETS_PER_SECOND)
        };
        let rate = if shape.connections == 1 { rate / 10.0 } else { rate };
        let requests = (rate * shape.duration.as_secs_f64()) as u64;
        let (count, clients) = (requests.to_string(), shape.connections.to_string());
        let printed = self.benchmark(&["-t", test, "-c", &clients, "-n", &count])?;
        reached(&printed, requests)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `"test","rps","avg_latency_ms","min","p50","p95","p99","max"`, then one line of figures.
fn reached(csv: &str, requests: u64) -> Result<Reached> {
    let line = csv.lines().last().unwrap_or_default();
    let fields: Vec<f64> =
        line.split(',').skip(1).filter_map(|field| field.trim_matches('"').parse().ok()).collect();
    let [rate, _, _, p50, _, p99, max] = fields[..] else {
        return Err(Failure::new(format!("redis-benchmark said `{csv}`")));
    };
    let seconds = requests as f64 / rate;
    Ok(Reached {
        requests,
        entities: requests,
        seconds,
        p50_us: p50 * 1e3,
        p99_us: p99 * 1e3,
        p999_us: max * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::reached;

    #[test]
    fn what_redis_benchmark_says() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                   \"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"SET\",\"10000.00\",\"0.5\",\"0.1\",\"0.4\",\"0.8\",\"1.2\",\"3.5\"\n";
        let reached = reached(csv, 20_000).unwrap();
        assert_eq!((reached.seconds, reached.p50_us, reached.p99_us), (2.0, 400.0, 1200.0));
        assert!(super::reached("no", 1).is_err());
    }
}
