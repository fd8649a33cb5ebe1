//! Mistakes that were silent: each is told now, all at once, before anything is served.

use std::os::unix::fs::PermissionsExt as _;

use super::{add_account, create, in_folder, serve};
use crate::common::RunningServer;
use crate::common::cli::run;

/// A misspelt level was the name of a module that nobody has, and the server logged nothing, not
/// even errors.
#[test]
fn an_unknown_level_is_refused_by_check_and_by_serve() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tavola.toml");
    std::fs::write(&file, "[store]\nkind = \"memory\"\n[log]\nlevel = \"verbose\"\n").unwrap();
    for mut command in [in_folder(folder.path()), serve(folder.path(), &file)] {
        if command.get_args().next().is_none() {
            command.args(["config", "check"]);
        }
        let done = run(&mut command);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{done:?}");
        assert!(
            done.stderr.contains("line 4): \"verbose\" is no level: must be one of off, error"),
            "{}",
            done.stderr
        );
    }
    std::fs::write(&file, "[log]\nlevel = \"info,tavola_server=debug\"\n").unwrap();
    assert_eq!(run(in_folder(folder.path()).args(["config", "check"])).code, Some(0));
}

/// Who has a file of an older release is told the new name, and served.
#[test]
fn former_names_still_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tavola.toml");
    let note = "is the old name of table.port; use the new one";
    let check = |variable: Option<&str>| {
        let mut command = in_folder(folder.path());
        command.args(["config", "check"]);
        run(command.envs(variable.map(|port| ("TAVOLA_SERVER__TABLE_PORT", port))))
    };
    std::fs::write(&file, "[server]\ntable_port = 4711\n").unwrap();
    let done = check(None);
    let noted = format!("note: server.table_port (file tavola.toml, line 2) {note}\n");
    assert!(done.code == Some(0) && done.stdout.starts_with(&noted), "{done:?}");
    assert!(done.stdout.ends_with("tables at 127.0.0.1:4711\n"), "{done:?}");
    std::fs::remove_file(&file).unwrap();
    let done = check(Some("4712"));
    let noted = format!("note: server.table_port (variable TAVOLA_SERVER__TABLE_PORT) {note}\n");
    assert!(done.code == Some(0) && done.stdout.starts_with(&noted), "{done:?}");
    assert!(done.stdout.ends_with("tables at 127.0.0.1:4712\n"), "{done:?}");
}

#[test]
fn every_mistake_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = "server.host = \"localhost\"\ntable.port = 70000\n\n[accounts.shop]\n[limits]\nqueries = \"many\"\n";
    std::fs::write(folder.path().join("tavola.toml"), file).unwrap();
    let mut command = in_folder(folder.path());
    command
        .args(["config", "check"])
        .env("TAVOLA_SERVER_ADMIN_PORT", "1")
        .env("TAVOLA_NONSENSE", "1");
    let done = run(&mut command);
    assert_eq!(done.code, Some(2), "{done:?}");
    for words in [
        "tavola: 4 problems in the configuration:\n",
        "table.port (file tavola.toml, line 2): \"70000\" does not fit: must be 0–65535\n",
        "file tavola.toml, line 4: [accounts.shop] is empty; it needs key1\n",
        "limits.queries (file tavola.toml, line 6): \"many\" does not fit: must be 0–10000\n",
        "did you mean TAVOLA_SERVER__ADMIN_PORT?\n",
    ] {
        assert!(done.stderr.contains(words), "{words} is not in\n{}", done.stderr);
    }
    // An unknown variable may be somebody else's, so it is told and does not keep anybody from
    // starting.
    std::fs::write(folder.path().join("tavola.toml"), "[server]\nhost = \"localhost\"\n").unwrap();
    let done = run(in_folder(folder.path()).args(["config", "check"]).env("TAVOLA_NONSENSE", "1"));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("variable TAVOLA_NONSENSE is no setting"), "{done:?}");
    assert!(done.stdout.contains("tables at 127.0.0.1:10002"), "{done:?}");
}

/// systemd starts programs in `/`: accounts vanished, and an empty store was served.
#[test]
fn a_server_started_elsewhere_has_the_same_accounts_and_data() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("tavola.toml");
    std::fs::write(
        &file,
        "[server]\naccounts_folder = \"accounts\"\n[store]\nlocation = \"data\"\n",
    )
    .unwrap();
    let key = add_account(&home.path().join("accounts"), "shop");
    let elsewhere = tempfile::tempdir().unwrap();
    let start = |folder| RunningServer::spawn(serve(folder, &file).arg("--silent"));
    let server = start(home.path());
    assert_eq!(create(&server, "shop", &key, "table"), "ok");
    assert!(server.terminate().success());
    let server = start(elsewhere.path());
    assert_eq!(create(&server, "shop", &key, "table"), "TableAlreadyExists");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "nothing was made there");
    assert!(home.path().join("data/TAVOLA").is_file());
}

#[test]
fn what_show_prints_passes_check() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tavola.toml"),
        "[server]\nhost = \"0.0.0.0\"\naccounts_folder = \"mine\"\n",
    )
    .unwrap();
    add_account(&folder.path().join("mine"), "shop");
    for arguments in [&["config", "show", "--origin"][..], &["config", "show"]] {
        let shown = run(in_folder(folder.path()).args(arguments)).text();
        assert!(shown.contains("# accounts.shop.key1 = \"***\""), "{shown}");
        let other = tempfile::tempdir().unwrap();
        let file = other.path().join("shown.toml");
        std::fs::write(&file, &shown).unwrap();
        let done = run(in_folder(other.path()).args(["config", "check", "--config"]).arg(&file));
        assert_eq!(
            done.text(),
            "the configuration is valid: 1 account(s), tables at 0.0.0.0:10002"
        );
    }
}

#[test]
fn what_show_prints_without_accounts_passes_check() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(in_folder(folder.path()).args(["config", "show"])).text();
    std::fs::write(folder.path().join("shown.toml"), shown).unwrap();
    let done = run(in_folder(folder.path()).args(["config", "check", "--config", "shown.toml"]));
    assert!(done.text().starts_with("the configuration is valid"));
}

#[test]
fn a_first_file_is_written_with_every_setting() {
    let folder = tempfile::tempdir().unwrap();
    let done = run(in_folder(folder.path()).args(["config", "init"])).text();
    assert!(done.starts_with("tavola.toml has every setting as a comment"), "{done}");
    let file = folder.path().join("tavola.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for line in
        ["[server]", "#port = 10002", "#accounts_folder = \"tavola-accounts\"", "#[accounts.NAME]"]
    {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let checked = run(in_folder(folder.path()).args(["config", "check"]));
    assert!(checked.text().starts_with("the configuration is valid"));
    let again = run(in_folder(folder.path()).args(["config", "init"]));
    assert_eq!(again.code, Some(2), "{again:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn accounts_are_named_as_in_azure_and_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let account = |arguments: &[&str]| run(in_folder(folder.path()).arg("account").args(arguments));
    for wrong in ["ab", "Shop", "my-shop", "abcdefghijklmnopqrstuvwxy"] {
        let done = account(&["add", wrong]);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.stderr.contains("3–24 lower-case letters and digits"), "{done:?}");
    }
    assert_eq!(account(&["add", "shop"]).code, Some(0));
    // Made by hand, it would keep a server from starting; it can be taken away all the same.
    std::fs::write(folder.path().join("tavola-accounts/my-shop.toml"), "key1 = \"c2VjcmV0\"\n")
        .unwrap();
    assert_eq!(run(in_folder(folder.path()).args(["config", "check"])).code, Some(2));
    assert_eq!(account(&["remove", "my-shop"]).code, Some(0));
    assert_eq!(run(in_folder(folder.path()).args(["config", "check"])).code, Some(0));
    let done = account(&["remove", "shop"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!folder.path().join("tavola-accounts/shop.toml").exists());
    let done = account(&["remove", "shop"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("only accounts of this folder can be removed"), "{done:?}");
}
