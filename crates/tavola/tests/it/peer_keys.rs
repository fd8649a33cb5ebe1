//! `tavola store peer-keys`: the files that it makes, what nodes accept of them, and what is
//! refused without them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::cli::{Done, examples, in_folder, in_shell, run};
use tavola_peers::keys::PeerKeys;

const ONE: &str = "10.0.1.7:10010";
const OTHER: &str = "10.0.1.8:10010";

fn tavola(folder: &Path, arguments: &[&str]) -> Done {
    run(in_folder(folder).args(arguments))
}

fn peer_keys(folder: &Path, arguments: &[&str]) -> Done {
    tavola(folder, &[&["store", "peer-keys"], arguments].concat())
}

fn node(folder: &Path, address: &str) -> PathBuf {
    folder.join("tavola-peer-keys").join(address.replace(':', "_"))
}

/// Every file and folder below, with its mode.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for path in entries {
        found.push((path.clone(), path.metadata().unwrap().permissions().mode() & 0o777));
        if path.is_dir() {
            found.extend(modes(&path));
        }
    }
    found
}

fn openssl(arguments: &[&str], folder: &Path) -> (bool, String) {
    let done = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Whether a node that trusts `trust` takes the certificate that is in `shown`.
fn is_trusted(trust: &Path, shown: &Path) -> bool {
    let (trust, shown) = (trust.join("ca.pem"), shown.join("node.pem"));
    let (trust, shown) = (trust.to_str().unwrap(), shown.to_str().unwrap());
    openssl(
        &["verify", "-x509_strict", "-CAfile", trust, "-untrusted", shown, shown],
        Path::new("/"),
    )
    .0
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_folder_for_each_node_and_what_to_do_with_it() {
    let home = tempfile::tempdir().unwrap();
    let made = peer_keys(home.path(), &["init", ONE, OTHER, ONE]).text();
    for words in [
        "it can issue a certificate for any node",
        "for the node at 10.0.1.7:10010, valid for 825 days",
        "scp -rp tavola-peer-keys/10.0.1.8_10010 10.0.1.8:/etc/tavola/peer-keys",
        "peer_keys = \"/etc/tavola/peer-keys\"",
    ] {
        assert!(made.contains(words), "{words} is not in\n{made}");
    }
    for (path, mode) in modes(home.path()) {
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    let files = |address| {
        let names = std::fs::read_dir(node(home.path(), address))
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    assert_eq!(files(ONE), ["ca.pem", "node-key.pem", "node.pem"].map(str::to_owned).into());
    let (_, text) =
        openssl(&["x509", "-in", "node.pem", "-noout", "-text"], &node(home.path(), ONE));
    for words in [
        "IP Address:10.0.1.7, URI:tavola-peer://10.0.1.7:10010",
        "TLS Web Server Authentication, TLS Web Client Authentication",
        "CA:FALSE",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    PeerKeys::open(&node(home.path(), ONE), ONE.parse().unwrap()).unwrap();
    let another =
        PeerKeys::open(&node(home.path(), ONE), OTHER.parse().unwrap()).unwrap_err().to_string();
    assert!(another.contains("is for the node at 10.0.1.7:10010"), "{another}");
    assert!(is_trusted(&node(home.path(), ONE), &node(home.path(), OTHER)));
}

#[test]
fn nothing_is_overwritten_and_nonsense_is_refused() {
    let home = tempfile::tempdir().unwrap();
    peer_keys(home.path(), &["init", ONE]).text();
    let before = std::fs::read(node(home.path(), ONE).join("node.pem")).unwrap();
    for (arguments, words) in [
        (&["init", ONE][..], "exists: add nodes with `tavola store peer-keys issue`"),
        (&["init"], "<IP:PORT>"),
        (&["issue", "10.0.1.7"], "not IP:PORT"),
        (&["issue", "0.0.0.0:10010"], "no address that other nodes can connect to"),
        (&["issue", "10.0.1.7:0"], "no address that other nodes can connect to"),
        (&["issue", ONE, "--folder", "nowhere"], "`tavola store peer-keys init` creates one"),
        (&["rotate", "--finish"], "no rotation is in progress"),
    ] {
        let done = peer_keys(home.path(), arguments);
        assert!(done.code == Some(2) && done.stderr.contains(words), "{arguments:?}: {done:?}");
    }
    assert_eq!(std::fs::read(node(home.path(), ONE).join("node.pem")).unwrap(), before);
    std::fs::write(home.path().join("tavola-peer-keys/authority.pem"), "no keys").unwrap();
    let damaged = peer_keys(home.path(), &["issue", OTHER]);
    assert!(
        damaged.code == Some(2) && damaged.stderr.contains("it does not contain a key"),
        "{damaged:?}"
    );
}

/// What the nodes of a cluster hold of each other at every moment of a rotation.
#[test]
fn a_rotation_leaves_no_two_nodes_apart() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    peer_keys(home.path(), &["init", ONE]).text();
    // A node that comes later is known to those that were there.
    peer_keys(home.path(), &["issue", OTHER]).text();
    assert!(is_trusted(&node(home.path(), ONE), &node(home.path(), OTHER)));
    copy(&node(home.path(), OTHER), &at("old"));
    let begun = peer_keys(home.path(), &["rotate"]).text();
    assert!(begun.contains("rotate --finish"), "{begun}");
    copy(&node(home.path(), OTHER), &at("between"));
    let again = peer_keys(home.path(), &["rotate"]);
    assert!(
        again.code == Some(2) && again.stderr.contains("a rotation is in progress"),
        "{again:?}"
    );
    // One that is made meanwhile is known to all, too.
    peer_keys(home.path(), &["issue", "10.0.1.9:10010"]).text();
    copy(&node(home.path(), "10.0.1.9:10010"), &at("new"));
    peer_keys(home.path(), &["rotate", "--finish"]).text();
    copy(&node(home.path(), OTHER), &at("finished"));
    for (trust, shown, expected) in [
        ("old", "between", true),
        ("between", "old", true),
        ("old", "new", true),
        ("between", "finished", true),
        ("finished", "between", true),
        ("finished", "new", true),
        ("finished", "old", false),
        ("old", "finished", false),
    ] {
        assert_eq!(is_trusted(&at(trust), &at(shown)), expected, "{trust} trusts {shown}");
    }
    for (path, mode) in modes(&at("tavola-peer-keys")) {
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
}

#[test]
fn the_examples_of_the_help_work_one_after_another() {
    let home = tempfile::tempdir().unwrap();
    for line in examples(&["store", "peer-keys"]) {
        in_shell(home.path(), &line, |shell| shell).text();
    }
    assert!(node(home.path(), "10.0.1.9:10010").is_dir());
}

/// Before anything is asked of the cluster, which does not answer here.
#[test]
fn peers_beyond_this_machine_need_keys_that_fit() {
    let home = tempfile::tempdir().unwrap();
    peer_keys(home.path(), &["init", ONE]).text();
    let cluster = ["--store", "cassandra", "--contact-points", "127.0.0.1:1"];
    let with =
        |command: &[&str], more: &[&str]| tavola(home.path(), &[command, &cluster, more].concat());
    for command in [&["serve", "--table-port", "0", "--admin-port", "0"][..], &["config", "check"]]
    {
        for (flags, words) in [
            (&["--peers", ONE][..], "Make keys with `tavola store peer-keys init 10.0.1.7:10010"),
            (&["--neighbours", ONE], "Make keys with `tavola store peer-keys init 10.0.1.7:10010"),
            (
                &["--peers", OTHER, "--peer-keys", "tavola-peer-keys/10.0.1.7_10010"],
                "is for the node at 10.0.1.7:10010",
            ),
            (
                &["--peers", ONE, "--peer-keys", "nowhere"],
                "store.peer_keys: cannot read nowhere/ca.pem",
            ),
        ] {
            let done = with(command, flags);
            assert!(
                done.code == Some(2) && done.stderr.contains(words),
                "{command:?} {flags:?}: {done:?}"
            );
        }
    }
    let keys = ["--peers", ONE, "--peer-keys", "tavola-peer-keys/10.0.1.7_10010"];
    assert!(with(&["config", "check"], &keys).text().contains("the configuration is valid"));
    let accepted = ["--neighbours", ONE, "--accept-risks", "plain-peers"];
    let told = with(&["config", "check"], &accepted).text();
    assert!(
        told.contains("store.neighbours (flag --neighbours) is the old name of store.peers"),
        "{told}"
    );
    let doctor = with(&["doctor"], &["--accept-risks", "plain-peers"]);
    assert!(doctor.code == Some(1) && !doctor.stderr.contains("no risk"), "{doctor:?}");
}
