//! A TOML text as values by path, each with its line.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One value of a file, or a section without any.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: String,
    /// `None`: a section with nothing in it.
    pub(super) value: Option<String>,
    /// Counted from 1.
    pub(super) line: usize,
}

/// What is no TOML: the line and the parser's words, which never quote the text, because the text
/// may be a key.
#[derive(Debug)]
pub(super) struct SyntaxProblem {
    pub(super) line: usize,
    pub(super) message: String,
}

/// The values of a text whose keys stand below `prefix`, and what could not be read.
pub(super) fn read(prefix: &str, text: &str) -> (Vec<Entry>, Vec<SyntaxProblem>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let problem = |error: toml::de::Error| SyntaxProblem {
        line: error.span().map_or(1, |span| line_of(text, &span)),
        message: error.message().lines().collect::<Vec<_>>().join(", "),
    };
    let problems: Vec<SyntaxProblem> = errors.into_iter().map(problem).collect();
    let mut entries = Vec::new();
    flatten_table(prefix, text, document.get_ref(), 1, &mut entries);
    (entries, problems)
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count() + 1
}

fn flatten_table(
    prefix: &str,
    text: &str,
    table: &DeTable<'_>,
    line: usize,
    entries: &mut Vec<Entry>,
) {
    if table.is_empty() {
        entries.push(Entry { path: prefix.to_owned(), value: None, line });
    }
    for (key, value) in table {
        let name = key.get_ref();
        let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
        let line = line_of(text, &key.span());
        match value.get_ref() {
            DeValue::Table(table) => flatten_table(&path, text, table, line, entries),
            value => entries.push(Entry { path, value: Some(text_of(value)), line }),
        }
    }
}

fn text_of(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(values) => {
            let items: Vec<String> = values.iter().map(Spanned::get_ref).map(text_of).collect();
            items.join(",")
        }
        // Only inside of an array, where no setting has one.
        DeValue::Table(_) => "{…}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn values_have_paths_and_lines() {
        let text = "# first\n[server]\ntable_port = 0x10\nadmin_names = [\"a\", \"b\"]\n\n[accounts.shop]\n\
                    [auth.oidc.x]\nissuer = \"i\"\n";
        let (entries, problems) = read("", text);
        assert!(problems.is_empty());
        let mut shown: Vec<String> = entries
            .iter()
            .map(|entry| format!("{} {} {:?}", entry.line, entry.path, entry.value))
            .collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "3 server.table_port Some(\"16\")",
                "4 server.admin_names Some(\"a,b\")",
                "6 accounts.shop None",
                "8 auth.oidc.x.issuer Some(\"i\")",
            ]
        );
        let (entries, _) = read("accounts.shop", "");
        assert_eq!(
            (entries[0].path.as_str(), entries[0].value.as_deref()),
            ("accounts.shop", None)
        );
    }

    #[test]
    fn every_broken_line_is_named_and_none_is_quoted() {
        let (entries, problems) =
            read("", "[server]\nhost = secret1\ntable_port = 1\nadmin_host = secret2 x\n");
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert!(lines.contains(&2) && lines.contains(&4), "{problems:?}");
        assert!(problems.iter().all(|problem| !problem.message.contains("secret")), "{problems:?}");
        assert!(entries.iter().any(|entry| entry.path == "server.table_port"), "{entries:?}");
    }
}
