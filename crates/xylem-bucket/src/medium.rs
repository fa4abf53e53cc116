//! [`Buckets`]: a medium with the objects of buckets beside the files of a disk.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use object_store::ObjectMeta;
use xylem_object::listing::Entry;
use xylem_store::{Clobber, FileKind, FileTime, Medium, MediumFile, Meta, OpenHow};

use crate::answers::OddKey;
use crate::cache::Cache;
use crate::client::{BucketClient, Depth, IsStopped, key};
use crate::error::BucketError;
use crate::file::ObjectFile;
use crate::pages::{Pages, lock};
use crate::place::{BucketPlace, is_in_bucket};
use crate::settings::Settings;
use crate::shown::{ShownPublication, number};

/// Most objects with a size and version cached from listings, to save a request for each.
const MOST_LISTED: usize = 200_000;

/// Metadata and version of an object, as a listing gives them.
#[derive(Clone)]
pub(crate) struct ObjectVersion {
    pub(crate) meta: Meta,
    tag: Option<String>,
}

impl ObjectVersion {
    pub(crate) fn of(object: &ObjectMeta) -> Self {
        // Whole seconds: answers about one object have no more, and a listing must agree with them.
        let mtime = FileTime { secs: object.last_modified.timestamp(), nanos: 0 };
        let tag = object.e_tag.clone();
        let meta = Meta { mtime, ino: number(&tag), ..meta(FileKind::File, object.size, 0o644) };
        Self { meta, tag }
    }
}

/// Metadata of a folder: a key with something below it.
fn folder() -> Meta {
    meta(FileKind::Directory, 0, 0o755)
}

pub(crate) fn meta(kind: FileKind, size: u64, mode: u32) -> Meta {
    let (mtime, ctime) = <(FileTime, FileTime)>::default();
    Meta { kind, size, mode, mtime, ctime, ino: 0, dev: 0, links: 1, owner: 0 }
}

/// The files of a disk, and below `s3://BUCKET` the objects of buckets, which are read-only.
pub struct Buckets {
    disk: Arc<dyn Medium>,
    client: Arc<BucketClient>,
    cache: Arc<Cache>,
    /// Entries of recent listings, by `s3://BUCKET/KEY`. They may be out of date: each read names the version.
    listed: Mutex<HashMap<PathBuf, ObjectVersion>>,
    /// Recent lookups and the pages around them.
    pages: Pages,
    /// Publications that are kept in buckets, by the place of their content.
    shown: Mutex<Vec<(PathBuf, Arc<ShownPublication>)>>,
    /// Keys of listed folders that cannot be names here, until the caller takes them.
    passed_over: Mutex<HashMap<PathBuf, Vec<(PathBuf, String)>>>,
}

impl Buckets {
    /// Makes a medium of a disk and of the buckets that the settings reach. Everything outside of buckets is the
    /// disk's. Once `is_stopped` returns true, no request is waited for.
    ///
    /// # Errors
    /// [`BucketError::Settings`]: no thread or no sockets.
    pub fn over(
        disk: Arc<dyn Medium>,
        settings: Settings,
        is_stopped: IsStopped,
    ) -> Result<Self, BucketError> {
        let client = Arc::new(BucketClient::new(settings, is_stopped)?);
        let (listed, shown, passed_over) = Default::default();
        let (cache, pages) = (Arc::default(), Pages::default());
        Ok(Self { disk, client, cache, listed, pages, shown, passed_over })
    }

    /// Shows the proven `entries` at `top` and below it from now on; their bytes are those of the objects there.
    ///
    /// # Errors
    /// [`BucketError::Incomplete`]: an object is missing, or not as long as listed.
    pub fn show(
        &self,
        top: &BucketPlace,
        entries: impl Iterator<Item = Entry>,
    ) -> Result<(), BucketError> {
        let (below, odd) = self.all_below(top)?;
        let mut shown = ShownPublication::new(top, entries, below)?;
        shown.beyond.extend(odd);
        let shown = Arc::new(shown);
        let mut all = lock(&self.shown);
        all.retain(|(place, _)| *place != top.path());
        all.push((top.path(), shown));
        Ok(())
    }

    /// Returns the names of objects below a [shown](Self::show) place that are not part of the publication.
    pub fn unlisted(&self, top: &Path) -> Vec<String> {
        self.shown(top).map(|shown| shown.beyond.clone()).unwrap_or_default()
    }

    /// Returns the shown publication that contains `path`.
    fn shown(&self, path: &Path) -> Option<Arc<ShownPublication>> {
        let all = lock(&self.shown);
        all.iter().find(|(top, _)| path.starts_with(top)).map(|(_, shown)| shown.clone())
    }

    pub(crate) fn client(&self) -> &Arc<BucketClient> {
        &self.client
    }

    fn listed(&self) -> MutexGuard<'_, HashMap<PathBuf, ObjectVersion>> {
        lock(&self.listed)
    }

    /// Returns the disk; refuses to change anything in a bucket.
    fn disk_for(&self, path: &Path) -> io::Result<&dyn Medium> {
        match is_in_bucket(path) {
            true => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            false => Ok(&*self.disk),
        }
    }

    /// Returns an object's metadata and version; [`BucketError::NotThere`] for a folder.
    fn version_of(&self, path: &Path) -> Result<ObjectVersion, BucketError> {
        let place = BucketPlace::of(path)?;
        if let Some(shown) = self.shown(path) {
            let name = shown.name(path).ok_or(BucketError::NotThere)?;
            return Ok(ObjectVersion { meta: name.meta, tag: name.tag.clone() });
        }
        if let Some(said) = self.listed().get(path) {
            return Ok(said.clone());
        }
        if place.key.is_empty() {
            return Err(BucketError::NotThere);
        }
        if let (Some(page), Some(name)) = (self.pages.beside(path, &self.client), name_of(path)) {
            return page.object(name).cloned().ok_or(BucketError::NotThere);
        }
        Ok(ObjectVersion::of(&self.client.head(&place)?))
    }
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

impl Medium for Buckets {
    fn open(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        if !is_in_bucket(path) {
            return self.disk.open(path, how);
        }
        if !matches!(how, OpenHow::Read | OpenHow::ReadNoFollow) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let said = self.version_of(path)?;
        if said.meta.kind != FileKind::File {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let place = BucketPlace::of(path)?;
        let (bucket, key) = (self.client.bucket(&place.bucket)?, key(&place)?);
        let (client, cache) = (self.client.clone(), self.cache.clone());
        Ok(Arc::new(ObjectFile::new(client, cache, bucket, key, said.meta, said.tag)))
    }

    fn open_no_wait(&self, path: &Path, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        if is_in_bucket(path) { self.open(path, how) } else { self.disk.open_no_wait(path, how) }
    }

    fn open_dir(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        self.disk_for(path)?.open_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Meta> {
        if !is_in_bucket(path) {
            return self.disk.metadata(path);
        }
        match self.version_of(path) {
            Ok(said) => return Ok(said.meta),
            Err(BucketError::NotThere) if self.shown(path).is_none() => {}
            Err(e) => return Err(e.into()),
        }
        if let (Some(page), Some(name)) = (self.pages.beside(path, &self.client), name_of(path)) {
            return page.meta(name).ok_or_else(|| BucketError::NotThere.into());
        }
        // A folder is a key with something below it. An empty bucket is a folder too.
        let place = BucketPlace::of(path)?;
        let (page, is_all) = self.client.page(&place)?;
        match page.is_there() || !is_all || place.key.is_empty() {
            true => Ok(folder()),
            false => Err(BucketError::NotThere.into()),
        }
    }

    fn owns(&self, meta: &Meta) -> bool {
        self.disk.owns(meta)
    }

    fn umask(&self) -> u32 {
        self.disk.umask()
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.disk_for(path)?.create_dir(path, mode)
    }

    /// Skips keys that end with `/`: they are folder marks of other programs, not files. Where a key is both an object
    /// and a folder, the folder is shown.
    fn for_each_name(&self, path: &Path, take: &mut dyn FnMut(&OsStr, FileKind)) -> io::Result<()> {
        if !is_in_bucket(path) {
            return self.disk.for_each_name(path, take);
        }
        if let Some(shown) = self.shown(path) {
            let known = shown.for_each_name(path, take);
            return if known { Ok(()) } else { Err(BucketError::NotThere.into()) };
        }
        let place = BucketPlace::of(path)?;
        let below = self.client.list(&place, Depth::One)?;
        let name = |key: &object_store::path::Path| key.filename().map(str::to_owned);
        let folders: Vec<String> = below.folders.iter().filter_map(name).collect();
        let mut odd = below.odd;
        let mut listed = self.listed();
        let more = below.objects.len().saturating_add(folders.len());
        if listed.len().saturating_add(more) > MOST_LISTED {
            listed.clear();
        }
        for object in &below.objects {
            let Some(name) = name(&object.location) else { continue };
            if folders.binary_search(&name).is_ok() {
                let (key, why) = (object.location.to_string(), "a folder has the same name");
                odd.push(OddKey { key, why: why.to_owned() });
            } else {
                listed.insert(path.join(&name), ObjectVersion::of(object));
                take(OsStr::new(&name), FileKind::File);
            }
        }
        for name in &folders {
            listed.insert(path.join(name), ObjectVersion { meta: folder(), tag: None });
            take(OsStr::new(name), FileKind::Directory);
        }
        drop(listed);
        let odd = odd.into_iter().map(|OddKey { key, why }| {
            (PathBuf::from(format!("s3://{}/{key}", place.bucket)), why)
        });
        let odd: Vec<(PathBuf, String)> = odd.collect();
        let mut passed_over = lock(&self.passed_over);
        match odd.is_empty() {
            true => drop(passed_over.remove(path)),
            false => drop(passed_over.insert(path.to_path_buf(), odd)),
        }
        Ok(())
    }

    fn take_skipped(&self, path: &Path) -> Vec<(PathBuf, String)> {
        lock(&self.passed_over).remove(path).unwrap_or_default()
    }

    fn rename(&self, from: &Path, to: &Path, clobber: Clobber) -> io::Result<()> {
        self.disk_for(from)?;
        self.disk_for(to)?.rename(from, to, clobber)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.disk_for(one)?;
        self.disk_for(other)?.exchange(one, other)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path)?.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path)?.remove_dir(path)
    }

    fn symlink(&self, target: &Path, link: &Path) -> io::Result<()> {
        self.disk_for(link)?.symlink(target, link)
    }

    fn hard_link(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        self.disk_for(name)?.hard_link(name, to, new)
    }

    fn move_to(&self, name: &Path, to: &dyn Medium, new: &Path) -> io::Result<()> {
        self.disk_for(name)?.move_to(name, to, new)
    }

    fn as_any(&self) -> &dyn Any {
        self.disk.as_any()
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match is_in_bucket(path) {
            true => {
                let shown = self.shown(path);
                let target = shown.and_then(|shown| shown.name(path)?.target.clone());
                target.ok_or_else(|| io::ErrorKind::InvalidInput.into())
            }
            false => self.disk.read_link(path),
        }
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        match is_in_bucket(path) {
            // The path is canonical but for the slash that may end a folder's.
            true => self.metadata(path).and_then(|_| Ok(BucketPlace::of(path)?.path())),
            false => self.disk.canonical(path),
        }
    }

    fn is_remote(&self, path: &Path) -> bool {
        is_in_bucket(path)
    }

    fn is_slow(&self, path: &Path) -> bool {
        is_in_bucket(path) || self.disk.is_slow(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.disk_for(path)?.set_mode(path, mode)
    }

    fn set_mtime(&self, path: &Path, mtime: FileTime) -> io::Result<()> {
        self.disk_for(path)?.set_mtime(path, mtime)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk_for(path)?.free_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk_for(path)?.total_bytes(path)
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path)?.sync_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk_for(path)?.sync_dir(path)
    }
}
