//! The rows that every case starts from, and ranges of keys as the protocol words them.

/// The key of an entity. Keys here are ASCII, so that the order of bytes is the order of the
/// service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) partition: &'static str,
    pub(crate) row: &'static str,
}

impl Key {
    pub(crate) const fn new(partition: &'static str, row: &'static str) -> Self {
        Self { partition, row }
    }

    pub(crate) fn is_stored(self) -> bool {
        stored().any(|stored| stored == self)
    }

    /// A text that stands in this row and nowhere else.
    pub(crate) fn marker(self) -> String {
        format!("{MARK}{}-{}", self.partition, self.row)
    }
}

/// What the marker of every row begins with.
pub(crate) const MARK: &str = "content-of-";

/// Every row of `Orders`: odd rows exist, even ones do not.
pub(crate) fn stored() -> impl Iterator<Item = Key> {
    ["a", "b", "c", "d"]
        .into_iter()
        .flat_map(|partition| ["1", "3", "5", "7"].map(|row| Key::new(partition, row)))
}

/// `spk`, `srk`, `epk` and `erk`; empty means absent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Range {
    pub(crate) name: &'static str,
    pub(crate) spk: &'static str,
    pub(crate) srk: &'static str,
    pub(crate) epk: &'static str,
    pub(crate) erk: &'static str,
}

impl Range {
    pub(crate) const NONE: Self = Self { name: "none", spk: "", srk: "", epk: "", erk: "" };
    pub(crate) const PARTITIONS: Self =
        Self { name: "partitions", spk: "b", epk: "c", ..Self::NONE };
    pub(crate) const ROWS: Self = Self { name: "rows", spk: "b", srk: "3", epk: "c", erk: "5" };
    pub(crate) const FROM: Self = Self { name: "from", spk: "b", srk: "3", ..Self::NONE };
    pub(crate) const TO: Self = Self { name: "to", epk: "c", ..Self::NONE };

    /// The table in section 4.3 of the protocol reference, line by line.
    pub(crate) fn contains(&self, key: Key) -> bool {
        let after_start = match (self.spk, self.srk) {
            ("", _) => true,
            (spk, "") => key.partition >= spk,
            (spk, srk) => key.partition > spk || (key.partition == spk && key.row >= srk),
        };
        let before_end = match (self.epk, self.erk) {
            ("", _) => true,
            (epk, "") => key.partition <= epk,
            (epk, erk) => key.partition < epk || (key.partition == epk && key.row <= erk),
        };
        after_start && before_end
    }
}
