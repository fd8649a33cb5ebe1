//! Section 16.6, sixth part: shared access signatures that take what they lack from a stored policy
//! of the table.

use super::check::DenialKind;
use super::http::Response;
use super::request::{Client, percent_encode};
use super::sas::{Sas, minutes_ahead};
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("sas_policy_completes_what_is_missing", &["87", "88"], every_combination),
    Case::shared("sas_policy_and_field_together", &["88"], field_in_both),
    Case::shared("sas_policy_permissions_count", &["87"], policy_permissions),
    Case::shared("sas_policy_times_count", &["87"], policy_times),
    Case::shared("sas_policy_that_is_unknown", &["89"], unknown_policy),
    Case::shared("sas_policy_of_another_table", &["89"], other_tables_policy),
    Case::shared("sas_policy_removed", &["90"], removed_policy),
    Case::shared("sas_policy_changed", &["90"], changed_policy),
    Case::shared("sas_policy_goes_with_its_table", &["90"], dropped_table),
    Case::shared("sas_policies_five_at_once", &["87"], five_policies),
    Case::shared("sas_policy_identifiers", &["87"], identifiers),
    Case::shared("sas_policy_with_a_range", &["84", "87"], with_range),
    Case::shared("sas_policy_in_old_versions", &["66", "87"], old_versions),
];

/// A stored policy: what it says of start, end and permissions.
#[derive(Debug, Clone)]
struct Policy {
    id: String,
    start: Option<String>,
    expiry: Option<String>,
    permission: Option<String>,
}

impl Policy {
    /// A policy that says nothing.
    fn new(id: &str) -> Self {
        Policy { id: id.to_owned(), start: None, expiry: None, permission: None }
    }

    /// A policy that says everything, for now.
    fn full(id: &str, permission: &str) -> Self {
        Policy::new(id).start(&minutes_ahead(-60)).expiry(&minutes_ahead(60)).permission(permission)
    }

    fn start(mut self, time: &str) -> Self {
        self.start = Some(time.to_owned());
        self
    }

    fn expiry(mut self, time: &str) -> Self {
        self.expiry = Some(time.to_owned());
        self
    }

    fn permission(mut self, letters: &str) -> Self {
        self.permission = Some(letters.to_owned());
        self
    }

    fn xml(&self) -> String {
        let element = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| format!("<{name}>{text}</{name}>")).unwrap_or_default()
        };
        format!(
            "<SignedIdentifier><Id>{}</Id><AccessPolicy>{}{}{}</AccessPolicy></SignedIdentifier>",
            self.id.replace('&', "&amp;").replace('<', "&lt;"),
            element("Start", &self.start),
            element("Expiry", &self.expiry),
            element("Permission", &self.permission),
        )
    }
}

/// Stores the policies in place of all others.
fn store(client: &Client<'_>, table: &Table<'_>, policies: &[Policy]) -> Outcome {
    let inner: String = policies.iter().map(Policy::xml).collect();
    client
        .put(&format!("{}?comp=acl", table.path()))
        .xml(&format!("<SignedIdentifiers>{inner}</SignedIdentifiers>"))
        .send()?
        .expect_status(204)?;
    Ok(())
}

/// A SAS that says nothing itself.
fn sas_by(table: &Table<'_>, id: &str) -> Sas {
    table.sas("r").without("sp").without("se").with("si", id)
}

fn read(table: &Table<'_>, sas: &Sas) -> Result<Response, Failure> {
    table.point("p", "r").sas(sas).send()
}

/// Where a field comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Nowhere,
    Signature,
    Policy,
    Both,
}

impl Source {
    const ALL: [Source; 4] = [Source::Nowhere, Source::Signature, Source::Policy, Source::Both];

    fn in_signature(self) -> bool {
        matches!(self, Source::Signature | Source::Both)
    }

    fn in_policy(self) -> bool {
        matches!(self, Source::Policy | Source::Both)
    }
}

/// Start, end and permissions, each from one of four places: all 64 combinations.
fn every_combination(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let (past, future) = (minutes_ahead(-60), minutes_ahead(60));
    for start in Source::ALL {
        for end in Source::ALL {
            for permissions in Source::ALL {
                let mut policy = Policy::new("policy");
                policy.start = start.in_policy().then(|| past.clone());
                policy.expiry = end.in_policy().then(|| future.clone());
                policy.permission = permissions.in_policy().then(|| "r".to_owned());
                store(&client, &table, &[policy])?;
                let mut sas = sas_by(&table, "policy");
                for (source, name, value) in [(start, "st", &past), (end, "se", &future)] {
                    sas = if source.in_signature() { sas.with(name, value) } else { sas };
                }
                sas = if permissions.in_signature() { sas.with("sp", "r") } else { sas };
                let sources = [start, end, permissions];
                let complete = end != Source::Nowhere && permissions != Source::Nowhere;
                let response = read(&table, &sas)?;
                let told = |failure| {
                    Failure::mismatch(format!(
                        "start, end, permissions from {sources:?}: {failure}"
                    ))
                };
                if complete && !sources.contains(&Source::Both) {
                    response.expect_status(200).map_err(told)?;
                } else {
                    response.expect_error(403, "AuthenticationFailed").map_err(told)?;
                }
            }
        }
    }
    Ok(())
}

fn field_in_both(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    store(&client, &table, &[Policy::full("full", "raud")])?;
    read(&table, &sas_by(&table, "full"))?.expect_status(200)?;
    for (name, value) in
        [("st", minutes_ahead(-60)), ("se", minutes_ahead(60)), ("sp", "raud".to_owned())]
    {
        let sas = sas_by(&table, "full").with(name, &value);
        read(&table, &sas)?.expect_error(403, "AuthenticationFailed")?;
        let acl = client.get(&format!("{}?comp=acl", table.path())).sas(&sas).send()?;
        acl.expect_xml_error(403, "AuthenticationFailed")?.expect_in_body(
            "Access policy fields can be associated with signature or SAS identifier but not both",
        )?;
        // The text must have an empty line for what the policy says.
        let signed_whole = sas_by(&table, "full").sign_text(endpoint.key(), &sas.string_to_sign());
        table
            .point("p", "r")
            .sas_query(&signed_whole)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

fn policy_permissions(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    for (number, letters) in ["r", "a", "ra", "au", "d", "raud"].into_iter().enumerate() {
        store(&client, &table, &[Policy::full("policy", letters)])?;
        let sas = sas_by(&table, "policy");
        let row = format!("new{number}");
        for (needs, status, request) in [
            ("r", 200, table.point("p", "r")),
            ("a", 201, table.insert(&keys("p", &row).to_string())),
            ("au", 204, client.put(&table.entity("p", &row)).json("{}")),
            ("d", 404, client.delete(&table.entity("p", "none")).header("If-Match", "*")),
        ] {
            let response = request.sas(&sas).send()?;
            if needs.chars().all(|letter| letters.contains(letter)) {
                response.expect_status(status)?;
            } else {
                response.expect_denied(DenialKind::Permission)?;
            }
        }
    }
    Ok(())
}

fn policy_times(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let sas = sas_by(&table, "policy");
    for (start, expiry, valid) in [
        (-60, 60, true),
        (-60, -5, false),
        (5, 60, false),
        (-5, -60, false),
        (-60 * 24 * 365, 60 * 24 * 365, true),
    ] {
        let policy = Policy::new("policy")
            .start(&minutes_ahead(start))
            .expiry(&minutes_ahead(expiry))
            .permission("r");
        store(&client, &table, &[policy])?;
        let response = read(&table, &sas)?;
        if valid {
            response.expect_status(200)?;
        } else {
            response.expect_error(403, "AuthenticationFailed")?;
        }
    }
    // A start of the policy bounds an end of the signature, and the other way round.
    store(&client, &table, &[Policy::new("policy").start(&minutes_ahead(5)).permission("r")])?;
    read(&table, &sas.clone().with("se", &minutes_ahead(60)))?
        .expect_error(403, "AuthenticationFailed")?;
    store(&client, &table, &[Policy::new("policy").expiry(&minutes_ahead(-5)).permission("r")])?;
    read(&table, &sas.with("st", &minutes_ahead(-60)))?
        .expect_error(403, "AuthenticationFailed")?;
    Ok(())
}

fn unknown_policy(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    read(&table, &sas_by(&table, "none"))?.expect_error(403, "AuthenticationFailed")?;
    store(&client, &table, &[Policy::full("known", "raud"), Policy::new("empty")])?;
    read(&table, &sas_by(&table, "known"))?.expect_status(200)?;
    let long = "x".repeat(65);
    for id in ["none", "know", "knownn", "known ", " known", "empty", &long, "é", "<Id>", "'"] {
        read(&table, &sas_by(&table, id))?.expect_error(403, "AuthenticationFailed")?;
    }
    // A SAS that lacks nothing still depends on the policy that it names.
    let complete = table.sas("r").with("si", "none");
    read(&table, &complete)?.expect_error(403, "AuthenticationFailed")?;
    read(&table, &complete.with("si", "empty"))?.expect_status(200)?;
    let missing = client.existing_table(&endpoint.fresh_name());
    missing
        .query("")
        .sas(&sas_by(&missing, "known"))
        .send()?
        .expect_error(403, "AuthenticationFailed")?;
    client.expect_usable_connection()
}

fn other_tables_policy(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (table, other) = (client.table_with_entity()?, client.table_with_entity()?);
    store(&client, &other, &[Policy::full("policy", "raud")])?;
    read(&other, &sas_by(&other, "policy"))?.expect_status(200)?;
    read(&table, &sas_by(&table, "policy"))?.expect_error(403, "AuthenticationFailed")?;
    read(&table, &sas_by(&other, "policy"))?.expect_denied(DenialKind::Operation)?;
    Ok(())
}

/// From one request to the next: only the service itself takes its time.
fn removed_policy(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let sas = sas_by(&table, "policy");
    let without: [(&str, Vec<Policy>); 4] = [
        ("all removed", vec![]),
        ("another left", vec![Policy::full("other", "raud")]),
        ("renamed", vec![Policy::full("Policy2", "r")]),
        ("emptied", vec![Policy::new("policy")]),
    ];
    for (what, policies) in without {
        store(&client, &table, &[Policy::full("policy", "r"), Policy::full("other", "raud")])?;
        read(&table, &sas)?.expect_status(200)?;
        store(&client, &table, &policies)?;
        let told = |failure| Failure::mismatch(format!("{what}: {failure}"));
        read(&table, &sas)?.expect_error(403, "AuthenticationFailed").map_err(told)?;
    }
    // Restored, it works again.
    store(&client, &table, &[Policy::full("policy", "r")])?;
    read(&table, &sas)?.expect_status(200)?;
    client.put(&format!("{}?comp=acl", table.path())).send()?.expect_status(204)?;
    read(&table, &sas)?.expect_error(403, "AuthenticationFailed")?;
    Ok(())
}

fn changed_policy(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let sas = sas_by(&table, "policy");
    let insert = |row: &str| table.insert(&keys("p", row).to_string()).sas(&sas).send();
    store(&client, &table, &[Policy::full("policy", "r")])?;
    read(&table, &sas)?.expect_status(200)?;
    insert("1")?.expect_denied(DenialKind::Permission)?;
    store(&client, &table, &[Policy::full("policy", "a")])?;
    read(&table, &sas)?.expect_denied(DenialKind::Permission)?;
    insert("1")?.expect_status(201)?;
    store(&client, &table, &[Policy::full("policy", "ra").expiry(&minutes_ahead(-5))])?;
    read(&table, &sas)?.expect_error(403, "AuthenticationFailed")?;
    insert("2")?.expect_error(403, "AuthenticationFailed")?;
    store(&client, &table, &[Policy::full("policy", "ra")])?;
    read(&table, &sas)?.expect_status(200)?;
    insert("2")?.expect_status(201)?;
    Ok(())
}

fn dropped_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    store(&client, &table, &[Policy::full("policy", "raud")])?;
    let sas = sas_by(&table, "policy");
    read(&table, &sas)?.expect_status(200)?;
    client.delete_table(table.name()).send()?.expect_status(204)?;
    read(&table, &sas)?.expect_error(403, "AuthenticationFailed")?;
    if client.create_table(table.name()).send()?.status == 409 {
        return Err(Failure::skipped("the endpoint keeps the name of a dropped table for a while"));
    }
    read(&table, &sas)?.expect_error(403, "AuthenticationFailed")?;
    table.query("").sas(&table.sas("r")).send()?.expect_status(200)?.expect_row_count(0)?;
    Ok(())
}

fn five_policies(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let letters = ["r", "a", "u", "d", "ra"];
    let policies: Vec<_> = letters
        .iter()
        .enumerate()
        .map(|(number, letters)| Policy::full(&format!("id{number}"), letters))
        .collect();
    store(&client, &table, &policies)?;
    for (number, letters) in letters.into_iter().enumerate() {
        let sas = sas_by(&table, &format!("id{number}"));
        let (read, insert) =
            (read(&table, &sas)?, table.insert(&keys("p", "r").to_string()).sas(&sas).send()?);
        for (needed, allowed, response) in [('r', 200, read), ('a', 409, insert)] {
            if letters.contains(needed) {
                response.expect_status(allowed)?;
            } else {
                response.expect_denied(DenialKind::Permission)?;
            }
        }
    }
    Ok(())
}

fn identifiers(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    let long = "0123456789abcdef".repeat(4);
    for id in [
        "a",
        "first & last",
        "a+b=c%20",
        "é日本\u{1f600}",
        "<x>",
        "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=",
        &long,
    ] {
        store(&client, &table, &[Policy::full(id, "r")])?;
        read(&table, &sas_by(&table, id))?.expect_status(200)?;
        let changed =
            sas_by(&table, id).sign(endpoint.key()).set("si", &percent_encode(&format!("{id}x")));
        table
            .point("p", "r")
            .sas_query(&changed)
            .send()?
            .expect_error(403, "AuthenticationFailed")?;
    }
    Ok(())
}

/// A range is never part of a policy, so it stays with the signature.
fn with_range(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add_all(&[keys("p", "1"), keys("p", "2"), keys("p", "3")])?;
    store(&client, &table, &[Policy::full("policy", "ra")])?;
    let sas = sas_by(&table, "policy").range(Some(("p", Some("2"))), Some(("p", Some("2"))));
    table.query("").sas(&sas).send()?.expect_status(200)?.expect_row_count(1)?;
    table.point("p", "1").sas(&sas).send()?.expect_denied(DenialKind::Operation)?;
    table
        .insert(&keys("p", "4").to_string())
        .sas(&sas)
        .send()?
        .expect_denied(DenialKind::Operation)?;
    table
        .query("")
        .sas(&sas_by(&table, "policy"))
        .send()?
        .expect_status(200)?
        .expect_row_count(3)?;
    Ok(())
}

fn old_versions(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table_with_entity()?;
    store(&client, &table, &[Policy::full("policy", "r")])?;
    for version in ["2012-02-12", "2014-02-14", "2015-02-21", "2015-04-05", "2021-12-02"] {
        read(&table, &sas_by(&table, "policy").with("sv", version))?.expect_status(200)?;
    }
    Ok(())
}
