//! The text of a `$filter` to its tree.
//!
//! A recursive descent over the grammar of the service: `or` binds loosest, then `and`, then `not`,
//! then comparisons. Keywords are lower case; `True` as the constant of a comparison may be written
//! in any. The recursion is bounded by [`FILTER_DEPTH_MAX`]; chains of `and` and `or` are loops.

use crate::domain_error::DomainError;
use crate::edm::{EdmValue, parse_boolean};
use crate::entity::is_identifier;
use crate::filter::lex::{Kind, Lexer, Token};
use crate::filter::literal::{LiteralError, from_quoted, from_word};
use crate::filter::{Comparison, Filter};
use crate::limits::{FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX};

/// Operators of OData that the service knows and does not implement.
const ARITHMETIC: [&str; 5] = ["add", "sub", "mul", "div", "mod"];

/// Functions of OData that the service knows and does not implement. Other names before a
/// parenthesis are errors, `NOT(` in upper case among them.
const FUNCTIONS: [&str; 23] = [
    "cast",
    "ceiling",
    "concat",
    "contains",
    "day",
    "endswith",
    "floor",
    "hour",
    "indexof",
    "isof",
    "length",
    "minute",
    "month",
    "replace",
    "round",
    "second",
    "startswith",
    "substring",
    "substringof",
    "tolower",
    "toupper",
    "trim",
    "year",
];

/// Reads a `$filter`; an empty text is no filter.
///
/// ```
/// use tavola_core::filter::parse::parse;
///
/// let filter = parse("5L le Age and not(Name eq 'O''Brien')")?;
/// assert_eq!(filter.map(|filter| filter.to_string()).as_deref(), Some("Age ge 5L and not (Name eq 'O''Brien')"));
/// assert_eq!(parse("  ")?, None);
/// # Ok::<(), tavola_core::DomainError>(())
/// ```
///
/// # Errors
/// The service's refusal of a filter that it cannot read or does not take.
pub fn parse(text: &str) -> Result<Option<Filter>, DomainError> {
    if text.trim_start().is_empty() {
        return Ok(None);
    }
    let mut parser = Parser::new(text);
    let filter = parser.alternatives()?;
    match parser.token.kind {
        Kind::End => Ok(Some(filter)),
        _ => Err(parser.syntax_error()),
    }
}

/// One side of a comparison.
enum Operand<'t> {
    Property(&'t str),
    Constant(EdmValue),
    Null,
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The token to be looked at next.
    token: Token<'t>,
    /// Parentheses and `not`s around it.
    depth: usize,
    /// Comparisons and bare terms so far; each costs time for every row.
    terms: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        let mut lexer = Lexer::new(text);
        let token = lexer.next_token();
        Self { lexer, token, depth: 0, terms: 0 }
    }

    /// `a or b or c`
    fn alternatives(&mut self) -> Result<Filter, DomainError> {
        let first = self.conjunction()?;
        if !self.at_word("or") {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.take_word("or") {
            terms.push(self.conjunction()?);
        }
        Ok(Filter::Or(terms))
    }

    /// `a and b and c`
    fn conjunction(&mut self) -> Result<Filter, DomainError> {
        let first = self.negation()?;
        if !self.at_word("and") {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.take_word("and") {
            terms.push(self.negation()?);
        }
        Ok(Filter::And(terms))
    }

    /// `not a`, `(a)` or a term.
    fn negation(&mut self) -> Result<Filter, DomainError> {
        if self.take_word("not") {
            let term = self.deeper(Self::negation)?;
            return Ok(Filter::Not(Box::new(term)));
        }
        if self.token.kind != Kind::Open {
            return self.term();
        }
        self.advance();
        let filter = self.deeper(Self::alternatives)?;
        if self.token.kind != Kind::Close {
            return Err(self.syntax_error());
        }
        self.advance();
        Ok(filter)
    }

    fn deeper(
        &mut self,
        rule: fn(&mut Self) -> Result<Filter, DomainError>,
    ) -> Result<Filter, DomainError> {
        if self.depth == FILTER_DEPTH_MAX {
            return Err(DomainError::FilterInvalid);
        }
        self.depth += 1;
        let filter = rule(self)?;
        self.depth -= 1;
        Ok(filter)
    }

    /// A comparison, or a bare property or Boolean.
    fn term(&mut self) -> Result<Filter, DomainError> {
        if self.terms == FILTER_COMPARISONS_MAX {
            return Err(DomainError::FilterInvalid);
        }
        self.terms += 1;
        let first = self.token;
        let left = self.operand()?;
        if let Some(comparison) = comparison_of(self.token) {
            self.advance();
            let right = self.operand()?;
            return compare(left, comparison, right);
        }
        match left {
            Operand::Property(name) => Ok(Filter::Property(name.to_owned())),
            Operand::Constant(EdmValue::Boolean(truth)) => Ok(Filter::Constant(truth)),
            // The constant itself is the offending token, not what follows it.
            Operand::Constant(_) | Operand::Null => Err(self.syntax_error_at(first)),
        }
    }

    fn operand(&mut self) -> Result<Operand<'t>, DomainError> {
        let operand = match self.token.kind {
            Kind::Word("null") => Operand::Null,
            Kind::Word(word) => self.word_operand(word)?,
            Kind::Quoted { prefix, body } => self.constant(from_quoted(prefix, body))?,
            Kind::Open | Kind::Close | Kind::Stray | Kind::End => return Err(self.syntax_error()),
        };
        self.advance();
        if matches!(self.token.kind, Kind::Word(word) if ARITHMETIC.contains(&word)) {
            return Err(DomainError::FilterNotImplemented);
        }
        Ok(operand)
    }

    fn word_operand(&self, word: &'t str) -> Result<Operand<'t>, DomainError> {
        if let Some(literal) = from_word(word) {
            return self.constant(literal);
        }
        let next = self.look_ahead();
        if next.kind == Kind::Open && FUNCTIONS.contains(&word) {
            return Err(DomainError::FilterNotImplemented);
        }
        // A property may be called `or` or `lt`; it is one only where an operator follows, or else
        // a forgotten operand would pass as a property that no entity has.
        let is_misplaced_keyword = is_keyword(word) && comparison_of(next).is_none();
        if is_misplaced_keyword || !is_identifier(word) {
            return Err(self.syntax_error());
        }
        Ok(Operand::Property(word))
    }

    fn constant(
        &self,
        literal: Result<EdmValue, LiteralError>,
    ) -> Result<Operand<'t>, DomainError> {
        match literal {
            Ok(value) => Ok(Operand::Constant(value)),
            Err(LiteralError::Malformed) => Err(self.syntax_error()),
            Err(LiteralError::OutOfRange(edm)) => Err(DomainError::FilterLiteral {
                edm: edm.name(),
                literal: self.lexer.text_of(self.token).to_owned(),
            }),
        }
    }

    fn advance(&mut self) {
        self.token = self.lexer.next_token();
    }

    fn look_ahead(&self) -> Token<'t> {
        let mut ahead = self.lexer;
        ahead.next_token()
    }

    fn at_word(&self, word: &str) -> bool {
        self.token.kind == Kind::Word(word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let taken = self.at_word(word);
        if taken {
            self.advance();
        }
        taken
    }

    fn syntax_error(&self) -> DomainError {
        self.syntax_error_at(self.token)
    }

    fn syntax_error_at(&self, token: Token<'t>) -> DomainError {
        let filter = self.lexer.text();
        DomainError::FilterSyntax {
            position: filter[..token.end].chars().count(),
            filter: filter.to_owned(),
        }
    }
}

/// The service takes a property and a constant that is not null, on either side. Two properties
/// cannot be compared, so that of two words `True` is the constant, in whatever case; elsewhere it
/// is a property like any other.
fn compare(
    left: Operand<'_>,
    comparison: Comparison,
    right: Operand<'_>,
) -> Result<Filter, DomainError> {
    let operands = match (left, right) {
        (Operand::Property(left), Operand::Property(right)) => {
            match (parse_boolean(left), parse_boolean(right)) {
                (None, Some(truth)) => {
                    (Operand::Property(left), Operand::Constant(EdmValue::Boolean(truth)))
                }
                (Some(truth), None) => {
                    (Operand::Constant(EdmValue::Boolean(truth)), Operand::Property(right))
                }
                _ => return Err(DomainError::FilterInvalid),
            }
        }
        operands => operands,
    };
    let (property, comparison, constant) = match operands {
        (Operand::Property(name), Operand::Constant(constant)) => {
            (name.to_owned(), comparison, constant)
        }
        (Operand::Constant(constant), Operand::Property(name)) => {
            (name.to_owned(), comparison.flipped(), constant)
        }
        _ => return Err(DomainError::FilterInvalid),
    };
    Ok(Filter::Compare { property, comparison, constant })
}

fn comparison_of(token: Token<'_>) -> Option<Comparison> {
    match token.kind {
        Kind::Word(word) => {
            Comparison::ALL.into_iter().find(|comparison| comparison.name() == word)
        }
        _ => None,
    }
}

fn is_keyword(word: &str) -> bool {
    matches!(word, "and" | "or" | "not")
        || Comparison::ALL.into_iter().any(|comparison| comparison.name() == word)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::domain_error::DomainError;
    use crate::filter::Filter;
    use crate::filter::testing::cases;
    use crate::limits::{FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX};

    /// The tree with every list in parentheses, or the refusal.
    fn outcome(text: &str) -> String {
        match parse(text) {
            Ok(None) => "none".to_owned(),
            Ok(Some(filter)) => tree(&filter),
            Err(DomainError::FilterSyntax { position, filter }) => {
                assert_eq!(filter, text);
                format!("syntax error at {position}")
            }
            Err(DomainError::FilterLiteral { edm, literal }) => {
                format!("{edm} cannot hold {literal}")
            }
            Err(DomainError::FilterInvalid) => "invalid".to_owned(),
            Err(DomainError::FilterNotImplemented) => "not implemented".to_owned(),
            Err(other) => panic!("{text}: {other:?}"),
        }
    }

    fn tree(filter: &Filter) -> String {
        let list = |name: &str, terms: &[Filter]| {
            let terms: Vec<String> = terms.iter().map(tree).collect();
            format!("{name}({})", terms.join(", "))
        };
        match filter {
            Filter::And(terms) => list("and", terms),
            Filter::Or(terms) => list("or", terms),
            Filter::Not(term) => format!("not({})", tree(term)),
            other => other.to_string(),
        }
    }

    fn check(table: &str) {
        for [text, expected] in cases(table) {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }

    #[test]
    fn structure() {
        check(
            r"
            a eq 1                                   | a eq 1
            a eq 1 and b eq 2 or c eq 3 and d        | or(and(a eq 1, b eq 2), and(c eq 3, d))
            a eq 1 and (b eq 2 or c eq 3) and d      | and(a eq 1, or(b eq 2, c eq 3), d)
            a or b or c                              | or(a, b, c)
            a and b and c                            | and(a, b, c)
            (a or b) or c                            | or(or(a, b), c)
            not a eq 1 and b eq 2                    | and(not(a eq 1), b eq 2)
            not(a eq 1 and b eq 2)                   | not(and(a eq 1, b eq 2))
            not (a) or not b                         | or(not(a), not(b))
            not not a                                | not(not(a))
            (PartitionKey eq 'a') and (RowKey ge 'b') | and(PartitionKey eq 'a', RowKey ge 'b')
            (P eq 1)and((Q eq 2)or not(R eq 3))      | and(P eq 1, or(Q eq 2, not(R eq 3)))
            ((((a))))                                | a
            ( a )                                    | a
            true                                     | true
            not false                                | not(false)
            ",
        );
        assert_eq!(outcome("\ta\r\n eq\u{3000}1\n"), "a eq 1");
        assert_eq!(outcome(""), "none");
        assert_eq!(outcome(" \t\n"), "none");
    }

    #[test]
    fn operators_and_sides() {
        check(
            r"
            a eq 1  | a eq 1
            a ne 1  | a ne 1
            a gt 1  | a gt 1
            a ge 1  | a ge 1
            a lt 1  | a lt 1
            a le 1  | a le 1
            1 eq a  | a eq 1
            1 ne a  | a ne 1
            1 gt a  | a lt 1
            1 ge a  | a le 1
            1 lt a  | a gt 1
            1 le a  | a ge 1
            true eq a | a eq true
            ",
        );
    }

    #[test]
    fn literals() {
        check(
            r"
            a eq 'O''Brien'               | a eq 'O''Brien'
            a eq ''                       | a eq ''
            a eq ''''                     | a eq ''''
            a eq '(not) eq 5'             | a eq '(not) eq 5'
            a eq'x'and b                  | and(a eq 'x', b)
            a eq -3                       | a eq -3
            a eq 007                      | a eq 7
            a eq -2147483648              | a eq -2147483648
            a eq 2147483648               | Edm.Int32 cannot hold 2147483648
            a eq 5454161346626            | Edm.Int32 cannot hold 5454161346626
            a eq 5L                       | a eq 5L
            a eq -9223372036854775808L    | a eq -9223372036854775808L
            a eq 9223372036854775808L     | Edm.Int64 cannot hold 9223372036854775808L
            a eq 100.25                   | a eq 100.25
            a eq 3.0                      | a eq 3.0
            a eq -0.0                     | a eq 0.0
            a eq 1E+30                    | a eq 1e30
            a eq 1e-7                     | a eq 1e-7
            a eq 1e999                    | Edm.Double cannot hold 1e999
            a eq NaN                      | a eq NaN
            a eq INF                      | a eq INF
            a eq -INF                     | a eq -INF
            a eq true                     | a eq true
            a eq True                     | a eq true
            FALSE ne a                    | a ne false
            True eq false                 | True eq false
            a eq datetime'2008-07-10T00:00:00Z'         | a eq datetime'2008-07-10T00:00:00Z'
            a eq datetime'2008-07-10T00:00:00.1234567Z' | a eq datetime'2008-07-10T00:00:00.1234567Z'
            a eq datetime'2020-01-01T00:00:00.000000Z'  | a eq datetime'2020-01-01T00:00:00Z'
            a gt datetime'0001-01-01T00:00:00Z'         | Edm.DateTime cannot hold datetime'0001-01-01T00:00:00Z'
            a eq guid'A455C695-df98-5678-aaaa-81d3367e5a34' | a eq guid'a455c695-df98-5678-aaaa-81d3367e5a34'
            a eq X'0102fF'                | a eq X'0102FF'
            a eq binary'00'               | a eq X'00'
            a eq X''                      | a eq X''
            ",
        );
    }

    #[test]
    fn properties() {
        check(
            r"
            _a            | _a
            Größe eq 1    | Größe eq 1
            A             | A
            True          | True
            True eq 1     | True eq 1
            X eq 1        | X eq 1
            datetime eq 1 | datetime eq 1
            mod eq 1      | mod eq 1
            startswith eq 1 | startswith eq 1
            or eq 1 and lt gt 2 | and(or eq 1, lt gt 2)
            ",
        );
    }

    #[test]
    fn syntax_errors_tell_where_the_offending_token_ends() {
        check(
            r"
            aaa bbb ccc    | syntax error at 7
            ää öö          | syntax error at 5
            a EQ 1         | syntax error at 4
            a eq 1 AND b   | syntax error at 10
            a eq 1 OR b    | syntax error at 9
            NOT a eq 1     | syntax error at 5
            NOT (a eq 1)   | syntax error at 5
            NOT(a eq 1)    | syntax error at 4
            a eq           | syntax error at 4
            a eq 'abc      | syntax error at 9
            a eq 'abc''    | syntax error at 11
            (a eq 1        | syntax error at 7
            a eq 1)        | syntax error at 7
            ()             | syntax error at 2
            (a) eq 1       | syntax error at 6
            a eq (1)       | syntax error at 6
            a eq 1 eq 2    | syntax error at 9
            and            | syntax error at 3
            a and or       | syntax error at 8
            a and          | syntax error at 5
            eq 5           | syntax error at 2
            not            | syntax error at 3
            5 and a        | syntax error at 1
            'x'            | syntax error at 3
            null           | syntax error at 4
            a,b            | syntax error at 2
            a = 1          | syntax error at 3
            a-b eq 1       | syntax error at 3
            a/b eq 1       | syntax error at 3
            1a eq 1        | syntax error at 2
            a eq +5        | syntax error at 7
            a eq -         | syntax error at 6
            a eq - 5       | syntax error at 6
            a eq 5l        | syntax error at 7
            a eq 5.        | syntax error at 7
            a eq .5        | syntax error at 7
            a eq 1.0L      | syntax error at 9
            a eq 1e        | syntax error at 7
            a eq ５        | syntax error at 6
            foo(a) eq 1    | syntax error at 4
            a eq X'0'      | syntax error at 9
            a eq X'0g'     | syntax error at 10
            a eq X'é'      | syntax error at 9
            a eq guid'x'   | syntax error at 12
            a eq guid'a455c695df985678aaaa81d3367e5a34' | syntax error at 43
            a eq datetime'2008-13-10T00:00:00Z'         | syntax error at 35
            a eq datetime''                             | syntax error at 15
            ",
        );
        assert_eq!(outcome("a eq \"x\""), "syntax error at 8");
        assert_eq!(outcome("a eq 1\0"), "syntax error at 7");
    }

    #[test]
    fn what_parses_and_is_not_taken() {
        check(
            r"
            a eq null                  | invalid
            a ne null                  | invalid
            null eq a                  | invalid
            a eq b                     | invalid
            True eq TRUE               | invalid
            a eq Null                  | invalid
            a eq x'00'                 | invalid
            a eq X '00'                | invalid
            1 eq 1                     | invalid
            'a' eq 'a'                 | invalid
            startswith(a,'b')          | not implemented
            startswith(a, 'b') eq true | not implemented
            true eq substringof('b',a) | not implemented
            length(a) gt 5             | not implemented
            a add 1 eq 2               | not implemented
            a eq 1 add 2               | not implemented
            a mod 2                    | not implemented
            a sub 1 gt 2               | not implemented
            ",
        );
    }

    #[test]
    fn depth_is_bounded() {
        let parentheses = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(outcome(&parentheses(FILTER_DEPTH_MAX)), "a");
        assert_eq!(outcome(&parentheses(FILTER_DEPTH_MAX + 1)), "invalid");
        let nots = |depth: usize| format!("{}a", "not ".repeat(depth));
        assert!(parse(&nots(FILTER_DEPTH_MAX)).is_ok());
        assert_eq!(outcome(&nots(FILTER_DEPTH_MAX + 1)), "invalid");
        assert_eq!(outcome(&"(".repeat(1 << 20)), "invalid");
        assert_eq!(outcome(&"not(".repeat(1 << 18)), "invalid");
        // One level behind the other is not depth.
        assert!(parse(&vec!["((a))"; 100].join(" and ")).is_ok());
    }

    #[test]
    fn length_is_bounded_and_chains_are_flat() {
        for operator in ["and", "or"] {
            let chain = |length: usize| vec!["a eq 1"; length].join(&format!(" {operator} "));
            match parse(&chain(FILTER_COMPARISONS_MAX)) {
                Ok(Some(Filter::And(terms) | Filter::Or(terms))) => {
                    assert_eq!(terms.len(), FILTER_COMPARISONS_MAX)
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(outcome(&chain(FILTER_COMPARISONS_MAX + 1)), "invalid");
        }
        assert_eq!(outcome(&vec!["a"; FILTER_COMPARISONS_MAX + 1].join(" and ")), "invalid");
    }
}
