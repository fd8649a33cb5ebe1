//! What counts depend on beside our own code. Counts of two machines that differ here cannot be
//! held against each other.

use std::collections::BTreeMap;
use std::process::Command;

use crate::callgrind::valgrind;
use crate::failure::Result;

/// This machine's compilers, library and processor, the latter as valgrind shows it to programs.
pub(crate) fn describe() -> Result<BTreeMap<String, String>> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let facts = [
        ("rustc", first_line(Command::new(rustc).arg("--version"))?),
        // It compiled the engine, unless somebody brought it from elsewhere.
        ("c++", first_line(Command::new("c++").arg("--version"))?),
        ("libc", first_line(Command::new("getconf").arg("GNU_LIBC_VERSION"))?),
        ("cpu", first_line(valgrind(["--tool=none", "--quiet"])?.arg("cpu"))?),
    ];
    Ok(facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// What two descriptions do not have in common, in words.
pub(crate) fn differences(
    stored: &BTreeMap<String, String>,
    here: &BTreeMap<String, String>,
) -> Vec<String> {
    let differs = here.iter().filter(|(name, value)| stored.get(*name) != Some(*value));
    let unknown = || "not stored".to_owned();
    differs
        .map(|(name, value)| {
            format!(
                "{name}: {value}; stored: {}",
                stored.get(name).cloned().unwrap_or_else(unknown)
            )
        })
        .collect()
}

fn first_line(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().next().filter(|_| output.status.success());
    Ok(line.ok_or_else(|| format!("`{program}` says nothing about itself"))?.trim().to_owned())
}

/// The features by which libraries choose among several ways to do the same, as far as they are
/// shown to this process.
pub(crate) fn cpu_features() -> String {
    #[cfg(target_arch = "x86_64")]
    let features = [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("pclmulqdq", is_x86_feature_detected!("pclmulqdq")),
        ("aes", is_x86_feature_detected!("aes")),
        ("sha", is_x86_feature_detected!("sha")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let features: [(&str, bool); 0] = [];
    let shown = features.iter().filter(|(_, is_shown)| *is_shown).map(|(name, _)| *name);
    std::iter::once(std::env::consts::ARCH).chain(shown).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(facts: &[(&str, &str)]) -> BTreeMap<String, String> {
        facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn another_compiler_is_named() {
        let stored = facts(&[("rustc", "1.95"), ("libc", "2.36")]);
        assert_eq!(differences(&stored, &stored), [""; 0]);
        assert_eq!(
            differences(&stored, &facts(&[("rustc", "1.96"), ("libc", "2.36")])),
            ["rustc: 1.96; stored: 1.95"]
        );
        assert_eq!(
            differences(&facts(&[]), &facts(&[("libc", "2.36")])),
            ["libc: 2.36; stored: not stored"]
        );
    }

    #[test]
    fn the_architecture_comes_first() {
        assert!(cpu_features().starts_with(std::env::consts::ARCH));
    }
}
