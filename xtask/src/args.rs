//! Command lines: options in any order, nothing unknown accepted.

use std::collections::VecDeque;

use crate::failure::{Failure, Result};

/// The words after the command. [`Args::finish`] refuses the words that no option took.
#[derive(Debug)]
pub(crate) struct Args {
    words: VecDeque<String>,
    /// The words after `--`, for the program that is started.
    rest: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        let mut words: VecDeque<String> = words.into_iter().collect();
        let rest = match words.iter().position(|word| word == "--") {
            Some(at) => words.split_off(at).into_iter().skip(1).collect(),
            None => Vec::new(),
        };
        Self { words, rest }
    }

    /// Takes the first word.
    pub(crate) fn command(&mut self) -> Option<String> {
        self.words.pop_front()
    }

    /// Takes `--name`; says whether it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let position = self.words.iter().position(|word| word == name);
        position.and_then(|at| self.words.remove(at)).is_some()
    }

    /// Takes `--name value` or `--name=value`.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>> {
        let with_equals = format!("{name}=");
        let is_it = |word: &String| word == name || word.starts_with(&with_equals);
        let Some(at) = self.words.iter().position(is_it) else {
            return Ok(None);
        };
        let word = self.words.remove(at).unwrap_or_default();
        if let Some(value) = word.strip_prefix(&with_equals) {
            return Ok(Some(value.to_owned()));
        }
        let value = self.words.remove(at).filter(|value| !value.starts_with("--"));
        value.map(Some).ok_or_else(|| Failure::new(format!("{name} needs a value")))
    }

    /// Takes all words that are no options.
    pub(crate) fn positional(&mut self) -> Vec<String> {
        let (options, words) = self.words.drain(..).partition(|word| word.starts_with('-'));
        self.words = options;
        let words: VecDeque<String> = words;
        words.into()
    }

    /// Takes the words after `--`; without `--`, all that is left, so that `cargo xtask serve
    /// --table-port 0` works.
    pub(crate) fn passed_through(&mut self) -> Vec<String> {
        let mut words: Vec<String> = self.words.drain(..).collect();
        words.append(&mut self.rest);
        words
    }

    /// Refuses the words that no option took.
    pub(crate) fn finish(self) -> Result {
        match self.words.front().or(self.rest.first()) {
            Some(word) => Err(Failure::new(format!("unknown argument `{word}`; see --help"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_taken_in_any_order() {
        let mut args = args("sdk go --json=a --key k python");
        assert_eq!(args.command().as_deref(), Some("sdk"));
        assert_eq!(args.value("--key").unwrap().as_deref(), Some("k"));
        assert_eq!(args.value("--json").unwrap().as_deref(), Some("a"));
        assert!(!args.flag("--keep-going"));
        assert_eq!(args.positional(), ["go", "python"]);
        args.finish().unwrap();
    }

    #[test]
    fn unknown_words_are_refused() {
        assert!(args("--tpyo").finish().is_err());
        assert!(args("-- word").finish().is_err());
        assert!(args("--key").value("--key").is_err());
        assert!(args("--key --json").value("--key").is_err());
    }

    #[test]
    fn the_rest_is_passed_through() {
        assert_eq!(args("--a 1 -- --b").passed_through(), ["--a", "1", "--b"]);
    }
}
