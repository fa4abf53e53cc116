//! [`sync()`]: keeps a folder in step with those of other members (docs/spec/sync.md, "Folders").

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use xylem_library::folder::{
    Folder, Home, HomeError, Invitation, LastRun, OWN, RoleSchema, VersionPolicy, Watched, Watcher,
    shown,
};
use xylem_library::keys::Keyring;
use xylem_library::reachable::{Peer, Relay};
use xylem_library::{Blame, Error, Selection, Stop, canonical, keys};
use xylem_link::StaticKey;
use xylem_node::{
    AnnounceOptions, Event, LinkOptions, MeshNews, MeshStart, Prove, ServiceHandle, ShareError,
    ShareOptions, serve_group, wall_clock,
};
use xylem_object::PublisherKey;
use xylem_object::ticket::Address;

use super::member::{Member, warning};
use super::status::{Board, SyncStatus, paused};

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; raise fs.inotify.max_user_watches",
        _ => "",
    }
}

/// Changes can't be watched.
pub(super) fn unwatched(path: &Path, error: &io::Error) -> Error {
    let what = format!("{}: changes can't be watched: {error}{}", path.display(), advice(error));
    Error { blame: Blame::Local, message: what }
}

/// How a folder is kept in step.
#[derive(Clone, Debug)]
pub(super) struct SyncOptions {
    /// The folder.
    pub(super) folder: PathBuf,
    /// The group that it joins, if it is no member yet; `None`: a new one.
    pub(super) joins: Option<Invitation>,
    /// What we are called.
    pub(super) name: String,
    /// Says from now on who is a member, by certificates.
    pub(super) schema: Option<RoleSchema>,
    /// The key as whose owner we are a member, and the certificates between its own and an anchor.
    pub(super) sign: Option<(String, Vec<PathBuf>)>,
    /// What the next run is to do as this one, if it is not asked for something else.
    pub(super) last: LastRun,
    /// As for a share.
    pub(super) listen: Vec<Peer>,
    /// As for a share.
    pub(super) announce: Vec<Address>,
    /// As for a share.
    pub(super) relays: Vec<Relay>,
    /// As for a share.
    pub(super) links: LinkOptions,
    /// As for a share.
    pub(super) beside: AnnounceOptions,
    /// Which versions are kept of what others replace or remove.
    pub(super) versions: VersionPolicy,
    /// Bytes a second that are fetched at most; `None`: as many as come.
    pub(super) limit: Option<u64>,
    /// Where people see how it is.
    pub(super) board: Board,
    /// Where keys, trees and what is known of the group are kept.
    pub(super) store: PathBuf,
}

/// What happens while a folder is kept in step.
#[derive(Debug)]
pub(super) enum SyncEvent {
    /// Others can join with this.
    Ready {
        /// The line to be given to them.
        invitation: Invitation,
        /// Our name in the group, and the beginning of our key.
        name: String,
        /// Our key.
        key: String,
    },
    /// A member came or went.
    Member {
        /// What it is called.
        name: String,
        /// Its key.
        key: String,
        /// Whether there is a link to it.
        up: bool,
    },
    /// What a member has changed was taken over.
    Took {
        /// From whom.
        name: String,
        /// Files, links and directories that came.
        put: u64,
        /// Those that went.
        gone: u64,
        /// Of what was replaced or removed, files that are in the trash.
        kept: u64,
        /// The first of what came, below the folder.
        paths: Vec<PathBuf>,
        /// Paths that both had changed: both are kept.
        conflicts: Vec<PathBuf>,
        /// What came of conflicts, here or elsewhere: copies of versions that lost, and whose they are.
        copies: Vec<(PathBuf, String)>,
    },
    /// What we have is what all members have who are there.
    InStep {
        /// A hash of it, the same for all.
        state: String,
        /// Members besides us who are there.
        members: u64,
        /// Paths that can't be brought in step now.
        but: u64,
    },
    /// The thread that keeps the folder in step has done what there was to do.
    Tick {
        /// Whether all have the same now.
        in_step: bool,
    },
    /// How far a fetch is.
    Fetching(Event),
    /// Nothing is published and taken over from now on,
    Paused,
    /// or it is again.
    Resumed,
    /// A member has signed two histories.
    Rewrote {
        /// What it is called.
        name: String,
        /// Its key.
        key: String,
        /// Where both statements are kept.
        evidence: PathBuf,
    },
    /// A member does not show that its history goes on.
    Unproven {
        /// What it is called.
        name: String,
        /// Its key.
        key: String,
    },
    /// Somebody has the ticket, and is no member.
    Applies {
        /// What it is called.
        name: String,
        /// Its key.
        key: String,
        /// Why it is none.
        why: String,
    },
    /// Other members have changed files that our rules include: that is in force here once it is accepted.
    RulesWait {
        /// The files, below the folder.
        files: Vec<String>,
    },
    /// We are no member: others refuse our links.
    TurnedAway {
        /// Whether the founder, who says so, has removed us.
        removed: bool,
        /// Why, and what can be done.
        why: String,
    },
    /// Another process keeps the folder in step, and tells the others who is a member.
    Noted,
    /// We may not write: what is changed here stays here.
    ReadOnly,
    /// What happens while we serve.
    Other(Event),
}

/// What the one thread hears that keeps the folder in step.
pub(super) enum News {
    Ready(Box<ServiceHandle>, Option<u16>),
    Mesh(MeshNews),
    /// What changes until this is taken is not told once more: a folder that is being filled would be a message a file.
    Changed(Arc<Mutex<Option<Watched>>>),
    Watch(io::Error),
    Serving(Event),
    Ended(Result<(), ShareError>),
}

/// Keeps a folder in step until `stop` is raised.
///
/// # Errors
/// Of the folder, the store, and of serving.
pub(super) fn sync(
    options: &SyncOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(SyncEvent),
) -> Result<(), Error> {
    let path = canonical(&options.folder)?;
    fs::create_dir_all(&options.store).map_err(|e| {
        let message = format!("{}: {e}", options.store.display());
        Error { blame: Blame::Local, message }
    })?;
    let home = Home::open(&options.store, &path, options.joins.as_ref())?;
    if let Some(schema) = &options.schema {
        home.give_schema(schema.clone(), wall_clock().milliseconds())?;
    }
    let _lock = match home.lock(&path) {
        Err(HomeError::Busy(_)) if options.schema.is_some() => {
            on_event(SyncEvent::Noted);
            return Ok(());
        }
        lock => lock?,
    };
    home.keep_last_run(&options.last)?;
    let key = home.key()?;
    keep_shown(options, &home, &key)?;
    if home.mend_roles()? {
        let list = home.roles_dir();
        on_event(warning(format!(
            "{}: one of the two lists of members was damaged, and is mended",
            list.display()
        )));
    }
    let mut folder = Folder::open(&path, home.dir(), key.public().key_id().0, &options.name)?;
    let _claim = home.claim(&path)?;
    folder.keep_versions(options.versions);
    let share = ShareOptions {
        paths: Vec::new(),
        name: None,
        key_file: Some(home.key_file()),
        identity: None,
        selection: Selection::default(),
        recipients: None,
        listen: options.listen.clone(),
        announce: options.announce.clone(),
        relays: options.relays.clone(),
        certificate: None,
        plain: Vec::new(),
        web: Vec::new(),
        pages: Vec::new(),
        prove: Prove::default(),
        via: Vec::new(),
        links: options.links.clone(),
        accept_open: false,
        follow: None,
        beside: options.beside.clone(),
        code: false,
        witnesses: Vec::new(),
        store: options.store.clone(),
    };
    let link_key = keys::load_or_create(&options.store.join("keys").join("link"))?;
    let link_key = StaticKey::from_bytes(link_key).public().0;
    let (tell, news) = mpsc::channel();
    let known = home.members()?;
    if !known.is_whole {
        let what = "what members have said was kept, and is damaged: of those of whom nothing is left a history is believed that is \
                    another one than before";
        on_event(warning(what.to_owned()));
    }
    let start = MeshStart {
        group: home.invitation.group.clone(),
        own: key.public(),
        first: Some(home.invitation.member.clone()),
        known: known.said,
        met: home.met(),
        roles: home.roles()?.unwrap_or_default(),
        history: home.history_file(),
        rewrote: home.evidence()?,
    };
    watch(&path, &home, tell.clone())?;
    let now_ms = wall_clock().milliseconds();
    let first = SyncStatus {
        folder: path.to_string_lossy().into_owned(),
        name: options.name.clone(),
        key: key.public().to_string(),
        running: true,
        pid: std::process::id(),
        since_ms: now_ms,
        ..SyncStatus::default()
    };
    let _posting = options.board.begin(&home, first)?;
    let paused = paused(&home);
    let port = home.port();
    let mut member = Member::new(options, path, home, folder, key, link_key, stop)?;
    let ends = Stop::new();
    thread::scope(|scope| {
        let (mesh_tell, mesh_news) = mpsc::channel();
        let (share, ends) = (&share, &ends);
        let (passed, asking) = (tell.clone(), member.asking());
        let pass = move || {
            loop {
                // What is under way ends, too.
                if paused.symlink_metadata().is_ok() {
                    asking.halt();
                }
                let said = match mesh_news.recv_timeout(asking.looks_after()) {
                    Ok(said) => said,
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        asking.look_at_the_clock();
                        continue;
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                };
                asking.look_at_the_clock();
                match &said {
                    MeshNews::Said(said, _) => asking.heard(said.member, said.number),
                    MeshNews::Up(member, false) => asking.away(member),
                    _ => {}
                }
                if passed.send(News::Mesh(said)).is_err() {
                    return;
                }
            }
        };
        let serve = move || {
            let ready = |handle, port| drop(tell.send(News::Ready(Box::new(handle), port)));
            let group = Some((start, mesh_tell));
            let served = serve_group(share, port, group, ends, ready, &mut |event| {
                drop(tell.send(News::Serving(event)));
            });
            drop(tell.send(News::Ended(served.map(drop))));
        };
        let started = thread::Builder::new()
            .spawn_scoped(scope, pass)
            .and_then(|_| thread::Builder::new().spawn_scoped(scope, serve));
        let done = match started {
            Ok(_) => member.run(&news, on_event),
            Err(e) => Err(Error { blame: Blame::Local, message: format!("no thread: {e}") }),
        };
        ends.raise();
        done.and(member.keep_members().map_err(Error::from))
    })
}

/// Keeps what this member shows where a schema says who is one, for this run and later ones.
fn keep_shown(options: &SyncOptions, home: &Home, key: &PublisherKey) -> Result<(), Error> {
    let Some((which, chain)) = &options.sign else { return Ok(()) };
    let keyring = Keyring::at(&options.store);
    let mut certificates = vec![keyring.certificate(which)?];
    for path in chain {
        certificates.push(keys::certificate(path)?);
    }
    let (founder, signer) = (&home.invitation.group.founder, keyring.signer(which)?);
    let shown = shown(founder, &key.public(), &signer, &certificates);
    Ok(home.keep_shown(&shown.map_err(|e| Error::usage(e.to_string()))?)?)
}

/// The whole folder is looked at so often, whatever is told of changes: mounts, network file systems and mapped writes tell nothing.
const RESCAN: Duration = Duration::from_secs(600);

/// [`RESCAN`], or so many seconds as the variable says; between four and six fifths of it, so that members do not all look at once.
fn next_rescan() -> Duration {
    let seconds = std::env::var("XYLEM_SYNC_RESCAN").ok().and_then(|text| text.parse().ok());
    let usual = seconds.filter(|seconds| *seconds > 0).map_or(RESCAN, Duration::from_secs);
    let percent = 80 + u32::try_from(wall_clock().milliseconds() % 41).unwrap_or(0);
    usual.saturating_mul(percent) / 100
}

/// Has a thread tell of changes for as long as the process lives.
fn watch(path: &Path, home: &Home, tell: mpsc::Sender<News>) -> Result<(), Error> {
    let failed = |e| unwatched(path, &e);
    let mut watcher = Watcher::new(path, OWN, &home.roles_dir()).map_err(failed)?;
    let unheard = Arc::new(Mutex::new(None::<Watched>));
    let mut rescan = Instant::now() + next_rescan();
    let watch = move || {
        loop {
            let mut changed = watcher.wait(rescan.saturating_duration_since(Instant::now()));
            if Instant::now() >= rescan {
                rescan = Instant::now() + next_rescan();
                changed = changed.and_then(|_| watcher.watch_again()).map(|()| Watched::Much);
            }
            let said = match changed {
                Ok(changed) if changed.is_empty() => continue,
                Ok(changed) => {
                    let mut unheard_of = unheard.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(waiting) = &mut *unheard_of {
                        waiting.join(changed);
                        continue;
                    }
                    *unheard_of = Some(changed);
                    News::Changed(unheard.clone())
                }
                Err(e) => News::Watch(e),
            };
            let over = matches!(said, News::Watch(_));
            if tell.send(said).is_err() || over {
                return;
            }
        }
    };
    thread::Builder::new().spawn(watch).map(drop).map_err(failed)
}
