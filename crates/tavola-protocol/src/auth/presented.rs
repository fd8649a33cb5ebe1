//! What a request shows as its credential, whether or not it holds: for logs, which must tell
//! credentials apart without holding one.

use std::fmt::Write as _;

use http::header::AUTHORIZATION;
use http::request::Parts;
use sha2::{Digest as _, Sha256};
use tavola_core::ServiceKind;

use super::shared_key::Credentials;
use super::signer::SignatureKind;
use super::{SasFields, bearer};

/// The kind of the credential that a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presented {
    /// No credential at all.
    Nothing,
    /// An `Authorization` header that cannot be read.
    Unreadable,
    /// Something that a key of an account signed.
    Signature(SignatureKind),
    /// A bearer token.
    Token,
}

/// What is not secret about a shared access signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentedSas {
    /// SHA-256 of the text of `sig`, in hexadecimal: whoever has the signature can find its
    /// requests, and whoever reads the log cannot use it.
    pub sha256: String,
    /// `si`, the access policy that it names.
    pub policy: Option<String>,
    /// For an account or for a table.
    pub kind: SignatureKind,
}

impl Presented {
    /// What `authenticate` would look at. A header counts more than a signature in the URL.
    #[must_use]
    pub fn of(service: ServiceKind, parts: &Parts) -> Self {
        match parts.headers.get(AUTHORIZATION) {
            Some(authorization) => authorization.to_str().map_or(Self::Unreadable, Self::of_header),
            None => PresentedSas::of(service, parts.uri.query())
                .map_or(Self::Nothing, |sas| Self::Signature(sas.kind)),
        }
    }

    fn of_header(authorization: &str) -> Self {
        if bearer(authorization).is_some() {
            return Self::Token;
        }
        let credentials = Credentials::parse(authorization);
        credentials.map_or(Self::Unreadable, |credentials| {
            Self::Signature(SignatureKind::Request(credentials.scheme))
        })
    }
}

impl PresentedSas {
    /// What a query string carries.
    #[must_use]
    pub fn of(service: ServiceKind, query: Option<&str>) -> Option<Self> {
        let query = query.filter(|query| SasFields::are_in(Some(query)))?;
        // A signature whose fields cannot be read is still one that was shown.
        let fields = SasFields::parse(query).unwrap_or_default();
        let mut sha256 = String::with_capacity(64);
        for byte in Sha256::digest(fields.text("sig")) {
            let _infallible = write!(sha256, "{byte:02x}");
        }
        let of_account = fields.given("ss").is_some() || fields.given("srt").is_some();
        let kind =
            if of_account { SignatureKind::AccountSas } else { SignatureKind::ServiceSas(service) };
        Some(Self { sha256, policy: fields.given("si").map(str::to_owned), kind })
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use tavola_core::ServiceKind;

    use super::{Presented, PresentedSas, SignatureKind};
    use crate::auth::Scheme;

    fn presented(authorization: Option<&str>, target: &str) -> Presented {
        let mut request = Request::get(target);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        Presented::of(ServiceKind::Table, &request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn every_kind() {
        assert_eq!(presented(None, "/a/t?$top=1"), Presented::Nothing);
        assert_eq!(presented(Some("Bearer abc"), "/a/t?sig=x"), Presented::Token);
        for (scheme, text) in [
            (Scheme::SharedKey, "SharedKey a:c2ln"),
            (Scheme::SharedKeyLite, "SharedKeyLite a:c2ln"),
        ] {
            assert_eq!(
                presented(Some(text), "/a/t"),
                Presented::Signature(SignatureKind::Request(scheme))
            );
        }
        assert_eq!(
            presented(None, "/a/t?sig=x&tn=t"),
            Presented::Signature(SignatureKind::ServiceSas(ServiceKind::Table))
        );
        assert_eq!(
            presented(None, "/a/t?sig=x&srt=o"),
            Presented::Signature(SignatureKind::AccountSas)
        );
        for odd in ["Basic abc", "SharedKey", "SharedKey a"] {
            assert_eq!(presented(Some(odd), "/a/t"), Presented::Unreadable, "{odd}");
        }
    }

    #[test]
    fn a_signature_is_known_by_its_hash_alone() {
        // printf %s 'c2ln/+==' | sha256sum
        let sha256 = "d21ca9ab9b01810b76586167a3a82e9c3e86265e6386a6e847f35c384062d016".to_owned();
        let expected = PresentedSas {
            sha256,
            policy: Some("readers".to_owned()),
            kind: SignatureKind::ServiceSas(ServiceKind::Table),
        };
        let shown = PresentedSas::of(
            ServiceKind::Table,
            Some("sv=2020-12-06&sig=c2ln%2F%2B%3D%3D&si=readers"),
        );
        assert_eq!(shown, Some(expected.clone()));
        let shown = PresentedSas::of(ServiceKind::Table, Some("SIG=c2ln/%2b==&ss=t&srt=o"));
        assert_eq!(
            shown,
            Some(PresentedSas { policy: None, kind: SignatureKind::AccountSas, ..expected })
        );
        assert!(PresentedSas::of(ServiceKind::Table, Some("sig=%zz&sig=1")).is_some());
        assert_eq!(PresentedSas::of(ServiceKind::Table, Some("si=readers")), None);
    }
}
