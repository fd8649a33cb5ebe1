use super::{
    AccessDenied, Grant, Permissions, ResourceTypes, Role, RoleAssignment, TableSignature,
};
use crate::account::AccountName;
use crate::domain_error::DomainError;
use crate::entity::Properties;
use crate::key::{EntityKey, PartitionKey, RowKey};
use crate::operation::{EntityOperation, NewEntity, Precondition};
use crate::range::{Cut, KeyRange};
use crate::request::{EntityQuery, TableRequest, TablesQuery};
use crate::table::TableName;
use crate::transaction::{EntityGroupTransaction, FailedOperation};

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
    let permissions = Permissions::of_table(letters).unwrap();
    Grant::table_signature(account(), TableSignature { table: table("tab"), permissions, range })
}

fn refused(domain_error: DomainError) -> Result<(), AccessDenied> {
    Err(AccessDenied::Request(domain_error))
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
        let expected = if allowed { Ok(()) } else { refused(DomainError::PermissionMismatch) };
        assert_eq!(
            signature(letters, KeyRange::ALL).permits(&request),
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
            grant.permits(&request),
            refused(DomainError::NotAuthorized),
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
        let expected = if inside { Ok(()) } else { refused(DomainError::KeyNotAuthorized) };
        assert_eq!(
            grant.permits(&TableRequest::GetEntity(table("Tab"), key("p", row_key))),
            expected,
            "{row_key}"
        );
        assert_eq!(grant.permits(&write("delete", row_key)), expected, "{row_key}");
        let group = EntityGroupTransaction::new(vec![
            operation("insert", "c"),
            operation("delete", row_key),
        ])
        .unwrap();
        let failed = FailedOperation { index: 1, domain_error: DomainError::KeyNotAuthorized };
        let expected = if inside { Ok(()) } else { Err(AccessDenied::Operation(failed)) };
        assert_eq!(
            grant.permits(&TableRequest::Transaction(table("TAB"), group)),
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
    let wrong_type = || refused(DomainError::ResourceTypeMismatch);
    let wrong_letter = || refused(DomainError::PermissionMismatch);
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
            refused(DomainError::NotAuthorized),
        ),
        (
            "sco",
            "rwdlacu",
            TableRequest::SetPolicies(table("Tab"), Vec::new()),
            refused(DomainError::NotAuthorized),
        ),
    ] {
        assert_eq!(
            grant(types, letters).permits(&request),
            expected,
            "{types} {letters} {}",
            request.name()
        );
    }
}

#[test]
fn roles() {
    let of = |role, tables: Option<&[&str]>| {
        let tables = tables.map(|names| names.iter().map(|name| table(name)).collect());
        Grant::roles(account(), vec![RoleAssignment { role, tables }])
    };
    let read = || TableRequest::GetEntity(table("Tab"), key("p", "r"));
    let wrong = || refused(DomainError::PermissionMismatch);
    let reader = of(Role::Reader, None);
    assert_eq!(reader.permits(&read()), Ok(()));
    assert_eq!(reader.permits(&TableRequest::QueryTables(TablesQuery::default())), Ok(()));
    assert_eq!(reader.permits(&write("insert", "r")), wrong());
    let contributor = of(Role::Contributor, Some(&["tab"]));
    assert_eq!(contributor.permits(&write("insert", "r")), Ok(()));
    assert_eq!(contributor.permits(&TableRequest::CreateTable(table("Tab"))), Ok(()));
    assert_eq!(
        contributor.permits(&TableRequest::GetEntity(table("Other"), key("p", "r"))),
        wrong()
    );
    assert_eq!(contributor.permits(&TableRequest::QueryTables(TablesQuery::default())), wrong());
    let set_properties = || TableRequest::SetServiceProperties(Default::default());
    assert_eq!(of(Role::Contributor, None).permits(&set_properties()), wrong());
    assert_eq!(of(Role::Contributor, None).permits(&TableRequest::GetServiceProperties), Ok(()));
    assert_eq!(of(Role::Administrator, None).permits(&set_properties()), Ok(()));
    assert_eq!(of(Role::Administrator, Some(&["tab"])).permits(&set_properties()), wrong());
    let policies = TableRequest::GetPolicies(table("Tab"));
    assert_eq!(
        of(Role::Administrator, None).permits(&policies),
        refused(DomainError::ResourceNotFound)
    );
    assert_eq!(Grant::roles(account(), Vec::new()).permits(&read()), wrong());
}

#[test]
fn reading_only() {
    let grant = Grant::owner(account()).read_only();
    assert_eq!(grant.permits(&write("insert", "r")), refused(DomainError::WritesNotAllowed));
    assert_eq!(grant.permits(&TableRequest::GetPolicies(table("Tab"))), Ok(()));
}

#[test]
fn letters() {
    for bad in ["", "x", "rr", "raudr", "R", "r ", "é"] {
        assert!(Permissions::of_table(bad).is_none(), "{bad}");
    }
    assert!(Permissions::of_table("duar").is_some());
    for bad in ["", "so so", "b", "ss", "S"] {
        assert!(ResourceTypes::parse(bad).is_none(), "{bad}");
    }
}
