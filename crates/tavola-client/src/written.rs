//! What a write came to.

use tavola_protocol::table::receive::WriteReply;
use time::OffsetDateTime;

use crate::engine::Finished;
use crate::etag::ETag;
use crate::unknown::Proof;
use crate::value::date_time_from;

/// A write that was applied.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, Mode, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let written = table.upsert(&DynEntity::new("Smith", "1"), Mode::Replace).await?;
/// assert_eq!((written.status, written.attempts), (204, 1));
/// assert!(written.etag.is_some() && written.timestamp.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The HTTP status: 201 or 204.
    pub status: u16,
    /// The new version; none of what is gone, or if a lost reply said it.
    pub etag: Option<ETag>,
    /// When the version was written.
    pub timestamp: Option<OffsetDateTime>,
    /// How the call knows.
    pub proof: Proof,
    /// How often it was sent.
    pub attempts: u32,
}

impl Written {
    fn of(reply: WriteReply, proof: Proof, attempts: u32) -> Self {
        Self {
            status: reply.status.as_u16(),
            etag: reply.etag.map(|tag| ETag::new(tag.into_string())),
            timestamp: reply.timestamp.map(|timestamp| date_time_from(timestamp.date_time())),
            proof,
            attempts,
        }
    }

    pub(crate) fn all(finished: Finished) -> Vec<Self> {
        let Finished { proof, replies, attempts, .. } = finished;
        replies.into_iter().map(|reply| Self::of(reply, proof, attempts)).collect()
    }

    pub(crate) fn one(finished: Finished) -> Self {
        let Finished { proof, attempts, .. } = finished;
        Self::all(finished).pop().unwrap_or(Self {
            status: 204,
            etag: None,
            timestamp: None,
            proof,
            attempts,
        })
    }
}

/// What `create_if_missing` came to.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{Created, DynEntity, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let ann = DynEntity::new("Smith", "1");
/// match table.create_if_missing(&ann).await? {
///     Created::New(written) => println!("created, {:?}", written.etag),
///     Created::Existing(stored) => println!("there since {}", stored.timestamp()),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Created<T> {
    /// It was not there; this call created it.
    New(Written),
    /// It was there; this is it.
    Existing(T),
}

/// Which properties of a stored entity a write leaves alone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, Mode, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let mut ann = DynEntity::new("Smith", "1");
/// ann.set("Age", 42);
/// table.insert(&ann).await?;
/// let mut more = DynEntity::new("Smith", "1");
/// more.set("Name", "Ann");
/// table.upsert(&more, Mode::Merge).await?;
/// let both = table.get::<DynEntity>(("Smith", "1")).await?.expect("it is there");
/// assert_eq!(both.iter().count(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// None: what is not written is gone.
    Replace,
    /// Those that are not written.
    Merge,
}

/// Which version a write is for.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, IfMatch, Mode, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// let ann = DynEntity::new("Smith", "1");
/// let first = table.insert(&ann).await?.etag.expect("an insert has one");
/// table.update(&ann, Mode::Replace, IfMatch::Any).await?;
/// let late = table.update(&ann, Mode::Replace, IfMatch::Version(first)).await;
/// assert!(late.expect_err("it was changed").is_changed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IfMatch {
    /// Whatever there is, but there must be one.
    Any,
    /// This one.
    Version(ETag),
}
