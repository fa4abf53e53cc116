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
/// Without that directory (a system without systemd, cron, `su`) it is in the user's store, `xylem/xylem.sock` below
/// `$XDG_DATA_HOME` or `~/.local/share`: others could make a path in `/tmp` first. `None` if there is no home directory.
pub fn default_socket() -> Option<PathBuf> {
    let absolute = |variable: &str| {
        std::env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute())
    };
    socket_in(is_root(), absolute)
}

fn socket_in(is_root: bool, absolute: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let dir = if is_root {
        PathBuf::from("/run")
    } else {
        absolute("XDG_RUNTIME_DIR")
            .or_else(|| absolute("XDG_DATA_HOME"))
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_runtime_directory_has_a_socket_too() {
        let socket = |set: &[(&str, &str)]| {
            let of = |variable: &str| {
                let found = set.iter().find(|(name, _)| *name == variable);
                found.map(|(_, path)| PathBuf::from(path))
            };
            socket_in(false, of).map(|path| path.display().to_string())
        };
        let (run, data, home) =
            (("XDG_RUNTIME_DIR", "/run/user/7"), ("XDG_DATA_HOME", "/data"), ("HOME", "/home/a"));
        assert_eq!(socket(&[run, data, home]).unwrap(), "/run/user/7/xylem/xylem.sock");
        assert_eq!(socket(&[data, home]).unwrap(), "/data/xylem/xylem.sock");
        assert_eq!(socket(&[home]).unwrap(), "/home/a/.local/share/xylem/xylem.sock");
        assert_eq!(socket(&[]), None);
        assert_eq!(socket_in(true, |_| None).unwrap(), Path::new("/run/xylem/xylem.sock"));
    }
}
