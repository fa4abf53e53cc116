//! A listener on a Unix socket: a stale socket is replaced, a live one is left alone.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};

use mio::net::UnixListener;

/// Every program on this machine may connect, as with NFD; management decides which may send commands.
const MODE: u32 = 0o666;

/// A listening socket; its file is removed when it is dropped.
pub struct UnixSocketListener {
    /// The listening socket.
    pub io: UnixListener,
    path: PathBuf,
}

impl UnixSocketListener {
    /// Listens at `path`, creating its directory if needed.
    ///
    /// # Errors
    /// Kind `AddrInUse` if a program listens there, or if the file there is no socket.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir)?;
        }
        remove_stale(path)?;
        let io = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
        Ok(Self { io, path: path.to_path_buf() })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for UnixSocketListener {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = fs::remove_file(&self.path);
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let taken = |what| io::Error::new(io::ErrorKind::AddrInUse, what);
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(taken("the path exists and is not a socket"));
        }
        Ok(_) => {}
    }
    match StdStream::connect(path) {
        Ok(_) => Err(taken("another program listens there already")),
        // No program has it open: its owner ended without removing it.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/sock");
        let first = UnixSocketListener::bind(&path).unwrap();
        let kind = |r: io::Result<UnixSocketListener>| r.err().map(|e| e.kind());
        assert_eq!(kind(UnixSocketListener::bind(&path)), Some(io::ErrorKind::AddrInUse));
        assert!(path.exists(), "a refused bind leaves the live socket");
        drop(first);
        assert!(!path.exists());
        // A killed node leaves the file, and no program that listens.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(UnixSocketListener::bind(&path).unwrap());
        fs::write(&path, b"mine").unwrap();
        assert_eq!(kind(UnixSocketListener::bind(&path)), Some(io::ErrorKind::AddrInUse));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
