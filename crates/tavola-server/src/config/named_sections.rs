//! Sections that may occur several times, each time under a name of the operator's choice.

/// A field of a section that may occur several times, each time under a name of the operator's
/// choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// `[section.NAME] field` in the file.
    pub name: &'static str,
    /// Masked wherever settings are shown.
    pub secret: bool,
    /// One line.
    pub help: &'static str,
}

/// A section that may occur several times: `[accounts.NAME]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamedSection {
    /// The part before the name.
    pub prefix: &'static str,
    /// The fields that it accepts.
    pub fields: &'static [Field],
    /// The required fields, in words.
    pub needs: &'static str,
}

impl NamedSection {
    /// Splits `prefix.NAME.field`.
    #[must_use]
    pub(super) fn split(path: &str) -> Option<(&'static Self, &str, &'static Field)> {
        NAMED_SECTIONS.iter().find_map(|section| {
            let rest = path.strip_prefix(section.prefix)?.strip_prefix('.')?;
            let (name, field) = rest.rsplit_once('.')?;
            let field = section.fields.iter().find(|known| known.name == field)?;
            (!name.is_empty()).then_some((section, name, field))
        })
    }
}

const fn field(name: &'static str, help: &'static str) -> Field {
    Field { name, secret: false, help }
}

const fn secret(name: &'static str, help: &'static str) -> Field {
    Field { name, secret: true, help }
}

/// Every section whose names are the operator's.
pub(super) const NAMED_SECTIONS: &[NamedSection] = &[
    NamedSection { prefix: "accounts", fields: ACCOUNT_FIELDS, needs: "key1" },
    NamedSection { prefix: "auth.oidc", fields: ISSUER_FIELDS, needs: "issuer" },
    NamedSection { prefix: "auth.roles", fields: ROLE_FIELDS, needs: "value and role" },
];

const ACCOUNT_FIELDS: &[Field] = &[
    secret("key1", "The first key, base64"),
    secret("key2", "The second key, base64; signatures by either key are valid"),
    field("read_only", "Reject every write: true or false"),
    field("allowed_ips", "Addresses or ranges (10.0.0.0/8) that may use the account; default: all"),
    field(
        "weight",
        "Share relative to other accounts when the server is busy; 1 to 1000, default: 1",
    ),
    field(
        "requests_per_second",
        "Beyond it 503 ServerBusy; 0: no limit; default: that of [targets]",
    ),
    field(
        "ingress_bytes_per_second",
        "Bytes of request bodies; beyond it 503 ServerBusy; default: no limit",
    ),
    field(
        "egress_bytes_per_second",
        "Bytes of responses; beyond it 503 ServerBusy; default: no limit",
    ),
    field(
        "partition_entities_per_second",
        "Entities of each partition; beyond it 503 ServerBusy; default: that of [targets]",
    ),
];

const ISSUER_FIELDS: &[Field] = &[
    field("issuer", "URL of the identity provider, exactly as in the iss claim of its tokens"),
    field(
        "audiences",
        "Accepted aud claims, {account} is replaced by the account; default: those of the service",
    ),
    field(
        "algorithms",
        "Accepted signature algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384; \
         default: RS256, ES256",
    ),
    field("jwks_file", "Its public keys (JWKS) from this file instead of from the issuer"),
    field("ca_file", "Certificates (PEM) to trust for the issuer, in addition to the system's"),
    field(
        "authorization_uri",
        "Where the challenge sends clients without credentials to get a token",
    ),
];

const ROLE_FIELDS: &[Field] = &[
    field("issuer", "NAME of the [auth.oidc.NAME] that must issue the token; default: any"),
    field("claim", "Claim to evaluate; default: roles"),
    field("value", "Value that the claim must equal or contain"),
    field("role", "reader, contributor or administrator"),
    field("account", "Account to which the role applies; default: * (every account)"),
    field("tables", "Tables to which the role applies; default: all"),
];
