//! Configurations that work and are not safe. The server logs them when it starts, and `tavola
//! doctor` reports them.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Config, Personality};

/// Mode bits that let the group or others read.
const READ_BY_OTHERS: u32 = 0o044;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// One word.
    pub subject: &'static str,
    /// What was found.
    pub says: String,
    /// What to do about it.
    pub advice: String,
}

impl Config {
    /// Everything in this configuration, and in the modes of the files that it names, that is not
    /// safe.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings: Vec<Warning> = self.plain_http().into_iter().collect();
        warnings.extend(self.weak_keys());
        warnings.extend(self.secret_files.iter().filter_map(|file| readable_file(file)));
        warnings.extend(readable_folder(self.account_folder.path()));
        warnings
    }

    fn plain_http(&self) -> Option<Warning> {
        let listener = self.beyond_loopback().filter(|_| self.tls.is_none())?;
        Some(Warning {
            subject: "connections",
            says: format!(
                "not encrypted on {}: anyone on the network path can read data and signatures",
                listener.address
            ),
            advice:
                "set tls.cert and tls.key (`tavola cert` makes a pair), or listen on 127.0.0.1 \
                 behind a proxy that speaks https"
                    .to_owned(),
        })
    }

    fn weak_keys(&self) -> Vec<Warning> {
        let is_reachable = self.beyond_loopback().is_some() || !self.trusted_proxies.is_empty();
        // An emulator is meant to be used with that key.
        let public_matters = is_reachable && self.personality == Personality::Server;
        let mut accounts: Vec<_> = self.accounts.iter().collect();
        accounts.sort_by_key(|(name, _)| *name);
        let of_account = accounts.into_iter().filter_map(|(name, account)| {
            let (says, advice) = if account.has_short_key {
                let says = format!(
                    "a key of the account {name} is shorter than 32 bytes and can be guessed"
                );
                (
                    says,
                    "create one with `openssl rand -base64 64`; `tavola serve` would reject this \
                     one",
                )
            } else if account.has_public_key && public_matters {
                let says = format!(
                    "the account {name} has the development account's key, which is public"
                );
                (
                    says,
                    "anyone who reaches the server can read and change its data; create another \
                     account",
                )
            } else {
                return None;
            };
            Some(Warning { subject: "keys", says, advice: advice.to_owned() })
        });
        of_account.collect()
    }
}

/// The file's mode, if others than its owner can read it.
fn open_mode(path: &Path, is_kind: fn(&Metadata) -> bool) -> Option<u32> {
    let metadata = std::fs::metadata(path).ok().filter(is_kind)?;
    Some(metadata.permissions().mode() & 0o777).filter(|mode| mode & READ_BY_OTHERS != 0)
}

/// A key opens the whole account, so only the owner of the file may read it.
fn readable_file(file: &Path) -> Option<Warning> {
    open_mode(file, Metadata::is_file).map(|mode| Warning {
        subject: "keys",
        says: format!(
            "{} contains keys, and other users can read it (mode {mode:o})",
            file.display()
        ),
        advice: format!("chmod 600 {}", file.display()),
    })
}

fn readable_folder(folder: &Path) -> Option<Warning> {
    open_mode(folder, Metadata::is_dir).map(|_| Warning {
        subject: "keys",
        says: format!("other users can read {}", folder.display()),
        advice: format!("chmod 700 {}", folder.display()),
    })
}
