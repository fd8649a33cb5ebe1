//! Keys and signed tokens, as an identity provider makes them. Shares no line with what checks
//! them.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key with which tokens are signed.
#[derive(Debug)]
pub struct SigningKey {
    id: String,
    pair: Pair,
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
}

impl SigningKey {
    /// A new RSA key of 2048 bits.
    ///
    /// # Panics
    /// If the machine has no randomness; so do the others.
    #[must_use]
    pub fn rsa(id: &str) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("RSA keys can be made");
        Self { id: id.to_owned(), pair: Pair::Rsa(pair) }
    }

    /// A new key on P-256.
    ///
    /// # Panics
    /// Without randomness.
    #[must_use]
    pub fn p256(id: &str) -> Self {
        let pair =
            EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("EC keys can be made");
        Self { id: id.to_owned(), pair: Pair::P256(pair) }
    }

    /// A new key on P-384.
    ///
    /// # Panics
    /// Without randomness.
    #[must_use]
    pub fn p384(id: &str) -> Self {
        let pair =
            EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).expect("EC keys can be made");
        Self { id: id.to_owned(), pair: Pair::P384(pair) }
    }

    /// Its `kid`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The algorithm that it signs with unless a header says otherwise.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::P384(_) => "ES384",
        }
    }

    /// Its public half, as a member of a key set.
    #[must_use]
    pub fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "use": "sig", "kid": self.id, "n": encode(public.n), "e": encode(public.e)})
            }
            Pair::P256(pair) => self.elliptic_jwk("P-256", pair),
            Pair::P384(pair) => self.elliptic_jwk("P-384", pair),
        }
    }

    fn elliptic_jwk(&self, curve: &str, pair: &EcdsaKeyPair) -> Value {
        // The point is 4, x, y.
        let (x, y) =
            pair.public_key().as_ref()[1..].split_at((pair.public_key().as_ref().len() - 1) / 2);
        json!({"kty": "EC", "use": "sig", "kid": self.id, "crv": curve, "x": encode(x), "y": encode(y)})
    }

    /// A token with the usual header.
    #[must_use]
    pub fn token(&self, claims: &Value) -> String {
        let header = json!({"typ": "JWT", "alg": self.algorithm(), "kid": self.id});
        self.token_with_header(&header, claims)
    }

    /// A token with this header, whose `alg` chooses among what the key can do.
    #[must_use]
    pub fn token_with_header(&self, header: &Value, claims: &Value) -> String {
        self.token_of_texts(
            &header.to_string(),
            &claims.to_string(),
            header["alg"].as_str().unwrap_or_default(),
        )
    }

    /// A token of any two texts, signed.
    #[must_use]
    pub fn token_of_texts(&self, header: &str, claims: &str, algorithm: &str) -> String {
        compact(header, claims, |message| self.sign(message, algorithm))
    }

    fn sign(&self, message: &[u8], algorithm: &str) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(rsa_encoding(algorithm), &random, message, &mut signature)
                    .expect("RSA keys sign");
                signature
            }
            Pair::P256(pair) | Pair::P384(pair) => {
                pair.sign(&random, message).expect("EC keys sign").as_ref().to_vec()
            }
        }
    }
}

fn rsa_encoding(algorithm: &str) -> &'static dyn RsaEncoding {
    match algorithm {
        "RS384" => &RSA_PKCS1_SHA384,
        "RS512" => &RSA_PKCS1_SHA512,
        "PS256" => &RSA_PSS_SHA256,
        "PS384" => &RSA_PSS_SHA384,
        "PS512" => &RSA_PSS_SHA512,
        _ => &RSA_PKCS1_SHA256,
    }
}

/// The key set that an issuer publishes.
#[must_use]
pub fn key_set<'a>(keys: impl IntoIterator<Item = &'a SigningKey>) -> Value {
    json!({"keys": keys.into_iter().map(SigningKey::jwk).collect::<Vec<_>>()})
}

/// The compact form of two texts and whatever signs them.
#[must_use]
pub fn compact(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
