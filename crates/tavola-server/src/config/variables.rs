//! Variables of the environment: which setting each sets, and what to say to one that sets none.

use super::settings::{NAMED_SECTIONS, NamedSection, OldName, SETTINGS, Setting};

/// What all of ours begin with.
const PREFIX: &str = "TAVOLA_";
/// Variables that are ours and no settings.
const NO_SETTINGS: [&str; 2] = ["TAVOLA_CONFIG", "TAVOLA_CACHE"];
/// A suggestion that needs more changes than this is a guess.
const EDITS_MAX: usize = 3;

/// What a variable is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Somebody else's, or none of our settings.
    Nothing,
    /// Sets the value at this path.
    Setting(String),
    /// Sets the value at this path to the content of a file.
    SecretFile(String),
    /// Surely meant for us, and wrong.
    Wrong(String),
    /// Begins like ours; it may be somebody else's.
    Unknown(String),
}

/// Finds out what a variable is for.
pub(super) fn meaning(name: &str) -> Meaning {
    let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !NO_SETTINGS.contains(&name)) else {
        return Meaning::Nothing;
    };
    if !rest.contains("__") {
        return without_levels(name, rest);
    }
    let path = rest.replace("__", ".").to_ascii_lowercase();
    match path.strip_suffix("_file") {
        // A setting that is a file itself is none that is read from one.
        _ if is_known(&path) => Meaning::Setting(path),
        Some(secret) if is_known(secret) => Meaning::SecretFile(secret.to_owned()),
        _ => {
            Meaning::Wrong(format!("variable {name}: unknown setting {path}{}", did_you_mean(name)))
        }
    }
}

/// True of a path that a setting or a field of a section has.
pub(super) fn is_known(path: &str) -> bool {
    NamedSection::split(path).is_some()
        || Setting::find(path).is_some()
        || OldName::find(path).is_some()
}

/// Every setting has two levels, so this is none; but it may be meant as one.
fn without_levels(name: &str, rest: &str) -> Meaning {
    if let Some(meant) = with_levels(name, rest) {
        let words = "between the levels of a setting stand two underscores; did you mean";
        return Meaning::Wrong(format!("variable {name}: {words} {meant}?"));
    }
    if is_of_orchestrator(rest) {
        return Meaning::Nothing;
    }
    Meaning::Unknown(format!(
        "variable {name} is no setting and has no effect{}",
        did_you_mean(name)
    ))
}

/// `TAVOLA_SERVER_TABLE_PORT` is `TAVOLA_SERVER__TABLE_PORT`, `TAVOLA_ACCOUNTS_SHOP_KEY1` is
/// `TAVOLA_ACCOUNTS__SHOP__KEY1`.
fn with_levels(name: &str, rest: &str) -> Option<String> {
    let (plain, suffix) = match name.strip_suffix("_FILE") {
        Some(plain) if !all_variables().any(|variable| flat(&variable) == name) => (plain, "_FILE"),
        _ => (name, ""),
    };
    let setting = all_variables().find(|variable| flat(variable) == plain);
    let field = || {
        let rest = rest.strip_suffix(suffix)?;
        NAMED_SECTIONS.iter().find_map(|section| {
            let inner = rest.strip_prefix(&upper(section.prefix, "_"))?.strip_prefix('_')?;
            let field = section.fields.iter().map(|field| field.name.to_ascii_uppercase());
            let field = field
                .filter(|field| inner.ends_with(&format!("_{field}")))
                .max_by_key(String::len)?;
            let owner =
                inner.strip_suffix(&field)?.strip_suffix('_').filter(|owner| !owner.is_empty())?;
            Some(format!("{PREFIX}{}__{owner}__{field}", upper(section.prefix, "__")))
        })
    };
    setting.or_else(field).map(|variable| format!("{variable}{suffix}"))
}

fn all_variables() -> impl Iterator<Item = String> {
    SETTINGS.iter().map(Setting::variable)
}

fn flat(variable: &str) -> String {
    variable.replace("__", "_")
}

fn upper(path: &str, separator: &str) -> String {
    path.replace('.', separator).to_ascii_uppercase()
}

/// Kubernetes and Docker tell a container of a service called `tavola` its addresses in such
/// variables.
fn is_of_orchestrator(rest: &str) -> bool {
    let is_port =
        |text: &str| text == "PORT" || text.starts_with("PORT_") || text.starts_with("SERVICE_");
    is_port(rest)
        || rest.contains("_SERVICE_")
        || rest.contains("_PORT_")
        || rest.ends_with("_PORT")
        || rest == "NAME"
}

/// The variable that was probably meant, if one is near enough.
fn did_you_mean(name: &str) -> String {
    let distance = |variable: &String| strsim::damerau_levenshtein(variable, name);
    match all_variables().min_by_key(distance).filter(|nearest| distance(nearest) <= EDITS_MAX) {
        Some(nearest) => format!("; did you mean {nearest}?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Meaning, meaning};

    #[test]
    fn one_underscore_is_told_from_two() {
        for (name, meant) in [
            ("TAVOLA_SERVER_TABLE_PORT", "TAVOLA_SERVER__TABLE_PORT"),
            ("TAVOLA_STORE_LOCATION", "TAVOLA_STORE__LOCATION"),
            ("TAVOLA_STORE_PASSWORD_FILE", "TAVOLA_STORE__PASSWORD_FILE"),
            ("TAVOLA_TLS_PASSWORD_FILE", "TAVOLA_TLS__PASSWORD_FILE"),
            ("TAVOLA_ACCOUNTS_SHOP_KEY1", "TAVOLA_ACCOUNTS__SHOP__KEY1"),
            ("TAVOLA_ACCOUNTS_SHOP_KEY1_FILE", "TAVOLA_ACCOUNTS__SHOP__KEY1_FILE"),
            ("TAVOLA_AUTH_OIDC_CORP_ISSUER", "TAVOLA_AUTH__OIDC__CORP__ISSUER"),
        ] {
            let Meaning::Wrong(words) = meaning(name) else {
                panic!("{name}: {:?}", meaning(name))
            };
            assert!(words.ends_with(&format!("did you mean {meant}?")), "{words}");
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        for name in [
            "PATH",
            "TAVOLA_CONFIG",
            "TAVOLA_CACHE",
            "TAVOLA_SERVICE_HOST",
            "TAVOLA_SERVICE_PORT_TABLE",
            "TAVOLA_PORT_10002_TCP_ADDR",
            "TAVOLA_TABLES_SERVICE_HOST",
            "TAVOLA_TABLES_PORT",
        ] {
            assert_eq!(meaning(name), Meaning::Nothing, "{name}");
        }
        for name in ["TAVOLA_TABLEPORT", "TAVOLA_DEBUG"] {
            assert!(matches!(meaning(name), Meaning::Unknown(words) if words.contains(name)));
        }
    }

    #[test]
    fn settings_and_secrets() {
        assert_eq!(meaning("TAVOLA_SERVER__HOST"), Meaning::Setting("server.host".to_owned()));
        assert_eq!(
            meaning("TAVOLA_LOG__ACCESS_FILE"),
            Meaning::Setting("log.access_file".to_owned())
        );
        assert_eq!(
            meaning("TAVOLA_TLS__PASSWORD_FILE"),
            Meaning::SecretFile("tls.password".to_owned())
        );
        let Meaning::Wrong(words) = meaning("TAVOLA_LIMITS__CONECTIONS") else { panic!() };
        assert!(words.ends_with("did you mean TAVOLA_LIMITS__CONNECTIONS?"), "{words}");
    }
}
