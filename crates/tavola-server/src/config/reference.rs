//! `docs/configuration.md`: every setting in a table, derived from the settings themselves.

use std::fmt::Write as _;

use super::settings::{Applies, Field, NAMED_SECTIONS, NamedSection, OLD_NAMES, SETTINGS, Setting};
use super::template::sections;

const INTRODUCTION: &str = include_str!("reference.md");

/// The whole document.
#[must_use]
pub fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    sections().into_iter().for_each(|section| add_section(&mut text, section));
    NAMED_SECTIONS.iter().for_each(|section| add_named(&mut text, section));
    add_former_names(&mut text);
    text
}

fn add_section(text: &mut String, section: &str) {
    let _infallible = write!(
        text,
        "\n## [{section}]\n\n\
         | key | flag and variable | default | reload | meaning |\n\
         | --- | --- | --- | --- | --- |\n"
    );
    let prefix = format!("{section}.");
    for setting in SETTINGS {
        if let Some(key) = setting.path.strip_prefix(&prefix) {
            add_setting(text, key, setting);
        }
    }
}

fn add_setting(text: &mut String, key: &str, setting: &Setting) {
    let flag = setting.flag.map_or_else(String::new, |flag| format!("`--{flag}`<br>"));
    let default = match setting.default {
        "" => String::new(),
        default => format!("`{default}`"),
    };
    let _infallible = writeln!(
        text,
        "| `{key}` | {flag}`{}` | {default} | {} | {} |",
        setting.variable(),
        reload(setting),
        cell(setting.help)
    );
}

fn reload(setting: &Setting) -> &'static str {
    match setting.applies() {
        Applies::AtStart => "restart",
        Applies::OnReloadIfSetAtStart => "yes, if set at start",
        Applies::OnReload => "yes",
    }
}

fn add_named(text: &mut String, section: &NamedSection) {
    let prefix = section.prefix;
    let variable = prefix.replace('.', "__").to_ascii_uppercase();
    let _infallible = write!(
        text,
        "\n## [{prefix}.NAME]\n\n\
         One section for each name. Required: {}. A reload applies changes. Variables: \
         `TAVOLA_{variable}__NAME__KEY`.\n\n\
         | key | meaning |\n| --- | --- |\n",
        section.needs
    );
    for Field { name, help, .. } in section.fields {
        let _infallible = writeln!(text, "| `{name}` | {} |", cell(help));
    }
}

fn add_former_names(text: &mut String) {
    text.push_str(
        "\n## Former names\n\nThey work for one more release, and the log names the new ones.\n\n",
    );
    for old in OLD_NAMES {
        let _infallible = writeln!(text, "- `{}` is now `{}`", old.path, old.now);
    }
}

/// A bar would end the cell.
fn cell(help: &str) -> String {
    help.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::reference;
    use crate::config::SETTINGS;

    #[test]
    fn every_setting_has_a_row() {
        let text = reference();
        for setting in SETTINGS {
            assert!(text.contains(&format!("`{}` |", setting.variable())), "{}", setting.path);
        }
    }

    #[test]
    fn the_committed_document_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let committed = std::fs::read_to_string(path).unwrap();
        assert!(
            committed == reference(),
            "docs/configuration.md is stale; renew it with \
             `cargo run -p tavola -- config reference > docs/configuration.md`"
        );
    }
}
