//! A shared access signature: what it opens, whether it holds, whether it is enough, and what the
//! server says to it.

mod answer;
mod enough;

use std::net::IpAddr;

use tavola_core::{AccessPolicy, DateTime, TableName};
use tavola_protocol::Caller;
use tavola_protocol::auth::TableSas;

use super::home::Home;
use super::operation::Question;
use super::report::Report;
use super::rules::{self, Circumstances, Fields, Finding, Mistake};
use super::server;
use super::target::Target;
use crate::account_access::KnownKeys;
use crate::commands::sas::letters::{ACCOUNT_PERMISSIONS, RESOURCE_TYPES, TABLE_PERMISSIONS};
use crate::http_client::HttpClient;
use crate::human_time;

pub(super) async fn examine(
    target: &Target,
    question: &Question,
    home: &Home,
    client: &HttpClient,
    report: &mut Report,
) {
    let fields = match Fields::read(&target.query) {
        Ok(fields) => fields,
        Err(error) => {
            let advice = "create a new one with `tavola sas`, and do not change it";
            report.fail("signature", error.to_string(), advice);
            return;
        }
    };
    report.ok("credential", description(&fields, target));
    let reached = server::reach(&target.endpoint, client, report).await;
    let keys = home.keys(&target.account);
    check_signature(target, &fields, home, keys.as_ref(), reached.is_some(), report);
    // The server's clock decides.
    let now = reached.and_then(|reached| reached.clock).unwrap_or_else(human_time::now);
    let policies = match (&reached, &keys) {
        (Some(_), Some(keys)) => look_up_policies(target, &fields, keys, client, report).await,
        _ => cannot_look_up_policies(&fields, report),
    };
    let caller =
        Caller { ip: server::own_address(&target.endpoint), https: target.endpoint.is_https() };
    let at = Circumstances { now, caller, policies: policies.as_deref() };
    let verdict = rules::examine(&target.query, &fields, &target.account, at);
    for finding in &verdict.findings {
        report_finding(finding, &fields, policies.as_deref(), now, report);
    }
    let is_timely =
        |finding: &Finding| !matches!(finding, Finding::Expired(_) | Finding::NotYet(_));
    if let Some(expiry) = verdict.expiry.filter(|_| verdict.findings.iter().all(is_timely)) {
        report.ok("time", format!("valid until {expiry}, {}", human_time::relative(expiry, now)));
    }
    let wanted = enough::Wanted::of(&fields, target, question);
    wanted.check_table(report);
    if let Some(grant) = &verdict.grant {
        wanted.check(grant, &fields, &target.account, policies.as_deref(), report);
    }
    if reached.is_some() {
        answer::ask(target, &fields, &wanted, client, report).await;
    }
}

fn description(fields: &Fields, target: &Target) -> String {
    let Target { account, endpoint, .. } = target;
    let what = match fields {
        Fields::Table(sas) if sas.permissions.is_empty() => {
            format!(
                "for entities of the table {}, to do what its policy says",
                or_unnamed(&sas.table)
            )
        }
        Fields::Table(sas) => {
            let can = TABLE_PERMISSIONS.words(&sas.permissions);
            format!("for entities of the table {}, to {can}", or_unnamed(&sas.table))
        }
        Fields::Account(sas) => {
            let (can, kinds) = (
                ACCOUNT_PERMISSIONS.words(&sas.permissions),
                RESOURCE_TYPES.words(&sas.resource_types),
            );
            format!("for the whole account ({kinds}), to {can}")
        }
    };
    format!("{what}; account {account} at {endpoint}")
}

fn or_unnamed(table: &str) -> &str {
    if table.is_empty() { "(not named)" } else { table }
}

/// Was it made with a key that is known here, and is it still as it was made?
fn check_signature(
    target: &Target,
    fields: &Fields,
    home: &Home,
    keys: Option<&KnownKeys>,
    is_reached: bool,
    report: &mut Report,
) {
    let (query, account) = (target.query.as_str(), &target.account);
    if let Some(mistake) = Mistake::visible_in(query) {
        let (words, advice) = match mistake {
            Mistake::EncodedTwice => (
                "the signature is percent-encoded twice",
                "the URL was encoded twice: write % instead of %25",
            ),
            Mistake::PlusNotEncoded => (
                "the signature has a plus that is not percent-encoded",
                "write %2B instead of + behind sig=",
            ),
        };
        let repaired = mistake.repaired(query);
        let is_all = keys.is_some_and(|keys| rules::holds(&repaired, account, &keys.keys));
        let rest = if is_all { "; with that it is valid" } else { "" };
        report.fail("signature", words, format!("{advice}{rest}"));
        return;
    }
    let Some(keys) = keys else {
        if !is_reached {
            let words = format!("not checked: no key of the account {account} is known here");
            report.warn("signature", words, "name the server's configuration with --config");
        }
        return;
    };
    if rules::holds(query, account, &keys.keys) {
        report.ok("signature", "made with a key of the account, and unchanged since");
        return;
    }
    let others = home.all_keys().into_iter().filter(|(other, _)| other != account);
    let signer = others.into_iter().find(|(other, keys)| {
        rules::holds(query, other, &keys.keys) || rules::holds(query, account, &keys.keys)
    });
    if let Some((other, _)) = signer {
        report.fail(
            "signature",
            format!("it does not match: it was made with a key of the account {other}"),
            "",
        );
        return;
    }
    report.fail(
        "signature",
        format!("it does not match any key of the account {account} that is known here"),
        format!(
            "a key was rotated, or a field was changed after signing; what both sides sign is {:?}",
            fields.string_to_sign(account)
        ),
    );
}

async fn look_up_policies(
    target: &Target,
    fields: &Fields,
    keys: &KnownKeys,
    client: &HttpClient,
    report: &mut Report,
) -> Option<Vec<AccessPolicy>> {
    let id = fields.policy()?;
    let Fields::Table(TableSas { table, .. }) = fields else { return None };
    let table = TableName::parse(table).ok()?;
    match server::policies(&table, &target.endpoint, &target.account, &keys.signing, client).await {
        Ok(policies) => {
            if policies.iter().any(|policy| policy.id == id) {
                report.ok("policy", format!("the table {table} has the policy {id:?}"));
            }
            Some(policies)
        }
        Err(reason) => {
            report.warn("policy", format!("the policies of {table} cannot be read: {reason}"), "");
            None
        }
    }
}

fn cannot_look_up_policies(fields: &Fields, report: &mut Report) -> Option<Vec<AccessPolicy>> {
    if let Some(id) = fields.policy() {
        let advice = "this needs a running server, and a key in the configuration (--config)";
        report.warn("policy", format!("whether the policy {id:?} exists was not checked"), advice);
    }
    None
}

fn report_finding(
    finding: &Finding,
    fields: &Fields,
    policies: Option<&[AccessPolicy]>,
    now: DateTime,
    report: &mut Report,
) {
    match finding {
        Finding::Expired(at) => {
            let whose = if fields.policy().is_some() { "it or its policy" } else { "it" };
            let words = format!("{whose} expired {}, at {at}", human_time::relative(*at, now));
            report.fail("time", words, "create a new one with `tavola sas`");
        }
        Finding::NotYet(at) => {
            let words = format!(
                "it is not valid yet: it begins {}, at {at}",
                human_time::relative(*at, now)
            );
            report.fail("time", words, "wait, or create one with an earlier --start or none");
        }
        Finding::HttpsOnly => {
            let advice =
                "use the server's https endpoint, or create a signature without --https-only";
            report.fail(
                "protocol",
                "it is valid over https only (spr=https), and the URL is http",
                advice,
            );
        }
        Finding::Address(ip) => report_address(*ip, fields.ip(), report),
        Finding::OtherService => {
            report.fail(
                "service",
                "it does not permit access to tables: ss has no t",
                "create one with `tavola sas account`",
            );
        }
        Finding::PolicyUnknown => report_unknown_policy(fields, policies, report),
        Finding::InPolicyToo(names) => {
            let words = format!(
                "{} are set in the signature and in its policy; only one of them may set them",
                names.join(", ")
            );
            report.fail(
                "policy",
                words,
                "create the signature without them, or remove them from the policy",
            );
        }
        Finding::Malformed(words) => report.fail("fields", words.clone(), advice_on_fields(words)),
    }
}

fn report_unknown_policy(fields: &Fields, policies: Option<&[AccessPolicy]>, report: &mut Report) {
    let known = policies.unwrap_or_default().iter();
    let ids: Vec<String> = known.map(|policy| format!("{:?}", policy.id)).collect();
    let there = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
    report.fail(
        "policy",
        format!(
            "the table has no policy {:?}; it has {there}",
            fields.policy().unwrap_or_default()
        ),
        "the signature was revoked, or the policy was never set (Set Table ACL)",
    );
}

fn report_address(ip: IpAddr, allowed: &str, report: &mut Report) {
    let words = format!("it is valid from {allowed} only, and this machine has the address {ip}");
    let is_near = match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private(),
        IpAddr::V6(ip) => ip.is_loopback(),
    };
    if is_near {
        report.fail("address", words, "send requests from there, or create one with another --ip");
    } else {
        report.warn("address", words, "a router in between may show the server another address");
    }
}

fn advice_on_fields(words: &str) -> &'static str {
    if words.contains("is mandatory") {
        return "the URL may be cut off: in a shell quote it, because & ends a command";
    }
    if words.contains('%') {
        return "it looks percent-encoded twice";
    }
    "create a new one with `tavola sas`"
}
