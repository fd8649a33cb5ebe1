//! A service that hands out shared access signatures, and a client that needs no account key.
//!
//! The issuer has the account's key. A client says who it is, and gets a signature for its own
//! partition, for an hour. It renews it before it ends, and no request fails for that.
//!
//! `cargo run -p tavola-client --example sas_issuer` against a service on this machine
//! (`tavola serve`), or `TAVOLA_CONNECTION_STRING`.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt as _;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tavola_client::{
    Account, BoxFuture, Credential, DynEntity, KeyRange, Permissions, SasIssuer, SasScope,
    SasSource, Secret, SourceError, TableClient, TableServiceClient,
};
use tokio::net::TcpListener;

type Failed = Box<dyn Error + Send + Sync>;

/// Hands out signatures on a port of this machine. A real one is behind HTTPS.
pub async fn serve(issuer: SasIssuer, table: &str) -> Result<SocketAddr, Failed> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let table = table.to_owned();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (issuer, table) = (issuer.clone(), table.clone());
            let service = service_fn(move |request| {
                let answer = answer(&request, &issuer, &table);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service);
            tokio::spawn(connection);
        }
    });
    Ok(address)
}

/// `GET /sas` with a bearer token: the seconds since 1970 when it ends, and the signature.
fn answer(request: &Request<Incoming>, issuer: &SasIssuer, table: &str) -> Response<Full<Bytes>> {
    let respond = |status: StatusCode, text: String| {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response
    };
    let Some(user) = user_of(request) else {
        return respond(StatusCode::UNAUTHORIZED, "a token is missing".to_owned());
    };
    let issued = SasScope::table(table, Permissions::READ | Permissions::ADD)
        .only(KeyRange::<DynEntity>::partition(user))
        .and_then(|scope| issuer.issue(&scope));
    match issued {
        Ok(secret) => {
            let ends =
                secret.expires().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
            let ends = ends.unwrap_or_default().as_secs();
            respond(StatusCode::OK, format!("{ends}\n{}", secret.text()))
        }
        Err(error) => respond(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The user. A real service checks the token of an identity provider here.
fn user_of(request: &Request<Incoming>) -> Option<&'static str> {
    match request.headers().get(header::AUTHORIZATION)?.to_str().ok()? {
        "Bearer token-of-ann" => Some("000123"),
        "Bearer token-of-bob" => Some("000124"),
        _ => None,
    }
}

/// Where a client gets its signatures.
#[derive(Debug)]
pub struct FromIssuer {
    client: Client<HttpConnector, Empty<Bytes>>,
    address: SocketAddr,
    token: &'static str,
}

impl FromIssuer {
    pub fn new(address: SocketAddr, token: &'static str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, address, token }
    }

    async fn fetch(&self) -> Result<Secret, SourceError> {
        let request = Request::get(format!("http://{}/sas", self.address))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Empty::new())?;
        let response = self.client.request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("the issuer answered {}", response.status()).into());
        }
        let body = response.into_body().collect().await?.to_bytes();
        let text = std::str::from_utf8(&body)?;
        let (ends, signature) = text.split_once('\n').ok_or("the issuer's answer is cut off")?;
        let ends = SystemTime::UNIX_EPOCH + Duration::from_secs(ends.parse()?);
        Ok(Secret::new(signature, Some(ends)))
    }
}

impl SasSource for FromIssuer {
    fn sas(&self) -> BoxFuture<'_, Result<Secret, SourceError>> {
        Box::pin(self.fetch())
    }
}

/// A client that has no key, only where to get signatures.
pub fn client(endpoint: &str, source: FromIssuer, table: &str) -> Result<TableClient, Failed> {
    let credential = Credential::SasSource(Arc::new(source));
    Ok(TableServiceClient::new(endpoint, Some(credential), None)?.table_client(table))
}

#[allow(dead_code, reason = "as a test its parts are called")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let account = Account::from_env().unwrap_or_else(|_| Account::development());
    account.tables()?.table_client("claims").create_table_if_missing().await?;
    let issuer = SasIssuer::new(&account, Duration::from_secs(3600))?;
    let address = serve(issuer.clone(), "claims").await?;

    let ann = client(account.endpoint(), FromIssuer::new(address, "token-of-ann"), "claims")?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let mut claim = DynEntity::new("000123", now.as_millis().to_string());
    claim.set("Amount", 9.5);
    ann.insert(&claim).await?;
    let mut own = ann.query(KeyRange::<DynEntity>::partition("000123")).stream();
    while let Some(claim) = own.try_next().await? {
        println!("{} {}", claim.row(), claim.get::<f64>("Amount")?);
    }
    let other = ann.get::<DynEntity>(("000124", "1")).await;
    println!(
        "a claim of somebody else: {}",
        other.map_or_else(|error| error.to_string(), |_| "?!".into())
    );
    println!("{} signature made", issuer.made());
    Ok(())
}
