//! A service's properties: logging, metrics and CORS rules.

use tavola_core::ServiceProperties;
use tavola_core::cors::CorsRule;
use tavola_core::limits::CORS_RULES_MAX;
use tavola_core::properties::{Logging, Metrics, Retention, ServicePropertiesChange};

use super::XmlError;
use super::element::{Element, Writer, text_of};

/// The one version of the formats of logs and metrics.
const VERSION: &str = "1.0";
/// Text of all CORS rules together.
const CORS_BYTES_MAX: usize = 2048;

/// Reads a change of a service's properties.
///
/// # Errors
/// If the document is malformed, a given group is incomplete, or a limit is broken.
pub fn read_service_properties(body: &[u8]) -> Result<ServicePropertiesChange, XmlError> {
    let root = Element::parse(text_of(body)?, "StorageServiceProperties")?;
    Ok(ServicePropertiesChange {
        logging: root.child("Logging")?.map(logging).transpose()?,
        hour_metrics: root.child("HourMetrics")?.map(metrics).transpose()?,
        minute_metrics: root.child("MinuteMetrics")?.map(metrics).transpose()?,
        cors: root.child("Cors")?.map(cors).transpose()?,
    })
}

fn logging(element: &Element) -> Result<Logging, XmlError> {
    Ok(Logging {
        version: version(element)?,
        delete: boolean(element, "Delete")?,
        read: boolean(element, "Read")?,
        write: boolean(element, "Write")?,
        retention: retention(element)?,
    })
}

fn metrics(element: &Element) -> Result<Metrics, XmlError> {
    let enabled = boolean(element, "Enabled")?;
    // Some clients send it while metrics are off, where it says nothing.
    let include_apis = if enabled { Some(boolean(element, "IncludeAPIs")?) } else { None };
    Ok(Metrics {
        version: version(element)?,
        enabled,
        include_apis,
        retention: retention(element)?,
    })
}

fn version(element: &Element) -> Result<String, XmlError> {
    let version = element.required("Version")?.text().trim();
    if version == VERSION { Ok(version.to_owned()) } else { Err(XmlError) }
}

fn retention(element: &Element) -> Result<Retention, XmlError> {
    let policy = element.required("RetentionPolicy")?;
    let days = match boolean(policy, "Enabled")? {
        true => Some(policy.required("Days")?.text().trim().parse().map_err(|_| XmlError)?),
        false => None,
    };
    let retention = Retention { days };
    if retention.is_legal() { Ok(retention) } else { Err(XmlError) }
}

fn boolean(element: &Element, name: &str) -> Result<bool, XmlError> {
    match element.required(name)?.text().trim() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(XmlError),
    }
}

fn cors(element: &Element) -> Result<Vec<CorsRule>, XmlError> {
    let mut bytes = 0;
    let mut rules = Vec::new();
    for rule in element.children("CorsRule") {
        let mut list = |name: &str| {
            let text = rule.required(name)?.text();
            bytes += text.len();
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(items.map(str::to_owned).collect())
        };
        let rule = CorsRule {
            allowed_origins: list("AllowedOrigins")?,
            allowed_methods: list("AllowedMethods")?,
            allowed_headers: list("AllowedHeaders")?,
            exposed_headers: list("ExposedHeaders")?,
            max_age_seconds: rule
                .required("MaxAgeInSeconds")?
                .text()
                .trim()
                .parse()
                .map_err(|_| XmlError)?,
        };
        if !rule.is_legal() || bytes > CORS_BYTES_MAX {
            return Err(XmlError);
        }
        rules.push(rule);
    }
    if rules.len() > CORS_RULES_MAX { Err(XmlError) } else { Ok(rules) }
}

/// Writes a service's properties. All four groups, always: some clients break on one that is
/// missing.
#[must_use]
pub fn write_service_properties(properties: &ServiceProperties) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.element("StorageServiceProperties", |writer| {
        write_logging(writer, &properties.logging);
        write_metrics(writer, "HourMetrics", &properties.hour_metrics);
        write_metrics(writer, "MinuteMetrics", &properties.minute_metrics);
        writer.list("Cors", &properties.cors, write_cors_rule);
    });
    writer.finish()
}

fn write_logging(writer: &mut Writer, logging: &Logging) {
    writer.element("Logging", |writer| {
        writer.text("Version", &logging.version);
        write_boolean(writer, "Read", logging.read);
        write_boolean(writer, "Write", logging.write);
        write_boolean(writer, "Delete", logging.delete);
        write_retention(writer, logging.retention);
    });
}

fn write_metrics(writer: &mut Writer, name: &str, metrics: &Metrics) {
    writer.element(name, |writer| {
        writer.text("Version", &metrics.version);
        write_boolean(writer, "Enabled", metrics.enabled);
        if let Some(include_apis) = metrics.include_apis {
            write_boolean(writer, "IncludeAPIs", include_apis);
        }
        write_retention(writer, metrics.retention);
    });
}

fn write_retention(writer: &mut Writer, retention: Retention) {
    writer.element("RetentionPolicy", |writer| {
        write_boolean(writer, "Enabled", retention.days.is_some());
        if let Some(days) = retention.days {
            writer.text("Days", &days.to_string());
        }
    });
}

fn write_boolean(writer: &mut Writer, name: &str, truth: bool) {
    writer.text(name, if truth { "true" } else { "false" });
}

fn write_cors_rule(writer: &mut Writer, rule: &CorsRule) {
    writer.element("CorsRule", |writer| {
        writer.text("AllowedOrigins", &rule.allowed_origins.join(","));
        writer.text("AllowedMethods", &rule.allowed_methods.join(","));
        writer.text("MaxAgeInSeconds", &rule.max_age_seconds.to_string());
        writer.text("ExposedHeaders", &rule.exposed_headers.join(","));
        writer.text("AllowedHeaders", &rule.allowed_headers.join(","));
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tavola_core::ServiceProperties;
    use tavola_core::cors::CorsRule;
    use tavola_core::properties::{Logging, Metrics, Retention, ServicePropertiesChange};

    use super::super::XmlError;
    use super::{read_service_properties, write_service_properties};

    fn read(groups: &str) -> Result<ServicePropertiesChange, XmlError> {
        read_service_properties(
            format!("<StorageServiceProperties>{groups}</StorageServiceProperties>").as_bytes(),
        )
    }

    #[test]
    fn the_document_to_the_byte() {
        let hour_metrics = Metrics {
            version: "1.0".to_owned(),
            enabled: true,
            include_apis: Some(true),
            retention: Retention { days: Some(7) },
        };
        let properties = ServiceProperties { hour_metrics, ..ServiceProperties::default() };
        let expected = r#"<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties><Logging><Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics><Cors /></StorageServiceProperties>"#;
        assert_eq!(String::from_utf8(write_service_properties(&properties)).unwrap(), expected);
    }

    #[test]
    fn a_group_that_is_absent_is_no_change() {
        assert_eq!(read(""), Ok(ServicePropertiesChange::default()));
        assert_eq!(read("<Cors />").map(|change| change.cors), Ok(Some(vec![])));
        assert_eq!(
            read("<Cors></Cors><DefaultServiceVersion>x</DefaultServiceVersion>")
                .map(|change| change.logging),
            Ok(None)
        );
        let metrics = read(
            "<MinuteMetrics><RetentionPolicy><Days>9</Days><Enabled>false</Enabled></RetentionPolicy><IncludeAPIs>true</IncludeAPIs><Enabled>false</Enabled><Version>1.0</Version></MinuteMetrics>",
        );
        let off = Metrics { version: "1.0".to_owned(), ..Metrics::default() };
        assert_eq!(
            metrics,
            Ok(ServicePropertiesChange {
                minute_metrics: Some(off),
                ..ServicePropertiesChange::default()
            })
        );
    }

    const RETENTION: &str = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";

    #[test]
    fn a_group_that_is_given_is_complete() {
        let logging = format!(
            "<Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read><Write>1</Write>{RETENTION}</Logging>"
        );
        let metrics = format!(
            "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>{RETENTION}</HourMetrics>"
        );
        let cors = "<Cors><CorsRule><AllowedOrigins>http://a, http://b</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><MaxAgeInSeconds>500</MaxAgeInSeconds><ExposedHeaders /><AllowedHeaders>x-*</AllowedHeaders></CorsRule></Cors>";
        for (group, elements) in [
            (&logging[..], &["Version", "Delete", "Read", "Write", "RetentionPolicy"][..]),
            (&metrics, &["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"]),
            (
                cors,
                &[
                    "AllowedOrigins",
                    "AllowedMethods",
                    "MaxAgeInSeconds",
                    "ExposedHeaders",
                    "AllowedHeaders",
                ],
            ),
        ] {
            assert!(read(group).is_ok(), "{group}");
            assert_eq!(read(&format!("{group}{group}")), Err(XmlError), "twice: {group}");
            for element in elements {
                let incomplete = group.replacen(&format!("<{element}"), "<Other", 1).replacen(
                    &format!("</{element}"),
                    "</Other",
                    1,
                );
                assert_eq!(read(&incomplete), Err(XmlError), "{incomplete}");
            }
        }
    }

    #[test]
    fn limits() {
        let days = |days: &str| {
            let retention =
                format!("<RetentionPolicy><Enabled>true</Enabled>{days}</RetentionPolicy>");
            read(&format!("<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled>{retention}</MinuteMetrics>"))
                .is_ok()
        };
        assert!(days("<Days>1</Days>") && days("<Days> 365 </Days>"));
        for bad in [
            "",
            "<Days/>",
            "<Days>0</Days>",
            "<Days>366</Days>",
            "<Days>-1</Days>",
            "<Days>99999999</Days>",
            "<Days>x</Days>",
        ] {
            assert!(!days(bad), "{bad}");
        }
        let rule = |origins: &str, methods: &str, age: &str| {
            format!(
                "<CorsRule><AllowedOrigins>{origins}</AllowedOrigins><AllowedMethods>{methods}</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>{age}</MaxAgeInSeconds></CorsRule>"
            )
        };
        let rules = |rules: &str| read(&format!("<Cors>{rules}</Cors>")).is_ok();
        assert!(rules(&rule("*", "GET", "0").repeat(5)));
        assert!(!rules(&rule("*", "GET", "0").repeat(6)));
        for bad in [
            rule("*", "BREW", "0"),
            rule("", "GET", "0"),
            rule("*", "GET", "-1"),
            rule("*", "GET", ""),
            rule("*", "", "0"),
        ] {
            assert!(!rules(&bad), "{bad}");
        }
        let origins = |count: usize| vec!["x".repeat(100); count].join(",");
        assert!(rules(&rule(&origins(10), "GET", "0").repeat(2)));
        assert!(!rules(&rule(&origins(11), "GET", "0").repeat(2)), "more than 2 KiB together");
    }

    #[test]
    fn refused_documents() {
        for body in [
            "",
            "<StorageServiceProperties>",
            "<Other />",
            "<!DOCTYPE a><StorageServiceProperties />",
            "<SignedIdentifiers />",
        ] {
            assert_eq!(read_service_properties(body.as_bytes()), Err(XmlError), "{body}");
        }
        for group in [
            format!(
                "<HourMetrics><Version>2.0</Version><Enabled>false</Enabled>{RETENTION}</HourMetrics>"
            ),
            format!(
                "<HourMetrics><Version>1.0</Version><Enabled>maybe</Enabled>{RETENTION}</HourMetrics>"
            ),
            format!("<HourMetrics><Version>1.0</Version><Enabled />{RETENTION}</HourMetrics>"),
        ] {
            assert_eq!(read(&group), Err(XmlError), "{group}");
        }
    }

    prop_compose! {
        fn any_retention()(days in prop::option::of(1_u16..=365)) -> Retention {
            Retention { days }
        }
    }

    prop_compose! {
        fn any_metrics()(enabled in any::<bool>(), include_apis in any::<bool>(), retention in any_retention()) -> Metrics {
            Metrics { version: "1.0".to_owned(), enabled, include_apis: enabled.then_some(include_apis), retention }
        }
    }

    prop_compose! {
        fn any_rule()(
            allowed_origins in prop::collection::vec("[a-z*:/.&<>'\"]{1,10}", 1..4),
            allowed_methods in prop::sample::subsequence(vec!["GET", "PUT", "MERGE", "OPTIONS"], 1..4),
            allowed_headers in prop::collection::vec("[a-zé-]{1,10}", 0..4),
            exposed_headers in prop::collection::vec("[a-z-]{1,10}\\*", 0..2),
            max_age_seconds in any::<u32>(),
        ) -> CorsRule {
            let allowed_methods = allowed_methods.into_iter().map(str::to_owned).collect();
            CorsRule { allowed_origins, allowed_methods, allowed_headers, exposed_headers, max_age_seconds }
        }
    }

    prop_compose! {
        fn any_properties()(
            flags in any::<[bool; 3]>(),
            retention in any_retention(),
            hour_metrics in any_metrics(),
            minute_metrics in any_metrics(),
            cors in prop::collection::vec(any_rule(), 0..=5),
        ) -> ServiceProperties {
            let [delete, read, write] = flags;
            let logging = Logging { version: "1.0".to_owned(), delete, read, write, retention };
            ServiceProperties { logging, hour_metrics, minute_metrics, cors }
        }
    }

    proptest! {
        #[test]
        fn round_trip(properties in any_properties()) {
            let change = read_service_properties(&write_service_properties(&properties)).unwrap();
            prop_assert_eq!(ServiceProperties::default().changed(change), properties);
        }

        #[test]
        fn no_panic(properties in any_properties(), body in prop::collection::vec(any::<u8>(), 0..100), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut damaged = write_service_properties(&properties);
            let at = at.index(damaged.len());
            damaged[at] = byte;
            let _ = (read_service_properties(&body), read_service_properties(&damaged));
        }
    }
}
