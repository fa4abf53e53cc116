//! Damage as a disk does it: no attribute of the file shows it. A program can set back the modification time but not
//! the change time, so the change time noted in the store is changed instead.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// Where records of a store begin (docs/spec/store.md, "How files looked"), how long one is, and where in it the change
/// time and the inode number stand.
const HEAD: usize = 72;
const RECORD: usize = 36;
const CTIME: usize = 16;
const INODE: usize = 28;

/// Changes a file so that this store can't see that it was changed.
pub(crate) fn decay(store: &Path, path: &Path, change: impl FnOnce(&File)) {
    let before = fs::metadata(path).unwrap().modified().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    change(&file);
    file.set_times(FileTimes::new().set_modified(before)).unwrap();
    untouched(store, path);
}

/// Makes a store take the file's present attributes for those noted earlier.
pub(crate) fn untouched(store: &Path, path: &Path) {
    let now = fs::metadata(path).unwrap();
    let ctime = [&now.ctime().to_le_bytes()[..], &(now.ctime_nsec() as u32).to_le_bytes()].concat();
    let Ok(tables) = fs::read_dir(store.join("seen")) else { return };
    // A file that was changed just before its record was made may have been changed after it: wait.
    std::thread::sleep(Duration::from_millis(100));
    for table in tables.map(|entry| entry.unwrap().path()) {
        let mut bytes = fs::read(&table).unwrap();
        for record in bytes[HEAD..].chunks_exact_mut(RECORD) {
            if record[INODE..] == now.ino().to_le_bytes() {
                record[CTIME..INODE].copy_from_slice(&ctime);
            }
        }
        let key = table.file_name().unwrap().to_str().unwrap();
        let key = xylem_hash::Hash::from_hex(key).unwrap();
        let mut sum = xylem_hash::Hasher::new();
        sum.update(&bytes[HEAD..]).update(&bytes[HEAD - 32..HEAD]).update(key.as_bytes());
        bytes[8..40].copy_from_slice(sum.finalize().as_bytes());
        // In place, so that the file keeps its owner.
        OpenOptions::new().write(true).open(&table).unwrap().write_all_at(&bytes, 0).unwrap();
    }
}
