//! SIGHUP: everything that can be taken is taken, what cannot is named, and one mistake leaves
//! everything as it was.

use std::path::Path;

use super::{add_account, create, read, serve, wait_until};
use crate::common::RunningServer;

/// A server with two accounts of a folder, a certificate, and a log.
struct Running {
    folder: tempfile::TempDir,
    server: RunningServer,
    key: String,
}

impl Running {
    fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = add_account(&folder.path().join("accounts"), "shop");
        write(folder.path(), more);
        let server =
            RunningServer::spawn(&mut serve(folder.path(), &folder.path().join("tavola.toml")));
        Self { folder, server, key }
    }

    fn log(&self) -> String {
        read(&self.folder.path().join("tavola.log"))
    }

    /// SIGHUP, and what the log says from then on.
    fn reload(&self) -> String {
        let before = self.log().len();
        self.server.signal("-HUP");
        let outcome = || self.log()[before..].to_owned();
        wait_until("the reload is told", || {
            outcome().contains("configuration reloaded")
                || outcome().contains("configuration rejected")
        });
        outcome()
    }
}

fn write(folder: &Path, more: &str) {
    let text = format!(
        "[server]\naccounts_folder = \"accounts\"\n[store]\nkind = \"memory\"\n[log]\nfile = \"tavola.log\"\naccess = false\n{more}"
    );
    std::fs::write(folder.join("tavola.toml"), text).unwrap();
}

#[test]
fn what_needs_a_restart_is_named() {
    let running = Running::start("");
    write(
        running.folder.path(),
        "level = \"debug\"\n[limits]\nqueries = 3\nconnections = 5000\n[targets]\npreset = \"azure\"\n",
    );
    let outcome = running.reload();
    wait_until("it is told", || running.log().contains("apply after a restart only"));
    assert!(running.log().contains("\"limits.connections, limits.queries\""), "{}", running.log());
    assert!(!outcome.contains("log.level,") && !outcome.contains("targets.preset"), "{outcome}");
    // The level was taken: requests are told from now on.
    assert_eq!(create(&running.server, "shop", &running.key, "table"), "ok");
    wait_until("the request is logged", || running.log().contains("CreateTable"));
    write(running.folder.path(), "level = \"debug\"\n");
    let before = running.log().len();
    running.reload();
    assert!(
        !running.log()[before..].contains("after a restart only"),
        "as at the start, nothing waits"
    );
}

/// Accounts were taken although the rest was refused, or the level although the accounts were.
#[test]
fn one_mistake_leaves_everything_as_it_was() {
    let running = Running::start("");
    let accounts = running.folder.path().join("accounts");
    let other = add_account(&accounts, "other");
    let mistakes = [
        "level = \"debug\"\n[limits]\nqueries = -1\n",
        "level = \"debug\"\n[auth.oidc.corp]\nissuer = \"corp\"\njwks_file = \"missing.json\"\n",
        "level = \"debug\"\n[accounts.shop]\nkey1 = \"c2VjcmV0\"\n",
    ];
    for mistake in mistakes {
        write(running.folder.path(), mistake);
        let outcome = running.reload();
        assert!(
            outcome.contains("configuration rejected; the previous one stays in effect"),
            "{outcome}"
        );
        assert_eq!(
            create(&running.server, "other", &other, "table"),
            "ResourceNotFound",
            "{mistake}"
        );
        assert_eq!(create(&running.server, "shop", &running.key, "Tables1"), "ok");
        let mut client =
            crate::common::client::Client::connect_as(&running.server.table, "shop", &running.key)
                .unwrap();
        client
            .ask(&tavola_core::TableRequest::DeleteTable(crate::common::client::name("Tables1")))
            .unwrap()
            .unwrap();
        assert!(!running.log().contains("DeleteTable"), "the level was taken: {}", running.log());
    }
    write(running.folder.path(), "");
    assert!(running.reload().contains("configuration reloaded"));
    assert_eq!(create(&running.server, "other", &other, "table"), "ok");
}

/// A certificate that cannot be used keeps the accounts from changing too.
#[test]
fn a_broken_certificate_keeps_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let made = super::in_folder(folder.path()).args(["cert", "--out", "."]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let (cert, key) = (folder.path().join("tavola-cert.pem"), folder.path().join("tavola-key.pem"));
    let tls = format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\n", cert.display(), key.display());
    let running = Running::start(&tls);
    let good = std::fs::read_to_string(&cert).unwrap();
    std::fs::write(&cert, "nonsense").unwrap();
    add_account(&running.folder.path().join("accounts"), "other");
    let outcome = running.reload();
    assert!(
        outcome.contains("configuration rejected") && outcome.contains("tavola-cert.pem"),
        "{outcome}"
    );
    std::fs::write(&cert, good).unwrap();
    let outcome = running.reload();
    assert!(
        outcome.contains("configuration reloaded") && outcome.contains("\"accounts\":2"),
        "{outcome}"
    );
}
