//! Continuation tokens: `1!{length}!{text}`.

/// The token of a key or name.
#[must_use]
pub fn encode(_text: &str) -> String {
    String::new()
}

/// The key or name in a token; `None` if it is not one of ours.
#[must_use]
pub fn decode(_token: &str) -> Option<String> {
    None
}
