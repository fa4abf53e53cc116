//! [`RestoringFile`]: a missing file, built beside its name and renamed when all of it is right. Also restores missing
//! directories and links.
//!
//! Content is fetched as for a damaged file, by the [`Mender`](super::mend). Nothing existing is replaced, and no
//! symbolic link is followed when writing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use xylem_base::{os_bytes, os_path};
use xylem_files::ours::part_name;
use xylem_files::rescan::Readers;
use xylem_files::{Flaw, LibraryEvent};
use xylem_object::listing::EntryKind;
use xylem_publish::signed_at;
use xylem_store::{
    Clobber, Durability, FileKind, FileState, Medium, Meta, OutboardFile, PartFile, Store,
    StoreError,
};

use super::Scrub;
use super::contents::{Contents, time_of};
use super::error::ScrubError;
use super::item::{Flawed, ScrubItem, ScrubVerdict, judge};
use super::targets::ScrubTarget;

/// Permission bits if none are recorded.
const USUAL_MODE: u32 = 0o644;
const USUAL_FOLDER_MODE: u32 = 0o755;

/// A missing file that is being built.
pub(super) struct RestoringFile {
    /// The missing item.
    item: ScrubItem,
    part: PathBuf,
    was: Meta,
}

/// Directories below a target that have changed contents, and directories that were created.
#[derive(Default)]
pub(super) struct Touched {
    all: HashSet<Vec<u8>>,
    made: HashSet<Vec<u8>>,
}

impl Touched {
    /// Creates the missing directories above `path`.
    fn parents(
        &mut self,
        medium: &dyn Medium,
        target: &ScrubTarget,
        path: &[u8],
    ) -> Result<(), StoreError> {
        let slashes = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        let above: Vec<&[u8]> = slashes.map(|at| &path[..at]).collect();
        if make(medium, &target.path)? {
            self.made.insert(Vec::new());
        }
        for inside in &above {
            if make(medium, &target.path.join(os_path(inside)))? {
                self.made.insert(inside.to_vec());
                self.all.insert(inside.to_vec());
                self.all.insert(parent(inside).to_vec());
            }
        }
        self.all.insert(parent(path).to_vec());
        Ok(())
    }
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(&[], |at| &path[..at])
}

/// Creates a directory unless it exists; returns whether it did. A path that is something else is an error.
fn make(medium: &dyn Medium, path: &Path) -> Result<bool, StoreError> {
    let failed = |e| StoreError::from_io("create the directory", path, None, e);
    match medium.metadata(path) {
        Ok(meta) if meta.kind == FileKind::Directory => Ok(false),
        Ok(_) => Err(StoreError::Unsafe { path: path.to_path_buf(), what: "is not a directory" }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            medium.create_dir(path, 0o700).map_err(failed)?;
            Ok(true)
        }
        Err(e) => Err(failed(e)),
    }
}

impl RestoringFile {
    /// Begins, or resumes, the part file of a missing file. Also returns its flaws; `None` if it is complete: an
    /// earlier run was killed before it could rename it.
    pub(super) fn new(
        store: &Store,
        target: &ScrubTarget,
        item: &ScrubItem,
        outboard: Option<&OutboardFile>,
        touched: &mut Touched,
    ) -> Result<(Self, Option<Flawed>), StoreError> {
        let medium = &**store.medium();
        if target.directory
            && let Ok(inside) = item.path.strip_prefix(&target.path)
        {
            touched.parents(medium, target, &os_bytes(inside.as_os_str()))?;
        }
        let part = item.path.with_file_name(part_name(item.path.file_name().unwrap_or_default()));
        let opened = PartFile::open(medium, &part)?;
        let (file, part) = (opened.file(), opened.path().to_path_buf());
        if file.metadata()?.size != item.geometry.size() {
            file.set_len(item.geometry.size())?;
        }
        if let Some(mtime) = item.mtime {
            file.set_mtime(mtime)?;
        }
        let key = os_bytes(part.as_os_str());
        let begun =
            ScrubItem { path: part.clone(), key, seen: None, since_s: None, ..item.clone() };
        let flawed = match judge(store, &begun, outboard, &mut Readers::All, &|_| true) {
            Some(ScrubVerdict::Flawed(flawed)) => Some(*flawed),
            Some(ScrubVerdict::Failed(e)) => return Err(e),
            _ => None,
        };
        let was = file.metadata()?;
        Ok((Self { item: item.clone(), part, was }, flawed))
    }

    /// Gives the complete file its name; returns its size, bytes.
    pub(super) fn install(&self, store: &Store, target: &ScrubTarget) -> Result<u64, StoreError> {
        let (medium, path) = (&**store.medium(), &self.item.path);
        let of_target = || signed_at(store, &target.path).map(|signed| signed.manifest.mode);
        let mode = self.item.mode.or_else(of_target).unwrap_or(USUAL_MODE);
        let part = PartFile::again(medium, &self.part, &self.was)?;
        let file = part.file();
        file.set_mode(mode)?;
        let named = part.finish_as(medium, path, Clobber::Never, Durability::Device);
        if matches!(named, Err(StoreError::Exists { .. })) {
            // The file was not missing after all, or has reappeared: the part is useless.
            let _ = medium.remove_file(part.path());
        }
        named?;
        if !target.directory
            && let Some(mut known) = store.known_at(&self.item.key)?
        {
            known.state.ino = file.metadata()?.ino;
            store.remember(&known)?;
        }
        Ok(self.item.geometry.size())
    }

    /// Returns its index in the record of looks.
    pub(super) fn place(&self) -> u64 {
        self.item.place
    }

    /// Returns the path of the missing file.
    pub(super) fn path(&self) -> &Path {
        &self.item.path
    }
}

/// Restores the recorded time of the directory itself, and its mode if it was created.
fn restore_top(store: &Store, target: &ScrubTarget, touched: &Touched) -> Result<(), StoreError> {
    let (medium, path) = (&**store.medium(), &target.path);
    let key = os_bytes(path.as_os_str());
    let Some(mut known) = store.known_at(&key)?.filter(|_| touched.all.contains(&[][..])) else {
        return Ok(());
    };
    if touched.made.contains(&[][..]) {
        let signed = signed_at(store, path).map(|signed| signed.manifest.mode);
        let _ = medium.set_mode(path, signed.unwrap_or(USUAL_FOLDER_MODE));
    }
    let _ = medium.set_mtime(path, known.state.mtime);
    let meta = medium.metadata(path).map_err(|e| StoreError::from_io("look at", path, None, e))?;
    known.state = FileState::of(&meta);
    store.remember(&known)
}

impl Scrub<'_> {
    /// Restores missing directories and links, and sets back the times of directories with changed contents.
    pub(super) fn restore_rest<'c>(
        &mut self,
        target: &ScrubTarget,
        contents: &dyn Fn() -> Result<Contents<'c>, ScrubError>,
        touched: &mut Touched,
        on_event: &mut dyn FnMut(LibraryEvent),
    ) -> Result<(), ScrubError> {
        let store = self.store.clone();
        let medium = &**store.medium();
        let mut listed = contents()?;
        while let Some(entry) = listed.next_wanted()? {
            let path = target.path.join(os_path(&entry.path));
            if touched.made.contains(&entry.path) {
                self.report_restored(&path, 0, on_event);
                continue;
            }
            if matches!(entry.kind, EntryKind::File { .. }) || medium.metadata(&path).is_ok() {
                continue;
            }
            let at = |e| StoreError::from_io("make again", &path, None, e);
            let made =
                touched.parents(medium, target, &entry.path).and_then(|()| match &entry.kind {
                    EntryKind::Directory => {
                        touched.made.insert(entry.path.clone());
                        touched.all.insert(entry.path.clone());
                        make(medium, &path).map(drop)
                    }
                    EntryKind::Symlink { target: to } => {
                        medium.symlink(&os_path(to), &path).map_err(at)
                    }
                    EntryKind::HardLink { target: file } => medium
                        .hard_link(&target.path.join(os_path(file)), medium, &path)
                        .map_err(at),
                    EntryKind::File { .. } => Ok(()),
                });
            match made {
                Ok(()) => self.report_restored(&path, 0, on_event),
                Err(e) => self.report(&path, Flaw::Failed, 0..0, &e.to_string(), on_event),
            }
        }
        let mut listed = contents()?;
        while let Some(entry) = listed.next_wanted()? {
            if entry.kind != EntryKind::Directory || !touched.all.contains(&entry.path) {
                continue;
            }
            let path = target.path.join(os_path(&entry.path));
            // A time that a file system refuses is no damage.
            let _ = medium.set_mtime(&path, time_of(&entry));
            if touched.made.contains(&entry.path) {
                let _ = medium.set_mode(&path, entry.mode);
            }
        }
        Ok(restore_top(&store, target, touched)?)
    }
}
