//! Where a store keeps what it knows of a folder. The folder has a mark that names it, so that a folder that was moved goes on as
//! the member that it is, and one that was copied, or is of another store, does not silently begin another group.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::at;
use super::home::{GROUP, HomeError};
use super::own_files::OwnFiles;
use crate::keys;
use crate::ours::OWN;
use crate::path::{os_bytes, os_path};

/// Names what is kept of a folder, in what is [ours](OWN) in it.
pub(super) const MARK: &str = "home";
/// Which folder it is, in what is kept of it.
const FOLDER: &str = "folder";
/// Held by the process that keeps a folder in step, in what is ours in it: whichever store that has.
const LOCK: &str = "lock";
/// What a mark begins with.
const MAGIC: &str = "xylem sync home 1\n";
/// Bytes of a path at most.
const MAX_PATH: u64 = 64 * 1024;
/// Digits that name what is kept of a folder.
const ID_LEN: usize = 16;

/// What a folder says of where it is known.
#[derive(Debug, PartialEq, Eq)]
enum Mark {
    None,
    /// Of this name.
    Of(String),
    /// It says something, and nobody understands it.
    Damaged,
}

fn read_mark(files: &OwnFiles, folder: &Path) -> Result<Mark, HomeError> {
    let own = folder.join(OWN);
    if !own.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(Mark::None);
    }
    let Some(text) = files.bytes(&own.join(MARK), 256)? else { return Ok(Mark::None) };
    let id = std::str::from_utf8(&text).ok().and_then(|text| text.strip_prefix(MAGIC));
    let id = id.map(str::trim_end).filter(|id| {
        id.len() == ID_LEN && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    Ok(id.map_or(Mark::Damaged, |id| Mark::Of(id.to_owned())))
}

/// The folder that is kept in step from here.
fn folder_of(files: &OwnFiles, dir: &Path) -> Result<Option<PathBuf>, HomeError> {
    Ok(files.bytes(&dir.join(FOLDER), MAX_PATH)?.map(|path| os_path(&path)))
}

/// Whether it is known here of which group a folder is that is kept in `dir`.
fn is_home(files: &OwnFiles, dir: &Path) -> Result<bool, HomeError> {
    Ok(files.is_there(&dir.join(GROUP))?)
}

/// All that a store keeps of the folder at this path, in a fixed order.
fn at_path(files: &OwnFiles, store: &Path, folder: &Path) -> Result<Vec<PathBuf>, HomeError> {
    let homes = store.join("sync");
    let names = match files.medium().list_dir(&homes) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(at(&homes))?,
    };
    // As earlier builds named it, which noted no folder.
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

/// What is kept of a folder; `None`: nothing is.
///
/// # Errors
/// [`HomeError::Unknown`], [`HomeError::Copied`]; the system's.
pub(super) fn find(
    files: &OwnFiles,
    store: &Path,
    folder: &Path,
) -> Result<Option<PathBuf>, HomeError> {
    let mark = read_mark(files, folder)?;
    if let Mark::Of(id) = &mark {
        let dir = store.join("sync").join(id);
        if !is_home(files, &dir)? {
            return Err(HomeError::Unknown(folder.to_path_buf()));
        }
        // Both are there: one is a copy of the other. A disk that is mounted elsewhere now is not there any more.
        if let Some(of) = folder_of(files, &dir)?.filter(|of| of != folder)
            && read_mark(files, &of)? == mark
        {
            return Err(HomeError::Copied { folder: folder.to_path_buf(), of });
        }
        return Ok(Some(dir));
    }
    for dir in at_path(files, store, folder)? {
        if is_home(files, &dir)? {
            return Ok(Some(dir));
        }
    }
    if mark == Mark::Damaged { Err(HomeError::Unknown(folder.to_path_buf())) } else { Ok(None) }
}

/// Where what is known of a folder is to be kept, of which nothing is: under a name that no other store has.
///
/// # Errors
/// The system's.
pub(super) fn place(files: &OwnFiles, store: &Path, folder: &Path) -> Result<PathBuf, HomeError> {
    for dir in at_path(files, store, folder)? {
        // Begun once, and never finished; or what was in it is lost.
        if !is_home(files, &dir)? {
            return Ok(dir);
        }
    }
    Ok(store.join("sync").join(crate::hex(&keys::random::<{ ID_LEN / 2 }>()?)))
}

/// Notes which folder is kept in step from `dir`, if that is news.
pub(super) fn note_folder(files: &OwnFiles, dir: &Path, folder: &Path) -> Result<(), HomeError> {
    if folder_of(files, dir)?.as_deref() == Some(folder) {
        return Ok(());
    }
    Ok(files.replace(&dir.join(FOLDER), &os_bytes(folder.as_os_str()))?)
}

/// Takes a folder for this process alone, as long as the file is open; `None`: it has nothing of ours yet.
///
/// # Errors
/// [`HomeError::Busy`]; the system's.
pub(super) fn lock(folder: &Path) -> Result<Option<File>, HomeError> {
    let path = folder.join(OWN).join(LOCK);
    let file = match File::options().create(true).truncate(false).write(true).open(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at(&path))?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(HomeError::Busy(folder.to_path_buf())),
        // Where a file system has no locks nobody is kept out.
        Err(TryLockError::Error(_)) | Ok(()) => Ok(Some(file)),
    }
}

/// Marks a folder as what is kept in `dir`.
pub(super) fn write(files: &OwnFiles, dir: &Path, folder: &Path) -> Result<(), HomeError> {
    note_folder(files, dir, folder)?;
    let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if read_mark(files, folder)? != Mark::Of(id.clone()) {
        files.replace(&folder.join(OWN).join(MARK), format!("{MAGIC}{id}\n").as_bytes())?;
    }
    Ok(())
}

/// As [`lock`] and [`write()`] of a folder that is there.
///
/// # Errors
/// [`HomeError::Busy`]; the system's.
pub(super) fn claim(files: &OwnFiles, dir: &Path, folder: &Path) -> Result<File, HomeError> {
    let file = lock(folder)?;
    let file = file.ok_or_else(|| at(folder)(io::ErrorKind::NotFound.into()))?;
    write(files, dir, folder)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::home::Home;
    use super::*;
    use std::fs;

    struct Place {
        _dir: tempfile::TempDir,
        store: PathBuf,
        photos: PathBuf,
        pictures: PathBuf,
    }

    impl Place {
        /// With a member's folder `photos`.
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

        /// What keeping a folder in step begins with.
        fn run(&self, folder: &Path) -> (Home, File) {
            let home = Home::open(&self.store, folder, None).unwrap();
            let lock = home.claim(folder).unwrap();
            (home, lock)
        }
    }

    #[test]
    fn a_folder_that_was_moved_goes_on_as_the_member_that_it_is() {
        let place = Place::new();
        let (before, _) = place.run(&place.photos);
        fs::rename(&place.photos, &place.pictures).unwrap();
        let now = Home::existing(&place.store, &place.pictures).unwrap();
        assert!(now.invitation.group.is(&before.invitation.group) && now.dir() == before.dir());
        drop(place.run(&place.pictures));
        assert!(Home::existing(&place.store, &place.photos).is_err());
        // What begins where it was is another one; and so on, there and back.
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
        let place = Place::new();
        let (home, _) = place.run(&place.photos);
        fs::create_dir_all(place.pictures.join(OWN)).unwrap();
        let mark = |folder: &Path| folder.join(OWN).join(MARK);
        fs::copy(mark(&place.photos), mark(&place.pictures)).unwrap();
        let refused = |store: &Path| Home::open(store, &place.pictures, None).unwrap_err();
        assert!(matches!(refused(&place.store), HomeError::Copied { .. }));
        let other = place.store.with_extension("other");
        assert!(matches!(refused(&other), HomeError::Unknown(_)));
        fs::write(mark(&place.pictures), "xylem sync home 1\n../../elsewhere\n").unwrap();
        assert!(matches!(refused(&place.store), HomeError::Unknown(_)), "it leads nowhere");
        // With a ticket it is said what it is to be; and without a mark it is nobody's.
        let joined = Home::open(&other, &place.pictures, Some(&home.invitation)).unwrap();
        drop(joined.claim(&place.pictures).unwrap());
        assert!(Home::existing(&other, &place.pictures).is_ok());
        fs::remove_file(mark(&place.pictures)).unwrap();
        assert!(Home::open(&place.store, &place.pictures, None).is_ok());
    }

    #[test]
    fn one_process_keeps_a_folder_in_step_whatever_its_store() {
        let place = Place::new();
        let (home, lock) = place.run(&place.photos);
        let other = place.store.with_extension("other");
        let joins = || Home::open(&other, &place.photos, Some(&home.invitation));
        assert!(matches!(joins(), Err(HomeError::Busy(_))));
        assert!(matches!(home.claim(&place.photos), Err(HomeError::Busy(_))));
        drop(lock);
        let joined = joins().unwrap();
        // The other one is not gone on with while this one is there.
        assert!(matches!(Home::existing(&place.store, &place.photos), Err(HomeError::Unknown(_))));
        assert!(joined.claim(&place.photos).is_ok());
    }
}
