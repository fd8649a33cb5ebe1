//! Names in other cases.

use syn::Ident;
use syn::ext::IdentExt;

/// A field's name without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// How fields become names of properties.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Case {
    /// As the field.
    #[default]
    Same,
    /// `LastName`
    Pascal,
    /// `lastName`
    Camel,
}

impl Case {
    /// The case of an attribute's value.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "PascalCase" => Some(Self::Pascal),
            "camelCase" => Some(Self::Camel),
            _ => None,
        }
    }

    /// A field's name as a property.
    pub(crate) fn apply(self, field: &str) -> String {
        match self {
            Self::Same => field.to_owned(),
            Self::Pascal => pascal(field),
            Self::Camel => {
                let pascal = pascal(field);
                let mut characters = pascal.chars();
                match characters.next() {
                    Some(first) => first.to_lowercase().chain(characters).collect(),
                    None => pascal,
                }
            }
        }
    }
}

/// `last_name` as `LastName`.
pub(crate) fn pascal(field: &str) -> String {
    field
        .split('_')
        .flat_map(|word| {
            let mut characters = word.chars();
            let first = characters.next().into_iter().flat_map(char::to_uppercase);
            first.chain(characters).collect::<Vec<_>>()
        })
        .collect()
}

/// `last_name` as `LAST_NAME`.
pub(crate) fn screaming(field: &str) -> String {
    field.to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::{Case, screaming};

    #[test]
    fn cases() {
        for (field, pascal, camel, constant) in [
            ("last", "Last", "last", "LAST"),
            ("last_name", "LastName", "lastName", "LAST_NAME"),
            ("line2_b", "Line2B", "line2B", "LINE2_B"),
        ] {
            assert_eq!(Case::Same.apply(field), field);
            assert_eq!(Case::Pascal.apply(field), pascal);
            assert_eq!(Case::Camel.apply(field), camel);
            assert_eq!(screaming(field), constant);
        }
    }
}
