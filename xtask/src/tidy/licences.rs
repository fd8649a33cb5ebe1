//! The licences of everything we link, against the list in `deny.toml`.
//!
//! `cargo deny` checks the same and more, but takes long to install; this one always runs.

use serde_json::Value;

use super::Finding;
use crate::failure::{Failure, Result};

pub(super) fn check(metadata: &Value, deny_toml: &str) -> Result<Vec<Finding>> {
    let allowed = allowed(deny_toml)?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    // Our own packages come from a path, not from a registry.
    let foreign = packages.iter().filter(|package| !package["source"].is_null());
    Ok(foreign.filter_map(|package| check_package(package, &allowed)).collect())
}

/// The list `allow = [ … ]`, so that it stands in one place.
fn allowed(deny_toml: &str) -> Result<Vec<&str>> {
    let missing = || Failure::new("deny.toml has no list `allow = [ … ]`");
    let (_, list) = deny_toml.split_once("\nallow = [").ok_or_else(missing)?;
    let (list, _) = list.split_once(']').ok_or_else(missing)?;
    Ok(list
        .split(',')
        .map(|item| item.trim().trim_matches('"'))
        .filter(|item| !item.is_empty())
        .collect())
}

fn check_package(package: &Value, allowed: &[&str]) -> Option<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some(licence) = package["license"].as_str() else {
        return Some(Finding::new(name, "the package names no licence"));
    };
    if is_allowed(licence, allowed) {
        return None;
    }
    Some(Finding::new(name, format!("the licence `{licence}` is not among those of deny.toml")))
}

/// Evaluates an SPDX expression: one side of `OR`, all sides of `AND`. The old `MIT/Apache-2.0`
/// means `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let result = parser.any_of();
    result && parser.words.is_empty()
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn any_of(&mut self) -> bool {
        let mut result = self.all_of();
        while self.take("OR") {
            result |= self.all_of();
        }
        result
    }

    fn all_of(&mut self) -> bool {
        let mut result = self.one();
        while self.take("AND") {
            result &= self.one();
        }
        result
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let result = self.any_of();
            return self.take(")") && result;
        }
        let Some(licence) = self.next() else { return false };
        if !self.take("WITH") {
            return self.allowed.contains(&licence);
        }
        let exception = self.next().unwrap_or_default();
        self.allowed.contains(&format!("{licence} WITH {exception}").as_str())
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALLOWED: [&str; 3] = ["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];

    #[test]
    fn one_side_of_or_is_enough() {
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR X",
        ] {
            assert!(is_allowed(good, &ALLOWED), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0",
            "(MIT",
            "MIT GPL-3.0",
            "MIT WITH Other-exception",
        ] {
            assert!(!is_allowed(bad, &ALLOWED), "{bad}");
        }
    }

    #[test]
    fn a_foreign_package_with_another_licence_is_found() {
        let deny = "[licenses]\nallow = [\n    \"MIT\",\n]\n";
        let metadata = json!({"packages": [
            {"name": "ours", "source": null, "license": "Secret"},
            {"name": "good", "source": "registry", "license": "MIT"},
            {"name": "bad", "source": "registry", "license": "AGPL-3.0"},
            {"name": "silent", "source": "registry", "license": null},
        ]});
        let findings = check(&metadata, deny).unwrap();
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["bad", "silent"]);
        assert!(check(&metadata, "[licenses]").is_err());
    }
}
