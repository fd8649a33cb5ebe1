//! What can be wrong with a request to any service, and what the services say to it.
//!
//! Each service has an error of its own beside this one, with its own table of status, code and
//! text; it wraps these.

use std::borrow::Cow;
use std::net::IpAddr;

use http::StatusCode;
use tavola_core::AccessError;

use crate::deny_reason::DenyReason;
use crate::xml::XmlError;

/// An error that a service answers with.
pub trait ServiceApiError: From<ApiError> {
    /// Status, code and text.
    fn parts(&self) -> ErrorParts;

    /// The error that all services know, if it is one.
    fn common(&self) -> Option<&ApiError>;

    /// Why the request was denied; `None` if it was let in and failed otherwise.
    fn deny_reason(&self) -> Option<DenyReason> {
        self.common().and_then(DenyReason::of)
    }
}

/// Why a request to any service gets an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiError {
    /// Neither a `Host` header nor an absolute URL.
    HostMissing,
    /// Path style, and the first segment is no account of ours.
    AccountNotFound,
    /// A path that names nothing.
    InvalidUri,
    /// A path with broken escapes or that is not UTF-8.
    UrlUnparsable,
    /// A verb that the resource does not have.
    MethodNotAllowed {
        /// The verbs that it has, as the `Allow` header lists them.
        allowed: &'static str,
    },
    /// An OData option that the service does not have.
    NotImplemented,

    /// A header that does not parse.
    InvalidHeaderValue {
        /// Which.
        name: &'static str,
        /// What it said.
        value: String,
    },
    /// A header that the operation needs.
    MissingRequiredHeader(&'static str),

    /// A query parameter that does not parse, or stands twice.
    InvalidQueryParameter {
        /// Which.
        name: &'static str,
        /// What it said.
        value: String,
    },
    /// A query parameter that means nothing together with the others.
    RejectedQueryParameter {
        /// Which.
        name: &'static str,
        /// What it said.
        value: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// A query parameter beyond its bounds.
    OutOfRangeQueryParameter {
        /// Which.
        name: &'static str,
        /// What it said.
        value: String,
        /// The least value.
        min: u32,
        /// The greatest.
        max: u32,
    },
    /// A query parameter that the operation needs.
    MissingQueryParameter(&'static str),
    /// `$top`, `$select` or a continuation that the service does not take.
    InvalidInput,
    /// A body that is not the XML it should be.
    InvalidXmlDocument,
    /// Beyond 4 MiB.
    RequestBodyTooLarge,
    /// Beyond a limit of the operation.
    BodyBeyondLimit {
        /// The limit in bytes.
        max: usize,
    },
    /// Metadata with an empty name.
    EmptyMetadataKey,
    /// Metadata with a name that is none, or is given twice.
    InvalidMetadata,
    /// Metadata beyond 8 KiB.
    MetadataTooLarge,

    /// An `Authorization` header that does not parse.
    InvalidAuthenticationInfo,
    /// No credentials, or a token that does not hold.
    CredentialsMissing {
        /// Where to get some, for `WWW-Authenticate`.
        challenge: String,
        /// For logs and counters; the client is not told.
        reason: DenyReason,
    },
    /// What the credential does not cover.
    Access(AccessError),
    /// A signature that does not open this service.
    ServiceMismatch,
    /// A signature for https only, over http.
    ProtocolMismatch,
    /// A signature for other addresses.
    SourceIpMismatch(IpAddr),
    /// Credentials that do not hold.
    AuthenticationFailed {
        /// Why, with nothing secret in it: neither a key nor the signature that would have been
        /// right.
        detail: Option<String>,
        /// For logs and counters.
        reason: DenyReason,
    },
    /// A request that is not let in, whatever its credentials.
    Denied(DenyReason),

    /// A host name under which an account with the public key of the development account is not
    /// served.
    PublicKeyHost {
        /// As the client wrote it.
        host: String,
    },
    /// A page of another site, and no rule that lets it use an account with that key.
    PublicKeyOrigin,

    /// A preflight without `Origin` or `Access-Control-Request-Method`.
    CorsHeaderMissing,
    /// A preflight that no rule answers.
    CorsNoRule,

    /// Over a limit of the server's own.
    ServerBusy {
        /// When to try again.
        retry_after_seconds: u32,
    },
    /// Over a budget of the account, or of a partition.
    OverBudget(Budget),
    /// The store cannot serve now; nothing was written.
    StoreUnavailable,
    /// The store has no room for more; nothing was written.
    StoreFull,
    /// The body did not come in time; nothing was done.
    BodyTooSlow,
    /// Not done in time.
    OperationTimedOut,
    /// The store does not know whether the write happened.
    UnknownOutcome,
    /// A defect of ours.
    InternalError,
}

/// What can be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Requests of an account.
    Requests,
    /// Bytes of request bodies of an account.
    Ingress,
    /// Bytes of answers of an account.
    Egress,
    /// Entities of one partition.
    PartitionEntities,
}

impl From<AccessError> for ApiError {
    fn from(access_error: AccessError) -> Self {
        Self::Access(access_error)
    }
}

impl From<XmlError> for ApiError {
    fn from(XmlError: XmlError) -> Self {
        Self::InvalidXmlDocument
    }
}

impl ServiceApiError for ApiError {
    fn parts(&self) -> ErrorParts {
        status_code_text(self)
    }

    fn common(&self) -> Option<&ApiError> {
        Some(self)
    }
}

/// What the service says to an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorParts {
    /// The HTTP status.
    pub status: StatusCode,
    /// The code that clients decide by.
    pub code: &'static str,
    /// The text that people read.
    pub text: Cow<'static, str>,
}

pub(crate) fn error(
    status: u16,
    code: &'static str,
    text: impl Into<Cow<'static, str>>,
) -> ErrorParts {
    let status = StatusCode::from_u16(status).expect("the tables below hold HTTP statuses");
    ErrorParts { status, code, text: text.into() }
}

/// Status, code and text of every error. Texts are the service's own, misspellings included:
/// people search them.
fn status_code_text(api_error: &ApiError) -> ErrorParts {
    match api_error {
        ApiError::HostMissing => {
            error(400, "HostInformationNotPresent", HOST_INFORMATION_NOT_PRESENT)
        }
        ApiError::AccountNotFound => error(404, "ResourceNotFound", NOT_FOUND),
        ApiError::InvalidUri => error(400, "InvalidUri", INVALID_URI),
        ApiError::UrlUnparsable => {
            error(400, "RequestUrlFailedToParse", REQUEST_URL_FAILED_TO_PARSE)
        }
        ApiError::MethodNotAllowed { .. } => error(405, "MethodNotAllowed", METHOD_NOT_ALLOWED),
        ApiError::NotImplemented => error(501, "NotImplemented", NOT_IMPLEMENTED),
        ApiError::InvalidHeaderValue { .. } => error(400, "InvalidHeaderValue", HEADER_FORMAT),
        ApiError::MissingRequiredHeader(_) => {
            error(400, "MissingRequiredHeader", MISSING_REQUIRED_HEADER)
        }
        ApiError::InvalidQueryParameter { .. } | ApiError::RejectedQueryParameter { .. } => {
            error(400, "InvalidQueryParameterValue", INVALID_QUERY_PARAMETER_VALUE)
        }
        ApiError::MissingQueryParameter(_) => {
            error(400, "MissingRequiredQueryParameter", MISSING_REQUIRED_QUERY_PARAMETER)
        }
        ApiError::OutOfRangeQueryParameter { .. } => {
            error(400, "OutOfRangeQueryParameterValue", OUT_OF_RANGE_QUERY_PARAMETER)
        }
        ApiError::BodyBeyondLimit { .. } => {
            error(413, "RequestBodyTooLarge", REQUEST_BODY_TOO_LARGE)
        }
        ApiError::EmptyMetadataKey => error(400, "EmptyMetadataKey", EMPTY_METADATA_KEY),
        ApiError::InvalidMetadata => error(400, "InvalidMetadata", INVALID_METADATA),
        ApiError::MetadataTooLarge => error(400, "MetadataTooLarge", METADATA_TOO_LARGE),
        ApiError::InvalidXmlDocument => error(400, "InvalidXmlDocument", INVALID_XML_DOCUMENT),
        ApiError::RequestBodyTooLarge => error(413, "RequestBodyTooLarge", REQUEST_BODY_TOO_LARGE),
        ApiError::InvalidAuthenticationInfo => {
            error(400, "InvalidAuthenticationInfo", INVALID_AUTHENTICATION_INFO)
        }
        ApiError::CredentialsMissing { .. } => {
            error(401, "InvalidAuthenticationInfo", CREDENTIALS_MISSING)
        }
        ApiError::InvalidInput => error(400, "InvalidInput", NOT_VALID),
        ApiError::Access(access_error) => access_error_parts(*access_error),
        ApiError::ServiceMismatch => error(403, "AuthorizationServiceMismatch", SERVICE_MISMATCH),
        ApiError::ProtocolMismatch => {
            error(403, "AuthorizationProtocolMismatch", PROTOCOL_MISMATCH)
        }
        ApiError::SourceIpMismatch(ip) => {
            error(403, "AuthorizationSourceIPMismatch", source_ip_mismatch(*ip))
        }
        ApiError::AuthenticationFailed { .. } => {
            error(403, "AuthenticationFailed", AUTHENTICATION_FAILED)
        }
        ApiError::Denied(_) => error(403, "AuthorizationFailure", AUTHORIZATION_FAILURE),
        ApiError::PublicKeyHost { host } => {
            error(403, "AuthorizationFailure", public_key_host(host))
        }
        ApiError::PublicKeyOrigin => error(403, "AuthorizationFailure", PUBLIC_KEY_ORIGIN),
        ApiError::CorsHeaderMissing => error(400, "InvalidHeaderValue", CORS_HEADER_MISSING),
        ApiError::CorsNoRule => error(403, "CorsPreflightFailure", CORS_NO_RULE),
        ApiError::ServerBusy { .. } | ApiError::StoreUnavailable => error(503, "ServerBusy", BUSY),
        // Clients know this code as one to come back after; the service itself has none for a full
        // disk.
        ApiError::StoreFull => error(503, "ServerBusy", STORE_FULL),
        // The client's time, not ours: the service's own code for a time-out would say that the
        // write may have been done.
        ApiError::BodyTooSlow => error(408, "RequestTimeout", BODY_TOO_SLOW),
        // A client that may repeat the request must read the outcome before it does: to it, both
        // look the same.
        ApiError::OperationTimedOut | ApiError::UnknownOutcome => {
            error(500, "OperationTimedOut", TIMED_OUT)
        }
        ApiError::OverBudget(Budget::Requests) => error(503, "ServerBusy", REQUESTS_OVER_LIMIT),
        ApiError::OverBudget(Budget::Ingress) => error(503, "ServerBusy", INGRESS_OVER_LIMIT),
        ApiError::OverBudget(Budget::Egress) => error(503, "ServerBusy", EGRESS_OVER_LIMIT),
        // The service has texts for the limits of accounts only.
        ApiError::OverBudget(Budget::PartitionEntities) => error(503, "ServerBusy", BUSY),
        ApiError::InternalError => error(500, "InternalError", INTERNAL_ERROR),
    }
}

fn access_error_parts(access_error: AccessError) -> ErrorParts {
    match access_error {
        AccessError::WritesNotAllowed => {
            error(403, "InsufficientAccountPermissions", WRITES_NOT_ALLOWED)
        }
        AccessError::NotAuthorized | AccessError::KeyNotAuthorized => {
            error(403, "AuthorizationFailure", AUTHORIZATION_FAILURE)
        }
        AccessError::PermissionMismatch => {
            error(403, "AuthorizationPermissionMismatch", PERMISSION_MISMATCH)
        }
        AccessError::ResourceTypeMismatch => {
            error(403, "AuthorizationResourceTypeMismatch", RESOURCE_TYPE_MISMATCH)
        }
        AccessError::UnknownToTokens => error(404, "ResourceNotFound", NOT_FOUND),
    }
}

fn public_key_host(host: &str) -> String {
    format!(
        "{AUTHORIZATION_FAILURE} The key of the development account is public, so that it is not served under the name \
         '{host}': use localhost or 127.0.0.1, add the name to server.development_hosts \
         (TAVOLA_SERVER__DEVELOPMENT_HOSTS), or use an account with a key of its own."
    )
}

const PUBLIC_KEY_ORIGIN: &str = "This request is not authorized to perform this operation. The key of the development \
    account is public, so that pages of other sites may use it only if a CORS rule admits their Origin: set one with Set \
    Table Service Properties, or use an account with a key of its own.";
pub(crate) const NOT_VALID: &str = "One of the request inputs is not valid.";
pub(crate) const NOT_FOUND: &str = "The specified resource does not exist.";
const STORE_FULL: &str = "The server's disk is full. Nothing was written. Entities can be read. Deletions are taken while some room is left.";
const BUSY: &str = "The server is currently unable to receive requests. Please retry your request.";
const BODY_TOO_SLOW: &str =
    "The request body did not arrive within the permitted time. Nothing was done.";
const TIMED_OUT: &str = "The operation could not be completed within the permitted time.";
const HEADER_FORMAT: &str = "The value for one of the HTTP headers is not in the correct format.";
const HOST_INFORMATION_NOT_PRESENT: &str = "The required host information is not present in the request. You must \
    send a non-empty Host header or include the absolute URI in the request line.";
const INVALID_URI: &str = "The requested URI does not represent any resource on the server.";
const REQUEST_URL_FAILED_TO_PARSE: &str = "The url in the request could not be parsed.";
const METHOD_NOT_ALLOWED: &str = "The requested method is not allowed on the specified resource.";
pub(crate) const NOT_IMPLEMENTED: &str =
    "The requested operation is not implemented on the specified resource.";
const MISSING_REQUIRED_HEADER: &str = "A required HTTP header was not specified.";
const INVALID_QUERY_PARAMETER_VALUE: &str =
    "Value for one of the query parameters specified in the request URI is invalid.";
const OUT_OF_RANGE_QUERY_PARAMETER: &str =
    "One of the query parameters specified in the request URI is outside the permissible range.";
const EMPTY_METADATA_KEY: &str = "The key for one of the metadata key-value pairs is empty.";
const INVALID_METADATA: &str =
    "The metadata specified is invalid. It has characters that are not permitted.";
const METADATA_TOO_LARGE: &str =
    "The size of the specified metadata exceeds the maximum size permitted.";
const MISSING_REQUIRED_QUERY_PARAMETER: &str =
    "A required query parameter was not specified for this request.";
const INVALID_XML_DOCUMENT: &str = "XML specified is not syntactically valid.";
const REQUEST_BODY_TOO_LARGE: &str =
    "The request body is too large and exceeds the maximum permissible limit.";
const INVALID_AUTHENTICATION_INFO: &str = "Authentication information is not given in the correct format. Check the value of Authorization header.";
const AUTHENTICATION_FAILED: &str = "Server failed to authenticate the request. Make sure the value of Authorization \
    header is formed correctly including the signature.";
const CREDENTIALS_MISSING: &str = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.";
const SERVICE_MISMATCH: &str =
    "This request is not authorized to perform this operation using this service.";
const PROTOCOL_MISMATCH: &str =
    "This request is not authorized to perform this operation using this protocol.";
const CORS_HEADER_MISSING: &str = "A required CORS header is not present.";
const CORS_NO_RULE: &str = "CORS not enabled or no matching rule found for this request.";
const REQUESTS_OVER_LIMIT: &str = "Operations per second is over the account limit.";
const INGRESS_OVER_LIMIT: &str = "Ingress is over the account limit.";
const EGRESS_OVER_LIMIT: &str = "Egress is over the account limit.";
const INTERNAL_ERROR: &str = "The server encountered an internal error. Please retry the request.";
const WRITES_NOT_ALLOWED: &str = "Write operations are not allowed.";
const AUTHORIZATION_FAILURE: &str = "This request is not authorized to perform this operation.";
const PERMISSION_MISMATCH: &str =
    "This request is not authorized to perform this operation using this permission.";
const RESOURCE_TYPE_MISMATCH: &str =
    "This request is not authorized to perform this operation using this resource type.";

fn source_ip_mismatch(ip: IpAddr) -> String {
    format!("This request is not authorized to perform this operation using this source IP {ip}.")
}
