//! Key templates: `empid_{id:06}`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Ident, LitStr, Result};

use crate::case::plain;

/// A template, taken apart.
#[derive(Clone)]
pub(crate) struct Template {
    pub(crate) text: LitStr,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Literal(String),
    Part(Part),
}

/// A field in a template.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) field: Ident,
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Plain,
    Dec(usize),
    DecDesc(usize),
    Desc,
    Lower,
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str| -> Option<usize> {
            let width = text.strip_prefix('0')?;
            let canonical = !width.starts_with('0');
            width.parse().ok().filter(|width| canonical && (1..=20).contains(width))
        };
        match text {
            "desc" => Some(Self::Desc),
            "lower" => Some(Self::Lower),
            _ => match text.strip_suffix(",desc") {
                Some(width) => digits(width).map(Self::DecDesc),
                None => digits(text).map(Self::Dec),
            },
        }
    }

    /// The marker type.
    pub(crate) fn marker(self) -> TokenStream {
        match self {
            Self::Plain => quote!(::tavola_client::__private::Plain),
            Self::Dec(width) => quote!(::tavola_client::__private::Dec<#width>),
            Self::DecDesc(width) => quote!(::tavola_client::__private::DecDesc<#width>),
            Self::Desc => quote!(::tavola_client::__private::Desc),
            Self::Lower => quote!(::tavola_client::__private::Lower),
        }
    }
}

impl Template {
    /// Reads a template. A part without a name is the field `own`; any other must be in `fields`.
    pub(crate) fn parse(text: &LitStr, own: Option<&Ident>, fields: &[&Ident]) -> Result<Self> {
        let error = |message: String| Error::new(text.span(), message);
        let value = text.value();
        let mut pieces = Vec::new();
        let mut rest = value.as_str();
        while let Some(first) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                push_literal(&mut pieces, first);
                rest = after;
            } else if first == '{' {
                let unclosed =
                    || error("a `{` in the template has no `}`; a brace itself is `{{`".into());
                let (inside, after) = rest[1..].split_once('}').ok_or_else(unclosed)?;
                pieces.push(Piece::Part(part(text, inside, own, fields)?));
                rest = after;
            } else {
                if first == '}' {
                    return Err(error(
                        "a `}` in the template has no `{`; a brace itself is `}}`".into(),
                    ));
                }
                check_literal(first).map_err(error)?;
                push_literal(&mut pieces, first);
                rest = &rest[first.len_utf8()..];
            }
        }
        if matches!(pieces.first(), Some(Piece::Literal(literal)) if literal.starts_with('!')) {
            return Err(error(
                "a key that begins with `!` belongs to the library's own rows".into(),
            ));
        }
        if pieces.is_empty() {
            return Err(error("a template must not be empty".into()));
        }
        Ok(Self { text: text.clone(), pieces })
    }

    /// The template with the names of its parts, wherever it stands.
    pub(crate) fn canonical(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(literal) => literal.replace('{', "{{").replace('}', "}}"),
            Piece::Part(part) => format!("{{{}:{:?}}}", plain(&part.field), part.format),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// The parts in their order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Part(part) => Some(part),
            Piece::Literal(_) => None,
        })
    }

    /// The literal with which every key begins.
    pub(crate) fn beginning(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Literal(literal)) => literal,
            _ => "",
        }
    }

    /// The parts that must have a fixed width, because neither the end nor `!` follows.
    pub(crate) fn unterminated(&self) -> impl Iterator<Item = &Part> {
        self.pieces.iter().zip(self.pieces.iter().skip(1)).filter_map(|pair| match pair {
            (Piece::Part(_), Piece::Literal(literal)) if literal.starts_with('!') => None,
            (Piece::Part(part), _) => Some(part),
            _ => None,
        })
    }
}

fn push_literal(pieces: &mut Vec<Piece>, character: char) {
    match pieces.last_mut() {
        Some(Piece::Literal(literal)) => literal.push(character),
        _ => pieces.push(Piece::Literal(character.into())),
    }
}

fn check_literal(character: char) -> std::result::Result<(), String> {
    match character {
        '/' | '\\' | '#' | '?' => Err(format!("no key may contain `{character}`")),
        '%' | '\'' | '"' | '+' | '&' | ',' | '~' | '$' => Err(format!(
            "a template may not contain `{character}`: it is escaped, or means something, elsewhere"
        )),
        '!'..='~' => Ok(()),
        _ => Err(format!("a template is made of visible ASCII characters, not {character:?}")),
    }
}

fn part(text: &LitStr, inside: &str, own: Option<&Ident>, fields: &[&Ident]) -> Result<Part> {
    let error = |message: String| Error::new(text.span(), message);
    let (name, format) = match inside.split_once(':') {
        Some((name, format)) => (name, Some(format)),
        None => (inside, None),
    };
    let field = match (name, own) {
        ("", Some(own)) => own.clone(),
        ("", None) => return Err(error("a `{}` in the template names no field".into())),
        _ => {
            let found = fields.iter().find(|field| plain(field) == name);
            let list = || fields.iter().map(|field| plain(field)).collect::<Vec<_>>().join(", ");
            let unknown = || {
                error(format!(
                    "the template names `{name}`, which is no field; there are {}",
                    list()
                ))
            };
            Ident::clone(found.ok_or_else(unknown)?)
        }
    };
    let format = match format {
        None => Format::Plain,
        Some(format) => Format::parse(format).ok_or_else(|| {
            error(format!(
                "no format `{format}`: there are `06` (digits, 1 to 20), `desc`, `06,desc`, `lower`"
            ))
        })?,
    };
    Ok(Part { field, format })
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;
    use syn::{Ident, LitStr};

    use super::{Format, Piece, Template};

    fn parse(text: &str) -> Result<Template, String> {
        let ident = |name| Ident::new(name, Span::call_site());
        let (dept, id) = (ident("dept"), ident("id"));
        let text = LitStr::new(text, Span::call_site());
        Template::parse(&text, Some(&id), &[&dept, &id]).map_err(|error| error.to_string())
    }

    fn shown(text: &str) -> String {
        let pieces = parse(text).unwrap().pieces;
        let piece = |piece: &Piece| match piece {
            Piece::Literal(literal) => format!("'{literal}'"),
            Piece::Part(part) => format!("{}:{:?}", part.field, part.format),
        };
        pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn templates_are_taken_apart() {
        for (text, pieces) in [
            ("empid_{id:06}", "'empid_' id:Dec(6)"),
            ("{dept}!{:desc}", "dept:Plain '!' id:Desc"),
            ("{{a}}{}", "'{a}' id:Plain"),
            ("{id:020,desc}", "id:DecDesc(20)"),
            ("{dept:lower}", "dept:Lower"),
        ] {
            assert_eq!(shown(text), pieces);
        }
        assert_eq!(parse("a_{id:06}{dept}!x").unwrap().unterminated().count(), 1);
        assert_eq!(parse("a_{id}").unwrap().unterminated().count(), 0);
        assert_eq!(parse("a_{id}").unwrap().beginning(), "a_");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, problem) in [
            ("{nr}", "names `nr`, which is no field; there are dept, id"),
            ("{id:6}", "no format `6`"),
            ("{id:021}", "no format `021`"),
            ("{id:00}", "no format `00`"),
            ("{id:Lower}", "no format `Lower`"),
            ("r/{id}", "no key may contain `/`"),
            ("r~{id}", "may not contain `~`"),
            ("r {id}", "visible ASCII"),
            ("é", "visible ASCII"),
            ("!a{id}", "library's own rows"),
            ("a{id", "has no `}`"),
            ("a}", "has no `{`"),
            ("", "must not be empty"),
        ] {
            let message = parse(text).err().unwrap_or_default();
            assert!(message.contains(problem), "{text}: {message}");
        }
        assert_eq!(Format::parse("09,desc"), Some(Format::DecDesc(9)));
    }
}
