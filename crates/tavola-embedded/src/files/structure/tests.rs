use std::fs;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use rocksdb::DB;
use tempfile::TempDir;

use super::*;
use crate::files::batch::Kind;
use crate::files::manifest::{Manifest, current};
use crate::files::numbered;
use crate::log_check::LogState;
use crate::options::Options;

const KEYS: u32 = 800;

/// A table file as the engine writes it with our options: an index in two levels, and a deleted
/// range.
fn written() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let options = Options::default();
    let db =
        DB::open(&options.engine(&options.cache(), true, LogState::Whole), folder.path()).unwrap();
    for key in 0..KEYS {
        // Hardly shorter when packed, so that there are many blocks.
        let value: Vec<u8> = (0..200_u32)
            .map(|at| (key.wrapping_mul(2_654_435_761) >> (at % 25)) as u8 ^ at as u8)
            .collect();
        db.put(format!("key{key:06}"), value).unwrap();
    }
    let mut batch = rocksdb::WriteBatch::default();
    batch.delete_range(b"gone".to_vec(), b"gonf".to_vec());
    db.write(batch).unwrap();
    db.delete("deleted").unwrap();
    db.flush().unwrap();
    drop(db);
    let path = numbered(folder.path(), "sst").unwrap().pop().unwrap().1;
    (folder, path)
}

fn entries(structure: &Structure) -> Vec<Entry> {
    structure.data.iter().filter_map(|block| structure.entries_of(block).ok()).flatten().collect()
}

#[test]
fn a_sound_file() {
    let (folder, path) = written();
    let structure = Structure::read(&path).unwrap();
    assert!(structure.flaws.is_empty(), "{:?}", structure.flaws);
    let found = entries(&structure);
    let entries = structure.properties.map(|properties| properties.entries);
    assert_eq!((entries, found.len()), (Some(u64::from(KEYS) + 1), KEYS as usize + 1));
    assert!(structure.data.len() > 5 && structure.other_blocks > 5, "{structure:?}");
    assert_eq!((&found[0].key[..], &found[0].kind), (&b"deleted"[..], &Kind::Delete));
    assert!(found.windows(2).all(|pair| pair[0].key < pair[1].key));
    let [range] = &structure.range_deletions[..] else { panic!("{:?}", structure.range_deletions) };
    assert_eq!((&range.start[..], &range.end[..]), (&b"gone"[..], &b"gonf"[..]));
    // What the record of files says about it.
    let name = current(folder.path()).unwrap().unwrap();
    let (manifest, flaws) = Manifest::read(&folder.path().join(name)).unwrap();
    assert!(flaws.is_empty(), "{flaws:?}");
    let file = manifest.files.values().next().unwrap();
    assert_eq!((file.level, file.bytes), (0, structure.file.bytes));
    assert_eq!((&file.smallest[..], &file.largest[..]), (&b"deleted"[..], &b"key000799"[..]));
    assert_eq!(manifest.flushed, u64::from(KEYS) + 2);
}

/// Whatever happens behind the rows, to the index, the filter, the properties or the footer: it is
/// noticed, and the rows are still found.
#[test]
fn rows_are_found_without_what_leads_to_them() {
    let (_folder, path) = written();
    let sound = fs::read(&path).unwrap();
    let all = entries(&Structure::read(&path).unwrap());
    let behind = Structure::read(&path).unwrap().data.last().unwrap().handle.end() as usize;
    let step = (sound.len() - behind) / 15;
    for at in (behind..sound.len()).step_by(step).chain([sound.len() - 1, sound.len() - 50]) {
        let mut bytes = sound.clone();
        bytes[at] ^= 2;
        fs::write(&path, bytes).unwrap();
        let structure = Structure::read(&path).unwrap();
        assert!(!structure.flaws.is_empty(), "byte {at}");
        assert_eq!(entries(&structure), all, "byte {at}");
    }
    for cut in [behind + 1, behind + 100, sound.len() - 1] {
        fs::write(&path, &sound[..cut]).unwrap();
        assert_eq!(entries(&Structure::read(&path).unwrap()), all, "cut at {cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any bytes may stand in a damaged file.
    #[test]
    fn damaged_files_never_panic(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let (_folder, path) = small();
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        if let Ok(structure) = Structure::read(&path) {
            entries(&structure);
        }
    }
}

fn small() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let options = Options::default();
    let db =
        DB::open(&options.engine(&options.cache(), true, LogState::Whole), folder.path()).unwrap();
    (0..50_u8).for_each(|key| db.put([key], vec![key; 20]).unwrap());
    db.flush().unwrap();
    drop(db);
    let path = numbered(folder.path(), "sst").unwrap().pop().unwrap().1;
    (folder, path)
}
