//! [`ShareKeeper`]: the shares of the background node, in memory and in the store's file.
//!
//! Requests run on threads of their own, which also hash. The serving thread only adds and removes shares, so getters
//! do not wait.

use super::messages::{ServiceReply, ServiceRequest, ShareRow, SharedReply};
use crate::exit::{CommandFailure, Exit};
use crate::meter::{self, MeteredShare};
use crate::output::{error_line, text::clean};
use crate::values::parse_name;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use xylem_base::Stop;
use xylem_files::{LibraryEvent, walk::Selection};
use xylem_hash::Hash;
use xylem_link::PeerKey;
use xylem_node::{Event, OneShare, ServiceHandle, ServiceSnapshot, wall_clock};
use xylem_publish::Recipients;
use xylem_publish::as_shared::{AsShared, NowThere};
use xylem_publish::publications::PublicationId;
use xylem_publish::registry::{Registered, Registry, ShareTerms, meant};
use xylem_publish::served::ServedCounts;

/// How often missing paths are looked for again, and the counters are written to the store.
const ROUND: Duration = Duration::from_secs(60);
/// Largest share, in names, that is checked when a client lists the shares or reads the metrics. Larger ones are
/// checked each round.
const MANY: u64 = 4_096;

/// See the module's documentation.
pub(super) struct ShareKeeper {
    store: PathBuf,
    handle: ServiceHandle,
    stop: Stop,
    state: Mutex<KeeperState>,
    /// Held while a path is hashed, so that one path at a time uses all cores.
    hashing: Mutex<()>,
}

struct KeeperState {
    port: Option<u16>,
    /// The addresses given on the command line.
    listen: Vec<String>,
    shares: Vec<KeptShare>,
    /// The content of the file.
    saved: Registry,
}

struct KeptShare {
    registered: Registered,
    /// Set while it is served.
    publication: Option<PublicationId>,
    /// The files as they were when serving began, if that is known.
    as_shared: Option<Arc<AsShared>>,
    /// Why some or all of it is not served.
    why: Option<String>,
}

/// A share that the serving thread has accepted.
struct StartedShare {
    publication: PublicationId,
    shared: SharedReply,
    as_shared: Option<Arc<AsShared>>,
}

impl ShareKeeper {
    /// Takes over `registry` as it is on disk, and serves none of it yet. `listen` replaces its addresses.
    pub(super) fn new(
        store: &Path,
        registry: Registry,
        port: Option<u16>,
        listen: Vec<String>,
        handle: ServiceHandle,
        stop: &Stop,
    ) -> Self {
        let kept = |registered: &Registered| KeptShare {
            registered: registered.clone(),
            publication: None,
            as_shared: None,
            why: Some("it is being checked".to_owned()),
        };
        let shares = registry.shares.iter().map(kept).collect();
        let state = Mutex::new(KeeperState { port, listen, shares, saved: registry });
        let hashing = Mutex::new(());
        Self { store: store.to_path_buf(), handle, stop: stop.clone(), state, hashing }
    }

    fn state(&self) -> MutexGuard<'_, KeeperState> {
        // A poisoned lock needs no handling: a bug elsewhere ends the process (exit.rs).
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a request; replies before the last one go to `tell`.
    pub(super) fn answer(
        &self,
        request: ServiceRequest,
        tell: &mut dyn FnMut(ServiceReply),
    ) -> ServiceReply {
        let done = match request {
            ServiceRequest::Share { path, terms } => self.share(&path, terms, tell),
            ServiceRequest::Unshare { path, id } => self.unshare(&path, &id),
            ServiceRequest::Shares => {
                self.compare_with_disk(MANY);
                Ok(ServiceReply::Shares { shares: self.rows() })
            }
            ServiceRequest::RelayLoad { .. }
            | ServiceRequest::RelayBan { .. }
            | ServiceRequest::RelayUnban { .. }
            | ServiceRequest::RelayBans
            | ServiceRequest::RelayDrain { .. } => {
                Err(CommandFailure::new(Exit::Usage, "the background node is no relay"))
            }
            // `Folders` answers these.
            ServiceRequest::Sync(_) | ServiceRequest::Unsync { .. } | ServiceRequest::Folders => {
                Err(CommandFailure::new(Exit::Local, "no folders are kept in step here"))
            }
        };
        done.unwrap_or_else(|CommandFailure { exit, message }| ServiceReply::Failed {
            exit: exit as u8,
            message,
        })
    }

    fn share(
        &self,
        path: &Path,
        terms: ShareTerms,
        tell: &mut dyn FnMut(ServiceReply),
    ) -> Result<ServiceReply, CommandFailure> {
        if let Err(why) = self.check_terms(&terms) {
            return Ok(ServiceReply::Declined { why });
        }
        let path = xylem_base::canonical(path)?;
        let registered = Registered {
            path,
            terms,
            since_s: wall_clock().seconds(),
            ticket: String::new(),
            bytes: 0,
            files: 0,
            counts: ServedCounts::default(),
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
                state.shares.push(KeptShare { registered, publication, as_shared, why });
                state.shares.len() - 1
            }
        };
        let kept = &mut state.shares[at];
        self.retire(kept, &snapshot);
        kept.registered.terms = registered.terms;
        kept.mark_served(begun);
        state.save(&self.store, &snapshot).map_err(|mut e| {
            e.message = format!(
                "it is shared only until the background node ends, because the list of shares cannot be saved: {}",
                e.message
            );
            e
        })?;
        Ok(ServiceReply::Shared(Box::new(shared)))
    }

    /// Checks whether this node supports the terms; an error gives the reason. The pattern is exhaustive, so that each
    /// new term is considered.
    fn check_terms(&self, terms: &ShareTerms) -> Result<(), String> {
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
                "--no-map is given, and the background node asks the router to forward its port"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Stops serving a share and adds its counters to those of earlier runs.
    fn retire(&self, kept: &mut KeptShare, snapshot: &ServiceSnapshot) {
        if let Some(before) = kept.publication.take() {
            let counts = snapshot.counts.get(&before).copied().unwrap_or_default();
            kept.registered.counts = kept.registered.counts.plus(counts);
            self.handle.unshare(before);
        }
    }

    /// Hashes a share, unless it is known and unchanged, and serves it.
    fn publish(
        &self,
        registered: &Registered,
        tell: &mut dyn FnMut(ServiceReply),
    ) -> Result<StartedShare, CommandFailure> {
        let how = one_share(&registered.terms)?;
        let _one = self.hashing.lock().unwrap_or_else(PoisonError::into_inner);
        let on_event = &mut |event: Event| match event {
            Event::Library(LibraryEvent::Hashing { done, total }) => {
                tell(ServiceReply::Hashing { done, total });
            }
            Event::Library(LibraryEvent::Warning { what }) => tell(ServiceReply::Warning { what }),
            Event::Library(LibraryEvent::Skipped { path, why }) => {
                tell(ServiceReply::Warning { what: format!("left out {}: {why}", path.display()) });
            }
            _ => {}
        };
        let path = &registered.path;
        let (publication, event) = self.handle.share(path, how, &self.stop, on_event)?;
        let shared = SharedReply::of(&event)
            .ok_or_else(|| CommandFailure::new(Exit::Local, "not shared"))?;
        // Without a record the files cannot be compared later; they are served all the same.
        let as_shared = AsShared::recall(&self.store, path).unwrap_or_else(|e| {
            let what = format!("changes of {} will not be noticed: {e}", path.display());
            tell(ServiceReply::Warning { what });
            None
        });
        let as_shared = as_shared.map(Arc::new);
        Ok(StartedShare { publication, shared, as_shared })
    }

    /// The counters of the serving thread; an error if the service has ended.
    fn snapshot(&self) -> Result<ServiceSnapshot, CommandFailure> {
        Ok(self.handle.snapshot()?)
    }

    fn unshare(&self, path: &Path, id: &str) -> Result<ServiceReply, CommandFailure> {
        let snapshot = self.snapshot()?;
        let mut state = self.state();
        let all = state.shares.iter().map(|kept| &kept.registered);
        let shares: Vec<Registered> = meant(all, path, id).into_iter().cloned().collect();
        if shares.is_empty() {
            return Err(super::not_shared(path, id));
        }
        let ends = |kept: &KeptShare| shares.iter().any(|ended| ended.id() == kept.registered.id());
        let gone: Vec<KeptShare> = state.shares.extract_if(.., |kept| ends(kept)).collect();
        state.save(&self.store, &snapshot)?;
        for publication in gone.iter().filter_map(|kept| kept.publication) {
            self.handle.unshare(publication);
        }
        Ok(ServiceReply::Unshared { shares })
    }

    /// Compares each share of up to `names` names with the files that are there now.
    fn compare_with_disk(&self, names: u64) {
        let served = |kept: &KeptShare| Some((kept.publication?, kept.as_shared.clone()?));
        let todo: Vec<_> = self.state().shares.iter().filter_map(served).collect();
        for (publication, as_shared) in todo {
            if self.stop.raised() || as_shared.names() > names {
                continue;
            }
            let now = as_shared.now();
            let gone = now == NowThere::Nothing;
            let snapshot = gone.then(|| self.handle.snapshot()).and_then(Result::ok);
            let mut state = self.state();
            let is_it = |kept: &&mut KeptShare| kept.publication == Some(publication);
            // The share may have been renewed or ended meanwhile.
            let Some(kept) = state.shares.iter_mut().find(is_it) else { continue };
            kept.why = match now {
                NowThere::Same => None,
                NowThere::Changed(what) => {
                    Some(format!("{what}; share it again, which gives a new ticket"))
                }
                NowThere::Nothing => {
                    // It is shared again as soon as it is back.
                    self.retire(kept, &snapshot.unwrap_or_default());
                    Some(format!(
                        "{}: it is gone; it is shared again when it is back",
                        kept.registered.path.display()
                    ))
                }
            };
        }
    }

    /// All shares, as they are listed.
    pub(super) fn rows(&self) -> Vec<ShareRow> {
        let snapshot = self.handle.snapshot().unwrap_or_default();
        let row = |kept: &KeptShare| {
            let counts = kept.counts(&snapshot);
            super::row(&kept.registered, counts, kept.why.clone())
        };
        self.state().shares.iter().map(row).collect()
    }

    /// The page for Prometheus.
    pub(super) fn page(&self) -> String {
        self.compare_with_disk(MANY);
        let snapshot = self.handle.snapshot().unwrap_or_default();
        let metered = |kept: &KeptShare| MeteredShare {
            id: kept.registered.id(),
            path: kept.registered.path.clone(),
            is_served: kept.why.is_none(),
            counts: kept.counts(&snapshot),
        };
        let shares: Vec<_> = self.state().shares.iter().map(metered).collect();
        meter::page(&shares, snapshot.peers)
    }

    /// Shares again what earlier runs shared, retries what is missing, and writes the counters to the store each round,
    /// until `ended` is closed.
    pub(super) fn keep(&self, ended: &Receiver<()>) {
        loop {
            self.compare_with_disk(u64::MAX);
            self.resume();
            match ended.recv_timeout(ROUND) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
            self.save_now();
        }
    }

    fn resume(&self) {
        let away = |kept: &&KeptShare| kept.publication.is_none();
        let todo: Vec<Registered> =
            self.state().shares.iter().filter(away).map(|kept| kept.registered.clone()).collect();
        for registered in todo {
            if self.stop.raised() {
                return;
            }
            let done = self
                .check_terms(&registered.terms)
                .map_err(|why| CommandFailure::new(Exit::Local, why));
            let done = done.and_then(|()| self.publish(&registered, &mut |_| {}));
            let snapshot = self.handle.snapshot().unwrap_or_default();
            let mut state = self.state();
            let is_it = |kept: &&mut KeptShare| {
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
                    // It may have been shared again meanwhile.
                    self.retire(kept, &snapshot);
                    kept.mark_served(begun);
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
        // If the service has ended, its final counters are written instead.
        if let Ok(snapshot) = self.handle.snapshot() {
            self.save(&snapshot);
        }
    }

    /// Writes what has changed to the store.
    pub(super) fn save(&self, snapshot: &ServiceSnapshot) {
        if let Err(failure) = self.state().save(&self.store, snapshot) {
            error_line(&failure.message);
        }
    }
}

/// Turns a share's terms into a request for the serving thread.
fn one_share(terms: &ShareTerms) -> Result<OneShare, CommandFailure> {
    let ShareTerms { name, portable, strict, exclude, recipients, padded, lan, map: _ } =
        terms.clone();
    let name = name.as_deref().map(parse_name).transpose()?;
    let no_key = || CommandFailure::new(Exit::Local, "a recipient of the share is not a valid key");
    let key = |text: &String| Hash::from_hex(text).map(|key| PeerKey(*key.as_bytes()));
    let keys = recipients.map(|all| all.iter().map(key).collect::<Result<Vec<_>, _>>());
    let keys = keys.transpose().map_err(|_| no_key())?;
    let recipients = keys.map(|keys| Recipients { keys, padded });
    let selection = Selection { portable, strict, exclude, ..Selection::default() };
    Ok(OneShare { name, selection, recipients, lan })
}

impl KeptShare {
    /// Marks the share as served.
    fn mark_served(&mut self, begun: StartedShare) {
        let StartedShare { publication, shared, as_shared } = begun;
        self.registered.ticket = shared.ticket().to_owned();
        (self.registered.bytes, self.registered.files) = (shared.bytes, shared.files);
        // Keep the exclusions of now, even if another share of this path records others before the next run.
        let excluded = as_shared.as_ref().map(|as_shared| as_shared.excluded().to_vec());
        self.registered.terms.exclude = excluded.or(self.registered.terms.exclude.take());
        (self.publication, self.as_shared, self.why) = (Some(publication), as_shared, None);
    }

    fn counts(&self, snapshot: &ServiceSnapshot) -> ServedCounts {
        let now = self.publication.and_then(|id| snapshot.counts.get(&id)).copied();
        self.registered.counts.plus(now.unwrap_or_default())
    }
}

impl KeeperState {
    fn save(&mut self, store: &Path, snapshot: &ServiceSnapshot) -> Result<(), CommandFailure> {
        let registered = |kept: &KeptShare| Registered {
            counts: kept.counts(snapshot),
            ..kept.registered.clone()
        };
        let shares = self.shares.iter().map(registered).collect();
        let registry = Registry { port: self.port, listen: self.listen.clone(), shares };
        if registry != self.saved {
            registry.save(store)?;
            self.saved = registry;
        }
        Ok(())
    }
}
