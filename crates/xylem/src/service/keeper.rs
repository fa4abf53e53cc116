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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xylem_hash::Hash;
use xylem_library::as_shared::{AsShared, NowThere};
use xylem_library::publications::PublicationId;
use xylem_library::publish::Recipients;
use xylem_library::registry::{Registered, Registry, ShareTerms, meant};
use xylem_library::served::Counts;
use xylem_library::{LibraryEvent, Selection, Stop};
use xylem_link::PeerKey;
use xylem_node::{Event, OneShare, ServiceHandle, ServiceSnapshot, wall_clock};

/// How often what is not there is looked for again, and what was served is written down.
const ROUND: Duration = Duration::from_secs(60);
/// Names of a share that are looked at for whoever asks; what has more is looked at each round.
const MANY: u64 = 4_096;

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
    /// Where it was asked to listen.
    listen: Vec<String>,
    shares: Vec<Kept>,
    /// What the file says.
    saved: Registry,
}

struct Kept {
    registered: Registered,
    /// While it is served.
    publication: Option<PublicationId>,
    /// What lay there when it began to be served, where that is known.
    as_shared: Option<Arc<AsShared>>,
    /// Why not all of it is served.
    why: Option<String>,
}

/// What of a share the serving thread has.
struct Begun {
    publication: PublicationId,
    shared: Shared,
    as_shared: Option<Arc<AsShared>>,
}

impl Keeper {
    /// Knows what `registry` has, as it lies on disk; serves none of it yet. From now on it was asked to listen there.
    pub(super) fn new(
        store: &Path,
        registry: Registry,
        port: Option<u16>,
        listen: Vec<String>,
        handle: ServiceHandle,
        stop: &Stop,
    ) -> Self {
        let kept = |registered: &Registered| Kept {
            registered: registered.clone(),
            publication: None,
            as_shared: None,
            why: Some("it is being looked at".to_owned()),
        };
        let shares = registry.shares.iter().map(kept).collect();
        let state = Mutex::new(State { port, listen, shares, saved: registry });
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
            Request::Share { path, terms } => self.share(&path, terms, tell),
            Request::Unshare { path, id } => self.unshare(&path, &id),
            Request::Shares => {
                self.look(MANY);
                Ok(Reply::Shares { shares: self.rows() })
            }
            // They have a keeper of their own.
            Request::Sync(_) | Request::Unsync { .. } | Request::Folders => {
                Err(Failure::new(Exit::Local, "no folders are kept in step here"))
            }
        };
        done.unwrap_or_else(|Failure { exit, message }| Reply::Failed { exit: exit as u8, message })
    }

    fn share(
        &self,
        path: &Path,
        terms: ShareTerms,
        tell: &mut dyn FnMut(Reply),
    ) -> Result<Reply, Failure> {
        if let Err(why) = self.can(&terms) {
            return Ok(Reply::Declined { why });
        }
        let path = xylem_library::canonical(path)?;
        let registered = Registered {
            path,
            terms,
            since_s: wall_clock().seconds(),
            ticket: String::new(),
            bytes: 0,
            files: 0,
            counts: Counts::default(),
        };
        let begun = self.publish(&registered, tell)?;
        let snapshot = self.snapshot()?;
        let mut state = self.state();
        let (id, shared) = (registered.id(), begun.shared.clone());
        let at = match state.shares.iter().position(|kept| kept.registered.id() == id) {
            Some(at) => at,
            None => {
                let registered = registered.clone();
                let (publication, as_shared, why) = (None, None, None);
                state.shares.push(Kept { registered, publication, as_shared, why });
                state.shares.len() - 1
            }
        };
        let kept = &mut state.shares[at];
        self.retire(kept, &snapshot);
        kept.registered.terms = registered.terms;
        kept.begins(begun);
        state.save(&self.store, &snapshot).map_err(|mut e| {
            e.message = format!(
                "it is served until the background node ends, and then forgotten: {}",
                e.message
            );
            e
        })?;
        Ok(Reply::Shared(Box::new(shared)))
    }

    /// Why these terms can't be kept here, if so. Each of them is decided on.
    fn can(&self, terms: &ShareTerms) -> Result<(), String> {
        let ShareTerms {
            name: _,
            portable: _,
            strict: _,
            exclude: _,
            recipients: _,
            padded: _,
            lan: _,
            map,
        } = terms;
        if !map && self.handle.asks_router() {
            return Err(
                "--no-map, and the background node has its router forward a port".to_owned()
            );
        }
        Ok(())
    }

    /// Ends what is served of a share, whose counters go on.
    fn retire(&self, kept: &mut Kept, snapshot: &ServiceSnapshot) {
        if let Some(before) = kept.publication.take() {
            let counts = snapshot.counts.get(&before).copied().unwrap_or_default();
            kept.registered.counts = kept.registered.counts.plus(counts);
            self.handle.unshare(before);
        }
    }

    /// Hashes it, unless it is known and unchanged, and has it served.
    fn publish(
        &self,
        registered: &Registered,
        tell: &mut dyn FnMut(Reply),
    ) -> Result<Begun, Failure> {
        let how = one_share(&registered.terms)?;
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
        let path = &registered.path;
        let (publication, event) = self.handle.share(path, how, &self.stop, on_event)?;
        let shared = Shared::of(&event).ok_or_else(|| Failure::new(Exit::Local, "not shared"))?;
        // What is not known is not looked at again, and served all the same.
        let as_shared = AsShared::recall(&self.store, path).ok().flatten().map(Arc::new);
        Ok(Begun { publication, shared, as_shared })
    }

    /// Errors where the service has ended.
    fn snapshot(&self) -> Result<ServiceSnapshot, Failure> {
        Ok(self.handle.snapshot()?)
    }

    fn unshare(&self, path: &Path, id: &str) -> Result<Reply, Failure> {
        let snapshot = self.snapshot()?;
        let mut state = self.state();
        let all = state.shares.iter().map(|kept| &kept.registered);
        let shares: Vec<Registered> = meant(all, path, id).into_iter().cloned().collect();
        if shares.is_empty() {
            return Err(super::not_shared(path, id));
        }
        let ends = |kept: &Kept| shares.iter().any(|ended| ended.id() == kept.registered.id());
        let gone: Vec<Kept> = state.shares.extract_if(.., |kept| ends(kept)).collect();
        state.save(&self.store, &snapshot)?;
        for publication in gone.iter().filter_map(|kept| kept.publication) {
            self.handle.unshare(publication);
        }
        Ok(Reply::Unshared { shares })
    }

    /// Compares what was shared with what lies there now, of shares of up to so many names.
    fn look(&self, names: u64) {
        let served = |kept: &Kept| Some((kept.publication?, kept.as_shared.clone()?));
        let todo: Vec<_> = self.state().shares.iter().filter_map(served).collect();
        for (publication, as_shared) in todo {
            if self.stop.raised() || as_shared.names() > names {
                continue;
            }
            let now = as_shared.now();
            let gone = now == NowThere::Nothing;
            let snapshot = gone.then(|| self.handle.snapshot()).and_then(Result::ok);
            let mut state = self.state();
            let is_it = |kept: &&mut Kept| kept.publication == Some(publication);
            // It may have been shared anew meanwhile, or no more.
            let Some(kept) = state.shares.iter_mut().find(is_it) else { continue };
            kept.why = match now {
                NowThere::Same => None,
                NowThere::Changed(what) => {
                    Some(format!("{what}; share it again, which gives a new ticket"))
                }
                NowThere::Nothing => {
                    // It is shared again as soon as it is there.
                    self.retire(kept, &snapshot.unwrap_or_default());
                    Some(format!("{}: it is not there", kept.registered.path.display()))
                }
            };
        }
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

    /// Shares all of which is served, all shares, and links that are up.
    pub(super) fn gauges(&self) -> (usize, usize, usize) {
        self.look(MANY);
        let peers = self.handle.snapshot().map_or(0, |snapshot| snapshot.peers);
        let state = self.state();
        let served = state.shares.iter().filter(|kept| kept.why.is_none()).count();
        (served, state.shares.len(), peers)
    }

    /// Shares again what was shared before, goes on trying what is not there, and writes down now and
    /// then what was served; until `ended` hangs up.
    pub(super) fn keep(&self, ended: &Receiver<()>) {
        loop {
            self.look(u64::MAX);
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
            let done = self.can(&registered.terms).map_err(|why| Failure::new(Exit::Local, why));
            let done = done.and_then(|()| self.publish(&registered, &mut |_| {}));
            let snapshot = self.handle.snapshot().unwrap_or_default();
            let mut state = self.state();
            let is_it = |kept: &&mut Kept| {
                kept.registered.id() == registered.id() && kept.registered.terms == registered.terms
            };
            let Some(kept) = state.shares.iter_mut().find(is_it) else {
                // It was unshared meanwhile, or shared on other terms.
                drop(state);
                done.into_iter().for_each(|begun| self.handle.unshare(begun.publication));
                continue;
            };
            match done {
                Ok(begun) => {
                    // Somebody may have shared it anew meanwhile.
                    self.retire(kept, &snapshot);
                    kept.begins(begun);
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

/// What the serving thread is asked for.
fn one_share(terms: &ShareTerms) -> Result<OneShare, Failure> {
    let ShareTerms { name, portable, strict, exclude, recipients, padded, lan, map: _ } =
        terms.clone();
    let name = name.as_deref().map(parse_name).transpose()?;
    let no_key = || Failure::new(Exit::Local, "a reader of the share is no key");
    let key = |text: &String| Hash::from_hex(text).map(|key| PeerKey(*key.as_bytes()));
    let keys = recipients.map(|all| all.iter().map(key).collect::<Result<Vec<_>, _>>());
    let keys = keys.transpose().map_err(|_| no_key())?;
    let recipients = keys.map(|keys| Recipients { keys, padded });
    let selection = Selection { portable, strict, exclude, ..Selection::default() };
    Ok(OneShare { name, selection, recipients, lan })
}

impl Kept {
    /// It is served from now on.
    fn begins(&mut self, begun: Begun) {
        let Begun { publication, shared, as_shared } = begun;
        self.registered.ticket = shared.ticket().to_owned();
        (self.registered.bytes, self.registered.files) = (shared.bytes, shared.files);
        // What is left out is what was left out now, whatever another share of this path remembers by the next run.
        let excluded = as_shared.as_ref().map(|as_shared| as_shared.excluded().to_vec());
        self.registered.terms.exclude = excluded.or(self.registered.terms.exclude.take());
        (self.publication, self.as_shared, self.why) = (Some(publication), as_shared, None);
    }

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
        let registry = Registry { port: self.port, listen: self.listen.clone(), shares };
        if registry != self.saved {
            registry.save(store)?;
            self.saved = registry;
        }
        Ok(())
    }
}
