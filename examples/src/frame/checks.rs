//! Invariants, counted.

use std::sync::{Mutex, PoisonError};

use super::show::times;

/// How often each invariant was looked at, and how often it held.
#[derive(Debug)]
pub(super) struct Checks(Mutex<Vec<Tally>>);

#[derive(Debug)]
struct Tally {
    invariant: &'static str,
    checked: u64,
    held: u64,
    /// What was found when it did not hold for the first time.
    broken: Option<String>,
}

impl Checks {
    pub(super) fn new(invariants: &[&'static str]) -> Self {
        let tally =
            |invariant: &&'static str| Tally { invariant, checked: 0, held: 0, broken: None };
        Self(Mutex::new(invariants.iter().map(tally).collect()))
    }

    /// Counts; an invariant that the program did not declare is a mistake of the program.
    pub(super) fn count(&self, invariant: &'static str, found: Result<(), String>) {
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = tallies.iter_mut().find(|tally| tally.invariant == invariant);
        let Some(tally) = tally else { panic!("`{invariant}` was not declared") };
        tally.checked += 1;
        match found {
            Ok(()) => tally.held += 1,
            Err(found) => drop(tally.broken.get_or_insert(found)),
        }
    }

    /// Whether all held, what was found where one did not, and the last line of the program.
    pub(super) fn verdict(&self, program: &str) -> (bool, Vec<String>, String) {
        let tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all_held = tallies.iter().all(|tally| tally.checked > 0 && tally.held == tally.checked);
        let found = tallies.iter().filter_map(|tally| {
            let found = tally.broken.as_ref()?;
            Some(format!("BROKEN: {}: {found}", tally.invariant))
        });
        let counts = tallies.iter().map(|tally| {
            let (checked, held) = (times(tally.checked), times(tally.held));
            format!("{}: checked {checked}, held {held}", tally.invariant)
        });
        let counts: Vec<_> = counts.collect();
        let word = if all_held { "all invariants held" } else { "AN INVARIANT DID NOT HOLD" };
        (all_held, found.collect(), format!("{program}: {word}: {}", counts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::Checks;

    #[test]
    fn one_that_was_never_checked_did_not_hold() {
        let checks = Checks::new(&["a", "b"]);
        checks.count("a", Ok(()));
        assert!(!checks.verdict("p").0);
        checks.count("b", Ok(()));
        let (all_held, found, line) = checks.verdict("p");
        assert!(all_held && found.is_empty());
        let counts = "a: checked once, held once; b: checked once, held once";
        assert_eq!(line, format!("p: all invariants held: {counts}"));
        checks.count("b", Err("3 of 4".to_owned()));
        checks.count("b", Err("4 of 4".to_owned()));
        let (all_held, found, line) = checks.verdict("p");
        assert_eq!((all_held, found), (false, vec!["BROKEN: b: 3 of 4".to_owned()]));
        assert!(line.contains("b: checked 3 times, held once"), "{line}");
    }
}
