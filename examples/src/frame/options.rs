//! What can be asked for on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tavola_client::{Account, ClientOptions, Credential, Error, Retry};

/// The account of every emulator, and its public key.
pub(super) const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Scenarios of the table design guide, to watch.
///
/// Without a name the programs are listed. Each creates tables of its own, shows what it does, and
/// ends with a line that says which invariants held how often; the exit code is 0 only if all did.
#[derive(Debug, Parser)]
#[command(
    name = "tavola-example",
    after_help = "\
Examples:
  tavola-example contoso --in-memory
  tavola-example find --server target/debug/tavola --seconds 30 --chaos
  tavola-example expenses --endpoint http://127.0.0.1:10002/devstoreaccount1 --clean
  tavola-example reviews --endpoint 'AccountName=shop;AccountKey=…'"
)]
pub(crate) struct Options {
    /// The program
    pub(crate) name: Option<String>,
    /// How long it works
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Kill workers all the time, and the server (kill -9) if the program started it
    #[arg(long)]
    pub(crate) chaos: bool,
    /// Delete the tables of this run at its end
    #[arg(long)]
    pub(crate) clean: bool,
    /// Where the tables are: an address or a connection string
    #[arg(long, value_name = "WHERE", env = "TAVOLA_EXAMPLE_ENDPOINT", hide_env_values = true)]
    pub(crate) endpoint: Option<String>,
    /// The account, if WHERE is an address
    #[arg(long, value_name = "NAME", default_value = ACCOUNT)]
    account: String,
    /// Its key [default: the key of the development account]
    #[arg(long, env = "TAVOLA_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Start this server on a free port, with data that are gone afterwards
    /// [default: `tavola` beside this program]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["endpoint", "in_memory"])]
    pub(crate) server: Option<PathBuf>,
    /// Keep the tables in this process; nothing goes over a network
    #[arg(long, conflicts_with = "endpoint")]
    pub(crate) in_memory: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds, 0.1 to 86400".to_owned()),
    }
}

impl Options {
    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// The account at `endpoint`.
    pub(super) fn account(&self, endpoint: &str) -> Result<Account, Error> {
        let account = if endpoint.starts_with("http://") || endpoint.starts_with("https://") {
            let key = self.key.as_deref().unwrap_or(KEY);
            let credential = Credential::key(self.account.as_str(), key);
            // An address with a signature needs no key.
            Account::new(endpoint, (!endpoint.contains('?')).then_some(credential))?
        } else {
            Account::from_connection_string(endpoint)?
        };
        Ok(account.with_options(client_options()))
    }
}

/// Pauses that are short beside the length of a program: its server may be restarting.
pub(super) fn client_options() -> ClientOptions {
    let retry = Retry::default()
        .attempts(8)
        .first_delay(Duration::from_millis(50))
        .delay_max(Duration::from_secs(1));
    ClientOptions::default().user_agent("tavola-example").retry(retry)
}
