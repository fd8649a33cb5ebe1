use std::io::Write as _;

use tavola_server::config::{Layers, Personality};
use tavola_server::{Config, ConfigError};

use super::{SCHEMA, StoreConfig};

fn layers(file: &str, environment: &[(&str, &str)]) -> Result<Layers, ConfigError> {
    let mut toml = tempfile::NamedTempFile::new().unwrap();
    toml.write_all(file.as_bytes()).unwrap();
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Layers::read(&SCHEMA, Some(toml.path()), environment).checked()
}

fn resolve(file: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::resolve(&layers(file, environment)?, Personality::Server)
}

/// The store of a server with that file.
fn store_of(file: &str) -> Result<StoreConfig, ConfigError> {
    StoreConfig::read(&resolve(file, &[])?.layers)
}

#[test]
fn the_committed_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(
        committed == SCHEMA.reference(),
        "docs/configuration.md is stale; renew it with \
         `cargo run -p tavola -- config reference > docs/configuration.md`"
    );
}

/// A path that two crates declare would have two defaults.
#[test]
fn every_setting_is_declared_once() {
    let mut names: Vec<&str> = SCHEMA
        .settings()
        .flat_map(|setting| [Some(setting.path), setting.flag])
        .chain(SCHEMA.old_names().iter().flat_map(|old| [Some(old.path), old.flag]))
        .flatten()
        .collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for old in SCHEMA.old_names() {
        assert!(SCHEMA.find(old.now).is_some(), "{}", old.now);
    }
}

#[test]
fn the_template_of_all_settings_is_a_configuration() {
    resolve(&SCHEMA.template(), &[]).unwrap();
}

#[test]
fn wrong_values_of_stores_are_told_with_others() {
    let error = resolve("[store]\nkind = \"papyrus\"", &[]).unwrap_err().to_string();
    assert!(error.starts_with("store.kind (file ") && error.contains("papyrus"), "{error}");
    let file = "[table]\nport = 70000\n[store]\ncache_mb = 1\ncompression = \"rar\"";
    let error = resolve(file, &[]).unwrap_err();
    let problems: Vec<&str> = error.problems().collect();
    assert_eq!(problems.len(), 3, "{error}");
    assert!(problems[0].starts_with("table.port ("), "{error}");
    assert!(problems[1].ends_with("\"1\" does not fit: must be 8–1048576"), "{error}");
    assert!(problems[2].ends_with("\"rar\" is not lz4 or zstd"), "{error}");
    let cluster = "[store]\nkind = \"cassandra\"\nreads = \"slow\"";
    let error = resolve(cluster, &[]).unwrap_err().to_string();
    assert!(error.ends_with("\"slow\" is not strict or fast"), "{error}");
}

#[test]
fn a_password_comes_from_a_file_too() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"topsecret\nmore").unwrap();
    let path = file.path().display();
    let store = |more: &str| {
        store_of(&format!("[store]\nkind = \"cassandra\"\npassword_file = \"{path}\"\n{more}"))
    };
    let StoreConfig::Cassandra(cluster) = store("user = \"me\"").unwrap() else { panic!() };
    let (user, password) = cluster.store.options.credentials.clone().unwrap();
    assert_eq!((user.as_str(), password.as_str()), ("me", "topsecret"));
    assert!(!format!("{cluster:?}").contains("topsecret"));
    let error = store("").unwrap_err().to_string();
    assert!(error.contains("a password without a user"), "{error}");
    let error = store("user = \"me\"\npassword = \"x\"").unwrap_err().to_string();
    assert!(error.contains("store.password is set too"), "{error}");
}

#[test]
fn the_old_name_of_a_setting_works_and_is_noted() {
    let cluster = "[store]\nkind = \"cassandra\"\ncontact_points = [\"a\"]\n";
    let in_file = layers(&format!("{cluster}neighbours = \"127.0.0.1:1\""), &[]).unwrap();
    assert_eq!(in_file.text("store.peers"), "127.0.0.1:1");
    let [note] = in_file.notes() else { panic!("{:?}", in_file.notes()) };
    assert!(
        note.starts_with("store.neighbours (file ") && note.contains("old name of store.peers"),
        "{note}"
    );
    let variable = layers(cluster, &[("TAVOLA_STORE__NEIGHBOURS", "127.0.0.1:2")]).unwrap();
    assert_eq!(variable.text("store.peers"), "127.0.0.1:2");
    let both = layers(
        &format!("{cluster}peers = \"127.0.0.1:3\""),
        &[("TAVOLA_STORE__NEIGHBOURS", "127.0.0.1:4")],
    );
    assert_eq!(
        both.unwrap().text("store.peers"),
        "127.0.0.1:4",
        "a variable is stronger than the file, by any name"
    );
    let config = Config::resolve(&variable, Personality::Server).unwrap();
    assert_eq!(config.notes.len(), 1);
    assert!(resolve(cluster, &[]).unwrap().notes.is_empty());
}

/// What nodes write for each other could be read and forged by whoever is on the way.
#[test]
fn beyond_loopback_peers_need_keys() {
    let store = |more: &str| {
        let file = format!(
            "[store]\nkind = \"cassandra\"\ncontact_points = [\"a\"]\npeers = \"10.0.1.7:10010\"\n{more}"
        );
        store_of(&file)
    };
    let refused = store("").unwrap_err().to_string();
    assert!(refused.starts_with("store.peers (file "), "{refused}");
    assert!(refused.contains("`tavola store peer-keys init 10.0.1.7:10010"), "{refused}");
    let StoreConfig::Cassandra(with_keys) = store("peer_keys = \"keys\"").unwrap() else {
        panic!("a cluster")
    };
    let keys = with_keys.peers.keys.as_deref().and_then(std::path::Path::file_name);
    assert_eq!(keys, Some("keys".as_ref()));
    let accepted = "accept_risks = [\"replication\", \"plain-peers\"]";
    let StoreConfig::Cassandra(accepted) = store(accepted).unwrap() else { panic!("a cluster") };
    assert!(accepted.accept_plain_peers && !with_keys.accept_plain_peers);
    assert_eq!(accepted.accepted_risks, ["replication"], "what the cluster itself is asked about");
}

#[test]
fn peers_are_told_an_address_that_they_can_reach() {
    let peers = |address: &str| {
        let cluster = "[store]\nkind = \"cassandra\"\ncontact_points = \"127.0.0.1\"";
        match store_of(&format!("{cluster}\npeers = \"{address}\""))? {
            StoreConfig::Cassandra(cluster) => Ok::<_, ConfigError>(cluster.peers.address),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(peers("").unwrap(), None);
    assert_eq!(peers("127.0.0.1:10010").unwrap(), Some(([127, 0, 0, 1], 10010).into()));
    let words = |address| peers(address).unwrap_err().to_string();
    assert!(words("0.0.0.0:10010").contains("name the one at which they reach this machine"));
    assert!(words("[::]:10010").starts_with("store.peers ("));
    assert!(words("somewhere").starts_with("store.peers ("));
}
