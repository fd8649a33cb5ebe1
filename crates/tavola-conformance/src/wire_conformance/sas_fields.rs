//! Section 16.6, second part: the time frame of a shared access signature, fields that are missing,
//! malformed or given twice, and what the answer tells about it.

use super::http::Response;
use super::request::{Client, percent_encode};
use super::sas::{Sas, local_minutes_ahead, minutes_ahead};
use super::signer::signature;
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("sas_that_expired", &["68", "G158"], expired),
    Case::shared("sas_not_yet_valid", &["69"], not_yet_valid),
    Case::shared("sas_times_in_all_spellings", &["68", "69"], time_spellings),
    Case::shared("sas_times_with_offset", &["68", "69"], time_offsets),
    Case::shared("sas_times_that_are_none", &[], malformed_times),
    Case::shared("sas_without_permissions_or_end", &["G158"], missing_permissions_or_end),
    Case::shared("sas_without_a_needed_field", &[], missing_fields),
    Case::shared("sas_versions_that_are_none", &[], malformed_versions),
    Case::shared("sas_fields_given_twice", &[], fields_twice),
    Case::shared("sas_refusals_tell_why", &[], details),
];

const DAY: i64 = 24 * 60;

/// One SAS of each kind that may read the entity.
fn both_kinds(client: &Client<'_>, table: &Table<'_>) -> [Sas; 2] {
    [table.sas("r"), client.account_sas("o", "r")]
}

fn read(table: &Table<'_>, sas: &Sas) -> Result<Response, Failure> {
    table.point("p", "r").sas(sas).send()
}

fn expired(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        read(&table, &sas.clone().with("se", &minutes_ahead(5)))?.expect_status(200)?;
        for minutes in [-5, -DAY, -3_650 * DAY] {
            let expired = sas.clone().with("se", &minutes_ahead(minutes));
            read(&table, &expired)?.expect_error(403, "AuthenticationFailed")?;
            let with_start = expired.with("st", &minutes_ahead(minutes - 60));
            read(&table, &with_start)?.expect_error(403, "AuthenticationFailed")?;
        }
        for se in ["9999-12-31T23:59:59Z", "9999-12-31", "2100-02-28T00:00:00.0000000Z"] {
            read(&table, &sas.clone().with("se", se))?.expect_status(200)?;
        }
    }
    let write = table.sas("raud").with("se", &minutes_ahead(-5));
    table
        .insert(&keys("p", "new").to_string())
        .sas(&write)
        .send()?
        .expect_error(403, "AuthenticationFailed")?;
    table.expect_missing("p", "new")
}

fn not_yet_valid(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        let sas = sas.with("se", &minutes_ahead(2 * DAY));
        for minutes in [-5, -DAY, -3_650 * DAY] {
            read(&table, &sas.clone().with("st", &minutes_ahead(minutes)))?.expect_status(200)?;
        }
        for minutes in [5, DAY, 3 * DAY, 3_650 * DAY] {
            read(&table, &sas.clone().with("st", &minutes_ahead(minutes)))?
                .expect_error(403, "AuthenticationFailed")?;
        }
        // An end before the start leaves no time at all.
        let reversed = sas.with("st", &minutes_ahead(-5)).with("se", &minutes_ahead(-10));
        read(&table, &reversed)?.expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

/// A time so many minutes ahead in each spelling that the reference lists; the first says only the
/// day.
fn spellings(minutes: i64) -> Vec<String> {
    let second = local_minutes_ahead(minutes);
    let (day, minute) = (&second[..10], &second[..16]);
    let mut all = vec![day.to_owned(), format!("{minute}Z"), format!("{second}Z")];
    all.extend((1..=7).map(|digits| format!("{second}.{}Z", &"1234567"[..digits])));
    all.extend(
        ["+00:00", "-00:00"]
            .iter()
            .flat_map(|zone| [format!("{minute}{zone}"), format!("{second}{zone}")]),
    );
    all.push(format!("{second}.1234567+00:00"));
    all
}

fn time_spellings(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        for (past, future) in spellings(-2 * DAY).iter().zip(spellings(2 * DAY).iter()) {
            read(&table, &sas.clone().with("st", past).with("se", future))?.expect_status(200)?;
            read(&table, &sas.clone().with("se", past))?
                .expect_error(403, "AuthenticationFailed")?;
            let far = sas.clone().with("se", &minutes_ahead(4 * DAY)).with("st", future);
            read(&table, &far)?.expect_error(403, "AuthenticationFailed")?;
        }
    }
    Ok(())
}

fn time_offsets(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        // What clocks east of Greenwich show is later than UTC.
        for (ahead, zone, valid) in [
            (60, "+02:00", false),
            (60, "+00:30", true),
            (180, "+02:00", true),
            (-60, "-02:00", true),
            (-60, "-00:30", false),
            (23 * 60 + 30, "+23:59", false),
            (-23 * 60 - 30, "-23:59", true),
        ] {
            let sas = sas.clone().with("se", &format!("{}{zone}", local_minutes_ahead(ahead)));
            let response = read(&table, &sas)?;
            if valid {
                response.expect_status(200)?;
            } else {
                response.expect_error(403, "AuthenticationFailed")?;
            }
        }
        let started = sas.clone().with("st", &format!("{}+02:00", local_minutes_ahead(60)));
        read(&table, &started)?.expect_status(200)?;
        let coming = sas.with("st", &format!("{}-02:00", local_minutes_ahead(-60)));
        read(&table, &coming)?.expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

const NO_TIMES: [&str; 19] = [
    "tomorrow",
    "2034",
    "2034-01",
    "2034-1-1",
    "2034-13-01",
    "2034-00-10",
    "2034-02-30",
    "2034-01-01T",
    "2034-01-01T25:00Z",
    "2034-01-01T00:60Z",
    "2034-01-01T00:00:61Z",
    "2034-01-01T00:00:00.Z",
    "2034-01-01T00:00:00.12345678Z",
    "2034-01-01T00:00:00+24:00",
    "2034-01-01T00:00:00+1:00",
    " 2034-01-01T00:00:00Z",
    "2034-01-01T00:00:00Z\n",
    "99999-01-01T00:00:00Z",
    "Sun, 01 Jan 2034 00:00:00 GMT",
];

fn malformed_times(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        read(&table, &sas)?.expect_status(200)?;
        for time in NO_TIMES {
            read(&table, &sas.clone().with("se", time))?
                .expect_error(403, "AuthenticationFailed")?;
            // The same in the past, which a start would be.
            let start = time.replace("2034", "2004");
            read(&table, &sas.clone().with("st", &start))?
                .expect_error(403, "AuthenticationFailed")?;
        }
    }
    client.expect_usable_connection()
}

fn missing_permissions_or_end(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        read(&table, &sas)?.expect_status(200)?;
        for name in ["sp", "se"] {
            read(&table, &sas.clone().without(name))?.expect_error(403, "AuthenticationFailed")?;
            // An empty text is signed as no text is.
            read(&table, &sas.clone().with(name, ""))?.expect_error(403, "AuthenticationFailed")?;
        }
        read(&table, &sas.clone().without("sp").without("se"))?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

fn missing_fields(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let [service, account] = both_kinds(&client, &table);
    for (sas, names) in [(&service, ["sv", "sig"]), (&account, ["sv", "sig"])] {
        read(&table, sas)?.expect_status(200)?;
        let query = sas.sign(endpoint.key());
        for name in names {
            for query in [query.clone().without(name), query.clone().set(name, "")] {
                table
                    .point("p", "r")
                    .sas_query(&query)
                    .send()?
                    .expect_error(403, "AuthenticationFailed")?;
            }
        }
        read(&table, &sas.clone().without("sv"))?.expect_error(403, "AuthenticationFailed")?;
    }
    // Signed for the table of the URL, which it does not name.
    for resource in [service.resource("/table"), service.resource("")] {
        let unnamed = service.clone().without("tn");
        let query = unnamed.sign_text(endpoint.key(), &unnamed.service_text(&resource, true));
        table
            .point("p", "r")
            .sas_query(&query)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    for name in ["ss", "srt"] {
        read(&table, &account.clone().without(name))?.expect_status(403)?;
        read(&table, &account.clone().with(name, ""))?.expect_status(403)?;
    }
    read(&table, &account.without("ss").without("srt"))?
        .expect_error(403, "AuthenticationFailed")?;
    client.expect_usable_connection()
}

fn malformed_versions(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let [service, account] = both_kinds(&client, &table);
    for sas in [&service, &account] {
        read(&table, &sas.clone().with("sv", "2015-04-05"))?.expect_status(200)?;
    }
    let none = [
        "nonsense",
        "2019-2-2",
        "20190202",
        "2019-02-02T00:00:00Z",
        " 2019-02-02",
        "2019",
        "9999",
        "é",
    ];
    for version in none.into_iter().chain(["2011-08-18", "2009-09-19"]) {
        let service = service.clone().with("sv", version);
        // Whichever text the endpoint would choose for such a version, none is accepted.
        for text in [
            service.string_to_sign(),
            service.service_text(&service.resource("/table"), true),
            service.service_text(&service.resource("/table"), false),
            service.service_text(&service.resource(""), false),
        ] {
            let query = service.sign_text(endpoint.key(), &text);
            table
                .point("p", "r")
                .sas_query(&query)
                .send()?
                .expect_error(403, "AuthenticationFailed")?;
        }
    }
    // There were no account SAS before 2015-04-05.
    for version in none.into_iter().chain(["2012-02-12", "2014-02-14", "2015-02-21"]) {
        let account = account.clone().with("sv", version);
        for with_scope in [true, false] {
            let query = account.sign_text(endpoint.key(), &account.account_text(with_scope));
            table
                .point("p", "r")
                .sas_query(&query)
                .send()?
                .expect_error(403, "AuthenticationFailed")?;
        }
    }
    client.expect_usable_connection()
}

/// Two equal fields are as ambiguous as two different ones, in whatever case their names are
/// written.
fn fields_twice(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        let sas = sas
            .with("st", &minutes_ahead(-60))
            .with("sip", "0.0.0.0-255.255.255.255")
            .with("spr", "https,http");
        let sas = if sas.names().contains(&"tn".to_owned()) {
            sas.range(Some(("a", Some("a"))), Some(("z", Some("z"))))
        } else {
            sas
        };
        let query = sas.sign(endpoint.key());
        table.point("p", "r").sas_query(&query).send()?.expect_status(200)?;
        for name in sas.names().iter().map(String::as_str).chain(["sig"]) {
            let sent = query.sent(name).to_owned();
            let escaped = format!("%{:02X}{}", name.as_bytes()[0], &name[1..]);
            for again in [name, &name.to_uppercase(), &escaped] {
                for value in [sent.as_str(), "", "x"] {
                    let twice = query.clone().and(again, value);
                    for query in [twice.clone(), twice.reversed()] {
                        table
                            .point("p", "r")
                            .sas_query(&query)
                            .send()?
                            .expect_error(403, "AuthenticationFailed")?;
                    }
                }
            }
        }
    }
    client.expect_usable_connection()
}

const PROPERTIES: &str = "/?restype=service&comp=properties";

/// XML answers have room for the reason. The texts follow what clients of the service report.
fn details(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sas = client.account_sas("s", "r");
    client.get(PROPERTIES).sas(&sas).send()?.expect_status(200)?;
    let wrong = percent_encode(&signature(&[7; 64], &sas.string_to_sign()));
    let wrong = sas.sign(endpoint.key()).set("sig", &wrong);
    let response = client.get(PROPERTIES).sas_query(&wrong).send()?;
    expect_detail(&response, "Signature did not match. String to sign used was ")?;
    response.expect_in_body(sas.string_to_sign().trim_end())?;
    response.expect_not_in_body(&signature(endpoint.key(), &sas.string_to_sign()))?;
    for (sas, detail) in [
        (
            sas.clone().with("se", &minutes_ahead(-5)),
            "Signature not valid in the specified time frame: ",
        ),
        (
            sas.clone().with("st", &minutes_ahead(5)),
            "Signature not valid in the specified time frame: ",
        ),
        (sas.clone().without("sp"), "sp is mandatory. Cannot be empty"),
        (sas.clone().without("se"), "se is mandatory. Cannot be empty"),
    ] {
        expect_detail(&client.get(PROPERTIES).sas(&sas).send()?, detail)?;
    }
    // The signature comes first: of a token that is not the owner's nothing else is told.
    let expired = sas.with("se", &minutes_ahead(-5)).sign(&[7; 64]);
    expect_detail(&client.get(PROPERTIES).sas_query(&expired).send()?, "Signature did not match. ")
}

fn expect_detail(response: &Response, text: &str) -> Outcome {
    response.expect_xml_error(403, "AuthenticationFailed")?;
    let detail = response.xml()?.split("<AuthenticationErrorDetail>").nth(1).unwrap_or_default();
    response.ensure(
        detail.starts_with(text),
        &format!("expected an AuthenticationErrorDetail that begins {text:?}"),
    )?;
    Ok(())
}
