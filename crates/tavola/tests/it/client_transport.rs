//! The client's connections to a real server over TLS: trust, refusals, and a proxy in between.

use tavola_client::{
    ClientOptions, ConnectionOptions, Credential, Error, ErrorKind, Outcome, TableServiceClient,
};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{ACCOUNT, KEY, RunningServer};
use crate::tls::client::Files;

struct Server {
    server: RunningServer,
    files: Files,
    _folder: TempDir,
}

impl Server {
    fn start(client_auth: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::make(&folder.path().join("certificates"));
        let server = RunningServer::start_with(&folder.path().join("data"), |command| {
            command.arg("--tls-cert").arg(files.path("cert.pem"));
            command.arg("--tls-key").arg(files.path("key.pem"));
            match client_auth {
                "off" => command,
                _ => command
                    .env("TAVOLA_TLS__CLIENT_AUTH", client_auth)
                    .env("TAVOLA_TLS__CLIENT_CA", files.path("ca.pem")),
            }
        });
        Self { server, files, _folder: folder }
    }

    /// Trusts the server's authority.
    fn trusting(&self) -> ConnectionOptions {
        let pem = std::fs::read(self.files.path("ca.pem")).unwrap();
        ConnectionOptions::default().certificates(pem)
    }

    async fn create_table(&self, connection: ConnectionOptions) -> Result<(), Error> {
        let url = format!("https://{}/{ACCOUNT}", self.server.table);
        let options = ClientOptions::default().connection(connection);
        let service =
            TableServiceClient::new(&url, Some(Credential::key(ACCOUNT, KEY)), Some(options))?;
        service.table_client("people").create_table_if_missing().await.map(drop)
    }
}

/// A proxy that knows `CONNECT` alone.
async fn proxy() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client));
        }
    });
    url
}

async fn pass_on(client: TcpStream) {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        client.read_line(&mut head).await.unwrap();
    }
    let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
    let mut server = TcpStream::connect(target).await.unwrap();
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    let _closed = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_works_directly_and_through_a_proxy() {
    let server = Server::start("off");
    server.create_table(server.trusting()).await.unwrap();
    server.create_table(server.trusting().proxy(proxy().await)).await.unwrap();
}

/// Waiting repairs none of these, so that the call fails at once and says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_tls_are_named_and_not_retried() {
    let open = Server::start("off");
    let guarded = Server::start("required");
    for (server, options, words) in [
        (&open, ConnectionOptions::default(), "comes from an issuer that this machine does not"),
        (&guarded, guarded.trusting(), "requires a client certificate"),
    ] {
        let error = server.create_table(options).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent));
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.context().attempts, 1, "{error}");
    }
}
