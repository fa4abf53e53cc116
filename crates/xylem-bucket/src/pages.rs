//! [`Pages`]: what lies in a folder, asked for once where many names of it are looked for one after the other.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xylem_store::{FileKind, Meta};

use crate::client::{Client, Listing};
use crate::medium::{Said, meta};
use crate::place::Place;

/// For so long a listing is taken for what is there: longer than it takes to look for a few names, shorter than
/// it takes somebody to notice.
const FRESH: Duration = Duration::from_secs(2);

/// All that lies in a folder.
#[derive(Default)]
pub(crate) struct Page {
    objects: HashMap<String, Said>,
    folders: HashSet<String>,
}

impl Page {
    fn of(listed: &Listing) -> Self {
        let folders = listed.folders.iter().filter_map(|key| Some(key.filename()?.into()));
        let folders: HashSet<String> = folders.collect();
        let objects = listed.objects.iter();
        let objects = objects.filter_map(|o| Some((o.location.filename()?.into(), Said::of(o))));
        // Where a key is an object and a folder, it is the folder that is seen.
        let objects = objects.filter(|(name, _)| !folders.contains(name));
        Self { objects: objects.collect(), folders }
    }

    /// The object of this name.
    pub(crate) fn object(&self, name: &str) -> Option<&Said> {
        self.objects.get(name)
    }

    /// What has this name: an object, or else a folder.
    pub(crate) fn meta(&self, name: &str) -> Option<Meta> {
        let folder = || self.folders.contains(name).then(|| meta(FileKind::Directory, 0, 0o755));
        self.object(name).map(|said| said.meta).or_else(folder)
    }
}

/// Pages by folder; `None`: it has more than one, or is not listed for us.
type Known = HashMap<PathBuf, Option<Arc<Page>>>;

/// The folders that were looked into of late.
#[derive(Default)]
pub(crate) struct Pages(Arc<Mutex<Known>>);

impl Pages {
    /// What lies in the folder that has `path`, if all of it is told in one answer.
    pub(crate) fn beside(&self, path: &Path, client: &Client) -> Option<Arc<Page>> {
        let folder = path.parent()?;
        let place = Place::of(folder).ok()?;
        if let Some(page) = lock(&self.0).get(folder) {
            return page.clone();
        }
        // What can't be listed may still be asked for by its name, and then says itself what is wrong.
        let page = client.page(&place).ok().filter(|(_, is_all)| *is_all);
        let page = page.map(|(listed, _)| Arc::new(Page::of(&listed)));
        // Not locked while it is asked for: the thread that asks forgets others meanwhile.
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
    // Nothing panics half-way through a change.
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
