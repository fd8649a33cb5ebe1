//! Which of RocksDB's source files are compiled together.
//!
//! A file alone spends most of its time on headers that its neighbours read as well. Files of one
//! folder share a unit up to a size; larger units gain nothing more and spread badly over the
//! cores.

use std::collections::BTreeMap;

/// Several source files that the compiler sees as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Unique, and fit for a file name.
    pub(crate) name: String,
    pub(crate) sources: Vec<String>,
    bytes: u64,
}

impl Unit {
    /// The text of the file that is compiled.
    pub(crate) fn text(&self) -> String {
        self.sources.iter().map(|source| format!("#include \"{source}\"\n")).collect()
    }
}

/// Gives about fifty units. Only the few sources that are larger than this stand alone.
const UNIT_BYTES_MAX: u64 = 200_000;

/// Groups sources (path and size) into units, the largest first, so that the last ones to finish
/// are small.
pub(crate) fn plan(sources: &[(String, u64)]) -> Vec<Unit> {
    let mut folders: BTreeMap<&str, Vec<&(String, u64)>> = BTreeMap::new();
    for source in sources {
        folders.entry(folder(&source.0)).or_default().push(source);
    }
    let mut units: Vec<Unit> =
        folders.iter().flat_map(|(folder, sources)| split(folder, sources)).collect();
    units.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    units
}

/// The top folder of a source, or the two top ones where the second holds enough to stand alone.
fn folder(source: &str) -> &str {
    const LARGE: [&str; 4] = ["db/blob", "db/compaction", "db/db_impl", "table/block_based"];
    let is_in =
        |folder: &&&str| source.strip_prefix(**folder).is_some_and(|rest| rest.starts_with('/'));
    LARGE.iter().find(is_in).copied().unwrap_or_else(|| source.split('/').next().unwrap_or(source))
}

fn split(folder: &str, sources: &[&(String, u64)]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (source, bytes) in sources {
        match units.last_mut() {
            Some(unit) if unit.bytes + bytes <= UNIT_BYTES_MAX => {
                unit.sources.push(source.clone());
                unit.bytes += bytes;
            }
            _ => {
                let name = format!("{}-{}", folder.replace('/', "_"), units.len());
                units.push(Unit { name, sources: vec![source.clone()], bytes: *bytes });
            }
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sources: &[(&str, u64)]) -> Vec<(String, Vec<String>)> {
        let sources: Vec<_> =
            sources.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        plan(&sources).into_iter().map(|unit| (unit.name, unit.sources)).collect()
    }

    #[test]
    fn a_unit_holds_one_folder_up_to_the_size_limit() {
        let units = names(&[
            ("db/a.cc", 150_000),
            ("db/b.cc", 60_000),
            ("db/db_impl/c.cc", 10),
            ("env/d.cc", 1),
            ("env/deep/e.cc", 2),
            ("db/f.cc", 140_000),
        ]);
        let expected = [
            ("db-1", vec!["db/b.cc", "db/f.cc"]),
            ("db-0", vec!["db/a.cc"]),
            ("db_db_impl-0", vec!["db/db_impl/c.cc"]),
            ("env-0", vec!["env/d.cc", "env/deep/e.cc"]),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(name, sources)| {
                (name.to_owned(), sources.into_iter().map(str::to_owned).collect())
            })
            .collect();
        assert_eq!(units, expected);
    }

    #[test]
    fn a_file_beyond_the_limit_stands_alone() {
        let units = names(&[("db/big.cc", 500_000), ("db/small.cc", 1)]);
        assert_eq!(units.len(), 2);
    }
}
