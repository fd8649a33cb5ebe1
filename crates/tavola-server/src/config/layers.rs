//! Where values come from: flag over `TAVOLA_*` over `AZURITE_*` over file over default. The origin
//! of each is kept.
//!
//! Reading goes on after a mistake, so that all of them are told at once: [`Layers::problems`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use tavola_core::AccountName;
use tavola_store::{Setting, SettingValues};
use zeroize::Zeroizing;

use super::account_folder::KeyNumber;
use super::document::{self, Entry};
use super::named_sections::{NAMED_SECTIONS, NamedSection};
use super::settings::Applies;
use super::variables::{self, Meaning};
use super::{AccountFolder, ConfigError, Origin, Schema};

/// All values that somebody wrote, by path, each with its origin. Keys and passwords are among
/// them, so the memory is cleared when they go.
#[derive(Clone)]
pub struct Layers {
    /// What can be written.
    schema: &'static Schema,
    values: BTreeMap<String, (Zeroizing<String>, Origin)>,
    problems: Vec<ConfigError>,
    notes: Vec<String>,
    /// Files that variables name because a secret is in them.
    secret_files: BTreeSet<PathBuf>,
}

/// A server that nobody configures.
impl Default for Layers {
    fn default() -> Self {
        Self::of(Schema::server_only())
    }
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
    fn of(schema: &'static Schema) -> Self {
        Self {
            schema,
            values: BTreeMap::new(),
            problems: Vec::new(),
            notes: Vec::new(),
            secret_files: BTreeSet::new(),
        }
    }

    /// Reads the configuration file and the environment. Flags are added afterwards with
    /// [`Layers::set`].
    #[must_use]
    pub fn read(
        schema: &'static Schema,
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut layers = Self::of(schema);
        if let Some(file) = file {
            layers.read_file(file);
        }
        for (name, value) in environment {
            if let Err(error) = layers.read_variable(&name, value) {
                layers.problems.push(error);
            }
        }
        layers
    }

    /// Adds the accounts that have files of their own; the last step, because where they are is a
    /// setting too.
    pub fn read_account_folder(&mut self) {
        if let Err(error) = AccountFolder::new(self.text("server.accounts_folder")).read_into(self)
        {
            self.problems.push(error);
        }
    }

    /// What was wrong with what was read. Values that could be read are there nevertheless.
    #[must_use]
    pub fn problems(&self) -> &[ConfigError] {
        &self.problems
    }

    /// The same layers, if everything in them could be read.
    ///
    /// # Errors
    /// Every problem that was met.
    pub fn checked(self) -> Result<Self, ConfigError> {
        if self.problems.is_empty() { Ok(self) } else { Err(ConfigError::all(self.problems)) }
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
        let Some(old) = self.schema.find_old(path) else { return path };
        self.notes.push(format!(
            "{} ({origin}) is the old name of {}; use the new one",
            old.path, old.now
        ));
        old.now
    }

    /// What somebody should know who wrote these values, though they work.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Forgets what was written about a setting or a section, and what needs it; false if there is
    /// nothing.
    pub(super) fn set_aside(&mut self, path: &str) -> bool {
        let before = self.values.len();
        let section = format!("{path}.");
        self.values.retain(|known, _| known != path && !known.starts_with(&section));
        if let Some(issuer) = path.strip_prefix("auth.oidc.") {
            self.set_aside_roles_of(issuer);
        }
        self.values.len() < before
    }

    /// A role of an issuer that cannot be read would be told to have none.
    fn set_aside_roles_of(&mut self, issuer: &str) {
        let roles = self.named("auth.roles");
        let of_issuer = roles.iter().filter(|(_, fields)| fields.get("issuer") == Some(&issuer));
        let paths: Vec<String> = of_issuer.map(|(name, _)| format!("auth.roles.{name}.")).collect();
        self.values.retain(|known, _| !paths.iter().any(|path| known.starts_with(path)));
    }

    fn read_file(&mut self, file: &Path) {
        match std::fs::read_to_string(file) {
            Ok(text) => self.read_section("", &Zeroizing::new(text), file),
            Err(error) => {
                self.problems.push(ConfigError::new(format!(
                    "cannot read the configuration {}: {error}",
                    file.display()
                )));
            }
        }
    }

    /// Reads a TOML text of a file whose keys stand below `prefix`.
    pub(super) fn read_section(&mut self, prefix: &str, text: &str, file: &Path) {
        let origin = |line| Origin::File { path: file.to_owned(), line };
        let (entries, broken) = document::read(prefix, text);
        for problem in broken {
            let words = format!("{} is not valid TOML: {}", origin(problem.line), problem.message);
            self.problems.push(ConfigError::new(words));
        }
        for entry in entries {
            let origin = origin(entry.line);
            if let Err(problem) = self.read_entry(entry, file, origin.clone()) {
                self.problems.push(ConfigError::new(format!("{origin}: {problem}")));
            }
        }
    }

    fn read_entry(
        &mut self,
        Entry { path, value, .. }: Entry,
        file: &Path,
        origin: Origin,
    ) -> Result<(), String> {
        let Some(value) = value else { return check_empty_section(&path) };
        self.check_path(&path)?;
        let value = if self.is_path(&path) { beside(file, &path, value)? } else { value };
        self.set(&path, value, origin);
        Ok(())
    }

    fn read_variable(&mut self, name: &str, value: String) -> Result<(), ConfigError> {
        if name == "AZURITE_ACCOUNTS" {
            return self.read_azurite_accounts(&value);
        }
        let origin = || Origin::Variable(name.to_owned());
        match variables::meaning(self.schema, name) {
            Meaning::Nothing => {}
            Meaning::Setting(path) => self.set(&path, value, origin()),
            Meaning::SecretFile(path) => {
                let secret = read_secret_file(name, &value)?;
                self.secret_files.insert(PathBuf::from(value));
                self.set(&path, secret, origin());
            }
            Meaning::Wrong(words) => return Err(ConfigError::new(words)),
            Meaning::Unknown(words) => self.notes.push(words),
        }
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
                return Err(ConfigError::new(shape));
            }
            for (field, key) in ["key1", "key2"].iter().zip(keys) {
                self.set(&format!("accounts.{name}.{field}"), key, origin.clone());
            }
        }
        Ok(())
    }

    /// The settings that these are values of.
    #[must_use]
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// The value at the path of a setting.
    #[must_use]
    pub fn text(&self, path: &str) -> &str {
        match self.values.get(path) {
            Some((value, _)) => value,
            None => self.schema.find(path).expect("only known settings are asked for").default,
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
        ConfigError::about(path, format!("{path} ({}): {problem}", self.origin(path)))
    }

    /// An error about a section. A problem that begins with the name of a field is about that
    /// field.
    pub(super) fn section_error(&self, section: &str, problem: &str) -> ConfigError {
        let word = problem.split([':', ' ']).next().unwrap_or_default();
        let field = format!("{section}.{word}");
        if let Some((_, origin)) = self.values.get(&field) {
            let is_needed = NamedSection::split(&field)
                .is_some_and(|(section, ..)| section.needs.contains(word));
            let about = if is_needed { section } else { &field };
            return ConfigError::about(about, format!("{section} ({origin}): {problem}"));
        }
        let below = format!("{section}.");
        let origins = self
            .values
            .iter()
            .filter(|(path, _)| path.starts_with(&below))
            .map(|(_, (_, origin))| origin);
        let place = origins.min().map_or_else(String::new, |origin| format!(" ({origin})"));
        ConfigError::about(section, format!("{section}{place}: {problem}"))
    }

    /// The port at a path.
    ///
    /// # Errors
    /// If there is no such port.
    pub fn parse_port(&self, path: &str) -> Result<u16, ConfigError> {
        self.parse_in(path, 0, u16::MAX)
    }

    /// The address at a path, which may also be the name of a host.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse_address(&self, path: &str) -> Result<IpAddr, ConfigError> {
        let text = self.text(path).trim();
        address_of(text)
            .ok_or_else(|| self.misfit(path, "an address such as 127.0.0.1, or the name of a host"))
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
            in_section || self.schema.find(path).is_some_and(Setting::is_secret)
        };
        let written = self.values.iter().filter_map(|(path, (_, origin))| match origin {
            Origin::File { path: file, .. } if secret(path) => Some(file.clone()),
            _ => None,
        });
        let files = self.schema.settings().filter(|setting| setting.is_secret_file());
        let named = files.filter_map(|setting| self.optional(setting.path)).map(PathBuf::from);
        self.secret_files.iter().cloned().chain(written).chain(named).collect()
    }

    /// Every value that somebody wrote, by path.
    pub(super) fn written(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(path, (value, _))| (path.as_str(), value.as_str()))
    }

    /// The settings whose value differs from the one at the start and applies after a restart only.
    pub(crate) fn needing_restart(&self, started_with: &Self) -> Vec<&'static str> {
        let differs = |path: &str| self.text(path) != started_with.text(path);
        let is_given = |layers: &Self, path: &str| !layers.text(path).is_empty();
        let waits = |setting: &&Setting| match Applies::of(setting) {
            Applies::AtStart => differs(setting.path),
            Applies::OnReloadIfSetAtStart => {
                is_given(self, setting.path) != is_given(started_with, setting.path)
            }
            Applies::OnReload => false,
        };
        self.schema.settings().filter(waits).map(|setting| setting.path).collect()
    }

    /// True of a setting or field that names a file or folder.
    pub(super) fn is_path(&self, path: &str) -> bool {
        self.schema.find(path).is_some_and(Setting::is_path)
            || NamedSection::split(path).is_some_and(|(_, _, field)| field.name.ends_with("_file"))
    }

    /// Says what is wrong with a path that no setting has, and what was probably meant.
    fn check_path(&self, path: &str) -> Result<(), String> {
        if variables::is_known(self.schema, path) {
            return Ok(());
        }
        let named = NAMED_SECTIONS.iter().flat_map(|section| {
            section.fields.iter().map(|field| format!("{}.NAME.{}", section.prefix, field.name))
        });
        let settings = self.schema.paths().map(|(known, now)| (known.to_owned(), now.to_owned()));
        let candidates = settings.chain(named.map(|name| (name.clone(), name)));
        let distance =
            |candidate: &(String, String)| strsim::damerau_levenshtein(&candidate.0, path);
        Err(match candidates.min_by_key(distance) {
            Some((_, nearest)) => format!("unknown setting {path}; did you mean {nearest}?"),
            None => format!("unknown setting {path}"),
        })
    }
}

impl SettingValues for Layers {
    type Error = ConfigError;

    fn text(&self, path: &str) -> &str {
        Self::text(self, path)
    }

    fn error(&self, path: &str, problem: &str) -> ConfigError {
        Self::error(self, path, problem)
    }
}

/// An address, or that of a host by name. A name with several gets one of IPv4, which everything
/// can reach.
pub(super) fn address_of(text: &str) -> Option<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        // The system may not know it, or know it as something else.
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse() {
        return Some(address);
    }
    let is_name = !text.is_empty() && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    let found: Vec<IpAddr> =
        (text, 0).to_socket_addrs().ok().filter(|_| is_name)?.map(|found| found.ip()).collect();
    found.iter().find(|address| address.is_ipv4()).or(found.first()).copied()
}

fn read_secret_file(variable: &str, file: &str) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        ConfigError::new(format!("variable {variable}: cannot read {file}: {error}"))
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// A relative path in a file is meant from where the file is: the working directory is another one
/// for each who starts us.
fn beside(file: &Path, path: &str, value: String) -> Result<String, String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let (Some(folder), false) = (folder, value.is_empty() || Path::new(&value).is_absolute())
    else {
        return Ok(value);
    };
    let resolved = folder.join(&value);
    let is_same = || std::path::absolute(&resolved).ok() == std::path::absolute(&value).ok();
    // Who had it the other way must not find an empty store.
    if !resolved.exists() && Path::new(&value).exists() && !is_same() {
        return Err(format!(
            "{path} = \"{value}\" is looked for beside the configuration file, and {} does not exist; {value} in the \
             working directory does: write an absolute path",
            resolved.display()
        ));
    }
    let text = resolved.into_os_string().into_string();
    text.map_err(|_| {
        format!("{path} = \"{value}\": the folder's name is not Unicode; write an absolute path")
    })
}

/// A section without anything says nothing, which nobody means.
fn check_empty_section(path: &str) -> Result<(), String> {
    let in_section = |section: &&NamedSection| {
        path.strip_prefix(section.prefix)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|name| !name.is_empty())
    };
    match NAMED_SECTIONS.iter().find(in_section) {
        Some(section) => Err(format!("[{path}] is empty; it needs {}", section.needs)),
        None => Ok(()),
    }
}
