//! Sets of letters: what a signature allows, and on what.

use crate::service_kind::ServiceKind;

/// A set of small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Letters(u32);

impl Letters {
    /// `None` if a letter is not among `legal`, or stands twice.
    fn parse(text: &str, legal: &str) -> Option<Self> {
        let mut set = Self::default();
        for letter in text.chars() {
            if !legal.contains(letter) || set.has(letter) {
                return None;
            }
            set.0 |= Self::bit(letter);
        }
        Some(set)
    }

    fn has(self, letter: char) -> bool {
        self.0 & Self::bit(letter) != 0
    }

    fn bit(letter: char) -> u32 {
        debug_assert!(letter.is_ascii_lowercase(), "sets hold small letters");
        1 << (u32::from(letter) - u32::from('a')).min(31)
    }
}

/// What a signature allows: the letters of `sp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permissions(Letters);

impl Permissions {
    /// The letters of a table's signature and of stored access policies.
    pub const TABLE: &'static str = "raud";
    /// The letters of a queue's signature.
    pub const QUEUE: &'static str = "raup";
    /// The letters of a signature for a container of blobs, or for one of them.
    pub const BLOB: &'static str = "racwdxyltmeopi";
    /// The letters of an account's signature, those of the other services among them.
    pub const ACCOUNT: &'static str = "rwdxylacuptfi";

    /// Reads the letters of a signature for one container of a service, each at most once, at least
    /// one.
    #[must_use]
    pub fn of_service(service: ServiceKind, letters: &str) -> Option<Self> {
        let legal = match service {
            ServiceKind::Blob => Self::BLOB,
            ServiceKind::Queue => Self::QUEUE,
            ServiceKind::Table => Self::TABLE,
        };
        Self::parse(letters, legal)
    }

    /// Reads the letters of an account's signature, each at most once, at least one.
    #[must_use]
    pub fn of_account(letters: &str) -> Option<Self> {
        Self::parse(letters, Self::ACCOUNT)
    }

    fn parse(letters: &str, legal: &str) -> Option<Self> {
        Letters::parse(letters, legal).filter(|_| !letters.is_empty()).map(Self)
    }

    pub(super) fn has(self, letter: char) -> bool {
        self.0.has(letter)
    }
}

/// The kinds of resource that an account's signature opens: the letters of `srt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceTypes(Letters);

impl ResourceTypes {
    /// Reads letters of `sco` (service, container, object), each at most once, at least one.
    #[must_use]
    pub fn parse(letters: &str) -> Option<Self> {
        Letters::parse(letters, "sco").filter(|_| !letters.is_empty()).map(Self)
    }

    pub(super) fn has_any(self, letters: &str) -> bool {
        letters.chars().any(|letter| self.0.has(letter))
    }
}
