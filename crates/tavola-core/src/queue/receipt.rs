//! Pop receipts: proof that nobody else has taken a message since.

use crate::table::TableId;
use crate::time::DateTime;

/// Where the visibility row of a message stands. Taking or updating the message moves that row, so
/// that only the latest receipt finds it.
///
/// It names the incarnation of its queue: a receipt of one queue means nothing in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PopReceipt {
    /// The incarnation of the queue.
    pub queue: TableId,
    /// The shard of the queue.
    pub shard: u8,
    /// When the message is visible next.
    pub visible_at: DateTime,
    /// Tells apart what is visible at the same time.
    pub sequence: u64,
}

impl PopReceipt {
    /// Bytes of a receipt. A multiple of three, so that Base64 needs no padding.
    pub const BYTES: usize = 27;

    /// The receipt as bytes, with two of a checksum.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.queue.number().to_be_bytes());
        bytes[8] = self.shard;
        bytes[9..17].copy_from_slice(&self.visible_at.ticks().to_be_bytes());
        bytes[17..25].copy_from_slice(&self.sequence.to_be_bytes());
        let check = checksum(&bytes[..25]);
        bytes[25..].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    /// The receipt that was written so; `None` if none was.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| -> Option<u64> {
            Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
        };
        let check = u16::from_be_bytes([bytes[25], bytes[26]]);
        if check != checksum(&bytes[..25]) {
            return None;
        }
        Some(Self {
            queue: TableId::new(number(0)?),
            shard: bytes[8],
            visible_at: DateTime::from_ticks(number(9)?)?,
            sequence: number(17)?,
        })
    }
}

/// Not against forgery: it tells a mistyped receipt from an old one.
fn checksum(bytes: &[u8]) -> u16 {
    // CRC-16/XMODEM.
    bytes.iter().fold(0, |crc, byte| {
        let start = crc ^ (u16::from(*byte) << 8);
        (0..8).fold(start, |crc, _| if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::{PopReceipt, checksum};
    use crate::table::TableId;
    use crate::time::DateTime;

    #[test]
    fn receipts_are_read_as_they_were_written() {
        let receipt = PopReceipt {
            queue: TableId::new(300),
            shard: 7,
            visible_at: DateTime::from_ticks(133_000_000_000_000_001).unwrap(),
            sequence: u64::MAX,
        };
        let bytes = receipt.to_bytes();
        assert_eq!(PopReceipt::from_bytes(&bytes), Some(receipt));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes;
                flipped[at] ^= 1 << bit;
                assert_eq!(PopReceipt::from_bytes(&flipped), None, "bit {bit} of {at}");
            }
        }
        assert_eq!(PopReceipt::from_bytes(&bytes[..26]), None);
        assert_eq!(PopReceipt::from_bytes(&[]), None);
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
    }
}
