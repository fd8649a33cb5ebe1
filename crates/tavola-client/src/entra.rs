//! Tokens of Microsoft Entra ID, from the credentials of `azure_identity`.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use azure_core::credentials::TokenCredential;

use crate::credential::{Credential, Secret, SourceError, TokenSource};
use crate::runtime::BoxFuture;

/// What a token for tables of a storage account is asked for.
const SCOPE: &str = "https://storage.azure.com/.default";

impl Credential {
    /// Tokens of Microsoft Entra ID. One is used until shortly before it ends; requests that come
    /// while a new one is asked for wait for it.
    ///
    /// ```
    /// # fn main() -> Result<(), tavola_client::Error> {
    /// use std::sync::Arc;
    /// use azure_core::credentials::TokenCredential;
    /// use tavola_client::{Credential, TableServiceClient};
    ///
    /// fn service(credential: Arc<dyn TokenCredential>) -> Result<TableServiceClient, tavola_client::Error> {
    ///     let endpoint = "https://shop.table.core.windows.net";
    ///     TableServiceClient::new(endpoint, Some(Credential::entra(credential)), None)
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn entra(credential: Arc<dyn TokenCredential>) -> Self {
        Self::Token(Arc::new(EntraTokens(credential)))
    }
}

struct EntraTokens(Arc<dyn TokenCredential>);

impl fmt::Debug for EntraTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EntraTokens(***)")
    }
}

impl TokenSource for EntraTokens {
    fn token(&self) -> BoxFuture<'_, Result<Secret, SourceError>> {
        Box::pin(async {
            let token = self.0.get_token(&[SCOPE], None).await?;
            Ok(Secret::new(token.token.secret(), Some(SystemTime::from(token.expires_on))))
        })
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use azure_core::credentials::{AccessToken, TokenRequestOptions};

    use super::*;
    use crate::store::http::signed_by;

    /// Tokens that are good for an hour, numbered, until there are no more.
    #[derive(Debug)]
    struct Numbered {
        begun: SystemTime,
        asked: Mutex<Vec<String>>,
        tokens_max: usize,
    }

    #[async_trait::async_trait]
    impl TokenCredential for Numbered {
        async fn get_token(
            &self,
            scopes: &[&str],
            _: Option<TokenRequestOptions<'_>>,
        ) -> azure_core::Result<AccessToken> {
            let mut asked = self.asked.lock().expect("no test panicked with it");
            asked.push(scopes.join(" "));
            let number = asked.len();
            if number > self.tokens_max {
                let kind = azure_core::error::ErrorKind::Credential;
                return Err(azure_core::Error::with_message(kind, "no more"));
            }
            let expires = self.begun + Duration::from_secs(3600 * number as u64);
            Ok(AccessToken::new(format!("token{number}"), expires.into()))
        }
    }

    /// A token is used until five minutes before it ends; the old one longer if there is no new one.
    #[tokio::test]
    async fn tokens_are_renewed_before_they_end() {
        let begun = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let source = Numbered { begun, asked: Mutex::default(), tokens_max: 2 };
        let source = Arc::new(source);
        let credential = Credential::entra(source.clone());
        assert!(!format!("{credential:?}").contains("Numbered"));
        let minutes = [0, 1, 54, 56, 57, 110, 116, 119, 121];
        let sent =
            signed_by(credential, &minutes.map(|at| begun + Duration::from_secs(60 * at))).await;
        let texts: Vec<_> = sent.iter().map(|one| one.as_deref().unwrap_or("refused")).collect();
        let (first, second) = ("Bearer token1", "Bearer token2");
        let expected = [first, first, first, second, second, second, second, second, "refused"];
        assert_eq!(texts, expected);
        let asked = source.asked.lock().unwrap();
        assert!(asked.iter().all(|scope| scope == "https://storage.azure.com/.default"));
        // The first, the second, and three times in vain.
        assert_eq!(asked.len(), 5);
    }
}
