//! Both ends of a connection prove that they know the store's secret, before anything is sent on it.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use uuid::Uuid;

/// A number that is used once.
pub(crate) type Nonce = [u8; 16];
/// Made from the secret and both ends' nonces.
pub(crate) type Proof = [u8; 32];

/// Which end speaks, so that what one said cannot be said back to it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Server,
    Caller,
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

    pub(crate) fn prove(&self, end: End, server: &Nonce, caller: &Nonce) -> Proof {
        self.mac(end, server, caller).finalize().into_bytes().into()
    }

    /// In a time that does not tell how much of it is right.
    pub(crate) fn accepts(&self, proof: &[u8], end: End, server: &Nonce, caller: &Nonce) -> bool {
        self.mac(end, server, caller).verify_slice(proof).is_ok()
    }

    fn mac(&self, end: End, server: &Nonce, caller: &Nonce) -> Hmac<Sha256> {
        let end: &[u8] = match end {
            End::Server => b"host",
            End::Caller => b"guest",
        };
        self.0.clone().chain_update(end).chain_update(server).chain_update(caller)
    }
}

pub(crate) fn nonce() -> Nonce {
    *Uuid::new_v4().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_end_one_handshake_and_one_secret() {
        let (server, caller) = (nonce(), nonce());
        let secret = Secret::new(&[1; 32]).unwrap();
        let proof = secret.prove(End::Caller, &server, &caller);
        assert!(secret.accepts(&proof, End::Caller, &server, &caller));
        assert!(!secret.accepts(&proof, End::Server, &server, &caller));
        assert!(!secret.accepts(&proof, End::Caller, &nonce(), &caller));
        assert!(!secret.accepts(&proof, End::Caller, &server, &nonce()));
        assert!(!secret.accepts(&proof[..31], End::Caller, &server, &caller));
        assert!(!Secret::new(&[2; 32]).unwrap().accepts(&proof, End::Caller, &server, &caller));
    }
}
