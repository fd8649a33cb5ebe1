//! A request with the plan of its query. A filter is planned once: admission asks the plan how much
//! it will read, and execution carries it out.

use tavola_core::TableRequest;
use tavola_core::filter::plan::{Plan, plan};
use tavola_store::SHORT_SCAN_ROWS;

/// A request that was understood, and planned if it queries entities.
#[derive(Debug, Clone)]
pub struct PlannedRequest {
    request: TableRequest,
    plan: Option<Plan>,
}

impl PlannedRequest {
    /// Plans the query of a request.
    #[must_use]
    pub fn new(request: TableRequest) -> Self {
        let plan = match &request {
            TableRequest::QueryEntities(_, query) => Some(plan(query.filter.as_ref())),
            _ => None,
        };
        Self { request, plan }
    }

    /// What is asked.
    #[must_use]
    pub fn request(&self) -> &TableRequest {
        &self.request
    }

    /// True for a query that looks at a few rows, however many there are.
    #[must_use]
    pub fn reads_few_rows(&self) -> bool {
        let TableRequest::QueryEntities(_, query) = &self.request else { return false };
        let is_short = query.top.is_some_and(|top| top <= SHORT_SCAN_ROWS);
        is_short && self.plan.as_ref().is_some_and(Plan::reads_what_it_returns)
    }

    pub(crate) fn into_parts(self) -> (TableRequest, Option<Plan>) {
        (self.request, self.plan)
    }
}

impl From<TableRequest> for PlannedRequest {
    fn from(request: TableRequest) -> Self {
        Self::new(request)
    }
}

#[cfg(test)]
mod tests {
    use tavola_core::TableName;
    use tavola_core::filter::parse::parse;
    use tavola_core::request::EntityQuery;

    use super::*;

    #[test]
    fn a_query_of_a_few_rows_is_known_by_its_plan() {
        let reads_few_rows = |filter: &str, top: Option<usize>| {
            let query = EntityQuery { filter: parse(filter).unwrap(), top, from: None };
            let table = TableName::parse("table").unwrap();
            PlannedRequest::new(TableRequest::QueryEntities(table, query)).reads_few_rows()
        };
        assert!(reads_few_rows("PartitionKey eq 'p' and RowKey ge 'r'", Some(10)));
        assert!(reads_few_rows("", Some(1)));
        assert!(!reads_few_rows("PartitionKey eq 'p' and RowKey ge 'r'", Some(21)), "many rows");
        assert!(!reads_few_rows("PartitionKey eq 'p' and RowKey ge 'r'", None));
        assert!(!reads_few_rows("PartitionKey eq 'p' and Age gt 30", Some(10)), "unknown reads");
        assert!(
            !reads_few_rows("PartitionKey eq 'p' or PartitionKey eq 'q'", Some(10)),
            "several places"
        );
        assert!(!PlannedRequest::new(TableRequest::GetMetadata).reads_few_rows());
    }
}
