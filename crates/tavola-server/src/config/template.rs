//! A configuration file to begin with: every setting as a comment, with what it means and what it
//! is by default.

use std::fmt::Write as _;

use super::settings::{NAMED_SECTIONS, NamedSection, SETTINGS, Setting};

const HEADER: &str = "\
# The configuration of Tavola. Each line that begins with #name shows a default: take the # away and change the value.
# `tavola config check --config FILE` says what is wrong with it, `tavola config show --origin` what counts.
# A variable wins over this file (TAVOLA_SECTION__KEY), a flag of `tavola serve` over both.
# Relative paths are meant from this file's folder. A path that is not set here is meant from the working directory.
";

/// The longest line of a comment.
const LINE_CHARS: usize = 118;

/// The text of a new configuration file.
#[must_use]
pub fn template() -> String {
    let mut text = HEADER.to_owned();
    let mut sections: Vec<&str> = Vec::new();
    for section in SETTINGS.iter().filter_map(|setting| section_of(setting)) {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    sections.iter().for_each(|section| add_section(&mut text, section));
    NAMED_SECTIONS.iter().for_each(|section| add_named(&mut text, section));
    text
}

fn section_of(setting: &Setting) -> Option<&'static str> {
    setting.path.split_once('.').map(|(section, _)| section)
}

fn add_section(text: &mut String, section: &str) {
    let _infallible = write!(text, "\n[{section}]\n");
    for setting in SETTINGS.iter().filter(|setting| section_of(setting) == Some(section)) {
        comment(text, &note_of(setting));
        let key = setting.path.trim_start_matches(section).trim_start_matches('.');
        let _infallible = writeln!(text, "#{key} = {}", value_of(setting));
    }
}

fn note_of(setting: &Setting) -> String {
    let flag = setting.flag.map_or_else(String::new, |flag| format!(" [--{flag}]"));
    format!("{}{flag}", setting.help)
}

/// Numbers and switches as such, everything else as text.
fn value_of(setting: &Setting) -> String {
    let is_plain =
        setting.default.parse::<i64>().is_ok() || setting.default.parse::<bool>().is_ok();
    if is_plain {
        setting.default.to_owned()
    } else {
        toml::Value::String(setting.default.to_owned()).to_string()
    }
}

fn add_named(text: &mut String, section: &NamedSection) {
    let _infallible =
        write!(text, "\n# One for each, under a name of its own; it needs {}.\n", section.needs);
    let _infallible = writeln!(text, "#[{}.NAME]", section.prefix);
    for field in section.fields {
        comment(text, field.help);
        let _infallible = writeln!(text, "#{} = \"\"", field.name);
    }
}

fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > LINE_CHARS {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::template;
    use crate::config::{Config, Layers, Personality, SETTINGS};

    fn resolve(text: &str) -> (Layers, Result<Config, String>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tavola.toml");
        std::fs::write(&file, text).unwrap();
        let layers = Layers::read(Some(&file), []);
        let config =
            Config::resolve(&layers, Personality::Server).map_err(|error| error.to_string());
        (layers, config)
    }

    /// As it is, and with every default written down.
    #[test]
    fn the_template_is_a_configuration() {
        let text = template();
        let (layers, config) = resolve(&text);
        config.unwrap();
        assert_eq!(layers.written().count(), 0, "everything is a comment");
        let is_setting = |line: &&str| !line.starts_with("# ");
        let (settings, _) = text.split_once("\n# One for each").unwrap();
        let written: Vec<String> = settings
            .lines()
            .filter(is_setting)
            .map(|line| line.trim_start_matches('#').to_owned())
            .collect();
        // A folder of accounts that somebody wrote down must have some, or there must be others.
        let key = "a2V5IG9mIHRoZSBzaG9wLCBsb25nIGVub3VnaCB0byBiZSBvbmU=";
        let (layers, config) =
            resolve(&format!("{}\n[accounts.shop]\nkey1 = \"{key}\"\n", written.join("\n")));
        config.unwrap();
        assert_eq!(layers.written().count(), SETTINGS.len() + 1);
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
}
