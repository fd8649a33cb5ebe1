//! An identity provider for tests: prints its address, then serves keys and hands out tokens until
//! it is stopped.

use std::process::ExitCode;
use std::{env, fs};

use tavola_testkit::oidc_issuer::{Identity, OidcIssuer, Options};

const USAGE: &str = "\
usage: oidc-issuer [options]

  --listen ADDRESS   where to listen (default 127.0.0.1:0)
  --host NAME        the host in its address (default: that of --listen)
  --cert FILE        certificate chain in PEM, for https
  --key FILE         its private key in PEM

Prints its address. A token: GET /token?roles=a,b&sub=NAME&aud=AUDIENCE&exp_in=SECONDS; other parameters become claims.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let issuer = match options(env::args().skip(1)) {
        Ok(options) => OidcIssuer::start_with(options).await,
        Err(problem) => Err(format!("{problem}\n\n{USAGE}")),
    };
    match issuer {
        Ok(issuer) => {
            println!("{}", issuer.url());
            issuer.join().await;
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    let (mut certificates, mut key) = (None, None);
    while let Some(flag) = arguments.next() {
        let value =
            arguments.next().ok_or_else(|| format!("{flag} is unknown or lacks its value"))?;
        match flag.as_str() {
            "--listen" => {
                options.listen =
                    value.parse().map_err(|error| format!("--listen {value}: {error}"))?
            }
            "--host" => options.host = Some(value),
            "--cert" => certificates = Some(read(&value)?),
            "--key" => key = Some(read(&value)?),
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    options.identity = match (certificates, key) {
        (None, None) => None,
        (Some(certificates), Some(key)) => Some(Identity { certificates, key }),
        _ => return Err("--cert and --key belong together".to_owned()),
    };
    Ok(options)
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))
}
