//! Comma-separated values, as RFC 4180 quotes them.

/// One line. A property that is absent is an empty field, an empty text is `""`.
pub(super) fn line(cells: impl Iterator<Item = Option<String>>) -> String {
    let fields: Vec<String> = cells.map(|cell| cell.map(field).unwrap_or_default()).collect();
    fields.join(",")
}

fn field(text: String) -> String {
    let needs_quotes = text.is_empty()
        || text.contains([',', '"', '\n', '\r'])
        || text.starts_with(' ')
        || text.ends_with(' ');
    if needs_quotes { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn quoting() {
        let cells = ["plain", "a,b", "say \"hi\"", "two\nlines", "", " edge", "it's"];
        let texts = cells.map(|cell| Some(cell.to_owned()));
        assert_eq!(
            line(texts.into_iter().chain([None])),
            "plain,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"\",\" edge\",it's,"
        );
    }
}
