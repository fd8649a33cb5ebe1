//! Every setting that can be written: those of the server, of its services, and of the backends that
//! a binary joins with it. The server itself knows no backend.

use std::sync::LazyLock;

use tavola_store::Setting;
use tavola_store::settings::OldName;

use super::{ConfigError, Layers, services, settings};

/// The heading of the server's settings in help.
const SERVER: &str = "Server";
/// The heading of settings about logs in help.
pub const LOGGING: &str = "Logging";

/// Settings under a heading of help pages.
#[derive(Debug, Clone)]
pub struct SettingGroup {
    /// The text of the heading.
    pub heading: &'static str,
    /// In the order of help and of documents.
    pub settings: Vec<Setting>,
}

impl SettingGroup {
    /// Settings under a heading.
    #[must_use]
    pub fn new(heading: &'static str, settings: &[Setting]) -> Self {
        Self { heading, settings: settings.to_vec() }
    }
}

/// What a binary adds to the server's settings.
#[derive(Debug)]
pub struct Joined {
    /// Its settings.
    pub groups: Vec<SettingGroup>,
    /// What they were called before.
    pub old_names: Vec<OldName>,
    /// Finds the first of them that is wrong.
    pub check: fn(&Layers) -> Result<(), ConfigError>,
}

/// Every setting that can be written.
#[derive(Debug)]
pub struct Schema {
    groups: Vec<SettingGroup>,
    old_names: Vec<OldName>,
    check: fn(&Layers) -> Result<(), ConfigError>,
}

static SERVER_ONLY: LazyLock<Schema> = LazyLock::new(|| {
    Schema::new(Joined { groups: Vec::new(), old_names: Vec::new(), check: |_| Ok(()) })
});

impl Schema {
    /// The settings of a server on a store that nobody configures.
    #[must_use]
    pub fn server_only() -> &'static Self {
        &SERVER_ONLY
    }

    /// The settings of the server, and those of a binary between them.
    #[must_use]
    pub fn new(joined: Joined) -> Self {
        let before = [
            SettingGroup::new(SERVER, settings::SERVER),
            SettingGroup::new(SERVER, &services::settings()),
            SettingGroup::new("TLS", settings::TLS),
        ];
        let after = [
            SettingGroup::new("Limits", settings::LIMITS),
            SettingGroup::new(LOGGING, settings::LOGGING),
        ];
        Self {
            groups: before.into_iter().chain(joined.groups).chain(after).collect(),
            old_names: services::OLD_NAMES.iter().copied().chain(joined.old_names).collect(),
            check: joined.check,
        }
    }

    /// Every setting with a fixed path, in the order of documents.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.groups.iter().flat_map(|group| &group.settings)
    }

    /// Every setting, by heading.
    #[must_use]
    pub fn groups(&self) -> &[SettingGroup] {
        &self.groups
    }

    /// Former names of settings.
    #[must_use]
    pub fn old_names(&self) -> &[OldName] {
        &self.old_names
    }

    /// The setting at that path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&Setting> {
        self.settings().find(|setting| setting.path == path)
    }

    /// The entry for a former path.
    #[must_use]
    pub fn find_old(&self, path: &str) -> Option<&OldName> {
        self.old_names.iter().find(|old| old.path == path)
    }

    /// Every path that somebody may have meant, each with the one that is right today.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let current = self.settings().map(|setting| (setting.path, setting.path));
        current.chain(self.old_names.iter().map(|old| (old.path, old.now)))
    }

    /// Finds the first value of the joined settings that is wrong.
    pub(super) fn check(&self, layers: &Layers) -> Result<(), ConfigError> {
        (self.check)(layers)
    }
}

#[cfg(test)]
mod tests {
    use super::Schema;

    #[test]
    fn old_names_are_of_settings_and_hide_none() {
        let schema = Schema::server_only();
        for old in schema.old_names() {
            assert!(schema.find(old.now).is_some(), "{}", old.now);
            assert!(schema.find(old.path).is_none(), "{}", old.path);
        }
    }
}
