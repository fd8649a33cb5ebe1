//! The programs of Cassandra: its jars, fetched once by Maven, and a Java that runs them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::failure::{Context, Failure, Result};
use crate::{cache, install, progress, shell};

/// The newest of the line that we promise to work with.
pub(super) const VERSION: &str = "5.0.9";

/// Cassandra 5.0 runs on 11 and 17. Later ones lack what it needs (the security manager).
const JAVA_MAJOR: u32 = 17;
const JAVA_PACKAGE: &str = "openjdk-17-jre-headless";

const DEPENDENCY_PLUGIN: &str =
    "org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy-dependencies";

/// What a node is started from.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    pub(super) java: PathBuf,
    /// All jars, of Cassandra and of what it needs.
    pub(super) jars: PathBuf,
}

impl Programs {
    /// Fetches what is missing.
    pub(super) fn ensure() -> Result<Self> {
        if !cfg!(target_os = "linux") {
            return Err("clusters of Cassandra are started on Linux only: elsewhere 127.0.0.2 is no address".into());
        }
        install::ensure(&[JAVA_PACKAGE], "running Cassandra", || find_java().is_some())?;
        let java = find_java().ok_or("there is no Java 17")?;
        let jars = cache::root()?.join("cassandra").join("jars").join(VERSION);
        if !jars.is_dir() {
            assemble(&jars)?;
        }
        Ok(Self { java, jars })
    }
}

/// Fetches beside the final folder and renames at the end: a folder that exists is complete.
fn assemble(jars: &Path) -> Result {
    // Not `Path::with_extension`: that would cut the version at its last dot.
    let beside = |suffix: &str| jars.with_file_name(format!("{VERSION}.{suffix}"));
    let work = beside("partial");
    cache::create(&work)?;
    let _lock = cache::lock(&beside("lock"), "Another process is fetching Cassandra")?;
    if jars.is_dir() {
        return Ok(());
    }
    install::ensure(&["maven"], "fetching Cassandra", || shell::has_program("mvn"))?;
    println!(
        "Fetching Cassandra {VERSION} (about 100 jars, 70 MB), once for this machine, into {}",
        jars.display()
    );
    let start = Instant::now();
    let complete = fetch(&work)?;
    fs::rename(&complete, jars).context(|| format!("cannot create {}", jars.display()))?;
    cache::remove_folder(&work)?;
    println!("Cassandra {VERSION} is there after {}", progress::seconds(start.elapsed()));
    Ok(())
}

/// An interrupted call leaves Maven's own repository, from which the next one goes on.
fn fetch(work: &Path) -> Result<PathBuf> {
    let (pom_file, jars) = (work.join("pom.xml"), work.join("jars"));
    cache::write_if_changed(&pom_file, &pom())?;
    cache::remove_folder(&jars)?;
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", "--strict-checksums", "--file"]).arg(&pom_file);
    maven.arg(format!("-Dmaven.repo.local={}", work.join("repository").display()));
    maven.arg(format!("-DoutputDirectory={}", jars.display()));
    shell::run(maven.args(["-DincludeScope=runtime", DEPENDENCY_PLUGIN]))?;
    let main = jars.join(format!("cassandra-all-{VERSION}.jar"));
    if main.is_file() {
        return Ok(jars);
    }
    Err(Failure::new(format!("Maven succeeded, but there is no {}", main.display())))
}

fn pom() -> String {
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n\
         \x20 <modelVersion>4.0.0</modelVersion>\n\
         \x20 <groupId>tavola</groupId>\n\
         \x20 <artifactId>cassandra</artifactId>\n\
         \x20 <version>1</version>\n\
         \x20 <packaging>pom</packaging>\n\
         \x20 <dependencies>\n\
         \x20   <dependency>\n\
         \x20     <groupId>org.apache.cassandra</groupId>\n\
         \x20     <artifactId>cassandra-all</artifactId>\n\
         \x20     <version>{VERSION}</version>\n\
         \x20   </dependency>\n\
         \x20 </dependencies>\n\
         </project>\n"
    )
}

/// The Java of the user's choice if it is the right one, else any that is installed.
fn find_java() -> Option<PathBuf> {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let installed = fs::read_dir("/usr/lib/jvm")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"));
    let folders = home.into_iter().chain(env::split_paths(&path)).chain(installed);
    let mut candidates = folders.map(|folder| folder.join("java")).filter(|java| java.is_file());
    let java = candidates.find(|java| java_version(java) == Some(JAVA_MAJOR))?;
    // What the link of the system's choice leads to today, not whatever it leads to when a node is
    // started again.
    java.canonicalize().ok()
}

fn java_version(java: &Path) -> Option<u32> {
    let output = Command::new(java).arg("-version").stdin(Stdio::null()).output().ok()?;
    parse_java_version(&String::from_utf8_lossy(&output.stderr))
}

/// `openjdk version "17.0.15" 2025-04-15` is 17; `java version "1.8.0_402"` is 1, which is too old
/// as well.
fn parse_java_version(text: &str) -> Option<u32> {
    let (_, quoted) = text.split_once("version \"")?;
    let digits = quoted.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_java_is_found_in_what_it_says() {
        assert_eq!(
            parse_java_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK …"),
            Some(17)
        );
        assert_eq!(parse_java_version("openjdk version \"25\" 2025-09-16"), Some(25));
        assert_eq!(parse_java_version("java version \"1.8.0_402\""), Some(1));
        assert_eq!(parse_java_version("sh: java: not found"), None);
    }

    #[test]
    fn the_pom_asks_for_one_thing() {
        assert_eq!(pom().matches("<dependency>").count(), 1);
        assert!(pom().contains("<version>5.0.9</version>"));
    }
}
