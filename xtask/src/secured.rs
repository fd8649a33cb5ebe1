//! A server as a careful operator runs it, for one test run: https with a certificate of a local
//! authority, an account with two keys, and tokens of an identity provider that runs beside it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Result;
use crate::server::{self, Process, ScratchFolder, Server};
use crate::{rocksdb, shell, workspace};

/// The identity provider, a binary of the test kit.
const ISSUER: &str = "oidc-issuer";
/// Where the server sends clients for a token. No request goes there; clients read the tenant from
/// its path.
const AUTHORIZATION_URI: &str =
    "https://login.example/11111111-2222-3333-4444-555555555555/oauth2/authorize";

/// Builds the identity provider and says where it is.
pub(crate) fn build_issuer() -> Result<PathBuf> {
    rocksdb::ensure()?;
    // With the features of the whole workspace, or what `cargo test --workspace` compiled would be
    // compiled again.
    let feature = "tavola-testkit/oidc";
    shell::run(workspace::cargo()?.args([
        "build",
        "--workspace",
        "--features",
        feature,
        "--bin",
        ISSUER,
    ]))?;
    Ok(workspace::target()?.join("debug").join(ISSUER))
}

/// The server and its surroundings; dropping it stops them all.
#[derive(Debug)]
pub(crate) struct SecuredServer {
    server: Server,
    issuer: Process,
    /// An identity provider that the server does not know.
    other_issuer: Process,
    certificates: ScratchFolder,
}

impl SecuredServer {
    pub(crate) fn start(binary: &Path, issuer: &Path, purpose: &str) -> Result<Self> {
        let certificates = ScratchFolder::new("certificates")?;
        let mut cert = Command::new(binary);
        cert.args(["cert", "--authority", "--out"]).arg(&certificates.path);
        // Its advice is for people.
        shell::run(cert.stdout(Stdio::null()))?;
        let log = |name: &str| server::log(&format!("{purpose}-{name}"));
        let start_issuer =
            |name: &str| Process::start(&mut Command::new(issuer), &log(name)?, whole_line);
        let (issuer, other_issuer) = (start_issuer("issuer")?, start_issuer("other-issuer")?);
        let config = config(&certificates.path, &issuer.address);
        let server = Server::start_with_settings(binary, &format!("{purpose}-https"), &config)?;
        Ok(Self { server, issuer, other_issuer, certificates })
    }

    /// Tells a child process where everything is.
    pub(crate) fn set_variables(&self, command: &mut Command) {
        let endpoint = &self.server.endpoint;
        command
            .env("TAVOLA_HTTPS_ENDPOINT", &endpoint.url)
            .env("TAVOLA_KEY2", endpoint.second_key.as_deref().unwrap_or_default())
            .env("TAVOLA_CA_FILE", self.certificates.path.join("ca.pem"))
            .env("TAVOLA_OIDC_URL", &self.issuer.address)
            .env("TAVOLA_OTHER_OIDC_URL", &self.other_issuer.address)
            .env("TAVOLA_AUTHORIZATION_URI", AUTHORIZATION_URI);
    }
}

fn config(certificates: &Path, issuer: &str) -> String {
    let file = |name: &str| certificates.join(name).display().to_string();
    format!(
        "[tls]\ncert = {:?}\nkey = {:?}\n\n\
         [auth.oidc.test]\nissuer = {issuer:?}\nauthorization_uri = {AUTHORIZATION_URI:?}\n\
         audiences = [\"https://storage.azure.com\"]\n\n\
         [auth.roles.readers]\nvalue = \"reader\"\nrole = \"reader\"\n\n\
         [auth.roles.contributors]\nvalue = \"contributor\"\nrole = \"contributor\"\n",
        file("cert.pem"),
        file("key.pem"),
    )
}

/// An issuer prints its address and nothing else.
fn whole_line(line: &str) -> Option<&str> {
    line.starts_with("http").then_some(line)
}
