//! Amounts that are moved between the rows of a partition: their sum stays, or a transaction was
//! not whole.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tavola_core::filter::{Comparison, Filter};
use tavola_core::request::EntityQuery;
use tavola_core::{
    ETag, EdmRef, EdmValue, EntityGroupTransaction, EntityOperation, Precondition, TableRequest,
};
use tavola_protocol::table::decode::{DecodeError, Decoded};

use super::cassandra_nodes::wait_until;
use super::scene::HEALTHY_TIME_MAX;
use crate::history::Race;
use crate::{Tally, Violation};
use tavola_testkit::client::{Client, insert, name, new_entity};

const PARTITIONS: usize = 2;
const ACCOUNTS: usize = 6;
const AMOUNT: i32 = 1_000;
const SUM: i64 = ACCOUNTS as i64 * AMOUNT as i64;

/// A table of accounts.
#[derive(Debug)]
pub(super) struct Bank {
    table: String,
    has_closed: AtomicBool,
    transfers: AtomicU64,
    statements: AtomicU64,
}

/// What an account had when it was read.
struct Account {
    row: String,
    amount: i32,
    tag: ETag,
}

impl Bank {
    /// A table that exists, with the accounts in it.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(super) fn open(table: &str, authority: &str) -> Result<Self, Violation> {
        let bank = Self {
            table: table.to_owned(),
            has_closed: AtomicBool::new(false),
            transfers: AtomicU64::new(0),
            statements: AtomicU64::new(0),
        };
        for partition in 0..PARTITIONS {
            let inserts = (0..ACCOUNTS)
                .map(|account| insert(&format!("b{partition}/a{account}"), AMOUNT))
                .collect();
            let group =
                EntityGroupTransaction::new(inserts).expect("rows differ and are of one partition");
            let request = TableRequest::Transaction(name(table), group);
            let mut last = None;
            let done = wait_until(HEALTHY_TIME_MAX, || {
                last = Client::connect(authority).and_then(|mut client| client.ask(&request)).ok();
                // One that was not answered may have been done.
                let exists = matches!(&last, Some(Err(DecodeError::Service(error))) if error.code == "EntityAlreadyExists");
                exists || matches!(last, Some(Ok(_)))
            });
            if !done {
                return Err(Violation::new(format!("the accounts cannot be opened: {last:?}")));
            }
        }
        Ok(bank)
    }

    /// No client begins another transfer.
    pub(super) fn close(&self) {
        self.has_closed.store(true, Ordering::Relaxed);
    }

    /// Moves amounts and looks at the sum, until the bank closes.
    ///
    /// # Errors
    /// If the sum is not what it was.
    pub(super) fn serve(&self, race: &Race, mut rng: fastrand::Rng) -> Result<(), Violation> {
        let mut connection = None;
        while !self.has_closed.load(Ordering::Relaxed) {
            let Some(client) = connection.as_mut() else {
                connection = race.connect(rng.usize(..))?;
                continue;
            };
            race.draw_timeout(client, &mut rng);
            let partition = rng.usize(..PARTITIONS);
            // A part of the accounts now and then: a read of a part must not tear what others see.
            let part = rng.u8(..4) == 0;
            let Ok(accounts) = self.read(client, partition, part.then_some(ACCOUNTS / 2))? else {
                connection = None;
                continue;
            };
            if !part {
                check_sum(partition, &accounts)?;
                self.statements.fetch_add(1, Ordering::Relaxed);
            }
            if self.transfer(client, partition, &accounts, &mut rng)?.is_err() {
                connection = None;
            }
        }
        Ok(())
    }

    /// The sums at the end, through one server.
    ///
    /// # Errors
    /// If they are not what they were, or cannot be read.
    pub(super) fn audit(&self, authority: &str) -> Result<(), Violation> {
        for partition in 0..PARTITIONS {
            let mut accounts = None;
            let mut broken = None;
            wait_until(HEALTHY_TIME_MAX, || {
                let Ok(mut client) = Client::connect(authority) else { return false };
                match self.read(&mut client, partition, None) {
                    Ok(read) => accounts = read.ok(),
                    Err(violation) => broken = Some(violation),
                }
                accounts.is_some() || broken.is_some()
            });
            if let Some(broken) = broken {
                return Err(broken);
            }
            let accounts = accounts
                .ok_or_else(|| Violation::new("the accounts cannot be read, though all is well"))?;
            check_sum(partition, &accounts)?;
        }
        Ok(())
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        tally.add("transfers", self.transfers.load(Ordering::Relaxed));
        tally.add("sums", self.statements.load(Ordering::Relaxed));
        tally
    }

    /// All accounts of a partition, or the first of them, by one read.
    fn read(
        &self,
        client: &mut Client,
        partition: usize,
        top: Option<usize>,
    ) -> Result<Result<Vec<Account>, Silence>, Violation> {
        let filter = Filter::Compare {
            property: "PartitionKey".to_owned(),
            comparison: Comparison::Equal,
            constant: EdmValue::String(format!("b{partition}")),
        };
        let query = EntityQuery { filter: Some(filter), top, from: None };
        let answer = client.ask(&TableRequest::QueryEntities(name(&self.table), query));
        let entities = match answer {
            Err(_) => return Ok(Err(Silence)),
            Ok(Err(DecodeError::Service(error)))
                if error.status.is_server_error() && error.code != "InternalError" =>
            {
                return Ok(Err(Silence));
            }
            Ok(Ok(Decoded::Entities(entities, _))) => entities,
            Ok(other) => {
                return Err(Violation::new(format!("the accounts were answered with {other:?}")));
            }
        };
        let account = |entity: &tavola_protocol::table::entity_json::DecodedEntity| {
            let row = entity.row_key.as_ref()?.as_str().to_owned();
            let Some(EdmRef::Int32(amount)) = entity.properties.get("Value") else { return None };
            Some(Account { row, amount, tag: entity.etag.clone()? })
        };
        let accounts: Option<Vec<Account>> = entities.iter().map(account).collect();
        accounts
            .map(Ok)
            .ok_or_else(|| Violation::new(format!("these are no accounts: {entities:?}")))
    }

    fn transfer(
        &self,
        client: &mut Client,
        partition: usize,
        accounts: &[Account],
        rng: &mut fastrand::Rng,
    ) -> Result<Result<(), Silence>, Violation> {
        let (from, to) = (rng.usize(..accounts.len()), rng.usize(..accounts.len()));
        if from == to {
            return Ok(Ok(()));
        }
        let amount = rng.i32(1..100);
        let set = |account: &Account, amount: i32| {
            let (partition_key, new) = new_entity(&format!("b{partition}/{}", account.row), amount);
            (
                partition_key,
                EntityOperation::Replace(new, Precondition::Version(account.tag.clone())),
            )
        };
        let (from, to) = (&accounts[from], &accounts[to]);
        let both = vec![set(from, from.amount - amount), set(to, to.amount + amount)];
        let group =
            EntityGroupTransaction::new(both).expect("rows differ and are of one partition");
        match client.ask(&TableRequest::Transaction(name(&self.table), group)) {
            Ok(Ok(_)) => self.transfers.fetch_add(1, Ordering::Relaxed),
            Ok(Err(DecodeError::Service(error))) if error.code == "UpdateConditionNotSatisfied" => {
                0
            }
            Ok(Err(DecodeError::Service(error)))
                if error.status.is_server_error() && error.code != "InternalError" =>
            {
                return Ok(Err(Silence));
            }
            Err(_) => return Ok(Err(Silence)),
            Ok(other) => {
                return Err(Violation::new(format!("a transfer was answered with {other:?}")));
            }
        };
        Ok(Ok(()))
    }
}

/// No answer, or one that says that there is none.
struct Silence;

fn check_sum(partition: usize, accounts: &[Account]) -> Result<(), Violation> {
    let sum: i64 = accounts.iter().map(|account| i64::from(account.amount)).sum();
    if accounts.len() == ACCOUNTS && sum == SUM {
        return Ok(());
    }
    let seen: Vec<String> = accounts
        .iter()
        .map(|account| format!("{} {} {}", account.row, account.amount, account.tag))
        .collect();
    Err(Violation::new(format!(
        "the accounts of b{partition} have {sum} in sum, not {SUM}: {}",
        seen.join("; ")
    )))
}
