//! An issuer of tokens whose keys are in a file, and its bearers: one for each column of
//! `roles.txt`.

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tavola_testkit::tokens::{SigningKey, key_set};
use tempfile::NamedTempFile;

use crate::operations::{OTHER_TABLE, TABLE};

const ISSUER: &str = "https://login.example/tenant";

/// Column, role, and the table for which it holds; nothing for none and for all.
const BEARERS: [(&str, &str, &str); 6] = [
    ("none", "", ""),
    ("reader", "reader", ""),
    ("contributor", "contributor", ""),
    ("reader-of-orders", "reader", TABLE),
    ("contributor-of-orders", "contributor", TABLE),
    ("contributor-of-other", "contributor", OTHER_TABLE),
];

struct Issuer {
    key: SigningKey,
    key_set: NamedTempFile,
}

/// One for all worlds: the tokens are made before them.
fn issuer() -> &'static Issuer {
    static ISSUER: OnceLock<Issuer> = OnceLock::new();
    ISSUER.get_or_init(|| {
        let key = SigningKey::p256("key");
        let mut file = NamedTempFile::new().expect("a file can be made");
        file.write_all(key_set([&key]).to_string().as_bytes()).expect("it can be written");
        Issuer { key, key_set: file }
    })
}

/// Every column with a token of such a bearer.
pub(crate) fn bearers() -> impl Iterator<Item = (&'static str, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
    BEARERS.into_iter().map(move |(column, ..)| {
        let claims = json!({"iss": ISSUER, "aud": "https://storage.azure.com", "exp": now + 3600, "roles": [column]});
        (column, issuer().key.token(&claims))
    })
}

/// The settings of a server that trusts the issuer. Tokens need https, which a named proxy vouches
/// for.
pub(crate) fn settings() -> Vec<(String, String)> {
    let file = issuer().key_set.path().to_string_lossy().into_owned();
    let mut settings = vec![
        ("server.trusted_proxies".to_owned(), "127.0.0.1".to_owned()),
        ("auth.oidc.test.issuer".to_owned(), ISSUER.to_owned()),
        ("auth.oidc.test.jwks_file".to_owned(), file),
    ];
    for (column, role, table) in BEARERS.into_iter().filter(|(_, role, _)| !role.is_empty()) {
        let fields = [("value", column), ("role", role), ("tables", table)];
        let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
        settings.extend(
            given.map(|(field, value)| (format!("auth.roles.{column}.{field}"), value.to_owned())),
        );
    }
    settings
}
