//! The letters of signatures and their meanings.

use crate::exit::Failure;

/// A set of letters, in the order in which the service wants them.
pub(crate) struct Alphabet {
    /// What a letter is called: `permission`.
    noun: &'static str,
    letters: &'static [(char, &'static str)],
}

/// `sp` of a table's signature.
pub(crate) const TABLE_PERMISSIONS: Alphabet = Alphabet {
    noun: "permission of a table",
    letters: &[('r', "read"), ('a', "add"), ('u', "update"), ('d', "delete")],
};

/// `sp` of an account's signature; some are for other services.
pub(crate) const ACCOUNT_PERMISSIONS: Alphabet = Alphabet {
    noun: "permission of an account",
    letters: &[
        ('r', "read"),
        ('w', "write"),
        ('d', "delete"),
        ('x', "delete versions"),
        ('y', "delete for good"),
        ('l', "list"),
        ('a', "add"),
        ('c', "create"),
        ('u', "update"),
        ('p', "process messages"),
        ('t', "tag"),
        ('f', "find by tag"),
        ('i', "set immutability"),
    ],
};

/// `ss`.
pub(crate) const SERVICES: Alphabet = Alphabet {
    noun: "service",
    letters: &[('b', "blobs"), ('q', "queues"), ('t', "tables"), ('f', "files")],
};

/// `srt`.
pub(crate) const RESOURCE_TYPES: Alphabet = Alphabet {
    noun: "resource type",
    letters: &[('s', "the service itself"), ('c', "tables as such"), ('o', "entities")],
};

impl Alphabet {
    /// Checks letters of the command line and sorts them.
    pub(crate) fn parse(&self, flag: &str, text: &str) -> Result<String, Failure> {
        let known = |letter: char| self.letters.iter().any(|(known, _)| *known == letter);
        if let Some(letter) = text.chars().find(|letter| !known(*letter)) {
            return Err(Failure::Usage(format!(
                "{flag}: '{letter}' is no {}; there are: {}",
                self.noun,
                self.all()
            )));
        }
        if let Some(letter) = text.chars().find(|letter| text.matches(*letter).count() > 1) {
            return Err(Failure::Usage(format!("{flag}: '{letter}' occurs more than once")));
        }
        if text.is_empty() {
            return Err(Failure::Usage(format!("{flag} is empty; choose from: {}", self.all())));
        }
        Ok(self
            .letters
            .iter()
            .map(|(letter, _)| letter)
            .filter(|letter| text.contains(**letter))
            .collect())
    }

    fn all(&self) -> String {
        self.letters
            .iter()
            .map(|(letter, word)| format!("{letter} ({word})"))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The meanings of letters: `read, add`.
    pub(crate) fn words(&self, letters: &str) -> String {
        let words = self
            .letters
            .iter()
            .filter(|(letter, _)| letters.contains(*letter))
            .map(|(_, word)| *word);
        words.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::grant::{Permissions, ResourceTypes};

    use super::{ACCOUNT_PERMISSIONS, Alphabet, RESOURCE_TYPES, SERVICES, TABLE_PERMISSIONS};
    use crate::exit::Failure;

    fn problem(alphabet: &Alphabet, text: &str) -> String {
        match alphabet.parse("--flag", text) {
            Err(Failure::Usage(words)) => words,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn letters_are_put_in_order() {
        assert_eq!(TABLE_PERMISSIONS.parse("--flag", "dura").unwrap(), "raud");
        assert_eq!(SERVICES.parse("--flag", "tb").unwrap(), "bt");
        assert_eq!(TABLE_PERMISSIONS.words("ra"), "read, add");
        assert_eq!(
            problem(&TABLE_PERMISSIONS, "rw"),
            "--flag: 'w' is no permission of a table; there are: r (read), a (add), u (update), d \
             (delete)"
        );
        assert_eq!(problem(&RESOURCE_TYPES, "soo"), "--flag: 'o' occurs more than once");
        assert!(problem(&SERVICES, "").starts_with("--flag is empty; choose from: b (blobs)"));
    }

    /// The core reads exactly the letters that are explained here.
    #[test]
    fn nothing_is_missing() {
        let all = |alphabet: &Alphabet| {
            alphabet.letters.iter().map(|(letter, _)| *letter).collect::<String>()
        };
        assert_eq!(all(&TABLE_PERMISSIONS), Permissions::TABLE);
        assert_eq!(all(&ACCOUNT_PERMISSIONS), Permissions::ACCOUNT);
        assert!(ResourceTypes::parse(&all(&RESOURCE_TYPES)).is_some());
    }
}
