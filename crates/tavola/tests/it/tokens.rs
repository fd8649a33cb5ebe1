//! Bearer tokens of a real issuer, over https, to the real binary.

use std::path::Path;
use std::process::Command;

use crate::common::client::Client;
use crate::common::{ACCOUNT, KEY, RunningServer, tavola};
use crate::tls::client::{Files, SecureClient, eventually, whole};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tavola_testkit::oidc_issuer::OidcIssuer;
use tavola_testkit::record;

/// A server that trusts an issuer, and a connection to it.
struct World {
    issuer: OidcIssuer,
    server: RunningServer,
    client: SecureClient,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let issuer = OidcIssuer::start().await;
        let config = folder.path().join("tavola.toml");
        std::fs::write(&config, configuration(issuer.url())).unwrap();
        let files = Files::make(&folder.path().join("certificates"));
        let server = RunningServer::start_with(&folder.path().join("data"), |command| {
            command.arg("--accounts-folder").arg(folder.path().join("accounts"));
            command.arg("--audit-file").arg(folder.path().join("audit.json"));
            command.arg("--config").arg(config).args(certificate(&files))
        });
        let client = SecureClient::connect(&server.table, &files.trust_h2()).await.unwrap();
        Self { issuer, server, client, folder }
    }

    fn token(&self, claims: Value) -> String {
        let token = self.issuer.token(&claims);
        record::secret(&token);
        token
    }

    async fn ask(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: &'static str,
    ) -> Response<Bytes> {
        ask(&self.client, &self.server, token, "2020-12-06", method, path, body).await
    }

    /// "201", or "403 AuthorizationPermissionMismatch".
    async fn verdict(&self, token: &str, method: Method, path: &str, body: &'static str) -> String {
        verdict(&self.ask(token, method, path, body).await)
    }
}

fn configuration(issuer: &str) -> String {
    format!(
        "[accounts.{ACCOUNT}]\nkey1 = \"{KEY}\"\n\
         [auth.oidc.corp]\nissuer = \"{issuer}\"\nauthorization_uri = \"https://login.example/authorize\"\n\
         [auth.roles.readers]\nvalue = \"Reader\"\nrole = \"reader\"\n\
         [auth.roles.writers]\nissuer = \"corp\"\nvalue = \"Writer\"\nrole = \"Storage Table Data Contributor\"\n\
         [auth.roles.one]\nvalue = \"OneTable\"\nrole = \"contributor\"\ntables = [\"mine\"]\n\
         [auth.roles.elsewhere]\nvalue = \"Elsewhere\"\nrole = \"contributor\"\naccount = \"other\"\n\
         [auth.roles.people]\nclaim = \"groups\"\nvalue = \"staff\"\nrole = \"reader\"\n\
         [auth.roles.admins]\nvalue = \"Admin\"\nrole = \"administrator\"\n"
    )
}

fn certificate(files: &Files) -> [std::ffi::OsString; 4] {
    [
        "--tls-cert".into(),
        files.path("cert.pem").into(),
        "--tls-key".into(),
        files.path("key.pem").into(),
    ]
}

async fn ask(
    client: &SecureClient,
    server: &RunningServer,
    token: &str,
    version: &str,
    method: Method,
    path: &str,
    body: &'static str,
) -> Response<Bytes> {
    let request = Request::builder()
        .method(method)
        .uri(format!("https://{}/{ACCOUNT}{path}", server.table))
        .header("authorization", format!("Bearer {token}"))
        .header("x-ms-version", version)
        .header("content-type", "application/json")
        .body(whole(Bytes::from_static(body.as_bytes())))
        .unwrap();
    client.send(request).await.unwrap()
}

fn verdict(response: &Response<Bytes>) -> String {
    let status = response.status().as_u16().to_string();
    match response.headers().get("x-ms-error-code") {
        Some(code) => format!("{status} {}", code.to_str().unwrap()),
        None => status,
    }
}

const ENTITY: &str = r#"{"PartitionKey":"p","RowKey":"r","v":1}"#;

/// Who bears a token is what its issuer says; of a token that does not hold nothing is believed.
#[tokio::test]
async fn the_audit_log_names_the_bearer() {
    let world = World::new().await;
    let writer = world.token(json!({"roles": ["Writer"], "sub": "jane"}));
    assert_eq!(
        world.verdict(&writer, Method::POST, "/Tables", r#"{"TableName":"mine"}"#).await,
        "201"
    );
    let forged = format!("{}AAAA", &writer[..writer.len() - 4]);
    assert_eq!(
        world.ask(&forged, Method::GET, "/Tables", "").await.status(),
        StatusCode::UNAUTHORIZED
    );
    let audit = || std::fs::read_to_string(world.folder.path().join("audit.json")).unwrap();
    eventually("both are in the log", async || {
        (audit().matches("\"credential\"").count() == 2).then_some(())
    })
    .await;
    let lines: Vec<Value> =
        audit().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<Value> = lines.into_iter().filter(|line| line["event"] == "request").collect();
    let who = |line: &Value| {
        ["credential", "issuer", "subject", "authenticated"].map(|name| line[name].clone())
    };
    assert_eq!(json!(who(&lines[0])), json!(["token", world.issuer.url(), "jane", true]));
    assert_eq!(json!(who(&lines[1])), json!(["token", null, null, false]));
    assert_eq!(lines[1]["reason"], "signature");
    assert!(!audit().contains(&writer));
}

/// Statement 59, which needs https.
#[tokio::test]
async fn roles_decide() {
    let world = World::new().await;
    let writer = world.token(json!({"roles": ["Writer"]}));
    assert_eq!(
        world.verdict(&writer, Method::POST, "/Tables", r#"{"TableName":"mine"}"#).await,
        "201"
    );
    assert_eq!(
        world.verdict(&writer, Method::POST, "/Tables", r#"{"TableName":"yours"}"#).await,
        "201"
    );
    assert_eq!(world.verdict(&writer, Method::POST, "/mine", ENTITY).await, "201");
    assert_eq!(world.verdict(&writer, Method::POST, "/yours", ENTITY).await, "201");
    let point = "(PartitionKey='p',RowKey='r')";
    let (mine, yours) = (format!("/mine{point}"), format!("/yours{point}"));
    let mismatch = "403 AuthorizationPermissionMismatch";
    for (claims, read_mine, read_yours, write_mine, write_yours, list) in [
        (json!({"roles": "Reader"}), "200", "200", mismatch, mismatch, "200"),
        (json!({"groups": ["x", "staff"]}), "200", "200", mismatch, mismatch, "200"),
        (json!({"roles": ["Writer"]}), "200", "200", "204", "204", "200"),
        (json!({"roles": ["OneTable"]}), "200", mismatch, "204", mismatch, mismatch),
        (json!({"roles": ["OneTable", "Reader"]}), "200", "200", "204", mismatch, "200"),
        (
            json!({"roles": ["Elsewhere", "Unknown"]}),
            mismatch,
            mismatch,
            mismatch,
            mismatch,
            mismatch,
        ),
        (json!({}), mismatch, mismatch, mismatch, mismatch, mismatch),
    ] {
        let token = world.token(claims.clone());
        assert_eq!(world.verdict(&token, Method::GET, &mine, "").await, read_mine, "{claims}");
        assert_eq!(world.verdict(&token, Method::GET, &yours, "").await, read_yours, "{claims}");
        assert_eq!(world.verdict(&token, Method::PUT, &mine, "{}").await, write_mine, "{claims}");
        assert_eq!(world.verdict(&token, Method::PUT, &yours, "{}").await, write_yours, "{claims}");
        assert_eq!(world.verdict(&token, Method::GET, "/Tables", "").await, list, "{claims}");
        // Statement 59: for tokens there are no access policies.
        assert_eq!(
            world.verdict(&token, Method::GET, "/mine?comp=acl", "").await,
            "404 ResourceNotFound",
            "{claims}"
        );
    }
}

/// A contributor could otherwise open the account to every web page.
#[tokio::test]
async fn only_administrators_set_service_properties() {
    const PROPERTIES: &str = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins>\
        <AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders>\
        <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";
    let world = World::new().await;
    let path = "/?restype=service&comp=properties";
    for (role, read, written) in [
        ("Reader", "200", "403 AuthorizationPermissionMismatch"),
        ("Writer", "200", "403 AuthorizationPermissionMismatch"),
        ("Admin", "200", "202"),
    ] {
        let token = world.token(json!({"roles": role}));
        assert_eq!(world.verdict(&token, Method::PUT, path, PROPERTIES).await, written, "{role}");
        let response = world.ask(&token, Method::GET, path, "").await;
        assert_eq!(verdict(&response), read, "{role}");
        let has_rule = String::from_utf8_lossy(response.body()).contains("<CorsRule>");
        assert_eq!(has_rule, written == "202", "{role}");
    }
}

/// Statements 56 and 58 for tokens that do not hold, and what older versions are told.
#[tokio::test]
async fn tokens_that_do_not_hold_get_the_challenge() {
    let world = World::new().await;
    let stranger = OidcIssuer::start().await;
    let good = world.token(json!({"roles": ["Writer"]}));
    let (head, payload) = (good.split('.').next().unwrap(), good.split('.').nth(1).unwrap());
    let unsigned = format!("eyJhbGciOiJub25lIn0.{payload}.");
    for (token, what) in [
        (stranger.token(&json!({"roles": ["Writer"]})), "another issuer"),
        (stranger.token(&json!({"roles": ["Writer"], "iss": world.issuer.url()})), "another's key"),
        (
            world.token(json!({"roles": ["Writer"], "aud": "https://graph.example"})),
            "another audience",
        ),
        (world.token(json!({"roles": ["Writer"], "exp": 1_000_000_000})), "expired"),
        (world.token(json!({"roles": ["Writer"], "nbf": 4_000_000_000_u64})), "not yet valid"),
        (unsigned, "alg none"),
        (format!("{head}.{payload}."), "no signature"),
        ("x".repeat(20_000), "oversize"),
        ("rubbish".to_owned(), "rubbish"),
        (String::new(), "empty"),
    ] {
        let response = world.ask(&token, Method::GET, "/Tables", "").await;
        assert_eq!(verdict(&response), "401 InvalidAuthenticationInfo", "{what}");
        let challenge = "Bearer authorization_uri=https://login.example/authorize resource_id=https://storage.azure.com";
        assert_eq!(response.headers()["www-authenticate"], challenge, "{what}");
        let old =
            ask(&world.client, &world.server, &token, "2019-02-02", Method::GET, "/Tables", "")
                .await;
        assert_eq!(verdict(&old), "403 AuthenticationFailed", "{what}");
        assert!(!old.headers().contains_key("www-authenticate"), "{what}");
        let text = String::from_utf8_lossy(old.body()).into_owned();
        assert!(token.len() < 30 || !text.contains(&token), "{what}: {text}");
    }
    assert_eq!(world.verdict(&good, Method::GET, "/Tables", "").await, "200");
}

#[tokio::test]
async fn a_token_over_plain_http_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let issuer = OidcIssuer::start().await;
    let config = folder.path().join("tavola.toml");
    std::fs::write(&config, configuration(issuer.url())).unwrap();
    let start = |proxies: &str| {
        RunningServer::start_with(
            &folder.path().join(format!("data{}", proxies.len())),
            |command| {
                command.arg("--config").arg(&config).env("TAVOLA_SERVER__TRUSTED_PROXIES", proxies)
            },
        )
    };
    let token = issuer.token(&json!({"roles": ["Reader"]}));
    record::secret(&token);
    let status = async |server: &RunningServer| {
        let request = Request::get(format!("/{ACCOUNT}/Tables"))
            .header("authorization", format!("Bearer {token}"))
            .header("x-forwarded-proto", "https")
            .body(Bytes::new())
            .unwrap();
        let table = server.table.clone();
        let asked = move || Client::connect(&table).unwrap().exchange(&request).unwrap().status();
        tokio::task::spawn_blocking(asked).await.unwrap()
    };
    assert_eq!(status(&start("")).await, StatusCode::FORBIDDEN, "anybody can write the header");
    assert_eq!(
        status(&start("127.0.0.1")).await,
        StatusCode::OK,
        "a proxy that is named is believed"
    );
}

#[tokio::test]
async fn administrators_may_use_the_admin_port() {
    let world = World::new().await;
    let accounts = world.folder.path().join("accounts");
    let added = tavola()
        .args(["account", "add", "shop", "--accounts-folder"])
        .arg(&accounts)
        .output()
        .unwrap();
    assert!(added.status.success(), "{added:?}");
    let (admin, writer) =
        (world.token(json!({"roles": "Admin"})), world.token(json!({"roles": "Writer"})));
    assert_eq!(post_blocking(&world, &writer, "/reload").await, StatusCode::UNAUTHORIZED);
    assert_eq!(post_blocking(&world, &admin, "/reload").await, StatusCode::OK);
    assert_eq!(post_blocking(&world, &admin, "/accounts/shop/rotate?key=1").await, StatusCode::OK);
    assert_eq!(
        post_blocking(&world, &writer, "/accounts/shop/rotate?key=1").await,
        StatusCode::UNAUTHORIZED
    );
}

/// The issuer runs on this thread too, so the blocking client must not.
async fn post_blocking(world: &World, token: &str, path: &str) -> StatusCode {
    let (admin, token, path) = (world.server.admin.clone(), token.to_owned(), path.to_owned());
    let asked = tokio::task::spawn_blocking(move || {
        let request = Request::post(path).header("authorization", format!("Bearer {token}"));
        Client::connect(&admin)
            .unwrap()
            .exchange(&request.body(Bytes::new()).unwrap())
            .unwrap()
            .status()
    });
    asked.await.unwrap()
}

/// `--oauth basic`, as Azurite means it: claims count, signatures do not; in this personality
/// alone.
#[tokio::test]
async fn azurite_takes_tokens_by_their_claims() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::make(&folder.path().join("certificates"));
    let mut command = azurite(folder.path());
    command.args(["--tablePort", "0", "--silent", "--inMemoryPersistence", "--oauth", "basic"]);
    command.arg("--cert").arg(files.path("cert.pem")).arg("--key").arg(files.path("key.pem"));
    let server = RunningServer::spawn(&mut command);
    let client = SecureClient::connect(&server.table, &files.trust_h2()).await.unwrap();
    let stranger = OidcIssuer::start().await;
    let token = |claims: Value| stranger.token(&claims);
    let good = json!({"iss": "https://sts.windows.net/tenant/", "aud": "https://storage.azure.com", "nbf": 0});
    let mut other = good.clone();
    other["aud"] = json!("https://graph.example");
    let mut past = good.clone();
    past["exp"] = json!(1_000_000_000);
    for (claims, expected) in [
        (good, "201"),
        (other, "401 InvalidAuthenticationInfo"),
        (past, "401 InvalidAuthenticationInfo"),
    ] {
        let body = r#"{"TableName":"table"}"#;
        let response = ask(
            &client,
            &server,
            &token(claims.clone()),
            "2020-12-06",
            Method::POST,
            "/Tables",
            body,
        )
        .await;
        assert_eq!(verdict(&response), expected, "{claims}");
    }
}

fn azurite(folder: &Path) -> Command {
    let link = folder.join("azurite-table");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tavola"), &link).unwrap();
    let mut command = Command::new(link);
    command.current_dir(folder).env_remove("AZURITE_ACCOUNTS");
    command
}
