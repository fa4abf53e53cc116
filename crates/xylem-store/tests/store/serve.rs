use std::fs;
use std::path::Path;
use std::sync::Arc;

use xylem_sim::noise;
use xylem_store::{DiskMedium, FileCache, FileState, SharedFile, SharedRead, StoreError};
use xylem_store::{FileTime, Medium};

fn shared(path: &Path) -> SharedFile {
    let meta = DiskMedium::new().metadata(path).unwrap();
    SharedFile { path: path.to_path_buf(), state: FileState::of(&meta), ctime: meta.ctime }
}

#[test]
fn many_files_are_read_through_few_handles() {
    let place = tempfile::tempdir().unwrap();
    let mut cache = FileCache::new(Arc::new(DiskMedium::new()), 2);
    let files: Vec<_> = (0..5)
        .map(|n| {
            let path = place.path().join(n.to_string());
            fs::write(&path, noise(20_000 + n, n as u64)).unwrap();
            shared(&path)
        })
        .collect();
    let mut out = vec![0; 8192];
    for round in 0..3 {
        for (n, file) in files.iter().enumerate() {
            cache.read_at(n as u64, file, round * 5000, &mut out).unwrap();
            let at = round as usize * 5000;
            assert_eq!(out, noise(20_000 + n, n as u64)[at..at + 8192]);
        }
    }
    let end = cache.read_at(0, &files[0], 20_000 - 8191, &mut out);
    assert!(matches!(end, Err(StoreError::OutOfRange { .. })));
    let overflow = cache.read_at(0, &files[0], u64::MAX, &mut out);
    assert!(matches!(overflow, Err(StoreError::OutOfRange { .. })));
    cache.read_at(0, &files[0], 20_000, &mut []).unwrap();
}

#[test]
fn an_edited_file_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let mut out = [0; 100];
    for limit in [1, 64] {
        let mut cache = FileCache::new(Arc::new(DiskMedium::new()), limit);
        fs::write(&path, noise(1000, 1)).unwrap();
        let file = shared(&path);
        cache.read_at(7, &file, 0, &mut out).unwrap();

        // Grown, then restored with its time: served again.
        fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(1001).unwrap();
        let got = cache.read_at(7, &file, 0, &mut out);
        assert!(matches!(got, Err(StoreError::Changed { .. })), "{got:?}");
        assert!(got.unwrap_err().to_string().contains("changed since it was hashed"));
        fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(1000).unwrap();
        DiskMedium::new().set_mtime(&path, file.state.mtime).unwrap();
        let touched = cfg!(unix).then_some(SharedRead::Touched);
        let read = cache.read_at(7, &file, 0, &mut out).unwrap();
        assert_eq!(read, touched.unwrap_or(SharedRead::Untouched));

        // Touched.
        DiskMedium::new().set_mtime(&path, FileTime { secs: 5, nanos: 5 }).unwrap();
        let got = cache.read_at(7, &file, 0, &mut out);
        assert!(matches!(got, Err(StoreError::Changed { .. })));

        // Truncated.
        let file = shared(&path);
        cache.read_at(7, &file, 0, &mut out).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(50).unwrap();
        let got = cache.read_at(7, &file, 0, &mut out);
        assert!(matches!(got, Err(StoreError::Changed { .. })));
    }
}

#[test]
fn a_replaced_file_is_served_on_while_open_and_noticed_when_reopened() {
    let place = tempfile::tempdir().unwrap();
    let (path, other) = (place.path().join("file"), place.path().join("other"));
    let mut out = [0; 10];
    let mut cache = FileCache::new(Arc::new(DiskMedium::new()), 1);
    fs::write(&path, b"0123456789").unwrap();
    let file = shared(&path);
    cache.read_at(1, &file, 0, &mut out).unwrap();
    fs::write(&other, b"abcdefghij").unwrap();
    fs::rename(&other, &path).unwrap();
    out.fill(0);
    cache.read_at(1, &file, 0, &mut out).unwrap();
    assert_eq!(&out, b"0123456789");
    cache.close(1);
    let got = cache.read_at(1, &file, 0, &mut out);
    assert!(matches!(got, Err(StoreError::Changed { .. })));
    fs::remove_file(&path).unwrap();
    let got = cache.read_at(1, &file, 0, &mut out);
    assert!(matches!(got, Err(StoreError::NotFound { .. })));
}
