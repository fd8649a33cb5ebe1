//! From an entity to JSON. A page of a thousand entities is the service's hottest path: what is the same for all of them
//! is prepared once, and properties go straight from where they lie into the answer.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_core::date_text::DateText;
use tavola_core::entity::{EntityView, Properties};
use tavola_core::reply::BoxedEntity;
use tavola_core::request::Select;
use tavola_core::{EdmRef, EntityKey};

use super::text::{close, push_escaped, push_json, push_text, push_text_member, push_url_text};
use super::{Links, MetadataLevel};

/// Room for a common entity, so that its text is not copied while it grows.
const ENTITY_BYTES: usize = 1024;

/// Room for what stands around the keys in an entity's address.
const PREDICATE_BYTES: usize = 32;

/// Writes one entity as the whole of an answer.
pub fn write_entity(
    out: &mut Vec<u8>,
    entity: &dyn EntityView,
    level: MetadataLevel,
    select: &Select,
    links: &Links<'_>,
) {
    let page = Page::new(level, select, links);
    out.reserve(ENTITY_BYTES);
    out.push(b'{');
    page.write_metadata(out, "/@Element");
    page.write_entity(out, entity);
    close(out, b'}');
}

/// Writes a page of entities.
pub fn write_entity_set(
    out: &mut Vec<u8>,
    entities: &[BoxedEntity],
    level: MetadataLevel,
    select: &Select,
    links: &Links<'_>,
) {
    let page = Page::new(level, select, links);
    out.push(b'{');
    page.write_metadata(out, "");
    out.extend_from_slice(b"\"value\":[");
    for (number, entity) in entities.iter().enumerate() {
        if number == 1 {
            // Entities of a page are alike: growing by doubling would copy all of them several times.
            let first = out.len();
            out.reserve((first + first / 16) * (entities.len() - 1));
        }
        out.push(b'{');
        page.write_entity(out, entity.as_ref());
        close(out, b'}');
        out.push(b',');
    }
    close(out, b']');
    out.push(b'}');
}

/// Writes the body of an insert, replace or merge, every type annotated that needs it.
#[must_use]
pub fn encode_entity_body(key: &EntityKey, properties: &Properties) -> Vec<u8> {
    let mut out = vec![b'{'];
    push_text_member(&mut out, "PartitionKey", key.partition_key.as_str());
    push_text_member(&mut out, "RowKey", key.row_key.as_str());
    for (name, value) in properties.iter() {
        push_property(&mut out, MetadataLevel::Minimal, name, value);
    }
    close(&mut out, b'}');
    out
}

/// An entity's address relative to the service: `T(PartitionKey='…',RowKey='…')`. Quotes in keys are doubled and stay
/// raw.
#[must_use]
pub fn entity_url_path(table: &str, partition_key: &str, row_key: &str) -> String {
    let mut path = String::with_capacity(table.len() + partition_key.len() + row_key.len() + PREDICATE_BYTES);
    push_entity_path(&mut path, table, partition_key, row_key);
    path
}

/// An entity's whole address.
#[must_use]
pub(in crate::table) fn entity_url(base: &str, table: &str, partition_key: &str, row_key: &str) -> String {
    let keys_bytes = partition_key.len() + row_key.len();
    let mut url = String::with_capacity(base.len() + 1 + table.len() + keys_bytes + PREDICATE_BYTES);
    url.push_str(base);
    url.push('/');
    push_entity_path(&mut url, table, partition_key, row_key);
    url
}

fn push_entity_path(path: &mut String, table: &str, partition_key: &str, row_key: &str) {
    path.push_str(table);
    path.push_str("(PartitionKey='");
    push_key(path, partition_key);
    path.push_str("',RowKey='");
    push_key(path, row_key);
    path.push_str("')");
}

fn push_key(path: &mut String, key: &str) {
    if key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return path.push_str(key);
    }
    for (at, piece) in key.split('\'').enumerate() {
        if at > 0 {
            path.push_str("''");
        }
        push_url_text(path, piece);
    }
}

/// What all entities of one answer share.
struct Page<'a> {
    level: MetadataLevel,
    links: &'a Links<'a>,
    /// The properties to show, each once; `None` for all.
    names: Option<Vec<&'a str>>,
}

impl<'a> Page<'a> {
    fn new(level: MetadataLevel, select: &'a Select, links: &'a Links<'a>) -> Self {
        let names = match select {
            Select::All => None,
            Select::Names(names) => {
                let mut once: Vec<&str> = Vec::with_capacity(names.len());
                for name in names {
                    // A member that came twice would be lost in most readers.
                    if !once.contains(&name.as_str()) {
                        once.push(name);
                    }
                }
                Some(once)
            }
        };
        Self { level, links, names }
    }

    fn write_metadata(&self, out: &mut Vec<u8>, element: &str) {
        if self.level == MetadataLevel::None {
            return;
        }
        out.extend_from_slice(b"\"odata.metadata\":\"");
        for piece in [self.links.base, "/$metadata#", self.links.table, element] {
            push_escaped(out, piece);
        }
        if let Some(names) = &self.names {
            let mut select = String::from("&$select=");
            for (at, name) in names.iter().enumerate() {
                if at > 0 {
                    select.push(',');
                }
                push_url_text(&mut select, name);
            }
            push_escaped(out, &select);
        }
        out.extend_from_slice(b"\",");
    }

    /// The members of one entity, each with a comma behind it.
    fn write_entity(&self, out: &mut Vec<u8>, entity: &dyn EntityView) {
        let timestamp = DateText::of(entity.timestamp().date_time());
        self.write_annotations(out, entity, &timestamp);
        match &self.names {
            None => {
                push_text_member(out, "PartitionKey", entity.partition_key());
                push_text_member(out, "RowKey", entity.row_key());
                self.write_timestamp(out, &timestamp);
                entity.visit(&mut |name, value| push_property(out, self.level, name, value));
            }
            Some(names) => {
                for &name in names {
                    self.write_selected(out, entity, name, &timestamp);
                }
            }
        }
    }

    fn write_annotations(&self, out: &mut Vec<u8>, entity: &dyn EntityView, timestamp: &DateText) {
        let Links { base, account, table } = self.links;
        let path = (self.level == MetadataLevel::Full)
            .then(|| entity_url_path(table, entity.partition_key(), entity.row_key()));
        if let Some(path) = &path {
            push_text_member(out, "odata.type", &format!("{account}.{table}"));
            push_text_member(out, "odata.id", &format!("{base}/{path}"));
        }
        if self.level != MetadataLevel::None {
            out.extend_from_slice(b"\"odata.etag\":\"W/\\\"datetime'");
            let [hours, minutes, seconds] = timestamp.between_colons();
            for piece in [hours, "%3A", minutes, "%3A", seconds] {
                out.extend_from_slice(piece.as_bytes());
            }
            out.extend_from_slice(b"'\\\"\",");
        }
        if let Some(path) = &path {
            push_text_member(out, "odata.editLink", path);
        }
    }

    fn write_timestamp(&self, out: &mut Vec<u8>, timestamp: &DateText) {
        if self.level == MetadataLevel::Full {
            out.extend_from_slice(b"\"Timestamp@odata.type\":\"Edm.DateTime\",");
        }
        out.extend_from_slice(b"\"Timestamp\":\"");
        out.extend_from_slice(timestamp.as_str().as_bytes());
        out.extend_from_slice(b"\",");
    }

    fn write_selected(&self, out: &mut Vec<u8>, entity: &dyn EntityView, name: &str, timestamp: &DateText) {
        match name {
            "PartitionKey" => push_text_member(out, name, entity.partition_key()),
            "RowKey" => push_text_member(out, name, entity.row_key()),
            "Timestamp" => self.write_timestamp(out, timestamp),
            _ => match entity.property(name) {
                Some(value) => push_property(out, self.level, name, value),
                None => {
                    push_text(out, name);
                    out.extend_from_slice(b":null,");
                }
            },
        }
    }
}

/// Appends `"name":value,`, behind `"name@odata.type":…,` if the value's looks do not tell its type.
fn push_property(out: &mut Vec<u8>, level: MetadataLevel, name: &str, value: EdmRef<'_>) {
    if level != MetadataLevel::None && needs_type(value) {
        push_text(out, name);
        out.pop(); // The closing quote: the annotation's name goes on.
        out.extend_from_slice(b"@odata.type\":\"");
        out.extend_from_slice(value.edm_type().name().as_bytes());
        out.extend_from_slice(b"\",");
    }
    push_text(out, name);
    out.push(b':');
    push_value(out, value);
    out.push(b',');
}

fn needs_type(value: EdmRef<'_>) -> bool {
    match value {
        EdmRef::Int64(_) | EdmRef::DateTime(_) | EdmRef::Guid(_) | EdmRef::Binary(_) => true,
        EdmRef::Double(number) => !number.is_finite(),
        EdmRef::String(_) | EdmRef::Int32(_) | EdmRef::Boolean(_) => false,
    }
}

fn push_value(out: &mut Vec<u8>, value: EdmRef<'_>) {
    match value {
        EdmRef::String(text) => push_text(out, text),
        EdmRef::Int32(number) => push_json(out, &number),
        EdmRef::Boolean(truth) => push_json(out, &truth),
        EdmRef::Double(number) if number.is_finite() => {
            // Always with a dot or an exponent, which is what tells a double from an integer.
            out.extend_from_slice(ryu::Buffer::new().format_finite(number).as_bytes());
        }
        _ => {
            out.push(b'"');
            push_quoted(out, value);
            out.push(b'"');
        }
    }
}

/// The texts of the types that JSON has no form for; none of them has a character to escape.
fn push_quoted(out: &mut Vec<u8>, value: EdmRef<'_>) {
    match value {
        EdmRef::Int64(number) => push_json(out, &number),
        EdmRef::DateTime(at) => out.extend_from_slice(DateText::of(at).as_str().as_bytes()),
        EdmRef::Guid(guid) => write!(out, "{guid}").expect("a Vec takes every byte"),
        EdmRef::Binary(bytes) => push_base64(out, bytes),
        EdmRef::Double(number) if number.is_nan() => out.extend_from_slice(b"NaN"),
        EdmRef::Double(number) if number < 0.0 => out.extend_from_slice(b"-Infinity"),
        EdmRef::Double(_) => out.extend_from_slice(b"Infinity"),
        EdmRef::String(_) | EdmRef::Int32(_) | EdmRef::Boolean(_) => {}
    }
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    let length = base64::encoded_len(bytes.len(), true).expect("a value's bytes are in memory");
    out.resize(start + length, 0);
    STANDARD.encode_slice(bytes, &mut out[start..]).expect("the room is the encoded length");
}
