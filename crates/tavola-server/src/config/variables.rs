//! Variables of the environment: which setting each sets, and what to say to one that sets none.

use tavola_store::settings::variable_of;

use super::named_sections::{NAMED_SECTIONS, NamedSection};
use super::{SERVED, Schema};

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
pub(super) fn meaning(schema: &Schema, name: &str) -> Meaning {
    let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !NO_SETTINGS.contains(&name)) else {
        return Meaning::Nothing;
    };
    if !rest.contains("__") {
        return without_levels(schema, name, rest);
    }
    let path = rest.replace("__", ".").to_ascii_lowercase();
    match path.strip_suffix("_file") {
        // A setting that is a file itself is none that is read from one.
        _ if is_known(schema, &path) => Meaning::Setting(path),
        Some(secret) if is_known(schema, secret) => Meaning::SecretFile(secret.to_owned()),
        _ => {
            let meant = did_you_mean(schema, name);
            Meaning::Wrong(format!("variable {name}: unknown setting {path}{meant}"))
        }
    }
}

/// True of a path that a setting or a field of a section has.
pub(super) fn is_known(schema: &Schema, path: &str) -> bool {
    NamedSection::split(path).is_some()
        || schema.find(path).is_some()
        || schema.find_old(path).is_some()
}

/// Every setting has two levels, so this is none; but it may be meant as one.
fn without_levels(schema: &Schema, name: &str, rest: &str) -> Meaning {
    let unknown = || {
        let meant = did_you_mean(schema, name);
        Meaning::Unknown(format!("variable {name} is no setting and has no effect{meant}"))
    };
    if is_port_of_service(rest) {
        return unknown();
    }
    if let Some(meant) = with_levels(schema, name, rest) {
        let words = "between the levels of a setting stand two underscores; did you mean";
        return Meaning::Wrong(format!("variable {name}: {words} {meant}?"));
    }
    if is_of_orchestrator(rest) {
        return Meaning::Nothing;
    }
    unknown()
}

/// `TAVOLA_TABLE_PORT` may lack an underscore, or be what an orchestrator says of a service of the
/// name `tavola-table`, which must not keep the server from starting.
fn is_port_of_service(rest: &str) -> bool {
    SERVED.iter().any(|service| rest == format!("{}_PORT", upper(service.name(), "_")))
}

/// `TAVOLA_STORE_LOCATION` is `TAVOLA_STORE__LOCATION`, `TAVOLA_ACCOUNTS_SHOP_KEY1` is
/// `TAVOLA_ACCOUNTS__SHOP__KEY1`.
fn with_levels(schema: &Schema, name: &str, rest: &str) -> Option<String> {
    let (plain, suffix) = match name.strip_suffix("_FILE") {
        Some(plain) if !all_variables(schema).any(|(known, _)| flat(&known) == name) => {
            (plain, "_FILE")
        }
        _ => (name, ""),
    };
    let setting = all_variables(schema).find(|(known, _)| flat(known) == plain);
    let setting = setting.map(|(_, now)| now);
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

/// Every variable, former ones too, each with the one that is right today.
fn all_variables(schema: &Schema) -> impl Iterator<Item = (String, String)> {
    schema.paths().map(|(known, now)| (variable_of(known), variable_of(now)))
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
fn did_you_mean(schema: &Schema, name: &str) -> String {
    let distance = |known: &(String, String)| strsim::damerau_levenshtein(&known.0, name);
    let nearest = all_variables(schema).min_by_key(distance);
    match nearest.filter(|nearest| distance(nearest) <= EDITS_MAX) {
        Some((_, nearest)) => format!("; did you mean {nearest}?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::Meaning;
    use crate::config::Schema;

    fn meaning(name: &str) -> Meaning {
        super::meaning(Schema::server_only(), name)
    }

    #[test]
    fn one_underscore_is_told_from_two() {
        for (name, meant) in [
            ("TAVOLA_SERVER_TABLE_PORT", "TAVOLA_TABLE__PORT"),
            ("TAVOLA_TABLE_HOST", "TAVOLA_TABLE__HOST"),
            ("TAVOLA_LOG_ACCESS_FILE", "TAVOLA_LOG__ACCESS_FILE"),
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
        let Meaning::Unknown(words) = meaning("TAVOLA_TABLE_PORT") else { panic!() };
        assert!(words.ends_with("did you mean TAVOLA_TABLE__PORT?"), "{words}");
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
