//! Refusals: proper answers of the domain, as opposed to trouble. The wire gives each its status,
//! code and text.

/// Why the service says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DomainError {
    /// A table of that name exists, in whatever case.
    TableAlreadyExists,
    /// An operation on entities of a table that does not exist.
    TableNotFound,
    /// The table, or its access policies, that a request is about does not exist.
    ResourceNotFound,
    /// A table name that is too short or too long.
    TableNameLength,
    /// A table name with a character that it cannot have.
    TableNameCharacters,
    /// The one name that is taken.
    TableNameReserved,

    /// Insert of a key that exists.
    EntityAlreadyExists,
    /// Get, replace, merge or delete of a key that does not exist.
    EntityNotFound,
    /// `If-Match` names another version.
    ConditionNotMet,

    /// Beyond 1 MiB.
    EntityTooLarge,
    /// Beyond 252.
    TooManyProperties,
    /// One name twice.
    DuplicateProperty,
    /// Not an identifier.
    PropertyNameInvalid,
    /// Beyond 255 characters.
    PropertyNameTooLong,
    /// Beyond 64 KiB.
    PropertyValueTooLarge,
    /// PartitionKey or RowKey missing or null in an insert.
    PropertiesNeedValue,
    /// PartitionKey or RowKey beyond 1 KiB.
    KeyTooLarge,
    /// A key or a date that the service cannot hold, with the name of the property and the value.
    ParameterOutOfRange {
        /// The property.
        name: String,
        /// Its value as the service prints it.
        value: String,
    },
    /// An entity's URL with another number of keys than two.
    KeyCount,
    /// A forbidden character of a key in an entity's URL.
    KeyOutOfRange,

    /// More than 100 operations.
    TooManyOperations,
    /// Operations of one transaction on different partitions or tables.
    DifferentPartitions,
    /// One entity twice in a transaction.
    DuplicateRow,
    /// A transaction without operations.
    EmptyTransaction,

    /// A filter that does not parse.
    FilterSyntax {
        /// Where, in characters from the start.
        position: usize,
        /// The filter.
        filter: String,
    },
    /// A literal that its type cannot hold.
    FilterLiteral {
        /// The type's name.
        edm: &'static str,
        /// The literal.
        literal: String,
    },
    /// A filter that parses and that the service does not take: `null`, two properties, too deep,
    /// too long.
    FilterInvalid,
    /// A function or arithmetic in a filter.
    FilterNotImplemented,
}
