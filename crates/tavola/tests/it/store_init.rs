//! `tavola store init` and `tavola doctor` on clusters that cannot be used: what they say, and how
//! they end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::common::cli::{Done, examples, in_folder, in_shell, run};
use crate::common::free_port;

/// The requests and answers of the cluster's protocol that logging in needs.
const ERROR: u8 = 0x00;
const STARTUP: u8 = 0x01;
const AUTHENTICATE: u8 = 0x03;
const OPTIONS: u8 = 0x05;
const SUPPORTED: u8 = 0x06;
const AUTH_RESPONSE: u8 = 0x0F;
const BAD_CREDENTIALS: i32 = 0x0100;

/// A node that lets nobody in.
fn node_that_refuses_everybody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || refuse(stream));
        }
    });
    address
}

/// Until the client goes.
fn refuse(mut stream: TcpStream) -> Option<()> {
    loop {
        // Version, flags, two bytes of the stream's number, the kind, and the length of what
        // follows.
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        std::io::copy(&mut (&mut stream).take(u64::from(length)), &mut std::io::sink()).ok()?;
        let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
        let (kind, body) = match head[4] {
            OPTIONS => (SUPPORTED, vec![0, 0]),
            STARTUP => (AUTHENTICATE, text("org.apache.cassandra.auth.PasswordAuthenticator")),
            AUTH_RESPONSE => {
                (ERROR, [&BAD_CREDENTIALS.to_be_bytes()[..], &text("they are incorrect")].concat())
            }
            other => panic!("nobody is let in, and asks {other:#x}"),
        };
        let mut answer = vec![0x84, 0, head[2], head[3], kind];
        answer.extend_from_slice(&(body.len() as u32).to_be_bytes());
        answer.extend_from_slice(&body);
        stream.write_all(&answer).ok()?;
    }
}

fn tavola(folder: &tempfile::TempDir, arguments: &[&str]) -> Done {
    run(in_folder(folder.path()).args(arguments))
}

#[test]
fn a_wrong_password_names_the_node_and_the_setting_and_not_itself() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("password"), "quite-secret\n").unwrap();
    let node = node_that_refuses_everybody().to_string();
    let cluster =
        ["--contact-points", &node, "--store-user", "tess", "--store-password-file", "password"];
    let init = tavola(&folder, &[&["store", "init"], &cluster[..]].concat());
    let serve = ["serve", "--table-port", "0", "--admin-port", "0", "--store", "cassandra"];
    let serve = tavola(&folder, &[&serve[..], &cluster[..]].concat());
    for done in [&init, &serve] {
        assert_eq!(done.code, Some(3), "{done:?}");
        for words in [node.as_str(), "\"tess\"", "store.user, store.password"] {
            assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
        }
    }
    let doctor = tavola(&folder, &[&["doctor", "--store", "cassandra"], &cluster[..]].concat());
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(
        doctor.stdout.contains(&format!("fail  cluster: the cluster at {node} refuses user")),
        "{}",
        doctor.stdout
    );
    let nobody = tavola(&folder, &["store", "init", "--contact-points", &node]);
    assert!(nobody.code == Some(3) && nobody.stderr.contains("none is set"), "{nobody:?}");
    for done in [init, serve, doctor] {
        assert!(!format!("{done:?}").contains("quite-secret"), "{done:?}");
    }
}

#[test]
fn a_node_that_is_not_there_is_named_with_the_setting() {
    let folder = tempfile::tempdir().unwrap();
    let node = format!("127.0.0.1:{}", free_port());
    let init = tavola(&folder, &["store", "init", "--contact-points", &node]);
    let to = format!("cassandra:{node}/tavola");
    let copy = tavola(&folder, &["store", "copy", "--from", &to, "--to", "embedded:target"]);
    for done in [init, copy] {
        assert_eq!(done.code, Some(1), "{done:?}");
        let expected =
            format!("cannot connect to the cluster at {node} (setting store.contact_points)");
        assert!(done.stderr.contains(&expected), "{}", done.stderr);
    }
    std::fs::write(
        folder.path().join("tavola.toml"),
        format!("[store]\nkind = \"cassandra\"\ncontact_points = [\"{node}\"]\n"),
    )
    .unwrap();
    let doctor = tavola(&folder, &["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(
        doctor.stdout.contains("fail  cluster: cannot connect")
            && doctor.stdout.contains("start the nodes"),
        "{doctor:?}"
    );
}

#[test]
fn settings_that_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (["--replication", "0"], "store.replication"),
        (["--slots", "0"], "--slots"),
        (["--contact-points", ","], "store.contact_points"),
        (["--accept-risks", "everything"], "commitlog, paxos, replication"),
        (["--store-password-file", "nowhere"], "cannot read nowhere"),
    ] {
        let done = tavola(&folder, &[&["store", "init"], &arguments[..]].concat());
        assert!(done.code == Some(2) && done.stderr.contains(words), "{arguments:?}: {done:?}");
    }
}

#[test]
fn the_examples_of_the_help_reach_for_their_cluster() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tavola.toml"),
        "[store]\ncontact_points = \"127.0.0.1:1\"\n",
    )
    .unwrap();
    for line in examples(&["store", "init"]) {
        // Nobody listens there.
        let line =
            line.replace("10.0.0.1,10.0.0.2", "127.0.0.1:1").replace("127.0.0.1 ", "127.0.0.1:1 ");
        let done = in_shell(folder.path(), &line, |shell| shell);
        assert!(done.code == Some(1) && done.stderr.contains("127.0.0.1:1"), "{line}: {done:?}");
    }
}
