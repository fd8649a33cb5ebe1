//! The filter language of `$filter`: its tree, and the things done with it.
//!
//! [`parse`] reads the text, [`plan`] turns the tree into key ranges and what remains to be
//! checked, [`eval`] says what it means for one entity, and [`compile`] makes it fast for many. A
//! tree prints as canonical text (`Display`), which parses to the same tree again.

mod axis;
pub mod compile;
pub mod eval;
mod grid;
mod lex;
mod literal;
pub mod parse;
#[cfg(test)]
mod parse_properties;
pub mod plan;
#[cfg(test)]
mod plan_properties;
mod plan_text;
mod print;
#[cfg(test)]
mod testing;

use std::cmp::Ordering;

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

impl Comparison {
    /// Every operator.
    pub const ALL: [Self; 6] = [
        Self::Equal,
        Self::NotEqual,
        Self::Greater,
        Self::GreaterOrEqual,
        Self::Less,
        Self::LessOrEqual,
    ];

    /// The operator as a filter spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "eq",
            Self::NotEqual => "ne",
            Self::Greater => "gt",
            Self::GreaterOrEqual => "ge",
            Self::Less => "lt",
            Self::LessOrEqual => "le",
        }
    }

    /// The operator that says the same with the sides exchanged.
    #[must_use]
    pub const fn flipped(self) -> Self {
        match self {
            Self::Equal => Self::Equal,
            Self::NotEqual => Self::NotEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
        }
    }

    /// The operator that holds exactly where this one does not, for two values that have an order.
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
        }
    }

    /// True if the operator holds for a left side that stands in this order to the right side.
    #[must_use]
    pub const fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
        }
    }

    /// What the operator says about a stored value and a constant of another type. The service
    /// answers as if the stored value were less than every constant of a foreign type.
    #[must_use]
    pub const fn accepts_foreign_type(self) -> bool {
        self.accepts(Ordering::Less)
    }

    /// What the operator says when one of the values is NaN: by IEEE rules it differs from
    /// everything and has no order.
    #[must_use]
    pub const fn accepts_unordered(self) -> bool {
        matches!(self, Self::NotEqual)
    }
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
