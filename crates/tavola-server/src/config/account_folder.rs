//! A folder with one file per account, `NAME.toml`, readable by its owner alone. `tavola account`
//! and the admin port write it; the server reads it at its start and whenever it is told to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_core::AccountName;
pub use tavola_protocol::auth::KeyNumber;
use zeroize::Zeroizing;

use super::{ConfigError, Layers};

/// As long as the service's own keys.
const KEY_BYTES: usize = 64;
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The text of a new key. It is shown once and cleared from memory when dropped.
pub type KeyText = Zeroizing<String>;

/// A key made of the system's randomness.
///
/// # Errors
/// If the system has none to give.
pub fn generate_key() -> Result<KeyText, ConfigError> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut *bytes)
        .map_err(|error| ConfigError::new(format!("the system gives no randomness: {error}")))?;
    Ok(Zeroizing::new(STANDARD.encode(bytes.as_slice())))
}

/// The folder.
#[derive(Debug, Clone)]
pub struct AccountFolder(PathBuf);

impl AccountFolder {
    /// The folder at that path. It need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Why no account comes from here, for a person to read.
    #[must_use]
    pub fn why_empty(&self) -> String {
        let problem = if self.0.is_dir() { "has no account in it" } else { "does not exist" };
        format!("the accounts folder {} {problem}", self.0.display())
    }

    /// The accounts that have a file, in the order of their names. A folder that does not exist has
    /// none.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file is not named after an account.
    pub fn accounts(&self) -> Result<Vec<AccountName>, ConfigError> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.error("cannot read", &self.0, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.error("cannot read", &self.0, &error))?.path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let name = path.file_stem().and_then(|stem| stem.to_str()).and_then(AccountName::parse);
            names.push(name.ok_or_else(|| {
                ConfigError::new(format!(
                    "{}: the file is not named after an account",
                    path.display()
                ))
            })?);
        }
        names.sort();
        Ok(names)
    }

    /// Adds the accounts of the folder to what else was written. An account that stands in two
    /// places is an error: nobody could tell which key counts.
    pub(super) fn read_into(&self, layers: &mut Layers) -> Result<(), ConfigError> {
        for account in self.accounts()? {
            let path = self.file(&account);
            if layers.named("accounts").contains_key(account.as_str()) {
                return Err(ConfigError::new(format!(
                    "{}: the account is configured elsewhere too",
                    path.display()
                )));
            }
            let text = std::fs::read_to_string(&path)
                .map_err(|error| self.error("cannot read", &path, &error))?;
            layers.read_section(&format!("accounts.{account}"), &Zeroizing::new(text), &path);
        }
        Ok(())
    }

    /// Writes a new account with two new keys, and returns the first. `settings` are further lines
    /// of the file.
    ///
    /// # Errors
    /// If the account exists or the file cannot be written.
    pub fn add(
        &self,
        account: &AccountName,
        settings: &[(&str, String)],
    ) -> Result<KeyText, ConfigError> {
        let path = self.file(account);
        if path.exists() {
            return Err(ConfigError::new(format!(
                "{}: the account exists already",
                path.display()
            )));
        }
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(&self.0)
            .map_err(|error| self.error("cannot create", &self.0, &error))?;
        let (first, second) = (generate_key()?, generate_key()?);
        let mut text = Zeroizing::new(format!("key1 = \"{}\"\nkey2 = \"{}\"\n", &*first, &*second));
        for (name, value) in settings {
            text.push_str(&format!("{name} = {value}\n"));
        }
        self.write(account, &text)?;
        Ok(first)
    }

    /// Gives an account another first or second key, and returns it. The other key goes on being
    /// good.
    ///
    /// # Errors
    /// If the account has no file here, or it cannot be written.
    pub fn rotate(&self, account: &AccountName, number: KeyNumber) -> Result<KeyText, ConfigError> {
        let path = self.file(account);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            ConfigError::new(format!(
                "{}: {error}; only accounts of this folder can be rotated",
                path.display()
            ))
        })?;
        let text = Zeroizing::new(text);
        let key = generate_key()?;
        self.write(account, &with_key(&text, number, &key))?;
        Ok(key)
    }

    /// Takes an account's file away. What it holds in the store stays there.
    ///
    /// # Errors
    /// If the account has no file here, or it cannot be removed.
    pub fn remove(&self, account: &AccountName) -> Result<(), ConfigError> {
        let path = self.file(account);
        std::fs::remove_file(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ConfigError::new(format!(
                "{} does not exist; only accounts of this folder can be removed",
                path.display()
            )),
            _ => self.error("cannot remove", &path, &error),
        })?;
        File::open(&self.0)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| self.error("cannot write", &self.0, &error))
    }

    /// Whole or not at all: a new file beside the old one takes its name once it is on disk.
    fn write(&self, account: &AccountName, text: &str) -> Result<(), ConfigError> {
        let (path, beside) = (self.file(account), self.0.join(format!("{account}.toml.new")));
        let create = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&beside);
        let mut file = create.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => ConfigError::new(format!(
                "{}: another change is under way; remove the file if that is not so",
                beside.display()
            )),
            _ => self.error("cannot create", &beside, &error),
        })?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| std::fs::rename(&beside, &path));
        renamed.and_then(|()| File::open(&self.0)?.sync_all()).map_err(|error| {
            let _may_be_gone = std::fs::remove_file(&beside);
            self.error("cannot write", &path, &error)
        })
    }

    fn file(&self, account: &AccountName) -> PathBuf {
        self.0.join(format!("{account}.toml"))
    }

    fn error(&self, what: &str, path: &Path, error: &io::Error) -> ConfigError {
        ConfigError::new(format!("{what} {}: {error}", path.display()))
    }
}

/// The file with another key; everything else stays as somebody wrote it, comments too.
fn with_key(text: &str, number: KeyNumber, key: &str) -> Zeroizing<String> {
    let line = Zeroizing::new(format!("{} = \"{key}\"", number.field()));
    let is_it = |text: &str| {
        text.trim_start()
            .strip_prefix(number.field())
            .is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let mut found = false;
    let mut out = Zeroizing::new(String::with_capacity(text.len() + line.len() + 1));
    for standing in text.lines() {
        let replace = is_it(standing) && !found;
        found |= replace;
        out.push_str(if replace { &line } else { standing });
        out.push('\n');
    }
    if !found {
        out.insert_str(0, &format!("{}\n", &*line));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tavola_core::AccountName;

    use super::{AccountFolder, KeyNumber};
    use crate::config::{Config, Layers, Personality, Schema};

    const KEY: &str = "YSBrZXkgb2YgYW4gYWNjb3VudCBpbiB0ZXN0cywgbG9uZw==";

    fn account(name: &str) -> AccountName {
        AccountName::parse(name).unwrap()
    }

    fn resolve(folder: &AccountFolder, environment: &[(&str, &str)]) -> Result<Config, String> {
        let path = folder.path().to_str().unwrap().to_owned();
        let own = [("TAVOLA_SERVER__ACCOUNTS_FOLDER".to_owned(), path)];
        let given =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut layers = Layers::read(Schema::server_only(), None, own.into_iter().chain(given));
        layers.read_account_folder();
        Config::resolve(&layers, Personality::Server).map_err(|error| error.to_string())
    }

    #[test]
    fn accounts_are_written_and_read() {
        let parent = tempfile::tempdir().unwrap();
        let folder = AccountFolder::new(parent.path().join("accounts"));
        assert!(folder.accounts().unwrap().is_empty());
        let missing = resolve(&folder, &[]).unwrap_err();
        assert!(
            missing.contains("accounts does not exist"),
            "a folder that was named is not left out: {missing}"
        );
        let development =
            resolve(&folder, &[("TAVOLA_SERVER__DEVELOPMENT_ACCOUNT", "true")]).unwrap();
        assert!(development.accounts.is_development());
        let key = folder.add(&account("shop"), &[("read_only", "true".to_owned())]).unwrap();
        assert_eq!(key.len(), 88);
        let mode =
            |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(&folder.path().join("shop.toml")), 0o600);
        let config = resolve(&folder, &[]).unwrap();
        assert!(config.accounts.get(&account("shop")).unwrap().read_only);
        assert!(
            folder.add(&account("shop"), &[]).unwrap_err().to_string().contains("exists already")
        );
        let twice = resolve(&folder, &[("TAVOLA_ACCOUNTS__SHOP__KEY1", KEY)]).unwrap_err();
        assert!(twice.contains("configured elsewhere too"), "{twice}");
    }

    #[test]
    fn a_rotation_changes_one_key_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let folder = AccountFolder::new(parent.path());
        let first = folder.add(&account("shop"), &[]).unwrap();
        let file = folder.path().join("shop.toml");
        let commented = format!("# ours\n{}", std::fs::read_to_string(&file).unwrap());
        std::fs::write(&file, commented).unwrap();
        let second = folder.rotate(&account("shop"), KeyNumber::Second).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("# ours\nkey1 = \"{}\"\nkey2 = \"{}\"\n", *first, *second));
        let other = folder.rotate(&account("shop"), KeyNumber::First).unwrap();
        assert_ne!(*other, *first);
        assert!(!std::fs::read_to_string(&file).unwrap().contains(&*first));
        assert!(folder.rotate(&account("nobody"), KeyNumber::First).is_err());
        std::fs::write(folder.path().join("shop.toml.new"), "").unwrap();
        let busy = folder.rotate(&account("shop"), KeyNumber::First).unwrap_err().to_string();
        assert!(busy.contains("another change is under way"), "{busy}");
    }

    #[test]
    fn a_key_that_was_not_there_is_added() {
        assert_eq!(
            *super::with_key("key1 = \"a\"\n", KeyNumber::Second, "b"),
            "key2 = \"b\"\nkey1 = \"a\"\n"
        );
        assert_eq!(
            *super::with_key("key10 = 1\nkey1=\"a\"", KeyNumber::First, "b"),
            "key10 = 1\nkey1 = \"b\"\n"
        );
    }

    #[test]
    fn files_that_are_wrong() {
        let parent = tempfile::tempdir().unwrap();
        let folder = AccountFolder::new(parent.path());
        std::fs::write(parent.path().join("shop.toml"), format!("key1 = \"{KEY}\"\nkex2 = \"x\""))
            .unwrap();
        let error = resolve(&folder, &[]).unwrap_err();
        assert!(error.contains("shop.toml") && error.contains("kex2"), "{error}");
        std::fs::write(parent.path().join("shop.toml"), "key1 = secret").unwrap();
        let error = resolve(&folder, &[]).unwrap_err();
        assert!(error.contains("is not valid TOML") && !error.contains("secret"), "{error}");
        std::fs::remove_file(parent.path().join("shop.toml")).unwrap();
        std::fs::write(parent.path().join("a_b.toml"), "").unwrap();
        assert!(resolve(&folder, &[]).unwrap_err().contains("not named after an account"));
    }
}
