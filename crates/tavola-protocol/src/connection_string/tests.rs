use proptest::prelude::*;
use tavola_core::{AccountName, ServiceKind};

use super::{
    ConnectionString, ConnectionStringError as Error, DEVELOPMENT_KEY, Endpoint, EndpointError,
    Secret,
};

const KEY: &str = "c2VjcmV0IGtleSBvZiBhIHNob3A=";
const SAS: &str =
    "sv=2019-02-02&tn=employees&sp=r&se=2034-01-01T00%3A00%3A00Z&sig=c2lnbmF0dXJl%2Bx%3D";

fn parse(text: &str) -> ConnectionString {
    ConnectionString::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn tables(string: &ConnectionString) -> &Endpoint {
    string.endpoint(ServiceKind::Table).unwrap()
}

/// `account endpoint`
fn check_place(text: &str, expected: &str) {
    let string = parse(text);
    let account = string.account().map_or("-", AccountName::as_str);
    assert_eq!(format!("{account} {}", tables(&string)), expected, "{text}");
}

#[test]
fn where_an_account_is() {
    let key = format!("AccountKey={KEY}");
    for (text, expected) in [
        (format!("AccountName=shop;{key}"), "shop https://shop.table.core.windows.net"),
        (
            format!("DefaultEndpointsProtocol=http;AccountName=shop;{key}"),
            "shop http://shop.table.core.windows.net",
        ),
        (
            format!("AccountName=shop;{key};EndpointSuffix=core.test"),
            "shop https://shop.table.core.test",
        ),
        (
            format!("accountname=shop;ACCOUNTKEY={KEY};tableendpoint=HTTP://h:1/shop/;"),
            "shop http://h:1/shop",
        ),
        (format!(" AccountName = shop ; {key} ;\n"), "shop https://shop.table.core.windows.net"),
        (
            format!("TableEndpoint=https://shop.table.test/;SharedAccessSignature={SAS}"),
            "shop https://shop.table.test",
        ),
        (
            format!("TableEndpoint=http://127.0.0.1:10002/shop;SharedAccessSignature=?{SAS}"),
            "shop http://127.0.0.1:10002/shop",
        ),
        (
            format!("AccountName=a;TableEndpoint=http://h/b;SharedAccessSignature={SAS}"),
            "a http://h/b",
        ),
        (
            format!("TableEndpoint=http://localhost;SharedAccessSignature={SAS}"),
            "- http://localhost",
        ),
        (
            "UseDevelopmentStorage=true".to_owned(),
            "devstoreaccount1 http://127.0.0.1:10002/devstoreaccount1",
        ),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://emulator:8080/x"
                .to_owned(),
            "devstoreaccount1 http://emulator:10002/devstoreaccount1",
        ),
    ] {
        check_place(&text, expected);
    }
}

/// Where each service is, in the order of their ports; `-` for one that the string does not name.
fn places(text: &str) -> String {
    let string = parse(text);
    let place = |service| string.endpoint(service).map_or("-", Endpoint::as_str).to_owned();
    ServiceKind::ALL.map(place).join(" ")
}

#[test]
fn every_service_has_an_endpoint() {
    let key = format!("AccountKey={KEY}");
    for (text, expected) in [
        (
            "UseDevelopmentStorage=true".to_owned(),
            "http://127.0.0.1:10000/devstoreaccount1 http://127.0.0.1:10001/devstoreaccount1 \
             http://127.0.0.1:10002/devstoreaccount1",
        ),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=https://emulator".to_owned(),
            "https://emulator:10000/devstoreaccount1 https://emulator:10001/devstoreaccount1 \
             https://emulator:10002/devstoreaccount1",
        ),
        (
            format!("AccountName=shop;{key};EndpointSuffix=core.test;QueueEndpoint=http://q/shop"),
            "https://shop.blob.core.test http://q/shop https://shop.table.core.test",
        ),
        (
            format!("QueueEndpoint=https://shop.queue.test;SharedAccessSignature={SAS}"),
            "- https://shop.queue.test -",
        ),
        (
            format!("BlobEndpoint=http://b/x;TableEndpoint=http://t/x;SharedAccessSignature={SAS}"),
            "http://b/x - http://t/x",
        ),
    ] {
        assert_eq!(places(&text), expected, "{text}");
    }
}

#[test]
fn an_absent_service_is_missed_by_the_name_of_its_field() {
    let text = format!("QueueEndpoint=https://shop.queue.test;SharedAccessSignature={SAS}");
    let string = parse(&text);
    assert_eq!(string.account().map(AccountName::as_str), Some("shop"));
    for (service, field) in
        [(ServiceKind::Blob, "BlobEndpoint"), (ServiceKind::Table, "TableEndpoint")]
    {
        let error = string.endpoint(service).unwrap_err();
        assert_eq!(error, Error::EndpointMissing(field));
        let expected =
            format!("{field} is missing, and there is no AccountName from which it would follow");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn every_service_may_have_a_secondary() {
    let text = format!(
        "AccountName=shop;AccountKey={KEY};TableSecondaryEndpoint=http://t/shop-secondary;\
         blobsecondaryendpoint=http://b/shop-secondary"
    );
    let string = parse(&text);
    let secondary = |service| string.secondary_endpoint(service).map(Endpoint::as_str);
    assert_eq!(
        ServiceKind::ALL.map(secondary),
        [Some("http://b/shop-secondary"), None, Some("http://t/shop-secondary")]
    );
    assert_eq!(parse("UseDevelopmentStorage=true").secondary_endpoint(ServiceKind::Table), None);
    let error = ConnectionString::parse(&format!("{text};QueueSecondaryEndpoint=x")).unwrap_err();
    let (name, reason) = ("QueueSecondaryEndpoint", EndpointError::Scheme);
    assert_eq!(error, Error::NotAnEndpoint { name, reason });
}

#[test]
fn a_string_is_written_with_every_service_that_is_served() {
    let endpoint = |port| Endpoint::parse(&format!("http://h:{port}/shop")).unwrap();
    let endpoints = [(ServiceKind::Queue, endpoint(1)), (ServiceKind::Table, endpoint(2))];
    let account = AccountName::parse("shop").unwrap();
    let string = ConnectionString::with_key(&account, KEY, &endpoints).unwrap();
    let services = "QueueEndpoint=http://h:1/shop;TableEndpoint=http://h:2/shop";
    assert_eq!(
        *string.to_text(),
        format!("DefaultEndpointsProtocol=http;AccountName=shop;AccountKey={KEY};{services}")
    );
    let string = ConnectionString::with_signature(SAS, &endpoints).unwrap();
    assert_eq!(*string.to_text(), format!("{services};SharedAccessSignature={SAS}"));
}

#[test]
fn what_opens_it() {
    let secret = |text: &str| parse(text).secret().clone();
    let Secret::Key(key) = secret("UseDevelopmentStorage=true") else { panic!("a key") };
    assert_eq!(*key, DEVELOPMENT_KEY);
    let Secret::Key(key) = secret(&format!("AccountName=shop;AccountKey={KEY}")) else {
        panic!("a key")
    };
    assert_eq!(*key, KEY);
    for mark in ["", "?"] {
        let text = format!("TableEndpoint=http://h/shop;SharedAccessSignature={mark}{SAS}");
        let Secret::Signature(signature) = secret(&text) else { panic!("a signature") };
        assert_eq!(*signature, SAS);
    }
}

#[test]
fn what_is_wrong() {
    let endpoint = |reason| Error::NotAnEndpoint { name: "TableEndpoint", reason };
    let with = |text: &str| format!("AccountName=shop;AccountKey={KEY};{text}");
    for (text, expected) in [
        (String::new(), Error::Empty),
        (" ; ".to_owned(), Error::Empty),
        ("x".repeat(65_537), Error::TooLong),
        (format!("AccountName=shop;{}", KEY.trim_end_matches('=')), Error::NotAPair(2)),
        ("=value".to_owned(), Error::NotAPair(1)),
        (with("accountname=other"), Error::Twice("AccountName")),
        (format!("AccountKey={KEY};TableEndpoint=http://h/a"), Error::AccountMissing),
        (format!("SharedAccessSignature={SAS}"), Error::EndpointMissing("TableEndpoint")),
        (format!("AccountKey={KEY}"), Error::EndpointMissing("TableEndpoint")),
        ("AccountName=shop".to_owned(), Error::SecretMissing),
        ("AccountName=shop;AccountKey=".to_owned(), Error::SecretMissing),
        (with(&format!("SharedAccessSignature={SAS}")), Error::KeyAndSignature),
        (format!("AccountName=a_b;AccountKey={KEY}"), Error::NotAnAccount),
        ("AccountName=shop;AccountKey=not base64".to_owned(), Error::NotAKey),
        ("AccountName=shop;SharedAccessSignature=sv=2019-02-02".to_owned(), Error::NotASignature),
        (with("TableEndpoint=127.0.0.1:10002"), endpoint(EndpointError::Scheme)),
        (with("TableEndpoint=ftp://h"), endpoint(EndpointError::Scheme)),
        (with("TableEndpoint=http://"), endpoint(EndpointError::NotAUrl)),
        (with("TableEndpoint=http://h:70000"), endpoint(EndpointError::NotAUrl)),
        (with("TableEndpoint=http://a b"), endpoint(EndpointError::NotAUrl)),
        (with("TableEndpoint=http://user:word@h"), endpoint(EndpointError::UserName)),
        (with("TableEndpoint=http://h?sig=x"), endpoint(EndpointError::Query)),
        (with("DefaultEndpointsProtocol=ftp"), Error::NotAProtocol),
        (with("QueueEndpoint=http://q/a;queueendpoint=http://q/b"), Error::Twice("QueueEndpoint")),
        ("UseDevelopmentStorage=true;BlobEndpoint=http://b".to_owned(), Error::DevelopmentAndMore),
        ("UseDevelopmentStorage=false".to_owned(), Error::NotDevelopment),
        (with("UseDevelopmentStorage=true"), Error::DevelopmentAndMore),
    ] {
        let endpoint = ConnectionString::parse(&text)
            .and_then(|string| string.endpoint(ServiceKind::Table).cloned());
        let error = endpoint.expect_err(&text);
        assert_eq!(error, expected, "{text}");
        assert!(!error.to_string().contains(KEY), "{error}");
    }
}

#[test]
fn fields_of_others_are_kept() {
    let text = format!("BlobEndpoint=http://h/b;AccountName=shop;AccountKey={KEY};New=x=y;New=z");
    let string = parse(&format!("{text};"));
    assert_eq!(*string.to_text(), text);
    assert_eq!(
        (string.field("blobendpoint"), string.field("new"), string.field("x")),
        (Some("http://h/b"), Some("x=y"), None)
    );
}

#[test]
fn nothing_secret_is_shown() {
    for text in [
        format!("AccountName=shop;AccountKey={KEY}"),
        format!("AccountName=shop;SharedAccessSignature={SAS}"),
    ] {
        let shown = format!("{:?}", parse(&text));
        assert!(shown.contains("shop") && !shown.contains("c2"), "{shown}");
    }
}

#[test]
fn endpoints() {
    for (text, host, port, path) in [
        ("http://127.0.0.1:10002/shop/", "127.0.0.1", 10002, "/shop"),
        ("https://shop.table.test", "shop.table.test", 443, ""),
        ("http://[::1]:8/a/b", "[::1]", 8, "/a/b"),
        ("http://[::1]", "[::1]", 80, ""),
    ] {
        let endpoint = Endpoint::parse(text).unwrap();
        assert_eq!(
            (endpoint.host(), endpoint.port(), endpoint.path()),
            (host, port, path),
            "{text}"
        );
    }
    let account =
        |text: &str| Endpoint::parse(text).unwrap().account().map(|name| name.as_str().to_owned());
    assert_eq!(account("http://127.0.0.1/shop-secondary").as_deref(), Some("shop"));
    assert_eq!(account("https://shop-secondary.table.test").as_deref(), Some("shop"));
    assert_eq!(account("http://localhost:1"), None);
}

fn other_field() -> impl Strategy<Value = (String, String)> {
    // Names that are not ours, and values with everything that a semicolon does not end.
    ("X[A-Za-z]{0,8}", "([ -:<-~é][!-:<-~é]|[!-:<-~é]){0,8}")
}

proptest! {
    #[test]
    fn a_string_survives_being_written(
        account in "[a-z][a-z0-9]{2,20}",
        key in "([A-Za-z0-9+/]{4}){1,20}",
        port in 1..=u16::MAX,
        others in prop::collection::vec(other_field(), 0..4),
        at in 0..4_usize,
    ) {
        let mut parts: Vec<String> = others.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let own = format!("AccountName={account};AccountKey={key};TableEndpoint=http://127.0.0.1:{port}/{account}");
        parts.insert(at.min(parts.len()), own);
        let string = ConnectionString::parse(&parts.join(";")).unwrap();
        prop_assert_eq!(&ConnectionString::parse(&string.to_text()).unwrap(), &string);
        prop_assert_eq!(string.account().unwrap().as_str(), &account);
        prop_assert_eq!(tables(&string).port(), port);
        prop_assert_eq!(string.secret(), &Secret::Key(key.clone().into()));
        for (name, value) in others.iter().rev() {
            if others.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)) == Some(&(name.clone(), value.clone())) {
                prop_assert_eq!(string.field(name), Some(value.trim()));
            }
        }
        let account = AccountName::parse(&account).unwrap();
        let made = ConnectionString::with_key(&account, &key, &[(ServiceKind::Table, tables(&string).clone())]).unwrap();
        let read = ConnectionString::parse(&made.to_text()).unwrap();
        prop_assert_eq!((read.account(), read.secret(), tables(&read)),
            (string.account(), string.secret(), tables(&string)));
        prop_assert_eq!(read, made);
    }

    #[test]
    fn a_signature_survives_being_written(fields in "[a-z]{1,3}=[A-Za-z0-9%]{0,10}", path in "(/[a-z]{1,5})?") {
        let endpoint = Endpoint::parse(&format!("https://shop.table.test{path}")).unwrap();
        let signature = format!("{fields}&sig=x%3D");
        let made = ConnectionString::with_signature(&signature, &[(ServiceKind::Table, endpoint.clone())]).unwrap();
        let read = ConnectionString::parse(&made.to_text()).unwrap();
        prop_assert_eq!(read.secret(), &Secret::Signature(signature.into()));
        prop_assert_eq!(tables(&read), &endpoint);
        prop_assert_eq!(read, made);
    }

    /// No panic, and what is taken is taken again.
    #[test]
    fn any_text(text in "(AccountName=|AccountKey=|TableEndpoint=|SharedAccessSignature=|UseDevelopmentStorage=true|https?://|[ -~é]|;){0,30}") {
        if let Ok(string) = ConnectionString::parse(&text) {
            prop_assert_eq!(ConnectionString::parse(&string.to_text()), Ok(string));
        }
        let _ = Endpoint::parse(&text);
    }
}
