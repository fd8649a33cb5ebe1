//! A connection string with a key: does the server take it?

use tavola_core::request::TablesQuery;
use tavola_core::{AccountName, TableRequest};
use tavola_protocol::auth::AccountKey;
use tavola_protocol::connection_string::Endpoint;
use tavola_protocol::table::decode::{DecodeError, ServiceError};

use super::operation::Question;
use super::report::Report;
use super::server;
use crate::http_client::HttpClient;

pub(super) async fn examine_key(
    account: &AccountName,
    endpoint: &Endpoint,
    key: &str,
    question: &Question,
    client: &HttpClient,
    report: &mut Report,
) {
    if server::reach(endpoint, client, report).await.is_none() {
        return;
    }
    let Ok(key) = AccountKey::parse(key) else { return };
    let request = TableRequest::QueryTables(TablesQuery { top: Some(1), ..TablesQuery::default() });
    match server::ask_with_key(&request, endpoint, account, &key, client).await {
        Err(error) => report.fail("key", error.to_string(), server::advice_on(&error)),
        Ok(Ok(_)) => {
            report.accepted();
            report.ok("key", "the server accepts it; it permits everything in the account");
            if let Some(operation) = question.operation {
                report.ok(
                    "operation",
                    format!("{} is permitted, as everything is with a key", operation.name()),
                );
            }
        }
        Ok(Err(DecodeError::Service(error))) => refused(&error, account, report),
        Ok(Err(_)) => {
            report.fail("key", "the response is not one of a Table service", "check the port")
        }
    }
}

fn refused(error: &ServiceError, account: &AccountName, report: &mut Report) {
    let (short, detail) = (server::short(error), server::detail(error));
    match (error.status.as_u16(), error.code.as_str()) {
        (403, "AuthenticationFailed") if detail.contains("date header") => {
            report.fail(
                "key",
                format!("refused with {short}: {detail}"),
                "set both clocks by the network (NTP)",
            );
        }
        (403, "AuthenticationFailed") => {
            let advice = "the key is another account's, or was rotated; `tavola conn` prints the \
             current one";
            report.fail(
                "key",
                format!("refused with {short}: it is no key of {account} on that server"),
                advice,
            );
        }
        (403, "AuthorizationFailure") => {
            report.fail(
                "key",
                format!("refused with {short}"),
                "check whether allowed_ips of the account has this machine",
            );
        }
        (404, _) => {
            let advice = "check AccountName, and the path of TableEndpoint";
            report.fail("key", format!("{short}: the server has no account {account}"), advice);
        }
        (503, _) => report.warn(
            "key",
            format!("{short}: the server is busy, or over a budget"),
            "try again later",
        ),
        _ => report.fail("key", format!("the server answers with {short}"), "see the server's log"),
    }
}
