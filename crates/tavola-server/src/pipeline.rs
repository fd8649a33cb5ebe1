//! The way of a request of any service: locate, check its source, authenticate, read, parse,
//! permit, admit, execute, render, report. Nothing here knows a format, a store or a service; what
//! is a service's own is behind [`Service`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::FutureExt;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use tavola_core::reply::Cost;
use tavola_core::{DateTime, Grant};
use tavola_fair::Turn;
use tavola_protocol::auth::without_credentials;
use tavola_protocol::{
    Address, AddressRules, ApiError, AuthContext, Caller, Credential, DenyReason, ResponseContext,
    ResponseHead, ServiceApiError, authenticate, cors, locate,
};
use tavola_store::{Blocking, StopToken, StoreError};

use crate::body::{self, BodyError, BodyStream, RequestBody};
use crate::completion::Completion;
use crate::config::Account;
use crate::connection::{Connection, Scheme};
use crate::node::Node;
use crate::proxy::{self, Client};
use crate::public_key;
use crate::response_body::ResponseBody;
use crate::service::{BodyPlan, Call, ExecuteError, Executed, Service};
use crate::telemetry::{Bound, Principal, RequestEvent, Subject};
use crate::throttle::{Admitted, BodyMemory, BodyShare, Place, Tenant, busy};
use crate::tokens::{TokenAuthority, TokenRefusal};

/// Health on the data port: `-` cannot begin an account's name.
const READY_PATH: &str = "/-/ready";
/// A query that is at work ends by itself so soon after its time is over.
const STOP_GRACE: Duration = Duration::from_millis(50);

/// The connection cannot go on; there is nobody to answer to.
#[derive(Debug, thiserror::Error)]
#[error("the request's framing is broken")]
pub struct ConnectionBroken;

/// Answers one request. Telemetry hears of it when the body of the answer is dropped.
///
/// # Errors
/// Only if the connection itself is broken. Everything else is an answer.
pub async fn handle<S: Service, B: RequestBody>(
    node: Arc<Node>,
    service: Arc<S>,
    connection: Connection,
    request: Request<B>,
) -> Result<Response<ResponseBody>, ConnectionBroken> {
    let (parts, body) = request.into_parts();
    if parts.uri.path() == READY_PATH {
        return Ok(crate::admin::ready(&node).map(ResponseBody::full));
    }
    let (ip, scheme) = (connection.peer.ip(), connection.scheme);
    let client = proxy::forwarded(ip, scheme, &parts.headers, &node.trusted_proxies);
    let rules =
        AddressRules { path_style_only: node.path_style_only, scheme: client.scheme.name() };
    let accounts = node.accounts();
    let address = locate(&parts, &rules, &|name| accounts.contains(name)).map(Arc::new);
    let account = address.as_ref().ok().and_then(|address| accounts.get(&address.account)).cloned();
    let context = service.context(&parts, address.as_ref().ok());
    let mut request = RequestContext {
        node: &node,
        service: &service,
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
    };
    // A defect of ours must not cost the client its connection, nor tell it anything.
    let answered = AssertUnwindSafe(request.answer(address.as_ref(), body)).catch_unwind().await;
    let response = match answered {
        Ok(response) => response?,
        Err(_panic) => {
            node.telemetry.record_panic();
            tracing::error!(
                request_id = request.request_id,
                "a request met a defect and was answered with InternalError"
            );
            request.reject(ApiError::InternalError.into())
        }
    };
    let denied = request.subject.deny_reason;
    // Nothing else of the request is kept while its answer waits.
    let completion = request.into_completion(address.ok(), response.status());
    if let Some(reason) = denied {
        node.auth_failures.wait(client.ip, reason).await;
    }
    Ok(response.map(|body| body.with_completion(completion)))
}

/// One request while it is being answered.
struct RequestContext<'a, S: Service> {
    node: &'a Arc<Node>,
    service: &'a Arc<S>,
    connection: Connection,
    client: Client,
    parts: Parts,
    /// As it was when the request came, whatever is reloaded meanwhile.
    account: Option<Arc<Account>>,
    request_id: String,
    arrived: SystemTime,
    started: tokio::time::Instant,
    context: S::Context,
    /// The credential is valid, and covers what is asked for.
    permitted: bool,
    /// What telemetry is told, as far as it is known.
    subject: Subject,
    _open: OpenRequest<'a>,
}

/// Counts a request until its answer is ready.
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

impl<S: Service> RequestContext<'_, S> {
    async fn answer<B: RequestBody>(
        &mut self,
        address: Result<&Arc<Address>, &ApiError>,
        mut body: B,
    ) -> Result<Response<ResponseBody>, ConnectionBroken> {
        let address = match address {
            Ok(address) => address,
            Err(api_error) => {
                self.drain(&mut body).await;
                return Ok(self.reject(api_error.clone().into()));
            }
        };
        let admitted = match self.check_source() {
            Ok(()) => self.check_public_key(address).await,
            refused => refused,
        };
        let result = match admitted {
            Err(api_error) => {
                self.drain(&mut body).await;
                return Ok(self.reject(api_error.into()));
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
            Err(Failure::Rejected(error)) => self.reject(error),
        };
        self.add_cors_headers(address, &mut response).await;
        Ok(response)
    }

    /// The line itself.
    async fn execute<B: RequestBody>(
        &mut self,
        address: &Arc<Address>,
        body: &mut B,
    ) -> Result<Response<ResponseBody>, Failure<S::Error>> {
        let account = self.account.clone().ok_or(ApiError::AccountNotFound)?;
        let grant = match self.authorize(address, &account).await {
            Ok(grant) => grant,
            Err(api_error) => {
                self.drain(body).await;
                return Err(api_error.into());
            }
        };
        let tenant = Arc::clone(account.tenant(&self.node.throttle));
        let memory = tenant.body_memory(self.connection.bodies.clone());
        let bytes_max = match self.service.body_plan(&self.parts, address) {
            BodyPlan::Whole { bytes_max } => bytes_max,
            BodyPlan::Streamed { bytes_max } => {
                return self.execute_streamed(address, &tenant, grant, body, bytes_max).await;
            }
        };
        let (body, share) =
            body::read(body, bytes_max, self.node.limits.body_time, &memory).await?;
        self.subject.request_bytes = body.len() as u64;
        tenant.take_request(self.subject.request_bytes)?;
        let of_body = tenant.admit_body(body.len()).await?;
        let request = match of_body {
            None => self.service.parse(&self.parts, &body, address, &mut self.context),
            Some(_) => Box::pin(self.parse_aside(address, &body)).await,
        };
        let request = self.permit(&grant, request.map_err(Failure::Rejected)?)?;
        let work = self.service.work(&request, body.len() as u64);
        let Admitted { request: _until_answered, place } = tenant.admit(work, of_body).await?;
        let _until_written = match place {
            Place::Query(turn) => return self.query(grant, tenant, request, turn, memory).await,
            Place::Write(turn) => Some(turn),
            Place::Here => None,
        };
        let executed = self.execute_in_time(&grant, &tenant, request, BodyStream::empty()).await?;
        self.subject.cost = executed.cost;
        let response = self.service.render(executed.reply, &self.head());
        // The request's own body is not needed any more; its share serves the answer.
        Ok(if self.subject.is_write {
            answered(response, &memory, share)
        } else {
            held(response, &memory)?
        })
    }

    /// A request whose body is handled while it arrives. What it takes of memory is the piece at
    /// hand, so that it is not counted; the service bounds what it keeps.
    async fn execute_streamed<B: RequestBody>(
        &mut self,
        address: &Address,
        tenant: &Tenant,
        grant: Grant,
        body: &mut B,
        bytes_max: u64,
    ) -> Result<Response<ResponseBody>, Failure<S::Error>> {
        tenant.take_request(0)?;
        if body.size_hint().exact().is_some_and(|announced| announced > bytes_max) {
            return Err(ApiError::RequestBodyTooLarge.into());
        }
        let nothing = Bytes::new();
        let parsed = self.service.parse(&self.parts, &nothing, address, &mut self.context);
        let parsed = parsed.map_err(Failure::Rejected);
        let request = match parsed.and_then(|request| self.permit(&grant, request)) {
            Ok(request) => request,
            Err(failure) => {
                self.drain(body).await;
                return Err(failure);
            }
        };
        let work = self.service.work(&request, 0);
        let Admitted { request: _until_answered, place: _until_done } =
            tenant.admit(work, None).await?;
        let mut bytes = 0;
        let stream = BodyStream::new(body, bytes_max, self.node.limits.body_time, &mut bytes);
        let executed = self.execute_to_its_end(&grant, tenant, request, stream).await;
        self.subject.request_bytes = bytes;
        tenant.charge_body(bytes);
        let executed = match executed {
            Ok(executed) => executed,
            Err(failure) => {
                self.drain(body).await;
                return Err(failure);
            }
        };
        self.subject.cost = executed.cost;
        Ok(self.service.render(executed.reply, &self.head()))
    }

    /// Tells telemetry what was asked for, and checks that the grant covers it.
    fn permit(
        &mut self,
        grant: &Grant,
        request: S::Request,
    ) -> Result<S::Request, Failure<S::Error>> {
        self.subject.describe(self.service.describe(&request, self.node.telemetry.wants_target()));
        self.service
            .demands(&request, &mut |demand| grant.permits(demand))
            .map_err(Failure::Rejected)?;
        grant.permits_writing(self.subject.is_write).map_err(ApiError::Access)?;
        self.permitted = true;
        Ok(request)
    }

    /// Reads a large body where point requests do not have to wait for it.
    async fn parse_aside(
        &mut self,
        address: &Arc<Address>,
        body: &Bytes,
    ) -> Result<S::Request, S::Error> {
        let (parts, body, address) = (self.parts.clone(), body.clone(), Arc::clone(address));
        let (service, mut context) = (Arc::clone(self.service), self.context.clone());
        let parse = move || {
            let request = service.parse(&parts, &body, &address, &mut context);
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
        tenant: Arc<Tenant>,
        request: S::Request,
        turn: Turn,
        memory: BodyMemory,
    ) -> Result<Response<ResponseBody>, Failure<S::Error>> {
        let (service, time) = (Arc::clone(self.service), self.time());
        // Dropped with this future, which hyper drops when the client leaves.
        let (stop, _until_answered) = StopToken::at(Instant::now() + time).guarded();
        let (request_id, context, now) =
            (self.request_id.clone(), self.context.clone(), date_time(self.arrived));
        let page = async move {
            // Threads of the pool are there to wait.
            let (blocking, body) = (Blocking::Allowed, BodyStream::empty());
            let (grant, key_budget) = (&grant, tenant.key_budget(S::KIND));
            let call = Call { grant, key_budget, stop: &stop, blocking, body };
            let executed = service.execute(call, request).await;
            let head = ResponseHead { request_id: &request_id, now, context: &context };
            executed.map(|executed| (executed.cost, service.render(executed.reply, &head)))
        };
        // The query itself says when its time is over, and what it has cost; but not while it waits
        // for something.
        let page = self.node.query_pool.run(turn, page);
        let page = tokio::time::timeout(time + STOP_GRACE, page).await;
        let page = page.map_err(|_elapsed| ApiError::OperationTimedOut)?;
        if let Err(ExecuteError::Stopped { rows_read }) = page {
            self.subject.cost.rows_read = rows_read;
        }
        let (cost, response) = page.map_err(|error| self.failure_of(error))?;
        self.subject.cost = cost;
        Ok(held(response, &memory)?)
    }

    /// A caller from an address that the account does not admit is told nothing, not even which
    /// pages may use it.
    fn check_source(&self) -> Result<(), ApiError> {
        match &self.account {
            Some(account) if !account.admits(self.client.ip) => {
                Err(ApiError::Denied(DenyReason::Address))
            }
            _ => Ok(()),
        }
    }

    /// Every web page knows the development account's key, and must not use it from the browser of
    /// a person who runs a server.
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
        let properties = self.service.properties(&address.account).await;
        let properties = properties.map_err(|error| self.api_error_of(error))?;
        let method = self.parts.method.as_str();
        let admitted =
            foreign.all(|origin| public_key::is_admitted(origin, method, &properties.cors));
        if admitted { Ok(()) } else { Err(ApiError::PublicKeyOrigin) }
    }

    /// From the credentials to what they cover.
    async fn authorize(&mut self, address: &Address, account: &Account) -> Result<Grant, ApiError> {
        let caller = Caller { ip: self.client.ip, https: self.client.scheme == Scheme::Https };
        let tokens = self.node.tokens();
        let auth = AuthContext {
            service: S::KIND,
            keys: &account.keys,
            challenge: tokens.challenge(),
            caller,
            now: self.arrived,
            precedence: self.node.credential_precedence,
        };
        let (grant, principal) = match authenticate(&self.parts, address, &auth)? {
            Credential::Complete(grant, signer) => (grant, Principal::Signer(signer)),
            Credential::NeedsPolicies(signature) => {
                let policies = self.service.policies(&address.account, signature.container()).await;
                let policies = policies.map_err(|error| self.api_error_of(error))?;
                let signer = signature.signer();
                (signature.with_policies(&policies)?, Principal::Signer(signer))
            }
            Credential::Token(token) => {
                let bearer = tokens.bearer(token, &address.account, self.arrived).await;
                let bearer = bearer.map_err(|refusal| self.refused_token(&tokens, refusal))?;
                let grant = Grant::roles(address.account.clone(), bearer.roles);
                (grant, Principal::Token(bearer.subject))
            }
        };
        self.subject.principal = Some(principal);
        Ok(if address.secondary || account.read_only { grant.read_only() } else { grant })
    }

    /// A client with an invalid token is told where to get another one, if its version knows that
    /// answer.
    fn refused_token(&self, tokens: &TokenAuthority, refusal: TokenRefusal) -> ApiError {
        tracing::debug!(request_id = self.request_id, %refusal, "a token was refused");
        let (version, reason) = (self.common().version(), refusal.deny_reason());
        match refusal {
            TokenRefusal::KeysUnavailable => busy(),
            _ => match without_credentials(version, tokens.challenge(), reason) {
                ApiError::AuthenticationFailed { reason, .. } => {
                    let detail = Some(refusal.to_string());
                    ApiError::AuthenticationFailed { detail, reason }
                }
                challenge => challenge,
            },
        }
    }

    async fn execute_in_time(
        &self,
        grant: &Grant,
        tenant: &Tenant,
        request: S::Request,
        body: BodyStream<'_>,
    ) -> Result<Executed<S::Reply>, Failure<S::Error>> {
        let executed = self.execute_to_its_end(grant, tenant, request, body);
        match tokio::time::timeout(self.time(), executed).await {
            Ok(result) => result,
            Err(_elapsed) => Err(ApiError::OperationTimedOut.into()),
        }
    }

    async fn execute_to_its_end(
        &self,
        grant: &Grant,
        tenant: &Tenant,
        request: S::Request,
        body: BodyStream<'_>,
    ) -> Result<Executed<S::Reply>, Failure<S::Error>> {
        let never = StopToken::default();
        let (key_budget, blocking) = (tenant.key_budget(S::KIND), Blocking::Forbidden);
        let call = Call { grant, key_budget, stop: &never, blocking, body };
        let executed = self.service.execute(call, request).await;
        executed.map_err(|error| self.failure_of(error))
    }

    /// What the client gives us, within what we give ourselves.
    fn time(&self) -> Duration {
        let limit = self.node.limits.request_time;
        self.common().timeout.unwrap_or(limit).min(limit)
    }

    fn failure_of(&self, error: ExecuteError<S::Error>) -> Failure<S::Error> {
        match error {
            ExecuteError::Service(error) => Failure::Rejected(error),
            ExecuteError::OverBudget(budget) => ApiError::OverBudget(budget).into(),
            ExecuteError::Stopped { .. } => ApiError::OperationTimedOut.into(),
            ExecuteError::Body(error) => error.into(),
            ExecuteError::Store(error) => self.api_error_of(error).into(),
        }
    }

    fn api_error_of(&self, error: StoreError) -> ApiError {
        match error {
            StoreError::Contended => busy(),
            StoreError::UnknownOutcome => ApiError::UnknownOutcome,
            // Said once by the store; a line for every refused write would fill what is left of the
            // disk.
            StoreError::Full { .. } => ApiError::StoreFull,
            error @ StoreError::Unavailable { .. } => {
                tracing::error!(request_id = self.request_id, %error, "the store cannot serve");
                ApiError::StoreUnavailable
            }
            error => {
                tracing::error!(request_id = self.request_id, %error, "the store failed");
                ApiError::InternalError
            }
        }
    }

    async fn preflight(
        &mut self,
        address: &Address,
    ) -> Result<Response<ResponseBody>, Failure<S::Error>> {
        self.subject.operation = S::PREFLIGHT;
        let properties = self.service.properties(&address.account).await;
        let properties = properties.map_err(|error| self.api_error_of(error))?;
        let answer = cors::preflight(&self.parts, &properties.cors, &self.head())?;
        Ok(answer.map(ResponseBody::full))
    }

    /// A store that cannot say the rules costs a browser its answer, not the request.
    async fn add_cors_headers(&self, address: &Address, response: &mut Response<ResponseBody>) {
        let origin = self.parts.headers.get(http::header::ORIGIN);
        let origin = origin.and_then(|origin| origin.to_str().ok());
        // Only a browser needs the rules to show a refusal; for any other client it must not cost a
        // read.
        let needs_rules = self.permitted || origin.is_some();
        if self.parts.method == Method::OPTIONS || !needs_rules {
            return;
        }
        let Ok(properties) = self.service.properties(&address.account).await else { return };
        cors::add_cors_headers(response, origin, self.parts.method.as_str(), &properties.cors);
    }

    /// Without this a refusal that comes before the body would end a connection with one request at
    /// a time; with HTTP/2 the stream ends alone, and nothing of the request must be kept. A client
    /// that asks first (`Expect: 100-continue`) has not sent the body and must not be told to.
    async fn drain<B: RequestBody>(&self, body: &mut B) {
        let asks_first = self.parts.headers.contains_key(http::header::EXPECT);
        if self.parts.version < Version::HTTP_2 && !asks_first {
            body::drain(body, self.node.limits.body_time).await;
        }
    }

    fn common(&self) -> &ResponseContext {
        self.context.as_ref()
    }

    fn head(&self) -> ResponseHead<'_, S::Context> {
        let (request_id, now) = (self.request_id.as_str(), date_time(self.arrived));
        ResponseHead { request_id, now, context: &self.context }
    }

    fn reject(&mut self, error: S::Error) -> Response<ResponseBody> {
        self.subject.error_code = Some(error.parts().code);
        self.subject.deny_reason = error.deny_reason();
        self.subject.throttled_by = error.common().and_then(Bound::behind);
        self.subject.cost = Cost { rows_returned: 0, ..self.subject.cost };
        self.trace_error(&error);
        self.service.render_error(&error, &self.head()).map(ResponseBody::full)
    }

    /// What the client is told, for a log that tells everything.
    fn trace_error(&self, error: &S::Error) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let parts = error.parts();
        let detail = match error.common() {
            Some(ApiError::AuthenticationFailed { detail, .. }) => detail.as_deref(),
            _ => None,
        };
        let (request_id, code, text) = (&self.request_id, parts.code, &*parts.text);
        tracing::debug!(request_id, code, text, detail, "the request gets an error");
    }

    /// What is left to do when the answer has been sent.
    fn into_completion(self, address: Option<Arc<Address>>, status: StatusCode) -> Box<Completion> {
        let event = RequestEvent {
            service: S::KIND,
            arrived: self.arrived,
            client: self.client,
            peer: self.connection.peer,
            client_certificate: self.connection.client_certificate,
            presented: self.node.telemetry.presented(S::KIND, &self.parts),
            client_request_id: self.common().client_request_id().map(str::to_owned),
            method: self.parts.method,
            uri: self.parts.uri,
            version: self.parts.version,
            // A name that no account has is whatever a stranger wrote.
            account: address
                .filter(|_| self.account.is_some())
                .map(|address| address.account.clone()),
            request_id: self.request_id,
            status,
            response_bytes: 0,
            duration: self.started.elapsed(),
            end_to_end: Duration::ZERO,
            is_cut: false,
            subject: self.subject,
        };
        let payer = self.account.filter(|_| self.permitted);
        Completion::new(Arc::clone(self.node), payer, self.started, event)
    }
}

/// The same answer, counted in the memory for bodies until it is sent.
fn held(
    response: Response<ResponseBody>,
    memory: &BodyMemory,
) -> Result<Response<ResponseBody>, ApiError> {
    let (parts, body) = response.into_parts();
    let body = body.map_full(|bytes| memory.hold(bytes).ok_or_else(busy))?;
    Ok(Response::from_parts(parts, body))
}

/// The same, for what was carried out: it must be answered, whatever memory there is.
fn answered(
    response: Response<ResponseBody>,
    memory: &BodyMemory,
    share: BodyShare,
) -> Response<ResponseBody> {
    response.map(|body| body.replace_full(|bytes| memory.hold_in_place_of(share, bytes)))
}

/// Why the line ended early.
enum Failure<E> {
    Rejected(E),
    Broken,
}

impl<E: From<ApiError>> From<ApiError> for Failure<E> {
    fn from(api_error: ApiError) -> Self {
        Self::Rejected(api_error.into())
    }
}

impl<E: From<ApiError>> From<BodyError> for Failure<E> {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Rejected(api_error) => api_error.into(),
            BodyError::Broken => Self::Broken,
        }
    }
}

/// The origin of an address, and the host in it: `http://localhost:10002` and `localhost:10002` of
/// `http://localhost:10002/devstoreaccount1`. By bytes, because every request asks, and a search
/// for text is set up for longer ones.
fn origin_and_host(base: &str) -> (&str, &str) {
    let slashes = base.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
    let mut slashes = slashes.skip(1);
    let host = slashes.next().map_or(0, |at| at + 1);
    let end = slashes.next().unwrap_or(base.len());
    (base.get(..end).unwrap_or(base), base.get(host..end).unwrap_or(base))
}

/// A clock before 1970 reads as 1970: the text of an error must not fail.
fn date_time(at: SystemTime) -> DateTime {
    DateTime::from_unix(at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

/// An answer that needs no request: the server is over its connections.
pub(crate) fn busy_answer<S: Service>(node: &Node, service: &S) -> Response<Bytes> {
    let (parts, ()) = Request::new(()).into_parts();
    let context = service.context(&parts, None);
    let (request_id, now) = (node.next_request_id(), date_time(SystemTime::now()));
    let head = ResponseHead { request_id: &request_id, now, context: &context };
    let mut response = service.render_error(&busy().into(), &head);
    let close = http::HeaderValue::from_static("close");
    response.headers_mut().insert(http::header::CONNECTION, close);
    debug_assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    response
}
