//! The client library over TLS without trust. What it does otherwise is the client suite's.

use tavola_client::{ClientOptions, Credential, ErrorKind, Outcome, Retry, TableServiceClient};

use crate::common::{ACCOUNT, KEY, RunningServer};
use crate::tls::client::Files;

/// Nobody whose authority is not known is trusted, and nothing is sent.
#[tokio::test]
async fn an_unknown_authority_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(&folder.path().join("certificates"));
    let server = RunningServer::start_with(&folder.path().join("data"), |command| {
        command.arg("--tls-cert").arg(files.path("cert.pem"));
        command.arg("--tls-key").arg(files.path("key.pem"))
    });
    let url = server.endpoint().replace("http:", "https:");
    let options = ClientOptions::default().retry(Retry::none());
    let credential = Credential::key(ACCOUNT, KEY);
    let client = TableServiceClient::new(&url, Some(credential), Some(options)).unwrap();
    let error = client.create_table("other").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent), "{error}");
}
