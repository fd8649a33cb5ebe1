//! The line of a request: locate, authenticate, read, parse, permit, admit, execute, render.
//! Nothing here knows a format or a store.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::FutureExt;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use tavola_core::reply::Cost;
use tavola_core::{DateTime, Grant, TableRequest};
use tavola_fair::Turn;
use tavola_protocol::api_error::Budget;
use tavola_protocol::auth::without_credentials;
use tavola_protocol::table::{parse_request, render_error, render_reply};
use tavola_protocol::{
    Address, AddressRules, ApiError, AuthContext, Caller, Credential, DenyReason, ResponseContext,
    ResponseHead, authenticate, cors, locate,
};
use tavola_service::{Answer, Rate, ServiceError};
use tavola_store::{StopToken, StoreError};

use crate::admission::{Admitted, Place, admit, admit_body, busy, work};
use crate::body::{self, BodyError, RequestBody};
use crate::body_memory::{BodyMemory, BodyShare};
use crate::config::Account;
use crate::connection::{Connection, Scheme};
use crate::node::Node;
use crate::proxy::{self, Client};
use crate::public_key;
use crate::telemetry::{Bound, Principal, RequestEvent, Subject};
use crate::tokens::{TokenAuthority, TokenRefusal};

/// Health on the data port: `-` cannot begin an account's name.
const READY_PATH: &str = "/-/ready";
/// A query that is at work ends by itself so soon after its time is over.
const STOP_GRACE: Duration = Duration::from_millis(50);
/// What a client is told to wait when the server is over a limit.
pub(crate) const RETRY_AFTER_SECONDS: u32 = 1;

/// The connection cannot go on; there is nobody to answer to.
#[derive(Debug, thiserror::Error)]
#[error("the request's framing is broken")]
pub struct ConnectionBroken;

/// Answers one request.
///
/// # Errors
/// Only if the connection itself is broken. Everything else is an answer.
pub async fn handle<B: RequestBody>(
    node: Arc<Node>,
    connection: Connection,
    request: Request<B>,
) -> Result<Response<Bytes>, ConnectionBroken> {
    let (parts, body) = request.into_parts();
    if parts.uri.path() == READY_PATH {
        return Ok(crate::admin::ready(&node));
    }
    let client = proxy::forwarded(
        connection.peer.ip(),
        connection.scheme,
        &parts.headers,
        &node.trusted_proxies,
    );
    let rules =
        AddressRules { path_style_only: node.path_style_only, scheme: client.scheme.name() };
    let accounts = node.accounts();
    let address = locate(&parts, &rules, &|name| accounts.contains(name));
    let account = address.as_ref().ok().and_then(|address| accounts.get(&address.account)).cloned();
    let mut context =
        RequestContext::new(&node, connection, client, parts, address.as_ref().ok(), account);
    // A defect of ours must not cost the client its connection, nor tell it anything.
    let response =
        match AssertUnwindSafe(context.answer(address.as_ref(), body)).catch_unwind().await {
            Ok(response) => response?,
            Err(_panic) => {
                node.telemetry.record_panic();
                tracing::error!(
                    request_id = context.request_id,
                    "a request met a defect and was answered with InternalError"
                );
                context.reject(&ApiError::InternalError)
            }
        };
    context.report(address.as_ref().ok(), &response);
    let denied = context.subject.deny_reason;
    // Nothing of the request is kept while its answer waits.
    drop(context);
    if let Some(reason) = denied {
        node.auth_failures.wait(client.ip, reason).await;
    }
    Ok(response)
}

/// One request while it is being answered.
struct RequestContext<'a> {
    node: &'a Arc<Node>,
    connection: Connection,
    client: Client,
    parts: Parts,
    /// As it was when the request came, whatever is reloaded meanwhile.
    account: Option<Arc<Account>>,
    request_id: String,
    arrived: SystemTime,
    started: tokio::time::Instant,
    context: ResponseContext,
    /// The credentials hold, and open what is asked for.
    permitted: bool,
    /// What telemetry is told, as far as it is known.
    subject: Subject,
    _open: OpenRequest<'a>,
}

/// Counts a request for as long as it is in hand.
struct OpenRequest<'a>(&'a AtomicUsize);

impl<'a> OpenRequest<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'a> RequestContext<'a> {
    fn new(
        node: &'a Arc<Node>,
        connection: Connection,
        client: Client,
        parts: Parts,
        address: Option<&Address>,
        account: Option<Arc<Account>>,
    ) -> Self {
        let context = ResponseContext::of(&parts, address);
        Self {
            node,
            connection,
            client,
            request_id: node.next_request_id(),
            arrived: SystemTime::now(),
            started: tokio::time::Instant::now(),
            context,
            permitted: false,
            parts,
            account,
            subject: Subject::default(),
            _open: OpenRequest::begin(&node.open_requests),
        }
    }

    async fn answer<B: RequestBody>(
        &mut self,
        address: Result<&Address, &ApiError>,
        mut body: B,
    ) -> Result<Response<Bytes>, ConnectionBroken> {
        let address = match address {
            Ok(address) => address,
            Err(api_error) => {
                self.drain(&mut body).await;
                return Ok(self.reject(api_error));
            }
        };
        let admitted = match self.check_source() {
            Ok(()) => self.check_public_key(address).await,
            refused => refused,
        };
        let result = match admitted {
            Err(api_error) => {
                self.drain(&mut body).await;
                return Ok(self.reject(&api_error));
            }
            Ok(()) if self.parts.method == Method::OPTIONS => {
                self.drain(&mut body).await;
                self.preflight(address).await
            }
            Ok(()) => self.execute(address, &mut body).await,
        };
        let mut response = match result {
            Ok(response) => response,
            Err(Failure::Broken) => return Err(ConnectionBroken),
            Err(Failure::Rejected(api_error)) => self.reject(&api_error),
        };
        self.add_cors_headers(address, &mut response).await;
        Ok(response)
    }

    /// The line itself.
    async fn execute<B: RequestBody>(
        &mut self,
        address: &Address,
        body: &mut B,
    ) -> Result<Response<Bytes>, Failure> {
        let account = self.account.clone().ok_or(ApiError::AccountNotFound)?;
        let grant = match self.authorize(address, &account).await {
            Ok(grant) => grant,
            Err(api_error) => {
                self.drain(body).await;
                return Err(api_error.into());
            }
        };
        let tenant = Arc::clone(account.tenant(&self.node.tenants));
        let memory = BodyMemory::new(Arc::clone(&tenant.bodies), self.connection.bodies.clone());
        let (body, share) = body::read(body, self.node.limits.body_time, &memory).await?;
        self.subject.request_bytes = body.len() as u64;
        account.budgets.take_request(self.subject.request_bytes).map_err(ApiError::OverBudget)?;
        let of_body = admit_body(&tenant, body.len()).await?;
        let request = match of_body {
            None => parse_request(&self.parts, &body, address, &mut self.context)?,
            Some(_) => Box::pin(self.parse_aside(address, &body)).await?,
        };
        self.subject.describe(&request, &self.node.telemetry);
        grant.permits(&request).map_err(ApiError::from)?;
        self.permitted = true;
        let Admitted { request: _until_answered, place } =
            admit(&tenant, work(&request, body.len() as u64), of_body).await?;
        let _until_written = match place {
            Place::Query(turn) => return self.query(grant, request, turn, memory).await,
            Place::Write(turn) => Some(turn),
            Place::Here => None,
        };
        let is_write = request.is_write();
        let answer = self.execute_in_time(&grant, request).await?;
        self.subject.cost = answer.cost;
        let response = render_reply(&answer.reply, &self.response_head());
        // The request's own body is not needed any more; its share serves the answer.
        Ok(if is_write { answered(response, &memory, share) } else { held(response, &memory)? })
    }

    /// Reads a large body where point requests do not have to wait for it.
    async fn parse_aside(
        &mut self,
        address: &Address,
        body: &Bytes,
    ) -> Result<TableRequest, ApiError> {
        let (parts, body, address) = (self.parts.clone(), body.clone(), address.clone());
        let mut context = self.context.clone();
        let parse = move || {
            let request = parse_request(&parts, &body, &address, &mut context);
            (request, context)
        };
        let (request, context) = self.node.query_pool.run_at_once(parse).await;
        self.context = context;
        request
    }

    /// Finds and writes down a page where point requests do not have to wait for it.
    async fn query(
        &mut self,
        grant: Grant,
        request: TableRequest,
        turn: Turn,
        memory: BodyMemory,
    ) -> Result<Response<Bytes>, Failure> {
        let (node, time) = (Arc::clone(self.node), self.time());
        // Dropped with this future, which hyper drops when the client leaves.
        let (stop, _until_answered) = StopToken::at(Instant::now() + time).guarded();
        let entities = self.partition_entities();
        let (request_id, context, now) =
            (self.request_id.clone(), self.context.clone(), date_time(self.arrived));
        let page = async move {
            let answer = node.tables.execute_within(&grant, entities, request, &stop).await;
            let response_head = ResponseHead { request_id: &request_id, now, context: &context };
            answer.map(|answer| (answer.cost, render_reply(&answer.reply, &response_head)))
        };
        // The query itself says when its time is over, and what it has cost; but not while it waits
        // for something.
        let page =
            tokio::time::timeout(time + STOP_GRACE, self.node.query_pool.run(turn, page)).await;
        let page = page.map_err(|_elapsed| ApiError::OperationTimedOut)?;
        if let Err(ServiceError::Stopped { rows_read }) = page {
            self.subject.cost.rows_read = rows_read;
        }
        let (cost, response) = page.map_err(|error| self.api_error_of(error))?;
        self.subject.cost = cost;
        Ok(held(response, &memory)?)
    }

    /// Who comes from where the account does not admit anybody is told nothing, not even which
    /// pages it lets in.
    fn check_source(&self) -> Result<(), ApiError> {
        match &self.account {
            Some(account) if !account.admits(self.client.ip) => {
                Err(ApiError::Denied(DenyReason::Address))
            }
            _ => Ok(()),
        }
    }

    /// Every web page knows the development account's key, and must not use it from the browser of
    /// whoever runs a server.
    async fn check_public_key(&self, address: &Address) -> Result<(), ApiError> {
        if !self.account.as_ref().is_some_and(|account| account.has_public_key) {
            return Ok(());
        }
        let (own, host) = origin_and_host(&address.base);
        if !self.node.development_hosts.admit(host) {
            return Err(ApiError::PublicKeyHost { host: host.to_owned() });
        }
        let mut foreign = public_key::foreign_origins(&self.parts.headers, own).peekable();
        // A preflight is answered by the rules alone.
        if self.parts.method == Method::OPTIONS || foreign.peek().is_none() {
            return Ok(());
        }
        let properties = self.node.tables.properties(&address.account).await;
        let properties = properties.map_err(|error| self.api_error_of(error.into()))?;
        let method = self.parts.method.as_str();
        let admitted =
            foreign.all(|origin| public_key::is_admitted(origin, method, &properties.cors));
        if admitted { Ok(()) } else { Err(ApiError::PublicKeyOrigin) }
    }

    /// From the credentials to what they open.
    async fn authorize(&mut self, address: &Address, account: &Account) -> Result<Grant, ApiError> {
        let caller = Caller { ip: self.client.ip, https: self.client.scheme == Scheme::Https };
        let tokens = self.node.tokens();
        let (now, precedence) = (self.arrived, self.node.credential_precedence);
        let auth = AuthContext {
            keys: &account.keys,
            challenge: tokens.challenge(),
            caller,
            now,
            precedence,
        };
        let (grant, principal) = match authenticate(&self.parts, address, &auth)? {
            Credential::Complete(grant, signer) => (grant, Principal::Signer(signer)),
            Credential::NeedsPolicies(signature) => {
                let policies = self.node.tables.policies(&address.account, signature.table()).await;
                let signer = signature.signer();
                let grant = signature
                    .with_policies(&policies.map_err(|error| self.api_error_of(error.into()))?)?;
                (grant, Principal::Signer(signer))
            }
            Credential::Token(token) => {
                let bearer = tokens.bearer(token, &address.account, self.arrived).await;
                let bearer =
                    bearer.map_err(|domain_error| self.refused_token(&tokens, domain_error))?;
                (
                    Grant::roles(address.account.clone(), bearer.roles),
                    Principal::Token(bearer.subject),
                )
            }
        };
        self.subject.principal = Some(principal);
        Ok(if address.secondary || account.read_only { grant.read_only() } else { grant })
    }

    /// A client with a token that does not hold is told where to get another one, if its version
    /// knows that answer.
    fn refused_token(&self, tokens: &TokenAuthority, domain_error: TokenRefusal) -> ApiError {
        tracing::debug!(request_id = self.request_id, %domain_error, "a token was refused");
        match domain_error {
            TokenRefusal::KeysUnavailable => busy(),
            _ => match without_credentials(
                self.context.version(),
                tokens.challenge(),
                domain_error.deny_reason(),
            ) {
                ApiError::AuthenticationFailed { reason, .. } => ApiError::AuthenticationFailed {
                    detail: Some(domain_error.to_string()),
                    reason,
                },
                challenge => challenge,
            },
        }
    }

    async fn execute_in_time(
        &self,
        grant: &Grant,
        request: TableRequest,
    ) -> Result<Answer, ApiError> {
        let never = StopToken::default();
        let executed =
            self.node.tables.execute_within(grant, self.partition_entities(), request, &never);
        match tokio::time::timeout(self.time(), executed).await {
            Ok(result) => result.map_err(|error| self.api_error_of(error)),
            Err(_elapsed) => Err(ApiError::OperationTimedOut),
        }
    }

    /// What the account may ask of one partition.
    fn partition_entities(&self) -> Rate {
        self.account
            .as_ref()
            .map_or(Rate::UNBOUNDED, |account| account.budgets.rates().partition_entities)
    }

    /// What the client gives us, within what we give ourselves.
    fn time(&self) -> Duration {
        let limit = self.node.limits.request_time;
        self.context.timeout().unwrap_or(limit).min(limit)
    }

    fn api_error_of(&self, error: ServiceError) -> ApiError {
        match error {
            ServiceError::Refused(domain_error) => domain_error.into(),
            ServiceError::OperationRefused(failed) => failed.into(),
            ServiceError::Stopped { .. } => ApiError::OperationTimedOut,
            ServiceError::PartitionOverBudget => ApiError::OverBudget(Budget::PartitionEntities),
            ServiceError::Store(StoreError::Contended) => busy(),
            ServiceError::Store(StoreError::UnknownOutcome) => ApiError::UnknownOutcome,
            // Said once by the store; a line for every refused write would fill what is left of the
            // disk.
            ServiceError::Store(StoreError::Full { .. }) => ApiError::StoreFull,
            ServiceError::Store(error @ StoreError::Unavailable { .. }) => {
                tracing::error!(request_id = self.request_id, %error, "the store cannot serve");
                ApiError::StoreUnavailable
            }
            other => {
                tracing::error!(request_id = self.request_id, error = %other, "the store failed");
                ApiError::InternalError
            }
        }
    }

    async fn preflight(&mut self, address: &Address) -> Result<Response<Bytes>, Failure> {
        self.subject.operation = "PreflightTableRequest";
        let properties = self.node.tables.properties(&address.account).await;
        let properties = properties.map_err(|error| self.api_error_of(error.into()))?;
        Ok(cors::preflight(&self.parts, &properties.cors, &self.response_head())?)
    }

    /// A store that cannot say the rules costs a browser its answer, not the request.
    async fn add_cors_headers(&self, address: &Address, response: &mut Response<Bytes>) {
        let origin =
            self.parts.headers.get(http::header::ORIGIN).and_then(|origin| origin.to_str().ok());
        // Only a browser needs the rules to show a refusal; for anybody else it must not cost a
        // read.
        let needs_rules = self.permitted || origin.is_some();
        if self.parts.method == Method::OPTIONS || !needs_rules {
            return;
        }
        let Ok(properties) = self.node.tables.properties(&address.account).await else { return };
        cors::add_cors_headers(response, origin, self.parts.method.as_str(), &properties.cors);
    }

    /// Without this a refusal that comes before the body would end a connection with one request at
    /// a time; with HTTP/2 the stream ends alone, and nothing of the request must be kept. A client
    /// that asks first (`Expect: 100-continue`) has not sent the body and must not be told to.
    async fn drain<B: RequestBody>(&self, body: &mut B) {
        if self.parts.version < Version::HTTP_2
            && !self.parts.headers.contains_key(http::header::EXPECT)
        {
            body::drain(body, self.node.limits.body_time).await;
        }
    }

    fn response_head(&self) -> ResponseHead<'_> {
        ResponseHead {
            request_id: &self.request_id,
            now: date_time(self.arrived),
            context: &self.context,
        }
    }

    fn reject(&mut self, api_error: &ApiError) -> Response<Bytes> {
        self.subject.error_code =
            Some(tavola_protocol::api_error::status_code_text(api_error).code);
        self.subject.deny_reason = DenyReason::of(api_error);
        self.trace_error(api_error);
        self.subject.throttled_by = Bound::behind(api_error);
        self.subject.cost = Cost { rows_returned: 0, ..self.subject.cost };
        render_error(api_error, &self.response_head())
    }

    /// What the client is told, for a log that tells everything.
    fn trace_error(&self, api_error: &ApiError) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let parts = tavola_protocol::api_error::status_code_text(api_error);
        let detail = match api_error.innermost() {
            ApiError::AuthenticationFailed { detail, .. } => detail.as_deref(),
            _ => None,
        };
        let (request_id, code, text) = (&self.request_id, parts.code, &*parts.text);
        tracing::debug!(request_id, code, text, detail, "the request gets an error");
    }

    fn report(&self, address: Option<&Address>, response: &Response<Bytes>) {
        // Strangers must not be able to spend what is somebody else's.
        if let Some(account) = self.account.as_ref().filter(|_| self.permitted) {
            account.budgets.charge_answer(response.body().len() as u64);
        }
        self.node.telemetry.record(&RequestEvent {
            arrived: self.arrived,
            client: self.client,
            connection: &self.connection,
            parts: &self.parts,
            // A name that no account has is whatever a stranger wrote.
            account: address.filter(|_| self.account.is_some()).map(|address| &address.account),
            request_id: &self.request_id,
            client_request_id: self.context.client_request_id(),
            status: response.status(),
            response_bytes: response.body().len() as u64,
            duration: self.started.elapsed(),
            subject: &self.subject,
        });
    }
}

/// The same answer, counted in the memory for bodies until it is sent.
fn held(response: Response<Bytes>, memory: &BodyMemory) -> Result<Response<Bytes>, ApiError> {
    let (parts, body) = response.into_parts();
    let body = memory.hold(body).ok_or_else(busy)?;
    Ok(Response::from_parts(parts, body))
}

/// The same, for what was carried out: it must be answered, whatever memory there is.
fn answered(response: Response<Bytes>, memory: &BodyMemory, share: BodyShare) -> Response<Bytes> {
    response.map(|body| memory.hold_in_place_of(share, body))
}

/// Why the line ended early.
enum Failure {
    Rejected(ApiError),
    Broken,
}

impl From<ApiError> for Failure {
    fn from(api_error: ApiError) -> Self {
        Self::Rejected(api_error)
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Rejected(api_error) => Self::Rejected(api_error),
            BodyError::Broken => Self::Broken,
        }
    }
}

/// The origin of an address, and the host in it: `http://localhost:10002` and `localhost:10002` of
/// `http://localhost:10002/devstoreaccount1`. By bytes, because every request asks, and a search
/// for text is set up for longer ones.
fn origin_and_host(base: &str) -> (&str, &str) {
    let mut slashes =
        base.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at).skip(1);
    let host = slashes.next().map_or(0, |at| at + 1);
    let end = slashes.next().unwrap_or(base.len());
    (base.get(..end).unwrap_or(base), base.get(host..end).unwrap_or(base))
}

/// A clock before 1970 reads as 1970: the text of an error must not fail.
fn date_time(at: SystemTime) -> DateTime {
    DateTime::from_unix(at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

/// An answer that needs no request: the server is over its connections.
pub(crate) fn busy_answer(node: &Node) -> Response<Bytes> {
    let (parts, ()) = Request::new(()).into_parts();
    let context = ResponseContext::of(&parts, None);
    let (request_id, now) = (node.next_request_id(), date_time(SystemTime::now()));
    let response_head = ResponseHead { request_id: &request_id, now, context: &context };
    let mut response = render_error(&busy(), &response_head);
    response
        .headers_mut()
        .insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    debug_assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    response
}
