//! Shared access signatures for the Table service, written from sections 4.3 and 4.4 of the
//! protocol reference.
//!
//! A [`Sas`] is what its owner signs: names and plain texts. A [`SasQuery`] is what is then sent in
//! a URL, where a case may change what was signed.

use std::fmt;

use super::request::{Client, minutes_from_now, percent_encode};
use super::signer::signature;

/// The version that SDKs sign with.
const VERSION: &str = "2019-02-02";
/// Since then the resource of a service SAS begins with the service.
const NAMES_THE_SERVICE: &str = "2015-02-21";
/// Since then address and protocol are signed, and there are account SAS.
const SIGNS_THE_ADDRESS: &str = "2015-04-05";
/// Since then an account SAS signs the encryption scope.
const SIGNS_THE_SCOPE: &str = "2020-12-06";

/// A shared access signature before it is signed, its fields in the order in which they are sent.
#[derive(Debug, Clone)]
pub(super) struct Sas {
    account: String,
    fields: Vec<(String, String)>,
}

impl Sas {
    /// For one table, for an hour.
    pub(super) fn service(account: &str, table: &str, permissions: &str) -> Self {
        Sas { account: account.to_owned(), fields: Vec::new() }
            .with("se", &minutes_ahead(60))
            .with("sp", permissions)
            .with("sv", VERSION)
            .with("tn", table)
    }

    /// For the Table service of the account, for an hour; `types` are the letters of `srt`.
    pub(super) fn account(account: &str, types: &str, permissions: &str) -> Self {
        Sas { account: account.to_owned(), fields: Vec::new() }
            .with("se", &minutes_ahead(60))
            .with("sp", permissions)
            .with("sv", VERSION)
            .with("ss", "t")
            .with("srt", types)
    }

    /// Sets a field, in place of one of the same name.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some(field) => value.clone_into(&mut field.1),
            None => self.fields.push((name.to_owned(), value.to_owned())),
        }
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self
    }

    /// The keys from `first` to `last`, both of which belong to the range; `None` leaves a bound
    /// open.
    pub(super) fn range(
        self,
        first: Option<(&str, Option<&str>)>,
        last: Option<(&str, Option<&str>)>,
    ) -> Self {
        [("spk", "srk", first), ("epk", "erk", last)].into_iter().fold(
            self,
            |sas, (partition, row, bound)| match bound {
                Some((partition_key, Some(row_key))) => {
                    sas.with(partition, partition_key).with(row, row_key)
                }
                Some((partition_key, None)) => sas.with(partition, partition_key),
                None => sas,
            },
        )
    }

    /// The names of the fields.
    pub(super) fn names(&self) -> Vec<String> {
        self.fields.iter().map(|(name, _)| name.clone()).collect()
    }

    /// What a correct signature covers.
    pub(super) fn string_to_sign(&self) -> String {
        let version = self.value("sv");
        if self.names().iter().any(|name| name == "ss" || name == "srt") {
            return self.account_text(version >= SIGNS_THE_SCOPE);
        }
        let service = if version >= NAMES_THE_SERVICE { "/table" } else { "" };
        self.service_text(&self.resource(service), version >= SIGNS_THE_ADDRESS)
    }

    /// The table as a service SAS signs it, after `/table` or, in old versions, after nothing.
    pub(super) fn resource(&self, service: &str) -> String {
        format!("{service}/{}/{}", self.account, self.value("tn").to_lowercase())
    }

    /// The text of a service SAS, with or without the lines of address and protocol.
    pub(super) fn service_text(&self, resource: &str, with_address: bool) -> String {
        let mut lines =
            vec![self.value("sp"), self.value("st"), self.value("se"), resource, self.value("si")];
        if with_address {
            lines.extend([self.value("sip"), self.value("spr")]);
        }
        lines.extend(["sv", "spk", "srk", "epk", "erk"].map(|name| self.value(name)));
        lines.join("\n")
    }

    /// The text of an account SAS, with or without the line of the encryption scope.
    pub(super) fn account_text(&self, with_scope: bool) -> String {
        let mut lines = vec![self.account.as_str()];
        lines.extend(
            ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"].map(|name| self.value(name)),
        );
        if with_scope {
            lines.push(self.value("ses"));
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    pub(super) fn sign(&self, key: &[u8]) -> SasQuery {
        self.sign_text(key, &self.string_to_sign())
    }

    /// The same fields, with the signature of another text.
    pub(super) fn sign_text(&self, key: &[u8], string_to_sign: &str) -> SasQuery {
        let fields =
            self.fields.iter().map(|(name, value)| (name.clone(), percent_encode(value))).collect();
        SasQuery { fields }.set("sig", &percent_encode(&signature(key, string_to_sign)))
    }

    /// A field's text; absent ones are signed as empty.
    fn value(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

impl Client<'_> {
    /// An account SAS for the Table service, for an hour; `types` are the letters of `srt`.
    pub(super) fn account_sas(&self, types: &str, permissions: &str) -> Sas {
        Sas::account(self.endpoint().account(), types, permissions)
    }
}

/// A signed SAS as it is sent: names and values go into the URL as they stand here, so values are
/// percent-encoded.
#[derive(Debug, Clone)]
pub(super) struct SasQuery {
    fields: Vec<(String, String)>,
}

impl SasQuery {
    /// Replaces what is sent for a field, or adds the field.
    pub(super) fn set(mut self, name: &str, sent: &str) -> Self {
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some(field) => sent.clone_into(&mut field.1),
            None => self.fields.push((name.to_owned(), sent.to_owned())),
        }
        self
    }

    /// Adds a field even if one of that name is there.
    pub(super) fn and(mut self, name: &str, sent: &str) -> Self {
        self.fields.push((name.to_owned(), sent.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self
    }

    /// What is sent for a field.
    pub(super) fn sent(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| known == name).map_or("", |(_, sent)| sent)
    }

    /// The same with each name and value spelled anew.
    pub(super) fn spelled(&self, name: fn(&str) -> String, value: fn(&str) -> String) -> Self {
        SasQuery {
            fields: self.fields.iter().map(|(known, sent)| (name(known), value(sent))).collect(),
        }
    }

    /// The fields in the opposite order.
    pub(super) fn reversed(mut self) -> Self {
        self.fields.reverse();
        self
    }
}

impl fmt::Display for SasQuery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<_> =
            self.fields.iter().map(|(name, sent)| format!("{name}={sent}")).collect();
        formatter.write_str(&fields.join("&"))
    }
}

/// A time so many minutes ahead of now, or behind when negative: `2034-01-01T00:00:00Z`.
pub(super) fn minutes_ahead(minutes: i64) -> String {
    format!("{}Z", local_minutes_ahead(minutes))
}

/// The same without its zone.
pub(super) fn local_minutes_ahead(minutes: i64) -> String {
    iso_of(&minutes_from_now(minutes))
}

/// `Sun, 01 Jan 2034 00:00:00 GMT` to `2034-01-01T00:00:00`.
fn iso_of(http_date: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<_> = http_date.split(' ').collect();
    let [_, day, month, year, time, _] = words[..] else {
        panic!("{http_date} is no HTTP date");
    };
    let month = MONTHS.iter().position(|name| *name == month).map_or(0, |index| index + 1);
    format!("{year}-{month:02}-{day}T{time}")
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::super::signer::DEVELOPMENT_KEY;
    use super::*;

    const ACCOUNT: &str = "devstoreaccount1";

    fn check(sas: &Sas, string_to_sign: &str, signature: &str) {
        assert_eq!(sas.string_to_sign(), string_to_sign);
        let key = STANDARD.decode(DEVELOPMENT_KEY).unwrap();
        assert_eq!(sas.sign(&key).sent("sig"), percent_encode(signature));
    }

    /// Statement 61.
    #[test]
    fn service_vector_of_the_reference() {
        let sas = Sas::service(ACCOUNT, "PyTab1", "r")
            .with("se", "2034-01-01T00:00:00Z")
            .range(Some(("a", Some("a"))), Some(("z", Some("z"))));
        check(
            &sas,
            "r\n\n2034-01-01T00:00:00Z\n/table/devstoreaccount1/pytab1\n\n\n\n2019-02-02\na\na\nz\nz",
            "yYCKJ75BJhpNHxF0Tikuiyi0NwBtXDR8kZLxjkeiHAc=",
        );
    }

    /// Statements 62 and 67: the vectors of the Table reference and of the common one.
    #[test]
    fn account_vectors_of_the_reference() {
        check(
            &Sas::account(ACCOUNT, "soc", "rl").with("se", "2034-01-01T00:00:00Z"),
            "devstoreaccount1\nrl\nt\nsoc\n\n2034-01-01T00:00:00Z\n\n\n2019-02-02\n",
            "1Esib5eEEXopA63uMmMpqG25O9R6XZoln6SkLCC/Z+I=",
        );
        let common = Sas::account(ACCOUNT, "sco", "rwdlacup")
            .with("ss", "bqt")
            .with("se", "2036-01-01T00:00:00Z")
            .with("spr", "https,http");
        check(
            &common.clone().with("sv", "2021-12-02"),
            "devstoreaccount1\nrwdlacup\nbqt\nsco\n\n2036-01-01T00:00:00Z\n\nhttps,http\n2021-12-02\n\n",
            "rphwi2vP5dA19W3swRYAUo81geOpjyYeqpm92lY+ZOU=",
        );
        check(
            &common.with("sv", "2018-11-09"),
            "devstoreaccount1\nrwdlacup\nbqt\nsco\n\n2036-01-01T00:00:00Z\n\nhttps,http\n2018-11-09\n",
            "Jlj50ac5zwhaxFkcMNaeOpGfjgoFP0u3/FuEoJlv81w=",
        );
    }

    /// Statements 65 and 66: no vector of these is published, so the texts are spelled out.
    #[test]
    fn old_service_texts() {
        let sas = Sas::service("acct", "T", "r").with("se", "2034-01-01").with("si", "id");
        let text = |version: &str| sas.clone().with("sv", version).string_to_sign();
        assert_eq!(text("2014-02-14"), "r\n\n2034-01-01\n/acct/t\nid\n2014-02-14\n\n\n\n");
        assert_eq!(text("2015-02-21"), "r\n\n2034-01-01\n/table/acct/t\nid\n2015-02-21\n\n\n\n");
        assert_eq!(
            text("2015-04-05"),
            "r\n\n2034-01-01\n/table/acct/t\nid\n\n\n2015-04-05\n\n\n\n"
        );
    }

    #[test]
    fn queries_are_what_was_signed_until_they_are_changed() {
        let query = Sas::service("acct", "T", "r")
            .with("se", "2034-01-01T00:00Z")
            .without("sv")
            .sign_text(b"", "");
        let sent = format!("se=2034-01-01T00%3A00Z&sp=r&tn=T&sig={}", query.sent("sig"));
        assert_eq!(query.to_string(), sent);
        let changed = query.set("sp", "%72").and("sp", "a").without("sig").without("se");
        assert_eq!(changed.to_string(), "sp=%72&tn=T&sp=a");
    }

    #[test]
    fn times_are_written_as_the_service_reads_them() {
        assert_eq!(iso_of("Sun, 01 Jan 2034 00:05:09 GMT"), "2034-01-01T00:05:09");
        assert_eq!(iso_of("Fri, 31 Dec 1999 23:59:59 GMT"), "1999-12-31T23:59:59");
    }
}
