//! The accounts that the server knows.

use std::collections::HashMap;

use tavola_core::AccountName;
use tavola_protocol::auth::AccountKeys;

use super::layers::Fields;
use super::{ConfigError, Layers};

/// The account that every emulator has. Its key is public.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// The development account's key, published by the service's documentation.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The accounts by name, with their keys.
#[derive(Debug, Clone)]
pub struct Accounts {
    by_name: HashMap<AccountName, AccountKeys>,
    development: bool,
}

impl Accounts {
    pub(super) fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let sections = layers.named("accounts");
        if sections.is_empty() {
            return Ok(Self::development());
        }
        let by_name = sections.iter().map(|(name, fields)| account(name, fields)).collect::<Result<_, _>>()?;
        Ok(Self { by_name, development: false })
    }

    fn development() -> Self {
        let account = account(DEVELOPMENT_ACCOUNT, &Fields::from([("key1", DEVELOPMENT_KEY)]));
        let (name, keys) = account.expect("the development account is well formed");
        Self { by_name: HashMap::from([(name, keys)]), development: true }
    }

    /// True if nobody configured an account.
    #[must_use]
    pub fn is_development(&self) -> bool {
        self.development
    }

    /// The keys of an account.
    #[must_use]
    pub fn keys(&self, account: &AccountName) -> Option<&AccountKeys> {
        self.by_name.get(account)
    }

    /// True if there is an account of that name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        AccountName::parse(name).is_some_and(|name| self.by_name.contains_key(&name))
    }

    /// The names of all accounts.
    pub fn names(&self) -> impl Iterator<Item = &AccountName> {
        self.by_name.keys()
    }
}

fn account(name: &str, fields: &Fields<'_>) -> Result<(AccountName, AccountKeys), ConfigError> {
    let name_error =
        || ConfigError(format!("accounts.{name}: an account's name has letters, digits and inner hyphens"));
    let account = AccountName::parse(name).ok_or_else(name_error)?;
    let Some(key1) = fields.get("key1") else {
        return Err(ConfigError(format!("accounts.{name}: key1 is missing")));
    };
    // The message must not show the key.
    let key_error = |_| ConfigError(format!("accounts.{name}: a key is not base64"));
    let keys = AccountKeys::parse(key1, fields.get("key2").copied()).map_err(key_error)?;
    Ok((account, keys))
}
