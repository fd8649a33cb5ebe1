//! Conditions that somebody typed.

use tavola_core::DomainError;
use tavola_core::filter::parse::parse;

use super::AnyFilter;
use crate::error::{Error, Rule};

/// So much of the filter is shown before the place where it cannot be read.
const CHARS_SHOWN: usize = 24;

impl AnyFilter {
    /// Reads the text of a `$filter`, as the service reads it.
    ///
    /// ```
    /// use tavola_client::AnyFilter;
    ///
    /// let filter = AnyFilter::parse("PartitionKey eq 'Sales' and Age gt 30")?;
    /// assert_eq!(filter.explain()?.azure, tavola_client::Access::PartitionScan);
    /// assert!(AnyFilter::parse("Age > 30").is_err());
    /// # Ok::<(), tavola_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the service would refuse it, with the place where it cannot be read. An empty text is no
    /// condition.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match parse(text) {
            Ok(Some(filter)) => Ok(Self(Ok(filter))),
            Ok(None) => Err(Error::invalid(Rule::Request, "an empty filter is no condition")),
            Err(error) => Err(Error::invalid(Rule::Request, words(error))),
        }
    }
}

fn words(error: DomainError) -> String {
    match error {
        DomainError::FilterSyntax { position, filter } => {
            let skipped = position.saturating_sub(CHARS_SHOWN);
            let cut = if skipped > 0 { "…" } else { "" };
            let read: String = filter.chars().skip(skipped).take(position - skipped).collect();
            format!(
                "the filter cannot be read at character {position}, after `{cut}{read}`; a \
                 comparison is written Name eq 'text' or Age ge 30, with eq ne gt ge lt le, and \
                 joined by and, or, not (all in lower case)"
            )
        }
        DomainError::FilterLiteral { edm, literal } => {
            format!("the filter has the constant {literal}, which is no {edm}")
        }
        DomainError::FilterNotImplemented => {
            "the filter has a function or arithmetic; the service \
             compares properties with constants only. Write a prefix as Name ge 'ab' and Name lt \
             'ac'"
                .to_owned()
        }
        _ => "the filter compares with null, or two properties or two constants with each other, \
             or is too long or too deep; a comparison has one property and one constant"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::AnyFilter;

    #[test]
    fn filters_as_they_are_typed() {
        let text = |filter| AnyFilter::parse(filter).unwrap().to_string();
        assert_eq!(text("5L le Age and not(Name eq 'O''Brien')"), {
            "Age ge 5L and not (Name eq 'O''Brien')"
        });
        for (filter, words) in [
            ("", "an empty filter"),
            ("  ", "an empty filter"),
            ("Age > 30", "at character 5, after `Age >`"),
            ("Name eq 'an unfinished text of some length", "after `…"),
            ("startswith(Name, 'a')", "a function or arithmetic"),
            ("Name eq null", "compares with null"),
            ("Id eq guid'no'", "at character 14"),
        ] {
            let error = AnyFilter::parse(filter).unwrap_err().to_string();
            assert!(error.contains(words), "{filter}: {error}");
        }
    }
}
