//! The issuer's side of the socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Behaviour, State, lock};

type Body = BoxBody<Bytes, Infallible>;

pub(super) async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<State>) {
    // Connections end with the issuer.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (tls, state) = (tls.clone(), state.clone());
        connections.spawn(async move {
            match tls {
                None => converse(stream, state).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        converse(stream, state).await;
                    }
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<State>) {
    let service = service_fn(|request| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(answer(&state, &request).await) }
    });
    // A client that goes away in the middle does not concern the issuer.
    let _gone = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(state: &Arc<State>, request: &Request<Incoming>) -> Response<Body> {
    let behaviour = *lock(&state.behaviour);
    let path = request.uri().path();
    match path {
        "/.well-known/openid-configuration" => state.discoveries.fetch_add(1, Ordering::SeqCst),
        "/keys" => state.fetches.fetch_add(1, Ordering::SeqCst),
        _ => 0,
    };
    match (path, behaviour) {
        ("/token", _) => text(state.token(&claims(request.uri().query().unwrap_or_default()))),
        (_, Behaviour::Silent) => std::future::pending().await,
        (_, Behaviour::Failing) => status(StatusCode::SERVICE_UNAVAILABLE),
        ("/.well-known/openid-configuration", Behaviour::RedirectingDiscovery) => {
            redirect("/moved/discovery", json_body(&discovery(&state.url, behaviour)))
        }
        ("/.well-known/openid-configuration" | "/moved/discovery", _) => {
            json_body(&discovery(&state.url, behaviour))
        }
        ("/keys", Behaviour::RedirectingKeys) => {
            redirect("/moved/keys", json_body(&state.key_set()))
        }
        ("/keys", Behaviour::EndlessKeys) => endless(state.clone()),
        ("/keys", Behaviour::NoKeys) => json_body(&json!({"keys": []})),
        ("/keys" | "/moved/keys", _) => json_body(&state.key_set()),
        _ => status(StatusCode::NOT_FOUND),
    }
}

fn discovery(url: &str, behaviour: Behaviour) -> Value {
    let issuer =
        if behaviour == Behaviour::WrongIssuer { format!("{url}/other") } else { url.to_owned() };
    let keys = match behaviour {
        Behaviour::PlainKeysElsewhere => "http://keys.example/keys".to_owned(),
        _ => format!("{url}/keys"),
    };
    json!({
        "issuer": issuer,
        "jwks_uri": keys,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256"],
    })
}

/// `roles` is a list with commas and `exp_in` is in seconds from now, perhaps negative; the rest
/// are texts.
fn claims(query: &str) -> Value {
    let mut claims = Map::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
        match name {
            "exp_in" => {
                let seconds: i64 = value.parse().unwrap_or(0);
                let now =
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                claims.insert("exp".to_owned(), json!(now.saturating_add_signed(seconds)));
            }
            "roles" => {
                let roles: Vec<&str> = value.split(',').filter(|role| !role.is_empty()).collect();
                claims.insert("roles".to_owned(), json!(roles));
            }
            name => {
                claims.insert(name.to_owned(), json!(value));
            }
        }
    }
    Value::Object(claims)
}

fn full(content: String) -> Body {
    Full::new(Bytes::from(content)).boxed()
}

fn text(content: String) -> Response<Body> {
    let mut response = Response::new(full(content));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/plain"));
    response
}

fn json_body(value: &Value) -> Response<Body> {
    let mut response = Response::new(full(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("public, max-age=3600"));
    response
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(String::new()));
    *response.status_mut() = status;
    response
}

/// The body is what one would find there, so that neither may be used.
fn redirect(path: &'static str, mut response: Response<Body>) -> Response<Body> {
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(LOCATION, hyper::header::HeaderValue::from_static(path));
    response
}

/// A list of keys without end.
fn endless(state: Arc<State>) -> Response<Body> {
    let chunk = Bytes::from(format!("{{\"keys\": [{}", "{},".repeat(16 * 1024)));
    let chunks = std::iter::repeat_with(move || {
        state.endless_bytes.fetch_add(chunk.len(), Ordering::SeqCst);
        Ok(Frame::data(chunk.clone()))
    });
    Response::new(BodyExt::boxed(StreamBody::new(futures_util::stream::iter(chunks))))
}
