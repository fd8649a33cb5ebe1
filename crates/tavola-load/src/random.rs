//! Random numbers that are the same in every run (SplitMix64): a benchmark must ask all servers the
//! same.

#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0. The bias is below one in 2^40 for any table that fits
    /// on a disk.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
