use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::{Certificate, TlsError, TlsReloader};
use crate::config::TlsConfig;

/// A certificate and its key, in PEM.
struct Pair {
    cert: String,
    key: String,
    fingerprint: String,
}

fn pair() -> Pair {
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let fingerprint = Certificate::parse(cert.der()).unwrap().fingerprint;
    Pair { cert: cert.pem(), key: key.serialize_pem(), fingerprint }
}

/// A folder with the files that a test writes.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.0.path().join(name);
        std::fs::write(&file, content).unwrap();
        file
    }

    fn config(&self, cert: &str, key: Option<&str>) -> TlsConfig {
        let file = |name| self.0.path().join(name);
        TlsConfig {
            cert: file(cert),
            key: key.map(file),
            password: Zeroizing::default(),
            clients: None,
        }
    }

    fn write_pair(&self, pair: &Pair) -> TlsConfig {
        self.write("cert.pem", &pair.cert);
        self.write("key.pem", &pair.key);
        self.config("cert.pem", Some("key.pem"))
    }
}

fn problem(config: &TlsConfig) -> String {
    TlsReloader::open(config).unwrap_err().to_string()
}

#[test]
fn certificate_and_key_in_two_files_or_in_one() {
    let (folder, pair) = (Folder::new(), pair());
    let two = TlsReloader::open(&folder.write_pair(&pair)).unwrap();
    folder.write("both.pem", format!("{}{}", pair.key, pair.cert));
    let one = TlsReloader::open(&folder.config("both.pem", None)).unwrap();
    assert_eq!(
        [two, one].map(|tls| tls.certificate().fingerprint),
        [pair.fingerprint.clone(), pair.fingerprint]
    );
}

#[test]
fn what_is_wrong_is_said_with_the_files_name() {
    let (folder, one, other) = (Folder::new(), pair(), pair());
    folder.write_pair(&one);
    folder.write("other-key.pem", &other.key);
    folder.write("text.pem", "certainly not\n");
    folder.write("broken.pem", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n");
    folder.write("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    folder.write("garbage.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    folder
        .write("garbage-key.pem", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n");
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    folder.write("locked-key.pem", locked);
    folder.write("huge.pem", vec![b'a'; (1 << 20) + 1]);
    folder.write("der.pem", [0x30, 0x03, 0x02, 0x01, 0x03]);
    for (cert, key, words) in [
        ("none.pem", Some("key.pem"), &["cannot read", "none.pem: No such file"][..]),
        ("cert.pem", Some("none.pem"), &["cannot read", "none.pem: No such file"]),
        (
            "text.pem",
            Some("key.pem"),
            &["text.pem holds no usable certificate", "no PEM block named CERTIFICATE"],
        ),
        (
            "broken.pem",
            Some("key.pem"),
            &["broken.pem holds no usable certificate: a PEM block is not base64"],
        ),
        (
            "cut.pem",
            Some("key.pem"),
            &["cut.pem holds no usable certificate: a PEM block has no end"],
        ),
        ("garbage.pem", Some("key.pem"), &["garbage.pem holds no usable certificate"]),
        (
            "cert.pem",
            Some("text.pem"),
            &["text.pem holds no usable private key: it has no PEM block of that kind"],
        ),
        ("cert.pem", Some("garbage-key.pem"), &["garbage-key.pem holds no usable private key"]),
        (
            "cert.pem",
            Some("locked-key.pem"),
            &["locked-key.pem holds no usable private key: it is encrypted"],
        ),
        ("cert.pem", None, &["cert.pem holds no usable private key: set tls.key"]),
        (
            "cert.pem",
            Some("other-key.pem"),
            &["other-key.pem does not belong to the certificate in", "/cert.pem"],
        ),
        ("huge.pem", Some("key.pem"), &["huge.pem is larger than 1048576 bytes"]),
        (
            "der.pem",
            Some("key.pem"),
            &["der.pem holds no usable certificate: it is not PEM", "leave tls.key out"],
        ),
        ("der.pem", None, &["der.pem is not a PFX file that can be read"]),
    ] {
        let problem = problem(&folder.config(cert, key));
        assert!(words.iter().all(|words| problem.contains(words)), "{cert} {key:?}: {problem}");
    }
}

#[test]
fn a_chain_is_served_whole() {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "authority");
    let authority_key = KeyPair::generate().unwrap();
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    let folder = Folder::new();
    folder.write("chain.pem", format!("{}{authority_pem}", leaf.pem()));
    folder.write("key.pem", key.serialize_pem());
    let config = folder.config("chain.pem", Some("key.pem"));
    let certified = super::files::Contents::read(&config).unwrap().certified_key(&config).unwrap();
    assert_eq!(certified.cert.len(), 2);
    assert_eq!(&certified.cert[0], leaf.der());
}

#[test]
fn a_broken_file_leaves_the_old_certificate_in_use() {
    let (folder, old, new) = (Folder::new(), pair(), pair());
    let tls = TlsReloader::open(&folder.write_pair(&old)).unwrap();
    folder.write("cert.pem", &new.cert);
    assert!(matches!(tls.reload(), Err(TlsError::Mismatch { .. })));
    assert_eq!(tls.certificate().fingerprint, old.fingerprint);
    folder.write("key.pem", &new.key);
    tls.reload().unwrap();
    assert_eq!(tls.certificate().fingerprint, new.fingerprint);
}

#[test]
fn sessions_of_the_old_certificate_are_not_resumed() {
    let folder = Folder::new();
    let tls = TlsReloader::open(&folder.write_pair(&pair())).unwrap();
    let ticket = tls.any_http().ticketer.encrypt(b"session").unwrap();
    assert!(tls.any_http().ticketer.decrypt(&ticket).is_some());
    folder.write_pair(&pair());
    tls.reload().unwrap();
    assert!(tls.any_http().ticketer.decrypt(&ticket).is_none());
}

#[test]
fn a_change_counts_once_it_has_settled() {
    let (folder, old, new) = (Folder::new(), pair(), pair());
    let tls = TlsReloader::open(&folder.write_pair(&old)).unwrap();
    let in_use = || tls.certificate().fingerprint;
    let look = |times: usize| (0..times).for_each(|_| tls.look());
    look(3);
    folder.write("cert.pem", &new.cert);
    look(1);
    folder.write("key.pem", &new.key);
    look(1);
    assert_eq!(in_use(), old.fingerprint, "the files may still be changing");
    look(1);
    assert_eq!(in_use(), new.fingerprint);
    // Gone for good, and then what it was: a mount that comes and goes.
    std::fs::remove_file(folder.0.path().join("key.pem")).unwrap();
    look(3);
    assert_eq!(in_use(), new.fingerprint);
    folder.write_pair(&old);
    look(2);
    assert_eq!(in_use(), old.fingerprint);
}

#[test]
fn links_that_are_swapped_are_a_change() {
    let (folder, old, new) = (Folder::new(), pair(), pair());
    for (name, pair) in [("one", &old), ("two", &new)] {
        std::fs::create_dir(folder.0.path().join(name)).unwrap();
        folder.write(&format!("{name}/both.pem"), format!("{}{}", pair.cert, pair.key));
    }
    let link = folder.0.path().join("current");
    std::os::unix::fs::symlink("one", &link).unwrap();
    let tls = TlsReloader::open(&folder.config("current/both.pem", None)).unwrap();
    assert_eq!(tls.certificate().fingerprint, old.fingerprint);
    let next = folder.0.path().join("next");
    std::os::unix::fs::symlink("two", &next).unwrap();
    std::fs::rename(&next, &link).unwrap();
    (0..2).for_each(|_| tls.look());
    assert_eq!(tls.certificate().fingerprint, new.fingerprint);
}
