//! From an entity to JSON. A page of a thousand entities is the service's hottest path: what is the
//! same for all of them is prepared once, and properties go straight from where they lie into the
//! answer.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memchr;
use tavola_core::date_text::DateText;
use tavola_core::entity::{EntityView, Properties};
use tavola_core::reply::BoxedEntity;
use tavola_core::request::Select;
use tavola_core::{EdmRef, EdmType, EntityKey, Text};

use super::text::{close, push_escaped, push_text, push_text_member, push_url_text};
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
    let mut page = Page::new(level, select, links);
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
    let mut page = Page::new(level, select, links);
    page.is_of_many = entities.len() > 1;
    out.push(b'{');
    page.write_metadata(out, "");
    out.extend_from_slice(b"\"value\":[");
    for (number, entity) in entities.iter().enumerate() {
        if number == 1 {
            // Entities of a page are alike: growing by doubling would copy all of them several
            // times.
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
    let mut time = DateText::blank();
    for (name, value) in properties.iter() {
        push_opening(&mut out, MetadataLevel::Minimal, name.into(), Form::of(value));
        push_value(&mut out, value, &mut time);
        out.push(b',');
    }
    close(&mut out, b'}');
    out
}

/// An entity's address relative to the service: `T(PartitionKey='…',RowKey='…')`. Quotes in keys
/// are doubled and stay raw.
#[must_use]
pub fn entity_url_path(table: &str, partition_key: &str, row_key: &str) -> String {
    let mut path =
        String::with_capacity(table.len() + partition_key.len() + row_key.len() + PREDICATE_BYTES);
    push_entity_path(&mut path, table, partition_key, row_key);
    path
}

/// An entity's whole address.
#[must_use]
pub(in crate::table) fn entity_url(
    base: &str,
    table: &str,
    partition_key: &str,
    row_key: &str,
) -> String {
    let keys_bytes = partition_key.len() + row_key.len();
    let mut url =
        String::with_capacity(base.len() + 1 + table.len() + keys_bytes + PREDICATE_BYTES);
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
    /// There are entities to come that may be like the ones before.
    is_of_many: bool,
    /// How the members of the entities before began, by their place.
    openings: Vec<Opening>,
    /// The last Timestamp, and the last other time.
    timestamp: DateText,
    time: DateText,
}

/// Where the opening of a member stands in the answer: `"Total@odata.type":"Edm.Int64","Total":`.
/// Entities of a page have mostly the same properties in the same order, so that the next one
/// begins its member with the same bytes.
struct Opening {
    form: Form,
    name: Range<usize>,
    all: Range<usize>,
}

/// What of a value shows in the opening of its member.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Form {
    edm: EdmType,
    /// The looks of the value do not tell its type.
    needs_type: bool,
}

impl Form {
    fn of(value: EdmRef<'_>) -> Self {
        let needs_type = match value {
            EdmRef::Int64(_) | EdmRef::DateTime(_) | EdmRef::Guid(_) | EdmRef::Binary(_) => true,
            EdmRef::Double(number) => !number.is_finite(),
            EdmRef::String(_) | EdmRef::Int32(_) | EdmRef::Boolean(_) => false,
        };
        Self { edm: value.edm_type(), needs_type }
    }
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
        let (timestamp, time) = (DateText::blank(), DateText::blank());
        Self { level, links, names, is_of_many: false, openings: Vec::new(), timestamp, time }
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
    fn write_entity(&mut self, out: &mut Vec<u8>, entity: &dyn EntityView) {
        self.timestamp.print(entity.timestamp().date_time());
        self.write_annotations(out, entity);
        match self.names.take() {
            None => {
                push_text_member(out, "PartitionKey", entity.partition_key());
                push_text_member(out, "RowKey", entity.row_key());
                self.write_timestamp(out);
                let mut place = 0;
                entity.visit(&mut |name, value| {
                    self.write_property(out, place, name, value);
                    place += 1;
                });
            }
            Some(names) => {
                for (place, name) in names.iter().enumerate() {
                    self.write_selected(out, entity, place, name);
                }
                self.names = Some(names);
            }
        }
    }

    /// The property that comes at this place among the properties of its entity.
    fn write_property(
        &mut self,
        out: &mut Vec<u8>,
        place: usize,
        name: Text<'_>,
        value: EdmRef<'_>,
    ) {
        let form = Form::of(value);
        match self.openings.get(place) {
            Some(known) if known.form == form && out[known.name.clone()] == *name.as_bytes() => {
                out.extend_from_within(known.all.clone());
            }
            _ => self.write_opening(out, place, name, form),
        }
        push_value(out, value, &mut self.time);
        out.push(b',');
    }

    fn write_opening(&mut self, out: &mut Vec<u8>, place: usize, name: Text<'_>, form: Form) {
        let opening = push_opening(out, self.level, name, form);
        // Only what stands in the answer as it is can be compared there. No entity has another
        // name, unless it is damaged.
        let is_plain = opening.name.len() == name.as_bytes().len();
        if !self.is_of_many || !is_plain {
            return;
        }
        let known = self.openings.len();
        match self.openings.get_mut(place) {
            Some(other) => *other = opening,
            None if place == known => self.openings.push(opening),
            // What was selected before it is missing in all entities so far.
            None => {}
        }
    }

    fn write_annotations(&self, out: &mut Vec<u8>, entity: &dyn EntityView) {
        let Links { base, account, table } = self.links;
        let path = (self.level == MetadataLevel::Full).then(|| {
            entity_url_path(table, entity.partition_key().as_str(), entity.row_key().as_str())
        });
        if let Some(path) = &path {
            push_text_member(out, "odata.type", &format!("{account}.{table}"));
            push_text_member(out, "odata.id", &format!("{base}/{path}"));
        }
        if self.level != MetadataLevel::None {
            out.extend_from_slice(b"\"odata.etag\":\"W/\\\"datetime'");
            let [hours, minutes, seconds] = self.timestamp.between_colons();
            for piece in [hours, "%3A", minutes, "%3A", seconds] {
                out.extend_from_slice(piece.as_bytes());
            }
            out.extend_from_slice(b"'\\\"\",");
        }
        if let Some(path) = &path {
            push_text_member(out, "odata.editLink", path);
        }
    }

    fn write_timestamp(&self, out: &mut Vec<u8>) {
        if self.level == MetadataLevel::Full {
            out.extend_from_slice(b"\"Timestamp@odata.type\":\"Edm.DateTime\",");
        }
        out.extend_from_slice(b"\"Timestamp\":\"");
        out.extend_from_slice(self.timestamp.as_bytes());
        out.extend_from_slice(b"\",");
    }

    fn write_selected(
        &mut self,
        out: &mut Vec<u8>,
        entity: &dyn EntityView,
        place: usize,
        name: &str,
    ) {
        match name {
            "PartitionKey" => push_text_member(out, name, entity.partition_key()),
            "RowKey" => push_text_member(out, name, entity.row_key()),
            "Timestamp" => self.write_timestamp(out),
            _ => match entity.property(name) {
                Some(value) => self.write_property(out, place, name.into(), value),
                None => {
                    push_text(out, name);
                    out.extend_from_slice(b":null,");
                }
            },
        }
    }
}

/// Appends `"name":`, behind `"name@odata.type":…,` if the value's looks do not tell its type.
fn push_opening(out: &mut Vec<u8>, level: MetadataLevel, name: Text<'_>, form: Form) -> Opening {
    let start = out.len();
    if level != MetadataLevel::None && form.needs_type {
        push_text(out, name);
        out.pop(); // The closing quote: the annotation's name goes on.
        out.extend_from_slice(b"@odata.type\":\"");
        out.extend_from_slice(form.edm.name().as_bytes());
        out.extend_from_slice(b"\",");
    }
    let name_start = out.len() + 1;
    push_text(out, name);
    let name = name_start..out.len() - 1;
    out.push(b':');
    Opening { form, name, all: start..out.len() }
}

/// Appends a value; `time` is where times are printed.
fn push_value(out: &mut Vec<u8>, value: EdmRef<'_>, time: &mut DateText) {
    match value {
        EdmRef::String(text) => push_text(out, text),
        EdmRef::Int32(number) => push_integer(out, number),
        EdmRef::Boolean(truth) => out.extend_from_slice(if truth { b"true" } else { b"false" }),
        EdmRef::Double(number) if number.is_finite() => {
            // Always with a dot or an exponent, which is what tells a double from an integer.
            push_double(out, number);
        }
        _ => {
            out.push(b'"');
            push_quoted(out, value, time);
            out.push(b'"');
        }
    }
}

/// The exponent of a large number has no sign, as always in our answers.
fn push_double(out: &mut Vec<u8>, number: f64) {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(number).as_bytes();
    let sign = memchr(b'+', text).unwrap_or(text.len());
    out.extend_from_slice(&text[..sign]);
    out.extend_from_slice(text.get(sign + 1..).unwrap_or_default());
}

fn push_integer(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The texts of the types that JSON has no form for; none of them has a character to escape.
fn push_quoted(out: &mut Vec<u8>, value: EdmRef<'_>, time: &mut DateText) {
    match value {
        EdmRef::Int64(number) => push_integer(out, number),
        EdmRef::DateTime(at) => {
            time.print(at);
            out.extend_from_slice(time.as_bytes());
        }
        EdmRef::Guid(guid) => out.extend_from_slice(&guid.text()),
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
