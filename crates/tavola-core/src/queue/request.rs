//! What a client can ask of the Queue service, once its bytes are understood.

use super::message::{MessageId, TimeToLive};
use super::name::QueueName;
use super::receipt::PopReceipt;
use crate::metadata::Metadata;
use crate::policy::AccessPolicy;
use crate::properties::ServicePropertiesChange;

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueRequest {
    /// One page of the account's queues.
    ListQueues(ListQueues),
    /// Create a queue.
    CreateQueue(QueueName, Metadata),
    /// Delete a queue with its messages.
    DeleteQueue(QueueName),
    /// The metadata of a queue, and how many messages it has.
    GetMetadata(QueueName),
    /// Replace the metadata of a queue.
    SetMetadata(QueueName, Metadata),
    /// The access policies of a queue.
    GetPolicies(QueueName),
    /// Replace the access policies of a queue.
    SetPolicies(QueueName, Vec<AccessPolicy>),
    /// Put a message.
    PutMessage {
        /// Into this queue.
        queue: QueueName,
        /// What it says, exactly.
        text: String,
        /// How long it lives.
        time_to_live: TimeToLive,
        /// For how many seconds nobody can take it.
        hidden_for: u32,
    },
    /// Take messages.
    GetMessages {
        /// Of this queue.
        queue: QueueName,
        /// So many at most.
        count: u32,
        /// For how many seconds nobody else can.
        hidden_for: u32,
    },
    /// Look at messages.
    PeekMessages {
        /// Of this queue.
        queue: QueueName,
        /// At so many at most.
        count: u32,
    },
    /// Delete all messages of a queue.
    ClearMessages(QueueName),
    /// Keep a message for longer or release it, and maybe replace its text.
    UpdateMessage {
        /// Of this queue.
        queue: QueueName,
        /// Which one.
        id: MessageId,
        /// That it is still the caller's.
        receipt: PopReceipt,
        /// For how many seconds nobody else can take it.
        hidden_for: u32,
        /// Its new text.
        text: Option<String>,
    },
    /// Delete a message.
    DeleteMessage {
        /// Of this queue.
        queue: QueueName,
        /// Which one.
        id: MessageId,
        /// That it is still the caller's.
        receipt: PopReceipt,
    },
    /// The service's properties.
    GetServiceProperties,
    /// Change the service's properties.
    SetServiceProperties(ServicePropertiesChange),
    /// How the secondary is doing.
    GetServiceStats,
}

/// Which queues to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQueues {
    /// Names that begin so.
    pub prefix: String,
    /// From this name on.
    pub from: Option<String>,
    /// So many at most.
    pub max_results: Option<u32>,
    /// With their metadata.
    pub with_metadata: bool,
}

impl QueueRequest {
    /// The queue that it is about.
    #[must_use]
    pub fn queue(&self) -> Option<&QueueName> {
        match self {
            Self::ListQueues(_)
            | Self::GetServiceProperties
            | Self::SetServiceProperties(_)
            | Self::GetServiceStats => None,
            Self::CreateQueue(queue, _)
            | Self::DeleteQueue(queue)
            | Self::GetMetadata(queue)
            | Self::SetMetadata(queue, _)
            | Self::GetPolicies(queue)
            | Self::SetPolicies(queue, _)
            | Self::ClearMessages(queue)
            | Self::PutMessage { queue, .. }
            | Self::GetMessages { queue, .. }
            | Self::PeekMessages { queue, .. }
            | Self::UpdateMessage { queue, .. }
            | Self::DeleteMessage { queue, .. } => Some(queue),
        }
    }

    /// True if the request can change something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        match self {
            Self::CreateQueue(..)
            | Self::DeleteQueue(_)
            | Self::SetMetadata(..)
            | Self::SetPolicies(..)
            | Self::PutMessage { .. }
            | Self::GetMessages { .. }
            | Self::ClearMessages(_)
            | Self::UpdateMessage { .. }
            | Self::DeleteMessage { .. }
            | Self::SetServiceProperties(_) => true,
            Self::ListQueues(_)
            | Self::GetMetadata(_)
            | Self::GetPolicies(_)
            | Self::PeekMessages { .. }
            | Self::GetServiceProperties
            | Self::GetServiceStats => false,
        }
    }

    /// The operation's name in logs and metrics, as Storage Analytics spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::ListQueues(_) => "ListQueues",
            Self::CreateQueue(..) => "CreateQueue",
            Self::DeleteQueue(_) => "DeleteQueue",
            Self::GetMetadata(_) => "GetQueueMetadata",
            Self::SetMetadata(..) => "SetQueueMetadata",
            Self::GetPolicies(_) => "GetQueueACL",
            Self::SetPolicies(..) => "SetQueueACL",
            Self::PutMessage { .. } => "PutMessage",
            Self::GetMessages { count: 1, .. } => "GetMessage",
            Self::GetMessages { .. } => "GetMessages",
            Self::PeekMessages { count: 1, .. } => "PeekMessage",
            Self::PeekMessages { .. } => "PeekMessages",
            Self::ClearMessages(_) => "ClearMessages",
            Self::UpdateMessage { .. } => "UpdateMessage",
            Self::DeleteMessage { .. } => "DeleteMessage",
            Self::GetServiceProperties => "GetQueueServiceProperties",
            Self::SetServiceProperties(_) => "SetQueueServiceProperties",
            Self::GetServiceStats => "GetQueueServiceStats",
        }
    }
}
