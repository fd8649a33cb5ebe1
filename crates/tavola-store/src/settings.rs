//! What an operator can set. A backend declares its settings in its own crate, each once: path,
//! flag, default and help in a [`Setting`], range and meaning where [`SettingValues`] are read.
//! Whoever joins backends with a server hands the declarations over.

use std::fmt;
use std::str::FromStr;

/// One setting. Its variable, help pages, the template of a file and the reference follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// `section.key` in the file.
    pub path: &'static str,
    /// The long flag, if there is one.
    pub flag: Option<&'static str>,
    /// Placeholder of the value in help.
    pub value: &'static str,
    /// As written in the file; empty if there is none.
    pub default: &'static str,
    /// One line.
    pub help: &'static str,
}

impl Setting {
    /// A declaration, in the order of its columns.
    #[must_use]
    pub const fn new(
        path: &'static str,
        flag: Option<&'static str>,
        value: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { path, flag, value, default, help }
    }

    /// The variable that sets it: `TAVOLA_SECTION__KEY`.
    #[must_use]
    pub fn variable(&self) -> String {
        variable_of(self.path)
    }

    /// A password, which is masked wherever settings are shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.path.ends_with("password")
    }

    /// The name of a file or folder.
    #[must_use]
    pub fn is_path(&self) -> bool {
        matches!(self.value, "FILE" | "FOLDER")
    }

    /// The name of a file whose content is a secret.
    #[must_use]
    pub fn is_secret_file(&self) -> bool {
        self.path.ends_with("password_file")
    }
}

/// The variable that sets the value at a path: `TAVOLA_SECTION__KEY`.
#[must_use]
pub fn variable_of(path: &str) -> String {
    format!("TAVOLA_{}", path.replace('.', "__").to_ascii_uppercase())
}

/// A former name of a setting. It still works everywhere, and the server logs the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldName {
    /// The former path.
    pub path: &'static str,
    /// The former flag, if the flag changed.
    pub flag: Option<&'static str>,
    /// The current path.
    pub now: &'static str,
}

/// The values of settings by path: what somebody wrote, or the default.
pub trait SettingValues {
    /// What a wrong value is reported as.
    type Error;

    /// The value at the path of a setting.
    fn text(&self, path: &str) -> &str;

    /// An error about the value at a path.
    fn error(&self, path: &str, problem: &str) -> Self::Error;

    /// The value at a path, as a type.
    ///
    /// # Errors
    /// If it is not one of that type.
    fn parse<T: FromStr<Err: fmt::Display>>(&self, path: &str) -> Result<T, Self::Error> {
        let text = self.text(path);
        text.parse().map_err(|error| self.error(path, &format!("\"{text}\" does not fit: {error}")))
    }

    /// The whole number at a path, within bounds.
    ///
    /// # Errors
    /// If it is not a number or outside.
    fn parse_in<T>(&self, path: &str, min: T, max: T) -> Result<T, Self::Error>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let number =
            self.text(path).trim().parse().ok().filter(|number| (&min..=&max).contains(&number));
        number.ok_or_else(|| self.misfit(path, &format!("{min}–{max}")))
    }

    /// The switch at a path.
    ///
    /// # Errors
    /// If it is neither `true` nor `false`.
    fn parse_bool(&self, path: &str) -> Result<bool, Self::Error> {
        self.text(path).parse().map_err(|_| self.misfit(path, "true or false"))
    }

    /// What the word at a path stands for.
    ///
    /// # Errors
    /// If it is none of the words.
    fn parse_word<T: Copy, const COUNT: usize>(
        &self,
        path: &str,
        words: [(&str, T); COUNT],
    ) -> Result<T, Self::Error> {
        let text = self.text(path);
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let known = either(&words.map(|(word, _)| word));
            self.error(path, &format!("\"{text}\" is not {known}"))
        })
    }

    /// The value at a path, if it is not empty.
    fn optional(&self, path: &str) -> Option<&str> {
        Some(self.text(path)).filter(|text| !text.is_empty())
    }

    /// The items of a value that is a list: separated by commas, or an array in the file.
    fn list(&self, path: &str) -> impl Iterator<Item = &str> {
        items(self.text(path))
    }

    /// An error about a value that is not what is expected.
    fn misfit(&self, path: &str, expected: &str) -> Self::Error {
        self.error(path, &format!("\"{}\" does not fit: must be {expected}", self.text(path)))
    }
}

/// The items of a list in one text.
pub fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// `a`, `a or b`, `a, b or c`.
fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

/// The defaults of some settings, for those that are configured by code alone.
#[derive(Debug, Clone, Copy)]
pub struct Defaults(pub &'static [Setting]);

impl SettingValues for Defaults {
    type Error = String;

    fn text(&self, path: &str) -> &str {
        let setting = self.0.iter().find(|setting| setting.path == path);
        setting.expect("only declared settings are read").default
    }

    fn error(&self, path: &str, problem: &str) -> String {
        format!("{path}: {problem}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Defaults, Setting, SettingValues as _};

    const SETTINGS: &[Setting] = &[
        Setting::new("store.size_mb", None, "MB", "64", ""),
        Setting::new("store.kind", None, "WORD", "fast", ""),
        Setting::new("store.nodes", None, "NODES", "a, b,,c", ""),
        Setting::new("store.password_file", None, "FILE", "", ""),
    ];

    #[test]
    fn values_are_read_within_their_bounds() {
        let values = Defaults(SETTINGS);
        assert_eq!(values.parse_in("store.size_mb", 8, 64), Ok(64));
        assert_eq!(
            values.parse_in("store.size_mb", 8, 63).unwrap_err(),
            "store.size_mb: \"64\" does not fit: must be 8–63"
        );
        assert_eq!(values.parse_word("store.kind", [("fast", 1), ("safe", 2)]), Ok(1));
        assert_eq!(
            values.parse_word("store.kind", [("a", 1), ("b", 2), ("c", 3)]).unwrap_err(),
            "store.kind: \"fast\" is not a, b or c"
        );
        assert_eq!(values.list("store.nodes").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(values.optional("store.password_file"), None);
        assert!(values.parse_bool("store.kind").unwrap_err().contains("true or false"));
    }

    #[test]
    fn what_a_setting_is_called_and_what_it_hides() {
        let [size, .., file] = SETTINGS else { unreachable!("there are four") };
        assert_eq!(size.variable(), "TAVOLA_STORE__SIZE_MB");
        assert!(file.is_secret_file() && file.is_path() && !file.is_secret());
    }
}
