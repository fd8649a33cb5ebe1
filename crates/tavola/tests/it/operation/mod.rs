//! Running a server as operators do: configuration files with mistakes in them, other working
//! directories, rotated logs, signals; and as users of Azurite do, under its name.

mod azurite;
mod configuration;
mod logs;
mod reload;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::client::{Client, name};
use crate::common::{RunningServer, tavola};
use tavola_core::TableRequest;
use tavola_protocol::table::decode::DecodeError;

/// `tavola` in a folder where nobody else's configuration is found.
fn in_folder(folder: &Path) -> Command {
    crate::common::cli::in_folder(folder)
}

/// `tavola serve` with this file, free ports, and a store in memory unless the file says otherwise.
fn serve(folder: &Path, file: &Path) -> Command {
    let mut command = in_folder(folder);
    command.args(["serve", "--table-port", "0", "--admin-port", "0", "--config"]).arg(file);
    command
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// "ok", or the code of the refusal.
fn create(server: &RunningServer, account: &str, key: &str, table: &str) -> String {
    let mut client = Client::connect_as(&server.table, account, key).unwrap();
    match client.ask(&TableRequest::CreateTable(name(table))).unwrap() {
        Ok(_) => "ok".to_owned(),
        Err(DecodeError::Service(error)) => error.code,
        Err(other) => panic!("{other}"),
    }
}

/// A new account of a folder, and its first key.
fn add_account(folder: &Path, account: &str) -> String {
    let mut command = tavola();
    let output = command
        .args(["account", "add", account, "--accounts-folder"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
