//! What a table file consists of: every block with its place, found through the indexes and
//! verified.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::batch::{Entry, RangeDeletion};
use super::block::{Handle, IndexForm, entries, handles, pairs};
use super::bytes::Bytes;
use super::content::{Content, Properties, TableForm, range_deletion};
use super::rescue::{self, Piece};
use super::table_file::{FOOTER_BYTES, ReadFlaw, TableFile};

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
    /// Bytes that no block claims, or in which none can be found.
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
            Self::Gap => "part between blocks",
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
    /// What the properties say, if they can be read.
    pub(crate) properties: Option<Properties>,
    /// Verified blocks that are not data.
    pub(crate) other_blocks: u64,
    pub(crate) flaws: Vec<Flaw>,
    /// Bytes that may have been rows: no block can be found there, and nothing says that they were
    /// something else.
    pub(crate) unreadable: Vec<Range<u64>>,
    /// The footer is there, so that nothing was cut off the end.
    pub(crate) has_end: bool,
    /// The list of blocks that are not data can be read.
    has_list: bool,
    /// Every block that is named somewhere.
    known: Vec<Handle>,
    /// Where a block begins that was verified and is not data.
    others: Vec<u64>,
}

impl Structure {
    /// Reads everything but the rows. A file without a sound footer gives what can be found without
    /// one.
    ///
    /// # Errors
    /// If nothing of the file can be read.
    pub(crate) fn read(path: &Path) -> Result<Self, ReadFlaw> {
        let mut structure = match TableFile::open(path) {
            Ok(file) => {
                let mut structure = Self::new(file);
                structure.has_end = true;
                structure.walk();
                structure
            }
            Err(ReadFlaw::Io(error)) => return Err(ReadFlaw::Io(error)),
            Err(ReadFlaw::Damaged(what)) => Self::without_footer(path, what)?,
        };
        structure.fill_gaps().map_err(ReadFlaw::Io)?;
        Ok(structure)
    }

    fn new(file: TableFile) -> Self {
        let (data, range_deletions, flaws, unreadable, known) = Default::default();
        let (properties, other_blocks, has_end, has_list, others) =
            (None, 0, false, false, Vec::new());
        Self {
            file,
            data,
            range_deletions,
            properties,
            other_blocks,
            flaws,
            unreadable,
            has_end,
            has_list,
            known,
            others,
        }
    }

    fn without_footer(path: &Path, what: String) -> Result<Self, ReadFlaw> {
        let file = match rescue::without_footer(path) {
            Ok(file) => file,
            Err(ReadFlaw::Damaged(_)) => return Err(ReadFlaw::Damaged(what)),
            Err(error) => return Err(error),
        };
        let mut structure = Self::new(file);
        let offset = structure.file.bytes.saturating_sub(FOOTER_BYTES);
        structure.flaws.push(Flaw {
            offset,
            bytes: structure.file.bytes - offset,
            part: Part::Footer,
            what,
        });
        Ok(structure)
    }

    fn walk(&mut self) {
        let Some(meta_index) = self.file.meta_index else { return };
        let Some(block) = self.other_block(meta_index, Part::MetaIndex) else { return };
        let Some(named) = self.decoded(meta_index, Part::MetaIndex, pairs(&block)) else { return };
        self.has_list = true;
        let mut places = Vec::new();
        for (name, value) in named {
            // Some entries of the list are not places: texts about the file, with names of their
            // own.
            if let Some(handle) = Handle::read(&mut Bytes(value)) {
                places.push((String::from_utf8_lossy(&name).into_owned(), handle));
            }
        }
        let place = |wanted: &str| {
            places.iter().find(|(name, _)| name == wanted).map(|(_, handle)| *handle)
        };
        self.read_properties(place("rocksdb.properties"));
        // Without them the file most likely has the form that our options ask for.
        let form = self.properties.map_or(TableForm::OURS, |properties| properties.form);
        self.index(place("rocksdb.index"), form);
        if let Some(handle) = place("rocksdb.range_del") {
            self.deleted_ranges(handle);
        }
        for (name, handle) in &places {
            match name.as_str() {
                "rocksdb.properties" | "rocksdb.index" | "rocksdb.range_del" => {}
                name if name.starts_with("partitionedfilter.") => self.filter(*handle, form),
                name if name.starts_with("fullfilter.") => {
                    drop(self.other_block(*handle, Part::Filter))
                }
                _ => drop(self.other_block(*handle, Part::Other)),
            }
        }
    }

    fn read_properties(&mut self, handle: Option<Handle>) {
        let Some(handle) = handle else { return self.missing(Part::Properties) };
        let Some(block) = self.other_block(handle, Part::Properties) else { return };
        let found = pairs(&block).and_then(|pairs| Properties::of(&pairs));
        self.properties = self.decoded(handle, Part::Properties, found);
    }

    fn index(&mut self, handle: Option<Handle>, form: TableForm) {
        let Some(top) = handle else { return self.missing(Part::Index) };
        let Some(block) = self.other_block(top, Part::Index) else { return };
        let Some(found) = self.decoded(top, Part::Index, handles(&block, form.index)) else {
            return;
        };
        if !form.two_levels {
            return self.data_blocks(found, &mut Vec::new());
        }
        let mut above = Vec::new();
        for (up_to, partition) in found {
            let block = self.other_block(partition, Part::Index);
            let found = block.and_then(|block| {
                self.decoded(partition, Part::Index, handles(&block, form.index))
            });
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
                self.others.push(handle.offset);
                Some(block)
            }
            Err(flaw) => {
                let what = flaw.into_text();
                self.flaws.push(Flaw {
                    offset: handle.offset,
                    bytes: handle.end() - handle.offset,
                    part,
                    what,
                });
                None
            }
        }
    }

    fn decoded<T>(&mut self, handle: Handle, part: Part, found: Option<T>) -> Option<T> {
        if found.is_none() {
            let what =
                "the block matches its checksum, but is not what this version writes".to_owned();
            self.flaws.push(Flaw {
                offset: handle.offset,
                bytes: handle.end() - handle.offset,
                part,
                what,
            });
        }
        found
    }

    fn missing(&mut self, part: Part) {
        let Some(list) = self.file.meta_index else { return };
        let what = "the list of blocks does not name it".to_owned();
        self.flaws.push(Flaw { offset: list.offset, bytes: 0, part, what });
    }

    /// There is nothing between blocks, so what no block names was named by a block that cannot be
    /// read. Blocks among it are found by their checksums; what is left is accounted for.
    fn fill_gaps(&mut self) -> io::Result<()> {
        let mut unreadable = Vec::new();
        let is_explained = !self.flaws.is_empty();
        for gap in self.gaps() {
            if !is_explained {
                let what = "no block claims these bytes".to_owned();
                self.flaws.push(Flaw {
                    offset: gap.start,
                    bytes: gap.end - gap.start,
                    part: Part::Gap,
                    what,
                });
            }
            let mut found = Vec::new();
            rescue::pieces(&self.file, gap, &mut |piece| match piece {
                Piece::Block(handle, block) => found.push((handle, Content::of(&block))),
                Piece::Unreadable(range) => unreadable.push(range),
            })?;
            found.into_iter().for_each(|(handle, content)| self.found(handle, content));
        }
        // Data blocks are in the order of their keys.
        self.data.sort_by_key(|block| block.handle.offset);
        self.bound_found_blocks();
        let rows_end = self.rows_end();
        let (may_be_rows, others): (Vec<_>, Vec<_>) =
            unreadable.into_iter().partition(|range| range.start < rows_end);
        self.unreadable = may_be_rows;
        for range in others {
            if self.is_footer(&range) {
                continue;
            }
            let what = "no block can be found in these bytes, and no rows were there".to_owned();
            self.flaws.push(Flaw {
                offset: range.start,
                bytes: range.end - range.start,
                part: Part::Gap,
                what,
            });
        }
        Ok(())
    }

    /// What no named block claims.
    fn gaps(&mut self) -> Vec<Range<u64>> {
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
        gaps
    }

    /// A block that was found by its checksum.
    fn found(&mut self, handle: Handle, content: Content) {
        if let Content::Rows { last } = content {
            self.data.push(DataBlock { handle, above: Vec::new(), up_to: Some(last) });
            return;
        }
        self.other_blocks += 1;
        self.others.push(handle.offset);
        match content {
            Content::Properties(properties) => {
                self.properties = self.properties.or(Some(properties))
            }
            Content::DeletedRanges(ranges) if self.range_deletions.is_empty() => {
                self.range_deletions = ranges
            }
            _ => {}
        }
    }

    /// Blocks that were found say their last key; the one before says above which theirs are.
    fn bound_found_blocks(&mut self) {
        let mut before = Vec::new();
        for block in &mut self.data {
            if block.above.is_empty() {
                block.above.clone_from(&before);
            }
            before = block.up_to.clone().unwrap_or_default();
        }
    }

    /// Rows come first in a file, so that behind the first other block there are none. One that
    /// lies before rows is rows itself, of a kind that is not known here.
    fn rows_end(&self) -> u64 {
        let last = self.data.last().map_or(0, |block| block.handle.offset);
        self.others.iter().copied().filter(|offset| *offset > last).min().unwrap_or(u64::MAX)
    }

    /// Where the lost footer was, which is reported as that.
    fn is_footer(&self, range: &Range<u64>) -> bool {
        !self.has_end && range.end == self.file.bytes && range.end - range.start <= FOOTER_BYTES
    }

    /// True if rows may have been cut off: nothing that follows rows is there.
    pub(crate) fn rows_may_be_cut(&self) -> bool {
        !self.has_end && self.rows_end() == u64::MAX
    }

    /// True if ranges were deleted here that cannot be read, or if nothing says that none were.
    pub(crate) fn ranges_may_be_lost(&self) -> bool {
        match self.properties {
            Some(properties) => properties.range_deletions > self.range_deletions.len() as u64,
            None if self.has_list => self.flaws.iter().any(|flaw| flaw.part == Part::DeletedRanges),
            None => self.range_deletions.is_empty(),
        }
    }

    /// Between which keys the rows of a part of the file were.
    pub(crate) fn keys_around(&self, range: &Range<u64>) -> (&[u8], Option<&[u8]>) {
        let next = self.data.partition_point(|block| block.handle.offset < range.start);
        let above = next.checked_sub(1).and_then(|before| self.data[before].up_to.as_deref());
        let up_to = self.data.get(next).and_then(|block| block.up_to.as_deref());
        (above.unwrap_or_default(), up_to)
    }

    /// The rows of one block.
    pub(crate) fn entries_of(&self, block: &DataBlock) -> Result<Vec<Entry>, ReadFlaw> {
        let bytes = self.file.block(block.handle)?;
        entries(&bytes).ok_or_else(|| {
            ReadFlaw::damaged("the block matches its checksum, but holds no rows of ours")
        })
    }
}

#[cfg(test)]
mod tests;
