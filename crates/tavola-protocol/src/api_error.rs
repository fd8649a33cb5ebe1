//! Everything that can be wrong with a request, and what the service says to it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::StatusCode;
use tavola_core::{AccessDenied, DomainError, FailedOperation};

use crate::deny_reason::DenyReason;
use crate::table::batch::BatchError;
use crate::table::entity_json::BodyError;
use crate::xml::XmlError;

/// Why a request gets an error. Domain refusals pass through; the rest is seen on the wire or in
/// the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiError {
    /// A refusal of the domain.
    Refused(DomainError),
    /// What is wrong with one operation of a batch: the batch is answered, with this as its one
    /// part.
    InOperation {
        /// Counted from zero.
        index: usize,
        /// What is wrong with it.
        api_error: Box<ApiError>,
    },

    /// Neither a `Host` header nor an absolute URL.
    HostMissing,
    /// Path style, and the first segment is no account of ours.
    AccountNotFound,
    /// A path that names nothing.
    InvalidUri,
    /// A path with broken escapes or that is not UTF-8.
    UrlUnparsable,
    /// A key predicate that does not parse, or a key in it with a slash.
    KeyPredicate,
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
    /// `If-Match` that is neither `*` nor one entity tag.
    InvalidETag(String),
    /// `If-None-Match` on a write; the verb's name.
    IfNoneMatch(&'static str),
    /// `If-Match` and `If-None-Match` together.
    BothConditions,
    /// `X-HTTP-Method` on another verb than POST.
    XMethodNotUsingPost,
    /// `X-HTTP-Method` with a verb that cannot be tunnelled.
    XMethodIncorrectValue,
    /// `X-HTTP-Method` more than once.
    XMethodIncorrectCount,
    /// Only Atom is wanted or sent.
    AtomFormatNotSupported,
    /// Only verbose JSON is wanted.
    JsonVerboseFormatNotSupported,
    /// Only something else is wanted.
    MediaTypeNotSupported,

    /// A query parameter that does not parse, or stands twice.
    InvalidQueryParameter {
        /// Which.
        name: &'static str,
        /// What it said.
        value: String,
    },
    /// A query parameter that the operation needs.
    MissingQueryParameter(&'static str),
    /// `$top`, `$select` or a continuation that the service does not take.
    InvalidInput,

    /// A body that is not the JSON it should be.
    MalformedBody {
        /// Which property, and what is wrong with it; nothing secret.
        detail: String,
    },
    /// A key in a body that is no text, or is declared to be something else.
    InvalidKey {
        /// Which, and what is wrong with it; nothing secret.
        detail: String,
    },
    /// A body that is not a batch.
    MalformedBatch,
    /// A body that is not the XML it should be.
    InvalidXmlDocument,
    /// Beyond 4 MiB.
    RequestBodyTooLarge,

    /// An `Authorization` header that does not parse.
    InvalidAuthenticationInfo,
    /// No credentials, or a token that does not hold.
    CredentialsMissing {
        /// Where to get some, for `WWW-Authenticate`.
        challenge: String,
        /// For logs and counters; the client is not told.
        reason: DenyReason,
    },
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

impl From<DomainError> for ApiError {
    fn from(domain_error: DomainError) -> Self {
        Self::Refused(domain_error)
    }
}

impl From<AccessDenied> for ApiError {
    fn from(denial: AccessDenied) -> Self {
        match denial {
            AccessDenied::Request(domain_error) => domain_error.into(),
            AccessDenied::Operation(failed) => failed.into(),
        }
    }
}

impl From<FailedOperation> for ApiError {
    fn from(failed: FailedOperation) -> Self {
        Self::from(failed.domain_error).in_operation(failed.index)
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed(detail) => Self::MalformedBody { detail },
            BodyError::InvalidKey(detail) => Self::InvalidKey { detail },
            BodyError::Refused(domain_error) => Self::Refused(domain_error),
        }
    }
}

impl From<BatchError> for ApiError {
    fn from(BatchError: BatchError) -> Self {
        Self::MalformedBatch
    }
}

impl From<XmlError> for ApiError {
    fn from(XmlError: XmlError) -> Self {
        Self::InvalidXmlDocument
    }
}

impl ApiError {
    /// The same, as the failure of one operation of a batch.
    #[must_use]
    pub fn in_operation(self, index: usize) -> Self {
        Self::InOperation { index, api_error: Box::new(self) }
    }

    /// The rejection itself, whether or not it stands in a batch.
    #[must_use]
    pub fn innermost(&self) -> &Self {
        match self {
            Self::InOperation { api_error, .. } => api_error.innermost(),
            other => other,
        }
    }
}

/// What the service says to a rejection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorParts {
    /// The HTTP status.
    pub status: StatusCode,
    /// The code that clients decide by.
    pub code: &'static str,
    /// The text that people read.
    pub text: Cow<'static, str>,
}

fn error(status: u16, code: &'static str, text: impl Into<Cow<'static, str>>) -> ErrorParts {
    let status = StatusCode::from_u16(status).expect("the tables below hold HTTP statuses");
    ErrorParts { status, code, text: text.into() }
}

/// Status, code and text of every rejection. Texts are the service's own, misspellings included:
/// people search them.
#[must_use]
#[expect(clippy::too_many_lines, reason = "a flat table")]
pub fn status_code_text(api_error: &ApiError) -> ErrorParts {
    match api_error {
        ApiError::Refused(domain_error) => domain_error_parts(domain_error),
        ApiError::InOperation { index, api_error } => {
            let inner = status_code_text(api_error);
            ErrorParts { text: format!("{index}:{}", inner.text).into(), ..inner }
        }
        ApiError::HostMissing => {
            error(400, "HostInformationNotPresent", HOST_INFORMATION_NOT_PRESENT)
        }
        ApiError::AccountNotFound => error(404, "ResourceNotFound", NOT_FOUND),
        ApiError::InvalidUri => error(400, "InvalidUri", INVALID_URI),
        ApiError::UrlUnparsable => {
            error(400, "RequestUrlFailedToParse", REQUEST_URL_FAILED_TO_PARSE)
        }
        ApiError::KeyPredicate => error(400, "InvalidInput", QUERY_SYNTAX),
        ApiError::MethodNotAllowed { .. } => error(405, "MethodNotAllowed", METHOD_NOT_ALLOWED),
        ApiError::NotImplemented => error(501, "NotImplemented", NOT_IMPLEMENTED),
        ApiError::InvalidHeaderValue { .. } => error(400, "InvalidHeaderValue", HEADER_FORMAT),
        ApiError::MissingRequiredHeader(_) => {
            error(400, "MissingRequiredHeader", MISSING_REQUIRED_HEADER)
        }
        ApiError::InvalidETag(tag) => error(400, "InvalidInput", etag_not_valid(tag)),
        ApiError::IfNoneMatch(verb) => error(400, "InvalidInput", if_none_match(verb)),
        ApiError::BothConditions => error(400, "InvalidInput", BOTH_CONDITIONS),
        ApiError::XMethodNotUsingPost => error(400, "XMethodNotUsingPost", X_METHOD_NOT_USING_POST),
        ApiError::XMethodIncorrectValue => {
            error(400, "XMethodIncorrectValue", X_METHOD_INCORRECT_VALUE)
        }
        ApiError::XMethodIncorrectCount => {
            error(400, "XMethodIncorrectCount", X_METHOD_INCORRECT_COUNT)
        }
        ApiError::AtomFormatNotSupported => {
            error(415, "AtomFormatNotSupported", ATOM_FORMAT_NOT_SUPPORTED)
        }
        ApiError::JsonVerboseFormatNotSupported => {
            error(415, "JsonVerboseFormatNotSupported", JSON_VERBOSE_FORMAT_NOT_SUPPORTED)
        }
        ApiError::MediaTypeNotSupported => {
            error(415, "MediaTypeNotSupported", MEDIA_TYPE_NOT_SUPPORTED)
        }
        ApiError::InvalidQueryParameter { .. } => {
            error(400, "InvalidQueryParameterValue", INVALID_QUERY_PARAMETER_VALUE)
        }
        ApiError::MissingQueryParameter(_) => {
            error(400, "MissingRequiredQueryParameter", MISSING_REQUIRED_QUERY_PARAMETER)
        }
        ApiError::InvalidInput | ApiError::MalformedBatch | ApiError::InvalidKey { .. } => {
            error(400, "InvalidInput", NOT_VALID)
        }
        ApiError::MalformedBody { .. } => error(400, "InvalidInput", MALFORMED_BODY),
        ApiError::InvalidXmlDocument => error(400, "InvalidXmlDocument", INVALID_XML_DOCUMENT),
        ApiError::RequestBodyTooLarge => error(413, "RequestBodyTooLarge", REQUEST_BODY_TOO_LARGE),
        ApiError::InvalidAuthenticationInfo => {
            error(400, "InvalidAuthenticationInfo", INVALID_AUTHENTICATION_INFO)
        }
        ApiError::CredentialsMissing { .. } => {
            error(401, "InvalidAuthenticationInfo", CREDENTIALS_MISSING)
        }
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

#[expect(clippy::too_many_lines, reason = "a flat table")]
fn domain_error_parts(domain_error: &DomainError) -> ErrorParts {
    match domain_error {
        DomainError::TableAlreadyExists => error(409, "TableAlreadyExists", TABLE_ALREADY_EXISTS),
        DomainError::TableNotFound => error(404, "TableNotFound", TABLE_NOT_FOUND),
        // The service has a code `EntityNotFound` and was never seen using it.
        DomainError::ResourceNotFound | DomainError::EntityNotFound => {
            error(404, "ResourceNotFound", NOT_FOUND)
        }
        DomainError::TableNameLength => error(400, "OutOfRangeInput", NAME_LENGTH),
        DomainError::TableNameCharacters => {
            error(400, "InvalidResourceName", INVALID_RESOURCE_NAME)
        }
        DomainError::TableNameReserved => error(400, "InvalidInput", NOT_VALID),
        DomainError::EntityAlreadyExists => {
            error(409, "EntityAlreadyExists", ENTITY_ALREADY_EXISTS)
        }
        DomainError::ConditionNotMet => {
            error(412, "UpdateConditionNotSatisfied", UPDATE_CONDITION_NOT_SATISFIED)
        }
        DomainError::EntityTooLarge => error(400, "EntityTooLarge", ENTITY_TOO_LARGE),
        DomainError::TooManyProperties => error(400, "TooManyProperties", TOO_MANY_PROPERTIES),
        DomainError::DuplicateProperty => {
            error(400, "DuplicatePropertiesSpecified", DUPLICATE_PROPERTIES_SPECIFIED)
        }
        DomainError::PropertyNameInvalid => {
            error(400, "PropertyNameInvalid", PROPERTY_NAME_INVALID)
        }
        DomainError::PropertyNameTooLong => {
            error(400, "PropertyNameTooLong", PROPERTY_NAME_TOO_LONG)
        }
        DomainError::PropertyValueTooLarge => {
            error(400, "PropertyValueTooLarge", PROPERTY_VALUE_TOO_LARGE)
        }
        DomainError::PropertiesNeedValue => {
            error(400, "PropertiesNeedValue", PROPERTIES_NEED_VALUE)
        }
        DomainError::KeyTooLarge => error(400, "KeyValueTooLarge", KEY_VALUE_TOO_LARGE),
        DomainError::ParameterOutOfRange { name, value } => error(
            400,
            "OutOfRangeInput",
            format!("The '{name}' parameter of value '{value}' is out of range."),
        ),
        DomainError::KeyCount => error(400, "InvalidInput", KEY_COUNT),
        DomainError::KeyOutOfRange => error(400, "OutOfRangeInput", OUT_OF_RANGE),
        DomainError::TooManyOperations => error(400, "InvalidInput", TOO_MANY_OPERATIONS),
        DomainError::DifferentPartitions => error(
            400,
            "CommandsInBatchActOnDifferentPartitions",
            COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS,
        ),
        DomainError::DuplicateRow => error(400, "InvalidDuplicateRow", INVALID_DUPLICATE_ROW),
        DomainError::EmptyTransaction | DomainError::FilterInvalid => {
            error(400, "InvalidInput", NOT_VALID)
        }
        DomainError::FilterSyntax { position, filter } => error(
            400,
            "InvalidInput",
            format!("Syntax error at position {position} in '{filter}'."),
        ),
        DomainError::FilterLiteral { edm, literal } => {
            error(400, "InvalidInput", format!("Unrecognized '{edm}' literal '{literal}'."))
        }
        DomainError::FilterNotImplemented => error(501, "NotImplemented", NOT_IMPLEMENTED),
        DomainError::WritesNotAllowed => {
            error(403, "InsufficientAccountPermissions", WRITES_NOT_ALLOWED)
        }
        DomainError::NotAuthorized | DomainError::KeyNotAuthorized => {
            error(403, "AuthorizationFailure", AUTHORIZATION_FAILURE)
        }
        DomainError::PermissionMismatch => {
            error(403, "AuthorizationPermissionMismatch", PERMISSION_MISMATCH)
        }
        DomainError::ResourceTypeMismatch => {
            error(403, "AuthorizationResourceTypeMismatch", RESOURCE_TYPE_MISMATCH)
        }
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

const NOT_VALID: &str = "One of the request inputs is not valid.";
const NOT_FOUND: &str = "The specified resource does not exist.";
const STORE_FULL: &str = "The server's disk is full. Nothing was written. Entities can be read. Deletions are taken while some room is left.";
const BUSY: &str = "The server is currently unable to receive requests. Please retry your request.";
const BODY_TOO_SLOW: &str =
    "The request body did not arrive within the permitted time. Nothing was done.";
const TIMED_OUT: &str = "The operation could not be completed within the permitted time.";
const QUERY_SYNTAX: &str = "Bad Request - Error in query syntax.";
const HEADER_FORMAT: &str = "The value for one of the HTTP headers is not in the correct format.";
const HOST_INFORMATION_NOT_PRESENT: &str = "The required host information is not present in the request. You must \
    send a non-empty Host header or include the absolute URI in the request line.";
const INVALID_URI: &str = "The requested URI does not represent any resource on the server.";
const REQUEST_URL_FAILED_TO_PARSE: &str = "The url in the request could not be parsed.";
const METHOD_NOT_ALLOWED: &str = "The requested method is not allowed on the specified resource.";
const NOT_IMPLEMENTED: &str =
    "The requested operation is not implemented on the specified resource.";
const MISSING_REQUIRED_HEADER: &str = "A required HTTP header was not specified.";
const BOTH_CONDITIONS: &str = "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. \
    Please specify either one of the headers or none of them.";
const MALFORMED_BODY: &str = "An error occurred while processing this request.";
const X_METHOD_NOT_USING_POST: &str =
    "The request uses X-HTTP-Method with an HTTP verb other than POST.";
const X_METHOD_INCORRECT_VALUE: &str = "The specified X-HTTP-Method is invalid.";
const X_METHOD_INCORRECT_COUNT: &str = "More than one X-HTTP-Method is specified.";
const ATOM_FORMAT_NOT_SUPPORTED: &str = "Atom format is not supported.";
const JSON_VERBOSE_FORMAT_NOT_SUPPORTED: &str = "JSON Verbose format is not supported.";
const MEDIA_TYPE_NOT_SUPPORTED: &str = "None of the provided media types are supported.";
const INVALID_QUERY_PARAMETER_VALUE: &str =
    "Value for one of the query parameters specified in the request URI is invalid.";
const MISSING_REQUIRED_QUERY_PARAMETER: &str =
    "A required query parameter was not specified for this request.";
const TOO_MANY_OPERATIONS: &str =
    "The batch request operation exceeds the maximum 100 changes per change set.";
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
const TABLE_ALREADY_EXISTS: &str = "The table specified already exists.";
const TABLE_NOT_FOUND: &str = "The table specified does not exist.";
const NAME_LENGTH: &str =
    "The specified resource name length is not within the permissible limits.";
const INVALID_RESOURCE_NAME: &str = "The specifed resource name contains invalid characters.";
const ENTITY_ALREADY_EXISTS: &str = "The specified entity already exists.";
const UPDATE_CONDITION_NOT_SATISFIED: &str =
    "The update condition specified in the request was not satisfied.";
const ENTITY_TOO_LARGE: &str = "The entity is larger than the maximum allowed size (1MB).";
const TOO_MANY_PROPERTIES: &str = "The entity contains more properties than allowed. Each entity can include up to \
    252 properties to store data. Each entity also has 3 system properties.";
const DUPLICATE_PROPERTIES_SPECIFIED: &str = "A property is specified more than one time.";
const PROPERTY_NAME_INVALID: &str = "The property name is invalid.";
const PROPERTY_NAME_TOO_LONG: &str = "The property name exceeds the maximum allowed length (255).";
const PROPERTY_VALUE_TOO_LARGE: &str = "The property value exceeds the maximum allowed size (64KB). If the property \
    value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.";
const PROPERTIES_NEED_VALUE: &str =
    "The values are not specified for all properties in the entity.";
const KEY_VALUE_TOO_LARGE: &str = "The key value exceeds the maximum allowed size (1KB).";
const KEY_COUNT: &str = "The number of keys specified in the URI does not match number of key properties for the resource.";
const OUT_OF_RANGE: &str = "One of the request inputs is out of range.";
const COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS: &str =
    "All commands in a batch must operate on same entity group.";
const INVALID_DUPLICATE_ROW: &str = "The batch request contains multiple changes with same row key. An entity can \
    appear only once in a batch request.";
const WRITES_NOT_ALLOWED: &str = "Write operations are not allowed.";
const AUTHORIZATION_FAILURE: &str = "This request is not authorized to perform this operation.";
const PERMISSION_MISMATCH: &str =
    "This request is not authorized to perform this operation using this permission.";
const RESOURCE_TYPE_MISMATCH: &str =
    "This request is not authorized to perform this operation using this resource type.";

fn etag_not_valid(tag: &str) -> String {
    format!(
        "The etag value '{tag}' specified in one of the request headers is not valid. Please make sure only one etag \
         value is specified and is valid."
    )
}

fn source_ip_mismatch(ip: IpAddr) -> String {
    format!("This request is not authorized to perform this operation using this source IP {ip}.")
}

fn if_none_match(verb: &str) -> String {
    format!("If-None-Match HTTP header cannot be specified for {verb} operations.")
}

#[cfg(test)]
mod tests {
    use tavola_core::{DomainError, FailedOperation};

    use super::{ApiError, status_code_text};

    /// Statement 40: the lines of the reference's table that are about a status or a code more than
    /// one could expect.
    #[test]
    fn what_the_service_says() {
        let date = || DomainError::ParameterOutOfRange {
            name: "d".to_owned(),
            value: "01/01/0001 00:00:00".to_owned(),
        };
        for (api_error, expected) in [
            (
                DomainError::EntityNotFound.into(),
                "404 ResourceNotFound The specified resource does not exist.",
            ),
            (
                DomainError::TableNotFound.into(),
                "404 TableNotFound The table specified does not exist.",
            ),
            (
                date().into(),
                "400 OutOfRangeInput The 'd' parameter of value '01/01/0001 00:00:00' is out of range.",
            ),
            (
                DomainError::FilterSyntax { position: 7, filter: "aaa bbb ccc".to_owned() }.into(),
                "400 InvalidInput Syntax error at position 7 in 'aaa bbb ccc'.",
            ),
            (
                DomainError::FilterLiteral {
                    edm: "Edm.Int32",
                    literal: "5454161346626".to_owned(),
                }
                .into(),
                "400 InvalidInput Unrecognized 'Edm.Int32' literal '5454161346626'.",
            ),
            (
                ApiError::IfNoneMatch("PUT"),
                "400 InvalidInput If-None-Match HTTP header cannot be specified for PUT operations.",
            ),
            (
                FailedOperation { index: 3, domain_error: DomainError::EntityAlreadyExists }.into(),
                "409 EntityAlreadyExists 3:The specified entity already exists.",
            ),
            (
                ApiError::MalformedBody { detail: "d".to_owned() }.in_operation(0),
                "400 InvalidInput 0:An error occurred while processing this request.",
            ),
            (
                ApiError::StoreFull,
                "503 ServerBusy The server's disk is full. Nothing was written. Entities can be read. Deletions are taken \
                 while some room is left.",
            ),
            (
                ApiError::BodyTooSlow,
                "408 RequestTimeout The request body did not arrive within the permitted time. Nothing was done.",
            ),
            (
                ApiError::UnknownOutcome,
                "500 OperationTimedOut The operation could not be completed within the permitted time.",
            ),
        ] {
            let parts = status_code_text(&api_error);
            let text = format!("{} {} {}", parts.status.as_u16(), parts.code, parts.text);
            assert_eq!(text, expected, "{api_error:?}");
        }
    }
}
