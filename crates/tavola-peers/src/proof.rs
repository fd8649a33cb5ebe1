//! Both ends of a connection prove that they know the keyspace's secret. A proof covers the nodes
//! at both ends, their addresses, and the connection itself, so that it is worth nothing on any
//! other connection: a process that gets a node to connect cannot pass its proof on.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;
use tavola_store::Peer;
use uuid::Uuid;

/// A number that is used once.
pub(crate) type Nonce = [u8; 16];
/// Made from the secret and all of a [`Session`].
pub(crate) type Proof = [u8; 32];
/// What both ends of one TLS session know and no other session has; zeros of a connection without
/// TLS.
pub(crate) type ChannelBinding = [u8; 32];

/// Which end speaks, so that a proof of one end cannot be sent back to it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) enum End {
    Server,
    Caller,
}

/// One handshake: both ends must have the same view of it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) channel: ChannelBinding,
    pub(crate) server: Peer,
    pub(crate) server_nonce: Nonce,
    pub(crate) caller: Peer,
    pub(crate) caller_nonce: Nonce,
}

/// What is signed. Every field's length is part of it, so no two sessions look alike.
#[derive(Serialize)]
struct Signed<'a> {
    purpose: &'static str,
    end: End,
    channel: &'a ChannelBinding,
    server: (&'a [u8; 16], &'a str, &'a Nonce),
    caller: (&'a [u8; 16], &'a str, &'a Nonce),
}

/// What all nodes of a store know.
#[derive(Clone)]
pub(crate) struct Secret(Hmac<Sha256>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// `None` if the bytes cannot be a key.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        Hmac::new_from_slice(bytes).ok().map(Self)
    }

    pub(crate) fn prove(&self, end: End, session: &Session) -> Proof {
        self.mac(end, session).finalize().into_bytes().into()
    }

    /// In a time that does not depend on how much of it is right.
    pub(crate) fn accepts(&self, proof: &[u8], end: End, session: &Session) -> bool {
        self.mac(end, session).verify_slice(proof).is_ok()
    }

    fn mac(&self, end: End, session: &Session) -> Hmac<Sha256> {
        let Session { channel, server, server_nonce, caller, caller_nonce } = session;
        let signed = Signed {
            purpose: "tavola peers",
            end,
            channel,
            server: (&server.id, &server.address, server_nonce),
            caller: (&caller.id, &caller.address, caller_nonce),
        };
        // Texts and numbers always have an encoding.
        let signed = postcard::to_allocvec(&signed).unwrap_or_default();
        self.0.clone().chain_update(signed)
    }
}

pub(crate) fn nonce() -> Nonce {
    *Uuid::new_v4().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Peer {
        Peer { id: [number; 16], address: format!("10.0.0.{number}:1") }
    }

    fn session() -> Session {
        let (server, caller) = (peer(1), peer(2));
        Session { channel: [3; 32], server, server_nonce: [4; 16], caller, caller_nonce: [5; 16] }
    }

    #[test]
    fn a_proof_is_of_one_end_one_session_and_one_secret() {
        let secret = Secret::new(&[1; 32]).unwrap();
        let proof = secret.prove(End::Caller, &session());
        assert!(secret.accepts(&proof, End::Caller, &session()));
        assert!(!secret.accepts(&proof, End::Server, &session()));
        assert!(!secret.accepts(&proof[..31], End::Caller, &session()));
        assert!(!Secret::new(&[2; 32]).unwrap().accepts(&proof, End::Caller, &session()));
        let other = Peer { address: "10.0.0.9:1".to_owned(), ..peer(1) };
        let other_sessions = [
            Session { channel: [0; 32], ..session() },
            Session { server: other, ..session() },
            Session { server: Peer { id: [9; 16], ..peer(1) }, ..session() },
            Session { server_nonce: [9; 16], ..session() },
            Session { caller: Peer { address: "10.0.0.9:1".to_owned(), ..peer(2) }, ..session() },
            Session { caller: Peer { id: [9; 16], ..peer(2) }, ..session() },
            Session { caller_nonce: [9; 16], ..session() },
            Session { server: peer(2), caller: peer(1), ..session() },
        ];
        for other in other_sessions {
            assert!(!secret.accepts(&proof, End::Caller, &other), "{other:?}");
        }
    }
}
