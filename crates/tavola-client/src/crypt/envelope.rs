//! The bytes of `tv_enc`: who wrapped the content key, which properties are encrypted, and a code
//! that authenticates both. They never change; a new format gets a new first byte.

use super::content::{Content, Place};
use super::keys::{WrapAlgorithm, Wrapped};

/// The first byte.
const FORMAT: u8 = 1;
/// AES-256-GCM.
const CIPHER: u8 = 1;
const CODE_BYTES: usize = 32;

/// An envelope that was read.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) wrapped: Wrapped,
    /// The number of the type, and the name of each encrypted property.
    pub(super) properties: Vec<(u8, String)>,
    head: Vec<u8>,
    code: Vec<u8>,
}

/// Why an envelope is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotEnvelope {
    /// Of a version or with an algorithm that this library does not know.
    Unknown,
    /// Cut off or altered.
    Broken,
}

/// The envelope of properties; `None` if a length does not fit its place.
pub(super) fn write(
    wrapped: &Wrapped,
    properties: &[(u8, String)],
    content: &Content,
    place: &Place<'_>,
) -> Option<Vec<u8>> {
    let mut bytes = vec![FORMAT, CIPHER, wrapped.algorithm.number()];
    bytes.push(u8::try_from(wrapped.key_id.len()).ok()?);
    bytes.extend(wrapped.key_id.as_bytes());
    bytes.extend(u16::try_from(wrapped.bytes.len()).ok()?.to_be_bytes());
    bytes.extend(&wrapped.bytes);
    bytes.push(u8::try_from(properties.len()).ok()?);
    for (edm, name) in properties {
        bytes.push(*edm);
        bytes.extend(u16::try_from(name.len()).ok()?.to_be_bytes());
        bytes.extend(name.as_bytes());
    }
    let code = content.sign(&bytes, place);
    bytes.extend(code.as_ref());
    Some(bytes)
}

/// Reads an envelope. Nothing in it is authenticated before [`Envelope::verifies`] says so.
pub(super) fn read(bytes: &[u8]) -> Result<Envelope, NotEnvelope> {
    let mut rest = bytes;
    let [format, cipher, algorithm] = *take::<3>(&mut rest)?;
    let algorithm = WrapAlgorithm::of_number(algorithm);
    let (true, true, Some(algorithm)) = (format == FORMAT, cipher == CIPHER, algorithm) else {
        return Err(NotEnvelope::Unknown);
    };
    let [length] = *take::<1>(&mut rest)?;
    let key_id = text(&mut rest, usize::from(length))?;
    let length = u16::from_be_bytes(*take::<2>(&mut rest)?);
    let wrapped = part(&mut rest, usize::from(length))?.to_vec();
    let [count] = *take::<1>(&mut rest)?;
    let mut properties = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let [edm] = *take::<1>(&mut rest)?;
        let length = u16::from_be_bytes(*take::<2>(&mut rest)?);
        properties.push((edm, text(&mut rest, usize::from(length))?));
    }
    if rest.len() != CODE_BYTES {
        return Err(NotEnvelope::Broken);
    }
    let head = bytes[..bytes.len() - CODE_BYTES].to_vec();
    let wrapped = Wrapped::new(algorithm, key_id, wrapped);
    Ok(Envelope { wrapped, properties, head, code: rest.to_vec() })
}

impl Envelope {
    /// True if it was written with this content key for this place, and not altered.
    pub(super) fn verifies(&self, content: &Content, place: &Place<'_>) -> bool {
        content.verifies(&self.head, place, &self.code)
    }
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Result<&'b [u8; N], NotEnvelope> {
    let (taken, left) = rest.split_first_chunk::<N>().ok_or(NotEnvelope::Broken)?;
    *rest = left;
    Ok(taken)
}

fn part<'b>(rest: &mut &'b [u8], length: usize) -> Result<&'b [u8], NotEnvelope> {
    let (taken, left) = rest.split_at_checked(length).ok_or(NotEnvelope::Broken)?;
    *rest = left;
    Ok(taken)
}

fn text(rest: &mut &[u8], length: usize) -> Result<String, NotEnvelope> {
    String::from_utf8(part(rest, length)?.to_vec()).map_err(|_| NotEnvelope::Broken)
}
