//! Numbers and texts as the engine writes them, taken from the front of bytes that may be damaged.

/// What is left to read. Every method takes from the front, and gives `None` once the bytes are not
/// what they should be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    pub(super) fn fixed32(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*taken))
    }

    pub(super) fn fixed64(&mut self) -> Option<u64> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*taken))
    }

    /// Seven bits a byte, the lowest first; the last byte has its high bit clear.
    pub(super) fn varint64(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn varint32(&mut self) -> Option<u32> {
        self.varint64().and_then(|number| u32::try_from(number).ok())
    }

    /// A number that may be negative: its sign is the lowest bit.
    pub(super) fn signed_varint64(&mut self) -> Option<i64> {
        self.varint64().map(|number| (number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A length, then so many bytes.
    pub(super) fn prefixed(&mut self) -> Option<&'a [u8]> {
        let length = self.varint32()?;
        self.take(length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let mut bytes = Bytes(&[0x7f, 0x80, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3]);
        assert_eq!(
            (bytes.varint64(), bytes.varint32(), bytes.varint32()),
            (Some(127), Some(128), Some(u32::MAX))
        );
        assert_eq!(
            [bytes.signed_varint64(), bytes.signed_varint64(), bytes.signed_varint64()],
            [Some(-1), Some(1), Some(-2)]
        );
        assert!(bytes.is_empty() && bytes.byte().is_none());
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_none() {
        assert_eq!(Bytes(&[0x80]).varint64(), None);
        assert_eq!(Bytes(&[0xff; 11]).varint64(), None);
        assert_eq!(Bytes(&[0xff, 0xff, 0xff, 0xff, 0x7f]).varint32(), None, "more than 32 bits");
        assert_eq!(Bytes(&[3, 1, 2]).prefixed(), None);
        assert_eq!(Bytes(&[2, 1, 2]).prefixed(), Some(&[1, 2][..]));
        assert_eq!((Bytes(&[1, 0, 0]).fixed32(), Bytes(&[1, 0, 0, 0]).fixed32()), (None, Some(1)));
        assert_eq!((Bytes(&[1; 7]).fixed64(), Bytes(&[0; 8]).fixed64()), (None, Some(0)));
    }
}
