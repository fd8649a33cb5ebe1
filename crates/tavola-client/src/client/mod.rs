//! The clients: one for the service, one for each table.

mod modify;
mod properties;
mod service;
mod settings;
mod table;
mod transaction;

pub(crate) use modify::ATTEMPTS_MAX;
pub use modify::Modified;
pub use properties::{CorsRule, Logging, Metrics, ServiceProperties};
pub use service::TableServiceClient;
pub use settings::{AccessPolicy, ServiceStats};
pub use table::TableClient;
#[cfg(feature = "json")]
pub(crate) use transaction::Accompany;
pub use transaction::Transaction;
