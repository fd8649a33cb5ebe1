//! What bad input in a shared access signature gets: a refusal, nothing told or done, and an
//! endpoint that still serves.

use super::request::percent_encode;
use super::sas::SasQuery;
use super::signer::{base64, signature_of};
use super::table::{Table, keys};
use super::{Case, Endpoint, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("sas_that_is_very_long", &[], long_queries),
    Case::shared("sas_with_very_many_fields", &[], many_fields),
    Case::shared("sas_with_invalid_utf8", &[], invalid_utf8),
    Case::shared("sas_with_broken_escapes", &[], broken_escapes),
    Case::shared("sas_with_empty_fields", &[], empty_fields),
    Case::shared("sas_with_unknown_letters", &[], unknown_letters),
    Case::shared("sas_with_control_characters", &[], control_characters),
    Case::shared("sas_secrets_stay_secret", &[], secrets),
];

const LONG: usize = 20_000;

fn long_queries(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let long = "a".repeat(LONG);
    let serves = || client.get("/Tables?$top=1").send()?.expect_status(200).map(|_| ());
    let good = table.sas("r").sign(endpoint.key());
    // Nothing is wrong with it but its length, which an endpoint may bound.
    table
        .point("p", "r")
        .sas_query(&good.clone().and("x", &long))
        .send()?
        .expect_status_in(&[200, 414, 431])?;
    serves()?;
    for name in ["sig", "sp", "se", "sv", "tn", "si", "sip", "spr", "spk"] {
        table.point("p", "r").sas_query(&good.clone().set(name, &long)).send()?.expect_refusal()?;
        serves()?;
    }
    for name in ["sp", "se", "sv", "tn", "si", "sip", "spr", "spk"] {
        let signed = table.sas("r").with(name, &long);
        let response = table.point("p", "r").sas(&signed).send()?;
        if name == "spk" {
            // No key is that long, but it is a bound like any other; all keys of `p` come after it.
            response.expect_status_in(&[200, 400, 403, 414, 431])?;
        } else {
            response.expect_refusal()?;
        }
        serves()?;
    }
    Ok(())
}

fn many_fields(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let good = table.sas("r").sign(endpoint.key());
    let many = (0..1_000).fold(good.clone(), |query, number| query.and(&format!("x{number}"), "y"));
    table.point("p", "r").sas_query(&many).send()?.expect_status_in(&[200, 414, 431])?;
    for name in ["sig", "sp", "tn"] {
        let many =
            (0..1_000).fold(good.clone(), |query, _| query.clone().and(name, good.sent(name)));
        table.point("p", "r").sas_query(&many).send()?.expect_refusal()?;
    }
    client.get("/Tables?$top=1").send()?.expect_status(200)?;
    Ok(())
}

/// Refused whether the bytes are signed as they are, or as the replacement character that a lax
/// reader makes of them.
fn invalid_utf8(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let (service, account) =
        (table.sas("r"), client.account_sas("o", "r").with("sv", "2021-12-02"));
    for sas in [
        &service,
        &account,
        &service.clone().with("epk", "\u{fffd}"),
        &account.clone().with("ses", "\u{fffd}"),
    ] {
        table.point("p", "r").sas(sas).send()?.expect_status(200)?;
    }
    for escape in ["%FF", "%C3", "%C0%AF", "%ED%A0%80", "%F0%9F%98"] {
        for (sas, names) in [
            (&service, ["spk", "epk", "tn", "si", "se", "sp", "sv"]),
            (&account, ["ses", "ss", "srt", "sip", "se", "sp", "sv"]),
        ] {
            for name in names {
                let marked = sas.clone().with(name, "\u{fffd}");
                let lax = marked.sign(endpoint.key()).set(name, escape);
                let text = marked.string_to_sign();
                let strict =
                    lax.clone().set("sig", &percent_encode(&signed_bytes(endpoint, &text, escape)));
                for query in [lax, strict] {
                    table
                        .point("p", "r")
                        .sas_query(&query)
                        .send()?
                        .expect_status_in(&[400, 403])?;
                }
            }
        }
        let query = service.sign(endpoint.key()).set("sig", escape);
        table.point("p", "r").sas_query(&query).send()?.expect_status_in(&[400, 403])?;
    }
    client.expect_usable_connection()
}

/// The signature of a text in which the bytes of `escape` stand in place of the replacement
/// character.
fn signed_bytes(endpoint: &Endpoint, text: &str, escape: &str) -> String {
    let raw: Vec<_> = escape
        .split('%')
        .skip(1)
        .map(|digits| u8::from_str_radix(digits, 16).expect("two digits"))
        .collect();
    let pieces: Vec<_> = text.split('\u{fffd}').map(str::as_bytes).collect();
    signature_of(endpoint.key(), &pieces.join(raw.as_slice()))
}

fn broken_escapes(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let query = table.sas("r").sign(endpoint.key());
    table.point("p", "r").sas_query(&query).send()?.expect_status(200)?;
    for broken in ["%", "%2", "%zz", "%%", "%u0041", "r%"] {
        for name in ["sig", "sp", "se", "sv", "tn", "spk"] {
            table
                .point("p", "r")
                .sas_query(&query.clone().set(name, broken))
                .send()?
                .expect_status_in(&[400, 403])?;
        }
        let end = format!("{}{broken}", query.sent("sig"));
        table
            .point("p", "r")
            .sas_query(&query.clone().set("sig", &end))
            .send()?
            .expect_status_in(&[400, 403])?;
    }
    client.expect_usable_connection()
}

/// An empty field is signed as an absent one is. What is needed is then missing; what is not may
/// count as absent.
fn empty_fields(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let (service, account) = (table.sas("r"), client.account_sas("o", "r"));
    for sas in [&service, &account] {
        table.point("p", "r").sas(sas).send()?.expect_status(200)?;
    }
    for (sas, needed) in
        [(&service, vec!["sv", "sp", "se", "tn", "sig"]), (&account, vec!["sv", "sp", "se", "sig"])]
    {
        let query = sas.sign(endpoint.key());
        for name in needed {
            table
                .point("p", "r")
                .sas_query(&query.clone().set(name, ""))
                .send()?
                .expect_unauthenticated()?;
        }
        for name in ["st", "si", "sip", "spr", "spk", "srk", "epk", "erk", "ses", "x"] {
            let response = table.point("p", "r").sas_query(&query.clone().and(name, "")).send()?;
            response.expect_status_in(&[200, 403])?;
        }
    }
    let fields = [
        "sv", "tn", "sp", "st", "se", "si", "sip", "spr", "spk", "srk", "epk", "erk", "ss", "srt",
        "sig",
    ];
    for separator in ["=&", "&"] {
        let nothing = fields.join(separator);
        table
            .point("p", "r")
            .with_query(&nothing)
            .anonymous()
            .send()?
            .expect_status_in(&[400, 403])?;
    }
    client.expect_usable_connection()
}

/// Refused or ignored, but a letter that is not known never opens anything.
fn unknown_letters(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let insert = |permissions: &str| {
        table.insert(&keys("p", "new").to_string()).sas(&table.sas(permissions))
    };
    table.point("p", "r").sas(&table.sas("r")).send()?.expect_status(200)?;
    for permissions in ["x", "R", "A", "*", "0", " ", "é", "xyz", "r x", "rr", "rx", "rl", "wdlc"]
    {
        insert(permissions).send()?.expect_status(403)?;
        let read = table.point("p", "r").sas(&table.sas(permissions)).send()?;
        read.expect_status_in(if permissions.contains('r') { &[200, 403] } else { &[403] })?;
    }
    for (types, services) in
        [("x", "t"), ("S", "t"), ("O", "t"), ("o", "T"), ("o", "x"), ("*", "*"), (" ", " ")]
    {
        let sas = client.account_sas(types, "rwdlacup").with("ss", services);
        table.point("p", "r").sas(&sas).send()?.expect_status(403)?;
    }
    for (types, services) in [("oo", "t"), ("o", "tt"), ("ox", "t"), ("o", "tx")] {
        let sas = client.account_sas(types, "rwdlacup").with("ss", services);
        table.point("p", "r").sas(&sas).send()?.expect_status_in(&[200, 403])?;
    }
    table.expect_missing("p", "new")
}

/// A line feed inside a field moves the lines of the text that is signed; no field may so become
/// another.
fn control_characters(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let signed = table.sas("r").range(Some(("q", Some("q"))), Some(("q", Some("q"))));
    table.point("q", "q").sas(&signed).send()?.expect_error(404, "ResourceNotFound")?;
    table.point("p", "r").sas(&signed).send()?.expect_status(403)?;
    let query = signed.sign(endpoint.key());
    // The bounds moved into one field, which then bounds nothing that `p` could be outside of.
    let moved = query.clone().set("spk", "a%0Aq").set("srk", "q").set("epk", "q").without("erk");
    expect_closed(&table, &moved)?;
    expect_closed(&table, &query.clone().set("sp", "r%0A").without("st"))?;
    for control in ["%00", "%0A", "%0D", "%1F", "%7F"] {
        for name in ["se", "sv", "tn", "si", "sip", "spr"] {
            let value =
                String::from_utf8(vec![u8::from_str_radix(&control[1..], 16).expect("two digits")])
                    .expect("control characters are ASCII");
            let sas = table.sas("r").with(name, &format!("{value}r"));
            table.point("p", "r").sas(&sas).send()?.expect_status_in(&[400, 403])?;
        }
    }
    client.expect_usable_connection()
}

fn expect_closed(table: &Table<'_>, query: &SasQuery) -> Outcome {
    table.point("p", "r").sas_query(query).send()?.expect_status_in(&[400, 403])?;
    Ok(())
}

/// Whatever a refusal says, it says neither the key nor a signature that would do.
fn secrets(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let key = base64(endpoint.key());
    for sas in [table.sas("r"), client.account_sas("sco", "r")] {
        table.point("p", "r").sas(&sas).send()?.expect_status(200)?;
        let right = signature_of(endpoint.key(), sas.string_to_sign().as_bytes());
        for accept in ["application/json;odata=nometadata", "application/xml", "*/*"] {
            for path in
                [table.entity("p", "r"), format!("{}?comp=acl", table.path()), "/Tables".to_owned()]
            {
                let query = sas.sign(&[7; 64]);
                let response = client.get(&path).accept(accept).sas_query(&query).send()?;
                response.expect_unauthenticated()?;
                let body = response.text()?;
                ensure!(!body.contains(&key), "the answer contains the account key");
                ensure!(!body.contains(&right), "the answer contains the right signature");
            }
        }
    }
    Ok(())
}
