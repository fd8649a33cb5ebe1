//! Keys of a cluster for tests, in folders as nodes have them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tavola_peers::authority::Authority;
use tavola_peers::keys::{CERTIFICATE_FILE, KEY_FILE, PeerKeys, TRUST_FILE};
use tempfile::TempDir;

const DAYS: u32 = 30;

/// An authority, and a place for the folders of its nodes.
#[derive(Debug)]
pub(crate) struct ClusterKeys {
    pub(crate) authority: Authority,
    folder: TempDir,
}

impl ClusterKeys {
    pub(crate) fn new() -> Self {
        Self { authority: Authority::create(DAYS).unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self, node: SocketAddr) -> PathBuf {
        self.folder.path().join(node.port().to_string())
    }

    /// The keys of a node that trusts this authority alone.
    pub(crate) fn of(&self, node: SocketAddr) -> PeerKeys {
        let trust = self.authority.certificate();
        issue(&self.authority, node, &self.folder(node), trust, "");
        PeerKeys::open(&self.folder(node), node).unwrap()
    }

    /// Replaces a node's files by those of the first step of a rotation.
    pub(crate) fn begin_rotation(&self, successor: &Self, node: SocketAddr) {
        let trust =
            format!("{}{}", successor.authority.certificate(), self.authority.certificate());
        let bridge = self.authority.cross_sign(&successor.authority, DAYS).unwrap();
        issue(&successor.authority, node, &self.folder(node), &trust, &bridge);
    }

    /// And by those of the second.
    pub(crate) fn finish_rotation(&self, successor: &Self, node: SocketAddr) {
        issue(
            &successor.authority,
            node,
            &self.folder(node),
            successor.authority.certificate(),
            "",
        );
    }
}

/// A whole new folder in one step, by a link: a node finds the old files or the new ones.
fn issue(authority: &Authority, node: SocketAddr, folder: &Path, trust: &str, bridge: &str) {
    let issued = authority.issue(node, DAYS).unwrap();
    let files = tempfile::tempdir_in(folder.parent().unwrap()).unwrap().keep();
    std::fs::write(files.join(TRUST_FILE), trust).unwrap();
    std::fs::write(files.join(CERTIFICATE_FILE), issued.certificate + bridge).unwrap();
    std::fs::write(files.join(KEY_FILE), issued.key.as_bytes()).unwrap();
    let link = files.with_extension("link");
    std::os::unix::fs::symlink(&files, &link).unwrap();
    std::fs::rename(&link, folder).unwrap();
}

/// An address at which nothing listens; certificates name it before a node does.
pub(crate) fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
