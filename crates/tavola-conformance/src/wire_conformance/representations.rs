//! Section 16.9: what an answer looks like at each metadata level, byte for byte, and how the level
//! is chosen.

use super::http::Response;
use super::request::{Client, FULL_METADATA, MINIMAL_METADATA, NO_METADATA};
use super::table::{Table, keys};
use super::{Case, Endpoint, Failure, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::shared("entity_without_metadata", &["142"], no_metadata),
    Case::shared("entity_with_minimal_metadata", &["143", "146", "148", "149"], minimal_metadata),
    Case::shared("entity_with_full_metadata", &["144", "145", "146", "148"], full_metadata),
    Case::shared("set_at_each_level", &["142", "143", "144", "146"], sets),
    Case::shared("insert_echoes_at_each_level", &["142", "143", "144"], insert_echo),
    Case::shared("full_metadata_encodes_keys", &["144"], full_metadata_keys),
    Case::shared("select_in_the_metadata_url", &["147"], select_in_metadata),
    Case::shared("format_overrides_accept", &["150"], format_parameter),
    Case::shared("plain_json_means_minimal_metadata", &["151"], plain_json),
    Case::shared("atom_is_not_supported", &["152"], atom),
    Case::shared("verbose_json_is_not_supported", &[], verbose_json),
    Case::shared("any_format_is_json", &["153"], any_format),
    Case::shared("content_type_names_the_level", &["154"], content_type),
    Case::shared("accept_with_spaces_and_qualities", &["155"], accept_spellings),
];

const MEMBERS: &str = concat!(
    r#""age@odata.type":"Edm.Int64","age":"39","sex":"male","married":true,"ratio":3.1,"evenratio":3.0,"#,
    r#""Birthday@odata.type":"Edm.DateTime","Birthday":"1973-10-04T00:00:00Z","#,
    r#""binary@odata.type":"Edm.Binary","binary":"YmluYXJ5","other":20,"#,
    r#""clsid@odata.type":"Edm.Guid","clsid":"c9da6455-213d-42c9-9a79-3e9149a57833","#,
    r#""nan@odata.type":"Edm.Double","nan":"NaN""#
);
const MEMBERS_WITHOUT_TYPES: &str = concat!(
    r#""age":"39","sex":"male","married":true,"ratio":3.1,"evenratio":3.0,"#,
    r#""Birthday":"1973-10-04T00:00:00Z","binary":"YmluYXJ5","other":20,"#,
    r#""clsid":"c9da6455-213d-42c9-9a79-3e9149a57833","nan":"NaN""#
);

/// A table with the sample entity of the reference, whose Timestamp and ETag are known.
struct Sample<'c> {
    client: &'c Client<'c>,
    table: Table<'c>,
    timestamp: String,
    etag: String,
}

impl<'c> Sample<'c> {
    fn store(client: &'c Client<'c>) -> Result<Self, Failure> {
        let table = client.table()?;
        let body = format!(r#"{{"PartitionKey":"pk","RowKey":"rk",{MEMBERS}}}"#);
        let inserted = table.insert(&body).send()?;
        inserted.expect_status(201)?;
        let timestamp = inserted.json()?["Timestamp"].as_str().unwrap_or_default().to_owned();
        let etag = inserted.etag()?.replace('"', "\\\"");
        Ok(Sample { client, table, timestamp, etag })
    }

    fn base(&self) -> String {
        self.client.endpoint().base_url()
    }

    fn read(&self, accept: &str) -> Result<Response, Failure> {
        let response = self.client.get(&self.table.entity("pk", "rk")).accept(accept).send()?;
        response.expect_status(200)?;
        Ok(response)
    }

    /// The members of the entity itself at a level, without braces and without `odata.metadata`.
    fn members(&self, accept: &str) -> String {
        let (name, base) = (self.table.name(), self.base());
        let account = self.client.endpoint().account();
        let (timestamp, etag) = (&self.timestamp, &self.etag);
        let system = r#""PartitionKey":"pk","RowKey":"rk""#;
        match accept {
            NO_METADATA => {
                format!(r#"{system},"Timestamp":"{timestamp}",{MEMBERS_WITHOUT_TYPES}"#)
            }
            MINIMAL_METADATA => {
                format!(r#""odata.etag":"{etag}",{system},"Timestamp":"{timestamp}",{MEMBERS}"#)
            }
            _ => format!(
                r#""odata.type":"{account}.{name}","odata.id":"{base}/{name}(PartitionKey='pk',RowKey='rk')","odata.etag":"{etag}","odata.editLink":"{name}(PartitionKey='pk',RowKey='rk')",{system},"Timestamp@odata.type":"Edm.DateTime","Timestamp":"{timestamp}",{MEMBERS}"#
            ),
        }
    }

    /// The body of the entity at a level.
    fn body(&self, accept: &str) -> String {
        match accept {
            NO_METADATA => format!("{{{}}}", self.members(accept)),
            _ => format!(
                r#"{{"odata.metadata":"{}/$metadata#{}/@Element",{}}}"#,
                self.base(),
                self.table.name(),
                self.members(accept)
            ),
        }
    }
}

fn no_metadata(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    sample
        .read(NO_METADATA)?
        .expect_body(&sample.body(NO_METADATA))?
        .expect_not_in_body("odata")?;
    Ok(())
}

fn minimal_metadata(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    sample.read(MINIMAL_METADATA)?.expect_body(&sample.body(MINIMAL_METADATA))?;
    Ok(())
}

fn full_metadata(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    sample.read(FULL_METADATA)?.expect_body(&sample.body(FULL_METADATA))?;
    Ok(())
}

fn sets(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    let set = format!("{}()", sample.table.path());
    for accept in [NO_METADATA, MINIMAL_METADATA, FULL_METADATA] {
        let metadata = match accept {
            NO_METADATA => String::new(),
            _ => format!(
                r#""odata.metadata":"{}/$metadata#{}","#,
                sample.base(),
                sample.table.name()
            ),
        };
        client
            .get(&set)
            .accept(accept)
            .send()?
            .expect_status(200)?
            .expect_body(&format!(r#"{{{metadata}"value":[{{{}}}]}}"#, sample.members(accept)))?;
        client
            .get(&format!("{set}?$filter=RowKey%20eq%20'none'"))
            .accept(accept)
            .send()?
            .expect_status(200)?
            .expect_body(&format!(r#"{{{metadata}"value":[]}}"#))?;
    }
    Ok(())
}

fn insert_echo(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    for (row_key, accept) in [("n", NO_METADATA), ("m", MINIMAL_METADATA), ("f", FULL_METADATA)] {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row_key}",{MEMBERS}}}"#);
        let inserted = table.insert(&body).accept(accept).send()?;
        inserted.expect_status(201)?;
        client
            .get(&table.entity("p", row_key))
            .accept(accept)
            .send()?
            .expect_status(200)?
            .expect_body(inserted.text()?)?;
    }
    Ok(())
}

/// Quotes are doubled and stay raw; other unsafe characters are percent-encoded.
fn full_metadata_keys(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let table = client.table()?;
    table.add(&keys("A'aaa_bbbb2\"", "r é"))?;
    let link = format!("{}(PartitionKey='A''aaa_bbbb2%22',RowKey='r%20%C3%A9')", table.name());
    client
        .get(&table.entity("A'aaa_bbbb2\"", "r é"))
        .accept(FULL_METADATA)
        .send()?
        .expect_status(200)?
        .expect_json("/odata.id", format!("{}/{link}", endpoint.base_url()))?
        .expect_json("/odata.editLink", link.as_str())?;
    Ok(())
}

/// The suffix was recorded, but may be left out.
fn select_in_metadata(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    let metadata = format!("{}/$metadata#{}", sample.base(), sample.table.name());
    for (path, plain) in [
        (format!("{}()", sample.table.path()), metadata.clone()),
        (sample.table.entity("pk", "rk"), format!("{metadata}/@Element")),
    ] {
        let response = client.get(&format!("{path}?$select=age%2C%20sex")).send()?;
        response.expect_status(200)?;
        let found = response.json()?["odata.metadata"].clone();
        let spellings = ["", "&$select=age,%20sex", "&$select=age,sex"];
        response.ensure(
            spellings.iter().any(|suffix| found == format!("{plain}{suffix}")),
            &format!("expected {plain}&$select=age,%20sex"),
        )?;
    }
    Ok(())
}

fn format_parameter(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    let entity = sample.table.entity("pk", "rk");
    for (wanted, other) in [
        (NO_METADATA, FULL_METADATA),
        (MINIMAL_METADATA, NO_METADATA),
        (FULL_METADATA, MINIMAL_METADATA),
        (FULL_METADATA, "application/json"),
    ] {
        let encoded = wanted.replace('/', "%2F").replace(';', "%3B").replace('=', "%3D");
        for format in [wanted.replace('/', "%2F"), encoded] {
            client
                .get(&format!("{entity}?$format={format}"))
                .accept(other)
                .send()?
                .expect_status(200)?
                .expect_body(&sample.body(wanted))?;
        }
    }
    client
        .post(&format!("{}?$format=application%2Fjson%3Bodata%3Dnometadata", sample.table.path()))
        .json(&keys("p", "posted").to_string())
        .send()?
        .expect_status(201)?
        .expect_not_in_body("odata")?;
    Ok(())
}

fn plain_json(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    sample
        .read("application/json")?
        .expect_body(&sample.body(MINIMAL_METADATA))?
        .expect_header("Content-Type", &content_type_of(MINIMAL_METADATA))?;
    Ok(())
}

fn content_type_of(accept: &str) -> String {
    format!("{accept};streaming=true;charset=utf-8")
}

fn atom(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    let set = format!("{}()", sample.table.path());
    for version in ["2015-12-11", "2019-02-02"] {
        for path in [set.as_str(), "/Tables", &sample.table.entity("pk", "rk")] {
            client
                .get(path)
                .accept("application/atom+xml")
                .header("x-ms-version", version)
                .send()?
                .expect_status(415)?
                .expect_in_body("AtomFormatNotSupported")?
                .expect_in_body("Atom format is not supported.")?;
        }
    }
    Ok(())
}

fn verbose_json(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    client
        .get(&sample.table.entity("pk", "rk"))
        .accept("application/json;odata=verbose")
        .send()?
        .expect_status(415)?
        .expect_in_body("JsonVerboseFormatNotSupported")?;
    Ok(())
}

/// Reads are not verified on the service, and 415 is tolerated there. Writes with `*/*` were
/// recorded to succeed.
fn any_format(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    let entity = sample.table.entity("pk", "rk");
    for request in [
        client.get(&entity).accept("*/*"),
        client.get(&entity).without("Accept"),
        client.get("/Tables?$top=1").accept("*/*"),
        client.get("/Tables?$top=1").without("Accept"),
    ] {
        let response = request.send()?;
        if response.status != 415 {
            response.expect_status(200)?;
            response.json()?;
            let is_json = response.require_header("Content-Type")?.starts_with("application/json");
            response.ensure(is_json, "the content type does not begin with application/json")?;
        }
    }
    for request in [
        client.put(&entity).json("{}").accept("*/*"),
        client.patch(&entity).json("{}").without("Accept"),
        client.delete(&entity).header("If-Match", "*").accept("*/*"),
        client.delete_table(sample.table.name()).accept("*/*"),
    ] {
        request.send()?.expect_status(204)?;
    }
    Ok(())
}

fn content_type(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    let set = format!("{}()", sample.table.path());
    for accept in [NO_METADATA, MINIMAL_METADATA, FULL_METADATA] {
        for path in [set.as_str(), "/Tables?$top=1", &sample.table.entity("pk", "rk")] {
            client
                .get(path)
                .accept(accept)
                .send()?
                .expect_status(200)?
                .expect_header("Content-Type", &content_type_of(accept))?;
        }
    }
    Ok(())
}

fn accept_spellings(endpoint: &Endpoint) -> Outcome {
    let client = endpoint.client();
    let sample = Sample::store(&client)?;
    for (accept, level) in [
        ("application/json; odata=nometadata", NO_METADATA),
        ("application/json ;odata=fullmetadata", FULL_METADATA),
        ("application/json ; odata=nometadata", NO_METADATA),
        ("application/json;odata=nometadata;q=0.9", NO_METADATA),
        ("application/json;odata=fullmetadata, */*;q=0.1", FULL_METADATA),
        ("text/html, application/json;odata=fullmetadata", FULL_METADATA),
        ("application/atom+xml;q=0.1, application/json;odata=nometadata;q=0.9", NO_METADATA),
        ("application/json;odata=minimalmetadata;streaming=true;charset=utf-8", MINIMAL_METADATA),
        ("application/json, text/plain;q=0.5", MINIMAL_METADATA),
    ] {
        sample
            .read(accept)?
            .expect_body(&sample.body(level))?
            .expect_header("Content-Type", &content_type_of(level))?;
    }
    sample
        .client
        .get(&sample.table.entity("pk", "rk"))
        .without("Accept")
        .header("aCCEPT", NO_METADATA)
        .send()?
        .expect_body(&sample.body(NO_METADATA))?;
    Ok(())
}
