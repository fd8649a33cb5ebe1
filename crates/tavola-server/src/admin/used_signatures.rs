//! Signatures that were used: each counts once. They are remembered for as long as their date would
//! let them count again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tavola_protocol::auth::AdminSignature;
use tavola_protocol::auth::admin::ADMIN_CLOCK_SKEW_MAX;

/// Changes within the time that signatures are remembered; more are refused.
const REMEMBERED_MAX: usize = 10_000;

/// Why a signature that holds does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    #[error(
        "the signature was used before; sign again, within the same second with another x-ms-client-request-id"
    )]
    Used,
    #[error("the signature is older than what this server remembers; sign again")]
    TooOld,
    #[error("too many changes within a few minutes; try again later")]
    TooMany,
}

/// The signatures that were used.
#[derive(Debug)]
pub(super) struct UsedSignatures(Mutex<Remembered>);

#[derive(Debug)]
struct Remembered {
    /// With when they were made.
    signatures: HashMap<Vec<u8>, SystemTime>,
    /// Those made earlier are forgotten, so that none of them may count. It never goes back,
    /// whatever the clock does.
    since: SystemTime,
}

impl UsedSignatures {
    /// Of a server that starts now: what was used before, at another process, it cannot know.
    pub(super) fn new(now: SystemTime) -> Self {
        Self(Mutex::new(Remembered { signatures: HashMap::new(), since: whole_second(now) }))
    }

    /// Uses a signature up.
    pub(super) fn use_up(
        &self,
        signature: &AdminSignature,
        now: SystemTime,
    ) -> Result<(), Unusable> {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.forget_before(now.checked_sub(ADMIN_CLOCK_SKEW_MAX).unwrap_or(UNIX_EPOCH));
        if signature.date < remembered.since {
            return Err(Unusable::TooOld);
        }
        if remembered.signatures.contains_key(&signature.bytes) {
            return Err(Unusable::Used);
        }
        if remembered.signatures.len() >= REMEMBERED_MAX {
            return Err(Unusable::TooMany);
        }
        remembered.signatures.insert(signature.bytes.clone(), signature.date);
        Ok(())
    }
}

impl Remembered {
    fn forget_before(&mut self, time: SystemTime) {
        if time > self.since {
            self.since = time;
            self.signatures.retain(|_, date| *date >= time);
        }
    }
}

/// Dates in headers have no fractions.
fn whole_second(time: SystemTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use tavola_protocol::auth::{AdminSignature, KeyNumber, SignatureKind, Signer};

    use super::{REMEMBERED_MAX, Unusable, UsedSignatures};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn signature(seconds: u64, number: usize) -> AdminSignature {
        let signer = Signer { key: KeyNumber::First, kind: SignatureKind::Admin };
        AdminSignature { date: at(seconds), bytes: number.to_le_bytes().to_vec(), signer }
    }

    #[test]
    fn a_signature_counts_once_whatever_the_clock_does() {
        let used = UsedSignatures::new(at(10_000));
        assert_eq!(used.use_up(&signature(10_000, 1), at(10_000)), Ok(()));
        for now in [10_000, 10_299, 10_301, 20_000, 10_000] {
            assert!(used.use_up(&signature(10_000, 1), at(now)).is_err(), "{now}");
        }
        assert_eq!(used.use_up(&signature(20_000, 2), at(20_000)), Ok(()));
        assert_eq!(used.use_up(&signature(20_000, 2), at(19_900)), Err(Unusable::Used));
    }

    #[test]
    fn what_an_earlier_process_saw_does_not_count() {
        let used = UsedSignatures::new(at(10_000) + Duration::from_millis(700));
        assert_eq!(used.use_up(&signature(9_999, 1), at(10_001)), Err(Unusable::TooOld));
        assert_eq!(used.use_up(&signature(10_000, 1), at(10_001)), Ok(()));
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let used = UsedSignatures::new(at(10_000));
        for number in 0..REMEMBERED_MAX {
            assert_eq!(used.use_up(&signature(10_000, number), at(10_000)), Ok(()));
        }
        assert_eq!(
            used.use_up(&signature(10_000, REMEMBERED_MAX), at(10_000)),
            Err(Unusable::TooMany)
        );
        assert_eq!(used.use_up(&signature(10_400, REMEMBERED_MAX), at(10_400)), Ok(()));
        assert_eq!(used.0.lock().unwrap().signatures.len(), 1);
    }
}
