//! Whose tokens count (`[auth.oidc.NAME]`), and what their bearers may do (`[auth.roles.NAME]`).

use std::net::IpAddr;
use std::path::PathBuf;

use http::Uri;
use tavola_core::ServiceKind;
use tavola_core::grant::{Role, RoleAssignment, Scope};
use tavola_core::{AccountName, TableName};
use tavola_protocol::auth::token::{Algorithm, STORAGE_AUDIENCES, TrustedIssuer};

use super::layers::Fields;
use super::{ConfigError, Layers};
use tavola_store::settings::items;

/// The claim in which identity providers put application roles.
const DEFAULT_CLAIM: &str = "roles";
/// What stands for every account.
const EVERY_ACCOUNT: &str = "*";

/// Whose tokens count, and for what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenConfig {
    /// The identity providers, by name.
    pub issuers: Vec<IssuerConfig>,
    /// What claims earn.
    pub roles: Vec<RoleRule>,
    /// Take tokens without checking their signature: `--oauth basic` of an emulator, and of nothing
    /// else.
    pub unsigned: bool,
}

/// One identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerConfig {
    /// Who it is, and how its tokens must look.
    pub trusted: TrustedIssuer,
    /// Where its keys come from.
    pub keys: KeySource,
    /// Where clients are sent for a token.
    pub authorization_uri: Option<String>,
}

/// Where an issuer's keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A key set on disk; the network is never asked.
    File(PathBuf),
    /// The issuer itself.
    Discovery {
        /// Certificates to trust besides those of the system.
        ca_file: Option<PathBuf>,
    },
}

/// A claim, and the role that it earns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRule {
    /// The issuer who must say so; `None` for any.
    pub issuer: Option<String>,
    /// Which claim.
    pub claim: String,
    /// The value that it must have, or have among its values.
    pub value: String,
    /// Where the role holds; `None` in every account.
    pub account: Option<AccountName>,
    /// The role.
    pub assignment: RoleAssignment,
}

impl TokenConfig {
    /// Reads the sections `auth.oidc` and `auth.roles`.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn resolve(layers: &Layers) -> Result<Self, ConfigError> {
        let issuers: Vec<IssuerConfig> = each(layers, "auth.oidc", issuer)?;
        for (index, one) in issuers.iter().enumerate() {
            if let Some(other) =
                issuers[..index].iter().find(|other| other.trusted.issuer == one.trusted.issuer)
            {
                let (name, other) = (&one.trusted.name, &other.trusted.name);
                return Err(layers.section_error(
                    &format!("auth.oidc.{name}"),
                    &format!("auth.oidc.{other} has the same issuer"),
                ));
            }
        }
        let roles =
            each(layers, "auth.roles", |section, fields| role_rule(section, fields, &issuers))?;
        Ok(Self { issuers, roles, unsigned: false })
    }
}

/// A section's place and fields, for its reader.
struct Section<'a> {
    layers: &'a Layers,
    prefix: &'static str,
    name: &'a str,
}

impl Section<'_> {
    fn error(&self, problem: impl AsRef<str>) -> ConfigError {
        self.layers.section_error(&format!("{}.{}", self.prefix, self.name), problem.as_ref())
    }

    fn needed<'f>(&self, fields: &Fields<'f>, field: &str) -> Result<&'f str, ConfigError> {
        given(fields, field).ok_or_else(|| self.error(format!("{field} is missing")))
    }
}

fn each<T>(
    layers: &Layers,
    prefix: &'static str,
    read: impl Fn(&Section<'_>, &Fields<'_>) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    layers
        .named(prefix)
        .iter()
        .map(|(name, fields)| read(&Section { layers, prefix, name }, fields))
        .collect()
}

fn given<'f>(fields: &Fields<'f>, field: &str) -> Option<&'f str> {
    fields.get(field).copied().filter(|value| !value.is_empty())
}

fn issuer(section: &Section<'_>, fields: &Fields<'_>) -> Result<IssuerConfig, ConfigError> {
    let issuer = section.needed(fields, "issuer")?;
    let keys = key_source(section, fields, issuer)?;
    let authorization_uri = given(fields, "authorization_uri").map(str::to_owned);
    if authorization_uri.as_deref().is_some_and(|uri| !is_address(uri)) {
        return Err(section.error("authorization_uri is not an http or https address"));
    }
    let trusted = TrustedIssuer {
        name: section.name.to_owned(),
        issuer: issuer.to_owned(),
        audiences: audiences(section, fields)?,
        algorithms: algorithms(section, fields)?,
    };
    Ok(IssuerConfig { trusted, keys, authorization_uri })
}

/// A key set on disk makes the issuer a mere name. One that is asked for its keys must be an
/// address, and nobody on the way may exchange them.
fn key_source(
    section: &Section<'_>,
    fields: &Fields<'_>,
    issuer: &str,
) -> Result<KeySource, ConfigError> {
    let ca_file = given(fields, "ca_file").map(PathBuf::from);
    if let Some(file) = given(fields, "jwks_file") {
        if ca_file.is_some() {
            return Err(section.error(
                "jwks_file and ca_file exclude each other: with a file nobody is asked for keys",
            ));
        }
        return Ok(KeySource::File(PathBuf::from(file)));
    }
    if !is_address(issuer) || issuer.contains(['?', '#']) {
        return Err(section
            .error("issuer is not an https address without query; or give its keys as jwks_file"));
    }
    if !may_be_asked(issuer) {
        return Err(section.error(
            "issuer is plain http beyond this machine, where anybody on the way could exchange its keys; use https",
        ));
    }
    Ok(KeySource::Discovery { ca_file })
}

fn audiences(section: &Section<'_>, fields: &Fields<'_>) -> Result<Vec<String>, ConfigError> {
    let Some(text) = fields.get("audiences") else {
        return Ok(STORAGE_AUDIENCES.map(str::to_owned).to_vec());
    };
    let audiences: Vec<String> = items(text).map(str::to_owned).collect();
    if audiences.is_empty() {
        return Err(section.error(
            "audiences is empty, so no token could be for us; leave it out for the service's own",
        ));
    }
    Ok(audiences)
}

fn algorithms(section: &Section<'_>, fields: &Fields<'_>) -> Result<Vec<Algorithm>, ConfigError> {
    let Some(text) = fields.get("algorithms") else { return Ok(Algorithm::DEFAULT.to_vec()) };
    let parse = |name: &str| {
        name.parse()
            .map_err(|error| section.error(format!("algorithms: \"{name}\" does not fit: {error}")))
    };
    let algorithms: Vec<Algorithm> = items(text).map(parse).collect::<Result<_, _>>()?;
    if algorithms.is_empty() { Err(section.error("algorithms is empty")) } else { Ok(algorithms) }
}

/// An absolute address of the web that fits a header as it is.
fn is_address(text: &str) -> bool {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b'@'));
    let Ok(uri) = text.parse::<Uri>() else { return false };
    is_plain
        && matches!(uri.scheme_str(), Some("https" | "http"))
        && uri.host().is_some_and(|host| !host.is_empty())
}

/// True of https addresses, and of plain ones on this machine.
pub(crate) fn may_be_asked(address: &str) -> bool {
    let Ok(uri) = address.parse::<Uri>() else { return false };
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => uri.host().is_some_and(is_loopback),
        _ => false,
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn role_rule(
    section: &Section<'_>,
    fields: &Fields<'_>,
    issuers: &[IssuerConfig],
) -> Result<RoleRule, ConfigError> {
    let issuer = given(fields, "issuer");
    if let Some(name) =
        issuer.filter(|name| issuers.iter().all(|known| known.trusted.name != *name))
    {
        return Err(section.error(format!("issuer: there is no [auth.oidc.{name}]")));
    }
    let role = section.needed(fields, "role")?;
    let role = parse_role(role).ok_or_else(|| {
        section.error(format!("role: \"{role}\" is not reader, contributor or administrator"))
    })?;
    let parse_account = |name| {
        AccountName::parse(name)
            .ok_or_else(|| section.error(format!("account: \"{name}\" cannot be an account")))
    };
    Ok(RoleRule {
        issuer: issuer.map(str::to_owned),
        claim: given(fields, "claim").unwrap_or(DEFAULT_CLAIM).to_owned(),
        value: section.needed(fields, "value")?.to_owned(),
        account: given(fields, "account")
            .filter(|name| *name != EVERY_ACCOUNT)
            .map(parse_account)
            .transpose()?,
        assignment: RoleAssignment { role, scope: scope(section, fields)? },
    })
}

/// Our names, and those of the service's built-in roles.
fn parse_role(text: &str) -> Option<Role> {
    match text.to_ascii_lowercase().as_str() {
        "reader" | "storage table data reader" => Some(Role::Reader),
        "contributor" | "storage table data contributor" => Some(Role::Contributor),
        "administrator" => Some(Role::Administrator),
        _ => None,
    }
}

/// An empty list would be an easy slip that opens everything, so it is refused.
fn scope(section: &Section<'_>, fields: &Fields<'_>) -> Result<Scope, ConfigError> {
    let Some(text) = fields.get("tables") else { return Ok(Scope::Account) };
    let parse = |name: &str| match TableName::parse(name) {
        Ok(table) => Ok(table.as_str().to_owned()),
        Err(_) => Err(section.error(format!("tables: \"{name}\" cannot be a table"))),
    };
    let tables: Vec<String> = items(text).map(parse).collect::<Result<_, _>>()?;
    if tables.is_empty() {
        return Err(section.error("tables is empty; leave it out for all tables"));
    }
    Ok(Scope::Containers(ServiceKind::Table, tables))
}

#[cfg(test)]
mod tests;
