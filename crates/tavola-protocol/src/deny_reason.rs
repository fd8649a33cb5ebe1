//! Why a request was refused, in one word for logs, counters and alerts.
//!
//! The client is told what the service tells it, which is often one code for many causes. An
//! operator must be able to tell a client whose clock is wrong from one who guesses keys.

use tavola_core::AccessError;

use crate::api_error::ApiError;

/// The cause of a refusal. Never holds anything of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DenyReason {
    /// The request names an account that the server does not have.
    UnknownAccount,
    /// No credentials at all.
    Missing,
    /// Credentials that cannot be read: a header, a field of a signature, a token.
    Malformed,
    /// Credentials of another account than the one in the URL.
    OtherAccount,
    /// A signature that no key of the account made, or a token that its issuer did not sign.
    Signature,
    /// The request's date is missing, or too far from the server's clock.
    Clock,
    /// The signature or token was good once.
    Expired,
    /// The signature or token will be good later.
    NotYet,
    /// The signature names an access policy that does not exist, or that contradicts it.
    Policy,
    /// A token of an issuer, or for an audience, that does not count here.
    Issuer,
    /// The signature opens other services.
    Service,
    /// The credential needs https.
    Protocol,
    /// The client's address is not among those that the account or the signature admits.
    Address,
    /// The host name or the page that sent the request is not admitted.
    Origin,
    /// The credential opens the resource, but not for this operation.
    Permission,
    /// The credential opens another kind of resource.
    ResourceType,
    /// The credential opens another resource.
    Resource,
    /// The entity's keys lie outside the signed range.
    Range,
    /// The account, or this endpoint of it, takes no writes.
    ReadOnly,
}

impl DenyReason {
    /// Every reason, in the order of the list above.
    pub const ALL: [Self; 19] = [
        Self::UnknownAccount,
        Self::Missing,
        Self::Malformed,
        Self::OtherAccount,
        Self::Signature,
        Self::Clock,
        Self::Expired,
        Self::NotYet,
        Self::Policy,
        Self::Issuer,
        Self::Service,
        Self::Protocol,
        Self::Address,
        Self::Origin,
        Self::Permission,
        Self::ResourceType,
        Self::Resource,
        Self::Range,
        Self::ReadOnly,
    ];

    /// The word that logs and metrics use. Operators search for it, so it never changes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownAccount => "unknown-account",
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::OtherAccount => "other-account",
            Self::Signature => "signature",
            Self::Clock => "clock",
            Self::Expired => "expired",
            Self::NotYet => "not-yet",
            Self::Policy => "policy",
            Self::Issuer => "issuer",
            Self::Service => "service",
            Self::Protocol => "protocol",
            Self::Address => "address",
            Self::Origin => "origin",
            Self::Permission => "permission",
            Self::ResourceType => "resource-type",
            Self::Resource => "resource",
            Self::Range => "range",
            Self::ReadOnly => "read-only",
        }
    }

    /// True if the credential itself did not hold: nobody was authenticated.
    #[must_use]
    pub const fn is_authentication(self) -> bool {
        matches!(
            self,
            Self::Missing
                | Self::Malformed
                | Self::OtherAccount
                | Self::Signature
                | Self::Clock
                | Self::Expired
                | Self::NotYet
                | Self::Policy
                | Self::Issuer
        )
    }

    /// Why a request was refused; `None` if it was let in and failed otherwise.
    #[must_use]
    pub fn of(api_error: &ApiError) -> Option<Self> {
        match api_error {
            ApiError::AccountNotFound => Some(Self::UnknownAccount),
            ApiError::AuthenticationFailed { reason, .. }
            | ApiError::CredentialsMissing { reason, .. }
            | ApiError::Denied(reason) => Some(*reason),
            ApiError::InvalidAuthenticationInfo => Some(Self::Malformed),
            ApiError::ServiceMismatch => Some(Self::Service),
            ApiError::ProtocolMismatch => Some(Self::Protocol),
            ApiError::SourceIpMismatch(_) => Some(Self::Address),
            ApiError::CorsNoRule | ApiError::PublicKeyHost { .. } | ApiError::PublicKeyOrigin => {
                Some(Self::Origin)
            }
            ApiError::Access(access_error) => Self::of_access_error(*access_error),
            _ => None,
        }
    }

    fn of_access_error(access_error: AccessError) -> Option<Self> {
        match access_error {
            AccessError::WritesNotAllowed => Some(Self::ReadOnly),
            AccessError::NotAuthorized => Some(Self::Resource),
            AccessError::KeyNotAuthorized => Some(Self::Range),
            AccessError::PermissionMismatch => Some(Self::Permission),
            AccessError::ResourceTypeMismatch => Some(Self::ResourceType),
            AccessError::UnknownToTokens => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::{AccessError, DomainError};

    use super::DenyReason;
    use crate::api_error::{ApiError, ServiceApiError as _};
    use crate::table::TableError;

    #[test]
    fn names_are_distinct_words() {
        let mut names: Vec<&str> = DenyReason::ALL.iter().map(|reason| reason.name()).collect();
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DenyReason::ALL.len());
    }

    #[test]
    fn a_missing_account_is_no_missing_entity() {
        assert_eq!(DenyReason::of(&ApiError::AccountNotFound), Some(DenyReason::UnknownAccount));
        assert_eq!(TableError::from(DomainError::EntityNotFound).deny_reason(), None);
        let in_batch = TableError::from(ApiError::Access(AccessError::KeyNotAuthorized));
        assert_eq!(in_batch.in_operation(3).deny_reason(), Some(DenyReason::Range));
    }
}
