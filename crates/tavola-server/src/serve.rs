//! One server from its configuration to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use rustix::io::Errno;
use tavola_core::ServiceKind;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use crate::admin::serve_admin;
use crate::config::{Config, ListenerConfig};
use crate::listener;
use crate::node::Node;
use crate::service::Service;
use crate::tls::TlsReloader;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the {what}: {source}; {}", advice(source))]
pub struct ServerError {
    what: String,
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
    services: Vec<(ServiceKind, Reserved)>,
    admin: Reserved,
}

impl ReservedPorts {
    /// Takes the ports.
    ///
    /// # Errors
    /// If an address cannot be had.
    pub fn take(config: &Config) -> Result<Self, ServerError> {
        let take = |listener: &ListenerConfig| {
            let what = format!("{} service", listener.service.title());
            Reserved::take(&what, listener.address).map(|port| (listener.service, port))
        };
        let services = config.listeners.iter().map(take).collect::<Result<_, _>>()?;
        let admin = match Reserved::take("admin port", config.admin) {
            // Azurite has no such port, so it must not keep a second emulator from starting.
            Err(_) if config.admin_port_is_open => {
                Reserved::take("admin port", SocketAddr::new(config.admin.ip(), 0))?
            }
            result => result?,
        };
        Ok(Self { services, admin })
    }

    /// Accepts connections from now on. With `tls` the services speak https.
    ///
    /// # Errors
    /// If another process began to listen on a port that both had taken.
    pub fn listen(self, tls: Option<Arc<TlsReloader>>) -> Result<Server, ServerError> {
        let listen = |(service, port): (_, Reserved)| Ok((service, port.listen()?));
        let services = self.services.into_iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Server { services, tls, admin: self.admin.listen()? })
    }
}

#[derive(Debug)]
struct Reserved {
    what: String,
    address: SocketAddr,
    socket: TcpSocket,
}

/// As many as the standard library lets wait to be accepted.
const BACKLOG: u32 = 1024;

impl Reserved {
    fn take(what: &str, address: SocketAddr) -> Result<Self, ServerError> {
        let what = what.to_owned();
        let bind = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // A server that was just stopped leaves connections behind, which must not keep the
            // next one from starting.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        };
        match bind() {
            Ok(socket) => Ok(Self { what, address, socket }),
            Err(source) => Err(ServerError { what, address, source }),
        }
    }

    fn listen(self) -> Result<TcpListener, ServerError> {
        let Self { what, address, socket } = self;
        socket.listen(BACKLOG).map_err(|source| ServerError { what, address, source })
    }
}

/// A service that can be served: any [`Service`], whatever its types.
pub trait Servable: Send + Sync {
    /// Which one.
    fn kind(&self) -> ServiceKind;

    /// Serves it on `listener` until `stop` turns true and open requests have finished.
    fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Option<Arc<TlsReloader>>,
        node: Arc<Node>,
        stop: watch::Receiver<bool>,
    ) -> BoxFuture<'static, ()>;
}

impl<S: Service> Servable for S {
    fn kind(&self) -> ServiceKind {
        S::KIND
    }

    fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Option<Arc<TlsReloader>>,
        node: Arc<Node>,
        stop: watch::Receiver<bool>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let background = tokio::spawn(Arc::clone(&self).background());
            listener::serve(listener, tls, node, self, stop).await;
            background.abort();
        })
    }
}

/// A server whose sockets accept already.
#[derive(Debug)]
pub struct Server {
    services: Vec<(ServiceKind, TcpListener)>,
    tls: Option<Arc<TlsReloader>>,
    admin: TcpListener,
}

impl Server {
    /// Takes the ports and accepts connections. With `tls` the services speak https.
    ///
    /// # Errors
    /// If an address cannot be had.
    pub async fn bind(config: &Config, tls: Option<Arc<TlsReloader>>) -> Result<Self, ServerError> {
        ReservedPorts::take(config)?.listen(tls)
    }

    /// Where a service listens, with the port that was chosen.
    ///
    /// # Errors
    /// If it does not listen, or the system cannot tell.
    pub fn address(&self, service: ServiceKind) -> io::Result<SocketAddr> {
        let listener = self.services.iter().find(|(kind, _)| *kind == service);
        let (_, listener) = listener.ok_or(io::ErrorKind::NotConnected)?;
        listener.local_addr()
    }

    /// Where health and metrics listen, with the port that was chosen.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn admin_address(&self) -> io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Serves until `stop` turns true and open requests have finished. The admin port answers until
    /// the end.
    ///
    /// # Panics
    /// If a service that listens is not among `services`.
    pub async fn run(
        self,
        node: Arc<Node>,
        services: Vec<Arc<dyn Servable>>,
        stop: watch::Receiver<bool>,
    ) {
        let (stop_admin, admin_stopped) = watch::channel(false);
        let admin = tokio::spawn(serve_admin(self.admin, Arc::clone(&node), admin_stopped));
        node.tokens().start();
        let renewals = self.tls.clone().map(|tls| tokio::spawn(tls.watch(stop.clone())));
        let serving = self.services.into_iter().map(|(kind, listener)| {
            let service = services.iter().find(|service| service.kind() == kind);
            let service = Arc::clone(service.expect("every service that listens is given"));
            service.serve(listener, self.tls.clone(), Arc::clone(&node), stop.clone())
        });
        join_all(serving).await;
        renewals.inspect(tokio::task::JoinHandle::abort);
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
