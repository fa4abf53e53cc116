//! [`Pages`]: contents of folders, listed once when several names in a folder are looked up in a row.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xylem_store::{FileKind, Meta};

use crate::client::{BucketClient, BucketListing};
use crate::medium::{ObjectVersion, meta};
use crate::place::BucketPlace;

/// How long a listing is valid: longer than a few lookups take, shorter than a person notices.
const FRESH: Duration = Duration::from_secs(2);

/// All that lies in a folder.
#[derive(Default)]
pub(crate) struct FolderPage {
    objects: HashMap<String, ObjectVersion>,
    folders: HashSet<String>,
}

impl FolderPage {
    fn of(listed: &BucketListing) -> Self {
        let folders = listed.folders.iter().filter_map(|key| Some(key.filename()?.into()));
        let folders: HashSet<String> = folders.collect();
        let objects = listed.objects.iter();
        let objects =
            objects.filter_map(|o| Some((o.location.filename()?.into(), ObjectVersion::of(o))));
        // Where a key is both an object and a folder, the folder is shown.
        let objects = objects.filter(|(name, _)| !folders.contains(name));
        Self { objects: objects.collect(), folders }
    }

    /// Returns the object of this name.
    pub(crate) fn object(&self, name: &str) -> Option<&ObjectVersion> {
        self.objects.get(name)
    }

    /// Returns the metadata of this name: of an object, or else of a folder.
    pub(crate) fn meta(&self, name: &str) -> Option<Meta> {
        let folder = || self.folders.contains(name).then(|| meta(FileKind::Directory, 0, 0o755));
        self.object(name).map(|said| said.meta).or_else(folder)
    }
}

/// Pages by folder; `None`: the folder has more than one page, or may not be listed.
type Known = HashMap<PathBuf, Option<Arc<FolderPage>>>;

/// The folders listed of late.
#[derive(Default)]
pub(crate) struct Pages(Arc<Mutex<Known>>);

impl Pages {
    /// Returns the content of the folder that contains `path`, if one page holds all of it.
    pub(crate) fn beside(&self, path: &Path, client: &BucketClient) -> Option<Arc<FolderPage>> {
        let folder = path.parent()?;
        let place = BucketPlace::of(folder).ok()?;
        if let Some(page) = lock(&self.0).get(folder) {
            return page.clone();
        }
        // A folder that cannot be listed may still have readable objects: their own requests report the error.
        let page = client.page(&place).ok().filter(|(_, is_all)| *is_all);
        let page = page.map(|(listed, _)| Arc::new(FolderPage::of(&listed)));
        // Unlocked during the request: the client's thread removes expired pages meanwhile.
        lock(&self.0).insert(folder.to_path_buf(), page.clone());
        let (known, folder) = (self.0.clone(), folder.to_path_buf());
        drop(client.start(async move {
            tokio::time::sleep(FRESH).await;
            lock(&known).remove(&folder);
        }));
        page
    }
}

pub(crate) fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is safe to use: nothing panics half-way through a change.
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
