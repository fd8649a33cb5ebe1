//! The compact form of a token: three parts of base64url, separated by points (RFC 7515).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use super::TOKEN_BYTES_MAX;
use super::algorithm::Algorithm;
use super::error::TokenError;

/// A token taken apart, nothing about it checked.
pub(super) struct Compact<'a> {
    header: Object,
    pub(super) payload: Object,
    /// What the signature is about.
    pub(super) signed: &'a str,
    /// Still in base64url.
    pub(super) signature: &'a str,
}

impl<'a> Compact<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::NotThreeParts)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::NotThreeParts)?;
        if payload.contains('.') {
            return Err(TokenError::NotThreeParts);
        }
        let (header, payload) =
            (Object::decode(header, "header")?, Object::decode(payload, "payload")?);
        if header.get("crit").is_some() {
            return Err(TokenError::CriticalExtension);
        }
        Ok(Self { header, payload, signed, signature })
    }

    pub(super) fn algorithm(&self) -> Result<Algorithm, TokenError> {
        let name = self.header.get("alg").and_then(Value::as_str);
        name.and_then(|name| name.parse().ok()).ok_or(TokenError::AlgorithmNotAllowed)
    }

    /// Keys that a token brings along (`jwk`, `jku`, `x5c`, `x5u`) are anybody's, so only the id is
    /// read.
    pub(super) fn key_id(&self) -> Result<Option<&str>, TokenError> {
        self.header.text("kid")
    }
}

/// A JSON object whose members have distinct names: of two that differ, one reader would see the
/// first and another the last.
pub(super) struct Object(BTreeMap<String, Value>);

impl Object {
    fn decode(part: &str, name: &'static str) -> Result<Self, TokenError> {
        let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::NotBase64Url(name))?;
        serde_json::from_slice(&json).map_err(|_| TokenError::NotAnObject(name))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The text of a member that must be one if it is there.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&str>, TokenError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(TokenError::ClaimMalformed(name)),
        }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    // How deep values nest is bounded by the reader of JSON.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            match members.entry(name) {
                Entry::Occupied(_) => return Err(A::Error::custom("a member stands twice")),
                Entry::Vacant(vacant) => vacant.insert(value),
            };
        }
        Ok(Object(members))
    }
}
