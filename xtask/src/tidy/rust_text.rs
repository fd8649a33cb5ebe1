//! What Rust files must not contain, and what a crate must begin with.

use super::{Finding, SourceFile, source};

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let code = source::code_only(&file.text);
    let mut findings = check_code_lines(file, &code);
    findings.extend(check_attributes(file, &code));
    findings.extend(check_crate_docs(file));
    findings
}

fn check_code_lines(file: &SourceFile, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in code.lines().enumerate() {
        if line.contains("dbg!(") {
            findings.push(Finding::at(&file.path, index + 1, "leftover debugging output"));
        }
        if line.contains("#[ignore") {
            let problem = "an ignored test proves nothing: assert today's wrong answer and say why, or remove it";
            findings.push(Finding::at(&file.path, index + 1, problem));
        }
    }
    findings
}

/// An exception to a lint needs its reason: `reason = "…"`, or a comment on its line or the line
/// above.
fn check_attributes(file: &SourceFile, code: &str) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let is_exception = ["#[allow(", "#![allow(", "#[expect(", "#![expect("]
            .iter()
            .any(|start| line.contains(start));
        if is_exception && !has_reason(&lines, index) {
            findings.push(Finding::at(
                &file.path,
                index + 1,
                "a lint is switched off without a reason",
            ));
        }
    }
    findings
}

fn has_reason(lines: &[&str], index: usize) -> bool {
    let attribute_end = lines[index..].iter().position(|line| line.contains(")]")).unwrap_or(0);
    let attribute = &lines[index..=index + attribute_end];
    let above = index.checked_sub(1).map_or("", |above| lines[above]).trim_start();
    // Documentation describes the item, not the exception.
    let is_comment_above =
        above.starts_with("//") && !above.starts_with("///") && !above.starts_with("//!");
    is_comment_above
        || attribute.iter().any(|line| line.contains("reason =") || line.contains("// "))
}

/// The first line of a crate says what it is.
fn check_crate_docs(file: &SourceFile) -> Option<Finding> {
    let is_crate_root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
    let problem = "a crate begins with `//!` and its purpose";
    (is_crate_root && !file.text.starts_with("//!")).then(|| Finding::at(&file.path, 1, problem))
}

#[cfg(test)]
mod tests {
    use super::super::source_file;
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        check(&source_file("a.rs", text)).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn leftovers_are_found_in_code_only() {
        assert_eq!(lines("let x = dbg!(1);"), ["a.rs:1"]);
        assert_eq!(lines("\n#[ignore]\n#[ignore = \"slow\"]"), ["a.rs:2", "a.rs:3"]);
        assert_eq!(lines("// dbg!(1)\nlet x = \"#[ignore]\";"), [""; 0]);
    }

    #[test]
    fn an_exception_needs_a_reason() {
        assert_eq!(lines("#[allow(dead_code)]\nfn f() {}"), ["a.rs:1"]);
        assert_eq!(lines("/// Documentation.\n#[expect(dead_code)]\nfn f() {}"), ["a.rs:2"]);
        assert_eq!(lines("#[allow(dead_code, reason = \"why\")]"), [""; 0]);
        assert_eq!(lines("#[allow(\n    dead_code,\n    reason = \"why\"\n)]"), [""; 0]);
        assert_eq!(lines("// Why.\n#![allow(dead_code)]"), [""; 0]);
        assert_eq!(lines("#[allow(dead_code)] // why"), [""; 0]);
    }

    #[test]
    fn a_crate_says_what_it_is() {
        let findings = |text| check(&source_file("crates/x/src/lib.rs", text)).len();
        assert_eq!(findings("//! Purpose.\n"), 0);
        assert_eq!(findings("mod a;\n"), 1);
    }
}
