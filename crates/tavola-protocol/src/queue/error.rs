//! What can be wrong with a request to the Queue service, and what it says to it.

use tavola_core::AccessError;
use tavola_core::queue::{MessageError, QueueNameError};

use crate::api_error::{ApiError, ErrorParts, ServiceApiError, error};
use crate::xml::XmlError;

/// Why a request to the Queue service gets an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueError {
    /// What any service says.
    Common(ApiError),
    /// A name that no queue can have.
    Name(QueueNameError),
    /// A marker that no list gave out.
    InvalidMarker,
    /// There is no such queue.
    QueueNotFound,
    /// There is one, with other metadata.
    QueueAlreadyExists,
    /// There is no such message, or it is no longer the caller's.
    MessageNotFound,
    /// There is such a message, and the receipt is of an earlier time.
    PopReceiptMismatch,
}

impl From<ApiError> for QueueError {
    fn from(api_error: ApiError) -> Self {
        Self::Common(api_error)
    }
}

impl From<AccessError> for QueueError {
    fn from(error: AccessError) -> Self {
        Self::Common(error.into())
    }
}

impl From<XmlError> for QueueError {
    fn from(error: XmlError) -> Self {
        Self::Common(error.into())
    }
}

impl From<QueueNameError> for QueueError {
    fn from(error: QueueNameError) -> Self {
        Self::Name(error)
    }
}

impl From<MessageError> for QueueError {
    fn from(error: MessageError) -> Self {
        match error {
            // The service does not tell a lost message from a lost receipt.
            MessageError::NotFound | MessageError::StaleReceipt | MessageError::Hidden => {
                Self::MessageNotFound
            }
        }
    }
}

impl ServiceApiError for QueueError {
    /// Texts are the service's own: people search them.
    fn parts(&self) -> ErrorParts {
        match self {
            Self::Common(api_error) => api_error.parts(),
            Self::Name(QueueNameError::Length) => error(400, "OutOfRangeInput", NAME_LENGTH),
            Self::Name(QueueNameError::Characters) => {
                error(400, "InvalidResourceName", NAME_CHARACTERS)
            }
            Self::InvalidMarker => error(400, "InvalidMarker", INVALID_MARKER),
            Self::QueueNotFound => error(404, "QueueNotFound", QUEUE_NOT_FOUND),
            Self::QueueAlreadyExists => error(409, "QueueAlreadyExists", QUEUE_EXISTS),
            Self::MessageNotFound => error(404, "MessageNotFound", MESSAGE_NOT_FOUND),
            Self::PopReceiptMismatch => error(400, "PopReceiptMismatch", POP_RECEIPT_MISMATCH),
        }
    }

    fn common(&self) -> Option<&ApiError> {
        match self {
            Self::Common(api_error) => Some(api_error),
            _ => None,
        }
    }
}

const NAME_LENGTH: &str =
    "The specified resource name length is not within the permissible limits.";
const NAME_CHARACTERS: &str = "The specified resource name contains invalid characters.";
const INVALID_MARKER: &str = "The specified marker is invalid.";
const QUEUE_NOT_FOUND: &str = "The specified queue does not exist.";
const QUEUE_EXISTS: &str = "The specified queue already exists.";
const MESSAGE_NOT_FOUND: &str = "The specified message does not exist.";
const POP_RECEIPT_MISMATCH: &str =
    "The specified pop receipt did not match the pop receipt for a dequeued message.";
