//! What can go wrong, and what became of the write.

mod kind;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

pub use kind::{Context, EncryptionFault, ErrorKind, Observed, Outcome, Rule};

use crate::value::EdmType;

/// Why a call failed. One pointer; [`Error::kind`] is for programs, the text for people. Keys are in
/// the text, values never are.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tavola_client::Error> {
/// use tavola_client::{DynEntity, Outcome, TableServiceClient};
///
/// # let service = TableServiceClient::on(tavola_local::in_memory(), None);
/// # let table = service.table_client("people");
/// # table.create().await?;
/// table.insert(&DynEntity::new("Smith", "1")).await?;
/// let error = table.insert(&DynEntity::new("Smith", "1")).await.expect_err("it is there");
/// assert!(error.is_conflict() && error.outcome() == Outcome::NotApplied);
/// assert_eq!(error.code(), Some("EntityAlreadyExists"));
/// assert!(error.to_string().starts_with("insert people ('Smith', '1'): an entity with this key"));
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    /// The sentence; for most kinds it says more than the kind does.
    text: Cow<'static, str>,
    status: Option<u16>,
    code: Option<String>,
    context: Context,
    /// Where it happened, for people, if the key does not say it.
    place: Option<String>,
    /// What is said last.
    end: Option<&'static str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(
        kind: ErrorKind,
        outcome: Outcome,
        text: impl Into<Cow<'static, str>>,
    ) -> Self {
        let text = text.into();
        let context = Context::default();
        Self(Box::new(Inner {
            kind,
            outcome,
            text,
            status: None,
            code: None,
            context,
            place: None,
            end: None,
            source: None,
        }))
    }

    /// A rule is broken, so nothing is sent.
    pub(crate) fn invalid(rule: Rule, text: impl Into<Cow<'static, str>>) -> Self {
        let kind = ErrorKind::Invalid { rule, limit: None, found: None };
        Self::new(kind, Outcome::NotSent, text)
    }

    /// A limit is exceeded, so nothing is sent.
    pub(crate) fn beyond(
        rule: Rule,
        limit: usize,
        found: usize,
        text: impl Into<Cow<'static, str>>,
    ) -> Self {
        let kind = ErrorKind::Invalid { rule, limit: Some(limit), found: Some(found) };
        Self::new(kind, Outcome::NotSent, text)
    }

    /// A property is not what it must be.
    pub(crate) fn property(name: &str, expected: EdmType, found: Option<EdmType>) -> Self {
        let text = match found {
            Some(found) => format!("property `{name}` is {found}, not {expected}"),
            None => format!("property `{name}` ({expected}) is absent"),
        };
        let kind = ErrorKind::Property { name: name.to_owned(), expected, found };
        Self::new(kind, Outcome::NotApplied, text)
    }

    /// An entity is of another kind.
    pub(crate) fn wrong_kind(expected: &str, found: Option<&str>) -> Self {
        let text = match found {
            Some(found) => format!("the entity is of the kind `{found}`, not `{expected}`"),
            None => format!("the entity has no kind; `{expected}` is expected"),
        };
        let found = found.map(str::to_owned);
        let kind = ErrorKind::Kind { expected: expected.to_owned(), found };
        Self::new(kind, Outcome::NotApplied, text)
    }

    /// Says what the service answered.
    #[must_use]
    #[allow(dead_code, reason = "the half of the library that sends uses it")]
    pub(crate) fn with_answer(mut self, status: u16, code: Option<String>) -> Self {
        self.0.status = Some(status);
        self.0.code = code;
        self
    }

    /// Says what caused it.
    #[must_use]
    #[allow(dead_code, reason = "the half of the library that sends uses it")]
    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Says where it happened.
    #[must_use]
    #[allow(dead_code, reason = "the half of the library that sends uses it")]
    pub(crate) fn at(mut self, add: impl FnOnce(&mut Context)) -> Self {
        add(&mut self.0.context);
        self
    }

    /// Says for people where it happened, instead of the key.
    #[must_use]
    pub(crate) fn in_place(mut self, place: Option<String>) -> Self {
        self.0.place = place;
        self
    }

    /// Says something last.
    #[must_use]
    pub(crate) fn ending(mut self, end: Option<&'static str>) -> Self {
        self.0.end = end;
        self
    }

    /// The same error once more, without its source: for what fails whenever it is asked.
    pub(crate) fn again(&self) -> Self {
        let inner = &self.0;
        Self(Box::new(Inner {
            kind: inner.kind.clone(),
            outcome: inner.outcome,
            text: inner.text.clone(),
            status: inner.status,
            code: inner.code.clone(),
            context: inner.context.clone(),
            place: inner.place.clone(),
            end: inner.end,
            source: None,
        }))
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// What is known about the effect.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The HTTP status, if the service answered.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The service's error code, for example `EntityAlreadyExists`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// Where it happened.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// True if the entity or the table does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// True if it exists already.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// True if the entity was changed since it was read.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.status() == Some(412)
    }

    /// True if the service asks to be called less often.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.status() == Some(429) || self.code() == Some("ServerBusy")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = self.context();
        let key = || context.key.as_ref().map(ToString::to_string);
        let own = self.0.place.clone().or_else(key);
        let names = [context.operation, context.table.as_deref()].into_iter().flatten();
        let place: Vec<_> = names.map(str::to_owned).chain(own).collect();
        if !place.is_empty() {
            write!(f, "{}: ", place.join(" "))?;
        }
        f.write_str(&self.0.text)?;
        if let Some(status) = self.status() {
            write!(f, " ({status}")?;
            if let Some(code) = self.code() {
                write!(f, " {code}")?;
            }
            if let Some(id) = &context.request_id {
                write!(f, "; request {id}")?;
            }
            f.write_str(")")?;
        }
        match self.0.end {
            Some(end) => write!(f, "; {end}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        f.debug_struct("Error")
            .field("kind", &inner.kind)
            .field("outcome", &inner.outcome)
            .field("text", &self.to_string())
            .field("context", &inner.context)
            .field("source", &inner.source)
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
