//! Where values come from: flag over `TAVOLA_*` over `AZURITE_*` over file over default. The origin of each is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tavola_core::AccountName;
use zeroize::Zeroizing;

use super::account_folder::KeyNumber;
use super::settings::{NAMED_SECTIONS, NamedSection, OldName, SETTINGS, Setting};
use super::{AccountFolder, ConfigError};

const VARIABLE_PREFIX: &str = "TAVOLA_";
/// What stands for a secret when values are shown.
const MASK: &str = "***";

/// Where a value was written. Later variants win.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// A variable of Azurite.
    AzuriteVariable(String),
    /// A variable of ours.
    Variable(String),
    /// The command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::AzuriteVariable(name) | Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// All values that somebody wrote, by path, each with its origin. Keys and passwords are among them, so the memory is
/// cleared when they go.
#[derive(Clone, Default)]
pub struct Layers {
    values: BTreeMap<String, (Zeroizing<String>, Origin)>,
    notes: Vec<String>,
    /// Files that variables name because a secret is in them.
    secret_files: BTreeSet<PathBuf>,
}

/// Paths and origins, never values.
impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.values.iter().map(|(path, (_, origin))| (path, origin))).finish()
    }
}

/// The fields of one named section.
pub(crate) type Fields<'a> = BTreeMap<&'static str, &'a str>;

impl Layers {
    /// Reads the configuration file and the environment. Flags are added afterwards with [`Layers::set`].
    ///
    /// # Errors
    /// If the file cannot be read or a key is unknown.
    pub fn read(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Self::default();
        if let Some(file) = file {
            layers.read_file(file)?;
        }
        for (name, value) in environment {
            layers.read_variable(&name, value)?;
        }
        Ok(layers)
    }

    /// Adds the accounts that have files of their own; the last step, because where they are is a setting too.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file in it is wrong.
    pub fn read_account_folder(&mut self) -> Result<(), ConfigError> {
        AccountFolder::new(self.text("server.accounts_folder")).read_into(self)
    }

    /// Sets a value unless a stronger origin has set it already.
    pub fn set(&mut self, path: &str, value: impl Into<String>, origin: Origin) {
        let path = self.current_path(path, &origin);
        let weaker = self.values.get(path).is_none_or(|(_, standing)| *standing <= origin);
        if weaker {
            self.values.insert(path.to_owned(), (Zeroizing::new(value.into()), origin));
        }
    }

    /// The path that a setting has today; old names are noted.
    fn current_path<'a>(&mut self, path: &'a str, origin: &Origin) -> &'a str {
        let Some(old) = OldName::find(path) else { return path };
        self.notes.push(format!("{} ({origin}) is the old name of {}; use the new one", old.path, old.now));
        old.now
    }

    /// What somebody should know who wrote these values, though they work.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn read_file(&mut self, file: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError(format!("cannot read the configuration {}: {error}", file.display())))?;
        self.read_section("", &Zeroizing::new(text), &Origin::File(file.to_owned()))
    }

    /// Reads a TOML text whose keys stand below `prefix`.
    pub(super) fn read_section(&mut self, prefix: &str, text: &str, origin: &Origin) -> Result<(), ConfigError> {
        // The parser's own message quotes the line, and the line may be a key.
        let document: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            ConfigError(format!("{origin} is not valid TOML: line {line}: {}", error.message()))
        })?;
        let mut flat = Vec::new();
        flatten(prefix, &toml::Value::Table(document), &mut flat);
        for (path, value) in flat {
            check_path(&path).map_err(|problem| ConfigError(format!("{origin}: {problem}")))?;
            self.set(&path, value, origin.clone());
        }
        Ok(())
    }

    fn read_variable(&mut self, name: &str, value: String) -> Result<(), ConfigError> {
        if name == "AZURITE_ACCOUNTS" {
            return self.read_azurite_accounts(&value);
        }
        // Settings have two levels at least; TAVOLA_CONFIG, TAVOLA_CACHE and the like are not settings.
        let Some(rest) = name.strip_prefix(VARIABLE_PREFIX).filter(|rest| rest.contains("__")) else { return Ok(()) };
        let path = rest.replace("__", ".").to_ascii_lowercase();
        let (path, value) = match path.strip_suffix("_file") {
            Some(path) if check_path(path).is_ok() => {
                self.secret_files.insert(PathBuf::from(&value));
                (path.to_owned(), read_secret_file(name, &value)?)
            }
            _ => (path, value),
        };
        check_path(&path).map_err(|problem| ConfigError(format!("variable {name}: {problem}")))?;
        self.set(&path, value, Origin::Variable(name.to_owned()));
        Ok(())
    }

    /// `name:key1[:key2];name2:key1…`
    fn read_azurite_accounts(&mut self, value: &str) -> Result<(), ConfigError> {
        let origin = Origin::AzuriteVariable("AZURITE_ACCOUNTS".to_owned());
        for account in value.split(';').filter(|account| !account.trim().is_empty()) {
            let mut parts = account.trim().split(':');
            let (name, keys): (_, Vec<&str>) = (parts.next().unwrap_or_default(), parts.collect());
            if keys.is_empty() || keys.len() > 2 {
                let shape = "AZURITE_ACCOUNTS must look like name:key1[:key2];name2:key1";
                return Err(ConfigError(shape.to_owned()));
            }
            for (field, key) in ["key1", "key2"].iter().zip(keys) {
                self.set(&format!("accounts.{name}.{field}"), key, origin.clone());
            }
        }
        Ok(())
    }

    /// The value at a path of [`SETTINGS`].
    #[must_use]
    pub fn text(&self, path: &str) -> &str {
        match self.values.get(path) {
            Some((value, _)) => value,
            None => Setting::find(path).expect("only known settings are asked for").default,
        }
    }

    /// Where the value at a path was written.
    #[must_use]
    pub fn origin(&self, path: &str) -> Origin {
        self.values.get(path).map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    /// An error about the value at a path.
    #[must_use]
    pub fn error(&self, path: &str, problem: &str) -> ConfigError {
        ConfigError(format!("{path} ({}): {problem}", self.origin(path)))
    }

    /// The value at a path, as a type.
    ///
    /// # Errors
    /// If it is not one of that type.
    pub fn parse<T: FromStr<Err: fmt::Display>>(&self, path: &str) -> Result<T, ConfigError> {
        let text = self.text(path);
        text.parse().map_err(|error| self.error(path, &format!("\"{text}\" does not fit: {error}")))
    }

    /// The number at a path, within bounds.
    ///
    /// # Errors
    /// If it is not a number or outside.
    pub fn parse_in<T>(&self, path: &str, min: T, max: T) -> Result<T, ConfigError>
    where
        T: FromStr<Err: fmt::Display> + PartialOrd + fmt::Display,
    {
        let number: T = self.parse(path)?;
        if number < min || number > max {
            return Err(self.error(path, &format!("{number} is not between {min} and {max}")));
        }
        Ok(number)
    }

    /// The items of a value that is a list: separated by commas, or an array in the file.
    pub(crate) fn list(&self, path: &str) -> impl Iterator<Item = &str> {
        items(self.text(path))
    }

    /// The sections under a prefix of [`NAMED_SECTIONS`], by name.
    pub(crate) fn named(&self, prefix: &str) -> BTreeMap<&str, Fields<'_>> {
        let mut sections: BTreeMap<&str, Fields<'_>> = BTreeMap::new();
        for (path, (value, _)) in &self.values {
            if let Some((section, name, field)) = NamedSection::split(path)
                && section.prefix == prefix
            {
                sections.entry(name).or_default().insert(field.name, value.as_str());
            }
        }
        sections
    }

    /// The accounts by name, each with where its first key was written.
    pub fn accounts(&self) -> impl Iterator<Item = (&str, Origin)> {
        let names: Vec<&str> = self.named("accounts").into_keys().collect();
        names.into_iter().map(|name| (name, self.origin(&format!("accounts.{name}.key1"))))
    }

    /// The text of an account's key, for who signs or hands it out; `None` if nobody configured it.
    #[must_use]
    pub fn account_key(&self, account: &AccountName, number: KeyNumber) -> Option<&str> {
        let path = format!("accounts.{account}.{}", number.field());
        self.values.get(&path).map(|(value, _)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Every file that holds a key or a password of this configuration.
    pub(super) fn secret_files(&self) -> BTreeSet<PathBuf> {
        let secret = |path: &str| {
            let in_section = NamedSection::split(path).is_some_and(|(_, _, field)| field.secret);
            in_section || Setting::find(path).is_some_and(Setting::is_secret)
        };
        let written = self.values.iter().filter_map(|(path, (_, origin))| match origin {
            Origin::File(file) if secret(path) => Some(file.clone()),
            _ => None,
        });
        let named = Some(self.text("store.password_file")).filter(|path| !path.is_empty()).map(PathBuf::from);
        self.secret_files.iter().cloned().chain(written).chain(named).collect()
    }

    /// Every setting with its value and origin, secrets masked.
    pub fn shown(&self) -> impl Iterator<Item = (String, String, Origin)> {
        let plain = SETTINGS.iter().map(|setting| {
            let value = self.text(setting.path);
            let hidden = setting.is_secret() && !value.is_empty();
            (setting.path.to_owned(), if hidden { MASK } else { value }.to_owned())
        });
        let named = self.values.iter().filter_map(|(path, (value, _))| {
            let (_, _, field) = NamedSection::split(path)?;
            Some((path.clone(), if field.secret { MASK } else { value.as_str() }.to_owned()))
        });
        plain.chain(named).map(|(path, value)| {
            let origin = self.origin(&path);
            (path, value, origin)
        })
    }
}

/// The items of a list in one text.
pub(crate) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn read_secret_file(variable: &str, file: &str) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigError(format!("variable {variable}: cannot read {file}: {error}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn flatten(prefix: &str, value: &toml::Value, flat: &mut Vec<(String, String)>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&path, value, flat);
            }
        }
        toml::Value::Array(values) => {
            let items: Vec<String> = values.iter().map(scalar).collect();
            flat.push((prefix.to_owned(), items.join(",")));
        }
        other => flat.push((prefix.to_owned(), scalar(other))),
    }
}

fn scalar(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Says what is wrong with a path that no setting has, and what was probably meant.
fn check_path(path: &str) -> Result<(), String> {
    if NamedSection::split(path).is_some() || Setting::find(path).is_some() || OldName::find(path).is_some() {
        return Ok(());
    }
    let named = NAMED_SECTIONS
        .iter()
        .flat_map(|section| section.fields.iter().map(|field| format!("{}.NAME.{}", section.prefix, field.name)));
    let candidates = SETTINGS.iter().map(|setting| setting.path.to_owned()).chain(named);
    let nearest = candidates.min_by_key(|candidate| strsim::damerau_levenshtein(candidate, path));
    Err(match nearest {
        Some(nearest) => format!("unknown setting {path}; did you mean {nearest}?"),
        None => format!("unknown setting {path}"),
    })
}
