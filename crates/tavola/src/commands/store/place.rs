//! A store as a command line names it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tavola_embedded::{EmbeddedStore, OpenError, Options};
use tavola_server::config::{Layers, Origin};
use tavola_store::Backend;

use crate::cluster::ClusterStore;
use crate::exit::Failure;
use crate::open_store::cannot_open;
use crate::store_config::ClusterConfig;

/// Where entities are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Embedded(PathBuf),
    Cassandra { contact_points: String, keyspace: String },
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let forms = "write embedded:FOLDER or cassandra:HOST[:PORT][,HOST[:PORT]]/KEYSPACE";
        match text.split_once(':') {
            Some(("embedded", folder)) if !folder.is_empty() => {
                Ok(Self::Embedded(PathBuf::from(folder)))
            }
            Some(("cassandra", rest)) => match rest.rsplit_once('/') {
                Some((hosts, keyspace)) if !hosts.is_empty() && !keyspace.is_empty() => {
                    Ok(Self::Cassandra {
                        contact_points: hosts.to_owned(),
                        keyspace: keyspace.to_owned(),
                    })
                }
                _ => Err(format!("a cluster needs nodes and a keyspace; {forms}")),
            },
            _ => Err(forms.to_owned()),
        }
    }

    /// True if both surely name one store.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Embedded(one), Self::Embedded(other)) => {
                one == other
                    || one
                        .canonicalize()
                        .is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
            }
            _ => self == other,
        }
    }

    /// Opens a store that must be there.
    pub(super) async fn open_source(&self, layers: &Layers) -> Result<Arc<dyn Backend>, Failure> {
        if let Self::Embedded(folder) = self
            && matches!(folder.join("store").try_exists(), Ok(false))
        {
            return Err(cannot_open(OpenError::Missing { folder: folder.clone() }));
        }
        self.open_target(layers).await
    }

    /// Opens a store; a data folder that is not there is made.
    pub(super) async fn open_target(&self, layers: &Layers) -> Result<Arc<dyn Backend>, Failure> {
        match self {
            Self::Embedded(folder) => {
                let store = EmbeddedStore::open(folder, Options::default()).map_err(cannot_open)?;
                Ok(Arc::new(store))
            }
            Self::Cassandra { contact_points, keyspace } => {
                let named = |path, value: &str, layers: &mut Layers| {
                    layers.set(path, value, Origin::Flag("--from, --to".to_owned()));
                };
                let mut layers = layers.clone();
                named("store.contact_points", contact_points, &mut layers);
                named("store.keyspace", keyspace, &mut layers);
                let config = ClusterConfig::read(&layers)?;
                Ok(Arc::new(ClusterStore::open_alone(&config).await?))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(folder) => write!(f, "embedded:{}", folder.display()),
            Self::Cassandra { contact_points, keyspace } => {
                write!(f, "cassandra:{contact_points}/{keyspace}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn places_are_read_and_shown() {
        for text in [
            "embedded:/var/lib/tavola",
            "embedded:data",
            "cassandra:a:9042,b/tavola",
            "cassandra:a/t",
        ] {
            assert_eq!(Place::parse(text).map(|place| place.to_string()), Ok(text.to_owned()));
        }
        for text in [
            "",
            "data",
            "embedded:",
            "cassandra:",
            "cassandra:a",
            "cassandra:/t",
            "cassandra:a/",
            "rocks:a",
        ] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
        assert!(
            Place::parse("embedded:.").unwrap().is_same(&Place::parse("embedded:./.").unwrap())
        );
    }
}
