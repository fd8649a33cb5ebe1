//! The configuration as `tavola config show` prints it: TOML that `tavola config check` accepts.

use std::path::Path;

use super::named_sections::NamedSection;
use super::{Layers, Origin};

/// Replaces secrets.
const MASK: &str = "***";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownValue {
    /// `section.key`.
    pub path: String,
    /// Secrets are masked, paths absolute.
    pub value: String,
    /// The layer that set it.
    pub origin: Origin,
    /// Printed as a comment, because a file with it is not valid: a masked secret, or a field next
    /// to one.
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
    /// The default accounts folder, if it does not exist: to set it explicitly would be an error.
    fn is_absent_folder(&self, path: &str) -> bool {
        let is_folder = path == "server.accounts_folder" && self.origin(path) == Origin::Default;
        is_folder && !Path::new(self.text(path)).exists()
    }

    /// Every setting with its value and origin, secrets masked.
    pub fn shown(&self) -> impl Iterator<Item = ShownValue> {
        let plain = self.schema().settings().map(|setting| {
            let value = self.text(setting.path);
            let hidden = setting.is_secret() && !value.is_empty();
            let shown = if hidden { MASK.to_owned() } else { self.in_full(setting.path, value) };
            (setting.path.to_owned(), shown, hidden || self.is_absent_folder(setting.path))
        });
        let named = self.written().filter_map(|(path, value)| {
            let (section, _, field) = NamedSection::split(path)?;
            let value = if field.secret { MASK.to_owned() } else { self.in_full(path, value) };
            // An account without keys is invalid, so the whole section becomes comments.
            let is_remark = section.fields.iter().any(|field| field.secret);
            Some((path.to_owned(), value, is_remark))
        });
        plain.chain(named).map(|(path, value, is_remark)| {
            let origin = self.origin(&path);
            ShownValue { path, value, origin, is_remark }
        })
    }

    /// Absolute, because a relative path does not say which folder it starts at.
    fn in_full(&self, path: &str, value: &str) -> String {
        if value.is_empty() || !self.is_path(path) {
            return value.to_owned();
        }
        let absolute = std::path::absolute(Path::new(value))
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok());
        absolute.unwrap_or_else(|| value.to_owned())
    }
}
