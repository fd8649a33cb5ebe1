//! Tokens that were checked a moment ago. Clients send the same one with every request, and a
//! signature costs more to check than a point read.
//!
//! An entry counts only with the keys that its token was checked with: other keys are another
//! generation, so that a token whose key an issuer withdrew is checked again at once.

use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use tavola_core::AccountName;
use tavola_store::BoundedCache;

use super::Bearer;

/// Tokens of so many clients. Beyond them each new one evicts another, which is checked again when
/// it comes.
const ENTRIES_MAX: usize = 4096;
/// A token is checked again after this long, however long it lives.
const REMEMBERED_MAX: Duration = Duration::from_secs(5 * 60);

/// Stands for a token and an account, and cannot be turned back into them: memory that leaks holds
/// no credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// Whether a token is for us depends on the account, so the account is part of it. No account's
    /// name has a zero.
    pub(super) fn of(token: &str, account: &AccountName) -> Self {
        let hash =
            Sha256::new().chain_update(account.as_str()).chain_update([0]).chain_update(token);
        Self(hash.finalize().into())
    }
}

#[derive(Debug, Clone)]
struct Entry {
    bearer: Bearer,
    generation: u64,
    until: SystemTime,
}

impl Entry {
    fn holds(&self, generation: u64, now: SystemTime) -> bool {
        self.generation == generation && now < self.until
    }
}

/// What was found about tokens that held. Others are not remembered, so that nobody can fill it
/// with nonsense.
#[derive(Debug)]
pub(super) struct VerifiedTokens {
    entries: BoundedCache<Digest, Entry>,
}

impl Default for VerifiedTokens {
    fn default() -> Self {
        Self { entries: BoundedCache::new(ENTRIES_MAX) }
    }
}

impl VerifiedTokens {
    /// The bearer of a token that was checked with the keys of this generation.
    pub(super) fn get(&self, digest: &Digest, generation: u64, now: SystemTime) -> Option<Bearer> {
        let entry = self.entries.get(digest)?;
        entry.holds(generation, now).then_some(entry.bearer)
    }

    pub(super) fn insert(
        &self,
        digest: Digest,
        generation: u64,
        bearer: Bearer,
        expires: SystemTime,
        now: SystemTime,
    ) {
        let until = expires.min(now + REMEMBERED_MAX);
        self.entries.insert(digest, Entry { bearer, generation, until });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use tavola_core::grant::{Role, RoleAssignment, Scope};

    use super::super::TokenSubject;
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn digest(token: &str) -> Digest {
        Digest::of(token, &AccountName::parse("shop").unwrap())
    }

    fn reader() -> Bearer {
        let subject = TokenSubject { issuer: "issuer".to_owned(), subject: None };
        Bearer {
            roles: vec![RoleAssignment { role: Role::Reader, scope: Scope::Account }],
            subject: Arc::new(subject),
        }
    }

    #[test]
    fn the_account_is_part_of_it() {
        let other = Digest::of("token", &AccountName::parse("shop2").unwrap());
        assert_ne!(digest("token"), other);
        assert_ne!(digest("2token"), other);
        assert_eq!(digest("token"), digest("token"));
    }

    #[test]
    fn until_expiry_or_five_minutes_or_other_keys() {
        let tokens = VerifiedTokens::default();
        tokens.insert(digest("long"), 1, reader(), UNIX_EPOCH + 60 * MINUTE, UNIX_EPOCH);
        tokens.insert(digest("short"), 1, reader(), UNIX_EPOCH + MINUTE, UNIX_EPOCH);
        let is_known = |token, generation, after| {
            tokens.get(&digest(token), generation, UNIX_EPOCH + after).is_some()
        };
        assert!(is_known("long", 1, 4 * MINUTE) && !is_known("long", 1, 5 * MINUTE));
        assert!(is_known("short", 1, MINUTE / 2) && !is_known("short", 1, MINUTE));
        assert!(!is_known("long", 2, MINUTE) && !is_known("other", 1, MINUTE));
    }

    #[test]
    fn a_full_cache_forgets_some_and_not_all() {
        let tokens = VerifiedTokens::default();
        let until = UNIX_EPOCH + MINUTE;
        let numbered = |number: usize| digest(&number.to_string());
        for number in 0..2 * ENTRIES_MAX {
            tokens.insert(numbered(number), 1, reader(), until, UNIX_EPOCH);
            assert!(tokens.entries.len() <= ENTRIES_MAX);
            assert!(tokens.get(&numbered(number), 1, UNIX_EPOCH).is_some(), "the newest is there");
        }
        let known = |number: &usize| tokens.get(&numbered(*number), 1, UNIX_EPOCH).is_some();
        let known = (0..2 * ENTRIES_MAX).filter(known).count();
        assert!(known >= ENTRIES_MAX * 3 / 4, "{known} of {ENTRIES_MAX} are left");
    }

    /// A token that clients send again takes the place of one that has ended.
    #[test]
    fn tokens_that_have_ended_give_way_to_those_in_use() {
        let tokens = VerifiedTokens::default();
        let later = UNIX_EPOCH + 10 * MINUTE;
        for number in 0..ENTRIES_MAX {
            let ended = digest(&format!("ended {number}"));
            tokens.insert(ended, 1, reader(), UNIX_EPOCH + MINUTE, UNIX_EPOCH);
        }
        let live = |number: usize| digest(&format!("live {number}"));
        for number in 0..ENTRIES_MAX {
            tokens.insert(live(number), 1, reader(), later + MINUTE, later);
            assert!(tokens.get(&live(number), 1, later).is_some());
        }
        let known = (0..ENTRIES_MAX).filter(|it| tokens.get(&live(*it), 1, later).is_some());
        let known = known.count();
        assert!(known >= ENTRIES_MAX * 3 / 4, "{known} of {ENTRIES_MAX} are left");
    }
}
