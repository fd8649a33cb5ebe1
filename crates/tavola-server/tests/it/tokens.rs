//! Tokens of a real issuer over real HTTP: where keys come from, how often it is asked, and what
//! bearers earn.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tavola_core::AccountName;
use tavola_core::ServiceKind;
use tavola_core::grant::{Role, RoleAssignment, Scope};
use tavola_protocol::auth::token::TokenError;
use tavola_server::config::{Layers, Schema, TokenConfig};
use tavola_server::{ConfigError, TokenAuthority, TokenRefusal};
use tavola_testkit::oidc_issuer::{Behaviour, Identity, OidcIssuer, Options};
use tavola_testkit::tokens::compact;

/// What the server leaves between two questions to an issuer.
const REST: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(60 * 60);

const UNKNOWN_KEY: Result<Vec<RoleAssignment>, TokenRefusal> =
    Err(TokenRefusal::Invalid(TokenError::KeyUnknown));
const NO_KEYS: Result<Vec<RoleAssignment>, TokenRefusal> = Err(TokenRefusal::KeysUnavailable);

fn config(toml: &str) -> TokenConfig {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tavola.toml");
    fs::write(&file, toml).unwrap();
    TokenConfig::resolve(&Layers::read(Schema::server_only(), Some(&file), [])).unwrap()
}

fn authority(toml: &str) -> TokenAuthority {
    TokenAuthority::new(&config(toml)).unwrap()
}

/// One issuer whose `reader` role reads.
fn authority_of(issuer: &str) -> TokenAuthority {
    authority(&format!(
        "[auth.oidc.corp]\nissuer = \"{issuer}\"\n[auth.roles.reading]\nvalue = \"reader\"\nrole = \"reader\""
    ))
}

fn reads() -> Result<Vec<RoleAssignment>, TokenRefusal> {
    Ok(vec![RoleAssignment { role: Role::Reader, scope: Scope::Account }])
}

fn reader() -> Value {
    json!({"roles": ["reader"]})
}

async fn roles_in(
    authority: &TokenAuthority,
    account: &str,
    token: &str,
) -> Result<Vec<RoleAssignment>, TokenRefusal> {
    authority.roles(token, &AccountName::parse(account).unwrap(), SystemTime::now()).await
}

async fn roles(
    authority: &TokenAuthority,
    token: &str,
) -> Result<Vec<RoleAssignment>, TokenRefusal> {
    roles_in(authority, "shop", token).await
}

/// Lets the clock of timers jump, and whom it wakes go on. Sockets know nothing of it.
async fn jump(duration: Duration) {
    tokio::time::pause();
    tokio::time::advance(duration + Duration::from_millis(10)).await;
    tokio::time::resume();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it does not come to that");
}

#[tokio::test]
async fn claims_earn_roles() {
    let issuer = OidcIssuer::start().await;
    let authority = authority(&format!(
        r#"
        [auth.oidc.corp]
        issuer = "{}"
        [auth.roles.everywhere]
        value = "reader"
        role = "Storage Table Data Reader"
        [auth.roles.in-shop]
        issuer = "corp"
        claim = "groups"
        value = "clerks"
        role = "contributor"
        account = "shop"
        tables = ["Orders", "Customers"]
        [auth.roles.root]
        claim = "sub"
        value = "root"
        role = "administrator"
        "#,
        issuer.url()
    ));
    let everywhere = RoleAssignment { role: Role::Reader, scope: Scope::Account };
    let tables = ["Orders", "Customers"].map(str::to_owned).to_vec();
    let in_shop = RoleAssignment {
        role: Role::Contributor,
        scope: Scope::Containers(ServiceKind::Table, tables),
    };
    let root = RoleAssignment { role: Role::Administrator, scope: Scope::Account };
    for (claims, in_the_shop, in_the_bank) in [
        (json!({}), vec![], vec![]),
        (json!({"roles": ["other", "reader"]}), vec![everywhere.clone()], vec![everywhere.clone()]),
        (json!({"roles": "reader"}), vec![everywhere.clone()], vec![everywhere.clone()]),
        (json!({"roles": "reader,clerks", "groups": ["Clerks"]}), vec![], vec![]),
        (json!({"groups": "clerks"}), vec![in_shop.clone()], vec![]),
        (
            json!({"groups": ["clerks"], "roles": ["reader"]}),
            vec![everywhere.clone(), in_shop],
            vec![everywhere],
        ),
        (json!({"sub": "root"}), vec![root.clone()], vec![root]),
    ] {
        let token = issuer.token(&claims);
        assert_eq!(roles_in(&authority, "shop", &token).await, Ok(in_the_shop.clone()), "{claims}");
        assert_eq!(roles_in(&authority, "bank", &token).await, Ok(in_the_bank), "{claims}");
        assert_eq!(roles_in(&authority, "shop", &token).await, Ok(in_the_shop), "{claims}");
        assert!(roles(&authority, &issuer.token_es256(&claims)).await.is_ok());
    }
    assert_eq!((issuer.discoveries(), issuer.fetches()), (1, 1));
}

#[tokio::test]
async fn tokens_that_earn_nothing() {
    let (issuer, stranger) = (OidcIssuer::start().await, OidcIssuer::start().await);
    let authority = authority_of(issuer.url());
    let refused = |error| Err(TokenRefusal::Invalid(error));
    let other_account = json!({"aud": "https://bank.table.core.windows.net", "roles": ["reader"]});
    for (token, expected) in [
        (stranger.token(&reader()), Err(TokenRefusal::IssuerNotTrusted)),
        (stranger.token(&json!({"iss": issuer.url()})), refused(TokenError::SignatureMismatch)),
        (
            issuer.token(&json!({"aud": "https://vault.azure.net"})),
            refused(TokenError::AudienceMismatch),
        ),
        (issuer.token(&other_account), refused(TokenError::AudienceMismatch)),
        (issuer.token(&json!({"exp": 1})), refused(TokenError::Expired)),
        (compact(r#"{"alg":"none"}"#, "{}", |_| Vec::new()), refused(TokenError::IssuerMissing)),
        ("x".repeat(16 * 1024 + 1), refused(TokenError::TooLong)),
        ("x".to_owned(), refused(TokenError::NotThreeParts)),
        (issuer.token(&reader()), reads()),
    ] {
        assert_eq!(roles(&authority, &token).await, expected);
    }
    let token = issuer.token(&other_account);
    assert_eq!(roles_in(&authority, "bank", &token).await, reads());
    assert!(
        roles_in(&authority, "shop", &token).await.is_err(),
        "what holds in one account is not remembered for another"
    );
    assert_eq!(stranger.discoveries(), 0, "nobody asks whom nobody trusts");
}

#[tokio::test]
async fn https_with_a_private_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, identity) = private_authority();
    let ca_file = folder.path().join("ca.pem");
    fs::write(&ca_file, ca).unwrap();
    let options = Options {
        host: Some("localhost".to_owned()),
        identity: Some(identity),
        ..Options::default()
    };
    let issuer = OidcIssuer::start_with(options).await.unwrap();
    assert!(issuer.url().starts_with("https://localhost:"));
    let toml = format!("[auth.oidc.corp]\nissuer = \"{}\"\n", issuer.url());
    let role = "[auth.roles.reading]\nvalue = \"reader\"\nrole = \"reader\"";
    let trusting = authority(&format!("{toml}ca_file = \"{}\"\n{role}", ca_file.display()));
    assert_eq!(roles(&trusting, &issuer.token(&reader())).await, reads());
    if let Ok(cautious) = TokenAuthority::new(&config(&format!("{toml}{role}"))) {
        assert_eq!(roles(&cautious, &issuer.token(&reader())).await, NO_KEYS);
    }
    assert_eq!(issuer.discoveries(), 1, "whoever does not trust the certificate does not ask");
}

fn private_authority() -> (String, Identity) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new([]).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &rcgen::Issuer::new(ca, ca_key)).unwrap();
    let identity = Identity {
        certificates: certificate.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
    };
    (ca_certificate.pem(), identity)
}

#[tokio::test]
async fn new_keys_are_found_by_their_id() {
    let issuer = OidcIssuer::start().await;
    let authority = authority_of(issuer.url());
    let old = issuer.token(&reader());
    assert_eq!(roles(&authority, &old).await, reads());
    issuer.rotate();
    let new = issuer.token(&reader());
    assert_eq!(roles(&authority, &new).await, UNKNOWN_KEY, "it is too early to ask again");
    assert_eq!(issuer.fetches(), 1);
    jump(REST).await;
    assert_eq!(roles(&authority, &new).await, reads());
    assert_eq!(issuer.fetches(), 2);
    assert_eq!(
        roles(&authority, &old).await,
        UNKNOWN_KEY,
        "a withdrawn key counts no more, remembered or not"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_unknown_keys_at_the_start_are_one_question() {
    let issuer = OidcIssuer::start().await;
    let authority = Arc::new(authority_of(issuer.url()));
    let requests = (0..200).map(|number| {
        let token = issuer.token_of_key(&format!("invented-{number}"), &reader());
        let authority = authority.clone();
        tokio::spawn(async move { roles(&authority, &token).await })
    });
    for outcome in join_all(requests).await {
        assert_eq!(outcome.unwrap(), UNKNOWN_KEY);
    }
    assert_eq!((issuer.discoveries(), issuer.fetches()), (1, 1));
    assert_eq!(roles(&authority, &issuer.token(&reader())).await, reads());
}

#[tokio::test]
async fn many_unknown_keys_later_are_one_question_each_time() {
    let issuer = OidcIssuer::start().await;
    let authority = authority_of(issuer.url());
    assert_eq!(roles(&authority, &issuer.token(&reader())).await, reads());
    for round in 2..5 {
        jump(REST).await;
        for _ in 0..2 {
            let tokens: Vec<_> = (0..200)
                .map(|kid| issuer.token_of_key(&format!("{round}-{kid}"), &reader()))
                .collect();
            let outcomes = join_all(tokens.iter().map(|token| roles(&authority, token))).await;
            assert!(outcomes.iter().all(|outcome| *outcome == UNKNOWN_KEY));
        }
        assert_eq!(issuer.fetches(), round);
    }
}

/// A question belongs to nobody: whoever waits for it may go, and it is not asked again for the
/// next.
#[tokio::test]
async fn a_client_that_goes_away_costs_no_second_question() {
    let issuer = OidcIssuer::start().await;
    issuer.behave(Behaviour::Silent);
    let authority = Arc::new(authority_of(issuer.url()));
    for _ in 0..20 {
        let (authority, token) = (authority.clone(), issuer.token(&reader()));
        let request = tokio::spawn(async move { roles(&authority, &token).await });
        until(|| issuer.discoveries() > 0).await;
        request.abort();
        let _gone = request.await;
    }
    assert_eq!(issuer.discoveries(), 1);
}

#[tokio::test]
async fn an_issuer_that_goes_away_is_remembered_for_a_day() {
    let issuer = OidcIssuer::start().await;
    let authority = authority_of(issuer.url());
    let tokens: Vec<_> =
        (0..4).map(|number| issuer.token(&json!({"roles": ["reader"], "jti": number}))).collect();
    assert_eq!(roles(&authority, &tokens[0]).await, reads());
    drop(issuer);
    for token in &tokens[1..3] {
        jump(11 * HOUR).await;
        assert_eq!(roles(&authority, token).await, reads());
    }
    jump(3 * HOUR).await;
    assert_eq!(roles(&authority, &tokens[3]).await, NO_KEYS);
}

#[tokio::test]
async fn an_issuer_that_comes_late_is_found() {
    let issuer = OidcIssuer::start().await;
    issuer.behave(Behaviour::Failing);
    let authority = authority_of(issuer.url());
    authority.start();
    until(|| issuer.discoveries() == 1).await;
    assert_eq!(roles(&authority, &issuer.token(&reader())).await, NO_KEYS);
    issuer.behave(Behaviour::Good);
    assert_eq!(
        roles(&authority, &issuer.token(&reader())).await,
        NO_KEYS,
        "it is too early to ask again"
    );
    jump(REST).await;
    assert_eq!(roles(&authority, &issuer.token(&reader())).await, reads());
}

#[tokio::test]
async fn keys_are_renewed_without_any_token() {
    let issuer = OidcIssuer::start().await;
    let authority = authority_of(issuer.url());
    assert_eq!(roles(&authority, &issuer.token(&reader())).await, reads());
    for round in 2..4 {
        issuer.rotate();
        // Resting and waiting are two timers, so time must pass twice.
        jump(REST).await;
        jump(HOUR).await;
        until(|| issuer.fetches() == round).await;
        assert_eq!(roles(&authority, &issuer.token(&reader())).await, reads());
        assert_eq!(issuer.fetches(), round);
    }
}

#[tokio::test]
async fn answers_that_are_not_believed() {
    for behaviour in [
        Behaviour::WrongIssuer,
        Behaviour::RedirectingDiscovery,
        Behaviour::RedirectingKeys,
        Behaviour::EndlessKeys,
        Behaviour::NoKeys,
        Behaviour::PlainKeysElsewhere,
        Behaviour::Failing,
    ] {
        let issuer = OidcIssuer::start().await;
        issuer.behave(behaviour);
        let authority = authority_of(issuer.url());
        let token = issuer.token(&reader());
        assert_eq!(roles(&authority, &token).await, NO_KEYS, "{behaviour:?}");
        assert_eq!(issuer.discoveries(), 1, "{behaviour:?}");
        // One MiB, and what lies in the buffers of sockets.
        assert!(issuer.endless_bytes() < 32 << 20, "{} bytes were taken", issuer.endless_bytes());
        issuer.behave(Behaviour::Good);
        jump(REST).await;
        assert_eq!(roles(&authority, &token).await, reads(), "{behaviour:?}");
        // And the other way round: bad news do not replace good keys.
        issuer.behave(behaviour);
        jump(REST).await;
        assert_eq!(
            roles(&authority, &issuer.token_of_key("invented", &reader())).await,
            UNKNOWN_KEY,
            "{behaviour:?}"
        );
        assert_eq!(
            roles(&authority, &issuer.token_es256(&reader())).await,
            reads(),
            "{behaviour:?}"
        );
    }
}

#[tokio::test]
async fn a_slow_issuer_holds_up_nobody_else() {
    let (slow, good) = (OidcIssuer::start().await, OidcIssuer::start().await);
    let authority = Arc::new(authority(&format!(
        "[auth.oidc.slow]\nissuer = \"{}\"\n[auth.oidc.good]\nissuer = \"{}\"\n\
         [auth.roles.reading]\nvalue = \"reader\"\nrole = \"reader\"",
        slow.url(),
        good.url()
    )));
    // One who waits for the slow issuer's first keys, while others come and go.
    slow.behave(Behaviour::Silent);
    let waiting = {
        let (authority, token) = (authority.clone(), slow.token(&reader()));
        tokio::spawn(async move { roles(&authority, &token).await })
    };
    until(|| slow.discoveries() == 1).await;
    assert_eq!(roles(&authority, &good.token(&reader())).await, reads());
    assert!(!waiting.is_finished());
    jump(Duration::from_secs(5)).await;
    assert_eq!(waiting.await.unwrap(), NO_KEYS);

    // Later it has told its keys and is slow again: those who bear tokens of known keys do not
    // wait.
    slow.behave(Behaviour::Good);
    jump(REST).await;
    assert_eq!(roles(&authority, &slow.token(&reader())).await, reads());
    slow.behave(Behaviour::Silent);
    jump(REST).await;
    let asked = slow.discoveries();
    let waiting = {
        let (authority, token) = (authority.clone(), slow.token_of_key("invented", &reader()));
        tokio::spawn(async move { roles(&authority, &token).await })
    };
    until(|| slow.discoveries() == asked + 1).await;
    assert_eq!(roles(&authority, &slow.token_es256(&reader())).await, reads());
    assert!(!waiting.is_finished());
    jump(Duration::from_secs(5)).await;
    assert_eq!(waiting.await.unwrap(), UNKNOWN_KEY);
}

#[tokio::test]
async fn a_token_is_checked_once_and_then_remembered() {
    let issuer = OidcIssuer::start().await;
    let authority = authority_of(issuer.url());
    let token = issuer.token(&reader());
    for _ in 0..100 {
        assert_eq!(roles(&authority, &token).await, reads());
    }
    assert_eq!(authority.verifications(), 1);
    // Not by its beginning, nor beyond five minutes, nor beyond its end, nor for another account.
    let (message, _) = token.rsplit_once('.').unwrap();
    let forged = format!("{message}.AAAA");
    assert_eq!(
        roles(&authority, &forged).await,
        Err(TokenRefusal::Invalid(TokenError::SignatureMismatch))
    );
    assert_eq!(authority.verifications(), 2);
    let shop = AccountName::parse("shop").unwrap();
    let later = SystemTime::now() + Duration::from_secs(5 * 60 + 1);
    assert_eq!(authority.roles(&token, &shop, later).await, reads());
    assert_eq!(authority.verifications(), 3);
    let much_later = SystemTime::now() + 2 * HOUR;
    assert_eq!(
        authority.roles(&token, &shop, much_later).await,
        Err(TokenRefusal::Invalid(TokenError::Expired))
    );
    assert_eq!(roles_in(&authority, "bank", &token).await, reads());
    assert_eq!(authority.verifications(), 5);
}

#[tokio::test]
async fn keys_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let issuer = OidcIssuer::start().await;
    let write = |text: &str| fs::write(&file, text).unwrap();
    let open = |file: &Path| {
        let toml = format!(
            "[auth.oidc.corp]\nissuer = \"{}\"\njwks_file = \"{}\"\n[auth.roles.reading]\nvalue = \"reader\"\nrole = \"reader\"",
            issuer.url(),
            file.display()
        );
        TokenAuthority::new(&config(&toml))
    };
    for (content, problem) in [
        (None, "No such file"),
        (Some("{}"), "not a JSON object"),
        (Some("{\"keys\":[]}"), "no usable key"),
    ] {
        if let Some(content) = content {
            write(content);
        }
        let error = open(&file).unwrap_err().to_string();
        assert!(
            error.starts_with("auth.oidc.corp: jwks_file ") && error.contains(problem),
            "{error}"
        );
    }

    write(&issuer.key_set().to_string());
    let authority = open(&file).unwrap();
    let old = issuer.token(&reader());
    assert_eq!(roles(&authority, &old).await, reads());
    issuer.rotate();
    let new = issuer.token(&reader());
    write(&issuer.key_set().to_string());
    assert_eq!(
        roles(&authority, &new).await,
        UNKNOWN_KEY,
        "the file is read when somebody says so"
    );
    authority.reload().unwrap();
    assert_eq!(roles(&authority, &new).await, reads());
    assert_eq!(roles(&authority, &old).await, UNKNOWN_KEY);
    write("nonsense");
    let error: ConfigError = authority.reload().unwrap_err();
    assert!(error.to_string().contains("jwks_file"), "{error}");
    assert_eq!(roles(&authority, &new).await, reads());
    assert_eq!(issuer.discoveries(), 0, "with keys on disk nobody is asked");
}

#[tokio::test]
async fn certificates_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let toml = format!(
        "[auth.oidc.corp]\nissuer = \"https://id.example\"\nca_file = \"{}\"",
        file.display()
    );
    for content in
        [None, Some(""), Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")]
    {
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        let error = TokenAuthority::new(&config(&toml)).unwrap_err().to_string();
        assert!(error.starts_with("auth.oidc.corp: ca_file "), "{error}");
    }
}

#[tokio::test]
async fn an_emulator_believes_everybody() {
    let tenant = "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/";
    let issuer = OidcIssuer::start().await;
    let mut config = config(&format!("[auth.oidc.corp]\nissuer = \"{}\"", issuer.url()));
    let token = issuer.token(&json!({"iss": tenant}));
    let strict = TokenAuthority::new(&config).unwrap();
    assert_eq!(roles(&strict, &token).await, Err(TokenRefusal::IssuerNotTrusted));
    config.unsigned = true;
    let emulator = TokenAuthority::new(&config).unwrap();
    assert_eq!(
        roles(&emulator, &token).await,
        Ok(vec![RoleAssignment { role: Role::Contributor, scope: Scope::Account }])
    );
    let expired = issuer.token(&json!({"iss": tenant, "exp": 1}));
    assert_eq!(roles(&emulator, &expired).await, Err(TokenRefusal::Invalid(TokenError::Expired)));
    let forged = issuer.token_of_key("p256-1", &json!({"exp": 1}));
    assert!(
        roles(&emulator, &forged).await.is_err(),
        "an issuer that is trusted is still held to its word"
    );
}

#[test]
fn challenges() {
    let of = |toml: &str| authority(toml).challenge().to_owned();
    let default = "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize \
                   resource_id=https://storage.azure.com";
    assert_eq!(of(""), default);
    assert_eq!(of("[auth.oidc.a]\nissuer = \"http://localhost\""), default);
    let own = "[auth.oidc.a]\nissuer = \"http://localhost\"\nauthorization_uri = \"https://id.example/authorize\"";
    let expected = "Bearer authorization_uri=https://id.example/authorize resource_id=https://storage.azure.com";
    assert_eq!(of(own), expected);
    assert!(!authority("").is_configured());
    assert!(authority(own).is_configured());
    let emulator = TokenConfig { unsigned: true, ..TokenConfig::default() };
    assert!(TokenAuthority::new(&emulator).unwrap().is_configured());
}
