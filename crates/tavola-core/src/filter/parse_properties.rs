//! The parser on texts that nobody wrote, and against the printer.

use proptest::prelude::*;

use crate::domain_error::DomainError;
use crate::filter::parse::parse;
use crate::filter::testing::filter_tree;

/// Tokens and pieces of tokens.
const TOKENS: &str = "( ) , ' '' 'a' and or not eq lt a PartitionKey 5 5L - 1.5 1e NaN -INF true null datetime' guid' X' X'00' \
                      mod startswith startswith( é \u{10000} \u{0} \" /";

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(TOKENS.split(' ').collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn any_tokens_are_answered(
        tokens in prop::collection::vec(token(), 0..24),
        separator in prop::sample::select(vec!["", " ", "\n\t"]),
    ) {
        let text = tokens.join(separator);
        match parse(&text) {
            Ok(Some(filter)) => prop_assert_eq!(parse(&filter.to_string()), Ok(Some(filter))),
            Ok(None) => prop_assert!(text.trim().is_empty()),
            Err(DomainError::FilterSyntax { position, .. }) => prop_assert!(position <= text.chars().count()),
            Err(_) => {}
        }
    }

    #[test]
    fn printing_and_parsing_are_inverse(filter in filter_tree()) {
        prop_assert_eq!(parse(&filter.to_string()), Ok(Some(filter)));
    }
}
