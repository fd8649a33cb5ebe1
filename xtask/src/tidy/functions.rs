//! A ratchet on long functions: new ones are refused, known ones are listed, and the list may only
//! shrink.

use std::collections::BTreeSet;

use super::{Finding, SourceFile, source};

const FUNCTION_LINES_MAX: usize = 70;

/// `list` has one `path::function` per line, with `#` for reasons.
pub(super) fn check(files: &[SourceFile], list: &str) -> Vec<Finding> {
    let listed: BTreeSet<&str> = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let long: Vec<_> = rust.flat_map(long_functions).collect();
    let new =
        long.iter().filter(|function| !listed.contains(function.key.as_str())).map(|function| {
            let problem = format!(
                "the function has {} lines; at most {FUNCTION_LINES_MAX} fit on a screen",
                function.lines
            );
            Finding::new(function.key.as_str(), problem)
        });
    let stale = listed.iter().filter(|key| !long.iter().any(|function| function.key == **key));
    let stale = stale
        .map(|key| Finding::new(*key, "no longer long: remove it from xtask/long-functions.txt"));
    new.chain(stale).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    /// `path::name`.
    key: String,
    lines: usize,
}

fn long_functions(file: &SourceFile) -> Vec<Function> {
    let functions = functions(&source::code_only(&file.text));
    let long = functions.into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
    long.map(|(name, lines)| Function { key: format!("{}::{name}", file.path), lines }).collect()
}

/// Name and length of each function that has a body, from the line of `fn` to that of the closing
/// brace.
fn functions(code: &str) -> Vec<(String, usize)> {
    let starts =
        code.match_indices("fn ").filter(|(at, _)| !code[..*at].ends_with(is_name_character));
    starts.filter_map(|(at, _)| measure(&code[at + "fn ".len()..])).collect()
}

fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn measure(after_fn: &str) -> Option<(String, usize)> {
    let name: String =
        after_fn.trim_start().chars().take_while(|c| is_name_character(*c)).collect();
    let body = body(after_fn)?;
    // The type `fn (u8) -> u8` has no name.
    (!name.is_empty()).then(|| (name, after_fn[..body].matches('\n').count() + 1))
}

/// Where the body ends, if there is one: a `;` outside brackets means a declaration.
fn body(code: &str) -> Option<usize> {
    let mut brackets = 0_usize;
    let mut braces = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '{' => braces += 1,
            '}' if braces == 0 => return None,
            '}' => {
                braces -= 1;
                if braces == 0 && brackets == 0 {
                    return Some(at);
                }
            }
            ';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::source_file;
    use super::*;

    fn body_of(lines: usize) -> String {
        "    x();\n".repeat(lines - 2)
    }

    fn places(text: &str, list: &str) -> Vec<String> {
        check(&[source_file("a.rs", text)], list).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn the_limit_is_seventy_lines() {
        let short = format!("fn short() {{\n{}}}\n", body_of(70));
        let long = format!("fn long() {{\n{}}}\n", body_of(71));
        assert_eq!(places(&short, ""), [""; 0]);
        assert_eq!(places(&long, ""), ["a.rs::long"]);
        assert_eq!(places(&format!("{short}{long}"), "# reason\na.rs::long\n"), [""; 0]);
    }

    #[test]
    fn an_entry_that_is_no_longer_needed_is_refused() {
        assert_eq!(places("fn f() {}\n", "a.rs::f\n"), ["a.rs::f"]);
        assert_eq!(places("", "gone.rs::f\n"), ["gone.rs::f"]);
    }

    #[test]
    fn functions_are_measured() {
        let code = "fn a() {\n}\ntrait T { fn b(x: [u8; 4]); fn c() {\n{\n}\n} }\nlet f: fn (u8) -> u8;\nconst fn d<T>()\nwhere\n{\n}";
        let found: Vec<_> = functions(code);
        let expected = [("a", 2), ("c", 4), ("d", 4)].map(|(name, lines)| (name.to_owned(), lines));
        assert_eq!(found, expected);
    }
}
