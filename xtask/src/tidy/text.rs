//! What no text file must contain.

use super::{Finding, SourceFile};

const FILE_LINES_MAX: usize = 800;
const SOURCE_EXTENSIONS: [&str; 8] = ["rs", "py", "js", "ts", "go", "java", "sh", "toml"];

/// Written apart, or this file would find itself.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Where packages come from is a matter of the machine that builds, not of the repository.
const PACKAGE_HOSTS: [&str; 12] = [
    "index.crates.io",
    "static.crates.io",
    "pypi.org",
    "pythonhosted.org",
    "npmjs.org",
    "proxy.golang.org",
    "sum.golang.org",
    "repo1.maven.org",
    "repo.maven.apache.org",
    "deb.debian.org",
    "security.debian.org",
    "archive.ubuntu.com",
];
const PACKAGE_HOST_WORDS: [&str; 5] = ["registry", "mirror", "artifactory", "nexus", "pkg-proxy"];

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    // Recorded bytes are kept as they are.
    if is_recorded(&file.path) {
        return Vec::new();
    }
    let mut findings: Vec<_> = check_length(file).into_iter().collect();
    for (index, line) in file.text.lines().enumerate() {
        findings.extend(
            check_line(line).into_iter().map(|problem| Finding::at(&file.path, index + 1, problem)),
        );
    }
    findings
}

fn is_recorded(path: &str) -> bool {
    path.split('/').any(|folder| matches!(folder, "corpus" | "fixtures" | "vectors" | "test_data"))
}

fn check_length(file: &SourceFile) -> Option<Finding> {
    let extension = file.path.rsplit('.').next().unwrap_or_default();
    let lines = file.text.lines().count();
    let is_long = SOURCE_EXTENSIONS.contains(&extension) && lines > FILE_LINES_MAX;
    let problem = || format!("{lines} lines; above {FILE_LINES_MAX} two ideas live in one file");
    is_long.then(|| Finding::new(file.path.as_str(), problem()))
}

fn check_line(line: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if line.ends_with([' ', '\t']) {
        problems.push("blanks at the end of the line".to_owned());
    }
    let notes = NOTES.iter().filter(|note| contains_word(line, note));
    problems.extend(notes.map(|note| format!("leftover {note}: do it, or open an issue")));
    let paths = MACHINE_PATHS.iter().filter(|path| contains_path(line, path));
    problems.extend(paths.map(|path| format!("the path {path} exists on one machine only")));
    problems.extend(
        hosts(line)
            .filter(|host| is_package_host(host))
            .map(|host| format!("the package host {host}")),
    );
    problems
}

fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
    })
}

/// Whether an absolute path begins here: `a/work/b` is none.
fn contains_path(line: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '/' | '*');
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_part))
}

/// The hosts of all URLs in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    let urls = line.split("://").skip(1);
    urls.map(|rest| {
        rest.split(|c: char| !c.is_alphanumeric() && c != '.' && c != '-')
            .next()
            .unwrap_or_default()
    })
}

fn is_package_host(host: &str) -> bool {
    let is_known =
        PACKAGE_HOSTS.iter().any(|known| host == *known || host.ends_with(&format!(".{known}")));
    is_known || PACKAGE_HOST_WORDS.iter().any(|word| host.contains(word))
}

#[cfg(test)]
mod tests {
    use super::super::source_file;
    use super::*;

    fn count(line: &str) -> usize {
        check(&source_file("a.md", line)).len()
    }

    #[test]
    fn notes_are_found_as_words() {
        for note in NOTES {
            assert_eq!(count(&format!("// {note}: later")), 1, "{note}");
            assert_eq!(count(&format!("a{note}S and {note}{note}")), 0, "{note}");
        }
    }

    #[test]
    fn machine_paths_are_found() {
        for path in MACHINE_PATHS {
            assert_eq!(count(&format!("cd {path}main")), 1, "{path}");
            assert_eq!(count(&format!("cd a{path}main")), 0, "{path}");
        }
    }

    #[test]
    fn package_hosts_are_found_in_urls() {
        // In pieces, for the same reason as above.
        assert_eq!(count(concat!("\"resolved\": \"https:", "//registry.npmjs.org/x.tgz\"")), 1);
        assert_eq!(count(concat!("index = \"sparse+http:", "//mirror.example.net/index/\"")), 1);
        assert_eq!(count("source = \"registry+https://github.com/rust-lang/crates.io-index\""), 0);
        assert_eq!(count("see https://docs.rs/tokio and crates.io"), 0);
    }

    #[test]
    fn blanks_and_length_are_found() {
        assert_eq!(count("a \nb\t\nc"), 2);
        assert_eq!(check(&source_file("a.rs", &"x\n".repeat(801))).len(), 1);
        assert_eq!(check(&source_file("a.rs", &"x\n".repeat(800))).len(), 0);
        assert_eq!(check(&source_file("a.lock", &"x\n".repeat(801))).len(), 0);
    }

    #[test]
    fn recorded_bytes_are_left_alone() {
        assert_eq!(check(&source_file("tests/fixtures/a.txt", "a \n")).len(), 0);
    }
}
