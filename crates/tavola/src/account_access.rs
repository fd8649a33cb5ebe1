//! Which account a command works on, where it is, and the key that opens it.
//!
//! Precedence: command line, `AZURE_STORAGE_CONNECTION_STRING`, the configuration of `tavola
//! serve`, the development account. The command line may contain a key, for a server under test;
//! other users of the machine can see it there.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Arg, ArgMatches, value_parser};
use tavola_core::{AccountName, ServiceKind};
use tavola_protocol::auth::AccountKey;
use tavola_protocol::connection_string::{
    DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Endpoint, Secret, ServiceEndpoint,
};
use tavola_protocol::{AccountKeys, ConnectionString};
use tavola_server::Config;
use tavola_server::config::account_folder::KeyNumber;
use tavola_server::config::{Layers, ListenerConfig, Personality, SERVED};
use zeroize::Zeroizing;

use crate::exit::Failure;
use crate::flags;
use crate::http_client::ca_file_flag;
use crate::store_config::SCHEMA;

/// The variable of the official tools.
pub(crate) const VARIABLE: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// Of `--key-file`: far above any key.
const KEY_FILE_BYTES_MAX: u64 = 64 * 1024;

/// An account, where its services are, and one of its keys.
#[derive(Clone)]
pub(crate) struct AccountAccess {
    pub(crate) account: AccountName,
    /// That of the service which the command is about.
    pub(crate) endpoint: Endpoint,
    /// Those of every service that is served, as far as they are known.
    pub(crate) endpoints: Vec<ServiceEndpoint>,
    /// Base64.
    pub(crate) key: Zeroizing<String>,
}

impl fmt::Debug for AccountAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountAccess")
            .field("account", &self.account)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

impl AccountAccess {
    /// For a command about that service.
    fn new(
        service: ServiceKind,
        account: AccountName,
        endpoints: Vec<ServiceEndpoint>,
        key: Zeroizing<String>,
    ) -> Result<Self, Failure> {
        let own = endpoints.iter().find(|(of, _)| *of == service);
        let endpoint = own.map(|(_, endpoint)| endpoint.clone()).ok_or_else(|| {
            let title = service.title();
            Failure::Usage(format!("the {title} service is not served here; use --endpoint"))
        })?;
        Ok(Self { account, endpoint, endpoints, key })
    }

    /// The key, ready to sign.
    pub(crate) fn signing_key(&self) -> Result<AccountKey, Failure> {
        AccountKey::parse(&self.key).map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// The flags that say which account; `heading` is theirs in help.
pub(crate) fn account_flags(heading: &'static str) -> Vec<Arg> {
    let flags = vec![
        Arg::new("account").long("account").value_name("NAME").help(
            "Account, one of those that `tavola serve` serves [default: the only one, or the \
             development account]",
        ),
        Arg::new("key-number").long("key").value_name("1|2|KEY").default_value("1").help(
            "Number of the configured key, or the key itself, which other users of the machine \
             can then see",
        ),
        Arg::new("endpoint").long("endpoint").value_name("URL").help(
            "Endpoint of the account [default: http://127.0.0.1:10002/ACCOUNT, or as \
             configured]",
        ),
        flags::config_file_flag(),
        accounts_folder_flag(),
    ];
    flags.into_iter().map(|flag| flag.help_heading(heading)).collect()
}

/// `--accounts-folder`, for every command that needs accounts.
pub(crate) fn accounts_folder_flag() -> Arg {
    let setting =
        SCHEMA.find("server.accounts_folder").expect("the folder of accounts is a setting");
    let help =
        format!("{} [default: {}] [env: {}]", setting.help, setting.default, setting.variable());
    Arg::new(setting.path).long("accounts-folder").value_name("FOLDER").help(help)
}

/// The flags that bring a key from elsewhere.
pub(crate) fn key_flags(heading: &'static str) -> Vec<Arg> {
    let flags = [
        Arg::new("connection-string")
            .long("connection-string")
            .value_name("STRING")
            .conflicts_with_all(["account", "key-file"])
            .help(format!("Account, key and endpoint in one [env: {VARIABLE}]")),
        Arg::new("key-file")
            .long("key-file")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Read the key of --account from this file instead of the configuration"),
    ];
    flags.into_iter().map(|flag| flag.help_heading(heading)).collect()
}

/// The flags of commands that ask a server: which account, its key, whom to trust.
pub(crate) fn connection_flags() -> Vec<Arg> {
    let mut flags = key_flags("Account");
    flags.extend(account_flags("Account"));
    flags.push(ca_file_flag().help_heading("Target"));
    flags
}

/// Endpoint and signature, if the connection string that counts has a signature instead of a key.
pub(crate) fn signature(
    matches: &ArgMatches,
    service: ServiceKind,
) -> Result<Option<(Endpoint, Zeroizing<String>)>, Failure> {
    let key_is_elsewhere = ["key-file", "account"].iter().any(|flag| matches.contains_id(flag))
        || matches!(key_flag(matches)?, KeyFlag::Text(_));
    let flag = matches.get_one::<String>("connection-string").cloned().map(Zeroizing::new);
    let (origin, text) = match flag {
        Some(text) => ("--connection-string", text),
        None => match variable().filter(|_| !key_is_elsewhere) {
            Some(text) => (VARIABLE, text),
            None => return Ok(None),
        },
    };
    let wrong = |error| Failure::Usage(format!("{origin}: {error}"));
    let string = ConnectionString::parse(&text).map_err(wrong)?;
    let Secret::Signature(signature) = string.secret() else { return Ok(None) };
    let endpoint = match matches.get_one::<String>("endpoint") {
        Some(text) => parse_endpoint(text)?,
        None => string.endpoint(service).map_err(wrong)?.clone(),
    };
    Ok(Some((endpoint, signature.clone())))
}

/// The connection string of the environment.
fn variable() -> Option<Zeroizing<String>> {
    std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty()).map(Zeroizing::new)
}

/// The account of a command about a service, with both groups of flags.
pub(crate) fn resolve(
    matches: &ArgMatches,
    service: ServiceKind,
) -> Result<AccountAccess, Failure> {
    let variable = variable();
    let flag = matches.get_one::<String>("connection-string");
    let named = named_account(matches)?;
    match (flag, matches.get_one::<PathBuf>("key-file"), named, variable) {
        (Some(text), ..) => of_string("--connection-string", text, matches, service),
        (None, Some(file), named, _) => {
            let account = named.map_or_else(development_account, Ok)?;
            let endpoints =
                endpoint_flag(matches, service)?.map_or_else(|| usual_endpoints(&account), Ok)?;
            AccountAccess::new(service, account, endpoints, read_key(file)?)
        }
        (None, None, named, variable) => match (key_flag(matches)?, named, variable) {
            (KeyFlag::Text(key), named, _) => {
                let account = named.map_or_else(development_account, Ok)?;
                let endpoints = endpoint_flag(matches, service)?
                    .map_or_else(|| usual_endpoints(&account), Ok)?;
                AccountAccess::new(service, account, endpoints, key)
            }
            (KeyFlag::Number(_), None, Some(text)) => of_string(VARIABLE, &text, matches, service),
            (KeyFlag::Number(_), named, _) => of_configuration(matches, named, service),
        },
    }
}

/// The account of a command about a service that knows the configuration only.
pub(crate) fn resolve_configured(
    matches: &ArgMatches,
    service: ServiceKind,
) -> Result<AccountAccess, Failure> {
    of_configuration(matches, named_account(matches)?, service)
}

fn of_string(
    origin: &str,
    text: &str,
    matches: &ArgMatches,
    service: ServiceKind,
) -> Result<AccountAccess, Failure> {
    let wrong = |error| Failure::Usage(format!("{origin}: {error}"));
    let string = ConnectionString::parse(text).map_err(wrong)?;
    let flag = endpoint_flag(matches, service)?;
    if flag.is_none() {
        string.endpoint(service).map_err(wrong)?;
    }
    let Secret::Key(key) = string.secret() else {
        let words = "a shared access signature is not accepted here; an account key is required: \
         AccountKey";
        return Err(Failure::Usage(format!("{origin}: {words}")));
    };
    let account = string.account().cloned();
    let account =
        account.ok_or_else(|| Failure::Usage(format!("{origin}: AccountName is missing")))?;
    let is_served = |(of, _): &&ServiceEndpoint| SERVED.contains(of);
    let endpoints =
        flag.unwrap_or_else(|| string.endpoints().iter().filter(is_served).cloned().collect());
    AccountAccess::new(service, account, endpoints, key.clone())
}

fn of_configuration(
    matches: &ArgMatches,
    named: Option<AccountName>,
    service: ServiceKind,
) -> Result<AccountAccess, Failure> {
    let layers = flags::layers(matches)?;
    let config = Config::resolve(&layers, Personality::Server)?;
    let account = named.map_or_else(|| only_account(&config), Ok)?;
    let key = match key_flag(matches)? {
        KeyFlag::Number(number) => key_text(&layers, &config, &account, number)?,
        KeyFlag::Text(key) => key,
    };
    let endpoints = endpoint_flag(matches, service)?
        .map_or_else(|| configured_endpoints(&config, &account), Ok)?;
    AccountAccess::new(service, account, endpoints, key)
}

/// What `--key` says.
enum KeyFlag {
    Number(KeyNumber),
    Text(Zeroizing<String>),
}

fn key_flag(matches: &ArgMatches) -> Result<KeyFlag, Failure> {
    let Some(text) = matches.get_one::<String>("key-number") else {
        return Ok(KeyFlag::Number(KeyNumber::First));
    };
    match KeyNumber::parse(text) {
        Some(number) => Ok(KeyFlag::Number(number)),
        // Not shown: it may be a key but for a letter.
        None if AccountKey::parse(text).is_err() => Err(Failure::Usage(
            "--key is neither 1 nor 2, nor an account key, which is base64".to_owned(),
        )),
        None => Ok(KeyFlag::Text(Zeroizing::new(text.clone()))),
    }
}

fn named_account(matches: &ArgMatches) -> Result<Option<AccountName>, Failure> {
    let Some(name) = matches.get_one::<String>("account") else { return Ok(None) };
    let wrong = || {
        format!(
            "\"{name}\" is not the name of an account: letters, digits and inner hyphens, at most \
             63"
        )
    };
    AccountName::parse(name).map(Some).ok_or_else(|| Failure::Usage(wrong()))
}

fn only_account(config: &Config) -> Result<AccountName, Failure> {
    let names = account_names(config);
    match &names[..] {
        [only] => AccountName::parse(only)
            .ok_or_else(|| Failure::Usage("the account has no legal name".to_owned())),
        _ => Err(Failure::Usage(format!(
            "which account? Use --account with one of: {}",
            names.join(", ")
        ))),
    }
}

fn account_names(config: &Config) -> Vec<&str> {
    let mut names: Vec<&str> = config.accounts.names().map(AccountName::as_str).collect();
    names.sort_unstable();
    names
}

fn key_text(
    layers: &Layers,
    config: &Config,
    account: &AccountName,
    number: KeyNumber,
) -> Result<Zeroizing<String>, Failure> {
    if let Some(key) = layers.account_key(account, number) {
        return Ok(Zeroizing::new(key.to_owned()));
    }
    let configured =
        config.accounts.contains(account.as_str()) && !config.accounts.is_development();
    match (account.as_str(), number) {
        // Its key is the same on every server.
        (DEVELOPMENT_ACCOUNT, KeyNumber::First) if !configured => {
            Ok(Zeroizing::new(DEVELOPMENT_KEY.to_owned()))
        }
        (DEVELOPMENT_ACCOUNT, KeyNumber::Second) if !configured => Err(Failure::Usage(
            "the development account has one key only: leave --key out".to_owned(),
        )),
        _ if configured => {
            Err(Failure::Usage(format!("the account {account} has no {}", number.field())))
        }
        _ => Err(Failure::Usage(format!(
            "the configuration has no account {account}; it has: {}. See `tavola config show \
             --origin`",
            account_names(config).join(", ")
        ))),
    }
}

/// `--endpoint` is that of the service which the command is about.
fn endpoint_flag(
    matches: &ArgMatches,
    service: ServiceKind,
) -> Result<Option<Vec<ServiceEndpoint>>, Failure> {
    let Some(text) = matches.get_one::<String>("endpoint") else { return Ok(None) };
    Ok(Some(vec![(service, parse_endpoint(text)?)]))
}

/// Reads `--endpoint`.
pub(crate) fn parse_endpoint(text: &str) -> Result<Endpoint, Failure> {
    Endpoint::parse(text).map_err(|error| Failure::Usage(format!("--endpoint: {error}")))
}

/// Where a server with this configuration serves an account. A port that the system will pick is not
/// known, and the usual one is the best guess.
pub(crate) fn configured_endpoints(
    config: &Config,
    account: &AccountName,
) -> Result<Vec<ServiceEndpoint>, Failure> {
    let usual_port = |listener: &ListenerConfig| {
        let mut listener = *listener;
        if listener.address.port() == 0 {
            listener.address.set_port(listener.service.default_port());
        }
        listener
    };
    let listeners: Vec<_> = config.listeners.iter().map(usual_port).collect();
    endpoints_at(config, &listeners, account)
}

/// Where clients on this machine reach an account of a server that listens there.
pub(crate) fn endpoints_at(
    config: &Config,
    listeners: &[ListenerConfig],
    account: &AccountName,
) -> Result<Vec<ServiceEndpoint>, Failure> {
    let scheme = config.scheme().name();
    let at = |listener: &ListenerConfig| {
        let address = listener.address;
        let address = SocketAddr::new(reachable(address.ip()), address.port());
        Ok((listener.service, parse_endpoint(&format!("{scheme}://{address}/{account}"))?))
    };
    listeners.iter().map(at).collect()
}

/// A server that listens on every address is reached on loopback.
pub(crate) fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// Where emulators are.
fn usual_endpoints(account: &AccountName) -> Result<Vec<ServiceEndpoint>, Failure> {
    let at = |service: &ServiceKind| {
        let url = format!("http://127.0.0.1:{}/{account}", service.default_port());
        Ok((*service, parse_endpoint(&url)?))
    };
    SERVED.iter().map(at).collect()
}

fn development_account() -> Result<AccountName, Failure> {
    AccountName::parse(DEVELOPMENT_ACCOUNT)
        .ok_or_else(|| Failure::Usage("no such account".to_owned()))
}

fn read_key(file: &PathBuf) -> Result<Zeroizing<String>, Failure> {
    let text = read_secret(file, KEY_FILE_BYTES_MAX)?;
    let key = Zeroizing::new(text.trim().to_owned());
    let wrong = |_| {
        Failure::Usage(format!(
            "{} contains no account key: it must be one line of base64",
            file.display()
        ))
    };
    AccountKey::parse(&key).map_err(wrong)?;
    Ok(key)
}

/// Reads a small secret file.
pub(crate) fn read_secret(file: &PathBuf, bytes_max: u64) -> Result<Zeroizing<String>, Failure> {
    use std::io::Read as _;
    let cannot_read = |error| Failure::Usage(format!("cannot read {}: {error}", file.display()));
    let opened = std::fs::File::open(file).map_err(cannot_read)?;
    // Room for all of it at once: a buffer that grows leaves copies behind.
    let room = opened.metadata().map_err(cannot_read)?.len().min(bytes_max) + 1;
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(room).unwrap_or_default()));
    opened.take(bytes_max).read_to_string(&mut text).map_err(cannot_read)?;
    Ok(text)
}

/// Every key of an account that this machine knows: of its configuration, or of the variable.
pub(crate) fn known_keys(
    layers: &Layers,
    config: &Config,
    account: &AccountName,
) -> Option<KnownKeys> {
    let of_number = |number| key_text(layers, config, account, number).ok();
    let first = of_number(KeyNumber::First).or_else(|| key_of_variable(account))?;
    let second = of_number(KeyNumber::Second);
    let keys = AccountKeys::parse(&first, second.as_ref().map(|key| key.as_str())).ok()?;
    Some(KnownKeys { keys, signing: AccountKey::parse(&first).ok()? })
}

/// Keys that are good for looking things up.
#[derive(Debug, Clone)]
pub(crate) struct KnownKeys {
    pub(crate) keys: AccountKeys,
    pub(crate) signing: AccountKey,
}

fn key_of_variable(account: &AccountName) -> Option<Zeroizing<String>> {
    let string = ConnectionString::parse(&Zeroizing::new(std::env::var(VARIABLE).ok()?)).ok()?;
    match string.secret() {
        Secret::Key(key) if string.account() == Some(account) => Some(key.clone()),
        _ => None,
    }
}
