//! Section 16.6, first part: what a shared access signature covers, and how it is spelled in a URL.
//! The vectors expire in 2034 and later, so where the endpoint is the development account they are
//! sent as they are printed.

use super::request::percent_encode;
use super::sas::{Sas, SasQuery, minutes_ahead};
use super::signer::{DEVELOPMENT_KEY, base64};
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("sas_service_vector", &["61"], service_vector),
    Case::shared("sas_account_vectors", &["62", "67"], account_vectors),
    Case::shared("sas_with_either_key", &["61", "62"], either_key),
    Case::shared("sas_table_name_in_any_case", &["63"], table_name_case),
    Case::shared("sas_fields_are_decoded", &["64"], decoded_fields),
    Case::shared("sas_signature_spellings", &["64"], signature_spellings),
    Case::shared("sas_names_and_neighbours", &[], names_and_neighbours),
    Case::shared("sas_old_versions_name_no_service", &["65"], old_resource),
    Case::shared("sas_old_versions_sign_no_address", &["66"], old_fields),
    Case::shared("sas_old_versions_have_no_address", &["66"], old_versions_with_address),
    Case::shared("sas_account_signs_the_scope", &["67"], account_scope),
    Case::shared("sas_changed_after_signing", &["70"], changed_service_fields),
    Case::shared("sas_account_changed_after_signing", &["70"], changed_account_fields),
    Case::shared("sas_on_the_secondary", &[], secondary),
];

fn expect_opens(table: &Table<'_>, query: &SasQuery) -> Outcome {
    table.point("p", "r").sas_query(query).send()?.expect_status(200)?;
    Ok(())
}

fn expect_unauthenticated(table: &Table<'_>, query: &SasQuery) -> Outcome {
    table.point("p", "r").sas_query(query).send()?.expect_unauthenticated()?;
    Ok(())
}

/// Elsewhere the vectors have other signatures, and only their shapes can be asked.
fn check_vector(endpoint: &Endpoint, query: &SasQuery, signature: &str) -> Outcome {
    let development =
        endpoint.account() == "devstoreaccount1" && base64(endpoint.key()) == DEVELOPMENT_KEY;
    ensure!(
        !development || query.sent("sig") == percent_encode(signature),
        "the suite signs {query}"
    );
    Ok(())
}

fn service_vector(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    if client.create_table("PyTab1").send()?.status != 201 {
        return Err(Failure::skipped("the table of the vector, PyTab1, exists already"));
    }
    let table = client.existing_table("PyTab1");
    table.add_all(&[keys("Z", "r"), keys("a", "a"), keys("z", "z")])?;
    let sas = table
        .sas("r")
        .with("se", "2034-01-01T00:00:00Z")
        .range(Some(("a", Some("a"))), Some(("z", Some("z"))));
    let query = sas.sign(endpoint.key());
    check_vector(endpoint, &query, "yYCKJ75BJhpNHxF0Tikuiyi0NwBtXDR8kZLxjkeiHAc=")?;
    table.query("").sas_query(&query).send()?.expect_status(200)?.expect_row_count(2)?;
    table.query("").sas_query(&query.reversed()).send()?.expect_status(200)?.expect_row_count(2)?;
    Ok(())
}

fn account_vectors(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let read_and_list = client.account_sas("soc", "rl").with("se", "2034-01-01T00:00:00Z");
    let common = client
        .account_sas("sco", "rwdlacup")
        .with("ss", "bqt")
        .with("se", "2036-01-01T00:00:00Z")
        .with("spr", "https,http");
    for (sas, signature) in [
        (read_and_list, "1Esib5eEEXopA63uMmMpqG25O9R6XZoln6SkLCC/Z+I="),
        (common.clone().with("sv", "2021-12-02"), "rphwi2vP5dA19W3swRYAUo81geOpjyYeqpm92lY+ZOU="),
        (common.with("sv", "2018-11-09"), "Jlj50ac5zwhaxFkcMNaeOpGfjgoFP0u3/FuEoJlv81w="),
    ] {
        let query = sas.sign(endpoint.key());
        check_vector(endpoint, &query, signature)?;
        expect_opens(&table, &query)?;
        client.get("/Tables?$top=1").sas_query(&query).send()?.expect_status(200)?;
        // As Python sends it.
        expect_opens(&table, &query.clone().set("sig", &query.sent("sig").replace("%2F", "/")))?;
    }
    Ok(())
}

fn either_key(endpoint: &Endpoint) -> Outcome {
    let second_key = endpoint.second_key()?;
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in [table.sas("r"), client.account_sas("o", "r")] {
        expect_opens(&table, &sas.sign(endpoint.key()))?;
        expect_opens(&table, &sas.sign(second_key))?;
        expect_unauthenticated(&table, &sas.sign(&[7; 64]))?;
        expect_unauthenticated(&table, &sas.sign(b""))?;
    }
    Ok(())
}

fn table_name_case(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let name = format!("Wire{}", endpoint.fresh_name().to_uppercase());
    let table = client.table_named(&name)?;
    table.add(&keys("p", "r"))?;
    for spelled in [name.clone(), name.to_lowercase(), name.to_uppercase()] {
        let sas = table.sas("r").with("tn", &spelled);
        for addressed in [name.clone(), name.to_lowercase(), name.to_uppercase()] {
            client
                .get(&format!("/{addressed}(PartitionKey='p',RowKey='r')"))
                .sas(&sas)
                .send()?
                .expect_status(200)?;
        }
        if spelled != name.to_lowercase() {
            let as_spelled = format!("/table/{}/{spelled}", endpoint.account());
            let text = sas.service_text(&as_spelled, true);
            expect_unauthenticated(&table, &sas.sign_text(endpoint.key(), &text))?;
        }
    }
    Ok(())
}

/// Escapes every byte, also those that need none.
fn escaped(sent: &str) -> String {
    // Each `%XX` of what is sent stands for one byte already.
    let mut bytes = sent.bytes();
    let mut all = String::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits: Vec<_> = bytes.by_ref().take(2).collect();
            all.push_str(&format!("%{}", String::from_utf8_lossy(&digits).to_lowercase()));
        } else {
            all.push_str(&format!("%{byte:02x}"));
        }
    }
    all
}

fn decoded_fields(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let key = "a é+%41&=日\u{1f600}'";
    table.add(&keys(key, key))?;
    let sas = table.sas("r").range(Some((key, Some(key))), Some((key, Some(key))));
    let query = sas.sign(endpoint.key());
    let plain_space = query.spelled(str::to_owned, |sent| sent.replace("%20", "+"));
    let escaped_names = query.spelled(escaped, escaped);
    for query in [&query, &query.spelled(str::to_owned, escaped), &escaped_names, &plain_space] {
        table.point(key, key).sas_query(query).send()?.expect_status(200)?;
        table.query("").sas_query(query).send()?.expect_status(200)?.expect_row_count(1)?;
    }
    // A signature over the fields as they are sent is none.
    let as_sent = ["spk", "srk", "epk", "erk", "se"]
        .iter()
        .fold(sas.clone(), |sas, name| sas.with(name, query.sent(name)))
        .string_to_sign();
    table
        .point(key, key)
        .sas_query(&sas.sign_text(endpoint.key(), &as_sent))
        .send()?
        .expect_unauthenticated()?;
    Ok(())
}

/// A SAS whose signature has both characters that URLs treat specially.
fn sas_with_special_signature(endpoint: &Endpoint, table: &Table<'_>) -> Result<SasQuery, Failure> {
    (0..10_000)
        .map(|minute| table.sas("r").with("se", &minutes_ahead(60 + minute)).sign(endpoint.key()))
        .find(|query| query.sent("sig").contains("%2F") && query.sent("sig").contains("%2B"))
        .ok_or_else(|| Failure::mismatch("no signature has a slash and a plus sign"))
}

fn signature_spellings(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let query = sas_with_special_signature(endpoint, &table)?;
    let signature = query.sent("sig").to_owned();
    for accepted in [
        signature.clone(),
        signature.replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
        signature.replace("%2F", "/"),
        signature.replace("%3D", "="),
        escaped(&signature),
    ] {
        expect_opens(&table, &query.clone().set("sig", &accepted))?;
    }
    for refused in [
        // A plus sign in a query is a space.
        signature.replace("%2B", "+"),
        signature.replace("%2B", "%20"),
        signature.replace('%', "%25"),
        percent_encode(&percent_encode(&signature)),
        format!("{signature}%20"),
        format!("%20{signature}"),
        format!("{signature}{signature}"),
        signature.to_lowercase(),
        signature.replace("%2F", "_").replace("%2B", "-"),
        signature[1..].to_owned(),
        "AAAA".to_owned(),
        "not%20base64!".to_owned(),
        String::new(),
    ] {
        expect_unauthenticated(&table, &query.clone().set("sig", &refused))?;
    }
    client.expect_usable_connection()
}

fn names_and_neighbours(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in [table.sas("r"), client.account_sas("o", "r")] {
        let query = sas.sign(endpoint.key());
        expect_opens(&table, &query.spelled(str::to_uppercase, str::to_owned))?;
        for (name, sent) in
            [("x", "y"), ("timeout", "20"), ("api-version", "2019-02-02"), ("x", "")]
        {
            expect_opens(&table, &query.clone().and(name, sent))?;
        }
        table
            .query("$top=5&$select=RowKey")
            .sas_query(&query)
            .send()?
            .expect_status(200)?
            .expect_row_count(1)?;
        // A SAS needs no date, and its own version stands in for the header's.
        let bare = table
            .point("p", "r")
            .without("x-ms-date")
            .without("x-ms-version")
            .without("DataServiceVersion");
        bare.sas_query(&query).send()?.expect_status(200)?;
    }
    Ok(())
}

fn old_resource(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for (version, service, other) in [
        ("2012-02-12", "", "/table"),
        ("2013-08-15", "", "/table"),
        ("2014-02-14", "", "/table"),
        ("2015-02-21", "/table", ""),
        ("2015-04-05", "/table", ""),
        ("2019-02-02", "/table", ""),
    ] {
        let sas = table.sas("r").with("sv", version);
        let with_address = version >= "2015-04-05";
        let sign = |service: &str| {
            sas.sign_text(endpoint.key(), &sas.service_text(&sas.resource(service), with_address))
        };
        expect_opens(&table, &sign(service))?;
        expect_unauthenticated(&table, &sign(other))?;
    }
    Ok(())
}

fn old_fields(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for (version, with_address) in [
        ("2012-02-12", false),
        ("2014-02-14", false),
        ("2015-02-21", false),
        ("2015-04-05", true),
        ("2021-12-02", true),
    ] {
        let sas = table
            .sas("r")
            .with("sv", version)
            .range(Some(("p", Some("a"))), Some(("p", Some("z"))));
        let resource = sas.resource(if version >= "2015-02-21" { "/table" } else { "" });
        let sign = |with_address| {
            sas.sign_text(endpoint.key(), &sas.service_text(&resource, with_address))
        };
        expect_opens(&table, &sign(with_address))?;
        expect_unauthenticated(&table, &sign(!with_address))?;
    }
    Ok(())
}

/// The old text does not cover them, so the holder of such a SAS could add, change or drop them.
fn old_versions_with_address(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for version in ["2013-08-15", "2015-02-21"] {
        let query = table.sas("r").with("sv", version).sign(endpoint.key());
        expect_opens(&table, &query)?;
        expect_unauthenticated(&table, &query.clone().and("sip", "0.0.0.0-255.255.255.255"))?;
        expect_unauthenticated(&table, &query.and("spr", "https,http"))?;
    }
    Ok(())
}

fn account_scope(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for (version, with_scope) in [
        ("2015-04-05", false),
        ("2018-11-09", false),
        ("2020-10-02", false),
        ("2020-12-06", true),
        ("2021-12-02", true),
    ] {
        let sas = client.account_sas("o", "r").with("sv", version);
        let sign = |with_scope| sas.sign_text(endpoint.key(), &sas.account_text(with_scope));
        expect_opens(&table, &sign(with_scope))?;
        expect_unauthenticated(&table, &sign(!with_scope))?;
    }
    let scoped = client
        .account_sas("o", "r")
        .with("sv", "2020-12-06")
        .with("ses", "scope")
        .sign(endpoint.key());
    expect_opens(&table, &scoped)?;
    expect_unauthenticated(&table, &scoped.clone().set("ses", "other"))?;
    expect_unauthenticated(&table, &scoped.without("ses"))?;
    // The last line feed belongs to the text.
    let sas = client.account_sas("o", "r");
    let text = sas.string_to_sign();
    expect_unauthenticated(&table, &sas.sign_text(endpoint.key(), text.trim_end()))
}

/// Each field changed, and each field left out, with the signature of the original.
fn expect_each_change_refused(
    table: &Table<'_>,
    query: &SasQuery,
    changes: &[(&str, &str)],
) -> Outcome {
    expect_opens(table, query)?;
    for (name, sent) in changes {
        expect_unauthenticated(table, &query.clone().set(name, sent))?;
        expect_unauthenticated(table, &query.clone().without(name))?;
    }
    expect_unauthenticated(table, &query.clone().without("sig"))?;
    expect_opens(table, query)
}

fn changed_service_fields(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let other = client.table_with_entity()?;
    let sas = table
        .sas("ra")
        .with("st", &minutes_ahead(-60))
        .with("sip", "0.0.0.0-255.255.255.255")
        .with("spr", "https,http")
        .range(Some(("a", Some("a"))), Some(("z", Some("z"))));
    let query = sas.sign(endpoint.key());
    let (earlier, later) =
        (percent_encode(&minutes_ahead(-120)), percent_encode(&minutes_ahead(120)));
    expect_each_change_refused(
        &table,
        &query,
        &[
            ("sp", "raud"),
            ("sp", "ar"),
            ("sp", "r"),
            ("st", &earlier),
            ("se", &later),
            ("sv", "2018-11-09"),
            ("tn", other.name()),
            ("sip", "0.0.0.0-255.255.255.254"),
            ("spr", "https%2Chttp%2C"),
            ("spk", "A"),
            ("srk", "A"),
            ("epk", "zz"),
            ("erk", "zz"),
        ],
    )?;
    for (name, sent) in [("si", "policy"), ("sp", "raud")] {
        expect_unauthenticated(&table, &query.clone().set(name, sent))?;
    }
    // Renaming the table does not carry the signature over to it.
    other
        .point("p", "r")
        .sas_query(&query.clone().set("tn", other.name()))
        .send()?
        .expect_unauthenticated()?;
    // Nor can it be taken for an account's.
    expect_unauthenticated(&table, &query.and("ss", "t").and("srt", "sco"))
}

fn changed_account_fields(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let sas = client
        .account_sas("o", "r")
        .with("sv", "2021-12-02")
        .with("st", &minutes_ahead(-60))
        .with("sip", "0.0.0.0-255.255.255.255")
        .with("spr", "https,http");
    let (earlier, later) =
        (percent_encode(&minutes_ahead(-120)), percent_encode(&minutes_ahead(120)));
    let query = sas.sign(endpoint.key());
    expect_opens(&table, &query)?;
    for (name, sent) in [
        ("sp", "rwdlacup"),
        ("ss", "bqtf"),
        ("srt", "sco"),
        ("st", &earlier),
        ("se", &later),
        ("sip", "0.0.0.0-255.255.255.254"),
        ("spr", "https%2Chttp%2C"),
        ("sv", "2022-11-02"),
        ("ses", "scope"),
    ] {
        expect_unauthenticated(&table, &query.clone().set(name, sent))?;
    }
    for name in ["sp", "st", "se", "sip", "spr", "sv", "sig"] {
        expect_unauthenticated(&table, &query.clone().without(name))?;
    }
    // Of another account, with the right key of this one.
    let foreign = Sas::account("otheraccount", "o", "r");
    expect_unauthenticated(&table, &foreign.sign(endpoint.key()))
}

/// The secondary's address names another account; what is signed is the primary.
fn secondary(endpoint: &Endpoint) -> Outcome {
    endpoint.require_path_style()?;
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let secondary = format!("{}-secondary", endpoint.account());
    let target = format!("/{secondary}{}", table.entity("p", "r"));
    let read = || client.get("").target(&target);
    if read().send()?.status == 403 {
        return Err(Failure::skipped("the endpoint has no secondary"));
    }
    for sas in [table.sas("r"), client.account_sas("o", "r")] {
        read().sas(&sas).send()?.expect_status(200)?;
    }
    for sas in [Sas::service(&secondary, table.name(), "r"), Sas::account(&secondary, "o", "r")] {
        read().sas(&sas).send()?.expect_unauthenticated()?;
    }
    Ok(())
}
