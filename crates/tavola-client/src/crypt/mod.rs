//! Client-side encryption: chosen properties leave the program encrypted, and the service, its
//! backups and its logs never see their values. The format is in `docs/encryption.md`.
//!
//! In the program an entity says which of its properties are encrypted by a text in `tv_enc`, their
//! names joined by commas. It travels with the other properties wherever they go, so that what was
//! read encrypted is never written back plain. On the wire `tv_enc` is binary: the envelope.

#[cfg(feature = "encrypt")]
mod content;
#[cfg(feature = "encrypt")]
mod envelope;
#[cfg(feature = "encrypt")]
mod keys;
mod policy;
#[cfg(feature = "encrypt")]
mod rewrap;
#[cfg(feature = "encrypt")]
mod rows;
#[cfg(all(test, feature = "encrypt"))]
mod tests;

use std::collections::BTreeSet;

use tavola_core::{EdmRef, Filter as CoreFilter, Properties};

#[cfg(feature = "encrypt")]
pub use keys::{KeyWrap, LocalKeys, RsaKeys, WrapAlgorithm, Wrapped, fresh_key};
#[cfg(feature = "encrypt")]
pub use policy::Encryption;
pub(crate) use policy::Policy;
#[cfg(feature = "encrypt")]
pub use rewrap::{RewrapFailure, RewrapReport};

use crate::error::{EncryptionFault, Error, ErrorKind, Outcome};
use crate::value::EdmType;

/// The envelope of an encrypted entity; in the program the names of what is encrypted.
pub(crate) const ENVELOPE: &str = "tv_enc";
/// What the old .NET library stores beside its encrypted properties.
const OLD_NET_METADATA: &str = "_ClientEncryptionMetadata1";
/// Names that begin so are the library's own, and never encrypted.
#[cfg(feature = "encrypt")]
const OWN_PREFIX: &str = "tv_";

pub(crate) fn fault(
    fault: EncryptionFault,
    outcome: Outcome,
    text: impl Into<std::borrow::Cow<'static, str>>,
) -> Error {
    Error::new(ErrorKind::Encryption { fault }, outcome, text)
}

/// The names in the text of `tv_enc`.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|name| !name.is_empty())
}

/// The text of `tv_enc`.
pub(crate) fn joined(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

/// What an entity in the program says about its encryption.
enum Said<'a> {
    /// Nothing is encrypted.
    Nothing,
    /// These are, and perhaps none of them is present.
    Names(&'a str),
    /// It was read without its keys, and is as it is stored.
    Raw,
}

fn said(properties: &Properties) -> Said<'_> {
    match properties.get(ENVELOPE) {
        Some(EdmRef::String(text)) => Said::Names(text.as_str()),
        Some(EdmRef::Binary(_)) => Said::Raw,
        _ => Said::Nothing,
    }
}

/// Refuses values of properties that must be encrypted, if they were stored otherwise, or if their
/// keys are missing.
pub(crate) fn check(must: &[String], found: &Properties, policy: &Policy) -> Result<(), Error> {
    let mut present = must.iter().filter(|name| found.get(name).is_some());
    let encrypted: Vec<&str> = match said(found) {
        Said::Names(text) => names(text).collect(),
        Said::Nothing => Vec::new(),
        Said::Raw if must.is_empty() => return Ok(()),
        Said::Raw => return Err(no_keys_to_read()),
    };
    if found.get(OLD_NET_METADATA).is_some() && !must.is_empty() {
        return Err(old_net());
    }
    if policy.is_lenient() {
        return Ok(());
    }
    match present.find(|name| !encrypted.contains(&name.as_str())) {
        Some(name) => Err(not_encrypted(name)),
        None => Ok(()),
    }
}

/// A property that has not its type because it is encrypted.
pub(crate) fn explain(error: Error, found: &Properties) -> Error {
    match (error.kind(), said(found)) {
        (ErrorKind::Property { found: Some(EdmType::Binary), .. }, Said::Raw) => {
            no_keys_to_read().with_source(error)
        }
        _ => error,
    }
}

fn no_keys_to_read() -> Error {
    let text = "the entity is encrypted and the client has no keys; give it some with \
                `ClientOptions::encryption`";
    fault(EncryptionFault::NoKeys, Outcome::NotApplied, text)
}

/// What was read without its keys cannot be encrypted once more.
pub(crate) fn encrypted_already() -> Error {
    let text = "the entity was read without its keys, so that it is encrypted already; read it \
                with them, or write it without a rule";
    fault(EncryptionFault::NoKeys, Outcome::NotSent, text)
}

/// A pattern has no place for an encrypted property.
pub(crate) fn not_supported(name: &str) -> Error {
    let text = format!("property `{name}` is encrypted, which is not supported here");
    fault(EncryptionFault::NotSupported, Outcome::NotSent, text)
}

fn old_net() -> Error {
    let text = "the entity was encrypted by the old .NET library (`_ClientEncryptionMetadata1`), \
                whose format this library does not read; read it there and write it anew";
    fault(EncryptionFault::OldNetFormat, Outcome::NotApplied, text)
}

fn not_encrypted(name: &str) -> Error {
    let text = format!(
        "property `{name}` must be encrypted and is stored as it is; `Encryption::require(false)` \
         reads it, and the next write encrypts it"
    );
    fault(EncryptionFault::NotEncrypted, Outcome::NotApplied, text)
}

/// Refuses a filter on a property that the type or the policy's rule encrypts. The rule is asked with
/// the keys that the filter fixes; those that it does not fix are empty.
pub(crate) fn check_filter(
    filter: &CoreFilter,
    encrypted: &[String],
    policy: &Policy,
) -> Result<(), Error> {
    let (partition, row) = (fixed(filter, "PartitionKey"), fixed(filter, "RowKey"));
    let mut compared = Vec::new();
    properties_of(filter, &mut compared);
    let is_encrypted = |name: &str| {
        encrypted.iter().any(|own| own == name) || policy.chooses(partition, row, name)
    };
    match compared.into_iter().find(|name| is_encrypted(name)) {
        Some(name) => {
            let text = format!(
                "property `{name}` is encrypted, so that it cannot stand in a filter: the service \
                 sees only its ciphertext; store what you search for as a property of its own"
            );
            Err(fault(EncryptionFault::EncryptedFilter, Outcome::NotSent, text))
        }
        None => Ok(()),
    }
}

fn properties_of<'f>(filter: &'f CoreFilter, out: &mut Vec<&'f str>) {
    match filter {
        CoreFilter::Constant(_) => {}
        CoreFilter::Property(name) => out.push(name),
        CoreFilter::Compare { property, .. } => out.push(property),
        CoreFilter::And(all) | CoreFilter::Or(all) => {
            all.iter().for_each(|one| properties_of(one, out));
        }
        CoreFilter::Not(inner) => properties_of(inner, out),
    }
}

/// The value that every row has that satisfies the filter; empty if there is none.
fn fixed<'f>(filter: &'f CoreFilter, key: &str) -> &'f str {
    use tavola_core::EdmValue;
    use tavola_core::filter::Comparison;

    match filter {
        CoreFilter::Compare {
            property,
            comparison: Comparison::Equal,
            constant: EdmValue::String(text),
        } if property == key => text,
        CoreFilter::And(all) => {
            all.iter().map(|one| fixed(one, key)).find(|text| !text.is_empty()).unwrap_or_default()
        }
        _ => "",
    }
}
