//! Asks a Table endpoint every question of the wire conformance suite and prints one line per
//! answer.

use std::process::ExitCode;
use std::{env, fs};

use serde_json::Value;
use tavola_conformance::wire_conformance::{Case, CaseStatus, Endpoint, Report, cases, run};

const USAGE: &str = "\
usage: wire-conformance --endpoint URL --account NAME --key BASE64 [options]

  --endpoint URL   http://127.0.0.1:10002/devstoreaccount1 (path style) or http://account.table.host (host style)
  --account NAME   the account
  --key BASE64     its key
  --key2 BASE64    its second key; without it the case about both keys is skipped
  --admin URL      http://127.0.0.1:10003, whose /metrics count rows; without it cases about cost are skipped
  --filter TEXT    only cases whose name contains TEXT or that carry statement TEXT
  --json FILE      also write the results as a list to FILE
  --jobs N         cases at once (default 4)
  --list           print the cases and their statements, and ask nothing

exit code: 0 all passed, 1 some failed, 2 wrong usage or no answer";

#[derive(Default)]
struct Options {
    endpoint: Option<String>,
    account: Option<String>,
    key: Option<String>,
    second_key: Option<String>,
    admin: Option<String>,
    filter: Option<String>,
    json: Option<String>,
    jobs: Option<usize>,
    list: bool,
}

fn main() -> ExitCode {
    let options = match parse(env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => return wrong_usage(&problem),
    };
    let chosen = chosen_cases(options.filter.as_deref());
    if options.list {
        for case in &chosen {
            println!("{} [{}]", case.name, case.statements.join(", "));
        }
        return ExitCode::SUCCESS;
    }
    let endpoint = match endpoint(&options) {
        Ok(endpoint) => endpoint,
        Err(problem) => return wrong_usage(&problem),
    };
    if let Err(failure) = endpoint.probe() {
        eprintln!("no answer from {}: {failure}", endpoint.base_url());
        return ExitCode::from(2);
    }
    let reports = run(&endpoint, &chosen, options.jobs.unwrap_or(4), |report| {
        println!("{report}");
    });
    if let Some(file) = &options.json
        && let Err(error) = fs::write(file, to_json(&reports))
    {
        eprintln!("cannot write {file}: {error}");
        return ExitCode::from(2);
    }
    conclude(&reports)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(flag) = arguments.next() {
        if flag == "--list" {
            options.list = true;
            continue;
        }
        let value =
            arguments.next().ok_or_else(|| format!("{flag} is unknown or lacks its value"))?;
        match flag.as_str() {
            "--endpoint" => options.endpoint = Some(value),
            "--account" => options.account = Some(value),
            "--key" => options.key = Some(value),
            "--key2" => options.second_key = Some(value),
            "--admin" => options.admin = Some(value),
            "--filter" => options.filter = Some(value),
            "--json" => options.json = Some(value),
            "--jobs" => {
                options.jobs = Some(value.parse().map_err(|_| format!("--jobs {value}"))?);
            }
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    Ok(options)
}

fn endpoint(options: &Options) -> Result<Endpoint, String> {
    let needed = |value: &Option<String>, flag: &str| {
        value.clone().ok_or_else(|| format!("{flag} is missing"))
    };
    let mut endpoint = Endpoint::new(
        &needed(&options.endpoint, "--endpoint")?,
        &needed(&options.account, "--account")?,
        &needed(&options.key, "--key")?,
    )?;
    if let Some(key) = &options.second_key {
        endpoint = endpoint.with_second_key(key)?;
    }
    if let Some(url) = &options.admin {
        endpoint = endpoint.with_admin(url)?;
    }
    Ok(endpoint)
}

fn chosen_cases(filter: Option<&str>) -> Vec<Case> {
    let wanted = |case: &Case| match filter {
        None => true,
        Some(text) => case.name.contains(text) || case.statements.contains(&text),
    };
    cases().into_iter().filter(wanted).collect()
}

fn to_json(reports: &[Report]) -> String {
    let list = Value::Array(reports.iter().map(Report::to_json).collect());
    format!("{list:#}\n")
}

fn conclude(reports: &[Report]) -> ExitCode {
    let count = |status| reports.iter().filter(|report| report.status == status).count();
    let failed = count(CaseStatus::Failed);
    println!(
        "{} passed, {failed} failed, {} skipped",
        count(CaseStatus::Passed),
        count(CaseStatus::Skipped)
    );
    ExitCode::from(u8::from(failed > 0))
}

fn wrong_usage(problem: &str) -> ExitCode {
    eprintln!("{problem}\n\n{USAGE}");
    ExitCode::from(2)
}
