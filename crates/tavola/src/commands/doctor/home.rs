//! What this machine knows by itself: its configuration, and keys in it.

use clap::ArgMatches;
use rustls::pki_types::CertificateDer;
use tavola_core::AccountName;
use tavola_server::config::{Layers, Personality};
use tavola_server::tls::Material;
use tavola_server::{Config, ConfigError};

use crate::account_access::{self, KnownKeys};
use crate::flags;

/// The configuration, if it can be read.
#[derive(Debug)]
pub(super) struct Home(pub(super) Result<(Layers, Config), ConfigError>);

impl Home {
    pub(super) fn read(matches: &ArgMatches) -> Self {
        let layers = flags::layers_with_problems(matches);
        Self(Config::resolve(&layers, Personality::Server).map(|config| (layers, config)))
    }

    /// The certificate that the server is configured with.
    pub(super) fn certificate(&self) -> Option<CertificateDer<'static>> {
        let (_, config) = self.0.as_ref().ok()?;
        Material::read(config.tls.as_ref()?).ok()?.chain.into_iter().next()
    }

    pub(super) fn has_account(&self, name: &str) -> bool {
        self.0.as_ref().is_ok_and(|(_, config)| config.accounts.contains(name))
    }

    /// The keys of an account, if they are known here.
    pub(super) fn keys(&self, account: &AccountName) -> Option<KnownKeys> {
        let (layers, config) = self.0.as_ref().ok()?;
        account_access::known_keys(layers, config, account)
    }

    /// Every account with its keys.
    pub(super) fn all_keys(&self) -> Vec<(AccountName, KnownKeys)> {
        let Ok((_, config)) = &self.0 else { return Vec::new() };
        config
            .accounts
            .names()
            .filter_map(|account| Some((account.clone(), self.keys(account)?)))
            .collect()
    }
}
