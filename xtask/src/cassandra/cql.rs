//! As much of the CQL protocol (version 4) as it takes to see whether a Cassandra node serves
//! clients.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const VERSION: u8 = 4;
/// Set in the version byte of what the server sends.
const FROM_SERVER: u8 = 0x80;

const STARTUP: u8 = 0x01;
const AUTHENTICATE: u8 = 0x03;
const OPTIONS: u8 = 0x05;
const SUPPORTED: u8 = 0x06;
const AUTH_RESPONSE: u8 = 0x0f;
const AUTH_SUCCESS: u8 = 0x10;

/// A stopped process still accepts connections: the kernel does it. So no answer within this time
/// is no.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Our answers are far shorter; a length beyond it is no CQL.
const BODY_BYTES_MAX: u32 = 1 << 20;

/// A TLS 1.2 greeting that offers the usual: curves x25519 and P-256, AES-GCM, signatures by either
/// kind of key.
const CLIENT_HELLO: &[u8] = &[
    // Record: handshake, 87 bytes. Message: client hello, 83 bytes, version 1.2.
    22, 3, 1, 0, 87, 1, 0, 0, 83, 3, 3, // Random bytes: nothing that follows depends on them.
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    // No session; four cipher suites; no compression; 34 bytes of extensions.
    0, 0, 8, 0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30, 1, 0, 0, 34, // Groups.
    0, 10, 0, 6, 0, 4, 0, 29, 0, 23, // Point formats.
    0, 11, 0, 2, 1, 0, // Signature algorithms.
    0, 13, 0, 14, 0, 12, 4, 3, 5, 3, 8, 4, 4, 1, 5, 1, 8, 5,
];
const TLS_HANDSHAKE: u8 = 22;

/// Whether the node begins a TLS handshake. All that follows would need cryptography.
pub(super) fn greets_encrypted(address: SocketAddr) -> bool {
    let greet = || {
        let mut stream = connect(address)?;
        stream.write_all(CLIENT_HELLO)?;
        let mut record = [0; 1];
        stream.read_exact(&mut record)?;
        io::Result::Ok(record[0])
    };
    greet().is_ok_and(|record| record == TLS_HANDSHAKE)
}

/// Whether the node says which options it supports, the one question that needs no login.
pub(super) fn answers(address: SocketAddr) -> bool {
    let ask = || ask(&mut connect(address)?, OPTIONS, &[]);
    ask().is_ok_and(|opcode| opcode == SUPPORTED)
}

/// Whether a login succeeds.
pub(super) fn admits(address: SocketAddr, user: &str, password: &str) -> bool {
    let log_in = || {
        let mut stream = connect(address)?;
        if ask(&mut stream, STARTUP, &startup_body())? != AUTHENTICATE {
            return Ok(false);
        }
        let opcode = ask(&mut stream, AUTH_RESPONSE, &login_body(user, password))?;
        io::Result::Ok(opcode == AUTH_SUCCESS)
    };
    log_in().unwrap_or(false)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Sends one frame; gives the kind of the answer.
fn ask(stream: &mut (impl Read + Write), opcode: u8, body: &[u8]) -> io::Result<u8> {
    let mut frame = vec![VERSION, 0, 0, 0, opcode];
    frame.extend(u32::try_from(body.len()).map_err(io::Error::other)?.to_be_bytes());
    frame.extend(body);
    stream.write_all(&frame)?;
    let mut header = [0; 9];
    stream.read_exact(&mut header)?;
    let [version, _, _, _, opcode, length @ ..] = header;
    let length = u32::from_be_bytes(length);
    if version != VERSION | FROM_SERVER || length > BODY_BYTES_MAX {
        return Err(io::Error::other("this is not CQL"));
    }
    io::copy(&mut stream.take(length.into()), &mut io::sink())?;
    Ok(opcode)
}

/// A map of one pair of strings.
fn startup_body() -> Vec<u8> {
    let mut body = vec![0, 1];
    for text in ["CQL_VERSION", "3.0.0"] {
        body.extend([0, text.len() as u8]);
        body.extend(text.as_bytes());
    }
    body
}

/// As SASL's PLAIN wants it, behind its length.
fn login_body(user: &str, password: &str) -> Vec<u8> {
    let token = format!("\0{user}\0{password}");
    let mut body = (token.len() as u32).to_be_bytes().to_vec();
    body.extend(token.as_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Accepts one connection, reads a frame each time and sends the answers one after the other.
    fn server(answers: &'static [&'static [u8]]) -> (SocketAddr, thread::JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let read_and_answer = |answer: &&[u8]| {
                let mut frame = vec![0; 9];
                stream.read_exact(&mut frame).unwrap();
                let mut body = vec![0; frame[8].into()];
                stream.read_exact(&mut body).unwrap();
                frame.extend(body);
                stream.write_all(answer).unwrap();
                frame
            };
            answers.iter().map(read_and_answer).collect()
        });
        (address, thread)
    }

    #[test]
    fn a_node_that_supports_something_answers() {
        let (address, thread) = server(&[&[0x84, 0, 0, 0, SUPPORTED, 0, 0, 0, 2, 0, 0]]);
        assert!(answers(address));
        assert_eq!(thread.join().unwrap(), [[4, 0, 0, 0, 5, 0, 0, 0, 0]]);
    }

    #[test]
    fn the_greeting_has_the_lengths_it_says() {
        assert_eq!(CLIENT_HELLO.len(), 5 + usize::from(CLIENT_HELLO[4]));
        assert_eq!(CLIENT_HELLO[4], 4 + CLIENT_HELLO[8]);
        let before_extensions = CLIENT_HELLO.len() - 34;
        assert_eq!(CLIENT_HELLO[before_extensions - 1], 34);
        // An alert is no handshake, and neither is CQL.
        for (answer, is_handshake) in
            [(&[22, 3, 3][..], true), (&[21, 3, 3], false), (&[0x84], false)]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let thread = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut vec![0; CLIENT_HELLO.len()]).unwrap();
                stream.write_all(answer).unwrap();
            });
            assert_eq!(greets_encrypted(address), is_handshake, "{answer:?}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn what_speaks_otherwise_does_not() {
        for answer in [
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            &[0x84, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x84, 0, 0],
        ] {
            let (address, thread) = server(Box::leak(Box::new([answer])));
            assert!(!answers(address), "{answer:?}");
            thread.join().unwrap();
        }
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(!answers(unused));
    }

    #[test]
    fn a_login_succeeds_or_does_not() {
        const LOGIN_DEMANDED: &[u8] = &[0x84, 0, 0, 0, AUTHENTICATE, 0, 0, 0, 3, 0, 1, b'x'];
        let (address, thread) =
            server(&[LOGIN_DEMANDED, &[0x84, 0, 0, 0, AUTH_SUCCESS, 0, 0, 0, 0]]);
        assert!(admits(address, "me", "secret"));
        let frames = thread.join().unwrap();
        assert!(frames[0].ends_with(b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0"), "{frames:?}");
        assert!(frames[1].ends_with(b"\0\0\0\x0a\0me\0secret"), "{frames:?}");

        let (address, thread) = server(&[LOGIN_DEMANDED, &[0x84, 0, 0, 0, 0, 0, 0, 0, 0]]);
        assert!(!admits(address, "me", "wrong"));
        thread.join().unwrap();
    }
}
