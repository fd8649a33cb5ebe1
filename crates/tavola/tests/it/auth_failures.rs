//! Failed authentication at a real server: counted by account and reason, told to the operator, and
//! answered slowly to whoever fails often. Good credentials are never slowed.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::client::Client;
use crate::common::{ACCOUNT, KEY, RunningServer};
use bytes::Bytes;
use http::{HeaderValue, Request};
use tempfile::TempDir;

/// Right in its form, and nobody's.
const WRONG_KEY: &str =
    "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQQ==";

/// A server that believes its clients where they come from.
struct World {
    server: RunningServer,
    _folder: TempDir,
    log: PathBuf,
}

impl World {
    fn start(with: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (log, config) = (folder.path().join("log"), folder.path().join("tavola.toml"));
        std::fs::write(&config, format!("[accounts.{ACCOUNT}]\nkey1 = \"{KEY}\"\n")).unwrap();
        let server = RunningServer::start_with(&folder.path().join("data"), |command| {
            command.arg("--config").arg(config).arg("--log-file").arg(&log);
            with(command.env("TAVOLA_SERVER__TRUSTED_PROXIES", "127.0.0.1"))
        });
        Self { server, _folder: folder, log }
    }

    /// The status of a request that comes from `address`, signed with a key.
    fn ask_from(&self, address: &'static str, account: &str, key: &str) -> u16 {
        let uri = format!("http://{}/{account}/Tables", self.server.table);
        let mut request = Request::get(uri).body(Bytes::new()).unwrap();
        request.headers_mut().insert("x-forwarded-for", HeaderValue::from_static(address));
        let mut client = Client::connect_as(&self.server.table, account, key).unwrap();
        client.set_timeout(Duration::from_secs(60));
        client.exchange_signed(request).unwrap().status().as_u16()
    }

    fn metric(&self, name: &str) -> u64 {
        let request = Request::get("/metrics").body(Bytes::new()).unwrap();
        let answer = Client::connect(&self.server.admin).unwrap().exchange(&request).unwrap();
        let text = String::from_utf8(answer.body().to_vec()).unwrap();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or(0)
    }

    fn delayed(&self) -> u64 {
        self.metric("tavola_authentication_delayed_total")
    }
}

#[test]
fn whoever_fails_often_waits_and_nobody_else() {
    let world = World::start(|command| {
        command
            .env("TAVOLA_LIMITS__AUTH_FAILURES_PER_MINUTE", "5")
            .env("TAVOLA_LIMITS__AUTH_FAILURE_DELAY_MS", "200")
    });
    let (hostile, neighbour) = ("203.0.113.7", "203.0.113.8");
    for _ in 0..5 {
        assert_eq!(world.ask_from(hostile, ACCOUNT, WRONG_KEY), 403);
    }
    assert_eq!(world.delayed(), 0, "anybody may err");
    let before = Instant::now();
    assert_eq!(world.ask_from(hostile, ACCOUNT, WRONG_KEY), 403, "the answer is the same");
    assert!(before.elapsed() >= Duration::from_millis(200));
    assert_eq!(world.delayed(), 1);
    assert_eq!(world.ask_from(hostile, "nobody", WRONG_KEY), 404);
    assert_eq!(world.delayed(), 2, "whichever account is tried");
    assert_eq!(
        world.ask_from(hostile, ACCOUNT, KEY),
        200,
        "a good key opens, from the same address"
    );
    assert_eq!(world.ask_from(neighbour, ACCOUNT, KEY), 200, "the account is not locked");
    assert_eq!(world.ask_from(neighbour, ACCOUNT, WRONG_KEY), 403);
    assert_eq!(world.delayed(), 2, "none of these waited");
    let log = std::fs::read_to_string(&world.log).unwrap();
    let told: Vec<_> = log
        .lines()
        .filter(|line| line.contains("authentication failed 5 times within a minute"))
        .collect();
    assert!(
        matches!(told[..], [line] if line.contains(hostile) && !line.contains(neighbour)),
        "{log}"
    );
}

#[test]
fn failures_are_counted_by_account_and_reason() {
    let world = World::start(|command| command);
    world.ask_from("203.0.113.7", ACCOUNT, WRONG_KEY);
    world.ask_from("203.0.113.8", ACCOUNT, WRONG_KEY);
    for name in ["nobody", "somebody", "anybody"] {
        world.ask_from("203.0.113.7", name, WRONG_KEY);
    }
    let count = |account: &str, reason: &str| {
        world.metric(&format!(
            "tavola_authentication_failures_total{{account=\"{account}\",reason=\"{reason}\"}}"
        ))
    };
    assert_eq!(
        (count(ACCOUNT, "signature"), count("-", "unknown-account")),
        (2, 3),
        "names of strangers are no labels"
    );
}

#[test]
fn zero_switches_the_delay_off() {
    let world = World::start(|command| {
        command
            .env("TAVOLA_LIMITS__AUTH_FAILURES_PER_MINUTE", "0")
            .env("TAVOLA_LIMITS__AUTH_FAILURE_DELAY_MS", "10000")
    });
    for _ in 0..300 {
        assert_eq!(world.ask_from("203.0.113.7", ACCOUNT, WRONG_KEY), 403);
    }
    assert_eq!(world.delayed(), 0);
}
