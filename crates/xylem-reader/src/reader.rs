//! [`Reader`]: one publication, and its files.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use xylem_base::{Stop, disk, os_path};
use xylem_files::signed::SignedPublication;
use xylem_files::{Listed, ListedFiles};
use xylem_hash::Hash;
use xylem_node::code::CodeDht;
use xylem_node::{Event, LinkOptions};
use xylem_object::listing::{Entry, EntryKind};
use xylem_object::{Manifest, ObjectId, PublicationKind, Ticket};
use xylem_peers::reachable::{PeerAddress, Relay};
use xylem_store::{ObjectPart, Store, StoreError};
use xylem_tree::Geometry;

use crate::cached::{Cached, RecentRegions};
use crate::demand::ReaderQueue;
use crate::error::ReaderError;
use crate::file::File;
use crate::worker::Worker;

/// Bytes of the listing read at a time.
const PIECE: usize = 1 << 20;

/// Options of a [`Reader`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The ticket of the publication.
    pub ticket: Ticket,
    /// The store that keeps content.
    pub store: PathBuf,
    /// Whether content of files is stored. A program that reads each file once does not need that. A listing is stored
    /// in any case.
    pub keep: bool,
    /// Peers to ask instead of the ticket's addresses; if empty, the ticket's.
    pub from: Vec<PeerAddress>,
    /// Further relays, besides the ticket's, at which to look for a sharer.
    pub relays: Vec<Relay>,
    /// Bytes per second at most.
    pub limit_rate: Option<u64>,
    /// Whether to yield to all other traffic (LEDBAT++): `--low-priority` of the command.
    pub background: bool,
    /// Options of encrypted links.
    pub links: LinkOptions,
    /// Also query in the clear which peer answers: see [`xylem_node::GetOptions::ask_who_answers`].
    pub ask_who_answers: bool,
    /// A read fails after this long without any of its bytes.
    pub timeout: Duration,
    /// Whether to keep asking for a sharer that its relays report absent.
    pub wait: bool,
    /// Whether to search the LAN while no peer answers at the ticket's addresses.
    pub lan: bool,
    /// How to search the DHT when no peer answers at the ticket's addresses and relays; `None`: it is not searched.
    pub dht: Option<CodeDht>,
}

impl Options {
    /// Defaults that suit most uses.
    pub fn new(ticket: Ticket, store: PathBuf) -> Self {
        Self {
            ticket,
            store,
            keep: true,
            from: Vec::new(),
            relays: Vec::new(),
            limit_rate: None,
            background: false,
            links: LinkOptions::default(),
            ask_who_answers: false,
            timeout: Duration::from_secs(30),
            wait: false,
            lan: true,
            dht: None,
        }
    }
}

/// One entry of a publication.
#[derive(Clone, Debug)]
pub struct PublicationEntry {
    /// Its number among all entries, from 0, in the order of their paths.
    pub number: u64,
    /// The entry. For a publication of one file, the path is the file's name.
    pub entry: Entry,
    /// Its number among the regular files, if it is one.
    file: u64,
}

/// A publication that can be read. It is not `Clone`: share it behind an `Arc`.
pub struct Reader {
    store: Store,
    keep: bool,
    queue: Arc<ReaderQueue>,
    stop: Stop,
    signed: SignedPublication,
    /// A directory's listing; `None`: the publication is one file.
    listing: Option<Mutex<ListedFiles>>,
    /// Keeps the listing's file open as long as it is read.
    _listing: Option<File>,
    /// Files that are open, or were until recently.
    files: Mutex<HashMap<ObjectId, Weak<Cached>>>,
    recent: Arc<RecentRegions>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("root", &self.signed.manifest.root).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code here panics in the middle of a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    /// Opens the publication that a ticket names: fetches its signed manifest, and the listing of a directory. Both are
    /// stored. Stored content can be read later without a peer ([`Options::keep`]). Until `stop` is raised or the
    /// reader is dropped, the reader's thread calls `on_event` with events.
    ///
    /// # Errors
    /// See [`ReaderError`].
    pub fn open(
        options: Options,
        stop: &Stop,
        on_event: Box<dyn FnMut(Event) + Send>,
    ) -> Result<Self, ReaderError> {
        let store = Store::open(disk(), &options.store)?;
        let (queue, keep) = (Arc::new(ReaderQueue::default()), options.keep);
        let (whole, stop) = (stop.clone(), stop.part());
        let worker = Worker {
            options,
            store: store.clone(),
            queue: queue.clone(),
            stop: stop.clone(),
            program_stop: whole,
            on_event,
        };
        let (opened, when_opened) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("xylem-reader".into())
            .spawn(move || worker.run(&opened))
            .map_err(ReaderError::Thread)?;
        let signed = when_opened.recv().unwrap_or(Err(ReaderError::Ended))?;
        let mut reader = Self {
            store,
            keep,
            queue,
            stop,
            signed,
            listing: None,
            _listing: None,
            files: Mutex::default(),
            recent: Arc::default(),
            thread: Some(thread),
        };
        if reader.manifest().sealed {
            return Err(ReaderError::Sealed);
        }
        if reader.manifest().kind == PublicationKind::Directory {
            reader.open_listing()?;
        }
        Ok(reader)
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.signed.manifest
    }

    /// The signed manifest.
    pub fn signed(&self) -> &SignedPublication {
        &self.signed
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.listing.is_some()
    }

    /// Opens the stored listing of an earlier fetch or share, or fetches it.
    fn open_listing(&mut self) -> Result<(), ReaderError> {
        let Manifest { root, size, segment, .. } = *self.manifest();
        let kept = self.store.object(&root, ObjectPart::Listing).ok().flatten();
        let kept = kept.and_then(|file| ListedFiles::open(file, size, &root, segment).ok());
        let listed = match kept {
            Some(listed) => listed,
            None => {
                let geometry = self.manifest().geometry();
                let file = self.file(ObjectId::Root, root, geometry, "the listing".into())?;
                let (mut buffer, mut at) = (vec![0; PIECE], 0);
                while at < size {
                    at += file.read_at(&mut buffer, at).map_err(ReaderError::Unread)? as u64;
                }
                let place = file.cached().and_then(Cached::file).cloned();
                let listed = match place {
                    Some(place) => {
                        self.settled(&file)?;
                        ListedFiles::open(place, size, &root, segment)?
                    }
                    None => {
                        let path = self.store.partial_path(&root, ObjectPart::Content);
                        return Err(StoreError::NoSpace { path, offset: Some(0) }.into());
                    }
                };
                self._listing = Some(file);
                listed
            }
        };
        self.manifest().check_totals(listed.totals())?;
        self.listing = Some(Mutex::new(listed));
        Ok(())
    }

    /// Waits until all of a file is stored; reads return before that.
    fn settled(&self, file: &File) -> Result<(), ReaderError> {
        let Some(cached) = file.cached() else { return Ok(()) };
        while !cached.missing(0..cached.geometry.segments()).is_empty() {
            if self.stop.raised() {
                return Err(ReaderError::Ended);
            }
            if !cached.stores() {
                let path = self.store.partial_path(&cached.root, ObjectPart::Content);
                return Err(StoreError::NoSpace { path, offset: Some(0) }.into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn only_file(&self) -> PublicationEntry {
        let Manifest { root, size, mode, mtime_s, mtime_ns, .. } = *self.manifest();
        let name = &self.manifest().file_name;
        let path =
            if name.is_empty() { root.to_hex().to_string().into_bytes() } else { name.clone() };
        let kind = EntryKind::File { size, root };
        PublicationEntry {
            number: 0,
            entry: Entry { path, kind, mode, mtime_s, mtime_ns },
            file: 0,
        }
    }

    fn listed(
        &self,
        listing: &Mutex<ListedFiles>,
        number: u64,
    ) -> Result<Option<PublicationEntry>, StoreError> {
        let mut listing = lock(listing);
        let item = |l: &Listed| PublicationEntry { number, entry: l.entry.clone(), file: l.number };
        Ok(listing.entry(number)?.map(item))
    }

    /// The entry with this number; `None` if there are fewer.
    ///
    /// # Errors
    /// The listing on disk has changed.
    pub fn item(&self, number: u64) -> Result<Option<PublicationEntry>, ReaderError> {
        match &self.listing {
            Some(listing) => Ok(self.listed(listing, number)?),
            None => Ok((number == 0).then(|| self.only_file())),
        }
    }

    /// The entry at `path`; `None` if there is none.
    ///
    /// # Errors
    /// As [`Reader::item`].
    pub fn find(&self, path: &[u8]) -> Result<Option<PublicationEntry>, ReaderError> {
        let Some(listing) = &self.listing else {
            return Ok(Some(self.only_file()).filter(|only| only.entry.path == path));
        };
        let number = lock(listing).at_or_after(path)?;
        Ok(self.listed(listing, number)?.filter(|item| item.entry.path == path))
    }

    /// The first direct entry of `folder` whose number is `from` or higher; `None` if there is none. An empty `folder`
    /// is the top of the publication.
    ///
    /// # Errors
    /// As [`Reader::item`].
    pub fn next_in(
        &self,
        folder: &[u8],
        from: u64,
    ) -> Result<Option<PublicationEntry>, ReaderError> {
        let Some(listing) = &self.listing else { return self.item(from) };
        let mut prefix = folder.to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        // A caller that continues within the folder saves the search for it.
        let is_within = |item: &PublicationEntry| item.entry.path >= prefix;
        let mut number = match self.listed(listing, from)? {
            Some(item) if is_within(&item) => from,
            _ => from.max(lock(listing).at_or_after(&prefix)?),
        };
        loop {
            let Some(item) = self.listed(listing, number)? else { return Ok(None) };
            let Some(below) = item.entry.path.strip_prefix(&prefix[..]) else { return Ok(None) };
            let Some(slash) = below.iter().position(|byte| *byte == b'/') else {
                return Ok(Some(item));
            };
            // Skip a folder below this one: its entries end before the path that continues with the byte after `/`.
            let mut behind = item.entry.path[..prefix.len() + slash].to_vec();
            behind.push(b'/' + 1);
            number = lock(listing).at_or_after(&behind)?.max(number + 1);
        }
    }

    /// Opens a regular file, or the target of a hard link.
    ///
    /// # Errors
    /// [`ReaderError::NoFile`]; as [`Reader::item`].
    pub fn open_item(&self, item: &PublicationEntry) -> Result<File, ReaderError> {
        let name = String::from_utf8_lossy(&item.entry.path).into_owned();
        match &item.entry.kind {
            EntryKind::File { size, root } => {
                let geometry = Geometry::new(*size, self.manifest().segment);
                let id = match &self.listing {
                    Some(_) => ObjectId::File(item.file),
                    None => ObjectId::Root,
                };
                self.file(id, *root, geometry, name)
            }
            EntryKind::HardLink { target } => self.open_path(target),
            _ => Err(ReaderError::NoFile(os_path(&item.entry.path))),
        }
    }

    /// Opens the file at `path`. Symbolic links are not followed.
    ///
    /// # Errors
    /// [`ReaderError::NotThere`]; as [`Reader::open_item`].
    pub fn open_path(&self, path: &[u8]) -> Result<File, ReaderError> {
        let item = self.find(path)?.ok_or_else(|| ReaderError::NotThere(os_path(path)))?;
        self.open_item(&item)
    }

    fn file(
        &self,
        id: ObjectId,
        root: Hash,
        geometry: Geometry,
        name: String,
    ) -> Result<File, ReaderError> {
        if geometry.size() == 0 {
            return Ok(File::new(self.queue.clone(), None));
        }
        let mut files = lock(&self.files);
        if let Some(cached) = files.get(&id).and_then(Weak::upgrade) {
            return Ok(File::new(self.queue.clone(), Some(cached)));
        }
        let is_listing = self.manifest().kind == PublicationKind::Directory && id == ObjectId::Root;
        let store = Some(&self.store).filter(|_| self.keep || is_listing);
        let (cached, why) = Cached::open(store, id, root, geometry, name, self.recent.clone());
        if let Some(why) = why {
            tracing::warn!(%why, "data read from this file is not stored");
        }
        let cached = Arc::new(cached);
        if files.len() >= 1_024 {
            files.retain(|_, cached| cached.strong_count() > 0);
        }
        files.insert(id, Arc::downgrade(&cached));
        Ok(File::new(self.queue.clone(), Some(cached)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.raise();
        self.queue.wake();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic. If it did, readers have got an error already.
            let _ = thread.join();
        }
    }
}
