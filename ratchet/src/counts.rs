//! The file of stored counts: what they were counted with, then one line per case.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::failure::Result;

/// Instructions per call, by case.
pub(crate) type ByCase = BTreeMap<String, u64>;

const TITLE: &str = "# Instructions per call of each case, counted by callgrind. `cargo xtask ratchet --update` writes this \
                     file;\n# whoever runs it says in the commit message why a count changed.\n";

/// What the file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// What they were counted with, name by name; see [`crate::machine`].
    pub(crate) machine: BTreeMap<String, String>,
    pub(crate) cases: ByCase,
}

impl Counts {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut counts = Self::default();
        for (index, line) in text.lines().enumerate() {
            let wrong = || format!("line {} of the counts is no `case count`: {line}", index + 1);
            if line.trim().is_empty() {
                continue;
            }
            if let Some(comment) = line.strip_prefix('#') {
                // `# name: value`; other comments are for people.
                if let Some((name, value)) = comment.trim().split_once(": ") {
                    counts.machine.insert(name.to_owned(), value.to_owned());
                }
                continue;
            }
            let (case, count) = line.split_once(' ').ok_or_else(wrong)?;
            let count = count.trim().parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
            if counts.cases.insert(case.to_owned(), count).is_some() {
                return Err(format!("the counts have two lines for {case}").into());
            }
        }
        Ok(counts)
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = TITLE.to_owned();
        // Writing to a `String` cannot fail.
        for (name, value) in &self.machine {
            let _ = writeln!(text, "# {name}: {value}");
        }
        for (case, count) in &self.cases {
            let _ = writeln!(text, "{case} {count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let counts = Counts {
            machine: BTreeMap::from([(
                "rustc".to_owned(),
                "rustc 1.95.0 (59807616e 2026-04-14)".to_owned(),
            )]),
            cases: ByCase::from([("parse-get".to_owned(), 1_234), ("a".to_owned(), 1)]),
        };
        let text = counts.to_text();
        assert!(
            text.ends_with("\n# rustc: rustc 1.95.0 (59807616e 2026-04-14)\na 1\nparse-get 1234\n"),
            "{text}"
        );
        assert_eq!(Counts::parse(&text).unwrap(), counts);
        assert_eq!(Counts::parse("").unwrap(), Counts::default());
    }

    #[test]
    fn lines_that_say_nothing_are_refused() {
        for text in [
            "parse-get",
            "parse-get many",
            "parse-get -3",
            "parse-get 0",
            "parse-get 3 4",
            "a 1\na 2",
        ] {
            assert!(Counts::parse(text).is_err(), "{text}");
        }
    }
}
