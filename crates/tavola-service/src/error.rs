//! Why a request was not carried out.

use tavola_core::{DomainError, FailedOperation};
use tavola_fair::OverBudget;
use tavola_store::StoreError;

/// A refusal of the domain, or trouble in the store.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The domain says no to the request.
    #[error("refused: {0:?}")]
    Refused(DomainError),
    /// The domain says no to one operation of a transaction, and so to all of it.
    #[error("operation {} refused: {:?}", .0.index, .0.domain_error)]
    OperationRefused(FailedOperation),
    /// More entities of the partition were asked for than its budget has; nothing was read or
    /// written.
    #[error("the partition is over its budget")]
    PartitionOverBudget,
    /// The request's time is over, or nobody waits for its answer any more; it only read.
    #[error("stopped after {rows_read} rows were read")]
    Stopped {
        /// How many rows were looked at for nothing.
        rows_read: u64,
    },
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DomainError> for ServiceError {
    fn from(domain_error: DomainError) -> Self {
        Self::Refused(domain_error)
    }
}

impl From<OverBudget> for ServiceError {
    fn from(OverBudget: OverBudget) -> Self {
        Self::PartitionOverBudget
    }
}
