//! Every mistake of a signature, not only the first one. The rules are the service's own: the same
//! query is signed again with a key of ours and evaluated, and after each error evaluated again
//! without its cause.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use tavola_core::{AccessPolicy, AccountName, DateTime, Grant};
use tavola_protocol::auth::{AccountKey, AccountSas, FieldsError, TableSas};
use tavola_protocol::{AccountKeys, ApiError, Caller, Credential};

use crate::evaluate;

/// Belongs to no account; a query is signed again with it, so that everything but its signature can
/// be evaluated.
const SCRATCH_KEY: &str = "bm9ib2R5J3Mga2V5";
/// One for each cause that can be removed (time, address, protocol), and one more.
const ROUNDS_MAX: usize = 4;

/// A signature of either kind, as texts.
#[derive(Debug, Clone)]
pub(super) enum Fields {
    Table(TableSas),
    Account(AccountSas),
}

impl Fields {
    /// The fields of a query string, whether or not they hold.
    pub(super) fn read(query: &str) -> Result<Self, FieldsError> {
        let of_account = AccountSas::read(query)?;
        if of_account.services.is_empty() && of_account.resource_types.is_empty() {
            return TableSas::read(query).map(Self::Table);
        }
        Ok(Self::Account(of_account))
    }

    pub(super) fn string_to_sign(&self, account: &AccountName) -> String {
        match self {
            Self::Table(sas) => sas.string_to_sign(account),
            Self::Account(sas) => sas.string_to_sign(account),
        }
    }

    fn start(&self) -> &str {
        match self {
            Self::Table(sas) => &sas.start,
            Self::Account(sas) => &sas.start,
        }
    }

    fn expiry(&self) -> &str {
        match self {
            Self::Table(sas) => &sas.expiry,
            Self::Account(sas) => &sas.expiry,
        }
    }

    pub(super) fn ip(&self) -> &str {
        match self {
            Self::Table(sas) => &sas.ip,
            Self::Account(sas) => &sas.ip,
        }
    }

    /// The policy that it refers to.
    pub(super) fn policy(&self) -> Option<&str> {
        match self {
            Self::Table(sas) => Some(sas.policy.as_str()).filter(|id| !id.is_empty()),
            Self::Account(_) => None,
        }
    }
}

/// A reason to refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    Expired(DateTime),
    NotYet(DateTime),
    HttpsOnly,
    Address(IpAddr),
    OtherService,
    PolicyUnknown,
    /// The names of the fields that are set in both.
    InPolicyToo(Vec<&'static str>),
    Malformed(String),
}

/// What the rules say.
#[derive(Debug)]
pub(super) struct RuleReport {
    pub(super) findings: Vec<Finding>,
    /// Until when it would be good.
    pub(super) expiry: Option<DateTime>,
    /// What it would permit; `None` if that is unknown.
    pub(super) grant: Option<Grant>,
}

/// The caller, the time, and what is known of the table's policies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub(super) now: DateTime,
    pub(super) caller: Caller,
    pub(super) policies: Option<&'a [AccessPolicy]>,
}

/// Judges everything but the signature itself.
pub(super) fn examine(
    query: &str,
    fields: &Fields,
    account: &AccountName,
    at: Circumstances<'_>,
) -> RuleReport {
    let policies = at.policies;
    let policy = fields
        .policy()
        .zip(policies)
        .and_then(|(id, all)| all.iter().find(|policy| policy.id == id));
    let window = Window::of(fields, policy);
    let mut verdict = RuleReport {
        findings: Vec::new(),
        expiry: window.as_ref().and_then(|window| window.end),
        grant: None,
    };
    let Some((query, keys)) = signed_again(query, fields, account) else { return verdict };
    let Circumstances { mut now, mut caller, .. } = at;
    for _ in 0..ROUNDS_MAX {
        match evaluate::evaluate(&query, account, &keys, caller, now)
            .and_then(|credential| complete(credential, policies))
        {
            Ok(grant) => {
                verdict.grant = grant;
                return verdict;
            }
            Err(ApiError::ProtocolMismatch) => {
                verdict.findings.push(Finding::HttpsOnly);
                caller.https = true;
            }
            Err(ApiError::SourceIpMismatch(ip)) => {
                verdict.findings.push(Finding::Address(ip));
                caller.ip = first_address(fields.ip());
            }
            Err(api_error) => match window.as_ref().and_then(|window| window.miss(now)) {
                Some((finding, inside)) => {
                    verdict.findings.push(finding);
                    now = inside;
                }
                None => {
                    verdict.findings.push(refusal(&api_error, fields, policies, policy));
                    return verdict;
                }
            },
        }
    }
    verdict
}

fn complete(
    credential: Credential<'_>,
    policies: Option<&[AccessPolicy]>,
) -> Result<Option<Grant>, ApiError> {
    match (credential, policies) {
        (Credential::Complete(grant, _), _) => Ok(Some(grant)),
        (Credential::NeedsPolicies(signature), Some(policies)) => {
            signature.with_policies(policies).map(Some)
        }
        (Credential::NeedsPolicies(_), None) | (Credential::Token(_), _) => Ok(None),
    }
}

fn refusal(
    api_error: &ApiError,
    fields: &Fields,
    policies: Option<&[AccessPolicy]>,
    policy: Option<&AccessPolicy>,
) -> Finding {
    if *api_error == ApiError::ServiceMismatch {
        return Finding::OtherService;
    }
    if fields.policy().is_some() && policies.is_some() && policy.is_none() {
        return Finding::PolicyUnknown;
    }
    let twice = policy.map(|policy| in_both(fields, policy)).unwrap_or_default();
    if twice.is_empty() {
        Finding::Malformed(evaluate::words(api_error))
    } else {
        Finding::InPolicyToo(twice)
    }
}

fn in_both(fields: &Fields, policy: &AccessPolicy) -> Vec<&'static str> {
    let Fields::Table(sas) = fields else { return Vec::new() };
    let of_policy = policy.permission.as_deref().is_some_and(|letters| !letters.is_empty());
    let both = [
        ("st", !sas.start.is_empty() && policy.start.is_some()),
        ("se", !sas.expiry.is_empty() && policy.expiry.is_some()),
        ("sp", !sas.permissions.is_empty() && of_policy),
    ];
    both.into_iter().filter(|(_, both)| *both).map(|(name, _)| name).collect()
}

/// From when until when.
struct Window {
    start: Option<DateTime>,
    end: Option<DateTime>,
}

impl Window {
    /// `None` if the times are not times, which is another matter.
    fn of(fields: &Fields, policy: Option<&AccessPolicy>) -> Option<Self> {
        let time = |text: &str, of_policy: Option<DateTime>| match text {
            "" => Some(of_policy),
            text => DateTime::parse(text).ok().map(Some),
        };
        let start = time(fields.start(), policy.and_then(|policy| policy.start))?;
        let end = time(fields.expiry(), policy.and_then(|policy| policy.expiry))?;
        let is_one = start.zip(end).is_none_or(|(start, end)| start < end);
        is_one.then_some(Self { start, end })
    }

    /// What is wrong with `now`, and a time with which nothing would be.
    fn miss(&self, now: DateTime) -> Option<(Finding, DateTime)> {
        match (self.start, self.end) {
            (Some(start), _) if now < start => Some((Finding::NotYet(start), start)),
            (start, Some(end)) if now >= end => {
                let before_end =
                    DateTime::from_ticks(end.ticks().saturating_sub(1)).unwrap_or(DateTime::MIN);
                Some((Finding::Expired(end), start.unwrap_or(before_end)))
            }
            _ => None,
        }
    }
}

/// The same query with a signature that holds for a key of ours.
fn signed_again(
    query: &str,
    fields: &Fields,
    account: &AccountName,
) -> Option<(String, AccountKeys)> {
    let signature = AccountKey::parse(SCRATCH_KEY).ok()?.sign(&fields.string_to_sign(account));
    let encoded = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let others: Vec<&str> = query.split('&').filter(|pair| signature_in(pair).is_none()).collect();
    let keys = AccountKeys::parse(SCRATCH_KEY, None).ok()?;
    Some((format!("{}&sig={encoded}", others.join("&")), keys))
}

fn first_address(range: &str) -> IpAddr {
    let first = range.split('-').next().and_then(|first| first.parse().ok());
    IpAddr::V4(first.unwrap_or(Ipv4Addr::LOCALHOST))
}

/// The raw value of the `sig` parameter.
fn signature_in(pair: &str) -> Option<&str> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    decoded(name).eq_ignore_ascii_case("sig").then_some(value)
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// The signature itself, decoded once; empty if there is none.
pub(super) fn signature_text(query: &str) -> String {
    query.split('&').find_map(signature_in).map(decoded).unwrap_or_default()
}

/// True if the query's signature was made with one of `keys`.
pub(super) fn holds(query: &str, account: &AccountName, keys: &AccountKeys) -> bool {
    let Ok(fields) = Fields::read(query) else { return false };
    let signature = STANDARD.decode(signature_text(query)).unwrap_or_default();
    keys.verify(&fields.string_to_sign(account), &signature).is_some()
}

/// A common mistake in passing on a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    EncodedTwice,
    PlusNotEncoded,
}

impl Mistake {
    /// Characters that base64 never has reveal them, without a key.
    pub(super) fn visible_in(query: &str) -> Option<Self> {
        let signature = signature_text(query);
        if signature.contains('%') {
            return Some(Self::EncodedTwice);
        }
        signature.contains(' ').then_some(Self::PlusNotEncoded)
    }

    /// The query without it.
    pub(super) fn repaired(self, query: &str) -> String {
        match self {
            Self::EncodedTwice => query.replace("%25", "%"),
            Self::PlusNotEncoded => query.replace('+', "%2B"),
        }
    }
}

#[cfg(test)]
mod tests;
