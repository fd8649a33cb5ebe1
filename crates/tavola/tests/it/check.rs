//! `tavola check` on folders that a server wrote.

use std::fs;
use std::path::Path;

use crate::common::RunningServer;
use crate::common::cli::{examples, in_folder, in_shell, run};
use crate::common::client::{Client, insert, name};
use tavola_core::TableRequest;

/// Two tables with rows, one of them dropped again.
fn write_tables(folder: &Path) {
    let server = RunningServer::start(folder);
    let mut client = Client::connect(&server.table).unwrap();
    for table in ["people", "gone"] {
        client.create_table(table);
        for row in 0..10 {
            let (partition_key, operation) = insert(&format!("p/{row}"), row);
            client
                .ask(&TableRequest::Write(name(table), partition_key, operation))
                .unwrap()
                .unwrap();
        }
    }
    client.ask(&TableRequest::DeleteTable(name("gone"))).unwrap().unwrap();
    assert!(server.terminate().success());
}

#[test]
fn a_sound_folder() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(&folder.path().join("tavola-data"));
    let done = run(in_folder(folder.path()).arg("check"));
    assert_eq!(done.code, Some(0), "{done:?}");
    let text = done.stdout.trim_end();
    assert!(
        text.contains("tables: 1 living, 1 dropped") && text.ends_with("no damage found"),
        "{text}"
    );
    assert!(
        done.stderr.contains("reading files:"),
        "progress goes to standard error: {}",
        done.stderr
    );
    let json = run(in_folder(folder.path()).args(["check", "tavola-data", "-o", "json"])).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["ok"], &json["tables"], &json["findings"]),
        (&true.into(), &1.into(), &serde_json::json!([]))
    );
    assert!(json["rows"].as_u64().unwrap() >= 10 && json["blocks"].as_u64().unwrap() > 3, "{json}");
}

#[test]
fn damage_is_named_with_a_way_on() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data with a space");
    write_tables(&data);
    let files = fs::read_dir(data.join("store")).unwrap().map(|entry| entry.unwrap().path());
    let file = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .max()
        .unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[20] ^= 1;
    fs::write(&file, bytes).unwrap();
    let done = run(in_folder(folder.path()).arg("check").arg(&data));
    assert_eq!(done.code, Some(3), "{done:?}");
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    assert!(
        done.stdout.contains(&format!("damage  store/{name} at byte 0: a block of rows")),
        "{}",
        done.stdout
    );
    assert!(
        done.stderr.contains("Restore the folder from a backup")
            && done.stderr.contains("--dry-run"),
        "{}",
        done.stderr
    );
    let json = run(in_folder(folder.path()).args(["check", "-o", "json"]).arg(&data));
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let finding = &json["findings"][0];
    assert_eq!(
        (&json["ok"], &finding["level"], &finding["offset"]),
        (&false.into(), &"damage".into(), &0.into())
    );
    assert!(finding["advice"].as_str().unwrap().contains("tavola repair"), "{json}");
}

#[test]
fn a_folder_in_use_and_none_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let none = run(in_folder(folder.path()).args(["check", "nowhere"]));
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(none.stderr.contains("there is no data folder at nowhere"), "{}", none.stderr);
    assert!(!folder.path().join("nowhere").exists());
    let server = RunningServer::start(&folder.path().join("tavola-data"));
    let used = run(in_folder(folder.path()).arg("check"));
    assert_eq!(used.code, Some(3), "{used:?}");
    assert!(used.stderr.contains("in use by another process"), "{}", used.stderr);
    drop(server);
}

#[test]
fn the_examples_of_the_help_work() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(&folder.path().join("tavola-data"));
    for line in examples(&["check"]) {
        let line = line.replace("/var/lib/tavola", "tavola-data");
        let done = in_shell(folder.path(), &line, |shell| shell);
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
    }
}
