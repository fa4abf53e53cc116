//! [`Keeper`]: what the background node shares, in memory and in the store's file.
//!
//! Requests come on threads of their own, which also hash; the serving thread is asked to add and
//! remove only, so that whoever fetches waits for nothing.

use super::messages::{Reply, Request, Row, Shared};
use crate::exit::{Exit, Failure};
use crate::output::{error_line, text::clean};
use crate::values::parse_name;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xylem_library::publications::PublicationId;
use xylem_library::registry::{Registered, Registry};
use xylem_library::served::Counts;
use xylem_library::{LibraryEvent, Stop};
use xylem_node::{Event, ServiceHandle, ServiceSnapshot, wall_clock};

/// How often what is not there is looked for again, and what was served is written down.
const ROUND: Duration = Duration::from_secs(60);

/// See the module's documentation.
pub(super) struct Keeper {
    store: PathBuf,
    handle: ServiceHandle,
    stop: Stop,
    state: Mutex<State>,
    /// One path is hashed at a time, by all cores.
    hashing: Mutex<()>,
}

struct State {
    port: Option<u16>,
    shares: Vec<Kept>,
    /// What the file says.
    saved: Registry,
}

struct Kept {
    registered: Registered,
    /// While it is served.
    publication: Option<PublicationId>,
    /// Why it is not.
    why: Option<String>,
}

impl Keeper {
    /// Knows what `registry` has; serves none of it yet.
    pub(super) fn new(
        store: &Path,
        registry: Registry,
        port: Option<u16>,
        handle: ServiceHandle,
        stop: &Stop,
    ) -> Self {
        let kept = |registered: &Registered| Kept {
            registered: registered.clone(),
            publication: None,
            why: Some("it is being looked at".to_owned()),
        };
        let shares = registry.shares.iter().map(kept).collect();
        let state = Mutex::new(State { port, shares, saved: registry });
        let hashing = Mutex::new(());
        Self { store: store.to_path_buf(), handle, stop: stop.clone(), state, hashing }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A bug elsewhere ends the process (exit.rs).
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a request asks for; what comes before the answer goes to `tell`.
    pub(super) fn answer(&self, request: Request, tell: &mut dyn FnMut(Reply)) -> Reply {
        let done = match request {
            Request::Share { path, name, portable } => self.share(&path, name, portable, tell),
            Request::Unshare { path, id } => self.unshare(&path, &id),
            Request::Shares => Ok(Reply::Shares { shares: self.rows() }),
        };
        done.unwrap_or_else(|Failure { exit, message }| Reply::Failed { exit: exit as u8, message })
    }

    fn share(
        &self,
        path: &Path,
        name: Option<String>,
        portable: bool,
        tell: &mut dyn FnMut(Reply),
    ) -> Result<Reply, Failure> {
        let path = xylem_library::canonical(path)?;
        let registered = Registered {
            path,
            name,
            portable,
            since_s: wall_clock().seconds(),
            ticket: String::new(),
            bytes: 0,
            files: 0,
            counts: Counts::default(),
        };
        let (publication, shared) = self.publish(&registered, tell)?;
        let snapshot = self.snapshot()?;
        let mut state = self.state();
        let (id, ticket) = (registered.id(), shared.ticket().to_owned());
        let at = match state.shares.iter().position(|kept| kept.registered.id() == id) {
            Some(at) => at,
            None => {
                state.shares.push(Kept { registered, publication: None, why: None });
                state.shares.len() - 1
            }
        };
        let kept = &mut state.shares[at];
        if let Some(before) = kept.publication.replace(publication) {
            let counts = snapshot.counts.get(&before).copied().unwrap_or_default();
            kept.registered.counts = kept.registered.counts.plus(counts);
            self.handle.unshare(before);
        }
        kept.why = None;
        kept.registered.portable = portable;
        kept.registered.ticket = ticket;
        (kept.registered.bytes, kept.registered.files) = (shared.bytes, shared.files);
        state.save(&self.store, &snapshot).map_err(|mut e| {
            e.message = format!(
                "it is served until the background node ends, and then forgotten: {}",
                e.message
            );
            e
        })?;
        Ok(Reply::Shared(Box::new(shared)))
    }

    /// Hashes it, unless it is known and unchanged, and has it served.
    fn publish(
        &self,
        registered: &Registered,
        tell: &mut dyn FnMut(Reply),
    ) -> Result<(PublicationId, Shared), Failure> {
        let name = registered.name.as_deref().map(parse_name).transpose()?;
        let _one = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        let on_event = &mut |event: Event| match event {
            Event::Library(LibraryEvent::Hashing { done, total }) => {
                tell(Reply::Hashing { done, total });
            }
            Event::Library(LibraryEvent::Warning { what }) => tell(Reply::Warning { what }),
            Event::Library(LibraryEvent::Skipped { path, why }) => {
                tell(Reply::Warning { what: format!("left out {}: {why}", path.display()) });
            }
            _ => {}
        };
        let (path, portable) = (&registered.path, registered.portable);
        let (id, event) = self.handle.share(path, name, portable, &self.stop, on_event)?;
        let shared = Shared::of(&event);
        shared.map(|shared| (id, shared)).ok_or_else(|| Failure::new(Exit::Local, "not shared"))
    }

    /// Errors where the service has ended.
    fn snapshot(&self) -> Result<ServiceSnapshot, Failure> {
        Ok(self.handle.snapshot()?)
    }

    fn unshare(&self, path: &Path, id: &str) -> Result<Reply, Failure> {
        let snapshot = self.snapshot()?;
        let mut state = self.state();
        let is_it = |kept: &Kept| kept.registered.path == path || kept.registered.id() == id;
        let Some(at) = state.shares.iter().position(is_it) else {
            return Err(super::not_shared(path, id));
        };
        let kept = state.shares.remove(at);
        state.save(&self.store, &snapshot)?;
        if let Some(publication) = kept.publication {
            self.handle.unshare(publication);
        }
        Ok(Reply::Unshared { path: kept.registered.path })
    }

    /// All shares, as people see them.
    pub(super) fn rows(&self) -> Vec<Row> {
        let snapshot = self.handle.snapshot().unwrap_or_default();
        let row = |kept: &Kept| {
            let counts = kept.counts(&snapshot);
            super::row(&kept.registered, counts, kept.why.clone())
        };
        self.state().shares.iter().map(row).collect()
    }

    /// Shares that are served, all shares, and links that are up.
    pub(super) fn gauges(&self) -> (usize, usize, usize) {
        let peers = self.handle.snapshot().map_or(0, |snapshot| snapshot.peers);
        let state = self.state();
        let served = state.shares.iter().filter(|kept| kept.publication.is_some()).count();
        (served, state.shares.len(), peers)
    }

    /// Shares again what was shared before, goes on trying what is not there, and writes down now and
    /// then what was served; until `ended` hangs up.
    pub(super) fn keep(&self, ended: &Receiver<()>) {
        loop {
            self.resume();
            match ended.recv_timeout(ROUND) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
            self.save_now();
        }
    }

    fn resume(&self) {
        let away = |kept: &&Kept| kept.publication.is_none();
        let todo: Vec<Registered> =
            self.state().shares.iter().filter(away).map(|kept| kept.registered.clone()).collect();
        for registered in todo {
            if self.stop.raised() {
                return;
            }
            let done = self.publish(&registered, &mut |_| {});
            let mut state = self.state();
            let is_it = |kept: &&mut Kept| kept.registered.id() == registered.id();
            let Some(kept) = state.shares.iter_mut().find(is_it) else {
                // It was unshared meanwhile.
                drop(state);
                done.into_iter().for_each(|(publication, _)| self.handle.unshare(publication));
                continue;
            };
            match done {
                Ok((publication, shared)) => {
                    // Somebody may have shared it anew meanwhile.
                    kept.publication.replace(publication).into_iter().for_each(|before| {
                        self.handle.unshare(before);
                    });
                    kept.why = None;
                    kept.registered.ticket = shared.ticket().to_owned();
                    (kept.registered.bytes, kept.registered.files) = (shared.bytes, shared.files);
                }
                Err(failure) => {
                    if kept.why.as_ref() != Some(&failure.message) && !self.stop.raised() {
                        error_line(&format!("{}; trying again", clean(&failure.message)));
                        kept.why = Some(failure.message);
                    }
                }
            }
        }
        self.save_now();
    }

    fn save_now(&self) {
        // Where the service has ended, its last word is written down instead.
        if let Ok(snapshot) = self.handle.snapshot() {
            self.save(&snapshot);
        }
    }

    /// Writes down what changed.
    pub(super) fn save(&self, snapshot: &ServiceSnapshot) {
        if let Err(failure) = self.state().save(&self.store, snapshot) {
            error_line(&failure.message);
        }
    }
}

impl Kept {
    fn counts(&self, snapshot: &ServiceSnapshot) -> Counts {
        let now = self.publication.and_then(|id| snapshot.counts.get(&id)).copied();
        self.registered.counts.plus(now.unwrap_or_default())
    }
}

impl State {
    fn save(&mut self, store: &Path, snapshot: &ServiceSnapshot) -> Result<(), Failure> {
        let registered =
            |kept: &Kept| Registered { counts: kept.counts(snapshot), ..kept.registered.clone() };
        let shares = self.shares.iter().map(registered).collect();
        let registry = Registry { port: self.port, shares };
        if registry != self.saved {
            registry.save(store)?;
            self.saved = registry;
        }
        Ok(())
    }
}
