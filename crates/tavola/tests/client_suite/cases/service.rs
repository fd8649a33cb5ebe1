//! Tables, what belongs to them and to the account, and signatures.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use tavola_client::{
    AccessPolicy, CorsRule, DynEntity, KeyRange, Outcome, Permissions, PointKey, ServiceProperties,
    TableClient,
};
use time::macros::datetime;

use super::person;
use crate::site::{Difference, Site};

const HOUR: Duration = Duration::from_secs(3600);

pub(super) async fn tables(site: &Site) {
    let service = &site.service;
    let name = site.table_name();
    service.create_table(&name).await.unwrap();
    let error = service.create_table(&name).await.unwrap_err();
    assert!(error.is_conflict() && error.code() == Some("TableAlreadyExists"), "{error}");
    assert!(!service.create_table_if_missing(&name).await.unwrap());
    let names: Vec<_> = service.tables().try_collect().await.unwrap();
    assert!(names.contains(&name), "{names:?}");
    service.delete_table(&name).await.unwrap();
    assert!(service.delete_table(&name).await.unwrap_err().is_not_found());
    assert!(!service.delete_table_if_exists(&name).await.unwrap());
    let error = service.table_client(&name).insert(&person("1", 1)).await.unwrap_err();
    assert_eq!(error.code(), Some("TableNotFound"), "{error}");
    assert!(service.create_table_if_missing(&name).await.unwrap());
    assert!(service.delete_table_if_exists(&name).await.unwrap());
}

pub(super) async fn policies(site: &Site) {
    let table = site.table().await;
    if site.has_signature_only() {
        let refused = table.policies().await.unwrap_err();
        assert_eq!(refused.code(), Some("AuthorizationFailure"), "policies are for the key");
        return;
    }
    assert_eq!(table.policies().await.unwrap(), []);
    let mut whole = AccessPolicy::new("readers");
    whole.permissions = Some("r".to_owned());
    whole.start = Some(datetime!(2026-01-01 00:00:00 UTC));
    whole.expiry = Some(datetime!(2034-01-01 00:00:00 UTC));
    table.set_policies(std::slice::from_ref(&whole)).await.unwrap();
    assert_eq!(table.policies().await.unwrap(), std::slice::from_ref(&whole));
    // A part of it can be left to the signatures.
    let mut part = AccessPolicy::new("writers");
    part.permissions = Some("raud".to_owned());
    let both = [whole, part];
    let set = table.set_policies(&both).await;
    if site.differs(Difference::WholePoliciesOnly) {
        assert_eq!(set.unwrap_err().outcome(), Outcome::Unknown, "it says neither code nor text");
        return;
    }
    set.unwrap();
    assert_eq!(table.policies().await.unwrap(), both);
    table.set_policies(&[]).await.unwrap();
    assert_eq!(table.policies().await.unwrap(), []);
}

pub(super) async fn properties(site: &Site) {
    let service = &site.service;
    let before = service.properties().await.unwrap();
    let mut rule = CorsRule::default();
    rule.allowed_origins.push("https://shop.example".to_owned());
    rule.allowed_methods.push("GET".to_owned());
    rule.allowed_headers.push("x-ms-*".to_owned());
    rule.exposed_headers.push("x-ms-*".to_owned());
    rule.max_age_seconds = 60;
    let mut change = ServiceProperties::default();
    change.cors = Some(vec![rule]);
    service.set_properties(&change).await.unwrap();
    let after = service.properties().await.unwrap();
    assert_eq!(after.cors, change.cors);
    assert_eq!(after.logging, before.logging, "what was not named stays");
    service.set_properties(&before).await.unwrap();
}

fn guest(site: &Site, table: &TableClient, signature: &str) -> Option<TableClient> {
    Some(site.guest(signature)?.table_client(table.name()))
}

/// A signature made offline opens what it says.
pub(super) async fn signatures(site: &Site) {
    let table = site.table().await;
    for row in ["20", "21"] {
        table.insert(&person(row, 1)).await.unwrap();
    }
    if site.has_signature_only() || site.differs(Difference::NoAccounts) {
        let refused = table.sas(Permissions::READ, HOUR).build();
        assert!(refused.is_err(), "without the account's key nothing can be signed");
        return;
    }
    let signature = table.sas(Permissions::READ | Permissions::ADD, HOUR).build().unwrap();
    let guest = guest(site, &table, &signature).unwrap();
    assert!(guest.get::<DynEntity>(("Smith", "20")).await.unwrap().is_some());
    guest.insert(&person("22", 1)).await.unwrap();
    let all: Vec<_> = guest.scan::<DynEntity>().stream().try_collect().await.unwrap();
    assert_eq!(all.len(), 3);
    let mut transaction = guest.transaction("Smith");
    transaction.insert(&person("23", 1)).unwrap().insert(&person("24", 1)).unwrap();
    let committed = transaction.commit().await;
    if site.differs(Difference::NoSignedTransactions) {
        assert_eq!(committed.unwrap_err().status(), Some(403));
    } else {
        assert_eq!(committed.unwrap().len(), 2);
    }
}

/// And nothing else.
pub(super) async fn refused_signatures(site: &Site) {
    if site.has_signature_only() || site.differs(Difference::NoAccounts) {
        return;
    }
    let table = site.table().await;
    for row in ["20", "21"] {
        table.insert(&person(row, 1)).await.unwrap();
    }
    let only = KeyRange::<DynEntity>::from(PointKey::from(("Smith", "20")));
    let signature = table.sas(Permissions::READ, HOUR).only(only).build().unwrap();
    let one = guest(site, &table, &signature).unwrap();
    assert!(one.get::<DynEntity>(("Smith", "20")).await.unwrap().is_some());
    assert_eq!(one.insert(&person("20", 1)).await.unwrap_err().status(), Some(403));
    let other = one.get::<DynEntity>(("Smith", "21")).await;
    let refused = (!site.differs(Difference::KeyRangesIgnored)).then_some(403);
    assert_eq!(other.map_or_else(|error| error.status(), |_| None), refused);
    let forged = signature.replace("sp=r", "sp=rd");
    let forged = guest(site, &table, &forged).unwrap();
    let read = forged.get::<DynEntity>(("Smith", "20")).await;
    assert_eq!(read.map_or_else(|error| error.status(), |_| None), Some(403));
}
