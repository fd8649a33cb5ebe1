//! Section 16.13, first part: access policies, service properties, stats.

use super::http::Response;
use super::request::Client;
use super::table::keys;
use super::{Case, Endpoint, Failure, Outcome, ensure};

pub(super) const CASES: &[Case] = &[
    Case::shared("acl_is_set_and_read", &["235", "G9"], acl_round_trip),
    Case::shared("acl_has_at_most_five_policies", &["236"], acl_limit),
    Case::shared("acl_that_is_wrong", &["236"], acl_wrong),
    Case::shared("acl_is_cleared", &["237"], acl_cleared),
    Case::shared("acl_with_identifiers_alone", &["238"], acl_identifiers),
    Case::shared("acl_elements_in_any_order", &["239"], acl_order),
    Case::shared("acl_of_a_missing_table", &["240"], acl_missing_table),
    Case::shared("acl_belongs_to_one_table", &["G9"], acl_per_table),
    Case::shared("acl_head_and_old_accept", &[], acl_head),
    Case::shared("acl_with_a_byte_order_mark", &["250"], acl_with_mark),
    Case::exclusive("properties_have_four_groups", &["241"], properties_groups),
    Case::exclusive("properties_keep_omitted_groups", &["242"], properties_kept),
    Case::exclusive("properties_out_of_range", &["243"], properties_limits),
    Case::exclusive("properties_remove_cors_rules", &["244"], properties_without_cors),
    Case::shared("stats_on_primary_and_secondary", &["38", "245"], stats),
    Case::shared("stats_at_the_address_of_python", &[], stats_of_python),
];

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

fn identifiers(inner: &str) -> String {
    format!("<SignedIdentifiers>{inner}</SignedIdentifiers>")
}

fn policy(id: &str) -> String {
    format!(
        "<SignedIdentifier><Id>{id}</Id><AccessPolicy><Start>2021-06-08T02:05:09Z</Start>\
         <Expiry>2021-06-08T03:10:09.1234567Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier>"
    )
}

/// Sets an ACL that must be taken, and compares what is read with `expected`.
fn expect_acl(client: &Client<'_>, path: &str, sent: &str, expected: &str) -> Outcome {
    let acl = format!("{path}?comp=acl");
    client.put(&acl).xml(sent).send()?.expect_status(204)?.expect_body("")?;
    let read = client.get(&acl).send()?;
    read.expect_status(200)?.expect_header("Content-Type", "application/xml")?;
    read.ensure(
        read.xml()? == format!("{DECLARATION}{expected}"),
        &format!("expected the ACL {DECLARATION}{expected}"),
    )?;
    Ok(())
}

fn acl_round_trip(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let read_back = identifiers(&policy("testid").replace("05:09Z", "05:09.0000000Z"));
    let five = |transform: fn(String) -> String| {
        let all: String = (0..5).map(|number| policy(&format!("id{number}"))).collect();
        identifiers(&transform(all))
    };
    for declaration in ["", DECLARATION, "<?xml version='1.0' encoding='utf-8'?>\n"] {
        let sent = format!("{declaration}{}", identifiers(&policy("testid")));
        expect_acl(&client, &table.path(), &sent, &read_back)?;
    }
    expect_acl(
        &client,
        &table.path(),
        &five(|all| all),
        &five(|all| all.replace("05:09Z", "05:09.0000000Z")),
    )
}

fn acl_limit(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    client.put(&acl).xml(&identifiers(&policy("kept"))).send()?.expect_status(204)?;
    let six: String = (0..6).map(|number| policy(&format!("id{number}"))).collect();
    client
        .put(&acl)
        .xml(&identifiers(&six))
        .send()?
        .expect_xml_error(400, "InvalidXmlDocument")?
        .expect_header("Content-Type", "application/xml")?
        .expect_in_body("XML specified is not syntactically valid.")?;
    client
        .get(&acl)
        .send()?
        .expect_status(200)?
        .expect_in_body("<Id>kept</Id>")?
        .expect_not_in_body("<Id>id0</Id>")?;
    Ok(())
}

fn acl_wrong(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    for body in [
        "<SignedIdentifiers>".to_owned(),
        "<SignedIdentifiers></Other>".to_owned(),
        "no xml".to_owned(),
        "{}".to_owned(),
        "<Other />".to_owned(),
        identifiers(&policy("a").replace("raud", "rx")),
        identifiers(&policy("a").replace("2021-06-08T02:05:09Z", "yesterday")),
    ] {
        client.put(&acl).xml(&body).send()?.expect_xml_error(400, "InvalidXmlDocument")?;
    }
    client.get(&acl).send()?.expect_in_body("<SignedIdentifiers />")?;
    Ok(())
}

fn acl_cleared(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    for clearing in [
        "",
        "<SignedIdentifiers/>",
        "<SignedIdentifiers />",
        "<SignedIdentifiers></SignedIdentifiers>",
    ] {
        client.put(&acl).xml(&identifiers(&policy("a"))).send()?.expect_status(204)?;
        client.get(&acl).send()?.expect_in_body("<Id>a</Id>")?;
        expect_acl(&client, &table.path(), clearing, "<SignedIdentifiers />")?;
    }
    Ok(())
}

fn acl_identifiers(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    for (id, member) in [
        ("bare", ""),
        ("empty", "<AccessPolicy />"),
        ("partial", "<AccessPolicy><Permission>r</Permission></AccessPolicy>"),
    ] {
        let sent =
            identifiers(&format!("<SignedIdentifier><Id>{id}</Id>{member}</SignedIdentifier>"));
        client.put(&acl).xml(&sent).send()?.expect_status(204)?;
        client
            .get(&acl)
            .send()?
            .expect_status(200)?
            .expect_in_body(&format!("<SignedIdentifier><Id>{id}</Id>"))?
            .expect_not_in_body("<Start>")?;
    }
    client.get(&acl).send()?.expect_in_body("<Permission>r</Permission>")?;
    Ok(())
}

fn acl_order(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let sent = identifiers(
        "\n  <SignedIdentifier>\n    <AccessPolicy><Permission>rau</Permission>\
         <Expiry>2021-06-08T03:10:09Z</Expiry><Start>2021-06-08T02:05:09Z</Start></AccessPolicy>\n    \
         <Id>first &amp; last</Id>\n  </SignedIdentifier>\n",
    );
    let expected = identifiers(
        "<SignedIdentifier><Id>first &amp; last</Id><AccessPolicy><Start>2021-06-08T02:05:09.0000000Z</Start>\
         <Expiry>2021-06-08T03:10:09.0000000Z</Expiry><Permission>rau</Permission></AccessPolicy></SignedIdentifier>",
    );
    expect_acl(&client, &table.path(), &sent, &expected)
}

fn acl_missing_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let requests = [
        client.get("/nosuchtable1?comp=acl"),
        client.put("/nosuchtable1?comp=acl").xml(&identifiers("")),
    ];
    for request in requests {
        let response = request.send()?;
        response.expect_status(404)?;
        let code = response.require_header("x-ms-error-code")?;
        response.ensure(
            code == "ResourceNotFound" || code == "TableNotFound",
            "expected ResourceNotFound or TableNotFound",
        )?;
    }
    Ok(())
}

fn acl_per_table(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let (one, other) = (client.table()?, client.table()?);
    for (table, id) in [(&one, "one"), (&other, "other")] {
        client
            .put(&format!("{}?comp=acl", table.path()))
            .xml(&identifiers(&policy(id)))
            .send()?
            .expect_status(204)?;
    }
    for (table, own, foreign) in [(&one, "one", "other"), (&other, "other", "one")] {
        client
            .get(&format!("{}?comp=acl", table.path()))
            .send()?
            .expect_in_body(&format!("<Id>{own}</Id>"))?
            .expect_not_in_body(&format!("<Id>{foreign}</Id>"))?;
    }
    // Writing entities does not touch it.
    one.add(&keys("p", "r"))?;
    client.get(&format!("{}?comp=acl", one.path())).send()?.expect_in_body("<Id>one</Id>")?;
    Ok(())
}

fn acl_head(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let acl = format!("{}?comp=acl", table.path());
    client.request("HEAD", &acl).send()?.expect_status(200)?;
    client.expect_usable_connection()?;
    // The old Node SDK asks for the formats that the service no longer speaks, and means only its
    // entities.
    for accept in ["application/atom+xml,application/xml", "*/*"] {
        client
            .get(&acl)
            .accept(accept)
            .send()?
            .expect_status(200)?
            .expect_in_body("<SignedIdentifiers />")?;
    }
    Ok(())
}

/// The service's own answers begin with a byte-order mark; a client that sends one back must be
/// understood.
fn acl_with_mark(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    let sent = format!("\u{feff}{DECLARATION}{}", identifiers(&policy("marked")));
    expect_acl(
        &client,
        &table.path(),
        &sent,
        &identifiers(&policy("marked").replace("05:09Z", "05:09.0000000Z")),
    )
}

const PROPERTIES: &str = "/?restype=service&comp=properties";

const LOGGING: &str = "<Logging><Version>1.0</Version><Read>false</Read><Write>true</Write><Delete>true</Delete>\
    <RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>";
const HOUR: &str = "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
    <RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics>";
const MINUTE: &str = "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled>\
    <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics>";

/// A rule that allows GET from one origin.
pub(super) fn cors_rule(origin: &str) -> String {
    format!(
        "<CorsRule><AllowedOrigins>{origin}</AllowedOrigins><AllowedMethods>GET</AllowedMethods>\
         <AllowedHeaders>x-ms-meta*</AllowedHeaders><ExposedHeaders>x-ms-request-id</ExposedHeaders>\
         <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>"
    )
}

fn document(groups: &str) -> String {
    format!("{DECLARATION}<StorageServiceProperties>{groups}</StorageServiceProperties>")
}

/// Runs `check`, then puts the account's properties back as they were.
pub(super) fn restoring_properties(
    endpoint: &Endpoint,
    check: impl FnOnce(&Client<'_>) -> Outcome,
) -> Outcome {
    let client = endpoint.client();
    let saved = client.get(PROPERTIES).send()?;
    saved.expect_status(200)?;
    let outcome = check(&client);
    let restored = client.put(PROPERTIES).xml(saved.xml()?).send()?;
    outcome?;
    restored.expect_status(202)?;
    Ok(())
}

/// Sets groups that must be taken.
pub(super) fn set_properties(client: &Client<'_>, groups: &str) -> Outcome {
    client.put(PROPERTIES).xml(&document(groups)).send()?.expect_status(202)?.expect_body("")?;
    Ok(())
}

fn expect_properties(client: &Client<'_>, groups: &str) -> Outcome {
    let read = client.get(PROPERTIES).send()?;
    read.expect_status(200)?.expect_header("Content-Type", "application/xml")?;
    let expected = document(groups);
    read.ensure(
        with_sorted_rules(read.xml()?) == with_sorted_rules(&expected),
        &format!("expected the properties {expected}"),
    )?;
    Ok(())
}

/// The same document with the children of each CORS rule in one order: no order of theirs is
/// recorded.
fn with_sorted_rules(xml: &str) -> String {
    xml.split_inclusive("<CorsRule>")
        .map(|piece| match piece.split_once("</CorsRule>") {
            Some((children, rest)) => format!("{}</CorsRule>{rest}", sorted_children(children)),
            None => piece.to_owned(),
        })
        .collect()
}

fn sorted_children(xml: &str) -> String {
    let mut children = vec![String::new()];
    for tag in xml.split_inclusive('>') {
        let child = children.last_mut().expect("there is always a child to add to");
        child.push_str(tag);
        if tag.contains("</") || tag.ends_with("/>") {
            children.push(String::new());
        }
    }
    children.sort_unstable();
    children.concat()
}

fn properties_groups(endpoint: &Endpoint) -> Outcome {
    restoring_properties(endpoint, |client| {
        let read = client.get(PROPERTIES).send()?;
        let xml = read.xml()?;
        for group in ["Logging", "HourMetrics", "MinuteMetrics", "Cors"] {
            read.ensure(
                xml.contains(&format!("<{group}>")) || xml.contains(&format!("<{group} />")),
                &format!("expected the group {group}"),
            )?;
        }
        let groups =
            format!("{LOGGING}{HOUR}{MINUTE}<Cors>{}</Cors>", cors_rule("http://a.example"));
        set_properties(client, &groups)?;
        expect_properties(client, &groups)
    })
}

fn properties_kept(endpoint: &Endpoint) -> Outcome {
    restoring_properties(endpoint, |client| {
        let cors = format!("<Cors>{}</Cors>", cors_rule("http://a.example"));
        set_properties(client, &format!("{LOGGING}{HOUR}{MINUTE}{cors}"))?;
        let logging = LOGGING.replace("<Days>5</Days>", "<Days>9</Days>");
        set_properties(client, &logging)?;
        expect_properties(client, &format!("{logging}{HOUR}{MINUTE}{cors}"))?;
        let minute = MINUTE.replacen(
            "<Enabled>false</Enabled>",
            "<Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>",
            1,
        );
        set_properties(client, &minute)?;
        expect_properties(client, &format!("{logging}{HOUR}{minute}{cors}"))?;
        set_properties(client, "")?;
        expect_properties(client, &format!("{logging}{HOUR}{minute}{cors}"))
    })
}

fn properties_limits(endpoint: &Endpoint) -> Outcome {
    restoring_properties(endpoint, |client| {
        let rules = |count: usize| {
            let all: String =
                (0..count).map(|number| cors_rule(&format!("http://{number}.example"))).collect();
            format!("<Cors>{all}</Cors>")
        };
        let days = |days: u16| LOGGING.replace("<Days>5</Days>", &format!("<Days>{days}</Days>"));
        let current = format!("{}{HOUR}{MINUTE}{}", days(365), rules(5));
        set_properties(client, &current)?;
        for groups in [
            rules(6),
            days(366),
            days(0),
            HOUR.replace("<Days>7</Days>", "<Days>366</Days>"),
            format!(
                "<Cors>{}</Cors>",
                cors_rule("x").replace("<AllowedMethods>GET</AllowedMethods>", "")
            ),
            LOGGING.replace("<Version>1.0</Version>", ""),
            "<Logging>".to_owned(),
        ] {
            client
                .put(PROPERTIES)
                .xml(&document(&groups))
                .send()?
                .expect_xml_error(400, "InvalidXmlDocument")?;
        }
        expect_properties(client, &current)
    })
}

fn properties_without_cors(endpoint: &Endpoint) -> Outcome {
    restoring_properties(endpoint, |client| {
        for empty in ["<Cors />", "<Cors></Cors>"] {
            let cors = format!("<Cors>{}</Cors>", cors_rule("http://a.example"));
            set_properties(client, &format!("{LOGGING}{HOUR}{MINUTE}{cors}"))?;
            set_properties(client, empty)?;
            expect_properties(client, &format!("{LOGGING}{HOUR}{MINUTE}<Cors />"))?;
        }
        Ok(())
    })
}

/// Without a secondary the service refuses; on the primary it is said to refuse, which is not
/// verified.
fn stats(endpoint: &Endpoint) -> Outcome {
    endpoint.require_path_style()?;
    let client = endpoint.client();
    let primary = client.get("/?restype=service&comp=stats").send()?;
    if primary.status != 200 {
        let code = primary.require_header("x-ms-error-code")?;
        primary.expect_refusal()?.expect_xml_error(primary.status, code)?;
    }
    let target = format!("/{}-secondary/?restype=service&comp=stats", endpoint.account());
    let secondary = client.get("").target(&target).send()?;
    if secondary.status == 403 {
        secondary.expect_xml_error(403, "InsufficientAccountPermissions")?;
        return Ok(());
    }
    expect_stats(&secondary)
}

fn expect_stats(response: &Response) -> Outcome {
    response.expect_status(200)?.expect_header("Content-Type", "application/xml")?;
    let head = format!("{DECLARATION}<StorageServiceStats><GeoReplication><Status>");
    let tail = "</LastSyncTime></GeoReplication></StorageServiceStats>";
    let inner = response
        .xml()?
        .strip_prefix(&head)
        .and_then(|rest| rest.strip_suffix(tail))
        .and_then(|rest| rest.split_once("</Status><LastSyncTime>"));
    let (status, time) =
        inner.ok_or_else(|| response.mismatch(format!("expected {head}…{tail}")))?;
    response.ensure(
        ["live", "bootstrap", "unavailable"].contains(&status),
        "expected a status that the service knows",
    )?;
    response.ensure(
        time.is_empty() || httpdate::parse_http_date(time).is_ok(),
        "expected a time in RFC 1123, or none",
    )?;
    Ok(())
}

/// Python derives the secondary address of a path-style endpoint by rewriting the host, which
/// doubles the account.
fn stats_of_python(endpoint: &Endpoint) -> Outcome {
    endpoint.require_path_style()?;
    let client = endpoint.client();
    let account = endpoint.account();
    let target = format!("/{account}-secondary/{account}/?restype=service&comp=stats");
    let response = client.get("").target(&target).send()?;
    if response.status == 403 {
        return Err(Failure::skipped("the endpoint has no secondary"));
    }
    ensure!(response.status == 200, "{}", response.mismatch("expected status 200"));
    expect_stats(&response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_compare_without_regard_to_order() {
        let sorted = with_sorted_rules("<Cors><CorsRule><B>2</B><C /><A>1</A></CorsRule></Cors>");
        assert_eq!(sorted, "<Cors><CorsRule><A>1</A><B>2</B><C /></CorsRule></Cors>");
        assert_eq!(with_sorted_rules("<Cors />"), "<Cors />");
    }
}
