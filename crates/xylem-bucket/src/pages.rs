//! [`Pages`]: what lies in a folder, asked for once where many names of it are looked for one after the other.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::ListResult;
use xylem_store::{FileKind, Meta};

use crate::client::Client;
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
    fn of(listed: &ListResult) -> Self {
        let folders = listed.common_prefixes.iter().filter_map(|key| Some(key.filename()?.into()));
        let objects = listed.objects.iter();
        let objects = objects.filter_map(|o| Some((o.location.filename()?.into(), Said::of(o))));
        Self { objects: objects.collect(), folders: folders.collect() }
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

/// When a folder was asked for, and its page; `None`: it has more than one, or is not listed for us.
type Asked = (Instant, Option<Arc<Page>>);

/// The folders that were looked into of late.
#[derive(Default)]
pub(crate) struct Pages(Mutex<HashMap<PathBuf, Asked>>);

impl Pages {
    /// What lies in the folder that has `path`, if all of it is told in one answer.
    pub(crate) fn beside(&self, path: &Path, client: &Client) -> Option<Arc<Page>> {
        let folder = path.parent()?;
        let place = Place::of(folder).ok()?;
        // Who comes meanwhile most likely wants the same. Nothing panics half-way through a change.
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|_, (asked, _)| asked.elapsed() < FRESH);
        if let Some((_, page)) = pages.get(folder) {
            return page.clone();
        }
        // What can't be listed may still be asked for by its name, and then says itself what is wrong.
        let page = client.page(&place).ok().flatten().map(|listed| Arc::new(Page::of(&listed)));
        pages.insert(folder.to_path_buf(), (Instant::now(), page.clone()));
        page
    }
}
