use super::{
    AccessDenied, AccessError, Grant, Permissions, ResourceTypes, Role, RoleAssignment, Scope,
    ServiceSignature,
};
use crate::account::AccountName;
use crate::entity::Properties;
use crate::key::{EntityKey, PartitionKey, RowKey};
use crate::operation::{EntityOperation, NewEntity, Precondition};
use crate::range::{Cut, KeyRange};
use crate::request::{EntityQuery, TableRequest, TablesQuery};
use crate::service_kind::ServiceKind;
use crate::table::TableName;
use crate::table_demands::permits;
use crate::transaction::EntityGroupTransaction;

fn account() -> AccountName {
    AccountName::parse("acct").unwrap()
}

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

fn key(partition_key: &str, row_key: &str) -> EntityKey {
    EntityKey::new(PartitionKey::new(partition_key).unwrap(), RowKey::new(row_key).unwrap())
}

fn operation(name: &str, row_key: &str) -> (PartitionKey, EntityOperation) {
    let (partition_key, new) = NewEntity::new(key("p", row_key), Properties::default()).unwrap();
    let operation = match name {
        "insert" => EntityOperation::Insert(new),
        "replace" => EntityOperation::Replace(new, Precondition::Exists),
        "merge" => EntityOperation::Merge(new, Precondition::Exists),
        "upsert" => EntityOperation::Merge(new, Precondition::None),
        "delete" => EntityOperation::Delete(new.into_parts().0, Precondition::Exists),
        other => unreachable!("{other}"),
    };
    (partition_key, operation)
}

fn write(name: &str, row_key: &str) -> TableRequest {
    let (partition_key, operation) = operation(name, row_key);
    TableRequest::Write(table("Tab"), partition_key, operation)
}

fn signature(letters: &str, range: KeyRange) -> Grant {
    let permissions = Permissions::of_service(ServiceKind::Table, letters).unwrap();
    let (service, container) = (ServiceKind::Table, "tab".to_owned());
    let signature = ServiceSignature { service, container, permissions, range };
    Grant::service_signature(account(), signature)
}

fn refused(error: AccessError) -> Result<(), AccessDenied> {
    Err(AccessDenied::Request(error))
}

#[test]
fn a_tables_signature_needs_its_letters() {
    let query = || TableRequest::QueryEntities(table("Tab"), EntityQuery::default());
    for (letters, request, allowed) in [
        ("r", query(), true),
        ("aud", query(), false),
        ("a", write("insert", "r"), true),
        ("rud", write("insert", "r"), false),
        ("u", write("merge", "r"), true),
        ("u", write("replace", "r"), true),
        ("au", write("upsert", "r"), true),
        ("a", write("upsert", "r"), false),
        ("u", write("upsert", "r"), false),
        ("d", write("delete", "r"), true),
        ("rau", write("delete", "r"), false),
    ] {
        let expected = if allowed { Ok(()) } else { refused(AccessError::PermissionMismatch) };
        assert_eq!(
            permits(&signature(letters, KeyRange::ALL), &request),
            expected,
            "{letters} {}",
            request.name()
        );
    }
}

#[test]
fn a_tables_signature_opens_entities_of_its_table_only() {
    let grant = signature("raud", KeyRange::ALL);
    for request in [
        TableRequest::QueryTables(TablesQuery::default()),
        TableRequest::CreateTable(table("Tab")),
        TableRequest::GetTable(table("Tab")),
        TableRequest::DeleteTable(table("Tab")),
        TableRequest::GetPolicies(table("Tab")),
        TableRequest::SetPolicies(table("Tab"), Vec::new()),
        TableRequest::GetServiceProperties,
        TableRequest::GetServiceStats,
        TableRequest::GetMetadata,
        TableRequest::GetEntity(table("Other"), key("p", "r")),
    ] {
        assert_eq!(
            permits(&grant, &request),
            refused(AccessError::NotAuthorized),
            "{}",
            request.name()
        );
    }
}

#[test]
fn a_range_binds_points_and_every_operation_of_a_transaction() {
    let range = KeyRange { start: Cut::Before(key("p", "b")), end: Cut::After(key("p", "d")) };
    let grant = signature("raud", range.clone());
    assert_eq!(grant.key_range(), &range);
    for (row_key, inside) in [("a", false), ("b", true), ("d", true), ("dd", false)] {
        let expected = if inside { Ok(()) } else { refused(AccessError::KeyNotAuthorized) };
        assert_eq!(
            permits(&grant, &TableRequest::GetEntity(table("Tab"), key("p", row_key))),
            expected,
            "{row_key}"
        );
        assert_eq!(permits(&grant, &write("delete", row_key)), expected, "{row_key}");
        let group = EntityGroupTransaction::new(vec![
            operation("insert", "c"),
            operation("delete", row_key),
        ])
        .unwrap();
        let failed = AccessDenied::Operation { index: 1, error: AccessError::KeyNotAuthorized };
        let expected = if inside { Ok(()) } else { Err(failed) };
        assert_eq!(
            permits(&grant, &TableRequest::Transaction(table("TAB"), group)),
            expected,
            "{row_key}"
        );
    }
}

#[test]
fn an_accounts_signature() {
    let grant = |types: &str, letters: &str| {
        let types = ResourceTypes::parse(types).unwrap();
        Grant::account_signature(account(), types, Permissions::of_account(letters).unwrap())
    };
    let create = || TableRequest::CreateTable(table("Tab"));
    let list = || TableRequest::QueryTables(TablesQuery::default());
    let wrong_type = || refused(AccessError::ResourceTypeMismatch);
    let wrong_letter = || refused(AccessError::PermissionMismatch);
    for (types, letters, request, expected) in [
        ("s", "l", list(), Ok(())),
        ("c", "l", list(), Ok(())),
        ("o", "l", list(), wrong_type()),
        ("sco", "rwdacu", list(), wrong_letter()),
        ("c", "c", create(), Ok(())),
        ("c", "w", create(), Ok(())),
        ("so", "cw", create(), wrong_type()),
        ("c", "rdlau", create(), wrong_letter()),
        ("c", "d", TableRequest::DeleteTable(table("Tab")), Ok(())),
        ("o", "au", write("upsert", "r"), Ok(())),
        ("o", "rwdlcu", write("upsert", "r"), wrong_letter()),
        ("sc", "rwdlacu", write("insert", "r"), wrong_type()),
        ("s", "r", TableRequest::GetServiceProperties, Ok(())),
        ("co", "r", TableRequest::GetServiceStats, wrong_type()),
        (
            "sco",
            "rwdlacu",
            TableRequest::GetPolicies(table("Tab")),
            refused(AccessError::NotAuthorized),
        ),
        (
            "sco",
            "rwdlacu",
            TableRequest::SetPolicies(table("Tab"), Vec::new()),
            refused(AccessError::NotAuthorized),
        ),
    ] {
        assert_eq!(
            permits(&grant(types, letters), &request),
            expected,
            "{types} {letters} {}",
            request.name()
        );
    }
}

#[test]
fn roles() {
    let of = |role, tables: Option<&[&str]>| {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let in_tables = |tables| Scope::Containers(ServiceKind::Table, names(tables));
        let scope = tables.map_or(Scope::Account, in_tables);
        Grant::roles(account(), vec![RoleAssignment { role, scope }])
    };
    let read = || TableRequest::GetEntity(table("Tab"), key("p", "r"));
    let wrong = || refused(AccessError::PermissionMismatch);
    let reader = of(Role::Reader, None);
    assert_eq!(permits(&reader, &read()), Ok(()));
    assert_eq!(permits(&reader, &TableRequest::QueryTables(TablesQuery::default())), Ok(()));
    assert_eq!(permits(&reader, &write("insert", "r")), wrong());
    let contributor = of(Role::Contributor, Some(&["tab"]));
    assert_eq!(permits(&contributor, &write("insert", "r")), Ok(()));
    assert_eq!(permits(&contributor, &TableRequest::CreateTable(table("Tab"))), Ok(()));
    assert_eq!(
        permits(&contributor, &TableRequest::GetEntity(table("Other"), key("p", "r"))),
        wrong()
    );
    assert_eq!(permits(&contributor, &TableRequest::QueryTables(TablesQuery::default())), wrong());
    let set_properties = || TableRequest::SetServiceProperties(Default::default());
    assert_eq!(permits(&of(Role::Contributor, None), &set_properties()), wrong());
    assert_eq!(permits(&of(Role::Contributor, None), &TableRequest::GetServiceProperties), Ok(()));
    assert_eq!(permits(&of(Role::Administrator, None), &set_properties()), Ok(()));
    assert_eq!(permits(&of(Role::Administrator, Some(&["tab"])), &set_properties()), wrong());
    let policies = TableRequest::GetPolicies(table("Tab"));
    assert_eq!(
        permits(&of(Role::Administrator, None), &policies),
        refused(AccessError::UnknownToTokens)
    );
    assert_eq!(permits(&Grant::roles(account(), Vec::new()), &read()), wrong());
}

#[test]
fn reading_only() {
    let grant = Grant::owner(account()).read_only();
    assert_eq!(permits(&grant, &write("insert", "r")), refused(AccessError::WritesNotAllowed));
    assert_eq!(permits(&grant, &TableRequest::GetPolicies(table("Tab"))), Ok(()));
}

#[test]
fn letters() {
    for bad in ["", "x", "rr", "raudr", "R", "r ", "é"] {
        assert!(Permissions::of_service(ServiceKind::Table, bad).is_none(), "{bad}");
    }
    assert!(Permissions::of_service(ServiceKind::Table, "duar").is_some());
    for bad in ["", "so so", "b", "ss", "S"] {
        assert!(ResourceTypes::parse(bad).is_none(), "{bad}");
    }
}
