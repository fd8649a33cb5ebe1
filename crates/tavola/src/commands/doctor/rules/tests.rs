use proptest::prelude::*;
use tavola_core::time::TICKS_PER_SECOND;
use tavola_core::{AccessPolicy, AccountName, DateTime};
use tavola_protocol::auth::{AccountKey, AccountSas, TableSas};
use tavola_protocol::{AccountKeys, Caller};

use super::{Circumstances, Fields, Finding, Mistake, RuleReport, examine, holds};

const KEY: &str = "c2VjcmV0";

fn account() -> AccountName {
    AccountName::parse("shop").unwrap()
}

fn key() -> AccountKey {
    AccountKey::parse(KEY).unwrap()
}

fn time(text: &str) -> DateTime {
    DateTime::parse(text).unwrap()
}

fn sas() -> TableSas {
    TableSas {
        version: "2019-02-02".to_owned(),
        table: "staff".to_owned(),
        permissions: "r".to_owned(),
        expiry: "2030-01-01T00:00:00Z".to_owned(),
        ..TableSas::default()
    }
}

fn report_on(query: &str, policies: Option<&[AccessPolicy]>) -> RuleReport {
    let caller = Caller { ip: [127, 0, 0, 1].into(), https: false };
    let at = Circumstances { now: time("2026-01-01"), caller, policies };
    examine(query, &Fields::read(query).unwrap(), &account(), at)
}

fn check(sas: &TableSas, policies: Option<&[AccessPolicy]>, expected: &[Finding]) {
    let report = report_on(&sas.signed(&account(), &key()), policies);
    assert_eq!(report.findings, expected, "{sas:?}");
    let stops = |finding: &Finding| {
        matches!(finding, Finding::Malformed(_) | Finding::PolicyUnknown | Finding::InPolicyToo(_))
    };
    let policies_missing = !sas.policy.is_empty() && policies.is_none();
    assert_eq!(report.grant.is_some(), !expected.iter().any(stops) && !policies_missing, "{sas:?}");
}

#[test]
fn every_reason_is_found_not_only_the_first() {
    let expired = Finding::Expired(time("2025-01-01"));
    let everything = TableSas {
        expiry: "2025-01-01".to_owned(),
        ip: "10.0.0.1-10.0.0.9".to_owned(),
        protocol: "https".to_owned(),
        ..sas()
    };
    let address = Finding::Address([127, 0, 0, 1].into());
    check(&sas(), None, &[]);
    check(&everything, None, &[expired.clone(), address.clone(), Finding::HttpsOnly]);
    let letters =
        Finding::Malformed("sp has a letter that a table's signature cannot have".to_owned());
    let worse = TableSas { permissions: "rx".to_owned(), ..everything };
    check(&worse, None, &[expired, address, Finding::HttpsOnly, letters]);
    let early = TableSas { start: "2026-01-01T03:00:00.5Z".to_owned(), ..sas() };
    check(&early, None, &[Finding::NotYet(time("2026-01-01T03:00:00.5Z"))]);
    let backwards = TableSas { start: "2031-01-01".to_owned(), ..sas() };
    let words = "Signed expiry time [Tue, 01 Jan 2030 00:00:00 GMT] must be after signed start \
        time [Wed, 01 Jan 2031 00:00:00 GMT]";
    check(&backwards, None, &[Finding::Malformed(words.to_owned())]);
}

#[test]
fn policies() {
    let policy = |expiry: Option<&str>, permission: Option<&str>| AccessPolicy {
        id: "readers".to_owned(),
        start: None,
        expiry: expiry.map(time),
        permission: permission.map(str::to_owned),
    };
    let named = TableSas {
        policy: "readers".to_owned(),
        expiry: String::new(),
        permissions: String::new(),
        ..sas()
    };
    check(&named, None, &[]);
    check(&named, Some(&[]), &[Finding::PolicyUnknown]);
    check(&named, Some(&[policy(Some("2030-01-01"), Some("r"))]), &[]);
    check(
        &named,
        Some(&[policy(Some("2025-01-01"), Some("r"))]),
        &[Finding::Expired(time("2025-01-01"))],
    );
    let missing = Finding::Malformed("sp is mandatory. Cannot be empty".to_owned());
    check(&named, Some(&[policy(Some("2030-01-01"), None)]), &[missing]);
    let both = TableSas { policy: "readers".to_owned(), ..sas() };
    check(
        &both,
        Some(&[policy(Some("2030-01-01"), Some("r"))]),
        &[Finding::InPolicyToo(vec!["se", "sp"])],
    );
}

#[test]
fn accounts() {
    let sas = AccountSas {
        version: "2019-02-02".to_owned(),
        services: "bq".to_owned(),
        resource_types: "o".to_owned(),
        permissions: "r".to_owned(),
        expiry: "2025-01-01".to_owned(),
        ..AccountSas::default()
    };
    let found = report_on(&sas.signed(&account(), &key()), None).findings;
    assert_eq!(found, [Finding::Expired(time("2025-01-01")), Finding::OtherService]);
}

#[test]
fn mistakes_are_seen_and_repaired() {
    let keys = AccountKeys::parse(KEY, None).unwrap();
    // One whose signature has a plus and a slash.
    let good = (0..).map(|row| TableSas { start_partition_key: format!("p {row}"), ..sas() });
    let good =
        good.map(|sas| sas.signed(&account(), &key())).find(|query| query.contains("%2B")).unwrap();
    assert!(holds(&good, &account(), &keys));
    assert_eq!(Mistake::visible_in(&good), None);
    for (broken, mistake) in [
        (good.replace('%', "%25"), Mistake::EncodedTwice),
        (good.replace("%2B", "+"), Mistake::PlusNotEncoded),
    ] {
        assert!(!holds(&broken, &account(), &keys), "{broken}");
        assert_eq!(Mistake::visible_in(&broken), Some(mistake));
        assert!(holds(&mistake.repaired(&broken), &account(), &keys), "{broken}");
    }
    let other = AccountKeys::parse("b3RoZXI=", None).unwrap();
    assert!(!holds(&good, &account(), &other));
}

proptest! {
    /// The words about time and the service's rule about time agree.
    #[test]
    fn a_time_is_wrong_if_the_service_says_so(
        start in prop::option::of(0..6_u64),
        end in 0..6_u64,
        ticks in 0..6_u64,
    ) {
        let at = |ticks: u64| DateTime::from_ticks(time("2026-01-01").ticks() + ticks * TICKS_PER_SECOND / 4).unwrap();
        let text = |ticks: u64| at(ticks).to_string();
        let sas = TableSas { start: start.map(text).unwrap_or_default(), expiry: text(end), ..sas() };
        let query = sas.signed(&account(), &key());
        let caller = Caller { ip: [127, 0, 0, 1].into(), https: false };
        let keys = AccountKeys::parse(KEY, None).unwrap();
        let accepted = crate::evaluate::evaluate(&query, &account(), &keys, caller, at(ticks)).is_ok();
        let circumstances = Circumstances { now: at(ticks), caller, policies: None };
        let report = examine(&query, &Fields::read(&query).unwrap(), &account(), circumstances);
        prop_assert_eq!(report.findings.is_empty(), accepted);
        let is_window = start.is_none_or(|start| start < end);
        prop_assert_eq!(report.grant.is_some(), is_window);
    }

    /// Every URL gets a report.
    #[test]
    fn no_panic(query in "(s[vtepi]|sig|tn|ss|srt|[se][pr]k|%2?|=|&|\\+|[0-9a-zA-Z:,-]){0,60}") {
        if let Ok(fields) = Fields::read(&query) {
            let caller = Caller { ip: [127, 0, 0, 1].into(), https: false };
            let at = Circumstances { now: time("2026-01-01"), caller, policies: Some(&[]) };
            let _ = examine(&query, &fields, &account(), at);
        }
        let _ = holds(&query, &account(), &AccountKeys::parse(KEY, None).unwrap());
        let _ = Mistake::visible_in(&query).map(|mistake| mistake.repaired(&query));
    }
}
