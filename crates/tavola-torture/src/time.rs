//! A clock that is set while the server runs and between its lives.
//!
//! The ledger of the clients checks what must hold of versions: they grow within a partition, and
//! no ETag comes twice. A folder whose versions are more than a day ahead of the clock is not
//! served unless that is asked for. Here is what must hold of credentials: a request is as old as
//! the server's clock says, and a signature opens what it opens between its two times on that
//! clock.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Request, Response};
use tavola_core::{AccountName, DateTime};
use tavola_protocol::auth::{AccountKey, AccountSas};

use super::author::SHARED;
use super::preload::ShiftedClock;
use super::workload::{Load, Progress, connect};
use super::{Arena, Campaign, Tally, Violation};
use tavola_testkit::client::{shift_clocks, shifted};
use tavola_testkit::server_process::{ACCOUNT, KEY, ServerProcess};

const CLIENTS: usize = 6;
const LIVES: usize = 4;
const JUMPS: usize = 4;
const ANSWERS_TIME_MAX: Duration = Duration::from_secs(5);
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Earlier than any clock of this campaign.
const LONG_BEFORE: i64 = 40 * 365 * DAY;
/// Lets a server start on a folder that is ahead of its clock.
const ALLOW_FUTURE: &str = "TAVOLA_STORE__ALLOW_FUTURE_VERSIONS";
/// A client's clock may be so far from the server's.
const SKEW_MAX: i64 = 15 * MINUTE;

pub(super) const CAMPAIGN: Campaign = Campaign {
    name: "time",
    about: "the clock jumps by minutes to years, while the server runs and between its lives; versions still grow",
    short_seeds: 3,
    needs_cluster: false,
    must_happen: &[],
    attack,
};

fn attack(arena: &Arena) -> Result<Tally, Violation> {
    let outcome = lives(arena);
    shift_clocks(0);
    outcome
}

fn lives(arena: &Arena) -> Result<Tally, Violation> {
    let mut rng = arena.rng(0);
    let clock = ShiftedClock::new(arena)?;
    let mut load = Load::new(arena, CLIENTS);
    let mut tally = Tally::default();
    let memtable_kb = if rng.bool() { "64" } else { "65536" };
    for life in 0..LIVES {
        if life > 0 {
            must_be_refused(arena, &clock)?;
            tally.add("folders ahead of the clock refused", 1);
        }
        set(&clock, far(&mut rng));
        let server = arena.start(|command| {
            clock
                .attach(command)
                .env("TAVOLA_STORE__MEMTABLE_KB", memtable_kb)
                .env(ALLOW_FUTURE, "true")
        })?;
        if life == 0 {
            load.prepare(&server.table)?;
        } else {
            load.verify(&server.table)?;
        }
        for _ in 0..JUMPS {
            jump(&clock, &server, &mut load, &mut rng, &mut tally)?;
        }
        kill_while_jumping(&clock, server, &mut load, &mut rng)?;
        tally.add("kills", 1);
    }
    set(&clock, far(&mut rng));
    let server = arena.start(|command| clock.attach(command).env(ALLOW_FUTURE, "true"))?;
    load.verify(&server.table)?;
    let ended = server.terminate();
    if !ended.success() {
        return Err(Violation::new(format!(
            "the server did not end well: {ended}; {}",
            arena.last_words()
        )));
    }
    tally.merge(&load.tally());
    Ok(tally)
}

/// With a clock that is behind everything that was written, the folder is not served.
fn must_be_refused(arena: &Arena, clock: &ShiftedClock) -> Result<(), Violation> {
    clock.set(-LONG_BEFORE);
    let mut command = arena.serve_command()?;
    match ServerProcess::spawn(clock.attach(&mut command)) {
        Err(ended)
            if ended.status.code() == Some(3)
                && arena.last_words().contains("ahead of this machine's clock") =>
        {
            Ok(())
        }
        Err(ended) => {
            let said = arena.last_words();
            Err(Violation::new(format!(
                "a folder ahead of the clock ended with {}: {said}",
                ended.status
            )))
        }
        Ok(_) => Err(Violation::new("a folder that is years ahead of the clock is served")),
    }
}

/// The server's clock and those of its clients, so that these are let in.
fn set(clock: &ShiftedClock, seconds: i64) {
    clock.set(seconds);
    shift_clocks(seconds);
}

/// Back or forth by minutes to years. The clock starts at most so many years before the present
/// that it stays beyond the times at which credentials can be made at all.
fn far(rng: &mut fastrand::Rng) -> i64 {
    let unit = [MINUTE, HOUR, DAY, 365 * DAY][rng.usize(..4)];
    rng.i64(-20..=20) * unit + rng.i64(-MINUTE..=MINUTE)
}

/// Sets the clock: by much while the clients pause, because their requests would be
/// of another time; then by little while they write.
fn jump(
    clock: &ShiftedClock,
    server: &ServerProcess,
    load: &mut Load,
    rng: &mut fastrand::Rng,
    tally: &mut Tally,
) -> Result<(), Violation> {
    let seconds = far(rng);
    set(clock, seconds);
    check_credentials(server, seconds)?;
    let progress = &Progress::default();
    let mut small = rng.fork();
    thread::scope(|scope| {
        scope.spawn(move || {
            for answers in [10, 20, 30, 40] {
                progress.wait_for(answers, ANSWERS_TIME_MAX);
                clock.set(seconds + small.i64(-SKEW_MAX + MINUTE..SKEW_MAX - MINUTE));
            }
            progress.wait_for(60, ANSWERS_TIME_MAX);
            progress.stop();
        });
        load.write(&server.table, progress)
    })?;
    set(clock, seconds);
    tally.add("jumps far", 1);
    tally.add("jumps near, under load", 4);
    Ok(())
}

fn kill_while_jumping(
    clock: &ShiftedClock,
    server: ServerProcess,
    load: &mut Load,
    rng: &mut fastrand::Rng,
) -> Result<(), Violation> {
    let seconds = far(rng);
    set(clock, seconds);
    let (authority, answers) = (server.table.clone(), rng.usize(1..100));
    let progress = &Progress::default();
    let near = seconds - rng.i64(0..SKEW_MAX - MINUTE);
    thread::scope(|scope| {
        scope.spawn(move || {
            progress.wait_for(answers / 2, ANSWERS_TIME_MAX);
            clock.set(near);
            progress.wait_for(answers, ANSWERS_TIME_MAX);
            server.kill();
            progress.stop();
        });
        load.write(&authority, progress)
    })
}

/// What a server at `seconds` from the present must say to credentials of several times.
fn check_credentials(server: &ServerProcess, seconds: i64) -> Result<(), Violation> {
    for (what, client_seconds, is_let_in) in [
        ("by a clock that is right", seconds, true),
        ("by a clock that is 14 minutes late", seconds - SKEW_MAX + MINUTE, true),
        ("by a clock that is 14 minutes early", seconds + SKEW_MAX - MINUTE, true),
        ("by a clock that is 16 minutes late", seconds - SKEW_MAX - MINUTE, false),
        ("by a clock that is 16 minutes early", seconds + SKEW_MAX + MINUTE, false),
    ] {
        let target = format!("http://{}/{ACCOUNT}/{SHARED}?$top=1", server.table);
        let request = ask(&target)?;
        let response = connect(&server.table)?.exchange_signed_at(request, shifted(client_seconds));
        expect(
            response.map_err(|_| no_answer())?,
            is_let_in,
            &format!("a request signed {what}"),
            seconds,
        )?;
    }
    for (what, start, expiry, is_let_in) in [
        ("that holds", -HOUR, HOUR, true),
        ("that has expired", -DAY, -MINUTE, false),
        ("that does not hold yet", MINUTE, DAY, false),
    ] {
        let sas = signature(shifted(seconds + start), shifted(seconds + expiry))?;
        let request = ask(&format!("http://{}/{ACCOUNT}/{SHARED}?$top=1&{sas}", server.table))?;
        let response = connect(&server.table)?.exchange(&request).map_err(|_| no_answer())?;
        expect(response, is_let_in, &format!("a signature {what}"), seconds)?;
    }
    Ok(())
}

fn ask(target: &str) -> Result<Request<Bytes>, Violation> {
    let request = Request::get(target)
        .header("x-ms-version", "2019-02-02")
        .header("accept", "application/json");
    request.body(Bytes::new()).map_err(|error| Violation::new(format!("{target}: {error}")))
}

fn no_answer() -> Violation {
    Violation::new("the server does not answer after the clock was set")
}

fn expect(
    response: Response<Bytes>,
    is_let_in: bool,
    what: &str,
    seconds: i64,
) -> Result<(), Violation> {
    let (status, body) =
        (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned());
    let is_right = if is_let_in {
        status == 200
    } else {
        status == 403 && body.contains("AuthenticationFailed")
    };
    if !is_right {
        return Err(Violation::new(format!(
            "with the clock at {seconds} s, {what} is answered {status} {body}"
        )));
    }
    // What the server says of the time is its clock, as it is set.
    let date = date(&response).ok_or_else(|| Violation::new("an answer has no Date"))?;
    let off = distance(date, shifted(seconds));
    if off > Duration::from_secs(5) {
        return Err(Violation::new(format!(
            "with the clock at {seconds} s, Date is off by {} s",
            off.as_secs()
        )));
    }
    Ok(())
}

/// What an answer says of the time.
pub(super) fn date(response: &Response<Bytes>) -> Option<SystemTime> {
    httpdate::parse_http_date(response.headers().get("date")?.to_str().ok()?).ok()
}

/// How far two times are from each other.
pub(super) fn distance(one: SystemTime, other: SystemTime) -> Duration {
    one.duration_since(other).unwrap_or_else(|error| error.duration())
}

/// A signature for the account that holds between two times.
fn signature(start: SystemTime, expiry: SystemTime) -> Result<String, Violation> {
    let text = |at: SystemTime| {
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        DateTime::from_unix(Duration::from_secs(at.as_secs())).to_string()
    };
    let sas = AccountSas {
        version: "2019-02-02".to_owned(),
        services: "t".to_owned(),
        resource_types: "sco".to_owned(),
        permissions: "r".to_owned(),
        start: text(start),
        expiry: text(expiry),
        ..AccountSas::default()
    };
    let account = AccountName::parse(ACCOUNT)
        .ok_or_else(|| Violation::new("the account has no legal name"))?;
    let key = AccountKey::parse(KEY)
        .map_err(|error| Violation::new(format!("the account's key: {error}")))?;
    Ok(sas.signed(&account, &key))
}
