//! Targets: the budgets of every account that has none of its own.

use super::{ConfigError, Layers};
use tavola_store::SettingValues as _;

/// What an account may ask for in a second; 0 means no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Targets {
    /// Requests of the account.
    pub(super) account_requests: u64,
    /// Entities of each partition.
    pub(super) partition_entities: u64,
}

impl Targets {
    const NONE: Self = Self { account_requests: 0, partition_entities: 0 };
    /// What the Azure service publishes, for entities of 1 KiB.
    const AZURE: Self = Self { account_requests: 20_000, partition_entities: 2_000 };

    /// A number that somebody wrote wins over the preset.
    pub(super) fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let preset = match layers.text("targets.preset") {
            "none" => Self::NONE,
            "azure" => Self::AZURE,
            other => {
                return Err(
                    layers.error("targets.preset", &format!("\"{other}\" is not none or azure"))
                );
            }
        };
        let number = |path, preset| match layers.text(path) {
            "" => Ok(preset),
            _ => layers.parse_in(path, 0, u64::from(u32::MAX)),
        };
        Ok(Self {
            account_requests: number(
                "targets.account_requests_per_second",
                preset.account_requests,
            )?,
            partition_entities: number(
                "targets.partition_entities_per_second",
                preset.partition_entities,
            )?,
        })
    }
}
