//! What in the repository carries a statement of the ledger: tests and pages that name its number.
//!
//! A line of the design guide is named `G122`, a statement of the protocol `statement 252`.

use std::path::Path;

use crate::failure::Result;
use crate::tidy::{self, SourceFile};

/// A test or a page, and the statements that it names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Carrier {
    pub(crate) name: String,
    pub(crate) ids: Vec<String>,
}

impl Carrier {
    pub(crate) fn new(name: impl Into<String>, ids: Vec<String>) -> Self {
        Self { name: name.into(), ids }
    }
}

pub(crate) fn find(root: &Path) -> Result<Vec<Carrier>> {
    let files = tidy::read_files(root)?;
    Ok(files.iter().flat_map(of_file).collect())
}

fn of_file(file: &SourceFile) -> Vec<Carrier> {
    let SourceFile { path, text } = file;
    // The cases of the wire suite name their statements in its report.
    let is_ours = path.starts_with("crates/") && !path.starts_with("crates/tavola-conformance/");
    if is_ours && path.ends_with(".rs") {
        return of_tests(path, text);
    }
    if path.starts_with("docs/") && path.ends_with(".md") {
        let ids = ids(text);
        return (!ids.is_empty()).then(|| Carrier::new(path.as_str(), ids)).into_iter().collect();
    }
    Vec::new()
}

/// Tests whose doc comments name statements, and the file if its header does.
fn of_tests(path: &str, text: &str) -> Vec<Carrier> {
    let mut carriers = Vec::new();
    let (mut header, mut comment) = (String::new(), String::new());
    // The cases of the client suite are a list with a harness of its own.
    let is_case = path.contains("/client_suite/cases/");
    let (mut has_tests, mut is_test) = (path.contains("/examples/") || is_case, is_case);
    for line in text.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("//!") {
            push_line(&mut header, more);
        } else if let Some(more) = line.strip_prefix("///") {
            push_line(&mut comment, more);
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else {
            has_tests |= is_test;
            let named = is_test.then(|| function_name(line)).flatten();
            carriers.extend(named.map(|name| Carrier::new(place(path, name), ids(&comment))));
            (is_test, comment) = (is_case, String::new());
        }
    }
    if has_tests {
        carriers.push(Carrier::new(place(path, ""), ids(&header)));
    }
    carriers.retain(|carrier| !carrier.ids.is_empty());
    carriers
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// `async fn name(` to `name`.
fn function_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    rest.split(['(', '<']).next()
}

/// `crates/tavola-client/tests/it/series.rs` and a test to `client series::test`.
fn place(path: &str, test: &str) -> String {
    let mut parts = path.split('/').skip(1);
    let package = parts.next().unwrap_or_default();
    let package = package.strip_prefix("tavola-").unwrap_or(package);
    let modules: Vec<_> = parts
        .map(|part| part.strip_suffix(".rs").unwrap_or(part))
        .filter(|part| !matches!(*part, "src" | "tests" | "it" | "mod"))
        .chain((!test.is_empty()).then_some(test))
        .collect();
    format!("{package} {}", modules.join("::"))
}

/// The statements that a text names, each once.
fn ids(text: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut add = |id: String| {
        if !ids.contains(&id) {
            ids.push(id);
        }
    };
    let mut after_statement = false;
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let is_number = is_number(word);
        if word.strip_prefix('G').is_some_and(self::is_number) || (after_statement && is_number) {
            add(word.to_owned());
        }
        let is_heading = matches!(word, "statement" | "statements" | "Statement" | "Statements");
        after_statement = is_heading || (after_statement && (is_number || word == "and"));
    }
    ids
}

fn is_number(text: &str) -> bool {
    (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, text: &str) -> Vec<(String, String)> {
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        let carriers = of_file(&file).into_iter();
        carriers.map(|carrier| (carrier.name, carrier.ids.join(" "))).collect()
    }

    fn pair(name: &str, ids: &str) -> (String, String) {
        (name.to_owned(), ids.to_owned())
    }

    #[test]
    fn numbers_are_words() {
        assert_eq!(ids("G1, G122: and (G130), again G1"), ["G1", "G122", "G130"]);
        assert_eq!(ids("Statements 251, 252 and 7: in 30 s"), ["251", "252", "7"]);
        assert_eq!(ids("GB, 12G5, G1234, G, Gx1, 252"), [""; 0]);
    }

    #[test]
    fn tests_and_headers_carry() {
        let text = "//! All of G76.\n\n/// G1: no test.\nfn helper() {}\n\n/// G2.\n/// G3.\n\
                    #[tokio::test(start_paused = true)]\nasync fn it_works() {}\n#[test]\nfn bare() {}\n";
        let path = "crates/tavola-client/tests/it/series.rs";
        assert_eq!(
            named(path, text),
            [pair("client series::it_works", "G2 G3"), pair("client series", "G76")]
        );
        assert_eq!(named("bench/src/main.rs", text), []);
        assert_eq!(named("crates/tavola-conformance/src/x.rs", text), []);
    }

    #[test]
    fn code_without_tests_carries_nothing_and_examples_do() {
        let text = "//! G6\n/// G7: `#[test]`\npub struct Series;\n";
        assert_eq!(named("crates/tavola-client/src/series.rs", text), []);
        let example = "crates/tavola-client/examples/contoso.rs";
        assert_eq!(named(example, text), [pair("client examples::contoso", "G6")]);
    }

    #[test]
    fn cases_of_the_client_suite_carry() {
        let text = "//! Writes.\n\nuse x;\n\n/// G93: limits.\npub(super) async fn limits(site: &Site) {}\n";
        let path = "crates/tavola/tests/client_suite/cases/writes.rs";
        assert_eq!(named(path, text), [pair("tavola client_suite::cases::writes::limits", "G93")]);
    }

    #[test]
    fn pages_carry() {
        let page = named("docs/patterns/series.md", "Lines G122 and G123.");
        assert_eq!(page, [pair("docs/patterns/series.md", "G122 G123")]);
        assert_eq!(named("README.md", "G122"), []);
    }
}
