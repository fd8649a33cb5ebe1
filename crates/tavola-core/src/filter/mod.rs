//! The filter language of `$filter`: its tree, and the three things done with it.
//!
//! [`parse`] reads the text, [`plan`] turns the tree into key ranges and what remains to be checked, [`eval`] checks one
//! entity.

pub mod eval;
pub mod parse;
pub mod plan;

use crate::edm::EdmValue;

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `eq`
    Equal,
    /// `ne`
    NotEqual,
    /// `gt`
    Greater,
    /// `ge`
    GreaterOrEqual,
    /// `lt`
    Less,
    /// `le`
    LessOrEqual,
}

/// A condition on one entity.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// `true` or `false`.
    Constant(bool),
    /// A bare property: true only if it is a Boolean with the value true.
    Property(String),
    /// A property against a constant, the property on the left whatever side it was written on.
    Compare {
        /// The property's name, system properties included.
        property: String,
        /// The operator.
        comparison: Comparison,
        /// The constant.
        constant: EdmValue,
    },
    /// All of these.
    And(Vec<Filter>),
    /// Any of these.
    Or(Vec<Filter>),
    /// Not this.
    Not(Box<Filter>),
}
