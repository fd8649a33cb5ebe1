//! What the server itself says, asked for something that can only be read.

use tavola_core::request::{EntityQuery, TablesQuery};
use tavola_core::{EntityKey, TableName, TableRequest};
use tavola_protocol::table::decode::{DecodeError, ServiceError};

use super::super::operation::Operation;
use super::super::report::Report;
use super::super::rules::Fields;
use super::super::server;
use super::super::target::Target;
use super::enough::Wanted;
use crate::http_client::HttpClient;

/// The question that is sent.
struct Probe {
    request: TableRequest,
    /// What it asks for, in words.
    what: String,
    /// It is what was asked about, not only something like it.
    is_wanted: bool,
}

pub(super) async fn ask(
    target: &Target,
    fields: &Fields,
    wanted: &Wanted,
    client: &HttpClient,
    report: &mut Report,
) {
    let Some(probe) = Probe::of(fields, wanted) else { return };
    match server::ask_with_signature(&probe.request, &target.endpoint, &target.query, client).await
    {
        Err(error) => report.fail("server's answer", error.to_string(), server::advice_on(&error)),
        Ok(Ok(_)) => {
            report.accepted();
            report.ok("server's answer", format!("it permits the signature to {}", probe.what));
        }
        Ok(Err(DecodeError::Service(error))) if probe.may_lack_entity(&error) => {
            let has_account = has_account(&probe, target, client).await;
            probe.explain_missing(has_account, &error, target, report);
        }
        Ok(Err(DecodeError::Service(error))) => probe.explain(&error, target, fields, report),
        Ok(Err(_)) => {
            report.fail("server's answer", "it is not one of a Table service", "check the port");
        }
    }
}

/// Whether the server has the account: the code for a missing entity is that for a missing account,
/// but a query knows no missing entities.
async fn has_account(probe: &Probe, target: &Target, client: &HttpClient) -> Option<bool> {
    let TableRequest::GetEntity(table, _) = &probe.request else { return None };
    let query = Probe::query(table, None).request;
    match server::ask_with_signature(&query, &target.endpoint, &target.query, client).await {
        Ok(Err(DecodeError::Service(error))) => Some(error.code != "ResourceNotFound"),
        Ok(Ok(_)) => Some(true),
        Ok(Err(_)) | Err(_) => None,
    }
}

impl Probe {
    fn may_lack_entity(&self, error: &ServiceError) -> bool {
        error.code == "ResourceNotFound" && matches!(self.request, TableRequest::GetEntity(..))
    }

    fn explain_missing(
        &self,
        has_account: Option<bool>,
        error: &ServiceError,
        target: &Target,
        report: &mut Report,
    ) {
        let (subject, short) = ("server's answer", server::short(error));
        match has_account {
            Some(true) => {
                report.accepted();
                report.warn(
                    subject,
                    format!("it accepts the signature, but there is no such entity ({short})"),
                    "",
                );
            }
            Some(false) => no_account(error, target, report),
            None => report.warn(
                subject,
                format!("no such entity, or no such account there ({short})"),
                "",
            ),
        }
    }

    fn of(fields: &Fields, wanted: &Wanted) -> Option<Self> {
        match (wanted.operation, &wanted.table, fields) {
            (Some(Operation::Get), Some(table), _) => Some(Self::get(table, wanted.key.as_ref())),
            (Some(Operation::ListTables), ..) => Some(Self::list(true)),
            (operation, Some(table), Fields::Table(_)) => Some(Self::query(table, operation)),
            (Some(operation), Some(table), Fields::Account(_)) if operation.is_on_entities() => {
                Some(Self::query(table, Some(operation)))
            }
            (None, Some(table), Fields::Account(_)) => Some(Self::query(table, None)),
            (operation, _, Fields::Account(_)) => Some(Self::list(operation.is_none())),
            (_, None, Fields::Table(_)) => None,
        }
    }

    fn get(table: &TableName, key: Option<&EntityKey>) -> Self {
        match key {
            Some(key) => {
                let request = TableRequest::GetEntity(table.clone(), key.clone());
                Self { request, what: format!("read that entity of {table}"), is_wanted: true }
            }
            None => Self::query(table, Some(Operation::Query)),
        }
    }

    fn query(table: &TableName, operation: Option<Operation>) -> Self {
        let query = EntityQuery { top: Some(1), ..EntityQuery::default() };
        let is_wanted = operation.is_some_and(Operation::is_read);
        Self {
            request: TableRequest::QueryEntities(table.clone(), query),
            what: format!("query {table}"),
            is_wanted,
        }
    }

    fn list(is_wanted: bool) -> Self {
        let query = TablesQuery { top: Some(1), ..TablesQuery::default() };
        Self {
            request: TableRequest::QueryTables(query),
            what: "list tables".to_owned(),
            is_wanted,
        }
    }

    fn explain(&self, error: &ServiceError, target: &Target, fields: &Fields, report: &mut Report) {
        let (short, detail, what) = (server::short(error), server::detail(error), &self.what);
        let subject = "server's answer";
        let refused = |words: &str| format!("refused with {short}: {words}");
        match error.code.as_str() {
            "AuthenticationFailed" if detail.is_empty() => {
                let signed = fields.string_to_sign(&target.account);
                let words = refused(
                    "the signature does not match, is not valid now, or its policy does not exist",
                );
                report.fail(subject, words, format!("what both sides must sign is {signed:?}"));
            }
            "AuthenticationFailed" => report.fail(subject, refused(&detail), ""),
            "AuthorizationPermissionMismatch" | "AuthorizationResourceTypeMismatch"
                if !self.is_wanted =>
            {
                let words = format!(
                    "it accepts the signature, but not to {what}; further checks would change data"
                );
                report.accepted();
                report.ok(subject, words);
            }
            "AuthorizationPermissionMismatch" => {
                report.fail(subject, refused("a permission is missing (sp)"), "")
            }
            "AuthorizationResourceTypeMismatch" => {
                report.fail(subject, refused("a resource type is missing (srt)"), "");
            }
            "AuthorizationProtocolMismatch" => {
                report.fail(subject, refused("it is valid over https only"), "")
            }
            "AuthorizationSourceIPMismatch" => {
                let seen = error.message.lines().next().unwrap_or_default();
                report.fail(subject, refused(seen), "create one with another --ip");
            }
            "AuthorizationServiceMismatch" => {
                report.fail(subject, refused("it does not permit access to tables"), "")
            }
            "AuthorizationFailure" => {
                let advice = "another table, an entity outside the range, or not one of the \
                 account's allowed_ips";
                report.fail(subject, refused("the signature does not cover this"), advice);
            }
            "TableNotFound" => {
                report.accepted();
                report.warn(
                    subject,
                    format!("it accepts the signature, but the table does not exist ({short})"),
                    "create it",
                );
            }
            "ResourceNotFound" => no_account(error, target, report),
            "ServerBusy" => report.warn(
                subject,
                format!("it is busy, or over a budget ({short})"),
                "try again later",
            ),
            _ => report.fail(subject, format!("it answers with {short}"), "see the server's log"),
        }
    }
}

fn no_account(error: &ServiceError, target: &Target, report: &mut Report) {
    let words = format!("the server has no account {} ({})", target.account, server::short(error));
    report.fail("server's answer", words, "check host and path of the URL");
}
