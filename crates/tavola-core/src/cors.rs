//! CORS: which rule of a service answers a browser.

/// One rule. Lists hold what stood between the commas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CorsRule {
    /// Exact origins, `*`, or one wildcard as in `http://*.contoso.com`.
    pub allowed_origins: Vec<String>,
    /// Methods.
    pub allowed_methods: Vec<String>,
    /// Names, or prefixes that end in `*`.
    pub allowed_headers: Vec<String>,
    /// Names, or prefixes that end in `*`.
    pub exposed_headers: Vec<String>,
    /// How long a browser may keep a preflight's answer.
    pub max_age_seconds: u32,
}

impl CorsRule {
    const LITERALS_MAX: usize = 64;
    const PREFIXES_MAX: usize = 2;
    const ITEM_CHARS_MAX: usize = 256;
    const METHODS: [&'static str; 8] =
        ["DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH"];

    /// True if every list is within the service's limits.
    #[must_use]
    pub fn is_legal(&self) -> bool {
        let fits =
            |list: &[String]| list.iter().all(|item| item.chars().count() <= Self::ITEM_CHARS_MAX);
        let headers_fit = |list: &[String]| {
            let prefixes = list.iter().filter(|name| name.ends_with('*')).count();
            fits(list)
                && prefixes <= Self::PREFIXES_MAX
                && list.len() - prefixes <= Self::LITERALS_MAX
        };
        let methods_known =
            self.allowed_methods.iter().all(|method| Self::METHODS.contains(&method.as_str()));
        fits(&self.allowed_origins)
            && !self.allowed_origins.is_empty()
            && self.allowed_origins.len() <= Self::LITERALS_MAX
            && !self.allowed_methods.is_empty()
            && methods_known
            && headers_fit(&self.allowed_headers)
            && headers_fit(&self.exposed_headers)
    }

    /// True if the rule takes every origin.
    #[must_use]
    pub fn allows_any_origin(&self) -> bool {
        self.allowed_origins.iter().any(|allowed| allowed == "*")
    }

    fn allows_origin(&self, origin: &str) -> bool {
        self.allowed_origins.iter().any(|allowed| match allowed.split_once('*') {
            None => allowed == origin,
            Some((before, after)) => {
                let long_enough = origin.len() >= before.len() + after.len();
                long_enough && origin.starts_with(before) && origin.ends_with(after)
            }
        })
    }

    fn allows_method(&self, method: &str) -> bool {
        self.allowed_methods.iter().any(|allowed| allowed == method)
    }

    /// True if a preflight's requested header is one that the rule takes.
    #[must_use]
    pub fn allows_header(&self, header: &str) -> bool {
        self.allowed_headers.iter().any(|allowed| name_matches(allowed, header))
    }

    /// True if a response header is one that the rule exposes.
    #[must_use]
    pub fn exposes(&self, header: &str) -> bool {
        self.exposed_headers.iter().any(|exposed| name_matches(exposed, header))
    }
}

fn name_matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        None => pattern.eq_ignore_ascii_case(name),
        Some(prefix) => {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        }
    }
}

/// The first rule that takes the origin and the method. No later rule is tried, even if this one
/// then refuses a header.
#[must_use]
pub fn rule_for<'a>(rules: &'a [CorsRule], origin: &str, method: &str) -> Option<&'a CorsRule> {
    rules.iter().find(|rule| rule.allows_origin(origin) && rule.allows_method(method))
}

#[cfg(test)]
mod tests {
    use super::{CorsRule, rule_for};

    fn rule(origins: &[&str], methods: &[&str], headers: &[&str]) -> CorsRule {
        let owned = |list: &[&str]| list.iter().map(|&item| item.to_owned()).collect();
        CorsRule {
            allowed_origins: owned(origins),
            allowed_methods: owned(methods),
            allowed_headers: owned(headers),
            exposed_headers: Vec::new(),
            max_age_seconds: 0,
        }
    }

    #[test]
    fn the_first_rule_with_origin_and_method_decides() {
        let rules = [
            rule(&["http://a.com"], &["GET"], &["x-ms-meta-abc"]),
            rule(&["http://a.com", "http://*.b.com"], &["GET", "PUT"], &["x-ms-*"]),
        ];
        let found = |origin, method| {
            rule_for(&rules, origin, method).map(|rule| rule.allows_header("X-MS-date"))
        };
        assert_eq!(found("http://a.com", "GET"), Some(false));
        assert_eq!(found("http://a.com", "PUT"), Some(true));
        assert_eq!(found("http://x.b.com", "PUT"), Some(true));
        assert_eq!(found("http://A.com", "PUT"), None);
        assert_eq!(found("http://b.com", "PUT"), None);
        assert_eq!(found("http://a.com", "POST"), None);
    }

    #[test]
    fn limits() {
        assert!(rule(&["*"], &["GET"], &[]).is_legal());
        assert!(!rule(&["*"], &["BREW"], &[]).is_legal());
        assert!(!rule(&[], &["GET"], &[]).is_legal());
        assert!(!rule(&["*"], &["GET"], &["a*", "b*", "c*"]).is_legal());
        assert!(!rule(&[&"x".repeat(257)], &["GET"], &[]).is_legal());
    }
}
