//! Errors of the rooms below, as one line for a person and one [`Blame`] for the exit code.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use xylem_library::{Blame, Error};
use xylem_store::StoreError;

use xylem_carriers::tls::Identity;

/// An address that can't be listened on.
pub(crate) fn bind(address: SocketAddr, e: &io::Error) -> Error {
    let blame =
        if e.kind() == io::ErrorKind::AddrNotAvailable { Blame::Usage } else { Blame::Local };
    Error { blame, message: format!("cannot listen on {address}: {e}") }
}

/// The certificate that carriers show, from the PEM files that somebody named.
pub(crate) fn certificate((chain, key): &(PathBuf, PathBuf)) -> Result<Identity, Error> {
    Identity::from_files(chain, key).map_err(|e| usage(format!("TLS certificate: {e}")))
}

/// What the store said.
pub(crate) fn store(e: &StoreError) -> Error {
    e.into()
}

/// Anything else of the operating system.
pub(crate) fn local(doing: &str, e: &io::Error) -> Error {
    Error { blame: Blame::Local, message: format!("{doing}: {e}") }
}

/// Wrong input.
pub(crate) fn usage(message: impl Into<String>) -> Error {
    Error { blame: Blame::Usage, message: message.into() }
}
