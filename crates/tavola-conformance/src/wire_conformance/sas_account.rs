//! Section 16.6, fourth part: what a shared access signature for the account allows; from where and
//! over what either kind may be used; and which of several reasons is told.

use std::net::{IpAddr, Ipv4Addr};

use super::check::DenialKind;
use super::request::{Client, Request};
use super::sas::{Sas, minutes_ahead};
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("account_sas_for_other_services", &["79"], other_services),
    Case::shared("account_sas_resource_types", &["80"], resource_types),
    Case::shared("account_sas_permissions", &["80"], permissions),
    Case::shared("account_sas_manages_tables", &["80"], manages_tables),
    Case::shared("account_sas_lists_tables_by_either_type", &[], lists_tables),
    Case::shared("account_sas_letters_of_all_services", &[], foreign_letters),
    Case::shared("account_sas_reads_stats", &[], stats),
    Case::shared("account_sas_does_not_touch_the_acl", &[], no_acl),
    Case::shared("account_sas_uses_no_policy", &[], no_policy),
    Case::shared("sas_for_https", &["81"], https_only),
    Case::shared("sas_for_other_addresses", &["82"], source_address),
    Case::shared("sas_address_ranges", &["82"], address_ranges),
    Case::shared("sas_reasons_have_an_order", &[], order),
];

const EVERY_LETTER: &str = "rwdlacup";
const PROPERTIES: &str = "/?restype=service&comp=properties";
/// Groups that are not sent keep their values, so this changes nothing.
const NO_PROPERTIES: &str = "<StorageServiceProperties></StorageServiceProperties>";

fn other_services(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for services in ["b", "q", "f", "bqf"] {
        let sas = client.account_sas("sco", EVERY_LETTER).with("ss", services);
        for request in [
            table.point("p", "r"),
            table.query(""),
            table.insert(&keys("p", "new").to_string()),
            client.get("/Tables"),
            client.create_table(&endpoint.fresh_name()),
            client.get(PROPERTIES),
        ] {
            request.sas(&sas).send()?.expect_denied(DenialKind::Service)?;
        }
    }
    for services in ["t", "bqtf", "tb", "ftqb"] {
        let sas = client.account_sas("sco", EVERY_LETTER).with("ss", services);
        table.point("p", "r").sas(&sas).send()?.expect_status(200)?;
    }
    table.expect_missing("p", "new")
}

/// One operation with the resource types and the permissions that allow it: any one of each.
struct Action {
    name: &'static str,
    types: &'static str,
    permissions: &'static [&'static str],
    status: u16,
    request: for<'c> fn(&'c Client<'c>, &'c Table<'c>, &str) -> Request<'c>,
}

/// Each writes to a row of its own, or to the entity `p`, `r`, which stays.
const ACTIONS: [Action; 11] = [
    Action {
        name: "query tables",
        types: "sc",
        permissions: &["l"],
        status: 200,
        request: |client, _, _| client.get("/Tables?$top=1"),
    },
    Action {
        name: "get table",
        types: "sc",
        permissions: &["l"],
        status: 200,
        request: |client, table, _| client.get(&format!("/Tables('{}')", table.name())),
    },
    Action {
        name: "get properties",
        types: "s",
        permissions: &["r"],
        status: 200,
        request: |client, _, _| client.get(PROPERTIES),
    },
    Action {
        name: "set properties",
        types: "s",
        permissions: &["w"],
        status: 202,
        request: |client, _, _| client.put(PROPERTIES).xml(NO_PROPERTIES),
    },
    Action {
        name: "get",
        types: "o",
        permissions: &["r"],
        status: 200,
        request: |_, table, _| table.point("p", "r"),
    },
    Action {
        name: "query",
        types: "o",
        permissions: &["r"],
        status: 200,
        request: |_, table, _| table.query(""),
    },
    Action {
        name: "insert",
        types: "o",
        permissions: &["a"],
        status: 201,
        request: |_, table, row| table.insert(&keys("p", row).to_string()),
    },
    Action {
        name: "update",
        types: "o",
        permissions: &["u"],
        status: 204,
        request: |client, table, _| {
            client.put(&table.entity("p", "r")).json("{}").header("If-Match", "*")
        },
    },
    Action {
        name: "insert or replace",
        types: "o",
        permissions: &["au"],
        status: 204,
        request: |client, table, row| client.put(&table.entity("p", row)).json("{}"),
    },
    Action {
        name: "insert or merge",
        types: "o",
        permissions: &["au"],
        status: 204,
        request: |client, table, row| client.patch(&table.entity("p", row)).json("{}"),
    },
    Action {
        name: "delete what is not there",
        types: "o",
        permissions: &["d"],
        status: 404,
        request: |client, table, row| {
            client.delete(&table.entity("gone", row)).header("If-Match", "*")
        },
    },
];

impl Action {
    fn check(
        &self,
        client: &Client<'_>,
        types: &str,
        permissions: &str,
        denial: Option<DenialKind>,
    ) -> Outcome {
        let table = client.table_with_entity()?;
        let request = (self.request)(client, &table, "row");
        let response = request.sas(&client.account_sas(types, permissions)).send()?;
        let outcome = match denial {
            None => response.expect_status(self.status),
            Some(denial) => response.expect_denied(denial),
        };
        let told = |failure| {
            Failure::mismatch(format!("{} with srt={types} sp={permissions}: {failure}", self.name))
        };
        outcome.map(|_| ()).map_err(told)
    }

    fn allowed_by(&self, letters: &str) -> bool {
        self.permissions.iter().any(|needed| needed.chars().all(|letter| letters.contains(letter)))
    }
}

fn resource_types(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for action in &ACTIONS {
        for types in ["s", "c", "o", "sc", "so", "co", "oc", "sco", "soc"] {
            let fits = types.chars().any(|letter| action.types.contains(letter));
            action.check(
                &client,
                types,
                EVERY_LETTER,
                (!fits).then_some(DenialKind::ResourceType),
            )?;
        }
    }
    Ok(())
}

fn permissions(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for action in &ACTIONS {
        for letters in ["r", "w", "d", "l", "a", "c", "u", "p", "au", "ua", "rwdlcp", "rwdlacup"] {
            let denial = (!action.allowed_by(letters)).then_some(DenialKind::Permission);
            action.check(&client, "sco", letters, denial)?;
        }
        // The letters alone do not help with the wrong type, nor the type with the wrong letters.
        action.check(&client, &action.types[..1], action.permissions[0], None)?;
    }
    Ok(())
}

fn manages_tables(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    for (types, permissions, denial) in [
        ("c", "c", None),
        ("c", "w", None),
        ("sco", EVERY_LETTER, None),
        ("c", "rdlaup", Some(DenialKind::Permission)),
        ("so", EVERY_LETTER, Some(DenialKind::ResourceType)),
    ] {
        let name = endpoint.fresh_name();
        let response =
            client.create_table(&name).sas(&client.account_sas(types, permissions)).send()?;
        match denial {
            None => {
                response.expect_status(201)?;
                client.delete_table(&name).send()?.expect_status(204)?;
            }
            Some(denial) => {
                response.expect_denied(denial)?;
                client.delete_table(&name).send()?.expect_status(404)?;
            }
        }
    }
    for (types, permissions, denial) in [
        ("c", "d", None),
        ("sco", EVERY_LETTER, None),
        ("c", "rwlacup", Some(DenialKind::Permission)),
        ("so", EVERY_LETTER, Some(DenialKind::ResourceType)),
    ] {
        let table = client.table()?;
        let response = client
            .delete_table(table.name())
            .sas(&client.account_sas(types, permissions))
            .send()?;
        match denial {
            None => response.expect_status(204)?,
            Some(denial) => response.expect_denied(denial)?,
        };
        table.query("").send()?.expect_status(if denial.is_none() { 404 } else { 200 })?;
    }
    Ok(())
}

/// The reference's own pages disagree about the type, so both are taken.
fn lists_tables(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let filter = format!("/Tables?$filter=TableName%20eq%20'{}'", table.name());
    for types in ["s", "c"] {
        client
            .get(&filter)
            .sas(&client.account_sas(types, "l"))
            .send()?
            .expect_status(200)?
            .expect_json("/value/0/TableName", table.name())?;
    }
    Ok(())
}

/// Tokens made for all services carry letters that mean nothing here.
fn foreign_letters(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for letters in ["rwdxylacuptfi", "rwdlacupiytfx", "plr"] {
        let sas = client.account_sas("sco", letters).with("ss", "bfqt").with("sv", "2022-11-02");
        table.point("p", "r").sas(&sas).send()?.expect_status(200)?;
    }
    for letters in ["xytfi", "wdlacup"] {
        let sas = client.account_sas("sco", letters).with("sv", "2022-11-02");
        table.point("p", "r").sas(&sas).send()?.expect_denied(DenialKind::Permission)?;
    }
    Ok(())
}

fn stats(endpoint: &Endpoint) -> Outcome {
    endpoint.require_path_style()?;
    let client = endpoint.client();
    let target = format!("/{}-secondary/?restype=service&comp=stats", endpoint.account());
    let read = || client.get("").target(&target);
    if read().send()?.status == 403 {
        return Err(Failure::skipped("the endpoint has no secondary"));
    }
    read().sas(&client.account_sas("s", "r")).send()?.expect_status(200)?;
    read()
        .sas(&client.account_sas("co", EVERY_LETTER))
        .send()?
        .expect_denied(DenialKind::ResourceType)?;
    read()
        .sas(&client.account_sas("s", "wdlacup"))
        .send()?
        .expect_denied(DenialKind::Permission)?;
    Ok(())
}

fn no_acl(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    let sas = client.account_sas("sco", EVERY_LETTER);
    client.get(&acl).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    let set =
        "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>";
    client.put(&acl).xml(set).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    client.put(&acl).sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    client.get(&acl).send()?.expect_status(200)?.expect_in_body("<SignedIdentifiers />")?;
    Ok(())
}

fn no_policy(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let policy = format!(
        "<SignedIdentifiers><SignedIdentifier><Id>all</Id><AccessPolicy><Expiry>{}</Expiry>\
         <Permission>raud</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
        minutes_ahead(60)
    );
    client.put(&format!("{}?comp=acl", table.path())).xml(&policy).send()?.expect_status(204)?;
    table
        .point("p", "r")
        .sas(&client.account_sas("sco", EVERY_LETTER))
        .send()?
        .expect_status(200)?;
    for name in ["se", "sp"] {
        let sas = client.account_sas("sco", EVERY_LETTER).without(name).with("si", "all");
        table.point("p", "r").sas(&sas).send()?.expect_unauthenticated()?;
    }
    Ok(())
}

/// One SAS of each kind that may read the entity.
fn both_kinds(client: &Client<'_>, table: &Table<'_>) -> [Sas; 2] {
    [table.sas("r"), client.account_sas("o", "r")]
}

fn https_only(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let text = "This request is not authorized to perform this operation using this protocol.";
    for sas in both_kinds(&client, &table) {
        table.point("p", "r").sas(&sas.clone().with("spr", "https")).send()?.expect_error_text(
            403,
            "AuthorizationProtocolMismatch",
            text,
        )?;
        table
            .point("p", "r")
            .sas(&sas.clone().with("spr", "https,http"))
            .send()?
            .expect_status(200)?;
        for none in ["http", "ftp", "HTTPS HTTP", "https;http", ",", "https,http,ftp"] {
            table.point("p", "r").sas(&sas.clone().with("spr", none)).send()?.expect_status(403)?;
        }
    }
    let write = table.sas("raud").with("spr", "https");
    table
        .insert(&keys("p", "new").to_string())
        .sas(&write)
        .send()?
        .expect_denied(DenialKind::Protocol)?;
    table.expect_missing("p", "new")
}

/// The address that the endpoint sees us at: it tells when it refuses it.
fn seen_address(table: &Table<'_>, sas: &Sas) -> Result<IpAddr, Failure> {
    let response = table.point("p", "r").sas(&sas.clone().with("sip", "203.0.113.7")).send()?;
    response.expect_denied(DenialKind::SourceAddress)?;
    let text = response.error_text()?;
    text.strip_prefix(
        "This request is not authorized to perform this operation using this source IP ",
    )
    .and_then(|rest| rest.strip_suffix('.'))
    .and_then(|address| address.parse().ok())
    .ok_or_else(|| {
        response.mismatch("expected a text that ends with the source address and a full stop")
    })
}

fn source_address(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        let seen = seen_address(&table, &sas)?;
        if endpoint.authority().starts_with("127.") && !seen.is_loopback() {
            return Err(Failure::mismatch(format!(
                "the endpoint sees a caller on its own machine at {seen}"
            )));
        }
        for other in ["203.0.113.7", "0.0.0.0", "255.255.255.255", "203.0.113.1-203.0.113.255"] {
            table
                .point("p", "r")
                .sas(&sas.clone().with("sip", other))
                .send()?
                .expect_error(403, "AuthorizationSourceIPMismatch")?;
        }
        if seen.is_ipv4() {
            table
                .point("p", "r")
                .sas(&sas.clone().with("sip", &seen.to_string()))
                .send()?
                .expect_status(200)?;
        }
        for none in [
            "nonsense",
            "1.2.3",
            "300.0.0.1",
            "0.0.0.0-",
            "-255.255.255.255",
            "1.2.3.4-x",
            "0.0.0.0/0",
            "*",
        ] {
            table.point("p", "r").sas(&sas.clone().with("sip", none)).send()?.expect_status(403)?;
        }
    }
    client.expect_usable_connection()
}

fn address_ranges(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for sas in both_kinds(&client, &table) {
        let IpAddr::V4(seen) = seen_address(&table, &sas)? else {
            return Err(Failure::skipped(
                "the endpoint sees an IPv6 address, which sip cannot say",
            ));
        };
        let number = u32::from(seen);
        let near = |distance: i64| {
            Ipv4Addr::from(u32::try_from(i64::from(number) + distance).unwrap_or(number))
        };
        // Both ends belong to the range, and addresses compare as numbers, not as texts.
        for (first, last, inside) in [
            (near(0), near(0), true),
            (near(-1), near(1), true),
            (near(0), near(300), true),
            (near(-300), near(0), true),
            (near(1), near(2), false),
            (near(-2), near(-1), false),
            (near(1), near(-1), false),
        ] {
            let response = table
                .point("p", "r")
                .sas(&sas.clone().with("sip", &format!("{first}-{last}")))
                .send()?;
            response.expect_status(if inside { 200 } else { 403 })?;
        }
        for (first, last) in [
            ("0.0.0.0", "255.255.255.255"),
            ("2.0.0.0", "223.255.255.255"),
            ("1.0.0.0", "13.0.0.0"),
            ("9.0.0.0", "99.0.0.0"),
        ] {
            let address = |text: &str| text.parse::<Ipv4Addr>().expect("an address of this list");
            let inside = (address(first)..=address(last)).contains(&seen);
            let sas = sas.clone().with("sip", &format!("{first}-{last}"));
            table.point("p", "r").sas(&sas).send()?.expect_status(if inside {
                200
            } else {
                403
            })?;
        }
    }
    Ok(())
}

/// Everything is wrong at once; then one thing after the other is put right.
fn order(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let read = || table.point("p", "r");
    let mut sas = client
        .account_sas("s", "w")
        .with("ss", "b")
        .with("spr", "https")
        .with("sip", "203.0.113.7")
        .with("se", &minutes_ahead(-5));
    read().sas_query(&sas.sign(&[7; 64])).send()?.expect_unauthenticated()?;
    read().sas(&sas).send()?.expect_unauthenticated()?;
    for (name, value, denial) in [
        ("se", minutes_ahead(60).as_str(), DenialKind::SourceAddress),
        ("sip", "0.0.0.0-255.255.255.255", DenialKind::Protocol),
        ("spr", "https,http", DenialKind::Service),
        ("ss", "t", DenialKind::ResourceType),
        ("srt", "o", DenialKind::Permission),
    ] {
        sas = sas.with(name, value);
        read().sas_query(&sas.sign(&[7; 64])).send()?.expect_unauthenticated()?;
        read().sas(&sas).send()?.expect_denied(denial)?;
    }
    read().sas(&sas.with("sp", "r")).send()?.expect_status(200)?;
    // The same for a table's, which has no services and types.
    let mut sas = table
        .sas("a")
        .with("spr", "https")
        .with("sip", "203.0.113.7")
        .with("st", &minutes_ahead(5));
    read().sas(&sas).send()?.expect_unauthenticated()?;
    for (name, value, denial) in [
        ("st", minutes_ahead(-5).as_str(), DenialKind::SourceAddress),
        ("sip", "0.0.0.0-255.255.255.255", DenialKind::Protocol),
        ("spr", "https,http", DenialKind::Permission),
    ] {
        sas = sas.with(name, value);
        read().sas(&sas).send()?.expect_denied(denial)?;
    }
    read().sas(&sas.with("sp", "r")).send()?.expect_status(200)?;
    Ok(())
}
