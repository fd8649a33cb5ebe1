//! A connection over TLS: the handshake, and then the version of HTTP that it agreed on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::server::graceful::Watcher;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::slow_peer::SlowPeerTimeout;
use super::{Endpoint, ended, http2, serve_http1};
use crate::connection::{Connection, Scheme};
use crate::service::Service;
use crate::tls::{ClientCertificate, refused_certificate};

/// For those who forgot the `s`.
const SPEAK_HTTPS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\
    Content-Length: 48\r\n\r\nThis port speaks https: use https:// in the URL\n";
/// A request head that is worth such an answer is in the first packets.
const CLEAR_TEXT_MAX: usize = 4096;

/// Serves one connection from its handshake to its end. `graceful` is held until then: the server
/// waits for it.
pub(super) async fn serve<S: Service>(
    stream: TcpStream,
    peer: SocketAddr,
    config: Arc<ServerConfig>,
    endpoint: Endpoint<S>,
    graceful: Watcher,
    mut stop: watch::Receiver<bool>,
) {
    let node = &endpoint.node;
    let handshake = handshake(stream, config, node.limits.body_time);
    let handshake = tokio::time::timeout(node.limits.header_time, handshake);
    let stream = tokio::select! {
        result = handshake => match result {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                if let Some(reason) = refused_certificate(&error) {
                    node.telemetry.record_handshake(peer.ip(), reason);
                }
                return ended(peer, &error);
            }
            Err(elapsed) => return ended(peer, &elapsed),
        },
        _ = stop.wait_for(|stop| *stop) => return,
    };
    let client_certificate = ClientCertificate::of(stream.get_ref().1);
    let connection = Connection { client_certificate, ..Connection::new(peer, Scheme::Https) };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(stream, connection, endpoint, stop).await;
        drop(graceful);
    } else {
        serve_http1(stream, connection, endpoint, graceful).await;
    }
}

/// Who speaks plain HTTP is told so instead of getting an alert that no HTTP client understands.
pub(super) async fn handshake(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    patience: Duration,
) -> std::io::Result<TlsStream<SlowPeerTimeout<TcpStream>>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        // Closing with bytes unread would take the answer away again.
        let _request = stream.read(&mut [0; CLEAR_TEXT_MAX]).await?;
        stream.write_all(SPEAK_HTTPS).await?;
        stream.shutdown().await?;
        return Err(std::io::Error::other("plain HTTP on a port that speaks https"));
    }
    TlsAcceptor::from(config).accept(SlowPeerTimeout::new(stream, patience)).await
}
