//! The places of the admin port. A new connection always gets one: if all are taken, the oldest
//! connection of the address that has most of them is closed for it. Whoever holds connections open
//! keeps nobody from asking for health or metrics.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections at a time.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// The open connections, oldest first.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Vec<Arc<Connection>>>);

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    /// A change is made on it, whose answer holds what nobody can read again.
    is_kept: AtomicBool,
    close: Notify,
}

/// The place of one connection, which it has until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    connection: Arc<Connection>,
    connections: Arc<Connections>,
}

impl Connections {
    /// A place for a connection from there; `None` if changes are made on all others.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let mut open = self.open();
        if open.len() >= CONNECTIONS_MAX {
            let index = least_missed(&open)?;
            let closed = open.remove(index);
            closed.close.notify_one();
        }
        let connection =
            Arc::new(Connection { peer, is_kept: AtomicBool::new(false), close: Notify::new() });
        open.push(Arc::clone(&connection));
        drop(open);
        Some(Place { connection, connections: Arc::clone(self) })
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest connection of the address that has most of them.
fn least_missed(open: &[Arc<Connection>]) -> Option<usize> {
    let of_peer = |peer: IpAddr| open.iter().filter(|connection| connection.peer == peer).count();
    let candidates = open
        .iter()
        .enumerate()
        .filter(|(_, connection)| !connection.is_kept.load(Ordering::Relaxed));
    // Of several that are equal `max_by_key` takes the last.
    candidates.rev().max_by_key(|(_, connection)| of_peer(connection.peer)).map(|(index, _)| index)
}

impl Place {
    /// Returns once the place is needed for another connection.
    pub(super) async fn is_needed(&self) {
        self.connection.close.notified().await;
    }

    /// Does not give the place away any more.
    pub(super) fn keep(&self) {
        self.connection.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open().retain(|connection| !Arc::ptr_eq(connection, &self.connection));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::{CONNECTIONS_MAX, Connections, Place};

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn is_closed(place: &Place) -> bool {
        place.is_needed().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_of_the_address_with_most_gives_way() {
        let connections = Arc::new(Connections::default());
        let polite = connections.enter(peer(1)).unwrap();
        let mut held: Vec<Place> =
            (1..CONNECTIONS_MAX).map(|_| connections.enter(peer(2)).unwrap()).collect();
        let new = connections.enter(peer(3)).unwrap();
        assert!(
            is_closed(&held[0]) && !is_closed(&held[1]) && !is_closed(&polite) && !is_closed(&new)
        );
        held.remove(0);
        let newer = connections.enter(peer(2)).unwrap();
        assert!(is_closed(&held[0]) && !is_closed(&newer));
        assert_eq!(connections.open().len(), CONNECTIONS_MAX);
    }

    #[test]
    fn a_place_is_free_when_its_connection_ends() {
        let connections = Arc::new(Connections::default());
        for _ in 0..2 * CONNECTIONS_MAX {
            drop(connections.enter(peer(1)).unwrap());
        }
        assert!(connections.open().is_empty());
    }

    #[test]
    fn changes_are_not_cut_short() {
        let connections = Arc::new(Connections::default());
        let places: Vec<Place> =
            (0..CONNECTIONS_MAX).map(|_| connections.enter(peer(1)).unwrap()).collect();
        places.iter().skip(1).for_each(Place::keep);
        let last = connections.enter(peer(1)).unwrap();
        assert!(is_closed(&places[0]));
        last.keep();
        assert!(connections.enter(peer(2)).is_none());
    }
}
