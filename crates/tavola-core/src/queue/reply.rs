//! What the Queue service answers, before it becomes bytes.

use super::message::{MessageId, MessageState};
use super::name::QueueName;
use super::receipt::PopReceipt;
use crate::metadata::Metadata;
use crate::policy::AccessPolicy;
use crate::properties::ServiceProperties;
use crate::time::DateTime;

/// One answer; each variant answers the request of the same name.
#[derive(Debug, Clone, PartialEq)]
pub enum QueueReply {
    /// A page of queues.
    Queues {
        /// In the order of their names.
        queues: Vec<Listed>,
        /// The name that the next page begins with.
        next: Option<String>,
    },
    /// The queue exists now.
    Created {
        /// False if it was there before, with the same metadata.
        is_new: bool,
    },
    /// The queue is gone.
    Deleted,
    /// The metadata of a queue.
    Metadata {
        /// What its owner noted.
        metadata: Metadata,
        /// The messages that it has, hidden ones too; never fewer than there are.
        messages: u64,
    },
    /// The metadata is replaced.
    MetadataSet,
    /// The policies of a queue.
    Policies(Vec<AccessPolicy>),
    /// The policies are replaced.
    PoliciesSet,
    /// The message is in the queue.
    Put(Enqueued),
    /// Messages that are now the caller's.
    Messages(Vec<Delivered>),
    /// Messages that anybody may take.
    Peeked(Vec<Peeked>),
    /// All messages are gone.
    Cleared,
    /// The message is the caller's for longer, or anybody's again.
    Updated(Updated),
    /// The message is gone.
    MessageDeleted,
    /// The service's properties.
    ServiceProperties(ServiceProperties),
    /// The service's properties are changed.
    ServicePropertiesSet,
    /// The secondary is level with the primary up to this time.
    ServiceStats(DateTime),
}

/// A queue of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its name.
    pub name: QueueName,
    /// Its metadata, if that was asked for.
    pub metadata: Option<Metadata>,
}

/// A message that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// Which one.
    pub id: MessageId,
    /// Its times.
    pub state: MessageState,
    /// By which it can be updated or deleted.
    pub receipt: PopReceipt,
}

/// A message that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Which one.
    pub id: MessageId,
    /// Its times and how often it was taken, this time included.
    pub state: MessageState,
    /// By which it can be updated or deleted.
    pub receipt: PopReceipt,
    /// What it says.
    pub text: String,
}

/// A message that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// Which one.
    pub id: MessageId,
    /// Its times and how often it was taken.
    pub state: MessageState,
    /// What it says.
    pub text: String,
}

/// A message that was updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updated {
    /// By which it can be updated or deleted now.
    pub receipt: PopReceipt,
    /// When it is visible next.
    pub visible_at: DateTime,
}
