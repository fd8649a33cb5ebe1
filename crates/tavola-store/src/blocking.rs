//! Whether a call may block its thread.

/// Whether a store may block the calling thread while it waits for a disk. A store that waits
/// without a thread has no use for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Blocking {
    /// The thread serves sockets, so that other requests would wait with it: a read that may have to
    /// wait is handed over to a thread that may.
    #[default]
    Forbidden,
    /// The thread is there for such work, and a hand-over would be a detour.
    Allowed,
}
