//! Whether the data folder lies on an encrypted volume, as far as the kernel says. The store itself
//! does not encrypt: docs/decisions/014-encryption-at-rest.md.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::report::Report;

/// Where the kernel describes block devices.
const BLOCK_DEVICES: &str = "/sys/dev/block";
/// What the device mapper's name of an encrypted volume begins with.
const CRYPT: &str = "CRYPT-";
/// Volumes on volumes: a logical volume on an array on an encrypted disk has three.
const LAYERS_MAX: usize = 8;

/// What can be said of the device below a folder.
#[derive(Debug, PartialEq, Eq)]
enum AtRest {
    /// All of it is encrypted before it reaches a disk.
    Encrypted,
    /// A block device that is not known to be.
    NotSeen(String),
    /// No block device: the file system may encrypt by itself, or lie elsewhere.
    Unknown,
}

pub(super) fn examine(location: &Path, report: &mut Report) {
    let Some(device) = location
        .ancestors()
        .find_map(|folder| std::fs::metadata(folder).ok())
        .map(|found| found.dev())
    else {
        return;
    };
    let name = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let words = match look(Path::new(BLOCK_DEVICES), &name) {
        AtRest::Encrypted => "the data folder is on an encrypted volume (dm-crypt)".to_owned(),
        AtRest::NotSeen(device) => {
            format!(
                "the data folder is on {device}, which is not a dm-crypt volume; docs/security.md \
                 describes how to create one"
            )
        }
        AtRest::Unknown => {
            "the file system of the data folder does not report whether it is encrypted".to_owned()
        }
    };
    report.ok("encryption at rest", words);
}

fn look(devices: &Path, name: &str) -> AtRest {
    let device = devices.join(name);
    // Major number 0 belongs to no device.
    match device.canonicalize() {
        Err(_) => AtRest::Unknown,
        Ok(device) if is_encrypted(&device, LAYERS_MAX) => AtRest::Encrypted,
        Ok(device) => {
            AtRest::NotSeen(device.file_name().unwrap_or_default().to_string_lossy().into_owned())
        }
    }
}

/// The device itself, or everything that it is made of.
fn is_encrypted(device: &Path, layers: usize) -> bool {
    if std::fs::read_to_string(device.join("dm/uuid")).is_ok_and(|uuid| uuid.starts_with(CRYPT)) {
        return true;
    }
    let Ok(below) = std::fs::read_dir(device.join("slaves")) else { return false };
    let below: Vec<_> =
        below.filter_map(Result::ok).filter_map(|entry| entry.path().canonicalize().ok()).collect();
    layers > 0 && !below.is_empty() && below.iter().all(|device| is_encrypted(device, layers - 1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Devices as the kernel describes them: folders, and links from their numbers and to what is
    /// below them.
    struct Devices(tempfile::TempDir);

    impl Devices {
        fn new() -> Self {
            let devices = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir(devices.0.path().join("block")).unwrap();
            devices
        }

        fn add(&self, number: &str, name: &str, uuid: Option<&str>, below: &[&str]) {
            let folder = self.0.path().join(name);
            std::fs::create_dir_all(folder.join("slaves")).unwrap();
            if let Some(uuid) = uuid {
                std::fs::create_dir(folder.join("dm")).unwrap();
                std::fs::write(folder.join("dm/uuid"), uuid).unwrap();
            }
            for device in below {
                symlink(self.0.path().join(device), folder.join("slaves").join(device)).unwrap();
            }
            symlink(folder, self.0.path().join("block").join(number)).unwrap();
        }

        fn look(&self, number: &str) -> AtRest {
            look(&self.0.path().join("block"), number)
        }
    }

    #[test]
    fn volumes_are_looked_through_down_to_the_disks() {
        let devices = Devices::new();
        devices.add("8:1", "sda1", None, &[]);
        devices.add("8:2", "sda2", None, &[]);
        devices.add("253:0", "dm-0", Some("CRYPT-LUKS2-0123456789abcdef-data\n"), &["sda1"]);
        devices.add("253:1", "dm-1", Some("LVM-abcdef\n"), &["dm-0"]);
        devices.add("253:2", "dm-2", Some("LVM-012345\n"), &["dm-0", "sda2"]);
        devices.add("253:3", "dm-3", Some("LVM-loop\n"), &["dm-3"]);
        assert_eq!(devices.look("253:0"), AtRest::Encrypted);
        assert_eq!(
            devices.look("253:1"),
            AtRest::Encrypted,
            "a logical volume on an encrypted one"
        );
        assert_eq!(devices.look("253:2"), AtRest::NotSeen("dm-2".to_owned()), "half of it is not");
        assert_eq!(
            devices.look("253:3"),
            AtRest::NotSeen("dm-3".to_owned()),
            "no loop lasts for ever"
        );
        assert_eq!(devices.look("8:1"), AtRest::NotSeen("sda1".to_owned()));
        assert_eq!(devices.look("0:42"), AtRest::Unknown);
    }
}
