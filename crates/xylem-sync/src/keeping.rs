//! [`sync()`]: keeps a folder in step with those of other members (docs/spec/sync.md, "Folders").

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use xylem_base::{FileMedium, Stop, canonical, disk};
use xylem_files::walk::Selection;
use xylem_folder::{
    FolderWatcher, HomeError, Invitation, LastRun, LinkRefusal, NotAdmitted, OWN, RoleSchema,
    SyncFolder, SyncHome, VersionPolicy, Watched, present,
};
use xylem_keys::Keyring;
use xylem_link::StaticKey;
use xylem_node::{
    AnnounceOptions, Event, LinkOptions, MeshNews, MeshStart, Prove, RelayList, ServiceHandle,
    ShareError, ShareOptions, look_up_place, resolve, serve_group, wall_clock,
};
use xylem_object::ticket::Address;
use xylem_object::{PublisherId, PublisherKey};
use xylem_peers::reachable::{PeerAddress, PeerUri, Relay};
use xylem_store::create_dirs;

use crate::board::{FolderStep, StatusBoard, SyncStatus, paused};
use crate::error::{OldPlaceError, SyncError};
use crate::member::{SyncMember, warning};
use crate::naming::{is_member_name, usual_member_name};

/// How a folder is kept in step.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// The folder.
    pub folder: PathBuf,
    /// The group to join, if the folder has none yet; `None` for a new group.
    pub joins: Option<Invitation>,
    /// Our name in the group. `None`: as in the last run, at first [`usual_member_name`](crate::usual_member_name).
    pub name: Option<String>,
    /// A new schema that determines the members and their roles by certificates.
    pub schema: Option<RoleSchema>,
    /// The key whose certificate makes us a member, and the certificates between its own and an anchor.
    pub sign: Option<(String, Vec<PathBuf>)>,
    /// The settings that later runs take over unless they have others of their own. `None`: those that are remembered
    /// stay.
    pub remember: Option<LastRun>,
    /// As for a share. Empty while `remember` is `None`: where the last run listened.
    pub listen: Vec<PeerAddress>,
    /// As for a share.
    pub announce: Vec<Address>,
    /// As for a share.
    pub relays: Vec<Relay>,
    /// The list from which the relays are, if they are from one. It is read again while the folder is kept.
    pub relay_list: Option<RelayList>,
    /// As for a share.
    pub links: LinkOptions,
    /// As for a share.
    pub beside: AnnounceOptions,
    /// Which versions of replaced or removed files to keep. `None`: as in the last run, at first for a week.
    pub versions: Option<VersionPolicy>,
    /// Whether to exchange extended attributes. `None`: as in the last run, at first not.
    pub xattrs: Option<bool>,
    /// Bytes per second to fetch at most; `None`: no limit.
    pub limit: Option<u64>,
    /// Publishes the status of the folder.
    pub board: StatusBoard,
    /// Directory of keys, trees and the state of the group.
    pub store: PathBuf,
}

impl SyncOptions {
    /// Defaults: the folder's own group or a new one, with the settings of its last run, at first all interfaces and
    /// versions for a week; no relay, no announcement.
    pub fn new(folder: PathBuf, store: PathBuf) -> Self {
        Self {
            folder,
            joins: None,
            name: None,
            schema: None,
            sign: None,
            remember: None,
            listen: Vec::new(),
            announce: Vec::new(),
            relays: Vec::new(),
            relay_list: None,
            links: LinkOptions::default(),
            beside: AnnounceOptions::default(),
            versions: None,
            xattrs: None,
            limit: None,
            board: StatusBoard::default(),
            store,
        }
    }

    /// Fills what is not given from the group's last run, and remembers what is to be remembered.
    fn resolve(&self, home: &SyncHome) -> Result<Self, SyncError> {
        let before = home.last_run()?;
        let name = self.name.clone().or_else(|| before.name.clone());
        let name = name.unwrap_or_else(usual_member_name);
        let listen = match &self.remember {
            None if self.listen.is_empty() => remembered_links(&before.listen)?,
            _ => self.listen.clone(),
        };
        let versions = self.versions.or(before.versions).unwrap_or_default();
        let xattrs = self.xattrs.unwrap_or(before.xattrs);
        let last = match &self.remember {
            Some(last) => last.clone(),
            None => LastRun { name: before.name.or_else(|| Some(name.clone())), ..before },
        };
        home.keep_last_run(&last)?;
        Ok(Self {
            name: Some(name),
            listen,
            versions: Some(versions),
            xattrs: Some(xattrs),
            remember: Some(last),
            ..self.clone()
        })
    }
}

/// Resolves remembered addresses to listen at.
fn remembered_links(texts: &[String]) -> Result<Vec<PeerAddress>, SyncError> {
    let one =
        |text: &String| place(text).map_err(|why| SyncError::Listen { at: text.clone(), why });
    texts.iter().map(one).collect()
}

fn place(text: &str) -> Result<PeerAddress, OldPlaceError> {
    let first = match text.parse::<PeerUri>() {
        Ok(uri) if text.contains("://") => resolve(&uri)?.into_iter().next(),
        _ => {
            let found = look_up_place(&text.parse()?)?.into_iter().next();
            found.map(|address| PeerAddress::Link { address, key: None })
        }
    };
    first.ok_or(OldPlaceError::NoAddress)
}

/// Events while a folder is kept in step.
#[derive(Debug)]
pub enum SyncEvent {
    /// Other members can join.
    Ready {
        /// The ticket to give to them.
        invitation: Invitation,
        /// Our name in the group.
        name: String,
        /// Our key.
        key: String,
    },
    /// A member came or went.
    Member {
        /// Its name.
        name: String,
        /// Its key.
        key: String,
        /// Whether there is a link to it.
        up: bool,
    },
    /// Changes of a member were applied.
    Took {
        /// The member's name.
        name: String,
        /// Number of files, links and directories that were put in place.
        put: u64,
        /// Number of those that were removed.
        gone: u64,
        /// Number of replaced or removed files that are in the trash.
        kept: u64,
        /// The first of the paths put in place, below the folder.
        paths: Vec<PathBuf>,
        /// Paths that both members have changed; both versions are kept.
        conflicts: Vec<PathBuf>,
        /// Conflict copies, made here or elsewhere, and the members whose versions they hold.
        copies: Vec<(PathBuf, String)>,
    },
    /// All connected members have the state that we have.
    InStep {
        /// A hash of the state, the same for all.
        state: String,
        /// Number of other members that are connected.
        members: u64,
        /// Number of paths that cannot be brought in step now.
        but: u64,
    },
    /// The thread that keeps the folder in step has done all present work.
    Tick {
        /// Whether all connected members have the same state now.
        in_step: bool,
    },
    /// Progress of a fetch.
    Fetching(Event),
    /// Nothing is published or applied from now on.
    Paused,
    /// Publishing and applying goes on.
    Resumed,
    /// A member has signed two histories.
    Rewrote {
        /// Its name.
        name: String,
        /// Its key.
        key: String,
        /// Where both statements are kept.
        evidence: PathBuf,
    },
    /// A member has not proven that its history continues.
    Unproven {
        /// Its name.
        name: String,
        /// Its key.
        key: String,
    },
    /// A peer has the ticket and is no member.
    Applies {
        /// Its name.
        name: String,
        /// Its key.
        key: String,
        /// Why it is no member.
        why: NotAdmitted,
    },
    /// Other members have changed files that our rules include. The change has no effect here until it is accepted.
    RulesWait {
        /// The files, below the folder.
        files: Vec<String>,
    },
    /// Other members refuse our links, because we are no member.
    TurnedAway {
        /// Why, and what can be done.
        why: LinksRefused,
    },
    /// Another process keeps the folder in step; it announces the change of members.
    Noted,
    /// We have no right to write: changes made here stay here.
    ReadOnly,
    /// An event of serving.
    Other(Event),
}

/// Why other members refuse our links. Its `Display` also tells what can be done.
#[derive(Clone, Debug)]
pub struct LinksRefused {
    /// Whether the founder refuses them; else other members do.
    pub by_founder: bool,
    /// The reason that they give.
    pub why: LinkRefusal,
    /// Our key in the group.
    pub key: PublisherId,
}

impl LinksRefused {
    /// Returns whether the founder has removed us, as it reports itself.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        self.by_founder && self.why == LinkRefusal::Removed
    }
}

impl fmt::Display for LinksRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, stays) = (&self.key, "the files here stay as they are");
        match (self.by_founder, self.why) {
            (true, LinkRefusal::Removed) => write!(
                f,
                "this member was removed from the group by its founder: nothing is sent or received any more; {stays}"
            ),
            (true, LinkRefusal::Unnamed) => write!(
                f,
                "the group is closed, and the founder has removed this member or not admitted it: it takes no part until the founder runs \
                 `xylem sync DIR --allow {key}`; {stays}"
            ),
            (true, LinkRefusal::NotCertified) => write!(
                f,
                "the group's schema does not admit this member by its certificates: nothing is sent or received; name a key \
                 whose certificate it admits: `xylem sync DIR --sign key:NAME`; {stays}"
            ),
            (_, LinkRefusal::NoPlace) => write!(
                f,
                "the group is full: this member takes no part until the founder runs `xylem sync DIR --allow {key}`"
            ),
            (false, _) => write!(
                f,
                "other members refuse links from this one: the founder has probably removed it from the group, but can't be reached to \
                 confirm that; {stays}"
            ),
        }
    }
}

/// Messages to the thread that keeps the folder in step.
pub(crate) enum SyncNews {
    Ready(Box<ServiceHandle>, Option<u16>),
    Mesh(MeshNews),
    /// Something has changed in the folder. Later changes are added to this value until the thread takes it, so that a
    /// folder that is being filled does not cause a message per file.
    Changed(Arc<Mutex<Option<Watched>>>),
    Watch(io::Error),
    Serving(Event),
    Ended(Result<(), ShareError>),
}

/// Keeps a folder in step until `stop` is raised.
///
/// # Errors
/// See [`SyncError`].
pub fn sync(
    options: &SyncOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(SyncEvent),
) -> Result<(), SyncError> {
    if let Some(name) = options.name.as_ref().filter(|name| !is_member_name(name)) {
        return Err(SyncError::Name(name.clone()));
    }
    let path = canonical(&options.folder)?;
    let medium = FileMedium::default();
    create_dirs(&*medium, &options.store)?;
    let home = SyncHome::open(&options.store, &path, options.joins.as_ref())?;
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
    let options = &options.resolve(&home)?;
    let name = options.name.clone().unwrap_or_default();
    let key = home.key()?;
    keep_shown(options, &home, &key)?;
    if home.mend_roles()? {
        let list = home.roles_dir();
        on_event(warning(format!(
            "{}: one of the two copies of the list of members was damaged, and was repaired",
            list.display()
        )));
    }
    let me = key.public().key_id().0;
    let mut folder = SyncFolder::open(&medium, &path, home.dir(), me, &name)?;
    let _claim = home.claim(&path)?;
    folder.keep_versions(options.versions.unwrap_or_default());
    folder.exchange_attributes(options.xattrs.unwrap_or_default());
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
        relay_list: options.relay_list.clone(),
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
        code_dht: None,
        witnesses: Vec::new(),
        store: options.store.clone(),
        medium,
    };
    let link_key = xylem_keys::load_or_create(&options.store.join("keys").join("link"))?;
    let link_key = StaticKey::from_bytes(link_key).public().0;
    let (tell, news) = mpsc::channel();
    let known = home.members()?;
    if !known.is_whole {
        let what = "the saved statements of members are damaged: if a member whose statement is lost has rewritten its history, that \
                    goes unnoticed";
        on_event(warning(what.to_owned()));
    }
    let start = MeshStart {
        group: home.invitation.group.clone(),
        own: key.public(),
        first: Some(home.invitation.member.clone()),
        known: known.said,
        met: home.linked_members(),
        roles: home.roles()?.unwrap_or_default(),
        history: home.history_file(),
        rewrote: home.evidence()?,
    };
    watch(&path, &home, tell.clone())?;
    let now_ms = wall_clock().milliseconds();
    let first = SyncStatus {
        folder: path.to_string_lossy().into_owned(),
        name,
        key: key.public().to_string(),
        running: true,
        step: FolderStep::Starting,
        xattrs: options.xattrs.unwrap_or_default(),
        pid: std::process::id(),
        since_ms: now_ms,
        ..SyncStatus::default()
    };
    let _posting = options.board.begin(&home, first)?;
    let paused = paused(&home);
    let port = home.port();
    let mut member = SyncMember::new(options, path, home, folder, key, link_key, stop)?;
    let ends = Stop::new();
    thread::scope(|scope| {
        let (mesh_tell, mesh_news) = mpsc::channel();
        let (share, ends) = (&share, &ends);
        let (passed, asking) = (tell.clone(), member.asking());
        let pass = move || {
            loop {
                // A pause ends the present fetch, too.
                if disk().metadata(&paused).is_ok() {
                    asking.halt();
                }
                let said = match mesh_news.recv_timeout(asking.check_interval()) {
                    Ok(said) => said,
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        asking.end_overdue_turn();
                        continue;
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                };
                asking.end_overdue_turn();
                match &said {
                    MeshNews::Said(said, _) => asking.record_statement(said.member, said.number),
                    MeshNews::Up(member, false) => asking.member_left(member),
                    _ => {}
                }
                if passed.send(SyncNews::Mesh(said)).is_err() {
                    return;
                }
            }
        };
        let serve = move || {
            let ready = |handle, port| drop(tell.send(SyncNews::Ready(Box::new(handle), port)));
            let group = Some((start, mesh_tell));
            let served = serve_group(share, port, group, ends, ready, &mut |event| {
                drop(tell.send(SyncNews::Serving(event)));
            });
            drop(tell.send(SyncNews::Ended(served.map(drop))));
        };
        let started = thread::Builder::new()
            .spawn_scoped(scope, pass)
            .and_then(|_| thread::Builder::new().spawn_scoped(scope, serve));
        let done = match started {
            Ok(_) => member.run(&news, on_event),
            Err(e) => Err(SyncError::Thread(e)),
        };
        ends.raise();
        done.and(member.save_members().map_err(SyncError::from))
    })
}

/// Stores the certificates by which a schema makes this member one, for this run and later ones.
fn keep_shown(options: &SyncOptions, home: &SyncHome, key: &PublisherKey) -> Result<(), SyncError> {
    let Some((which, chain)) = &options.sign else { return Ok(()) };
    let keyring = Keyring::at(&options.store);
    let mut certificates = vec![keyring.certificate(which)?];
    for path in chain {
        certificates.push(xylem_keys::certificate(path)?);
    }
    let (founder, signer) = (&home.invitation.group.founder, keyring.signer(which)?);
    let shown = present(founder, &key.public(), &signer, &certificates);
    Ok(home.keep_presentation(&shown?)?)
}

/// How often the whole folder is scanned, in addition to watching: mounts, network file systems and mapped writes send
/// no notifications.
const RESCAN: Duration = Duration::from_secs(600);

/// Time until the next full scan: between 80 and 120 percent of [`RESCAN`] or of the variable's seconds, so that
/// members do not all scan at once.
fn next_rescan() -> Duration {
    let seconds = std::env::var("XYLEM_SYNC_RESCAN").ok().and_then(|text| text.parse().ok());
    let usual = seconds.filter(|seconds| *seconds > 0).map_or(RESCAN, Duration::from_secs);
    let percent = 80 + u32::try_from(wall_clock().milliseconds() % 41).unwrap_or(0);
    usual.saturating_mul(percent) / 100
}

/// Starts a thread that reports changes as long as the process lives.
fn watch(path: &Path, home: &SyncHome, tell: mpsc::Sender<SyncNews>) -> Result<(), SyncError> {
    let failed = |error| SyncError::Unwatched { path: path.to_path_buf(), error };
    let mut watcher = FolderWatcher::new(path, OWN, &home.roles_dir()).map_err(failed)?;
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
                        // The message with it is on its way; or it is gone with its receiver, which the next one shows.
                        if Arc::strong_count(&unheard) > 1 {
                            continue;
                        }
                    } else {
                        *unheard_of = Some(changed);
                    }
                    SyncNews::Changed(unheard.clone())
                }
                Err(e) => SyncNews::Watch(e),
            };
            let over = matches!(said, SyncNews::Watch(_));
            if tell.send(said).is_err() || over {
                return;
            }
        }
    };
    thread::Builder::new().spawn(watch).map(drop).map_err(failed)
}
