//! How an answer of the Table service is to be written: metadata level, echo, envelope.

use std::sync::Arc;
use std::time::Duration;

use http::header::ACCEPT;
use http::request::Parts;
use tavola_core::ServiceKind;
use tavola_core::request::Select;

use super::entity_json::MetadataLevel;
use super::error::TableError;
use super::fields::Fields;
use super::query::{Parameter, Query};
use crate::address::Address;
use crate::headers::name;
use crate::response::ResponseContext;

/// What `Prefer` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// `return-content`
    ReturnContent,
    /// `return-no-content`
    ReturnNoContent,
}

impl Prefer {
    /// What a request's headers ask for; anything unknown asks for nothing.
    #[must_use]
    pub(crate) fn of(fields: Fields<'_>) -> Option<Self> {
        match fields.text(&name::PREFER)?.trim() {
            "return-content" => Some(Self::ReturnContent),
            "return-no-content" => Some(Self::ReturnNoContent),
            _ => None,
        }
    }

    /// What `Preference-Applied` says.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReturnContent => "return-content",
            Self::ReturnNoContent => "return-no-content",
        }
    }
}

/// How one operation, alone or in a batch, wants its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFormat {
    /// How much metadata.
    pub level: MetadataLevel,
    /// Echo the entity or not.
    pub prefer: Option<Prefer>,
    /// Which properties.
    pub select: Select,
}

impl ResponseFormat {
    /// What can be read of it, with the usual where it cannot; and why it cannot: only formats are
    /// wanted that we do not write, or `$select` is too long.
    pub(crate) fn read(fields: Fields<'_>, query: &Query<'_>) -> (Self, Option<TableError>) {
        let (level, select) = (negotiate(fields, query.get(Parameter::Format)), query.select());
        let refused = level.as_ref().err().or(select.as_ref().err()).cloned();
        let level = level.unwrap_or(MetadataLevel::Minimal);
        (Self { level, prefer: Prefer::of(fields), select: select.unwrap_or_default() }, refused)
    }
}

/// What surrounds the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// Nothing: one operation, one answer.
    Plain,
    /// A changeset in a batch, with the format for each of its operations that was understood.
    Changeset(Vec<ResponseFormat>),
    /// A batch that holds one query.
    BatchedQuery,
}

/// How to answer a request to the Table service, apart from what to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct TableContext {
    common: ResponseContext,
    /// None if the request names no account of ours.
    address: Option<Arc<Address>>,
    /// Bodies are XML, errors too, and none of the headers of OData are sent.
    pub(crate) is_xml: bool,
    pub(crate) format: ResponseFormat,
    /// Why an answer in the requested format is impossible.
    format_error: Option<TableError>,
    pub(crate) envelope: Envelope,
}

impl TableContext {
    /// What can be known of a request before it is understood. Never fails: the answer to a bad
    /// request needs it too.
    #[must_use]
    pub fn of(parts: &Parts, address: Option<&Arc<Address>>) -> Self {
        let query = Query::parse(parts.uri.query());
        let (format, format_error) = ResponseFormat::read(Fields::Whole(&parts.headers), &query);
        let only_xml_is_wanted = format_error == Some(TableError::AtomFormatNotSupported);
        Self {
            common: ResponseContext::of(ServiceKind::Table, parts),
            address: address.map(Arc::clone),
            is_xml: query.is_xml_operation() || only_xml_is_wanted,
            format,
            format_error,
            envelope: Envelope::Plain,
        }
    }

    /// What the URLs of the answer begin with.
    pub(crate) fn base(&self) -> &str {
        self.address.as_ref().map_or("", |address| &address.base)
    }

    /// The account that the request is for.
    pub(crate) fn account(&self) -> &str {
        self.address.as_ref().map_or("", |address| address.account.as_str())
    }

    /// # Errors
    /// If the answer cannot be as the request wants it.
    pub(crate) fn check_format(&self) -> Result<(), TableError> {
        self.format_error.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.common.timeout = timeout;
    }
}

impl AsRef<ResponseContext> for TableContext {
    fn as_ref(&self) -> &ResponseContext {
        &self.common
    }
}

/// The content type of a JSON answer.
#[must_use]
pub(crate) const fn json_content_type(level: MetadataLevel) -> &'static str {
    match level {
        MetadataLevel::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
        MetadataLevel::Minimal => {
            "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
        }
        MetadataLevel::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
    }
}

/// Chooses the metadata level: `$format` wins over `Accept`; nothing at all means minimal.
///
/// # Errors
/// If only formats are wanted that we do not write.
pub(crate) fn negotiate(
    fields: Fields<'_>,
    format: Option<&str>,
) -> Result<MetadataLevel, TableError> {
    if let Some(format) = format.filter(|format| !format.trim().is_empty()) {
        return media_type(format).1;
    }
    let mut lines = fields.all(&ACCEPT);
    if let (Some(Some(line)), None) = (lines.next(), lines.next())
        && let Some(level) = usual_level(line)
    {
        return Ok(level);
    }
    let mut best: Option<(f32, Result<MetadataLevel, TableError>)> = None;
    for choice in fields
        .all(&ACCEPT)
        .flatten()
        .flat_map(|line| line.split(','))
        .filter(|choice| !choice.trim().is_empty())
    {
        let (quality, level) = media_type(choice);
        // Any format that we write beats all that we do not; among equals the first counts.
        let better = best.as_ref().is_none_or(|(known, standing)| match (standing, &level) {
            (Err(_), Ok(_)) => true,
            (Ok(_), Ok(_)) => quality > *known,
            _ => false,
        });
        if better {
            best = Some((quality, level));
        }
    }
    best.map_or(Ok(MetadataLevel::Minimal), |(_, level)| level)
}

/// The level of what the clients of the service send, word for word; nearly every request has one
/// of these.
fn usual_level(accept: &str) -> Option<MetadataLevel> {
    match accept {
        "application/json;odata=minimalmetadata" | "application/json" | "*/*" => {
            Some(MetadataLevel::Minimal)
        }
        "application/json;odata=nometadata" => Some(MetadataLevel::None),
        "application/json;odata=fullmetadata" => Some(MetadataLevel::Full),
        _ => None,
    }
}

/// The quality and the format of one media type: `application/json; odata=nometadata; q=0.5`.
fn media_type(text: &str) -> (f32, Result<MetadataLevel, TableError>) {
    let mut pieces = text.split(';').map(str::trim);
    let name = pieces.next().unwrap_or_default();
    let (mut quality, mut odata) = (1.0, "");
    for (key, value) in pieces.filter_map(|piece| piece.split_once('=')) {
        if key.trim().eq_ignore_ascii_case("q") {
            quality = value.trim().parse().unwrap_or(1.0);
        } else if key.trim().eq_ignore_ascii_case("odata") {
            odata = value.trim().trim_matches('"');
        }
    }
    let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let level = if quality <= 0.0 {
        Err(TableError::MediaTypeNotSupported)
    } else if is_one_of(&["application/json", "json"]) {
        json_level(odata)
    } else if is_one_of(&["*/*", "application/*"]) {
        Ok(MetadataLevel::Minimal)
    } else if is_one_of(&["application/atom+xml", "application/xml", "text/xml", "atom"]) {
        Err(TableError::AtomFormatNotSupported)
    } else {
        Err(TableError::MediaTypeNotSupported)
    };
    (quality, level)
}

fn json_level(odata: &str) -> Result<MetadataLevel, TableError> {
    let known = [
        ("", Ok(MetadataLevel::Minimal)),
        ("minimalmetadata", Ok(MetadataLevel::Minimal)),
        ("nometadata", Ok(MetadataLevel::None)),
        ("fullmetadata", Ok(MetadataLevel::Full)),
        ("verbose", Err(TableError::JsonVerboseFormatNotSupported)),
    ];
    let found = known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(odata));
    found.map_or(Err(TableError::MediaTypeNotSupported), |(_, level)| level)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{Fields, TableError, media_type, negotiate, usual_level};
    use crate::table::entity_json::MetadataLevel::{Full, Minimal, None as Nothing};

    /// Statements 150 to 155.
    #[test]
    fn formats() {
        let atom = || Err(TableError::AtomFormatNotSupported);
        for (accept, format, expected) in [
            (None, None, Ok(Minimal)),
            (Some("*/*"), None, Ok(Minimal)),
            (Some(""), None, Ok(Minimal)),
            (Some("application/json"), None, Ok(Minimal)),
            (Some("application/json;odata=nometadata"), None, Ok(Nothing)),
            (Some("application/json; odata=fullmetadata ;streaming=true"), None, Ok(Full)),
            (Some("APPLICATION/JSON;OData=NoMetadata"), None, Ok(Nothing)),
            (
                Some("application/atom+xml, application/json;odata=nometadata;q=0.1"),
                None,
                Ok(Nothing),
            ),
            (
                Some(
                    "application/json;odata=nometadata;q=0.2, application/json;odata=fullmetadata;q=0.7",
                ),
                None,
                Ok(Full),
            ),
            (
                Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
                None,
                Ok(Minimal),
            ),
            (Some("application/atom+xml"), None, atom()),
            (Some("application/atom+xml,application/xml"), None, atom()),
            (
                Some("application/json;odata=verbose"),
                None,
                Err(TableError::JsonVerboseFormatNotSupported),
            ),
            (Some("image/png"), None, Err(TableError::MediaTypeNotSupported)),
            (Some("application/json;q=0"), None, Err(TableError::MediaTypeNotSupported)),
            (Some("application/atom+xml"), Some("application/json;odata=fullmetadata"), Ok(Full)),
            (Some("application/json;odata=nometadata"), Some("json"), Ok(Minimal)),
            (Some("application/json"), Some("atom"), atom()),
            (Some("application/json;odata=nometadata"), Some(""), Ok(Nothing)),
        ] {
            let mut request = Request::builder();
            if let Some(accept) = accept {
                request = request.header("accept", accept);
            }
            let request = request.body(()).unwrap();
            assert_eq!(
                negotiate(Fields::Whole(request.headers()), format),
                expected,
                "{accept:?} {format:?}"
            );
        }
    }

    #[test]
    fn what_is_usual_means_what_it_says() {
        for accept in [
            "application/json;odata=minimalmetadata",
            "application/json",
            "*/*",
            "application/json;odata=nometadata",
            "application/json;odata=fullmetadata",
        ] {
            assert_eq!(usual_level(accept).map(Ok), Some(media_type(accept).1), "{accept}");
        }
        assert_eq!(usual_level("application/json;odata=verbose"), None);
    }
}
