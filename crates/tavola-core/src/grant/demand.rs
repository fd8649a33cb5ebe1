//! What a request asks of a credential, in words that every service shares.

use super::{Permissions, Role};
use crate::key::{PartitionKey, RowKey};
use crate::service_kind::ServiceKind;

/// What one request, or one operation of a batch, asks for.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// The service that is asked.
    pub service: ServiceKind,
    /// What it is about.
    pub resource: Resource<'a>,
    /// The letters of `sp` that open it.
    pub letters: Letters,
    /// The letters of `srt` of which an account's signature needs one; `None` if no such signature
    /// can open it.
    pub resource_types: Option<&'static str>,
    /// The least role of a token's bearer; `None` if the service has no such resource for tokens.
    pub role: Option<Role>,
    /// The one object that is asked for, if it is one; only a signature with a range of keys asks.
    pub key: Option<(&'a PartitionKey, &'a RowKey)>,
}

/// What a request is about, as far as credentials are concerned. A *container* is a table, a queue,
/// or a container of blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The service itself.
    Service,
    /// The list of containers.
    Containers,
    /// A container as such.
    Container(&'a str),
    /// What is in a container: entities, messages, blobs.
    Objects(&'a str),
    /// The access policies of a container.
    Policies(&'a str),
}

impl<'a> Resource<'a> {
    /// The container for which a role can be given out. Its policies are the account's matter.
    #[must_use]
    pub fn container(self) -> Option<&'a str> {
        match self {
            Self::Container(name) | Self::Objects(name) => Some(name),
            Self::Service | Self::Containers | Self::Policies(_) => None,
        }
    }
}

/// The letters of `sp` that open something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// One of them is enough.
    Any(&'static str),
    /// Every one of them is needed.
    All(&'static str),
}

impl Letters {
    pub(super) fn are_in(self, permissions: Permissions) -> bool {
        match self {
            Self::Any(letters) => letters.chars().any(|letter| permissions.has(letter)),
            Self::All(letters) => letters.chars().all(|letter| permissions.has(letter)),
        }
    }
}
