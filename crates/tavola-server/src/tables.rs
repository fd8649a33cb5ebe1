//! The Table service in the pipeline: joins its protocol and its meaning.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tavola_core::grant::{AccessError, Demand};
use tavola_core::limits::REQUEST_BODY_BYTES_MAX;
use tavola_core::{
    AccessPolicy, AccountName, ServiceKind, ServiceProperties, TableName, TableReply, TableRequest,
    table_demands,
};
use tavola_protocol::api_error::Budget;
use tavola_protocol::table::{TableContext, TableError, parse_request, render_error, render_reply};
use tavola_protocol::{Address, ResponseHead};
use tavola_service::{PlannedRequest, ReadContext, ServiceError, TableService};
use tavola_store::StoreError;

use crate::response_body::ResponseBody;
use crate::service::{BodyPlan, Call, Description, ExecuteError, Executed, Service};
use crate::telemetry::Target;
use crate::throttle::Work;

impl Service for TableService {
    type Context = TableContext;
    type Request = PlannedRequest;
    type Reply = TableReply;
    type Error = TableError;

    const KIND: ServiceKind = ServiceKind::Table;
    const PREFLIGHT: &'static str = "PreflightTableRequest";

    fn context(&self, parts: &Parts, address: Option<&Arc<Address>>) -> TableContext {
        TableContext::of(parts, address)
    }

    fn body_plan(&self, _parts: &Parts, _address: &Address) -> BodyPlan {
        BodyPlan::Whole { bytes_max: REQUEST_BODY_BYTES_MAX }
    }

    fn parse(
        &self,
        parts: &Parts,
        body: &Bytes,
        address: &Address,
        context: &mut TableContext,
    ) -> Result<PlannedRequest, TableError> {
        parse_request(parts, body, address, context).map(PlannedRequest::new)
    }

    fn describe(&self, planned: &PlannedRequest, with_target: bool) -> Description {
        let request = planned.request();
        Description {
            operation: request.name(),
            is_write: request.is_write(),
            operations: match request {
                TableRequest::Transaction(_, transaction) => Some(transaction.operations().len()),
                _ => None,
            },
            target: with_target.then(|| Box::new(target(request))),
        }
    }

    fn demands(
        &self,
        planned: &PlannedRequest,
        check: &mut dyn FnMut(&Demand<'_>) -> Result<(), AccessError>,
    ) -> Result<(), TableError> {
        Ok(table_demands::demands(planned.request(), check)?)
    }

    /// A query that can read but a few rows is a point request in all but name.
    fn work(&self, planned: &PlannedRequest, body_bytes: u64) -> Work {
        match planned.request() {
            TableRequest::QueryEntities(..) if !planned.reads_few_rows() => Work::Query,
            TableRequest::QueryTables(_) => Work::Query,
            request if request.is_write() => Work::Write { body_bytes },
            _ => Work::Point,
        }
    }

    async fn execute<'a>(
        &'a self,
        call: Call<'a>,
        planned: PlannedRequest,
    ) -> Result<Executed<TableReply>, ExecuteError<TableError>> {
        let context = ReadContext { stop: call.stop, blocking: call.blocking };
        let answer = self.execute_within(call.grant, call.key_budget, planned, context).await?;
        Ok(Executed { reply: answer.reply, cost: answer.cost })
    }

    fn render(
        &self,
        reply: TableReply,
        head: &ResponseHead<'_, TableContext>,
    ) -> Response<ResponseBody> {
        render_reply(&reply, head).map(ResponseBody::full)
    }

    fn render_error(
        &self,
        error: &TableError,
        head: &ResponseHead<'_, TableContext>,
    ) -> Response<Bytes> {
        render_error(error, head)
    }

    async fn properties(
        &self,
        account: &AccountName,
    ) -> Result<Arc<ServiceProperties>, StoreError> {
        TableService::properties(self, account).await
    }

    async fn policies(
        &self,
        account: &AccountName,
        container: &str,
    ) -> Result<Vec<AccessPolicy>, StoreError> {
        // A signature is read only with the name of a table in it.
        let Ok(table) = TableName::parse(container) else { return Ok(Vec::new()) };
        TableService::policies(self, account, &table).await
    }

    /// Gives the space of dropped tables back.
    async fn background(self: Arc<Self>) {
        self.reclaimer().run().await;
    }
}

impl From<ServiceError> for ExecuteError<TableError> {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Refused(domain_error) => Self::Service(domain_error.into()),
            ServiceError::OperationRefused(failed) => Self::Service(failed.into()),
            ServiceError::PartitionOverBudget => Self::OverBudget(Budget::PartitionEntities),
            ServiceError::Stopped { rows_read } => Self::Stopped { rows_read },
            ServiceError::Store(error) => Self::Store(error),
        }
    }
}

fn target(request: &TableRequest) -> Target {
    let (partition_key, row_key) = match request {
        TableRequest::GetEntity(_, key) => (Some(&key.partition_key), Some(&key.row_key)),
        TableRequest::Write(_, partition_key, operation) => {
            (Some(partition_key), Some(operation.row_key()))
        }
        TableRequest::Transaction(_, transaction) => (Some(transaction.partition_key()), None),
        _ => (None, None),
    };
    let operations = match request {
        TableRequest::Transaction(_, transaction) => transaction.operations(),
        _ => &[],
    };
    Target {
        container: request.table().map(|table| table.as_str().to_owned()),
        partition_key: partition_key.map(|key| key.as_str().to_owned()),
        row_key: row_key.map(|key| key.as_str().to_owned()),
        operations: operations
            .iter()
            .map(|one| (one.name(), one.row_key().as_str().to_owned()))
            .collect(),
    }
}
