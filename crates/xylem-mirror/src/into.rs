//! `get -o s3://BUCKET/KEY`: fetches what a ticket names, verifies it, and writes it as a multipart upload.
//!
//! None of the content is written to this machine's disk.

use crate::MirrorError;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use xylem_base::{Stop, disk, os_path};
use xylem_bucket::{BucketError, BucketPlace, Buckets, Upload};
use xylem_files::{Existing, LibraryEvent, SkipReason};
use xylem_hash::Hash;
use xylem_node::Event;
use xylem_object::listing::EntryKind;
use xylem_reader::{File, Options, PublicationEntry, Reader, ReaderEvents};
use xylem_sink::GetSummary;
use xylem_store::{Clobber, create_dirs, read_stream, write_atomically};

/// Most bytes of an upload's state: more than that of 10,000 parts.
const MAX_STATE: u64 = 16 << 20;
/// Bytes of one read from peers. `AT_ONCE` reads run in parallel.
const READ: u64 = 4 << 20;
const AT_ONCE: usize = 4;
/// How often the state of an upload is written to the store.
const KEEP_EVERY: Duration = Duration::from_millis(250);
/// Paths that cannot be keys: how many are reported one by one.
const MOST_NAMED: u64 = 10;
/// How often events are shown while a read is awaited.
const GLANCE: Duration = Duration::from_millis(100);

/// Where a publication goes in a bucket, and how it is fetched.
#[derive(Clone, Debug)]
pub struct IntoBucketOptions {
    /// The ticket, the peers and the limits. The reader keeps nothing on disk.
    pub options: Options,
    /// The path as the user typed it. A slash at the end means a folder.
    pub output: PathBuf,
    /// What to do if an object exists there.
    pub existing: Existing,
}

/// Fetches into a bucket. The summary is that of a fetch to a disk.
///
/// # Errors
/// See [`MirrorError`].
pub fn get_into_bucket(
    what: IntoBucketOptions,
    buckets: Arc<Buckets>,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, MirrorError> {
    let place = BucketPlace::of(&what.output)?;
    let started = Instant::now();
    let state = what.options.store.join("uploads");
    let mut asked = BucketTarget { buckets, existing: what.existing, state, older: None };
    // Check access to the bucket before any peer is asked, so that a missing right is reported first.
    let looked =
        asked.buckets.existing(&BucketPlace { key: format!("{}.", place.key), ..place.clone() });
    looked.map_err(|e| MirrorError::at(&what.output, e))?;
    let options = Options { keep: false, ..what.options };
    let (reader, news) = Reader::open_shown(options, stop, on_event)?;
    let manifest = reader.manifest().clone();
    let top =
        match place.key.is_empty() || what.output.as_os_str().as_encoded_bytes().ends_with(b"/") {
            true => below(&place, &String::from_utf8_lossy(&manifest.file_name))?,
            false => place,
        };
    let mut summary = GetSummary::new(manifest.root);
    summary.path = Some(top.path());
    let mut transfer =
        BucketCopy { reader: &reader, news, stop, on_event, summary, total: manifest.total_size };
    let copied = transfer.all(&mut asked, &top);
    let mut summary = transfer.summary;
    copied?;
    summary.elapsed = started.elapsed();
    summary.already_complete = summary.fetched == 0 && summary.bytes > 0;
    Ok(summary)
}

/// Where objects go, and what exists there.
pub(crate) struct BucketTarget {
    pub(crate) buckets: Arc<Buckets>,
    pub(crate) existing: Existing,
    /// The folder for the state of unfinished uploads.
    pub(crate) state: PathBuf,
    /// For a mirror: what need not be sent.
    pub(crate) older: Option<MirrorContent>,
}

/// The present content of a mirror.
pub(crate) struct MirrorContent {
    /// Sizes in bytes of the objects below the content of this version. Other versions do not use them, as the root is
    /// part of the name.
    pub(crate) there: HashMap<String, u64>,
    /// Size of each part in bytes.
    pub(crate) parts: HashMap<String, u64>,
    /// Files of the version before, by their roots.
    pub(crate) files: HashMap<Hash, BucketPlace>,
}

impl BucketTarget {
    /// Records that an object was removed. `name` is relative to the content; it is empty if the content is one file.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Some(older) = &mut self.older {
            older.files.clear();
            match name {
                "" => older.there.clear(),
                name => drop(older.there.remove(name)),
            }
        }
    }
}

/// The copying of objects from peers into a bucket.
pub(crate) struct BucketCopy<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) news: ReaderEvents,
    pub(crate) stop: &'a Stop,
    pub(crate) on_event: &'a mut dyn FnMut(Event),
    pub(crate) summary: GetSummary,
    pub(crate) total: u64,
}

impl BucketCopy<'_> {
    /// Copies everything below `top`, or to `top` itself if the content is one file.
    ///
    /// # Errors
    /// Paths that cannot be keys are reported and left out; the error comes after all else is written. A mirror is complete or absent,
    /// so there the error comes before anything is sent.
    pub(crate) fn all(
        &mut self,
        to: &mut BucketTarget,
        top: &BucketPlace,
    ) -> Result<(), MirrorError> {
        let nameless = self.report_invalid_keys(top)?;
        if nameless > 0 && to.older.is_some() {
            return Err(MirrorError::NotKeys(nameless));
        }
        let mut number = 0;
        while let Some(item) = self.reader.item(number)? {
            number += 1;
            let place = match self.reader.is_directory() {
                true => match key_of(top, &item.entry.path) {
                    Ok(place) => place,
                    Err(_) => continue,
                },
                false => top.clone(),
            };
            match &item.entry.kind {
                EntryKind::File { .. } | EntryKind::HardLink { .. } => {
                    self.file(to, &item, &place)?;
                }
                // A bucket has neither symbolic links nor folders. The keys contain the folders' names.
                EntryKind::Symlink { .. } => {
                    self.left_out(&item, "a symbolic link, which a bucket cannot hold");
                }
                EntryKind::Directory => {}
            }
        }
        if nameless > 0 {
            return Err(MirrorError::LeftOut(nameless));
        }
        Ok(())
    }

    fn left_out(&mut self, item: &PublicationEntry, why: &str) {
        let path = os_path(&item.entry.path);
        let why = SkipReason::CannotRead(why.into());
        (self.on_event)(Event::Library(LibraryEvent::Skipped { path, why }));
    }

    /// Reports paths that cannot be keys; returns their number.
    fn report_invalid_keys(&mut self, top: &BucketPlace) -> Result<u64, MirrorError> {
        let (mut number, mut nameless) = (0, 0);
        while self.reader.is_directory()
            && let Some(item) = self.reader.item(number)?
        {
            number += 1;
            if let Err(why) = key_of(top, &item.entry.path) {
                nameless += 1;
                if nameless <= MOST_NAMED {
                    self.left_out(&item, &why.to_string());
                }
            }
        }
        Ok(nameless)
    }

    /// Copies one file to one object.
    fn file(
        &mut self,
        to: &mut BucketTarget,
        item: &PublicationEntry,
        place: &BucketPlace,
    ) -> Result<(), MirrorError> {
        let file = self.reader.open_item(item)?;
        let (size, root) = (file.size(), self.root_of(item)?);
        let at = |e: BucketError| MirrorError::at(&place.path(), e);
        if let Some(older) = &to.older {
            let name = String::from_utf8_lossy(&item.entry.path);
            let is_there = older.there.get(name.as_ref()) == Some(&size);
            // The store may refuse to copy a large object. Then the content is sent.
            let same = root.parse().ok().and_then(|root: Hash| older.files.get(&root));
            if is_there || same.is_some_and(|from| to.buckets.copy(from, place).is_ok()) {
                self.summary.files += u64::from(!is_there);
                self.summary.resumed += size;
                self.done(size);
                return Ok(());
            }
        } else if let Some(there) = to.buckets.existing(place).map_err(at)? {
            if there.size == size && there.root.as_ref() == Some(&root) {
                self.summary.resumed += size;
                self.done(size);
                return Ok(());
            }
            if to.existing != Existing::Overwrite {
                return Err(MirrorError::Exists(place.clone()));
            }
        }
        let kept = to.state.join(state_file_name(place));
        let mut earlier = Vec::new();
        let earlier = read_stream(&kept, MAX_STATE, &mut earlier).ok().map(|()| earlier);
        let earlier = earlier.and_then(|text| String::from_utf8(text).ok());
        let mut upload = to.buckets.upload(place, size, &root, earlier.as_deref()).map_err(at)?;
        let mut result = self.parts(&file, &mut upload, &kept);
        if earlier.is_some() && matches!(&result, Err(CopyError::Bucket(BucketError::NotThere))) {
            // The store has dropped what an earlier run had uploaded.
            upload = to.buckets.upload(place, size, &root, None).map_err(at)?;
            result = self.parts(&file, &mut upload, &kept);
        }
        match result.and_then(|()| upload.finish().map_err(CopyError::Bucket)) {
            Ok(()) => {
                drop(disk().remove_file(&kept));
                self.summary.files += 1;
                Ok(())
            }
            Err(CopyError::Bucket(e)) => Err(at(e)),
            Err(CopyError::Failure(failure)) => Err(failure),
        }
    }

    fn root_of(&self, item: &PublicationEntry) -> Result<String, MirrorError> {
        Ok(match &item.entry.kind {
            EntryKind::HardLink { target } => {
                let of = self.reader.find(target)?;
                of.map_or_else(String::new, |of| match of.entry.kind {
                    EntryKind::File { root, .. } => root.to_string(),
                    _ => String::new(),
                })
            }
            EntryKind::File { root, .. } => root.to_string(),
            _ => String::new(),
        })
    }

    /// Uploads all missing parts in order. Each part is read while those before it are sent.
    fn parts(&mut self, file: &File, upload: &mut Upload, kept: &Path) -> Result<(), CopyError> {
        let missing: Vec<_> = upload.missing().collect();
        let there = upload.done();
        self.summary.resumed += there;
        self.done(there);
        if there > 0 {
            (self.on_event)(Event::Library(LibraryEvent::Resumed { bytes: there }));
        }
        let mut reads = missing.iter().flat_map(|part| pieces(&part.bytes));
        let mut under_way = VecDeque::new();
        let mut kept_at = Instant::now();
        for part in &missing {
            let mut content = Vec::with_capacity((part.bytes.end - part.bytes.start) as usize);
            while (content.len() as u64) < part.bytes.end - part.bytes.start {
                while under_way.len() < AT_ONCE
                    && let Some(piece) = reads.next()
                {
                    under_way.push_back(begin(file, &piece));
                }
                let Some(read) = under_way.pop_front() else { break };
                let bytes = self.wait(&read)?;
                self.summary.fetched += bytes.len() as u64;
                self.done(bytes.len() as u64);
                content.extend_from_slice(&bytes);
            }
            upload.put(part, Bytes::from(content)).map_err(CopyError::Bucket)?;
            if kept_at.elapsed() > KEEP_EVERY {
                keep(kept, upload);
                kept_at = Instant::now();
            }
        }
        let settled = upload.settle().map_err(CopyError::Bucket);
        keep(kept, upload);
        settled
    }

    /// Waits for a read and returns its bytes; shows events meanwhile.
    fn wait(&mut self, read: &Receiver<io::Result<Vec<u8>>>) -> Result<Vec<u8>, CopyError> {
        loop {
            while let Some(event) = self.news.poll() {
                (self.on_event)(event);
            }
            if self.stop.raised() {
                return Err(CopyError::Failure(MirrorError::Stopped));
            }
            match read.recv_timeout(GLANCE) {
                Ok(Ok(bytes)) => return Ok(bytes),
                Ok(Err(e)) => {
                    return Err(CopyError::Failure(MirrorError::Unread(e)));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(CopyError::Failure(MirrorError::Ended));
                }
            }
        }
    }

    fn done(&mut self, bytes: u64) {
        self.summary.bytes += bytes;
        let (verified, total) = (self.summary.bytes, self.total);
        (self.on_event)(Event::Progress { verified, total, peers: 1, relayed: 0, picture: None });
    }
}

/// Why a file was not written.
enum CopyError {
    Bucket(BucketError),
    Failure(MirrorError),
}

fn below(place: &BucketPlace, name: &str) -> Result<BucketPlace, MirrorError> {
    place.below(name).map_err(MirrorError::from)
}

/// Why a path of a directory cannot be a key.
#[derive(Debug, thiserror::Error)]
enum NotAKey {
    #[error("the name is not UTF-8, as the key of an object must be")]
    NotText,
    #[error("{0}")]
    NoPlace(&'static str),
    #[error(transparent)]
    Bucket(BucketError),
}

/// The key for a path of a directory.
fn key_of(top: &BucketPlace, path: &[u8]) -> Result<BucketPlace, NotAKey> {
    let name = str::from_utf8(path).map_err(|_| NotAKey::NotText)?;
    top.below(name).map_err(|e| match e {
        BucketError::NoPlace { why, .. } => NotAKey::NoPlace(why),
        other => NotAKey::Bucket(other),
    })
}

/// Splits a range into reads of at most `READ` bytes.
fn pieces(bytes: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = bytes.end;
    (bytes.start..end).step_by(READ as usize).map(move |at| at..(at + READ).min(end))
}

fn begin(file: &File, bytes: &Range<u64>) -> Receiver<io::Result<Vec<u8>>> {
    let (done, read) = mpsc::channel();
    let len = (bytes.end - bytes.start) as usize;
    file.read_then(bytes.start, len, move |bytes| drop(done.send(bytes.map(<[u8]>::to_vec))));
    read
}

/// The name of the file that holds the state of the upload to a place.
fn state_file_name(place: &BucketPlace) -> String {
    xylem_hash::hash(place.to_string().as_bytes()).to_hex().to_string()
}

/// Writes an upload's state. If that fails, a later run starts again: this costs time and loses no data.
fn keep(path: &Path, upload: &Upload) {
    let Some(text) = upload.kept() else { return };
    let medium = disk();
    let folder = path.parent().unwrap_or(path);
    if let Err(error) = create_dirs(&*medium, folder)
        .and_then(|_| write_atomically(&*medium, path, text.as_bytes(), 0o600, Clobber::Replace))
    {
        tracing::warn!(%error, "cannot save the state of the upload; if interrupted, it starts again");
    }
}
