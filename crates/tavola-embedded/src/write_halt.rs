//! Why writes are halted, and whether that ends by itself.

use std::sync::{PoisonError, RwLock};

use tavola_store::StoreError;

/// Why nothing is acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteHalt {
    /// A write failed, and the content of the disk is unknown: until the store is opened again.
    Broken(String),
    /// The engine ran out of space. It recovers by itself once there is some.
    Full(String),
}

impl WriteHalt {
    /// The error of a writer of which nothing was written.
    pub(crate) fn refusal(&self) -> StoreError {
        match self {
            Self::Broken(reason) => {
                StoreError::Unavailable { reason: reason.clone(), source: None }
            }
            Self::Full(reason) => StoreError::Full { reason: reason.clone() },
        }
    }
}

/// Whether the writes of a store are halted.
#[derive(Debug, Default)]
pub(crate) struct HaltState(RwLock<Option<WriteHalt>>);

impl HaltState {
    pub(crate) fn get(&self) -> Option<WriteHalt> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nothing is acknowledged until the store is opened again.
    pub(crate) fn broken(&self, what: &str) {
        let reason = format!("{what}; nothing is acknowledged until the server is started again");
        tracing::error!(reason, "the store stops taking writes");
        self.raise(WriteHalt::Broken(reason));
    }

    /// A compaction read a damaged block, after which the engine refuses writes. Opened again it
    /// takes them, and does not compact (`damage`).
    pub(crate) fn stopped_by_damage(&self, damage: &str) {
        let reason = format!(
            "{damage}. A compaction met it, after which the storage engine takes no more writes until the server is started \
             again; then it does"
        );
        tracing::error!(reason, "the store stops taking writes");
        self.raise(WriteHalt::Broken(reason));
    }

    /// Nothing is acknowledged until the engine has recovered.
    pub(crate) fn full(&self, what: &str) {
        let reason = format!(
            "the disk is full: {what}. Make room; writes are taken again when the engine has recovered"
        );
        if self.get().is_none() {
            tracing::error!(reason, "the store stops taking writes until there is room");
        }
        self.raise(WriteHalt::Full(reason));
    }

    /// The engine writes again.
    pub(crate) fn recovered(&self) {
        tracing::info!("the engine has recovered; the store takes writes again");
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        assert!(
            !matches!(&*current, Some(WriteHalt::Broken(_))),
            "only opening the store again ends this halt"
        );
        *current = None;
    }

    /// Keeps the first reason, unless a worse one comes.
    fn raise(&self, halt: WriteHalt) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_worse =
            matches!((&*current, &halt), (Some(WriteHalt::Full(_)), WriteHalt::Broken(_)));
        if current.is_none() || is_worse {
            *current = Some(halt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HaltState, WriteHalt};

    #[test]
    fn the_first_reason_stays_unless_a_worse_one_comes() {
        let halt = HaltState::default();
        assert_eq!(halt.get(), None);
        let reason = || match halt.get() {
            Some(WriteHalt::Full(reason) | WriteHalt::Broken(reason)) => reason,
            None => String::new(),
        };
        halt.full("one");
        halt.full("two");
        assert!(reason().contains("one"));
        halt.broken("three");
        halt.full("four");
        halt.broken("five");
        assert!(reason().contains("three"));
    }
}
