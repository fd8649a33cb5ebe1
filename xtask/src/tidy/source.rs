//! Rust source with comments, strings and characters blanked out, so that the other checks see code
//! only.

/// Replaces every such character by a space; lines and columns stay where they were.
pub(super) fn code_only(source: &str) -> String {
    let mut scanner = Scanner { rest: source, code: String::with_capacity(source.len()) };
    while let Some(c) = scanner.rest.chars().next() {
        scanner.step(c);
    }
    scanner.code
}

struct Scanner<'a> {
    rest: &'a str,
    code: String,
}

impl Scanner<'_> {
    fn step(&mut self, first: char) {
        if self.rest.starts_with("//") {
            self.blank(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.blank(block_comment(self.rest));
        } else if first == '"' {
            self.blank(string(self.rest));
        } else if let Some(length) = raw_string(self.rest).filter(|_| !self.is_inside_name()) {
            self.blank(length);
        } else if first == '\'' {
            // A lifetime has no closing quote; one character is then kept as code.
            self.blank(character(self.rest).unwrap_or(1));
        } else {
            self.keep(first.len_utf8());
        }
    }

    /// Whether the last character belongs to a name: the `r` of `for"…"` begins no raw string.
    fn is_inside_name(&self) -> bool {
        self.code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    fn keep(&mut self, length: usize) {
        let (kept, rest) = self.rest.split_at(length);
        self.code.push_str(kept);
        self.rest = rest;
    }

    fn blank(&mut self, length: usize) {
        let (blanked, rest) = self.rest.split_at(length);
        self.code.extend(blanked.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#`, `br"…"`, `cr"…"`: the length, if the text begins with one.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"].iter().find(|prefix| text.starts_with(**prefix))?.len();
    let hashes = text[prefix..].chars().take_while(|c| *c == '#').count();
    let body = text[prefix + hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&closing).map_or(body.len(), |at| at + closing.len());
    Some(prefix + hashes + 1 + length)
}

/// `'x'` or `'\n'`: the length, if the text begins with one and not with a lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = &text[1..];
    let first = inner.chars().next()?;
    if first == '\\' {
        let close = inner.char_indices().skip(2).find(|(_, c)| *c == '\'')?;
        return Some(close.0 + 2);
    }
    inner[first.len_utf8()..].starts_with('\'').then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        for (source, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("{") g"#, r"f(   ) g"),
            (r#"f("\"{") g"#, r"f(     ) g"),
            (r##"f(r#"{"}"#) g"##, r"f(        ) g"),
            ("x = '{'; y", "x =    ; y"),
            (r"x = '\''; y", "x =     ; y"),
            (r"x = '\u{7b}'; y", "x =         ; y"),
            ("fn f<'a>(x: &'a str)", "fn f< a>(x: & a str)"),
            ("b'{' br\"{\"", "b         "),
            ("\"open", "     "),
        ] {
            assert_eq!(code_only(source), code, "{source}");
        }
    }
}
