//! A blocking client on one connection, built from the protocol crate's own client half.

#![allow(clippy::missing_panics_doc, reason = "for tests, which fail by panicking")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use tavola_core::request::{EntityQuery, Select};
use tavola_core::{
    AccountName, EdmRef, EdmValue, EntityKey, EntityOperation, NewEntity, PartitionKey, Properties,
    PropertyName, RowKey, TableName, TableRequest,
};
use tavola_protocol::auth::{AccountKey, Scheme, sign_request};
use tavola_protocol::table::decode::{DecodeError, Decoded, decode_reply};
use tavola_protocol::table::encode::{NextPage, Style, encode_request};
use tavola_protocol::table::entity_json::MetadataLevel;
use tavola_protocol::table::{Prefer, ResponseFormat};

use crate::blocking::BlockingConnection;
pub use crate::blocking::NoAnswer;
use crate::server_process::{ACCOUNT, KEY};

const BOUNDARIES: [&str; 2] =
    ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"];

/// How many seconds the clocks of all clients are ahead of this machine's.
static CLOCK_SHIFT_SECONDS: AtomicI64 = AtomicI64::new(0);

/// Sets the clocks of all clients so many seconds ahead of this machine's.
pub fn shift_clocks(seconds: i64) {
    CLOCK_SHIFT_SECONDS.store(seconds, Ordering::SeqCst);
}

/// What the clocks of the clients show.
#[must_use]
pub fn now() -> SystemTime {
    shifted(CLOCK_SHIFT_SECONDS.load(Ordering::SeqCst))
}

/// A clock that is so many seconds ahead of this machine's.
#[must_use]
pub fn shifted(seconds: i64) -> SystemTime {
    let by = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    connection: BlockingConnection,
    base: String,
    account: AccountName,
    key: AccountKey,
}

impl Client {
    pub fn connect(authority: &str) -> Result<Self, NoAnswer> {
        Self::connect_as(authority, ACCOUNT, KEY)
    }

    /// The same with this timeout for each part of an answer.
    pub fn connect_with_timeout(authority: &str, timeout: Duration) -> Result<Self, NoAnswer> {
        let mut client = Self::connect(authority)?;
        client.set_timeout(timeout);
        Ok(client)
    }

    /// From now on waits so long for each part of an answer.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.connection.set_timeout(timeout);
    }

    /// The same for another account.
    pub fn connect_as(authority: &str, account: &str, key: &str) -> Result<Self, NoAnswer> {
        Ok(Self {
            connection: BlockingConnection::open(authority)?,
            base: format!("http://{authority}/{account}"),
            account: AccountName::parse(account).expect("a legal name"),
            key: AccountKey::parse(key).expect("a legal key"),
        })
    }

    pub fn ask(
        &mut self,
        request: &TableRequest,
    ) -> Result<Result<Decoded, DecodeError>, NoAnswer> {
        self.ask_page(request, None)
    }

    pub fn ask_page(
        &mut self,
        request: &TableRequest,
        page: Option<&NextPage>,
    ) -> Result<Result<Decoded, DecodeError>, NoAnswer> {
        let format = ResponseFormat {
            level: MetadataLevel::Minimal,
            prefer: Some(Prefer::ReturnNoContent),
            select: Select::All,
        };
        let style = Style { base: &self.base, format: &format, page, boundary_ids: BOUNDARIES };
        let mut http = encode_request(request, &style).expect("the request can be written");
        sign_request(&mut http, Scheme::SharedKey, &self.account, &self.key, now());
        let response = self.exchange(&http)?;
        Ok(decode_reply(request, &response))
    }

    /// Signs a request and sends it.
    pub fn exchange_signed(
        &mut self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, NoAnswer> {
        self.exchange_signed_at(request, now())
    }

    /// The same by a client with a clock of its own.
    pub fn exchange_signed_at(
        &mut self,
        mut request: Request<Bytes>,
        at: SystemTime,
    ) -> Result<Response<Bytes>, NoAnswer> {
        sign_request(&mut request, Scheme::SharedKey, &self.account, &self.key, at);
        self.exchange(&request)
    }

    /// Sends one request and reads its answer.
    pub fn exchange(&mut self, request: &Request<Bytes>) -> Result<Response<Bytes>, NoAnswer> {
        self.connection.exchange(request)
    }

    /// A `GET` without a signature.
    pub fn get(&mut self, path: &str) -> Result<Response<Bytes>, NoAnswer> {
        self.exchange(&Request::get(path).body(Bytes::new()).expect("a legal path"))
    }

    /// Creates a table that may exist.
    pub fn create_table(&mut self, table: &str) {
        let created = self.ask(&TableRequest::CreateTable(name(table))).expect("an answer");
        match created {
            Err(DecodeError::Service(error)) => assert_eq!(error.code, "TableAlreadyExists"),
            other => assert!(other.is_ok(), "{other:?}"),
        }
    }

    /// Creates a table; false if the server could not.
    pub fn try_create_table(&mut self, table: &str) -> Result<bool, NoAnswer> {
        Ok(match self.ask(&TableRequest::CreateTable(name(table)))? {
            Err(DecodeError::Service(error)) => error.code == "TableAlreadyExists",
            other => other.is_ok(),
        })
    }

    /// Every `pk/rk` of a table with its property `Value`, in order.
    pub fn read_all(&mut self, table: &str) -> Vec<(String, i32)> {
        let request = TableRequest::QueryEntities(name(table), EntityQuery::default());
        let (mut all, mut page) = (Vec::new(), None);
        loop {
            let answer = self.ask_page(&request, page.as_ref()).expect("an answer");
            let Ok(Decoded::Entities(entities, next)) = answer else { panic!("{answer:?}") };
            all.extend(entities.into_iter().map(|entity| {
                let entity = entity.into_entity().expect("a whole entity");
                let Some(EdmRef::Int32(value)) = entity.properties.get("Value") else {
                    panic!("{entity:?}")
                };
                (format!("{}/{}", entity.key.partition_key, entity.key.row_key), value)
            }));
            match next {
                Some(next) => page = Some(next),
                None => return all,
            }
        }
    }
}

pub fn name(table: &str) -> TableName {
    TableName::parse(table).expect("a legal table name")
}

/// `pk/rk`
pub fn entity_key(key: &str) -> EntityKey {
    let (partition_key, row_key) = key.split_once('/').expect("a key has a slash");
    let partition_key = PartitionKey::new(partition_key).expect("a legal key");
    EntityKey::new(partition_key, RowKey::new(row_key).expect("a legal key"))
}

pub fn insert(key: &str, value: i32) -> (PartitionKey, EntityOperation) {
    let (partition_key, new) = new_entity(key, value);
    (partition_key, EntityOperation::Insert(new))
}

pub fn new_entity(key: &str, value: i32) -> (PartitionKey, NewEntity) {
    let property = PropertyName::new("Value").expect("an identifier");
    let properties =
        Properties::new(vec![(property, EdmValue::Int32(value))]).expect("one property");
    NewEntity::new(entity_key(key), properties).expect("a small entity")
}
