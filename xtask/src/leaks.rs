//! The search for secrets in everything that a test run printed, logged or was answered.
//!
//! Clients of the tests note what they signed with (`tavola_testkit::record`); the SDKs do not, so
//! whatever looks like a credential counts too. The development account's key is public and not
//! searched for.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure, Result};
use crate::{cache, workspace};

/// The variable that tells tests where to write.
pub(crate) const VARIABLE: &str = "TAVOLA_TEST_RECORD";
/// Finds that are shown; one is enough to fail.
const SHOWN_MAX: usize = 10;
/// The length of a SHA-256 signature in base64.
const SIGNATURE_CHARS: usize = 44;

/// Where tests write what they said and heard.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("test-record"))
}

/// Empties the folder, so that a search concerns one run.
pub(crate) fn begin() -> Result {
    let folder = folder()?;
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::new(format!("cannot empty {}: {error}", folder.display())));
        }
        _ => {}
    }
    cache::create(&folder)
}

/// Searches. A run without secrets or without texts has proven nothing, and fails.
pub(crate) fn check() -> Result {
    let (mut secrets, mut texts) = (Vec::new(), Vec::new());
    for folder in [folder()?, workspace::target()?.join("server-logs")] {
        for file in files(&folder)? {
            let text = String::from_utf8_lossy(
                &fs::read(&file).context(|| format!("read {}", file.display()))?,
            )
            .into_owned();
            let is_secrets =
                file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("secrets-"));
            if is_secrets {
                secrets.extend(text.lines().map(str::to_owned));
            } else {
                texts.push((file, text));
            }
        }
    }
    secrets.sort();
    secrets.dedup();
    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    println!("searching {bytes} bytes of {} files for {} secrets", texts.len(), secrets.len());
    if secrets.len() < 100 || bytes < 100_000 {
        return Err(Failure::new(
            "too little was recorded to say anything; run the steps `unit` and `conformance` before",
        ));
    }
    let finds: Vec<String> =
        texts.iter().flat_map(|(file, text)| search(file, text, &secrets)).collect();
    for find in finds.iter().take(SHOWN_MAX) {
        eprintln!("{find}");
    }
    if finds.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("{} line(s) show a secret", finds.len())))
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.context(|| format!("read {}", folder.display()))?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The lines that show one, without the secret itself.
fn search(file: &Path, text: &str, secrets: &[String]) -> Vec<String> {
    let mut finds = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let found = words(line).any(|word| is_known(word, secrets) || looks_like_token(word))
            || looks_signed(line);
        if found {
            let start: String = line.chars().take(60).collect();
            finds.push(format!("{}:{}: {start}…", file.display(), index + 1));
        }
    }
    finds
}

/// Runs of the characters that signatures and tokens are made of, percent escapes included.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|next: char| !(next.is_ascii_alphanumeric() || "+/=%-_.".contains(next)))
        .filter(|word| word.len() >= 20)
}

/// A word can hold more than the secret: `sig=…` is one word.
fn is_known(word: &str, secrets: &[String]) -> bool {
    let starts = word
        .char_indices()
        .filter(|(at, _)| *at == 0 || !word.as_bytes()[at - 1].is_ascii_alphanumeric());
    starts.map(|(at, _)| &word[at..]).any(|rest| {
        // The nearest secret that is not behind the word in order is the only one that it can begin
        // with.
        let after = secrets.partition_point(|secret| secret.as_str() <= rest);
        after.checked_sub(1).is_some_and(|at| rest.starts_with(secrets[at].as_str()))
    })
}

/// A JSON web token.
fn looks_like_token(word: &str) -> bool {
    word.starts_with("eyJ") && word.split('.').count() == 3
}

/// A signature in a header or a URL, by its form.
fn looks_signed(line: &str) -> bool {
    let in_url = line.match_indices("sig=").any(|(at, _)| {
        let value = &line[at + 4..];
        let length =
            value.find(|next: char| !(next.is_ascii_alphanumeric() || "+/=%".contains(next)));
        length.unwrap_or(value.len()) >= SIGNATURE_CHARS - 1
    });
    let in_header = ["SharedKey ", "SharedKeyLite "].iter().any(|scheme| {
        line.split(scheme).skip(1).any(|rest| {
            let signature = rest.split_once(':').map_or("", |(_, signature)| signature);
            let length = signature
                .find(|next: char| !(next.is_ascii_alphanumeric() || "+/=".contains(next)));
            length.unwrap_or(signature.len()) >= SIGNATURE_CHARS
        })
    });
    in_url || in_header
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: &str = "I39+IkQVCh3qA1wSS2Ji0dErzzX7scG1ERpYa4iFCpg=";

    #[test]
    fn secrets_are_found_wherever_they_stand() {
        let mut secrets = vec![
            SIGNATURE.to_owned(),
            "AAAAAAAAAAAAAAAAAAAAAAAA".into(),
            "zzzzzzzzzzzzzzzzzzzzz".into(),
        ];
        secrets.sort();
        for (line, found) in [
            (format!("the header was {SIGNATURE}"), true),
            (format!("{{\"sig\":\"{SIGNATURE}\"}}"), true),
            (format!("x=1&sig={SIGNATURE}&y"), true),
            (format!("Authorization: SharedKey acct:{}", SIGNATURE.replace('I', "J")), true),
            ("GET /T?sig=abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrs%3D".to_owned(), true),
            ("Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln".to_owned(), true),
            ("GET /T?sig=*** HTTP/1.1".to_owned(), false),
            ("nothing to see here, but long words: abcdefghijklmnopqrstuvwxyz".to_owned(), false),
            ("'I39+...' is not the same".to_owned(), false),
        ] {
            assert_eq!(!search(Path::new("log"), &line, &secrets).is_empty(), found, "{line}");
        }
    }
}
