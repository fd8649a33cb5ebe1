//! Whether a signature permits an operation: table, letters, range.

use tavola_core::table_demands::permits;
use tavola_core::{
    AccessDenied, AccessError, AccessPolicy, AccountName, Cut, EntityKey, Grant, PartitionKey,
    RowKey, TableName, TableRequest,
};
use tavola_protocol::auth::TableSas;

use super::super::operation::{Operation, Question, letters_needed, resource_types_needed};
use super::super::report::Report;
use super::super::rules::Fields;
use super::super::target::Target;

/// What is wanted, as far as question, URL and signature say.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) operation: Option<Operation>,
    /// The table that is asked for.
    pub(super) table: Option<TableName>,
    /// The table of the signature.
    signed_table: Option<TableName>,
    pub(super) key: Option<EntityKey>,
}

impl Wanted {
    pub(super) fn of(fields: &Fields, target: &Target, question: &Question) -> Self {
        let signed_table = match fields {
            Fields::Table(sas) => TableName::parse(&sas.table).ok(),
            Fields::Account(_) => None,
        };
        let in_url = target.table.as_deref().and_then(|name| TableName::parse(name).ok());
        let table = question.table.clone().or(in_url).or_else(|| signed_table.clone());
        Self { operation: question.operation, table, signed_table, key: question.key.clone() }
    }

    /// Is it the signature's table?
    pub(super) fn check_table(&self, report: &mut Report) {
        let (Some(signed), Some(asked)) = (&self.signed_table, &self.table) else { return };
        if signed != asked {
            let words =
                format!("the signature is for the table {signed}, and {asked} was requested");
            report.fail("table", words, format!("create one with `tavola sas table {asked}`"));
        }
    }

    fn is_other_table(&self) -> bool {
        self.signed_table
            .as_ref()
            .zip(self.table.as_ref())
            .is_some_and(|(signed, asked)| signed != asked)
    }

    /// Asks the service's rule about the operation, and finds words for its answer.
    pub(super) fn check(
        &self,
        grant: &Grant,
        fields: &Fields,
        account: &AccountName,
        policies: Option<&[AccessPolicy]>,
        report: &mut Report,
    ) {
        self.check_range(grant, fields, report);
        let Some(operation) = self.operation else { return };
        // A signature for an account needs no table's name to be evaluated.
        let table = self.table.clone().or_else(|| TableName::parse("any").ok());
        let Some(request) =
            table.and_then(|table| operation.request(table, self.key_in(grant)).ok())
        else {
            return;
        };
        match permits(grant, &request) {
            Ok(()) => report.ok("operation", format!("{} is permitted", operation.name())),
            Err(AccessDenied::Request(AccessError::ResourceTypeMismatch)) => {
                let needed = resource_types_needed(&request, account).join(" or ");
                let words = format!(
                    "{} needs the resource type {needed} (srt), which is missing",
                    operation.name()
                );
                report.fail(
                    "operation",
                    words,
                    format!("create one with `--resource-types` that has {needed}"),
                );
            }
            Err(AccessDenied::Request(AccessError::PermissionMismatch)) => {
                self.report_letters(&request, operation, fields, account, policies, report);
            }
            Err(_) if !operation.is_on_entities() => {
                let words =
                    format!("{} is not possible with a signature for one table", operation.name());
                report.fail(
                    "operation",
                    words,
                    "use a signature for the account: `tavola sas account`",
                );
            }
            // The table or the range, which has a line of its own.
            Err(_) => {
                report.fail("operation", format!("{} is not permitted there", operation.name()), "")
            }
        }
    }

    fn report_letters(
        &self,
        request: &TableRequest,
        operation: Operation,
        fields: &Fields,
        account: &AccountName,
        policies: Option<&[AccessPolicy]>,
        report: &mut Report,
    ) {
        let needed = letters_needed(request, self.signed_table.as_ref(), account);
        let given = letters_given(fields, policies);
        let missing = |letters: &String| {
            letters.chars().filter(|letter| !given.contains(*letter)).collect::<String>()
        };
        let missing: Vec<String> = needed.iter().map(missing).collect();
        let words = format!(
            "{} needs the permission {}; {} is missing from sp={given}",
            operation.name(),
            needed.join(" or "),
            missing.join(" or ")
        );
        report.fail(
            "operation",
            words,
            format!(
                "create one with `--permissions {given}{}`",
                missing.first().map_or("", String::as_str)
            ),
        );
    }

    fn check_range(&self, grant: &Grant, fields: &Fields, report: &mut Report) {
        let Fields::Table(sas) = fields else { return };
        let Some(range) = range_words(sas).filter(|_| !self.is_other_table()) else { return };
        match &self.key {
            Some(key) if !grant.key_range().contains(key) => {
                let (partition, row) = (key.partition_key.as_str(), key.row_key.as_str());
                let words =
                    format!("partition {partition:?}, row {row:?} is outside its range: {range}");
                report.fail(
                    "range",
                    words,
                    "create one with another --from-partition and --to-partition",
                );
            }
            Some(_) => report.ok("range", format!("the entity is inside its range: {range}")),
            None => report.ok(
                "range",
                format!("its range is {range}; queries omit other entities without an error"),
            ),
        }
    }

    /// A key that does not change the answer, if none was given.
    fn key_in(&self, grant: &Grant) -> EntityKey {
        let first = || match &grant.key_range().start {
            Cut::Before(key) | Cut::After(key) => key.clone(),
            _ => EntityKey::new(PartitionKey::default(), RowKey::default()),
        };
        self.key.clone().unwrap_or_else(first)
    }
}

/// The letters that count: the signature's, or its policy's.
fn letters_given(fields: &Fields, policies: Option<&[AccessPolicy]>) -> String {
    match fields {
        Fields::Account(sas) => sas.permissions.clone(),
        Fields::Table(sas) if !sas.permissions.is_empty() => sas.permissions.clone(),
        Fields::Table(sas) => {
            let policy = policies.unwrap_or_default().iter().find(|policy| policy.id == sas.policy);
            policy.and_then(|policy| policy.permission.clone()).unwrap_or_default()
        }
    }
}

fn range_words(sas: &TableSas) -> Option<String> {
    let end = |partition: &str, row: &str, whole: &str| match (partition, row) {
        ("", _) => whole.to_owned(),
        (partition, "") => format!("partition {partition:?}"),
        (partition, row) => format!("partition {partition:?}, row {row:?}"),
    };
    if sas.start_partition_key.is_empty() && sas.end_partition_key.is_empty() {
        return None;
    }
    let first = end(&sas.start_partition_key, &sas.start_row_key, "the table's first entity");
    let last = end(&sas.end_partition_key, &sas.end_row_key, "the table's last entity");
    Some(format!("{first} to {last}"))
}
