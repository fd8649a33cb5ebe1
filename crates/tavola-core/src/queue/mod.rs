//! The domain of the Queue service: names, messages and what may happen to them, requests, replies
//! and what they demand of a credential.

mod demands;
mod limits;
mod message;
mod name;
mod receipt;
mod reply;
mod request;

pub use demands::demands;
pub use limits::{
    BODY_BYTES_MAX, GET_VISIBILITY_SECONDS, LIST_PAGE_MAX, MESSAGES_MAX, TEXT_BYTES_MAX,
    VISIBILITY_SECONDS_MAX,
};
pub use message::{
    Event, MessageChange, MessageError, MessageId, MessageState, Phase, TimeToLive, decide,
};
pub use name::{QueueName, QueueNameError};
pub use receipt::PopReceipt;
pub use reply::{Delivered, Enqueued, Listed, Peeked, QueueReply, Updated};
pub use request::{ListQueues, QueueRequest};
