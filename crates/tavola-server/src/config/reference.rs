//! `docs/configuration.md`: every setting in a table, derived from the settings themselves.

use std::fmt::Write as _;

use tavola_store::Setting;

use super::Schema;
use super::named_sections::{Field, NAMED_SECTIONS, NamedSection};
use super::settings::Applies;

const INTRODUCTION: &str = include_str!("reference.md");

impl Schema {
    /// The whole document.
    #[must_use]
    pub fn reference(&self) -> String {
        let mut text = INTRODUCTION.to_owned();
        self.sections().into_iter().for_each(|section| self.describe_section(&mut text, section));
        NAMED_SECTIONS.iter().for_each(|section| add_named(&mut text, section));
        self.describe_former_names(&mut text);
        text
    }

    fn describe_section(&self, text: &mut String, section: &str) {
        let _infallible = write!(
            text,
            "\n## [{section}]\n\n\
             | key | flag and variable | default | reload | meaning |\n\
             | --- | --- | --- | --- | --- |\n"
        );
        let prefix = format!("{section}.");
        for setting in self.settings() {
            if let Some(key) = setting.path.strip_prefix(&prefix) {
                add_setting(text, key, setting);
            }
        }
    }

    fn describe_former_names(&self, text: &mut String) {
        text.push_str(
            "\n## Former names\n\nThey work for one more release, and the log names the new ones.\n\n",
        );
        for old in self.old_names() {
            let _infallible = writeln!(text, "- `{}` is now `{}`", old.path, old.now);
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
    match Applies::of(setting) {
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

/// A bar would end the cell.
fn cell(help: &str) -> String {
    help.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use crate::config::Schema;

    #[test]
    fn every_setting_has_a_row() {
        let schema = Schema::server_only();
        let text = schema.reference();
        for setting in schema.settings() {
            assert!(text.contains(&format!("`{}` |", setting.variable())), "{}", setting.path);
        }
    }
}
