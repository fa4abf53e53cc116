//! [`ShownPublication`]: a publication with its content in a bucket, as the files that its listing names.
//!
//! Objects have no modes, publisher's times, links or empty folders; a listing has. Names and attributes therefore come
//! from the listing, and bytes from the bucket, provided that each object exists with the listed size. The caller has
//! proven the listing. The reader must verify the bytes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use xylem_object::listing::{Entry, EntryKind};
use xylem_store::{FileKind, FileTime, Meta};

use crate::error::BucketError;
use crate::medium::meta;
use crate::objects::ListedObject;
use crate::place::BucketPlace;

/// One name of the publication.
#[derive(Debug, Clone)]
pub(crate) struct ShownName {
    pub(crate) meta: Meta,
    pub(crate) tag: Option<String>,
    /// Target of a symbolic link.
    pub(crate) target: Option<PathBuf>,
}

/// The names and folders shown; see the module's text.
#[derive(Debug, Default)]
pub(crate) struct ShownPublication {
    names: HashMap<PathBuf, ShownName>,
    folders: HashMap<PathBuf, Vec<(String, FileKind)>>,
    /// Objects that exist and are not listed.
    pub(crate) beyond: Vec<String>,
}

impl ShownPublication {
    /// Places `entries`, published below `top`, over the objects `there`.
    pub(crate) fn new(
        top: &BucketPlace,
        entries: impl Iterator<Item = Entry>,
        there: Vec<ListedObject>,
    ) -> Result<Self, BucketError> {
        let there: HashMap<String, ListedObject> =
            there.into_iter().map(|object| (object.name.clone(), object)).collect();
        let mut shown = Self::default();
        let mut links: HashMap<PathBuf, u64> = HashMap::new();
        let mut linked: Vec<(PathBuf, PathBuf)> = Vec::new();
        let place = top.path();
        let directory = |mode| meta(FileKind::Directory, 0, mode);
        shown.add(place.clone(), directory(0o755), None, None);
        for entry in entries {
            let name = String::from_utf8(entry.path.clone()).map_err(|_| {
                BucketError::Incomplete("one of its names is not valid text".into())
            })?;
            let path = place.join(&name);
            let mtime = FileTime { secs: entry.mtime_s, nanos: entry.mtime_ns };
            match entry.kind {
                EntryKind::Directory => {
                    let meta = Meta { mtime, ..directory(entry.mode) };
                    shown.add(path, meta, None, None);
                }
                EntryKind::Symlink { target } => {
                    let target = String::from_utf8_lossy(&target).into_owned();
                    let meta = meta(FileKind::Symlink, target.len() as u64, 0o777);
                    shown.add(path, meta, None, Some(target.into()));
                }
                EntryKind::File { size, .. } => {
                    let tag = object(&there, &name, &path, size)?;
                    let meta =
                        Meta { mtime, ino: number(&tag), ..meta(FileKind::File, size, entry.mode) };
                    shown.add(path, meta, tag, None);
                }
                EntryKind::HardLink { target } => {
                    let target = place.join(String::from_utf8_lossy(&target).as_ref());
                    *links.entry(target.clone()).or_insert(1) += 1;
                    linked.push((path, target));
                }
            }
        }
        // Names that are hard links share one file.
        for (target, count) in &links {
            if let Some(name) = shown.names.get_mut(target) {
                name.meta.links = *count;
            }
        }
        for (path, target) in linked {
            let Some(first) = shown.names.get(&target).map(|name| name.meta) else { continue };
            let name = path.strip_prefix(&place).unwrap_or(&path).to_string_lossy().into_owned();
            let tag = object(&there, &name, &path, first.size)?;
            shown.add(path, first, tag, None);
        }
        let is_file = |name: &ShownName| name.meta.kind == FileKind::File;
        let listed = |name: &String| shown.names.get(&place.join(name)).is_some_and(is_file);
        shown.beyond = there.into_keys().filter(|name| !listed(name)).collect();
        shown.beyond.sort_unstable();
        Ok(shown)
    }

    fn add(&mut self, path: PathBuf, meta: Meta, tag: Option<String>, target: Option<PathBuf>) {
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
            let name = name.to_string_lossy().into_owned();
            self.folders.entry(folder.to_path_buf()).or_default().push((name, meta.kind));
        }
        self.names.insert(path, ShownName { meta, tag, target });
    }

    pub(crate) fn name(&self, path: &Path) -> Option<&ShownName> {
        self.names.get(path)
    }

    /// Passes on the names in a folder; returns `false` if `path` is not a folder shown here.
    pub(crate) fn for_each_name(
        &self,
        path: &Path,
        take: &mut dyn FnMut(&OsStr, FileKind),
    ) -> bool {
        match self.names.get(path) {
            Some(name) if name.meta.kind == FileKind::Directory => {
                let names = self.folders.get(path).map(Vec::as_slice).unwrap_or_default();
                names.iter().for_each(|(name, kind)| take(OsStr::new(name), *kind));
                true
            }
            _ => false,
        }
    }
}

/// Returns the version of an object that exists with the listed size.
fn object(
    there: &HashMap<String, ListedObject>,
    name: &str,
    path: &Path,
    size: u64,
) -> Result<Option<String>, BucketError> {
    let path = path.display();
    let what = match there.get(name) {
        None => format!("{path}: missing"),
        Some(object) if object.size != size => {
            format!("{path}: it has {} bytes, but {size} were published", object.size)
        }
        Some(object) => return Ok(object.tag.clone()),
    };
    Err(BucketError::Incomplete(format!("{what}; `xylem mirror` with the same ticket repairs it")))
}

/// Hash of the version, in place of an inode number.
pub(crate) fn number(tag: &Option<String>) -> u64 {
    let hash = xylem_hash::hash(tag.as_deref().unwrap_or_default().as_bytes());
    hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: EntryKind) -> Entry {
        Entry { path: path.into(), kind, mode: 0o640, mtime_s: 5, mtime_ns: 6 }
    }

    fn there(name: &str, size: u64) -> ListedObject {
        ListedObject { name: name.into(), size, tag: Some(format!("tag of {name}")) }
    }

    #[test]
    fn names_come_from_the_listing_and_sizes_must_match_the_bucket() {
        let top: BucketPlace = "s3://abc/x".parse().expect("a place");
        let file = || entry("a", EntryKind::File { size: 3, root: xylem_hash::hash(b"abc") });
        let entries = || {
            [
                file(),
                entry("b", EntryKind::HardLink { target: b"a".to_vec() }),
                entry("d", EntryKind::Directory),
                entry("l", EntryKind::Symlink { target: b"a".to_vec() }),
            ]
            .into_iter()
        };
        let shown = ShownPublication::new(
            &top,
            entries(),
            vec![there("a", 3), there("b", 3), there("z", 9)],
        );
        let shown = shown.expect("all there");
        assert_eq!(shown.beyond, ["z"]);
        let mut names = Vec::new();
        assert!(
            shown.for_each_name(&top.path(), &mut |name, kind| names.push((name.to_owned(), kind)))
        );
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        let kinds: Vec<FileKind> = names.iter().map(|(_, kind)| *kind).collect();
        use FileKind::{Directory, File, Symlink};
        assert_eq!(kinds, [File, File, Directory, Symlink], "what is not listed is not shown");
        let meta = |name: &str| shown.name(&top.path().join(name)).expect(name).meta;
        assert_eq!((meta("a").links, meta("a").ino), (2, meta("b").ino));
        assert_eq!((meta("a").mode, meta("a").mtime.secs), (0o640, 5));
        assert!(shown.for_each_name(&top.path().join("d"), &mut |_, _| panic!("it is empty")));
        assert!(!shown.for_each_name(&top.path().join("a"), &mut |_, _| ()));
        for (objects, word) in
            [(vec![there("b", 3)], "missing"), (vec![there("a", 4), there("b", 3)], "4 bytes")]
        {
            let said = ShownPublication::new(&top, entries(), objects)
                .expect_err("not all there")
                .to_string();
            assert!(said.contains(word) && said.contains("s3://abc/x/a"), "{said}");
        }
    }
}
