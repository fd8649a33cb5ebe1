//! Commands as people type them, in a folder of their own, and requests with what they print.

use std::path::Path;
use std::process::{Command, Output};

use bytes::Bytes;
use http::{Request, Uri};
use tavola_core::request::Select;
use tavola_core::{EntityKey, EntityOperation, NewEntity, Precondition, Properties, TableRequest};
use tavola_protocol::table::ResponseFormat;
use tavola_protocol::table::decode::{DecodeError, decode_reply};
use tavola_protocol::table::encode::{Style, encode_request};
use tavola_protocol::table::entity_json::MetadataLevel;

use super::client::{Client, entity_key, name};
use super::{KEY, tavola};

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// Standard output of a command that must succeed, without the last line break.
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout.trim_end().to_owned()
    }
}

/// `tavola` in `folder`, where nobody else's configuration is found.
pub(crate) fn in_folder(folder: &Path) -> Command {
    let mut command = tavola();
    isolate(&mut command, folder);
    command
}

fn isolate(command: &mut Command, folder: &Path) {
    command
        .current_dir(folder)
        .env("HOME", folder)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("NO_COLOR");
    command.env_remove("AZURE_STORAGE_CONNECTION_STRING");
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Done {
    let Output { status, stdout, stderr } = command.output().expect("the binary can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("commands print UTF-8");
    Done { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// The examples of a command's help: lines that begin with two spaces and `tavola`.
pub(crate) fn examples(command: &[&str]) -> Vec<String> {
    let help = run(tavola().args(command).arg("--help")).text();
    let found: Vec<String> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  tavola "))
        .map(|rest| format!("tavola {rest}"))
        .collect();
    let first = help.lines().nth(2).unwrap_or_default();
    assert_eq!(
        (found.len(), first),
        (3, "Examples:"),
        "help begins with a sentence and three examples:\n{help}"
    );
    found
}

/// Runs a line of a help text in a shell, in which `tavola` is our binary.
pub(crate) fn in_shell(
    folder: &Path,
    line: &str,
    with: impl FnOnce(&mut Command) -> &mut Command,
) -> Done {
    let binary =
        Path::new(env!("CARGO_BIN_EXE_tavola")).parent().expect("the binary lies in a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    for (name, _) in tavola().get_envs() {
        shell.env_remove(name);
    }
    isolate(&mut shell, folder);
    run(with(shell.args(["-c", line]).env("PATH", path)))
}

/// What an operation of the command line is on the wire.
pub(crate) fn request(operation: &str, table: &str, key: &str) -> TableRequest {
    let EntityKey { partition_key, row_key } = entity_key(key);
    let properties = Properties::new(Vec::new()).expect("no properties are legal");
    let (_, new) = NewEntity::new(entity_key(key), properties).expect("a small entity");
    let write = |operation| TableRequest::Write(name(table), partition_key.clone(), operation);
    match operation {
        "get" => TableRequest::GetEntity(name(table), entity_key(key)),
        "query" => TableRequest::QueryEntities(name(table), Default::default()),
        "insert" => write(EntityOperation::Insert(new)),
        "update" => write(EntityOperation::Replace(new, Precondition::Exists)),
        "merge" => write(EntityOperation::Merge(new, Precondition::Exists)),
        "upsert" => write(EntityOperation::Merge(new, Precondition::None)),
        "delete" => write(EntityOperation::Delete(row_key, Precondition::Exists)),
        "list-tables" => TableRequest::QueryTables(Default::default()),
        "create-table" => TableRequest::CreateTable(name(table)),
        "delete-table" => TableRequest::DeleteTable(name(table)),
        "properties" => TableRequest::GetServiceProperties,
        "policies" => TableRequest::GetPolicies(name(table)),
        other => panic!("no such operation: {other}"),
    }
}

/// Sends a request with nothing but a signature: `200`, or `403 AuthorizationFailure`.
pub(crate) fn ask(authority: &str, base: &str, request: &TableRequest, sas: &str) -> String {
    let format = ResponseFormat { level: MetadataLevel::None, prefer: None, select: Select::All };
    let style = Style { base, format: &format, page: None, boundary_ids: ["", ""] };
    let mut http: Request<Bytes> =
        encode_request(request, &style).expect("the request can be written");
    let separator = if http.uri().query().is_some() { '&' } else { '?' };
    *http.uri_mut() = format!("{}{separator}{sas}", http.uri()).parse::<Uri>().expect("a URL");
    let response =
        Client::connect(authority).expect("a connection").exchange(&http).expect("an answer");
    match decode_reply(request, &response) {
        Ok(_) => response.status().as_u16().to_string(),
        Err(DecodeError::Service(error)) => format!("{} {}", error.status.as_u16(), error.code),
        Err(other) => panic!("{other}: {response:?}"),
    }
}

/// Looks for lines of `tavola doctor`, each with its level first. Nothing secret is printed, and
/// the exit code says whether something failed.
#[track_caller]
pub(crate) fn check(done: &Done, lines: &[&str]) {
    for line in lines {
        let (level, words) = line.split_once(' ').expect("a level and words");
        let found =
            done.stdout.lines().any(|shown| shown.starts_with(level) && shown.contains(words));
        assert!(found, "no line «{line}» in\n{}{}", done.stdout, done.stderr);
    }
    let levels: Vec<&str> =
        done.stdout.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert!(levels.iter().all(|level| ["ok", "warn", "fail"].contains(level)), "{}", done.stdout);
    let failed = levels.contains(&"fail");
    assert_eq!(done.code, Some(i32::from(failed)), "{}{}", done.stdout, done.stderr);
    assert_eq!(
        lines.iter().any(|line| line.starts_with("fail")),
        failed,
        "unexpected:\n{}",
        done.stdout
    );
    shows_nothing_secret(done);
}

/// No key, and no signature.
#[track_caller]
pub(crate) fn shows_nothing_secret(done: &Done) {
    let text = format!("{}{}", done.stdout, done.stderr);
    let has_value = |name: &str| {
        text.split(name).skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    assert!(!text.contains(KEY) && !has_value("AccountKey=") && !has_value("sig="), "{text}");
    // Signatures are 43 characters and a sign; nothing else that is printed looks like that.
    let is_base64 = |character: char| character.is_ascii_alphanumeric() || "+/".contains(character);
    let longest = text.split(|character| !is_base64(character)).map(str::len).max();
    assert!(longest < Some(43), "a signature or a key:\n{text}");
}
