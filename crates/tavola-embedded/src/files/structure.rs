//! What a table file consists of: every block with its place, found through the indexes and verified.

use std::path::Path;

use super::batch::{Entry, RANGE_DELETE, RangeDeletion};
use super::block::{Handle, IndexForm, entries, handles, pairs};
use super::bytes::Bytes;
use super::manifest::split_key;
use super::rescue;
use super::table_file::{ReadFlaw, TableFile};

/// A block with rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataBlock {
    pub(crate) handle: Handle,
    /// Its keys are above this one; empty for the first.
    pub(crate) above: Vec<u8>,
    /// None of its keys is above this one; `None` if nothing says so.
    pub(crate) up_to: Option<Vec<u8>>,
}

/// A part of a table file that is not as it was written.
#[derive(Debug)]
pub(crate) struct Flaw {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) part: Part,
    pub(crate) what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Footer,
    MetaIndex,
    Properties,
    Index,
    Filter,
    DeletedRanges,
    Other,
    /// Bytes that no block claims.
    Gap,
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Footer => "footer",
            Self::MetaIndex => "list of blocks",
            Self::Properties => "block of properties",
            Self::Index => "block of the index",
            Self::Filter => "block of the filter",
            Self::DeletedRanges => "block of deleted ranges",
            Self::Other => "block of a kind that this version does not know",
            Self::Gap => "place between blocks",
        }
    }
}

/// A table file taken apart.
#[derive(Debug)]
pub(crate) struct Structure {
    pub(crate) file: TableFile,
    /// In the order of keys.
    pub(crate) data: Vec<DataBlock>,
    pub(crate) range_deletions: Vec<RangeDeletion>,
    /// How many entries its blocks of rows have, if the properties can be read.
    pub(crate) entries: Option<u64>,
    /// Verified blocks that are not data.
    pub(crate) other_blocks: u64,
    pub(crate) flaws: Vec<Flaw>,
    /// Every block that is named somewhere.
    known: Vec<Handle>,
}

impl Structure {
    /// Reads everything but the rows. A file without a sound footer gives what can be found without one.
    ///
    /// # Errors
    /// If nothing of the file can be read.
    pub(crate) fn read(path: &Path) -> Result<Self, ReadFlaw> {
        let file = match TableFile::open(path) {
            Ok(file) => file,
            Err(ReadFlaw::Io(error)) => return Err(ReadFlaw::Io(error)),
            Err(ReadFlaw::Damaged(what)) => return Self::without_footer(path, what),
        };
        let mut structure = Self::new(file);
        structure.walk();
        structure.fill_gaps();
        Ok(structure)
    }

    fn new(file: TableFile) -> Self {
        let (data, range_deletions, flaws, known) = Default::default();
        Self { file, data, range_deletions, entries: None, other_blocks: 0, flaws, known }
    }

    fn without_footer(path: &Path, what: String) -> Result<Self, ReadFlaw> {
        let (file, data) = match rescue::without_footer(path) {
            Ok(found) => found,
            Err(ReadFlaw::Damaged(_)) => return Err(ReadFlaw::Damaged(what)),
            Err(error) => return Err(error),
        };
        let mut structure = Self::new(file);
        let end = data.last().map_or(0, |block| block.handle.end());
        structure.data = data;
        let bytes = structure.file.bytes - end;
        structure.flaws.push(Flaw { offset: end, bytes, part: Part::Footer, what });
        Ok(structure)
    }

    fn walk(&mut self) {
        let Some(meta_index) = self.file.meta_index else { return };
        let Some(block) = self.other_block(meta_index, Part::MetaIndex) else { return };
        let Some(named) = self.decoded(meta_index, Part::MetaIndex, pairs(&block)) else { return };
        let mut places = Vec::new();
        for (name, value) in named {
            // Some entries of the list are not places: texts about the file, with names of their own.
            if let Some(handle) = Handle::read(&mut Bytes(value)) {
                places.push((String::from_utf8_lossy(&name).into_owned(), handle));
            }
        }
        let place = |wanted: &str| places.iter().find(|(name, _)| name == wanted).map(|(_, handle)| *handle);
        let properties = place("rocksdb.properties");
        let Some(form) = self.properties(properties) else { return };
        self.index(place("rocksdb.index"), form);
        if let Some(handle) = place("rocksdb.range_del") {
            self.deleted_ranges(handle);
        }
        for (name, handle) in &places {
            match name.as_str() {
                "rocksdb.properties" | "rocksdb.index" | "rocksdb.range_del" => {}
                name if name.starts_with("partitionedfilter.") => self.filter(*handle, form),
                name if name.starts_with("fullfilter.") => drop(self.other_block(*handle, Part::Filter)),
                _ => drop(self.other_block(*handle, Part::Other)),
            }
        }
    }

    fn properties(&mut self, handle: Option<Handle>) -> Option<TableForm> {
        let Some(handle) = handle else {
            self.missing(Part::Properties);
            return None;
        };
        let block = self.other_block(handle, Part::Properties)?;
        let found = pairs(&block).and_then(|pairs| TableForm::of(&pairs));
        let form = self.decoded(handle, Part::Properties, found)?;
        self.entries = Some(form.entries);
        Some(form)
    }

    fn index(&mut self, handle: Option<Handle>, form: TableForm) {
        let Some(top) = handle else { return self.missing(Part::Index) };
        let Some(block) = self.other_block(top, Part::Index) else { return };
        let Some(found) = self.decoded(top, Part::Index, handles(&block, form.index)) else { return };
        if !form.two_levels {
            return self.data_blocks(found, &mut Vec::new());
        }
        let mut above = Vec::new();
        for (up_to, partition) in found {
            let block = self.other_block(partition, Part::Index);
            let found = block.and_then(|block| self.decoded(partition, Part::Index, handles(&block, form.index)));
            match found {
                Some(found) => self.data_blocks(found, &mut above),
                None => above = up_to,
            }
        }
    }

    fn data_blocks(&mut self, found: Vec<(Vec<u8>, Handle)>, above: &mut Vec<u8>) {
        for (up_to, handle) in found {
            self.known.push(handle);
            let above = std::mem::replace(above, up_to.clone());
            self.data.push(DataBlock { handle, above, up_to: Some(up_to) });
        }
    }

    fn filter(&mut self, top: Handle, form: TableForm) {
        let Some(block) = self.other_block(top, Part::Filter) else { return };
        // Its keys are of no use here, so that it does not matter whether they have a trailer.
        let index = IndexForm { keys_have_trailer: false, ..form.index };
        let Some(found) = self.decoded(top, Part::Filter, handles(&block, index)) else { return };
        for (_, partition) in found {
            self.other_block(partition, Part::Filter);
        }
    }

    fn deleted_ranges(&mut self, handle: Handle) {
        let Some(block) = self.other_block(handle, Part::DeletedRanges) else { return };
        let found = pairs(&block).and_then(|pairs| pairs.into_iter().map(range_deletion).collect());
        self.range_deletions = self.decoded(handle, Part::DeletedRanges, found).unwrap_or_default();
    }

    /// A verified block that is not data.
    fn other_block(&mut self, handle: Handle, part: Part) -> Option<Vec<u8>> {
        self.known.push(handle);
        match self.file.block(handle) {
            Ok(block) => {
                self.other_blocks += 1;
                Some(block)
            }
            Err(flaw) => {
                let what = flaw.into_text();
                self.flaws.push(Flaw { offset: handle.offset, bytes: handle.end() - handle.offset, part, what });
                None
            }
        }
    }

    fn decoded<T>(&mut self, handle: Handle, part: Part, found: Option<T>) -> Option<T> {
        if found.is_none() {
            let what = "the block matches its checksum, but is not what this version writes".to_owned();
            self.flaws.push(Flaw { offset: handle.offset, bytes: handle.end() - handle.offset, part, what });
        }
        found
    }

    fn missing(&mut self, part: Part) {
        let Some(list) = self.file.meta_index else { return };
        let what = "the list of blocks does not name it".to_owned();
        self.flaws.push(Flaw { offset: list.offset, bytes: 0, part, what });
    }

    /// There is nothing between blocks, so what nobody names was named by a block that cannot be read. Blocks of rows
    /// among it are found by their checksums.
    fn fill_gaps(&mut self) {
        self.known.sort_unstable();
        let mut at = 0;
        let mut gaps = Vec::new();
        for handle in self.known.iter().filter(|handle| handle.end() <= self.file.end) {
            if handle.offset > at {
                gaps.push(at..handle.offset);
            }
            at = at.max(handle.end());
        }
        if at < self.file.end {
            gaps.push(at..self.file.end);
        }
        if gaps.is_empty() {
            return;
        }
        let is_explained = !self.flaws.is_empty();
        for gap in gaps {
            if !is_explained {
                let what = "no block claims these bytes".to_owned();
                self.flaws.push(Flaw { offset: gap.start, bytes: gap.end - gap.start, part: Part::Gap, what });
            }
            self.data.extend(rescue::data_blocks(&self.file, gap));
        }
        // Data lies in the order of its keys.
        self.data.sort_by_key(|block| block.handle.offset);
    }

    /// The rows of one block.
    pub(crate) fn entries_of(&self, block: &DataBlock) -> Result<Vec<Entry>, ReadFlaw> {
        let bytes = self.file.block(block.handle)?;
        entries(&bytes).ok_or_else(|| ReadFlaw::damaged("the block matches its checksum, but holds no rows of ours"))
    }
}

fn range_deletion((key, end): (Vec<u8>, &[u8])) -> Option<RangeDeletion> {
    let (start, trailer) = split_key(&key)?;
    (trailer as u8 == RANGE_DELETE).then(|| RangeDeletion {
        start: start.to_vec(),
        end: end.to_vec(),
        sequence: trailer >> 8,
    })
}

/// What the properties say about the form of the file.
#[derive(Debug, Clone, Copy)]
struct TableForm {
    index: IndexForm,
    two_levels: bool,
    entries: u64,
}

impl TableForm {
    fn of(pairs: &[(Vec<u8>, &[u8])]) -> Option<Self> {
        const TWO_LEVELS: u32 = 2;
        let value = |name: &str| pairs.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| Bytes(value));
        // A property that is not there is zero.
        let number = |name: &str| value(name).map_or(Some(0), |mut value| value.varint64());
        let index_type = value("rocksdb.block.based.table.index.type")?.fixed32()?;
        let entries = number("rocksdb.num.entries")?;
        Some(Self {
            index: IndexForm {
                keys_have_trailer: number("rocksdb.index.key.is.user.key")? == 0,
                values_are_differences: number("rocksdb.index.value.is.delta.encoded")? != 0,
            },
            two_levels: index_type == TWO_LEVELS,
            entries: entries.checked_sub(number("rocksdb.num.range-deletions")?)?,
        })
    }
}

#[cfg(test)]
mod tests;
