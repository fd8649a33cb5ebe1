//! The path between a server and a node of its cluster, which a test can cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What becomes of bytes on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// They pass.
    Open,
    /// There are no connections: old ones are closed, new ones as soon as they stand.
    Cut,
    /// What the server sends is lost, and nobody is told.
    LosesRequests,
    /// What the node answers is lost, and nobody is told.
    LosesReplies,
}

/// Listens at the address of the node on a port of its own. A driver goes to the addresses that
/// nodes tell, but to the port of its contact points; so everything between the two passes here.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    path: Path,
    /// Both ends of every connection that was made.
    ends: Vec<TcpStream>,
}

impl Relay {
    /// An open path to a node.
    pub(crate) fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind((node.ip(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { path: Path::Open, ends: Vec::new() }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for server in listener.incoming() {
                connect(server.unwrap(), node, &shared);
            }
        });
        Self { address, state }
    }

    pub(crate) fn set(&self, path: Path) {
        let mut state = self.state.lock().unwrap();
        state.path = path;
        // A connection that lost bytes would go on in the middle of a message.
        if matches!(path, Path::Open | Path::Cut) {
            state.ends.drain(..).for_each(|end| close(&end));
        }
    }
}

fn connect(server: TcpStream, node: SocketAddr, shared: &Arc<Mutex<State>>) {
    let mut state = shared.lock().unwrap();
    if state.path == Path::Cut {
        return;
    }
    let node = TcpStream::connect(node).unwrap();
    for end in [&server, &node] {
        end.set_nodelay(true).unwrap();
        state.ends.push(end.try_clone().unwrap());
    }
    let (requests, replies) =
        ((server.try_clone().unwrap(), node.try_clone().unwrap()), (node, server));
    for ((from, to), loss) in [(requests, Path::LosesRequests), (replies, Path::LosesReplies)] {
        let shared = Arc::clone(shared);
        thread::spawn(move || carry(from, to, || shared.lock().unwrap().path == loss));
    }
}

/// Until one of the ends is closed; then both are.
fn carry(mut from: TcpStream, mut to: TcpStream, is_lost: impl Fn() -> bool) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !is_lost() && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    close(&from);
    close(&to);
}

fn close(end: &TcpStream) {
    let _was_closed = end.shutdown(Shutdown::Both);
}
