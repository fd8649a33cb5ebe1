//! The accounts that the server knows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use ipnet::IpNet;
use tavola_core::AccountName;
use tavola_fair::Rate;
use tavola_protocol::auth::AccountKeys;
pub use tavola_protocol::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_store::SettingValues as _;
use tavola_store::settings::items;

use super::layers::Fields;
use super::proxies::ip_range;
use super::targets::Targets;
use super::{AccountFolder, ConfigError, Layers, Personality};
use crate::throttle::{Rates, Tenant, Throttle};

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
    pub rates: Rates,
    /// What it may have beside others.
    weight: u32,
    name: AccountName,
    tenant: OnceLock<Arc<Tenant>>,
}

impl Account {
    /// True if requests may come from there.
    #[must_use]
    pub fn admits(&self, ip: IpAddr) -> bool {
        self.allowed_ips.is_empty()
            || self.allowed_ips.iter().any(|net| net.contains(&ip.to_canonical()))
    }

    /// Its shares of the server, and its budgets.
    pub(crate) fn tenant(&self, throttle: &Throttle) -> &Arc<Tenant> {
        self.tenant.get_or_init(|| throttle.tenant(&self.name, self.weight, self.rates))
    }
}

/// The accounts by name.
#[derive(Debug, Clone)]
pub struct Accounts {
    by_name: HashMap<AccountName, Arc<Account>>,
    development: bool,
}

impl Accounts {
    /// The configured accounts, or the development account if there are none, or both if somebody
    /// asked for both.
    pub(super) fn resolve(layers: &Layers, personality: Personality) -> Result<Self, ConfigError> {
        let sections = layers.named("accounts");
        let targets = Targets::resolve(layers)?;
        let error = |name: &str, problem: String| {
            layers.section_error(&format!("accounts.{name}"), &problem)
        };
        let accounts = sections.iter().map(|(name, fields)| {
            account(name, fields, &targets, personality).map_err(|problem| error(name, problem))
        });
        let mut by_name = accounts.collect::<Result<HashMap<_, _>, _>>()?;
        let development = by_name.is_empty();
        if development || layers.parse_bool("server.development_account")? {
            let fields = Fields::from([("key1", DEVELOPMENT_KEY)]);
            let account = account(DEVELOPMENT_ACCOUNT, &fields, &targets, personality);
            let (name, account) = account.map_err(|problem| error(DEVELOPMENT_ACCOUNT, problem))?;
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
        self.by_name.contains_key(name)
    }

    /// Every account with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&AccountName, &Account)> {
        self.by_name.iter().map(|(name, account)| (name, &**account))
    }

    /// The names of all accounts.
    pub fn names(&self) -> impl Iterator<Item = &AccountName> {
        self.by_name.keys()
    }

    /// Refuses accounts that must not take the place of `current` ones. Where accounts were
    /// configured, a folder that is gone is a mistake or an attack, and must not open the server
    /// with a key that everybody knows.
    pub(crate) fn check_replacing(
        &self,
        current: &Self,
        folder: &AccountFolder,
    ) -> Result<(), ConfigError> {
        if self.development && !current.development {
            return Err(ConfigError::new(format!(
                "no account is configured any more: {}. The accounts of before go on; bring their files back, or restart \
                 the server to serve the development account",
                folder.why_empty()
            )));
        }
        Ok(())
    }
}

/// The shortest and longest name that the Azure service gives an account.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 3..=24;

/// Why a server must not have an account of that name, if so. Clients and tools refuse what the
/// Azure service does not have; an emulator takes what Azurite takes.
///
/// # Errors
/// In words.
pub fn check_name(name: &str, personality: Personality) -> Result<AccountName, String> {
    let is_azure = NAME_CHARS.contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if personality == Personality::Server && !is_azure {
        return Err(format!(
            "\"{name}\" cannot be an account: a name is 3–24 lower-case letters and digits"
        ));
    }
    AccountName::parse(name).ok_or_else(|| {
        format!("\"{name}\" cannot be an account: a name has letters, digits and inner hyphens")
    })
}

fn account(
    name: &str,
    fields: &Fields<'_>,
    targets: &Targets,
    personality: Personality,
) -> Result<(AccountName, Arc<Account>), String> {
    let account = check_name(name, personality)?;
    let key1 = given(fields, "key1").ok_or("key1 is missing")?;
    // The message must not show the key.
    let keys =
        AccountKeys::parse(key1, given(fields, "key2")).map_err(|_| "a key is not base64")?;
    let short = short_key(fields);
    if let Some(field) = short.filter(|_| personality == Personality::Server) {
        return Err(format!(
            "{field} is shorter than {KEY_BYTES_MIN} bytes, so that it can be guessed; make one with \
             `openssl rand -base64 64`, or a whole account with `tavola account add`"
        ));
    }
    let allowed_ips = items(fields.get("allowed_ips").copied().unwrap_or_default()).map(|text| {
        ip_range(text)
            .ok_or_else(|| format!("allowed_ips: \"{text}\" is not an address or a range"))
    });
    let rate = |name, target| number(fields, name, target).map(Rate::per_second);
    let rates = Rates {
        requests: rate("requests_per_second", targets.account_requests)?,
        ingress_bytes: rate("ingress_bytes_per_second", 0)?,
        egress_bytes: rate("egress_bytes_per_second", 0)?,
        partition_entities: rate("partition_entities_per_second", targets.partition_entities)?,
    };
    let resolved = Account {
        keys,
        read_only: flag(fields, "read_only")?,
        allowed_ips: allowed_ips.collect::<Result<_, _>>()?,
        has_short_key: short.is_some(),
        has_public_key: key_texts(fields).any(|(_, key)| key == DEVELOPMENT_KEY),
        rates,
        weight: weight(fields)?,
        name: account.clone(),
        tenant: OnceLock::new(),
    };
    Ok((account, Arc::new(resolved)))
}

fn given<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a str> {
    fields.get(name).copied().filter(|text| !text.is_empty())
}

fn weight(fields: &Fields<'_>) -> Result<u32, String> {
    let Some(text) = given(fields, "weight") else { return Ok(1) };
    let weight = text.parse().ok().filter(|weight| (1..=1000).contains(weight));
    weight.ok_or_else(|| format!("weight: \"{text}\" does not fit: must be 1–1000"))
}

fn key_texts<'a>(fields: &Fields<'a>) -> impl Iterator<Item = (&'static str, &'a str)> {
    let text =
        |field| fields.get(field).copied().filter(|key| !key.is_empty()).map(|key| (field, key));
    [text("key1"), text("key2")].into_iter().flatten()
}

/// The field of a key that is too short. Four characters of base64 are three bytes.
fn short_key(fields: &Fields<'_>) -> Option<&'static str> {
    let bytes = |key: &str| key.trim_end_matches('=').len() * 3 / 4;
    key_texts(fields).find(|(_, key)| bytes(key) < KEY_BYTES_MIN).map(|(field, _)| field)
}

/// The value of a field, or `unwritten` if nobody gave one.
fn number(fields: &Fields<'_>, name: &str, unwritten: u64) -> Result<u64, String> {
    let Some(text) = given(fields, name) else { return Ok(unwritten) };
    text.parse().map_err(|_| {
        format!("{name}: \"{text}\" does not fit: must be a whole number, 0 for no bound")
    })
}

fn flag(fields: &Fields<'_>, name: &str) -> Result<bool, String> {
    let Some(text) = given(fields, name) else { return Ok(false) };
    text.parse().map_err(|_| format!("{name}: \"{text}\" does not fit: must be true or false"))
}
