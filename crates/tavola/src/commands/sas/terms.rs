//! What both kinds of signature have in common: when, from where, and over what.

use std::net::Ipv4Addr;

use clap::{Arg, ArgAction, ArgMatches};
use tavola_core::DateTime;
use tavola_core::time::TICKS_PER_SECOND;

use crate::exit::Failure;
use crate::human_time;

/// The version that the official libraries for tables sign with and speak, so that everything that
/// can read any signature for tables reads this one. Later versions add nothing for tables: from
/// 2020-12-06 on an account's signature has one more line, for the encryption scopes of blobs.
const VERSION: &str = "2019-02-02";
/// Default validity of a signature.
const DEFAULT_TIME: &str = "1h";

const HEADING: &str = "Validity";

pub(super) fn flags(default_time: &'static str) -> Vec<Arg> {
    let flag =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let flags = [
        flag("expires-in", "TIME")
            .help(format!("30m, 8h, 7d, 2w from now [default: {default_time}]")),
        flag("expiry", "TIME")
            .conflicts_with("expires-in")
            .help("2026-12-31T18:00:00Z, instead of --expires-in"),
        flag("start", "TIME").help("Valid from this time [default: now]"),
        flag("ip", "ADDRESS")
            .help("Only from this IPv4 address, or from a range: 10.0.0.1-10.0.0.9"),
        flag("https-only", "").action(ArgAction::SetTrue).help("Reject over plain http"),
        flag("sas-version", "DATE")
            .default_value(VERSION)
            .help("Version of the signature's format; the default works with every service"),
    ];
    flags.into_iter().map(|flag| flag.help_heading(HEADING)).collect()
}

/// When, from where, and over what.
pub(super) struct Terms {
    pub(super) start: Option<DateTime>,
    pub(super) expiry: Option<DateTime>,
    /// Empty: from anywhere.
    pub(super) ip: String,
    pub(super) https_only: bool,
    pub(super) version: String,
}

impl Terms {
    /// With a policy, the expiry may come from it.
    pub(super) fn of(
        matches: &ArgMatches,
        now: DateTime,
        has_policy: bool,
    ) -> Result<Self, Failure> {
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let time = |name: &str| {
            let parsed = text(name).map(human_time::parse_time).transpose();
            parsed.map_err(|problem| Failure::Usage(format!("--{name}: {problem}")))
        };
        let (start, given) = (time("start")?, time("expiry")?);
        let duration =
            text("expires-in").or_else(|| (given.is_none() && !has_policy).then_some(DEFAULT_TIME));
        let counted = duration
            .map(|text| after(start.map_or(now, |start| start.max(now)), text))
            .transpose()?;
        let expiry = given.or(counted);
        check_times(start, expiry, now)?;
        Ok(Self {
            start: start.map(whole_seconds),
            expiry: expiry.map(whole_seconds),
            ip: text("ip").map(parse_ip).transpose()?.unwrap_or_default(),
            https_only: matches.get_flag("https-only"),
            version: text("sas-version").unwrap_or(VERSION).to_owned(),
        })
    }

    /// `st`
    pub(super) fn start_text(&self) -> String {
        self.start.map(|at| at.to_string()).unwrap_or_default()
    }

    /// `se`
    pub(super) fn expiry_text(&self) -> String {
        self.expiry.map(|at| at.to_string()).unwrap_or_default()
    }

    /// `spr`
    pub(super) fn protocol(&self) -> String {
        if self.https_only { "https".to_owned() } else { String::new() }
    }

    /// The same for people.
    pub(super) fn words(&self, now: DateTime) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(start) = self.start.filter(|start| *start > now) {
            lines.push(format!("not before {start}, {}", human_time::relative(start, now)));
        }
        if let Some(expiry) = self.expiry {
            lines.push(format!("until {expiry}, {}", human_time::relative(expiry, now)));
        }
        let place = if self.ip.is_empty() { "any address".to_owned() } else { self.ip.clone() };
        lines.push(format!(
            "from {place}, {}",
            if self.https_only { "over https only" } else { "over http or https" }
        ));
        lines
    }
}

fn parse_ip(text: &str) -> Result<String, Failure> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<Ipv4Addr>(), last.parse::<Ipv4Addr>()) {
        (Ok(first), Ok(last)) if first <= last => Ok(text.to_owned()),
        (Ok(_), Ok(_)) => {
            Err(Failure::Usage(format!("--ip: the range {text} ends before it starts")))
        }
        _ => {
            let rule =
                "signatures support IPv4 addresses only, such as 10.0.0.1, or 10.0.0.1-10.0.0.9";
            Err(Failure::Usage(format!(
                "--ip: \"{text}\" is neither an address nor a range; {rule}"
            )))
        }
    }
}

fn after(from: DateTime, text: &str) -> Result<DateTime, Failure> {
    let problem = |words: String| Failure::Usage(format!("--expires-in: {words}"));
    let duration = human_time::parse_duration(text).map_err(problem)?;
    let ticks = duration
        .as_secs()
        .checked_mul(TICKS_PER_SECOND)
        .and_then(|ticks| from.ticks().checked_add(ticks));
    let end = ticks.and_then(DateTime::from_ticks);
    end.ok_or_else(|| {
        problem(format!("\"{text}\" ends after the year 9999, the last year of the service"))
    })
}

fn check_times(
    start: Option<DateTime>,
    expiry: Option<DateTime>,
    now: DateTime,
) -> Result<(), Failure> {
    let Some(expiry) = expiry else { return Ok(()) };
    if expiry <= now {
        let ago = human_time::relative(expiry, now);
        return Err(Failure::Usage(format!(
            "the signature would have expired {ago}, at {expiry}; times are UTC"
        )));
    }
    match start.filter(|start| *start >= expiry) {
        Some(start) => Err(Failure::Usage(format!(
            "the signature would end at {expiry}, before it begins at {start}"
        ))),
        None => Ok(()),
    }
}

/// Fractions of a second are legal, but not every service reads them.
fn whole_seconds(at: DateTime) -> DateTime {
    DateTime::from_ticks(at.ticks() - at.ticks() % TICKS_PER_SECOND).unwrap_or(at)
}
