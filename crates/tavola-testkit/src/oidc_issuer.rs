//! An OpenID Connect issuer over real HTTP: what a server asks for keys, and what hands out tokens
//! to tests.
//!
//! ```text
//! GET /.well-known/openid-configuration   where the keys are
//! GET /keys                               the keys, counted
//! GET /token?roles=a,b&sub=…&aud=…&exp_in=…   a token; other parameters become claims of that name
//! ```

mod serve;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::tokens::{SigningKey, key_set};

/// What tokens are for unless a test says otherwise.
pub const AUDIENCE: &str = "https://storage.azure.com";
/// How long they live, in seconds.
const LIFETIME: i64 = 3600;

/// An issuer that runs until it is dropped.
#[derive(Debug)]
pub struct OidcIssuer {
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    url: String,
    keys: Mutex<Keys>,
    behaviour: Mutex<Behaviour>,
    fetches: AtomicUsize,
    discoveries: AtomicUsize,
    endless_bytes: AtomicUsize,
}

#[derive(Debug)]
struct Keys {
    generation: usize,
    rsa: SigningKey,
    p256: SigningKey,
}

impl Keys {
    fn new(generation: usize) -> Self {
        let (rsa, p256) = (format!("rsa-{generation}"), format!("p256-{generation}"));
        Self { generation, rsa: SigningKey::rsa(&rsa), p256: SigningKey::p256(&p256) }
    }
}

/// How the issuer answers when it is asked for its documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// As it should.
    Good,
    /// 503 to everything.
    Failing,
    /// Never.
    Silent,
    /// Its discovery document speaks of another issuer.
    WrongIssuer,
    /// Its discovery document redirects to itself.
    RedirectingDiscovery,
    /// Its key set redirects to a good one.
    RedirectingKeys,
    /// Its key set never ends.
    EndlessKeys,
    /// Its key set has no key.
    NoKeys,
    /// Its key set is over plain http elsewhere.
    PlainKeysElsewhere,
}

/// A certificate chain and its key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// The chain, the issuer's own certificate first.
    pub certificates: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

/// Where and how an issuer listens.
#[derive(Debug, Clone)]
pub struct Options {
    /// Port 0 picks a free one.
    pub listen: SocketAddr,
    /// The host in its address; the one it listens on if left out.
    pub host: Option<String>,
    /// For https.
    pub identity: Option<Identity>,
}

impl Default for Options {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 0)), host: None, identity: None }
    }
}

impl OidcIssuer {
    /// An issuer over plain HTTP on a free port of the loopback interface.
    ///
    /// # Panics
    /// If there is no port.
    pub async fn start() -> Self {
        Self::start_with(Options::default()).await.expect("the loopback interface has a free port")
    }

    /// An issuer as wished.
    ///
    /// # Errors
    /// If it cannot listen there, or its certificate is unusable.
    pub async fn start_with(options: Options) -> Result<Self, String> {
        let listener =
            TcpListener::bind(options.listen).await.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let tls = options.identity.as_ref().map(acceptor).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let host = options.host.unwrap_or_else(|| address.ip().to_string());
        let state = Arc::new(State {
            url: format!("{scheme}://{host}:{}", address.port()),
            keys: Mutex::new(Keys::new(1)),
            behaviour: Mutex::new(Behaviour::Good),
            fetches: AtomicUsize::new(0),
            discoveries: AtomicUsize::new(0),
            endless_bytes: AtomicUsize::new(0),
        });
        let task = tokio::spawn(serve::serve(listener, tls, state.clone()));
        Ok(Self { state, task })
    }

    /// Its address, which is also its name in tokens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.state.url
    }

    /// A token signed with RSA. These claims replace the usual ones; `null` removes one.
    #[must_use]
    pub fn token(&self, claims: &Value) -> String {
        self.state.token(claims)
    }

    /// The same, signed with ECDSA.
    #[must_use]
    pub fn token_es256(&self, claims: &Value) -> String {
        self.state.keys().p256.token(&self.state.claims(claims))
    }

    /// A token whose key id is in no key set.
    #[must_use]
    pub fn token_of_key(&self, key_id: &str, claims: &Value) -> String {
        let header = json!({"typ": "JWT", "alg": "ES256", "kid": key_id});
        self.state.keys().p256.token_with_header(&header, &self.state.claims(claims))
    }

    /// New keys, with new ids. The old ones are no longer published.
    pub fn rotate(&self) {
        let generation = self.state.keys().generation + 1;
        let fresh = Keys::new(generation);
        *self.state.keys() = fresh;
    }

    /// What it publishes at `/keys`.
    #[must_use]
    pub fn key_set(&self) -> Value {
        self.state.key_set()
    }

    /// How often its keys were asked for.
    #[must_use]
    pub fn fetches(&self) -> usize {
        self.state.fetches.load(Ordering::SeqCst)
    }

    /// How often its discovery document was asked for.
    #[must_use]
    pub fn discoveries(&self) -> usize {
        self.state.discoveries.load(Ordering::SeqCst)
    }

    /// How many bytes of [`Behaviour::EndlessKeys`] clients read.
    #[must_use]
    pub fn endless_bytes(&self) -> usize {
        self.state.endless_bytes.load(Ordering::SeqCst)
    }

    /// Lets it answer otherwise from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        *lock(&self.state.behaviour) = behaviour;
    }

    /// Waits until it ends, which it does not by itself.
    pub async fn join(mut self) {
        // The task ends only by a defect, which its own panic has reported.
        let _ended = (&mut self.task).await;
    }
}

impl Drop for OidcIssuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        lock(&self.keys)
    }

    fn key_set(&self) -> Value {
        let keys = self.keys();
        key_set([&keys.rsa, &keys.p256])
    }

    fn token(&self, claims: &Value) -> String {
        self.keys().rsa.token(&self.claims(claims))
    }

    /// Good claims with changes.
    fn claims(&self, changes: &Value) -> Value {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs().cast_signed());
        let mut claims = json!({
            "iss": self.url, "aud": AUDIENCE, "sub": "tester", "iat": now, "nbf": now, "exp": now + LIFETIME,
        });
        let Some(members) = claims.as_object_mut() else { return claims };
        for (name, value) in changes.as_object().into_iter().flatten() {
            if value.is_null() {
                members.remove(name);
            } else {
                members.insert(name.clone(), value.clone());
            }
        }
        claims
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn acceptor(identity: &Identity) -> Result<TlsAcceptor, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&identity.certificates)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key)
        .map_err(|error| format!("the key: {error}"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| error.to_string())?.with_no_client_auth();
    let config = builder.with_single_cert(certificates, key).map_err(|error| error.to_string())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
