use std::io::Write;
use std::path::PathBuf;

use tavola_core::ServiceKind;
use tavola_core::grant::{Role, Scope};
use tavola_protocol::auth::token::{Algorithm, STORAGE_AUDIENCES};

use super::{KeySource, TokenConfig, may_be_asked};
use crate::config::{ConfigError, Layers, Schema};

fn resolve(toml: &str, environment: &[(&str, &str)]) -> Result<TokenConfig, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(toml.as_bytes()).unwrap();
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    TokenConfig::resolve(
        &Layers::read(Schema::server_only(), Some(file.path()), environment).checked()?,
    )
}

#[test]
fn nothing_is_the_default() {
    assert_eq!(resolve("", &[]).unwrap(), TokenConfig::default());
}

#[test]
fn an_issuer_needs_only_its_address() {
    let config = resolve("[auth.oidc.corp]\nissuer = \"https://id.example/tenant/\"", &[]).unwrap();
    let [issuer] = &config.issuers[..] else { panic!("{config:?}") };
    assert_eq!(
        (issuer.trusted.name.as_str(), issuer.trusted.issuer.as_str()),
        ("corp", "https://id.example/tenant/")
    );
    assert_eq!(issuer.trusted.audiences, STORAGE_AUDIENCES);
    assert_eq!(issuer.trusted.algorithms, Algorithm::DEFAULT);
    assert_eq!(issuer.keys, KeySource::Discovery { ca_file: None });
    assert_eq!(issuer.authorization_uri, None);
}

#[test]
fn everything_from_variables() {
    let config = resolve(
        "",
        &[
            ("TAVOLA_AUTH__OIDC__CORP__ISSUER", "a mere name"),
            ("TAVOLA_AUTH__OIDC__CORP__AUDIENCES", "one, https://{account}.example"),
            ("TAVOLA_AUTH__OIDC__CORP__ALGORITHMS", "PS256,ES384"),
            ("TAVOLA_AUTH__OIDC__CORP__JWKS_FILE", "keys.json"),
            ("TAVOLA_AUTH__OIDC__CORP__AUTHORIZATION_URI", "https://id.example/authorize"),
            ("TAVOLA_AUTH__ROLES__CLERKS__ISSUER", "corp"),
            ("TAVOLA_AUTH__ROLES__CLERKS__CLAIM", "groups"),
            ("TAVOLA_AUTH__ROLES__CLERKS__VALUE", "7"),
            ("TAVOLA_AUTH__ROLES__CLERKS__ROLE", "Storage Table Data Contributor"),
            ("TAVOLA_AUTH__ROLES__CLERKS__ACCOUNT", "shop"),
            ("TAVOLA_AUTH__ROLES__CLERKS__TABLES", "Orders,Customers"),
        ],
    );
    let config = config.unwrap();
    let (issuer, rule) = (&config.issuers[0], &config.roles[0]);
    assert_eq!(issuer.keys, KeySource::File(PathBuf::from("keys.json")));
    assert_eq!(issuer.trusted.audiences, ["one", "https://{account}.example"]);
    assert_eq!(issuer.trusted.algorithms, [Algorithm::Ps256, Algorithm::Es384]);
    assert_eq!(issuer.authorization_uri.as_deref(), Some("https://id.example/authorize"));
    assert_eq!(
        (rule.issuer.as_deref(), rule.claim.as_str(), rule.value.as_str()),
        (Some("corp"), "groups", "7")
    );
    assert_eq!(rule.account.as_ref().map(|account| account.as_str()), Some("shop"));
    assert_eq!(rule.assignment.role, Role::Contributor);
    assert!(matches!(
        &rule.assignment.scope,
        Scope::Containers(ServiceKind::Table, tables) if tables.len() == 2
    ));
}

#[test]
fn roles_by_either_name() {
    for (text, role) in [
        ("reader", Role::Reader),
        ("Storage Table Data Reader", Role::Reader),
        ("Contributor", Role::Contributor),
        ("storage table data contributor", Role::Contributor),
        ("administrator", Role::Administrator),
    ] {
        let config = resolve(
            &format!("[auth.roles.x]\nvalue = \"v\"\nrole = \"{text}\"\naccount = \"*\""),
            &[],
        )
        .unwrap();
        let rule = &config.roles[0];
        assert_eq!(
            (rule.assignment.role, &rule.account, &rule.assignment.scope),
            (role, &None, &Scope::Account),
            "{text}"
        );
        assert_eq!((rule.claim.as_str(), &rule.issuer), ("roles", &None));
    }
}

#[test]
fn mistakes_are_named() {
    let issuer =
        |lines: &str| format!("[auth.oidc.corp]\nissuer = \"https://id.example\"\n{lines}");
    let role = |lines: &str| format!("{}[auth.roles.r]\nvalue = \"v\"\n{lines}", issuer(""));
    for (toml, expected) in [
        ("[auth.oidc.corp]\njwks_file = \"x\"".to_owned(), "issuer is missing"),
        ("[auth.oidc.corp]\nissuer = \"\"".to_owned(), "issuer is missing"),
        ("[auth.oidc.corp]\nissuer = \"id.example\"".to_owned(), "issuer is not an https address"),
        (
            "[auth.oidc.corp]\nissuer = \"ftp://id.example\"".to_owned(),
            "issuer is not an https address",
        ),
        (
            "[auth.oidc.corp]\nissuer = \"https://id.example?x\"".to_owned(),
            "issuer is not an https address",
        ),
        (
            "[auth.oidc.corp]\nissuer = \"https://me@id.example\"".to_owned(),
            "issuer is not an https address",
        ),
        (
            "[auth.oidc.corp]\nissuer = \"http://id.example\"".to_owned(),
            "plain http beyond this machine",
        ),
        (
            "[auth.oidc.corp]\nissuer = \"http://localhost.example\"".to_owned(),
            "plain http beyond this machine",
        ),
        (issuer("audiences = []"), "audiences is empty"),
        (issuer("audiences = \" , \""), "audiences is empty"),
        (issuer("algorithms = []"), "algorithms is empty"),
        (issuer("algorithms = [\"RS256\", \"HS256\"]"), "algorithms: \"HS256\" does not fit"),
        (issuer("algorithms = \"none\""), "algorithms: \"none\" does not fit"),
        (issuer("jwks_file = \"x\"\nca_file = \"y\""), "jwks_file and ca_file exclude each other"),
        (issuer("authorization_uri = \"not one\""), "authorization_uri is not"),
        (issuer("audience = \"x\""), "did you mean auth.oidc.NAME.audiences?"),
        (
            issuer("[auth.oidc.twin]\nissuer = \"https://id.example\""),
            "auth.oidc.corp has the same issuer",
        ),
        (role(""), "role is missing"),
        (role("role = \"owner\""), "role: \"owner\" is not reader, contributor or administrator"),
        (role("role = \"reader\"\nissuer = \"corpse\""), "issuer: there is no [auth.oidc.corpse]"),
        (role("role = \"reader\"\naccount = \"a_b\""), "account: \"a_b\" cannot be an account"),
        (role("role = \"reader\"\ntables = [\"1st\"]"), "tables: \"1st\" cannot be a table"),
        (role("role = \"reader\"\ntables = []"), "tables is empty"),
        ("[auth.roles.r]\nrole = \"reader\"".to_owned(), "value is missing"),
    ] {
        let error = resolve(&toml, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{toml}\n{error}");
    }
}

#[test]
fn plain_http_stays_on_this_machine() {
    for good in [
        "https://id.example",
        "http://localhost:8080/x",
        "http://127.0.0.1",
        "http://127.9.9.9:1",
        "http://[::1]:80/",
    ] {
        assert!(may_be_asked(good), "{good}");
    }
    for bad in [
        "http://id.example",
        "http://10.0.0.1",
        "http://[::2]",
        "http://localhost.id.example",
        "/x",
        "",
        "ftp://localhost",
    ] {
        assert!(!may_be_asked(bad), "{bad}");
    }
}
