//! What each token earns. Tokens are made by the test kit, which shares no line with the code under
//! test.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::Sha256;
use tavola_testkit::tokens::{SigningKey, compact, key_set};

use super::{
    Algorithm, Claims, Discovery, DiscoveryError, KeySet, KeySetError, Peeked, STORAGE_AUDIENCES,
    TOKEN_BYTES_MAX, TokenError, TrustedIssuer, check_unsigned, peek, verify,
};

const ISSUER: &str = "https://id.example.net/tenant/";
const NOW: u64 = 1_800_000_000;

static RSA: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::rsa("rsa"));
static OTHER_RSA: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::rsa("other"));
static P256: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::p256("p256"));
static P384: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::p384("p384"));

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn issuer() -> TrustedIssuer {
    TrustedIssuer {
        name: "corp".to_owned(),
        issuer: ISSUER.to_owned(),
        audiences: STORAGE_AUDIENCES.map(str::to_owned).to_vec(),
        algorithms: Algorithm::ALL.to_vec(),
    }
}

fn keys(keys: &[&SigningKey]) -> KeySet {
    KeySet::parse(key_set(keys.iter().copied()).to_string().as_bytes()).unwrap()
}

fn all_keys() -> KeySet {
    keys(&[&RSA, &P256, &P384])
}

/// Good claims with changes; `null` takes one away.
fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": "https://storage.azure.com", "sub": "ada", "roles": ["reader", "writer"],
        "iat": NOW - 10, "nbf": NOW - 10, "exp": NOW + 3600,
    });
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn check(token: &str) -> Result<Claims, TokenError> {
    verify(token, &issuer(), "shop", &all_keys(), at(NOW))
}

fn refusal(token: &str) -> TokenError {
    check(token).expect_err("the token must be refused")
}

/// What a token with these claims earns, signed as it should be.
fn earned(changes: Value) -> Option<TokenError> {
    check(&RSA.token(&claims(changes))).err()
}

fn with_header(key: &SigningKey, header: Value) -> Option<TokenError> {
    check(&key.token_with_header(&header, &claims(json!({})))).err()
}

#[test]
fn every_algorithm_with_its_key() {
    for algorithm in Algorithm::ALL {
        let key: &SigningKey = match algorithm {
            Algorithm::Es256 => &P256,
            Algorithm::Es384 => &P384,
            _ => &RSA,
        };
        let header = json!({"alg": algorithm.name(), "kid": key.id()});
        assert_eq!(with_header(key, header), None, "{algorithm}");
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
}

#[test]
fn claims_are_read() {
    let claims =
        check(&RSA.token(&claims(json!({"groups": "one", "mixed": ["a", 1, null, "b"]})))).unwrap();
    assert_eq!(claims.subject(), Some("ada"));
    assert_eq!(claims.expires(), at(NOW + 3600));
    assert_eq!(claims.values("roles"), ["reader", "writer"]);
    assert_eq!(claims.values("groups"), ["one"]);
    assert_eq!(claims.values("mixed"), ["a", "b"]);
    for none in ["exp", "missing", ""] {
        assert!(claims.values(none).is_empty(), "{none}");
    }
    assert!(!format!("{claims:?}").contains("ada"));
}

#[test]
fn no_token_without_a_signature_or_with_a_shared_one() {
    for name in [
        "none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "EdDSA", "ES512", "rs256",
        "RS256 ",
    ] {
        let header = json!({"alg": name, "kid": "rsa"}).to_string();
        let unsigned = compact(&header, &claims(json!({})).to_string(), |_| Vec::new());
        assert_eq!(refusal(&unsigned), TokenError::AlgorithmNotAllowed, "{name}");
        assert_eq!(peek(&unsigned), Err(TokenError::AlgorithmNotAllowed), "{name}");
        assert_eq!(
            with_header(&RSA, json!({"alg": name, "kid": "rsa"})),
            Some(TokenError::AlgorithmNotAllowed)
        );
        assert!(name.parse::<Algorithm>().is_err());
    }
    for header in
        [json!({"kid": "rsa"}), json!({"alg": null}), json!({"alg": ["RS256"]}), json!({"alg": 1})]
    {
        assert_eq!(with_header(&RSA, header), Some(TokenError::AlgorithmNotAllowed));
    }
    // A good header, and nothing or little behind the last point.
    let message = RSA.token(&claims(json!({})));
    let (message, _) = message.rsplit_once('.').unwrap();
    for signature in ["", "AA", "AAAA"] {
        assert_eq!(refusal(&format!("{message}.{signature}")), TokenError::SignatureMismatch);
    }
}

/// The classic: the public key, in each of its texts, as the secret of an HMAC.
#[test]
fn a_public_key_is_no_secret() {
    let jwk = RSA.jwk();
    let modulus = jwk["n"].as_str().unwrap();
    let modulus_bytes = URL_SAFE_NO_PAD.decode(modulus).unwrap();
    let secrets = [
        modulus.as_bytes().to_vec(),
        modulus_bytes.clone(),
        pem(&modulus_bytes),
        jwk.to_string().into_bytes(),
    ];
    for secret in secrets {
        for algorithm in ["HS256", "RS256", "PS256"] {
            let header = json!({"alg": algorithm, "kid": "rsa"}).to_string();
            let token = compact(&header, &claims(json!({})).to_string(), |message| {
                hmac_sha256(&secret, message)
            });
            let expected = if algorithm == "HS256" {
                TokenError::AlgorithmNotAllowed
            } else {
                TokenError::SignatureMismatch
            };
            assert_eq!(refusal(&token), expected);
        }
    }
}

/// `SubjectPublicKeyInfo` of an RSA key of 2048 bits with exponent 65537.
fn pem(modulus: &[u8]) -> Vec<u8> {
    let mut der = URL_SAFE_NO_PAD.decode("MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA").unwrap();
    der.extend([modulus, &[2, 3, 1, 0, 1]].concat());
    let body = STANDARD.encode(der);
    let lines: Vec<&str> =
        body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
        .into_bytes()
}

fn hmac_sha256(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

#[test]
fn claims_that_do_not_hold() {
    let malformed = |claim| Some(TokenError::ClaimMalformed(claim));
    for (changes, expected) in [
        (json!({"iss": "https://id.example.net/tenant"}), Some(TokenError::IssuerMismatch)),
        (json!({"iss": "https://id.example.net/other/"}), Some(TokenError::IssuerMismatch)),
        (json!({"iss": null}), Some(TokenError::IssuerMismatch)),
        (json!({"iss": [ISSUER]}), malformed("iss")),
        (json!({"aud": "https://vault.azure.net"}), Some(TokenError::AudienceMismatch)),
        (
            json!({"aud": "https://other.table.core.windows.net"}),
            Some(TokenError::AudienceMismatch),
        ),
        (
            json!({"aud": "https://{account}.table.core.windows.net"}),
            Some(TokenError::AudienceMismatch),
        ),
        (json!({"aud": []}), Some(TokenError::AudienceMismatch)),
        (json!({"aud": {"a": "https://storage.azure.com"}}), Some(TokenError::AudienceMismatch)),
        (json!({"aud": null}), Some(TokenError::AudienceMismatch)),
        (json!({"aud": ["https://vault.azure.net", "https://storage.azure.com/"]}), None),
        (json!({"aud": "e406a681-f3d4-42a8-90b6-c2b029497af1"}), None),
        (json!({"aud": "https://shop.table.core.windows.net"}), None),
        (json!({"exp": null}), Some(TokenError::ExpiryMissing)),
        (json!({"exp": "1900000000"}), malformed("exp")),
        (json!({"exp": -1}), malformed("exp")),
        (json!({"exp": u64::MAX}), malformed("exp")),
        (json!({"exp": 1e300}), malformed("exp")),
        (json!({"exp": NOW as f64 + 0.5}), None),
        (json!({"exp": NOW - 60}), Some(TokenError::Expired)),
        (json!({"exp": NOW - 59}), None),
        (json!({"exp": 0}), Some(TokenError::Expired)),
        (json!({"nbf": NOW + 60}), None),
        (json!({"nbf": NOW + 61}), Some(TokenError::NotYetValid)),
        (json!({"nbf": "soon"}), malformed("nbf")),
        (json!({"iat": NOW + 60}), None),
        (json!({"iat": NOW + 61}), Some(TokenError::IssuedInFuture)),
        (json!({"nbf": null, "iat": null, "sub": null}), None),
        (json!({"sub": 7}), malformed("sub")),
    ] {
        assert_eq!(earned(changes.clone()), expected, "{changes}");
    }
}

#[test]
fn a_time_before_the_epoch_is_not_a_way_in() {
    let token = RSA.token(&claims(json!({})));
    let long_ago = UNIX_EPOCH - Duration::from_secs(1 << 40);
    assert_eq!(
        verify(&token, &issuer(), "shop", &all_keys(), long_ago).err(),
        Some(TokenError::NotYetValid)
    );
}

#[test]
fn an_issuer_signs_only_as_it_may() {
    let narrow = TrustedIssuer { algorithms: Algorithm::DEFAULT.to_vec(), ..issuer() };
    let good = claims(json!({}));
    let check = |token: &str| verify(token, &narrow, "shop", &all_keys(), at(NOW)).err();
    assert_eq!(check(&RSA.token(&good)), None);
    assert_eq!(check(&P256.token(&good)), None);
    assert_eq!(check(&P384.token(&good)), Some(TokenError::AlgorithmNotAllowed));
    let pss = RSA.token_with_header(&json!({"alg": "PS256", "kid": "rsa"}), &good);
    assert_eq!(check(&pss), Some(TokenError::AlgorithmNotAllowed));
}

#[test]
fn the_key_must_be_the_one_that_is_named() {
    let rs256 = |kid: &str| json!({"alg": "RS256", "kid": kid});
    assert_eq!(with_header(&OTHER_RSA, rs256("other")), Some(TokenError::KeyUnknown));
    assert_eq!(with_header(&OTHER_RSA, rs256("rsa")), Some(TokenError::SignatureMismatch));
    assert_eq!(with_header(&RSA, rs256("p256")), Some(TokenError::KeyDoesNotFit));
    assert_eq!(
        with_header(&P256, json!({"alg": "ES256", "kid": "rsa"})),
        Some(TokenError::KeyDoesNotFit)
    );
    assert_eq!(
        with_header(&P256, json!({"alg": "ES256", "kid": "p384"})),
        Some(TokenError::KeyDoesNotFit)
    );
    assert_eq!(
        with_header(&P256, json!({"alg": "RS256", "kid": "p256"})),
        Some(TokenError::KeyDoesNotFit)
    );
    assert_eq!(
        with_header(&RSA, json!({"alg": "RS256", "kid": 1})),
        Some(TokenError::ClaimMalformed("kid"))
    );
}

#[test]
fn a_token_may_leave_the_key_out_if_only_one_fits() {
    let nameless = RSA.token_with_header(&json!({"alg": "RS256"}), &claims(json!({})));
    let check = |keys: &KeySet| verify(&nameless, &issuer(), "shop", keys, at(NOW)).err();
    assert_eq!(check(&all_keys()), None);
    assert_eq!(check(&keys(&[&OTHER_RSA])), Some(TokenError::SignatureMismatch));
    assert_eq!(check(&keys(&[&RSA, &OTHER_RSA])), Some(TokenError::KeyAmbiguous));
    assert_eq!(check(&keys(&[&P256])), Some(TokenError::KeyUnknown));
}

#[test]
fn two_keys_of_one_id() {
    let mut jwks = key_set([&*OTHER_RSA, &*RSA, &*P256]);
    for key in jwks["keys"].as_array_mut().unwrap() {
        key["kid"] = json!("rsa");
    }
    let keys = KeySet::parse(jwks.to_string().as_bytes()).unwrap();
    assert!(verify(&RSA.token(&claims(json!({}))), &issuer(), "shop", &keys, at(NOW)).is_ok());
}

#[test]
fn headers_that_bring_or_demand_something() {
    let other = OTHER_RSA.jwk();
    let brought = json!({"alg": "RS256", "kid": "rsa", "jwk": other, "jku": "https://evil.example/", "x5u": "x", "x5c": ["x"]});
    assert_eq!(with_header(&OTHER_RSA, brought.clone()), Some(TokenError::SignatureMismatch));
    assert_eq!(with_header(&RSA, brought), None);
    let brought = json!({"alg": "RS256", "kid": "other", "jwk": other});
    assert_eq!(with_header(&OTHER_RSA, brought), Some(TokenError::KeyUnknown));
    for crit in [json!(["b64"]), json!([]), json!(null)] {
        let header = json!({"alg": "RS256", "kid": "rsa", "crit": crit, "b64": false});
        assert_eq!(with_header(&RSA, header), Some(TokenError::CriticalExtension));
    }
    for typ in [json!("JWT"), json!("at+jwt"), json!(7)] {
        assert_eq!(with_header(&RSA, json!({"alg": "RS256", "kid": "rsa", "typ": typ})), None);
    }
}

#[test]
fn forms_that_are_no_token() {
    let good = RSA.token(&claims(json!({})));
    let [header, payload, signature] = good.split('.').collect::<Vec<_>>()[..] else {
        panic!("three parts")
    };
    for text in ["", ".", "a", "a.b", "a.b.c.d", "a.b.c.d.e"] {
        assert!(matches!(refusal(text), TokenError::NotThreeParts), "{text}");
    }
    for text in [
        format!("{header}.{payload}"),
        format!("{header}.{payload}.x.{signature}"),
        format!(".{good}"),
    ] {
        assert_eq!(refusal(&text), TokenError::NotThreeParts, "{text}");
    }
    for text in ["..", "!.e30.x", "e30=.e30.x", " e30.e30.x", "e31.e30.x", "é.e30.x", "e3+/.e30.x"]
    {
        assert!(
            matches!(
                refusal(text),
                TokenError::NotBase64Url("header") | TokenError::NotAnObject("header")
            ),
            "{text}"
        );
    }
    assert_eq!(
        refusal(&format!("{header}.{payload}=.{signature}")),
        TokenError::NotBase64Url("payload")
    );
    assert_eq!(refusal(&format!("{header}.{payload}.{signature}=")), TokenError::SignatureMismatch);
    assert_eq!(refusal(&good[..good.len() - 4]), TokenError::SignatureMismatch);
    assert_eq!(refusal(&format!("{good}AAAA")), TokenError::SignatureMismatch);
    let long = "a".repeat(TOKEN_BYTES_MAX);
    let oversize = RSA.token(&claims(json!({"x": long})));
    assert_eq!(refusal(&oversize), TokenError::TooLong);
    assert_eq!(peek(&oversize), Err(TokenError::TooLong));
}

#[test]
fn json_that_two_readers_would_read_differently() {
    let header = r#"{"alg":"RS256","kid":"rsa"}"#;
    let good = claims(json!({})).to_string();
    let signed =
        |header: &str, payload: &str| refusal(&RSA.token_of_texts(header, payload, "RS256"));
    for header in [
        r#"{"alg":"none","alg":"RS256"}"#,
        r#"{"alg":"RS256","\u0061lg":"none"}"#,
        "[]",
        "7",
        "",
        "{} {}",
    ] {
        assert_eq!(signed(header, &good), TokenError::NotAnObject("header"), "{header}");
    }
    let twice = good.replacen('{', r#"{"sub":"eve","#, 1);
    let deep =
        good.replacen('{', &format!(r#"{{"deep":{}{},"#, "[".repeat(4000), "]".repeat(4000)), 1);
    let trailing = format!("{good}x");
    for payload in [twice.as_str(), &deep, &trailing, "null", "\u{feff}{}"] {
        assert_eq!(signed(header, payload), TokenError::NotAnObject("payload"));
    }
}

#[test]
fn peeking_trusts_nothing_and_needs_no_signature() {
    let token = P256.token(&claims(json!({})));
    let expected = Peeked {
        issuer: ISSUER.to_owned(),
        key_id: Some("p256".to_owned()),
        algorithm: Algorithm::Es256,
    };
    assert_eq!(peek(&token), Ok(expected.clone()));
    assert_eq!(peek(&token[..token.len() - 8]), Ok(expected));
    assert_eq!(peek(&RSA.token(&claims(json!({"iss": null})))), Err(TokenError::IssuerMissing));
}

#[test]
fn key_sets() {
    let check = |keys: Value| KeySet::parse(json!({"keys": keys}).to_string().as_bytes()).err();
    let with = |key: &SigningKey, name: &str, value: Value| {
        let mut jwk = key.jwk();
        jwk[name] = value;
        json!([jwk])
    };
    for good in [
        with(&RSA, "x5c", json!(["ignored"])),
        with(&RSA, "alg", json!("RS512")),
        with(&P256, "alg", json!("ES256")),
        with(&P256, "key_ops", json!(["verify"])),
        with(&P256, "kid", Value::Null),
        json!([{"kty": "oct", "k": "c2VjcmV0"}, "nonsense", RSA.jwk(), {"kty": "OKP", "crv": "Ed25519", "x": "AA"}]),
    ] {
        assert_eq!(check(good.clone()), None, "{good}");
    }
    let modulus = |bytes: usize| json!(URL_SAFE_NO_PAD.encode(vec![0xff; bytes]));
    for bad in [
        json!([]),
        json!([{"kty": "oct", "kid": "rsa", "k": "c2VjcmV0", "alg": "HS256"}]),
        with(&RSA, "use", json!("enc")),
        with(&RSA, "key_ops", json!(["sign"])),
        with(&RSA, "alg", json!("RSA-OAEP")),
        with(&RSA, "alg", json!("HS256")),
        with(&RSA, "alg", json!("ES256")),
        with(&RSA, "kty", json!("oct")),
        with(&RSA, "kty", json!("rsa")),
        with(&RSA, "n", modulus(128)),
        with(&RSA, "n", modulus(255)),
        with(&RSA, "n", modulus(1025)),
        with(&RSA, "n", json!("")),
        with(&RSA, "e", json!("")),
        with(&RSA, "e", json!("AQ")),
        with(&RSA, "e", json!("Ag")),
        with(&RSA, "e", json!("AQEBAQE")),
        with(&P256, "crv", json!("P-384")),
        with(&P256, "crv", json!("P-521")),
        with(&P256, "x", json!("AA")),
        with(&P256, "y", Value::Null),
        json!([null, 1, [], {}]),
    ] {
        assert_eq!(check(bad.clone()), Some(KeySetError::NoUsableKey), "{bad}");
    }
    assert_eq!(check(Value::Array(vec![RSA.jwk(); 257])), Some(KeySetError::TooManyKeys));
    for malformed in ["", "[]", "{}", r#"{"keys":{}}"#, "{"] {
        assert_eq!(KeySet::parse(malformed.as_bytes()), Err(KeySetError::Malformed), "{malformed}");
    }
    assert_eq!(KeySet::parse(&vec![b' '; (1 << 20) + 1]), Err(KeySetError::TooLong));
}

#[test]
fn key_sets_compare_by_their_keys() {
    assert_eq!(all_keys(), all_keys());
    assert_ne!(keys(&[&RSA]), keys(&[&OTHER_RSA]));
    let mut same_id = OTHER_RSA.jwk();
    same_id["kid"] = json!("rsa");
    assert_ne!(
        keys(&[&RSA]),
        KeySet::parse(json!({"keys": [same_id]}).to_string().as_bytes()).unwrap()
    );
    assert_ne!(keys(&[&P256]), keys(&[&P384]));
}

#[test]
fn discovery_documents() {
    let document =
        json!({"issuer": ISSUER, "jwks_uri": "https://id.example.net/keys", "more": 1}).to_string();
    let found = Discovery::parse(document.as_bytes(), ISSUER).unwrap();
    assert_eq!(found.jwks_uri, "https://id.example.net/keys");
    let other = Discovery::parse(document.as_bytes(), "https://id.example.net/tenant");
    assert_eq!(other, Err(DiscoveryError::IssuerMismatch));
    for bad in ["", "[]", "{}", r#"{"issuer": "x"}"#, r#"{"issuer": "x", "jwks_uri": 1}"#] {
        assert_eq!(
            Discovery::parse(bad.as_bytes(), ISSUER),
            Err(DiscoveryError::Malformed),
            "{bad}"
        );
    }
    assert_eq!(Discovery::parse(&vec![b' '; (1 << 20) + 1], ISSUER), Err(DiscoveryError::TooLong));
    for issuer in [ISSUER, "https://id.example.net/tenant"] {
        assert_eq!(
            Discovery::address(issuer),
            "https://id.example.net/tenant/.well-known/openid-configuration"
        );
    }
}

#[test]
fn the_emulator_reads_tokens_without_their_signature() {
    let tenant = "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/";
    let check = |changes: Value| {
        let mut all = claims(json!({"iss": tenant}));
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let token = compact(r#"{"alg":"none"}"#, &all.to_string(), |_| Vec::new());
        check_unsigned(&token, "shop", at(NOW)).err()
    };
    for (changes, expected) in [
        (json!({}), None),
        (json!({"iss": "https://login.microsoftonline.com/x/v2.0"}), None),
        (json!({"aud": "https://shop.table.core.windows.net/"}), None),
        (json!({"aud": "https://shop.table.core.usgovcloudapi.net"}), None),
        (
            json!({"aud": "https://other.table.core.windows.net/"}),
            Some(TokenError::AudienceMismatch),
        ),
        (
            json!({"iss": "https://evil.example/https://sts.windows.net/"}),
            Some(TokenError::IssuerMismatch),
        ),
        (json!({"iss": ISSUER}), Some(TokenError::IssuerMismatch)),
        (json!({"exp": NOW}), Some(TokenError::Expired)),
        (json!({"nbf": NOW}), None),
        (json!({"nbf": NOW + 1}), Some(TokenError::NotYetValid)),
    ] {
        assert_eq!(check(changes.clone()), expected, "{changes}");
    }
    assert_eq!(check_unsigned("a.b", "shop", at(NOW)).err(), Some(TokenError::NotThreeParts));
}

proptest! {
    #[test]
    fn no_text_is_trouble(text in "[ -~é.]{0,200}", parts in "[A-Za-z0-9_-]{0,60}\\.[A-Za-z0-9_-]{0,60}\\.[A-Za-z0-9_-]{0,60}") {
        for token in [text.as_str(), &parts] {
            prop_assert!(check(token).is_err());
            prop_assert!(peek(token).is_err());
            prop_assert!(check_unsigned(token, "shop", at(NOW)).is_err());
        }
    }

    #[test]
    fn no_bytes_are_a_key_set(bytes in proptest::collection::vec(any::<u8>(), 0..200), json in "[\\[\\]{}\":,a-z0-9]{0,80}") {
        prop_assert!(KeySet::parse(&bytes).is_err() && KeySet::parse(json.as_bytes()).is_err());
    }

    /// Whatever one changes in a good token, it is good no more, and no reason repeats it.
    #[test]
    fn no_change_passes(place in any::<prop::sample::Index>(), character in "[A-Za-z0-9_.~-]") {
        static GOOD: LazyLock<String> = LazyLock::new(|| P256.token(&claims(json!({}))));
        static KEYS: LazyLock<KeySet> = LazyLock::new(all_keys);
        let place = place.index(GOOD.len());
        let mut changed = GOOD.clone();
        changed.replace_range(place..=place, &character);
        prop_assume!(changed != *GOOD);
        let error = verify(&changed, &issuer(), "shop", &KEYS, at(NOW)).expect_err("changed");
        prop_assert!(error.to_string().len() < 80);
        prop_assert!(verify(&GOOD, &issuer(), "shop", &KEYS, at(NOW)).is_ok());
    }
}
