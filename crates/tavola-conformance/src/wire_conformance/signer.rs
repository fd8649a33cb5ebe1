//! SharedKey and SharedKeyLite for the Table service, written from section 4.1 of the protocol
//! reference.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The two shared key schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    SharedKey,
    SharedKeyLite,
}

impl Scheme {
    pub(super) const BOTH: [Scheme; 2] = [Scheme::SharedKey, Scheme::SharedKeyLite];

    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::SharedKey => "SharedKey",
            Scheme::SharedKeyLite => "SharedKeyLite",
        }
    }
}

/// What a signature is made of. Absent headers are empty.
#[derive(Debug, Clone, Default)]
pub(super) struct SignedParts {
    pub(super) method: String,
    pub(super) content_md5: String,
    pub(super) content_type: String,
    pub(super) date: String,
    pub(super) resource: String,
}

impl SignedParts {
    pub(super) fn string_to_sign(&self, scheme: Scheme) -> String {
        match scheme {
            Scheme::SharedKey => {
                [&self.method, &self.content_md5, &self.content_type, &self.date, &self.resource]
                    .map(String::as_str)
                    .join("\n")
            }
            Scheme::SharedKeyLite => format!("{}\n{}", self.date, self.resource),
        }
    }
}

/// `/account`, the path as sent, and `?comp=` if the query has it.
pub(super) fn canonicalized_resource(account: &str, target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = if path.is_empty() { "/" } else { path };
    let comp = query
        .split('&')
        .find_map(|parameter| parameter.strip_prefix("comp="))
        .map(|value| format!("?comp={value}"))
        .unwrap_or_default();
    format!("/{account}{path}{comp}")
}

/// Bytes as Base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Base64 of the HMAC-SHA256 of a text.
pub(super) fn signature(key: &[u8], string_to_sign: &str) -> String {
    signature_of(key, string_to_sign.as_bytes())
}

/// Base64 of the HMAC-SHA256 of bytes that need not be a text.
pub(super) fn signature_of(key: &[u8], bytes: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(bytes);
    base64(&mac.finalize().into_bytes())
}

/// The public key of the development account.
pub(super) const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Mon, 16 Nov 2026 00:05:27 GMT";

    struct Vector {
        scheme: Scheme,
        method: &'static str,
        content_type: &'static str,
        date: &'static str,
        target: &'static str,
        signature: &'static str,
    }

    const fn vector(
        method: &'static str,
        content_type: &'static str,
        target: &'static str,
        signature: &'static str,
    ) -> Vector {
        Vector { scheme: Scheme::SharedKey, method, content_type, date: DATE, target, signature }
    }

    /// Statements 41 and 42: the vectors of the reference, in its order.
    const VECTORS: [Vector; 10] = [
        vector(
            "POST",
            "application/json;odata=nometadata",
            "/devstoreaccount1/Tables",
            "I39+IkQVCh3qA1wSS2Ji0dErzzX7scG1ERpYa4iFCpg=",
        ),
        vector(
            "GET",
            "",
            "/devstoreaccount1/PyTab1(PartitionKey='p',RowKey='r1')",
            "jMVm2k+XY3w0XNaKHuTO/uV2jps9dNtdC6MIoFObAV0=",
        ),
        vector(
            "PATCH",
            "application/json",
            "/devstoreaccount1/PyTab1(PartitionKey='p',RowKey='r2%20%27%27%C3%A9%2B%26%25')",
            "U+9xDiKtEzvt9MbS7kHcwTcClXkIMQ+JgOtZBE3q/Cw=",
        ),
        vector(
            "GET",
            "",
            "/devstoreaccount1/PyTab1()?$select=PartitionKey&$filter=v%20ge%201",
            "BA3TXGsFxNnIn7BKWTOxeVCzNGaGjzWpgjkH728yTdg=",
        ),
        vector(
            "GET",
            "",
            "/devstoreaccount1/?restype=service&comp=properties",
            "8BKb0whwf2bYP1Pu8txRYQ2UUMbSkfqd/+D5dW8Vh5c=",
        ),
        vector(
            "PUT",
            "application/xml",
            "/devstoreaccount1/PyTab1?comp=acl",
            "0g0/cbGZHoZXswownWaDi4geoW2RVQLo79E7/+ZeYkA=",
        ),
        vector(
            "POST",
            "multipart/mixed; boundary=batch_1e39cf1e-c55d-4e5c-8f3b-364d0896ef43",
            "/devstoreaccount1/$batch",
            "ttfEQB6IPTbVU98EuSnEHdEeL0ePtB/eHIwIFc1Rn1Q=",
        ),
        vector(
            "DELETE",
            "",
            "/devstoreaccount1/PyTab1(PartitionKey='p',RowKey='b2')",
            "PpudQFc3eHTrh84/1s8z1wHC+5uQy9IS2H50ofdVO6s=",
        ),
        Vector {
            scheme: Scheme::SharedKeyLite,
            method: "POST",
            content_type: "",
            date: DATE,
            target: "/devstoreaccount1/Tables",
            signature: "YLvE0K4KEA72e1gt0Q2TNSOddoOodNuV5DaUIK+pTyI=",
        },
        Vector {
            scheme: Scheme::SharedKeyLite,
            method: "GET",
            content_type: "",
            date: "Mon, 16 Nov 2026 00:06:39 GMT",
            target: "/devstoreaccount1/JsTab1(PartitionKey='p',RowKey='r''2%20%C3%A9')",
            signature: "s5WbwXtAuCSnWRwis1OSu2iAdq54wLkRmqIRtX3tfrU=",
        },
    ];

    #[test]
    fn vectors_of_the_reference() {
        let key = STANDARD.decode(DEVELOPMENT_KEY).unwrap();
        for (index, vector) in VECTORS.iter().enumerate() {
            let parts = SignedParts {
                method: vector.method.to_owned(),
                content_md5: String::new(),
                content_type: vector.content_type.to_owned(),
                date: vector.date.to_owned(),
                resource: canonicalized_resource("devstoreaccount1", vector.target),
            };
            let text = parts.string_to_sign(vector.scheme);
            assert_eq!(signature(&key, &text), vector.signature, "vector {}", index + 1);
        }
    }
}
