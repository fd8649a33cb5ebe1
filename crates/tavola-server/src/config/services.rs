//! The services that this server has, and what an operator can set of each: a service is one entry
//! of [`SERVED`], its section of the file follows.

use std::net::SocketAddr;

use tavola_core::ServiceKind;
use tavola_store::settings::{OldName, Setting, SettingValues as _};

use super::{ConfigError, Layers, ListenerConfig};

/// Every service that can be served, in the order of the ports that emulators use.
pub const SERVED: &[ServiceKind] = &[ServiceKind::Table];

/// What settings of services were called when there was one service only.
pub(super) const OLD_NAMES: &[OldName] =
    &[OldName { path: "server.table_port", flag: None, now: "table.port" }];

/// The path of a setting of a service, such as `table.port`.
#[must_use]
pub fn service_setting(service: ServiceKind, key: &str) -> String {
    format!("{}.{key}", service.name())
}

/// The settings of all services. Their texts live as long as the process, as those of other
/// settings do.
pub(super) fn settings() -> Vec<Setting> {
    SERVED.iter().flat_map(|service| settings_of(*service)).collect()
}

fn settings_of(service: ServiceKind) -> [Setting; 3] {
    let (name, title) = (service.name(), service.title());
    let setting = |key: &str, has_flag: bool, value, default: String, help: String| Setting {
        path: service_setting(service, key).leak(),
        flag: has_flag.then(|| &*format!("{name}-{key}").leak()),
        value,
        default: default.leak(),
        help: help.leak(),
    };
    [
        setting(
            "enabled",
            false,
            "BOOL",
            "true".to_owned(),
            format!("Serve the {title} service; at least one service must be enabled"),
        ),
        setting(
            "host",
            true,
            "ADDRESS",
            String::new(),
            format!("Address on which the {title} service listens; default: that of server.host"),
        ),
        setting(
            "port",
            true,
            "PORT",
            service.default_port().to_string(),
            format!("Port of the {title} service; 0 picks a free one"),
        ),
    ]
}

/// Where each service listens that is enabled.
pub(super) fn listeners(layers: &Layers) -> Result<Vec<ListenerConfig>, ConfigError> {
    let common = layers.parse_address("server.host")?;
    let mut listeners = Vec::new();
    for service in SERVED {
        let path = |key| service_setting(*service, key);
        if !layers.parse_bool(&path("enabled"))? {
            continue;
        }
        let host = match layers.optional(&path("host")) {
            Some(_) => layers.parse_address(&path("host"))?,
            None => common,
        };
        let address = SocketAddr::new(host, layers.parse_port(&path("port"))?);
        listeners.push(ListenerConfig { service: *service, address });
    }
    match (SERVED, listeners.is_empty()) {
        ([first, ..], true) => Err(layers.error(
            &service_setting(*first, "enabled"),
            "nothing would be served; enable a service",
        )),
        _ => Ok(listeners),
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::ServiceKind;

    use super::{SERVED, service_setting};
    use crate::config::tests::{layers, resolve};
    use crate::config::{Config, Personality};

    #[test]
    fn each_service_has_a_section() {
        let layers = layers("", &[]).unwrap();
        for service in SERVED {
            let port = layers.text(&service_setting(*service, "port"));
            assert_eq!(port, service.default_port().to_string());
        }
        let config = Config::resolve(&layers, Personality::Server).unwrap();
        let served: Vec<ServiceKind> =
            config.listeners.iter().map(|listener| listener.service).collect();
        assert_eq!(served, SERVED);
    }

    #[test]
    fn a_service_listens_where_its_section_says() {
        let address = |file: &str| {
            resolve(file, &[]).unwrap().address(ServiceKind::Table).unwrap().to_string()
        };
        assert_eq!(address("[table]\nport = 1"), "127.0.0.1:1");
        assert_eq!(address("[server]\nhost = \"127.0.0.2\""), "127.0.0.2:10002");
        assert_eq!(
            address("[server]\nhost = \"127.0.0.2\"\n[table]\nhost = \"::1\""),
            "[::1]:10002"
        );
        for (file, words) in [
            ("[table]\nenabled = false", "table.enabled (file "),
            ("[table]\nhost = \"no such host\"", "table.host (file "),
        ] {
            let error = resolve(file, &[]).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
        let error = resolve("[table]\nhost = \"0.0.0.0\"", &[]).unwrap_err().to_string();
        assert!(error.starts_with("refusing to listen on 0.0.0.0 without accounts"), "{error}");
    }

    #[test]
    fn the_former_name_of_a_port_works_and_is_noted() {
        for (file, environment) in [
            ("[server]\ntable_port = 4711", &[][..]),
            ("", &[("TAVOLA_SERVER__TABLE_PORT", "4711")]),
        ] {
            let config = resolve(file, environment).unwrap();
            assert_eq!(config.address(ServiceKind::Table).unwrap().port(), 4711);
            let [note] = &config.notes[..] else { panic!("{:?}", config.notes) };
            assert!(note.contains("is the old name of table.port"), "{note}");
        }
        assert!(resolve("[table]\nport = 4711", &[]).unwrap().notes.is_empty());
    }
}
