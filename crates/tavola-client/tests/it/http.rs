//! The store behind HTTP, against sockets that behave as they are told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use tavola_client::{
    BoxFuture, ClientOptions, ConnectionOptions, Credential, DynEntity, ErrorKind, Flavour,
    Outcome, Retry, Secret, SourceError, TableServiceClient, TokenSource,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::common::person;

const NOT_FOUND: &str = "{\"odata.error\":{\"code\":\"ResourceNotFound\",\"message\":{\"lang\":\"en-US\",\"value\":\"none\"}}}";

/// No attempt comes later than this after the one before.
const QUIET: Duration = Duration::from_secs(2);

/// What was received, by connection.
pub(super) type Heads = Arc<Mutex<Vec<(usize, String)>>>;

/// A server that answers each request with the next answer, and closes the connection on `None`.
pub(super) async fn server(answers: Vec<Option<String>>) -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let heads = Heads::default();
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let recorded = Arc::clone(&heads);
    tokio::spawn(async move {
        for connection in 0.. {
            let Ok((socket, _)) = listener.accept().await else { return };
            tokio::spawn(serve(socket, connection, Arc::clone(&recorded), Arc::clone(&answers)));
        }
    });
    (address, heads)
}

async fn serve(
    mut socket: TcpStream,
    connection: usize,
    heads: Heads,
    answers: Arc<Mutex<std::vec::IntoIter<Option<String>>>>,
) {
    while let Some(head) = read_request(&mut socket).await {
        heads.lock().unwrap().push((connection, head));
        let answer = answers.lock().unwrap().next();
        match answer {
            Some(Some(answer)) => socket.write_all(answer.as_bytes()).await.unwrap(),
            Some(None) => return,
            None => std::future::pending().await,
        }
    }
}

/// The head of a request; its body is read away.
pub(super) async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).await.ok()?;
    Some(head)
}

pub(super) fn answer(status: &str, headers: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))
}

pub(super) fn not_found() -> Option<String> {
    answer("404 Not Found", "x-ms-request-id: 7\r\ncontent-type: application/json\r\n", NOT_FOUND)
}

pub(super) fn client(address: &str, options: ClientOptions) -> tavola_client::TableClient {
    let url = format!("{address}/account");
    let credential = Credential::key("account", "a2V5");
    TableServiceClient::new(&url, Some(credential), Some(options)).unwrap().table_client("people")
}

#[tokio::test]
async fn requests_are_signed_and_connections_reused() {
    let (address, heads) = server(vec![not_found(), not_found()]).await;
    let client = client(&address, ClientOptions::default().user_agent("shop/1"));
    let get = || client.get::<DynEntity>(("p", "r"));
    assert!(get().client_request_id("mine").await.unwrap().is_none());
    assert!(get().await.unwrap().is_none());
    let heads = heads.lock().unwrap();
    assert_eq!(heads.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [0, 0]);
    let (_, head) = &heads[0];
    assert!(
        head.starts_with("GET /account/people(PartitionKey='p',RowKey='r') HTTP/1.1"),
        "{head}"
    );
    for line in [
        "authorization: SharedKey account:",
        "x-ms-client-request-id: mine",
        "user-agent: shop/1 tavola-client/",
        "x-ms-date: ",
        "x-ms-version: 2019-02-02",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
}

/// G162.
#[tokio::test]
async fn a_signature_stands_in_the_url() {
    let (address, heads) = server(vec![not_found()]).await;
    let url = format!("{address}/account?sv=2019-02-02&sig=x%2By");
    let service = TableServiceClient::new(&url, None, None).unwrap();
    service.table_client("people").get::<DynEntity>(("p", "r")).await.unwrap();
    let (_, head) = heads.lock().unwrap()[0].clone();
    assert!(head.contains("RowKey='r')?sv=2019-02-02&sig=x%2By HTTP/1.1"), "{head}");
    assert!(!head.contains("authorization"), "{head}");
    assert!(!format!("{service:?}").contains("sig="));
}

/// A call that is dropped leaves a connection on which an answer is still to come.
#[tokio::test]
async fn a_connection_is_not_reused_after_a_drop() {
    let (address, heads) = server(Vec::new()).await;
    let client = client(&address, ClientOptions::default());
    for _ in 0..2 {
        let call = client.get::<DynEntity>(("p", "r")).retry(Retry::none());
        let call = call.deadline(Duration::from_millis(200));
        assert_eq!(*call.await.unwrap_err().kind(), ErrorKind::Deadline);
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.iter().map(|(connection, _)| *connection).collect::<Vec<_>>(), [0, 1]);
}

#[tokio::test]
async fn a_lost_reply_is_read_back_and_a_page_of_a_proxy_is_not_ours() {
    let html = answer("200 OK", "content-type: text/html\r\n", "<html><title>Proxy login</title>");
    let stored = answer(
        "200 OK",
        "x-ms-request-id: 7\r\ncontent-type: application/json\r\n",
        "{\"PartitionKey\":\"Smith\",\"RowKey\":\"1\",\"Timestamp\":\"2026-11-16T00:05:27Z\",\"Age\":5}",
    );
    let (address, _) = server(vec![None, stored]).await;
    let lost = client(&address, ClientOptions::default());
    let written = lost.insert(&person("1", 5)).await.unwrap();
    assert_eq!(written.proof, tavola_client::Proof::Content);

    let (address, _) = server(vec![html]).await;
    let proxied = client(&address, ClientOptions::default().retry(Retry::none()));
    let error = proxied.get::<DynEntity>(("p", "r")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotOurs { .. }));
    assert!(
        error.to_string().contains(
            "answered 200 text/html, not a table service; it begins \"<html><title>Proxy"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = client(&address, ClientOptions::default().retry(Retry::none()));
    let error = client.insert(&person("1", 5)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent));
    let at = address.trim_start_matches("http://");
    let expected = format!("no connection to {address}/account: nothing listens at {at}");
    assert!(error.to_string().contains(&expected), "{error}");
}

/// Each step of connecting that fails has words of its own.
#[tokio::test]
async fn a_failed_step_is_named() {
    let quick = ConnectionOptions::default().connect_timeout(Duration::from_millis(200));
    let options =
        || ClientOptions::default().allow_http().retry(Retry::none()).connection(quick.clone());
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    for (address, expected) in [
        ("http://no-such-host.invalid".to_owned(), "there is no host named no-such-host.invalid"),
        (format!("https://{silent}"), "does not respond in time"),
    ] {
        let error = client(&address, options()).get::<DynEntity>(("p", "r")).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Connect);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Nobody repairs the address between two attempts.
#[tokio::test]
async fn what_lasts_is_not_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let connections = tokio::spawn(async move {
        let mut count = 0;
        while let Ok(accepted) = tokio::time::timeout(QUIET, listener.accept()).await {
            accepted.unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
            count += 1;
        }
        count
    });
    let error =
        client(&address, ClientOptions::default()).get::<DynEntity>(("p", "r")).await.unwrap_err();
    assert!(
        error.to_string().contains("does not speak TLS, but the URL begins with https"),
        "{error}"
    );
    assert_eq!(connections.await.unwrap(), 1);
}

/// G91.
#[tokio::test]
async fn throttled_requests_wait_as_long_as_the_service_says() {
    let body = "{\"odata.error\":{\"code\":\"ServerBusy\",\"message\":{\"lang\":\"en-US\",\"value\":\"busy\"}}}";
    let busy = answer("503 Busy", "retry-after: 1\r\ncontent-type: application/json\r\n", body);
    let (address, heads) = server(vec![busy, not_found()]).await;
    let client = client(&address, ClientOptions::default());
    let begun = std::time::Instant::now();
    assert!(client.get::<DynEntity>(("p", "r")).await.unwrap().is_none());
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(heads.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn plain_http_goes_through_a_proxy_in_absolute_form() {
    let (proxy, heads) = server(vec![not_found()]).await;
    let options =
        ClientOptions::default().allow_http().connection(ConnectionOptions::default().proxy(proxy));
    let client = client("http://tables.example", options);
    assert!(client.get::<DynEntity>(("p", "r")).await.unwrap().is_none());
    let (_, head) = heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("GET http://tables.example/account/people("), "{head}");
}

#[tokio::test]
async fn tls_goes_through_a_proxy_by_connect() {
    let (proxy, heads) = server(vec![answer("403 Forbidden", "", "")]).await;
    let options = ClientOptions::default()
        .retry(Retry::none())
        .connection(ConnectionOptions::default().proxy(proxy));
    let client = client("https://tables.example", options);
    let error = client.get::<DynEntity>(("p", "r")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent), "{error}");
    assert!(error.to_string().contains("403"), "{error}");
    let (_, head) = heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("CONNECT tables.example:443 HTTP/1.1"), "{head}");
}

#[derive(Debug)]
struct Tokens;

impl TokenSource for Tokens {
    fn token(&self) -> BoxFuture<'_, Result<Secret, SourceError>> {
        Box::pin(async { Ok(Secret::new("secret", None)) })
    }
}

#[tokio::test]
async fn http_is_for_this_machine_and_never_for_tokens() {
    let new = |url: &str, credential, options: Option<ClientOptions>| {
        TableServiceClient::new(url, credential, options).map(|client| client.traits().flavour)
    };
    let key = || Some(Credential::key("a", "a2V5"));
    assert!(new("http://127.0.0.1:10002/a", key(), None).is_ok());
    assert!(new("http://[::1]:10002/a", key(), None).is_ok());
    assert!(new("http://localhost/a", key(), None).is_ok());
    let error = new("http://tables.example/a", key(), None).unwrap_err();
    assert!(error.to_string().contains("allow_http"), "{error}");
    assert!(
        new("http://tables.example/a", key(), Some(ClientOptions::default().allow_http())).is_ok()
    );
    let token = || Some(Credential::Token(Arc::new(Tokens)));
    let allowed = || Some(ClientOptions::default().allow_http());
    assert!(new("http://127.0.0.1/a", token(), allowed()).is_err());
    assert!(new("https://a.table.core.windows.net", token(), None).is_ok());
    let cosmos = new("https://a.table.cosmos.azure.com", key(), None).unwrap();
    assert_eq!(cosmos, Flavour::Cosmos);
    assert!(new("https://a.example", Some(Credential::key("a", "%")), None).is_err());
    assert!(new("https://a.example", Some(Credential::sas("sv=1")), None).is_err());
}

/// Statements 252, 253, 257, 259 and 260: what another service may answer. G64: no page is fetched
/// before it is asked for.
#[tokio::test]
async fn answers_that_another_service_may_give() {
    let json = "x-ms-request-id: 7\r\ncontent-type: application/json\r\nx-odd: yes\r\n";
    let next = format!("{json}x-ms-continuation-NextPartitionKey: q\r\n");
    let row = "{\"odata.etag\":\"W/\\\"odd\\\"\",\"PartitionKey\":\"q\",\"RowKey\":\"r\",\
               \"Timestamp\":\"2026-11-16T00:05:27Z\",\"Age\":null,\"Name\":\"Ann\"}";
    let page = format!("{{\"value\":[{row}]}}");
    let (begin, end) = page.split_at(10);
    let chunks = format!("{:x}\r\n{begin}\r\n{:x};x=y\r\n{end}\r\n0\r\n\r\n", 10, end.len());
    let chunked = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n{json}\r\n{chunks}");
    let written = answer("204 No Content", "x-ms-request-id: 8\r\netag: W/\"odder\"\r\n", "");
    let empty = answer("200 OK", &next, "{\"value\":[]}");
    let (address, heads) = server(vec![empty, Some(chunked), written]).await;
    let client = client(&address, ClientOptions::default());
    let mut pages = client.scan::<DynEntity>().pages();
    assert_eq!(pages.next().await.unwrap().unwrap().items.len(), 0);
    assert_eq!(heads.lock().unwrap().len(), 1, "one page was asked for");
    let mut found = pages.next().await.unwrap().unwrap().items.remove(0);
    assert!(pages.next().await.is_none());
    assert_eq!((found.value("Age"), found.get::<String>("Name").unwrap().as_str()), (None, "Ann"));
    assert_eq!(found.etag().as_str(), "W/\"odd\"");
    found.set("Age", 5);
    client.replace(&mut found).await.unwrap();
    assert_eq!(found.etag().as_str(), "W/\"odder\"");
    let heads = heads.lock().unwrap();
    let second = heads[1].1.lines().next().unwrap();
    assert!(second.contains("NextPartitionKey=q") && !second.contains("NextRowKey"), "{second}");
    assert!(heads[2].1.contains("if-match: W/\"odd\"\r\n"), "{}", heads[2].1);
}
