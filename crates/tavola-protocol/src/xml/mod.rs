//! The XML bodies: access policies, service properties, stats.
//!
//! Output is what the service sends, without its byte order mark. Input is taken with or without
//! declaration and byte order mark, with elements in any order; unknown elements are ignored, a
//! document type is refused.

mod element;
mod messages;
mod queues;
mod service_properties;

use std::time::{Duration, SystemTime};

use tavola_core::limits::POLICIES_MAX;
use tavola_core::{AccessPolicy, DateTime, ServiceKind};

use element::{Element, Writer};
pub use messages::{
    read_message_text, read_messages, write_enqueued, write_messages, write_peeked,
};
pub use queues::{read_queues, write_queues};
pub use service_properties::{read_service_properties, write_service_properties};

/// A body that is not the XML it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the XML document that the operation takes")]
pub struct XmlError;

/// Reads the access policies of a table, a queue or a container. No document at all means no policies.
///
/// # Errors
/// If the document is malformed or breaks a limit.
pub fn read_policies(service: ServiceKind, body: &[u8]) -> Result<Vec<AccessPolicy>, XmlError> {
    let text = element::text_of(body)?;
    if text.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let root = Element::parse(text, "SignedIdentifiers")?;
    let policies = root.children("SignedIdentifier").map(|one| policy(service, one));
    let policies = policies.collect::<Result<Vec<_>, _>>()?;
    let repeated = |at: usize| policies[..at].iter().any(|earlier| earlier.id == policies[at].id);
    if policies.len() > POLICIES_MAX || (0..policies.len()).any(repeated) {
        return Err(XmlError);
    }
    Ok(policies)
}

fn policy(service: ServiceKind, element: &Element) -> Result<AccessPolicy, XmlError> {
    let id = element.required("Id")?.text().to_owned();
    let terms = element.child("AccessPolicy")?;
    // A missing element and an empty one both leave the term to the signature.
    let term = |name: &str| {
        let found = terms.map_or(Ok(None), |terms| terms.child(name))?;
        Ok(found.map(|element| element.text().trim()).filter(|text| !text.is_empty()))
    };
    let time = |name: &str| {
        term(name)?.map(|text| DateTime::parse(text).map_err(|_| XmlError)).transpose()
    };
    let permission = term("Permission")?.map(str::to_owned);
    let policy = AccessPolicy { start: time("Start")?, expiry: time("Expiry")?, permission, id };
    if policy.id.is_empty() || !policy.is_legal(service) { Err(XmlError) } else { Ok(policy) }
}

/// Writes access policies. A policy without terms has no `AccessPolicy`, as the
/// service leaves it out.
#[must_use]
pub fn write_policies(policies: &[AccessPolicy]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.list("SignedIdentifiers", policies, |writer, policy| {
        writer.element("SignedIdentifier", |writer| {
            writer.text("Id", &policy.id);
            let terms = [
                ("Start", policy.start.map(DateTime::to_text_full)),
                ("Expiry", policy.expiry.map(DateTime::to_text_full)),
                ("Permission", policy.permission.clone()),
            ];
            if terms.iter().all(|(_, text)| text.is_none()) {
                return;
            }
            writer.element("AccessPolicy", |writer| {
                for (name, text) in &terms {
                    if let Some(text) = text {
                        writer.text(name, text);
                    }
                }
            });
        });
    });
    writer.finish()
}

/// Writes how far the secondary has come.
#[must_use]
pub fn write_stats(last_sync: DateTime) -> Vec<u8> {
    // The format of HTTP dates begins in 1970.
    let seconds = u64::try_from(last_sync.unix_seconds()).unwrap_or(0);
    let last_sync = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let mut writer = Writer::new();
    writer.element("StorageServiceStats", |writer| {
        writer.element("GeoReplication", |writer| {
            writer.text("Status", "live");
            writer.text("LastSyncTime", &last_sync);
        });
    });
    writer.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tavola_core::{AccessPolicy, DateTime, ServiceKind};

    use super::{XmlError, write_policies, write_stats};

    fn read_policies(body: &[u8]) -> Result<Vec<AccessPolicy>, XmlError> {
        super::read_policies(ServiceKind::Table, body)
    }

    fn policy(
        id: &str,
        start: Option<&str>,
        expiry: Option<&str>,
        permission: Option<&str>,
    ) -> AccessPolicy {
        let time = |text: &str| DateTime::parse(text).unwrap();
        AccessPolicy {
            id: id.to_owned(),
            start: start.map(time),
            expiry: expiry.map(time),
            permission: permission.map(str::to_owned),
        }
    }

    fn written(policies: &[AccessPolicy]) -> String {
        String::from_utf8(write_policies(policies)).unwrap()
    }

    const HEAD: &str = r#"<?xml version="1.0" encoding="utf-8"?>"#;

    #[test]
    fn policies_to_the_byte() {
        let full =
            policy("testid", Some("2021-06-08T02:05:09Z"), Some("2021-06-08T03:10:09Z"), Some("r"));
        let expected = "<SignedIdentifiers><SignedIdentifier><Id>testid</Id><AccessPolicy><Start>2021-06-08T02:05:09.0000000Z</Start><Expiry>2021-06-08T03:10:09.0000000Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
        assert_eq!(written(std::slice::from_ref(&full)), format!("{HEAD}{expected}"));
        assert_eq!(read_policies(expected.as_bytes()), Ok(vec![full]));
        assert_eq!(written(&[]), format!("{HEAD}<SignedIdentifiers />"));
        let null = policy("<null>", None, None, None);
        let expected = "<SignedIdentifiers><SignedIdentifier><Id>&lt;null&gt;</Id></SignedIdentifier></SignedIdentifiers>";
        assert_eq!(written(&[null]), format!("{HEAD}{expected}"));
    }

    #[test]
    fn no_policies() {
        for body in [
            "",
            " \r\n",
            "\u{feff}",
            "<SignedIdentifiers />",
            "<SignedIdentifiers></SignedIdentifiers>",
            "\u{feff}<?xml version='1.0' encoding='utf-8'?>\r\n<SignedIdentifiers xmlns='urn:x'>\r\n</SignedIdentifiers>\r\n",
            "<!-- a --><SignedIdentifiers><?b c?><Other><Deep /></Other></SignedIdentifiers>",
        ] {
            assert_eq!(read_policies(body.as_bytes()), Ok(vec![]), "{body}");
        }
    }

    #[test]
    fn one_policy_in_many_shapes() {
        let time = Some("2021-06-08");
        for (inner, expected) in [
            ("<Id>a</Id>", policy("a", None, None, None)),
            ("<Id>a</Id><AccessPolicy />", policy("a", None, None, None)),
            (
                "<Id>a</Id><AccessPolicy><Start/><Expiry></Expiry><Permission /></AccessPolicy>",
                policy("a", None, None, None),
            ),
            (
                "<AccessPolicy><Permission>raud</Permission><Expiry>2021-06-08</Expiry><Start>2021-06-08T00:00Z</Start></AccessPolicy><Id>a</Id>",
                policy("a", time, time, Some("raud")),
            ),
            (
                "\n <Id>a</Id>\n <AccessPolicy>\n <Start> 2021-06-08T00:00:00.0000000Z </Start>\n </AccessPolicy>\n",
                policy("a", time, None, None),
            ),
            ("<Id>&amp;&#x41;<![CDATA[<b>]]>&#66; c</Id>", policy("&A<b>B c", None, None, None)),
        ] {
            let body = format!(
                "<SignedIdentifiers><SignedIdentifier>{inner}</SignedIdentifier></SignedIdentifiers>"
            );
            assert_eq!(read_policies(body.as_bytes()), Ok(vec![expected]), "{inner}");
        }
    }

    #[test]
    fn refused_documents() {
        let long_id = format!("<Id>{}</Id>", "x".repeat(65));
        for inner in [
            "",
            "<Id />",
            "<Id>a</Id><Id>b</Id>",
            &long_id,
            "<Id>a</Id><AccessPolicy><Permission>rw</Permission></AccessPolicy>",
            "<Id>a</Id><AccessPolicy><Permission>r</Permission><Permission>d</Permission></AccessPolicy>",
            "<Id>a</Id><AccessPolicy><Start>yesterday</Start></AccessPolicy>",
            "<Id>a</Id><AccessPolicy><Start>0001-01-01</Start></AccessPolicy>",
            "<Id>a</Id><AccessPolicy /><AccessPolicy />",
            "<Id>&unknown;</Id>",
            "<Id>&#1;</Id>",
            "<Id>\u{1}</Id>",
            "<Id>a</id>",
            "<Id>a",
        ] {
            let body = format!(
                "<SignedIdentifiers><SignedIdentifier>{inner}</SignedIdentifier></SignedIdentifiers>"
            );
            assert_eq!(read_policies(body.as_bytes()), Err(XmlError), "{inner}");
        }
        let list = |count: usize| {
            let one = |n| format!("<SignedIdentifier><Id>{n}</Id></SignedIdentifier>");
            format!(
                "<SignedIdentifiers>{}</SignedIdentifiers>",
                (0..count).map(one).collect::<String>()
            )
        };
        assert_eq!(read_policies(list(5).as_bytes()).map(|policies| policies.len()), Ok(5));
        let deep = "<SignedIdentifiers>".repeat(100_000);
        let twice = list(2).replace('1', "0");
        for body in [
            &list(6)[..],
            &list(100_000),
            &twice,
            &deep,
            "x",
            "<",
            "<SignedIdentifiers>",
            "<SignedIdentifiers/><SignedIdentifiers/>",
            "<SignedIdentifiers/>x",
            "x<SignedIdentifiers/>",
            "<signedidentifiers/>",
            "<!DOCTYPE SignedIdentifiers><SignedIdentifiers/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><SignedIdentifiers/>",
        ] {
            let shown: String = body.chars().take(60).collect();
            assert_eq!(read_policies(body.as_bytes()), Err(XmlError), "{shown}");
        }
        assert_eq!(read_policies(b"<SignedIdentifiers>\xff</SignedIdentifiers>"), Err(XmlError));
        assert_eq!(read_policies(b"\xff\xfe<\0"), Err(XmlError));
    }

    #[test]
    fn stats_to_the_byte() {
        let at = DateTime::parse("2022-04-13T19:22:46.5Z").unwrap();
        let expected = "<StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>Wed, 13 Apr 2022 19:22:46 GMT</LastSyncTime></GeoReplication></StorageServiceStats>";
        assert_eq!(String::from_utf8(write_stats(at)).unwrap(), format!("{HEAD}{expected}"));
        for at in [DateTime::MIN, DateTime::MAX] {
            assert!(
                write_stats(at)
                    .ends_with(b" GMT</LastSyncTime></GeoReplication></StorageServiceStats>")
            );
        }
    }

    prop_compose! {
        fn any_policy()(
            id in "[^\\p{Cc}\u{fffe}\u{ffff}]([^\u{0}-\u{8}\u{b}\u{c}\u{e}-\u{1f}\u{fffe}\u{ffff}]{0,8})",
            start in prop::option::of(0..=DateTime::MAX.ticks()),
            expiry in prop::option::of(0..=DateTime::MAX.ticks()),
            permission in prop::option::of("r?a?u?d"),
        ) -> AccessPolicy {
            let time = |ticks: u64| DateTime::from_ticks(ticks).unwrap();
            AccessPolicy { id, start: start.map(time), expiry: expiry.map(time), permission }
        }
    }

    proptest! {
        #[test]
        fn round_trip(mut policies in prop::collection::vec(any_policy(), 0..=5)) {
            for (at, policy) in policies.iter_mut().enumerate() {
                policy.id.insert_str(0, &at.to_string());
            }
            prop_assert_eq!(read_policies(&write_policies(&policies)), Ok(policies));
        }

        #[test]
        fn no_panic(
            body in prop::collection::vec(any::<u8>(), 0..200),
            text in "(<|</|>|/>|SignedIdentifiers|Id|&|#|x41|;|<!--|-->|<!\\[CDATA\\[|\\]\\]>|<\\?|\\?>|=|\"|é| ){0,40}",
            policies in prop::collection::vec(any_policy(), 1..3),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut damaged = write_policies(&policies);
            let at = at.index(damaged.len());
            damaged[at] = byte;
            let _ = (read_policies(&body), read_policies(text.as_bytes()), read_policies(&damaged));
        }
    }
}
