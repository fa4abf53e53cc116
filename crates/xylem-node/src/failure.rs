//! Errors of the rooms below, as one line for a person and one [`Blame`] for the exit code.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use xylem_store::StoreError;

use crate::api::{Blame, Error};
use crate::carriers::Identity;

/// What the store said.
pub(crate) fn store(e: &StoreError) -> Error {
    let blame = match e {
        StoreError::NotFound { .. } | StoreError::Exists { .. } => Blame::Usage,
        _ => Blame::Local,
    };
    let mend = match e {
        StoreError::NoSpace { .. } => "; make room and run it again, what was verified is kept",
        StoreError::Busy { .. } => "; another xylem is at work on it",
        StoreError::Changed { .. } => "; share it again",
        StoreError::Exists { .. } => "; choose --overwrite or --rename",
        StoreError::Collision { .. } => "; leave one of the two out with --exclude",
        _ => "",
    };
    Error { blame, message: format!("{e}{mend}") }
}

/// An address that can't be listened on.
pub(crate) fn bind(address: SocketAddr, e: &io::Error) -> Error {
    let blame =
        if e.kind() == io::ErrorKind::AddrNotAvailable { Blame::Usage } else { Blame::Local };
    Error { blame, message: format!("cannot listen on {address}: {e}") }
}

/// Anything else of the operating system.
pub(crate) fn local(doing: &str, e: &io::Error) -> Error {
    Error { blame: Blame::Local, message: format!("{doing}: {e}") }
}

/// The certificate that carriers show, from the PEM files that somebody named.
pub(crate) fn certificate((chain, key): &(PathBuf, PathBuf)) -> Result<Identity, Error> {
    Identity::from_files(chain, key).map_err(|e| usage(format!("TLS certificate: {e}")))
}

/// Wrong input.
pub(crate) fn usage(message: impl Into<String>) -> Error {
    Error { blame: Blame::Usage, message: message.into() }
}
