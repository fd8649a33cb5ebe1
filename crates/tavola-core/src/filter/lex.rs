//! The tokens of a filter.
//!
//! Reading them cannot fail: what is no token is [`Kind::Stray`], which no rule of the grammar
//! takes, so that there is one place that complains. White space separates words; quotes,
//! parentheses and commas separate themselves.

/// Words that, with a quoted text directly behind, are one literal.
const LITERAL_PREFIXES: [&str; 4] = ["datetime", "guid", "X", "binary"];

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'t> {
    /// `(`
    Open,
    /// `)`
    Close,
    /// A keyword, a property or a number.
    Word(&'t str),
    /// `prefix'body'`, the prefix empty for a plain text, doubled quotes still doubled.
    Quoted { prefix: &'t str, body: &'t str },
    /// A text without an end, or a character without a meaning.
    Stray,
    /// There is no more.
    End,
}

/// A token and where it stands, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind<'t>,
    pub(super) start: usize,
    /// Just behind it.
    pub(super) end: usize,
}

/// A place in the text; a copy of it looks ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) const fn text(&self) -> &'t str {
        self.text
    }

    pub(super) fn text_of(&self, token: Token<'t>) -> &'t str {
        &self.text[token.start..token.end]
    }

    pub(super) fn next_token(&mut self) -> Token<'t> {
        self.at = self.text.len() - self.rest().trim_start().len();
        let start = self.at;
        let kind = match self.rest().chars().next() {
            None => Kind::End,
            Some('(') => self.one_byte(Kind::Open),
            Some(')') => self.one_byte(Kind::Close),
            Some(',') => self.one_byte(Kind::Stray),
            Some('\'') => self.quoted(""),
            Some(_) => self.word(),
        };
        Token { kind, start, end: self.at }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn one_byte(&mut self, kind: Kind<'t>) -> Kind<'t> {
        self.at += 1;
        kind
    }

    fn word(&mut self) -> Kind<'t> {
        let rest = self.rest();
        let separates = |character: char| {
            character.is_whitespace() || matches!(character, '(' | ')' | ',' | '\'')
        };
        let word = &rest[..rest.find(separates).unwrap_or(rest.len())];
        self.at += word.len();
        let is_prefix = self.rest().starts_with('\'') && LITERAL_PREFIXES.contains(&word);
        if is_prefix { self.quoted(word) } else { Kind::Word(word) }
    }

    /// Reads from the opening quote.
    fn quoted(&mut self, prefix: &'t str) -> Kind<'t> {
        let start = self.at + 1;
        let mut end = start;
        while let Some(to_quote) = self.text[end..].find('\'') {
            end += to_quote;
            self.at = end + 1;
            if !self.rest().starts_with('\'') {
                return Kind::Quoted { prefix, body: &self.text[start..end] };
            }
            end = self.at + 1;
        }
        self.at = self.text.len();
        Kind::Stray
    }
}
