//! Where and from what a run was made.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde::Serialize;

use crate::process::kilobytes;

/// Figures mean little without it.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    /// File system of the data folders, and what is known of the device below.
    pub(crate) disk: String,
}

impl Machine {
    /// `data` is the folder under which servers keep their data.
    pub(crate) fn here(data: &Path) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")).unwrap_or("unknown").to_owned(),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kilobytes(&read("/proc/meminfo"), "MemTotal:").unwrap_or_default() * 1024,
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            disk: disk(&read("/proc/self/mounts"), data),
        }
    }

    /// True if a sync costs nothing here, and durable writes therefore look faster than they are.
    pub(crate) fn forgets(&self) -> bool {
        self.disk.starts_with("tmpfs") || self.disk.starts_with("ramfs")
    }
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

fn disk(mounts: &str, data: &Path) -> String {
    let Some((device, file_system)) = mount_of(mounts, data) else { return "unknown".to_owned() };
    let name = device.trim_start_matches("/dev/");
    // A partition has no queue of its own; then nothing more is known.
    let rotational =
        fs::read_to_string(format!("/sys/class/block/{name}/queue/rotational")).unwrap_or_default();
    let kind = match (rotational.trim(), name.starts_with("vd")) {
        ("0" | "1", true) => " on a virtual disk",
        ("0", false) => " on a solid-state disk",
        ("1", false) => " on a rotating disk",
        _ => "",
    };
    format!("{file_system}{kind}")
}

/// Device and file system of the mount point that holds a path.
fn mount_of<'a>(mounts: &'a str, path: &Path) -> Option<(&'a str, &'a str)> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holding = fields.filter(|fields| fields.len() > 2 && path.starts_with(fields[1]));
    holding.max_by_key(|fields| fields[1].len()).map(|fields| (fields[0], fields[2]))
}

/// What was measured: `abc1234`, with a mark when files differ from that commit.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(arguments)
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let is_changed = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|list| !list.is_empty());
    if is_changed { commit + "-changed" } else { commit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_holds_a_path() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nproc /proc proc rw 0 0\n";
        assert_eq!(mount_of(mounts, Path::new("/tmp/x")), Some(("tmpfs", "tmpfs")));
        assert_eq!(mount_of(mounts, Path::new("/tmpx")), Some(("/dev/vda", "ext4")));
        assert_eq!(disk(mounts, Path::new("/tmp/x")), "tmpfs");
    }

    #[test]
    fn the_cpu_has_a_name() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"),
            Some("Some CPU @ 2 GHz")
        );
    }
}
