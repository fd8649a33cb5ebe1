//! What goes wrong here is said to the person at the terminal, and nothing else is done about it.

use std::error::Error;
use std::fmt::Debug;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// A refusal of ours, which is no error by itself: none of the requests here may be refused.
pub(crate) fn refused(what: &'static str) -> impl Fn(&dyn Debug) -> Failure {
    move |domain_error| format!("{what} was refused: {domain_error:?}").into()
}
