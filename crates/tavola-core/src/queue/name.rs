//! The names of queues.

use std::fmt;

const CHARS_MIN: usize = 3;
const CHARS_MAX: usize = 63;

/// A queue's name: 3 to 63 lower-case letters, digits and single hyphens between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(String);

/// Why a text names no queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueNameError {
    /// It is too short or too long.
    Length,
    /// It has a character, or a hyphen at a place, that no name has.
    Characters,
}

impl QueueName {
    /// Checks in the service's order: length, then characters.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn parse(name: &str) -> Result<Self, QueueNameError> {
        if !(CHARS_MIN..=CHARS_MAX).contains(&name.chars().count()) {
            return Err(QueueNameError::Length);
        }
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let words_are_plain =
            name.split('-').all(|word| !word.is_empty() && word.bytes().all(is_plain));
        if words_are_plain { Ok(Self(name.to_owned())) } else { Err(QueueNameError::Characters) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{QueueName, QueueNameError};

    #[test]
    fn names() {
        use QueueNameError::*;
        let long = "a".repeat(63);
        for name in ["abc", "a-b", "0-9-z", "123", long.as_str()] {
            assert_eq!(QueueName::parse(name).unwrap().as_str(), name);
        }
        let too_long = "a".repeat(64);
        for (name, error) in [
            ("", Length),
            ("ab", Length),
            (too_long.as_str(), Length),
            ("Abc", Characters),
            ("-ab", Characters),
            ("ab-", Characters),
            ("a--b", Characters),
            ("a_b", Characters),
            ("äbc", Characters),
            ("a.b", Characters),
        ] {
            assert_eq!(QueueName::parse(name), Err(error), "{name}");
        }
    }
}
