//! The configuration as `tavola config show` prints it: TOML that `tavola config check` takes.

use std::path::Path;

use super::layers::is_path;
use super::settings::{NamedSection, SETTINGS};
use super::{Layers, Origin};

/// What stands for a secret when values are shown.
const MASK: &str = "***";

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownValue {
    /// Where it is in the configuration.
    pub path: String,
    /// What it is, secrets masked, paths in full.
    pub value: String,
    /// Who wrote it.
    pub origin: Origin,
    /// Cannot stand in a file as it is shown: a masked secret, or what goes with one.
    pub is_remark: bool,
}

impl ShownValue {
    /// A line of TOML, without the origin.
    #[must_use]
    pub fn line(&self) -> String {
        let quoted = toml::Value::String(self.value.clone());
        let remark = if self.is_remark { "# " } else { "" };
        format!("{remark}{} = {quoted}", self.path)
    }
}

impl Layers {
    /// A folder of accounts that nobody named and that is not there: written down it would be a
    /// mistake.
    fn is_absent_folder(&self, path: &str) -> bool {
        let is_folder = path == "server.accounts_folder" && self.origin(path) == Origin::Default;
        is_folder && !Path::new(self.text(path)).exists()
    }

    /// Every setting with its value and origin, secrets masked.
    pub fn shown(&self) -> impl Iterator<Item = ShownValue> {
        let plain = SETTINGS.iter().map(|setting| {
            let value = self.text(setting.path);
            let hidden = setting.is_secret() && !value.is_empty();
            let shown = if hidden { MASK.to_owned() } else { in_full(setting.path, value) };
            (setting.path.to_owned(), shown, hidden || self.is_absent_folder(setting.path))
        });
        let named = self.written().filter_map(|(path, value)| {
            let (section, _, field) = NamedSection::split(path)?;
            let value = if field.secret { MASK.to_owned() } else { in_full(path, value) };
            // Without its keys an account is none.
            let is_remark = section.fields.iter().any(|field| field.secret);
            Some((path.to_owned(), value, is_remark))
        });
        plain.chain(named).map(|(path, value, is_remark)| {
            let origin = self.origin(&path);
            ShownValue { path, value, origin, is_remark }
        })
    }
}

/// Paths as they are from everywhere: whoever looks at them wonders which folder is meant.
fn in_full(path: &str, value: &str) -> String {
    if value.is_empty() || !is_path(path) {
        return value.to_owned();
    }
    let absolute = std::path::absolute(Path::new(value))
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok());
    absolute.unwrap_or_else(|| value.to_owned())
}
