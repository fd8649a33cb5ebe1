//! Threads that may wait for a disk.
//!
//! A store must not keep a thread waiting that serves sockets, so it hands work that may wait over
//! to another one. On a thread that is there for such work that would be a detour; whoever makes
//! one says so here.

use std::cell::Cell;

thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// From now on this thread may wait.
pub fn let_this_thread_wait() {
    MAY_WAIT.set(true);
}

/// True if this thread may wait.
#[must_use]
pub fn this_thread_may_wait() -> bool {
    MAY_WAIT.get()
}

#[cfg(test)]
mod tests {
    use super::{let_this_thread_wait, this_thread_may_wait};

    #[test]
    fn each_thread_for_itself() {
        assert!(!this_thread_may_wait());
        let_this_thread_wait();
        assert!(this_thread_may_wait());
        assert!(!std::thread::spawn(this_thread_may_wait).join().unwrap());
    }
}
