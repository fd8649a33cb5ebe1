//! What a service brings to the request pipeline: parse, demands, execution, rendering. Everything
//! else a request needs is the pipeline's.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tavola_core::grant::{AccessError, Demand};
use tavola_core::reply::Cost;
use tavola_core::{AccessPolicy, AccountName, Grant, ServiceKind, ServiceProperties};
use tavola_fair::KeyBudget;
use tavola_protocol::api_error::Budget;
use tavola_protocol::{Address, ResponseContext, ResponseHead, ServiceApiError};
use tavola_store::{Blocking, StopToken, StoreError};

use crate::body::BodyStream;
use crate::response_body::ResponseBody;
use crate::telemetry::Target;
use crate::throttle::Work;

/// A service of the server.
pub trait Service: fmt::Debug + Send + Sync + 'static {
    /// How an answer is to be written, as far as the request says.
    type Context: AsRef<ResponseContext> + Clone + Send + Sync + 'static;
    /// A request that was understood.
    type Request: Send + 'static;
    /// What the service answers to it.
    type Reply: Send + 'static;
    /// What it answers to a request that is wrong or cannot be carried out.
    type Error: ServiceApiError + fmt::Debug + Send + 'static;

    /// Which service it is: clients sign for it, and logs name it.
    const KIND: ServiceKind;
    /// What logs and metrics call a preflight.
    const PREFLIGHT: &'static str;

    /// What can be known of a request before it is understood. Never fails: the answer to a bad
    /// request needs it too.
    fn context(&self, parts: &Parts, address: Option<&Arc<Address>>) -> Self::Context;

    /// How the body of this request arrives.
    fn body_plan(&self, parts: &Parts, address: &Address) -> BodyPlan;

    /// Understands a request; `context` learns how its answer is to be written. `body` is empty if
    /// the plan is to stream it.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    fn parse(
        &self,
        parts: &Parts,
        body: &Bytes,
        address: &Address,
        context: &mut Self::Context,
    ) -> Result<Self::Request, Self::Error>;

    /// What logs and metrics say about a request; its target only if somebody reads it.
    fn describe(&self, request: &Self::Request, with_target: bool) -> Description;

    /// Hands everything that the request demands of a grant to `check`.
    ///
    /// # Errors
    /// What `check` says first, in the service's words.
    fn demands(
        &self,
        request: &Self::Request,
        check: &mut dyn FnMut(&Demand<'_>) -> Result<(), AccessError>,
    ) -> Result<(), Self::Error>;

    /// How heavy a request is, with so many bytes of a body in memory.
    fn work(&self, request: &Self::Request, body_bytes: u64) -> Work;

    /// Carries out a request that the grant permits.
    fn execute<'a>(
        &'a self,
        call: Call<'a>,
        request: Self::Request,
    ) -> impl Future<Output = Result<Executed<Self::Reply>, ExecuteError<Self::Error>>> + Send + 'a;

    /// Writes the answer to a request that was carried out.
    fn render(
        &self,
        reply: Self::Reply,
        head: &ResponseHead<'_, Self::Context>,
    ) -> Response<ResponseBody>;

    /// Writes the answer to any other.
    fn render_error(
        &self,
        error: &Self::Error,
        head: &ResponseHead<'_, Self::Context>,
    ) -> Response<Bytes>;

    /// The properties of the service in an account; its CORS rules are among them.
    fn properties(
        &self,
        account: &AccountName,
    ) -> impl Future<Output = Result<Arc<ServiceProperties>, StoreError>> + Send;

    /// The access policies of a container; none if there is no such container, which must not be
    /// told to a caller without a valid credential.
    fn policies(
        &self,
        account: &AccountName,
        container: &str,
    ) -> impl Future<Output = Result<Vec<AccessPolicy>, StoreError>> + Send;

    /// Background work that runs for as long as the server serves.
    fn background(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// How the body of a request arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPlan {
    /// Whole and in memory before the request is parsed.
    Whole {
        /// A larger one is refused.
        bytes_max: usize,
    },
    /// As it comes, while the request is carried out.
    Streamed {
        /// A larger one is refused.
        bytes_max: u64,
    },
}

/// What logs and metrics say about a request.
#[derive(Debug, Clone, Default)]
pub struct Description {
    /// The operation's name, as Storage Analytics spells it.
    pub operation: &'static str,
    /// True if the request can change something.
    pub is_write: bool,
    /// How many operations a transaction has.
    pub operations: Option<usize>,
    /// What it is about, for an audit.
    pub target: Option<Box<Target>>,
}

/// What surrounds the execution of a request.
#[derive(Debug)]
pub struct Call<'a> {
    /// What the caller may do; a query must not read beyond its range.
    pub grant: &'a Grant,
    /// What the account may spend of each key in a second, such as entities of a partition.
    pub key_budget: KeyBudget<'a>,
    /// Ends work that nobody waits for any more.
    pub stop: &'a StopToken,
    /// Whether the thread of this call may wait for a disk.
    pub blocking: Blocking,
    /// The body, if the plan was to stream it.
    pub body: BodyStream<'a>,
}

/// A reply and what it cost.
#[derive(Debug)]
pub struct Executed<R> {
    /// What to tell the client.
    pub reply: R,
    /// What to tell the operator.
    pub cost: Cost,
}

/// Why a request was not carried out.
#[derive(Debug)]
pub enum ExecuteError<E> {
    /// The service says no.
    Service(E),
    /// A budget is spent; nothing was read or written.
    OverBudget(Budget),
    /// The request's time is over; it only read.
    Stopped {
        /// How many rows were looked at for nothing.
        rows_read: u64,
    },
    /// The body did not arrive.
    Body(crate::body::BodyError),
    /// The store could not answer.
    Store(StoreError),
}

impl<E> From<StoreError> for ExecuteError<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl<E> From<crate::body::BodyError> for ExecuteError<E> {
    fn from(error: crate::body::BodyError) -> Self {
        Self::Body(error)
    }
}
