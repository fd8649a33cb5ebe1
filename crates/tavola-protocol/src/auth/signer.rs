//! Who signed: which key of an account, and what. It tells credentials apart and opens nothing.

use tavola_core::ServiceKind;

use super::shared_key::Scheme;

/// One of the two keys of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNumber {
    /// `key1`
    First,
    /// `key2`
    Second,
}

impl KeyNumber {
    /// Reads `1` or `2`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "1" => Some(Self::First),
            "2" => Some(Self::Second),
            _ => None,
        }
    }

    /// 1 or 2.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::First => 1,
            Self::Second => 2,
        }
    }

    /// The key's name in the configuration.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::First => "key1",
            Self::Second => "key2",
        }
    }
}

/// What a key signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureKind {
    /// The request itself.
    Request(Scheme),
    /// A request to the admin port.
    Admin,
    /// A shared access signature for an account.
    AccountSas,
    /// A shared access signature for a container of one service: a table, a queue.
    ServiceSas(ServiceKind),
}

impl SignatureKind {
    /// The word that logs use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request(Scheme::SharedKey) => "shared-key",
            Self::Request(Scheme::SharedKeyLite) => "shared-key-lite",
            Self::Admin => "admin",
            Self::AccountSas => "account-sas",
            Self::ServiceSas(ServiceKind::Blob) => "blob-sas",
            Self::ServiceSas(ServiceKind::Queue) => "queue-sas",
            Self::ServiceSas(ServiceKind::Table) => "table-sas",
        }
    }

    /// A shared access signature, which can be handed on.
    #[must_use]
    pub const fn is_sas(self) -> bool {
        matches!(self, Self::AccountSas | Self::ServiceSas(_))
    }
}

/// Which key made the signature that let a request in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signer {
    /// The key.
    pub key: KeyNumber,
    /// What it signed.
    pub kind: SignatureKind,
}
