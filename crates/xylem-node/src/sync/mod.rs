//! [`sync`]: keeps a folder in step with those of other members (docs/spec/sync.md, "Folders").

mod fetching;
mod member;

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use xylem_library::folder::{Folder, FolderError, Home, HomeError, Invitation, OWN, Watcher};
use xylem_library::reachable::{Peer, Relay};
use xylem_library::{Blame, Error, Failure, Selection, Stop, canonical};
use xylem_link::StaticKey;
use xylem_object::ticket::Address;

use crate::discovery::AnnounceOptions;
use crate::event::Event;
use crate::get::GetError;
use crate::shaping::LinkOptions;
use crate::share::{MeshNews, MeshStart, ServiceHandle, ShareError, ShareOptions, serve_group};
use member::Member;
use xylem_library::admission::Prove;
use xylem_library::keys;

/// Why [`sync`] ends early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// Of serving.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// Of fetching.
    #[error(transparent)]
    Get(#[from] GetError),
    /// Changes can't be watched.
    #[error("{}: changes can't be watched: {source}{}", path.display(), advice(source))]
    Watch {
        /// Of which folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not what a member of the group should say.
    #[error("{0}")]
    Odd(String),
    /// Of the store, keys, and the folder.
    #[error("{0}")]
    Library(#[from] Error),
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull => "; raise fs.inotify.max_user_watches",
        _ => "",
    }
}

impl Failure for SyncError {
    fn blame(&self) -> Blame {
        match self {
            Self::Share(e) => e.blame(),
            Self::Get(e) => e.blame(),
            Self::Watch { .. } => Blame::Local,
            Self::Odd(_) => Blame::Data,
            Self::Library(e) => e.blame,
        }
    }
}

crate::failure::of_library!(SyncError: HomeError, FolderError, xylem_library::keys::KeyError, xylem_store::StoreError);

/// How a folder is kept in step.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// The folder.
    pub folder: PathBuf,
    /// The group that it joins, if it is no member yet; `None`: a new one.
    pub joins: Option<Invitation>,
    /// What we are called.
    pub name: String,
    /// As for a share.
    pub listen: Vec<Peer>,
    /// As for a share.
    pub announce: Vec<Address>,
    /// As for a share.
    pub relays: Vec<Relay>,
    /// As for a share.
    pub links: LinkOptions,
    /// As for a share.
    pub beside: AnnounceOptions,
    /// Where keys, trees and what is known of the group are kept.
    pub store: PathBuf,
}

/// What happens while a folder is kept in step.
#[derive(Debug)]
pub enum SyncEvent {
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
        /// Paths that both had changed: both are kept.
        conflicts: Vec<PathBuf>,
    },
    /// What we have is what all members have who are there.
    InStep {
        /// A hash of it, the same for all.
        state: String,
        /// Members besides us who are there.
        members: u64,
    },
    /// We may not write: what is changed here stays here.
    ReadOnly,
    /// What happens while we serve.
    Other(Event),
}

/// What the one thread hears that keeps the folder in step.
enum News {
    Ready(ServiceHandle, Option<u16>),
    Mesh(MeshNews),
    Changed,
    Watch(std::io::Error),
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
    let path = canonical(&options.folder)?;
    std::fs::create_dir_all(&options.store)
        .map_err(|source| SyncError::Watch { path: options.store.clone(), source })?;
    let home = Home::open(&options.store, &path, options.joins.as_ref())?;
    let _lock = home.lock(&path)?;
    let key = home.key()?;
    let folder = Folder::open(&path, home.dir(), key.public().key_id().0, &options.name)?;
    let share = ShareOptions {
        paths: Vec::new(),
        name: None,
        key_file: Some(home.key_file()),
        identity: None,
        selection: Selection::default(),
        listen: options.listen.clone(),
        announce: options.announce.clone(),
        relays: options.relays.clone(),
        certificate: None,
        plain: Vec::new(),
        prove: Prove::default(),
        via: Vec::new(),
        links: options.links.clone(),
        accept_open: false,
        follow: None,
        beside: options.beside.clone(),
        code: false,
        store: options.store.clone(),
    };
    let link_key = keys::load_or_create(&options.store.join("keys").join("link"))?;
    let link_key = StaticKey::from_bytes(link_key).public().0;
    let (tell, news) = mpsc::channel();
    let roles = home.roles();
    let start = MeshStart {
        group: home.invitation.group.clone(),
        own: key.public(),
        first: Some(home.invitation.member.clone()),
        known: home.members(),
        roles: roles.unwrap_or_default(),
    };
    watch(&path, &home, tell.clone())?;
    let port = home.port();
    let mut member = Member::new(options, path, home, folder, key, link_key, stop);
    let ends = Stop::new();
    thread::scope(|scope| {
        let (mesh_tell, mesh_news) = mpsc::channel();
        let (share, ends) = (&share, &ends);
        let passed = tell.clone();
        scope.spawn(move || {
            mesh_news.into_iter().try_for_each(|said| passed.send(News::Mesh(said)))
        });
        scope.spawn(move || {
            let ready = |handle, port| drop(tell.send(News::Ready(handle, port)));
            let served =
                serve_group(share, port, Some((start, mesh_tell)), ends, ready, &mut |event| {
                    drop(tell.send(News::Serving(event)));
                });
            drop(tell.send(News::Ended(served.map(drop))));
        });
        let done = member.run(&news, on_event);
        ends.raise();
        done
    })
}

/// Has a thread tell of changes for as long as the process lives.
fn watch(path: &std::path::Path, home: &Home, tell: mpsc::Sender<News>) -> Result<(), SyncError> {
    let failed = |source| SyncError::Watch { path: path.to_path_buf(), source };
    let mut watcher = Watcher::new(path, OWN, &home.roles_dir()).map_err(failed)?;
    let watch = move || {
        loop {
            let said = match watcher.wait() {
                Ok(()) => News::Changed,
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
