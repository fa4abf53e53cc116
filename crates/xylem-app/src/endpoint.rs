//! Chooses the forwarder if the caller names none.

use std::path::{Path, PathBuf};

use xylem_engine::resolve;
use xylem_library::reachable::{PeerAddress, PeerUri};
use xylem_library::{Blame, Error};

/// The environment variable that NDN libraries read.
const TRANSPORT_VARIABLE: &str = "NDN_CLIENT_TRANSPORT";
/// Socket of a system-wide xylem node.
const SYSTEM_SOCKET: &str = "/run/xylem/xylem.sock";
/// Sockets of NFD and NDNd.
const NFD_SOCKETS: [&str; 2] = ["/run/nfd/nfd.sock", "/run/nfd.sock"];

/// The addresses of the given forwarder. If none is given, of the one that the environment names, or else of the first
/// of the usual sockets that exists: ours, then NFD's.
///
/// # Errors
/// [`Blame::Usage`] for an invalid URI in the environment, [`Blame::Network`] if a host does not resolve or no
/// forwarder is there.
pub(crate) fn choose(at: Option<&PeerUri>) -> Result<Vec<PeerAddress>, Error> {
    let network = |message| Error { blame: Blame::Network, message };
    if let Some(uri) = at {
        return resolve(uri).map_err(network);
    }
    if let Ok(text) = std::env::var(TRANSPORT_VARIABLE)
        && !text.is_empty()
    {
        let bad = |why| Error::usage(format!("{TRANSPORT_VARIABLE}: {why}"));
        return resolve(&text.parse::<PeerUri>().map_err(bad)?).map_err(network);
    }
    let others = [SYSTEM_SOCKET].into_iter().chain(NFD_SOCKETS).map(PathBuf::from);
    let found = default_socket().into_iter().chain(others).find(|path| is_socket(path));
    found.map(|path| vec![PeerAddress::Unix(path)]).ok_or_else(|| {
        network("no forwarder runs here; start `xylem ndn node`, or give --at URI".to_owned())
    })
}

fn is_socket(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        path.metadata().is_ok_and(|found| found.file_type().is_socket())
    }
    #[cfg(not(unix))]
    {
        path.exists()
    }
}

/// The default Unix socket of a node: `/run/xylem/xylem.sock` for root, else `$XDG_RUNTIME_DIR/xylem/xylem.sock`.
pub fn default_socket() -> Option<PathBuf> {
    let dir = if is_root() {
        PathBuf::from("/run")
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute())?
    };
    Some(dir.join("xylem").join("xylem.sock"))
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}
