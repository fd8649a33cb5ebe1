//! Credentials: what they say, and how a request carries them.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::http::Request;
use crate::rows::Range;
use crate::signing::{self, SasFields, TableFields, VERSION, canonicalized_resource, signature};

/// An account whose every switch is off.
pub(crate) const PLAIN: &str = "plain";
/// An account that takes no writes.
pub(crate) const FROZEN: &str = "frozen";
/// An account that does not admit the caller's address.
pub(crate) const WALLED: &str = "walled";

pub(crate) const KEY1: &str = "Zmlyc3Qga2V5IG9mIGV2ZXJ5IGFjY291bnQgaW4gdGhpcyBtYXRyaXg=";
pub(crate) const KEY2: &str = "c2Vjb25kIGtleSBvZiBldmVyeSBhY2NvdW50IGluIHRoaXMgbWF0cml4";
const STRANGERS_KEY: &str = "YSBrZXkgb2Ygbm9ib2R5IHdlIGtub3c=";

/// The access policy that the table has while a case needs one.
pub(crate) const POLICY: &str = "standing";
const PAST: &str = "2020-01-01T00:00:00Z";
const FUTURE: &str = "2036-01-01T00:00:00Z";
const FAR_FUTURE: &str = "2037-01-01T00:00:00Z";

/// Somebody who asks, and which door is used.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    pub(crate) account: &'static str,
    /// Through the read-only secondary.
    pub(crate) secondary: bool,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Nothing at all, in a version of the protocol.
    Nothing {
        version: &'static str,
    },
    /// A header that is no header of any scheme.
    Unparsable,
    SharedKey(SharedKey),
    TableSas(TableSas),
    AccountSas(AccountSas),
    /// A token whose bearer has the roles of a column of `roles.txt`.
    Bearer {
        token: String,
        column: &'static str,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct SharedKey {
    pub(crate) lite: bool,
    pub(crate) key: Key,
    /// The date that is signed is an hour old.
    pub(crate) stale: bool,
    /// The header names another account.
    pub(crate) misnamed: bool,
}

/// Which key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    First,
    Second,
    Strangers,
}

impl Key {
    fn text(self) -> &'static str {
        match self {
            Self::First => KEY1,
            Self::Second => KEY2,
            Self::Strangers => STRANGERS_KEY,
        }
    }
}

/// What both kinds of signatures say beside what they open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) key: Key,
    /// Letters were added after signing.
    pub(crate) tampered: bool,
    pub(crate) time: Time,
    pub(crate) ip: Ip,
    pub(crate) protocol: Protocol,
}

impl Terms {
    pub(crate) const GOOD: Self = Self {
        key: Key::First,
        tampered: false,
        time: Time::Now,
        ip: Ip::Unsaid,
        protocol: Protocol::Unsaid,
    };

    pub(crate) fn signature_holds(&self) -> bool {
        self.key != Key::Strangers && !self.tampered
    }

    fn fields(&self, letters: &str) -> SasFields {
        let (st, se) = self.time.bounds();
        let sip = match self.ip {
            Ip::Unsaid => "",
            Ip::Ours => "127.0.0.0-127.0.0.9",
            Ip::Elsewhere => "10.1.2.3",
        };
        let spr = match self.protocol {
            Protocol::Unsaid => "",
            Protocol::Any => "https,http",
            Protocol::HttpsOnly => "https",
        };
        SasFields { sp: letters.to_owned(), st, se, sip, spr }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    Now,
    Expired,
    NotYet,
}

impl Time {
    /// `st` and `se`.
    pub(crate) fn bounds(self) -> (&'static str, &'static str) {
        match self {
            Self::Now => ("", FUTURE),
            Self::Expired => ("", PAST),
            Self::NotYet => (FUTURE, FAR_FUTURE),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ip {
    Unsaid,
    Ours,
    Elsewhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Unsaid,
    Any,
    HttpsOnly,
}

#[derive(Debug, Clone)]
pub(crate) struct TableSas {
    pub(crate) terms: Terms,
    pub(crate) table: &'static str,
    pub(crate) letters: String,
    pub(crate) range: Range,
    pub(crate) policy: Policy,
}

/// What a stored access policy has to do with a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Unused,
    /// It gives the letters and the times.
    Supplies,
    /// The signature names one that is not there.
    Unknown,
    /// The letters stand in both.
    Twice,
}

#[derive(Debug, Clone)]
pub(crate) struct AccountSas {
    pub(crate) terms: Terms,
    pub(crate) services: &'static str,
    pub(crate) types: String,
    pub(crate) letters: String,
}

impl Credential {
    pub(crate) const fn owner(account: &'static str) -> Self {
        let kind = Kind::SharedKey(SharedKey {
            lite: false,
            key: Key::First,
            stale: false,
            misnamed: false,
        });
        Self { account, secondary: false, kind }
    }

    /// The signature of a table that needs a stored policy, and the letters and times of the
    /// latter.
    pub(crate) fn policy(&self) -> Option<(&str, Time)> {
        match &self.kind {
            Kind::TableSas(sas) if sas.policy != Policy::Unused => {
                Some((&sas.letters, sas.terms.time))
            }
            _ => None,
        }
    }

    /// Puts the credential on a request to `segment`, which is the account or its secondary.
    pub(crate) fn sign(&self, request: &mut Request, segment: &str) {
        let mut version = VERSION;
        match &self.kind {
            Kind::Nothing { version: spoken } => version = spoken,
            Kind::Unparsable => request.headers.push(("Authorization", "SharedKey".to_owned())),
            Kind::SharedKey(shared_key) => shared_key.sign(request, self.account, segment),
            Kind::TableSas(sas) => append(&mut request.query, &sas.query_string(self.account)),
            Kind::AccountSas(sas) => append(&mut request.query, &sas.query_string(self.account)),
            Kind::Bearer { token, .. } => {
                request.headers.push(("Authorization", format!("Bearer {token}")));
                request.headers.push(("X-Forwarded-Proto", "https".to_owned()));
            }
        }
        request.headers.push(("x-ms-version", version.to_owned()));
    }
}

fn append(query: &mut String, fields: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(fields);
}

impl SharedKey {
    fn sign(&self, request: &mut Request, account: &str, segment: &str) {
        let age = if self.stale { Duration::from_secs(3600) } else { Duration::ZERO };
        let date = httpdate::fmt_http_date(SystemTime::now() - age);
        let resource = canonicalized_resource(account, &request.target(segment));
        let (scheme, text) = match self.lite {
            true => ("SharedKeyLite", format!("{date}\n{resource}")),
            false => {
                let content_type = request.content_type();
                ("SharedKey", format!("{}\n\n{content_type}\n{date}\n{resource}", request.method))
            }
        };
        let named = if self.misnamed { "another" } else { account };
        let signature = signature(self.key.text(), &text);
        request.headers.push(("Authorization", format!("{scheme} {named}:{signature}")));
        request.headers.push(("x-ms-date", date));
    }
}

impl TableSas {
    fn query_string(&self, account: &str) -> String {
        let mut fields = self.terms.fields(&self.letters);
        if self.policy == Policy::Supplies {
            fields = SasFields { sp: String::new(), st: "", se: "", ..fields };
        }
        let si = match self.policy {
            Policy::Unused => "",
            Policy::Supplies | Policy::Twice => POLICY,
            Policy::Unknown => "vanished",
        };
        let sent =
            if self.terms.tampered { tampered(&fields.sp, "raud") } else { fields.sp.clone() };
        let table = TableFields { tn: self.table, si, range: self.range };
        signing::table_sas(account, self.terms.key.text(), &fields, &table, &sent)
    }
}

impl AccountSas {
    fn query_string(&self, account: &str) -> String {
        let fields = self.terms.fields(&self.letters);
        let sent =
            if self.terms.tampered { tampered(&fields.sp, "rwdlacup") } else { fields.sp.clone() };
        signing::account_sas(
            account,
            self.terms.key.text(),
            &fields,
            self.services,
            &self.types,
            &sent,
        )
    }
}

/// The same letters and one more; or in another order, if there is no other.
fn tampered(letters: &str, alphabet: &str) -> String {
    match alphabet.chars().find(|letter| !letters.contains(*letter)) {
        Some(more) => format!("{letters}{more}"),
        None => letters.chars().rev().collect(),
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secondary = if self.secondary { "-secondary" } else { "" };
        write!(f, "{}{secondary} ", self.account)?;
        match &self.kind {
            Kind::Nothing { version } => write!(f, "no credentials at {version}"),
            Kind::Unparsable => f.write_str("an unparsable header"),
            Kind::SharedKey(SharedKey { lite, key, stale, misnamed }) => {
                write!(f, "shared key lite={lite} key={key:?} stale={stale} misnamed={misnamed}")
            }
            Kind::TableSas(TableSas { terms, table, letters, range, policy }) => {
                write!(
                    f,
                    "table SAS of {table} sp={letters} range={} policy={policy:?} {terms}",
                    range.name
                )
            }
            Kind::AccountSas(AccountSas { terms, services, types, letters }) => {
                write!(f, "account SAS ss={services} srt={types} sp={letters} {terms}")
            }
            Kind::Bearer { column, .. } => write!(f, "bearer {column}"),
        }
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, tampered, time, ip, protocol } = self;
        write!(f, "key={key:?} tampered={tampered} time={time:?} ip={ip:?} protocol={protocol:?}")
    }
}
