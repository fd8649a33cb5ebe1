//! An identity provider whose tokens count, and one whose tokens do not.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key on P-256, which signs fastest; new in every process.
#[derive(Debug)]
pub struct SigningKey(EcdsaKeyPair);

impl SigningKey {
    /// The id under which the issuer publishes it.
    pub const ID: &str = "key";

    /// Makes a key.
    ///
    /// # Panics
    /// If the machine has no randomness.
    #[must_use]
    pub fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("keys can be made"))
    }

    /// The document in which the issuer publishes it.
    #[must_use]
    pub fn key_set(&self) -> Value {
        // The point is 4, x, y.
        let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": Self::ID, "x": encode(x), "y": encode(y)}]})
    }

    /// A token of any two texts, signed.
    ///
    /// # Panics
    /// If the machine has no randomness.
    #[must_use]
    pub fn token(&self, header: &[u8], claims: &[u8]) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).expect("keys sign");
        format!("{message}.{}", encode(signature.as_ref()))
    }
}

impl Default for SigningKey {
    fn default() -> Self {
        Self::new()
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
