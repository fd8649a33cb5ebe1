//! Continuation tokens: `1!{length}!{text}`, where the text is the base64 of a key or name in
//! UTF-8.
//!
//! Keys may hold any character, headers and query strings may not: `=`, `+` and `/` become `-`, `*`
//! and `_`, which need no escaping in either place. A token is complete in itself; nothing is
//! remembered for it.

use base64::Engine as _;
use base64::alphabet::{Alphabet, Symbol};
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::PAD;

const VERSION: &str = "1";

const ALPHABET: Alphabet = {
    let Some(padding) = Symbol::new(b'-') else { panic!("a visible character") };
    let symbols = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*_";
    match Alphabet::new_with_padding(symbols, padding) {
        Ok(alphabet) => alphabet,
        Err(_) => panic!("64 different characters, and the padding is none of them"),
    }
};

static ENGINE: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD);

/// The token of a key or name.
#[must_use]
pub fn encode(text: &str) -> String {
    let encoded = ENGINE.encode(text);
    format!("{VERSION}!{}!{encoded}", encoded.len())
}

/// The key or name in a token; `None` if it is not one of ours.
#[must_use]
pub fn decode(token: &str) -> Option<String> {
    let (version, rest) = token.split_once('!')?;
    let (length, encoded) = rest.split_once('!')?;
    let whole = version == VERSION && length.parse() == Ok(encoded.len());
    let bytes = whole.then(|| ENGINE.decode(encoded).ok()).flatten()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{decode, encode};

    #[test]
    fn tokens_of_the_service() {
        for (text, token) in [
            ("contToken", "1!12!Y29udFRva2Vu"),
            ("1", "1!4!MQ--"),
            ("", "1!0!"),
            ("??>>~~", "1!8!Pz8*Pn5*"),
            ("ûÿ~?", "1!8!w7vDv34_"),
        ] {
            assert_eq!(encode(text), token);
            assert_eq!(decode(token).as_deref(), Some(text));
        }
        assert_eq!(
            decode("1!36!bXl0YWJsZTIBMDFkN2FlODI4ODA2NGUxMw--").as_deref(),
            Some("mytable2\u{1}01d7ae8288064e13")
        );
    }

    #[test]
    fn whatever_else() {
        for bad in [
            "", "1", "1!", "1!!", "2!4!MQ--", "1!3!MQ--", "1!4!MQ==", "1!2!MQ", "1!4!M Q-",
            "1!4!gA--", "1!x!", "é!0!",
        ] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn round_trip_in_visible_characters(text in any::<String>()) {
            let token = encode(&text);
            prop_assert!(token.bytes().all(|byte| byte.is_ascii_graphic() && !b"%&+=#?/".contains(&byte)));
            prop_assert_eq!(decode(&token), Some(text));
        }

        #[test]
        fn no_panic(token in any::<String>(), tail in "1![0-9]{0,3}!.{0,20}") {
            let _ = (decode(&token), decode(&tail));
        }
    }
}
