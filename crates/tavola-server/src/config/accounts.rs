//! The accounts that the server knows.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use ipnet::IpNet;
use tavola_core::AccountName;
use tavola_protocol::auth::AccountKeys;
pub use tavola_protocol::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_service::Rate;

use super::layers::{Fields, items};
use super::proxies::ip_range;
use super::targets::Targets;
use super::{AccountFolder, ConfigError, Layers, Personality};
use crate::budget::{Budgets, Rates};
use crate::tenants::{Tenant, Tenants};

/// A shorter key can be found by trying all of them against one signed request.
const KEY_BYTES_MIN: usize = 32;

/// One account.
#[derive(Debug)]
pub struct Account {
    /// Who has one of them is its owner.
    pub keys: AccountKeys,
    /// Takes no writes, whoever asks.
    pub read_only: bool,
    /// Who may come in at all; nobody named means everybody.
    allowed_ips: Vec<IpNet>,
    /// One of its keys is shorter than it should be; only an emulator takes such a key.
    pub has_short_key: bool,
    /// One of its keys is the development account's, which everybody knows.
    pub has_public_key: bool,
    /// What it may spend.
    pub budgets: Arc<Budgets>,
    /// What it may have beside others.
    weight: u32,
    name: AccountName,
    tenant: OnceLock<Arc<Tenant>>,
}

impl Account {
    /// True if requests may come from there.
    #[must_use]
    pub fn admits(&self, ip: IpAddr) -> bool {
        self.allowed_ips.is_empty() || self.allowed_ips.iter().any(|net| net.contains(&ip.to_canonical()))
    }

    /// Its shares of the server.
    pub(crate) fn tenant(&self, tenants: &Tenants) -> &Arc<Tenant> {
        self.tenant.get_or_init(|| tenants.of(&self.name, self.weight))
    }
}

/// The accounts by name.
#[derive(Debug, Clone)]
pub struct Accounts {
    by_name: HashMap<AccountName, Arc<Account>>,
    development: bool,
}

impl Accounts {
    /// The configured accounts, or the development account if there are none, or both if somebody asked for both.
    pub(super) fn resolve(layers: &Layers, personality: Personality) -> Result<Self, ConfigError> {
        let sections = layers.named("accounts");
        let targets = Targets::resolve(layers)?;
        let accounts = sections.iter().map(|(name, fields)| account(name, fields, &targets, personality));
        let mut by_name = accounts.collect::<Result<HashMap<_, _>, _>>()?;
        let development = by_name.is_empty();
        if development || layers.parse("server.development_account")? {
            let fields = Fields::from([("key1", DEVELOPMENT_KEY)]);
            let (name, account) = account(DEVELOPMENT_ACCOUNT, &fields, &targets, personality)?;
            by_name.entry(name).or_insert(account);
        }
        Ok(Self { by_name, development })
    }

    /// True if nobody configured an account.
    #[must_use]
    pub fn is_development(&self) -> bool {
        self.development
    }

    /// The account of that name.
    #[must_use]
    pub fn get(&self, account: &AccountName) -> Option<&Arc<Account>> {
        self.by_name.get(account)
    }

    /// True if there is an account of that name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        AccountName::parse(name).is_some_and(|name| self.by_name.contains_key(&name))
    }

    /// Every account with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&AccountName, &Account)> {
        self.by_name.iter().map(|(name, account)| (name, &**account))
    }

    /// The names of all accounts.
    pub fn names(&self) -> impl Iterator<Item = &AccountName> {
        self.by_name.keys()
    }

    /// Refuses accounts that must not take the place of `current` ones. Where accounts were configured, a folder that is
    /// gone is a mistake or an attack, and must not open the server with a key that everybody knows.
    pub(crate) fn check_replacing(&self, current: &Self, folder: &AccountFolder) -> Result<(), ConfigError> {
        if self.development && !current.development {
            return Err(ConfigError(format!(
                "no account is configured any more: {}. The accounts of before go on; bring their files back, or restart \
                 the server to serve the development account",
                folder.why_empty()
            )));
        }
        Ok(())
    }

    /// The same accounts, with what `standing` ones of the same name and rates have spent already: reading the
    /// configuration again must not fill anybody's purse.
    #[must_use]
    pub(crate) fn with_budgets_of(mut self, standing: &Self) -> Self {
        for (name, account) in &mut self.by_name {
            let Some(known) = standing.get(name).filter(|known| known.budgets.rates() == account.budgets.rates())
            else {
                continue;
            };
            let Account { keys, read_only, allowed_ips, has_short_key, has_public_key, weight, name, .. } = &**account;
            *account = Arc::new(Account {
                keys: keys.clone(),
                read_only: *read_only,
                allowed_ips: allowed_ips.clone(),
                has_short_key: *has_short_key,
                has_public_key: *has_public_key,
                budgets: Arc::clone(&known.budgets),
                weight: *weight,
                name: name.clone(),
                tenant: OnceLock::new(),
            });
        }
        self
    }
}

fn account(
    name: &str,
    fields: &Fields<'_>,
    targets: &Targets,
    personality: Personality,
) -> Result<(AccountName, Arc<Account>), ConfigError> {
    let error = |problem: String| ConfigError(format!("accounts.{name}: {problem}"));
    let account = AccountName::parse(name)
        .ok_or_else(|| error("an account's name has letters, digits and inner hyphens".to_owned()))?;
    let key1 = fields.get("key1").ok_or_else(|| error("key1 is missing".to_owned()))?;
    // The message must not show the key.
    let keys = AccountKeys::parse(key1, fields.get("key2").copied().filter(|key| !key.is_empty()));
    let keys = keys.map_err(|_| error("a key is not base64".to_owned()))?;
    let short = short_key(fields);
    if let Some(field) = short.filter(|_| personality == Personality::Server) {
        return Err(error(format!(
            "{field} is shorter than {KEY_BYTES_MIN} bytes, so that it can be guessed; make one with \
             `openssl rand -base64 64`, or a whole account with `tavola account add`"
        )));
    }
    let allowed_ips = items(fields.get("allowed_ips").copied().unwrap_or_default()).map(|text| {
        ip_range(text).ok_or_else(|| error(format!("allowed_ips: \"{text}\" is not an address or a range")))
    });
    let rate = |name, target| parse(fields, name, target).map(Rate::per_second).map_err(error);
    let rates = Rates {
        requests: rate("requests_per_second", targets.account_requests)?,
        ingress_bytes: rate("ingress_bytes_per_second", 0)?,
        egress_bytes: rate("egress_bytes_per_second", 0)?,
        partition_entities: rate("partition_entities_per_second", targets.partition_entities)?,
    };
    let resolved = Account {
        keys,
        read_only: parse(fields, "read_only", false).map_err(error)?,
        allowed_ips: allowed_ips.collect::<Result<_, _>>()?,
        has_short_key: short.is_some(),
        has_public_key: key_texts(fields).any(|(_, key)| key == DEVELOPMENT_KEY),
        budgets: Arc::new(Budgets::new(rates)),
        weight: weight(fields).map_err(error)?,
        name: account.clone(),
        tenant: OnceLock::new(),
    };
    Ok((account, Arc::new(resolved)))
}

fn weight(fields: &Fields<'_>) -> Result<u32, String> {
    match parse(fields, "weight", 1)? {
        weight @ 1..=1000 => Ok(weight),
        other => Err(format!("weight: {other} is not between 1 and 1000")),
    }
}

fn key_texts<'a>(fields: &Fields<'a>) -> impl Iterator<Item = (&'static str, &'a str)> {
    let text = |field| fields.get(field).copied().filter(|key| !key.is_empty()).map(|key| (field, key));
    [text("key1"), text("key2")].into_iter().flatten()
}

/// The field of a key that is too short. Four characters of base64 are three bytes.
fn short_key(fields: &Fields<'_>) -> Option<&'static str> {
    let bytes = |key: &str| key.trim_end_matches('=').len() * 3 / 4;
    key_texts(fields).find(|(_, key)| bytes(key) < KEY_BYTES_MIN).map(|(field, _)| field)
}

/// The value of a field, or `unwritten` if nobody gave one.
fn parse<T: FromStr<Err: Display>>(fields: &Fields<'_>, name: &str, unwritten: T) -> Result<T, String> {
    match fields.get(name).copied().filter(|text| !text.is_empty()) {
        None => Ok(unwritten),
        Some(text) => text.parse().map_err(|error| format!("{name}: \"{text}\" does not fit: {error}")),
    }
}
