//! A filter's canonical text: the constant on the right, single spaces, and parentheses only where
//! they mean something or follow a `not`.

use std::fmt;

use crate::filter::literal::Literal;
use crate::filter::{Comparison, Filter};

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(truth) => write!(f, "{truth}"),
            Self::Property(name) => f.write_str(name),
            Self::Compare { property, comparison, constant } => {
                write!(f, "{property} {comparison} {}", Literal(constant))
            }
            // The text has no empty lists; what they mean it can say.
            Self::And(terms) if terms.is_empty() => f.write_str("true"),
            Self::Or(terms) if terms.is_empty() => f.write_str("false"),
            Self::And(terms) => {
                chain(f, terms, " and ", |term| matches!(term, Self::And(_) | Self::Or(_)))
            }
            Self::Or(terms) => chain(f, terms, " or ", |term| matches!(term, Self::Or(_))),
            Self::Not(term) => write!(f, "not ({term})"),
        }
    }
}

fn chain(
    f: &mut fmt::Formatter<'_>,
    terms: &[Filter],
    operator: &str,
    needs_parentheses: fn(&Filter) -> bool,
) -> fmt::Result {
    for (index, term) in terms.iter().enumerate() {
        if index > 0 {
            f.write_str(operator)?;
        }
        if needs_parentheses(term) {
            write!(f, "({term})")?;
        } else {
            write!(f, "{term}")?;
        }
    }
    Ok(())
}
