//! The background node's socket, and a relay's, both ends: Unix sockets in a folder of the store that only its user can
//! enter.

use xylem_publish::registry::Registry;

use super::ControlPlace;
use super::messages::{MAX_REQUEST, ServiceReply, ServiceRequest, line};
pub(crate) use super::{RELAY, SERVICE};
use crate::exit::{CommandFailure, Exit};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, thread};

/// Connections at once; further ones are closed.
const MAX_CONNECTIONS: usize = 64;
/// A client must send its request within this time.
const REQUEST_TIME: Duration = Duration::from_secs(10);

fn socket(store: &Path, place: ControlPlace) -> PathBuf {
    Registry::folder_of(store).join(place.socket)
}

/// Listens in a store. The caller holds the service's lock, so an existing socket belongs to a process that has ended.
pub(super) fn listen(store: &Path) -> Result<UnixListener, CommandFailure> {
    listen_in(store, SERVICE)
}

/// Listens at this place of a store. The process has to hold the store's lock.
pub(crate) fn listen_in(store: &Path, place: ControlPlace) -> Result<UnixListener, CommandFailure> {
    let path = socket(store, place);
    let wrong = |e: io::Error| {
        let long = if path.as_os_str().len() > 100 { "; the store's path is too long" } else { "" };
        let what = format!("cannot listen at {}: {e}{long}", path.display());
        CommandFailure::new(Exit::Local, what)
    };
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(wrong(e)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(wrong)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(wrong)?;
    Ok(listener)
}

/// Removes the socket's name.
pub(super) fn close(store: &Path) {
    close_at(store, SERVICE);
}

/// Removes the name of the socket at this place.
pub(crate) fn close_at(store: &Path, place: ControlPlace) {
    // It is fine if it is gone already.
    let _ = fs::remove_file(socket(store, place));
}

/// Accepts and answers connections as long as the process runs, each on a thread of its own.
pub(crate) fn answer_all(
    listener: &UnixListener,
    answer: impl Fn(ServiceRequest, &mut dyn FnMut(ServiceReply)) -> ServiceReply
    + Send
    + Sync
    + 'static,
) {
    let (answer, open) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    for connection in listener.incoming() {
        let Ok(connection) = connection else {
            // Most likely there are no file descriptors left; other connections will free some.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (answer, still_open) = (answer.clone(), open.clone());
        let started = thread::Builder::new().spawn(move || {
            // A client that has gone needs no answer.
            let _ = answer_one(connection, &*answer);
            still_open.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            // If no thread can start, this connection is closed, like one too many.
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn answer_one(
    mut connection: UnixStream,
    answer: &impl Fn(ServiceRequest, &mut dyn FnMut(ServiceReply)) -> ServiceReply,
) -> io::Result<()> {
    connection.set_read_timeout(Some(REQUEST_TIME))?;
    connection.set_write_timeout(Some(REQUEST_TIME))?;
    let mut text = Vec::new();
    BufReader::new((&connection).take(MAX_REQUEST)).read_until(b'\n', &mut text)?;
    let last = match serde_json::from_slice::<ServiceRequest>(&text) {
        Ok(request) => answer(request, &mut |reply| {
            let _ = connection.write_all(&line(&reply));
        }),
        Err(e) => {
            let message = format!(
                "this process cannot read the request: {e}; if it runs another version of xylem, restart it"
            );
            ServiceReply::Failed { exit: Exit::Usage as u8, message }
        }
    };
    connection.write_all(&line(&last))
}

/// Sends a request to the background node of a store. Replies before the last one go to `tell`; the last one is
/// returned. `None` if no node runs.
pub(crate) fn ask(
    store: &Path,
    request: &ServiceRequest,
    tell: &mut dyn FnMut(ServiceReply),
) -> Result<Option<ServiceReply>, CommandFailure> {
    ask_at(store, SERVICE, request, tell)
}

/// Like [`ask`], for the process at this place of the store.
pub(crate) fn ask_at(
    store: &Path,
    place: ControlPlace,
    request: &ServiceRequest,
    tell: &mut dyn FnMut(ServiceReply),
) -> Result<Option<ServiceReply>, CommandFailure> {
    let (at, who) = (socket(store, place), place.process);
    let mut connection = match UnixStream::connect(&at) {
        Ok(connection) => connection,
        // No node has ever run, or it was killed.
        Err(e)
            if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
        {
            return Ok(None);
        }
        Err(e) => {
            let what = format!("cannot connect to {who} at {}: {e}", at.display());
            return Err(CommandFailure::new(Exit::Local, what));
        }
    };
    let lost =
        |e: io::Error| CommandFailure::new(Exit::Local, format!("{who} did not answer: {e}"));
    connection.write_all(&line(request)).map_err(lost)?;
    for text in BufReader::new(connection).lines() {
        let reply = serde_json::from_str(&text.map_err(lost)?).map_err(|e| lost(e.into()))?;
        match reply {
            ServiceReply::Hashing { .. } | ServiceReply::Warning { .. } => tell(reply),
            ServiceReply::Failed { exit, message } => {
                let exit = Exit::from_code(exit);
                return Err(CommandFailure::new(exit, message));
            }
            answer => return Ok(Some(answer)),
        }
    }
    Err(lost(io::ErrorKind::UnexpectedEof.into()))
}
