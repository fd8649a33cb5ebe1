use std::fs;
use std::path::Path;

use super::{Losses, LossyDisk};

/// A record as the library writes it, on a folder that is new.
struct Scene {
    folder: tempfile::TempDir,
    record: Vec<u8>,
}

const FOLDER: u64 = 1;

impl Scene {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), record: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join("disk").join(name).to_string_lossy().into_owned()
    }

    fn entry(&mut self, kind: u64, inode: u64, at: u64, payload: &[u8]) -> &mut Self {
        for number in [kind, inode, at, payload.len() as u64] {
            self.record.extend_from_slice(&number.to_le_bytes());
        }
        self.record.extend_from_slice(payload);
        self
    }

    fn create(&mut self, inode: u64, name: &str) -> &mut Self {
        let path = self.path(name);
        self.entry(1, inode, 0, path.as_bytes())
    }

    fn write(&mut self, inode: u64, at: u64, bytes: &[u8]) -> &mut Self {
        self.entry(3, inode, at, bytes)
    }

    fn sync(&mut self, inode: u64) -> &mut Self {
        self.entry(5, inode, 77, b"").entry(6, inode, 77, b"")
    }

    fn rename(&mut self, from: &str, to: &str) -> &mut Self {
        let paths = format!("{}\0{}", self.path(from), self.path(to));
        self.entry(8, 0, 0, paths.as_bytes())
    }

    fn unlink(&mut self, name: &str) -> &mut Self {
        let path = self.path(name);
        self.entry(9, 0, 0, path.as_bytes())
    }

    fn disk(&self) -> LossyDisk {
        let root = self.folder.path().join("disk");
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        let mut disk = LossyDisk::load(&root).unwrap();
        disk.by_inode.insert(FOLDER, 0);
        disk.replay(&self.record).unwrap();
        disk
    }

    /// `name=text` of every file.
    fn found(&self, losses: &mut Losses<'_>) -> Vec<String> {
        self.disk().lose_power(losses).unwrap();
        list(&self.folder.path().join("disk"))
    }
}

fn list(folder: &Path) -> Vec<String> {
    let mut files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).replace('\0', ".");
            format!("{}={text}", path.file_name().unwrap().to_string_lossy())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn bytes_need_their_sync_and_names_their_folders() {
    let mut scene = Scene::new();
    scene.create(2, "a").write(2, 0, b"synced").sync(2);
    assert_eq!(scene.found(&mut Losses::All), [""; 0], "the name is not durable");
    scene.sync(FOLDER).write(2, 6, b" and not");
    assert_eq!(scene.found(&mut Losses::All), ["a=synced"]);
    scene.sync(2);
    assert_eq!(scene.found(&mut Losses::All), ["a=synced and not"]);
    scene.entry(4, 2, 3, b"");
    assert_eq!(scene.found(&mut Losses::All), ["a=synced and not"], "a length needs its sync too");
    scene.sync(2);
    assert_eq!(scene.found(&mut Losses::All), ["a=syn"]);
}

#[test]
fn a_sync_covers_what_was_written_before_it_began() {
    let mut scene = Scene::new();
    scene.create(2, "a").sync(FOLDER).write(2, 0, b"before");
    scene.entry(5, 2, 9, b"").write(2, 6, b" during");
    assert_eq!(scene.found(&mut Losses::All), ["a="], "it has not ended");
    scene.entry(6, 2, 9, b"");
    assert_eq!(scene.found(&mut Losses::All), ["a=before"]);
}

#[test]
fn renames_and_removals_are_lost_whole() {
    let mut scene = Scene::new();
    scene.create(2, "old").write(2, 0, b"1").sync(2).sync(FOLDER);
    scene.create(3, "new").write(3, 0, b"2").sync(3).rename("new", "old");
    assert_eq!(scene.found(&mut Losses::All), ["old=1"]);
    scene.sync(FOLDER);
    assert_eq!(scene.found(&mut Losses::All), ["old=2"]);
    scene.unlink("old");
    assert_eq!(scene.found(&mut Losses::All), ["old=2"]);
    scene.sync(FOLDER);
    assert_eq!(scene.found(&mut Losses::All), [""; 0]);
}

#[test]
fn an_inode_that_is_used_again_is_another_file() {
    let mut scene = Scene::new();
    scene.create(2, "a").write(2, 0, b"first").sync(2).sync(FOLDER).unlink("a");
    scene.create(2, "b").write(2, 0, b"second").sync(2);
    assert_eq!(scene.found(&mut Losses::All), ["a=first"]);
    scene.sync(FOLDER);
    assert_eq!(scene.found(&mut Losses::All), ["b=second"]);
}

#[test]
fn bytes_that_a_failed_sync_forgot_do_not_come_back() {
    let mut scene = Scene::new();
    scene.create(2, "a").sync(FOLDER).write(2, 0, b"forgotten").entry(7, 2, 0, b"");
    scene.write(2, 9, b"!").sync(2);
    assert_eq!(scene.found(&mut Losses::All), ["a=.........!"]);
}

#[test]
fn dice_lose_only_what_was_not_synced() {
    let mut scene = Scene::new();
    scene.create(2, "a").write(2, 0, &[b'x'; 600]).sync(2).sync(FOLDER);
    scene.write(2, 600, &[b'y'; 1000]).create(3, "b").rename("b", "c");
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let found = scene.found(&mut Losses::Some(&mut fastrand::Rng::with_seed(seed)));
        let a = found.iter().find_map(|file| file.strip_prefix("a=")).unwrap();
        assert!(a.len() >= 600 && a[..600].bytes().all(|byte| byte == b'x'), "{seed}");
        assert!(a[600..].bytes().all(|byte| byte == b'y' || byte == b'.'), "{seed}");
        let names: String = found.iter().filter_map(|file| file.chars().next()).collect();
        kinds.insert((names, a.len(), a.bytes().filter(|byte| *byte == b'y').count()));
    }
    assert!(kinds.iter().any(|(names, ..)| names == "a"), "{kinds:?}");
    assert!(kinds.iter().any(|(names, ..)| names == "ab"), "{kinds:?}");
    assert!(kinds.iter().any(|(names, ..)| names == "ac"), "{kinds:?}");
    assert!(kinds.iter().any(|(_, length, y)| *length == 1600 && *y == 1000), "{kinds:?}");
    assert!(kinds.iter().any(|(_, length, y)| *length == 1600 && *y > 0 && *y < 1000), "{kinds:?}");
    assert!(kinds.iter().any(|(_, length, _)| *length == 600), "{kinds:?}");
}

#[test]
fn what_the_model_does_not_know_is_said() {
    let mut scene = Scene::new();
    let cut = scene.create(2, "a").record.len() - 3;
    let mut disk = scene.disk();
    assert!(disk.replay(&scene.record[..cut]).is_ok(), "a kill cuts the last entry");
    let mut unknown = Scene::new();
    unknown.entry(10, 0, 0, b"mmap");
    assert!(disk.replay(&unknown.record).unwrap_err().to_string().contains("mmap"));
}
