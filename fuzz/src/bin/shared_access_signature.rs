//! Any query string as a shared access signature, and any fields that the account's owner signs,
//! one per line: what is granted is what the fields say, and a signature counts for its own fields
//! only.

#![no_main]

use http::Request;
use http::request::Parts;
use libfuzzer_sys::fuzz_target;
use tavola_core::table_demands::permits;
use tavola_core::{AccessPolicy, DateTime, EntityKey, Grant, TableName, TableRequest};
use tavola_fuzz::{
    NOW, Opened, account_key, authenticate, check_refused_in_words, led_to_account, read_request,
};
use tavola_protocol::Address;
use tavola_protocol::auth::{AccountSas, TableSas};

fuzz_target!(|data: &[u8]| {
    let query = [b"GET /Tables?", data].concat();
    let Ok((request, address)) = led_to_account(read_request(&query)) else { return };
    check_refused_in_words(&request.into_parts().0, &address);

    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines: Vec<&str> = text.split('\n').collect();
    check_signed(
        table_fields,
        &lines,
        &address,
        |sas| sas.signed(&address.account, account_key()),
        check_table,
    );
    check_signed(
        account_fields,
        &lines,
        &address,
        |sas| sas.signed(&address.account, account_key()),
        |_, _| {},
    );
});

/// Signs the fields of the first lines, then asks with the same signature for fields of which one
/// is another line's.
fn check_signed<S: Clone + Default + PartialEq + std::fmt::Debug>(
    fields: fn(&mut S) -> Vec<&mut String>,
    lines: &[&str],
    address: &Address,
    signed: impl Fn(&S) -> String,
    check: fn(&S, Opened),
) {
    let mut sas = S::default();
    let count = fields(&mut sas).len();
    for (field, line) in fields(&mut sas).into_iter().zip(lines) {
        (*field).clone_from(&(*line).to_owned());
    }
    let query = signed(&sas);
    let Ok(Some(opened)) = authenticate(&asking(&query), address) else { return };
    check(&sas, opened);
    let Some((_, signature)) = query.rsplit_once("sig=") else { return };
    for (index, line) in lines.iter().skip(count).enumerate() {
        let mut other = sas.clone();
        let field = fields(&mut other).swap_remove(index % count);
        // Names of tables have no case.
        if field.eq_ignore_ascii_case(line) {
            continue;
        }
        (*field).clone_from(&(*line).to_owned());
        let query = signed(&other);
        let Some((unsigned, _)) = query.rsplit_once("sig=") else { continue };
        let verdict = authenticate(&asking(&format!("{unsigned}sig={signature}")), address);
        assert!(verdict.is_err(), "the signature of {sas:?} counts for {other:?}");
    }
}

fn asking(query: &str) -> Parts {
    let target = format!("http://127.0.0.1:10002/devstoreaccount1/Tables?{query}");
    Request::get(target).body(()).unwrap_or_default().into_parts().0
}

fn table_fields(sas: &mut TableSas) -> Vec<&mut String> {
    vec![
        &mut sas.version,
        &mut sas.table,
        &mut sas.permissions,
        &mut sas.start,
        &mut sas.expiry,
        &mut sas.policy,
        &mut sas.ip,
        &mut sas.protocol,
        &mut sas.start_partition_key,
        &mut sas.start_row_key,
        &mut sas.end_partition_key,
        &mut sas.end_row_key,
    ]
}

fn account_fields(sas: &mut AccountSas) -> Vec<&mut String> {
    vec![
        &mut sas.version,
        &mut sas.services,
        &mut sas.resource_types,
        &mut sas.permissions,
        &mut sas.start,
        &mut sas.expiry,
        &mut sas.ip,
        &mut sas.protocol,
        &mut sas.encryption_scope,
    ]
}

fn check_table(sas: &TableSas, opened: Opened) {
    match opened {
        Opened::Grant(grant) => {
            assert!(sas.policy.is_empty());
            check_grant(sas, &grant);
        }
        Opened::ByPolicy(signature) => {
            let policy = AccessPolicy {
                id: sas.policy.clone(),
                start: None,
                expiry: None,
                permission: None,
            };
            // The policy says nothing, so all that it grants is in the signature.
            if let Ok(grant) = signature.with_policies(&[policy]) {
                check_grant(sas, &grant);
            }
        }
    }
}

fn check_grant(sas: &TableSas, grant: &Grant) {
    let now = DateTime::from_unix(NOW);
    let time = |text: &str| DateTime::parse(text).expect("what is granted has times");
    assert!(
        now < time(&sas.expiry) && (sas.start.is_empty() || time(&sas.start) <= now),
        "{sas:?}"
    );
    assert!(matches!(sas.protocol.as_str(), "" | "https" | "https,http"), "{sas:?}");
    let reads = |table: &str| {
        let table = TableName::parse(table).expect("what is granted is a table");
        permits(grant, &TableRequest::GetEntity(table, EntityKey::default())).is_ok()
    };
    // The empty key comes before every other.
    let from_the_start = sas.start_partition_key.is_empty();
    assert_eq!(reads(&sas.table), sas.permissions.contains('r') && from_the_start, "{sas:?}");
    assert!(!reads("OtherTable") || sas.table.eq_ignore_ascii_case("OtherTable"), "{sas:?}");
}
