//! One server from its configuration to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use crate::admin::serve_admin;
use crate::config::Config;
use crate::listener::serve_tables;
use crate::node::Node;
use crate::tls::TlsReloader;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the {what}: {source}; {}", advice(source))]
pub struct ServerError {
    what: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// What to do about it.
fn advice(error: &io::Error) -> &'static str {
    match (error.kind(), Errno::from_io_error(error)) {
        (_, Some(Errno::MFILE | Errno::NFILE)) => {
            "there are no file descriptors left: raise the limit of open files (ulimit -n, LimitNOFILE)"
        }
        (io::ErrorKind::AddrNotAvailable, _) => {
            "this machine does not have the address: choose one that it has (--host)"
        }
        (io::ErrorKind::PermissionDenied, _) => {
            "ports below 1024 need a privilege: choose another port"
        }
        _ => "choose another port, or 0 for a free one",
    }
}

/// The ports of a server that does not listen yet: nobody else can have them, and nobody can
/// connect.
#[derive(Debug)]
pub struct ReservedPorts {
    tables: Reserved,
    admin: Reserved,
}

impl ReservedPorts {
    /// Takes the ports.
    ///
    /// # Errors
    /// If an address cannot be had.
    pub fn take(config: &Config) -> Result<Self, ServerError> {
        let tables = Reserved::take("Table service", config.table)?;
        let admin = match Reserved::take("admin port", config.admin) {
            // Azurite has no such port, so it must not keep a second emulator from starting.
            Err(_) if config.admin_port_is_open => {
                Reserved::take("admin port", SocketAddr::new(config.admin.ip(), 0))?
            }
            result => result?,
        };
        Ok(Self { tables, admin })
    }

    /// Accepts connections from now on. With `tls` the Table service speaks https.
    ///
    /// # Errors
    /// If another process began to listen on a port that both had taken.
    pub fn listen(self, tls: Option<Arc<TlsReloader>>) -> Result<Server, ServerError> {
        Ok(Server { tables: self.tables.listen()?, tls, admin: self.admin.listen()? })
    }
}

#[derive(Debug)]
struct Reserved {
    what: &'static str,
    address: SocketAddr,
    socket: TcpSocket,
}

/// As many as the standard library lets wait to be accepted.
const BACKLOG: u32 = 1024;

impl Reserved {
    fn take(what: &'static str, address: SocketAddr) -> Result<Self, ServerError> {
        let bind = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // A server that was just stopped leaves connections behind, which must not keep the
            // next one from starting.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        };
        bind().map(|socket| Self { what, address, socket }).map_err(|source| ServerError {
            what,
            address,
            source,
        })
    }

    fn listen(self) -> Result<TcpListener, ServerError> {
        let Self { what, address, socket } = self;
        socket.listen(BACKLOG).map_err(|source| ServerError { what, address, source })
    }
}

/// A server whose sockets accept already.
#[derive(Debug)]
pub struct Server {
    tables: TcpListener,
    tls: Option<Arc<TlsReloader>>,
    admin: TcpListener,
}

impl Server {
    /// Takes the ports and accepts connections. With `tls` the Table service speaks https.
    ///
    /// # Errors
    /// If an address cannot be had.
    pub async fn bind(config: &Config, tls: Option<Arc<TlsReloader>>) -> Result<Self, ServerError> {
        ReservedPorts::take(config)?.listen(tls)
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

    /// Serves until `stop` turns true and open requests have finished. The admin port answers until
    /// the end.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_the_reason() {
        for (error, words) in [
            (Errno::MFILE, "raise the limit of open files"),
            (Errno::NFILE, "raise the limit of open files"),
            (Errno::ADDRINUSE, "choose another port"),
            (Errno::ADDRNOTAVAIL, "does not have the address"),
            (Errno::ACCESS, "need a privilege"),
        ] {
            let said = advice(&error.into());
            assert!(said.contains(words), "{error}: {said}");
        }
    }

    #[tokio::test]
    async fn a_reserved_port_takes_no_connection_and_nobody_else_gets_it() {
        let reserved = Reserved::take("test", SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = reserved.socket.local_addr().unwrap();
        let refused = tokio::net::TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listening = reserved.listen().unwrap();
        tokio::net::TcpStream::connect(address).await.unwrap();
        let taken = Reserved::take("test", address).unwrap_err();
        assert!(taken.to_string().contains("choose another port"), "{taken}");
    }
}
