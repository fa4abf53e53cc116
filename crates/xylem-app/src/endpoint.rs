//! Chooses the forwarder if the caller names none.

#[cfg(unix)]
use std::fs;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use xylem_engine::resolve;
use xylem_peers::reachable::{PeerAddress, PeerUri};

use crate::error::ConnectionError;

/// The environment variable that NDN libraries read.
pub(crate) const TRANSPORT_VARIABLE: &str = "NDN_CLIENT_TRANSPORT";
/// Socket of a system-wide xylem node.
const SYSTEM_SOCKET: &str = "/run/xylem/xylem.sock";
/// Where the socket of a user without a runtime directory is, in a directory of its own.
#[cfg(unix)]
const TEMPORARY: &str = "/tmp";
/// Sockets of NFD and NDNd.
const NFD_SOCKETS: [&str; 2] = ["/run/nfd/nfd.sock", "/run/nfd.sock"];

/// The addresses of the given forwarder. If none is given, of the one that the environment names, or else of the first
/// of the usual sockets that exists: ours, then NFD's.
///
/// # Errors
/// The URI in the environment is invalid, a host does not resolve, or no forwarder is there.
pub(crate) fn choose(at: Option<&PeerUri>) -> Result<Vec<PeerAddress>, ConnectionError> {
    if let Some(uri) = at {
        return resolve(uri).map_err(ConnectionError::Unresolved);
    }
    if let Ok(text) = std::env::var(TRANSPORT_VARIABLE)
        && !text.is_empty()
    {
        let uri = text.parse::<PeerUri>().map_err(ConnectionError::Variable)?;
        return resolve(&uri).map_err(ConnectionError::Unresolved);
    }
    let others = [SYSTEM_SOCKET].into_iter().chain(NFD_SOCKETS).map(PathBuf::from);
    let found = user_sockets().into_iter().chain(others).find(|path| is_socket(path));
    found.map(|path| vec![PeerAddress::Unix(path)]).ok_or(ConnectionError::NoForwarder)
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
/// Without that directory (a system without systemd, cron, `su`) it is `/tmp/xylem-UID/xylem.sock`, in a directory that
/// [`make_socket_directory`] makes. `None` on systems without user ids.
pub fn default_socket() -> Option<PathBuf> {
    places().into_iter().next()
}

/// Makes the directory of [`default_socket`] if it is the one in `/tmp`: any user may make a path there.
///
/// # Errors
/// The directory cannot be made, belongs to another user, or is open to other users.
pub fn make_socket_directory(socket: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(dir) = temporary(socket) {
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        if !is_closed(dir) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
    }
    Ok(())
}

/// Sockets of this user that exist, as far as no other user can have made them.
fn user_sockets() -> Vec<PathBuf> {
    let mut places = places();
    #[cfg(unix)]
    places.retain(|place| temporary(place).is_none_or(is_closed));
    places.retain(|place| is_socket(place));
    places
}

/// Places for the socket of this user, the first one first. A node that cron has started is not where one of a session
/// is.
fn places() -> Vec<PathBuf> {
    #[cfg(unix)]
    {
        let uid = rustix::process::geteuid();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        places_of(uid.is_root(), uid.as_raw(), runtime)
    }
    #[cfg(not(unix))]
    {
        Vec::new()
    }
}

#[cfg(unix)]
fn places_of(is_root: bool, uid: u32, runtime: Option<PathBuf>) -> Vec<PathBuf> {
    if is_root {
        return vec![PathBuf::from(SYSTEM_SOCKET)];
    }
    let runtime = runtime.filter(|dir| dir.is_absolute()).map(|dir| dir.join("xylem"));
    let temporary = Path::new(TEMPORARY).join(format!("xylem-{uid}"));
    runtime.into_iter().chain([temporary]).map(|dir| dir.join("xylem.sock")).collect()
}

/// The directory of a socket in `/tmp`.
#[cfg(unix)]
fn temporary(socket: &Path) -> Option<&Path> {
    socket.parent().filter(|dir| dir.parent() == Some(Path::new(TEMPORARY)))
}

/// Whether this is a directory of this user that no other user can enter.
#[cfg(unix)]
fn is_closed(dir: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    dir.symlink_metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_user_without_a_runtime_directory_has_a_socket_too() {
        let sockets = |root, runtime: Option<&str>| {
            let places = places_of(root, 7, runtime.map(PathBuf::from));
            places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>()
        };
        let temporary = "/tmp/xylem-7/xylem.sock";
        assert_eq!(
            sockets(false, Some("/run/user/7")),
            ["/run/user/7/xylem/xylem.sock", temporary]
        );
        for none in [None, Some(""), Some("relative")] {
            assert_eq!(sockets(false, none), [temporary]);
        }
        assert_eq!(sockets(true, Some("/run/user/0")), [SYSTEM_SOCKET]);
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let (dir, link) = (base.path().join("xylem-7"), base.path().join("link"));
        assert!(!is_closed(&dir));
        fs::create_dir(&dir).unwrap();
        for (mode, closed) in [(0o700, true), (0o710, false), (0o701, false), (0o777, false)] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_closed(&dir), closed, "{mode:o}");
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&dir, &link).unwrap();
        assert!(!is_closed(&link), "another user may have made the link");
        let plain = base.path().join("file");
        fs::write(&plain, "").unwrap();
        assert!(!is_closed(&plain));
    }

    /// The listener makes other directories.
    #[test]
    fn only_the_directory_in_tmp_is_made_here() {
        let base = tempfile::tempdir().unwrap();
        let socket = base.path().join("xylem/xylem.sock");
        make_socket_directory(&socket).unwrap();
        assert!(!base.path().join("xylem").exists());
        assert_eq!(
            temporary(Path::new("/tmp/xylem-7/xylem.sock")),
            Some(Path::new("/tmp/xylem-7"))
        );
        assert_eq!(temporary(Path::new("/run/user/7/xylem/xylem.sock")), None);
    }
}
