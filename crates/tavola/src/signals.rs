//! The signals of a server process.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Registered first of all, because a signal without a handler would kill the process.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
    user_defined1: Option<Signal>,
    /// It means nothing here.
    _user_defined2: Signal,
}

impl Signals {
    /// Within a runtime.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind: SignalKind| {
            signal(kind)
                .map_err(|error| Failure::System(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: Some(listen(SignalKind::hangup())?),
            user_defined1: Some(listen(SignalKind::user_defined1())?),
            _user_defined2: listen(SignalKind::user_defined2())?,
        })
    }

    /// Waits for SIGINT or SIGTERM.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// SIGHUP, also one that came before this.
    pub(crate) fn take_hangup(&mut self) -> Signal {
        self.hangup.take().expect("it is taken once")
    }

    /// SIGUSR1, also one that came before this.
    pub(crate) fn take_user_defined1(&mut self) -> Signal {
        self.user_defined1.take().expect("it is taken once")
    }
}
