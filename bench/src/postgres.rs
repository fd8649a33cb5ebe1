//! PostgreSQL, for orientation: one table with a composite key, prepared statements,
//! `synchronous_commit=on`, pressed by its own pgbench over a local socket.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tavola_load::{Context, EntityTemplate, Failure, Family, Result};

use crate::folders::Scratch;
use crate::packages;
use crate::series::Series;
use crate::target::{Reached, Shape, Target};

/// It refuses to run as root; its package brings this user.
const USER: &str = "postgres";
const SCRIPT_GET: &str = "\\set n random(0, :entities - 1)\n\
    SELECT body FROM bench WHERE pk = 'p' || lpad((:n / 1000)::text, 6, '0') AND rk = 'r' || lpad(:n::text, 9, '0');\n";
const SCRIPT_INSERT: &str = "INSERT INTO bench VALUES ('i' || lpad((random() * 999)::int::text, 6, '0'), gen_random_uuid()::text, :body);\n";

#[derive(Debug)]
pub(crate) struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    entities: u64,
}

impl Postgres {
    pub(crate) fn start(
        entities: u64,
        template: &EntityTemplate,
        scratch: &Scratch,
    ) -> Result<Self> {
        let programs = programs()?;
        let folder = scratch.folder("postgres")?;
        give_to_user(&folder)?;
        give_to_user(scratch.path())?;
        let postgres = Self { programs, folder, entities };
        postgres.run("initdb", &["-D", "data", "--auth=trust", "--no-sync"])?;
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c synchronous_commit=on -c max_connections=200",
            postgres.folder.display()
        );
        postgres
            .run("pg_ctl", &["-D", "data", "-w", "-l", "server.log", "-o", &options, "start"])?;
        postgres.load(template)?;
        Ok(postgres)
    }

    /// The same entities as JSON, by COPY.
    fn load(&self, template: &EntityTemplate) -> Result {
        eprintln!("Loading PostgreSQL with the same entities");
        let create = "CREATE TABLE bench (pk text, rk text, body text, PRIMARY KEY (pk, rk))";
        self.run("psql", &["-qc", create])?;
        let mut psql = self.command("psql", &["-qc", "COPY bench FROM STDIN"]);
        let mut child = psql.stdin(Stdio::piped()).spawn().context(|| "cannot run psql".into())?;
        let mut input = std::io::BufWriter::new(child.stdin.take().ok_or("no pipe")?);
        let mut json = Vec::new();
        for index in 0..self.entities {
            let key = Family::Loaded.key(index);
            json.clear();
            template.render(key, &mut json);
            let body = String::from_utf8_lossy(&json);
            let line = format!("{}\t{}\t{body}\n", key.partition_key(), key.row_key());
            input.write_all(line.as_bytes()).context(|| "psql is gone".into())?;
        }
        drop(input);
        let status = child.wait().context(|| "psql is gone".into())?;
        if !status.success() {
            return Err(Failure::new("COPY failed"));
        }
        self.run("psql", &["-qc", "VACUUM ANALYZE bench"])?;
        let mut body = Vec::new();
        template.render(Family::Inserted.key(1), &mut body);
        fs::write(self.folder.join("get.sql"), SCRIPT_GET).context(|| "a script".into())?;
        // A colon would begin the name of a variable; the text is as long without.
        let body = String::from_utf8_lossy(&body).replace(':', ";");
        let insert = SCRIPT_INSERT.replace(":body", &format!("'{body}'"));
        fs::write(self.folder.join("insert.sql"), insert).context(|| "a script".into())
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("runuser");
        command.args(["-u", USER, "--"]).arg(self.programs.join(program)).args(args);
        // For those that are clients: sockets are found by folders.
        command.env("PGHOST", &self.folder).env("PGDATABASE", "postgres");
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        // Not through a pipe: the server that pg_ctl leaves behind would hold it open.
        let log = self.folder.join(format!("{program}.out"));
        let out = fs::File::create(&log).context(|| format!("cannot write {}", log.display()))?;
        let errors = out.try_clone().context(|| "a log".into())?;
        let status = self.command(program, args).stdout(out).stderr(errors).status();
        let status = status.context(|| format!("cannot run {program}"))?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        if status.success() {
            Ok(text)
        } else {
            Err(Failure::new(format!("{program} failed: {text}")))
        }
    }
}

/// Where Debian keeps them: not on the path, one folder per version.
fn programs() -> Result<PathBuf> {
    packages::install("postgresql", || Path::new("/usr/lib/postgresql").is_dir())?;
    let versions = fs::read_dir("/usr/lib/postgresql").context(|| "no PostgreSQL".into())?;
    let newest = versions.flatten().map(|entry| entry.path()).max().ok_or("no PostgreSQL")?;
    Ok(newest.join("bin"))
}

fn give_to_user(folder: &Path) -> Result {
    let passwd = fs::read_to_string("/etc/passwd").context(|| "no users".into())?;
    let id = |field: usize| {
        let line = passwd.lines().find(|line| line.starts_with(&format!("{USER}:")))?;
        line.split(':').nth(field)?.parse().ok()
    };
    chown(folder, id(2), id(3)).context(|| format!("cannot give {} to {USER}", folder.display()))
}

impl Target for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn entities(&self) -> u64 {
        self.entities
    }

    /// Many.
    fn process(&self) -> Option<u32> {
        None
    }

    fn takes(&self, series: Series) -> bool {
        matches!(series, Series::Get | Series::Insert | Series::InsertAlone)
    }

    fn press(&mut self, shape: Shape, _template: &EntityTemplate, _round: u32) -> Result<Reached> {
        let script = if shape.series == Series::Get { "get.sql" } else { "insert.sql" };
        let (clients, seconds) =
            (shape.connections.to_string(), shape.duration.as_secs().max(1).to_string());
        let entities = format!("entities={}", self.entities);
        let printed = self.run(
            "pgbench",
            &["-n", "-M", "prepared", "-f", script, "-D", &entities, "-c", &clients]
                .into_iter()
                .chain(["-j", "1", "-T", &seconds])
                .collect::<Vec<_>>(),
        )?;
        reached(&printed, shape.duration.as_secs_f64().max(1.0).floor())
    }

    fn last_errors(&self) -> String {
        fs::read_to_string(self.folder.join("server.log"))
            .unwrap_or_default()
            .lines()
            .rev()
            .take(3)
            .collect()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.run("pg_ctl", &["-D", "data", "-m", "immediate", "stop"]);
    }
}

/// pgbench says how many, how fast, and the mean latency; quantiles it does not know.
fn reached(printed: &str, seconds: f64) -> Result<Reached> {
    let after = |words: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(words))?;
        line.split_whitespace().next()?.split('/').next()?.parse::<f64>().ok()
    };
    let rate = after("tps = ").ok_or_else(|| Failure::new(format!("pgbench said `{printed}`")))?;
    let mean_us = after("latency average = ").unwrap_or(f64::NAN) * 1e3;
    let requests = (rate * seconds) as u64;
    Ok(Reached {
        requests,
        entities: requests,
        seconds,
        p50_us: mean_us,
        p99_us: f64::NAN,
        p999_us: f64::NAN,
    })
}

#[cfg(test)]
mod tests {
    use super::reached;

    #[test]
    fn what_pgbench_says() {
        let printed = "number of transactions actually processed: 30210\nnumber of failed transactions: 0 (0.000%)\n\
                       latency average = 2.118 ms\ntps = 10070.5 (without initial connection time)\n";
        let reached = reached(printed, 3.0).unwrap();
        assert_eq!((reached.requests, reached.p50_us), (30211, 2118.0));
        assert!(super::reached("no", 3.0).is_err());
    }
}
