//! What the bearer of a checked credential may do.

use crate::account::AccountName;
use crate::refusal::Refusal;
use crate::request::TableRequest;

/// The permission that authentication found. An account key opens the whole account; addressed through its secondary,
/// the account can only be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    account: AccountName,
    read_only: bool,
}

impl Grant {
    /// What an account's owner may do.
    #[must_use]
    pub fn owner(account: AccountName) -> Self {
        Self { account, read_only: false }
    }

    /// What an account's owner may do through the read-only secondary.
    #[must_use]
    pub fn secondary(account: AccountName) -> Self {
        Self { account, read_only: true }
    }

    /// Whose data.
    #[must_use]
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// Refuses what lies outside the grant.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn permits(&self, request: &TableRequest) -> Result<(), Refusal> {
        if self.read_only && request.is_write() { Err(Refusal::WriteOnSecondary) } else { Ok(()) }
    }
}
