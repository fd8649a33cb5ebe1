//! What each credential earns, as far as it can be told without a socket.

use std::time::{Duration, SystemTime};

use http::Request;
use http::request::Parts;
use proptest::prelude::*;
use tavola_core::{AccountName, ServiceKind};

use super::shared_key::{AccountKey, AccountKeys, Scheme, SignedParts, string_to_sign};
use super::{AuthContext, Caller, Precedence, TableSas, authenticate};
use crate::address::{Address, AddressRules, locate};
use crate::api_error::{ApiError, ServiceApiError as _};
use crate::deny_reason::DenyReason;

const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const SECOND_KEY: &str = "c2Vjb25kIGtleQ==";
const DATE: &str = "Mon, 16 Nov 2026 00:05:27 GMT";
/// `DATE`, in seconds since 1970.
const DATE_SECONDS: u64 = 1_794_787_527;

fn at(seconds_later: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(DATE_SECONDS.saturating_add_signed(seconds_later))
}

fn parts(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request =
        Request::builder().method(method).uri(target).header("host", "127.0.0.1:10002");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn address(parts: &Parts) -> Address {
    let rules = AddressRules { path_style_only: false, scheme: "http" };
    locate(parts, &rules, &|name| name == "devstoreaccount1").unwrap()
}

fn check(parts: &Parts, now: SystemTime) -> Result<(), ApiError> {
    check_with(parts, now, Precedence::Header)
}

fn check_with(parts: &Parts, now: SystemTime, precedence: Precedence) -> Result<(), ApiError> {
    let keys = AccountKeys::parse(KEY, Some(SECOND_KEY)).unwrap();
    let caller = Caller { ip: [127, 0, 0, 1].into(), https: false };
    let service = ServiceKind::Table;
    let auth = AuthContext { service, keys: &keys, challenge: "Bearer", caller, now, precedence };
    authenticate(parts, &address(parts), &auth).map(|_| ())
}

fn failure(parts: &Parts, now: SystemTime) -> String {
    match check(parts, now) {
        Ok(()) => "granted".to_owned(),
        Err(ApiError::AuthenticationFailed { detail, .. }) => {
            detail.unwrap_or_else(|| "no detail".to_owned())
        }
        Err(other) => other.parts().code.to_owned(),
    }
}

/// An operator can tell a wrong clock from a wrong key.
#[test]
fn each_failure_has_its_reason() {
    let reason = |parts: &Parts, now| DenyReason::of(&check(parts, now).unwrap_err()).unwrap();
    let path = "/devstoreaccount1/Tables";
    let signed_at = |date| signed(Scheme::SharedKey, KEY, "GET", path, date);
    assert_eq!(reason(&recorded(&[]), at(901)), DenyReason::Clock);
    assert_eq!(reason(&recorded(&[]), at(-901)), DenyReason::Clock);
    assert_eq!(reason(&signed_at(("x-other", DATE)), at(0)), DenyReason::Clock);
    assert_eq!(reason(&signed_at(("x-ms-date", "yesterday")), at(0)), DenyReason::Clock);
    let strange = signed(Scheme::SharedKey, "b3RoZXI=", "GET", path, ("date", DATE));
    assert_eq!(reason(&strange, at(0)), DenyReason::Signature);
    assert_eq!(reason(&parts("GET", path, &[]), at(0)), DenyReason::Missing);
    for (authorization, expected) in [
        ("SharedKey other:d3Jvbmc=", DenyReason::OtherAccount),
        ("Basic d3Jvbmc=", DenyReason::Malformed),
        ("Bearer a.b.c", DenyReason::Protocol),
    ] {
        assert_eq!(
            reason(&parts("GET", path, &[("authorization", authorization)]), at(0)),
            expected
        );
    }
}

/// A vector of the reference as a whole request, so that nothing of ours signs it.
fn recorded(extra: &[(&str, &str)]) -> Parts {
    let authorization = "SharedKey devstoreaccount1:BA3TXGsFxNnIn7BKWTOxeVCzNGaGjzWpgjkH728yTdg=";
    let mut headers = vec![("x-ms-date", DATE), ("authorization", authorization)];
    headers.extend(extra);
    parts("GET", "/devstoreaccount1/PyTab1()?$select=a&$filter=b", &headers)
}

/// The Python library's request for stats as it came: signed for `/devstoreaccount1/`, then moved
/// to the secondary.
#[test]
fn a_path_rewritten_after_signing_is_known() {
    let date = "Mon, 16 Nov 2026 06:50:51 GMT";
    let authorization = "SharedKey devstoreaccount1:cPq+BYNTjcWpKQ/F4RyYOJ802R1gemje540E6LBS9aA=";
    let headers = [("x-ms-date", date), ("authorization", authorization)];
    let now = httpdate::parse_http_date(date).unwrap();
    let target = |path: &str| parts("GET", &format!("{path}?restype=service&comp=stats"), &headers);
    assert_eq!(failure(&target("/devstoreaccount1-secondary/devstoreaccount1/"), now), "granted");
    assert_ne!(failure(&target("/devstoreaccount1-secondary/"), now), "granted");
}

fn signed(scheme: Scheme, key: &str, method: &str, path: &str, date: (&str, &str)) -> Parts {
    let signed = SignedParts {
        method,
        content_md5: "",
        content_type: "",
        date: date.1,
        account: "devstoreaccount1",
        path,
        comp: None,
    };
    let signature = AccountKey::parse(key).unwrap().sign(&string_to_sign(scheme, &signed));
    let authorization = format!("{} devstoreaccount1:{signature}", scheme.name());
    parts(method, path, &[date, ("authorization", &authorization)])
}

/// Statements 43, 45, 47 and 48.
#[test]
fn a_recorded_request_counts_for_fifteen_minutes() {
    for (seconds_later, granted) in
        [(0, true), (900, true), (-900, true), (901, false), (-901, false), (-99_999, false)]
    {
        let wrong = if seconds_later > 0 { "too old" } else { "too far in the future" };
        let expected = if granted {
            "granted".to_owned()
        } else {
            format!("Request date header {wrong}: '{DATE}'")
        };
        assert_eq!(failure(&recorded(&[]), at(seconds_later)), expected, "{seconds_later}");
    }
    let other_date = ("date", "Mon, 16 Nov 2026 12:00:00 GMT");
    assert_eq!(failure(&recorded(&[other_date]), at(0)), "granted");
}

/// Statements 46, 49, 52, 54 and 55.
#[test]
fn schemes_keys_and_dates() {
    let path = "/devstoreaccount1/Tables";
    for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
        for key in [KEY, SECOND_KEY] {
            assert_eq!(check(&signed(scheme, key, "GET", path, ("date", DATE)), at(0)), Ok(()));
            let secondary = "/devstoreaccount1-secondary/Tables";
            assert_eq!(
                check(&signed(scheme, key, "GET", secondary, ("x-ms-date", DATE)), at(0)),
                Ok(())
            );
        }
        let strange = signed(scheme, "b3RoZXI=", "GET", path, ("date", DATE));
        assert!(failure(&strange, at(0)).starts_with("The MAC signature found"));
        let undated = signed(scheme, KEY, "GET", path, ("x-other", DATE));
        assert_eq!(failure(&undated, at(0)), "The request has no date.");
        let misdated = signed(scheme, KEY, "GET", path, ("x-ms-date", "yesterday"));
        assert_eq!(failure(&misdated, at(0)), "The date header is not a date: 'yesterday'");
    }
    let mut tunnelled = signed(Scheme::SharedKey, KEY, "POST", path, ("date", DATE));
    tunnelled.headers.insert("x-http-method", "MERGE".parse().unwrap());
    assert_eq!(check(&tunnelled, at(0)), Ok(()));
}

/// Statement 50: the text that was signed is told, neither the key nor the right signature is.
#[test]
fn a_wrong_signature_is_explained() {
    let authorization = "SharedKey devstoreaccount1:d3Jvbmc=";
    let request = parts(
        "GET",
        "/devstoreaccount1/T?comp=acl",
        &[("date", DATE), ("authorization", authorization)],
    );
    assert_eq!(
        failure(&request, at(0)),
        format!(
            "The MAC signature found in the HTTP request 'd3Jv...' is not the same as any computed signature. Server \
             used following string to sign: 'GET\n\n\n{DATE}\n/devstoreaccount1/devstoreaccount1/T?comp=acl'."
        )
    );
}

/// Statements 29, 51, 53, 56 and 57.
#[test]
fn other_credentials() {
    let path = "/devstoreaccount1/Tables";
    for (headers, expected) in [
        (vec![], "InvalidAuthenticationInfo"),
        (vec![("x-ms-version", "2020-12-06")], "InvalidAuthenticationInfo"),
        (vec![("x-ms-version", "2020-10-02")], "no detail"),
        (vec![("authorization", "Bearer abc")], "A token needs https."),
        (vec![("authorization", "bearer abc")], "A token needs https."),
        (vec![("authorization", "Basic ZGV2OmRldg==")], "InvalidAuthenticationInfo"),
        (vec![("authorization", "")], "InvalidAuthenticationInfo"),
        (vec![("authorization", "SharedKey")], "InvalidAuthenticationInfo"),
        (vec![("authorization", "SharedKey devstoreaccount1")], "InvalidAuthenticationInfo"),
        (
            vec![("authorization", "SharedKeyLitedevstoreaccount1:AAAA")],
            "InvalidAuthenticationInfo",
        ),
        (
            vec![("authorization", "SharedKey a:b"), ("date", DATE)],
            "The account of the Authorization header is not the account of the request's URL.",
        ),
        (vec![("x-ms-version", "abc")], "InvalidHeaderValue"),
    ] {
        assert_eq!(failure(&parts("GET", path, &headers), at(0)), expected, "{headers:?}");
    }
    let not_base64 = [("authorization", "SharedKey devstoreaccount1:not base64!"), ("date", DATE)];
    assert!(failure(&parts("GET", path, &not_base64), at(0)).contains("'not ...' is not the same"));
    // A header counts more than a signature in the URL, whichever of them is good.
    let both =
        parts("GET", "/devstoreaccount1/T?sv=2019-02-02&sig=x", &[("authorization", "rubbish")]);
    assert_eq!(failure(&both, at(0)), "InvalidAuthenticationInfo");
    let mut good = recorded(&[]);
    good.uri = "/devstoreaccount1/PyTab1()?sv=2019-02-02&sig=x".parse().unwrap();
    assert_eq!(failure(&good, at(0)), "granted");
}

#[test]
fn an_emulator_takes_whichever_holds() {
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let signature = TableSas::read("tn=Tab&sp=r&sv=2019-02-02&se=2030-01-01T00:00:00Z").unwrap();
    let good = signature.signed(&account, &AccountKey::parse(KEY).unwrap());
    let bad = signature.signed(&account, &AccountKey::parse("YQ==").unwrap());
    let undated = ("authorization", "SharedKey devstoreaccount1:AAAA");
    let granted = |query: &str, headers: &[(&str, &str)], precedence| {
        check_with(
            &parts("GET", &format!("/devstoreaccount1/Tab()?{query}"), headers),
            at(0),
            precedence,
        )
    };
    for precedence in [Precedence::Header, Precedence::WhicheverHolds] {
        assert_eq!(granted(&good, &[], precedence), Ok(()));
        assert!(granted(&bad, &[], precedence).is_err());
        // What the header lacks is told, not what is wrong with the signature.
        assert_eq!(granted(&bad, &[undated], precedence), granted("", &[undated], precedence));
        assert!(granted("", &[undated], precedence).is_err());
    }
    assert_eq!(granted(&good, &[undated], Precedence::WhicheverHolds), Ok(()));
    assert_eq!(granted(&good, &[("authorization", "rubbish")], Precedence::WhicheverHolds), Ok(()));
    assert!(granted(&good, &[undated], Precedence::Header).is_err());
    let mut signed = recorded(&[]);
    signed.uri = format!("/devstoreaccount1/PyTab1()?{bad}").parse().unwrap();
    assert_eq!(check_with(&signed, at(0), Precedence::WhicheverHolds), Ok(()));
}

proptest! {
    #[test]
    fn no_panic(
        authorization in prop_oneof![
            "[ -~]{0,60}",
            "SharedKey(Lite)? devstoreaccount1:[A-Za-z0-9+/]{0,44}=?",
        ],
        date in prop_oneof![
            "[ -~]{0,40}",
            "(Mon|Sun), [0-9]{2} (Jan|Feb|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
        ],
        query in "[a-z=&%0-9]{0,30}",
        seconds in any::<u32>(),
    ) {
        let target = format!("/devstoreaccount1/T?{query}");
        let request = Request::builder().uri(target).header("host", "h").header("date", date);
        if let Ok(request) = request.header("authorization", authorization).body(()) {
            let _ = failure(&request.into_parts().0, SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into()));
        }
    }
}
