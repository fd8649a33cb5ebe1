use std::io::Write;

use tavola_core::AccountName;
use tavola_fair::Rate;

use super::accounts::DEVELOPMENT_KEY;
use super::{Config, ConfigError, Layers, Origin, Personality, Schema};

const KEY: &str = "YSBrZXkgb2YgYW4gYWNjb3VudCBpbiB0ZXN0cywgbG9uZw==";

pub(super) fn layers(file: &str, environment: &[(&str, &str)]) -> Result<Layers, ConfigError> {
    let mut toml = tempfile::NamedTempFile::new().unwrap();
    toml.write_all(file.as_bytes()).unwrap();
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Layers::read(Schema::server_only(), Some(toml.path()), environment).checked()
}

pub(super) fn resolve(file: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::resolve(&layers(file, environment)?, Personality::Server)
}

/// Those of a server that nobody configured.
pub(crate) fn limits() -> super::Limits {
    resolve("", &[]).unwrap().limits
}

#[test]
fn stronger_origins_win_whatever_the_order() {
    let mut layers = layers("[table]\nport = 1", &[("TAVOLA_TABLE__PORT", "2")]).unwrap();
    assert_eq!(layers.text("table.port"), "2");
    layers.set("table.port", "3", Origin::Flag("--table-port".to_owned()));
    layers.set("table.port", "4", Origin::Variable("X".to_owned()));
    assert_eq!(layers.text("table.port"), "3");
    assert_eq!(layers.origin("table.port").to_string(), "flag --table-port");
    assert_eq!(layers.text("server.admin_port"), "10003");
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    let error = resolve("[server]\ntabel_port = 1", &[]).unwrap_err().to_string();
    assert!(
        error.ends_with("unknown setting server.tabel_port; did you mean table.port?"),
        "{error}"
    );
    let error = resolve("", &[("TAVOLA_LIMITS__CONECTIONS", "1")]).unwrap_err().to_string();
    assert!(error.contains("did you mean TAVOLA_LIMITS__CONNECTIONS?"), "{error}");
    assert!(resolve("", &[("TAVOLA_CACHE", "x")]).is_ok());
}

#[test]
fn bad_values_name_the_setting_and_its_origin() {
    let error = resolve("", &[("TAVOLA_TABLE__PORT", "70000")]).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "table.port (variable TAVOLA_TABLE__PORT): \"70000\" does not fit: must be 0–65535"
        ),
        "{error}"
    );
    let error = resolve("[limits]\nconnections = 0", &[]).unwrap_err().to_string();
    assert!(error.contains("\"0\" does not fit: must be 1–1000000"), "{error}");
}

/// Somebody who wrote three things wrong should not have to start three times.
#[test]
fn everything_wrong_is_told_at_once_with_its_line() {
    let file = &"table.port = 70000\n[server]\nhots = \"x\"\nhost = \"no such host\"\n\n[log]\nlevel = \"verbose\"\n\
                access = \"maybe\"\n[accounts.shop]\n[accounts.books]\nkey1 = \"!\"\n[accounts.toys]\n\
                key1 = \"KEY\"\nread_only = 5\nallowed_ips = \"x\"\n[limits]\nqueries = -1\n"
        .replace("KEY", KEY);
    let mut toml = tempfile::NamedTempFile::new().unwrap();
    toml.write_all(file.as_bytes()).unwrap();
    let variable = ("TAVOLA_SERVER_TABLE_PORT".to_owned(), "1".to_owned());
    let layers = Layers::read(Schema::server_only(), Some(toml.path()), [variable]);
    let error = Config::resolve(&layers, Personality::Server).unwrap_err();
    let name = toml.path().display();
    for expected in [
        format!("table.port (file {name}, line 1): \"70000\" does not fit: must be 0–65535"),
        format!("file {name}, line 3: unknown setting server.hots; did you mean server.host?"),
        format!(
            "server.host (file {name}, line 4): \"no such host\" does not fit: must be an address"
        ),
        format!("log.level (file {name}, line 7): \"verbose\" is no level"),
        format!("log.access (file {name}, line 8): \"maybe\" does not fit: must be true or false"),
        format!("file {name}, line 9: [accounts.shop] is empty; it needs key1"),
        format!("accounts.books (file {name}, line 11): a key is not base64"),
        format!(
            "accounts.toys (file {name}, line 14): read_only: \"5\" does not fit: must be true or false"
        ),
        format!(
            "accounts.toys (file {name}, line 15): allowed_ips: \"x\" is not an address or a range"
        ),
        format!("limits.queries (file {name}, line 17): \"-1\" does not fit: must be 0–10000"),
        "variable TAVOLA_SERVER_TABLE_PORT: between the levels of a setting stand two underscores"
            .to_owned(),
    ] {
        assert!(
            error.problems().any(|problem| problem.starts_with(&expected)),
            "{expected} is not in\n{error}"
        );
    }
    assert_eq!(error.problems().count(), 11, "{error}");
    assert!(error.to_string().starts_with("11 problems in the configuration:\n  "), "{error}");
}

#[test]
fn an_issuer_that_is_wrong_costs_its_roles_no_second_error() {
    let file = "[auth.oidc.corp]\nissuer = \"not an address\"\n[auth.roles.r]\nissuer = \"corp\"\nvalue = \"v\"\n\
                role = \"reader\"\n[auth.roles.s]\nvalue = \"v\"\nrole = \"emperor\"\n";
    let error = resolve(file, &[]).unwrap_err();
    let problems: Vec<&str> = error.problems().collect();
    assert!(
        problems.len() == 2
            && problems[0].contains("issuer is not")
            && problems[1].contains("emperor"),
        "{error}"
    );
}

#[test]
fn names_of_hosts_are_addresses_too() {
    for (host, expected) in
        [("localhost", "127.0.0.1"), ("[::1]", "::1"), ("127.0.0.1", "127.0.0.1")]
    {
        let config =
            resolve(&format!("[server]\nhost = \"{host}\"\nadmin_host = \"{host}\""), &[]).unwrap();
        assert_eq!(
            [config.listeners[0].address.ip().to_string(), config.admin.ip().to_string()],
            [expected; 2]
        );
    }
    for wrong in ["", "127.0.0", "999.1.1.1", "no such host.invalid"] {
        assert!(resolve("", &[("TAVOLA_SERVER__HOST", wrong)]).is_err(), "{wrong}");
    }
}

/// Started by another program, in another folder, a server had no accounts and an empty store.
#[test]
fn relative_paths_are_meant_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tavola.toml");
    std::fs::write(
        &file,
        "[server]\naccounts_folder = \"accounts\"\n[audit]\nfile = \"data\"\n[log]\nfile = \"/absolute/log\"\n\
         [auth.oidc.corp]\nissuer = \"corp\"\njwks_file = \"keys.json\"\n",
    )
    .unwrap();
    let variable = ("TAVOLA_LOG__ACCESS_FILE".to_owned(), "access.log".to_owned());
    let layers = Layers::read(Schema::server_only(), Some(&file), [variable]);
    let beside = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (path, expected) in [
        ("server.accounts_folder", beside("accounts")),
        ("audit.file", beside("data")),
        ("log.file", "/absolute/log".to_owned()),
        ("log.access_file", "access.log".to_owned()),
    ] {
        assert_eq!(layers.text(path), expected, "{path}");
    }
    let keys = layers.written().find(|(path, _)| *path == "auth.oidc.corp.jwks_file").unwrap();
    assert_eq!(keys.1, beside("keys.json"));
    // This crate's own folder, where the tests run, has one.
    std::fs::write(&file, "[audit]\nfile = \"src\"\n").unwrap();
    let error =
        Layers::read(Schema::server_only(), Some(&file), []).checked().unwrap_err().to_string();
    assert!(error.contains("src in the working directory does: write an absolute path"), "{error}");
}

#[test]
fn accounts_of_a_server_are_named_as_azure_names_them() {
    let long = "a".repeat(25);
    for wrong in ["ab", "Shop", "my-shop", "my_shop", long.as_str()] {
        let error = resolve(&format!("[accounts.{wrong}]\nkey1 = \"c2VjcmV0\""), &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("3–24 lower-case letters and digits"), "{error}");
    }
    let layers = layers("[accounts.my-shop]\nkey1 = \"c2VjcmV0\"", &[]).unwrap();
    assert!(Config::resolve(&layers, Personality::Emulator).is_ok());
}

#[test]
fn unknown_variables_are_told() {
    let layers = layers(
        "",
        &[("TAVOLA_TABLEPORT", "1"), ("TAVOLA_SERVICE_HOST", "10.0.0.1"), ("HOME", "/")],
    )
    .unwrap();
    assert_eq!(layers.notes().len(), 1);
    assert!(
        layers.notes()[0].starts_with("variable TAVOLA_TABLEPORT is no setting"),
        "{:?}",
        layers.notes()
    );
}

#[test]
fn beyond_loopback_accounts_are_needed() {
    let error = resolve("[server]\nhost = \"0.0.0.0\"", &[]).unwrap_err().to_string();
    assert!(error.starts_with("refusing to listen on 0.0.0.0 without accounts"), "{error}");
    assert!(
        resolve(&format!("[server]\nhost = \"0.0.0.0\"\n[accounts.shop]\nkey1 = \"{KEY}\""), &[])
            .is_ok()
    );
    let proxies = ("TAVOLA_SERVER__TRUSTED_PROXIES", "127.0.0.1");
    let error = resolve("", &[proxies]).unwrap_err().to_string();
    assert!(
        error.contains("trusted_proxies") && error.contains("tavola-accounts does not exist"),
        "{error}"
    );
    for exposed in [
        proxies,
        ("TAVOLA_SERVER__HOST", "0.0.0.0"),
        ("TAVOLA_SERVER__ACCOUNTS_FOLDER", "/nowhere"),
    ] {
        assert!(resolve("", &[exposed]).is_err(), "{exposed:?}");
        assert!(
            resolve("", &[exposed, ("TAVOLA_SERVER__DEVELOPMENT_ACCOUNT", "true")]).is_ok(),
            "{exposed:?}"
        );
    }
    let layers = layers("[server]\nhost = \"0.0.0.0\"", &[]).unwrap();
    assert!(Config::resolve(&layers, Personality::Emulator).is_ok());
}

#[test]
fn accounts_come_from_every_layer() {
    let config =
        resolve("", &[("AZURITE_ACCOUNTS", &format!("one:{KEY};two:{KEY}:{KEY};"))]).unwrap();
    assert!(config.accounts.contains("one") && config.accounts.contains("two"));
    assert!(!config.accounts.contains("devstoreaccount1"));
    let mut key = tempfile::NamedTempFile::new().unwrap();
    key.write_all(format!("{KEY}\n").as_bytes()).unwrap();
    let path = key.path().to_str().unwrap();
    let config = resolve("", &[("TAVOLA_ACCOUNTS__SHOP__KEY1_FILE", path)]).unwrap();
    assert!(config.accounts.contains("shop"));
    for bad in ["one", "one:", "one:!!!", "one:a:b:c", "-:c2VjcmV0"] {
        let error = resolve("", &[("AZURITE_ACCOUNTS", bad)]).unwrap_err().to_string();
        assert!(!error.contains("!!!"), "{error}");
    }
}

#[test]
fn short_keys_are_for_emulators() {
    // 31 and 32 bytes.
    let (short, long) = (
        "c2hvcnQgYnkgb25lIGJ5dGUuLi4uLi4uLi4uLi4uLg==",
        "anVzdCBsb25nIGVub3VnaC4uLi4uLi4uLi4uLi4uLi4=",
    );
    for (first, second, wrong) in [
        (long, long, ""),
        (short, long, "key1"),
        (long, short, "key2"),
        ("c2VjcmV0", "", "key1"),
        (long, "", ""),
    ] {
        let file = format!("[accounts.shop]\nkey1 = \"{first}\"\nkey2 = \"{second}\"");
        let layers = layers(&file, &[]).unwrap();
        match Config::resolve(&layers, Personality::Server) {
            Ok(config) => {
                assert!(wrong.is_empty() && config.warnings().is_empty(), "{first} {second}")
            }
            Err(error) => {
                let error = error.to_string();
                let teaches = error.contains(wrong)
                    && error.contains("openssl rand")
                    && error.contains("account add");
                assert!(!wrong.is_empty() && teaches && !error.contains(first), "{error}");
            }
        }
        let emulator = Config::resolve(&layers, Personality::Emulator).unwrap();
        assert_eq!(emulator.warnings().len(), usize::from(!wrong.is_empty()), "{first} {second}");
    }
}

#[test]
fn what_is_not_safe_is_said() {
    let says = |settings: &[(&str, &str)]| {
        let shop = ("TAVOLA_ACCOUNTS__SHOP__KEY1", KEY);
        let config = resolve("", &[settings, &[shop]].concat()).unwrap();
        config
            .warnings()
            .into_iter()
            .map(|warning| format!("{} {}", warning.subject, warning.says))
            .collect::<Vec<_>>()
    };
    let everywhere = ("TAVOLA_SERVER__HOST", "0.0.0.0");
    let https = ("TAVOLA_TLS__CERT", "cert.pem");
    let public = ("TAVOLA_SERVER__DEVELOPMENT_ACCOUNT", "true");
    let proxy = ("TAVOLA_SERVER__TRUSTED_PROXIES", "10.0.0.1");
    assert_eq!(says(&[]), [""; 0]);
    assert_eq!(says(&[public]), [""; 0]);
    assert_eq!(says(&[everywhere, https]), [""; 0]);
    assert!(says(&[everywhere])[0].starts_with("connections not encrypted on 0.0.0.0:10002"));
    assert!(
        says(&[everywhere, https, public])[0]
            .contains("devstoreaccount1 has the development account's key")
    );
    assert!(says(&[proxy, public])[0].contains("public"));
    assert!(
        says(&[proxy, ("TAVOLA_ACCOUNTS__OTHER__KEY1", DEVELOPMENT_KEY)])[0].contains("other has")
    );
    let mut key = tempfile::NamedTempFile::new().unwrap();
    key.write_all(KEY.as_bytes()).unwrap();
    let path = key.path().to_str().unwrap().to_owned();
    let file = ("TAVOLA_ACCOUNTS__MORE__KEY1_FILE", path.as_str());
    assert_eq!(says(&[file]), [""; 0], "mode 0600");
    std::fs::set_permissions(key.path(), std::os::unix::fs::PermissionsExt::from_mode(0o640))
        .unwrap();
    assert_eq!(
        says(&[file]),
        [format!("keys {path} contains keys, and other users can read it (mode 640)")]
    );
}

#[test]
fn targets_are_for_accounts_without_budgets_of_their_own() {
    let accounts = format!(
        "[accounts.usual]\nkey1 = \"{KEY}\"\n[accounts.own]\nkey1 = \"{KEY}\"\nrequests_per_second = 5\n\
         partition_entities_per_second = 0\n"
    );
    let check = |targets: &str, usual: [u64; 2], own: [u64; 2]| {
        let config = resolve(&format!("{targets}\n{accounts}"), &[]).unwrap();
        for (name, expected) in [("usual", usual), ("own", own)] {
            let rates = config.accounts.get(&AccountName::parse(name).unwrap()).unwrap().rates;
            let found = [rates.requests, rates.partition_entities];
            assert_eq!(found, expected.map(Rate::per_second), "{name} with {targets}");
            assert_eq!([rates.ingress_bytes, rates.egress_bytes], [Rate::UNBOUNDED; 2]);
        }
    };
    check("", [0, 0], [5, 0]);
    check("[targets]\npreset = \"azure\"", [20_000, 2_000], [5, 0]);
    check("[targets]\npreset = \"azure\"\naccount_requests_per_second = 0", [0, 2_000], [5, 0]);
    check("[targets]\npartition_entities_per_second = 7", [0, 7], [5, 0]);
    let config = resolve("", &[("TAVOLA_TARGETS__PRESET", "azure")]).unwrap();
    let development =
        config.accounts.get(&AccountName::parse("devstoreaccount1").unwrap()).unwrap();
    assert_eq!(development.rates.partition_entities, Rate::per_second(2_000));
    for (bad, words) in [
        ("preset = \"aws\"", "\"aws\" is not none or azure"),
        ("partition_entities_per_second = -1", "-1"),
    ] {
        let error = resolve(&format!("[targets]\n{bad}"), &[]).unwrap_err().to_string();
        assert!(error.starts_with("targets.") && error.contains(words), "{error}");
    }
}

#[test]
fn secrets_are_masked() {
    let layers = layers("", &[("TAVOLA_ACCOUNTS__SHOP__KEY1", KEY)]).unwrap();
    let shown: Vec<String> =
        layers.shown().map(|shown| format!("{} {}", shown.line(), shown.origin)).collect();
    let line = "# accounts.shop.key1 = \"***\" variable TAVOLA_ACCOUNTS__SHOP__KEY1".to_owned();
    assert!(shown.contains(&line), "{shown:?}");
    assert!(!shown.concat().contains(KEY));
    let config = Config::resolve(&layers, Personality::Server).unwrap();
    assert!(!format!("{config:?}").contains(KEY));
}

#[test]
fn tls_needs_a_certificate_and_hides_its_password() {
    assert!(resolve("", &[]).unwrap().tls.is_none());
    let tls = resolve("[tls]\ncert = \"c.pem\"\nkey = \"k.pem\"", &[]).unwrap().tls.unwrap();
    assert_eq!(
        (tls.cert.file_name(), tls.key_file().file_name()),
        (Some("c.pem".as_ref()), Some("k.pem".as_ref()))
    );
    let mut password = tempfile::NamedTempFile::new().unwrap();
    password.write_all(b"topsecret\n").unwrap();
    let variable = ("TAVOLA_TLS__PASSWORD_FILE", password.path().to_str().unwrap());
    let layers = layers("[tls]\ncert = \"c.pfx\"", &[variable]).unwrap();
    let config = Config::resolve(&layers, Personality::Server).unwrap();
    let tls = config.tls.as_ref().unwrap();
    assert_eq!(
        (tls.key_file().file_name(), tls.password.as_str()),
        (Some("c.pfx".as_ref()), "topsecret")
    );
    assert!(!format!("{config:?}{:?}", layers.shown().collect::<Vec<_>>()).contains("topsecret"));
    for (setting, words) in
        [("key", "a key without a certificate"), ("password", "a password without a PFX file")]
    {
        let error =
            resolve(&format!("[tls]\n{setting} = \"topsecret\""), &[]).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains("topsecret"), "{error}");
    }
}

#[test]
fn proxies_are_addresses_or_ranges() {
    let proxies = "trusted_proxies = [\"10.0.0.0/8\", \"::1\", \"::ffff:1.2.3.4\"]";
    let config =
        resolve(&format!("[server]\n{proxies}\n[accounts.shop]\nkey1 = \"{KEY}\""), &[]).unwrap();
    let proxies: Vec<String> = config.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "::1/128", "1.2.3.4/32"]);
    assert_eq!(resolve("", &[]).unwrap().trusted_proxies, []);
    let error = resolve("", &[("TAVOLA_SERVER__TRUSTED_PROXIES", "10.0.0.1,proxy.test")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"proxy.test\" is not an address or a range"), "{error}");
}
