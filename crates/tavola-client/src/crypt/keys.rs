//! Keys that wrap the content keys of entities.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrap as _};
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use aws_lc_rs::rsa::{
    OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    PrivateDecryptingKey, PublicEncryptingKey,
};
use zeroize::Zeroizing;

use super::fault;
use crate::credential::SourceError;
use crate::error::{EncryptionFault, Error, Outcome};
use crate::runtime::BoxFuture;

/// What wraps and unwraps the content key that each written entity has. It may ask a vault.
///
/// Rotation: new entities get the key that is [`KeyWrap::current`]; the older ids must still be
/// unwrapped as long as entities have them, or until [`crate::TableClient::rewrap`] went over them.
pub trait KeyWrap: Send + Sync + 'static {
    /// The id of the key under which new content keys are wrapped.
    fn current(&self) -> BoxFuture<'_, Result<String, SourceError>>;

    /// Wraps a content key under the current key.
    fn wrap<'a>(&'a self, key: &'a [u8; 32]) -> BoxFuture<'a, Result<Wrapped, SourceError>>;

    /// Unwraps what any of the keys wrapped. An error if the key is lost or is not that one.
    fn unwrap<'a>(
        &'a self,
        wrapped: &'a Wrapped,
    ) -> BoxFuture<'a, Result<Zeroizing<[u8; 32]>, SourceError>>;
}

impl<K: KeyWrap + ?Sized> KeyWrap for Arc<K> {
    fn current(&self) -> BoxFuture<'_, Result<String, SourceError>> {
        (**self).current()
    }

    fn wrap<'a>(&'a self, key: &'a [u8; 32]) -> BoxFuture<'a, Result<Wrapped, SourceError>> {
        (**self).wrap(key)
    }

    fn unwrap<'a>(
        &'a self,
        wrapped: &'a Wrapped,
    ) -> BoxFuture<'a, Result<Zeroizing<[u8; 32]>, SourceError>> {
        (**self).unwrap(wrapped)
    }
}

/// How a content key is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WrapAlgorithm {
    /// AES key wrap (RFC 3394) with 256 bits.
    A256Kw,
    /// RSA-OAEP with SHA-256 and MGF1 of SHA-256.
    RsaOaep256,
    /// In a way that only the implementation of [`KeyWrap`] knows.
    Remote,
}

impl WrapAlgorithm {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::A256Kw => 1,
            Self::RsaOaep256 => 2,
            Self::Remote => 3,
        }
    }

    pub(super) const fn of_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::A256Kw),
            2 => Some(Self::RsaOaep256),
            3 => Some(Self::Remote),
            _ => None,
        }
    }
}

/// A content key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wrapped {
    /// How it is wrapped.
    pub algorithm: WrapAlgorithm,
    /// With which key: at most 255 bytes.
    pub key_id: String,
    /// The wrapped key: at most 65,535 bytes.
    pub bytes: Vec<u8>,
}

impl Wrapped {
    /// A content key that was wrapped so.
    #[must_use]
    pub fn new(
        algorithm: WrapAlgorithm,
        key_id: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self { algorithm, key_id: key_id.into(), bytes: bytes.into() }
    }
}

/// 32 bytes of the machine's randomness: a new key.
///
/// # Errors
/// If the machine has none.
pub fn fresh_key() -> Result<Zeroizing<[u8; 32]>, Error> {
    let mut key = Zeroizing::new([0; 32]);
    random(&mut *key).ok_or_else(|| {
        let text = "the machine gives no random bytes";
        fault(EncryptionFault::Key, Outcome::NotSent, text)
    })?;
    Ok(key)
}

pub(super) fn random(bytes: &mut [u8]) -> Option<()> {
    SystemRandom::new().fill(bytes).ok()
}

fn ready<'a, T: Send + 'a>(value: Result<T, SourceError>) -> BoxFuture<'a, Result<T, SourceError>> {
    Box::pin(std::future::ready(value))
}

fn unknown(id: &str) -> SourceError {
    format!("there is no key `{id}`").into()
}

/// Symmetric keys that the program has itself: AES-256 key wrap. Clones share the keys.
///
/// ```
/// # fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{LocalKeys, fresh_key};
///
/// // Written under the new key, read under both.
/// let (new, old) = (fresh_key()?, fresh_key()?);
/// let keys = LocalKeys::new("2026-12", &new).and("2026-11", &old);
/// # let _ = keys;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LocalKeys {
    current: String,
    keys: BTreeMap<String, Arc<Zeroizing<[u8; 32]>>>,
}

impl LocalKeys {
    /// The key for new entities.
    #[must_use]
    pub fn new(id: impl Into<String>, key: &[u8; 32]) -> Self {
        let current = id.into();
        Self { current: current.clone(), keys: BTreeMap::new() }.and(current, key)
    }

    /// An older key, with which entities are still read.
    #[must_use]
    pub fn and(mut self, id: impl Into<String>, key: &[u8; 32]) -> Self {
        self.keys.insert(id.into(), Arc::new(Zeroizing::new(*key)));
        self
    }

    fn key(&self, id: &str) -> Result<AesKek, SourceError> {
        let key = self.keys.get(id).ok_or_else(|| unknown(id))?;
        AesKek::new(&AES_256, &***key).map_err(|_| "the key cannot be used".into())
    }

    fn wrap_now(&self, content_key: &[u8; 32]) -> Result<Wrapped, SourceError> {
        let mut out = [0; 40];
        let wrapped = self.key(&self.current)?.wrap(content_key, &mut out);
        let wrapped = wrapped.map_err(|_| "the key could not be wrapped")?;
        Ok(Wrapped::new(WrapAlgorithm::A256Kw, self.current.as_str(), &*wrapped))
    }

    fn unwrap_now(&self, wrapped: &Wrapped) -> Result<Zeroizing<[u8; 32]>, SourceError> {
        let Wrapped { algorithm, key_id, bytes } = wrapped;
        if *algorithm != WrapAlgorithm::A256Kw {
            return Err(format!("`{key_id}` is no key of AES key wrap").into());
        }
        let mut out = Zeroizing::new([0; 40]);
        let other = || format!("`{key_id}` is another key than the one that wrapped it");
        let opened = self.key(key_id)?.unwrap(bytes, &mut *out).map_err(|_| other())?;
        let opened: &[u8] = opened;
        Ok(Zeroizing::new(opened.try_into().map_err(|_| other())?))
    }
}

impl fmt::Debug for LocalKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.keys().collect();
        f.debug_struct("LocalKeys").field("current", &self.current).field("ids", &ids).finish()
    }
}

impl KeyWrap for LocalKeys {
    fn current(&self) -> BoxFuture<'_, Result<String, SourceError>> {
        ready(Ok(self.current.clone()))
    }

    fn wrap<'a>(&'a self, key: &'a [u8; 32]) -> BoxFuture<'a, Result<Wrapped, SourceError>> {
        ready(self.wrap_now(key))
    }

    fn unwrap<'a>(
        &'a self,
        wrapped: &'a Wrapped,
    ) -> BoxFuture<'a, Result<Zeroizing<[u8; 32]>, SourceError>> {
        ready(self.unwrap_now(wrapped))
    }
}

/// RSA keys that the program has itself: RSA-OAEP with SHA-256. A program that only writes needs the
/// public key alone, and cannot read what it wrote.
pub struct RsaKeys {
    current: String,
    public: OaepPublicEncryptingKey,
    private: BTreeMap<String, OaepPrivateDecryptingKey>,
}

impl RsaKeys {
    /// A key pair: PKCS #8 in DER.
    ///
    /// # Errors
    /// If it is no RSA key of 2048 to 8192 bits.
    pub fn new(id: impl Into<String>, pkcs8: &[u8]) -> Result<Self, Error> {
        let id = id.into();
        let pair = PrivateDecryptingKey::from_pkcs8(pkcs8).map_err(|_| not_rsa(&id))?;
        let public = OaepPublicEncryptingKey::new(pair.public_key()).map_err(|_| not_rsa(&id))?;
        Self { current: id.clone(), public, private: BTreeMap::new() }.and(id, pkcs8)
    }

    /// A public key alone, for writers: SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// If it is no RSA key of 2048 to 8192 bits.
    pub fn write_only(id: impl Into<String>, public_key: &[u8]) -> Result<Self, Error> {
        let id = id.into();
        let public = PublicEncryptingKey::from_der(public_key).map_err(|_| not_rsa(&id))?;
        let public = OaepPublicEncryptingKey::new(public).map_err(|_| not_rsa(&id))?;
        Ok(Self { current: id, public, private: BTreeMap::new() })
    }

    /// An older key pair, with which entities are still read.
    ///
    /// # Errors
    /// If it is no RSA key of 2048 to 8192 bits.
    pub fn and(mut self, id: impl Into<String>, pkcs8: &[u8]) -> Result<Self, Error> {
        let id = id.into();
        let pair = PrivateDecryptingKey::from_pkcs8(pkcs8).map_err(|_| not_rsa(&id))?;
        let pair = OaepPrivateDecryptingKey::new(pair).map_err(|_| not_rsa(&id))?;
        self.private.insert(id, pair);
        Ok(self)
    }

    fn wrap_now(&self, content_key: &[u8; 32]) -> Result<Wrapped, SourceError> {
        let mut out = vec![0; self.public.ciphertext_size()];
        let wrapped = self.public.encrypt(&OAEP_SHA256_MGF1SHA256, content_key, &mut out, None);
        let wrapped = wrapped.map_err(|_| "the key could not be wrapped")?;
        Ok(Wrapped::new(WrapAlgorithm::RsaOaep256, self.current.as_str(), &*wrapped))
    }

    fn unwrap_now(&self, wrapped: &Wrapped) -> Result<Zeroizing<[u8; 32]>, SourceError> {
        let Wrapped { algorithm, key_id, bytes } = wrapped;
        if *algorithm != WrapAlgorithm::RsaOaep256 {
            return Err(format!("`{key_id}` is no key of RSA-OAEP").into());
        }
        let pair = self.private.get(key_id).ok_or_else(|| unknown(key_id))?;
        let mut out = Zeroizing::new(vec![0; pair.min_output_size()]);
        let other = || format!("`{key_id}` is another key than the one that wrapped it");
        let opened = pair.decrypt(&OAEP_SHA256_MGF1SHA256, bytes, &mut out, None);
        let opened: &[u8] = opened.map_err(|_| other())?;
        Ok(Zeroizing::new(opened.try_into().map_err(|_| other())?))
    }
}

fn not_rsa(id: &str) -> Error {
    let text = format!("`{id}` is no RSA key of 2048 to 8192 bits in DER");
    fault(EncryptionFault::Key, Outcome::NotSent, text)
}

impl fmt::Debug for RsaKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.private.keys().collect();
        f.debug_struct("RsaKeys").field("current", &self.current).field("ids", &ids).finish()
    }
}

impl KeyWrap for RsaKeys {
    fn current(&self) -> BoxFuture<'_, Result<String, SourceError>> {
        ready(Ok(self.current.clone()))
    }

    fn wrap<'a>(&'a self, key: &'a [u8; 32]) -> BoxFuture<'a, Result<Wrapped, SourceError>> {
        ready(self.wrap_now(key))
    }

    fn unwrap<'a>(
        &'a self,
        wrapped: &'a Wrapped,
    ) -> BoxFuture<'a, Result<Zeroizing<[u8; 32]>, SourceError>> {
        ready(self.unwrap_now(wrapped))
    }
}
