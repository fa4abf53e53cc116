//! Finds the directory in which a store keeps its state of a folder. A mark in the folder names that directory. A
//! folder that was moved therefore remains the same member. A copied folder, or a folder of another store, does not
//! silently begin another group.

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{os_bytes, os_path};
use xylem_files::ours::OWN;
use xylem_store::{FileRef, OpenHow};

use super::error::at;
use super::home::{GROUP, HomeError};
use super::own_files::OwnFiles;
use super::place::is_directory;

/// File in the folder's [own directory](OWN) that names the state directory.
pub(super) const MARK: &str = "home";
/// File in the state directory that holds the folder's path.
const FOLDER: &str = "folder";
/// Lock file in the folder's own directory. The process that keeps the folder in step holds it, whichever store it
/// uses.
const LOCK: &str = "lock";
/// First line of a mark.
const MAGIC: &str = "xylem sync home 1\n";
/// Most bytes of a path.
const MAX_PATH: u64 = 64 * 1024;
/// Digits in the name of a state directory.
const ID_LEN: usize = 16;

/// A folder's mark, as read.
#[derive(Debug, PartialEq, Eq)]
enum FolderMark {
    None,
    /// The mark names this state directory.
    Of(String),
    /// A mark exists, but cannot be parsed.
    Damaged,
}

fn read_mark(files: &OwnFiles, folder: &Path) -> Result<FolderMark, HomeError> {
    let own = folder.join(OWN);
    if !is_directory(files.medium(), &own) {
        return Ok(FolderMark::None);
    }
    let Some(text) = files.bytes(&own.join(MARK), 256)? else { return Ok(FolderMark::None) };
    let id = std::str::from_utf8(&text).ok().and_then(|text| text.strip_prefix(MAGIC));
    let id = id.map(str::trim_end).filter(|id| {
        id.len() == ID_LEN && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    Ok(id.map_or(FolderMark::Damaged, |id| FolderMark::Of(id.to_owned())))
}

/// Returns the path of the folder that is kept in step from the state directory `dir`.
fn folder_of(files: &OwnFiles, dir: &Path) -> Result<Option<PathBuf>, HomeError> {
    Ok(files.bytes(&dir.join(FOLDER), MAX_PATH)?.map(|path| os_path(&path)))
}

/// Returns whether the state directory `dir` knows its group.
fn is_home(files: &OwnFiles, dir: &Path) -> Result<bool, HomeError> {
    Ok(files.is_there(&dir.join(GROUP))?)
}

/// Returns all state directories that a store has for the folder at this path, in a fixed order.
fn state_dirs_of(files: &OwnFiles, store: &Path, folder: &Path) -> Result<Vec<PathBuf>, HomeError> {
    let homes = store.join("sync");
    let names = match files.medium().list_dir(&homes) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(at(&homes))?,
    };
    // Earlier builds named the directory by the hash of the path, and noted no folder in it.
    let old = xylem_hash::hash(&os_bytes(folder.as_os_str())).to_string();
    let old = homes.join(old.get(..ID_LEN).unwrap_or_default());
    let mut found = Vec::new();
    for dir in names.into_iter().map(|item| homes.join(item.name)) {
        let of = folder_of(files, &dir).unwrap_or_default();
        if of.as_deref() == Some(folder) || of.is_none() && dir == old {
            found.push(dir);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Finds the state directory of a folder; `None` if the store has none.
///
/// # Errors
/// [`HomeError::Unknown`], [`HomeError::Copied`]; the system's.
pub(super) fn find_state_dir(
    files: &OwnFiles,
    store: &Path,
    folder: &Path,
) -> Result<Option<PathBuf>, HomeError> {
    let mark = read_mark(files, folder)?;
    if let FolderMark::Of(id) = &mark {
        let dir = store.join("sync").join(id);
        if !is_home(files, &dir)? {
            return Err(HomeError::Unknown(folder.to_path_buf()));
        }
        // Both folders exist, so one is a copy of the other. A disk that is now mounted elsewhere no longer exists at
        // its old path.
        if let Some(of) = folder_of(files, &dir)?.filter(|of| of != folder)
            && read_mark(files, &of)? == mark
        {
            return Err(HomeError::Copied { folder: folder.to_path_buf(), of });
        }
        return Ok(Some(dir));
    }
    for dir in state_dirs_of(files, store, folder)? {
        if is_home(files, &dir)? {
            return Ok(Some(dir));
        }
    }
    if mark == FolderMark::Damaged {
        Err(HomeError::Unknown(folder.to_path_buf()))
    } else {
        Ok(None)
    }
}

/// Chooses a state directory for a folder that has none, under a name that no other store has.
///
/// # Errors
/// The system's.
pub(super) fn new_state_dir(
    files: &OwnFiles,
    store: &Path,
    folder: &Path,
) -> Result<PathBuf, HomeError> {
    for dir in state_dirs_of(files, store, folder)? {
        // The directory was begun and never finished, or its content is lost.
        if !is_home(files, &dir)? {
            return Ok(dir);
        }
    }
    Ok(store.join("sync").join(xylem_base::hex(&xylem_base::random::<{ ID_LEN / 2 }>()?)))
}

/// Records the path of the folder that is kept in step from `dir`, if it has changed.
pub(super) fn note_folder(files: &OwnFiles, dir: &Path, folder: &Path) -> Result<(), HomeError> {
    if folder_of(files, dir)?.as_deref() == Some(folder) {
        return Ok(());
    }
    Ok(files.replace(&dir.join(FOLDER), &os_bytes(folder.as_os_str()))?)
}

/// Locks a folder for this process while the returned file is open; `None` if the folder has no own directory yet.
///
/// # Errors
/// [`HomeError::Busy`]; the system's.
pub(super) fn lock(files: &OwnFiles, folder: &Path) -> Result<Option<FileRef>, HomeError> {
    let path = folder.join(OWN).join(LOCK);
    let file = match files.medium().open(&path, OpenHow::Create { mode: 0o666 }) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at(&path))?,
    };
    match file.try_lock() {
        Ok(false) => Err(HomeError::Busy(folder.to_path_buf())),
        // A file system without locks excludes no other process.
        Err(_) | Ok(true) => Ok(Some(FileRef::new(file, path))),
    }
}

/// Marks a folder as the one that is kept in step from `dir`.
pub(super) fn write(files: &OwnFiles, dir: &Path, folder: &Path) -> Result<(), HomeError> {
    note_folder(files, dir, folder)?;
    let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if read_mark(files, folder)? != FolderMark::Of(id.clone()) {
        files.replace(&folder.join(OWN).join(MARK), format!("{MAGIC}{id}\n").as_bytes())?;
    }
    Ok(())
}

/// Does [`lock`] and [`write()`] for a folder that must exist.
///
/// # Errors
/// [`HomeError::Busy`]; the system's.
pub(super) fn claim(files: &OwnFiles, dir: &Path, folder: &Path) -> Result<FileRef, HomeError> {
    let file = lock(files, folder)?;
    let file = file.ok_or_else(|| at(folder)(io::ErrorKind::NotFound.into()))?;
    write(files, dir, folder)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::SyncHome;
    use std::fs;

    struct MarkWorld {
        _dir: tempfile::TempDir,
        store: PathBuf,
        photos: PathBuf,
        pictures: PathBuf,
    }

    impl MarkWorld {
        /// Makes a place with one member's folder, `photos`.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().canonicalize().unwrap();
            let at = |name| top.join(name);
            let place = Self {
                store: at("store"),
                photos: at("photos"),
                pictures: at("pictures"),
                _dir: dir,
            };
            fs::create_dir_all(place.photos.join(OWN)).unwrap();
            drop(place.run(&place.photos));
            place
        }

        /// Opens and claims a folder, as `xylem sync` does at its start.
        fn run(&self, folder: &Path) -> (SyncHome, FileRef) {
            let home = SyncHome::open(&self.store, folder, None).unwrap();
            let lock = home.claim(folder).unwrap();
            (home, lock)
        }
    }

    #[test]
    fn a_moved_folder_remains_the_same_member() {
        let place = MarkWorld::new();
        let (before, _) = place.run(&place.photos);
        fs::rename(&place.photos, &place.pictures).unwrap();
        let now = SyncHome::existing(&place.store, &place.pictures).unwrap();
        assert!(now.invitation.group.is(&before.invitation.group) && now.dir() == before.dir());
        drop(place.run(&place.pictures));
        assert!(SyncHome::existing(&place.store, &place.photos).is_err());
        // A folder that begins at the old path is another one. The two can also change places, and change back.
        fs::create_dir_all(place.photos.join(OWN)).unwrap();
        let (other, _) = place.run(&place.photos);
        assert!(!other.invitation.group.is(&before.invitation.group));
        let between = place.photos.with_extension("tmp");
        for (from, to) in [
            (&place.photos, &between),
            (&place.pictures, &place.photos),
            (&between, &place.pictures),
        ] {
            fs::rename(from, to).unwrap();
        }
        let (moved, _) = place.run(&place.pictures);
        assert!(moved.invitation.group.is(&other.invitation.group));
        let (back, _) = place.run(&place.photos);
        assert!(back.invitation.group.is(&before.invitation.group));
    }

    #[test]
    fn a_copy_and_a_folder_of_another_store_begin_no_group_silently() {
        let place = MarkWorld::new();
        let (home, _) = place.run(&place.photos);
        fs::create_dir_all(place.pictures.join(OWN)).unwrap();
        let mark = |folder: &Path| folder.join(OWN).join(MARK);
        fs::copy(mark(&place.photos), mark(&place.pictures)).unwrap();
        let refused = |store: &Path| SyncHome::open(store, &place.pictures, None).unwrap_err();
        assert!(matches!(refused(&place.store), HomeError::Copied { .. }));
        let other = place.store.with_extension("other");
        assert!(matches!(refused(&other), HomeError::Unknown(_)));
        fs::write(mark(&place.pictures), "xylem sync home 1\n../../elsewhere\n").unwrap();
        assert!(matches!(refused(&place.store), HomeError::Unknown(_)), "it leads nowhere");
        // A ticket names the group to join, so a foreign mark does not matter. A folder without a mark belongs to no
        // group.
        let joined = SyncHome::open(&other, &place.pictures, Some(&home.invitation)).unwrap();
        drop(joined.claim(&place.pictures).unwrap());
        assert!(SyncHome::existing(&other, &place.pictures).is_ok());
        fs::remove_file(mark(&place.pictures)).unwrap();
        assert!(SyncHome::open(&place.store, &place.pictures, None).is_ok());
    }

    #[test]
    fn one_process_keeps_a_folder_in_step_whatever_its_store() {
        let place = MarkWorld::new();
        let (home, lock) = place.run(&place.photos);
        let other = place.store.with_extension("other");
        let joins = || SyncHome::open(&other, &place.photos, Some(&home.invitation));
        assert!(matches!(joins(), Err(HomeError::Busy(_))));
        assert!(matches!(home.claim(&place.photos), Err(HomeError::Busy(_))));
        drop(lock);
        let joined = joins().unwrap();
        // The first store does not continue while the folder carries the other store's mark.
        assert!(matches!(
            SyncHome::existing(&place.store, &place.photos),
            Err(HomeError::Unknown(_))
        ));
        assert!(joined.claim(&place.photos).is_ok());
    }
}
