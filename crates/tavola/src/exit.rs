//! How the process ends: a message for a person, and a code for a script.

use std::process::ExitCode;

/// Why the process ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Exit code 1: something outside us failed: a port, a disk.
    System(String),
    /// Exit code 2: the command line or the configuration is wrong.
    Usage(String),
    /// Exit code 3: the data folder cannot be used as it is. Its files are untouched.
    Data(String),
    /// Help, version, or a flag that does not parse: clap has the words and the code.
    Clap(clap::Error),
}

impl Failure {
    /// Says why, and what the process ends with.
    pub(crate) fn report(self) -> ExitCode {
        let (message, code) = match self {
            Self::System(message) => (message, 1),
            Self::Usage(message) => (message, 2),
            Self::Data(message) => (message, 3),
            Self::Clap(error) => {
                let _reader_gone = error.print();
                return ExitCode::from(error.exit_code() as u8);
            }
        };
        eprintln!("tavola: {message}");
        ExitCode::from(code)
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::Clap(error)
    }
}

impl From<tavola_server::ConfigError> for Failure {
    fn from(error: tavola_server::ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<tavola_server::tls::TlsError> for Failure {
    fn from(error: tavola_server::tls::TlsError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<tavola_server::ServerError> for Failure {
    fn from(error: tavola_server::ServerError) -> Self {
        Self::System(error.to_string())
    }
}
