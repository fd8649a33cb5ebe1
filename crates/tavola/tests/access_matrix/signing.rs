//! Signatures, written from sections 4.1, 4.3 and 4.4 of the protocol reference and sharing nothing
//! with the server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::rows::Range;

/// The version that is signed and spoken.
pub(crate) const VERSION: &str = "2019-02-02";

/// Base64 of the HMAC-SHA256 of a text under a key in base64.
pub(crate) fn signature(key: &str, text: &str) -> String {
    let key = STANDARD.decode(key).expect("keys of the test are base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// `/account`, the path as sent, and `?comp=` if the query has it.
pub(crate) fn canonicalized_resource(account: &str, target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let comp = query.split('&').find_map(|parameter| parameter.strip_prefix("comp="));
    let comp = comp.map(|value| format!("?comp={value}")).unwrap_or_default();
    format!("/{account}{path}{comp}")
}

/// The fields of a signature in a URL, absent ones empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct SasFields {
    pub(crate) sp: String,
    pub(crate) st: &'static str,
    pub(crate) se: &'static str,
    pub(crate) sip: &'static str,
    pub(crate) spr: &'static str,
}

/// What only a table's signature has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableFields {
    pub(crate) tn: &'static str,
    pub(crate) si: &'static str,
    pub(crate) range: Range,
}

/// Signs what `fields` say and sends `sent` in place of their letters.
pub(crate) fn table_sas(
    account: &str,
    key: &str,
    fields: &SasFields,
    table: &TableFields,
    sent: &str,
) -> String {
    let SasFields { sp, st, se, sip, spr } = fields;
    let TableFields { tn, si, range: Range { spk, srk, epk, erk, .. } } = table;
    let resource = format!("/table/{account}/{}", tn.to_lowercase());
    let lines: [&str; 12] = [sp, st, se, &resource, si, sip, spr, VERSION, spk, srk, epk, erk];
    let sig = signature(key, &lines.join("\n"));
    let (of_table, of_all) =
        ([("tn", *tn), ("si", si), ("spk", spk), ("srk", srk), ("epk", epk), ("erk", erk)], fields);
    query_string(of_table.into_iter().chain(common(of_all, sent, &sig)))
}

/// The same for an account: services and resource types.
pub(crate) fn account_sas(
    account: &str,
    key: &str,
    fields: &SasFields,
    ss: &str,
    srt: &str,
    sent: &str,
) -> String {
    let SasFields { sp, st, se, sip, spr } = fields;
    let lines: [&str; 10] = [account, sp, ss, srt, st, se, sip, spr, VERSION, ""];
    let sig = signature(key, &lines.join("\n"));
    query_string([("ss", ss), ("srt", srt)].into_iter().chain(common(fields, sent, &sig)))
}

fn common<'a>(fields: &'a SasFields, sent: &'a str, sig: &'a str) -> [(&'static str, &'a str); 7] {
    let SasFields { st, se, sip, spr, .. } = fields;
    [
        ("sv", VERSION),
        ("sp", sent),
        ("st", st),
        ("se", se),
        ("sip", sip),
        ("spr", spr),
        ("sig", sig),
    ]
}

fn query_string<'a>(fields: impl Iterator<Item = (&'static str, &'a str)>) -> String {
    let given = fields.filter(|(_, value)| !value.is_empty());
    given
        .map(|(name, value)| format!("{name}={}", percent_encoded(value)))
        .collect::<Vec<_>>()
        .join("&")
}

/// Everything but letters, digits and `-._` is escaped.
pub(crate) fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{SasFields, TableFields, account_sas, percent_encoded, signature, table_sas};
    use crate::rows::Range;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const ACCOUNT: &str = "devstoreaccount1";

    /// The reference's own vectors: number 2 of section 4.1, and those of 4.3 and 4.4.
    #[test]
    fn vectors_of_the_reference() {
        let text = "GET\n\n\nMon, 16 Nov 2026 00:05:27 GMT\n\
                    /devstoreaccount1/devstoreaccount1/PyTab1(PartitionKey='p',RowKey='r1')";
        assert_eq!(signature(KEY, text), "jMVm2k+XY3w0XNaKHuTO/uV2jps9dNtdC6MIoFObAV0=");
        let range = Range { name: "", spk: "a", srk: "a", epk: "z", erk: "z" };
        let fields = |sp: &str| SasFields {
            sp: sp.to_owned(),
            se: "2034-01-01T00:00:00Z",
            ..SasFields::default()
        };
        let table = TableFields { tn: "PyTab1", si: "", range };
        let of_table = table_sas(ACCOUNT, KEY, &fields("r"), &table, "r");
        assert!(
            of_table.contains(&percent_encoded("yYCKJ75BJhpNHxF0Tikuiyi0NwBtXDR8kZLxjkeiHAc=")),
            "{of_table}"
        );
        let of_account = account_sas(ACCOUNT, KEY, &fields("rl"), "t", "soc", "rl");
        assert!(
            of_account.contains(&percent_encoded("1Esib5eEEXopA63uMmMpqG25O9R6XZoln6SkLCC/Z+I=")),
            "{of_account}"
        );
    }
}
