//! Trouble: what goes wrong in a store, as opposed to what the domain refuses.

use std::error::Error;

/// Why a store could not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Too many writers wanted the same rows, or the queue is full; nothing was written. Asking
    /// again may help.
    #[error("too many writers at once")]
    Contended,
    /// The engine cannot serve now; nothing was written.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// What a person should read.
        reason: String,
        /// The engine's own error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// There is no room for more; nothing was written. What is there can be read, and room can be
    /// made.
    #[error("there is no room for more: {reason}")]
    Full {
        /// What a person should read.
        reason: String,
    },
    /// Stored bytes are not what was written.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The commit may or may not have been applied. See [`crate::Store`].
    #[error("the outcome of the write is unknown")]
    UnknownOutcome,
}

impl StoreError {
    /// [`StoreError::Unavailable`] from an engine's error.
    pub fn unavailable(
        reason: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable { reason: reason.into(), source: Some(source.into()) }
    }
}
