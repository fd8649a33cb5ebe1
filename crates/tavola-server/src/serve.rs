//! One server from its configuration to its end.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::admin::serve_admin;
use crate::config::Config;
use crate::listener::serve_tables;
use crate::node::Node;
use crate::tls::TlsReloader;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the {what}: {source}; choose another port, or 0 for a free one")]
pub struct ServerError {
    what: &'static str,
    address: SocketAddr,
    source: std::io::Error,
}

/// A server whose sockets accept already.
#[derive(Debug)]
pub struct Server {
    tables: TcpListener,
    tls: Option<Arc<TlsReloader>>,
    admin: TcpListener,
}

impl Server {
    /// Opens the sockets. With `tls` the Table service speaks https.
    ///
    /// # Errors
    /// If an address cannot be had.
    pub async fn bind(config: &Config, tls: Option<Arc<TlsReloader>>) -> Result<Self, ServerError> {
        let tables = bind("Table service", config.table).await?;
        let admin = match bind("admin port", config.admin).await {
            // Azurite has no such port, so it must not keep a second emulator from starting.
            Err(_) if config.admin_port_is_open => bind("admin port", SocketAddr::new(config.admin.ip(), 0)).await?,
            result => result?,
        };
        Ok(Self { tables, tls, admin })
    }

    /// Where the Table service listens, with the port that was chosen.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn table_address(&self) -> std::io::Result<SocketAddr> {
        self.tables.local_addr()
    }

    /// Where health and metrics listen, with the port that was chosen.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn admin_address(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Serves until `stop` turns true and open requests have finished. The admin port answers until the end.
    pub async fn run(self, node: Arc<Node>, stop: watch::Receiver<bool>) {
        let (stop_admin, admin_stopped) = watch::channel(false);
        let admin = tokio::spawn(serve_admin(self.admin, Arc::clone(&node), admin_stopped));
        node.tokens().start();
        let reclaimer = tokio::spawn(node.tables.reclaimer().run());
        let renewals = self.tls.clone().map(|tls| tokio::spawn(tls.watch(stop.clone())));
        serve_tables(self.tables, self.tls, node, stop).await;
        renewals.inspect(tokio::task::JoinHandle::abort);
        reclaimer.abort();
        let _no_receiver_left = stop_admin.send(true);
        let _ended = admin.await;
    }
}

async fn bind(what: &'static str, address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|source| ServerError { what, address, source })
}
