//! One error type for a program that can only stop and say why.

use std::error::Error;
use std::fmt;

/// What went wrong, in words for the person at the terminal.
#[derive(Debug)]
pub struct Failure(String);

pub type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// Says what was being done when something failed.
pub trait Context<T> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("{}: {error}", doing())))
    }
}

impl Error for Failure {}
