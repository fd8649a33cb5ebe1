//! Signatures for the entities of one table.

use clap::{Arg, ArgMatches};
use tavola_core::limits::POLICY_ID_CHARS_MAX;
use tavola_core::{DateTime, PartitionKey, RowKey, TableName};
use tavola_protocol::auth::TableSas;

use super::letters::TABLE_PERMISSIONS;
use super::terms::Terms;
use super::{Made, check};
use crate::account_access::AccountAccess;
use crate::exit::Failure;

const DEFAULT_PERMISSIONS: &str = "r";

pub(super) fn flags() -> Vec<Arg> {
    let flag =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let opened = [
        Arg::new("table")
            .value_name("NAME")
            .required(true)
            .help("The table; it need not exist yet"),
        flag("permissions", "LETTERS").help(
            "Of raud: read, add, update, delete; an upsert needs a and u [default: r, unless \
             --policy]",
        ),
        flag("policy", "ID")
            .help("Stored access policy of the table; fields that it sets must not be set here"),
    ];
    let range = [
        flag("from-partition", "KEY").help("The first partition [default: the table's first]"),
        flag("from-row", "KEY").help("Its first row [default: the partition's first]"),
        flag("to-partition", "KEY").help("The last partition [default: the table's last]"),
        flag("to-row", "KEY").help("Its last row [default: the partition's last]"),
    ];
    opened.into_iter().chain(range.map(|flag| flag.help_heading("Key range"))).collect()
}

pub(super) fn make(
    matches: &ArgMatches,
    access: &AccountAccess,
    now: DateTime,
) -> Result<Made, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let table = parse_table(text("table").unwrap_or_default())?;
    let policy = text("policy");
    check_policy(policy)?;
    let letters = text("permissions").or_else(|| policy.is_none().then_some(DEFAULT_PERMISSIONS));
    let letters =
        letters.map(|letters| TABLE_PERMISSIONS.parse("--permissions", letters)).transpose()?;
    let terms = Terms::of(matches, now, policy.is_some())?;
    let (from, to) = (Bound::of(matches, "from")?, Bound::of(matches, "to")?);
    check_range(&from, &to)?;
    let sas = TableSas {
        version: terms.version.clone(),
        table: table.to_string(),
        permissions: letters.clone().unwrap_or_default(),
        start: terms.start_text(),
        expiry: terms.expiry_text(),
        policy: policy.unwrap_or_default().to_owned(),
        ip: terms.ip.clone(),
        protocol: terms.protocol(),
        start_partition_key: from.partition_text(),
        start_row_key: from.row_text(),
        end_partition_key: to.partition_text(),
        end_row_key: to.row_text(),
    };
    let signed = sas.signed(&access.account, &access.signing_key()?);
    check(&signed, access, &terms, now)?;
    let opens = words(&table, access, letters.as_deref(), policy, (&from, &to), terms.words(now));
    Made::new(signed, access, "t", table.as_str(), terms.expiry, opens)
}

fn parse_table(name: &str) -> Result<TableName, Failure> {
    let rule = "a table's name begins with a letter and has 3 to 63 letters and digits";
    TableName::parse(name)
        .map_err(|_| Failure::Usage(format!("\"{name}\" cannot be a table: {rule}")))
}

fn check_policy(policy: Option<&str>) -> Result<(), Failure> {
    let Some(id) = policy else { return Ok(()) };
    let length = id.chars().count();
    if length == 0 || length > POLICY_ID_CHARS_MAX || id.chars().any(char::is_control) {
        let rule = format!(
            "the id of a policy has 1 to {POLICY_ID_CHARS_MAX} characters, none of them control \
             characters"
        );
        return Err(Failure::Usage(format!("--policy: {rule}")));
    }
    Ok(())
}

/// One end of the range.
struct Bound(Option<(PartitionKey, Option<RowKey>)>);

impl Bound {
    /// `side` is `from` or `to`.
    fn of(matches: &ArgMatches, side: &str) -> Result<Self, Failure> {
        let names = (format!("{side}-partition"), format!("{side}-row"));
        let key = |name: &str| {
            matches.get_one::<String>(name).map(|text| not_empty(name, text)).transpose()
        };
        let wrong = |name: &str, error| Failure::Usage(format!("--{name}: {error}"));
        match (key(&names.0)?, key(&names.1)?) {
            (None, None) => Ok(Self(None)),
            (None, Some(_)) => Err(Failure::Usage(format!(
                "--{} needs --{}: a row's key means something inside a partition only",
                names.1, names.0
            ))),
            (Some(partition), row) => {
                let partition =
                    PartitionKey::new(partition).map_err(|error| wrong(&names.0, error))?;
                let row =
                    row.map(RowKey::new).transpose().map_err(|error| wrong(&names.1, error))?;
                Ok(Self(Some((partition, row))))
            }
        }
    }

    fn partition_text(&self) -> String {
        self.0.as_ref().map(|(partition, _)| partition.as_str().to_owned()).unwrap_or_default()
    }

    fn row_text(&self) -> String {
        let row = self.0.as_ref().and_then(|(_, row)| row.as_ref());
        row.map(|row| row.as_str().to_owned()).unwrap_or_default()
    }

    fn words(&self, whole: &str) -> String {
        match &self.0 {
            None => whole.to_owned(),
            Some((partition, None)) => format!("partition {:?}", partition.as_str()),
            Some((partition, Some(row))) => {
                format!("partition {:?}, row {:?}", partition.as_str(), row.as_str())
            }
        }
    }
}

/// An empty key is legal, but signed it says the same as none: the range would be wider than it
/// looks.
fn not_empty<'a>(name: &str, text: &'a str) -> Result<&'a str, Failure> {
    if text.is_empty() {
        return Err(Failure::Usage(format!(
            "--{name} is empty, which a signature cannot express; leave it out"
        )));
    }
    Ok(text)
}

fn check_range(from: &Bound, to: &Bound) -> Result<(), Failure> {
    let (Some((first, first_row)), Some((last, last_row))) = (&from.0, &to.0) else {
        return Ok(());
    };
    let rows_cross = first == last
        && first_row.as_ref().zip(last_row.as_ref()).is_some_and(|(one, other)| one > other);
    if first > last || rows_cross {
        let (from, to) = (from.words(""), to.words(""));
        return Err(Failure::Usage(format!(
            "no entity is between {from} and {to}; keys compare as text, so \"10\" is before \"9\""
        )));
    }
    Ok(())
}

fn words(
    table: &TableName,
    access: &AccountAccess,
    letters: Option<&str>,
    policy: Option<&str>,
    range: (&Bound, &Bound),
    terms: Vec<String>,
) -> Vec<String> {
    let what = match letters {
        Some(letters) => TABLE_PERMISSIONS.words(letters),
        None => "what its policy says".to_owned(),
    };
    let mut lines =
        vec![format!("{what}: entities of the table {table}, account {}", access.account)];
    if range.0.0.is_some() || range.1.0.is_some() {
        let (from, to) =
            (range.0.words("the table's first entity"), range.1.words("the table's last entity"));
        lines.push(format!("from {from} to {to}, both included"));
    }
    if let Some(policy) = policy {
        lines.push(format!(
            "as long as the table has the policy {policy:?}; other fields come from the policy"
        ));
    }
    lines.extend(terms);
    lines
}
