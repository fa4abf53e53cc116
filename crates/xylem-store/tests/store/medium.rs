//! What the disk and the disk of tests do alike.

use std::path::Path;
use std::sync::Arc;

use xylem_faults::FaultMedium;
use xylem_store::{
    Clobber, DiskMedium, FileKind, Medium, OpenHow, StoreError, read_small, remove_tree,
    write_atomically,
};

fn write(medium: &dyn Medium, path: &Path, bytes: &[u8]) {
    write_atomically(medium, path, bytes, 0o640, Clobber::Replace).unwrap();
}

fn read(medium: &dyn Medium, path: &Path) -> Option<Vec<u8>> {
    read_small(medium, path, OpenHow::Read, 1_000_000).unwrap()
}

/// Runs a test on the disk and on the disk of tests.
fn on_both(test: &dyn Fn(&dyn Medium, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    test(&DiskMedium::new(), dir.path());
    let medium: Arc<dyn Medium> = Arc::new(FaultMedium::new());
    medium.create_dir(Path::new("/top"), 0o700).unwrap();
    test(&*medium, Path::new("/top"));
}

#[cfg(target_os = "linux")]
#[test]
fn an_exchange_leaves_both_files_and_directories() {
    on_both(&|medium, top| {
        let (file, dir) = (top.join("file"), top.join("dir"));
        write(medium, &file, b"one");
        medium.create_dir(&dir, 0o700).unwrap();
        write(medium, &dir.join("below"), b"two");
        medium.exchange(&file, &dir).unwrap();
        assert_eq!(read(medium, &dir).as_deref(), Some(&b"one"[..]));
        assert_eq!(read(medium, &file.join("below")).as_deref(), Some(&b"two"[..]));
        assert!(medium.exchange(&file, &top.join("none")).is_err());
        medium.sync_all(top).unwrap();
    });
}

#[test]
fn a_copy_has_content_and_mode_and_replaces_what_was_there() {
    on_both(&|medium, top| {
        let (from, to) = (top.join("from"), top.join("to"));
        let large: Vec<u8> = (0..700_000_u32).map(|n| n as u8).collect();
        for content in [&large[..], b"short", b""] {
            write(medium, &from, content);
            medium.copy(&from, &to).unwrap();
            assert_eq!(read(medium, &to).as_deref(), Some(content));
            let mode = |path: &Path| medium.metadata(path).unwrap().mode;
            assert_eq!(mode(&to), mode(&from));
        }
        assert!(medium.copy(&top.join("none"), &to).is_err());
    });
}

#[test]
fn a_held_lock_is_seen_and_not_taken_by_looking() {
    on_both(&|medium, top| {
        let path = top.join("lock");
        let open = || medium.open(&path, OpenHow::Create { mode: 0o600 }).unwrap();
        let held = open();
        assert!(!held.is_locked().unwrap());
        held.lock().unwrap();
        assert!(open().is_locked().unwrap() && !open().try_lock().unwrap());
        drop(held);
        assert!(open().try_lock().unwrap());
    });
}

#[test]
fn a_small_file_is_whole_or_an_error() {
    on_both(&|medium, top| {
        let path = top.join("small");
        let read = |how, most| read_small(medium, &path, how, most);
        assert_eq!(read(OpenHow::Read, 9).unwrap(), None);
        write(medium, &path, b"content");
        assert_eq!(read(OpenHow::Read, 7).unwrap().as_deref(), Some(&b"content"[..]));
        assert!(matches!(read(OpenHow::Read, 6), Err(StoreError::Corrupt { .. })));
        medium.remove_file(&path).unwrap();
        medium.create_dir(&path, 0o700).unwrap();
        assert!(read(OpenHow::Read, 9).is_err());
        remove_tree(medium, &path).unwrap();
        remove_tree(medium, &path).unwrap();
        #[cfg(unix)]
        {
            write(medium, &top.join("target"), b"linked");
            medium.symlink(Path::new("target"), &path).unwrap();
            assert_eq!(read(OpenHow::Read, 9).unwrap().as_deref(), Some(&b"linked"[..]));
            assert!(read(OpenHow::ReadNoFollow, 9).is_err());
        }
    });
}

/// An owner sets the mode of what it may not read; root may read everything.
#[cfg(unix)]
#[test]
fn the_mode_of_an_unreadable_file_can_be_set_but_not_through_a_link() {
    on_both(&|medium, top| {
        let (dir, link) = (top.join("dir"), top.join("link"));
        medium.create_dir(&dir, 0o300).unwrap();
        medium.set_mode(&dir, 0o311).unwrap();
        let meta = medium.metadata(&dir).unwrap();
        assert_eq!((meta.kind, meta.mode), (FileKind::Directory, 0o311));
        medium.set_mode(&dir, 0).unwrap();
        medium.set_mode(&dir, 0o700).unwrap();
        assert_eq!(medium.metadata(&dir).unwrap().mode, 0o700);
        medium.symlink(&dir, &link).unwrap();
        let _ = medium.set_mode(&link, 0o777);
        assert_eq!(medium.metadata(&dir).unwrap().mode, 0o700);
    });
}
