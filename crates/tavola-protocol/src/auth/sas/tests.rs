//! Signatures as the reference has them, and every way to get one wrong.

use std::time::{Duration, SystemTime};

use http::Request;
use http::request::Parts;
use proptest::prelude::*;
use tavola_core::grant::{Permissions, ResourceTypes, ServiceSignature};
use tavola_core::{
    AccessPolicy, AccountName, Cut, DateTime, EntityKey, Grant, KeyRange, PartitionKey, RowKey,
    ServiceKind,
};

use super::{AccountSas, FieldsError, QueueSas, TableSas};
use crate::address::{Address, AddressRules, locate};
use crate::api_error::{ApiError, ServiceApiError as _};
use crate::auth::{
    AccountKey, AccountKeys, AuthContext, Caller, Credential, Precedence, authenticate,
};
use crate::deny_reason::DenyReason;
use crate::version::Version;

const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// 2026-11-16T00:00:00Z
const NOW: u64 = 1_794_787_200;

fn account() -> AccountName {
    AccountName::parse("devstoreaccount1").unwrap()
}

fn key() -> AccountKey {
    AccountKey::parse(KEY).unwrap()
}

fn request(query: &str) -> (Parts, Address) {
    request_to(&format!("/devstoreaccount1/PyTab1()?{query}"))
}

fn request_to(target: &str) -> (Parts, Address) {
    let request = Request::builder().uri(target).header("host", "localhost");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let rules = AddressRules { path_style_only: false, scheme: "http" };
    let address = locate(&parts, &rules, &|name| name == "devstoreaccount1").unwrap();
    (parts, address)
}

const CALLER: Caller =
    Caller { ip: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), https: false };

fn evaluate(query: &str, policies: &[AccessPolicy], caller: Caller) -> Result<Grant, ApiError> {
    evaluate_for(ServiceKind::Table, request(query), policies, caller)
}

fn evaluate_for(
    service: ServiceKind,
    (parts, address): (Parts, Address),
    policies: &[AccessPolicy],
    caller: Caller,
) -> Result<Grant, ApiError> {
    let keys = AccountKeys::parse("c2Vjb25kIGtleQ==", Some(KEY)).unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let precedence = Precedence::Header;
    let auth = AuthContext { service, keys: &keys, challenge: "", caller, now, precedence };
    match authenticate(&parts, &address, &auth)? {
        Credential::Complete(grant, _) => Ok(grant),
        Credential::NeedsPolicies(signature) => signature.with_policies(policies),
        Credential::Token(_) => unreachable!("no token was sent"),
    }
}

/// "granted", a code, or the detail of a failed authentication.
fn outcome(query: &str, policies: &[AccessPolicy], caller: Caller) -> String {
    match evaluate(query, policies, caller) {
        Ok(_) => "granted".to_owned(),
        Err(ApiError::AuthenticationFailed { detail, .. }) => detail.unwrap_or_default(),
        Err(other) => other.parts().code.to_owned(),
    }
}

fn table_sas() -> TableSas {
    TableSas {
        version: "2019-02-02".to_owned(),
        table: "PyTab1".to_owned(),
        permissions: "r".to_owned(),
        expiry: "2034-01-01T00:00:00Z".to_owned(),
        ..TableSas::default()
    }
}

fn account_sas() -> AccountSas {
    AccountSas {
        version: "2019-02-02".to_owned(),
        services: "t".to_owned(),
        resource_types: "soc".to_owned(),
        permissions: "rl".to_owned(),
        expiry: "2034-01-01T00:00:00Z".to_owned(),
        ..AccountSas::default()
    }
}

/// Statements 61 and 62: the reference's URLs, whose signatures nothing of ours made.
#[test]
fn recorded_signatures_hold() {
    let table = "se=2034-01-01T00%3A00%3A00Z&sp=r&sv=2019-02-02&tn=PyTab1&spk=a&srk=a&epk=z&erk=z\
                 &sig=yYCKJ75BJhpNHxF0Tikuiyi0NwBtXDR8kZLxjkeiHAc%3D";
    let at =
        |text: &str| EntityKey::new(PartitionKey::new(text).unwrap(), RowKey::new(text).unwrap());
    let signature = ServiceSignature {
        service: ServiceKind::Table,
        container: "PyTab1".to_owned(),
        permissions: Permissions::of_service(ServiceKind::Table, "r").unwrap(),
        range: KeyRange { start: Cut::Before(at("a")), end: Cut::After(at("z")) },
    };
    assert_eq!(evaluate(table, &[], CALLER), Ok(Grant::service_signature(account(), signature)));
    let whole = "se=2034-01-01T00%3A00%3A00Z&sp=rl&sv=2019-02-02&ss=t&srt=soc\
                 &sig=1Esib5eEEXopA63uMmMpqG25O9R6XZoln6SkLCC/Z%2BI%3D";
    let (types, permissions) =
        (ResourceTypes::parse("soc").unwrap(), Permissions::of_account("rl").unwrap());
    assert_eq!(
        evaluate(whole, &[], CALLER),
        Ok(Grant::account_signature(account(), types, permissions))
    );
}

/// The queue vector of the reference's common part. The path names the queue, so that the signature
/// holds for no other, and not for another service.
#[test]
fn a_queues_signature() {
    let sas = QueueSas {
        version: "2021-12-02".to_owned(),
        queue: "orders".to_owned(),
        permissions: "ap".to_owned(),
        expiry: "2036-01-01T00:00:00Z".to_owned(),
        ..QueueSas::default()
    };
    let signature = "oXdNHA0B8Nyycwo0f1XAAYLmAzIL+4mmVBcqkVbueL0=";
    assert_eq!(key().sign(&sas.string_to_sign(&account())), signature);
    let query = "sv=2021-12-02&sp=ap&se=2036-01-01T00:00:00Z\
                 &sig=oXdNHA0B8Nyycwo0f1XAAYLmAzIL%2B4mmVBcqkVbueL0%3D";
    let granted = |service, path: &str| {
        let request = request_to(&format!("/devstoreaccount1/{path}?{query}"));
        evaluate_for(service, request, &[], CALLER)
    };
    let opened = ServiceSignature {
        service: ServiceKind::Queue,
        container: "orders".to_owned(),
        permissions: Permissions::of_service(ServiceKind::Queue, "ap").unwrap(),
        range: KeyRange::ALL,
    };
    let opened = Ok(Grant::service_signature(account(), opened));
    assert_eq!(granted(ServiceKind::Queue, "orders/messages"), opened);
    assert!(granted(ServiceKind::Queue, "others/messages").is_err());
    assert!(granted(ServiceKind::Table, "orders()").is_err());
}

/// A signature over an account opens the services whose letters it has.
#[test]
fn services_of_an_account_signature() {
    for (services, opened) in [("t", "t"), ("q", "q"), ("bqt", "bqt"), ("b", "b")] {
        let sas = AccountSas { services: services.to_owned(), ..account_sas() };
        let query = sas.signed(&account(), &key());
        for service in ServiceKind::ALL {
            let granted = evaluate_for(service, request(&query), &[], CALLER);
            match opened.contains(service.letter()) {
                true => assert!(granted.is_ok(), "{services} {service:?}"),
                false => assert_eq!(granted, Err(ApiError::ServiceMismatch), "{services}"),
            }
        }
    }
}

/// The account vectors of the reference's common part.
#[test]
fn account_vectors() {
    for (version, signature) in [
        ("2021-12-02", "rphwi2vP5dA19W3swRYAUo81geOpjyYeqpm92lY+ZOU="),
        ("2018-11-09", "Jlj50ac5zwhaxFkcMNaeOpGfjgoFP0u3/FuEoJlv81w="),
    ] {
        let sas = AccountSas {
            version: version.to_owned(),
            services: "bqt".to_owned(),
            resource_types: "sco".to_owned(),
            permissions: "rwdlacup".to_owned(),
            expiry: "2036-01-01T00:00:00Z".to_owned(),
            protocol: "https,http".to_owned(),
            ..AccountSas::default()
        };
        assert_eq!(key().sign(&sas.string_to_sign(&account())), signature, "{version}");
    }
}

/// Statements 65 to 67.
#[test]
fn what_is_signed_depends_on_the_version() {
    let text = |version: &str| {
        TableSas { version: version.to_owned(), ..table_sas() }.string_to_sign(&account())
    };
    let (old, prefixed, new) = (text("2014-02-14"), text("2015-02-21"), text("2015-04-05"));
    assert_eq!(old, "r\n\n2034-01-01T00:00:00Z\n/devstoreaccount1/pytab1\n\n2014-02-14\n\n\n\n");
    assert_eq!(
        prefixed,
        "r\n\n2034-01-01T00:00:00Z\n/table/devstoreaccount1/pytab1\n\n2015-02-21\n\n\n\n"
    );
    assert_eq!(
        new,
        "r\n\n2034-01-01T00:00:00Z\n/table/devstoreaccount1/pytab1\n\n\n\n2015-04-05\n\n\n\n"
    );
    for version in ["2012-02-12", "2014-02-14", "2015-02-21", "2015-04-05", "2026-10-06"] {
        let sas = TableSas { version: version.to_owned(), ..table_sas() };
        assert_eq!(outcome(&sas.signed(&account(), &key()), &[], CALLER), "granted", "{version}");
    }
    let scoped = AccountSas {
        encryption_scope: "x".to_owned(),
        version: "2020-12-06".to_owned(),
        ..account_sas()
    };
    assert!(scoped.string_to_sign(&account()).ends_with("2020-12-06\nx\n"));
    assert_eq!(outcome(&scoped.signed(&account(), &key()), &[], CALLER), "granted");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a flat table of cases")]
fn fields_that_are_wrong() {
    type Edit = fn(&mut TableSas);
    let cases: &[(Edit, &str)] = &[
        (|_| {}, "granted"),
        (|sas| sas.version = String::new(), "sv is mandatory. Cannot be empty"),
        (
            |sas| sas.version = "2011-08-18".to_owned(),
            "The signed version is not one: '2011-08-18'",
        ),
        (|sas| sas.version = "newest".to_owned(), "The signed version is not one: 'newest'"),
        (|sas| sas.table = String::new(), "tn is mandatory. Cannot be empty"),
        (|sas| sas.table = "a b".to_owned(), "tn is not the name of a table: 'a b'"),
        (|sas| sas.permissions = String::new(), "sp is mandatory. Cannot be empty"),
        (
            |sas| sas.permissions = "rx".to_owned(),
            "sp has a letter that a table's signature cannot have",
        ),
        (
            |sas| sas.permissions = "rr".to_owned(),
            "sp has a letter that a table's signature cannot have",
        ),
        (|sas| sas.expiry = String::new(), "se is mandatory. Cannot be empty"),
        (|sas| sas.expiry = "soon".to_owned(), "se is not a time: 'soon'"),
        (|sas| sas.start = "now".to_owned(), "st is not a time: 'now'"),
        (
            |sas| sas.expiry = "2034-01-01T00:00:00".to_owned(),
            "se is not a time: '2034-01-01T00:00:00'",
        ),
        (
            |sas| sas.expiry = "2034-01-01T00:00:00.12345678Z".to_owned(),
            "se is not a time: '2034-01-01T00:00:00.12345678Z'",
        ),
        (|sas| sas.expiry = "2034-01-01T00:00:00.1234567-01:00".to_owned(), "granted"),
        (
            |sas| sas.expiry = "2026-11-16T00:00:00Z".to_owned(),
            "Signature not valid in the specified time frame: Start [Mon, 16 Nov 2026 00:00:00 GMT] - Expiry [Mon, 16 \
             Nov 2026 00:00:00 GMT] - Current [Mon, 16 Nov 2026 00:00:00 GMT]",
        ),
        (|sas| sas.expiry = "2026-11-16T00:00:00.0000001Z".to_owned(), "granted"),
        (|sas| sas.expiry = "2026-11-17".to_owned(), "granted"),
        (|sas| sas.expiry = "2026-11-16T01:00+00:59".to_owned(), "granted"),
        (|sas| sas.start = "2026-11-16T00:00:00Z".to_owned(), "granted"),
        (
            |sas| sas.start = "2026-11-16T00:00:01Z".to_owned(),
            "Signature not valid in the specified time frame: Start [Mon, 16 Nov 2026 00:00:01 GMT] - Expiry [Sun, 01 \
             Jan 2034 00:00:00 GMT] - Current [Mon, 16 Nov 2026 00:00:00 GMT]",
        ),
        (
            |sas| sas.start = "2035-01-01".to_owned(),
            "Signed expiry time [Sun, 01 Jan 2034 00:00:00 GMT] must be after signed start time [Mon, 01 Jan 2035 \
             00:00:00 GMT]",
        ),
        (|sas| sas.ip = "127.0.0.1".to_owned(), "granted"),
        (|sas| sas.ip = "127.0.0.0-127.0.0.9".to_owned(), "granted"),
        (|sas| sas.ip = "127.0.0.2-127.0.0.9".to_owned(), "AuthorizationSourceIPMismatch"),
        (|sas| sas.ip = "10.0.0.1".to_owned(), "AuthorizationSourceIPMismatch"),
        (|sas| sas.ip = "9-1".to_owned(), "sip is not an address or a range: '9-1'"),
        (|sas| sas.protocol = "https,http".to_owned(), "granted"),
        (|sas| sas.protocol = "https".to_owned(), "AuthorizationProtocolMismatch"),
        (|sas| sas.protocol = "http".to_owned(), "spr is neither https nor https,http: 'http'"),
        (|sas| sas.start_row_key = "a".to_owned(), "srk needs spk"),
        (|sas| sas.end_row_key = "a".to_owned(), "erk needs epk"),
        (|sas| sas.start_partition_key = "a/b".to_owned(), "spk is not a key"),
        (
            |sas| sas.policy = "none".to_owned(),
            "The signed identifier names no access policy of the table",
        ),
    ];
    for (edit, expected) in cases {
        let mut sas = table_sas();
        edit(&mut sas);
        assert_eq!(outcome(&sas.signed(&account(), &key()), &[], CALLER), *expected, "{sas:?}");
    }
    let https = Caller { https: true, ..CALLER };
    let sas = TableSas { protocol: "https".to_owned(), ..table_sas() };
    assert_eq!(outcome(&sas.signed(&account(), &key()), &[], https), "granted");
    let mapped = Caller { ip: "::ffff:10.0.0.1".parse().unwrap(), ..CALLER };
    let sas = TableSas { ip: "10.0.0.1".to_owned(), ..table_sas() };
    assert_eq!(outcome(&sas.signed(&account(), &key()), &[], mapped), "granted");
}

/// What an operator reads in the log.
#[test]
fn each_failure_has_its_reason() {
    type Edit = fn(&mut TableSas);
    let cases: &[(Edit, DenyReason)] = &[
        (|sas| sas.expiry = "2026-11-15T00:00:00Z".to_owned(), DenyReason::Expired),
        (|sas| sas.start = "2026-11-17T00:00:00Z".to_owned(), DenyReason::NotYet),
        (|sas| sas.expiry = "tomorrow".to_owned(), DenyReason::Malformed),
        (|sas| sas.policy = "none".to_owned(), DenyReason::Policy),
        (|sas| sas.protocol = "https".to_owned(), DenyReason::Protocol),
        (|sas| sas.ip = "10.0.0.1".to_owned(), DenyReason::Address),
    ];
    for (edit, expected) in cases {
        let mut sas = table_sas();
        edit(&mut sas);
        let refused = evaluate(&sas.signed(&account(), &key()), &[], CALLER).unwrap_err();
        assert_eq!(DenyReason::of(&refused), Some(*expected), "{sas:?}");
    }
    let strange = AccountKey::parse("c3RyYW5nZQ==").unwrap();
    let refused = evaluate(&table_sas().signed(&account(), &strange), &[], CALLER).unwrap_err();
    assert_eq!(DenyReason::of(&refused), Some(DenyReason::Signature));
    let blobs = AccountSas { services: "b".to_owned(), ..account_sas() };
    let refused = evaluate(&blobs.signed(&account(), &key()), &[], CALLER).unwrap_err();
    assert_eq!(DenyReason::of(&refused), Some(DenyReason::Service));
}

#[test]
fn account_fields_that_are_wrong() {
    type Edit = fn(&mut AccountSas);
    let letters =
        "Signature fields are not well formed: ss, srt or sp has a letter that it cannot have";
    let cases: &[(Edit, &str)] = &[
        (|_| {}, "granted"),
        (|sas| sas.services = "bq".to_owned(), "AuthorizationServiceMismatch"),
        (|sas| sas.services = "tz".to_owned(), letters),
        (|sas| sas.services = String::new(), "ss is mandatory. Cannot be empty"),
        (|sas| sas.resource_types = String::new(), "srt is mandatory. Cannot be empty"),
        (|sas| sas.resource_types = "x".to_owned(), letters),
        (|sas| sas.permissions = "rr".to_owned(), letters),
        (
            |sas| sas.version = "2015-02-21".to_owned(),
            "An account signature needs a signed version of 2015-04-05 or later",
        ),
        (
            |sas| sas.encryption_scope = "x".to_owned(),
            "ses needs a signed version of 2020-12-06 or later",
        ),
    ];
    for (edit, expected) in cases {
        let mut sas = account_sas();
        edit(&mut sas);
        assert_eq!(outcome(&sas.signed(&account(), &key()), &[], CALLER), *expected, "{sas:?}");
    }
    let with_policy = format!("{}&si=p", account_sas().signed(&account(), &key()));
    assert_eq!(
        outcome(&with_policy, &[], CALLER),
        "An account signature cannot refer to an access policy"
    );
}

/// The query string itself: doubled fields, other cases, broken escapes, signatures encoded twice
/// or not at all.
#[test]
fn query_strings_that_are_wrong() {
    let good = table_sas().signed(&account(), &key());
    let signature = good.split("sig=").nth(1).unwrap();
    assert!(signature.contains('%'), "the signature has something to encode: {signature}");
    for (query, expected) in [
        (format!("{good}&sp=r"), "sp stands more than once"),
        (format!("{good}&SP=raud"), "sp stands more than once"),
        (format!("{good}&%73p=r"), "sp stands more than once"),
        (format!("{good}&spk=%FF"), "spk is not percent-encoded text"),
        (format!("{good}&spk=%zz"), "spk is not percent-encoded text"),
        (format!("{good}&spk=a%0Ab"), "spk is not percent-encoded text"),
        (format!("{good}&skoid=x"), "User delegation signatures do not exist for tables."),
        (format!("{good}&unknown=1&$top=1"), "granted"),
        (good.replace("sp=", "SP=").replace("sig=", "Sig="), "granted"),
    ] {
        assert_eq!(outcome(&query, &[], CALLER), expected, "{query}");
    }
    let text = table_sas().string_to_sign(&account());
    let mismatch = format!("Signature did not match. String to sign used was {text}");
    let twice = good.replace(signature, &signature.replace('%', "%25"));
    assert_eq!(
        outcome(&twice, &[], CALLER),
        format!("{mismatch} The signature is percent-encoded twice.")
    );
    for tampered in [
        good.replace("sp=r", "sp=raud"),
        good.replace("tn=PyTab1", "tn=Other"),
        good.replace("2034", "2035"),
    ] {
        assert!(
            outcome(&tampered, &[], CALLER).starts_with("Signature did not match."),
            "{tampered}"
        );
    }
    assert!(outcome(&good.replace(signature, "rubbish"), &[], CALLER).starts_with(&mismatch));
    assert_eq!(
        outcome(&good.replace(signature, ""), &[], CALLER),
        "sig is mandatory. Cannot be empty"
    );
}

fn policy(start: Option<&str>, expiry: Option<&str>, permission: Option<&str>) -> AccessPolicy {
    let time = |text: &str| DateTime::parse(text).unwrap();
    AccessPolicy {
        id: "pol".to_owned(),
        start: start.map(time),
        expiry: expiry.map(time),
        permission: permission.map(str::to_owned),
    }
}

/// Statements 87 to 90.
#[test]
fn policies_complete_a_signature() {
    let (future, past, both) = (
        Some("2034-01-01"),
        Some("2026-11-15"),
        "Access policy fields can be associated with signature or SAS identifier but not both",
    );
    for (fields, policy, expected) in [
        (("", "", ""), policy(None, future, Some("r")), "granted"),
        (("r", "", ""), policy(None, future, None), "granted"),
        (("", "", "2034-01-01"), policy(None, None, Some("r")), "granted"),
        (("r", "2026-11-15", "2034-01-01"), policy(None, None, None), "granted"),
        (("r", "", "2034-01-01"), policy(past, None, None), "granted"),
        (("r", "", ""), policy(None, future, Some("r")), both),
        (("", "", "2034-01-01"), policy(None, future, Some("r")), both),
        (("", "2026-11-15", ""), policy(past, future, Some("r")), both),
        (("", "", ""), policy(None, future, None), "sp is mandatory. Cannot be empty"),
        (("", "", ""), policy(None, None, Some("r")), "se is mandatory. Cannot be empty"),
        (
            ("", "", ""),
            policy(None, past, Some("r")),
            "Signature not valid in the specified time frame: Start [Mon, 16 Nov 2026 00:00:00 GMT] - Expiry [Sun, 15 \
             Nov 2026 00:00:00 GMT] - Current [Mon, 16 Nov 2026 00:00:00 GMT]",
        ),
    ] {
        let sas = TableSas {
            permissions: fields.0.to_owned(),
            start: fields.1.to_owned(),
            expiry: fields.2.to_owned(),
            policy: "pol".to_owned(),
            ..table_sas()
        };
        assert_eq!(
            outcome(&sas.signed(&account(), &key()), &[policy], CALLER),
            expected,
            "{fields:?}"
        );
    }
}

#[test]
fn what_is_written_reads_back() {
    let table = TableSas {
        start_partition_key: "a &+%é".to_owned(),
        ip: "10.0.0.1".to_owned(),
        ..table_sas()
    };
    assert_eq!(TableSas::read(&table.signed(&account(), &key())), Ok(table));
    let whole = account_sas();
    assert_eq!(AccountSas::read(&whole.signed(&account(), &key())), Ok(whole));
    assert_eq!(TableSas::read("sp=r&SP=r"), Err(FieldsError::Twice("sp")));
}

#[test]
fn neither_signatures_nor_tokens_are_shown() {
    let fields = super::SasFields::parse("sv=2019-02-02&sig=secret").unwrap();
    assert_eq!(format!("{fields:?}"), r#"{"sv", "sig"}"#);
    assert_eq!(format!("{:?}", Credential::Token("secret")), "Token");
}

#[test]
fn the_version_of_a_request_with_a_signature() {
    let version = |query: &str| Version::of(&request(query).0).unwrap();
    assert_eq!(version("sv=2019-02-02&sig=x").as_str(), "2019-02-02");
    assert_eq!(version("sv=2019-02-02&api-version=2020-12-06&sig=x").as_str(), "2020-12-06");
    assert_eq!(version("sv=2012-02-12&sig=x"), Version::NEWEST);
    assert_eq!(version("sv=2019-02-02"), Version::NEWEST);
}

proptest! {
    /// What is signed here is accepted here, whatever the keys are made of.
    #[test]
    fn signed_is_accepted(spk in "[^\\x00-\\x1f\\x7f-\\x9f/\\\\#?]{0,20}", srk in "[ -~&&[^/\\\\#?]]{0,20}") {
        let start_row_key = if spk.is_empty() { String::new() } else { srk };
        let sas = TableSas { start_partition_key: spk, start_row_key, ..table_sas() };
        prop_assert_eq!(outcome(&sas.signed(&account(), &key()), &[], CALLER), "granted");
    }

    #[test]
    fn nothing_else_is(query in "(s[vtepi]|sig|tn|ss|srt|[se][pr]k|%|=|&|[0-9a-zA-Z:,-]){0,60}") {
        prop_assert_ne!(outcome(&query, &[], CALLER), "granted");
    }
}
