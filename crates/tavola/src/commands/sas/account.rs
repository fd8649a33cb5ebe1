//! Signatures for every table of an account.

use clap::{Arg, ArgMatches};
use tavola_core::DateTime;
use tavola_protocol::auth::AccountSas;

use super::letters::{ACCOUNT_PERMISSIONS, RESOURCE_TYPES, SERVICES};
use super::terms::Terms;
use super::{Made, check};
use crate::account_access::AccountAccess;
use crate::exit::Failure;

pub(super) fn flags() -> Vec<Arg> {
    let flag =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    vec![
        flag("permissions", "LETTERS").default_value("rl").help(
            "Of rwdlacu: read, write, delete, list, add, create, update; tables are created with \
             c or w and dropped with d",
        ),
        flag("services", "LETTERS")
            .default_value("t")
            .help("Of bqtf: blobs, queues, tables, files"),
        flag("resource-types", "LETTERS")
            .default_value("sco")
            .help("Of sco: the service itself, containers (tables as such), objects (entities)"),
    ]
}

pub(super) fn make(
    matches: &ArgMatches,
    access: &AccountAccess,
    now: DateTime,
) -> Result<Made, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let permissions = ACCOUNT_PERMISSIONS.parse("--permissions", text("permissions"))?;
    let services = SERVICES.parse("--services", text("services"))?;
    if !services.contains('t') {
        return Err(Failure::Usage(
            "--services: without t the signature gives no access to tables".to_owned(),
        ));
    }
    let resource_types = RESOURCE_TYPES.parse("--resource-types", text("resource-types"))?;
    let terms = Terms::of(matches, now, false)?;
    let sas = AccountSas {
        version: terms.version.clone(),
        services: services.clone(),
        resource_types: resource_types.clone(),
        permissions: permissions.clone(),
        start: terms.start_text(),
        expiry: terms.expiry_text(),
        ip: terms.ip.clone(),
        protocol: terms.protocol(),
        encryption_scope: String::new(),
    };
    let signed = sas.signed(&access.account, &access.signing_key()?);
    check(&signed, access, &terms, now)?;
    let (can, kinds) =
        (ACCOUNT_PERMISSIONS.words(&permissions), RESOURCE_TYPES.words(&resource_types));
    let mut opens = vec![format!("{can}: {kinds}; account {}", access.account)];
    opens.extend(terms.words(now));
    Made::new(signed, access, &services, "", terms.expiry, opens)
}
