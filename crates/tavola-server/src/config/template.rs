//! A configuration file to start from: every setting as a comment, with its meaning and default.

use std::fmt::Write as _;

use tavola_store::Setting;

use super::Schema;
use super::named_sections::{NAMED_SECTIONS, NamedSection};

const HEADER: &str = "\
# The configuration of Tavola. Each line `#key = value` shows a default: remove the # to change it.
# `tavola config check --config FILE` reports mistakes, `tavola config show --origin` what applies.
# A variable (TAVOLA_SECTION__KEY) overrides this file, a flag of `tavola serve` overrides both.
# Relative paths start at this file's folder, default paths at the working directory.
";

/// The longest line of a comment.
const LINE_CHARS: usize = 98;

impl Schema {
    /// The text of a new configuration file.
    #[must_use]
    pub fn template(&self) -> String {
        let mut text = HEADER.to_owned();
        self.sections().into_iter().for_each(|section| self.add_section(&mut text, section));
        NAMED_SECTIONS.iter().for_each(|section| add_named(&mut text, section));
        text
    }

    /// The sections with fixed names, in the order of the settings.
    pub(super) fn sections(&self) -> Vec<&'static str> {
        let mut sections = Vec::new();
        for section in self.settings().filter_map(section_of) {
            if !sections.contains(&section) {
                sections.push(section);
            }
        }
        sections
    }

    fn add_section(&self, text: &mut String, section: &str) {
        let _infallible = write!(text, "\n[{section}]\n");
        for setting in self.settings().filter(|setting| section_of(setting) == Some(section)) {
            comment(text, &note_of(setting));
            let key = setting.path.trim_start_matches(section).trim_start_matches('.');
            let _infallible = writeln!(text, "#{key} = {}", value_of(setting));
        }
    }
}

fn section_of(setting: &Setting) -> Option<&'static str> {
    setting.path.split_once('.').map(|(section, _)| section)
}

fn note_of(setting: &Setting) -> String {
    let flag = setting.flag.map_or_else(String::new, |flag| format!(" [--{flag}]"));
    format!("{}{flag}", setting.help)
}

/// Numbers and switches stay bare, everything else is quoted.
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
    let _infallible = write!(text, "\n# One section for each NAME. Required: {}.\n", section.needs);
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
    use crate::config::{Config, Layers, Personality, Schema};

    fn resolve(text: &str) -> (Layers, Result<Config, String>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tavola.toml");
        std::fs::write(&file, text).unwrap();
        let layers = Layers::read(Schema::server_only(), Some(&file), []);
        let config =
            Config::resolve(&layers, Personality::Server).map_err(|error| error.to_string());
        (layers, config)
    }

    /// As it is, and with every default set.
    #[test]
    fn the_template_is_a_configuration() {
        let text = Schema::server_only().template();
        let (layers, config) = resolve(&text);
        config.unwrap();
        assert_eq!(layers.written().count(), 0, "every line is a comment");
        let is_setting = |line: &&str| !line.starts_with("# ");
        let (settings, _) = text.split_once("\n# One section for each").unwrap();
        let written: Vec<String> = settings
            .lines()
            .filter(is_setting)
            .map(|line| line.trim_start_matches('#').to_owned())
            .collect();
        // A configured accounts folder must contain an account, unless the file has one.
        let key = "a2V5IG9mIHRoZSBzaG9wLCBsb25nIGVub3VnaCB0byBiZSBvbmU=";
        let (layers, config) =
            resolve(&format!("{}\n[accounts.shop]\nkey1 = \"{key}\"\n", written.join("\n")));
        config.unwrap();
        assert_eq!(layers.written().count(), Schema::server_only().settings().count() + 1);
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
}
