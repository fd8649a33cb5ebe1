//! Any token, any claims that the issuer signs and that somebody else signs in its name, and the
//! documents that an issuer publishes. The first letter says which.

#![no_main]

use std::sync::LazyLock;
use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tavola_fuzz::{ACCOUNT, NOW, SigningKey};
use tavola_protocol::auth::token::{
    Algorithm, Claims, Discovery, KeySet, LEEWAY, TokenError, TrustedIssuer, check_unsigned, peek,
    verify,
};

const ISSUER: &str = "https://id.example.net/";
const AUDIENCE: &str = "https://{account}.table.core.windows.net";

static KEY: LazyLock<SigningKey> = LazyLock::new(SigningKey::new);
static STRANGE_KEY: LazyLock<SigningKey> = LazyLock::new(SigningKey::new);

static KEYS: LazyLock<KeySet> = LazyLock::new(|| {
    KeySet::parse(KEY.key_set().to_string().as_bytes()).expect("a key set as issuers publish it")
});

static TRUSTED: LazyLock<TrustedIssuer> = LazyLock::new(|| TrustedIssuer {
    name: "corp".to_owned(),
    issuer: ISSUER.to_owned(),
    audiences: vec![AUDIENCE.to_owned()],
    algorithms: Algorithm::ALL.to_vec(),
});

fuzz_target!(|data: &[u8]| match data.split_first() {
    Some((b'k', document)) => drop(KeySet::parse(document)),
    Some((b'd', document)) => drop(Discovery::parse(document, ISSUER)),
    Some((b't', token)) => std::str::from_utf8(token).into_iter().for_each(check_foreign),
    _ => std::str::from_utf8(data).into_iter().for_each(check_members),
});

fn check_foreign(token: &str) {
    let _ = (peek(token), check_unsigned(token, ACCOUNT, SystemTime::UNIX_EPOCH + NOW));
    assert!(checked(token).is_err(), "a token that the issuer did not sign");
}

/// A token that differs from a good one by what the lines say: `h` or `c`, the name of a member of
/// the header or of the claims, and its value, or none to leave it out; or `s` and a signature.
fn check_members(lines: &str) {
    let given = |kind: char| -> Vec<(&str, &str)> {
        let members = lines.lines().filter_map(|line| line.strip_prefix(kind));
        members.map(|member| member.split_once(' ').unwrap_or((member, ""))).collect()
    };
    let header = object(&json!({"alg": "ES256", "kid": SigningKey::ID}), &given('h'));
    let claims =
        object(&json!({"iss": ISSUER, "aud": audience(), "exp": NOW.as_secs() + 1}), &given('c'));
    let token = KEY.token(header.as_bytes(), claims.as_bytes());
    let message = token.rsplit_once('.').map_or("", |(message, _)| message);
    let signature = lines.lines().find_map(|line| line.strip_prefix("s ")).unwrap_or_default();
    check_foreign(&format!("{message}.{signature}"));
    if let Ok(granted) = checked(&token) {
        check_granted(&header, &claims, &granted);
        let forged = checked(&STRANGE_KEY.token(header.as_bytes(), claims.as_bytes())).err();
        assert_eq!(forged, Some(TokenError::SignatureMismatch), "signed by a stranger");
    }
}

/// The text of an object, not of a map: a member can stand twice.
fn object(usual: &Value, given: &[(&str, &str)]) -> String {
    let usual = usual.as_object().into_iter().flatten();
    let kept = usual.filter(|(name, _)| !given.iter().any(|(other, _)| other == name));
    let kept = kept.map(|(name, value)| (name.as_str(), value.to_string()));
    let given = given.iter().filter(|(_, value)| !value.is_empty()).map(|&(name, value)| {
        // What is no JSON is the content of a text.
        let is_json = serde_json::from_str::<Value>(value).is_ok();
        (name, if is_json { value.to_owned() } else { Value::from(value).to_string() })
    });
    let members: Vec<String> =
        kept.chain(given).map(|(name, value)| format!("{}:{value}", Value::from(name))).collect();
    format!("{{{}}}", members.join(","))
}

fn audience() -> String {
    AUDIENCE.replace("{account}", ACCOUNT)
}

fn checked(token: &str) -> Result<Claims, TokenError> {
    verify(token, &TRUSTED, ACCOUNT, &KEYS, SystemTime::UNIX_EPOCH + NOW)
}

/// What is granted says all that a token must say, as another reader of JSON sees it.
fn check_granted(header: &str, claims: &str, granted: &Claims) {
    let read = |json| serde_json::from_str::<Value>(json).expect("a token is made of JSON");
    let (header, claims) = (read(header), read(claims));
    assert_eq!(header["alg"], "ES256");
    assert!(
        header.get("crit").is_none() && header.get("kid").is_none_or(|id| id == SigningKey::ID),
        "{header}"
    );
    assert_eq!(claims["iss"], ISSUER);
    let audience = Value::from(audience());
    let is_ours = claims["aud"] == audience
        || claims["aud"].as_array().is_some_and(|list| list.contains(&audience));
    assert!(is_ours, "{claims}");
    let (now, leeway) = (NOW.as_secs_f64(), LEEWAY.as_secs_f64());
    let time =
        |claim: &str| claims.get(claim).map(|time| time.as_f64().expect("a number of seconds"));
    assert!(time("exp").is_some_and(|end| now < end + leeway), "{claims}");
    assert!(
        ["nbf", "iat"].iter().all(|start| time(start).is_none_or(|start| start <= now + leeway)),
        "{claims}"
    );
    assert_eq!(
        granted.subject(),
        claims.get("sub").map(|subject| subject.as_str().expect("a text"))
    );
    let _ = (granted.expires(), granted.values("roles"));
}
