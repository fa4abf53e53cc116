//! Which forwarder to use where nobody said.

use std::path::{Path, PathBuf};

use xylem_engine::resolve;
use xylem_library::reachable::{Peer, PeerUri};
use xylem_library::{Blame, Error};

/// The variable that NDN libraries read.
const TRANSPORT_VARIABLE: &str = "NDN_CLIENT_TRANSPORT";
/// Where a node of ours listens that runs for the whole machine.
const SYSTEM_SOCKET: &str = "/run/xylem/xylem.sock";
/// Where NFD and NDNd listen.
const NFD_SOCKETS: [&str; 2] = ["/run/nfd/nfd.sock", "/run/nfd.sock"];

/// The addresses of the forwarder that was asked for, or else of the one that the environment
/// names, or else the first of the usual sockets that exists: ours, then NFD's.
///
/// # Errors
/// [`Blame::Usage`] for a URI in the environment that can't be read, [`Blame::Network`] for a host
/// that is not found or if no forwarder is there.
pub(crate) fn choose(at: Option<&PeerUri>) -> Result<Vec<Peer>, Error> {
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
    found.map(|path| vec![Peer::Unix(path)]).ok_or_else(|| {
        network("no forwarder runs here; start `xylem node`, or give --at URI".to_owned())
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

/// The Unix socket of a node that was not told another: `/run/xylem/xylem.sock` for root, else
/// `$XDG_RUNTIME_DIR/xylem/xylem.sock`.
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
