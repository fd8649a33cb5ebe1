//! An issuer's public keys (JWKS, RFC 7517).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{DecodingKey, DecodingKeyKind};
use serde::Deserialize;
use serde_json::Value;

use super::DOCUMENT_BYTES_MAX;
use super::algorithm::{Algorithm, KeyKind};
use super::compact::Compact;
use super::error::{KeySetError, TokenError};

/// Providers have a handful, the largest some dozens.
const KEYS_MAX: usize = 256;
const RSA_BITS_MIN: usize = 2048;
/// Beyond it a signature takes long to check, and the library refuses.
const RSA_BITS_MAX: usize = 8192;
/// Public exponents are small; almost all are 65537.
const RSA_EXPONENT_BYTES_MAX: usize = 4;

/// The public keys of one issuer that can check a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    id: Option<String>,
    kind: KeyKind,
    /// The one algorithm that the issuer uses it for, if it says so.
    algorithm: Option<Algorithm>,
    material: DecodingKey,
}

/// The library does not compare keys.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let same_material = match (self.material.kind(), other.material.kind()) {
            (DecodingKeyKind::SecretOrDer(one), DecodingKeyKind::SecretOrDer(two)) => one == two,
            (
                DecodingKeyKind::RsaModulusExponent { n, e },
                DecodingKeyKind::RsaModulusExponent { n: other_n, e: other_e },
            ) => n == other_n && e == other_e,
            _ => false,
        };
        self.id == other.id
            && self.kind == other.kind
            && self.algorithm == other.algorithm
            && same_material
    }
}

impl Eq for Key {}

impl KeySet {
    /// Reads a key set. Keys that cannot check a signature of ours are left out: symmetric ones,
    /// ones for encryption, RSA below 2048 bits, unknown kinds and curves.
    ///
    /// # Errors
    /// If it is no key set, too large, or has no usable key.
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Value>,
        }
        if json.len() > DOCUMENT_BYTES_MAX {
            return Err(KeySetError::TooLong);
        }
        let document: Document =
            serde_json::from_slice(json).map_err(|_| KeySetError::Malformed)?;
        if document.keys.len() > KEYS_MAX {
            return Err(KeySetError::TooManyKeys);
        }
        let keys: Vec<Key> = document.keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() { Err(KeySetError::NoUsableKey) } else { Ok(Self { keys }) }
    }

    /// Checks the signature with the key that the token names, or with the only one that fits.
    pub(super) fn verify(
        &self,
        token: &Compact<'_>,
        algorithm: Algorithm,
    ) -> Result<(), TokenError> {
        let fits = |key: &&Key| key.fits(algorithm);
        let fitting: Vec<&Key> = match token.key_id()? {
            Some(id) => {
                let mut named =
                    self.keys.iter().filter(|key| key.id.as_deref() == Some(id)).peekable();
                named.peek().ok_or(TokenError::KeyUnknown)?;
                named.filter(fits).collect()
            }
            None => match self.keys.iter().filter(fits).collect::<Vec<_>>() {
                none if none.is_empty() => return Err(TokenError::KeyUnknown),
                several if several.len() > 1 => return Err(TokenError::KeyAmbiguous),
                one => one,
            },
        };
        if fitting.is_empty() {
            return Err(TokenError::KeyDoesNotFit);
        }
        // An id should belong to one key, but nothing keeps an issuer from giving it to two.
        let holds = fitting.iter().any(|key| key.verifies(token, algorithm));
        if holds { Ok(()) } else { Err(TokenError::SignatureMismatch) }
    }
}

/// The members of a key that matter. Private ones are not read.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Jwk {
    fn is_for_signatures(&self) -> bool {
        let usage_fits = self.usage.as_deref().is_none_or(|usage| usage == "sig");
        let operations_fit = self
            .key_ops
            .as_ref()
            .is_none_or(|operations| operations.iter().any(|op| op == "verify"));
        usage_fits && operations_fit
    }
}

impl Key {
    fn read(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        if !jwk.is_for_signatures() {
            return None;
        }
        let algorithm = match &jwk.alg {
            Some(name) => Some(name.parse::<Algorithm>().ok()?),
            None => None,
        };
        let (kind, material) = match jwk.kty.as_str() {
            "RSA" => (KeyKind::Rsa, rsa(jwk.n.as_deref()?, jwk.e.as_deref()?)?),
            "EC" => elliptic(jwk.crv.as_deref()?, jwk.x.as_deref()?, jwk.y.as_deref()?)?,
            // `oct` above all: whoever can check with a shared secret can also sign with it.
            _ => return None,
        };
        let is_consistent = algorithm.is_none_or(|algorithm| algorithm.key_kind() == kind);
        is_consistent.then_some(Self { id: jwk.kid, kind, algorithm, material })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        self.kind == algorithm.key_kind() && self.algorithm.is_none_or(|own| own == algorithm)
    }

    fn verifies(&self, token: &Compact<'_>, algorithm: Algorithm) -> bool {
        let signed = token.signed.as_bytes();
        jsonwebtoken::crypto::verify(
            token.signature,
            signed,
            &self.material,
            algorithm.of_library(),
        )
        .unwrap_or(false)
    }
}

fn rsa(modulus: &str, exponent: &str) -> Option<DecodingKey> {
    let (modulus, exponent) = (number(modulus)?, number(exponent)?);
    let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
    let is_odd_above_one = exponent.last()? & 1 == 1 && exponent != [1];
    let fits = (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits)
        && exponent.len() <= RSA_EXPONENT_BYTES_MAX
        && is_odd_above_one;
    fits.then(|| DecodingKey::from_rsa_raw_components(&modulus, &exponent))
}

/// Some issuers write numbers with a leading zero, as signed ones.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn elliptic(curve: &str, x: &str, y: &str) -> Option<(KeyKind, DecodingKey)> {
    let (kind, coordinate_bytes) = match curve {
        "P-256" => (KeyKind::P256, 32),
        "P-384" => (KeyKind::P384, 48),
        _ => return None,
    };
    let is_coordinate =
        |text| URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == coordinate_bytes);
    let key = (is_coordinate(x) && is_coordinate(y))
        .then(|| DecodingKey::from_ec_components(x, y).ok())??;
    Some((kind, key))
}
