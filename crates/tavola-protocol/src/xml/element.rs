//! Small documents as trees of elements, read with bounds on depth and number, and written
//! straight.

use quick_xml::Reader;
use quick_xml::escape::{escape, partial_escape, resolve_xml_entity};
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::XmlError;

/// The deepest document has four levels.
const DEPTH_MAX: usize = 8;
/// The longest document that a client sends has about sixty elements.
const ELEMENTS_MAX: usize = 512;
/// A page of containers with their metadata, which a server sends.
const ELEMENTS_OF_PAGE_MAX: usize = 1 << 20;

/// One element; attributes and namespaces mean nothing here.
#[derive(Debug, Default)]
pub(super) struct Element {
    name: String,
    text: String,
    whole_text: String,
    children: Vec<Element>,
}

/// The text of a body without its byte order mark.
pub(super) fn text_of(body: &[u8]) -> Result<&str, XmlError> {
    let text = std::str::from_utf8(body).map_err(|_| XmlError)?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

impl Element {
    /// The root of a document, which must have that name.
    pub(super) fn parse(text: &str, root: &str) -> Result<Self, XmlError> {
        Self::parse_within(text, root, ELEMENTS_MAX)
    }

    /// The same of a long list.
    pub(super) fn parse_long(text: &str, root: &str) -> Result<Self, XmlError> {
        Self::parse_within(text, root, ELEMENTS_OF_PAGE_MAX)
    }

    fn parse_within(text: &str, root: &str, elements_max: usize) -> Result<Self, XmlError> {
        let mut tree = Tree { open: vec![Self::default()], elements: elements_max };
        let mut reader = Reader::from_str(text);
        while tree.take(reader.read_event().map_err(|_| XmlError)?)? {}
        let [document] = &mut tree.open[..] else { return Err(XmlError) };
        let blank = document.text.trim_ascii().is_empty();
        match document.children.pop() {
            Some(found) if blank && document.children.is_empty() && found.name == root => Ok(found),
            _ => Err(XmlError),
        }
    }

    /// Its own text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Its text with that of the elements in it, in the order of the document.
    pub(super) fn whole_text(&self) -> String {
        self.whole_text.clone()
    }

    /// All children, with their names and texts.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.children.iter().map(|child| (child.name.as_str(), child.text.as_str()))
    }

    /// All children of that name.
    pub(super) fn children<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The one child of that name. Two of them are an error: which one counts would be anybody's
    /// guess.
    pub(super) fn child(&self, name: &str) -> Result<Option<&Self>, XmlError> {
        let mut children = self.children(name);
        let first = children.next();
        if children.next().is_some() { Err(XmlError) } else { Ok(first) }
    }

    /// The one child of that name, which must be there.
    pub(super) fn required(&self, name: &str) -> Result<&Self, XmlError> {
        self.child(name)?.ok_or(XmlError)
    }
}

/// The elements that are open, the document itself first.
struct Tree {
    open: Vec<Element>,
    /// How many more it may have.
    elements: usize,
}

impl Tree {
    /// Takes one event; false after the last.
    fn take(&mut self, event: Event<'_>) -> Result<bool, XmlError> {
        match event {
            Event::Start(tag) => self.begin(&tag)?,
            Event::End(_) => self.end()?,
            Event::Empty(tag) => {
                self.begin(&tag)?;
                self.end()?;
            }
            Event::Text(text) => self.push_text(&text.xml10_content())?,
            Event::CData(text) => self.push_text(&text.xml10_content())?,
            Event::GeneralRef(reference) => self.push_reference(&reference)?,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::DocType(_) => return Err(XmlError),
            Event::Eof => return Ok(false),
        }
        Ok(true)
    }

    fn begin(&mut self, tag: &BytesStart<'_>) -> Result<(), XmlError> {
        self.elements = self.elements.checked_sub(1).ok_or(XmlError)?;
        if self.open.len() > DEPTH_MAX {
            return Err(XmlError);
        }
        self.open
            .push(Element { name: tag.local_name().into_inner().to_owned(), ..Element::default() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), XmlError> {
        let element = self.open.pop().ok_or(XmlError)?;
        let parent = self.open.last_mut().ok_or(XmlError)?;
        parent.whole_text.push_str(&element.whole_text);
        parent.children.push(element);
        Ok(())
    }

    fn push_text(&mut self, text: &str) -> Result<(), XmlError> {
        if !text.chars().all(is_legal) {
            return Err(XmlError);
        }
        let element = self.open.last_mut().ok_or(XmlError)?;
        element.text.push_str(text);
        element.whole_text.push_str(text);
        Ok(())
    }

    fn push_reference(&mut self, reference: &BytesRef<'_>) -> Result<(), XmlError> {
        match reference.resolve_char_ref().map_err(|_| XmlError)? {
            Some(character) => self.push_text(character.encode_utf8(&mut [0; 4])),
            None => self.push_text(resolve_xml_entity(reference).ok_or(XmlError)?),
        }
    }
}

/// True for the characters that an XML document can hold.
fn is_legal(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// Writes a document without white space between its elements.
#[derive(Debug)]
pub(super) struct Writer(String);

impl Writer {
    pub(super) fn new() -> Self {
        Self(r#"<?xml version="1.0" encoding="utf-8"?>"#.to_owned())
    }

    /// An element with what `content` writes.
    pub(super) fn element(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.tag(&["<", name, ">"]);
        content(self);
        self.tag(&["</", name, ">"]);
    }

    /// An element with one attribute and what `content` writes.
    pub(super) fn element_with(
        &mut self,
        (name, (attribute, value)): (&str, (&str, &str)),
        content: impl FnOnce(&mut Self),
    ) {
        let value = escape(value);
        self.tag(&["<", name, " ", attribute, "=\"", &value, "\">"]);
        content(self);
        self.tag(&["</", name, ">"]);
    }

    /// An element with a text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        // A reader turns a plain carriage return into a line feed.
        let escaped = partial_escape(text).replace('\r', "&#13;");
        self.element(name, |writer| writer.0.push_str(&escaped));
    }

    /// An element with what `item` writes for each item; without any it is `<Name />`.
    pub(super) fn list<T>(&mut self, name: &str, items: &[T], item: impl Fn(&mut Self, &T)) {
        if items.is_empty() {
            return self.tag(&["<", name, " />"]);
        }
        self.element(name, |writer| items.iter().for_each(|each| item(writer, each)));
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    fn tag(&mut self, pieces: &[&str]) {
        self.0.extend(pieces.iter().copied());
    }
}
