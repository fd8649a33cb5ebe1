//! What is wrong with a configuration: all of it at once, in words.

use std::fmt;

/// What is wrong with a configuration, for a person to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// One problem per line.
    text: String,
    /// The setting or section that the problem is about, so that the rest can be checked without
    /// it.
    about: Option<String>,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems().count();
        if count < 2 {
            return f.write_str(&self.text);
        }
        write!(f, "{count} problems in the configuration:")?;
        self.problems().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl ConfigError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), about: None }
    }

    /// An error with this text, about this setting or section.
    pub(crate) fn about(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { text: text.into(), about: Some(path.into()) }
    }

    /// Several errors as one.
    pub(crate) fn all(errors: Vec<Self>) -> Self {
        let texts: Vec<String> = errors.into_iter().map(|error| error.text).collect();
        Self::new(texts.join("\n"))
    }

    /// What it is about, if that is one setting or section.
    pub(crate) fn path(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// Each problem by itself.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.text.lines()
    }
}
