//! Keys in a vault. The vault wraps a key of this program once an hour; that key wraps the content
//! keys of entities. So a million entities cost a few calls of the vault, the vault's key never
//! leaves it, and every use of it is in its log.
//!
//! `cargo run -p tavola-client --features encrypt --example vault_keys`

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tavola_client::{
    BoxFuture, ClientOptions, DynEntity, Encryption, KeyWrap, LocalKeys, SourceError,
    TableServiceClient, WrapAlgorithm, Wrapped, fresh_key,
};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// The vault. A real one is a service behind HTTPS; its keys never leave it.
#[derive(Debug)]
pub struct Vault {
    keys: Mutex<LocalKeys>,
    calls: AtomicUsize,
}

impl Vault {
    pub fn new(keys: LocalKeys) -> Arc<Self> {
        Arc::new(Self { keys: Mutex::new(keys), calls: AtomicUsize::new(0) })
    }

    /// Wraps under the newest version of the vault's key, and says which that is.
    async fn wrap(&self, key: &[u8; 32]) -> Result<Wrapped, SourceError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.keys.lock().await.wrap(key).await
    }

    async fn unwrap(&self, wrapped: &Wrapped) -> Result<Zeroizing<[u8; 32]>, SourceError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.keys.lock().await.unwrap(wrapped).await
    }

    /// How often it was asked.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Keys that are wrapped by a vault, and kept in memory for a while.
#[derive(Debug)]
pub struct VaultKeys {
    vault: Arc<Vault>,
    lifetime: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What wraps new content keys.
    current: Option<Kek>,
    /// What unwraps old ones, by the vault's part.
    known: HashMap<VaultPart, Kek>,
}

/// The vault's part: which version of its key, and what that wrapped.
type VaultPart = (String, Vec<u8>);

/// A key of this program, with what the vault made of it.
#[derive(Debug, Clone)]
struct Kek {
    key: LocalKeys,
    vault_part: VaultPart,
    until: Instant,
}

impl VaultKeys {
    pub fn new(vault: Arc<Vault>, lifetime: Duration) -> Self {
        Self { vault, lifetime, state: Mutex::default() }
    }

    fn kek(&self, key: &[u8; 32], vault_part: VaultPart) -> Kek {
        Kek { key: LocalKeys::new("kek", key), vault_part, until: Instant::now() + self.lifetime }
    }

    /// The key for new entities: a new one each hour.
    async fn current_kek(&self) -> Result<Kek, SourceError> {
        let mut state = self.state.lock().await;
        if let Some(kek) = state.current.as_ref().filter(|kek| kek.until > Instant::now()) {
            return Ok(kek.clone());
        }
        let key = fresh_key()?;
        let wrapped = self.vault.wrap(&key).await?;
        let kek = self.kek(&key, (wrapped.key_id, wrapped.bytes));
        state.known.insert(kek.vault_part.clone(), kek.clone());
        state.current = Some(kek.clone());
        Ok(kek)
    }

    /// The key that the vault once wrapped so.
    async fn known_kek(&self, vault_part: VaultPart) -> Result<Kek, SourceError> {
        let mut state = self.state.lock().await;
        state.known.retain(|_, kek| kek.until > Instant::now());
        if let Some(kek) = state.known.get(&vault_part) {
            return Ok(kek.clone());
        }
        let (id, bytes) = vault_part.clone();
        let wrapped = Wrapped::new(WrapAlgorithm::A256Kw, id, bytes);
        let key = self.vault.unwrap(&wrapped).await?;
        let kek = self.kek(&key, vault_part.clone());
        state.known.insert(vault_part, kek.clone());
        Ok(kek)
    }
}

impl KeyWrap for VaultKeys {
    fn current(&self) -> BoxFuture<'_, Result<String, SourceError>> {
        Box::pin(async { Ok(self.current_kek().await?.vault_part.0) })
    }

    /// The length of the vault's part, that part, and the content key under ours.
    fn wrap<'a>(&'a self, key: &'a [u8; 32]) -> BoxFuture<'a, Result<Wrapped, SourceError>> {
        Box::pin(async move {
            let kek = self.current_kek().await?;
            let (id, part) = &kek.vault_part;
            let length = u16::try_from(part.len())?;
            let own = kek.key.wrap(key).await?;
            let bytes = [&length.to_be_bytes(), part.as_slice(), &own.bytes].concat();
            Ok(Wrapped::new(WrapAlgorithm::Remote, id.as_str(), bytes))
        })
    }

    fn unwrap<'a>(
        &'a self,
        wrapped: &'a Wrapped,
    ) -> BoxFuture<'a, Result<Zeroizing<[u8; 32]>, SourceError>> {
        Box::pin(async move {
            let not_ours = || SourceError::from("this was not wrapped by way of the vault");
            let (length, rest) = wrapped.bytes.split_first_chunk::<2>().ok_or_else(not_ours)?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (part, own) = rest.split_at_checked(length).ok_or_else(not_ours)?;
            let kek = self.known_kek((wrapped.key_id.clone(), part.to_vec())).await?;
            kek.key.unwrap(&Wrapped::new(WrapAlgorithm::A256Kw, "kek", own)).await
        })
    }
}

/// Writes and reads entities; returns how often the vault was asked.
pub async fn run() -> Result<usize, Box<dyn Error + Send + Sync>> {
    let vault = Vault::new(LocalKeys::new("vault-key/1", &*fresh_key()?));
    let keys = VaultKeys::new(vault.clone(), Duration::from_secs(3600));
    let policy = Encryption::new(keys).rule(|_, _, name| name == "Ssn");
    let options = ClientOptions::default().encryption(policy);
    let service = TableServiceClient::on(tavola_local::in_memory(), Some(options));
    let table = service.table_client("people");
    table.create().await?;
    for number in 0..1000 {
        let mut person = DynEntity::new("Smith", format!("{number:04}"));
        person.set("Ssn", format!("078-05-{number:04}"));
        table.insert(&person).await?;
    }
    let found = table.get::<DynEntity>(("Smith", "0007")).await?.ok_or("it is gone")?;
    println!("0007 has {} characters", found.get::<String>("Ssn")?.len());
    println!("1,000 entities, {} call of the vault", vault.calls());
    Ok(vault.calls())
}

#[allow(dead_code, reason = "as a test it is called by another name")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    run().await.map(drop)
}
