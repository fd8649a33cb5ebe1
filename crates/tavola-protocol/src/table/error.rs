//! What can be wrong with a request to the Table service, and what it says to it.

use tavola_core::{AccessDenied, DomainError, FailedOperation};

use super::batch::BatchError;
use super::entity_json::BodyError;
use crate::api_error::{
    ApiError, ErrorParts, NOT_FOUND, NOT_IMPLEMENTED, NOT_VALID, ServiceApiError, error,
};
use crate::xml::XmlError;

/// Why a request to the Table service gets an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableError {
    /// What any service says.
    Common(ApiError),
    /// A refusal of the domain.
    Domain(DomainError),
    /// What is wrong with one operation of a batch: the batch is answered, with this as its one
    /// part.
    InOperation {
        /// Counted from zero.
        index: usize,
        /// What is wrong with it.
        error: Box<TableError>,
    },
    /// A key predicate that does not parse, or a key in it with a slash.
    KeyPredicate,
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
}

impl From<ApiError> for TableError {
    fn from(api_error: ApiError) -> Self {
        Self::Common(api_error)
    }
}

impl From<DomainError> for TableError {
    fn from(domain_error: DomainError) -> Self {
        Self::Domain(domain_error)
    }
}

impl From<AccessDenied> for TableError {
    fn from(denied: AccessDenied) -> Self {
        match denied {
            AccessDenied::Request(error) => ApiError::Access(error).into(),
            AccessDenied::Operation { index, error } => {
                Self::from(ApiError::Access(error)).in_operation(index)
            }
        }
    }
}

impl From<FailedOperation> for TableError {
    fn from(failed: FailedOperation) -> Self {
        Self::from(failed.domain_error).in_operation(failed.index)
    }
}

impl From<BodyError> for TableError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed(detail) => Self::MalformedBody { detail },
            BodyError::InvalidKey(detail) => Self::InvalidKey { detail },
            BodyError::Refused(domain_error) => Self::Domain(domain_error),
        }
    }
}

impl From<BatchError> for TableError {
    fn from(BatchError: BatchError) -> Self {
        Self::MalformedBatch
    }
}

impl From<XmlError> for TableError {
    fn from(error: XmlError) -> Self {
        Self::Common(error.into())
    }
}

impl TableError {
    /// The same, as the failure of one operation of a batch.
    #[must_use]
    pub fn in_operation(self, index: usize) -> Self {
        Self::InOperation { index, error: Box::new(self) }
    }

    /// The error itself, whether or not it stands in a batch.
    #[must_use]
    pub fn innermost(&self) -> &Self {
        match self {
            Self::InOperation { error, .. } => error.innermost(),
            other => other,
        }
    }

    /// What is wrong with the request's own content, for the people who read the message.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match self.innermost() {
            Self::Common(ApiError::AuthenticationFailed { detail, .. }) => detail.as_deref(),
            Self::MalformedBody { detail } | Self::InvalidKey { detail } => Some(detail),
            _ => None,
        }
    }
}

/// Texts are the service's own, misspellings included: people search them.
impl ServiceApiError for TableError {
    fn parts(&self) -> ErrorParts {
        match self {
            TableError::Common(api_error) => api_error.parts(),
            TableError::Domain(domain_error) => domain_error_parts(domain_error),
            TableError::InOperation { index, error: inner } => {
                let inner = inner.parts();
                ErrorParts { text: format!("{index}:{}", inner.text).into(), ..inner }
            }
            TableError::KeyPredicate => error(400, "InvalidInput", QUERY_SYNTAX),
            TableError::InvalidETag(tag) => error(400, "InvalidInput", etag_not_valid(tag)),
            TableError::IfNoneMatch(verb) => error(400, "InvalidInput", if_none_match(verb)),
            TableError::BothConditions => error(400, "InvalidInput", BOTH_CONDITIONS),
            TableError::XMethodNotUsingPost => {
                error(400, "XMethodNotUsingPost", X_METHOD_NOT_USING_POST)
            }
            TableError::XMethodIncorrectValue => {
                error(400, "XMethodIncorrectValue", X_METHOD_INCORRECT_VALUE)
            }
            TableError::XMethodIncorrectCount => {
                error(400, "XMethodIncorrectCount", X_METHOD_INCORRECT_COUNT)
            }
            TableError::AtomFormatNotSupported => {
                error(415, "AtomFormatNotSupported", ATOM_FORMAT_NOT_SUPPORTED)
            }
            TableError::JsonVerboseFormatNotSupported => {
                error(415, "JsonVerboseFormatNotSupported", JSON_VERBOSE_FORMAT_NOT_SUPPORTED)
            }
            TableError::MediaTypeNotSupported => {
                error(415, "MediaTypeNotSupported", MEDIA_TYPE_NOT_SUPPORTED)
            }
            TableError::MalformedBatch | TableError::InvalidKey { .. } => {
                error(400, "InvalidInput", NOT_VALID)
            }
            TableError::MalformedBody { .. } => error(400, "InvalidInput", MALFORMED_BODY),
        }
    }

    fn common(&self) -> Option<&ApiError> {
        match self.innermost() {
            Self::Common(api_error) => Some(api_error),
            _ => None,
        }
    }
}

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
    }
}

const QUERY_SYNTAX: &str = "Bad Request - Error in query syntax.";
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
const TOO_MANY_OPERATIONS: &str =
    "The batch request operation exceeds the maximum 100 changes per change set.";
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

fn etag_not_valid(tag: &str) -> String {
    format!(
        "The etag value '{tag}' specified in one of the request headers is not valid. Please make sure only one etag \
         value is specified and is valid."
    )
}

fn if_none_match(verb: &str) -> String {
    format!("If-None-Match HTTP header cannot be specified for {verb} operations.")
}

#[cfg(test)]
mod tests {
    use tavola_core::{DomainError, FailedOperation};

    use super::TableError;
    use crate::api_error::{ApiError, ServiceApiError as _};

    /// Statement 40: the lines of the reference's table that are about a status or a code more than
    /// one could expect.
    #[test]
    fn what_the_service_says() {
        let date = || DomainError::ParameterOutOfRange {
            name: "d".to_owned(),
            value: "01/01/0001 00:00:00".to_owned(),
        };
        for (table_error, expected) in [
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
                TableError::IfNoneMatch("PUT"),
                "400 InvalidInput If-None-Match HTTP header cannot be specified for PUT operations.",
            ),
            (
                FailedOperation { index: 3, domain_error: DomainError::EntityAlreadyExists }.into(),
                "409 EntityAlreadyExists 3:The specified entity already exists.",
            ),
            (
                TableError::MalformedBody { detail: "d".to_owned() }.in_operation(0),
                "400 InvalidInput 0:An error occurred while processing this request.",
            ),
            (
                ApiError::StoreFull.into(),
                "503 ServerBusy The server's disk is full. Nothing was written. Entities can be read. Deletions are taken \
                 while some room is left.",
            ),
            (
                ApiError::BodyTooSlow.into(),
                "408 RequestTimeout The request body did not arrive within the permitted time. Nothing was done.",
            ),
            (
                ApiError::UnknownOutcome.into(),
                "500 OperationTimedOut The operation could not be completed within the permitted time.",
            ),
        ] {
            let parts = table_error.parts();
            let text = format!("{} {} {}", parts.status.as_u16(), parts.code, parts.text);
            assert_eq!(text, expected, "{table_error:?}");
        }
    }
}
