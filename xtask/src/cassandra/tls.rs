//! Certificates for `--tls`: an authority of the cluster's own, and one certificate with the
//! addresses of all nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::address::Place;
use super::jars::Programs;
use crate::cache;
use crate::failure::{Context, Failure, Result};

/// Java demands one. It protects nothing, because `cassandra.yaml` beside the file holds it.
const PASSWORD: &str = "cassandra";

const KEY: [&str; 6] = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "3650"];

/// What a client must trust.
pub(super) fn authority(cluster: &Path) -> PathBuf {
    folder(cluster).join("ca.pem")
}

fn folder(cluster: &Path) -> PathBuf {
    cluster.join("tls")
}

fn partial(cluster: &Path) -> PathBuf {
    cluster.join("tls.partial")
}

/// The next cluster of this name gets new certificates.
pub(super) fn remove(cluster: &Path) -> Result {
    cache::remove_folder(&partial(cluster))?;
    cache::remove_folder(&folder(cluster))
}

/// The setting of a node that takes encrypted connections and no others.
pub(super) fn setting(cluster: &Path) -> String {
    let keystore = folder(cluster).join("node.p12").display().to_string().replace('\'', "''");
    format!(
        "{{enabled: true, optional: false, keystore: '{keystore}', keystore_password: {PASSWORD}, store_type: PKCS12, \
         require_client_auth: false}}"
    )
}

/// Makes them beside their folder and renames at the end: a folder that exists is complete.
pub(super) fn ensure(cluster: &Path, places: &[Place], programs: &Programs) -> Result {
    let (complete, work) = (folder(cluster), partial(cluster));
    if complete.is_dir() {
        return Ok(());
    }
    cache::remove_folder(&work)?;
    cache::create(&work)?;
    println!("making certificates in {}", complete.display());
    let keytool = programs.java.with_file_name("keytool");
    let run = |store: &str, words: &[&str]| {
        let mut command = Command::new(&keytool);
        command.current_dir(&work).args(words).args([
            "-storepass",
            PASSWORD,
            "-storetype",
            "PKCS12",
            "-keystore",
            store,
        ]);
        run_quietly(&mut command)
    };
    let make_key = |store: &str, alias: &str, name: &str, extensions: &[&str]| {
        let words =
            [&["-genkeypair", "-alias", alias, "-dname", name][..], &KEY, extensions].concat();
        run(store, &words)
    };
    make_key(
        "ca.p12",
        "ca",
        "CN=Tavola test authority",
        &["-ext", "bc:c=ca:true", "-ext", "ku:c=keyCertSign"],
    )?;
    run("ca.p12", &["-exportcert", "-rfc", "-alias", "ca", "-file", "ca.pem"])?;
    make_key("node.p12", "node", "CN=Tavola test node", &[])?;
    run("node.p12", &["-certreq", "-alias", "node", "-file", "node.csr"])?;
    let names = subject_names(places);
    let sign = [
        "-gencert",
        "-alias",
        "ca",
        "-infile",
        "node.csr",
        "-outfile",
        "node.pem",
        "-rfc",
        "-validity",
        "3650",
    ];
    run("ca.p12", &[&sign[..], &["-ext", &names, "-ext", "eku=serverAuth"]].concat())?;
    run("node.p12", &["-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem"])?;
    run("node.p12", &["-importcert", "-noprompt", "-alias", "node", "-file", "node.pem"])?;
    fs::rename(&work, &complete).context(|| format!("cannot create {}", complete.display()))
}

/// The program reports its progress as errors; that is shown only if it fails.
fn run_quietly(command: &mut Command) -> Result {
    let output = command.output().context(|| "cannot start keytool".into())?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Failure::new(format!(
        "keytool failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&said)
    )))
}

fn subject_names(places: &[Place]) -> String {
    let addresses: String = places.iter().map(|place| format!(",ip:{}", place.address)).collect();
    format!("san=dns:localhost{addresses}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_certificate_names_all_nodes() {
        let places = [Place::new("dev", 1), Place::new("dev", 2)];
        assert_eq!(subject_names(&places), "san=dns:localhost,ip:127.0.0.1,ip:127.0.0.2");
    }

    #[test]
    fn only_encrypted_connections_are_taken() {
        let setting = setting(Path::new("/cache/it's"));
        assert!(setting.contains("keystore: '/cache/it''s/tls/node.p12'"));
        assert!(setting.contains("enabled: true, optional: false"));
    }
}
